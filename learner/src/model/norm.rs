//! Root-mean-square normalisation (Zhang and Sennrich, 2019).

use burn::tensor::Tensor;

/// Scales each row to root mean square 1, then by `weight`.
#[derive(Clone, Debug)]
pub struct RmsNorm {
    /// `[1, hidden]`.
    pub weight: Tensor<2>,
    /// Added to the mean square.
    pub epsilon: f64,
}

impl RmsNorm {
    /// # Shapes
    /// `x: [rows, hidden]` → the same
    pub fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let mean_square = x.clone().square().mean_dim(1);
        let scale = (mean_square + self.epsilon).sqrt().recip();
        x * scale * self.weight.clone()
    }
}
