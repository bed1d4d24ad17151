//! Policies that learn nothing: chance, the environment's expert, a script, a person at the
//! keyboard.

use std::collections::BTreeMap;
use std::io::{self, BufRead};

use art_learner::conversation::{Message, Prompt, TokenRow};
use art_learner::random::Key;

use super::{Ask, Policy, PolicyError};

/// What a random text is made of.
const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789 ";

/// The most characters of a random text.
const RANDOM_LENGTH_MAX: u64 = 12;

/// Draws uniformly from the choices; without choices it writes a short random text.
#[derive(Clone, Copy, Debug, Default)]
pub struct Random;

impl Policy for Random {
    fn name(&self) -> String {
        "random".into()
    }

    fn answer(&mut self, asks: &[Ask<'_>]) -> Vec<Result<Message, PolicyError>> {
        asks.iter().map(|ask| Ok(Message::assistant(random_content(ask)))).collect()
    }
}

fn random_content(ask: &Ask<'_>) -> String {
    let key = Key::new(ask.seed).named(&ask.prompt.agent).part(u64::from(ask.turn));
    let choices = &ask.prompt.choices;
    // The bias of a remainder is below 2^-32 for any list that fits a call.
    let below = |counter, bound: usize| (key.bits(counter) % bound as u64) as usize;
    if !choices.is_empty() {
        return choices[below(0, choices.len())].clone();
    }
    let length = 1 + key.bits(0) % RANDOM_LENGTH_MAX;
    (1..=length).map(|counter| char::from(LETTERS[below(counter, LETTERS.len())])).collect()
}

/// Answers what the environment's expert would.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expert;

impl Policy for Expert {
    fn name(&self) -> String {
        "expert".into()
    }

    fn wants_expert(&self) -> bool {
        true
    }

    fn answer(&mut self, asks: &[Ask<'_>]) -> Vec<Result<Message, PolicyError>> {
        let missing = |ask: &Ask<'_>| {
            let agent = &ask.prompt.agent;
            PolicyError::Failed(format!("the environment's expert has no answer for `{agent}`"))
        };
        asks.iter().map(|ask| ask.expert.clone().ok_or_else(|| missing(ask))).collect()
    }
}

/// Gives the same answers, one after the other, in every episode.
#[derive(Clone, Debug)]
pub struct Scripted {
    answers: Vec<String>,
    /// How many answers each episode under way has had.
    given: BTreeMap<u64, usize>,
}

impl Scripted {
    /// A policy that gives these answers.
    pub fn new(answers: Vec<String>) -> Scripted {
        Scripted { answers, given: BTreeMap::new() }
    }

    fn next(&mut self, ask: &Ask<'_>) -> Result<Message, PolicyError> {
        let given = self.given.entry(ask.episode).or_default();
        let Some(answer) = self.answers.get(*given) else {
            let count = self.answers.len();
            return Err(PolicyError::Failed(format!("the script has no answer after {count}")));
        };
        *given += 1;
        Ok(Message::assistant(answer.clone()))
    }
}

impl Policy for Scripted {
    fn name(&self) -> String {
        "scripted".into()
    }

    fn answer(&mut self, asks: &[Ask<'_>]) -> Vec<Result<Message, PolicyError>> {
        asks.iter().map(|ask| self.next(ask)).collect()
    }

    fn finish(&mut self, episode: u64) -> Vec<TokenRow> {
        self.given.remove(&episode);
        vec![]
    }
}

/// Asks a person: prompts go to standard error, answers are lines of standard input.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stdin;

impl Policy for Stdin {
    fn name(&self) -> String {
        "stdin".into()
    }

