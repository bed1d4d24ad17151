//! A guest that misbehaves on demand: the host's tests attack the sandbox with it.
//!
//! The config `{"attack": NAME, "when": "start" | "step"}` names one of the attacks of [`attack`]
//! and the call that makes it (`step` by default). All else is an honest environment of three
//! turns. It compiles for WASM only, because nothing in it is worth a native test.

#![cfg(target_family = "wasm")]

mod attack;

use std::cell::RefCell;

use serde_json::{Map, Value};

use attack::Attack;

wit_bindgen::generate!({ path: "../../../wit", world: "environment-only" });

use art::env::log;
use art::env::types::{
    Action, Description, Message, Part, Prompt, Reward, Role, Split, Task, Turn,
};
use exports::art::env::environment;

/// The only agent that is described.
const AGENT: &str = "player";
/// The only reward part that is described.
const PART: &str = "yes";
/// How many answers an honest episode takes.
const ANSWERS: u32 = 3;

/// An episode in progress.
struct Episode {
    /// What `step` does; never changes.
    attack: Attack,
    /// How many answers have been taken.
    answers: u32,
}

thread_local! {
    /// Set by `start`, changed by `step`.
    static EPISODE: RefCell<Option<Episode>> = const { RefCell::new(None) };
}

struct Guest;
export!(Guest);

impl environment::Guest for Guest {
    fn describe() -> Description {
        Description {
            name: "hostile".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            summary: "Say yes three times, unless the config names an attack.".into(),
            agents: vec![AGENT.into()],
            splits: vec![Split { name: "train".into(), tasks: 1_000_000 }],
            max_turns: ANSWERS + 1,
            parts: vec![Part { name: PART.into(), minimum: 0.0, maximum: 1.0 }],
        }
    }

    fn start(task: Task) -> Result<Turn, String> {
        std::panic::set_hook(Box::new(|panic| log::write(log::Level::Error, &panic.to_string())));
        let (attack, in_start) = settings(&task.config)?;
        let (now, later) = if in_start { (attack, Attack::None) } else { (Attack::None, attack) };
        EPISODE.set(Some(Episode { attack: later, answers: 0 }));
        attack::make(now, ask("Say yes or no.".into()))
    }

    fn step(actions: Vec<Action>) -> Result<Turn, String> {
        let (attack, answers) = EPISODE.with_borrow_mut(|episode| {
            let episode = episode.as_mut().ok_or("step was called before start")?;
            episode.answers += 1;
            Ok::<_, String>((episode.attack, episode.answers))
        })?;
        let yes = actions.iter().any(|action| action.message.content.trim() == "yes");
        let value = f64::from(u8::from(yes)) / f64::from(ANSWERS);
        let reward = Reward { agent: AGENT.into(), part: PART.into(), value };
        let goes_on = answers < ANSWERS || attack == Attack::Endless;
        let mut turn = if goes_on { ask("Again.".into()) } else { over() };
        turn.rewards.push(reward);
        attack::make(attack, turn)
    }
}

/// Reads a config: the attack, and whether `start` makes it.
fn settings(config: &str) -> Result<(Attack, bool), String> {
    let object: Map<String, Value> = serde_json::from_str(config)
        .map_err(|error| format!("the config is not a JSON object: {error}: {config}"))?;
    let (mut attack, mut in_start) = (Attack::None, false);
    for (key, value) in &object {
        match (key.as_str(), value.as_str()) {
            ("attack", Some(name)) => attack = Attack::named(name)?,
            ("when", Some("start")) => in_start = true,
            ("when", Some("step")) => in_start = false,
            ("attack" | "when", _) => {
                return Err(format!("config key {key:?} cannot be {value}"));
            }
            _ => return Err(format!("no config key {key:?}; the keys are: attack, when")),
        }
    }
    Ok((attack, in_start))
}

fn ask(content: String) -> Turn {
    Turn { prompts: vec![prompt(AGENT, content)], ..over() }
}

fn prompt(agent: &str, content: String) -> Prompt {
    let message =
        Message { role: Role::User, content, tool_calls: vec![], tool_call_id: None, name: None };
    Prompt {
        agent: agent.into(),
        messages: vec![message],
        tools: vec![],
        choices: vec!["yes".into(), "no".into()],
        max_tokens: None,
    }
}

fn over() -> Turn {
    Turn { prompts: vec![], rewards: vec![], success: None, metrics: vec![] }
}
