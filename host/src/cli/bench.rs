//! `art-host bench`: what this machine makes of sandboxes and policies.

use clap::{Args, Subcommand};

use super::{Outcome, output, policy};

/// Measure what this machine makes of sandboxes and policies.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    what: What,
}

/// What is measured. Names of numbers end in their unit.
#[derive(Debug, Subcommand)]
enum What {
    /// Instantiation, steps and memory of a sandbox, against the same logic called natively.
    Sandbox {
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Prefill, decoding and updates of the tiny policy, in tokens a second.
    Policy {
        /// As for `run`.
        #[arg(long, default_value = "auto")]
        device: String,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
}

/// Does it.
pub(crate) fn run(args: BenchArgs) -> anyhow::Result<Outcome> {
    match args.what {
        What::Sandbox { json } => show(&art_host::bench::sandbox::run()?, json),
        What::Policy { device, json } => {
            let chosen = policy::device(&device)?;
            show(&art_host::bench::policy::run(&chosen)?, json)
        }
    }
}

/// Prints every number with its name, a line each, or all as one object.
fn show(report: &impl serde::Serialize, json: bool) -> anyhow::Result<Outcome> {
    if json {
        output::print_json(report)?;
        return Ok(Outcome::Done);
    }
    let value = serde_json::to_value(report)?;
    let fields = value.as_object().into_iter().flatten();
    let line = |(name, value): (&String, &serde_json::Value)| match value.as_f64() {
        Some(number) if value.is_f64() => format!("{name:<32}{number:.2}\n"),
        _ => format!("{name:<32}{value}\n"),
    };
    output::print(&fields.map(line).collect::<String>())?;
    Ok(Outcome::Done)
}
