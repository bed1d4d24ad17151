//! Everything a user may choose about a run, as plain values with defaults that work.
//!
//! What was typed (a file, `--set`, flags) becomes one [`Config`] in [`layers`]; nothing below sees
//! a raw flag. A resolved config is written into the run directory, and the same file gives the
//! same run again. Knows nothing of the command line's syntax.

pub mod layers;
mod learner;
mod nearest;

use std::collections::BTreeMap;

use art_learner::grpo::advantage::Advantage;
use serde::{Deserialize, Serialize};

use crate::component::Description;
use crate::limits::Limits;

pub use layers::{ConfigError, Layers};
pub use nearest::nearest;

/// A run's settings, section by section.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// What is trained, on what, for how long.
    pub run: RunConfig,
    /// How episodes are played.
    pub rollout: RolloutConfig,
    /// How the policy is measured before and after.
    pub eval: EvalConfig,
    /// How an update is made.
    pub grpo: GrpoConfig,
    /// The supervised warm start from the environment's expert.
    pub sft: SftConfig,
    /// The weight of each reward part; a part that is not named weighs 1.
    pub reward: BTreeMap<String, f64>,
    /// The environment's own settings: any keys, handed to it as the JSON object `task.config`.
    pub env: toml::Table,
    /// What a sandbox may use at most.
    pub limits: Limits,
}

/// `[run]`: what is trained, on what, for how long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunConfig {
    /// An example's name, or a path to a component.
    pub environment: String,
    /// Where all randomness of the run comes from: tasks, sampling, the tiny policy's first
    /// weights.
    pub seed: u64,
    /// Rollouts, each followed by a round of learning.
    pub updates: u64,
    /// `tiny` for the built-in policy, or a model directory in Hugging Face's layout.
    pub policy: String,
    /// `auto`, `cpu`, or a backend of the `gpu` build: `vulkan`, `metal`, `dx12`, `webgpu`, each
    /// with `:n` for the n-th.
    pub device: String,
}

/// `[rollout]`: how episodes are played.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RolloutConfig {
    /// Tasks per update.
    pub groups_per_update: u64,
    /// Attempts at each task; their rewards are compared with one another.
    pub group_size: u64,
    /// What logits are divided by when sampling; the learner uses the same.
    pub temperature: f64,
    /// The most tokens of one answer.
    pub max_tokens: u32,
    /// Episodes alive at once.
    pub concurrency: usize,
    /// Threads that step sandboxes; 0 for one per core. Never changes what is played.
    pub threads: usize,
}

/// `[eval]`: how the policy is measured before and after.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EvalConfig {
    /// Tasks of the environment's `eval` split (its first, where it has no `eval`), each played
    /// once.
    pub episodes: u64,
}

/// `[grpo]`: how an update is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GrpoConfig {
    /// The step size of AdamW after the warm-up; 0 for one that fits the policy.
    pub learning_rate: f64,
    /// Updates over which the step size rises from 0.
    pub warmup_updates: u64,
    /// How far below 1 a token's probability ratio may pull the loss.
    pub clip_low: f64,
    /// How far above 1 a token's probability ratio may pull the loss.
    pub clip_high: f64,
    /// The weight of the k3 divergence from the policy that the run began with; 0 leaves it out.
    pub kl: f64,
    /// The gradient's largest global norm.
    pub max_grad_norm: f64,
    /// Optimiser steps that one rollout is divided into.
    pub minibatches: usize,
    /// How rewards of a group become advantages.
    pub advantage: Advantage,
    /// The rank of the low-rank adapters; 0 trains all weights.
    pub adapter_rank: usize,
}

/// `[sft]`: the supervised warm start from the environment's expert.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SftConfig {
    /// Expert episodes to learn from before the first update; 0 leaves the warm start out.
    pub episodes: u64,
    /// Passes over them.
    pub epochs: usize,
    /// The step size of AdamW during the warm start; 0 for one that fits the policy.
    pub learning_rate: f64,
}

impl Default for RunConfig {
    fn default() -> RunConfig {
        RunConfig {
            environment: String::new(),
            seed: 0,
            updates: 160,
            policy: "tiny".into(),
            device: "auto".into(),
        }
    }
}

impl Default for RolloutConfig {
    fn default() -> RolloutConfig {
        RolloutConfig {
            groups_per_update: 64,
            group_size: 8,
            temperature: 1.0,
            max_tokens: 64,
            concurrency: 256,
            threads: 0,
        }
    }
}

