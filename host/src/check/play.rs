//! Plays a component in sandboxes of its own and keeps everything that it answered, for the rules
//! to look at.

use art_learner::conversation::{Action, Message, Reward, Task};
use art_learner::random::Key;

use super::odd::Odd;
use crate::component::Component;
use crate::fault::Fault;
use crate::limits::Limits;
use crate::policy::{Ask, Expert, Policy, Random};
use crate::sandbox::{Sandbox, Turn};

/// Tasks of each kind that are played.
const EPISODES: u64 = 32;

/// Times that one task is played in a row, to see that nothing is left behind.
const REPEATS: u64 = 32;

/// Turns that are played beyond what a description allows, before an episode counts as endless.
const TURNS_BEYOND: u32 = 1;

/// One episode as it was played.
#[derive(Debug)]
pub(super) struct Play {
    /// What was to be solved.
    pub(super) task: Task,
    /// What the environment answered, turn by turn.
    pub(super) turns: Vec<Turn>,
    /// The guest's linear memory at the end.
    pub(super) memory_bytes: u64,
    /// What ended the episode too early.
    pub(super) fault: Option<Fault>,
}

impl Play {
    /// Whether the environment ended the episode.
    pub(super) fn is_over(&self) -> bool {
        self.turns.last().is_some_and(|turn| turn.prompts.is_empty())
    }

    /// All rewards of all agents.
    pub(super) fn rewards(&self) -> impl Iterator<Item = &Reward> {
        self.turns.iter().flat_map(|turn| &turn.rewards)
    }

    /// The task, for messages.
    pub(super) fn place(&self) -> String {
        let Task { split, index, seed, .. } = &self.task;
        format!("task {index} of split `{split}` with seed {seed}")
    }
}

/// Everything that was played.
#[derive(Debug)]
pub(super) struct Plays {
    /// Tasks over all splits, by random answers.
    pub(super) random: Vec<Play>,
    /// The same tasks with the same answers.
    pub(super) again: Vec<Play>,
    /// Tasks that differ, answered from one and the same random stream.
    pub(super) same_answers: Vec<Play>,
    /// One task over and over.
    pub(super) repeated: Vec<Play>,
    /// By answers that nobody would give.
    pub(super) odd: Vec<Play>,
    /// By the environment's expert; none if it has none.
    pub(super) expert: Option<Vec<Play>>,
}

impl Plays {
    /// What was played once by each kind of player.
    pub(super) fn played(&self) -> impl Iterator<Item = &Play> {
        self.random.iter().chain(&self.odd).chain(self.expert.iter().flatten())
    }

    /// Plays it all.
    pub(super) fn play(component: &Component, limits: &Limits, config: &str, seed: u64) -> Plays {
        let key = Key::new(seed).named("check");
        let tasks = tasks(component, key, config);
        let play = |task: &Task, policy_seed: u64, policy: &mut dyn Policy| {
            play(component, limits, task, policy_seed, policy)
        };
        let random = |(number, task): (u64, &Task)| play(task, key.bits(number), &mut Random);
        let all = || (0..).zip(&tasks);
        Plays {
            random: all().map(random).collect(),
            again: all().map(random).collect(),
            same_answers: tasks.iter().map(|task| play(task, seed, &mut Random)).collect(),
            repeated: (0..REPEATS).map(|_| play(&tasks[0], seed, &mut Random)).collect(),
            odd: all().map(|(number, task)| play(task, number, &mut Odd)).collect(),
            expert: component
                .has_expert()
                .then(|| tasks.iter().map(|task| play(task, seed, &mut Expert)).collect()),
        }
    }
}

/// Tasks of every split in turn.
fn tasks(component: &Component, key: Key, config: &str) -> Vec<Task> {
    let splits = &component.description().splits;
    let task = |number: u64| {
        let split = &splits[(number % splits.len() as u64) as usize];
        Task {
            split: split.name.clone(),
            index: key.named("index").bits(number) % split.tasks.max(1),
            // Below 2^53, the whole numbers that a JavaScript guest holds exactly.
            seed: key.named("seed").bits(number) >> 11,
            config: config.to_owned(),
        }
    };
    (0..EPISODES).map(task).collect()
}

/// Plays one episode to its end, to a fault, or past the turns that the description allows.
fn play(
    component: &Component,
    limits: &Limits,
    task: &Task,
    policy_seed: u64,
    policy: &mut dyn Policy,
) -> Play {
    let mut play = Play { task: task.clone(), turns: vec![], memory_bytes: 0, fault: None };
    let mut sandbox = match Sandbox::new(component, limits, task.seed) {
        Ok(sandbox) => sandbox,
        Err(fault) => return Play { fault: Some(fault), ..play },
    };
    let turns_max = component.description().max_turns.saturating_add(TURNS_BEYOND);
    let mut turn = sandbox.start(task);
    loop {
        match turn {
            Ok(turn) => play.turns.push(turn),
            Err(fault) => play.fault = Some(fault),
        }
        if play.fault.is_some() || play.is_over() || play.turns.len() >= turns_max as usize {
            break;
        }
        turn = match answers(&mut sandbox, &play, policy_seed, policy) {
            Ok(actions) => sandbox.step(&actions),
            Err(fault) => Err(fault),
        };
    }
    policy.finish(0);
    play.memory_bytes = sandbox.memory_bytes();
    play
}

/// The policy's answers to every prompt of the last turn.
fn answers(
    sandbox: &mut Sandbox,
    play: &Play,
    policy_seed: u64,
    policy: &mut dyn Policy,
) -> Result<Vec<Action>, Fault> {
    let prompts = play.turns.last().map_or(&[][..], |turn| &turn.prompts);
    let turn = play.turns.len() as u32 - 1;
    let mut asks = Vec::new();
    for prompt in prompts {
        let expert = if policy.wants_expert() { sandbox.expert(&prompt.agent)? } else { None };
        asks.push(Ask { episode: 0, seed: policy_seed, turn, prompt, expert });
    }
    let answers = policy.answer(&asks).into_iter();
    let message = |answer: Result<Message, _>| answer.unwrap_or_else(|_| Message::assistant(""));
    let actions = prompts.iter().zip(answers.map(message));
    Ok(actions.map(|(prompt, message)| Action { agent: prompt.agent.clone(), message }).collect())
}
