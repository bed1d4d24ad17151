//! Every kind of bad input ends in one screen that says what, where and what to do, and in the
//! right exit code.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::{Finished, SHORT, art_host, finished};

/// Checks that a command fails with a code, and that what it says holds every fragment and fits a
/// screen.
fn refused(folder: &Path, arguments: &[&str], code: i32, fragments: &[&str]) -> String {
    let done = art_host(folder, arguments.iter().copied());
    explained(&done, code, fragments);
    done.stderr
}

fn explained(done: &Finished, code: i32, fragments: &[&str]) {
    assert_eq!(done.code, code, "{}", done.stderr);
    assert_eq!(done.stdout, "", "an error belongs on standard error");
    for fragment in fragments {
        assert!(done.stderr.contains(fragment), "no `{fragment}` in: {}", done.stderr);
    }
    assert!(done.stderr.lines().count() <= 24, "more than a screen: {}", done.stderr);
    assert!(!done.stderr.contains("panicked"), "{}", done.stderr);
}

/// A component that exports one empty instance under a name, byte by byte.
fn component_exporting(name: &str) -> Vec<u8> {
    let mut bytes = b"\0asm\x0d\0\x01\0".to_vec();
    bytes.extend([5, 3, 1, 1, 0]);
    let length = u8::try_from(name.len()).unwrap();
    let mut export = vec![1, 0, length];
    export.extend(name.as_bytes());
    export.extend([5, 0, 0]);
    bytes.extend([11, u8::try_from(export.len()).unwrap()]);
    bytes.extend(export);
    bytes
}

#[test]
fn files_that_are_no_environment() {
    let folder = tempfile::tempdir().unwrap();
    let other_world = component_exporting("wasi:cli/run@0.2.0");
    let other_version = component_exporting("art:env/environment@0.2.0");
    let cases: [(&str, &[u8], &[&str]); 4] = [
        ("text.wasm", b"print('hello')", &["text.wasm", "not a"]),
        (
            "core.wasm",
            b"\0asm\x01\0\0\0",
            &["core.wasm", "core WebAssembly module", "wasm-tools component new"],
        ),
        ("world.wasm", &other_world, &["world.wasm", "art:env/environment@0.1.0"]),
        ("version.wasm", &other_version, &["version.wasm", "@0.2.0", "@0.1.0"]),
    ];
    for (name, bytes, fragments) in cases {
        std::fs::write(folder.path().join(name), bytes).unwrap();
        for command in ["run", "rollout", "check"] {
            refused(folder.path(), &[command, name], 1, fragments);
        }
    }
    assert!(!folder.path().join("runs").exists(), "a run directory for what cannot run");
}

#[test]
fn names_and_paths_that_lead_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    for command in ["run", "rollout", "check"] {
        refused(place, &[command, "no/such.wasm"], 2, &["no file `no/such.wasm`", "tictactoe"]);
        refused(place, &[command, "tictactow"], 2, &["did you mean `tictactoe`?"]);
    }
    refused(place, &["run"], 2, &["no environment is named", "tictactoe"]);
    refused(place, &["run", "tictactoe", "--policy", "nowhere"], 2, &["`nowhere`", "tiny"]);
    refused(place, &["rollout", "tictactoe", "--policy", "nowhere"], 2, &["`nowhere`", "expert"]);
    refused(place, &["run", "tictactoe", "--config", "no.toml"], 2, &["no.toml", "No such file"]);
    refused(place, &["run", "tictactoe", "--device", "abacus"], 2, &["abacus", "cpu"]);
    refused(place, &["run", "tictactoe", "--nonsense"], 2, &["--nonsense"]);
    assert!(runs_left(place).is_empty(), "a run that never began leaves no directory");
}

fn runs_left(place: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(place.join("runs")) else { return vec![] };
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn settings_that_do_not_exist_or_do_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    let cases: [(&str, &[&str]); 7] = [
        ("rollout.groupsize=4", &["unknown key", "did you mean `rollout.group_size`?"]),
        ("seed=1", &["unknown key", "did you mean `run.seed`?"]),
        ("run.seed=many", &["`run.seed`", "a whole number", "many", "--set"]),
        ("grpo.advantage=gae", &["grpo.advantage", "gae", "group-std"]),
        ("rollout.max_tokens=99999999999", &["rollout.max_tokens", "99999999999"]),
        ("reward.wim=2", &["`wim`", "did you mean `win`?"]),
        ("rollout.group_size=1", &["rollout.group_size", "at least 2", "`1`"]),
    ];
    for (setting, fragments) in cases {
        refused(place, &["run", "tictactoe", "--set", setting], 2, fragments);
    }
    std::fs::write(place.join("bad.toml"), "[run]\nsede = 1\n").unwrap();
    let fragments = ["`run.sede`", "bad.toml", "did you mean `run.seed`?"];
    refused(place, &["run", "tictactoe", "--config", "bad.toml"], 2, &fragments);
    std::fs::write(place.join("worse.toml"), "[run\n").unwrap();
    refused(place, &["run", "tictactoe", "--config", "worse.toml"], 2, &["worse.toml", "line 1"]);
    assert!(runs_left(place).is_empty());
}

