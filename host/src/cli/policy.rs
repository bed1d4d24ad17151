//! Which policy is meant, and on which device a model runs.

use std::path::{Path, PathBuf};

use anyhow::Context;
use art_host::component::Component;
use art_host::config::Config;
use art_host::policy::model::ModelPolicy;
use art_host::policy::{Expert, Policy, Random, Scripted, Stdin};
use art_learner::device::Chosen;
use art_learner::learner::Learner;
use art_learner::tiny;

/// The name of the built-in policy.
const TINY: &str = "tiny";

/// The name of a person at the keyboard.
pub(crate) const STDIN: &str = "stdin";

/// What was typed names no policy that can play here.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnusablePolicy {
    /// Neither a kind of policy nor a directory.
    #[error(
        "`{0}` is no policy: give `tiny` or a model directory{1}; such a directory holds \
         config.json, tokenizer.json and model.safetensors"
    )]
    Unknown(String, &'static str),
    /// The environment has none.
    #[error("`{0}` exports no expert, so {1}")]
    NoExpert(String, &'static str),
    /// No such device in this program.
    #[error(transparent)]
    Device(#[from] art_learner::device::DeviceError),
}

/// The device of that name.
pub(crate) fn device(name: &str) -> Result<Chosen, UnusablePolicy> {
    Ok(art_learner::device::select(name)?)
}

/// The model directory that a run begins with: the user's, or the tiny policy made from the run's
/// seed.
pub(crate) fn model_directory(config: &Config, tiny_path: &Path) -> anyhow::Result<PathBuf> {
    if config.run.policy == TINY {
        tiny::create(tiny_path, config.run.seed).context("failed to make the tiny policy")?;
        return Ok(tiny_path.to_owned());
    }
    let path = PathBuf::from(&config.run.policy);
    match path.is_dir() {
        true => Ok(path),
        false => Err(UnusablePolicy::Unknown(config.run.policy.clone(), "").into()),
    }
}

/// Refuses a warm start where nobody can play it.
pub(crate) fn require_expert(config: &Config, component: &Component) -> Result<(), UnusablePolicy> {
    if config.sft.episodes == 0 || component.has_expert() {
        return Ok(());
    }
    let so = "there is nothing to warm up on: leave sft.episodes at 0";
    Err(UnusablePolicy::NoExpert(component.name().into(), so))
}

/// A policy to play with, by what was typed. A model lives on `config.run.device`.
pub(crate) fn player(
    typed: &str,
    config: &Config,
    component: &Component,
) -> anyhow::Result<Box<dyn Policy>> {
    match typed {
        "random" => Ok(Box::new(Random)),
        "expert" if component.has_expert() => Ok(Box::new(Expert)),
        "expert" => {
            let so = "it cannot play as one: try `--policy random`";
            Err(UnusablePolicy::NoExpert(component.name().into(), so).into())
        }
        STDIN => Ok(Box::new(Stdin)),
        _ => match typed.strip_prefix("scripted:") {
            Some(path) => Ok(Box::new(Scripted::new(answers(Path::new(path))?))),
            None => Ok(Box::new(model(typed, config)?)),
        },
    }
}

/// The lines of a file, each an answer.
fn answers(path: &Path) -> anyhow::Result<Vec<String>> {
    let text = std::fs::read_to_string(path);
    let text = text.with_context(|| format!("cannot read the answers in `{}`", path.display()))?;
    Ok(text.lines().map(str::to_owned).collect())
}

fn model(typed: &str, config: &Config) -> anyhow::Result<ModelPolicy> {
    let chosen = device(&config.run.device)?;
    let mut config = config.clone();
    config.run.policy = typed.to_owned();
    let made = tempfile::tempdir().context("failed to make a place for the tiny policy")?;
    let path = match typed == TINY || Path::new(typed).is_dir() {
        true => model_directory(&config, &made.path().join(TINY))?,
        false => {
            let others = ", or one of random, expert, stdin, scripted:FILE";
            return Err(UnusablePolicy::Unknown(typed.into(), others).into());
        }
    };
    let learner = Learner::load(&path, &chosen.device, config.learner())
        .with_context(|| format!("the policy directory `{typed}` cannot be used"))?;
    Ok(ModelPolicy::new(learner.sampler(config.sampler())))
}
