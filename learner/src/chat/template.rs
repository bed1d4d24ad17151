//! A model's own chat template: messages → the text that the model was trained to see.
//!
//! Renders as transformers does (`apply_chat_template`), with two exceptions that replay demands:
//! "now" is always the same day, and what a template may not do in this renderer is an error, never
//! a guess. Knows nothing of tokens.

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use minijinja::{Environment, Error, ErrorKind, Value, context};

use super::{dates, python};
use crate::conversation::{Message, Role, Tool, ToolCall};

/// The template that is used unless tools are offered and the model has another for them.
const DEFAULT: &str = "default";
/// The template that some models have for conversations with tools.
const TOOL_USE: &str = "tool_use";
/// The special tokens that a template may name.
const SPECIAL_TOKENS: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// A compiled chat template with the special tokens that it may name.
pub struct ChatTemplate {
    environment: Environment<'static>,
    special_tokens: Vec<(&'static str, String)>,
}

impl ChatTemplate {
    /// Reads `chat_template.jinja`, or else `chat_template` in `tokenizer_config.json`, of a model
    /// directory.
    ///
    /// # Errors
    /// When there is no template, or one that is not Jinja as chat templates use it.
    pub fn from_dir(dir: &Path) -> Result<ChatTemplate> {
        let config = read_json(&dir.join("tokenizer_config.json"))?;
        let map = read_json(&dir.join("special_tokens_map.json"))?;
        let special_tokens = SPECIAL_TOKENS
            .into_iter()
            .filter_map(|name| {
                let text = token_text(&config[name]).or_else(|| token_text(&map[name]))?;
                Some((name, text.to_owned()))
            })
            .collect();
        let path = dir.join("chat_template.jinja");
        let sources = if path.exists() {
            let source = std::fs::read_to_string(&path)
                .with_context(|| format!("cannot read `{}`", path.display()))?;
            vec![(DEFAULT.to_owned(), source)]
        } else {
            sources(&config["chat_template"])
        };
        if !sources.iter().any(|(name, _)| name == DEFAULT) {
            bail!(
                "`{}` has no chat template: neither chat_template.jinja nor a `chat_template` in \
                 tokenizer_config.json. Take the chat-tuned version of the model, or add the file",
                dir.display()
            );
        }
        ChatTemplate::new(sources, special_tokens)
            .with_context(|| format!("cannot use the chat template of `{}`", dir.display()))
    }

    fn new(
        sources: Vec<(String, String)>,
        special_tokens: Vec<(&'static str, String)>,
    ) -> Result<ChatTemplate> {
        let mut environment = Environment::new();
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.set_formatter(python::print);
        environment.add_filter("tojson", python::tojson);
        environment.add_filter("string", |value: &Value| python::string(value));
        environment.add_test("iterable", python::is_iterable);
        environment.add_test("sequence", python::is_sequence);
        environment.add_function("strftime_now", |format: &str| dates::strftime_now(format));
        environment.add_function("raise_exception", |message: &str| -> Result<Value, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, message.to_owned()))
        });
        for (name, source) in sources {
            // Jinja2 reads every line ending as a newline.
            let source = source.replace("\r\n", "\n").replace('\r', "\n");
            environment.add_template_owned(name, without_generation_blocks(&source))?;
        }
        Ok(ChatTemplate { environment, special_tokens })
    }

    /// The conversation as text, with the opening of the next answer if `add_generation_prompt`.
    ///
    /// # Errors
    /// When the template refuses the conversation, such as two user messages in a row.
    pub fn render(
        &self,
        messages: &[Message],
        tools: &[Tool],
        add_generation_prompt: bool,
    ) -> Result<String> {
        let template = match self.environment.get_template(TOOL_USE) {
            Ok(template) if !tools.is_empty() => template,
            _ => self.environment.get_template(DEFAULT).expect("every ChatTemplate has a default"),
        };
        let tools: Option<Vec<Value>> = match tools {
            [] => None,
            tools => Some(tools.iter().map(tool_value).collect::<Result<_>>()?),
        };
        let messages: Vec<Value> = messages.iter().map(message_value).collect();
        let tokens: Value =
            self.special_tokens.iter().map(|(name, text)| (*name, text.as_str())).collect();
        let given = context! { messages, tools, documents => (), add_generation_prompt, ..tokens };
        let rendered = template.render(given);
        rendered.context("the chat template does not take this conversation")
    }
}

