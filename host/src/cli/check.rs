//! `art-host check`: does a component keep the contract?

use art_host::check::check;
use clap::Args;

use super::settings::SettingsArgs;
use super::{Outcome, environment, output};

/// Check that an environment keeps the contract. Exit code 1 when it does not.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// An example's name, or a path to a component.
    environment: String,
    /// Which tasks and answers are tried.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Print the report as one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: SettingsArgs,
}

/// Does it.
pub(crate) fn run(args: CheckArgs) -> anyhow::Result<Outcome> {
    let config = args.settings.config()?;
    let component = environment::load(&args.environment, &config.limits)?;
    let report = check(&component, &config.limits, &config.task_config(), args.seed);
    if args.json {
        output::print_json(&report)?;
    } else {
        output::print(&report.to_string())?;
    }
    Ok(if report.passed { Outcome::Done } else { Outcome::CheckFailed })
}
