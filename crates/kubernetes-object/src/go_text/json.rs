//! JSON as Go's `encoding/json` writes it.

use super::numbers;
use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};
use std::io::{self, Write};

/// Writes a value as `json.Encoder` does, with a line end; indented, without one, as `json.MarshalIndent` does.
pub fn answer(value: &impl Serialize, is_pretty: bool) -> Vec<u8> {
    let mut written = Vec::with_capacity(128);
    // Keys are strings, and a vector takes every byte.
    if is_pretty {
        let _ = value.serialize(&mut Serializer::with_formatter(&mut written, Go(PrettyFormatter::new())));
    } else {
        let _ = value.serialize(&mut Serializer::with_formatter(&mut written, Go(CompactFormatter)));
        written.push(b'\n');
    }
    written
}

/// Go's numbers and Go's escapes in the layout of another formatter.
struct Go<F>(F);

impl<F: Formatter> Formatter for Go<F> {
    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        // Numbers that Go decodes are whole numbers by now. The others are in a `RawExtension`, which Go keeps as text.
        let is_negative_zero = value == 0.0 && value.is_sign_negative();
        if numbers::whole(value).is_some() && !is_negative_zero {
            return write!(writer, "{value:.1}");
        }
        writer.write_all(numbers::float_text(value).as_bytes())
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        // Nearly no text has such a character. Both separators of lines begin with this byte.
        let has_escapes = memchr::memchr3(b'<', b'>', b'&', fragment.as_bytes()).is_some()
            || memchr::memchr(0xe2, fragment.as_bytes()).is_some();
        match has_escapes {
            true => writer.write_all(escape_html(fragment).as_bytes()),
            false => writer.write_all(fragment.as_bytes()),
        }
    }

    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_array(writer)
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array(writer)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, is_first: bool) -> io::Result<()> {
        self.0.begin_array_value(writer, is_first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array_value(writer)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, is_first: bool) -> io::Result<()> {
        self.0.begin_object_key(writer, is_first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
    }
}

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
    fn an_answer_has_the_numbers_and_the_escapes_of_go() {
        let value = serde_json::json!({"a<b": ["x&y\n", "\u{2028}\u{20ac}"], "n": [1.0, -20.0, 1e20, 1e21, 1.5e-7, 0.000_001, 5, -0.0]});
        let compact = "{\"a\\u003cb\":[\"x\\u0026y\\n\",\"\\u2028\u{20ac}\"],\"n\":[1.0,-20.0,100000000000000000000,1e+21,1.5e-7,0.000001,5,-0]}\n";
        assert_eq!(String::from_utf8(answer(&value, false)).unwrap(), compact);
        let pretty = answer(&serde_json::json!({"a": [], "b": {}, "c": [1]}), true);
        assert_eq!(String::from_utf8(pretty).unwrap(), "{\n  \"a\": [],\n  \"b\": {},\n  \"c\": [\n    1\n  ]\n}");
    }

    #[test]
    fn compact_json_keeps_the_blanks_of_strings() {
        let json = "{ \"a b\" :\t[ 1 , \"x \\\" y\" ],\n\"c\\\\\" : \"< >\" }";
        assert_eq!(compact(json), r#"{"a b":[1,"x \" y"],"c\\":"\u003c \u003e"}"#);
    }
}
