//! Causal self-attention with grouped queries (Ainslie et al., "GQA", 2023).

use burn::tensor::activation::softmax;
use burn::tensor::{Device, Tensor};

use crate::model::cache::{CacheStep, LayerCache};
use crate::model::linear::Linear;
use crate::model::rotary::Rotary;

/// What is added to the score of a column that a position must not see. Finite, so that a row of
/// padding that sees nothing gets numbers and not NaN.
const UNSEEN: f32 = -1e30;

/// The attention of one block.
#[derive(Clone, Debug)]
pub struct Attention {
    /// `hidden → heads · head_dim`.
    pub q: Linear,
    /// `hidden → kv_heads · head_dim`.
    pub k: Linear,
    /// `hidden → kv_heads · head_dim`.
    pub v: Linear,
    /// `heads · head_dim → hidden`.
    pub o: Linear,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Query heads that share one of them.
    pub queries_per_kv: usize,
    /// Width of a head.
    pub head_dim: usize,
}

/// Which columns each position sees, as numbers to add to the scores; see [`Mask::causal`].
#[derive(Clone, Debug)]
pub struct Mask {
    /// `[rows or 1, 1, queries_per_kv · time, columns]`.
    bias: Tensor<4>,
}

impl Mask {
    /// Every position sees itself and those before it; rows start at column 0.
    pub fn causal(time: usize, queries_per_kv: usize, device: &Device) -> Mask {
        Mask::ragged(&[0], time, time, queries_per_kv, device)
    }

    /// Position `t` of row `r` sees the columns up to `starts[r] + t`: the row's cached past, and
    /// itself.
    pub fn ragged(
        starts: &[usize],
        time: usize,
        columns: usize,
        queries_per_kv: usize,
        device: &Device,
    ) -> Mask {
        let mut bias = Vec::with_capacity(starts.len() * queries_per_kv * time * columns);
        for &start in starts {
            for _ in 0..queries_per_kv {
                for t in 0..time {
                    let seen = (start + t + 1).min(columns);
                    bias.resize(bias.len() + seen, 0.0);
                    bias.resize(bias.len() + columns - seen, UNSEEN);
                }
            }
        }
        let shape = [starts.len(), 1, queries_per_kv * time, columns];
        Mask { bias: Tensor::<1>::from_floats(bias.as_slice(), device).reshape(shape) }
    }
}

impl Attention {
    /// Attends within the rows, or, given a layer's cache, to their cached past as well.
    ///
    /// # Shapes
    /// `x: [rows · time, hidden]` → the same
    pub fn forward(
        &self,
        x: Tensor<2>,
        rows: usize,
        rotary: &Rotary,
        mask: &Mask,
        cache: Option<(&mut LayerCache, &CacheStep)>,
    ) -> Tensor<2> {
        let time = x.dims()[0] / rows;
        let heads = self.kv_heads * self.queries_per_kv;
        let kv_shape = [rows, time, self.kv_heads, self.head_dim];
        let q = self.q.forward(x.clone()).reshape([rows, time, heads, self.head_dim]);
        let k = self.k.forward(x.clone()).reshape(kv_shape);
        let v = self.v.forward(x).reshape(kv_shape);
        let (q, k) = (rotary.apply(q), rotary.apply(k));
        let (k, v) = match cache {
            None => (k, v),
            Some((cache, step)) => cache.extend(step, k, v),
        };
        let mixed = self.attend(q, k, v, mask);
        self.o.forward(mixed.reshape([rows * time, heads * self.head_dim]))
    }

    /// The query heads of a group are folded into the time axis: no key or value is repeated.
    ///
    /// # Shapes
    /// `q: [rows, time, heads, head_dim]`, `k, v: [rows, columns, kv_heads, head_dim]`
    /// → `[rows, time, kv_heads, queries_per_kv, head_dim]`
    fn attend(&self, q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, mask: &Mask) -> Tensor<5> {
        let [rows, time, _, head_dim] = q.dims();
        let (groups, queries) = (self.kv_heads, self.queries_per_kv);
        let folded = [rows, groups, queries * time, head_dim];
        let q = q
            .reshape([rows, time, groups, queries, head_dim])
            .permute([0, 2, 3, 1, 4])
            .reshape(folded)
            * (head_dim as f64).powf(-0.5);
        let scores = q.matmul(k.permute([0, 2, 3, 1])) + mask.bias.clone();
        let mixed = softmax(scores, 3).matmul(v.permute([0, 2, 1, 3]));
        mixed.reshape([rows, groups, queries, time, head_dim]).permute([0, 3, 1, 2, 4])
    }
}
