//! Batched sampling: prompts in, completions out, for many conversations at once.
//!
//! Each conversation keeps its transcript and its place in a key-value cache from prompt to prompt.
//! What a conversation draws depends on its own seed and tokens alone: the random numbers are
//! counter-based, so neither its neighbours in the batch nor the number of threads matter.

pub mod draw;
mod shard;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use rayon::iter::{IntoParallelIterator, ParallelIterator};

use crate::chat::Chat;
use crate::chat::choices::ChoiceTrie;
use crate::chat::transcript::Transcript;
use crate::conversation::{Completion, Finish, Message, Prompt, TokenRow};
use crate::model::Decoder;
use crate::random::Key;
use crate::sampling::shard::{Job, Shard};

/// How to sample.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplerConfig {
    /// Divides the logits; 0 takes the likeliest id.
    pub temperature: f32,
    /// The most tokens of an answer; a prompt may ask for fewer.
    pub max_tokens: usize,
    /// The most tokens of a conversation's row; none for the model's own context.
    pub context: Option<usize>,
}

/// A prompt to be answered.
pub struct Request<'a> {
    /// The episode; with the prompt's agent it names the conversation.
    pub episode: u64,
    /// The seed of the episode's draws.
    pub seed: u64,
    /// What is asked.
    pub prompt: &'a Prompt,
}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum SamplingError {
    /// The conversation has no room left for an answer.
    #[error("the conversation has {tokens} tokens, and the context is {context}")]
    ContextFull {
        /// Tokens that the conversation would have before the answer.
        tokens: usize,
        /// The most that it may have.
        context: usize,
    },
    /// The prompt cannot be turned into tokens.
    #[error("{0:#}")]
    Prompt(anyhow::Error),
}

/// Plays one version of the policy.
pub struct Sampler {
    decoder: Decoder,
    chat: Arc<Chat>,
    config: SamplerConfig,
    policy_version: u64,
    context: usize,
    /// Rows in a shard: small on the CPU, where shards run in parallel and should stay in its
    /// caches.
    slots_per_shard: usize,
    shards: Vec<Shard>,
    conversations: BTreeMap<(u64, String), Conversation>,
}

struct Conversation {
    transcript: Transcript,
    shard: usize,
    slot: usize,
    /// Tokens of the current row that the slot holds.
    cached: usize,
    key: Key,
    drawn: u64,
}

/// Rows that a CPU core decodes together: enough to fill its vector units.
const SLOTS_PER_CPU_SHARD: usize = 64;
/// Rows that a GPU decodes together.
const SLOTS_PER_GPU_SHARD: usize = 512;

impl Sampler {
    /// A sampler of this decoder, which must not be tracked for gradients.
    pub fn new(
        decoder: Decoder,
        chat: Arc<Chat>,
        config: SamplerConfig,
        policy_version: u64,
    ) -> Sampler {
        let own = decoder.config.context;
        let on_cpu = crate::device::is_cpu(&decoder.embedding.device());
        Sampler {
            context: config.context.unwrap_or(own).min(own),
            slots_per_shard: if on_cpu { SLOTS_PER_CPU_SHARD } else { SLOTS_PER_GPU_SHARD },
            decoder,
            chat,
            config,
            policy_version,
            shards: vec![],
            conversations: BTreeMap::new(),
        }
    }

    /// The version of the policy that it plays.
    pub fn policy_version(&self) -> u64 {
        self.policy_version
    }

