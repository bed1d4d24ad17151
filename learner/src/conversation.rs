//! The domain as plain data: what is said, what is earned, what was sampled, what is learnt from.
//!
//! Mirrors the records of `wit/art-env.wit` and adds the tokens behind the text. All of it is serde
//! data that trajectory files hold line by line. Knows nothing of sandboxes, tensors or files.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Who speaks in a conversation, in the sense of the chat APIs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions that stand above the conversation.
    System,
    /// The environment, or another agent.
    User,
    /// The policy.
    Assistant,
    /// The result of a tool call.
    Tool,
}

impl Role {
    /// The name that chat templates and APIs use.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        }
    }
}

/// A call of a tool that an assistant message makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Names the call within its message.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments, JSON as text.
    pub arguments: String,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: String,
    /// The calls an assistant message makes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// For a tool message: the id of the call that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The speaker's or tool's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl Message {
    /// A message with content alone.
    pub fn new(role: Role, content: impl Into<String>) -> Message {
        Message {
            role,
            content: content.into(),
            tool_calls: vec![],
            tool_call_id: None,
            name: None,
        }
    }

    /// An assistant message with content alone.
    pub fn assistant(content: impl Into<String>) -> Message {
        Message::new(Role::Assistant, content)
    }
}

/// A tool that the agent may call in its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// The tool's name.
    pub name: String,
    /// What it does, in words for the policy.
    pub description: String,
    /// The JSON Schema of its arguments, as text.
    pub parameters: String,
}

/// What an episode is to solve. Equal tasks form a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Task {
    /// One of the environment's splits.
    pub split: String,
    /// Which task of the split.
    pub index: u64,
    /// The seed of all that is random in the environment.
    pub seed: u64,
    /// The user's settings for the environment, a JSON object as text.
    pub config: String,
}

/// A request to one agent to act now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prompt {
    /// The agent that must act.
    pub agent: String,
    /// The messages that are new to this agent since its last prompt.
    pub messages: Vec<Message>,
    /// The tools it may call in this answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Tool>,
    /// When not empty, the answer's content is one of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// The most tokens the answer may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
}

/// An agent's answer to a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Action {
    /// The agent that acts.
    pub agent: String,
    /// Its assistant message.
    pub message: Message,
}

/// Something earned or lost, in a named part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reward {
    /// The agent that earned it.
    pub agent: String,
    /// The reward part.
    pub part: String,
    /// How much.
    pub value: f64,
}

/// One turn of an episode: what the environment asked and gave, and what was answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlayedTurn {
    /// Who had to act; empty in the last turn.
    pub prompts: Vec<Prompt>,
    /// The answers, in the order of the prompts; fewer where the episode ended before they came.
    pub actions: Vec<Action>,
    /// What was earned since the turn before.
    pub rewards: Vec<Reward>,
    /// Whether the task was solved, where the environment says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success: Option<bool>,
    /// Numbers worth a curve.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, f64>,
    /// Fuel the guest burnt to produce this turn, in wasmtime's units.
    pub fuel: u64,
}

/// Whose mistake a fault is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Blame {
    /// The component broke the contract, a limit, or down.
    Guest,
    /// The policy could not answer.
    Policy,
    /// This program or its machine.
    Host,
}

/// A fault as a trajectory records it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultRecord {
    /// Whose it is.
    pub blame: Blame,
    /// A stable short name, such as `fuel` or `trap`, for counting.
    pub kind: String,
    /// What happened, where, and what to change.
    pub message: String,
    /// The guest's last log lines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<String>,
}

/// A budget of the run that ended an episode before the environment did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    /// As many turns as the run allows.
    Turns,
    /// As many tokens as the policy's context or the run allows.
    Tokens,
    /// The wall clock, the backstop: not reproducible, so never trained on.
    Time,
}

/// How an episode ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    /// The environment ended it.
    Terminated,
    /// A limit of the run ended it.
    Truncated(Limit),
    /// Something failed.
    Failed(FaultRecord),
}

