//! What is played depends on the specs and the policy alone: not on threads, nor on what is played
//! beside it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use art_host::component::Component;
use art_host::episode::{EpisodeSpec, digest};
use art_host::examples;
use art_host::limits::Limits;
use art_host::policy::{Ask, Expert, Policy, PolicyError, Random, Scripted};
use art_host::reward::RewardWeights;
use art_host::rollout::rollout;
use art_learner::conversation::{Message, Task, TokenRow, Trajectory};

use crate::sandbox::tight;

/// A guest that misbehaves as its config says.
pub(crate) const HOSTILE: &[u8] = include_bytes!("../guests/hostile/hostile.wasm");

/// Episodes with a task each.
pub(crate) fn specs(count: u64, seed: u64, config: &str) -> Vec<EpisodeSpec> {
    let spec = |episode: u64| EpisodeSpec {
        episode,
        task: Task {
            split: "train".into(),
            index: episode,
            seed: 1_000_000 * seed + episode,
            config: config.into(),
        },
        policy_seed: 7_000_000 * seed + episode,
    };
    (0..count).map(spec).collect()
}

/// Plays at random.
pub(crate) fn play(
    component: &Component,
    limits: &Limits,
    specs: &[EpisodeSpec],
    concurrency: usize,
    threads: usize,
) -> Vec<Trajectory> {
    play_with(component, limits, specs, concurrency, threads, &mut Random)
}

fn play_with(
    component: &Component,
    limits: &Limits,
    specs: &[EpisodeSpec],
    concurrency: usize,
    threads: usize,
    policy: &mut dyn Policy,
) -> Vec<Trajectory> {
    let (weights, stop) = (RewardWeights::default(), AtomicBool::new(false));
    let (component, limits) = (component, limits);
    rollout(component, limits, &weights, specs, concurrency, threads, policy, &stop).unwrap()
}

fn tictactoe() -> Component {
    let bytes = examples::find("tictactoe").unwrap();
    Component::load("tictactoe", bytes, &Limits::default()).unwrap()
}

fn digests(trajectories: &[Trajectory]) -> Vec<String> {
    trajectories.iter().map(digest).collect()
}

fn endings(trajectories: &[Trajectory]) -> BTreeMap<String, usize> {
    let mut endings = BTreeMap::new();
    for trajectory in trajectories {
        *endings.entry(trajectory.ending.label()).or_default() += 1;
    }
    endings
}

