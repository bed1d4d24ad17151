//! What is typed becomes what is resolved, and what is mistyped is refused by name.

use art_learner::grpo::advantage::Advantage;

use super::{Config, Layers};
use crate::component::{Description, Part};

fn described() -> Description {
    let part = |name: &str| Part { name: name.into(), minimum: 0.0, maximum: 1.0 };
    Description {
        name: "e".into(),
        version: "1".into(),
        summary: "s".into(),
        agents: vec!["x".into()],
        splits: vec![],
        max_turns: 1,
        parts: vec![part("win"), part("legal")],
    }
}

fn refused(assignment: &str) -> String {
    let mut layers = Layers::default();
    let laid = layers.set(assignment).and_then(|()| layers.resolve().map(|_| ()));
    laid.expect_err(assignment).to_string()
}

#[test]
fn defaults_resolve_to_themselves_but_for_the_step_sizes() {
    let mut resolved = Layers::default().resolve().unwrap();
    assert_eq!((resolved.grpo.learning_rate, resolved.sft.learning_rate), (1e-3, 2e-3));
    (resolved.grpo.learning_rate, resolved.sft.learning_rate) = (0.0, 0.0);
    assert_eq!(resolved, Config::default());
}

#[test]
fn step_sizes_fit_the_policy_unless_they_are_chosen() {
    let rate = |assignments: &[&str]| {
        let mut layers = Layers::default();
        layers.flag("run.policy", "some/model");
        assignments.iter().for_each(|assignment| layers.set(assignment).unwrap());
        layers.resolve().unwrap().grpo.learning_rate
    };
    assert_eq!(rate(&[]), 5e-6);
    assert_eq!(rate(&["grpo.adapter_rank=16"]), 1e-4);
    assert_eq!(rate(&["grpo.adapter_rank=16", "grpo.learning_rate=3e-5"]), 3e-5);
}

#[test]
fn later_layers_win() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    let text =
        "[run]\nseed = 1\nupdates = 2\npolicy = 'a'\n[env]\nopponent = 'self'\n[reward]\nwin = 2\n";
    std::fs::write(&path, text).unwrap();
    let mut layers = Layers::default();
    layers.file(&path).unwrap();
    layers.set("run.updates=3").unwrap();
    layers.set("run.policy=b").unwrap();
    layers.set("env.opponent=minimax").unwrap();
    layers.set("env.board.size=4").unwrap();
    layers.set("grpo.advantage=group-mean").unwrap();
    layers.flag("run.policy", "c");
    let config = layers.resolve().unwrap();
    assert_eq!((config.run.seed, config.run.updates, config.run.policy.as_str()), (1, 3, "c"));
    assert_eq!(config.task_config(), r#"{"board":{"size":4},"opponent":"minimax"}"#);
    assert_eq!(config.reward["win"], 2.0);
    assert_eq!(config.grpo.advantage, Advantage::GroupMean);
}

#[test]
fn a_resolved_config_reads_back_as_itself() {
    let mut config = Layers::default().resolve().unwrap();
    config.env.insert("opponent".into(), "random".into());
    config.complete_rewards(&described()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    std::fs::write(&path, toml::to_string_pretty(&config).unwrap()).unwrap();
    let mut layers = Layers::default();
    layers.file(&path).unwrap();
    assert_eq!(layers.resolve().unwrap(), config);
}

#[test]
fn mistyped_settings_are_refused_by_name() {
    let cases = [
        (
            "rollout.groupsize=4",
            "unknown key `rollout.groupsize` in `--set`; did you mean `rollout.group_size`?",
        ),
        ("seed=4", "unknown key `seed` in `--set`; did you mean `run.seed`?"),
        ("run.seed=abc", "`run.seed` must be a whole number; found \"abc\" (text) in `--set`"),
        (
            "run.seed=-1",
            "`run.seed` must be a whole number, 0 or more; found -1 (a whole number) in `--set`",
        ),
        ("run.policy=3", "`run.policy` must be text; found 3 (a whole number) in `--set`"),
        ("rollout.group_size=1", "`rollout.group_size` must be at least 2; found `1`"),
        ("rollout.temperature=0", "`rollout.temperature` must be a number above 0; found `0`"),
        ("rollout.temperature=nan", "`rollout.temperature` must be a number above 0; found `NaN`"),
        ("reward.win=lots", "`reward.win` must be a number; found \"lots\" (text) in `--set`"),
        (
            "run.seed",
            "`--set run.seed` is not of the form key=value; an example: \
             --set rollout.group_size=16",
        ),
    ];
    for (typed, message) in cases {
        assert_eq!(refused(typed), message);
    }
}

#[test]
fn reward_parts_are_completed_and_checked() {
    let mut config = Config::default();
    config.reward.insert("legal".into(), 0.1);
    config.complete_rewards(&described()).unwrap();
    assert_eq!(config.reward.values().copied().collect::<Vec<_>>(), [0.1, 1.0]);
    config.reward.insert("wim".into(), 1.0);
    let message = config.complete_rewards(&described()).unwrap_err().to_string();
    assert!(message.contains("`wim`; did you mean `win`?"), "{message}");
}

#[test]
fn the_knobs_stay_few() {
    let sections = ["run", "rollout", "eval", "grpo", "sft"];
    let knobs = Layers::default().keys();
    let ours = knobs.iter().filter(|key| sections.iter().any(|name| key.starts_with(name)));
    assert!(ours.count() <= 25, "STYLE.md 16: at most 25 user-facing knobs: {knobs:?}");
}
