//! The decoder's tensors by name: loading, saving, tracking, adapting, merging.
//!
//! Every tensor has two axes (a vector is one row), so that optimiser, checkpoint and files treat
//! all alike. Names are those of Hugging Face's Llama; the order of [`Decoder::parameters`] never
//! changes.

use std::path::Path;

use anyhow::{Context, Result};
use burn::tensor::{Device, Gradients, Tensor};

use crate::model::attention::Attention;
use crate::model::config::ModelConfig;
use crate::model::linear::{Adapter, Linear};
use crate::model::norm::RmsNorm;
use crate::model::{Block, Decoder, FeedForward};
use crate::random::Key;
use crate::weights::{self, NamedTensor, WeightFiles};

/// How a model file holds a tensor that we hold as a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// The same.
    AsIs,
    /// A linear map: `[out, in]` there, `[in, out]` here.
    Transposed,
    /// A vector there, one row here.
    Vector,
}

/// One tensor of the decoder.
pub struct Parameter<'a> {
    /// Its name in model files; an adapter's is its map's name with `.lora_A` or `.lora_B`.
    pub name: String,
    /// How model files hold it.
    pub stored: Stored,
    /// Whether training changes it: all of them, or the adapters alone where there are any.
    pub trained: bool,
    /// The tensor.
    pub tensor: &'a mut Tensor<2>,
}

impl Parameter<'_> {
    /// Its name, shape and numbers as a model file holds them.
    pub fn to_stored(&self) -> Result<(String, Vec<usize>, Vec<f32>)> {
        let tensor = self.tensor.clone();
        let numbers = match self.stored {
            Stored::AsIs | Stored::Vector => read(tensor),
            Stored::Transposed => read(tensor.transpose()),
        };
        Ok((self.name.clone(), self.stored_shape(), numbers?))
    }

    /// Takes the numbers that a model file holds for it, under its name behind this prefix.
    pub fn set_stored(&mut self, files: &WeightFiles, prefix: &str, device: &Device) -> Result<()> {
        let name = format!("{prefix}{}", self.name);
        let numbers = files.read_f32(&name, &self.stored_shape())?;
        *self.tensor = from_stored(&numbers, self.tensor.dims(), self.stored, device);
        Ok(())
    }

    fn stored_shape(&self) -> Vec<usize> {
        let [rows, columns] = self.tensor.dims();
        match self.stored {
            Stored::AsIs => vec![rows, columns],
            Stored::Transposed => vec![columns, rows],
            Stored::Vector => vec![columns],
        }
    }
}

impl Decoder {
    /// Reads a model directory.
    pub fn load(dir: &Path, device: &Device) -> Result<Decoder> {
        let config = ModelConfig::from_dir(dir)?;
        let files = WeightFiles::open(dir)?;
        let mut decoder = Decoder::empty(config, device);
        for mut parameter in decoder.parameters() {
            parameter.set_stored(&files, "", device)?;
        }
        Ok(decoder)
    }

    /// Writes `model.safetensors`, adapters merged, into a directory.
    pub fn save(&self, dir: &Path) -> Result<()> {
        let mut merged = self.merged();
        let parameters = merged.parameters();
        let held: Result<Vec<_>> = parameters.iter().map(Parameter::to_stored).collect();
        let held = held?;
        let tensors: Vec<NamedTensor<'_>> = held
            .iter()
            .map(|(name, shape, numbers)| (name.clone(), shape.clone(), numbers.as_slice()))
            .collect();
        weights::write(dir, &tensors)?;
        Ok(())
    }

