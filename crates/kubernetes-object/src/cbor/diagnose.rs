//! CBOR in diagnostic notation, which some errors contain (`DiagMode.Diagnose`).

use super::{FALSE, NULL, Reader, TRUE, UNDEFINED, hexadecimal};
use ciborium_ll::Header;
use serde_json::Number;

/// Writes a body in diagnostic notation, or in hexadecimal if the body cannot be written so.
pub fn diagnose(bytes: &[u8]) -> String {
    let mut text = String::new();
    let is_written = Reader::new(bytes).is_ok_and(|mut reader| reader.diagnose(&mut text));
    if is_written { text } else { hexadecimal(bytes) }
}

impl Reader<'_> {
    /// Writes the next item; returns false if the item cannot be written.
    fn diagnose(&mut self, text: &mut String) -> bool {
        match self.head() {
            Header::Positive(number) => text.push_str(&number.to_string()),
            Header::Negative(number) => text.push_str(&(-1 - i128::from(number)).to_string()),
            Header::Bytes(length @ Some(_)) => {
                let bytes = self.string(length);
                match std::str::from_utf8(&bytes) {
                    Ok(content) if !content.is_empty() => quote(text, content, '\''),
                    _ => text.push_str(&format!("h'{}'", hexadecimal(&bytes))),
                }
            }
            Header::Text(length @ Some(_)) => match self.text(length) {
                Ok(content) => quote(text, &content, '"'),
                Err(_) => return false,
            },
            Header::Bytes(None) if self.ends() => text.push_str("''_"),
            Header::Text(None) if self.ends() => text.push_str("\"\"_"),
            Header::Bytes(None) | Header::Text(None) => return self.diagnose_all(None, 1, "(_ ", ")", text),
            Header::Array(length) => {
                return self.diagnose_all(length, 1, if length.is_none() { "[_ " } else { "[" }, "]", text);
            }
            Header::Map(length) => {
                return self.diagnose_all(length, 2, if length.is_none() { "{_ " } else { "{" }, "}", text);
            }
            Header::Tag(number) => {
                text.push_str(&format!("{number}("));
                if !self.diagnose(text) {
                    return false;
                }
                text.push(')');
            }
            Header::Float(float) => text.push_str(&float_text(float)),
            Header::Simple(FALSE) => text.push_str("false"),
            Header::Simple(TRUE) => text.push_str("true"),
            Header::Simple(NULL) => text.push_str("null"),
            Header::Simple(UNDEFINED) => text.push_str("undefined"),
            Header::Simple(value) => text.push_str(&format!("simple({value})")),
            Header::Break => return false,
        }
        true
    }

    /// Writes elements of `items` items each.
    fn diagnose_all(
        &mut self,
        mut length: Option<usize>,
        items: usize,
        open: &str,
        close: &str,
        text: &mut String,
    ) -> bool {
        text.push_str(open);
        let mut separator = "";
        while self.has_next(&mut length) {
            text.push_str(separator);
            separator = ", ";
            for item in 0..items {
                if item > 0 {
                    text.push_str(": ");
                }
                if !self.diagnose(text) {
                    return false;
                }
            }
        }
        text.push_str(close);
        true
    }
}

fn quote(text: &mut String, content: &str, quote: char) {
    text.push(quote);
    for character in content.chars() {
        match character {
            '\t' => text.push_str("\\t"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            c if c == '\\' || c == quote => text.extend(['\\', c]),
            ' '..='~' => text.push(character),
            _ => {
                let mut units = [0; 2];
                character.encode_utf16(&mut units).iter().for_each(|unit| text.push_str(&format!("\\u{unit:04x}")));
            }
        }
    }
    text.push(quote);
}

/// Formats a float as JSON does, but always with a decimal point.
fn float_text(float: f64) -> String {
    let magnitude = float.abs();
    if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        let text = format!("{float:e}");
        let text = if text.contains('.') { text } else { text.replace('e', ".0e") };
        return if magnitude < 1.0 { text } else { text.replace('e', "e+") };
    }
    Number::from_f64(float).map_or_else(String::new, |_| format!("{float:?}"))
}