impl Default for EvalConfig {
    fn default() -> EvalConfig {
        EvalConfig { episodes: 500 }
    }
}

impl Default for GrpoConfig {
    fn default() -> GrpoConfig {
        GrpoConfig {
            learning_rate: 0.0,
            warmup_updates: 2,
            clip_low: 0.2,
            clip_high: 0.28,
            kl: 0.0,
            max_grad_norm: 1.0,
            minibatches: 4,
            advantage: Advantage::GroupStd,
            adapter_rank: 0,
        }
    }
}

impl Default for SftConfig {
    fn default() -> SftConfig {
        SftConfig { episodes: 0, epochs: 1, learning_rate: 0.0 }
    }
}

impl Config {
    /// The environment's settings as it receives them: a JSON object as text, keys in order.
    pub fn task_config(&self) -> String {
        let object: serde_json::Map<String, serde_json::Value> =
            self.env.iter().map(|(key, value)| (key.clone(), json_of(value))).collect();
        serde_json::Value::Object(object).to_string()
    }

    /// Says what is out of its range, naming the key, the value and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        for (key, value, minimum) in [
            ("rollout.groups_per_update", self.rollout.groups_per_update, 1),
            ("rollout.group_size", self.rollout.group_size, 2),
            ("rollout.max_tokens", u64::from(self.rollout.max_tokens), 1),
            ("rollout.concurrency", self.rollout.concurrency as u64, 1),
            ("eval.episodes", self.eval.episodes, 1),
            ("grpo.minibatches", self.grpo.minibatches as u64, 1),
            ("sft.epochs", self.sft.epochs as u64, 1),
        ] {
            if value < minimum {
                return Err(ConfigError::out_of_range(key, value, &format!("at least {minimum}")));
            }
        }
        for (key, value) in [
            ("rollout.temperature", self.rollout.temperature),
            ("grpo.learning_rate", self.grpo.learning_rate),
            ("grpo.clip_low", self.grpo.clip_low),
            ("grpo.clip_high", self.grpo.clip_high),
            ("grpo.max_grad_norm", self.grpo.max_grad_norm),
            ("sft.learning_rate", self.sft.learning_rate),
        ] {
            if !(value.is_finite() && value > 0.0) {
                return Err(ConfigError::out_of_range(key, value, "a number above 0"));
            }
        }
        if !(self.grpo.kl.is_finite() && self.grpo.kl >= 0.0) {
            return Err(ConfigError::out_of_range("grpo.kl", self.grpo.kl, "0 or more"));
        }
        if self.grpo.clip_low >= 1.0 {
            return Err(ConfigError::out_of_range("grpo.clip_low", self.grpo.clip_low, "below 1"));
        }
        Ok(())
    }

    /// Fills `[reward]` up with the parts that the environment gives, at weight 1, and refuses any
    /// other.
    pub fn complete_rewards(&mut self, description: &Description) -> Result<(), ConfigError> {
        let parts: Vec<&str> = description.parts.iter().map(|part| part.name.as_str()).collect();
        if let Some(unknown) = self.reward.keys().find(|key| !parts.contains(&key.as_str())) {
            let suggestion = nearest(unknown, parts.iter().copied());
            return Err(ConfigError::UnknownPart {
                part: unknown.clone(),
                suggestion: suggestion.map(str::to_owned),
                parts: parts.join("`, `"),
            });
        }
        if let Some((part, weight)) = self.reward.iter().find(|(_, weight)| !weight.is_finite()) {
            let key = format!("reward.{part}");
            return Err(ConfigError::out_of_range(&key, weight, "a finite number"));
        }
        for part in parts {
            self.reward.entry(part.to_owned()).or_insert(1.0);
        }
        Ok(())
    }
}

fn json_of(value: &toml::Value) -> serde_json::Value {
    match value {
        toml::Value::String(text) => text.clone().into(),
        toml::Value::Integer(number) => (*number).into(),
        toml::Value::Float(number) => (*number).into(),
        toml::Value::Boolean(truth) => (*truth).into(),
        toml::Value::Datetime(date) => date.to_string().into(),
        toml::Value::Array(values) => values.iter().map(json_of).collect(),
        toml::Value::Table(table) => {
            let object = table.iter().map(|(key, value)| (key.clone(), json_of(value)));
            serde_json::Value::Object(object.collect())
        }
    }
}
