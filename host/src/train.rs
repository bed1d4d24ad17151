//! The loop: measure, warm up, then rollout → groups → update → record, and measure again.
//!
//! One synchronous loop in which every stage is a named call. It writes into its run directory,
//! sends events to whoever watches, and looks at the stop flag between stages. Knows nothing of the
//! command line.

pub mod summary;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, bail};
use art_learner::conversation::{Ending, Group, Trajectory};
use art_learner::learner::{Learner, WarmStartMetrics};

use crate::component::Component;
use crate::config::{Config, SftConfig};
use crate::evaluation::Evaluation;
use crate::policy::model::ModelPolicy;
use crate::policy::{Expert, Policy};
use crate::progress::{Event, Events, Watched};
use crate::reward::RewardWeights;
use crate::rollout::{EpisodeSpec, rollout};
use crate::run::{RunDirectory, trajectories};
use crate::tasks::Tasks;

pub use summary::Summary;
use summary::UpdateRecord;

/// Updates between two checkpoints; the last update always has one.
const CHECKPOINT_EVERY: u64 = 10;

/// Checkpoints that stay: with optimiser state each is several times the model, and disks are
/// finite.
const CHECKPOINTS_KEPT: usize = 2;

/// A run in progress.
pub struct Training<'a> {
    /// The settings, resolved and complete.
    pub config: &'a Config,
    /// The environment.
    pub component: &'a Component,
    /// What the learner computes on, in words.
    pub device: String,
    /// The policy in training.
    pub learner: Learner,
    /// Where everything is written.
    pub directory: RunDirectory,
    /// Who watches.
    pub events: &'a Events,
    /// True once the run should end.
    pub stop: &'a AtomicBool,
}

/// Runs the whole loop and leaves a complete run directory, also when it is stopped on the way.
///
/// # Errors
/// When the learner or the disk fails, or when no episode can be played at all.
pub fn train(mut training: Training<'_>) -> anyhow::Result<Summary> {
    let started = Instant::now();
    let mut summary = Summary::begin(&training);
    summary.before = training.measure("before")?;
    summary.warm_start = training.warm_start()?;
    training.events.send(Event::Training { updates: training.config.run.updates });
    for update in 1..=training.config.run.updates {
        let played = Instant::now();
        let Some(trajectories) = training.play(update)? else { break };
        let seconds_rollout = played.elapsed().as_secs_f64();
        let groups = training.group(trajectories);
        let learnt = training.learner.update(&groups);
        let metrics = learnt.with_context(|| format!("update {update} failed"))?;
        let record = UpdateRecord::new(update, &groups, metrics, seconds_rollout);
        training.record(&record, groups)?;
        summary.count(&record);
    }
    summary.after = training.measure("after")?;
    summary.interrupted = summary.after.is_none();
    training.finish(&mut summary, started)?;
    Ok(summary)
}

