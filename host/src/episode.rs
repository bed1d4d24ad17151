//! One play of one task: turns come in, are checked, are answered, until it ends, and what is left
//! is a trajectory.
//!
//! An episode is asked to advance on any thread and is answered on one, so it holds all of its own
//! state. It knows nothing of other episodes, nor of who answers.

pub(crate) mod check;

use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe};

use art_learner::conversation::{
    Action, Ending, Limit, Message, PlayedTurn, Prompt, Task, TokenRow, Trajectory,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::component::Component;
use crate::component::compiled::hex;
use crate::fault::{Cause, Fault, LimitHit};
use crate::limits::Limits;
use crate::policy::{Ask, PolicyError};
use crate::reward::RewardWeights;
use crate::sandbox::{Sandbox, Turn};

/// Which episode is to be played.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpisodeSpec {
    /// Its number within the rollout, distinct from every other's.
    pub episode: u64,
    /// What is to be solved.
    pub task: Task,
    /// The seed that the policy samples from.
    pub policy_seed: u64,
}

/// One play of one task.
pub(crate) struct Episode<'a> {
    component: &'a Component,
    limits: &'a Limits,
    spec: &'a EpisodeSpec,
    /// None before the first turn and after the last.
    sandbox: Option<Sandbox>,
    /// The turns so far; the last one waits for its answers unless there is an ending.
    turns: Vec<PlayedTurn>,
    /// What the expert would answer to each prompt of the last turn, if anybody wants to know.
    experts: Vec<Option<Message>>,
    /// Bytes of all prompts and answers so far.
    transcript_bytes: u64,
    ending: Option<Ending>,
}

