//! The contract: turns its records into an [`Episode`]'s words and back.
//!
//! One instance plays one episode, so the episode lives in one cell of this module.

use std::cell::RefCell;

use crate::episode::{Episode, Moment, Outcome};
use crate::game::Mark;
use crate::random;
use crate::settings::{Opponent, Settings};

wit_bindgen::generate!({ path: "../../wit", world: "environment-with-expert" });

use art::env::log;
use art::env::types::{
    Action, Description, Message, Metric, Part, Prompt, Reward, Role, Split, Task, Turn,
};
use exports::art::env::{environment, expert};

thread_local! {
    /// Set by `start`, changed by `step`.
    static EPISODE: RefCell<Option<Episode>> = const { RefCell::new(None) };
}

struct Guest;
export!(Guest);

impl environment::Guest for Guest {
    fn describe() -> Description {
        let split = |name: &str| Split { name: name.into(), tasks: 1_000_000 };
        let part = |name: &str| Part { name: name.into(), minimum: 0.0, maximum: 1.0 };
        Description {
            name: "tictactoe".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            summary: "Get three marks in a line before the opponent does.".into(),
            agents: vec!["x".into(), "o".into()],
            splits: vec![split("train"), split("eval")],
            // The first prompt and an answer to each of the nine moves of self-play.
            max_turns: 10,
            parts: vec![part("win"), part("legal")],
        }
    }

    fn start(task: Task) -> Result<Turn, String> {
        // A panic traps; its message and line reach the author through the log.
        std::panic::set_hook(Box::new(|panic| log::write(log::Level::Error, &panic.to_string())));
        let settings = Settings::parse(&task.config)?;
        let key = random::key(&task.split, task.index, task.seed);
        let (episode, moment) = Episode::start(settings, key);
        let turn = turn(&episode, moment);
        EPISODE.set(Some(episode));
        Ok(turn)
    }

    fn step(actions: Vec<Action>) -> Result<Turn, String> {
        EPISODE.with_borrow_mut(|episode| {
            let episode = episode.as_mut().ok_or("step was called before start")?;
            let [action] = actions.as_slice() else {
                return Err(format!("one agent was asked, and {} answered", actions.len()));
            };
            let asked = episode.asked().name();
            if action.agent != asked {
                return Err(format!("{asked} was asked, and {} answered", action.agent));
            }
            let moment = episode.answer(&action.message.content);
            Ok(turn(episode, moment))
        })
    }
}

impl expert::Guest for Guest {
    fn act(agent: String) -> Option<Message> {
        EPISODE.with_borrow(|episode| {
            let episode = episode.as_ref().filter(|episode| episode.asked().name() == agent)?;
            episode.advice().map(|cell| message(Role::Assistant, cell))
        })
    }
}

fn turn(episode: &Episode, moment: Moment) -> Turn {
    match moment {
        Moment::Ask { agent, text, choices } => {
            let prompt = Prompt {
                agent: agent.name().into(),
                messages: vec![message(Role::User, text)],
                tools: vec![],
                choices,
                max_tokens: None,
            };
            Turn { prompts: vec![prompt], rewards: vec![], success: None, metrics: vec![] }
        }
        Moment::Over(outcome) => Turn {
            prompts: vec![],
            rewards: episode.agents().iter().flat_map(|&agent| rewards(outcome, agent)).collect(),
            success: success(episode.settings(), outcome),
            metrics: metrics(episode.settings().play_as, outcome),
        },
    }
}

fn rewards(outcome: Outcome, agent: Mark) -> [Reward; 2] {
    let reward =
        |part: &str, value| Reward { agent: agent.name().into(), part: part.into(), value };
    [reward("win", outcome.win(agent)), reward("legal", outcome.legal(agent))]
}

/// Whether the agent got the best result that its opponent allows: a win, or a draw with the
/// perfect player. Self-play has no such measure.
fn success(settings: Settings, outcome: Outcome) -> Option<bool> {
    let win = outcome.win(settings.play_as);
    match settings.opponent {
        Opponent::Itself => None,
        Opponent::Random => Some(win == 1.0),
        Opponent::Minimax => Some(win >= 0.5),
    }
}

fn metrics(agent: Mark, outcome: Outcome) -> Vec<Metric> {
    let metric = |name: &str, value| Metric { name: name.into(), value };
    let share = |win| f64::from(u8::from(outcome.win(agent) == win));
    vec![
        metric("win", share(1.0)),
        metric("draw", share(0.5)),
        metric("loss", share(0.0)),
        metric("moves", outcome.moves as f64),
    ]
}

fn message(role: Role, content: String) -> Message {
    Message { role, content, tool_calls: vec![], tool_call_id: None, name: None }
}
