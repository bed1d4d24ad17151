//! `art-host rollout`: a policy plays episodes, and their trajectories are written.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use art_host::component::Component;
use art_host::config::{Config, RolloutConfig};
use art_host::evaluation::Evaluation;
use art_host::policy::Policy;
use art_host::progress::{Display, Event, Watched};
use art_host::reward::RewardWeights;
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
    config.complete_rewards(component.description())?;
    let mut policy = policy::player(&args.policy, &config, &component)?;
    let played = play(&args, &config, &component, policy.as_mut(), &stop)?;
    write(args.jsonl.as_deref(), &played)?;
    report(&args, &played)?;
    let is_whole = played.len() as u64 == args.episodes;
    Ok(if is_whole { Outcome::Done } else { Outcome::Interrupted })
}

fn play(
    args: &RolloutArgs,
    config: &Config,
    component: &Component,
    policy: &mut dyn Policy,
    stop: &AtomicBool,
) -> anyhow::Result<Vec<Trajectory>> {
    let tasks = Tasks::new(component.description(), args.seed, config.task_config());
    let specs = tasks.playing(args.episodes);
    let weights = RewardWeights::new(config.reward.clone());
    let limits = &config.limits;
    if args.policy == policy::STDIN {
        // A person plays one game at a time, and the display must not write over it.
        return Ok(rollout(component, limits, &weights, &specs, 1, 1, policy, stop)?);
    }
    let RolloutConfig { concurrency, threads, .. } = config.rollout;
    let display = Display::start();
    let events = display.events();
    events.send(Event::Playing { stage: "playing".into(), episodes: args.episodes });
    let mut policy = Watched { policy, events: &events };
    let played =
        rollout(component, limits, &weights, &specs, concurrency, threads, &mut policy, stop);
    drop(events);
    display.finish();
    Ok(played?)
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
