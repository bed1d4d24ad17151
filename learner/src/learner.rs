//! One policy in training: groups of trajectories in, the next policy version out.

mod checkpoint;
mod gradients;
mod metrics;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use burn::tensor::Device;

use crate::chat::Chat;
use crate::conversation::{Group, Trajectory};
use crate::grpo::advantage::Advantage;
use crate::grpo::batch::Batch;
use crate::grpo::loss::LossConfig;
use crate::learner::gradients::{
    Accumulated, MICRO_BATCH_TOKENS, Objective, likelihood_gradient, policy_gradient,
};
use crate::model::Decoder;
use crate::optimizer::{AdamW, OptimizerConfig, learning_rate};
use crate::random::Key;
use crate::sampling::{Sampler, SamplerConfig};
use crate::sft;
use crate::weights::{copy_companions, write_directory};

pub use metrics::{UpdateMetrics, WarmStartMetrics};

/// The largest difference between a sampled log-probability and its score by the same weights that
/// rounding explains. Beyond it the sampler does not play the policy that is trained, and learning
/// would be noise.
const SAMPLER_GAP_MAX: f64 = 0.05;

/// How a policy is trained.
#[derive(Clone, Debug, PartialEq)]
pub struct LearnerConfig {
    /// The peak learning rate of GRPO's steps.
    pub learning_rate: f64,
    /// Updates over which the learning rate rises.
    pub warmup_updates: u64,
    /// The number of updates planned, for the learning rate's fall; none to stay at the peak.
    pub updates: Option<u64>,
    /// Optimiser steps for each rollout, on disjoint parts of it.
    pub minibatches: usize,
    /// What deviations from the group's mean are divided by.
    pub advantage: Advantage,
    /// The clip and the weight of the divergence from the starting policy.
    pub loss: LossConfig,
    /// AdamW.
    pub optimizer: OptimizerConfig,
    /// Rank of the adapters that are trained in place of the weights; 0 to train all weights.
    pub adapter_rank: usize,
    /// The adapters' change is scaled by this over the rank.
    pub adapter_alpha: f64,
    /// What new adapters start from.
    pub seed: u64,
}

/// A policy in training.
pub struct Learner {
    config: LearnerConfig,
    decoder: Decoder,
    /// The policy that training started from, where the loss needs it.
    reference: Option<Decoder>,
    optimizer: AdamW,
    chat: Arc<Chat>,
    /// Where the policy came from: the files beside its weights go along when it is saved.
    origin: PathBuf,
    /// Optimiser steps the policy has had; 0 as it was loaded.
    policy_version: u64,
    /// Rollouts learnt from.
    updates: u64,
}

impl Learner {
    /// Loads a model directory onto a device that is not an autodiff one.
    pub fn load(dir: &Path, device: &Device, config: LearnerConfig) -> Result<Learner> {
        let mut decoder = Decoder::load(dir, device)?;
        let reference = (config.loss.kl != 0.0).then(|| decoder.clone());
        if config.adapter_rank > 0 {
            let key = Key::new(config.seed).named("adapter");
            decoder.adapt(config.adapter_rank, config.adapter_alpha, key);
        }
        let chat = Arc::new(Chat::from_dir(dir)?);
        let tokens = chat.tokenizer.vocabulary();
        ensure!(
            tokens <= decoder.config.vocabulary,
            "the tokenizer of `{}` has {tokens} tokens, but its model only {}: they do not belong \
             together",
            dir.display(),
            decoder.config.vocabulary
        );
        Ok(Learner {
            optimizer: AdamW::new(config.optimizer.clone()),
            config,
            decoder,
            reference,
            chat,
            origin: dir.to_path_buf(),
            policy_version: 0,
            updates: 0,
        })
    }

    /// Optimiser steps the policy has had.
    pub fn policy_version(&self) -> u64 {
        self.policy_version
    }

    /// Numbers in the model, and how many of them are trained.
    pub fn parameter_counts(&self) -> (usize, usize) {
        let mut decoder = self.decoder.clone();
        let sizes = decoder.parameters();
        let sizes = sizes.iter().map(|parameter| {
            (parameter.tensor.dims().iter().product::<usize>(), parameter.trained)
        });
        sizes.fold((0, 0), |(all, trained), (size, is_trained)| {
            (all + size, trained + if is_trained { size } else { 0 })
        })
    }

    /// A sampler of the policy as it is now.
    pub fn sampler(&self, config: SamplerConfig) -> Sampler {
        Sampler::new(self.decoder.merged(), self.chat.clone(), config, self.policy_version)
    }

