//! What the tiny policy costs on a device: prompts read, tokens sampled, tokens learnt from, each a
//! second.
//!
//! All through the doors that training uses, so templates, tokenizer, cache and optimiser are part
//! of it. Numbers are medians over rounds, because a shared machine disturbs some of them.

use std::time::Instant;

use anyhow::{Context, Result};
use art_learner::conversation::{Ending, Group, Message, Prompt, Role, Task, TokenRow, Trajectory};
use art_learner::device::Chosen;
use art_learner::learner::{Learner, LearnerConfig};
use art_learner::sampling::{Request, Sampler, SamplerConfig};
use serde::Serialize;

use crate::config::Config;

/// Rounds of each measurement.
const ROUNDS: usize = 5;

/// Prompt tokens of a prefill, about: the tiny policy reads a letter or two with each.
const PROMPT_LETTERS: usize = 400;

/// Tokens of a sampled answer; the tiny policy ends few of them earlier.
const ANSWER_TOKENS: usize = 96;

/// Rows of a prefill and of an update.
const ROWS: usize = 64;

/// What the tiny policy costs. Names end in their unit; `b8` is a batch of 8 conversations.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PolicyReport {
    /// What it ran on.
    pub device: String,
    /// Numbers in the model.
    pub parameters: usize,
    /// Prompt tokens read.
    pub prefill_tok_s: f64,
    /// Tokens sampled in one conversation.
    pub decode_b1_tok_s: f64,
    /// Tokens sampled in 8 at once.
    pub decode_b8_tok_s: f64,
    /// Tokens sampled in 32 at once.
    pub decode_b32_tok_s: f64,
    /// Tokens of the rows that an update of all weights learnt from.
    pub update_tok_s: f64,
    /// The same with adapters of rank 8 in their place.
    pub adapter_update_tok_s: f64,
}

/// Measures.
///
/// # Errors
/// If the device or the disk fails.
pub fn run(device: &Chosen) -> Result<PolicyReport> {
    let home = tempfile::tempdir().context("cannot make a temporary directory")?;
    let dir = home.path().join("tiny");
    art_learner::tiny::create(&dir, 1)?;
    let load = |adapter_rank: usize| {
        let config = LearnerConfig { adapter_rank, ..Config::default().learner() };
        Learner::load(&dir, &device.device, config)
    };
    let learner = load(0)?;
    let rows = rows(&learner)?;
    Ok(PolicyReport {
        device: device.name.clone(),
        parameters: learner.parameter_counts().0,
        prefill_tok_s: median(|| prefill(&learner))?,
        decode_b1_tok_s: median(|| decode(&learner, 1))?,
        decode_b8_tok_s: median(|| decode(&learner, 8))?,
        decode_b32_tok_s: median(|| decode(&learner, 32))?,
        update_tok_s: median(|| update(load(0)?, &rows))?,
        adapter_update_tok_s: median(|| update(load(8)?, &rows))?,
    })
}

fn prefill(learner: &Learner) -> Result<f64> {
    let mut sampler = sampler(learner, 1);
    let started = Instant::now();
    ask(&mut sampler, ROWS, PROMPT_LETTERS)?;
    let seconds = started.elapsed().as_secs_f64();
    Ok(tokens(&finish(&mut sampler, ROWS)) / seconds)
}

fn decode(learner: &Learner, rows: usize) -> Result<f64> {
    let mut sampler = sampler(learner, ANSWER_TOKENS);
    let started = Instant::now();
    ask(&mut sampler, rows, 1)?;
    let seconds = started.elapsed().as_secs_f64();
    let rows = finish(&mut sampler, rows);
    let sampled = rows.iter().flat_map(|row| &row.spans).map(|span| span.logprobs.len());
    Ok(sampled.sum::<usize>() as f64 / seconds)
}

fn update(mut learner: Learner, rows: &[TokenRow]) -> Result<f64> {
    let trajectory = |(index, row): (usize, &TokenRow)| Trajectory {
        episode: index as u64,
        environment: "bench".into(),
        component: String::new(),
        task: Task { split: "train".into(), index: 0, seed: 0, config: "{}".into() },
        policy_seed: 0,
        turns: vec![],
        ending: Ending::Terminated,
        rewards: [(row.agent.clone(), (index % 2) as f64)].into(),
        rows: vec![row.clone()],
    };
    let trajectories = rows.iter().enumerate().map(trajectory).collect();
    let started = Instant::now();
    learner.update(&[Group { trajectories }])?;
    Ok(tokens(rows) / started.elapsed().as_secs_f64())
}

/// Rows to learn from: answers to short prompts.
fn rows(learner: &Learner) -> Result<Vec<TokenRow>> {
    let mut sampler = sampler(learner, ANSWER_TOKENS);
    ask(&mut sampler, ROWS, 1)?;
    Ok(finish(&mut sampler, ROWS))
}

fn sampler(learner: &Learner, max_tokens: usize) -> Sampler {
    learner.sampler(SamplerConfig { temperature: 1.0, max_tokens, context: None })
}

fn ask(sampler: &mut Sampler, conversations: usize, letters: usize) -> Result<()> {
    let content: String = (0..letters).map(|i| if i % 5 == 4 { ' ' } else { 'q' }).collect();
    let prompt = Prompt {
        agent: "player".into(),
        messages: vec![Message::new(Role::User, content)],
        tools: vec![],
        choices: vec![],
        max_tokens: None,
    };
    let request = |episode| Request { episode, seed: episode, prompt: &prompt };
    let requests: Vec<Request<'_>> = (0..conversations as u64).map(request).collect();
    for answer in sampler.answer(&requests)? {
        answer?;
    }
    Ok(())
}

fn finish(sampler: &mut Sampler, conversations: usize) -> Vec<TokenRow> {
    (0..conversations as u64).flat_map(|episode| sampler.finish(episode)).collect()
}

fn tokens(rows: &[TokenRow]) -> f64 {
    rows.iter().map(|row| row.tokens.len()).sum::<usize>() as f64
}

/// The middle of several rounds, after one that warms up.
fn median(mut measure: impl FnMut() -> Result<f64>) -> Result<f64> {
    measure()?;
    let mut measured = (0..ROUNDS).map(|_| measure()).collect::<Result<Vec<f64>>>()?;
    measured.sort_by(f64::total_cmp);
    Ok(measured[ROUNDS / 2])
}
