//! The known ways of getting GRPO wrong (shared/facts/peers.md, section 6), each as a test with its
//! number. Traps 1–4 are tested in `advantage`, 7 in `sampling::draw`, 8 and 26 in `model`, 15, 16
//! and 29 in `learner`.

use std::collections::BTreeMap;

use burn::tensor::{Device, Tensor};

use crate::conversation::{
    Blame, Ending, FaultRecord, Group, SampledSpan, Task, TokenRow, Trajectory,
};
use crate::grpo::advantage::Advantage;
use crate::grpo::batch::Batch;
use crate::grpo::loss::{LossConfig, LossInputs, policy_loss};
use crate::grpo::score::score;
use crate::model::toy;

const CLIP: LossConfig = LossConfig { clip_low: 0.2, clip_high: 0.28, kl: 0.0 };

fn vector(numbers: &[f32]) -> Tensor<1> {
    Tensor::from_floats(numbers, &Device::flex())
}

/// The loss of these tokens and its gradient by their log-probabilities.
fn loss_and_gradient(
    new: &[f32],
    old: &[f32],
    advantages: &[f32],
    reference: Option<&[f32]>,
    config: LossConfig,
) -> (f32, Vec<f32>) {
    let logprobs = vector(new).autodiff().require_grad();
    let inputs = LossInputs {
        logprobs: logprobs.clone(),
        old_logprobs: vector(old),
        reference_logprobs: reference.map(vector),
        advantages: vector(advantages),
    };
    let loss = policy_loss(inputs, config, new.len()).loss;
    let gradient = logprobs.grad(&loss.backward()).unwrap();
    (toy::numbers(loss)[0], toy::numbers(gradient))
}

fn row(agent: &str, tokens: Vec<u32>, spans: &[(usize, usize)]) -> TokenRow {
    let span = |&(start, length): &(usize, usize)| SampledSpan {
        start,
        logprobs: vec![-1.0; length],
        allowed: vec![None; length],
        policy_version: 0,
    };
    TokenRow {
        agent: agent.into(),
        tokens,
        spans: spans.iter().map(span).collect(),
        temperature: 1.0,
    }
}

fn trajectory(reward: f64, ending: Ending, rows: Vec<TokenRow>) -> Trajectory {
    let task = Task { split: "train".into(), index: 0, seed: 0, config: "{}".into() };
    Trajectory {
        episode: 0,
        environment: "toy".into(),
        component: String::new(),
        task,
        policy_seed: 0,
        turns: vec![],
        ending,
        rewards: BTreeMap::from([("x".to_string(), reward)]),
        rows,
    }
}

fn batch(trajectories: Vec<Trajectory>) -> Batch {
    Batch::from_groups(&[Group { trajectories }], Advantage::GroupStd).unwrap()
}

/// Trap 5: where old and new are the same, the loss is −mean A and the gradient is REINFORCE's.
#[test]
fn trap_05_on_policy_ratio_is_exactly_one() {
    let logprobs = [-0.1f32, -2.3, -0.7];
    let advantages = [1.0f32, -2.0, 0.5];
    let kl = LossConfig { kl: 0.1, ..CLIP };
    for config in [CLIP, kl] {
        let (loss, gradient) =
            loss_and_gradient(&logprobs, &logprobs, &advantages, Some(&logprobs), config);
        assert_eq!(loss, -(1.0 - 2.0 + 0.5) / 3.0);
        assert_eq!(gradient, advantages.map(|advantage| -advantage / 3.0));
    }
    let inputs = LossInputs {
        logprobs: vector(&logprobs),
        old_logprobs: vector(&logprobs),
        reference_logprobs: None,
        advantages: vector(&advantages),
    };
    let loss = policy_loss(inputs, CLIP, 3);
    let found = [loss.clipped, loss.kl, loss.ratio_max].map(|tensor| toy::numbers(tensor)[0]);
    assert_eq!(found, [0.0, 0.0, 1.0]);
}

