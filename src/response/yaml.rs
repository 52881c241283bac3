//! A Status, and the managed fields of an object, as YAML in the layout of kube-apiserver's `goyaml`.

use crate::object::decode;
use crate::status::Status;
use jiff::Timestamp;
use jiff::civil::DateTime;
use serde_json::Value;

/// The column after which a line breaks at the next space (`best_width`).
const WIDTH: usize = 80;

/// Writes the document.
pub(super) fn status(status: &Status) -> String {
    let mut text = String::new();
    // A Status has only strings, numbers and a JSON map, which can always be serialized.
    if let Ok(Value::Object(fields)) = serde_json::to_value(status) {
        for (key, value) in &fields {
            entry(&mut text, 0, key, value);
        }
    }
    text
}

/// Writes a field with its value and the end of the line, after the indent.
pub(crate) fn entry(text: &mut String, indent: usize, key: &str, value: &Value) {
    match style(key) {
        Style::Plain => text.push_str(key),
        Style::Single => quoted(text, "'", key, Style::Single),
        Style::Double | Style::Literal => quoted(text, "\"", key, Style::Double),
    }
    text.push(':');
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                new_line(text, indent + 2);
                entry(text, indent + 2, key, value);
            }
            // The last field has already ended the line.
            return;
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                new_line(text, indent);
                let Value::Object(item) = item else {
                    text.push_str("- ");
                    simple(text, indent + 2, item);
                    text.push('\n');
                    continue;
                };
                text.push_str(if item.is_empty() { "- {}\n" } else { "- " });
                for (position, (key, value)) in item.iter().enumerate() {
                    if position > 0 {
                        new_line(text, indent + 2);
                    }
                    entry(text, indent + 2, key, value);
                }
            }
            return;
        }
        other => {
            text.push(' ');
            simple(text, indent + 2, other);
        }
    }
    text.push('\n');
}

/// Writes a value without fields or items.
fn simple(text: &mut String, indent: usize, value: &Value) {
    match value {
        Value::String(value) => scalar(text, indent, value),
        other => text.push_str(&other.to_string()),
    }
}

/// Writes a text between quotes, on one line.
fn quoted(text: &mut String, quote: &str, value: &str, style: Style) {
    text.push_str(quote);
    value.chars().for_each(|character| write(text, character, style));
    text.push_str(quote);
}

fn new_line(text: &mut String, indent: usize) {
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text.extend(std::iter::repeat_n(' ', indent));
}

/// The style of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Plain,
    Single,
    Double,
    Literal,
}

/// `yaml_emitter_analyze_scalar` and `yaml_emitter_select_scalar_style`.
fn style(value: &str) -> Style {
    let is_special =
        |c: char| c != '\n' && (c.is_control() || c == '\u{feff}' || ('\u{fffe}'..='\u{ffff}').contains(&c));
    if value.chars().any(is_special) {
        return Style::Double;
    }
    if value.contains('\n') {
        // A literal cannot end in a space.
        return if value.ends_with(' ') || value.contains(" \n") { Style::Double } else { Style::Literal };
    }
    if !decode::is_yaml_text(value) || is_timestamp(value) {
        return Style::Double;
    }
    if can_be_plain(value) { Style::Plain } else { Style::Single }
}

/// Whether YAML would read the text as a time (`parseTimestamp`).
fn is_timestamp(value: &str) -> bool {
    let is_year = |year: &str| year.bytes().all(|byte| byte.is_ascii_digit());
    value.split_at_checked(4).is_some_and(|(year, rest)| is_year(year) && rest.starts_with('-'))
        && (value.parse::<Timestamp>().is_ok() || value.parse::<DateTime>().is_ok())
}

fn can_be_plain(value: &str) -> bool {
    let characters: Vec<char> = value.chars().collect();
    let is_edge = |at: usize| characters.get(at).is_none_or(|character| *character == ' ');
    if value.starts_with(' ') || value.ends_with(' ') || value.starts_with("---") || value.starts_with("...") {
        return false;
    }
    characters.iter().enumerate().all(|(at, character)| match character {
        '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`' if at == 0 => {
            false
        }
        '-' | '?' if at == 0 => !is_edge(1),
        ':' => !is_edge(at + 1),
        '#' => characters.get(at.wrapping_sub(1)) != Some(&' '),
        _ => true,
    })
}

fn scalar(text: &mut String, indent: usize, value: &str) {
    let style = style(value);
    if style == Style::Literal {
        return literal(text, indent, value);
    }
    let mut column = text.rsplit('\n').next().unwrap_or_default().chars().count();
    let quote = match style {
        Style::Single => "'",
        Style::Double => "\"",
        _ => "",
    };
    text.push_str(quote);
    column += quote.len();
    let characters: Vec<char> = value.chars().collect();
    let mut after_space = false;
    for (at, character) in characters.iter().enumerate() {
        let next = characters.get(at + 1);
        if *character == ' ' {
            let is_within = at > 0 && next.is_some();
            if !after_space && column > WIDTH && is_within && (next != Some(&' ') || style == Style::Double) {
                new_line(text, indent);
                column = indent;
                if next == Some(&' ') {
                    text.push('\\');
                    column += 1;
                }
            } else {
                text.push(' ');
                column += 1;
            }
        } else {
            let before = text.len();
            write(text, *character, style);
            column += text.get(before..).map_or(0, |written| written.chars().count());
        }
        after_space = *character == ' ';
    }
    text.push_str(quote);
}