    fn answer(&mut self, asks: &[Ask<'_>]) -> Vec<Result<Message, PolicyError>> {
        asks.iter().map(|ask| ask_person(ask, &mut io::stdin().lock())).collect()
    }
}

fn ask_person(ask: &Ask<'_>, input: &mut dyn BufRead) -> Result<Message, PolicyError> {
    eprint!("{}", shown(ask.episode, ask.prompt));
    loop {
        let mut line = String::new();
        let read = input.read_line(&mut line);
        let count = read.map_err(|error| PolicyError::Failed(format!("no answer: {error}")))?;
        if count == 0 {
            return Err(PolicyError::Failed("standard input has ended".into()));
        }
        let answer = line.trim_end_matches(['\r', '\n']);
        let choices = &ask.prompt.choices;
        if choices.is_empty() || choices.iter().any(|choice| choice == answer) {
            return Ok(Message::assistant(answer));
        }
        eprint!("choose one of: {}\n> ", choices.join(", "));
    }
}

/// A prompt as a person reads it.
fn shown(episode: u64, prompt: &Prompt) -> String {
    let mut text = format!("\n-- episode {episode}, {} to act\n", prompt.agent);
    for message in &prompt.messages {
        text += &format!("[{}] {}\n", message.role.as_str(), message.content);
    }
    for tool in &prompt.tools {
        text += &format!("tool {}: {}\n", tool.name, tool.description);
    }
    if !prompt.choices.is_empty() {
        text += &format!("choices: {}\n", prompt.choices.join(", "));
    }
    text + "> "
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Ask, Policy, Random, Scripted, ask_person};
    use crate::policy::PolicyError;
    use art_learner::conversation::{Message, Prompt, Role};

    fn prompt(choices: &[&str]) -> Prompt {
        Prompt {
            agent: "x".into(),
            messages: vec![Message::new(Role::User, "Play.")],
            tools: vec![],
            choices: choices.iter().map(|choice| (*choice).to_owned()).collect(),
            max_tokens: None,
        }
    }

    fn ask(prompt: &Prompt, episode: u64, seed: u64, turn: u32) -> Ask<'_> {
        Ask { episode, seed, turn, prompt, expert: None }
    }

    #[test]
    fn random_is_uniform_and_depends_on_seed_and_turn_alone() {
        let prompt = prompt(&["1", "2", "3"]);
        let asks: Vec<_> = (0..3000).map(|seed| ask(&prompt, seed, seed, 0)).collect();
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        for answer in Random.answer(&asks) {
            *counts.entry(answer.unwrap().content).or_default() += 1;
        }
        assert!(counts.values().all(|count| (900..1100).contains(count)), "{counts:?}");
        let together = Random.answer(&[ask(&prompt, 1, 5, 2), ask(&prompt, 9, 6, 0)]);
        assert_eq!(Random.answer(&[ask(&prompt, 3, 6, 0)])[0], together[1]);
    }

    #[test]
    fn random_text_is_short_and_never_empty() {
        let prompt = prompt(&[]);
        for seed in 0..200 {
            let answer = Random.answer(&[ask(&prompt, 0, seed, 0)]).remove(0).unwrap();
            assert!((1..=12).contains(&answer.content.len()));
        }
    }

    #[test]
    fn a_script_runs_apart_in_every_episode_and_ends() {
        let prompt = prompt(&[]);
        let mut scripted = Scripted::new(vec!["a".into(), "b".into()]);
        let mut next = |episode| scripted.answer(&[ask(&prompt, episode, 0, 0)]).remove(0);
        assert_eq!(next(1), Ok(Message::assistant("a")));
        assert_eq!(next(2), Ok(Message::assistant("a")));
        assert_eq!(next(1), Ok(Message::assistant("b")));
        assert!(matches!(next(1), Err(PolicyError::Failed(text)) if text.contains("after 2")));
    }

    #[test]
    fn a_person_is_asked_until_the_answer_is_a_choice() {
        let prompt = prompt(&["1", "2"]);
        let mut input = &b"7\n2\r\n"[..];
        let answer = ask_person(&ask(&prompt, 0, 0, 0), &mut input);
        assert_eq!(answer, Ok(Message::assistant("2")));
        assert!(ask_person(&ask(&prompt, 0, 0, 0), &mut input).is_err());
    }
}
