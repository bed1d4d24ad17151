//! The contract: turns its records into an [`Echo`]'s words and back.
//!
//! One instance plays one episode, so the episode lives in one cell of this module.

use std::cell::RefCell;

use serde_json::{Map, Value};

use crate::logic::Echo;

wit_bindgen::generate!({ path: "../../wit", world: "environment-only" });

use art::env::log;
use art::env::types::{
    Action, Description, Message, Metric, Part, Prompt, Reward, Role, Split, Task, Turn,
};
use exports::art::env::environment;

/// The most turns and bytes that a config may ask for.
const TURNS_MAX: u64 = 1_000;
const BYTES_MAX: u64 = 1 << 20;

const AGENT: &str = "parrot";

/// An episode in progress.
struct Episode {
    /// The words; every step changes them.
    echo: Echo,
    /// The turns to play; never changes.
    turns: u64,
    /// The turns played so far.
    played: u64,
    /// The turns whose answer was right.
    matched: u64,
}

thread_local! {
    /// Set by `start`, changed by `step`.
    static EPISODE: RefCell<Option<Episode>> = const { RefCell::new(None) };
}

struct Guest;
export!(Guest);

impl environment::Guest for Guest {
    fn describe() -> Description {
        let split = |name: &str| Split { name: name.into(), tasks: 1_000_000 };
        Description {
            name: "echo".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            summary: "Repeat the word that is given.".into(),
            agents: vec![AGENT.into()],
            splits: vec![split("train"), split("eval")],
            max_turns: TURNS_MAX as u32 + 1,
            parts: vec![Part { name: "match".into(), minimum: 0.0, maximum: 1.0 }],
        }
    }

    fn start(task: Task) -> Result<Turn, String> {
        // A panic traps; its message and line reach the author through the log.
        std::panic::set_hook(Box::new(|panic| log::write(log::Level::Error, &panic.to_string())));
        let (turns, bytes) = settings(&task.config)?;
        // Splits and indexes have words of their own.
        let split = task.split.bytes().fold(0_u64, |key, byte| key * 31 + u64::from(byte));
        let seed = task.seed.rotate_left(32) ^ split.rotate_left(16) ^ task.index;
        let (echo, observation) = Echo::start(seed, bytes);
        EPISODE.set(Some(Episode { echo, turns, played: 0, matched: 0 }));
        Ok(ask(observation))
    }

    fn step(actions: Vec<Action>) -> Result<Turn, String> {
        EPISODE.with_borrow_mut(|episode| {
            let episode = episode.as_mut().ok_or("step was called before start")?;
            let [action] = actions.as_slice() else {
                return Err(format!("one agent was asked, and {} answered", actions.len()));
            };
            let (observation, matched) = episode.echo.step(&action.message.content);
            episode.played += 1;
            episode.matched += u64::from(matched);
            let turn =
                if episode.played < episode.turns { ask(observation) } else { over(episode) };
            Ok(turn)
        })
    }
}

/// Reads a config: how many turns, and the least bytes of an observation.
fn settings(config: &str) -> Result<(u64, usize), String> {
    let object: Map<String, Value> = serde_json::from_str(config)
        .map_err(|error| format!("the config is not a JSON object: {error}: {config}"))?;
    let (mut turns, mut bytes) = (1, 0);
    for (key, value) in &object {
        let (setting, least, most) = match key.as_str() {
            "turns" => (&mut turns, 1, TURNS_MAX),
            "bytes" => (&mut bytes, 0, BYTES_MAX),
            _ => return Err(format!("no config key {key:?}; the keys are: bytes, turns")),
        };
        *setting =
            value.as_u64().filter(|number| (least..=most).contains(number)).ok_or_else(|| {
                format!("config key {key:?} cannot be {value}; allowed are: {least} to {most}")
            })?;
    }
    Ok((turns, bytes as usize))
}

fn ask(observation: String) -> Turn {
    let message = Message {
        role: Role::User,
        content: observation,
        tool_calls: vec![],
        tool_call_id: None,
        name: None,
    };
    let prompt = Prompt {
        agent: AGENT.into(),
        messages: vec![message],
        tools: vec![],
        choices: vec![],
        max_tokens: None,
    };
    Turn { prompts: vec![prompt], rewards: vec![], success: None, metrics: vec![] }
}

fn over(episode: &Episode) -> Turn {
    let value = episode.matched as f64 / episode.turns as f64;
    Turn {
        prompts: vec![],
        rewards: vec![Reward { agent: AGENT.into(), part: "match".into(), value }],
        success: Some(episode.matched == episode.turns),
        metrics: vec![Metric { name: "matched".into(), value: episode.matched as f64 }],
    }
}