#[test]
fn the_environments_own_settings_are_checked_by_it() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["run", "tictactoe", "--set", "env.opponent=nobody"];
    let arguments = arguments.into_iter().chain(SHORT).collect::<Vec<_>>();
    refused(folder.path(), &arguments, 1, &["nobody", "opponent"]);
}

#[test]
fn policies_with_missing_or_misshapen_tensors() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    let refuse = |name: &str, fragments: &[&str]| {
        refused(place, &["run", "tictactoe", "--policy", name], 1, fragments);
        refused(place, &["rollout", "tictactoe", "--policy", name], 1, fragments);
    };
    std::fs::create_dir(place.join("empty")).unwrap();
    refuse("empty", &["`empty`", "config.json"]);

    let make = |name: &str| art_learner::tiny::create(&place.join(name), 0).unwrap();
    make("missing");
    let victim = edit_header(&place.join("missing/model.safetensors"), |name, tensors| {
        let tensor = tensors.remove(name).unwrap();
        tensors.insert("unheard.of".into(), tensor);
    });
    refuse("missing", &["`missing`", &victim]);

    make("misshapen");
    let victim = edit_header(&place.join("misshapen/model.safetensors"), |name, tensors| {
        let shape = tensors[name]["shape"].as_array_mut().unwrap();
        let total: u64 = shape.iter().map(|size| size.as_u64().unwrap()).product();
        *shape = vec![total.into(), 1.into()];
    });
    refuse("misshapen", &["`misshapen`", &victim, "shape"]);

    make("cut");
    let path = place.join("cut/model.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    refuse("cut", &["`cut`", "model.safetensors"]);
    assert!(runs_left(place).is_empty());
}

/// Changes the entry of the first attention weight in a safetensors header; returns its name.
fn edit_header(path: &Path, edit: impl Fn(&str, &mut serde_json::Map<String, Value>)) -> String {
    let bytes = std::fs::read(path).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut header: Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let tensors = header.as_object_mut().unwrap();
    let victim = tensors.keys().find(|name| name.contains("q_proj.weight")).unwrap().clone();
    edit(&victim, tensors);
    let mut text = serde_json::to_vec(&header).unwrap();
    text.resize(text.len().next_multiple_of(8), b' ');
    let mut changed = (text.len() as u64).to_le_bytes().to_vec();
    changed.extend(text);
    changed.extend(&bytes[8 + length..]);
    std::fs::write(path, changed).unwrap();
    victim
}

#[test]
fn an_existing_out_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("taken")).unwrap();
    std::fs::write(folder.path().join("taken/diary"), "mine").unwrap();
    let arguments = ["run", "tictactoe", "--out", "taken"];
    refused(folder.path(), &arguments, 2, &["`taken` exists already", "--out"]);
    assert_eq!(std::fs::read_dir(folder.path().join("taken")).unwrap().count(), 1);
    let arguments = ["run", "tictactoe", "--out", "taken/diary/run"];
    refused(folder.path(), &arguments, 1, &["cannot create", "taken/diary"]);
}

#[test]
fn a_warm_start_without_an_expert() {
    let folder = tempfile::tempdir().unwrap();
    let without = art_host::examples::names().find(|name| {
        let done = art_host(folder.path(), ["rollout", name, "--policy", "expert"]);
        done.code == 2
    });
    let Some(name) = without else { return };
    let arguments = ["run", name, "--set", "sft.episodes=4"];
    refused(folder.path(), &arguments, 2, &["no expert", "sft.episodes"]);
}

/// A disk that takes no more, played by a limit on the size of a file: with its signal ignored,
/// writes fail. 512 blocks of 512 bytes are room for a component's memory image, but not for
/// weights or many games.
#[cfg(unix)]
#[test]
fn a_full_disk() {
    let folder = tempfile::tempdir().unwrap();
    let script = r#"trap "" XFSZ; ulimit -f 512; exec "$0" "$@""#;
    let limited = || {
        let mut command = Command::new("sh");
        command.args(["-c", script, env!("CARGO_BIN_EXE_art-host")]).current_dir(folder.path());
        command
    };
    let done = finished(limited().args(["run", "tictactoe"]).args(SHORT).output());
    explained(&done, 1, &["runs/tictactoe-1", "File too large"]);
    assert!(runs_left(folder.path()).is_empty());

    let arguments = ["rollout", "tictactoe", "--episodes", "2000", "--jsonl", "games.jsonl"];
    let done = finished(limited().args(arguments).output());
    explained(&done, 1, &["failed to write `games.jsonl`", "File too large", "make room"]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "half a file was left");
}
