//! What a run comes to: a line per update for `metrics.jsonl`, and `summary.json` with its
//! before/after table.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use art_learner::conversation::{Group, Trajectory};
use art_learner::learner::{UpdateMetrics, WarmStartMetrics};
use serde::Serialize;

use super::Training;
use crate::evaluation::{Evaluation, sampled_tokens};
use crate::progress::{Pulse, clock};

/// One line of `metrics.jsonl`.
#[derive(Clone, Debug, Serialize)]
pub struct UpdateRecord {
    /// Which update, from 1.
    pub update: u64,
    /// What the policy did in the rollout that the update learnt from.
    pub rollout: Evaluation,
    /// What the learner did with it.
    pub learner: UpdateMetrics,
    /// Sampled tokens a second, over rollout and learning together.
    pub tokens_per_s: f64,
    /// How long playing took.
    pub seconds_rollout: f64,
}

impl UpdateRecord {
    /// Counts an update's trajectories.
    pub fn new(
        update: u64,
        groups: &[Group],
        learner: UpdateMetrics,
        seconds_rollout: f64,
    ) -> UpdateRecord {
        let played: Vec<&Trajectory> =
            groups.iter().flat_map(|group| &group.trajectories).collect();
        let tokens: usize = played.iter().map(|trajectory| sampled_tokens(trajectory)).sum();
        UpdateRecord {
            update,
            rollout: Evaluation::of(played),
            tokens_per_s: tokens as f64 / (seconds_rollout + learner.seconds).max(1e-9),
            learner,
            seconds_rollout,
        }
    }

    /// What the display shows of it.
    pub fn pulse(&self) -> Pulse {
        Pulse {
            update: self.update,
            reward: self.rollout.reward,
            success: self.rollout.success,
            entropy: self.learner.entropy,
            kl: self.learner.kl,
            tokens_per_s: self.tokens_per_s,
            dropped: self.rollout.failed() + self.learner.dropped.values().sum::<u64>(),
        }
    }
}

/// `summary.json`, and what `--json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The environment's name.
    pub environment: String,
    /// SHA-256 of its component, in hex.
    pub component: String,
    /// The run's seed.
    pub seed: u64,
    /// What the run began with.
    pub policy: String,
    /// What it computed on.
    pub device: String,
    /// The policy before training; none if the run was stopped before that.
    pub before: Option<Evaluation>,
    /// The policy after training; none if the run was stopped.
    pub after: Option<Evaluation>,
    /// What the warm start did, where there was one.
    pub warm_start: Option<WarmStartMetrics>,
    /// Updates made.
    pub updates: u64,
    /// Training episodes played.
    pub episodes: u64,
    /// Training episodes by ending.
    pub endings: BTreeMap<String, u64>,
    /// What was left out of updates, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Whether the run was asked to stop before its end.
    pub interrupted: bool,
    /// How long the run took, building aside.
    pub seconds: f64,
    /// The run directory.
    pub directory: PathBuf,
    /// The trained policy, a model directory.
    pub trained_policy: PathBuf,
    /// The metrics, a line per update.
    pub metrics: PathBuf,
}

impl Summary {
    /// A run of which nothing has been played yet.
    pub(super) fn begin(training: &Training<'_>) -> Summary {
        let Training { config, component, directory, .. } = training;
        Summary {
            environment: component.description().name.clone(),
            component: component.digest().to_owned(),
            seed: config.run.seed,
            policy: config.run.policy.clone(),
            device: training.device.clone(),
            before: None,
            after: None,
            warm_start: None,
            updates: 0,
            episodes: 0,
            endings: BTreeMap::new(),
            dropped: BTreeMap::new(),
            interrupted: false,
            seconds: 0.0,
            directory: directory.path().to_owned(),
            trained_policy: directory.policy(),
            metrics: directory.path().join("metrics.jsonl"),
        }
    }

    /// Adds an update.
    pub fn count(&mut self, record: &UpdateRecord) {
        self.updates = record.update;
        self.episodes += record.rollout.episodes;
        for (ending, count) in &record.rollout.endings {
            *self.endings.entry(ending.clone()).or_default() += count;
        }
        for (reason, count) in &record.learner.dropped {
            *self.dropped.entry(reason.clone()).or_default() += count;
        }
    }