/// Trap 10: the stop id that was sampled is scored once; a truncated answer has none; nothing after
/// it is.
#[test]
fn trap_10_stop_ids_are_scored_where_they_were_sampled() {
    let stop = 2;
    let stopped = row("x", vec![7, 8, 5, stop, 7, 9, stop], &[(2, 2), (6, 1)]);
    let truncated = row("x", vec![7, 8, 5, 6, stop, 7], &[(2, 2)]);
    let batch = batch(vec![
        trajectory(1.0, Ending::Terminated, vec![stopped]),
        trajectory(0.0, Ending::Terminated, vec![truncated]),
    ]);
    let scored = |row: usize| -> Vec<(usize, u32)> {
        let scored = &batch.rows[row].scored;
        scored.iter().map(|token| (token.predicted_at, token.token)).collect()
    };
    assert_eq!(scored(0), [(1, 5), (2, stop), (5, stop)]);
    assert_eq!(scored(1), [(1, 5), (2, 6)]);
}

/// Trap 9: padding has id 0; a sampled id 0 is scored all the same, and padding never is.
#[test]
fn trap_09_the_mask_does_not_come_from_token_values() {
    let long = row("x", vec![3, 4, 5, 6, 7, 8], &[(4, 2)]);
    let short = row("x", vec![3, 0, 0], &[(2, 1)]);
    let batch = batch(vec![
        trajectory(1.0, Ending::Terminated, vec![long]),
        trajectory(0.0, Ending::Terminated, vec![short]),
    ]);
    let micro_batches = batch.micro_batches(1000, |_| true);
    let scored: Vec<u32> = micro_batches[0].scored.iter().map(|token| token.token).collect();
    assert_eq!((micro_batches.len(), scored), (1, vec![0, 7, 8]));
}

/// Trap 11: a decoder that is a bigram table scores each token from the one before it.
#[test]
fn trap_11_a_token_is_scored_by_the_position_before_it() {
    let mut decoder = toy::decoder(1);
    for parameter in decoder.parameters() {
        if parameter.name.ends_with("o_proj.weight") || parameter.name.ends_with("down_proj.weight")
        {
            *parameter.tensor = parameter.tensor.zeros_like();
        }
    }
    let table = toy::numbers(decoder.logits(decoder.forward(&[3, 5, 7], 3)));
    let logprob = |row: usize, token: usize| {
        let row = &table[row * toy::VOCABULARY..(row + 1) * toy::VOCABULARY];
        row[token] - row.iter().map(|logit| logit.exp()).sum::<f32>().ln()
    };
    let batch = batch(vec![
        trajectory(1.0, Ending::Terminated, vec![row("x", vec![3, 5, 7, 9], &[(1, 3)])]),
        trajectory(0.0, Ending::Terminated, vec![]),
    ]);
    let scores = score(&decoder, &batch.micro_batches(100, |_| true)[0], 1.0);
    let expected = [logprob(0, 5), logprob(1, 7), logprob(2, 9)];
    assert!(toy::gap(&toy::numbers(scores), &expected) < 1e-5);
}

/// Trap 12: tokens that the environment wrote change neither the count nor what is scored.
#[test]
fn trap_12_observation_tokens_are_not_scored() {
    let plain = row("x", vec![3, 4, 5], &[(1, 2)]);
    let observed = row("x", vec![3, 4, 5, 9, 9, 9, 9], &[(1, 2)]);
    for rows in [vec![plain.clone()], vec![observed]] {
        let batch = batch(vec![
            trajectory(1.0, Ending::Terminated, rows),
            trajectory(0.0, Ending::Terminated, vec![plain.clone()]),
        ]);
        assert_eq!(batch.scored_tokens(), 4);
        let scores = score(&toy::decoder(2), &batch.micro_batches(14, |_| true)[0], 1.0);
        assert_eq!(toy::numbers(scores).len(), 4);
    }
}