impl fmt::Debug for ChatTemplate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ChatTemplate").finish_non_exhaustive()
    }
}

/// The named templates of `chat_template`, which is a text, or a list of names and texts.
fn sources(config: &serde_json::Value) -> Vec<(String, String)> {
    if let Some(source) = config.as_str() {
        return vec![(DEFAULT.to_owned(), source.to_owned())];
    }
    let named = |item: &serde_json::Value| {
        Some((item["name"].as_str()?.to_owned(), item["template"].as_str()?.to_owned()))
    };
    config.as_array().into_iter().flatten().filter_map(named).collect()
}

/// A special token stands in a config as its text, or as an object that holds it.
pub(super) fn token_text(config: &serde_json::Value) -> Option<&str> {
    config.as_str().or_else(|| config["content"].as_str())
}

/// A JSON file of a model directory; null where there is none.
pub(super) fn read_json(path: &Path) -> Result<serde_json::Value> {
    match std::fs::read(path) {
        Ok(text) => serde_json::from_slice(&text)
            .with_context(|| format!("`{}` is not valid JSON", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(serde_json::Value::Null),
        Err(error) => Err(error).with_context(|| format!("cannot read `{}`", path.display())),
    }
}

/// Turns `{% generation %}` blocks, which only mark where answers stand, into blocks that do
/// nothing.
fn without_generation_blocks(source: &str) -> String {
    let mut out = String::new();
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let Some(length) = rest[start..].find("%}") else { break };
        let (before, tag, after) =
            (&rest[..start], &rest[start + 2..start + length], &rest[start + length..]);
        out.push_str(before);
        out.push_str("{%");
        let statement = tag.trim_matches(['-', '+']).trim();
        match statement {
            "generation" => out.push_str(&tag.replace("generation", "if true")),
            "endgeneration" => out.push_str(&tag.replace("endgeneration", "endif")),
            _ => out.push_str(tag),
        }
        out.push_str("%}");
        rest = &after[2..];
    }
    out + rest
}

fn message_value(message: &Message) -> Value {
    let mut fields = vec![
        ("role", Value::from(message.role.as_str())),
        ("content", Value::from(message.content.as_str())),
    ];
    if message.role == Role::Assistant && !message.tool_calls.is_empty() {
        fields.push(("tool_calls", message.tool_calls.iter().map(tool_call_value).collect()));
    }
    if let Some(id) = &message.tool_call_id {
        fields.push(("tool_call_id", Value::from(id.as_str())));
    }
    if let Some(name) = &message.name {
        fields.push(("name", Value::from(name.as_str())));
    }
    fields.into_iter().collect()
}

/// The arguments are an object where they parse as one, since templates iterate over them.
fn tool_call_value(call: &ToolCall) -> Value {
    let arguments = match serde_json::from_str::<Value>(&call.arguments) {
        Ok(object) if object.kind() == minijinja::value::ValueKind::Map => object,
        _ => Value::from(call.arguments.as_str()),
    };
    let function: Value =
        [("name", Value::from(call.name.as_str())), ("arguments", arguments)].into_iter().collect();
    let fields = [("id", Value::from(call.id.as_str())), ("type", "function".into())];
    fields.into_iter().chain([("function", function)]).collect()
}

fn tool_value(tool: &Tool) -> Result<Value> {
    let parameters: Value = serde_json::from_str(&tool.parameters)
        .with_context(|| format!("the parameters of the tool `{}` are not JSON", tool.name))?;
    let function: Value = [
        ("name", Value::from(tool.name.as_str())),
        ("description", Value::from(tool.description.as_str())),
        ("parameters", parameters),
    ]
    .into_iter()
    .collect();
    Ok([("type", Value::from("function")), ("function", function)].into_iter().collect())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{ChatTemplate, DEFAULT, TOOL_USE, without_generation_blocks};
    use crate::conversation::{Message, Role, Tool, ToolCall};

    /// A template from its source.
    pub(crate) fn template(source: &str, tokens: &[(&'static str, String)]) -> ChatTemplate {
        ChatTemplate::new(vec![(DEFAULT.into(), source.into())], tokens.to_vec()).unwrap()
    }

    fn hello() -> Vec<Message> {
        vec![Message::new(Role::System, "Be kind."), Message::new(Role::User, "Hi")]
    }

    fn tool(parameters: &str) -> Tool {
        let (name, description) = ("add".into(), "Adds.".into());
        Tool { name, description, parameters: parameters.into() }
    }

    #[test]
    fn blocks_are_trimmed_as_transformers_trims_them() {
        let source = "{% for m in messages %}\n    {% if m.role == 'user' %}\n{{ m.content }}!\n\
                      \x20   {% endif %}\n{% endfor %}\n\
                      {%- if add_generation_prompt %}\n>{% endif %}\n";
        assert_eq!(template(source, &[]).render(&hello(), &[], true).unwrap(), "Hi!\n>");
    }

    #[test]
    fn python_methods_slices_and_loop_controls_work() {
        let source = "{%- for m in messages[::-1] -%}{%- if m['content'].startswith('Be') -%}\
                      {%- break -%}{%- endif -%}{{ m.content.split('i')[0].rstrip('\\n').upper() }}\
                      {%- endfor -%}{{ messages[1:] | length }}{{ tools is none }}";
        assert_eq!(template(source, &[]).render(&hello(), &[], true).unwrap(), "H1True");
    }

    #[test]
    fn tools_and_calls_come_in_the_order_in_which_they_were_given() {
        let source = "{{ tools | tojson }}|{% for m in messages %}{% for c in m.tool_calls or [] %}\
                      {{ c.function.arguments | tojson }}{% endfor %}{% endfor %}";
        let call = |arguments: &str| Message {
            tool_calls: vec![ToolCall {
                id: "1".into(),
                name: "add".into(),
                arguments: arguments.into(),
            }],
            ..Message::assistant("")
        };
        let messages = [call(r#"{"b":1,"a":2.50}"#), call("not json")];
        let tools = [tool(r#"{"type":"object","properties":{}}"#)];
        let expected =
            r#"[{"type": "function", "function": {"name": "add", "description": "Adds.", "#
                .to_owned()
                + r#""parameters": {"type": "object", "properties": {}}}}]|"#
                + r#"{"b": 1, "a": 2.5}"not json""#;
        assert_eq!(template(source, &[]).render(&messages, &tools, false).unwrap(), expected);
        let error = template(source, &[]).render(&messages, &[tool("{")], false).unwrap_err();
        assert!(error.to_string().contains("`add`"), "{error}");
    }

    #[test]
    fn a_template_for_tools_is_used_with_tools() {
        let sources = [(DEFAULT, "plain"), (TOOL_USE, "tools")];
        let sources = sources.map(|(name, source)| (name.to_owned(), source.to_owned()));
        let template = ChatTemplate::new(sources.into(), vec![]).unwrap();
        assert_eq!(template.render(&hello(), &[], true).unwrap(), "plain");
        assert_eq!(template.render(&hello(), &[tool("{}")], true).unwrap(), "tools");
    }

    #[test]
    fn a_refusal_carries_the_templates_words() {
        let error = template("{{ raise_exception('Roles must alternate') }}", &[])
            .render(&hello(), &[], true)
            .unwrap_err();
        assert!(format!("{error:#}").contains("Roles must alternate"), "{error:#}");
    }

    #[test]
    fn generation_blocks_only_mark() {
        let source = "a {%- generation -%} b {% endgeneration %}{% set generation = 1 %}c";
        let expected = "a {%- if true -%} b {% endif %}{% set generation = 1 %}c";
        assert_eq!(without_generation_blocks(source), expected);
        assert_eq!(without_generation_blocks("a {% b"), "a {% b");
    }

    #[test]
    fn the_config_gives_template_and_special_tokens() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        let error = ChatTemplate::from_dir(dir.path()).unwrap_err();
        assert!(error.to_string().contains("no chat template"), "{error}");
        write(
            "tokenizer_config.json",
            r#"{"bos_token": {"content": "<s>"}, "eos_token": "</s>", "pad_token": null,
                "chat_template": [
                    {"name": "default", "template": "{{ bos_token }}{{ eos_token }}"}]}"#,
        );
        let render = || ChatTemplate::from_dir(dir.path()).unwrap().render(&[], &[], true).unwrap();
        assert_eq!(render(), "<s></s>");
        write("chat_template.jinja", "{{ eos_token }}{{ pad_token }}");
        assert_eq!(render(), "</s>");
        write("chat_template.jinja", "{% for %}");
        let error = format!("{:#}", ChatTemplate::from_dir(dir.path()).unwrap_err());
        assert!(error.contains("cannot use the chat template"), "{error}");
    }
}
