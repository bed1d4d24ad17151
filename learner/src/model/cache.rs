//! The key-value cache: preallocated once, written in place.
//!
//! A slot holds one row's past. Slots are independent: a forward pass may use any of them, each at
//! its own length. Which conversation owns which slot is the sampler's business.

use burn::tensor::{Device, IndexingUpdateOp, Int, Tensor};

use crate::model::config::ModelConfig;

/// The cache of all layers.
#[derive(Debug)]
pub struct Cache {
    /// One for each block.
    pub layers: Vec<LayerCache>,
    /// Rows that can be held.
    pub slots: usize,
    /// Positions that a row can have.
    pub columns: usize,
}

/// One block's keys and values.
#[derive(Debug)]
pub struct LayerCache {
    /// `[slots · columns + 1, kv_heads · head_dim]`; the last line takes what padding writes.
    keys: Tensor<2>,
    /// As `keys`.
    values: Tensor<2>,
}

/// Where one forward pass writes and reads, the same for every layer.
#[derive(Debug)]
pub struct CacheStep {
    /// `[rows · time]` lines to write.
    write: Tensor<1, Int>,
    /// `[rows · columns]` lines to read.
    read: Tensor<1, Int>,
    columns: usize,
}

impl Cache {
    /// Room for `slots` rows of `columns` positions.
    pub fn new(config: &ModelConfig, slots: usize, columns: usize, device: &Device) -> Cache {
        let shape = [slots * columns + 1, config.kv_heads * config.head_dim];
        let layer = || LayerCache {
            keys: Tensor::zeros(shape, device),
            values: Tensor::zeros(shape, device),
        };
        Cache { layers: (0..config.layers).map(|_| layer()).collect(), slots, columns }
    }

    /// Row `r` of the pass extends slot `slots[r]` from position `starts[r]` by `lengths[r]`
    /// positions; the pass is padded to `time` positions for every row and reads the first
    /// `columns` columns of each slot.
    pub fn step(
        &self,
        slots: &[usize],
        starts: &[usize],
        lengths: &[usize],
        time: usize,
        columns: usize,
        device: &Device,
    ) -> CacheStep {
        let spill = self.slots * self.columns;
        let mut write = Vec::with_capacity(slots.len() * time);
        let mut read = Vec::with_capacity(slots.len() * columns);
        for ((&slot, &start), &length) in slots.iter().zip(starts).zip(lengths) {
            assert!(start + length <= self.columns, "row of {} exceeds the cache", start + length);
            let line = |t| if t < length { slot * self.columns + start + t } else { spill };
            write.extend((0..time).map(|t| line(t) as i32));
            read.extend((0..columns).map(|column| (slot * self.columns + column) as i32));
        }
        let on_device = |lines: &[i32]| Tensor::<1, Int>::from_ints(lines, device);
        CacheStep { write: on_device(&write), read: on_device(&read), columns }
    }
}

impl LayerCache {
    /// Writes the new keys and values, and gives back each row's past with them.
    ///
    /// # Shapes
    /// `k, v: [rows, time, kv_heads, head_dim]` → `[rows, columns, kv_heads, head_dim]`
    pub fn extend(
        &mut self,
        step: &CacheStep,
        k: Tensor<4>,
        v: Tensor<4>,
    ) -> (Tensor<4>, Tensor<4>) {
        let [rows, time, heads, head_dim] = k.dims();
        let lines = [rows * time, heads * head_dim];
        let past = [rows, step.columns, heads, head_dim];
        let extend = |held: &mut Tensor<2>, new: Tensor<4>| {
            let (write, new) = (step.write.clone(), new.reshape(lines));
            held.inplace(|held| held.select_assign(0, write, new, IndexingUpdateOp::Assign));
            held.clone().select(0, step.read.clone()).reshape(past)
        };
        (extend(&mut self.keys, k), extend(&mut self.values, v))
    }
}
