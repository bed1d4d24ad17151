//! AdamW with one norm for all gradients, and the learning rate's course.
//!
//! Written out rather than taken from burn: burn clips each tensor by itself and keys its state by
//! ids that change with every load; resuming exactly needs the state by parameter name.

use anyhow::{Context, Result};
use burn::tensor::Tensor;

use crate::model::Decoder;

/// How to step.
#[derive(Clone, Debug, PartialEq)]
pub struct OptimizerConfig {
    /// Decay of the mean of gradients.
    pub beta_1: f64,
    /// Decay of the mean of squared gradients.
    pub beta_2: f64,
    /// Added to the root of the mean square.
    pub epsilon: f64,
    /// Share of a matrix that is taken away at each step, times the learning rate; vectors are
    /// spared.
    pub weight_decay: f64,
    /// Gradients are scaled down to this norm, over all tensors together.
    pub max_grad_norm: f64,
}

impl Default for OptimizerConfig {
    fn default() -> OptimizerConfig {
        let (beta_1, beta_2) = (0.9, 0.99);
        OptimizerConfig { beta_1, beta_2, epsilon: 1e-8, weight_decay: 0.0, max_grad_norm: 1.0 }
    }
}

/// Decoupled weight decay Adam (Loshchilov and Hutter, 2019).
#[derive(Clone, Debug)]
pub struct AdamW {
    /// How to step.
    pub config: OptimizerConfig,
    /// Steps taken.
    pub steps: u64,
    /// One for each trained tensor, in the order of [`Decoder::parameters`]; empty before the first
    /// step.
    pub moments: Vec<Moments>,
}

/// Running means of one tensor's gradient.
#[derive(Clone, Debug)]
pub struct Moments {
    /// Of the gradient.
    pub first: Tensor<2>,
    /// Of its square.
    pub second: Tensor<2>,
}

impl AdamW {
    /// An optimiser that has not stepped.
    pub fn new(config: OptimizerConfig) -> AdamW {
        AdamW { config, steps: 0, moments: vec![] }
    }

    /// Steps the decoder's trained tensors down the gradients, which are in the order of
    /// [`Decoder::parameters`]. Gives the norm that the gradients had; an error if it is not
    /// finite, in which case nothing has changed.
    pub fn step(
        &mut self,
        decoder: &mut Decoder,
        gradients: Vec<Tensor<2>>,
        learning_rate: f64,
    ) -> Result<f64> {
        let norm = global_norm(&gradients)?;
        anyhow::ensure!(norm.is_finite(), "the gradient's norm is {norm}: the update is not made");
        let scale = (self.config.max_grad_norm / (norm + 1e-6)).min(1.0);
        if self.moments.is_empty() {
            let zero = |gradient: &Tensor<2>| gradient.zeros_like();
            let moments = |gradient| Moments { first: zero(gradient), second: zero(gradient) };
            self.moments = gradients.iter().map(moments).collect();
        }
        self.steps += 1;
        let trained = decoder.parameters().into_iter().filter(|parameter| parameter.trained);
        let config = &self.config;
        for ((parameter, moments), gradient) in trained.zip(&mut self.moments).zip(gradients) {
            let direction = moments.advance(gradient * scale, config, self.steps);
            let is_vector = parameter.tensor.dims()[0] == 1;
            let decay = if is_vector { 0.0 } else { config.weight_decay };
            parameter.tensor.inplace(|weight| {
                weight * (1.0 - learning_rate * decay) - direction * learning_rate
            });
        }
        Ok(norm)
    }
}

impl Moments {
    fn advance(&mut self, gradient: Tensor<2>, config: &OptimizerConfig, steps: u64) -> Tensor<2> {
        let OptimizerConfig { beta_1, beta_2, epsilon, .. } = *config;
        let square = gradient.clone().square();
        self.first.inplace(|first| first * beta_1 + gradient * (1.0 - beta_1));
        self.second.inplace(|second| second * beta_2 + square * (1.0 - beta_2));
        let unbias = |beta: f64| 1.0 / (1.0 - beta.powf(steps as f64));
        let root = (self.second.clone() * unbias(beta_2)).sqrt();
        self.first.clone() * unbias(beta_1) / (root + epsilon)
    }
}

/// The Euclidean norm over all tensors together.
pub fn global_norm(gradients: &[Tensor<2>]) -> Result<f64> {
    let squares: Vec<Tensor<1>> =
        gradients.iter().map(|gradient| gradient.clone().square().sum()).collect();
    let squares = Tensor::cat(squares, 0).try_into_vec_as::<f32>();
    let squares = squares.context("cannot read the gradient's norm from the device")?;
    Ok(squares.iter().map(|square| f64::from(*square)).sum::<f64>().sqrt())
}

/// The learning rate of an update, counted from 0: a linear rise over the warm-up, then constant,
/// then, where the number of updates is known, a linear fall to a tenth over the last half.
pub fn learning_rate(peak: f64, update: u64, warmup: u64, updates: Option<u64>) -> f64 {
    if update < warmup {
        return peak * (update + 1) as f64 / warmup as f64;
    }
    match updates {
        Some(updates) if update * 2 > updates => {
            let left = updates.saturating_sub(update) as f64 / (updates as f64 / 2.0);
            peak * (0.1 + 0.9 * left)
        }
        _ => peak,
    }
}

#[cfg(test)]
mod tests {
    use super::learning_rate;

    #[test]
    fn the_rate_rises_stays_and_falls() {
        let rates: Vec<f64> =
            (0..12).map(|update| learning_rate(1.0, update, 2, Some(10))).collect();
        assert_eq!(rates[..6], [0.5, 1.0, 1.0, 1.0, 1.0, 1.0]);
        assert!((rates[6] - 0.82).abs() < 1e-12 && (rates[10] - 0.1).abs() < 1e-12, "{rates:?}");
        assert_eq!(learning_rate(1.0, 1_000, 2, None), 1.0);
    }
}
