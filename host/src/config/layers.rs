//! From what was typed to one resolved config: defaults ← file ← `--set` ← flags.
//!
//! The default config is the schema: a key is known if the defaults have it, and a value has the
//! right type if the default's type takes it. Only `[env]` and `[reward]` are open.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::{Config, nearest};

/// What is wrong with a setting. Every message names the key, where it came from, and what would be
/// right.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error("cannot read the config file `{}`", .path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not TOML.
    #[error("the config file `{}` is not valid TOML", .path.display())]
    Syntax {
        /// Which file.
        path: PathBuf,
        /// Where and why.
        source: Box<toml::de::Error>,
    },
    /// A `--set` without `=`.
    #[error(
        "`--set {typed}` is not of the form key=value; an example: --set rollout.group_size=16"
    )]
    NotAnAssignment {
        /// What was typed.
        typed: String,
    },
    /// No such key.
    #[error("unknown key `{key}` {origin}{}", did_you_mean(.suggestion))]
    UnknownKey {
        /// The key.
        key: String,
        /// Where it stood.
        origin: Origin,
        /// The nearest known key.
        suggestion: Option<String>,
    },
    /// A value of the wrong type.
    #[error("`{key}` must be {expected}; found {found} {origin}")]
    WrongType {
        /// The key.
        key: String,
        /// What it takes.
        expected: String,
        /// What was there.
        found: String,
        /// Where it stood.
        origin: Origin,
    },
    /// A value that its key does not take.
    #[error("`{key}` must be {expected}; found {found}")]
    OutOfRange {
        /// The key.
        key: String,
        /// The range.
        expected: String,
        /// The value.
        found: String,
    },
    /// A value that its key's type does not take, in serde's words.
    #[error("a setting has a value that its key does not take")]
    Rejected(#[source] Box<toml::de::Error>),
    /// A weight for a reward part that the environment does not give.
    #[error(
        "the environment gives no reward part `{part}`{}; its parts are `{parts}`",
        did_you_mean(.suggestion)
    )]
    UnknownPart {
        /// The part.
        part: String,
        /// The nearest part.
        suggestion: Option<String>,
        /// All of them.
        parts: String,
    },
}

fn did_you_mean(suggestion: &Option<String>) -> String {
    suggestion.as_ref().map_or(String::new(), |word| format!("; did you mean `{word}`?"))
}

impl ConfigError {
    /// A value outside its key's range.
    pub fn out_of_range(key: &str, found: impl std::fmt::Display, expected: &str) -> ConfigError {
        ConfigError::OutOfRange {
            key: key.into(),
            expected: expected.into(),
            found: format!("`{found}`"),
        }
    }
}

/// Where a setting stood.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Origin {
    /// In a file.
    #[error("in `{}`", .0.display())]
    File(PathBuf),
    /// On the command line.
    #[error("in `--set`")]
    Set,
}

/// The settings typed so far, lowest layer first.
#[derive(Debug)]
pub struct Layers {
    /// The defaults: what is known, and of which type.
    schema: Table,
    /// The defaults with everything typed laid over them.
    resolved: Table,
}

impl Default for Layers {
    fn default() -> Layers {
        let schema = Table::try_from(Config::default()).expect("the default config is valid TOML");
        Layers { resolved: schema.clone(), schema }
    }
}