    /// All tensors, in a fixed order.
    pub fn parameters(&mut self) -> Vec<Parameter<'_>> {
        let mut list = vec![];
        let embedding = ("model.embed_tokens.weight".to_string(), Stored::AsIs);
        list.push((embedding, &mut self.embedding));
        for (index, block) in self.blocks.iter_mut().enumerate() {
            block.list(&format!("model.layers.{index}"), &mut list);
        }
        list.push((("model.norm.weight".into(), Stored::Vector), &mut self.norm.weight));
        if let Some(head) = &mut self.head {
            head.list("lm_head".into(), &mut list);
        }
        let is_adapter = |name: &str| name.ends_with(".lora_A") || name.ends_with(".lora_B");
        let adapted = list.iter().any(|((name, _), _)| is_adapter(name));
        list.into_iter()
            .map(|((name, stored), tensor)| {
                let trained = is_adapter(&name) == adapted;
                Parameter { name, stored, trained, tensor }
            })
            .collect()
    }

    /// A copy whose trained tensors are the leaves of a new autodiff graph. The numbers are shared.
    pub fn tracked(&self) -> Decoder {
        let mut tracked = self.clone();
        for parameter in tracked.parameters().into_iter().filter(|parameter| parameter.trained) {
            *parameter.tensor = parameter.tensor.clone().inner().autodiff().require_grad();
        }
        tracked
    }

    /// The gradients of a tracked copy's trained tensors, in the order of [`Decoder::parameters`].
    pub fn take_gradients(&mut self, gradients: &mut Gradients) -> Vec<Tensor<2>> {
        let trained = self.parameters().into_iter().filter(|parameter| parameter.trained);
        let take = |parameter: Parameter<'_>| {
            let tensor = parameter.tensor;
            let gradient = tensor.grad_remove(gradients);
            gradient.unwrap_or_else(|| tensor.clone().inner().zeros_like())
        };
        trained.map(take).collect()
    }

    /// Puts a new adapter, which changes nothing yet, on every linear map of the blocks.
    pub fn adapt(&mut self, rank: usize, alpha: f64, key: Key) {
        let mut number = 0;
        for block in &mut self.blocks {
            for linear in block.linears() {
                let [input, output] = linear.weight.dims();
                let init = Adapter::init(input, output, rank, alpha, key.part(number));
                linear.adapter = Some(init.on(&linear.weight.device()));
                number += 1;
            }
        }
    }

    /// A copy without adapters, their changes added to the weights.
    pub fn merged(&self) -> Decoder {
        let mut merged = self.clone();
        for linear in merged.blocks.iter_mut().flat_map(Block::linears) {
            if let Some(adapter) = linear.adapter.take() {
                let change = adapter.a.matmul(adapter.b) * adapter.scale;
                linear.weight = linear.weight.clone() + change;
            }
        }
        merged
    }

    /// A copy without adapters, their changes dropped: the model that training started from.
    pub fn base(&self) -> Decoder {
        let mut base = self.clone();
        for linear in base.blocks.iter_mut().flat_map(Block::linears) {
            linear.adapter = None;
        }
        base
    }

    pub(super) fn empty(config: ModelConfig, device: &Device) -> Decoder {
        let matrix = |rows, columns| Tensor::<2>::empty([rows, columns], device);
        let norm = || RmsNorm { weight: matrix(1, config.hidden), epsilon: config.norm_epsilon };
        let (hidden, inner) = (config.hidden, config.feed_forward);
        let q_width = config.heads * config.head_dim;
        let kv_width = config.kv_heads * config.head_dim;
        let block = || Block {
            attention_norm: norm(),
            attention: Attention {
                q: Linear::new(matrix(hidden, q_width)),
                k: Linear::new(matrix(hidden, kv_width)),
                v: Linear::new(matrix(hidden, kv_width)),
                o: Linear::new(matrix(q_width, hidden)),
                kv_heads: config.kv_heads,
                queries_per_kv: config.queries_per_kv(),
                head_dim: config.head_dim,
            },
            feed_forward_norm: norm(),
            feed_forward: FeedForward {
                gate: Linear::new(matrix(hidden, inner)),
                up: Linear::new(matrix(hidden, inner)),
                down: Linear::new(matrix(inner, hidden)),
            },
        };
        Decoder {
            embedding: matrix(config.vocabulary, hidden),
            blocks: (0..config.layers).map(|_| block()).collect(),
            norm: norm(),
            head: (!config.tied_head).then(|| Linear::new(matrix(hidden, config.vocabulary))),
            config,
        }
    }
}

type Listed<'a> = ((String, Stored), &'a mut Tensor<2>);

impl Block {
    fn list<'a>(&'a mut self, name: &str, list: &mut Vec<Listed<'a>>) {
        let norm = |of: &str| (format!("{name}.{of}.weight"), Stored::Vector);
        list.push((norm("input_layernorm"), &mut self.attention_norm.weight));
        self.attention.q.list(format!("{name}.self_attn.q_proj"), list);
        self.attention.k.list(format!("{name}.self_attn.k_proj"), list);
        self.attention.v.list(format!("{name}.self_attn.v_proj"), list);
        self.attention.o.list(format!("{name}.self_attn.o_proj"), list);
        list.push((norm("post_attention_layernorm"), &mut self.feed_forward_norm.weight));
        self.feed_forward.gate.list(format!("{name}.mlp.gate_proj"), list);
        self.feed_forward.up.list(format!("{name}.mlp.up_proj"), list);
        self.feed_forward.down.list(format!("{name}.mlp.down_proj"), list);
    }

    fn linears(&mut self) -> [&mut Linear; 7] {
        let (attention, feed) = (&mut self.attention, &mut self.feed_forward);
        [
            &mut attention.q,
            &mut attention.k,
            &mut attention.v,
            &mut attention.o,
            &mut feed.gate,
            &mut feed.up,
            &mut feed.down,
        ]
    }
}

impl Linear {
    fn list<'a>(&'a mut self, name: String, list: &mut Vec<Listed<'a>>) {
        list.push(((format!("{name}.weight"), Stored::Transposed), &mut self.weight));
        if let Some(adapter) = &mut self.adapter {
            list.push(((format!("{name}.lora_A"), Stored::Transposed), &mut adapter.a));
            list.push(((format!("{name}.lora_B"), Stored::Transposed), &mut adapter.b));
        }
    }
}

/// Puts numbers in a file's order on a device as the matrix that we hold.
pub fn from_stored(
    numbers: &[f32],
    [rows, columns]: [usize; 2],
    stored: Stored,
    device: &Device,
) -> Tensor<2> {
    let flat = Tensor::<1>::from_floats(numbers, device);
    match stored {
        Stored::AsIs | Stored::Vector => flat.reshape([rows, columns]),
        // Copied into our order once, here, rather than read against the grain in every product.
        Stored::Transposed => {
            let transposed = flat.reshape([columns, rows]).transpose();
            transposed.zeros_like().slice_assign([0..rows, 0..columns], transposed)
        }
    }
}

/// The numbers of a tensor, row after row.
pub fn read(tensor: Tensor<2>) -> Result<Vec<f32>> {
    tensor.inner().try_into_vec_as::<f32>().context("cannot read a tensor from the device")
}