impl Training<'_> {
    /// Plays the evaluation's tasks with the policy as it is; none if the run is stopped meanwhile.
    fn measure(&mut self, stage: &str) -> anyhow::Result<Option<Evaluation>> {
        let specs = self.tasks().evaluation(self.config.eval.episodes);
        self.events.send(Event::Playing {
            stage: format!("measuring {stage}"),
            episodes: specs.len() as u64,
        });
        let mut policy = self.policy();
        let mut watched = Watched { policy: &mut policy, events: self.events };
        let Some(played) = self.rollout(&specs, &mut watched)? else { return Ok(None) };
        trajectories::write(&self.directory.trajectories(stage), &played)?;
        Ok(Some(Evaluation::of(&played)))
    }

    /// Lets the environment's expert play and the policy learn from it, if the config says so.
    fn warm_start(&mut self) -> anyhow::Result<Option<WarmStartMetrics>> {
        if self.config.sft.episodes == 0 || self.is_stopped() {
            return Ok(None);
        }
        let specs = self.tasks().playing(self.config.sft.episodes);
        let stage = "expert plays".to_owned();
        self.events.send(Event::Playing { stage, episodes: specs.len() as u64 });
        let mut watched = Watched { policy: &mut Expert, events: self.events };
        let Some(played) = self.rollout(&specs, &mut watched)? else { return Ok(None) };
        trajectories::write(&self.directory.trajectories("warm-start"), &played)?;
        self.events.note("learning from the expert's games");
        let SftConfig { epochs, learning_rate, .. } = self.config.sft;
        let metrics = self.learner.warm_start(&played, epochs, learning_rate);
        metrics.context("the warm start failed").map(Some)
    }

    /// Plays one update's episodes; none if the run is stopped meanwhile.
    fn play(&mut self, update: u64) -> anyhow::Result<Option<Vec<Trajectory>>> {
        let rollout = &self.config.rollout;
        let specs = self.tasks().training(update, rollout.groups_per_update, rollout.group_size);
        let mut policy = self.policy();
        self.rollout(&specs, &mut policy)
    }

    /// Puts attempts at the same task together: they stand side by side, in the order of the specs.
    fn group(&self, trajectories: Vec<Trajectory>) -> Vec<Group> {
        let size = self.config.rollout.group_size as usize;
        let mut rest = trajectories.into_iter().peekable();
        let mut groups = Vec::new();
        while rest.peek().is_some() {
            groups.push(Group { trajectories: rest.by_ref().take(size).collect() });
        }
        groups
    }

    /// Writes what an update was made of and what came of it, and shows it.
    fn record(&mut self, record: &UpdateRecord, groups: Vec<Group>) -> anyhow::Result<()> {
        let played: Vec<Trajectory> =
            groups.into_iter().flat_map(|group| group.trajectories).collect();
        let stage = format!("update-{:05}", record.update);
        trajectories::write(&self.directory.trajectories(&stage), &played)?;
        self.directory.append_metrics(record)?;
        if record.update.is_multiple_of(CHECKPOINT_EVERY) {
            self.checkpoint(record.update)?;
        }
        self.events.send(Event::Updated(record.pulse()));
        Ok(())
    }

    /// Writes what a resume needs, and drops what an older checkpoint kept.
    fn checkpoint(&mut self, update: u64) -> anyhow::Result<()> {
        let path = self.directory.checkpoint(update);
        self.learner.save_checkpoint(&path).context("failed to write a checkpoint")?;
        self.directory.keep_checkpoints(CHECKPOINTS_KEPT)
    }

    /// Writes the policy and the summary.
    fn finish(&mut self, summary: &mut Summary, started: Instant) -> anyhow::Result<()> {
        if !summary.updates.is_multiple_of(CHECKPOINT_EVERY) {
            self.checkpoint(summary.updates)?;
        }
        let path = self.directory.policy();
        self.learner.save_policy(&path).context("failed to write the trained policy")?;
        summary.seconds = started.elapsed().as_secs_f64();
        self.directory.write_summary(summary)
    }

    fn rollout(
        &self,
        specs: &[EpisodeSpec],
        policy: &mut dyn Policy,
    ) -> anyhow::Result<Option<Vec<Trajectory>>> {
        let Config { rollout: settings, limits, reward, .. } = self.config;
        let weights = RewardWeights::new(reward.clone());
        let (concurrency, threads) = (settings.concurrency, settings.threads);
        let played = rollout(
            self.component,
            limits,
            &weights,
            specs,
            concurrency,
            threads,
            policy,
            self.stop,
        )?;
        if self.is_stopped() && played.len() < specs.len() {
            return Ok(None);
        }
        refuse_hopeless(&played)?;
        Ok(Some(played))
    }

    fn tasks(&self) -> Tasks {
        let seed = self.config.run.seed;
        Tasks::new(self.component.description(), seed, self.config.task_config())
    }

    fn policy(&self) -> ModelPolicy {
        ModelPolicy::new(self.learner.sampler(self.config.sampler()))
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }
}

/// Stops a run in which every episode fails: there is nothing to learn from, and the fault says
/// why.
fn refuse_hopeless(played: &[Trajectory]) -> anyhow::Result<()> {
    let mut faults = played.iter().filter_map(|trajectory| match &trajectory.ending {
        Ending::Failed(fault) => Some(fault),
        _ => None,
    });
    let Some(first) = faults.next() else { return Ok(()) };
    if faults.count() + 1 < played.len() {
        return Ok(());
    }
    let log = match first.log.is_empty() {
        true => String::new(),
        false => format!("\nthe environment's last log lines:\n  {}", first.log.join("\n  ")),
    };
    bail!("all {} episodes failed; the first: {}{log}", played.len(), first.message)
}
