//! JSON as Go's `encoding/json` writes it.

use super::numbers;
use serde_json::Value;

/// Returns a text as a JSON string.
pub fn string(text: &str) -> String {
    escape_html(&Value::from(text).to_string())
}

/// Returns the JSON of a value, with sorted keys (`json.Marshal`).
pub fn text(value: &Value) -> String {
    let mut written = String::new();
    write(&mut written, value);
    written
}

fn write(written: &mut String, value: &Value) {
    match value {
        Value::Null | Value::Bool(_) => written.push_str(&value.to_string()),
        Value::Number(number) => written.push_str(&numbers::text(number)),
        Value::String(text) => written.push_str(&string(text)),
        Value::Array(items) => {
            written.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    written.push(',');
                }
                write(written, item);
            }
            written.push(']');
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|(key, _)| key.as_str());
            written.push('{');
            for (index, (key, value)) in fields.into_iter().enumerate() {
                if index > 0 {
                    written.push(',');
                }
                written.push_str(&string(key));
                written.push(':');
                write(written, value);
            }
            written.push('}');
        }
    }
}

/// Escapes characters in JSON strings that a browser could take for HTML or for the end of a line (`json.HTMLEscape`).
pub fn escape_html(json: &str) -> String {
    let mut written = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => written.push_str(&format!("\\u{:04x}", character as u32)),
            character => written.push(character),
        }
    }
    written
}

/// Removes white space between the tokens of JSON, and escapes as [`escape_html`] does: a `json.RawMessage` that Go writes.
pub fn compact(json: &str) -> String {
    let (mut in_string, mut escaped) = (false, false);
    let mut is_kept = |character: &char| {
        let is_blank = !in_string && matches!(character, ' ' | '\t' | '\n' | '\r');
        in_string ^= *character == '"' && !escaped;
        escaped = in_string && *character == '\\' && !escaped;
        !is_blank
    };
    escape_html(&json.chars().filter(|character| is_kept(character)).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_could_stand_in_html() {
        assert_eq!(string("<a&\"b\">\u{2028}é\n"), r#""\u003ca\u0026\"b\"\u003e\u2028é\n""#);
    }

    #[test]
    fn compact_json_keeps_the_blanks_of_strings() {
        let json = "{ \"a b\" :\t[ 1 , \"x \\\" y\" ],\n\"c\\\\\" : \"< >\" }";
        assert_eq!(compact(json), r#"{"a b":[1,"x \" y"],"c\\":"\u003c \u003e"}"#);
    }
}
