//! Groups → one flat batch: which tokens are scored, against what, with which advantage.
//!
//! Padding and the shift between a token and the position that predicts it happen here and nowhere
//! else.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};

use crate::conversation::{Group, TokenRow, Trajectory};
use crate::grpo::advantage::{Advantage, advantages};

/// A sampled token that the loss sees.
///
/// Tokens that the constraint forced are not here: where nothing could be chosen there is nothing
/// to learn.
#[derive(Clone, Debug, PartialEq)]
pub struct Scored {
    /// The position whose logits predict the token: the one before it.
    pub predicted_at: usize,
    /// The token.
    pub token: u32,
    /// The ids it was chosen among; none for the whole vocabulary.
    pub allowed: Option<Vec<u32>>,
    /// Its log-probability when it was sampled.
    pub sampled_logprob: f32,
    /// The policy version that sampled it.
    pub policy_version: u64,
    /// How much better than its group the episode was for this agent.
    pub advantage: f32,
}

/// One row of tokens and what is scored in it.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchRow {
    /// Prompt and sampled ids.
    pub tokens: Vec<u32>,
    /// In order of position.
    pub scored: Vec<Scored>,
}

/// What one rollout teaches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// In the order of groups and trajectories.
    pub rows: Vec<BatchRow>,
    /// The temperature that all rows were sampled at.
    pub temperature: f32,
    /// Trajectories left out, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Groups in which every agent's attempts earned the same.
    pub groups_zero_variance: usize,
}

/// Rows padded to one length, for one forward pass.
#[derive(Clone, Debug, PartialEq)]
pub struct MicroBatch {
    /// `rows × time` ids, row after row, padded on the right with 0.
    pub tokens: Vec<u32>,
    /// How many rows.
    pub rows: usize,
    /// What is scored, with `predicted_at` counted in the padded `tokens`.
    pub scored: Vec<Scored>,
}

impl Batch {
    /// The rows of all trainable trajectories, with the advantages of their agents within their
    /// groups.
    pub fn from_groups(groups: &[Group], advantage: Advantage) -> Result<Batch> {
        let mut batch = Batch::default();
        for group in groups {
            batch.add_group(group, advantage)?;
        }
        Ok(batch)
    }

    /// The number of scored tokens: what the loss is divided by.
    pub fn scored_tokens(&self) -> usize {
        self.rows.iter().map(|row| row.scored.len()).sum()
    }

    /// Parts with whole rows and about equally many of them, to be stepped on one after another.
    pub fn split(self, parts: usize) -> Vec<Batch> {
        let size = self.rows.len().div_ceil(parts.max(1)).max(1);
        let part = |rows: &[BatchRow]| Batch {
            rows: rows.to_vec(),
            temperature: self.temperature,
            ..Batch::default()
        };
        self.rows.chunks(size).map(part).collect()
    }

    /// The mean of −log p over the scored tokens as they were sampled, in nats: an unbiased
    /// estimate of the sampled distributions' mean entropy. NaN where nothing is scored.
    pub fn entropy(&self) -> f64 {
        let scored = self.rows.iter().flat_map(|row| &row.scored);
        let sum: f64 = scored.map(|token| -f64::from(token.sampled_logprob)).sum();
        sum / self.scored_tokens() as f64
    }

    /// Micro-batches of at most `tokens_max` padded tokens (or one row), of rows of similar length.
    ///
    /// Only of rows that are to be kept: one without advantage has no gradient, unless the loss has
    /// a divergence too.
    pub fn micro_batches(
        &self,
        tokens_max: usize,
        keep: impl Fn(&BatchRow) -> bool,
    ) -> Vec<MicroBatch> {
        let mut rows: Vec<&BatchRow> = self.rows.iter().filter(|row| keep(row)).collect();
        rows.sort_by_key(|row| row.tokens.len());
        let mut micro_batches = vec![];
        let mut start = 0;
        while start < rows.len() {
            let fits = |end: usize| (end - start) * rows[end - 1].tokens.len() <= tokens_max;
            let end = (start + 1..=rows.len()).take_while(|&end| fits(end)).last();
            let end = end.unwrap_or(start + 1);
            micro_batches.push(MicroBatch::pad(&rows[start..end]));
            start = end;
        }
        micro_batches
    }

