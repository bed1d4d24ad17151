//! The tokens of one agent's conversation, written once (DESIGN.md invariant 5).
//!
//! What was sampled decodes to text, but text does not tell which tokens were sampled. So a
//! transcript keeps the tokens and, beside them, the text that they stand for; a prompt is rendered
//! as a whole, and only what it adds to that text is tokenised. A prompt that does not extend it (a
//! template may drop earlier reasoning) closes the row and begins the next. Knows nothing of
//! sampling.

use anyhow::Result;

use crate::chat::template::ChatTemplate;
use crate::chat::tokenizer::Tokenizer;
use crate::conversation::{Completion, Message, SampledSpan, TokenRow, Tool};

/// The conversation of one agent in one episode, so far.
#[derive(Clone, Debug, Default)]
pub struct Transcript {
    messages: Vec<Message>,
    /// Rows that no prompt extends any more, oldest first.
    closed: Vec<Row>,
    /// The row that the next prompt extends, if it does.
    current: Row,
}

/// Tokens that were only ever appended to.
#[derive(Clone, Debug, Default)]
struct Row {
    tokens: Vec<u32>,
    spans: Vec<SampledSpan>,
    /// What the tokens stand for, bytes that are no text replaced.
    text: String,
}

/// What a prompt adds to the tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptTokens {
    /// Whether they begin a row, so that nothing of the tokens before them is seen by the model.
    pub new_row: bool,
    /// The ids to feed.
    pub tokens: Vec<u32>,
}

impl Transcript {
    /// A conversation in which nothing was said.
    pub fn new() -> Transcript {
        Transcript::default()
    }

    /// Appends messages and the opening of an answer to them.
    ///
    /// # Errors
    /// When the template or the tokenizer fails; then the transcript is as before.
    pub fn prompt(
        &mut self,
        template: &ChatTemplate,
        tokenizer: &Tokenizer,
        new_messages: &[Message],
        tools: &[Tool],
    ) -> Result<PromptTokens> {
        let before = self.messages.len();
        self.messages.extend_from_slice(new_messages);
        let extended = self.extend(template, tokenizer, tools);
        if extended.is_err() {
            self.messages.truncate(before);
        }
        extended
    }

    fn extend(
        &mut self,
        template: &ChatTemplate,
        tokenizer: &Tokenizer,
        tools: &[Tool],
    ) -> Result<PromptTokens> {
        let text = template.render(&self.messages, tools, true)?;
        let added = text.strip_prefix(&self.current.text);
        let new_row = self.current.tokens.is_empty() || added.is_none();
        let tokens = tokenizer.encode(added.filter(|_| !new_row).unwrap_or(&text))?;
        if new_row {
            self.closed.push(std::mem::take(&mut self.current));
        }
        self.current.tokens.extend_from_slice(&tokens);
        self.current.text = text;
        Ok(PromptTokens { new_row, tokens })
    }

    /// Appends what was sampled in answer to the last prompt, and gives it as a message.
    ///
    /// `stop_text` is the text of the stop id, where one was sampled. Where none was, the end of
    /// the turn is the template's to write, and comes with the next prompt.
    pub fn answer(&mut self, completion: &Completion, stop_text: Option<&str>) -> Message {
        self.current.spans.push(SampledSpan {
            start: self.current.tokens.len(),
            logprobs: completion.logprobs.clone(),
            allowed: completion.allowed.clone(),
            policy_version: completion.policy_version,
        });
        self.current.tokens.extend_from_slice(&completion.tokens);
        self.current.text.push_str(&completion.text);
        self.current.text.push_str(stop_text.unwrap_or_default());
        let message = Message::assistant(completion.text.as_str());
        self.messages.push(message.clone());
        message
    }

    /// The tokens of the row that the last prompt began or extended.
    pub fn row_tokens(&self) -> &[u32] {
        &self.current.tokens
    }

    /// What was said so far.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The rows that hold sampled tokens, each up to its last one: what comes after was never
    /// answered.
    pub fn into_rows(self, agent: &str, temperature: f32) -> Vec<TokenRow> {
        let rows = self.closed.into_iter().chain([self.current]);
        let finished = |mut row: Row| {
            let last = row.spans.last()?;
            row.tokens.truncate(last.start + last.logprobs.len());
            Some(TokenRow {
                agent: agent.into(),
                tokens: row.tokens,
                spans: row.spans,
                temperature,
            })
        };
        rows.filter_map(finished).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, Strategy, any, prop, proptest};
    use proptest::{prop_assert, prop_assert_eq};

