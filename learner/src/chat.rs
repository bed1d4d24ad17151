//! Conversations as tokens, both ways: what a model directory says about talking to its model.
//!
//! - [`template`]: messages → text, by the model's own chat template;
//! - [`tokenizer`]: text → tokens → text;
//! - [`transcript`]: the tokens of a conversation, which are written once and never again;
//! - [`choices`]: the tokens that may come next where an answer is one of several.
//!
//! Knows nothing of tensors, sampling or environments.

pub mod choices;
mod dates;
#[cfg(test)]
mod golden;
mod python;
pub mod template;
pub mod tokenizer;
pub mod transcript;

use std::path::Path;

use anyhow::{Context, Result};

use crate::chat::template::ChatTemplate;
use crate::chat::tokenizer::Tokenizer;
use crate::conversation::{Message, Role};

/// The chat template and the tokenizer of a model directory.
#[derive(Debug)]
pub struct Chat {
    /// Messages → text.
    pub template: ChatTemplate,
    /// Text → tokens.
    pub tokenizer: Tokenizer,
}

impl Chat {
    /// Reads both from a model directory.
    ///
    /// Of several stop ids the one that the template writes after an answer becomes the first.
    ///
    /// # Errors
    /// When a file is missing or cannot be understood, or when no id ends an answer.
    pub fn from_dir(dir: &Path) -> Result<Chat> {
        let template = ChatTemplate::from_dir(dir)?;
        let mut tokenizer = Tokenizer::from_dir(dir)?;
        let text = template
            .render(&[Message::new(Role::User, "a"), Message::assistant("b")], &[], false)
            .with_context(|| format!("the chat template of `{}` fails", dir.display()))?;
        let ends_answer = |id: &u32| {
            tokenizer.token_text(*id).is_some_and(|end| text.contains(&format!("b{end}")))
        };
        if let Some(end) = tokenizer.stop_ids().iter().copied().find(ends_answer) {
            tokenizer.put_stop_id_first(end);
        }
        Ok(Chat { template, tokenizer })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::OnceLock;

    use super::Chat;

    /// The tiny policy's chat.
    pub(crate) fn tiny_chat() -> &'static Chat {
        static CHAT: OnceLock<Chat> = OnceLock::new();
        CHAT.get_or_init(|| {
            let home = tempfile::tempdir().unwrap();
            let dir = home.path().join("tiny");
            crate::tiny::create(&dir, 0).unwrap();
            Chat::from_dir(&dir).unwrap()
        })
    }

    #[test]
    fn the_stop_id_that_the_template_writes_comes_first() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("tiny");
        crate::tiny::create(&dir, 0).unwrap();
        let end = tiny_chat().tokenizer.stop_ids()[0];
        let pad = tiny_chat().tokenizer.encode("<|pad|>").unwrap()[0];
        let ids = format!(r#"{{"eos_token_id": [{pad}, {end}]}}"#);
        std::fs::write(dir.join("generation_config.json"), ids).unwrap();
        assert_eq!(Chat::from_dir(&dir).unwrap().tokenizer.stop_ids(), [end, pad]);
    }
}
