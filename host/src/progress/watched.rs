//! A policy that tells the display of every finished episode, and is otherwise the policy it wraps.

use art_learner::conversation::{Message, TokenRow};

use super::{Event, Events};
use crate::policy::{Ask, Policy, PolicyError};

/// A policy under the display's eyes.
pub struct Watched<'a> {
    /// Who really answers.
    pub policy: &'a mut dyn Policy,
    /// Who hears of finished episodes.
    pub events: &'a Events,
}

impl Policy for Watched<'_> {
    fn name(&self) -> String {
        self.policy.name()
    }

    fn version(&self) -> u64 {
        self.policy.version()
    }

    fn wants_expert(&self) -> bool {
        self.policy.wants_expert()
    }

    fn answer(&mut self, asks: &[Ask<'_>]) -> Vec<Result<Message, PolicyError>> {
        self.policy.answer(asks)
    }

    fn finish(&mut self, episode: u64) -> Vec<TokenRow> {
        self.events.send(Event::Played);
        self.policy.finish(episode)
    }
}
