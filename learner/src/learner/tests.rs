//! The learner as a whole: sampler and scores agree, it learns, it resumes exactly, it saves what
//! it is.

use burn::tensor::Device;

use super::{Learner, LearnerConfig};
use crate::conversation::{Action, Ending, Group, Message, PlayedTurn, Task, Trajectory};
use crate::grpo::advantage::Advantage;
use crate::grpo::loss::LossConfig;
use crate::optimizer::OptimizerConfig;
use crate::sampling::tests::{Tiny, prompt};
use crate::sampling::{Request, SamplerConfig};

const CHOICES: [&str; 4] = ["1", "2", "3", "4"];

fn config() -> LearnerConfig {
    LearnerConfig {
        learning_rate: 3e-3,
        warmup_updates: 0,
        updates: None,
        minibatches: 1,
        advantage: Advantage::GroupStd,
        loss: LossConfig { clip_low: 0.2, clip_high: 0.28, kl: 0.0 },
        optimizer: OptimizerConfig::default(),
        adapter_rank: 0,
        adapter_alpha: 16.0,
        seed: 1,
    }
}

fn load(tiny: &Tiny, config: LearnerConfig) -> Learner {
    Learner::load(&tiny.dir(), &Device::flex(), config).unwrap()
}

/// A learner with a narrower head: the tiny policy's own prefers some answers from the start, and
/// equal answers teach nothing.
fn undecided(tiny: &Tiny, config: LearnerConfig, width: f32) -> Learner {
    let mut learner = load(tiny, config);
    learner.decoder.embedding.inplace(|embedding| embedding * width);
    learner
}

fn trajectory(episode: u64, reward: f64) -> Trajectory {
    Trajectory {
        episode,
        environment: "toy".into(),
        component: String::new(),
        task: Task { split: "train".into(), index: 0, seed: 0, config: "{}".into() },
        policy_seed: episode,
        turns: vec![],
        ending: Ending::Terminated,
        rewards: [("x".to_string(), reward)].into(),
        rows: vec![],
    }
}

/// A group of 16 answers to one question; the answer "3" earns 1.
fn group(learner: &Learner, temperature: f32, round: u64) -> Group {
    let config = SamplerConfig { temperature, max_tokens: 4, context: None };
    let mut sampler = learner.sampler(config);
    let prompt = prompt("Which of them?", &CHOICES);
    let request = |episode| Request { episode, seed: round * 100 + episode, prompt: &prompt };
    let requests: Vec<Request<'_>> = (0..16).map(request).collect();
    let answers = sampler.answer(&requests).unwrap();
    let trajectories = answers.into_iter().zip(0..).map(|(answer, episode)| {
        let reward = f64::from(u8::from(answer.unwrap().content == "3"));
        Trajectory { rows: sampler.finish(episode), ..trajectory(episode, reward) }
    });
    Group { trajectories: trajectories.collect() }
}

fn mean_reward(group: &Group) -> f64 {
    let rewards = group.trajectories.iter().map(|trajectory| trajectory.rewards["x"]);
    rewards.sum::<f64>() / group.trajectories.len() as f64
}

/// Traps 5 and 6: at the temperature used, what was sampled and what is scored are one
/// distribution, after every update again.
#[test]
fn trap_06_sampled_and_scored_logprobs_agree_at_any_temperature() {
    let tiny = Tiny::new(1);
    for (temperature, adapter_rank) in [(0.6, 0), (1.7, 4)] {
        let mut learner = undecided(&tiny, LearnerConfig { adapter_rank, ..config() }, 0.3);
        for round in 0..3 {
            let metrics = learner.update(&[group(&learner, temperature, round)]).unwrap();
            assert!(metrics.sampler_gap_max < 1e-4, "{metrics:?}");
            assert_eq!((metrics.ratio_max, metrics.clip_fraction), (1.0, 0.0));
            assert_eq!((metrics.policy_version, metrics.scored_tokens), (round + 1, 16));
        }
    }
}

#[test]
fn what_is_rewarded_becomes_likely() {
    let tiny = Tiny::new(2);
    for adapter_rank in [0, 4] {
        let mut learner = undecided(&tiny, LearnerConfig { adapter_rank, ..config() }, 0.5);
        assert!(mean_reward(&group(&learner, 1.0, 0)) < 0.7);
        for round in 1..25 {
            learner.update(&[group(&learner, 1.0, round)]).unwrap();
        }
        let after = mean_reward(&group(&learner, 1.0, 1000));
        assert!(after > 0.9, "rank {adapter_rank}: {after}");
    }
}

