//! The attacks: each takes an honest turn and does one thing that no host should have to bear.

use std::hint::black_box;

use crate::art::env::types::{Message, Metric, Reward, Role, Turn};
use crate::art::env::{log, model};
use crate::{AGENT, PART, prompt};

/// What a guest can do to its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attack {
    /// Nothing: the episode is honest.
    None,
    /// Never returns.
    Loop,
    /// Panics with a message.
    Trap,
    /// Executes `unreachable` after an error line in the log.
    ErrorLogThenTrap,
    /// Allocates until it is refused.
    Memory,
    /// Writes log lines without end.
    Log,
    /// Writes one log line of 20 MB.
    HugeLogLine,
    /// Asks for language-model calls without end.
    ModelFlood,
    /// Returns a message of 200 MB.
    HugeString,
    /// Returns 200 MB in 200 messages that share one megabyte of the guest's memory.
    SharedStrings,
    /// Returns a million tiny metrics.
    ManyRecords,
    /// Recurses until the stack ends.
    DeepRecursion,
    /// Prompts an agent that is not described.
    BadAgent,
    /// Prompts its agent twice in one turn.
    DoublePrompt,
    /// Offers an empty choice.
    EmptyChoice,
    /// Gives a reward that is not a number.
    NanReward,
    /// Gives a reward above the part's maximum.
    OutOfRangeReward,
    /// Gives a reward in a part that is not described.
    UnknownPart,
    /// Gives a reward to an agent that is not described.
    UnknownRewarded,
    /// Plays on after the last turn that it promised.
    Endless,
    /// Returns an error.
    Err,
    /// Returns an error of 10 MB.
    HugeErr,
}

impl Attack {
    /// The attacks by the names that configs use.
    const NAMES: [(&'static str, Attack); 22] = [
        ("none", Attack::None),
        ("loop", Attack::Loop),
        ("trap", Attack::Trap),
        ("error-log-then-trap", Attack::ErrorLogThenTrap),
        ("memory", Attack::Memory),
        ("log", Attack::Log),
        ("huge-log-line", Attack::HugeLogLine),
        ("model-flood", Attack::ModelFlood),
        ("huge-string", Attack::HugeString),
        ("shared-strings", Attack::SharedStrings),
        ("many-records", Attack::ManyRecords),
        ("deep-recursion", Attack::DeepRecursion),
        ("bad-agent", Attack::BadAgent),
        ("double-prompt", Attack::DoublePrompt),
        ("empty-choice", Attack::EmptyChoice),
        ("nan-reward", Attack::NanReward),
        ("out-of-range-reward", Attack::OutOfRangeReward),
        ("unknown-part", Attack::UnknownPart),
        ("unknown-rewarded", Attack::UnknownRewarded),
        ("endless", Attack::Endless),
        ("err", Attack::Err),
        ("huge-err", Attack::HugeErr),
    ];

    /// The attack of this name, or an error that lists the names.
    pub(crate) fn named(name: &str) -> Result<Attack, String> {
        let found = Attack::NAMES.into_iter().find(|&(known, _)| known == name);
        found.map(|(_, attack)| attack).ok_or_else(|| {
            let names = Attack::NAMES.map(|(known, _)| known).join(", ");
            format!("config key \"attack\" cannot be {name:?}; allowed are: {names}")
        })
    }
}

/// Makes the attack in place of, or on top of, this honest turn.
pub(crate) fn make(attack: Attack, mut turn: Turn) -> Result<Turn, String> {
    match attack {
        Attack::None | Attack::Endless => {}
        Attack::Loop => spin(),
        Attack::Trap => panic!("hostile: told to panic"),
        Attack::ErrorLogThenTrap => {
            log::write(log::Level::Error, "hostile: about to trap");
            core::arch::wasm32::unreachable();
        }
        Attack::Memory => exhaust_memory(),
        Attack::Log => flood_log(),
        Attack::HugeLogLine => log::write(log::Level::Info, &"l".repeat(20_000_000)),
        Attack::ModelFlood => flood_model(),
        Attack::HugeString => turn.prompts = vec![prompt(AGENT, "s".repeat(200_000_000))],
        Attack::SharedStrings => share_strings(&mut turn),
        Attack::ManyRecords => {
            let metric = || Metric { name: String::new(), value: 0.0 };
            turn.metrics = std::iter::repeat_with(metric).take(1_000_000).collect();
        }
        Attack::DeepRecursion => {
            recurse(0);
        }
        Attack::BadAgent => turn.prompts = vec![prompt("nobody", "Who is there?".into())],
        Attack::DoublePrompt => turn.prompts = vec![prompt(AGENT, "One.".into()); 2],
        Attack::EmptyChoice => {
            turn.prompts = vec![prompt(AGENT, "Say nothing.".into())];
            turn.prompts[0].choices.push(String::new());
        }
        Attack::NanReward => turn.rewards.push(reward(AGENT, PART, f64::NAN)),
        Attack::OutOfRangeReward => turn.rewards.push(reward(AGENT, PART, 7.0)),
        Attack::UnknownPart => turn.rewards.push(reward(AGENT, "bonus", 0.5)),
        Attack::UnknownRewarded => turn.rewards.push(reward("nobody", PART, 0.5)),
        Attack::Err => return Err("hostile: told to fail".into()),
        Attack::HugeErr => return Err("e".repeat(10_000_000)),
    }
    Ok(turn)
}

fn reward(agent: &str, part: &str, value: f64) -> Reward {
    Reward { agent: agent.into(), part: part.into(), value }
}

fn spin() -> ! {
    let mut count = 0_u64;
    loop {
        count = black_box(count.wrapping_add(1));
    }
}

fn exhaust_memory() -> ! {
    loop {
        // Written to, so that the host has to back it with memory of its own.
        let mut block = Vec::<u8>::with_capacity(1 << 20);
        block.extend((0..1 << 20).step_by(4096).map(|_| 1));
        std::mem::forget(black_box(block));
    }
}

fn flood_log() -> ! {
    let line = "flood ".repeat(170);
    loop {
        log::write(log::Level::Warn, &line);
    }
}

fn flood_model() -> ! {
    let message = Message {
        role: Role::User,
        content: "Say something.".repeat(100),
        tool_calls: vec![],
        tool_call_id: None,
        name: None,
    };
    let request = model::Request { messages: vec![message], max_tokens: 1000, temperature: 1.0 };
    let requests = vec![request; 16];
    loop {
        black_box(model::complete(&requests));
    }
}

fn recurse(depth: u64) -> u64 {
    let frame = black_box([depth; 16]);
    if frame[0] == u64::MAX {
        return 0;
    }
    let deeper = recurse(depth + 1);
    deeper.wrapping_add(frame[(deeper % 16) as usize])
}

/// Two hundred messages whose contents are one and the same megabyte. The host copies each, so
/// that it would spend 200 MB on a guest that holds one.
fn share_strings(turn: &mut Turn) {
    let content = "s".repeat(1_000_000).leak();
    let mut long = prompt(AGENT, String::new());
    long.messages = (0..200)
        .map(|_| Message {
            role: Role::User,
            // SAFETY: not sound, which is the attack. The strings are only read until the host has
            // lifted the turn; freeing them twice afterwards corrupts this guest's heap alone.
            content: unsafe {
                String::from_raw_parts(content.as_mut_ptr(), content.len(), content.len())
            },
            tool_calls: vec![],
            tool_call_id: None,
            name: None,
        })
        .collect();
    turn.prompts = vec![long];
}
