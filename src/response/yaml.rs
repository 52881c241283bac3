//! YAML in the layout of kube-apiserver's `goyaml`.

use crate::go_text::{go_float, numbers};
use crate::object::decode;
use crate::status::Status;
use serde_json::{Map, Number, Value};
use std::cmp::Ordering;

/// The column after which a line breaks at the next space (`best_width`).
const WIDTH: usize = 80;

/// The bytes of the longest key that stands on the line of its value (`yaml_emitter_check_simple_key`).
const SIMPLE_KEY: usize = 128;

/// Writes a Status.
pub(super) fn status(status: &Status) -> String {
    // A Status has only strings, numbers and a JSON map, which can always be serialized.
    document(&serde_json::to_value(status).unwrap_or_default())
}

/// Writes a document (`yaml.JSONToYAML`).
pub(crate) fn document(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => fields(&mut text, 0, map),
        Value::Array(list) if !list.is_empty() => items(&mut text, 0, list),
        value => {
            leaf(&mut text, 0, value);
            text.push('\n');
        }
    }
    text
}

/// Writes a field with its value and the end of the line, after the indent.
pub(crate) fn entry(text: &mut String, indent: usize, key: &str, value: &Value) {
    if key.len() > SIMPLE_KEY || key.contains('\n') {
        text.push_str("? ");
        scalar(text, indent + 2, key);
        text.push('\n');
        text.extend(std::iter::repeat_n(' ', indent));
        text.push_str(": ");
        return within(text, indent, value);
    }
    match style(key) {
        Style::Plain => text.push_str(key),
        Style::Single => quoted(text, "'", key, Style::Single),
        Style::Double | Style::Literal => quoted(text, "\"", key, Style::Double),
    }
    text.push(':');
    match value {
        Value::Object(map) if !map.is_empty() => {
            new_line(text, indent + 2);
            fields(text, indent + 2, map);
        }
        Value::Array(list) if !list.is_empty() => {
            new_line(text, indent);
            items(text, indent, list);
        }
        value => {
            text.push(' ');
            within(text, indent, value);
        }
    }
}

/// Writes fields, the first one on the current line.
fn fields(text: &mut String, indent: usize, map: &Map<String, Value>) {
    let mut sorted: Vec<_> = map.iter().collect();
    sort(&mut sorted, |(a, _), (b, _)| by_key(a, b));
    for (position, (key, value)) in sorted.into_iter().enumerate() {
        if position > 0 {
            new_line(text, indent);
        }
        entry(text, indent, key, value);
    }
}

/// Writes the items of a list, the first one on the current line.
fn items(text: &mut String, indent: usize, list: &[Value]) {
    for (position, item) in list.iter().enumerate() {
        if position > 0 {
            new_line(text, indent);
        }
        text.push_str("- ");
        within(text, indent, item);
    }
}

/// Writes a value that begins on the current line, and the end of the line.
fn within(text: &mut String, indent: usize, value: &Value) {
    match value {
        Value::Object(map) if !map.is_empty() => fields(text, indent + 2, map),
        Value::Array(list) if !list.is_empty() => items(text, indent + 2, list),
        value => {
            leaf(text, indent + 2, value);
            text.push('\n');
        }
    }
}

fn leaf(text: &mut String, indent: usize, value: &Value) {
    match value {
        Value::String(value) => scalar(text, indent, value),
        Value::Number(number) => text.push_str(&shown_number(number)),
        other => text.push_str(&other.to_string()),
    }
}

fn shown_number(number: &Number) -> String {
    // The text in JSON is read again, and may be that of an integer.
    let text = numbers::text(number);
    match number.as_f64().filter(|_| number.is_f64()) {
        Some(float) if text.parse::<i64>().is_err() && text.parse::<u64>().is_err() => go_float(float),
        Some(_) => text,
        None => number.to_string(),
    }
}

