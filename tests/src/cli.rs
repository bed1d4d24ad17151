//! What the commands say and leave behind when all goes well.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::{SHORT, art_host, finished, json_lines, program};

#[test]
fn without_arguments_it_leads_to_the_first_run() {
    let folder = tempfile::tempdir().unwrap();
    let done = art_host(folder.path(), []);
    assert_eq!(done.code, 0);
    assert!(done.stdout.contains("cargo run --release -- run tictactoe"), "{}", done.stdout);
    assert!(done.stdout.lines().count() < 20, "{}", done.stdout);
}

#[test]
fn help_names_every_setting() {
    let folder = tempfile::tempdir().unwrap();
    let done = art_host(folder.path(), ["run", "--help"]);
    assert_eq!(done.code, 0);
    let defaults = toml::Table::try_from(art_host::config::Config::default()).unwrap();
    for section in ["run", "rollout", "eval", "grpo", "sft"] {
        for key in defaults[section].as_table().unwrap().keys() {
            let name = format!("{section}.{key}");
            assert!(done.stdout.contains(&name), "`run --help` does not name {name}");
        }
    }
}

#[test]
fn a_run_leaves_everything_and_repeats_itself() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["run", "tictactoe", "--json", "--seed", "3", "--updates", "2"];
    let first = art_host(folder.path(), arguments.into_iter().chain(SHORT));
    assert_eq!(first.code, 0, "{}", first.stderr);
    let summary = first.json();
    for stage in ["before", "after"] {
        assert_eq!(summary[stage]["episodes"], 8);
        assert!(summary[stage]["success"].as_f64().is_some(), "{summary}");
    }
    assert_eq!((&summary["updates"], &summary["interrupted"]), (&2.into(), &false.into()));
    assert!(first.stderr.contains("device: "), "{}", first.stderr);
    let run = folder.path().join("runs/tictactoe-1");
    for file in [
        "config.toml",
        "summary.json",
        "trajectories/before.jsonl.zst",
        "trajectories/update-00002.jsonl.zst",
        "trajectories/after.jsonl.zst",
        "checkpoints/update-00002",
        "policy/config.json",
        "policy/model.safetensors",
        "policy/tokenizer.json",
    ] {
        assert!(run.join(file).exists(), "the run left no {file}");
    }

    let arguments = ["run", "--json", "--config", "runs/tictactoe-1/config.toml"];
    let second = art_host(folder.path(), arguments);
    assert_eq!(second.code, 0, "{}", second.stderr);
    let again = folder.path().join("runs/tictactoe-2");
    let read = |file: &str| (std::fs::read(run.join(file)), std::fs::read(again.join(file)));
    for file in ["config.toml", "policy/model.safetensors", "trajectories/after.jsonl.zst"] {
        let (first, second) = read(file);
        assert!(first.unwrap() == second.unwrap(), "{file} differs when the run is repeated");
    }
    let metrics = |run: &std::path::Path| -> Vec<Value> {
        json_lines(&run.join("metrics.jsonl")).into_iter().map(without_time).collect()
    };
    assert_eq!(metrics(&run), metrics(&again));

    let arguments = ["rollout", "tictactoe", "--policy", "runs/tictactoe-1/policy", "--json"];
    let played = art_host(folder.path(), arguments);
    assert_eq!(played.code, 0, "{}", played.stderr);
    assert_eq!(played.json()["endings"]["terminated"], 1);
}

/// A line of metrics without what a clock measured.
fn without_time(mut line: Value) -> Value {
    for key in ["seconds_rollout", "tokens_per_s"] {
        assert!(line.as_object_mut().unwrap().remove(key).is_some(), "no {key}");
    }
    assert!(line["learner"].as_object_mut().unwrap().remove("seconds").is_some());
    line
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_cleanly_with_everything_written() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["run", "tictactoe", "--json", "--updates", "1000000", "--out", "stopped"];
    let mut child = program(folder.path())
        .args(arguments.into_iter().chain(SHORT))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.starts_with("training 1/")), "training never began");
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let rest: Vec<String> = lines.collect();
    let done = finished(child.wait_with_output());
    assert_eq!(done.code, 130, "{rest:?}");
    let summary = done.json();
    assert_eq!(summary["interrupted"], true);
    assert!(summary["before"]["success"].is_number() && summary["after"].is_null(), "{summary}");
    let run = folder.path().join("stopped");
    let metrics = json_lines(&run.join("metrics.jsonl"));
    assert_eq!(summary["updates"], metrics.len());
    assert!(run.join("policy/model.safetensors").exists() && run.join("summary.json").exists());
}

#[test]
fn rollout_writes_the_same_trajectories_every_time() {
    let folder = tempfile::tempdir().unwrap();
    for (file, threads) in [("a.jsonl", "rollout.threads=1"), ("b.jsonl", "rollout.threads=2")] {
        let arguments = ["rollout", "tictactoe", "--episodes", "20", "--seed", "5"];
        let options = ["--jsonl", file, "--set", threads];
        let done = art_host(folder.path(), arguments.into_iter().chain(options));
        assert_eq!(done.code, 0, "{}", done.stderr);
    }
    let read = |file| std::fs::read(folder.path().join(file)).unwrap();
    assert!(read("a.jsonl") == read("b.jsonl"), "threads change what is played");
    assert_eq!(json_lines(&folder.path().join("a.jsonl")).len(), 20);
}

#[test]
fn examples_pass_the_check() {
    let folder = tempfile::tempdir().unwrap();
    for name in art_host::examples::names() {
        let done = art_host(folder.path(), ["check", name, "--json"]);
        assert_eq!(done.code, 0, "{name}: {}{}", done.stdout, done.stderr);
        assert_eq!(done.json()["passed"], true);
    }
}

/// Each attack breaks the rule that it is made to break.
#[test]
fn a_hostile_guest_fails_the_check() {
    let folder = tempfile::tempdir().unwrap();
    let guest = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/guests/hostile/hostile.wasm");
    let cases = [
        ("trap", "random play meets no fault"),
        ("memory", "random play meets no fault"),
        ("double-prompt", "each turn prompts and rewards what `describe` names"),
        ("nan-reward", "each turn prompts and rewards what `describe` names"),
        ("out-of-range-reward", "stays in its stated range"),
        ("endless", "every episode ends within max-turns"),
        ("none", "different tasks play differently"),
    ];
    for (attack, rule) in cases {
        let setting = format!("env.attack={attack}");
        let done = art_host(folder.path(), ["check", guest, "--json", "--set", &setting]);
        let report = done.json();
        assert_eq!((done.code, &report["passed"]), (1, &false.into()), "{attack}: {report}");
        let findings = report["findings"].as_array().unwrap();
        let broken = findings.iter().filter(|finding| finding["verdict"] == "fail");
        let mut rules = broken.map(|finding| finding["rule"].as_str().unwrap());
        assert!(rules.any(|broken| broken.contains(rule)), "{attack}: {report}");
    }
}
