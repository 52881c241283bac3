//! Encodes JSON values in Kubernetes' protobuf encoding, which kube-apiserver decodes in a fraction of the time for JSON.
//!
//! Objects that protobuf cannot express are sent as JSON: with empty lists and maps, which Go distinguishes from nil ones, or with fields
//! that the table does not have.

use super::MAGIC;
use super::special::SECONDS_PER_DAY;
use super::table::{self, Field, Message, Shape, Special};
use super::wire::{DELIMITED, FIXED64, VARINT};
use crate::Object;
use crate::go_text::time::{date, days_since_1970};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value};

/// The protobuf body that equals the object's JSON; `None` if there is no such body. A buffer with a `capacity` of the body's
/// length in bytes does not grow.
pub fn encode(object: &Object, group: &str, version: &str, kind: &str, capacity: usize) -> Option<Vec<u8>> {
    if !object.unwritten().is_empty() {
        return None;
    }
    let (message, fields) = (table::message(group, version, kind)?, object.fields());
    let mut writer = Writer(Vec::with_capacity(capacity));
    writer.0.extend_from_slice(MAGIC);
    writer.delimited(1, |writer| {
        writer.text(1, object.api_version())?;
        writer.text(2, object.kind())
    })?;
    writer.delimited(2, |writer| {
        let type_meta = ["apiVersion", "kind"].iter().filter(|name| fields.contains_key(**name)).count();
        (writer.message(message, fields)? + type_meta == fields.len()).then_some(())
    })?;
    Some(writer.0)
}

pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn tag(&mut self, number: u32, wire_type: u8) {
        self.varint(u64::from(number) << 3 | u64::from(wire_type));
    }

    /// Writes a field with a length prefix. The length is known only after the field is written, and is nearly always one byte.
    pub(super) fn delimited(&mut self, number: u32, write: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        self.tag(number, DELIMITED);
        self.0.push(0);
        let start = self.0.len();
        write(self)?;
        let length = self.0.len() - start;
        if let Ok(short @ 0..0x80) = u8::try_from(length) {
            *self.0.get_mut(start - 1)? = short;
            return Some(());
        }
        let mut long = Writer(Vec::with_capacity(5));
        long.varint(length as u64);
        self.0.splice(start - 1..start, long.0);
        Some(())
    }

    pub(super) fn bytes(&mut self, number: u32, bytes: &[u8]) -> Option<()> {
        self.tag(number, DELIMITED);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        Some(())
    }

    pub(super) fn text(&mut self, number: u32, text: &str) -> Option<()> {
        self.bytes(number, text.as_bytes())
    }

    pub(super) fn number(&mut self, number: u32, value: i64) -> Option<()> {
        self.tag(number, VARINT);
        self.varint(value as u64);
        Some(())
    }

    pub(super) fn double(&mut self, number: u32, value: f64) {
        self.tag(number, FIXED64);
        self.0.extend_from_slice(&value.to_bits().to_le_bytes());
    }

    /// Writes the fields of a message and returns their number. A number below the object's means that some fields are unknown.
    pub(super) fn message(&mut self, message: &'static Message, fields: &Map<String, Value>) -> Option<usize> {
        let mut count = 0;
        for field in &message.fields {
            if let (true, Shape::Message(index)) = (field.is_inline, &field.shape) {
                count += self.inline(field, table::resolve(*index)?, fields)?;
            } else if let Some(value) = fields.get(field.name) {
                count += 1;
                self.field(field, value)?;
            }
        }
        Some(count)
    }

    /// Writes a message whose JSON fields are among those of its parent; writes nothing if the parent has none of them.
    fn inline(&mut self, field: &Field, message: &'static Message, fields: &Map<String, Value>) -> Option<usize> {
        let (before, mut count) = (self.0.len(), 0);
        self.delimited(field.number, |writer| {
            count = writer.message(message, fields)?;
            Some(())
        })?;
        if count == 0 {
            self.0.truncate(before);
        }
        Some(count)
    }

    fn field(&mut self, field: &Field, value: &Value) -> Option<()> {
        match (&field.shape, value) {
            // The Go value may be nil or empty: its JSON is null in both cases.
            (Shape::Special(special), Value::Null) if field.is_pointer && special.may_be_null() => None,
            (_, Value::Null) => Some(()),
            (Shape::List(_) | Shape::Wrapped(_), Value::Array(items)) if items.is_empty() => None,
            (Shape::Map(_), Value::Object(entries)) if entries.is_empty() => None,
            (Shape::Bytes, Value::String(text)) if text.is_empty() => None,
            (Shape::List(shape), Value::Array(items)) => {
                items.iter().try_for_each(|item| self.value(field.number, shape, item))
            }
            (Shape::Map(shape), Value::Object(entries)) => entries.iter().try_for_each(|(key, value)| {
                self.delimited(field.number, |writer| {
                    writer.text(1, key)?;
                    writer.value(2, shape, value)
                })
            }),
            (shape, value) => self.value(field.number, shape, value),
        }
    }

    /// Writes one value, zero or not.
    fn value(&mut self, number: u32, shape: &Shape, value: &Value) -> Option<()> {
        match (shape, value) {
            (Shape::String, Value::String(text)) => self.text(number, text),
            (Shape::Bool, Value::Bool(value)) => self.number(number, i64::from(*value)),
            (Shape::Int32, Value::Number(value)) => self.number(number, i32::try_from(value.as_i64()?).ok()?.into()),
            (Shape::Int64, Value::Number(value)) => self.number(number, value.as_i64()?),
            (Shape::Double, Value::Number(value)) => {
                self.double(number, value.as_f64()?);
                Some(())
            }
            (Shape::Bytes, Value::String(text)) => self.bytes(number, &BASE64.decode(text).ok()?),
            (Shape::Message(index), Value::Object(fields)) => self.object(number, table::resolve(*index)?, fields),
            (Shape::Wrapped(shape), Value::Array(items)) => {
                self.delimited(number, |writer| items.iter().try_for_each(|item| writer.value(1, shape, item)))
            }
            (Shape::Special(special), value) => self.special(number, *special, value),
            _ => None,
        }
    }

    fn object(&mut self, number: u32, message: &'static Message, fields: &Map<String, Value>) -> Option<()> {
        self.delimited(number, |writer| (writer.message(message, fields)? == fields.len()).then_some(()))
    }

    fn special(&mut self, number: u32, special: Special, value: &Value) -> Option<()> {
        self.delimited(number, |writer| match (special, value) {
            (Special::Time | Special::MicroTime, Value::String(text)) => {
                let (seconds, nanos) = timestamp(text, special == Special::MicroTime)?;
                writer.number(1, seconds)?;
                writer.number(2, nanos)
            }
            (Special::Quantity, Value::String(text)) => writer.text(1, text),
            (Special::IntOrString, Value::Number(value)) => {
                writer.number(1, 0)?;
                writer.number(2, i32::try_from(value.as_i64()?).ok()?.into())
            }
            (Special::IntOrString, Value::String(text)) => {
                writer.number(1, 1)?;
                writer.text(3, text)
            }
            (Special::Raw, Value::Null) => None,
            (Special::Raw, value) => writer.bytes(1, &serde_json::to_vec(value).ok()?),
            (Special::SchemaOrBool, Value::Bool(is_allowed)) => writer.number(1, i64::from(*is_allowed)),
            (Special::SchemaOrBool, Value::Object(fields)) => {
                writer.number(1, 1)?;
                writer.object(2, table::json_schema()?, fields)
            }
            (Special::SchemaOrArray | Special::SchemaOrStrings, Value::Object(fields)) => {
                writer.object(1, table::json_schema()?, fields)
            }
            (Special::SchemaOrArray, Value::Array(items)) if !items.is_empty() => items.iter().try_for_each(|item| {
                let fields = item.as_object()?;
                writer.object(2, table::json_schema()?, fields)
            }),
            (Special::SchemaOrStrings, Value::Array(items)) if !items.is_empty() => {
                items.iter().try_for_each(|item| writer.text(2, item.as_str()?))
            }
            _ => None,
        })
    }
}