#[test]
fn digests_do_not_depend_on_threads_concurrency_or_neighbours() {
    let (component, limits) = (tictactoe(), Limits::default());
    let specs = specs(100, 3, r#"{"opponent":"random"}"#);
    let expected = digests(&play(&component, &limits, &specs, 64, 1));
    for (concurrency, threads) in [(64, 1), (1, 1), (7, 2), (100, 2), (1000, 0)] {
        let again = digests(&play(&component, &limits, &specs, concurrency, threads));
        assert_eq!(expected, again, "{concurrency} at once on {threads} threads");
    }
    let alone = play(&component, &limits, &specs[41..42], 1, 1);
    assert_eq!(digests(&alone), expected[41..42]);
    let distinct: std::collections::BTreeSet<_> = expected.iter().collect();
    assert_eq!(distinct.len(), 100);
}

#[test]
fn hostile_episodes_leave_honest_ones_untouched() {
    let component = Component::load("hostile", HOSTILE, &tight()).unwrap();
    let honest = specs(24, 1, "{}");
    let expected = digests(&play(&component, &tight(), &honest, 8, 2));
    let attacks = ["loop", "trap", "memory", "log", "huge-string", "many-records", "err", "none"];
    let mut mixed = honest.clone();
    for (number, spec) in mixed.iter_mut().enumerate().filter(|(number, _)| number % 2 == 1) {
        let attack = attacks[number / 2 % attacks.len()];
        spec.task.config = format!("{{\"attack\":\"{attack}\"}}");
    }
    let played = play(&component, &tight(), &mixed, 8, 2);
    assert_eq!(played.len(), 24);
    for number in (0..24).step_by(2) {
        assert_eq!(digest(&played[number]), expected[number], "episode {number}");
    }
    let counted = [
        ("failed-guest-error", 1),
        ("failed-guest-fuel", 2),
        ("failed-guest-log", 2),
        ("failed-guest-memory", 2),
        ("failed-guest-refused", 2),
        ("failed-guest-trap", 2),
        ("terminated", 13),
    ];
    let counted = counted.map(|(label, count)| (label.to_owned(), count));
    assert_eq!(endings(&played), BTreeMap::from(counted));
}

#[test]
fn what_a_guest_returns_is_checked() {
    let component = Component::load("hostile", HOSTILE, &tight()).unwrap();
    for (attack, kind, part) in [
        ("bad-agent", "contract", "agent `nobody` is unknown; `describe` names `player`"),
        ("double-prompt", "contract", "agent `player` is prompted twice in one turn"),
        ("empty-choice", "contract", "a choice offered to `player` is empty"),
        ("nan-reward", "contract", "a reward in part `yes` is NaN"),
        ("unknown-part", "contract", "a reward is given in part `bonus`; `describe` names `yes`"),
        ("unknown-rewarded", "contract", "agent `nobody` is unknown"),
        ("out-of-range-reward", "contract", "in part `yes`; `describe` says 0 to 1"),
        ("endless", "max-turns", "asks for another turn after 4"),
    ] {
        let specs = specs(1, 0, &format!("{{\"attack\":\"{attack}\"}}"));
        let played = play(&component, &tight(), &specs, 1, 1);
        let art_learner::conversation::Ending::Failed(fault) = &played[0].ending else {
            panic!("{attack}: {:?}", played[0].ending);
        };
        assert_eq!(fault.kind, kind, "{attack}");
        assert!(fault.message.contains(part), "{attack}: {}", fault.message);
    }
}

#[test]
fn the_expert_beats_chance() {
    let (component, limits) = (tictactoe(), Limits::default());
    assert!(component.has_expert());
    let specs = specs(200, 5, r#"{"opponent":"random"}"#);
    let wins = |played: Vec<Trajectory>| {
        assert!(played.iter().all(|trajectory| trajectory.ending.is_trainable()));
        played.iter().filter(|trajectory| trajectory.success() == Some(true)).count()
    };
    let by_chance = wins(play(&component, &limits, &specs, 64, 2));
    let by_expert = wins(play_with(&component, &limits, &specs, 64, 2, &mut Expert));
    assert!(by_expert >= 180 && by_chance < 150, "{by_expert} to {by_chance}");
}

#[test]
fn limits_of_the_run_cut_off_and_do_not_fail() {
    let component = tictactoe();
    let limits = Limits { turns: 2, ..Limits::default() };
    let specs = specs(10, 0, r#"{"opponent":"self"}"#);
    let played = play(&component, &limits, &specs, 4, 1);
    assert_eq!(endings(&played), BTreeMap::from([("truncated-turns".into(), 10)]));
    assert!(played.iter().all(|trajectory| trajectory.turns.len() == 2));
    assert!(played.iter().all(|trajectory| trajectory.turns[1].actions.is_empty()));
}

/// Answers a number of prompts in each episode, then has no room; counts who was dropped.
struct Short {
    answers: Scripted,
    finished: Vec<u64>,
}

impl Policy for Short {
    fn name(&self) -> String {
        "short".into()
    }

    fn answer(&mut self, asks: &[Ask<'_>]) -> Vec<Result<Message, PolicyError>> {
        let answers = self.answers.answer(asks).into_iter();
        answers.map(|answer| answer.map_err(|_| PolicyError::TokenLimit)).collect()
    }

    fn finish(&mut self, episode: u64) -> Vec<TokenRow> {
        self.finished.push(episode);
        self.answers.finish(episode);
        vec![TokenRow { agent: "player".into(), ..TokenRow::default() }]
    }
}

#[test]
fn a_policy_out_of_tokens_cuts_off_and_gives_its_rows() {
    let component = Component::load("hostile", HOSTILE, &tight()).unwrap();
    let mut policy = Short { answers: Scripted::new(vec!["yes".into()]), finished: vec![] };
    let played = play_with(&component, &tight(), &specs(5, 0, "{}"), 2, 1, &mut policy);
    assert_eq!(endings(&played), BTreeMap::from([("truncated-tokens".into(), 5)]));
    assert_eq!(policy.finished, [0, 1, 2, 3, 4]);
    assert!(played.iter().all(|trajectory| trajectory.rows.len() == 1));
}

#[test]
fn a_policy_that_fails_is_to_blame() {
    let component = Component::load("hostile", HOSTILE, &tight()).unwrap();
    let mut policy = Scripted::new(vec!["yes".into(); 2]);
    let played = play_with(&component, &tight(), &specs(3, 0, "{}"), 3, 1, &mut policy);
    assert_eq!(endings(&played), BTreeMap::from([("failed-policy-answer".into(), 3)]));
}

/// Plays at random and stops the rollout after some rounds.
struct Stopping<'a>(&'a AtomicBool, usize);

impl Policy for Stopping<'_> {
    fn name(&self) -> String {
        "stopping".into()
    }

    fn answer(&mut self, asks: &[Ask<'_>]) -> Vec<Result<Message, PolicyError>> {
        self.1 -= 1;
        self.0.store(self.1 == 0, Ordering::Relaxed);
        Random.answer(asks)
    }
}

#[test]
fn a_stopped_rollout_returns_what_had_ended() {
    let (component, limits, stop) = (tictactoe(), Limits::default(), AtomicBool::new(false));
    let specs = specs(50, 2, r#"{"opponent":"random"}"#);
    let mut policy = Stopping(&stop, 12);
    let weights = RewardWeights::default();
    let played = rollout(&component, &limits, &weights, &specs, 5, 1, &mut policy, &stop).unwrap();
    assert!(!played.is_empty() && played.len() < 50, "{}", played.len());
    let whole = play(&component, &limits, &specs, 5, 1);
    for trajectory in &played {
        assert_eq!(digest(trajectory), digest(&whole[trajectory.episode as usize]));
    }
}