    /// Answers all requests, in order. At most one request for each conversation.
    pub fn answer(
        &mut self,
        requests: &[Request<'_>],
    ) -> Result<Vec<Result<Message, SamplingError>>> {
        let mut jobs: Vec<Result<Job, SamplingError>> =
            requests.iter().map(|request| self.begin(request)).collect();
        self.run(requests, &mut jobs)?;
        let finish = |(request, job): (&Request<'_>, Result<Job, SamplingError>)| {
            job.and_then(|job| self.finish_answer(request, job))
        };
        Ok(requests.iter().zip(jobs).map(finish).collect())
    }

    /// The episode is over: the token rows of its conversations, whose places are free again.
    pub fn finish(&mut self, episode: u64) -> Vec<TokenRow> {
        let first = (episode, String::new());
        let later = (episode + 1, String::new());
        let of_episode = self.conversations.range(first..later);
        let keys: Vec<(u64, String)> = of_episode.map(|(key, _)| key.clone()).collect();
        let mut rows = vec![];
        for key in keys {
            if let Some(conversation) = self.conversations.remove(&key) {
                self.shards[conversation.shard].free_slot(conversation.slot);
                rows.extend(conversation.transcript.into_rows(&key.1, self.config.temperature));
            }
        }
        rows
    }

    fn begin(&mut self, request: &Request<'_>) -> Result<Job, SamplingError> {
        let (chat, prompt) = (self.chat.clone(), request.prompt);
        let (context, max_tokens) = (self.context, self.config.max_tokens);
        let conversation = self.conversation(request);
        let delta = conversation
            .transcript
            .prompt(&chat.template, &chat.tokenizer, &prompt.messages, &prompt.tools)
            .map_err(SamplingError::Prompt)?;
        if delta.new_row {
            conversation.cached = 0;
        }
        let tokens = conversation.transcript.row_tokens();
        if tokens.len() >= context {
            return Err(SamplingError::ContextFull { tokens: tokens.len(), context });
        }
        let room = context - tokens.len();
        let asked = prompt.max_tokens.map_or(max_tokens, |asked| max_tokens.min(asked as usize));
        let choices = (!prompt.choices.is_empty())
            .then(|| ChoiceTrie::new(&chat.tokenizer, &prompt.choices))
            .transpose()
            .map_err(SamplingError::Prompt)?;
        Ok(Job {
            slot: conversation.slot,
            cached: conversation.cached,
            pending: tokens[conversation.cached..].to_vec(),
            draws: vec![],
            allowed: vec![],
            // A constrained answer ends by itself, and half a choice would help nobody.
            draws_max: if choices.is_some() { room } else { asked.clamp(1, room) },
            choices,
            key: conversation.key,
            counter: conversation.drawn,
            stopped: false,
        })
    }

    fn run(
        &mut self,
        requests: &[Request<'_>],
        jobs: &mut [Result<Job, SamplingError>],
    ) -> Result<()> {
        let mut by_shard: Vec<Vec<&mut Job>> = self.shards.iter().map(|_| vec![]).collect();
        for (request, job) in requests.iter().zip(jobs) {
            let key = (request.episode, request.prompt.agent.clone());
            if let (Ok(job), Some(conversation)) = (job, self.conversations.get(&key)) {
                by_shard[conversation.shard].push(job);
            }
        }
        let (decoder, temperature) = (&self.decoder, self.config.temperature);
        let stop_ids = self.chat.tokenizer.stop_ids();
        let work: Vec<_> = self.shards.iter_mut().zip(by_shard).collect();
        work.into_par_iter()
            .try_for_each(|(shard, mut jobs)| shard.run(decoder, &mut jobs, temperature, stop_ids))
    }

    fn finish_answer(&mut self, request: &Request<'_>, job: Job) -> Result<Message, SamplingError> {
        let chat = self.chat.clone();
        let mut tokens: Vec<u32> = job.draws.iter().map(|draw| draw.token).collect();
        let stop = job.stopped.then(|| tokens[tokens.len() - 1]);
        let said = tokens.len() - usize::from(job.stopped);
        let text = chat.tokenizer.decode(&tokens[..said]).map_err(SamplingError::Prompt)?;
        let completion = Completion {
            logprobs: job.draws.iter().map(|draw| draw.logprob).collect(),
            allowed: job.allowed,
            text,
            finish: if job.stopped { Finish::Stop } else { Finish::Length },
            policy_version: self.policy_version,
            tokens: std::mem::take(&mut tokens),
        };
        let conversation = self.conversation(request);
        conversation.cached = job.cached;
        conversation.drawn += completion.tokens.len() as u64;
        let stop_text = stop.and_then(|stop| chat.tokenizer.token_text(stop));
        Ok(conversation.transcript.answer(&completion, stop_text.as_deref()))
    }

    fn conversation(&mut self, request: &Request<'_>) -> &mut Conversation {
        let agent = &request.prompt.agent;
        let key = (request.episode, agent.clone());
        if !self.conversations.contains_key(&key) {
            let (shard, slot) = self.take_slot();
            let conversation = Conversation {
                transcript: Transcript::new(),
                shard,
                slot,
                cached: 0,
                key: Key::new(request.seed).named(agent),
                drawn: 0,
            };
            self.conversations.insert(key.clone(), conversation);
        }
        self.conversations.get_mut(&key).expect("it was inserted above")
    }

    fn take_slot(&mut self) -> (usize, usize) {
        for (index, shard) in self.shards.iter_mut().enumerate() {
            if let Some(slot) = shard.take_slot() {
                return (index, slot);
            }
        }
        let mut shard = Shard::new(&self.decoder, self.slots_per_shard, self.context);
        let slot = shard.take_slot().expect("a new shard has free slots");
        self.shards.push(shard);
        (self.shards.len() - 1, slot)
    }
}
