//! Encodes answers as kube-apiserver does: byte for byte what Go's generated code writes, zero values included.
//!
//! Every object of a built-in kind has this encoding. Fields that the table does not have are left out, as Go's types leave them out.

use super::MAGIC;
use super::encode::{Writer, timestamp};
use super::table::{self, Field, Message, Shape, Special};
use crate::Object;
use crate::kind::split_api_version;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::sync::LazyLock;

static NO_FIELDS: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

/// The bytes before an object of one frame of a watch: its length.
const FRAME_LENGTH: usize = 4;

/// Whether a kind has a protobuf encoding. The options of requests, which every version has, count for none.
pub fn has_encoding(group: &str, version: &str, kind: &str) -> bool {
    table::has_kind(group, version, kind)
}

/// Whether any kind of a version has a protobuf encoding.
pub fn has_version(group: &str, version: &str) -> bool {
    table::has_version(group, version)
}

/// Encodes a value with an apiVersion and a kind (`protobuf.Serializer.Encode`); `None` if the kind has no protobuf encoding.
pub fn encode_answer(value: &Map<String, Value>) -> Option<Vec<u8>> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    encode_as(text("apiVersion"), text("kind"), value)
}

/// Encodes the fields of an object of a kind; `None` if the kind has no protobuf encoding.
pub fn encode_as(api_version: &str, kind: &str, fields: &Map<String, Value>) -> Option<Vec<u8>> {
    let message = message_of(api_version, kind)?;
    Some(enveloped(api_version, kind, |writer| writer.every_field(message, fields)))
}

/// Encodes a list of this kind, one item after the other; `None` if the kind has no protobuf encoding.
pub fn encode_list<'o>(
    api_version: &str,
    kind: &str,
    metadata: &Map<String, Value>,
    items: impl Iterator<Item = Cow<'o, Object>>,
) -> Option<Vec<u8>> {
    let message = message_of(api_version, kind)?;
    let metadata = Value::Object(metadata.clone());
    let mut items = Some(items);
    Some(enveloped(api_version, kind, |writer| {
        for field in &message.fields {
            match &field.shape {
                Shape::List(item) => {
                    for object in items.take().into_iter().flatten() {
                        writer.any_value(field.number, item, object.as_value());
                    }
                }
                _ => writer.any_field(field, &metadata),
            }
        }
    }))
}

/// Encodes an event of a watch, with its object in protobuf, as one frame (`protobuf.LengthDelimitedFramer`).
pub fn encode_event(kind: &str, object: &[u8]) -> Vec<u8> {
    let mut writer = Writer(Vec::with_capacity(object.len() + kind.len() + 32));
    writer.0.extend_from_slice(&[0; FRAME_LENGTH]);
    // `WatchEvent`, whose object is a `RawExtension`.
    let _ = writer.text(1, kind);
    writer.sized(2, |writer| {
        let _ = writer.bytes(1, object);
    });
    let length = u32::try_from(writer.0.len() - FRAME_LENGTH).unwrap_or(u32::MAX);
    writer.0.iter_mut().zip(length.to_be_bytes()).for_each(|(to, from)| *to = from);
    writer.0
}

fn message_of(api_version: &str, kind: &str) -> Option<&'static Message> {
    // Some documents of discovery have no version.
    let (group, version) = split_api_version(if api_version.is_empty() { "v1" } else { api_version });
    table::message(group, version, kind)
}

/// Writes a `runtime.Unknown`.
fn enveloped(api_version: &str, kind: &str, raw: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut writer = Writer(MAGIC.to_vec());
    writer.sized(1, |writer| {
        let _ = writer.text(1, api_version);
        let _ = writer.text(2, kind);
    });
    writer.sized(2, raw);
    // The content encoding and the content type.
    let _ = writer.text(3, "");
    let _ = writer.text(4, "");
    writer.0
}

impl Writer {
    /// Writes a field with a length prefix.
    fn sized(&mut self, number: u32, write: impl FnOnce(&mut Self)) {
        // This fails only if the content fails.
        let _ = self.delimited(number, |writer| {
            write(writer);
            Some(())
        });
    }

