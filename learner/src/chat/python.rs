//! Values as Python writes them, because chat templates are written against Python's Jinja2.
//!
//! `{{ true }}` is `True` there, and `tojson` is `json.dumps` with its spaces after commas and
//! colons. A token more or less in a prompt is another prompt, so both are done exactly. Knows
//! nothing of conversations.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

/// How [`json_dumps`] writes, as in Python's function of that name.
struct JsonStyle {
    indent: Option<usize>,
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
    ascii: bool,
}

/// The template filter `tojson(ensure_ascii=False, indent=None, separators=None, sort_keys=False)`.
///
/// # Errors
/// When the value has no JSON form or an argument is unknown.
pub(super) fn tojson(value: &Value, options: Kwargs) -> Result<Value, Error> {
    let indent: Option<usize> = options.get("indent")?;
    let separators: Option<Vec<String>> = options.get("separators")?;
    let [item_separator, key_separator] = match separators {
        Some(pair) => <[String; 2]>::try_from(pair)
            .map_err(|_| invalid("tojson: separators must be a pair of strings"))?,
        None => [if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()],
    };
    let style = JsonStyle {
        indent,
        item_separator,
        key_separator,
        sort_keys: options.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
        ascii: options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
    };
    options.assert_all_used()?;
    let mut out = String::new();
    json_dumps(value, &style, 0, &mut out)?;
    Ok(Value::from_safe_string(out))
}

fn json_dumps(
    value: &Value,
    style: &JsonStyle,
    depth: usize,
    out: &mut String,
) -> Result<(), Error> {
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => out.push_str(&number(value)?),
        ValueKind::String => json_string(value.as_str().unwrap_or_default(), style.ascii, out),
        ValueKind::Map => {
            let mut entries = Vec::new();
            for key in value.try_iter()? {
                entries.push((key.to_string(), value.get_item(&key)?));
            }
            if style.sort_keys {
                entries.sort_by(|left, right| left.0.cmp(&right.0));
            }
            json_items('{', '}', &entries, style, depth, out, |(key, value), out| {
                json_string(key, style.ascii, out);
                out.push_str(&style.key_separator);
                json_dumps(value, style, depth + 1, out)
            })?;
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<Value> = value.try_iter()?.collect();
            json_items('[', ']', &items, style, depth, out, |value, out| {
                json_dumps(value, style, depth + 1, out)
            })?;
        }
        kind => return Err(invalid(&format!("tojson: a value of type {kind} has no JSON form"))),
    }
    Ok(())
}

fn json_items<T>(
    open: char,
    close: char,
    items: &[T],
    style: &JsonStyle,
    depth: usize,
    out: &mut String,
    mut write: impl FnMut(&T, &mut String) -> Result<(), Error>,
) -> Result<(), Error> {
    let new_line = |depth: usize, out: &mut String| {
        if let Some(indent) = style.indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent * depth));
        }
    };
    out.push(open);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push_str(&style.item_separator);
        }
        new_line(depth + 1, out);
        write(item, out)?;
    }
    if !items.is_empty() {
        new_line(depth, out);
    }
    out.push(close);
    Ok(())
}

fn json_string(text: &str, ascii: bool, out: &mut String) {
    let quoted = serde_json::to_string(text).expect("a string always has a JSON form");
    if !ascii {
        out.push_str(&quoted);
        return;
    }
    for character in quoted.chars() {
        if character.is_ascii() {
            out.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
}

/// A number as Python's `repr` and `json.dumps` write it.
fn number(value: &Value) -> Result<String, Error> {
    if value.is_integer() {
        Ok(value.to_string())
    } else {
        Ok(float(f64::try_from(value.clone())?))
    }
}

/// The shortest digits that read back equal, with an exponent below 1e-4 and from 1e16 on.
fn float(number: f64) -> String {
    if !number.is_finite() {
        let name = if number.is_nan() { "NaN" } else { "Infinity" };
        return if number < 0.0 { format!("-{name}") } else { name.to_owned() };
    }
    let scientific = format!("{number:e}");
    let (mantissa, exponent) = scientific.split_once('e').expect("`{:e}` writes an exponent");
    let exponent: i32 = exponent.parse().expect("the exponent is an integer");
    if number != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    let plain = number.to_string();
    if plain.contains('.') { plain } else { format!("{plain}.0") }
}

/// Writes a value where a template prints it.
pub(super) fn print(
    out: &mut minijinja::Output<'_>,
    _: &State<'_, '_>,
    value: &Value,
) -> Result<(), Error> {
    let written = match value.as_str() {
        Some(text) => out.write_str(text),
        None => out.write_str(&string(value)?),
    };
    written.map_err(|_| invalid("the rendered text cannot be written"))
}

/// The template filter `string`: Python's `str`.
pub(super) fn string(value: &Value) -> Result<String, Error> {
    match (value.as_str(), value.kind()) {
        (Some(text), _) => Ok(text.to_owned()),
        (None, ValueKind::Undefined) => Ok(String::new()),
        _ => repr(value),
    }
}

/// The template test `is iterable`: unlike in minijinja, `none` is not.
pub(super) fn is_iterable(value: &Value) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}

/// The template test `is sequence`: unlike in minijinja, a text and a mapping are.
pub(super) fn is_sequence(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::String | ValueKind::Map)
}