impl Ending {
    /// A stable short name for counting: `terminated`, `truncated-turns`, `failed-guest-fuel`.
    pub fn label(&self) -> String {
        match self {
            Ending::Terminated => "terminated".into(),
            Ending::Truncated(Limit::Turns) => "truncated-turns".into(),
            Ending::Truncated(Limit::Tokens) => "truncated-tokens".into(),
            Ending::Truncated(Limit::Time) => "truncated-time".into(),
            Ending::Failed(fault) => {
                let blame = match fault.blame {
                    Blame::Guest => "guest",
                    Blame::Policy => "policy",
                    Blame::Host => "host",
                };
                format!("failed-{blame}-{}", fault.kind)
            }
        }
    }

    /// Whether its trajectory may be learnt from: it ended by rule, reproducibly.
    pub fn is_trainable(&self) -> bool {
        !matches!(self, Ending::Failed(_) | Ending::Truncated(Limit::Time))
    }
}

/// Why sampling stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Finish {
    /// A stop id was sampled.
    Stop,
    /// The answer reached its most tokens.
    Length,
}

/// What the sampler produced for one prompt.
///
/// `tokens`, `logprobs` and `allowed` have one entry for each sampled token, the stop id included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Completion {
    /// The sampled ids.
    pub tokens: Vec<u32>,
    /// Natural-log probabilities under the distribution that was sampled: temperature and
    /// constraint applied.
    pub logprobs: Vec<f32>,
    /// The ids that the constraint left to choose from, ascending; none for the whole vocabulary.
    pub allowed: Vec<Option<Vec<u32>>>,
    /// The text that the ids decode to, without the stop id.
    pub text: String,
    /// Why it ended.
    pub finish: Finish,
    /// The policy version that sampled it.
    pub policy_version: u64,
}

/// The sampled tokens of one completion within a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SampledSpan {
    /// Where in the row its first token stands.
    pub start: usize,
    /// As in [`Completion::logprobs`].
    pub logprobs: Vec<f32>,
    /// As in [`Completion::allowed`].
    pub allowed: Vec<Option<Vec<u32>>>,
    /// The policy version that sampled it.
    pub policy_version: u64,
}

/// The tokens of one agent's conversation, as the model saw and wrote them (DESIGN.md invariant 5).
///
/// Every prompt extended the tokens before it; where one did not, the row was closed and the next
/// one began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TokenRow {
    /// The agent whose conversation it is.
    pub agent: String,
    /// Prompt and sampled ids, in order.
    pub tokens: Vec<u32>,
    /// Which of them were sampled; ascending and disjoint.
    pub spans: Vec<SampledSpan>,
    /// The temperature that they were sampled at.
    pub temperature: f32,
}

/// The record of an episode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trajectory {
    /// The episode's number within its rollout.
    pub episode: u64,
    /// The environment's name.
    pub environment: String,
    /// SHA-256 of the component, in hex.
    pub component: String,
    /// What was to be solved.
    pub task: Task,
    /// The seed that the policy sampled from.
    pub policy_seed: u64,
    /// The turns in order.
    pub turns: Vec<PlayedTurn>,
    /// How it ended.
    pub ending: Ending,
    /// The weighted sum of each agent's reward parts.
    pub rewards: BTreeMap<String, f64>,
    /// The tokens behind the actions; empty unless a language model acted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<TokenRow>,
}

impl Trajectory {
    /// Whether the environment called the task solved; none where it did not say, or failed.
    pub fn success(&self) -> Option<bool> {
        self.turns.iter().rev().find_map(|turn| turn.success)
    }

    /// What each agent earned, part by part, summed over the turns and not yet weighted.
    pub fn parts(&self) -> BTreeMap<String, BTreeMap<String, f64>> {
        let mut parts: BTreeMap<String, BTreeMap<String, f64>> = BTreeMap::new();
        for reward in self.turns.iter().flat_map(|turn| &turn.rewards) {
            let of_agent = parts.entry(reward.agent.clone()).or_default();
            *of_agent.entry(reward.part.clone()).or_default() += reward.value;
        }
        parts
    }

    /// The fuel of the whole episode.
    pub fn fuel(&self) -> u64 {
        self.turns.iter().map(|turn| turn.fuel).sum()
    }
}

/// The trajectories of one task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// Attempts at the same task, in episode order.
    pub trajectories: Vec<Trajectory>,
}
