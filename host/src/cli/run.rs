//! `art-host run`: settings → component → run directory → policy → the training loop → the table at
//! the end.

use std::path::PathBuf;

use anyhow::Context;
use art_host::component::{Component, Description};
use art_host::config::Config;
use art_host::progress::{Display, Events};
use art_host::run::RunDirectory;
use art_host::sandbox::Sandbox;
use art_host::tasks::Tasks;
use art_host::train::{Summary, Training, train};
use art_learner::learner::Learner;
use clap::Args;

use super::environment::UnknownEnvironment;
use super::settings::SettingsArgs;
use super::{Outcome, environment, output, policy};

/// Train a policy on an environment.
#[derive(Debug, Args)]
#[command(after_long_help = KNOBS)]
pub(crate) struct RunArgs {
    /// An example's name, or a path to a component.
    environment: Option<String>,
    /// Where all randomness comes from.
    #[arg(long, value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    seed: Option<u64>,
    /// How many updates to make.
    #[arg(long, value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    updates: Option<u64>,
    /// What to train: `tiny`, or a model directory in Hugging Face's layout.
    #[arg(long, value_name = "tiny|DIR")]
    policy: Option<String>,
    /// Where to compute: `auto`, `cpu`, or with the `gpu` feature `vulkan`, `metal`, `dx12`,
    /// `webgpu`.
    #[arg(long)]
    device: Option<String>,
    /// The run directory; must not exist. Default: the next free runs/NAME-N.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    settings: SettingsArgs,
    /// Print one JSON object with `before` and `after` on standard output at the end.
    #[arg(long)]
    json: bool,
}

/// The settings, for `--help`. A test holds that none is missing.
const KNOBS: &str = "\
Settings, for --set and config files (later ones win: defaults, --config, --set, flags):
  run.environment run.seed run.updates run.policy run.device   as the flags above
  rollout.groups_per_update  tasks per update
  rollout.group_size         attempts at each task, compared with one another
  rollout.temperature        of sampling, in evaluation too
  rollout.max_tokens         of one answer
  rollout.concurrency        episodes alive at once
  rollout.threads            that step sandboxes; 0: one per core
  eval.episodes              played before and after, on tasks that training never sees
  grpo.learning_rate         of AdamW, after grpo.warmup_updates; 0: what fits the policy
  grpo.clip_low grpo.clip_high  how far a token's probability ratio counts
  grpo.kl                    weight of the divergence from the first policy
  grpo.max_grad_norm         the gradient is scaled down to this
  grpo.minibatches           optimiser steps per rollout
  grpo.advantage             group-std or group-mean
  grpo.adapter_rank          of low-rank adapters; 0 trains all weights
  sft.episodes sft.epochs sft.learning_rate  warm start from the environment's expert
  reward.PART                the weight of a reward part; 1 unless set
  env.KEY                    the environment's own settings
  limits.KEY                 what a sandbox may use; the run's config.toml lists them";

/// Does it.
pub(crate) fn run(args: RunArgs) -> anyhow::Result<Outcome> {
    let stop = art_host::stop::listen()?;
    let mut config = resolve(&args)?;
    let typed = config.run.environment.clone();
    let component = environment::load(&typed, &config.limits)?;
    config.complete_rewards(component.description())?;
    policy::require_expert(&config, &component)?;
    let directory = RunDirectory::create(args.out.as_deref(), &component.description().name)?;
    let display = Display::start();
    let events = display.events();
    let ready = begin(&config, &component, &directory, &events);
    let result = match ready {
        Ok((learner, device)) => {
            let component = &component;
            let (config, events, stop) = (&config, &events, &*stop);
            train(Training { config, component, device, learner, directory, events, stop })
        }
        Err(error) => directory.discard().and(Err(error)),
    };
    drop(events);
    display.finish();
    finish(&args, &result?)
}

fn resolve(args: &RunArgs) -> anyhow::Result<Config> {
    let mut layers = args.settings.layers()?;
    let number = |value: u64| i64::try_from(value).expect("clap holds the range");
    if let Some(environment) = &args.environment {
        layers.flag("run.environment", environment.as_str());
    }
    if let Some(seed) = args.seed {
        layers.flag("run.seed", number(seed));
    }
    if let Some(updates) = args.updates {
        layers.flag("run.updates", number(updates));
    }
    if let Some(policy) = &args.policy {
        layers.flag("run.policy", policy.as_str());
    }
    if let Some(device) = &args.device {
        layers.flag("run.device", device.as_str());
    }
    let config = layers.resolve()?;
    if config.run.environment.is_empty() {
        return Err(UnknownEnvironment::missing().into());
    }
    Ok(config)
}

/// Everything that can go wrong before anything is played.
fn begin(
    config: &Config,
    component: &Component,
    directory: &RunDirectory,
    events: &Events,
) -> anyhow::Result<(Learner, String)> {
    directory.write_config(config)?;
    try_settings(config, component)?;
    let Description { name, summary, .. } = component.description();
    events.note(format!("environment: {name}: {summary}"));
    let device = policy::device(&config.run.device)?;
    events.note(format!("device: {} ({})", device.name, device.why));
    let model = policy::model_directory(config, &directory.path().join("policy-start"))?;
    let learner = Learner::load(&model, &device.device, config.learner())
        .with_context(|| format!("the policy directory `{}` cannot be used", model.display()))?;
    let (all, trained) = learner.parameter_counts();
    let policy = &config.run.policy;
    events.note(format!("policy: {policy} ({all} parameters, {trained} of them in training)"));
    events.note(format!("run directory: {}", directory.path().display()));
    Ok((learner, device.name))
}

/// Begins one episode, so that settings which the environment refuses are known before anything is
/// trained.
fn try_settings(config: &Config, component: &Component) -> anyhow::Result<()> {
    let description = component.description();
    let tasks = Tasks::new(description, config.run.seed, config.task_config());
    let spec = tasks.evaluation(1).pop().context("an evaluation has an episode")?;
    let sandbox = Sandbox::new(component, &config.limits, spec.task.seed);
    let started = sandbox.and_then(|mut sandbox| sandbox.start(&spec.task));
    started.context("the environment cannot begin an episode with these settings").map(|_| ())
}

fn finish(args: &RunArgs, summary: &Summary) -> anyhow::Result<Outcome> {
    if args.json {
        eprint!("{}", summary.report());
        output::print_json(summary)?;
    } else {
        output::print(&summary.report())?;
    }
    Ok(if summary.interrupted { Outcome::Interrupted } else { Outcome::Done })
}