    /// Writes the fields of a message, zero values included.
    fn every_field(&mut self, message: &'static Message, fields: &Map<String, Value>) {
        for field in &message.fields {
            match (&field.shape, field.is_inline) {
                (Shape::Message(index), true) => {
                    let message = table::resolve(*index);
                    let is_there = |message: &&Message| !field.is_pointer || has_any(message, fields);
                    if let Some(message) = message.filter(is_there) {
                        self.sized(field.number, |writer| writer.every_field(message, fields));
                    }
                }
                _ => self.any_field(field, fields.get(field.name).unwrap_or(&Value::Null)),
            }
        }
    }

    fn any_field(&mut self, field: &'static Field, value: &Value) {
        match (&field.shape, value) {
            (Shape::List(items), value) => {
                let list = value.as_array().into_iter().flatten();
                list.for_each(|value| self.any_value(field.number, items, value));
            }
            (Shape::Map(values), value) => {
                for (key, value) in value.as_object().into_iter().flatten() {
                    self.sized(field.number, |writer| {
                        let _ = writer.text(1, key);
                        writer.any_value(2, values, value);
                    });
                }
            }
            // A nil slice.
            (Shape::Bytes | Shape::Wrapped(_), Value::Null) => {}
            (_, Value::Null) if field.is_pointer => {}
            (shape, value) => self.any_value(field.number, shape, value),
        }
    }

    /// Writes one value; a value of another type as zero.
    fn any_value(&mut self, number: u32, shape: &'static Shape, value: &Value) {
        match shape {
            Shape::String => _ = self.text(number, value.as_str().unwrap_or_default()),
            Shape::Bool => _ = self.number(number, value.as_bool().unwrap_or_default().into()),
            Shape::Int32 | Shape::Int64 => _ = self.number(number, value.as_i64().unwrap_or_default()),
            Shape::Double => self.double(number, value.as_f64().unwrap_or_default()),
            Shape::Bytes => {
                let bytes = value.as_str().and_then(|text| BASE64.decode(text).ok()).unwrap_or_default();
                let _ = self.bytes(number, &bytes);
            }
            Shape::Message(index) => {
                let fields = value.as_object().unwrap_or(&NO_FIELDS);
                if let Some(message) = table::resolve(*index) {
                    self.sized(number, |writer| writer.every_field(message, fields));
                }
            }
            Shape::Wrapped(items) => self.sized(number, |writer| {
                value.as_array().into_iter().flatten().for_each(|value| writer.any_value(1, items, value));
            }),
            Shape::Special(special) => self.sized(number, |writer| writer.any_special(*special, value)),
            // Go's types have no lists within lists.
            Shape::List(_) | Shape::Map(_) => {}
        }
    }

    fn any_special(&mut self, special: Special, value: &Value) {
        let _ = match (special, value) {
            (Special::Time | Special::MicroTime, Value::String(text)) => timestamp(text, special == Special::MicroTime)
                .and_then(|(seconds, nanos)| {
                    self.number(1, seconds)?;
                    self.number(2, nanos)
                }),
            (Special::Quantity, value) => self.text(1, value.as_str().unwrap_or("0")),
            (Special::IntOrString, value) => {
                let text = value.as_str();
                let _ = self.number(1, text.is_some().into());
                let _ = self.number(2, value.as_i64().unwrap_or_default());
                self.text(3, text.unwrap_or_default())
            }
            // A missing `RawExtension`.
            (Special::Raw, Value::Null) => None,
            (Special::Raw, value) => self.bytes(1, &serde_json::to_vec(value).unwrap_or_default()),
            (Special::SchemaOrBool, value) => {
                let _ = self.number(1, i64::from(*value != Value::Bool(false)));
                self.schema(2, value)
            }
            (Special::SchemaOrArray, Value::Array(items)) => items.iter().try_for_each(|item| self.schema(2, item)),
            (Special::SchemaOrStrings, Value::Array(items)) => {
                items.iter().try_for_each(|item| self.text(2, item.as_str().unwrap_or_default()))
            }
            (Special::SchemaOrArray | Special::SchemaOrStrings, value) => self.schema(1, value),
            _ => None,
        };
    }

