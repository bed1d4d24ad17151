//! The policy that is a language model: the learner's sampler, asked for a whole round at once.

use art_learner::conversation::{Message, TokenRow};
use art_learner::sampling::{Request, Sampler, SamplingError};

use super::{Ask, Policy, PolicyError};

/// A model that plays; one version of it.
pub struct ModelPolicy {
    sampler: Sampler,
}

impl ModelPolicy {
    /// The sampler's model as a player.
    pub fn new(sampler: Sampler) -> ModelPolicy {
        ModelPolicy { sampler }
    }
}

impl Policy for ModelPolicy {
    fn name(&self) -> String {
        format!("model, version {}", self.sampler.policy_version())
    }

    fn version(&self) -> u64 {
        self.sampler.policy_version()
    }

    fn answer(&mut self, asks: &[Ask<'_>]) -> Vec<Result<Message, PolicyError>> {
        let requests: Vec<Request<'_>> = asks
            .iter()
            .map(|ask| Request { episode: ask.episode, seed: ask.seed, prompt: ask.prompt })
            .collect();
        match self.sampler.answer(&requests) {
            Ok(answers) => answers.into_iter().map(|answer| answer.map_err(policy_error)).collect(),
            // The device failed: nobody gets an answer.
            Err(error) => {
                asks.iter().map(|_| Err(PolicyError::Failed(format!("{error:#}")))).collect()
            }
        }
    }

    fn finish(&mut self, episode: u64) -> Vec<TokenRow> {
        self.sampler.finish(episode)
    }
}

fn policy_error(error: SamplingError) -> PolicyError {
    match error {
        SamplingError::ContextFull { .. } => PolicyError::TokenLimit,
        SamplingError::Prompt(error) => PolicyError::Failed(format!("{error:#}")),
    }
}
