//! Rotary position embedding in the rotate-half layout of Hugging Face's Llama (Su et al., 2021).

use burn::tensor::{Device, Tensor};

/// Cosines and sines for the positions of one forward pass.
#[derive(Clone, Debug)]
pub struct Rotary {
    cos: Tensor<4>,
    sin: Tensor<4>,
}

impl Rotary {
    /// For rows that each have their own positions, given row after row.
    ///
    /// # Shapes
    /// `positions: rows × time` numbers; `rows` may be 1 for positions that all rows share.
    pub fn new(
        positions: &[u32],
        rows: usize,
        head_dim: usize,
        theta: f64,
        device: &Device,
    ) -> Rotary {
        let half = head_dim / 2;
        let time = positions.len() / rows;
        let frequencies: Vec<f64> =
            (0..half).map(|i| theta.powf(-2.0 * i as f64 / head_dim as f64)).collect();
        let mut cos = Vec::with_capacity(positions.len() * half);
        let mut sin = Vec::with_capacity(positions.len() * half);
        for &position in positions {
            for frequency in &frequencies {
                let angle = f64::from(position) * frequency;
                cos.push(angle.cos() as f32);
                sin.push(angle.sin() as f32);
            }
        }
        let shape = [rows, time, 1, half];
        Rotary {
            cos: Tensor::<1>::from_floats(cos.as_slice(), device).reshape(shape),
            sin: Tensor::<1>::from_floats(sin.as_slice(), device).reshape(shape),
        }
    }

    /// Turns each head's pairs `(i, i + head_dim / 2)` by the position's angles.
    ///
    /// # Shapes
    /// `x: [rows, time, heads, head_dim]` → the same
    pub fn apply(&self, x: Tensor<4>) -> Tensor<4> {
        let half = x.dims()[3] / 2;
        let low = x.clone().narrow(3, 0, half);
        let high = x.narrow(3, half, half);
        let turned_low = low.clone() * self.cos.clone() - high.clone() * self.sin.clone();
        let turned_high = high * self.cos.clone() + low * self.sin.clone();
        Tensor::cat(vec![turned_low, turned_high], 3)
    }
}
