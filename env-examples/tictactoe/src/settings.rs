//! A task's config: who plays against whom. Refuses what it does not know, and says what it knows.

use serde_json::{Map, Value};

use crate::game::Mark;

/// Who answers the moves of the agent that is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opponent {
    /// The policy plays both sides.
    Itself,
    /// Takes any free cell, each as likely.
    Random,
    /// Plays perfectly, each of the best moves as likely.
    Minimax,
}

/// What a task's config says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Config key `opponent`: `"self"`, `"random"` (the default) or `"minimax"`.
    pub opponent: Opponent,
    /// Config key `play-as`: `"x"` (the default) or `"o"`. In self-play, whose the metrics are.
    pub play_as: Mark,
}

impl Settings {
    /// Reads a config, a JSON object as text.
    ///
    /// # Errors
    /// Text that is not a JSON object, an unknown key, an unknown value.
    pub fn parse(config: &str) -> Result<Settings, String> {
        let object: Map<String, Value> = serde_json::from_str(config)
            .map_err(|error| format!("the config is not a JSON object: {error}: {config}"))?;
        let mut settings = Settings { opponent: Opponent::Random, play_as: Mark::X };
        for (key, value) in &object {
            match (key.as_str(), value.as_str()) {
                ("opponent", Some("self")) => settings.opponent = Opponent::Itself,
                ("opponent", Some("random")) => settings.opponent = Opponent::Random,
                ("opponent", Some("minimax")) => settings.opponent = Opponent::Minimax,
                ("opponent", _) => return Err(refusal(key, value, "self, random, minimax")),
                ("play-as", Some("x")) => settings.play_as = Mark::X,
                ("play-as", Some("o")) => settings.play_as = Mark::O,
                ("play-as", _) => return Err(refusal(key, value, "x, o")),
                _ => return Err(format!("no config key {key:?}; the keys are: opponent, play-as")),
            }
        }
        Ok(settings)
    }
}

fn refusal(key: &str, value: &Value, allowed: &str) -> String {
    format!("config key {key:?} cannot be {value}; allowed are: {allowed}")
}

#[cfg(test)]
mod tests {
    use super::{Opponent, Settings};
    use crate::game::Mark;

    #[test]
    fn an_empty_config_means_x_against_random() {
        let settings = Settings { opponent: Opponent::Random, play_as: Mark::X };
        assert_eq!(Settings::parse("{}"), Ok(settings));
    }

    #[test]
    fn both_keys_are_read() {
        let settings = Settings { opponent: Opponent::Minimax, play_as: Mark::O };
        let config = r#"{"opponent": "minimax", "play-as": "o"}"#;
        assert_eq!(Settings::parse(config), Ok(settings));
    }

    #[test]
    fn a_refusal_names_the_key_and_what_is_allowed() {
        let error = |config| Settings::parse(config).unwrap_err();
        let expected =
            r#"config key "opponent" cannot be "hard"; allowed are: self, random, minimax"#;
        assert_eq!(error(r#"{"opponent": "hard"}"#), expected);
        assert_eq!(
            error(r#"{"play-as": 1}"#),
            r#"config key "play-as" cannot be 1; allowed are: x, o"#
        );
        assert_eq!(
            error(r#"{"oponent": "self"}"#),
            r#"no config key "oponent"; the keys are: opponent, play-as"#
        );
        assert!(error("[]").starts_with("the config is not a JSON object"));
    }
}
