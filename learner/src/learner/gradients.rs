//! The gradient of a batch: micro-batches forward and backward, added up in a fixed order.

use anyhow::{Context, Result};
use burn::tensor::{Device, Tensor};
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};

use crate::grpo::batch::{Batch, BatchRow, MicroBatch, Scored};
use crate::grpo::loss::{LossConfig, LossInputs, policy_loss};
use crate::grpo::score::score;
use crate::model::Decoder;

/// Padded tokens of a micro-batch: small enough for a CPU core's caches at the built-in policy's
/// width.
pub(super) const MICRO_BATCH_TOKENS: usize = 2048;

/// Trained numbers up to which micro-batches run side by side on the CPU. Above, single operations
/// are large enough to use all cores, and one graph at a time saves memory.
const SIDE_BY_SIDE_MAX: usize = 4 << 20;

/// What a batch is scored against.
pub(super) struct Objective<'a> {
    /// The clip and the weight of the divergence.
    pub loss: LossConfig,
    /// The policy that the divergence is measured from, where there is one.
    pub reference: Option<&'a Decoder>,
    /// The version in training: tokens that it sampled itself have ratio 1.
    pub policy_version: u64,
    /// The most padded tokens of one forward and backward pass.
    pub micro_batch_tokens: usize,
}

/// Gradients and sums over tokens.
#[derive(Default)]
pub(super) struct Accumulated {
    /// In the order of `Decoder::parameters`; empty where no row taught anything.
    pub gradients: Vec<Tensor<2>>,
    /// The loss over the whole batch.
    pub loss: f64,
    /// Sum over tokens.
    pub kl: f64,
    /// Tokens.
    pub clipped: f64,
    /// Over tokens.
    pub ratio_max: f64,
    /// Over the tokens that this version sampled.
    pub sampler_gap_max: f64,
}

/// The gradient of GRPO's loss over the whole batch.
pub(super) fn policy_gradient(
    decoder: &Decoder,
    batch: &Batch,
    objective: &Objective<'_>,
) -> Result<Accumulated> {
    let tokens = batch.scored_tokens();
    let keep = |row: &BatchRow| objective.reference.is_some() || row.has_advantage();
    let micro_batches = batch.micro_batches(objective.micro_batch_tokens, keep);
    accumulate(decoder, &micro_batches, |tracked, micro_batch| {
        policy_part(tracked, micro_batch, batch.temperature, tokens, objective)
    })
}

/// The gradient of the mean negative log-likelihood of the batch's tokens: supervised learning.
pub(super) fn likelihood_gradient(decoder: &Decoder, batch: &Batch) -> Result<Accumulated> {
    let tokens = batch.scored_tokens();
    let micro_batches = batch.micro_batches(MICRO_BATCH_TOKENS, |_| true);
    accumulate(decoder, &micro_batches, |tracked, micro_batch| {
        let logprobs = score(tracked, micro_batch, batch.temperature);
        Ok((logprobs.sum().neg() / tokens as f64, Accumulated::default()))
    })
}

fn policy_part(
    tracked: &Decoder,
    micro_batch: &MicroBatch,
    temperature: f32,
    tokens_in_batch: usize,
    objective: &Objective<'_>,
) -> Result<(Tensor<1>, Accumulated)> {
    let device = tracked.embedding.device().inner();
    let scored = &micro_batch.scored;
    let logprobs = score(tracked, micro_batch, temperature);
    let now = read(logprobs.clone().inner())?;
    let (old, sampler_gap_max) = old_logprobs(scored, &now, objective.policy_version);
    let score_again = |decoder: &Decoder| score(decoder, micro_batch, temperature);
    let advantages: Vec<f32> = scored.iter().map(|token| token.advantage).collect();
    let inputs = LossInputs {
        logprobs,
        old_logprobs: numbers(&old, &device),
        reference_logprobs: objective.reference.map(score_again),
        advantages: numbers(&advantages, &device),
    };
    let loss = policy_loss(inputs, objective.loss, tokens_in_batch);
    let part = Accumulated {
        kl: sum(loss.kl)?,
        clipped: sum(loss.clipped)?,
        ratio_max: sum(loss.ratio_max)?,
        sampler_gap_max,
        ..Accumulated::default()
    };
    Ok((loss.loss, part))
}

/// The log-probabilities that ratios are taken against, and the largest gap to what the sampler
/// recorded.
///
/// A token that this very version sampled is scored against its own present score, so that its
/// ratio is exactly 1 and not 1 up to the rounding of a differently shaped batch; the gap shows
/// that rounding.
fn old_logprobs(scored: &[Scored], now: &[f32], policy_version: u64) -> (Vec<f32>, f64) {
    let mut gap_max = 0.0f64;
    let old = scored.iter().zip(now).map(|(token, &now)| {
        if token.policy_version != policy_version {
            return token.sampled_logprob;
        }
        gap_max = gap_max.max(f64::from((now - token.sampled_logprob).abs()));
        now
    });
    (old.collect(), gap_max)
}

fn accumulate(
    decoder: &Decoder,
    micro_batches: &[MicroBatch],
    part: impl Fn(&Decoder, &MicroBatch) -> Result<(Tensor<1>, Accumulated)> + Sync,
) -> Result<Accumulated> {
    let backward = |micro_batch: &MicroBatch| -> Result<Accumulated> {
        let mut tracked = decoder.tracked();
        let (loss, mut part) = part(&tracked, micro_batch)?;
        part.loss = sum(loss.clone().inner())?;
        part.gradients = tracked.take_gradients(&mut loss.backward());
        Ok(part)
    };
    let mut total = Accumulated::default();
    for wave in micro_batches.chunks(lanes(decoder)) {
        let parts: Vec<Result<Accumulated>> = wave.par_iter().map(backward).collect();
        for part in parts {
            total.add(part?);
        }
    }
    Ok(total)
}

impl Accumulated {
    fn add(&mut self, part: Accumulated) {
        let sums = std::mem::take(&mut self.gradients);
        self.gradients = if sums.is_empty() {
            part.gradients
        } else {
            sums.into_iter().zip(part.gradients).map(|(sum, gradient)| sum + gradient).collect()
        };
        self.loss += part.loss;
        self.kl += part.kl;
        self.clipped += part.clipped;
        self.ratio_max = self.ratio_max.max(part.ratio_max);
        self.sampler_gap_max = self.sampler_gap_max.max(part.sampler_gap_max);
    }
}

/// How many micro-batches run side by side.
fn lanes(decoder: &Decoder) -> usize {
    let mut decoder = decoder.clone();
    let trained = decoder.parameters().into_iter().filter(|parameter| parameter.trained);
    let numbers: usize =
        trained.map(|parameter| parameter.tensor.dims().iter().product::<usize>()).sum();
    let on_cpu = crate::device::is_cpu(&decoder.embedding.device());
    if on_cpu && numbers <= SIDE_BY_SIDE_MAX { rayon::current_num_threads() } else { 1 }
}

fn numbers(numbers: &[f32], device: &Device) -> Tensor<1> {
    Tensor::from_floats(numbers, device)
}

fn read(tensor: Tensor<1>) -> Result<Vec<f32>> {
    tensor.try_into_vec_as::<f32>().context("cannot read from the device")
}

fn sum(tensor: Tensor<1>) -> Result<f64> {
    Ok(read(tensor)?.into_iter().map(f64::from).sum())
}

#[cfg(test)]
mod golden;
#[cfg(test)]
mod tests;
