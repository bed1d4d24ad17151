//! What an environment says of itself, checked before anything relies on it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::bindings::art::env::types;

/// The most agents, splits or parts that an environment may name.
const NAMES_MAX: usize = 1_000;

/// The most bytes of a name, and of a summary in hundreds.
const NAME_BYTES_MAX: usize = 100;

/// What an environment says of itself. It holds for every task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// A short name.
    pub name: String,
    /// The environment's own version.
    pub version: String,
    /// What the agents have to do.
    pub summary: String,
    /// The agents that may be prompted.
    pub agents: Vec<String>,
    /// The sets of tasks; the first is the one trained on.
    pub splits: Vec<Split>,
    /// No episode has more turns than this, the first included.
    pub max_turns: u32,
    /// The reward parts.
    pub parts: Vec<Part>,
}

/// A set of tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// Its name.
    pub name: String,
    /// How many tasks it has.
    pub tasks: u64,
}

/// A named number that rewards are given in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// The least that one episode gives one agent in it.
    pub minimum: f64,
    /// The most that one episode gives one agent in it.
    pub maximum: f64,
}

impl Description {
    /// The part of this name.
    pub fn part(&self, name: &str) -> Option<&Part> {
        self.parts.iter().find(|part| part.name == name)
    }

    /// The split of this name.
    pub fn split(&self, name: &str) -> Option<&Split> {
        self.splits.iter().find(|split| split.name == name)
    }

    /// Says what breaks the contract, if anything does.
    pub(crate) fn validate(&self) -> Result<(), String> {
        check_name(&self.name)?;
        check_text("`version`", &self.version, NAME_BYTES_MAX)?;
        check_text("`summary`", &self.summary, 100 * NAME_BYTES_MAX)?;
        check_names("agents", self.agents.iter())?;
        check_names("splits", self.splits.iter().map(|split| &split.name))?;
        if let Some(split) = self.splits.iter().find(|split| split.tasks == 0) {
            return Err(format!("split `{}` has no tasks", split.name));
        }
        if self.max_turns == 0 {
            return Err("`max-turns` is 0; the first turn counts too".into());
        }
        check_parts(&self.parts)
    }
}

/// Says what breaks the contract in reward parts.
pub(crate) fn check_parts(parts: &[Part]) -> Result<(), String> {
    check_names("parts", parts.iter().map(|part| &part.name))?;
    for Part { name, minimum, maximum } in parts {
        let is_range = minimum.is_finite() && maximum.is_finite() && minimum <= maximum;
        if !is_range {
            return Err(format!("part `{name}` ranges from {minimum} to {maximum}"));
        }
    }
    Ok(())
}

/// Says what breaks the contract in a component's name for itself.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_plain) {
        let name: String = name.chars().take(NAME_BYTES_MAX).collect();
        return Err(format!("`name` is {name:?}; use letters, digits and `-`"));
    }
    Ok(())
}

fn check_names<'a>(
    what: &str,
    names: impl ExactSizeIterator<Item = &'a String>,
) -> Result<(), String> {
    if names.len() == 0 || names.len() > NAMES_MAX {
        return Err(format!("`{what}` has {} entries; 1 to {NAMES_MAX} are allowed", names.len()));
    }
    let mut seen = BTreeSet::new();
    for name in names {
        if name.is_empty() {
            return Err(format!("`{what}` has an empty name"));
        }
        check_text(what, name, NAME_BYTES_MAX)?;
        if !seen.insert(name) {
            return Err(format!("`{what}` names `{name}` twice"));
        }
    }
    Ok(())
}

fn check_text(what: &str, text: &str, bytes_max: usize) -> Result<(), String> {
    match text.len() {
        length if length > bytes_max => {
            Err(format!("{what} has {length} bytes; {bytes_max} are allowed"))
        }
        _ => Ok(()),
    }
}

impl From<types::Part> for Part {
    fn from(part: types::Part) -> Part {
        Part { name: part.name, minimum: part.minimum, maximum: part.maximum }
    }
}

impl From<types::Description> for Description {
    fn from(description: types::Description) -> Description {
        let splits = description.splits.into_iter();
        Description {
            name: description.name,
            version: description.version,
            summary: description.summary,
            agents: description.agents,
            splits: splits.map(|split| Split { name: split.name, tasks: split.tasks }).collect(),
            max_turns: description.max_turns,
            parts: description.parts.into_iter().map(Part::from).collect(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{Description, Part, Split};

    pub(crate) fn sane() -> Description {
        Description {
            name: "game".into(),
            version: "1".into(),
            summary: "Play.".into(),
            agents: vec!["x".into(), "o".into()],
            splits: vec![Split { name: "train".into(), tasks: 10 }],
            max_turns: 3,
            parts: vec![Part { name: "win".into(), minimum: 0.0, maximum: 1.0 }],
        }
    }

    #[test]
    fn what_breaks_the_contract_is_named() {
        let broken = |change: fn(&mut Description)| {
            let mut description = sane();
            change(&mut description);
            description.validate().unwrap_err()
        };
        assert_eq!(sane().validate(), Ok(()));
        assert!(broken(|d| d.name = "a b".into()).contains("\"a b\""));
        assert!(broken(|d| d.agents.clear()).contains("`agents` has 0 entries"));
        assert!(broken(|d| d.agents[1] = "x".into()).contains("`x` twice"));
        assert!(broken(|d| d.splits[0].tasks = 0).contains("`train` has no tasks"));
        assert!(broken(|d| d.max_turns = 0).contains("`max-turns` is 0"));
        assert!(broken(|d| d.parts[0].maximum = f64::NAN).contains("`win` ranges"));
        assert!(broken(|d| d.parts[0].minimum = 2.0).contains("from 2 to 1"));
        assert!(broken(|d| d.summary = "x".repeat(10_001)).contains("10001 bytes"));
    }
}
