//! The `art-host` program: reads the command line, calls one command, decides the exit code.
//!
//! 0: done. 1: it failed, or a check did. 2: the command line or a setting is wrong. 130: Ctrl-C
//! ended it, and what was done until then is written.

mod cli;

use std::process::ExitCode;

use clap::Parser;
use cli::{Cli, Command, Outcome};

fn main() -> ExitCode {
    art_learner::device::keep_freed_memory();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { cli::USAGE } else { 0 });
        }
    };
    let outcome = match cli.command {
        None => cli::output::print(cli::WELCOME).map(|()| Outcome::Done),
        Some(Command::Run(args)) => cli::run::run(args),
        Some(Command::Rollout(args)) => cli::rollout::run(args),
        Some(Command::Check(args)) => cli::check::run(args),
        Some(Command::Bench(args)) => cli::bench::run(args),
    };
    match outcome {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::CheckFailed) => ExitCode::FAILURE,
        Ok(Outcome::Interrupted) => ExitCode::from(art_host::stop::INTERRUPTED),
        Err(error) => ExitCode::from(cli::output::explain(&error)),
    }
}