/// Converts a time as Go writes it (in UTC, whole or with six digits) to seconds since 1970 and nanoseconds.
pub(super) fn timestamp(text: &str, has_micros: bool) -> Option<(i64, i64)> {
    let bytes = text.as_bytes();
    let form: &[u8] = if has_micros { b"0000-00-00T00:00:00.000000Z" } else { b"0000-00-00T00:00:00Z" };
    let is_right = |(byte, mark): (&u8, &u8)| if *mark == b'0' { byte.is_ascii_digit() } else { byte == mark };
    if bytes.len() != form.len() || !bytes.iter().zip(form).all(is_right) {
        return None;
    }
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let days = days_since_1970(year, month, day);
    if date(days) != (year, month, day) {
        return None;
    }
    let second = number(11, 13)? * 3600 + number(14, 16)? * 60 + number(17, 19)?;
    let nanos = if has_micros { number(20, 26)? * 1000 } else { 0 };
    (second < SECONDS_PER_DAY).then_some((days * SECONDS_PER_DAY + second, nanos))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{OBJECTS, decode, difference};
    use super::*;
    use serde_json::json;

    fn encoded(value: &Value) -> Option<Vec<u8>> {
        let object = Object::from_value(value.clone()).unwrap();
        let (group, version) = object.api_version().split_once('/').unwrap_or(("", object.api_version()));
        encode(&object, group, version, object.kind(), 0)
    }

    /// Removes null fields: a null time may be a time that Go holds.
    fn without_nulls(value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let fields = fields.iter().filter(|(_, value)| !value.is_null());
                fields.map(|(name, value)| (name.clone(), without_nulls(value))).collect::<Map<_, _>>().into()
            }
            Value::Array(items) => items.iter().map(without_nulls).collect(),
            other => other.clone(),
        }
    }

    #[test]
    fn objects_of_every_kind_are_decoded_to_what_they_were() {
        let mut count = 0;
        for (_, expected) in OBJECTS.iter() {
            let expected = without_nulls(expected);
            let Some(bytes) = encoded(&expected) else { continue };
            count += 1;
            assert_eq!(difference("", &without_nulls(&decode(&bytes).unwrap()), &expected), None, "{expected}");
        }
        // The other objects have nulls in lists.
        assert!(count * 20 > OBJECTS.len() * 19, "{count} of {}", OBJECTS.len());
    }

    #[test]
    fn an_object_that_protobuf_cannot_hold_is_not_encoded() {
        let config_map = |more: Value| {
            let mut whole = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
            whole.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            encoded(&whole).is_some()
        };
        for (more, expected) in [
            (json!({}), true),
            (json!({"data": {"a": ""}, "immutable": false}), true),
            (json!({"binaryData": {"a": "", "b": "AAE="}}), true),
            (json!({"data": {}}), false),
            (json!({"data": {"a": null}}), false),
            (json!({"data": {"a": 1}}), false),
            (json!({"binaryData": {"a": "%"}}), false),
            (json!({"unknown": 1}), false),
            (json!({"metadata": {"unknown": 1}}), false),
            (json!({"metadata": {"finalizers": []}}), false),
            (json!({"metadata": {"generation": 1.5}}), false),
            (json!({"metadata": {"creationTimestamp": null, "deletionTimestamp": "2024-02-29T23:59:59Z"}}), true),
            (json!({"metadata": {"deletionTimestamp": "2023-02-29T23:59:59Z"}}), false),
            (json!({"metadata": {"deletionTimestamp": "2024-02-29T23:59:59+01:00"}}), false),
            (json!({"metadata": {"deletionTimestamp": "2024-02-29T24:59:59Z"}}), false),
        ] {
            assert_eq!(config_map(more.clone()), expected, "{more}");
        }
        assert_eq!(encoded(&json!({"apiVersion": "example.com/v1", "kind": "Widget"})), None);
    }

    #[test]
    fn times_are_counted_as_go_counts_them() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T00:00:00Z", 951_782_400),
            ("1969-12-31T23:59:59Z", -1),
            ("0001-01-01T00:00:01Z", -62_135_596_799),
            ("9999-12-31T23:59:59Z", 253_402_300_799),
        ] {
            assert_eq!(timestamp(text, false), Some((expected, 0)), "{text}");
        }
        assert_eq!(timestamp("1970-01-01T00:00:01.000002Z", true), Some((1, 2000)));
        assert_eq!(timestamp("1970-01-01T00:00:01Z", true), None);
        assert_eq!(timestamp("2023-13-01T00:00:00Z", false), None);
    }
}
