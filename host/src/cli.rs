//! The command line: what can be typed. One file per subcommand turns it into a call of the
//! library.

pub(crate) mod bench;
pub(crate) mod check;
mod environment;
pub(crate) mod output;
mod policy;
pub(crate) mod rollout;
pub(crate) mod run;
mod settings;

use clap::{Parser, Subcommand};

/// The exit code of a command line or setting that cannot be meant.
pub(crate) const USAGE: u8 = 2;

/// What a bare `art-host` says.
pub(crate) const WELCOME: &str = "\
art-host trains language-model agents on sandboxed WebAssembly environments.

Start here; it takes a few minutes and needs nothing but this machine:

    cargo run --release -- run tictactoe

Then:
    art-host rollout tictactoe --policy expert --episodes 10 --jsonl games.jsonl
    art-host check PATH        does a component keep the contract?
    art-host bench sandbox     what does a sandbox cost?
    art-host help              everything else
";

/// Trains language-model agents on sandboxed WebAssembly environments.
#[derive(Debug, Parser)]
#[command(name = "art-host", version, disable_help_subcommand = false)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Train a policy on an environment.
    Run(run::RunArgs),
    /// Play episodes with a policy and write their trajectories.
    Rollout(rollout::RolloutArgs),
    /// Check that an environment keeps the contract.
    Check(check::CheckArgs),
    /// Measure what this machine makes of sandboxes and policies.
    Bench(bench::BenchArgs),
}

/// How a command ended when it did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// As asked.
    Done,
    /// The check was made, and the component did not pass.
    CheckFailed,
    /// Stopped by Ctrl-C, with everything written.
    Interrupted,
}