    /// Learns from one rollout. On an error the policy is that of the last finished step.
    pub fn update(&mut self, groups: &[Group]) -> Result<UpdateMetrics> {
        let started = Instant::now();
        let batch = Batch::from_groups(groups, self.config.advantage)?;
        let mut metrics = UpdateMetrics {
            groups: groups.len(),
            groups_zero_variance: batch.groups_zero_variance,
            dropped: batch.dropped.clone(),
            rows: batch.rows.len(),
            tokens: batch.rows.iter().map(|row| row.tokens.len()).sum(),
            scored_tokens: batch.scored_tokens(),
            entropy: batch.entropy(),
            ..UpdateMetrics::default()
        };
        let parts = batch.split(self.config.minibatches);
        let steps = parts.len() as f64;
        for part in parts {
            let tokens = part.scored_tokens() as f64;
            let (totals, grad_norm) = self.step(&part)?;
            let all_tokens = metrics.scored_tokens as f64;
            metrics.loss += totals.loss * tokens / all_tokens;
            metrics.kl += totals.kl / all_tokens;
            metrics.clip_fraction += totals.clipped / all_tokens;
            metrics.ratio_max = metrics.ratio_max.max(totals.ratio_max);
            metrics.grad_norm += grad_norm / steps;
            metrics.sampler_gap_max = metrics.sampler_gap_max.max(totals.sampler_gap_max);
        }
        metrics.learning_rate = self.learning_rate();
        self.updates += 1;
        metrics.policy_version = self.policy_version;
        metrics.seconds = started.elapsed().as_secs_f64();
        Ok(metrics)
    }

    /// Learns to answer as an expert did, before GRPO: `epochs` passes over its trajectories.
    pub fn warm_start(
        &mut self,
        trajectories: &[Trajectory],
        epochs: usize,
        learning_rate: f64,
    ) -> Result<WarmStartMetrics> {
        let started = Instant::now();
        let batch = sft::batch(&self.chat, trajectories, self.decoder.config.context)?;
        ensure!(!batch.rows.is_empty(), "the expert's episodes hold no answer to learn from");
        let mut metrics = WarmStartMetrics {
            rows: batch.rows.len(),
            scored_tokens: batch.scored_tokens(),
            ..WarmStartMetrics::default()
        };
        let parts = batch.rows.len().div_ceil(sft::ROWS_PER_STEP);
        let parts = batch.split(parts);
        for epoch in 0..epochs {
            let mut loss = 0.0;
            for part in &parts {
                let totals = likelihood_gradient(&self.decoder, part)?;
                loss += totals.loss / parts.len() as f64;
                self.optimizer.step(&mut self.decoder, totals.gradients, learning_rate)?;
                self.policy_version += 1;
                metrics.steps += 1;
            }
            if epoch == 0 {
                metrics.loss_first = loss;
            }
            metrics.loss_last = loss;
        }
        // GRPO's gradients have another scale: it starts with moments of its own.
        self.optimizer = AdamW::new(self.config.optimizer.clone());
        metrics.seconds = started.elapsed().as_secs_f64();
        Ok(metrics)
    }

    /// Writes a model directory, adapters merged, that loads wherever the original did; whole or
    /// not at all, and never over one that exists.
    pub fn save_policy(&self, dir: &Path) -> Result<()> {
        write_directory(dir, |dir| {
            copy_companions(&self.origin, dir)?;
            self.decoder.save(dir)
        })
        .with_context(|| format!("cannot write the policy `{}`", dir.display()))
    }

    fn step(&mut self, batch: &Batch) -> Result<(Accumulated, f64)> {
        let objective = Objective {
            loss: self.config.loss,
            reference: self.reference.as_ref(),
            policy_version: self.policy_version,
            micro_batch_tokens: MICRO_BATCH_TOKENS,
        };
        let mut totals = policy_gradient(&self.decoder, batch, &objective)?;
        ensure!(
            totals.sampler_gap_max <= SAMPLER_GAP_MAX,
            "log-probabilities as sampled and as trained differ by {:.3}, more than \
             {SAMPLER_GAP_MAX}: the episodes were not played by this policy version",
            totals.sampler_gap_max
        );
        let gradients = std::mem::take(&mut totals.gradients);
        if gradients.is_empty() {
            return Ok((totals, 0.0));
        }
        let learning_rate = self.learning_rate();
        let norm = self.optimizer.step(&mut self.decoder, gradients, learning_rate)?;
        self.policy_version += 1;
        Ok((totals, norm))
    }

    fn learning_rate(&self) -> f64 {
        let config = &self.config;
        learning_rate(config.learning_rate, self.updates, config.warmup_updates, config.updates)
    }
}