impl<'a> Episode<'a> {
    /// An episode that has not begun.
    pub(crate) fn new(
        component: &'a Component,
        limits: &'a Limits,
        spec: &'a EpisodeSpec,
    ) -> Episode<'a> {
        Episode {
            component,
            limits,
            spec,
            sandbox: None,
            turns: vec![],
            experts: vec![],
            transcript_bytes: 0,
            ending: None,
        }
    }

    /// Whether it has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.ending.is_some()
    }

    /// Its number.
    pub(crate) fn number(&self) -> u64 {
        self.spec.episode
    }

    /// Lets the environment take its turn: the first, or the one after the answers that were given.
    pub(crate) fn advance(&mut self, wants_expert: bool) {
        if self.is_over() {
            return;
        }
        let advanced = panic::catch_unwind(AssertUnwindSafe(|| self.take_turn(wants_expert)));
        let fault = match advanced {
            Ok(Ok(())) => None,
            Ok(Err(fault)) => Some(fault),
            Err(_) => {
                let cause = Cause::Host("the host panicked while the guest ran".into());
                Some(Fault::new(cause, self.component.name()))
            }
        };
        if let Some(fault) = fault {
            self.ending = Some(match fault.cause {
                Cause::WallClock { .. } => Ending::Truncated(Limit::Time),
                _ => Ending::Failed(fault.record()),
            });
        }
        if self.is_over() {
            self.sandbox = None;
        }
    }

    fn take_turn(&mut self, wants_expert: bool) -> Result<(), Fault> {
        let turn = match (&mut self.sandbox, self.turns.last()) {
            (Some(sandbox), Some(last)) => sandbox.step(&last.actions)?,
            _ => {
                let sandbox = Sandbox::new(self.component, self.limits, self.spec.task.seed)?;
                self.sandbox.insert(sandbox).start(&self.spec.task)?
            }
        };
        check::turn(&turn, self.component.description())
            .map_err(|text| self.guest_fault(Cause::Contract(text)))?;
        self.count(turn.prompts.iter().map(prompt_bytes).sum())?;
        let is_last = turn.prompts.is_empty();
        self.turns.push(played(turn));
        let count = self.turns.len() as u64;
        let max_turns = self.component.description().max_turns;
        if is_last {
            check::totals(
                self.turns.iter().flat_map(|turn| &turn.rewards),
                self.component.description(),
            )
            .map_err(|text| self.guest_fault(Cause::Contract(text)))?;
            self.ending = Some(Ending::Terminated);
        } else if count >= u64::from(max_turns) {
            return Err(self.guest_fault(LimitHit::MaxTurns(max_turns)));
        } else if count >= u64::from(self.limits.turns) {
            self.ending = Some(Ending::Truncated(Limit::Turns));
        } else if wants_expert {
            self.ask_expert()?;
        }
        Ok(())
    }

    fn ask_expert(&mut self) -> Result<(), Fault> {
        let (Some(sandbox), Some(turn)) = (&mut self.sandbox, self.turns.last()) else {
            return Ok(());
        };
        let experts = turn.prompts.iter().map(|prompt| sandbox.expert(&prompt.agent));
        self.experts = experts.collect::<Result<_, _>>()?;
        Ok(())
    }

    /// The prompts that wait for an answer.
    pub(crate) fn asks(&self) -> impl Iterator<Item = Ask<'_>> {
        let prompts: &[Prompt] = match self.turns.last() {
            Some(turn) if !self.is_over() => &turn.prompts,
            _ => &[],
        };
        prompts.iter().enumerate().map(|(index, prompt)| Ask {
            episode: self.spec.episode,
            seed: self.spec.policy_seed,
            turn: self.turns.len() as u32 - 1,
            prompt,
            expert: self.experts.get(index).cloned().flatten(),
        })
    }

    /// Takes the answers to all prompts that wait, in their order.
    pub(crate) fn answer(&mut self, answers: impl Iterator<Item = Result<Message, PolicyError>>) {
        for answer in answers {
            if let Err(ending) = self.take_answer(answer) {
                self.ending = Some(ending);
                self.sandbox = None;
                return;
            }
        }
        self.experts.clear();
    }

    fn take_answer(&mut self, answer: Result<Message, PolicyError>) -> Result<(), Ending> {
        let message = answer.map_err(|error| match error {
            PolicyError::TokenLimit => Ending::Truncated(Limit::Tokens),
            PolicyError::Failed(text) => Ending::Failed(self.policy_fault(text).record()),
        })?;
        self.count(message_bytes(&message)).map_err(|fault| Ending::Failed(fault.record()))?;
        let turn = self.turns.last_mut().expect("only a turn is answered");
        let agent = turn.prompts[turn.actions.len()].agent.clone();
        turn.actions.push(Action { agent, message });
        Ok(())
    }

    fn count(&mut self, bytes: u64) -> Result<(), Fault> {
        self.transcript_bytes += bytes;
        let limit = self.limits.transcript_bytes;
        match self.transcript_bytes > limit {
            true => Err(self.guest_fault(LimitHit::Transcript(limit))),
            false => Ok(()),
        }
    }

    fn guest_fault(&self, cause: impl Into<Cause>) -> Fault {
        let log = self.sandbox.as_ref().map_or(vec![], Sandbox::log);
        Fault { cause: cause.into(), place: self.place(), log }
    }

    fn policy_fault(&self, text: String) -> Fault {
        Fault::new(Cause::Policy(text), self.place())
    }

    fn place(&self) -> String {
        format!("turn {} of {}", self.turns.len(), self.component.name())
    }

    /// The record of the episode, with the tokens behind its answers.
    pub(crate) fn finish(self, weights: &RewardWeights, rows: Vec<TokenRow>) -> Trajectory {
        let mut trajectory = Trajectory {
            episode: self.spec.episode,
            environment: self.component.description().name.clone(),
            component: self.component.digest().to_owned(),
            task: self.spec.task.clone(),
            policy_seed: self.spec.policy_seed,
            turns: self.turns,
            ending: self.ending.expect("only an episode that has ended is finished"),
            rewards: BTreeMap::new(),
            rows,
        };
        trajectory.rewards = weights.weigh(&trajectory);
        trajectory
    }
}

/// SHA-256 of all that a trajectory says, in hexadecimal: equal plays have equal digests.
pub fn digest(trajectory: &Trajectory) -> String {
    let text = serde_json::to_vec(trajectory).expect("a trajectory is plain data");
    hex(&Sha256::digest(text))
}

fn played(turn: Turn) -> PlayedTurn {
    PlayedTurn {
        prompts: turn.prompts,
        actions: vec![],
        rewards: turn.rewards,
        success: turn.success,
        metrics: turn.metrics,
        fuel: turn.fuel,
    }
}

fn prompt_bytes(prompt: &Prompt) -> u64 {
    let messages: u64 = prompt.messages.iter().map(message_bytes).sum();
    let tools = prompt.tools.iter().map(|tool| tool.description.len() + tool.parameters.len());
    let choices = prompt.choices.iter().map(String::len);
    messages + tools.chain(choices).sum::<usize>() as u64
}

fn message_bytes(message: &Message) -> u64 {
    let calls = message.tool_calls.iter().map(|call| call.name.len() + call.arguments.len());
    (message.content.len() + calls.sum::<usize>()) as u64
}
