//! The contract as Rust types, generated from `wit/`, and the way to and from the domain's plain
//! data.
//!
//! One world holds all interfaces, so that their types are generated once; each component is asked
//! only for the interfaces that it exports. Knows nothing of limits.

use art_learner::conversation as domain;

use self::art::env::types;

#[allow(missing_docs, unreachable_pub, reason = "generated code, documented in wit/art-env.wit")]
mod generated {
    wasmtime::component::bindgen!({
        path: "../wit",
        inline: "
            package art:host;
            world everything {
                import art:env/log@0.1.0;
                import art:env/model@0.1.0;
                export art:env/environment@0.1.0;
                export art:env/expert@0.1.0;
                export art:env/reward-function@0.1.0;
            }
        ",
        world: "everything",
        imports: { default: trappable },
    });
}

pub(crate) use generated::art;
pub(crate) use generated::exports::art::env::{environment, expert, reward_function};

impl From<domain::Role> for types::Role {
    fn from(role: domain::Role) -> types::Role {
        match role {
            domain::Role::System => types::Role::System,
            domain::Role::User => types::Role::User,
            domain::Role::Assistant => types::Role::Assistant,
            domain::Role::Tool => types::Role::Tool,
        }
    }
}

impl From<types::Role> for domain::Role {
    fn from(role: types::Role) -> domain::Role {
        match role {
            types::Role::System => domain::Role::System,
            types::Role::User => domain::Role::User,
            types::Role::Assistant => domain::Role::Assistant,
            types::Role::Tool => domain::Role::Tool,
        }
    }
}

impl From<&domain::Message> for types::Message {
    fn from(message: &domain::Message) -> types::Message {
        let calls = message.tool_calls.iter().map(|call| types::ToolCall {
            id: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
        });
        types::Message {
            role: message.role.into(),
            content: message.content.clone(),
            tool_calls: calls.collect(),
            tool_call_id: message.tool_call_id.clone(),
            name: message.name.clone(),
        }
    }
}

impl From<types::Message> for domain::Message {
    fn from(message: types::Message) -> domain::Message {
        let calls = message.tool_calls.into_iter().map(|call| domain::ToolCall {
            id: call.id,
            name: call.name,
            arguments: call.arguments,
        });
        domain::Message {
            role: message.role.into(),
            content: message.content,
            tool_calls: calls.collect(),
            tool_call_id: message.tool_call_id,
            name: message.name,
        }
    }
}

impl From<&domain::Task> for types::Task {
    fn from(task: &domain::Task) -> types::Task {
        types::Task {
            split: task.split.clone(),
            index: task.index,
            seed: task.seed,
            config: task.config.clone(),
        }
    }
}

impl From<&domain::Prompt> for types::Prompt {
    fn from(prompt: &domain::Prompt) -> types::Prompt {
        let tools = prompt.tools.iter().map(|tool| types::Tool {
            name: tool.name.clone(),
            description: tool.description.clone(),
            parameters: tool.parameters.clone(),
        });
        types::Prompt {
            agent: prompt.agent.clone(),
            messages: prompt.messages.iter().map(types::Message::from).collect(),
            tools: tools.collect(),
            choices: prompt.choices.clone(),
            max_tokens: prompt.max_tokens,
        }
    }
}

impl From<types::Prompt> for domain::Prompt {
    fn from(prompt: types::Prompt) -> domain::Prompt {
        let tools = prompt.tools.into_iter().map(|tool| domain::Tool {
            name: tool.name,
            description: tool.description,
            parameters: tool.parameters,
        });
        domain::Prompt {
            agent: prompt.agent,
            messages: prompt.messages.into_iter().map(domain::Message::from).collect(),
            tools: tools.collect(),
            choices: prompt.choices,
            max_tokens: prompt.max_tokens,
        }
    }
}

impl From<&domain::Action> for types::Action {
    fn from(action: &domain::Action) -> types::Action {
        types::Action { agent: action.agent.clone(), message: (&action.message).into() }
    }
}

impl From<&domain::Reward> for types::Reward {
    fn from(reward: &domain::Reward) -> types::Reward {
        types::Reward {
            agent: reward.agent.clone(),
            part: reward.part.clone(),
            value: reward.value,
        }
    }
}

impl From<types::Reward> for domain::Reward {
    fn from(reward: types::Reward) -> domain::Reward {
        domain::Reward { agent: reward.agent, part: reward.part, value: reward.value }
    }
}

impl From<&domain::Trajectory> for types::Trajectory {
    fn from(trajectory: &domain::Trajectory) -> types::Trajectory {
        let turns = trajectory.turns.iter().map(|turn| types::PlayedTurn {
            prompts: turn.prompts.iter().map(types::Prompt::from).collect(),
            actions: turn.actions.iter().map(types::Action::from).collect(),
            rewards: turn.rewards.iter().map(types::Reward::from).collect(),
        });
        types::Trajectory {
            task: (&trajectory.task).into(),
            turns: turns.collect(),
            ending: match trajectory.ending {
                domain::Ending::Terminated => types::Ending::Terminated,
                domain::Ending::Truncated(_) => types::Ending::Truncated,
                domain::Ending::Failed(_) => types::Ending::Failed,
            },
            success: trajectory.success(),
        }
    }
}
