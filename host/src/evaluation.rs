//! Trajectories in, the numbers that a person reads out. Pure; every episode is counted somewhere.

use std::collections::BTreeMap;

use art_learner::conversation::{Ending, Trajectory};
use serde::{Deserialize, Serialize};

/// What a policy did over a set of episodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Episodes played, failed ones included.
    pub episodes: u64,
    /// The share of episodes that the environment called solved; failed and cut-off episodes count
    /// as not solved. None where it never says.
    pub success: Option<f64>,
    /// The 95 % Wilson interval of `success`.
    pub success_interval: Option<[f64; 2]>,
    /// The mean weighted reward of an agent in an episode that did not fail.
    pub reward: f64,
    /// The same for each agent.
    pub reward_by_agent: BTreeMap<String, f64>,
    /// The mean of each reward part, unweighted, over agents and episodes that did not fail.
    pub parts: BTreeMap<String, f64>,
    /// The mean of each metric over the episodes that gave it.
    pub metrics: BTreeMap<String, f64>,
    /// Episodes by ending; those named `failed-…` and `truncated-…` are not whole games.
    pub endings: BTreeMap<String, u64>,
    /// The mean number of turns.
    pub turns: f64,
    /// The mean number of sampled tokens; 0 unless a language model played.
    pub tokens: f64,
}

impl Evaluation {
    /// Counts and averages.
    pub fn of<'a>(trajectories: impl IntoIterator<Item = &'a Trajectory>) -> Evaluation {
        let trajectories: Vec<&Trajectory> = trajectories.into_iter().collect();
        let mut rewards = Means::default();
        let mut parts = Means::default();
        let mut metrics = Means::default();
        let mut endings: BTreeMap<String, u64> = BTreeMap::new();
        for trajectory in &trajectories {
            *endings.entry(trajectory.ending.label()).or_default() += 1;
            if matches!(trajectory.ending, Ending::Failed(_)) {
                continue;
            }
            for (agent, reward) in &trajectory.rewards {
                rewards.add(agent, *reward);
            }
            for (part, value) in trajectory.parts().into_values().flatten() {
                parts.add(&part, value);
            }
            for (metric, value) in last_metrics(trajectory) {
                metrics.add(metric, value);
            }
        }
        let count = trajectories.len() as u64;
        let solved = trajectories.iter().filter(|t| is_solved(t)).count() as u64;
        let says = trajectories.iter().any(|trajectory| trajectory.success().is_some());
        let mean = |sum: usize| if count == 0 { 0.0 } else { sum as f64 / count as f64 };
        Evaluation {
            episodes: count,
            success: says.then(|| solved as f64 / count as f64),
            success_interval: says.then(|| wilson_interval(solved, count)),
            reward: rewards.overall(),
            reward_by_agent: rewards.each(),
            parts: parts.each(),
            metrics: metrics.each(),
            endings,
            turns: mean(trajectories.iter().map(|t| t.turns.len()).sum()),
            tokens: mean(trajectories.iter().map(|t| sampled_tokens(t)).sum()),
        }
    }

    /// The share of episodes with an ending.
    pub fn share(&self, ending: &str) -> f64 {
        let count = self.endings.get(ending).copied().unwrap_or(0);
        if self.episodes == 0 { 0.0 } else { count as f64 / self.episodes as f64 }
    }

    /// Episodes that failed, whoever is to blame.
    pub fn failed(&self) -> u64 {
        let failed = self.endings.iter().filter(|(label, _)| label.starts_with("failed-"));
        failed.map(|(_, count)| count).sum()
    }
}

/// The tokens that a language model sampled in an episode.
pub fn sampled_tokens(trajectory: &Trajectory) -> usize {
    let spans = trajectory.rows.iter().flat_map(|row| &row.spans);
    spans.map(|span| span.logprobs.len()).sum()
}

fn is_solved(trajectory: &Trajectory) -> bool {
    let failed = matches!(trajectory.ending, Ending::Failed(_));
    !failed && trajectory.success() == Some(true)
}

/// The value that an episode last gave for each metric.
fn last_metrics(trajectory: &Trajectory) -> BTreeMap<&str, f64> {
    let metrics = trajectory.turns.iter().flat_map(|turn| &turn.metrics);
    metrics.map(|(name, value)| (name.as_str(), *value)).collect()
}