    use super::Transcript;
    use crate::chat::Chat;
    use crate::chat::template::ChatTemplate;
    use crate::chat::template::tests::template;
    use crate::chat::tests::tiny_chat;
    use crate::conversation::{Completion, Finish, Message, Role, SampledSpan, TokenRow};

    /// Drops what was thought before the last user message, as reasoning models' templates do.
    const FORGETFUL: &str = "\
        {%- for m in messages -%}\
        {%- set text = m.content.split('</think>')[-1] \
            if m.role == 'assistant' and not loop.last else m.content -%}\
        <|{{ m.role }}|>{{ text }}<|end|>\
        {%- endfor -%}\
        {%- if add_generation_prompt %}<|assistant|>{% endif -%}";

    fn completion(chat: &Chat, tokens: Vec<u32>, stopped: bool) -> Completion {
        let said = tokens.len() - usize::from(stopped);
        Completion {
            logprobs: (0..tokens.len()).map(|i| -(i as f32)).collect(),
            allowed: vec![None; tokens.len()],
            text: chat.tokenizer.decode(&tokens[..said]).unwrap(),
            finish: if stopped { Finish::Stop } else { Finish::Length },
            policy_version: 3,
            tokens,
        }
    }

    fn said(chat: &Chat, text: &str) -> Completion {
        let mut tokens = chat.tokenizer.encode(text).unwrap();
        tokens.push(chat.tokenizer.stop_ids()[0]);
        completion(chat, tokens, true)
    }

    fn user(text: &str) -> Vec<Message> {
        vec![Message::new(Role::User, text)]
    }

    /// Plays prompts and answers; gives the rows as the deltas and answers make them, and as
    /// recorded.
    fn play(
        template: &ChatTemplate,
        turns: &[(String, Completion, Option<String>)],
    ) -> (Vec<Vec<u32>>, Vec<TokenRow>) {
        let (chat, mut transcript) = (tiny_chat(), Transcript::new());
        let mut fed: Vec<Vec<u32>> = vec![];
        for (text, completion, stop_text) in turns {
            let delta = transcript.prompt(template, &chat.tokenizer, &user(text), &[]).unwrap();
            if delta.new_row {
                fed.push(vec![]);
            }
            let row = fed.last_mut().unwrap();
            row.extend(&delta.tokens);
            assert_eq!(transcript.row_tokens(), row);
            let message = transcript.answer(completion, stop_text.as_deref());
            assert_eq!(message, Message::assistant(completion.text.as_str()));
            row.extend(&completion.tokens);
        }
        (fed, transcript.into_rows("x", 0.7))
    }

    #[test]
    fn a_prompt_adds_only_what_is_new() {
        let chat = tiny_chat();
        let turns =
            ["one", "two"].map(|text| (text.into(), said(chat, "5"), Some("<|end|>".into())));
        let (fed, rows) = play(&chat.template, &turns);
        let text = "<|user|>one<|end|><|assistant|>5<|end|><|user|>two<|end|><|assistant|>5<|end|>";
        assert_eq!(chat.tokenizer.decode(&fed[0]).unwrap(), text);
        assert_eq!(rows.len(), 1);
        assert_eq!(
            (&rows[0].tokens, rows[0].agent.as_str(), rows[0].temperature),
            (&fed[0], "x", 0.7)
        );
        assert_eq!(
            rows[0].spans.iter().map(|span| span.logprobs.len()).collect::<Vec<_>>(),
            [2, 2]
        );
    }

    #[test]
    fn a_truncated_answer_is_closed_by_the_next_prompt() {
        let chat = tiny_chat();
        let cut = completion(chat, chat.tokenizer.encode("never en").unwrap(), false);
        let turns =
            [("a".into(), cut, None), ("b".into(), said(chat, "5"), Some("<|end|>".into()))];
        let (fed, rows) = play(&chat.template, &turns);
        let text =
            "<|user|>a<|end|><|assistant|>never en<|end|><|user|>b<|end|><|assistant|>5<|end|>";
        assert_eq!(chat.tokenizer.decode(&fed[0]).unwrap(), text);
        let end = chat.tokenizer.stop_ids()[0];
        let first = &rows[0].spans[0];
        let after = first.start + first.logprobs.len();
        assert_eq!(rows[0].tokens[after], end, "the end of a cut answer is prompt, not sampled");
        assert!(rows[0].spans[1].start > after);
    }

    #[test]
    fn bytes_that_are_no_text_do_not_open_a_row() {
        let chat = tiny_chat();
        let mut tokens = chat.tokenizer.encode("é").unwrap();
        tokens.truncate(1);
        tokens.push(chat.tokenizer.stop_ids()[0]);
        let turns = [
            ("a".into(), completion(chat, tokens, true), Some("<|end|>".into())),
            ("b".into(), said(chat, "5"), Some("<|end|>".into())),
        ];
        assert_eq!(play(&chat.template, &turns).1.len(), 1);
    }

