//! Which episodes are played: tasks and policy seeds as a pure function of the run's seed.
//!
//! Training and evaluation never share a seed: the lowest bit tells them apart. Seeds stay below
//! 2^53, the whole numbers that a JavaScript guest holds exactly.

use art_learner::conversation::Task;
use art_learner::random::Key;

use crate::component::Description;
use crate::rollout::EpisodeSpec;

/// The split that policies are measured on, where the environment has it.
const EVAL: &str = "eval";

/// Where all tasks of a run come from.
#[derive(Clone, Debug)]
pub struct Tasks {
    key: Key,
    config: String,
    train: (String, u64),
    eval: (String, u64),
}

impl Tasks {
    /// The tasks of an environment under a seed, with the user's settings for it as JSON.
    ///
    /// # Panics
    /// If the environment has no split; loading a component refuses that.
    pub fn new(description: &Description, seed: u64, config: String) -> Tasks {
        let splits = &description.splits;
        let train = splits.first().expect("a loaded environment has a split");
        let eval = splits.iter().find(|split| split.name == EVAL).unwrap_or(train);
        Tasks {
            key: Key::new(seed),
            config,
            train: (train.name.clone(), train.tasks),
            eval: (eval.name.clone(), eval.tasks),
        }
    }

    /// The episodes of one update, group after group. Tasks are drawn from the split with
    /// replacement.
    pub fn training(&self, update: u64, groups: u64, group_size: u64) -> Vec<EpisodeSpec> {
        let key = self.key.named("train").part(update);
        let episodes = (0..groups).flat_map(|group| (0..group_size).map(move |_| group));
        let task = |group: u64| {
            let (split, tasks) = &self.train;
            self.task(split, key.named("index").bits(group) % tasks, key.bits(group), 0)
        };
        specs(key, episodes.map(task))
    }

    /// The episodes of an evaluation: the split's tasks in order, from the first again when they
    /// run out.
    pub fn evaluation(&self, episodes: u64) -> Vec<EpisodeSpec> {
        let key = self.key.named("eval");
        let (split, tasks) = &self.eval;
        specs(key, (0..episodes).map(|i| self.task(split, i % tasks, key.bits(i), 1)))
    }

    /// The episodes that an expert or any other policy plays on the training split, each task once.
    pub fn playing(&self, episodes: u64) -> Vec<EpisodeSpec> {
        let key = self.key.named("play");
        let (split, tasks) = &self.train;
        specs(key, (0..episodes).map(|i| self.task(split, i % tasks, key.bits(i), 0)))
    }

    fn task(&self, split: &str, index: u64, bits: u64, lowest: u64) -> Task {
        let seed = (bits >> 12) << 1 | lowest;
        Task { split: split.to_owned(), index, seed, config: self.config.clone() }
    }
}

fn specs(key: Key, tasks: impl Iterator<Item = Task>) -> Vec<EpisodeSpec> {
    let key = key.named("policy");
    let spec = |(episode, task)| EpisodeSpec { episode, task, policy_seed: key.bits(episode) };
    (0..).zip(tasks).map(spec).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::Tasks;
    use art_learner::random::Key;

    fn tasks(seed: u64) -> Tasks {
        let split = |name: &str, tasks| (name.to_owned(), tasks);
        let (train, eval) = (split("train", 5), split("eval", 7));
        Tasks { key: Key::new(seed), config: "{}".into(), train, eval }
    }

    #[test]
    fn groups_share_a_task_and_nothing_else() {
        let specs = tasks(1).training(0, 3, 4);
        assert_eq!(specs.len(), 12);
        for group in specs.chunks(4) {
            assert!(group.iter().all(|spec| spec.task == group[0].task));
        }
        let policy_seeds: BTreeSet<_> = specs.iter().map(|spec| spec.policy_seed).collect();
        let seeds: BTreeSet<_> = specs.iter().map(|spec| spec.task.seed).collect();
        assert_eq!((policy_seeds.len(), seeds.len()), (12, 3));
    }

    #[test]
    fn training_and_evaluation_never_meet_and_seeds_fit_a_double() {
        let train: BTreeSet<_> =
            (0..20).flat_map(|u| tasks(1).training(u, 50, 2)).map(|spec| spec.task.seed).collect();
        let eval: BTreeSet<_> =
            tasks(1).evaluation(500).into_iter().map(|spec| spec.task.seed).collect();
        assert!(train.is_disjoint(&eval));
        assert!(train.union(&eval).all(|seed| *seed < 1 << 53));
        assert_eq!(eval.len(), 500);
    }

    #[test]
    fn the_seed_decides_everything() {
        let of = |seed| format!("{:?}", tasks(seed).training(3, 2, 2));
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }
}
