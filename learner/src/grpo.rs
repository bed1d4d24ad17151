//! Group-relative policy optimisation (Shao et al., "DeepSeekMath", 2024), as pure functions.
//!
//! Groups → advantages → one batch → log-probabilities → loss. The loss is that of DAPO (Yu et al.,
//! 2025): asymmetric clipping, and one mean over the tokens of the whole batch. Stepping the
//! weights is the learner's business.

pub mod advantage;
pub mod batch;
pub mod loss;
pub mod score;
#[cfg(test)]
mod traps;
