//! Values in Go's text forms, which messages of kube-apiserver contain.

pub mod duration;
pub mod json;
pub mod numbers;
pub mod time;
mod print;

pub use print::{go_float, go_print};

use serde_json::Value;

/// Go's `%q`.
pub fn go_quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        quote_character(&mut quoted, character, '"');
    }
    quoted.push('"');
    quoted
}

/// Writes a character as Go does in a literal with this quotation mark.
pub(crate) fn quote_character(quoted: &mut String, character: char, quote: char) {
    match character {
        '\\' => quoted.push_str("\\\\"),
        '\x07' => quoted.push_str("\\a"),
        '\x08' => quoted.push_str("\\b"),
        '\x0c' => quoted.push_str("\\f"),
        '\n' => quoted.push_str("\\n"),
        '\r' => quoted.push_str("\\r"),
        '\t' => quoted.push_str("\\t"),
        '\x0b' => quoted.push_str("\\v"),
        c if c == quote => quoted.extend(['\\', c]),
        c if (c as u32) < 0x20 || c as u32 == 0x7f => quoted.push_str(&format!("\\x{:02x}", c as u32)),
        // Rust's Debug escapes the characters that Go's IsPrint does not print, and also combining marks, which IsPrint prints.
        c if c.is_alphanumeric() || c.is_ascii() => quoted.push(c),
        c => match c.escape_debug().next() {
            Some('\\') if (c as u32) < 0x1_0000 => quoted.push_str(&format!("\\u{:04x}", c as u32)),
            Some('\\') => quoted.push_str(&format!("\\U{:08x}", c as u32)),
            _ => quoted.push(c),
        },
    }
}

/// Approximates Go's `unicode.IsPrint`: whether `%q` shows the character unchanged.
pub fn is_printable(character: char) -> bool {
    let mut quoted = String::new();
    quote_character(&mut quoted, character, '\0');
    character == '\\' || !quoted.starts_with('\\')
}

/// Returns the JSON type of a value as Go's `UnmarshalTypeError` names it.
pub fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Returns Go's `%T` of a value in unstructured JSON.
pub fn go_dynamic_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_as_go_does() {
        for (text, quoted) in [
            ("", r#""""#),
            ("a b", r#""a b""#),
            ("a\"b\\\n\u{1}é\u{200b}😀", r#""a\"b\\\n\x01é\u200b😀""#),
            ("'\n\t\x00\x7f", r#""'\n\t\x00\x7f""#),
            ("äß€😀", r#""äß€😀""#),
            ("\u{a0}\u{85}\u{ad}\u{feff}\u{2028}", r#""\u00a0\u0085\u00ad\ufeff\u2028""#),
            ("\u{e000}\u{ffff}\u{10ffff}", r#""\ue000\uffff\U0010ffff""#),
        ] {
            assert_eq!(go_quote(text), quoted);
        }
    }
}
