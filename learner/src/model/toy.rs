//! Small random decoders for tests.

use burn::tensor::{Device, Tensor};

use crate::model::Decoder;
use crate::model::config::ModelConfig;
use crate::random::Key;

/// Ids of a toy's vocabulary.
pub(crate) const VOCABULARY: usize = 24;

/// Two layers, four query heads over two key heads; numbers large enough that everything matters.
pub(crate) fn decoder(seed: u64) -> Decoder {
    let config = ModelConfig {
        vocabulary: VOCABULARY,
        hidden: 16,
        feed_forward: 20,
        layers: 2,
        heads: 4,
        kv_heads: 2,
        head_dim: 6,
        context: 64,
        rope_theta: 100.0,
        norm_epsilon: 1e-5,
        tied_head: false,
    };
    let device = Device::flex();
    let mut decoder = Decoder::empty(config, &device);
    for (index, parameter) in decoder.parameters().into_iter().enumerate() {
        *parameter.tensor = random(parameter.tensor.dims(), Key::new(seed).part(index as u64), 0.4);
    }
    decoder
}

/// A matrix of normal numbers of this deviation.
pub(crate) fn random([rows, columns]: [usize; 2], key: Key, std: f64) -> Tensor<2> {
    let numbers: Vec<f32> =
        (0..rows * columns).map(|i| (key.normal(i as u64) * std) as f32).collect();
    Tensor::<1>::from_floats(numbers.as_slice(), &Device::flex()).reshape([rows, columns])
}

/// Random ids, never the padding id 0.
pub(crate) fn tokens(count: usize, key: Key) -> Vec<u32> {
    (0..count as u64).map(|i| 1 + (key.bits(i) % (VOCABULARY as u64 - 1)) as u32).collect()
}

/// All numbers of a tensor.
pub(crate) fn numbers<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.inner().try_into_vec_as::<f32>().unwrap()
}

/// The largest difference.
pub(crate) fn gap(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}
