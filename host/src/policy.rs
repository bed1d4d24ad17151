//! Whatever answers prompts: the trained model, an expert, a script, chance, a person.
//!
//! A policy is asked for all prompts that wait at one moment in one call, so that a model can
//! answer them as a batch. What it answers for an episode may depend on that episode alone, never
//! on which others are asked beside it.

pub mod model;
mod players;

use art_learner::conversation::{Message, Prompt, TokenRow};

pub use self::players::{Expert, Random, Scripted, Stdin};

/// A prompt that waits for its answer.
#[derive(Clone, Debug)]
pub struct Ask<'a> {
    /// The episode's number; prompts of the same episode belong together.
    pub episode: u64,
    /// The policy seed of that episode, where all chance in its answers comes from.
    pub seed: u64,
    /// Which turn of the episode asks, from 0.
    pub turn: u32,
    /// What is asked.
    pub prompt: &'a Prompt,
    /// What the environment's expert would answer; only for a policy that wants it.
    pub expert: Option<Message>,
}

/// Why a policy has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The conversation no longer fits the policy's context, or its budget is used up: the episode
    /// is cut off.
    #[error("the conversation has reached the most tokens that the policy can hold")]
    TokenLimit,
    /// Anything else: the episode fails.
    #[error("{0}")]
    Failed(String),
}

/// Whatever answers prompts.
pub trait Policy {
    /// What it is called in reports.
    fn name(&self) -> String;

    /// The count of updates that it has had.
    fn version(&self) -> u64 {
        0
    }

    /// Whether [`Ask::expert`] is of use to it; asking the expert costs a call into the guest.
    fn wants_expert(&self) -> bool {
        false
    }

    /// Answers every prompt that waits at this moment, in order.
    fn answer(&mut self, asks: &[Ask<'_>]) -> Vec<Result<Message, PolicyError>>;

    /// The episode is over: gives the tokens behind its answers, one or more rows for an agent, and
    /// drops everything that was kept for it. Called once for every episode, whether it was ever
    /// asked or not.
    fn finish(&mut self, _episode: u64) -> Vec<TokenRow> {
        vec![]
    }
}