    /// The table that a run ends with, and where everything is.
    pub fn report(&self) -> String {
        let mut text = table(&[("before", self.before.as_ref()), ("after", self.after.as_ref())]);
        let line = |text: &mut String, label: &str, value: String| {
            let _ = writeln!(text, "{label:<22}{value}");
        };
        text.push('\n');
        let updates = format!(
            "{} updates from {} episodes in {}{}",
            self.updates,
            self.episodes,
            clock(self.seconds),
            if self.interrupted { ", interrupted" } else { "" }
        );
        line(&mut text, "trained", updates);
        for (label, counts) in [("episodes by ending", &self.endings), ("left out", &self.dropped)]
        {
            if !counts.is_empty() {
                let counts: Vec<_> =
                    counts.iter().map(|(k, count)| format!("{k} {count}")).collect();
                line(&mut text, label, counts.join(", "));
            }
        }
        line(&mut text, "run directory", self.directory.display().to_string());
        line(&mut text, "metrics", self.metrics.display().to_string());
        line(&mut text, "trained policy", self.trained_policy.display().to_string());
        text
    }
}

/// Evaluations side by side, a row for each number that any of them has.
pub fn table(columns: &[(&str, Option<&Evaluation>)]) -> String {
    let names_line: String = columns.iter().map(|(name, _)| format!("{name:<24}")).collect();
    let mut text = format!("{:<22}{}\n", "", names_line.trim_end());
    let mut row = |label: &str, cell: &dyn Fn(&Evaluation) -> Option<String>| {
        let cells = columns.iter().map(|(_, evaluation)| evaluation.and_then(cell));
        let cells = cells.map(|cell| cell.unwrap_or("–".into()));
        let line: String = cells.map(|cell| format!("{cell:<24}")).collect();
        let _ = writeln!(text, "{label:<22}{}", line.trim_end());
    };
    row("episodes", &|e| Some(e.episodes.to_string()));
    row("success", &|e| {
        let ([low, high], share) = (e.success_interval?, e.success?);
        Some(format!("{share:.3}  ({low:.3} – {high:.3})"))
    });
    row("reward", &|e| Some(format!("{:.3}", e.reward)));
    let known: Vec<&Evaluation> =
        columns.iter().filter_map(|(_, evaluation)| *evaluation).collect();
    let agents = names(&known, |e| &e.reward_by_agent);
    if agents.len() > 1 {
        for agent in agents {
            row(&format!("  of {agent}"), &|e| number(&e.reward_by_agent, &agent));
        }
    }
    for part in names(&known, |e| &e.parts) {
        row(&format!("  part {part}"), &|e| number(&e.parts, &part));
    }
    for metric in names(&known, |e| &e.metrics) {
        row(&metric, &|e| number(&e.metrics, &metric));
    }
    row("turns", &|e| Some(format!("{:.1}", e.turns)));
    for ending in names(&known, |e| &e.endings) {
        row(&ending, &|e| Some(format!("{:.1} %", 100.0 * e.share(&ending))));
    }
    text
}

fn number(values: &BTreeMap<String, f64>, name: &str) -> Option<String> {
    values.get(name).map(|value| format!("{value:.3}"))
}

/// The keys that any of the evaluations has, in order.
fn names<V>(
    evaluations: &[&Evaluation],
    of: impl Fn(&Evaluation) -> &BTreeMap<String, V>,
) -> Vec<String> {
    let mut names: Vec<String> = evaluations.iter().flat_map(|e| of(e).keys().cloned()).collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Evaluation, table};

    #[test]
    fn the_table_shows_every_number_and_marks_what_is_missing() {
        let before = Evaluation {
            episodes: 4,
            success: Some(0.5),
            success_interval: Some([0.15, 0.85]),
            reward: 1.25,
            parts: BTreeMap::from([("win".into(), 0.5)]),
            metrics: BTreeMap::from([("draw".into(), 0.25)]),
            endings: BTreeMap::from([("terminated".into(), 3), ("failed-guest-trap".into(), 1)]),
            turns: 4.5,
            ..Evaluation::default()
        };
        let text = table(&[("before", Some(&before)), ("after", None)]);
        let expected = "
                      before                  after
episodes              4                       –
success               0.500  (0.150 – 0.850)  –
reward                1.250                   –
  part win            0.500                   –
draw                  0.250                   –
turns                 4.5                     –
failed-guest-trap     25.0 %                  –
terminated            75.0 %                  –
";
        assert_eq!(format!("\n{text}"), expected);
    }
}
