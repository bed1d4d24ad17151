//! A linear map, and the low-rank adapter that may sit on it.

use burn::tensor::{Device, Tensor};

use crate::random::Key;

/// `y = x·W`, or `y = x·W + s·(x·A)·B` with an adapter (Hu et al., "LoRA", 2021).
///
/// The adapter is applied as two thin products: the dense `A·B` is never built, so a frozen `W`
/// costs no weight-shaped gradient. There is no bias: Llama has none.
#[derive(Clone, Debug)]
pub struct Linear {
    /// `[in, out]`: the transpose of what model files hold.
    pub weight: Tensor<2>,
    /// Trained in place of the weight, where there is one.
    pub adapter: Option<Adapter>,
}

/// The low-rank change of a linear map.
#[derive(Clone, Debug)]
pub struct Adapter {
    /// `[in, rank]`; starts random.
    pub a: Tensor<2>,
    /// `[rank, out]`; starts at zero, so that a new adapter changes nothing.
    pub b: Tensor<2>,
    /// `alpha / rank`.
    pub scale: f64,
}

impl Linear {
    /// The map of a weight, without an adapter.
    pub fn new(weight: Tensor<2>) -> Linear {
        Linear { weight, adapter: None }
    }

    /// Applies the map.
    ///
    /// # Shapes
    /// `x: [rows, in]` → `[rows, out]`
    pub fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        match &self.adapter {
            None => x.matmul(self.weight.clone()),
            Some(adapter) => {
                let low = x.clone().matmul(adapter.a.clone()).matmul(adapter.b.clone());
                x.matmul(self.weight.clone()) + low * adapter.scale
            }
        }
    }
}

impl Adapter {
    /// PEFT's start: A uniform in ±1/√in (Kaiming with a = √5), B zero.
    pub fn init(input: usize, output: usize, rank: usize, alpha: f64, key: Key) -> AdapterInit {
        let bound = 1.0 / (input as f64).sqrt();
        let a = (0..input * rank).map(|i| ((key.uniform(i as u64) * 2.0 - 1.0) * bound) as f32);
        AdapterInit { a: a.collect(), input, output, rank, scale: alpha / rank as f64 }
    }
}

/// The numbers of a new adapter, before they are on a device.
pub struct AdapterInit {
    a: Vec<f32>,
    input: usize,
    output: usize,
    rank: usize,
    scale: f64,
}

impl AdapterInit {
    /// Puts the adapter on a device.
    pub fn on(self, device: &Device) -> Adapter {
        let a = Tensor::<1>::from_floats(self.a.as_slice(), device);
        Adapter {
            a: a.reshape([self.input, self.rank]),
            b: Tensor::zeros([self.rank, self.output], device),
            scale: self.scale,
        }
    }
}