    fn schema(&mut self, number: u32, value: &Value) -> Option<()> {
        let (message, fields) = (table::json_schema()?, value.as_object()?);
        self.sized(number, |writer| writer.every_field(message, fields));
        Some(())
    }
}

/// Whether a message is among the fields of its parent.
fn has_any(message: &Message, fields: &Map<String, Value>) -> bool {
    message.fields.iter().any(|field| fields.contains_key(field.name))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{OBJECTS, decode, difference};
    use super::*;
    use serde_json::json;

    fn fields(value: &Value) -> &Map<String, Value> {
        value.as_object().unwrap()
    }

    fn without_nulls(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|_, value| !value.is_null());
                fields.values_mut().for_each(without_nulls);
            }
            Value::Array(items) => items.iter_mut().for_each(without_nulls),
            _ => {}
        }
    }

    #[test]
    fn objects_of_every_kind_are_written_as_go_writes_them() {
        let (mut equal, mut different) = (0, Vec::new());
        for (body, expected) in OBJECTS.iter() {
            let encoded = encode_answer(fields(expected)).unwrap();
            if encoded == *body {
                equal += 1;
                continue;
            }
            // The JSON of a random object has less than its protobuf: fractions of seconds, the other half of a union, text that is no UTF-8,
            // a pointer to the zero time.
            let (mut found, mut expected) = (decode(&encoded).unwrap(), decode(body).unwrap());
            without_nulls(&mut found);
            without_nulls(&mut expected);
            different.extend(difference("", &found, &expected).map(|where_| format!("{} {where_}", expected["kind"])));
        }
        assert!(different.is_empty(), "{different:#?}");
        // Nearly all others have metadata with a fraction of a second.
        assert!(equal >= 70, "{equal} of {}", OBJECTS.len());
    }

    #[test]
    fn a_list_equals_its_value() {
        let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let metadata = json!({"resourceVersion": "7", "remainingItemCount": 2});
        let whole = json!({"apiVersion": "v1", "kind": "PodList", "metadata": metadata, "items": [pod, pod]});
        let items = [pod.clone(), pod].map(|pod| Cow::Owned(Object::from_value(pod).unwrap()));
        let list = encode_list("v1", "PodList", fields(&metadata), items.into_iter());
        assert_eq!(list, encode_answer(fields(&whole)));
        assert_eq!(encode_list("e.com/v1", "WidgetList", fields(&metadata), std::iter::empty()), None);
    }

    #[test]
    fn the_lists_of_metadata_have_numbers_of_their_own_in_each_version() {
        let metadata = json!({"resourceVersion": "7"});
        let item = || Cow::Owned(Object::from_value(json!({"metadata": {"name": "a"}})).unwrap());
        let of = |version: &str| {
            encode_list(version, "PartialObjectMetadataList", fields(&metadata), [item()].into_iter()).unwrap()
        };
        for version in ["meta.k8s.io/v1", "meta.k8s.io/v1beta1"] {
            let read = decode(&of(version)).unwrap();
            assert_eq!(
                (&read["items"][0]["metadata"]["name"], &read["metadata"]),
                (&json!("a"), &metadata),
                "{version}"
            );
        }
        assert_ne!(of("meta.k8s.io/v1")[40..], of("meta.k8s.io/v1beta1")[45..]);
    }

    #[test]
    fn an_event_is_a_frame_with_its_length() {
        let expected = b"\0\0\0\x0f\x0a\x05ADDED\x12\x06\x0a\x04k8s\0";
        assert_eq!(encode_event("ADDED", b"k8s\0"), expected);
    }

    #[test]
    fn what_go_does_not_have_is_left_out() {
        let encoded = |value: Value| encode_answer(fields(&value));
        let plain = encoded(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}));
        let more = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "x": 1, "finalizers": []},
            "data": {}, "y": {"z": 1}});
        assert!(plain.is_some());
        assert_eq!(encoded(more), plain);
        assert_eq!(encoded(json!({"apiVersion": "e.com/v1", "kind": "Widget"})), None);
    }
}