/// A value as Python's `repr` writes it.
fn repr(value: &Value) -> Result<String, Error> {
    Ok(match value.kind() {
        ValueKind::None => "None".into(),
        ValueKind::Bool => if value.is_true() { "True" } else { "False" }.into(),
        ValueKind::Number => number(value)?.replace("Infinity", "inf").replace("NaN", "nan"),
        ValueKind::String => repr_string(value.as_str().unwrap_or_default()),
        ValueKind::Seq => {
            let items: Result<Vec<_>, _> = value.try_iter()?.map(|item| repr(&item)).collect();
            format!("[{}]", items?.join(", "))
        }
        ValueKind::Map => {
            let mut entries = Vec::new();
            for key in value.try_iter()? {
                entries.push(format!("{}: {}", repr(&key)?, repr(&value.get_item(&key)?)?));
            }
            format!("{{{}}}", entries.join(", "))
        }
        _ => value.to_string(),
    })
}

fn repr_string(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::from(quote);
    for character in text.chars() {
        match character {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            _ if character == quote => out.extend(['\\', quote]),
            _ if character.is_ascii_control() => {
                out.push_str(&format!("\\x{:02x}", u32::from(character)));
            }
            _ => out.push(character),
        }
    }
    out.push(quote);
    out
}

fn invalid(message: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.to_owned())
}

#[cfg(test)]
mod tests {
    use minijinja::{Environment, Value};

    use super::{float, is_iterable, is_sequence, print, string, tojson};

    fn render(template: &str, json: &str) -> String {
        let mut environment = Environment::new();
        environment.add_filter("tojson", tojson);
        environment.add_filter("string", |value: &Value| string(value));
        environment.add_test("iterable", is_iterable);
        environment.add_test("sequence", is_sequence);
        environment.set_formatter(print);
        let v: Value = serde_json::from_str(json).unwrap();
        environment.render_str(template, minijinja::context! { v }).unwrap()
    }

    // The expected texts are what Python 3.11 prints.
    #[test]
    fn tojson_is_json_dumps() {
        let json = r#"{"b": [1, 2.0, true, null], "a": {"é<'>": "x\n\u0001"}, "e": {}, "f": []}"#;
        let plain = r#"{"b": [1, 2.0, true, null], "a": {"é<'>": "x\n\u0001"}, "e": {}, "f": []}"#;
        assert_eq!(render("{{ v | tojson }}", json), plain);
        assert_eq!(
            render("{{ v | tojson(indent=2) }}", r#"{"b": [1, {"c": []}]}"#),
            "{\n  \"b\": [\n    1,\n    {\n      \"c\": []\n    }\n  ]\n}"
        );
        assert_eq!(
            render(
                "{{ v | tojson(separators=(',', ':'), sort_keys=true) }}",
                r#"{"b": 1, "a": 2}"#
            ),
            r#"{"a":2,"b":1}"#
        );
        assert_eq!(
            render("{{ v | tojson(ensure_ascii=true) }}", r#""é😀""#),
            r#""\u00e9\ud83d\ude00""#
        );
    }

    #[test]
    fn floats_are_written_as_python_writes_them() {
        let cases = [
            (0.1, "0.1"),
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (f64::INFINITY, "Infinity"),
        ];
        for (number, text) in cases {
            assert_eq!(float(number), text);
        }
    }

    #[test]
    fn printed_values_are_pythons() {
        let json = r#"[true, null, 1, 1.5, "a'b", "c\n", {"k": ["v"]}]"#;
        assert_eq!(render("{{ v }}", json), r#"[True, None, 1, 1.5, "a'b", 'c\n', {'k': ['v']}]"#);
        assert_eq!(
            render("{{ v }}|{{ none }}|{{ unknown }}|{{ 1 == 1 }}", "\"s\""),
            "s|None||True"
        );
        assert_eq!(render("{{ (v | string) ~ (true | string) }}", "1e-7"), "1e-07True");
    }

    #[test]
    fn tests_of_kind_are_pythons() {
        let tests = "{{ v is iterable }} {{ v is sequence }}";
        let kinds = [
            ("null", "False False"),
            ("1", "False False"),
            ("{}", "True True"),
            ("[]", "True True"),
        ];
        for (json, answers) in kinds.into_iter().chain([("\"s\"", "True True")]) {
            assert_eq!(render(tests, json), answers, "{json}");
        }
    }
}
