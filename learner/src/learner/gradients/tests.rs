//! Gradients against finite differences, and against other ways of cutting the same batch.

use burn::tensor::Tensor;

use super::{Accumulated, Objective, policy_gradient};
use crate::grpo::batch::{Batch, BatchRow, Scored};
use crate::grpo::loss::LossConfig;
use crate::model::{Decoder, toy};
use crate::optimizer::{AdamW, OptimizerConfig};
use crate::random::Key;

const VERSION: u64 = 3;

/// Rows of these lengths; all but the first two tokens of each are scored, half under a constraint.
fn batch(lengths: &[usize]) -> Batch {
    let row = |(index, &length): (usize, &usize)| {
        let key = Key::new(40 + index as u64);
        let tokens = toy::tokens(length, key);
        let scored = (2..length).map(|position| Scored {
            predicted_at: position - 1,
            token: tokens[position],
            allowed: position.is_multiple_of(2).then(|| (tokens[position]..24).collect()),
            sampled_logprob: -1.2 - 0.3 * key.normal(position as u64) as f32,
            // Two policy versions old: the ratio is not 1.
            policy_version: VERSION - 2,
            advantage: key.normal(100 + position as u64) as f32,
        });
        BatchRow { scored: scored.filter(|token| token.token < 23).collect(), tokens }
    };
    let rows = lengths.iter().enumerate().map(row).collect();
    Batch { rows, temperature: 0.8, ..Batch::default() }
}

fn gradient(decoder: &Decoder, batch: &Batch, micro_batch_tokens: usize) -> Accumulated {
    // Clipping so wide that the loss is smooth where differences are taken.
    let loss = LossConfig { clip_low: 0.99, clip_high: 1e6, kl: 0.3 };
    let reference = toy::decoder(9);
    let reference = Some(&reference);
    let objective = Objective { loss, reference, policy_version: VERSION, micro_batch_tokens };
    policy_gradient(decoder, batch, &objective).unwrap()
}

/// Central differences of the loss at a few numbers of every trained tensor.
fn check_by_differences(decoder: &Decoder) {
    let batch = batch(&[7, 9]);
    let found = gradient(decoder, &batch, 1000);
    let mut decoder = decoder.clone();
    let count = found.gradients.len();
    for index in 0..count {
        let gradients = toy::numbers(found.gradients[index].clone());
        let shape = found.gradients[index].dims();
        for at in [0, gradients.len() / 2, gradients.len() - 1] {
            let loss_at = |step: f32| {
                let mut change = vec![0.0; gradients.len()];
                change[at] = step;
                let change = Tensor::<1>::from_floats(change.as_slice(), &burn_device());
                let change = change.reshape(shape);
                let mut moved = decoder.clone();
                let mut trained =
                    moved.parameters().into_iter().filter(|parameter| parameter.trained);
                let parameter = trained.nth(index).unwrap();
                *parameter.tensor = parameter.tensor.clone() + change;
                drop(trained);
                gradient(&moved, &batch, 1000).loss
            };
            let step = 5e-3;
            let difference = (loss_at(step) - loss_at(-step)) / (2.0 * f64::from(step));
            let found = f64::from(gradients[at]);
            let tolerance = 1e-3 + 0.02 * found.abs().max(difference.abs());
            assert!(
                (difference - found).abs() < tolerance,
                "{index} at {at}: {found} {difference}"
            );
        }
    }
    let moved = found.gradients.iter().filter(|gradient| {
        toy::numbers((*gradient).clone()).iter().any(|number| number.abs() > 1e-6)
    });
    assert_eq!(moved.count(), count, "every trained tensor gets a gradient");
    assert_eq!(decoder.parameters().iter().filter(|parameter| parameter.trained).count(), count);
}

fn burn_device() -> burn::tensor::Device {
    burn::tensor::Device::flex()
}

#[test]
fn full_gradients_agree_with_finite_differences() {
    check_by_differences(&toy::decoder(1));
}

#[test]
fn adapter_gradients_agree_with_finite_differences() {
    let mut decoder = toy::decoder(1);
    decoder.adapt(2, 4.0, Key::new(2));
    for (index, parameter) in decoder.parameters().into_iter().enumerate() {
        if parameter.name.ends_with(".lora_B") {
            let dims = parameter.tensor.dims();
            *parameter.tensor = toy::random(dims, Key::new(3).part(index as u64), 0.3);
        }
    }
    check_by_differences(&decoder);
}