/// Invariant 11: N + M updates are N, a checkpoint, a new process, and M, bit for bit.
#[test]
fn a_resumed_learner_goes_on_exactly() {
    let tiny = Tiny::new(3);
    let kl = LossConfig { kl: 0.05, ..config().loss };
    for config in
        [config(), LearnerConfig { adapter_rank: 4, loss: kl, minibatches: 2, ..config() }]
    {
        let mut straight = load(&tiny, config.clone());
        for round in 0..2 {
            straight.update(&[group(&straight, 1.0, round)]).unwrap();
        }
        let checkpoint = tiny.home.path().join(format!("checkpoint-{}", config.adapter_rank));
        straight.save_checkpoint(&checkpoint).unwrap();
        assert!(straight.save_checkpoint(&checkpoint).is_err(), "nothing is overwritten");
        let mut resumed = Learner::resume(&checkpoint, &Device::flex(), config.clone()).unwrap();
        for round in 2..4 {
            let groups = [group(&straight, 1.0, round)];
            assert_eq!(groups, [group(&resumed, 1.0, round)]);
            let (mut a, mut b) =
                (straight.update(&groups).unwrap(), resumed.update(&groups).unwrap());
            (a.seconds, b.seconds) = (0.0, 0.0);
            assert_eq!(a, b);
        }
        let other = LearnerConfig { adapter_rank: 7, ..config };
        let error = Learner::resume(&checkpoint, &Device::flex(), other).err().unwrap().to_string();
        assert!(error.contains("adapter_rank"), "{error}");
    }
}

#[test]
fn a_saved_policy_is_a_policy_and_answers_alike() {
    let tiny = Tiny::new(4);
    let mut learner = load(&tiny, LearnerConfig { adapter_rank: 4, ..config() });
    for round in 0..3 {
        learner.update(&[group(&learner, 1.0, round)]).unwrap();
    }
    let dir = tiny.home.path().join("saved");
    learner.save_policy(&dir).unwrap();
    let saved = Learner::load(&dir, &Device::flex(), config()).unwrap();
    let contents = |group: Group| -> Vec<Vec<u32>> {
        group.trajectories.into_iter().map(|trajectory| trajectory.rows[0].tokens.clone()).collect()
    };
    assert_eq!(contents(group(&learner, 1.0, 9)), contents(group(&saved, 1.0, 9)));
}

/// Trap 16: updates from nothing, or from groups that teach nothing, change nothing.
#[test]
fn groups_without_spread_change_nothing() {
    let tiny = Tiny::new(5);
    let mut learner = load(&tiny, config());
    let mut even = group(&learner, 1.0, 0);
    for trajectory in &mut even.trajectories {
        trajectory.rewards.insert("x".into(), 0.1);
    }
    let before = group(&learner, 1.0, 1);
    for groups in [vec![], vec![even]] {
        let metrics = learner.update(&groups).unwrap();
        assert_eq!((metrics.groups_zero_variance, metrics.policy_version), (groups.len(), 0));
        assert!(metrics.loss == 0.0 && metrics.grad_norm == 0.0);
    }
    assert_eq!(group(&learner, 1.0, 1), before);
}

#[test]
fn a_warm_start_learns_the_experts_answers() {
    let tiny = Tiny::new(6);
    let mut learner = load(&tiny, config());
    let turn = |content: &str| PlayedTurn {
        prompts: vec![prompt("Which of them?", &CHOICES)],
        actions: vec![Action { agent: "x".into(), message: Message::assistant(content) }],
        rewards: vec![],
        success: None,
        metrics: [].into(),
        fuel: 0,
    };
    let episodes: Vec<Trajectory> = (0..64)
        .map(|episode| Trajectory { turns: vec![turn("4"), turn("2")], ..trajectory(episode, 1.0) })
        .collect();
    let metrics = learner.warm_start(&episodes, 25, 3e-3).unwrap();
    assert_eq!((metrics.rows, metrics.scored_tokens, metrics.steps), (64, 64 * 4, 25));
    assert!(metrics.loss_last < 0.5 && metrics.loss_first > 2.0, "{metrics:?}");
    let answered = group(&learner, 1.0, 0);
    let fours = answered.trajectories.iter().filter(|trajectory| {
        let row = &trajectory.rows[0];
        tiny.chat.tokenizer.decode(&row.tokens[row.spans[0].start..]).unwrap().starts_with('4')
    });
    assert!(fours.count() >= 12);
}
