//! Decodes from text, if the order of fields, the text of numbers, or duplicate fields matter.
//!
//! Slower than `decode.rs`, with equal results otherwise. The text must be valid JSON.

use super::decode::{Decoder, Fatal, Held};
use super::path::{Path, Step};
use super::table::{self, Holds, Shape, Type};
use super::{DecodeError, Typed, scalar};
use crate::decode;
use serde_json::{Map, Value};

/// Decodes a text that is valid JSON.
///
/// # Errors
/// If the text cannot be decoded.
pub(super) fn decode(schema: &'static Type, text: &[u8]) -> Result<Typed, DecodeError> {
    let mut reader = Reader { text, at: 0, decoder: Decoder::default() };
    let mut value = Value::Object(Map::new());
    let result = match reader.peek() {
        Some(b'{') => reader.fields(schema, Map::new(), &Path::ROOT).map(|fields| value = Value::Object(fields)),
        _ => {
            value = json(reader.extent());
            return reader.decoder.document(schema, &mut value).map(|()| Typed { value, unknown: Vec::new() });
        }
    };
    reader.decoder.finish(result)?;
    Ok(Typed { value, unknown: reader.decoder.into_strict_errors() })
}

fn json(text: &[u8]) -> Value {
    decode::json(text).unwrap_or_default().value
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    decoder: Decoder,
}

impl<'a> Reader<'a> {
    fn fields(
        &mut self,
        schema: &'static Type,
        mut fields: Map<String, Value>,
        path: &Path,
    ) -> Result<Map<String, Value>, Fatal> {
        self.decoder.count(schema)?;
        let mut seen = Vec::new();
        while let Some(key) = self.next_key() {
            let Some(field) = schema.field(&key) else {
                self.decoder.note("unknown", path, &key);
                self.extent();
                continue;
            };
            if seen.contains(&field.name) {
                self.decoder.note("duplicate", path, &key);
            } else {
                seen.push(field.name);
            }
            // A duplicate field is decoded into the value of the first one.
            let before = fields.remove(field.name);
            let (held, value) = self.value(&field.shape, before, &path.then(Step::Field(schema, field)))?;
            if held != Held::Nothing {
                fields.insert(key, value);
            }
        }
        Ok(fields)
    }

    fn value(&mut self, shape: &'static Shape, before: Option<Value>, path: &Path) -> Result<(Held, Value), Fatal> {
        let (held, value) = match (&shape.holds, self.peek()) {
            (_, Some(b'n')) => {
                self.extent();
                let is_reset = shape.is_pointer || shape.holds.is_reset_by_null();
                return Ok(match before {
                    Some(before) if !is_reset => (Held::Something, before),
                    _ => (Held::Nothing, Value::Null),
                });
            }
            (Holds::Struct(index), Some(b'{')) => {
                let before = match before {
                    Some(Value::Object(fields)) => fields,
                    _ => Map::new(),
                };
                let Some(schema) = table::resolve(*index) else { return Ok((Held::Something, json(self.extent()))) };
                (Held::Something, Value::Object(self.fields(schema, before, path)?))
            }
            (Holds::List(items), Some(b'[')) => {
                let items = self.items(items, before, path)?;
                (if items.is_empty() { Held::Empty } else { Held::Something }, Value::Array(items))
            }
            (Holds::Map(_, values), Some(b'{')) => {
                let entries = self.entries(values, before, path)?;
                (if entries.is_empty() { Held::Empty } else { Held::Something }, Value::Object(entries))
            }
            (Holds::SchemaOrBool | Holds::SchemaOrArray | Holds::SchemaOrStrings, _) => self.schema_or(shape, path)?,
            (_, first) => {
                let text = self.extent();
                let literal = std::str::from_utf8(text).ok();
                let literal = literal.filter(|_| matches!(first, Some(b'-' | b'0'..=b'9')));
                let mut value = json(text);
                (scalar::decode(&mut self.decoder, shape, &mut value, literal, path)?, value)
            }
        };
        Ok((if shape.is_pointer { Held::Something } else { held }, value))
    }

