//! The log-probabilities that a decoder gives to a micro-batch's scored tokens.

use burn::tensor::activation::log_softmax;
use burn::tensor::{Device, Int, Tensor};

use crate::grpo::batch::{MicroBatch, Scored};
use crate::model::Decoder;

/// Stands for −∞ where the constraint forbids an id; finite, so that no gradient becomes NaN.
const FORBIDDEN: f32 = -1e30;

/// Runs the rows through the decoder and scores their sampled tokens under `softmax(logits /
/// temperature)` over the ids that each was allowed to be: the distribution that was sampled.
///
/// # Shapes
/// → `[tokens]` natural-log probabilities; tracked if the decoder is.
pub fn score(decoder: &Decoder, micro_batch: &MicroBatch, temperature: f32) -> Tensor<1> {
    let device = decoder.embedding.device().inner();
    let scored = &micro_batch.scored;
    let index = |of: fn(&Scored) -> usize| {
        let numbers: Vec<i32> = scored.iter().map(|token| of(token) as i32).collect();
        Tensor::<1, Int>::from_ints(numbers.as_slice(), &device)
    };
    let hidden = decoder.forward(&micro_batch.tokens, micro_batch.rows);
    let hidden = hidden.select(0, index(|token| token.predicted_at));
    let mut logits = decoder.logits(hidden) / f64::from(temperature);
    if let Some(bias) = constraint_bias(scored, decoder.config.vocabulary, &device) {
        logits = logits + bias;
    }
    let tokens = index(|token| token.token as usize).reshape([scored.len(), 1]);
    log_softmax(logits, 1).gather(1, tokens).reshape([scored.len()])
}

/// `[tokens, vocabulary]`: 0 for allowed ids; none where nothing is constrained.
fn constraint_bias(scored: &[Scored], vocabulary: usize, device: &Device) -> Option<Tensor<2>> {
    if scored.iter().all(|token| token.allowed.is_none()) {
        return None;
    }
    let mut bias = vec![0.0; scored.len() * vocabulary];
    for (token, row) in scored.iter().zip(bias.chunks_exact_mut(vocabulary)) {
        if let Some(allowed) = &token.allowed {
            row.fill(FORBIDDEN);
            allowed.iter().for_each(|&id| row[id as usize] = 0.0);
        }
    }
    let bias = Tensor::<1>::from_floats(bias.as_slice(), device);
    Some(bias.reshape([scored.len(), vocabulary]))
}