/// Traps 15 and 29: one pass, one row at a time, and ragged parts give the same gradient and
/// metrics.
#[test]
fn trap_15_micro_batches_add_up_to_the_whole() {
    let decoder = toy::decoder(2);
    let batch = batch(&[4, 12, 7, 7, 9, 3, 12, 5]);
    let whole = gradient(&decoder, &batch, 10_000);
    for micro_batch_tokens in [1, 20, 37] {
        let parts = gradient(&decoder, &batch, micro_batch_tokens);
        for (whole, part) in whole.gradients.iter().zip(&parts.gradients) {
            let gap = toy::gap(&toy::numbers(whole.clone()), &toy::numbers(part.clone()));
            assert!(gap < 1e-6, "{gap}");
        }
        assert!((whole.kl - parts.kl).abs() < 1e-4 * whole.kl, "{} {}", whole.kl, parts.kl);
        assert!((whole.loss - parts.loss).abs() < 1e-6);
    }
}

/// Trap 5 on the whole path: this version's own tokens have ratio exactly 1, whatever rounding did.
#[test]
fn trap_05_tokens_of_the_present_version_have_ratio_one() {
    let mut batch = batch(&[6, 8]);
    let mut expected = 0.0;
    for token in batch.rows.iter_mut().flat_map(|row| &mut row.scored) {
        token.policy_version = VERSION;
        expected -= f64::from(token.advantage);
    }
    expected /= batch.scored_tokens() as f64;
    let loss = LossConfig { clip_low: 0.0, clip_high: 0.0, kl: 0.0 };
    let objective =
        Objective { loss, reference: None, policy_version: VERSION, micro_batch_tokens: 100 };
    let found = policy_gradient(&toy::decoder(1), &batch, &objective).unwrap();
    assert_eq!((found.ratio_max, found.clipped, found.kl), (1.0, 0.0, 0.0));
    assert!((found.loss - expected).abs() < 1e-6);
    assert!(found.sampler_gap_max > 0.1, "the made-up sampled log-probabilities are seen as wrong");
}

/// A row without advantage is not run, and yet counts in the mean.
#[test]
fn rows_without_advantage_only_count() {
    let decoder = toy::decoder(1);
    let mut with = batch(&[6, 8]);
    with.rows[1].scored.iter_mut().for_each(|token| token.advantage = 0.0);
    let mut without = with.clone();
    without.rows.truncate(1);
    let share = without.scored_tokens() as f64 / with.scored_tokens() as f64;
    let loss = LossConfig { clip_low: 0.2, clip_high: 0.28, kl: 0.0 };
    let objective =
        Objective { loss, reference: None, policy_version: VERSION, micro_batch_tokens: 100 };
    let [with, without] =
        [with, without].map(|batch| policy_gradient(&decoder, &batch, &objective));
    let (with, without) = (with.unwrap(), without.unwrap());
    assert!((with.loss - without.loss * share).abs() < 1e-6);
    for (with, without) in with.gradients.into_iter().zip(without.gradients) {
        assert!(toy::gap(&toy::numbers(with), &toy::numbers(without * share)) < 1e-6);
    }
}

/// Trap 16: a batch in which nothing is scored has no gradient, and no NaN.
#[test]
fn trap_16_nothing_to_score_is_no_gradient() {
    let found = gradient(&toy::decoder(1), &batch(&[]), 100);
    assert!(found.gradients.is_empty() && found.loss == 0.0);
}

/// Trap 28: weights, moments and loss are f32: a step of 1e-6 on a weight near 1 is not lost.
#[test]
fn trap_28_small_steps_survive() {
    let mut decoder = toy::decoder(1);
    let before = toy::numbers(decoder.norm.weight.clone());
    let gradients =
        decoder.parameters().iter().map(|parameter| parameter.tensor.ones_like()).collect();
    let mut optimizer = AdamW::new(OptimizerConfig::default());
    optimizer.step(&mut decoder, gradients, 1e-6).unwrap();
    let after = toy::numbers(decoder.norm.weight.clone());
    assert!(before.iter().zip(&after).all(|(before, after)| before - after > 5e-7));
}
