//! Templates and tokens against `tests/golden/tiny-chat.json`, made by transformers; see
//! `tests/interop/chat_golden.py`.

use serde::Deserialize;

use super::template::ChatTemplate;
use super::template::tests::template;
use super::tests::tiny_chat;
use crate::conversation::{Message, Tool};

#[derive(Deserialize)]
struct Golden {
    conversations: Vec<Conversation>,
    templates: Vec<Rendered>,
}

#[derive(Deserialize)]
struct Conversation {
    messages: Vec<Message>,
    #[serde(default)]
    tools: Vec<Tool>,
    #[serde(default = "yes")]
    add_generation_prompt: bool,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
struct Rendered {
    source: Option<String>,
    texts: Vec<Option<String>>,
    #[serde(default)]
    ids: Vec<Vec<u32>>,
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("../../../tests/golden/tiny-chat.json")).unwrap()
}

fn render(template: &ChatTemplate, conversation: &Conversation) -> Option<String> {
    let Conversation { messages, tools, add_generation_prompt } = conversation;
    template.render(messages, tools, *add_generation_prompt).ok()
}

#[test]
fn templates_render_as_in_transformers() {
    let golden = golden();
    let end = [("eos_token", "<|end|>".to_owned()), ("pad_token", "<|pad|>".to_owned())];
    for rendered in &golden.templates {
        let own = rendered.source.as_ref().map(|source| template(source, &end));
        let template = own.as_ref().unwrap_or(&tiny_chat().template);
        for (conversation, text) in golden.conversations.iter().zip(&rendered.texts) {
            assert_eq!(&render(template, conversation), text, "{:?}", rendered.source);
        }
    }
}

#[test]
fn texts_are_the_same_tokens_as_in_transformers() {
    let own = golden().templates.remove(0);
    assert_eq!(own.texts.len(), own.ids.len());
    for (text, ids) in own.texts.iter().zip(&own.ids) {
        let text = text.as_ref().expect("the tiny policy's template refuses nothing");
        assert_eq!(&tiny_chat().tokenizer.encode(text).unwrap(), ids, "{text:?}");
        assert_eq!(&tiny_chat().tokenizer.decode(ids).unwrap(), text);
    }
}