fn write(text: &mut String, character: char, style: Style) {
    match (style, character) {
        (Style::Single, '\'') => text.push_str("''"),
        (Style::Double, '"' | '\\') => text.extend(['\\', character]),
        (Style::Double, '\0') => text.push_str("\\0"),
        (Style::Double, '\x07') => text.push_str("\\a"),
        (Style::Double, '\x08') => text.push_str("\\b"),
        (Style::Double, '\t') => text.push_str("\\t"),
        (Style::Double, '\n') => text.push_str("\\n"),
        (Style::Double, '\x0b') => text.push_str("\\v"),
        (Style::Double, '\x0c') => text.push_str("\\f"),
        (Style::Double, '\r') => text.push_str("\\r"),
        (Style::Double, '\x1b') => text.push_str("\\e"),
        (Style::Double, c) if (c as u32) < 0x100 && c.is_control() => text.push_str(&format!("\\x{:02X}", c as u32)),
        (Style::Double, c) if c == '\u{feff}' || ('\u{fffe}'..='\u{ffff}').contains(&c) => {
            text.push_str(&format!("\\u{:04X}", c as u32));
        }
        (_, c) => text.push(c),
    }
}

/// Writes a literal block (`|-` and the like) line by line.
fn literal(text: &mut String, indent: usize, value: &str) {
    text.push('|');
    if value.starts_with([' ', '\n']) {
        text.push('2');
    }
    let lines = value.trim_end_matches('\n');
    match value.len() - lines.len() {
        0 => text.push('-'),
        1 if !lines.is_empty() => {}
        _ => text.push('+'),
    }
    let body = value.strip_suffix('\n').unwrap_or(value);
    for line in body.split('\n') {
        text.push('\n');
        if !line.is_empty() {
            text.extend(std::iter::repeat_n(' ', indent));
            text.push_str(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{Cause, Details};
    use proptest::prelude::*;

    /// Compares with the answers of a kube-apiserver 1.36.3.
    #[test]
    fn long_texts_are_folded() {
        let why = "Invalid value: \"a b c d e\": a valid label must be an empty string or consist of alphanumeric \
                   characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  \
                   or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
        let cause = Cause { reason: "FieldValueInvalid".into(), message: why.into(), field: "metadata.labels".into() };
        let refusal = Status::invalid("", "ConfigMap", "a\tb\nc", "metadata.labels: not so", vec![cause]);
        let expected = r#"apiVersion: v1
code: 422
details:
  causes:
  - field: metadata.labels
    message: 'Invalid value: "a b c d e": a valid label must be an empty string or
      consist of alphanumeric characters, ''-'', ''_'' or ''.'', and must start and
      end with an alphanumeric character (e.g. ''MyValue'',  or ''my_value'',  or
      ''12345'', regex used for validation is ''(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?'')'
    reason: FieldValueInvalid
  kind: ConfigMap
  name: "a\tb\nc"
kind: Status
message: "ConfigMap \"a\tb\nc\" is invalid: metadata.labels: not so"
metadata: {}
reason: Invalid
status: Failure
"#;
        assert_eq!(super::status(&refusal), expected);
    }

    #[test]
    fn texts_are_quoted_where_they_must_be() {
        for (value, expected) in [
            ("plain text", "plain text"),
            ("configmaps \"nope\" not found", "configmaps \"nope\" not found"),
            ("a: b", "'a: b'"),
            ("a:b", "a:b"),
            ("a #b", "'a #b'"),
            ("it's", "it's"),
            ("'x", "'''x'"),
            ("- a", "'- a'"),
            ("-a", "-a"),
            ("123", "\"123\""),
            ("yes", "\"yes\""),
            ("null", "\"null\""),
            ("", "\"\""),
            ("a ", "'a '"),
            ("a\tb", "\"a\\tb\""),
            ("a\nb", "|-\n  a\n  b"),
            ("\n", "|2+\n"),
            ("{a}", "'{a}'"),
        ] {
            let mut text = String::new();
            scalar(&mut text, 2, value);
            assert_eq!(text, expected, "{value:?}");
        }
    }

    proptest! {
        #[test]
        fn a_written_status_reads_as_the_same_status(message in "[ -~\\n\\t:#'é\u{1}]{0,200}", name in ".{0,20}") {
            let details = Details { name, causes: vec![Cause { message: message.clone(), ..Cause::default() }], ..Details::default() };
            let refusal = Status::failure(403, "Forbidden", message).with_details(details);
            let text = super::status(&refusal);
            let read = decode::yaml(text.as_bytes()).map(|decoded| decoded.value);
            prop_assert_eq!(read, Ok(serde_json::to_value(&refusal).unwrap()), "{}", text);
        }
    }
}