/// The 95 % interval of a share (Wilson, 1927): honest near 0 and 1, where the normal one is not.
pub fn wilson_interval(successes: u64, trials: u64) -> [f64; 2] {
    if trials == 0 {
        return [0.0, 1.0];
    }
    const Z: f64 = 1.959_963_984_540_054;
    let n = trials as f64;
    let share = successes as f64 / n;
    let centre = (share + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
    let half = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt() / (1.0 + Z * Z / n);
    [(centre - half).max(0.0), (centre + half).min(1.0)]
}

/// Sums and counts by name.
#[derive(Default)]
struct Means(BTreeMap<String, (f64, u64)>);

impl Means {
    fn add(&mut self, name: &str, value: f64) {
        let (sum, count) = self.0.entry(name.to_owned()).or_default();
        *sum += value;
        *count += 1;
    }

    fn each(&self) -> BTreeMap<String, f64> {
        self.0.iter().map(|(name, (sum, count))| (name.clone(), sum / *count as f64)).collect()
    }

    fn overall(&self) -> f64 {
        let sum: f64 = self.0.values().map(|(sum, _)| sum).sum();
        let count: u64 = self.0.values().map(|(_, count)| count).sum();
        if count == 0 { 0.0 } else { sum / count as f64 }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use art_learner::conversation::{
        Blame, Ending, FaultRecord, PlayedTurn, Reward, Task, Trajectory,
    };

    use super::{Evaluation, wilson_interval};

    fn trajectory(win: f64, success: Option<bool>, ending: Ending) -> Trajectory {
        let reward = Reward { agent: "x".into(), part: "win".into(), value: win };
        let turn = PlayedTurn {
            prompts: vec![],
            actions: vec![],
            rewards: vec![reward],
            success,
            metrics: BTreeMap::from([("draw".into(), 1.0 - win)]),
            fuel: 1,
        };
        Trajectory {
            episode: 0,
            environment: "e".into(),
            component: "c".into(),
            task: Task { split: "train".into(), index: 0, seed: 0, config: "{}".into() },
            policy_seed: 0,
            turns: vec![turn],
            ending,
            rewards: BTreeMap::from([("x".into(), 2.0 * win)]),
            rows: vec![],
        }
    }

    #[test]
    fn failed_episodes_count_against_success_and_not_into_means() {
        let fault = FaultRecord {
            blame: Blame::Guest,
            kind: "trap".into(),
            message: "".into(),
            log: vec![],
        };
        let evaluation = Evaluation::of(&[
            trajectory(1.0, Some(true), Ending::Terminated),
            trajectory(0.5, Some(false), Ending::Terminated),
            trajectory(0.0, None, Ending::Failed(fault)),
            trajectory(0.0, None, Ending::Terminated),
        ]);
        assert_eq!(evaluation.success, Some(0.25));
        assert_eq!(evaluation.reward, 1.0);
        assert_eq!(evaluation.parts["win"], 0.5);
        assert_eq!(evaluation.metrics["draw"], 0.5);
        assert_eq!(evaluation.endings["failed-guest-trap"], 1);
        assert_eq!((evaluation.failed(), evaluation.share("terminated")), (1, 0.75));
    }

    #[test]
    fn an_environment_that_never_says_has_no_success() {
        let evaluation = Evaluation::of(&[trajectory(1.0, None, Ending::Terminated)]);
        assert_eq!((evaluation.success, evaluation.success_interval), (None, None));
        assert_eq!(Evaluation::of(&[]).episodes, 0);
    }

    #[test]
    fn wilson_interval_matches_worked_values() {
        // 9 of 10: p = 0.9; centre (0.9 + 0.19207) / 1.38415, half 0.26490 (Brown, Cai, DasGupta
        // 2001, eq. 4).
        let [low, high] = wilson_interval(9, 10);
        assert!((low - 0.5958).abs() < 1e-4 && (high - 0.9821).abs() < 1e-4, "{low} {high}");
        let [low, high] = wilson_interval(0, 500);
        assert!(low < 1e-12 && (high - 0.00762).abs() < 1e-4, "{high}");
    }
}
