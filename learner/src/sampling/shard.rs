//! A shard: the cache of a fixed number of rows, decoded together in one batch.
//!
//! More rows than a shard has slots make more shards, which run in parallel on the CPU. Knows
//! nothing of text: jobs come in as ids and constraints, and go out with their draws.

use anyhow::{Context, Result};

use crate::chat::choices::ChoiceTrie;
use crate::model::cache::Cache;
use crate::model::{Decoder, Extension};
use crate::random::Key;
use crate::sampling::draw::{Draw, draw};

/// Rows whose caches live and whose forward passes run together.
pub(super) struct Shard {
    cache: Cache,
    free: Vec<usize>,
}

/// One answer being sampled.
pub(super) struct Job {
    /// The slot in its shard.
    pub slot: usize,
    /// Positions that the slot holds.
    pub cached: usize,
    /// Ids that stand after them and are not in the cache yet; never empty while the job runs.
    pub pending: Vec<u32>,
    /// The ids drawn so far.
    pub draws: Vec<Draw>,
    /// What each draw was allowed to be; none for the whole vocabulary.
    pub allowed: Vec<Option<Vec<u32>>>,
    /// The constraint, where the answer is one of several choices.
    pub choices: Option<ChoiceTrie>,
    /// The most draws; at least 1.
    pub draws_max: usize,
    /// The random stream of the conversation.
    pub key: Key,
    /// Draws the conversation had before this answer.
    pub counter: u64,
    /// Whether a stop id was drawn.
    pub stopped: bool,
}

impl Shard {
    pub(super) fn new(decoder: &Decoder, slots: usize, columns: usize) -> Shard {
        let cache = Cache::new(&decoder.config, slots, columns, &decoder.embedding.device());
        Shard { cache, free: (0..slots).rev().collect() }
    }

    /// The lowest free slot, if there is one.
    pub(super) fn take_slot(&mut self) -> Option<usize> {
        self.free.pop()
    }

    /// Its next owner overwrites what it holds.
    pub(super) fn free_slot(&mut self, slot: usize) {
        self.free.push(slot);
        self.free.sort_unstable_by(|a, b| b.cmp(a));
    }

    /// Draws until every job has stopped or reached its most draws.
    pub(super) fn run(
        &mut self,
        decoder: &Decoder,
        jobs: &mut [&mut Job],
        temperature: f32,
        stop_ids: &[u32],
    ) -> Result<()> {
        jobs.iter_mut().for_each(|job| job.take_forced(stop_ids));
        loop {
            let running = jobs.iter_mut().filter(|job| !job.is_done());
            let mut passes = by_length(running.map(|job| &mut **job));
            if passes.is_empty() {
                return Ok(());
            }
            for pass in &mut passes {
                self.pass(decoder, pass, temperature, stop_ids)?;
            }
        }
    }

    /// Feeds every job's pending ids and draws one id for each.
    fn pass(
        &mut self,
        decoder: &Decoder,
        jobs: &mut [&mut Job],
        temperature: f32,
        stop_ids: &[u32],
    ) -> Result<()> {
        let slots: Vec<usize> = jobs.iter().map(|job| job.slot).collect();
        let starts: Vec<usize> = jobs.iter().map(|job| job.cached).collect();
        let tokens: Vec<&[u32]> = jobs.iter().map(|job| job.pending.as_slice()).collect();
        let rows = Extension { slots: &slots, starts: &starts, tokens: &tokens };
        let hidden = decoder.extend(&mut self.cache, &rows);
        let logits = decoder.logits(hidden).try_into_vec_as::<f32>();
        let logits = logits.context("cannot read logits from the device")?;
        let vocabulary = decoder.config.vocabulary;
        for (job, logits) in jobs.iter_mut().zip(logits.chunks_exact(vocabulary)) {
            job.cached += job.pending.len();
            job.pending.clear();
            job.draw(logits, temperature, stop_ids);
            job.take_forced(stop_ids);
        }
        Ok(())
    }
}

impl Job {
    fn is_done(&self) -> bool {
        self.stopped || self.draws.len() >= self.draws_max
    }

    fn draw(&mut self, logits: &[f32], temperature: f32, stop_ids: &[u32]) {
        let allowed = self.allowed_now();
        let uniform = self.key.uniform(self.counter + self.draws.len() as u64);
        let drawn = draw(logits, temperature, allowed.as_deref(), uniform);
        self.push(drawn, allowed, stop_ids);
    }

    /// Takes the ids that leave no choice without running the model for them.
    fn take_forced(&mut self, stop_ids: &[u32]) {
        while !self.is_done() {
            let Some(allowed) = self.allowed_now().filter(|allowed| allowed.len() == 1) else {
                return;
            };
            let forced = Draw { token: allowed[0], logprob: 0.0 };
            self.push(forced, Some(allowed), stop_ids);
        }
    }

    fn push(&mut self, drawn: Draw, allowed: Option<Vec<u32>>, stop_ids: &[u32]) {
        self.stopped = stop_ids.contains(&drawn.token);
        self.pending.push(drawn.token);
        self.draws.push(drawn);
        self.allowed.push(allowed);
    }

    fn allowed_now(&self) -> Option<Vec<u32>> {
        let drawn: Vec<u32> = self.draws.iter().map(|draw| draw.token).collect();
        self.choices.as_ref().map(|choices| choices.allowed(&drawn).to_vec())
    }
}

/// Jobs whose pending ids are about equally many: padding at most doubles a pass.
fn by_length<'a>(jobs: impl Iterator<Item = &'a mut Job>) -> Vec<Vec<&'a mut Job>> {
    let mut passes: std::collections::BTreeMap<u32, Vec<&mut Job>> = Default::default();
    for job in jobs {
        passes.entry(job.pending.len().ilog2()).or_default().push(job);
    }
    passes.into_values().collect()
}
