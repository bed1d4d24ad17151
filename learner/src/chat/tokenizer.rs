//! A model's tokenizer, and the ids that end its answers.
//!
//! Text is split as the model was trained: special tokens are known in the text, none are added to
//! it. Knows nothing of messages.

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::Value;

use super::template::{read_json, token_text};

/// The tokenizer of a model directory.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    /// Never empty; the first is the one that ends an answer in the chat template.
    stop_ids: Vec<u32>,
    vocabulary: usize,
}

impl Tokenizer {
    /// Reads `tokenizer.json` of a model directory, and the stop ids that its configs name.
    ///
    /// # Errors
    /// When a file is missing or cannot be understood, or when no id ends an answer.
    pub fn from_dir(dir: &Path) -> Result<Tokenizer> {
        let path = dir.join("tokenizer.json");
        let text = std::fs::read(&path).with_context(|| {
            format!("`{}` is not a model directory: cannot read tokenizer.json", dir.display())
        })?;
        let mut inner = tokenizers::Tokenizer::from_bytes(text)
            .map_err(|error| anyhow!("`{}` is not a tokenizer: {error}", path.display()))?;
        // A prompt is never cut or padded behind the transcript's back.
        inner.with_padding(None);
        inner
            .with_truncation(None)
            .map_err(|error| anyhow!("cannot use `{}`: {error}", path.display()))?;
        let vocabulary = inner.get_vocab(true).values().max().map_or(0, |id| *id as usize + 1);
        let stop_ids = stop_ids(dir, &inner)?;
        ensure!(
            !stop_ids.is_empty(),
            "nothing says which token ends an answer of `{}`: give `eos_token_id` in \
             generation_config.json",
            dir.display()
        );
        Ok(Tokenizer { inner, stop_ids, vocabulary })
    }

    /// The ids of a text; special tokens in it become their ids.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let encoding = self.inner.encode_fast(text, false);
        let encoding = encoding.map_err(|error| anyhow!("cannot tokenize a text: {error}"))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// The text of ids; bytes that are not UTF-8 become U+FFFD, and ids beyond the vocabulary
    /// nothing.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        let text = self.inner.decode(ids, false);
        text.map_err(|error| anyhow!("cannot turn {} tokens into text: {error}", ids.len()))
    }

    /// The text that one id stands for; none for an id beyond the vocabulary.
    pub fn token_text(&self, id: u32) -> Option<String> {
        let token = self.inner.id_to_token(id)?;
        let is_special = self.inner.get_added_vocabulary().is_special_token(&token);
        if is_special { Some(token) } else { self.decode(&[id]).ok() }
    }

    /// The ids that end an answer, never none; the one that belongs there comes first.
    pub fn stop_ids(&self) -> &[u32] {
        &self.stop_ids
    }

    /// One more than the largest id.
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// Says which of the stop ids belongs at the end of an answer.
    pub(super) fn put_stop_id_first(&mut self, id: u32) {
        self.stop_ids.retain(|stop| *stop != id);
        self.stop_ids.insert(0, id);
    }
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Tokenizer")
            .field("stop_ids", &self.stop_ids)
            .field("vocabulary", &self.vocabulary)
            .finish_non_exhaustive()
    }
}

/// The tokenizer's own end of text, then `eos_token_id` of both configs, each once.
fn stop_ids(dir: &Path, tokenizer: &tokenizers::Tokenizer) -> Result<Vec<u32>> {
    let mut ids = vec![];
    let config = read_json(&dir.join("tokenizer_config.json"))?;
    ids.extend(token_text(&config["eos_token"]).and_then(|token| tokenizer.token_to_id(token)));
    for name in ["generation_config.json", "config.json"] {
        let path = dir.join(name);
        match &read_json(&path)?["eos_token_id"] {
            Value::Null => {}
            Value::Array(several) => {
                for id in several {
                    ids.push(token_id(id, &path)?);
                }
            }
            one => ids.push(token_id(one, &path)?),
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    ids.retain(|id| seen.insert(*id));
    Ok(ids)
}

fn token_id(value: &Value, path: &Path) -> Result<u32> {
    let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
    id.with_context(|| format!("`eos_token_id` in `{}` is {value}, not a token id", path.display()))
}

#[cfg(test)]
mod tests {
    use super::Tokenizer;
    use crate::chat::tests::tiny_chat;

    #[test]
    fn text_survives_encoding() {
        let tokenizer = &tiny_chat().tokenizer;
        for text in ["", "Hello, world!\n\n  x", "naïve 😀 <|user|>", "\u{0}\u{7f}", "1234 -5"] {
            let ids = tokenizer.encode(text).unwrap();
            assert_eq!(tokenizer.decode(&ids).unwrap(), text);
        }
        assert_eq!(tokenizer.encode("<|end|>").unwrap(), tokenizer.stop_ids());
    }

    #[test]
    fn bytes_that_are_no_text_are_decoded_all_the_same() {
        let tokenizer = &tiny_chat().tokenizer;
        let half = &tokenizer.encode("é").unwrap()[..1];
        assert_eq!(tokenizer.decode(half).unwrap(), "\u{fffd}");
        assert_eq!(tokenizer.token_text(half[0]).unwrap(), "\u{fffd}");
        assert_eq!(tokenizer.decode(&[u32::MAX]).unwrap(), "");
        assert_eq!(tokenizer.token_text(u32::MAX), None);
    }

    #[test]
    fn every_stop_id_is_found_and_none_is_an_error() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("tiny");
        crate::tiny::create(&dir, 0).unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.join(name), text).unwrap();
        write("tokenizer_config.json", r#"{"eos_token": {"content": "<|tool|>"}}"#);
        write("generation_config.json", r#"{"eos_token_id": [7, 9, 7]}"#);
        write("config.json", r#"{"eos_token_id": 9}"#);
        let tool = tiny_chat().tokenizer.encode("<|tool|>").unwrap()[0];
        assert_eq!(Tokenizer::from_dir(&dir).unwrap().stop_ids(), [tool, 7, 9]);
        write("generation_config.json", r#"{"eos_token_id": "x"}"#);
        let error = Tokenizer::from_dir(&dir).unwrap_err().to_string();
        assert!(error.contains("generation_config.json") && error.contains("\"x\""), "{error}");
        for name in ["tokenizer_config.json", "generation_config.json", "config.json"] {
            write(name, "{}");
        }
        let error = Tokenizer::from_dir(&dir).unwrap_err().to_string();
        assert!(error.contains("ends an answer"), "{error}");
        write("tokenizer.json", "{\"version\"");
        assert!(Tokenizer::from_dir(&dir).unwrap_err().to_string().contains("not a tokenizer"));
    }
}
