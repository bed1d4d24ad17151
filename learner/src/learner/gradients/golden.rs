//! Logits, log-probabilities and gradients against those of transformers on the same weights; the
//! files are made by `tests/interop/golden.py`.

use std::path::{Path, PathBuf};

use burn::tensor::Device;
use safetensors::SafeTensors;

use super::likelihood_gradient;
use crate::grpo::batch::{Batch, BatchRow, Scored};
use crate::grpo::score::score;
use crate::model::cache::Cache;
use crate::model::parameters::from_stored;
use crate::model::{Decoder, Extension, toy};

struct Golden {
    decoder: Decoder,
    bytes: Vec<u8>,
    /// The rows without their padding.
    rows: Vec<Vec<u32>>,
    time: usize,
}

fn golden(name: &str) -> Golden {
    let dir: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden").join(name);
    let bytes = std::fs::read(dir.join("golden.safetensors")).unwrap();
    let decoder = Decoder::load(&dir, &Device::flex()).unwrap();
    let mut golden = Golden { decoder, bytes, rows: vec![], time: 0 };
    let (ids, shape) = golden.integers("input_ids");
    let (mask, _) = golden.integers("attention_mask");
    golden.time = shape[1];
    for (ids, mask) in ids.chunks(shape[1]).zip(mask.chunks(shape[1])) {
        let length = mask.iter().sum::<i64>() as usize;
        golden.rows.push(ids[..length].iter().map(|&id| id as u32).collect());
    }
    golden
}

impl Golden {
    fn floats(&self, name: &str) -> Vec<f32> {
        let file = SafeTensors::deserialize(&self.bytes).unwrap();
        let bytes = file.tensor(name).unwrap().data().to_vec();
        bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    }

    fn integers(&self, name: &str) -> (Vec<i64>, Vec<usize>) {
        let file = SafeTensors::deserialize(&self.bytes).unwrap();
        let tensor = file.tensor(name).unwrap();
        let numbers = tensor.data().chunks_exact(8);
        let numbers = numbers.map(|b| i64::from_le_bytes(b.try_into().unwrap()));
        (numbers.collect(), tensor.shape().to_vec())
    }

    /// All tokens but each row's first, scored over the whole vocabulary.
    fn batch(&self) -> Batch {
        let row = |tokens: &Vec<u32>| BatchRow {
            tokens: tokens.clone(),
            scored: (1..tokens.len())
                .map(|position| Scored {
                    predicted_at: position - 1,
                    token: tokens[position],
                    allowed: None,
                    sampled_logprob: 0.0,
                    policy_version: 0,
                    advantage: 1.0,
                })
                .collect(),
        };
        Batch { rows: self.rows.iter().map(row).collect(), temperature: 1.0, ..Batch::default() }
    }
}

fn check(name: &str) {
    let golden = golden(name);
    let vocabulary = golden.decoder.config.vocabulary;
    let expected = golden.floats("logits");
    for (row, tokens) in golden.rows.iter().enumerate() {
        let found = golden.decoder.logits(golden.decoder.forward(tokens, 1));
        let found = toy::numbers(found);
        let start = row * golden.time * vocabulary;
        let gap = toy::gap(&found, &expected[start..start + found.len()]);
        assert!(gap < 1e-4, "{name}, row {row}: logits differ by {gap}");
    }
    check_cached(&golden, name);
    check_gradients(&golden, name);
}

fn check_cached(golden: &Golden, name: &str) {
    let tokens = &golden.rows[0];
    let device = golden.decoder.embedding.device();
    let mut cache = Cache::new(&golden.decoder.config, 1, tokens.len(), &device);
    let mut found = vec![];
    for position in 0..tokens.len() {
        let step = [&tokens[position..=position]];
        let rows = Extension { slots: &[0], starts: &[position], tokens: &step };
        let hidden = golden.decoder.extend(&mut cache, &rows);
        found.extend(toy::numbers(golden.decoder.logits(hidden)));
    }
    let gap = toy::gap(&found, &golden.floats("step/logits"));
    assert!(gap < 1e-4, "{name}: cached logits differ by {gap}");
}

fn check_gradients(golden: &Golden, name: &str) {
    let batch = golden.batch();
    let expected = golden.floats("logprobs");
    for (row, tokens) in batch.rows.iter().enumerate() {
        let alone = Batch { rows: vec![tokens.clone()], temperature: 1.0, ..Batch::default() };
        let found = score(&golden.decoder, &alone.micro_batches(1, |_| true)[0], 1.0);
        let found = toy::numbers(found);
        let start = row * golden.time + 1;
        assert!(toy::gap(&found, &expected[start..start + found.len()]) < 1e-4);
    }
    let found = likelihood_gradient(&golden.decoder, &batch).unwrap();
    assert!((found.loss - f64::from(golden.floats("loss")[0])).abs() < 1e-5);
    let file = SafeTensors::deserialize(&golden.bytes).unwrap();
    let mut checked = 0;
    let mut decoder = golden.decoder.clone();
    for (parameter, gradient) in decoder.parameters().into_iter().zip(found.gradients) {
        let stored = format!("grad/{}", parameter.name);
        if file.tensor(&stored).is_err() {
            continue;
        }
        let expected = from_stored(
            &golden.floats(&stored),
            gradient.dims(),
            parameter.stored,
            &Device::flex(),
        );
        let expected = toy::numbers(expected);
        let scale = expected.iter().fold(0.0f32, |most, number| most.max(number.abs()));
        let gap = toy::gap(&toy::numbers(gradient), &expected);
        assert!(gap < 1e-4 * scale.max(0.1), "{name}, {stored}: {gap} of {scale}");
        checked += 1;
    }
    assert_eq!(checked, 6, "all golden gradients have a parameter");
}

#[test]
fn a_tied_grouped_query_llama_equals_transformers() {
    check("llama-tied");
}

#[test]
fn an_untied_llama_equals_transformers() {
    check("llama-untied");
}
