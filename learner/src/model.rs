//! A Llama-shaped decoder: tokens → hidden states → logits.
//!
//! One block after another, readable top to bottom; the same code with and without a cache, on
//! every device, tracked for gradients or not. Knows nothing of text, sampling or losses.

pub mod attention;
pub mod cache;
pub mod config;
pub mod linear;
pub mod norm;
pub mod parameters;
pub mod rotary;
#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) mod toy;

use burn::tensor::activation::silu;
use burn::tensor::{Device, Int, Tensor};

use crate::model::attention::{Attention, Mask};
use crate::model::cache::{Cache, CacheStep};
use crate::model::config::ModelConfig;
use crate::model::linear::Linear;
use crate::model::norm::RmsNorm;
use crate::model::rotary::Rotary;

/// The decoder.
#[derive(Clone, Debug)]
pub struct Decoder {
    /// Its shape.
    pub config: ModelConfig,
    /// `[vocabulary, hidden]`.
    pub embedding: Tensor<2>,
    /// In order.
    pub blocks: Vec<Block>,
    /// Before the head.
    pub norm: RmsNorm,
    /// `hidden → vocabulary`; none where the embedding serves.
    pub head: Option<Linear>,
}

/// Attention and feed-forward, each on a normalised copy of the residual stream.
#[derive(Clone, Debug)]
pub struct Block {
    /// Before attention.
    pub attention_norm: RmsNorm,
    /// Mixes positions.
    pub attention: Attention,
    /// Before the feed-forward layer.
    pub feed_forward_norm: RmsNorm,
    /// Mixes channels.
    pub feed_forward: FeedForward,
}

/// SwiGLU (Shazeer, "GLU variants improve Transformer", 2020).
#[derive(Clone, Debug)]
pub struct FeedForward {
    /// `hidden → feed_forward`, through SiLU.
    pub gate: Linear,
    /// `hidden → feed_forward`.
    pub up: Linear,
    /// `feed_forward → hidden`.
    pub down: Linear,
}

/// Rows that extend cache slots, for one forward pass.
pub struct Extension<'a> {
    /// The slot of each row.
    pub slots: &'a [usize],
    /// Positions that each slot holds already.
    pub starts: &'a [usize],
    /// The new ids of each row; shorter rows are padded.
    pub tokens: &'a [&'a [u32]],
}

impl Decoder {
    /// The hidden states of whole rows, padded on the right with any id: a position never sees what
    /// comes after it, so padding changes nothing.
    ///
    /// # Shapes
    /// `tokens: rows × time` ids, row after row → `[rows · time, hidden]`
    pub fn forward(&self, tokens: &[u32], rows: usize) -> Tensor<2> {
        let device = &self.embedding.device().inner();
        let time = tokens.len() / rows;
        let positions: Vec<u32> = (0..time as u32).collect();
        let rotary = self.rotary(&positions, 1, device);
        let mask = Mask::causal(time, self.config.queries_per_kv(), device);
        let mut x = self.embed(tokens, device);
        for block in &self.blocks {
            x = block.attend(x, |attention, x| attention.forward(x, rows, &rotary, &mask, None));
            x = block.feed(x);
        }
        self.norm.forward(x)
    }

    /// Writes the rows' new tokens into the cache and gives the hidden state of each row's last
    /// one.
    ///
    /// # Shapes
    /// → `[rows, hidden]`
    pub fn extend(&self, cache: &mut Cache, rows: &Extension<'_>) -> Tensor<2> {
        let device = &self.embedding.device();
        let count = rows.slots.len();
        let lengths: Vec<usize> = rows.tokens.iter().map(|tokens| tokens.len()).collect();
        let time = lengths.iter().copied().max().unwrap_or(0);
        let ends = rows.starts.iter().zip(&lengths).map(|(start, length)| start + length);
        let columns = ends.max().unwrap_or(0);
        let step = cache.step(rows.slots, rows.starts, &lengths, time, columns, device);
        let mut padded = vec![0; count * time];
        let mut positions = Vec::with_capacity(count * time);
        for (row, tokens) in rows.tokens.iter().enumerate() {
            padded[row * time..row * time + tokens.len()].copy_from_slice(tokens);
            positions.extend((0..time).map(|t| (rows.starts[row] + t) as u32));
        }
        let rotary = self.rotary(&positions, count, device);
        let queries = self.config.queries_per_kv();
        let mask = Mask::ragged(rows.starts, time, columns, queries, device);
        let x =
            self.extend_blocks(cache, &step, self.embed(&padded, device), count, &rotary, &mask);
        let last = lengths.iter().enumerate().map(|(row, length)| (row * time + length - 1) as i32);
        let last: Vec<i32> = last.collect();
        self.norm.forward(x.select(0, Tensor::<1, Int>::from_ints(last.as_slice(), device)))
    }

    /// # Shapes
    /// `hidden: [rows, hidden]` → `[rows, vocabulary]`
    pub fn logits(&self, hidden: Tensor<2>) -> Tensor<2> {
        match &self.head {
            Some(head) => head.forward(hidden),
            None => hidden.matmul(self.embedding.clone().transpose()),
        }
    }

    fn extend_blocks(
        &self,
        cache: &mut Cache,
        step: &CacheStep,
        mut x: Tensor<2>,
        rows: usize,
        rotary: &Rotary,
        mask: &Mask,
    ) -> Tensor<2> {
        for (block, layer) in self.blocks.iter().zip(&mut cache.layers) {
            x = block.attend(x, |attention, x| {
                attention.forward(x, rows, rotary, mask, Some((layer, step)))
            });
            x = block.feed(x);
        }
        x
    }

    fn embed(&self, tokens: &[u32], device: &Device) -> Tensor<2> {
        let ids: Vec<i32> = tokens.iter().map(|&id| id as i32).collect();
        self.embedding.clone().select(0, Tensor::<1, Int>::from_ints(ids.as_slice(), device))
    }

    fn rotary(&self, positions: &[u32], rows: usize, device: &Device) -> Rotary {
        Rotary::new(positions, rows, self.config.head_dim, self.config.rope_theta, device)
    }
}

impl Block {
    fn attend(
        &self,
        x: Tensor<2>,
        attend: impl FnOnce(&Attention, Tensor<2>) -> Tensor<2>,
    ) -> Tensor<2> {
        x.clone() + attend(&self.attention, self.attention_norm.forward(x))
    }

    fn feed(&self, x: Tensor<2>) -> Tensor<2> {
        x.clone() + self.feed_forward.forward(self.feed_forward_norm.forward(x))
    }
}

impl FeedForward {
    /// # Shapes
    /// `x: [rows, hidden]` → the same
    pub fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let gate = silu(self.gate.forward(x.clone()));
        self.down.forward(gate * self.up.forward(x))
    }
}