/// Trap 14: the mean is over tokens: a row of 30 weighs three times one of 10.
#[test]
fn trap_14_every_token_weighs_the_same() {
    let advantages: Vec<f32> = [vec![1.0; 10], vec![-1.0; 30]].concat();
    let logprobs = vec![-1.0; 40];
    let (loss, gradient) = loss_and_gradient(&logprobs, &logprobs, &advantages, None, CLIP);
    assert!((loss - 0.5).abs() < 1e-6, "{loss}");
    assert!(gradient.iter().all(|gradient| (gradient.abs() - 1.0 / 40.0).abs() < 1e-8));
}

/// Trap 19: the clip cuts a gain off above for A > 0 and below for A < 0, and nothing else.
#[test]
fn trap_19_the_clip_is_one_sided_and_asymmetric() {
    // (ratio, advantage, loss, gradient by the log-probability)
    let table = [
        (1.25f32, 1.0f32, -1.25f32, -1.25f32),
        (1.5, 1.0, -1.28, 0.0),
        (0.5, 1.0, -0.5, -0.5),
        (0.9, -1.0, 0.9, 0.9),
        (0.5, -1.0, 0.8, 0.0),
        (1.5, -1.0, 1.5, 1.5),
    ];
    for (ratio, advantage, expected_loss, expected_gradient) in table {
        let (loss, gradient) = loss_and_gradient(&[ratio.ln()], &[0.0], &[advantage], None, CLIP);
        assert!((loss - expected_loss).abs() < 1e-6, "{ratio} {advantage}: {loss}");
        assert!(
            (gradient[0] - expected_gradient).abs() < 1e-6,
            "{ratio} {advantage}: {gradient:?}"
        );
    }
}

/// k3 by hand: d = ln 2 gives 2 − ln 2 − 1, its gradient is 1 − e^d.
#[test]
fn the_divergence_is_k3() {
    let config = LossConfig { kl: 0.5, ..CLIP };
    let two = 2.0f32.ln();
    let (loss, gradient) = loss_and_gradient(&[-two], &[-two], &[0.0], Some(&[0.0]), config);
    assert!((loss - 0.5 * (1.0 - two)).abs() < 1e-6, "{loss}");
    assert!((gradient[0] - 0.5 * (1.0 - 2.0)).abs() < 1e-6, "{gradient:?}");
}

/// Trap 30: a failed episode is counted with its reason, and the rest of its group trains without
/// it.
#[test]
fn trap_30_failures_are_counted_and_leave_the_group() {
    let answer = || vec![row("x", vec![3, 4], &[(1, 1)])];
    let fault = FaultRecord {
        blame: Blame::Guest,
        kind: "fuel".into(),
        message: "spent".into(),
        log: vec![],
    };
    let batch = batch(vec![
        trajectory(1.0, Ending::Terminated, answer()),
        trajectory(0.0, Ending::Terminated, answer()),
        trajectory(-9.0, Ending::Failed(fault), answer()),
    ]);
    assert_eq!(batch.dropped, BTreeMap::from([("failed-guest-fuel".to_string(), 1)]));
    let advantages: Vec<f32> = batch.rows.iter().map(|row| row.scored[0].advantage).collect();
    let expected = std::f32::consts::FRAC_1_SQRT_2;
    assert!(toy::gap(&advantages, &[expected, -expected]) < 1e-4, "{advantages:?}");
}

/// What a constraint forced is not scored; what it left open is scored among what it allowed.
#[test]
fn forced_tokens_are_not_scored_and_constraints_renormalise() {
    let mut constrained = row("x", vec![3, 4, 6], &[(1, 2)]);
    constrained.spans[0].allowed = vec![Some(vec![4, 8]), Some(vec![6])];
    let batch = batch(vec![
        trajectory(1.0, Ending::Terminated, vec![constrained]),
        trajectory(0.0, Ending::Terminated, vec![]),
    ]);
    assert_eq!(batch.scored_tokens(), 1);
    let decoder = toy::decoder(3);
    let scores = score(&decoder, &batch.micro_batches(100, |_| true)[0], 1.0);
    let logits = toy::numbers(decoder.logits(decoder.forward(&[3], 1)));
    let difference = logits[4] - logits[8];
    let expected = -(1.0 + (-difference).exp()).ln();
    assert!((toy::numbers(scores)[0] - expected).abs() < 1e-5);
}
