//! A run's settings in the learner's words.

use art_learner::grpo::loss::LossConfig;
use art_learner::learner::LearnerConfig;
use art_learner::optimizer::OptimizerConfig;
use art_learner::sampling::SamplerConfig;

use super::Config;

/// What an adapter's change is scaled by, over its rank and times it: 2, as most published adapters
/// have it.
const ADAPTER_SCALE: f64 = 2.0;

/// Step sizes of GRPO and of the warm start for the tiny policy, which knows nothing that could be
/// forgotten.
const RATES_TINY: (f64, f64) = (1e-3, 2e-3);

/// For all weights of a trained model: what published GRPO runs on small models use.
const RATES_WEIGHTS: (f64, f64) = (5e-6, 2e-5);

/// For adapters, which want larger steps than the weights that they stand for.
const RATES_ADAPTERS: (f64, f64) = (1e-4, 2e-4);

impl Config {
    /// Puts a step size that fits the policy where none was chosen.
    pub(super) fn fit_learning_rates(&mut self) {
        let (grpo, sft) = match (self.run.policy.as_str(), self.grpo.adapter_rank) {
            ("tiny", _) => RATES_TINY,
            (_, 0) => RATES_WEIGHTS,
            (_, _) => RATES_ADAPTERS,
        };
        for (chosen, fitting) in
            [(&mut self.grpo.learning_rate, grpo), (&mut self.sft.learning_rate, sft)]
        {
            if *chosen == 0.0 {
                *chosen = fitting;
            }
        }
    }

    /// How the policy is trained.
    pub fn learner(&self) -> LearnerConfig {
        let grpo = &self.grpo;
        LearnerConfig {
            learning_rate: grpo.learning_rate,
            warmup_updates: grpo.warmup_updates,
            updates: Some(self.run.updates),
            minibatches: grpo.minibatches,
            advantage: grpo.advantage,
            loss: LossConfig { clip_low: grpo.clip_low, clip_high: grpo.clip_high, kl: grpo.kl },
            optimizer: OptimizerConfig {
                max_grad_norm: grpo.max_grad_norm,
                ..OptimizerConfig::default()
            },
            adapter_rank: grpo.adapter_rank,
            adapter_alpha: ADAPTER_SCALE * grpo.adapter_rank as f64,
            seed: self.run.seed,
        }
    }

    /// How the policy is sampled, in training and in evaluation alike.
    pub fn sampler(&self) -> SamplerConfig {
        SamplerConfig {
            temperature: self.rollout.temperature as f32,
            max_tokens: self.rollout.max_tokens as usize,
            context: None,
        }
    }
}
