//! Tests of the program as a user starts it: commands in, exit code, streams and files out.
//!
//! A test target of the package `art-host`, because Cargo tells a program's path to its own package
//! only.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bad_input;
mod cli;
mod learning;

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Settings that make a whole run take seconds.
const SHORT: [&str; 8] = [
    "--set",
    "rollout.groups_per_update=2",
    "--set",
    "rollout.group_size=2",
    "--set",
    "eval.episodes=8",
    "--device",
    "cpu",
];

/// What a finished command left.
struct Finished {
    code: i32,
    stdout: String,
    stderr: String,
}

/// The program, to be started in a folder.
fn program(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_art-host"));
    command.current_dir(folder);
    command
}

/// Starts the program in a folder with arguments, and waits.
fn art_host<'a>(folder: &Path, arguments: impl IntoIterator<Item = &'a str>) -> Finished {
    finished(program(folder).args(arguments).output())
}

fn finished(output: std::io::Result<Output>) -> Finished {
    let output = output.expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("the program writes UTF-8");
    Finished {
        code: output.status.code().unwrap_or(-1),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

impl Finished {
    /// The one JSON object on standard output.
    fn json(&self) -> Value {
        assert_eq!(self.stdout.trim_end().lines().count(), 1, "not one line: {}", self.stdout);
        serde_json::from_str(&self.stdout).expect("standard output is one JSON object")
    }
}

/// The objects of a file with one JSON object a line.
fn json_lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("the file is there");
    text.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
}
