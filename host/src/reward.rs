//! From reward parts to rewards: the weights of a run, and components that score finished episodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use art_learner::conversation::{Reward, Trajectory};

use crate::bindings::art::env::types;
use crate::component::compiled::Compiled;
use crate::component::description::{check_name, check_parts};
use crate::component::{ComponentError, Part, Problem, apart};
use crate::fault::{Cause, Fault};
use crate::limits::Limits;
use crate::sandbox::Guest;

/// The weight of each reward part; a part that is not named weighs 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RewardWeights(BTreeMap<String, f64>);

impl RewardWeights {
    /// These weights.
    pub fn new(weights: BTreeMap<String, f64>) -> RewardWeights {
        RewardWeights(weights)
    }

    /// The weighted sum of what each agent earned; 0 for an agent that acted and earned nothing.
    pub fn weigh(&self, trajectory: &Trajectory) -> BTreeMap<String, f64> {
        let prompts = trajectory.turns.iter().flat_map(|turn| &turn.prompts);
        let mut sums: BTreeMap<String, f64> =
            prompts.map(|prompt| (prompt.agent.clone(), 0.0)).collect();
        for (agent, parts) in trajectory.parts() {
            let weighted =
                |(part, value): (&String, &f64)| self.0.get(part).copied().unwrap_or(1.0) * value;
            sums.insert(agent, parts.iter().map(weighted).sum());
        }
        sums
    }
}

/// A component that scores finished episodes. Cheap to clone.
#[derive(Clone)]
pub struct RewardFunction {
    compiled: Arc<Compiled>,
    limits: Limits,
    parts: Arc<[Part]>,
}

impl RewardFunction {
    /// Checks, compiles and describes a reward function, as [`crate::component::Component::load`]
    /// does for environments.
    ///
    /// # Errors
    /// What is wrong with it, where, and what to do.
    pub fn load(
        name: &str,
        bytes: &[u8],
        limits: &Limits,
    ) -> Result<RewardFunction, ComponentError> {
        let load = || {
            let compiled = Compiled::new(name, bytes, limits)?;
            let complain = |problem| ComponentError { name: name.to_owned(), problem };
            let Some(indices) = compiled.reward() else {
                return Err(complain(Problem::NotReward));
            };
            let described = Guest::new(&compiled, limits, 0).and_then(|mut guest| {
                let function = guest.load(|store, instance| indices.load(store, instance))?;
                guest.call("describe", |store| function.call_describe(store))
            });
            let (description, _) = described.map_err(|fault| complain(Problem::Describe(fault)))?;
            let parts: Vec<Part> = description.parts.into_iter().map(Part::from).collect();
            check_name(&description.name)
                .and_then(|()| check_parts(&parts))
                .map_err(|text| complain(Problem::Description(text)))?;
            Ok(RewardFunction { compiled: compiled.into(), limits: *limits, parts: parts.into() })
        };
        apart(load)
    }

    /// The reward parts that it gives.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The rewards of each trajectory of a group, in order. A fresh instance scores each group.
    ///
    /// # Errors
    /// A guest fault if it traps, breaks a limit, answers with an error or with rewards that break
    /// the contract.
    pub fn score(&self, group: &[Trajectory]) -> Result<Vec<Vec<Reward>>, Fault> {
        let seed = group.first().map_or(0, |trajectory| trajectory.task.seed);
        let mut guest = Guest::new(&self.compiled, &self.limits, seed)?;
        let wrong = |text| Fault::new(Cause::Contract(text), self.compiled.name());
        let indices =
            self.compiled.reward().ok_or_else(|| wrong("it is no reward function".into()))?;
        let function = guest.load(|store, instance| indices.load(store, instance))?;
        let trajectories: Vec<types::Trajectory> =
            group.iter().map(types::Trajectory::from).collect();
        let (scores, _) = guest.call("score", |store| function.call_score(store, &trajectories))?;
        let scores = scores.map_err(|text| guest.error("score", text))?;
        if scores.len() != group.len() {
            let (given, asked) = (scores.len(), group.len());
            return Err(wrong(format!("it scored {given} of {asked} trajectories")));
        }
        let rewards = |rewards: Vec<types::Reward>| {
            rewards.into_iter().map(Reward::from).map(|reward| self.checked(reward)).collect()
        };
        scores.into_iter().map(rewards).collect::<Result<_, String>>().map_err(wrong)
    }

    fn checked(&self, reward: Reward) -> Result<Reward, String> {
        let Reward { part: name, value, .. } = &reward;
        match self.parts.iter().find(|part| part.name == *name) {
            None => Err(format!("it gave a reward in part `{name}`, which it does not describe")),
            Some(part) if !(part.minimum..=part.maximum).contains(value) => Err(format!(
                "it gave {value} in part `{name}`, which it describes as {} to {}",
                part.minimum, part.maximum
            )),
            Some(_) => Ok(reward),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use art_learner::conversation::{Ending, PlayedTurn, Prompt, Reward, Task, Trajectory};

    use super::RewardWeights;

    #[test]
    fn parts_are_weighted_and_an_agent_that_earned_nothing_has_zero() {
        let reward = |agent: &str, part: &str, value| Reward {
            agent: agent.into(),
            part: part.into(),
            value,
        };
        let prompt = Prompt {
            agent: "o".into(),
            messages: vec![],
            tools: vec![],
            choices: vec![],
            max_tokens: None,
        };
        let turn = PlayedTurn {
            prompts: vec![prompt],
            actions: vec![],
            rewards: vec![reward("x", "win", 1.0), reward("x", "length", 3.0)],
            success: None,
            metrics: BTreeMap::new(),
            fuel: 0,
        };
        let trajectory = Trajectory {
            episode: 0,
            environment: "e".into(),
            component: "c".into(),
            task: Task { split: "train".into(), index: 0, seed: 0, config: "{}".into() },
            policy_seed: 0,
            turns: vec![turn],
            ending: Ending::Terminated,
            rewards: BTreeMap::new(),
            rows: vec![],
        };
        let weights = RewardWeights::new(BTreeMap::from([("length".into(), -0.5)]));
        let expected = BTreeMap::from([("o".into(), 0.0), ("x".into(), -0.5)]);
        assert_eq!(weights.weigh(&trajectory), expected);
    }
}
