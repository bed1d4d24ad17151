//! What a conversation draws is its own affair: neighbours, batches and threads change nothing.

use std::sync::Arc;

use burn::tensor::Device;

use super::{Request, Sampler, SamplerConfig, SamplingError};
use crate::chat::Chat;
use crate::conversation::{Message, Prompt, Role, TokenRow};
use crate::model::Decoder;

/// A tiny policy, loaded.
pub(crate) struct Tiny {
    /// Keeps the directory.
    pub(crate) home: tempfile::TempDir,
    /// Its model.
    pub(crate) decoder: Decoder,
    /// Its tokenizer and template.
    pub(crate) chat: Arc<Chat>,
}

impl Tiny {
    pub(crate) fn new(seed: u64) -> Tiny {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("tiny");
        crate::tiny::create(&dir, seed).unwrap();
        let decoder = Decoder::load(&dir, &Device::flex()).unwrap();
        Tiny { decoder, chat: Arc::new(Chat::from_dir(&dir).unwrap()), home }
    }

    pub(crate) fn dir(&self) -> std::path::PathBuf {
        self.home.path().join("tiny")
    }

    fn sampler(&self, config: SamplerConfig) -> Sampler {
        Sampler::new(self.decoder.clone(), self.chat.clone(), config, 5)
    }
}

fn config() -> SamplerConfig {
    SamplerConfig { temperature: 0.9, max_tokens: 12, context: None }
}

pub(crate) fn prompt(content: &str, choices: &[&str]) -> Prompt {
    Prompt {
        agent: "x".into(),
        messages: vec![Message::new(Role::User, content)],
        tools: vec![],
        choices: choices.iter().map(|choice| choice.to_string()).collect(),
        max_tokens: None,
    }
}

/// Plays these episodes for three turns, in rounds of at most `batch` prompts.
fn play(sampler: &mut Sampler, episodes: impl Iterator<Item = u64>, batch: usize) -> Vec<TokenRow> {
    let free = ["Say something.", "And more?", "12 34\n56"].map(|content| prompt(content, &[]));
    let bound = ["Which?", "Now?", "?"].map(|content| prompt(content, &["1", "22", "23", "yes"]));
    let ids: Vec<u64> = episodes.collect();
    for turn in 0..3 {
        for ids in ids.chunks(batch) {
            let request = |&id: &u64| Request {
                episode: id,
                seed: id,
                prompt: if id.is_multiple_of(2) { &free[turn] } else { &bound[turn] },
            };
            let requests: Vec<Request<'_>> = ids.iter().map(request).collect();
            assert!(sampler.answer(&requests).unwrap().iter().all(Result::is_ok));
        }
    }
    ids.into_iter().flat_map(|id| sampler.finish(id)).collect()
}

fn tokens(rows: &[TokenRow]) -> Vec<&[u32]> {
    rows.iter().map(|row| row.tokens.as_slice()).collect()
}

/// Trap 24: the same ids alone, in small and large batches, on one thread and on several.
#[test]
fn trap_24_draws_depend_on_the_conversation_alone() {
    let tiny = Tiny::new(1);
    let together = play(&mut tiny.sampler(config()), 0..70, 70);
    let alone = play(&mut tiny.sampler(config()), 0..70, 1);
    let threads = rayon::ThreadPoolBuilder::new().num_threads(4).build().unwrap();
    let threaded = threads.install(|| play(&mut tiny.sampler(config()), 0..70, 33));
    assert_eq!(tokens(&together), tokens(&alone));
    assert_eq!(tokens(&together), tokens(&threaded));
    let mut distinct = tokens(&together);
    distinct.retain(|tokens| tokens.len() > 40);
    let count = distinct.len();
    distinct.sort_unstable();
    distinct.dedup();
    assert!(count > 30 && distinct.len() == count, "members of a group draw differently");
}

#[test]
fn sampled_spans_are_what_was_drawn_and_choices_are_kept() {
    let tiny = Tiny::new(2);
    let rows = play(&mut tiny.sampler(config()), 0..10, 10);
    for row in &rows {
        assert_eq!((row.spans.len(), row.temperature), (3, 0.9));
        for span in &row.spans {
            assert_eq!(span.policy_version, 5);
            let drawn = &row.tokens[span.start..span.start + span.logprobs.len()];
            for (id, allowed) in drawn.iter().zip(&span.allowed) {
                assert!(allowed.as_ref().is_none_or(|allowed| allowed.contains(id)));
            }
            if span.allowed[0].is_some() {
                let said = tiny.chat.tokenizer.decode(&drawn[..drawn.len() - 1]).unwrap();
                assert!(["1", "22", "23", "yes"].contains(&said.as_str()), "{said}");
            }
        }
    }
}

/// Trap 10: any of several stop ids ends an answer, and is the last id of its span.
#[test]
fn trap_10_every_stop_id_ends_an_answer() {
    let tiny = Tiny::new(3);
    let path = tiny.dir().join("generation_config.json");
    let stops: Vec<u32> = (1..200).collect();
    std::fs::write(path, serde_json::json!({"eos_token_id": stops}).to_string()).unwrap();
    let chat = Arc::new(Chat::from_dir(&tiny.dir()).unwrap());
    let mut sampler = Sampler::new(tiny.decoder.clone(), chat, config(), 0);
    let (mut stopped, mut cut) = (0, 0);
    for row in play(&mut sampler, (0..80).step_by(2), 40) {
        for span in &row.spans {
            let drawn = &row.tokens[span.start..span.start + span.logprobs.len()];
            let (last, before) = drawn.split_last().unwrap();
            assert!(before.iter().all(|id| !stops.contains(id)), "{drawn:?}");
            if stops.contains(last) { stopped += 1 } else { cut += usize::from(drawn.len() == 12) }
        }
    }
    assert!(stopped > 30, "{stopped} stopped, {cut} cut");
}

#[test]
fn a_full_context_is_said_and_leaves_the_others_alone() {
    let tiny = Tiny::new(4);
    let mut sampler = tiny.sampler(SamplerConfig { context: Some(40), ..config() });
    let long = prompt(&"word ".repeat(60), &[]);
    let short = prompt("Hi", &["1"]);
    let requests = [
        Request { episode: 0, seed: 0, prompt: &long },
        Request { episode: 1, seed: 1, prompt: &short },
    ];
    let answers = sampler.answer(&requests).unwrap();
    assert!(matches!(answers[0], Err(SamplingError::ContextFull { context: 40, .. })));
    assert_eq!(answers[1].as_ref().unwrap().content, "1");
}
