//! The clipped policy-gradient loss, as a pure function of log-probabilities.

use burn::tensor::Tensor;

/// How far one rollout may move the policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossConfig {
    /// The ratio's gain ends below 1 − this.
    pub clip_low: f64,
    /// The ratio's gain ends above 1 + this; wider than `clip_low` so that rare tokens can grow
    /// (DAPO).
    pub clip_high: f64,
    /// Weight of the divergence from the reference policy; 0 for none.
    pub kl: f64,
}

/// One number for each scored token.
///
/// # Shapes
/// all `[tokens]`
#[derive(Clone, Debug)]
pub struct LossInputs {
    /// Under the policy in training; tracked.
    pub logprobs: Tensor<1>,
    /// Under the policy that sampled.
    pub old_logprobs: Tensor<1>,
    /// Under the reference policy, where the loss needs it.
    pub reference_logprobs: Option<Tensor<1>>,
    /// Of the tokens' episodes.
    pub advantages: Tensor<1>,
}

/// The loss and what to know of it; all but `loss` are untracked sums over tokens, to be divided by
/// the token count of the whole batch.
#[derive(Clone, Debug)]
pub struct Loss {
    /// `[1]`: this part's share of the mean over the whole batch.
    pub loss: Tensor<1>,
    /// `[1]`: tokens whose gradient the clip cut off.
    pub clipped: Tensor<1>,
    /// `[1]`: k3 against the reference where there is one, else against the sampling policy.
    pub kl: Tensor<1>,
    /// `[1]`: the largest ratio.
    pub ratio_max: Tensor<1>,
}

/// `−Σ min(ρA, clip(ρ, 1 − ε_low, 1 + ε_high)·A) / N + β·Σ k3 / N`, with ρ = exp(new − old).
///
/// N counts the tokens of the whole batch, so that micro-batches add up. The clip cuts the gradient
/// of a token only where it already moved in its advantage's direction (Schulman et al., "PPO",
/// 2017). `k3 = e^d − d − 1`, d = reference − new (Schulman, "Approximating KL divergence", 2020).
pub fn policy_loss(inputs: LossInputs, config: LossConfig, tokens_in_batch: usize) -> Loss {
    let LossInputs { logprobs, old_logprobs, reference_logprobs, advantages } = inputs;
    let count = tokens_in_batch as f64;
    let ratio = (logprobs.clone() - old_logprobs.clone()).exp();
    let clipped_ratio = ratio.clone().clamp(1.0 - config.clip_low, 1.0 + config.clip_high);
    let gain = ratio.clone() * advantages.clone();
    let clipped_gain = clipped_ratio * advantages;
    let clipped = clipped_gain.clone().inner().lower(gain.clone().inner()).float().sum();
    let mut loss = gain.min_pair(clipped_gain).sum().neg();
    let divergence = k3(reference_logprobs.clone().unwrap_or(old_logprobs), logprobs).sum();
    if reference_logprobs.is_some() && config.kl != 0.0 {
        loss = loss + divergence.clone() * config.kl;
    }
    Loss { loss: loss / count, clipped, kl: divergence.inner(), ratio_max: ratio.inner().max() }
}

/// `e^d − d − 1` with d = reference − new; never negative, and on average KL(new ‖ reference).
fn k3(reference_logprobs: Tensor<1>, logprobs: Tensor<1>) -> Tensor<1> {
    let difference = reference_logprobs - logprobs;
    difference.clone().exp() - difference - 1.0
}