    fn items(&mut self, shape: &'static Shape, before: Option<Value>, path: &Path) -> Result<Vec<Value>, Fatal> {
        let mut before = match before {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        }
        .into_iter();
        let mut items = Vec::new();
        while self.has_next(b']') {
            let (held, value) = self.value(shape, before.next(), &path.then(Step::Index(items.len())))?;
            items.push(if held == Held::Nothing { self.decoder.zero(shape)? } else { value });
        }
        Ok(items)
    }

    fn entries(
        &mut self,
        shape: &'static Shape,
        before: Option<Value>,
        path: &Path,
    ) -> Result<Map<String, Value>, Fatal> {
        let mut entries = match before {
            Some(Value::Object(entries)) => entries,
            _ => Map::new(),
        };
        let mut seen = std::collections::HashSet::new();
        while let Some(key) = self.next_key() {
            if !seen.insert(key.clone()) {
                self.decoder.note("duplicate", path, &key);
            }
            let (held, value) = self.value(shape, None, &path.then(Step::Key(&key)))?;
            entries.insert(key, if held == Held::Nothing { self.decoder.zero(shape)? } else { value });
        }
        Ok(entries)
    }

    fn schema_or(&mut self, shape: &'static Shape, path: &Path) -> Result<(Held, Value), Fatal> {
        let [schema, schemas, strings] = table::json_schema();
        let nested = match (self.peek(), &shape.holds) {
            (Some(b'{'), _) => schema,
            (Some(b'['), Holds::SchemaOrArray) => schemas,
            (Some(b'['), Holds::SchemaOrStrings) => strings,
            _ => {
                let mut value = json(self.extent());
                return Ok((self.decoder.schema_or(shape, &mut value, path)?, value));
            }
        };
        let outer = self.decoder.enter();
        let result = self.value(nested, None, &path.then(Step::Nested));
        let (held, value) = self.decoder.leave(outer, result)?;
        Ok((Held::Something, if held == Held::Empty { Value::Null } else { value }))
    }

    /// Skips whitespace and returns the first byte of the next value.
    fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.text.get(self.at) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    /// Whether the current list or object has another element; `end` is its last byte. Moves to that element, or behind the end.
    fn has_next(&mut self, end: u8) -> bool {
        if matches!(self.peek(), Some(b'{' | b'[' | b',')) {
            self.at += 1;
        }
        match self.peek() {
            Some(byte) if byte != end => true,
            _ => {
                self.at += 1;
                false
            }
        }
    }

    fn next_key(&mut self) -> Option<String> {
        if !self.has_next(b'}') {
            return None;
        }
        let key = json(self.extent());
        if self.peek() == Some(b':') {
            self.at += 1;
        }
        match key {
            Value::String(key) => Some(key),
            _ => None,
        }
    }

    /// Returns the text of the next value, and moves behind it.
    fn extent(&mut self) -> &'a [u8] {
        self.peek();
        let start = self.at;
        let mut depth = 0_usize;
        while let Some(byte) = self.text.get(self.at) {
            match byte {
                b'"' => self.pass_string(),
                b'{' | b'[' => depth += 1,
                b'}' | b']' if depth > 0 => depth -= 1,
                b'}' | b']' | b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' if depth == 0 => break,
                _ => (),
            }
            self.at += 1;
            if depth == 0 && matches!(byte, b'"' | b'}' | b']') {
                break;
            }
        }
        // Every call moves on, so that reading any text ends.
        self.at = self.at.max(start + 1);
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// Moves to the closing quote.
    fn pass_string(&mut self) {
        self.at += 1;
        while let Some(byte) = self.text.get(self.at) {
            match byte {
                b'"' => return,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
    }
}
