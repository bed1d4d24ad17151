//! A run's settings in the learner's words.

use art_learner::grpo::loss::LossConfig;
use art_learner::learner::LearnerConfig;
use art_learner::optimizer::OptimizerConfig;
use art_learner::sampling::SamplerConfig;

use super::Config;

/// What an adapter's change is scaled by, over its rank and times it: 2, as most published adapters
/// have it.
const ADAPTER_SCALE: f64 = 2.0;

impl Config {
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