impl Layers {
    /// Lays a TOML file over what is there.
    pub fn file(&mut self, path: &Path) -> Result<(), ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Unreadable { path: path.into(), source })?;
        let table: Table = text.parse().map_err(|source| ConfigError::Syntax {
            path: path.into(),
            source: Box::new(source),
        })?;
        let origin = Origin::File(path.into());
        for (section, value) in table {
            let Value::Table(entries) = value else {
                return self.lay(&section, value, &origin);
            };
            if !matches!(self.schema.get(&section), Some(Value::Table(_))) {
                return Err(self.unknown(&section, &origin));
            }
            for (key, value) in entries {
                self.lay(&format!("{section}.{key}"), value, &origin)?;
            }
        }
        Ok(())
    }

    /// Lays one `key=value` over what is there. A value that is not TOML is text:
    /// `env.opponent=minimax`.
    pub fn set(&mut self, assignment: &str) -> Result<(), ConfigError> {
        let (key, typed) = assignment
            .split_once('=')
            .ok_or_else(|| ConfigError::NotAnAssignment { typed: assignment.into() })?;
        self.lay(key.trim(), value_of(typed.trim()), &Origin::Set)
    }

    /// Lays one flag's value over what is there; the key and its type are the program's own.
    pub fn flag(&mut self, key: &str, value: impl Into<Value>) {
        let (section, key) = key.split_once('.').expect("flags have dotted keys");
        let entries = self.resolved.get_mut(section).and_then(Value::as_table_mut);
        entries.expect("flags name a section").insert(key.into(), value.into());
    }

    /// The one config that everything below works with.
    pub fn resolve(self) -> Result<Config, ConfigError> {
        let config: Result<Config, _> = self.resolved.try_into();
        let mut config = config.map_err(|error| ConfigError::Rejected(Box::new(error)))?;
        config.fit_learning_rates();
        config.validate()?;
        Ok(config)
    }

    fn lay(&mut self, key: &str, value: Value, origin: &Origin) -> Result<(), ConfigError> {
        let Some((section, name)) = key.split_once('.') else {
            return Err(self.unknown(key, origin));
        };
        let known = self.schema.get(section).and_then(Value::as_table);
        let Some(known) = known else { return Err(self.unknown(key, origin)) };
        let value = match (section, known.get(name)) {
            ("env", _) => return self.lay_open(section, name, value),
            ("reward", _) => typed_like(&Value::Float(1.0), key, value, origin)?,
            (_, Some(default)) => typed_like(default, key, value, origin)?,
            (_, None) => return Err(self.unknown(key, origin)),
        };
        self.lay_open(section, name, value)
    }

    /// Writes a value at a dotted path below a section, making tables on the way.
    fn lay_open(&mut self, section: &str, path: &str, value: Value) -> Result<(), ConfigError> {
        let mut table = self.resolved.get_mut(section).and_then(Value::as_table_mut);
        let mut parts = path.split('.').peekable();
        while let (Some(part), Some(entries)) = (parts.next(), table.take()) {
            if parts.peek().is_none() {
                entries.insert(part.into(), value);
                return Ok(());
            }
            let next = entries.entry(part).or_insert_with(|| Value::Table(Table::new()));
            table = next.as_table_mut();
        }
        Err(ConfigError::out_of_range(&format!("{section}.{path}"), value, "below a table"))
    }

    fn unknown(&self, key: &str, origin: &Origin) -> ConfigError {
        let keys = self.keys();
        let suggestion = nearest(key, keys.iter().map(String::as_str)).map(str::to_owned);
        ConfigError::UnknownKey { key: key.into(), origin: origin.clone(), suggestion }
    }

    fn keys(&self) -> Vec<String> {
        let sections =
            self.schema.iter().filter_map(|(name, value)| Some((name, value.as_table()?)));
        sections
            .flat_map(|(name, keys)| keys.keys().map(move |key| format!("{name}.{key}")))
            .collect()
    }
}

/// Reads the right-hand side of a `--set`: TOML where it is TOML, else text as it stands.
fn value_of(typed: &str) -> Value {
    let table: Result<Table, _> = format!("value = {typed}").parse();
    match table.ok().and_then(|mut table| table.remove("value")) {
        Some(value) if !matches!(value, Value::Datetime(_)) => value,
        _ => Value::String(typed.into()),
    }
}

/// Takes a value where a default of another value stands: same type, or an integer for a number.
fn typed_like(
    default: &Value,
    key: &str,
    value: Value,
    origin: &Origin,
) -> Result<Value, ConfigError> {
    let expected = match (default, &value) {
        (Value::Float(_), Value::Integer(number)) => return Ok(Value::Float(*number as f64)),
        (Value::Integer(_), Value::Integer(number)) if *number < 0 => "a whole number, 0 or more",
        (Value::Integer(_), Value::Integer(_))
        | (Value::Float(_), Value::Float(_))
        | (Value::String(_), Value::String(_))
        | (Value::Boolean(_), Value::Boolean(_)) => return Ok(value),
        (Value::Integer(_), _) => "a whole number",
        (Value::Float(_), _) => "a number",
        (Value::Boolean(_), _) => "true or false",
        (Value::String(_), _) => "text",
        _ => "a table",
    };
    Err(ConfigError::WrongType {
        key: key.into(),
        expected: expected.into(),
        found: format!("{} ({})", value, type_of(&value)),
        origin: origin.clone(),
    })
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "text",
        Value::Integer(_) => "a whole number",
        Value::Float(_) => "a number",
        Value::Boolean(_) => "true or false",
        Value::Datetime(_) => "a date",
        Value::Array(_) => "a list",
        Value::Table(_) => "a table",
    }
}

#[cfg(test)]
mod tests;
