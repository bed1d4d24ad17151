//! `art-host rollout`: a policy plays episodes, and their trajectories are written.

use std::path::{Path, PathBuf};

use anyhow::Context;
use art_host::evaluation::Evaluation;
use art_host::rollout::rollout;
use art_host::run::trajectories;
use art_host::tasks::Tasks;
use art_host::train::summary::table;
use art_learner::conversation::Trajectory;
use clap::Args;

use super::settings::SettingsArgs;
use super::{Outcome, environment, output, policy};

/// Play episodes with a policy and write their trajectories.
#[derive(Debug, Args)]
pub(crate) struct RolloutArgs {
    /// An example's name, or a path to a component.
    environment: String,
    /// Who plays: `random`, `expert`, `stdin`, `scripted:FILE` (an answer a line), `tiny`, or a
    /// model directory.
    #[arg(long, value_name = "POLICY", default_value = "random")]
    policy: String,
    /// How many episodes.
    #[arg(long, default_value_t = 1)]
    episodes: u64,
    /// Where all randomness comes from.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Where to write the trajectories, a JSON object a line; `-` for standard output. Compressed
    /// if it ends in `.zst`.
    #[arg(long, value_name = "FILE")]
    jsonl: Option<PathBuf>,
    /// Print the numbers as one JSON object on standard output.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: SettingsArgs,
}

/// Does it.
pub(crate) fn run(args: RolloutArgs) -> anyhow::Result<Outcome> {
    let stop = art_host::stop::listen()?;
    let mut config = args.settings.config()?;
    config.run.seed = args.seed;
    let component = environment::load(&args.environment, &config.limits)?;
    let weights = config.weights(component.description())?;
    let mut policy = policy::player(&args.policy, &config, &component)?;
    let description = component.description();
    let specs = Tasks::new(description, args.seed, config.task_config()).playing(args.episodes);
    let (concurrency, threads) = match args.policy.as_str() {
        // A person plays one game at a time.
        "stdin" => (1, 1),
        _ => (config.rollout.concurrency, config.rollout.threads),
    };
    let played = rollout(
        &component,
        &config.limits,
        &weights,
        &specs,
        concurrency,
        threads,
        policy.as_mut(),
        &stop,
    )?;
    write(args.jsonl.as_deref(), &played)?;
    report(&args, &played)?;
    let is_whole = played.len() == specs.len();
    Ok(if is_whole { Outcome::Done } else { Outcome::Interrupted })
}

fn write(jsonl: Option<&Path>, played: &[Trajectory]) -> anyhow::Result<()> {
    match jsonl {
        None => Ok(()),
        Some(path) if path == Path::new("-") => {
            trajectories::write_lines(&mut std::io::stdout().lock(), played)
                .context("failed to write to standard output")
        }
        Some(path) => trajectories::write(path, played),
    }
}

/// The numbers: on standard output, unless the trajectories are there.
fn report(args: &RolloutArgs, played: &[Trajectory]) -> anyhow::Result<()> {
    let evaluation = Evaluation::of(played);
    let text = table(&[(args.policy.as_str(), Some(&evaluation))]);
    let is_taken = args.jsonl.as_deref() == Some(Path::new("-"));
    match (args.json, is_taken) {
        (_, true) => {
            eprint!("{text}");
            Ok(())
        }
        (true, false) => output::print_json(&evaluation),
        (false, false) => output::print(&text),
    }
}