    fn add_group(&mut self, group: &Group, advantage: Advantage) -> Result<()> {
        for trajectory in &group.trajectories {
            if !trajectory.ending.is_trainable() {
                *self.dropped.entry(trajectory.ending.label()).or_default() += 1;
            }
        }
        let agents: BTreeSet<&str> = rows_of(group).map(|(_, row)| row.agent.as_str()).collect();
        let mut has_variance = false;
        for agent in agents {
            let reward = |trajectory: &Trajectory| {
                let reward = trajectory.rewards.get(agent).copied();
                reward.filter(|_| trajectory.ending.is_trainable())
            };
            let rewards: Vec<Option<f64>> = group.trajectories.iter().map(reward).collect();
            let advantages = advantages(&rewards, advantage);
            has_variance |= advantages.iter().flatten().any(|advantage| *advantage != 0.0);
            for (index, row) in rows_of(group).filter(|(_, row)| row.agent == agent) {
                if let Some(advantage) = advantages[index] {
                    self.add_row(row, advantage as f32)?;
                }
            }
        }
        self.groups_zero_variance += usize::from(!has_variance);
        Ok(())
    }

    fn add_row(&mut self, row: &TokenRow, advantage: f32) -> Result<()> {
        ensure!(
            self.rows.is_empty() || self.temperature == row.temperature,
            "rows sampled at temperatures {} and {} cannot share a batch",
            self.temperature,
            row.temperature
        );
        self.temperature = row.temperature;
        let scored = score_row(row, advantage)?;
        if !scored.is_empty() {
            self.rows.push(BatchRow { tokens: row.tokens.clone(), scored });
        }
        Ok(())
    }
}

impl BatchRow {
    /// Whether some token's probability is to be raised or lowered.
    pub fn has_advantage(&self) -> bool {
        self.scored.iter().any(|token| token.advantage != 0.0)
    }
}

impl MicroBatch {
    fn pad(rows: &[&BatchRow]) -> MicroBatch {
        let time = rows.iter().map(|row| row.tokens.len()).max().unwrap_or(0);
        let mut tokens = vec![0; rows.len() * time];
        let mut scored = vec![];
        for (index, row) in rows.iter().enumerate() {
            let start = index * time;
            tokens[start..start + row.tokens.len()].copy_from_slice(&row.tokens);
            scored.extend(
                row.scored
                    .iter()
                    .cloned()
                    .map(|token| Scored { predicted_at: start + token.predicted_at, ..token }),
            );
        }
        MicroBatch { tokens, rows: rows.len(), scored }
    }
}

fn rows_of(group: &Group) -> impl Iterator<Item = (usize, &TokenRow)> {
    let trajectories = group.trajectories.iter().enumerate();
    trajectories.flat_map(|(index, trajectory)| trajectory.rows.iter().map(move |row| (index, row)))
}

fn score_row(row: &TokenRow, advantage: f32) -> Result<Vec<Scored>> {
    let mut scored = vec![];
    for span in &row.spans {
        ensure!(
            span.start > 0 && span.start + span.logprobs.len() <= row.tokens.len(),
            "a span of {} tokens at {} does not lie inside its row of {}",
            span.logprobs.len(),
            span.start,
            row.tokens.len()
        );
        for (offset, (logprob, allowed)) in span.logprobs.iter().zip(&span.allowed).enumerate() {
            if allowed.as_ref().is_some_and(|allowed| allowed.len() == 1) {
                continue;
            }
            scored.push(Scored {
                predicted_at: span.start + offset - 1,
                token: row.tokens[span.start + offset],
                allowed: allowed.clone(),
                sampled_logprob: *logprob,
                policy_version: span.policy_version,
                advantage,
            });
        }
    }
    Ok(scored)
}