    #[test]
    fn trap_13_a_template_that_drops_reasoning_opens_a_row() {
        let chat = tiny_chat();
        let thought = said(chat, "so</think>5");
        let turns = ["a", "b"].map(|text| (text.into(), thought.clone(), Some("<|end|>".into())));
        let (fed, rows) = play(&template(FORGETFUL, &[]), &turns);
        let texts: Vec<String> =
            fed.iter().map(|row| chat.tokenizer.decode(row).unwrap()).collect();
        assert_eq!(texts[0], "<|user|>a<|end|><|assistant|>so</think>5<|end|>");
        let second =
            "<|user|>a<|end|><|assistant|>5<|end|><|user|>b<|end|><|assistant|>so</think>5<|end|>";
        assert_eq!(texts[1], second);
        assert_eq!(rows.len(), 2);
        assert!(rows.iter().all(|row| row.spans.len() == 1), "no answer is learnt from twice");
    }

    #[test]
    fn a_failed_prompt_changes_nothing_and_an_unanswered_one_is_cut() {
        let chat = tiny_chat();
        let refusing = template("{{ raise_exception('no') }}", &[]);
        let mut transcript = Transcript::new();
        let tokenizer = &chat.tokenizer;
        transcript.prompt(&chat.template, tokenizer, &user("a"), &[]).unwrap();
        transcript.answer(&said(chat, "5"), Some("<|end|>"));
        let before = transcript.row_tokens().to_vec();
        assert!(transcript.prompt(&refusing, tokenizer, &user("b"), &[]).is_err());
        assert_eq!((transcript.row_tokens(), transcript.messages().len()), (&before[..], 2));
        assert!(!transcript.prompt(&chat.template, tokenizer, &user("c"), &[]).unwrap().new_row);
        assert_eq!(transcript.into_rows("x", 1.0)[0].tokens, before);
    }

    fn turns() -> impl Strategy<Value = Vec<(String, Completion, Option<String>)>> {
        let words = prop::sample::select(vec!["a", " 5", "</think>", "\n", "é", "<|end|>", ""]);
        let text = prop::collection::vec(words, 0..5).prop_map(|words| words.concat());
        let answer = prop::collection::vec(any::<prop::sample::Index>(), 1..6);
        let turn = (text, answer, any::<bool>()).prop_map(|(text, answer, stopped)| {
            let chat = tiny_chat();
            let vocabulary = chat.tokenizer.vocabulary();
            let stop = chat.tokenizer.stop_ids()[0];
            let mut tokens: Vec<u32> = answer
                .iter()
                .map(|index| index.index(vocabulary) as u32)
                .filter(|token| *token != stop)
                .collect();
            if stopped || tokens.is_empty() {
                tokens.push(stop);
                return (text, completion(chat, tokens, true), Some("<|end|>".to_owned()));
            }
            (text, completion(chat, tokens, false), None)
        });
        prop::collection::vec(turn, 1..6)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        /// Tokens are fed once and stay; spans are exactly what was sampled; and a template that
        /// keeps what was said never opens a second row, whatever bytes were sampled.
        #[test]
        fn trap_13_rows_are_what_was_fed_and_sampled(turns in turns(), forgets in any::<bool>()) {
            let forgetful = template(FORGETFUL, &[]);
            let chat = tiny_chat();
            let (fed, rows) = play(if forgets { &forgetful } else { &chat.template }, &turns);
            let kept: Vec<Vec<u32>> = rows.iter().map(|row| row.tokens.clone()).collect();
            prop_assert_eq!(kept, fed);
            prop_assert!(forgets || rows.len() == 1);
            let sampled: Vec<&[u32]> = rows
                .iter()
                .flat_map(|row| {
                    let of_span = |s: &SampledSpan| s.start..s.start + s.logprobs.len();
                    row.spans.iter().map(move |span| &row.tokens[of_span(span)])
                })
                .collect();
            let expected: Vec<&[u32]> = turns.iter().map(|turn| &turn.1.tokens[..]).collect();
            prop_assert_eq!(sampled, expected);
            for row in &rows {
                let ends = row.spans.iter().map(|span| span.start + span.logprobs.len());
                let starts = row.spans.iter().skip(1).map(|span| span.start);
                prop_assert!(starts.zip(ends).all(|(start, end)| start >= end));
                let mut spans = row.spans.iter();
                prop_assert!(spans.all(|span| span.allowed.len() == span.logprobs.len()));
            }
        }
    }
}