/// The order of keys (`keyList.Less`): digits count as the number that they stand for.
fn by_key(a: &str, b: &str) -> Ordering {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let Some(at) = a.iter().zip(&b).position(|(a, b)| a != b) else { return a.len().cmp(&b.len()) };
    let of = |text: &[char]| text.get(at).copied().unwrap_or_default();
    let (first, second) = (of(&a), of(&b));
    match (first.is_alphabetic(), second.is_alphabetic()) {
        (true, true) => return first.cmp(&second),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    let is_within_number = (first == '0' || second == '0')
        && a.iter().take(at).rev().take_while(|c| c.is_ascii_digit()).any(|digit| *digit != '0');
    let number = |text: &[char]| {
        let digits = text.iter().skip(at).map_while(|c| c.to_digit(10));
        digits.fold((i64::from(is_within_number), 0), |(number, count): (i64, usize), digit| {
            (number.wrapping_mul(10).wrapping_add(digit.into()), count + 1)
        })
    };
    number(&a).cmp(&number(&b)).then(first.cmp(&second))
}

/// Sorts by an order that need not be consistent, for which Rust's own sort may panic.
fn sort<T: Copy>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering + Copy) {
    let middle = items.len() / 2;
    if middle == 0 {
        return;
    }
    let (left, right) = items.split_at_mut(middle);
    sort(left, compare);
    sort(right, compare);
    let (left, right) = (left.to_vec(), right.to_vec());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    for place in items {
        let is_right = match (left.peek(), right.peek()) {
            (Some(left), Some(right)) => compare(right, left) == Ordering::Less,
            (None, _) => true,
            (_, None) => false,
        };
        let next = if is_right { right.next() } else { left.next() };
        *place = next.unwrap_or(*place);
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
    if !decode::is_yaml_text(value) {
        return Style::Double;
    }
    if can_be_plain(value) { Style::Plain } else { Style::Single }
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
    use serde_json::json;

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

    fn yaml(value: Value) -> String {
        document(&value)
    }

    /// Compares with the answers of a kube-apiserver 1.36.3.
    #[test]
    fn lists_and_maps_nest_in_one_another() {
        let value = json!({"a": [[1, [2, 3]], {"b": [], "c": {}}, {}, [], "x", null], "d": {"e": {"f": true}}});
        let expected =
            "a:\n- - 1\n  - - 2\n    - 3\n- b: []\n  c: {}\n- {}\n- []\n- x\n- null\nd:\n  e:\n    f: true\n";
        assert_eq!(yaml(value), expected);
        assert_eq!(yaml(json!({})), "{}\n");
        assert_eq!(yaml(json!({"a": ["x\ny", "b: c"]})), "a:\n- |-\n  x\n  y\n- 'b: c'\n");
    }

    #[test]
    fn keys_are_sorted_by_their_numbers_and_may_be_long() {
        let keys = |value: Value| {
            yaml(value).lines().map(|line| line.split(':').next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let value = json!({"a10": 1, "a2": 1, "a": 1, "B": 1, "a-b": 1, "a.b": 1, "ab": 1, "_": 1});
        assert_eq!(keys(value), ["_", "B", "a", "a-b", "a.b", "a2", "a10", "ab"]);
        let long = "k".repeat(129);
        assert_eq!(yaml(json!({ &long: {"a": [1]} })), format!("? {long}\n: a:\n  - 1\n"));
    }

    #[test]
    fn numbers_have_the_text_of_go() {
        for (number, expected) in [
            (json!(0.5), "0.5"),
            (json!(1_234_567.5), "1.2345675e+06"),
            (json!(123_456.5), "123456.5"),
            (json!(0.0001), "0.0001"),
            (json!(0.00001), "1e-05"),
            (json!(1e20), "1e+20"),
            (json!(1e100), "1e+100"),
            (json!(18_446_744_073_709_551_615_u64), "18446744073709551615"),
            (json!(-7), "-7"),
        ] {
            assert_eq!(yaml(json!({ "a": number })), format!("a: {expected}\n"));
        }
    }

    proptest! {
        #[test]
        fn a_written_document_reads_as_the_same(keys in proptest::collection::vec("[a-c0-2.:#~ \\n-]{0,6}", 0..12), texts in proptest::collection::vec("[ -~\\n]{0,90}", 12)) {
            let fields: Map<String, Value> = keys.into_iter().zip(texts).map(|(key, text)| (key, json!([text, {"a": text}]))).collect();
            let text = yaml(Value::Object(fields.clone()));
            let read = decode::yaml(text.as_bytes()).map(|decoded| decoded.value);
            prop_assert_eq!(read, Ok(Value::Object(fields)), "{}", text);
        }

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
