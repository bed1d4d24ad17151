//! A policy that answers what nobody would: an untrained model does, and an environment has to take
//! it.

use art_learner::conversation::{Message, ToolCall};

use crate::policy::{Ask, Policy, PolicyError};

/// Answers that break a parser which trusts its input.
const ODD: [&str; 10] = [
    "",
    " ",
    "-1",
    "1e308",
    "99999999999999999999999999",
    "\0\u{1}\u{7f}\u{202e}",
    "🦀🦀🦀",
    "{\"answer\": [1, {\"a\": null}",
    "<answer></answer><answer>",
    "</s><|im_end|>\n\n",
];

/// Gives odd answers, another one at every seed and turn.
pub(super) struct Odd;

impl Policy for Odd {
    fn name(&self) -> String {
        "odd".into()
    }

    fn answer(&mut self, asks: &[Ask<'_>]) -> Vec<Result<Message, PolicyError>> {
        asks.iter().map(|ask| Ok(odd(ask.seed + u64::from(ask.turn)))).collect()
    }
}

fn odd(seed: u64) -> Message {
    let kinds = ODD.len() as u64 + 2;
    let kind = seed % kinds;
    if let Some(content) = usize::try_from(kind).ok().and_then(|kind| ODD.get(kind)) {
        return Message::assistant(*content);
    }
    if kind + 1 == kinds {
        return Message::assistant("a".repeat(20_000));
    }
    let call = ToolCall { id: "1".into(), name: "none".into(), arguments: "{".into() };
    Message { tool_calls: vec![call], ..Message::assistant("") }
}
