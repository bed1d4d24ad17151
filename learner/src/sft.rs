//! Supervised warm start: an expert's trajectories → the same batch that GRPO uses, scored on its
//! answers.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::chat::Chat;
use crate::chat::transcript::Transcript;
use crate::conversation::{Completion, Finish, TokenRow, Trajectory};
use crate::grpo::batch::{Batch, BatchRow, Scored};

/// Rows of one optimiser step.
pub const ROWS_PER_STEP: usize = 64;

/// The expert's conversations as rows, every answer token and its stop id scored over the whole
/// vocabulary.
///
/// Failed episodes are left out and counted; rows longer than `context` tokens too.
pub fn batch(chat: &Chat, trajectories: &[Trajectory], context: usize) -> Result<Batch> {
    let mut batch = Batch { temperature: 1.0, ..Batch::default() };
    for trajectory in trajectories {
        if !trajectory.ending.is_trainable() {
            *batch.dropped.entry(trajectory.ending.label()).or_default() += 1;
            continue;
        }
        for row in rows(chat, trajectory)? {
            if row.tokens.len() > context {
                *batch.dropped.entry("longer-than-context".into()).or_default() += 1;
            } else {
                batch.rows.push(scored(row));
            }
        }
    }
    Ok(batch)
}

fn rows(chat: &Chat, trajectory: &Trajectory) -> Result<Vec<TokenRow>> {
    let mut transcripts: BTreeMap<&str, Transcript> = BTreeMap::new();
    let stop = chat.tokenizer.stop_ids().first().copied();
    for turn in &trajectory.turns {
        for (prompt, action) in turn.prompts.iter().zip(&turn.actions) {
            let transcript = transcripts.entry(&prompt.agent).or_default();
            transcript.prompt(&chat.template, &chat.tokenizer, &prompt.messages, &prompt.tools)?;
            let mut tokens = chat.tokenizer.encode(&action.message.content)?;
            tokens.extend(stop);
            let completion = Completion {
                logprobs: vec![0.0; tokens.len()],
                allowed: vec![None; tokens.len()],
                text: action.message.content.clone(),
                finish: Finish::Stop,
                policy_version: 0,
                tokens,
            };
            let stop_text = stop.and_then(|stop| chat.tokenizer.token_text(stop));
            transcript.answer(&completion, stop_text.as_deref());
        }
    }
    let rows = |(agent, transcript): (&str, Transcript)| transcript.into_rows(agent, 1.0);
    Ok(transcripts.into_iter().flat_map(rows).collect())
}

fn scored(row: TokenRow) -> BatchRow {
    let positions = row.spans.iter().flat_map(|span| span.start..span.start + span.allowed.len());
    let score = |position: usize| Scored {
        predicted_at: position - 1,
        token: row.tokens[position],
        allowed: None,
        sampled_logprob: 0.0,
        policy_version: 0,
        advantage: 1.0,
    };
    BatchRow { scored: positions.map(score).collect(), tokens: row.tokens }
}
