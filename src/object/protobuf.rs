//! Kubernetes' protobuf to JSON, for the built-in kinds: what typed clients send.
//!
//! `protobuf/messages.txt` says what the messages are (`tools/record-protobuf.py` writes it), `protobuf/messages.rs`
//! reads it, `protobuf/wire.rs` reads bytes. Only this direction is here: what is sent on is JSON.

mod messages;
mod special;
mod wire;

use messages::{Field, Message};
use serde_json::{Map, Value};
use wire::{Reader, Wire};

/// What every object starts with (`protobuf.NewSerializer`).
const PREFIX: &[u8] = b"k8s\0";
/// How deep messages may be nested; those of Kubernetes are not half as deep.
const MAX_DEPTH: usize = 48;

/// Why bytes are no object.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    /// They do not start as an object does.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NoPrefix,
    /// They end too early, or say what cannot be.
    #[error("proto: {0}")]
    Malformed(&'static str),
    /// They are of a kind whose messages are not known.
    #[error("no protobuf message is known for kind {kind:?} of {api_version:?}")]
    UnknownKind {
        /// The object's apiVersion.
        api_version: String,
        /// The object's kind.
        kind: String,
    },
}

/// Decodes an object of a built-in kind as its JSON would be decoded.
///
/// # Errors
/// When the bytes are no such object.
pub fn decode(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let envelope = bytes.strip_prefix(PREFIX).ok_or(ProtobufError::NoPrefix)?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    let mut reader = Reader::new(envelope);
    while let Some((number, value)) = reader.field()? {
        match (number, value) {
            (1, Wire::Bytes(type_meta)) => {
                let mut reader = Reader::new(type_meta);
                while let Some((number, value)) = reader.field()? {
                    match (number, value) {
                        (1, Wire::Bytes(text)) => api_version = wire::text(text)?.to_owned(),
                        (2, Wire::Bytes(text)) => kind = wire::text(text)?.to_owned(),
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let Some(message) = messages::of_kind(&api_version, &kind) else {
        return Err(ProtobufError::UnknownKind { api_version, kind });
    };
    let mut object = Map::new();
    object.insert("apiVersion".into(), api_version.into());
    object.insert("kind".into(), kind.into());
    fields(message, raw, &mut object, 0)?;
    Ok(Value::Object(object))
}

/// Adds the fields of a message to a JSON object.
fn fields(message: &Message, bytes: &[u8], object: &mut Map<String, Value>, depth: usize) -> Result<(), ProtobufError> {
    if depth > MAX_DEPTH {
        return Err(ProtobufError::Malformed("nested too deeply"));
    }
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.field()? {
        // kube-apiserver skips what it does not know, too.
        let Some(field) = message.field(number) else { continue };
        if field.is_map {
            let Wire::Bytes(entry) = value else { return Err(ProtobufError::Malformed("wrong wireType")) };
            let (key, value) = map_entry(field, entry, depth)?;
            if let Some(map) = object.entry(field.name).or_insert_with(|| Map::new().into()).as_object_mut() {
                map.insert(key, value);
            }
        } else if field.is_repeated {
            let mut items = Vec::new();
            wire::each(field.scalar, value, |value| {
                items.extend(single(field, value, depth)?);
                Ok(())
            })?;
            if let Some(list) = object.entry(field.name).or_insert_with(|| Value::Array(Vec::new())).as_array_mut() {
                list.append(&mut items);
            }
        } else if field.is_inline {
            let (Wire::Bytes(bytes), Some(message)) = (value, field.message()) else {
                return Err(ProtobufError::Malformed("wrong wireType"));
            };
            fields(message, bytes, object, depth + 1)?;
        } else if let Some(value) = single(field, value, depth)?
            && (field.writes_zeros || !is_zero(&value))
        {
            object.insert(field.name.into(), value);
        }
    }
    Ok(())
}

/// One value of a field; none for a time that is not set.
fn single(field: &Field, value: Wire<'_>, depth: usize) -> Result<Option<Value>, ProtobufError> {
    if let Some(scalar) = field.scalar {
        return wire::scalar(scalar, value).map(Some);
    }
    let Wire::Bytes(bytes) = value else { return Err(ProtobufError::Malformed("wrong wireType")) };
    if let Some(special) = special::of(field.kind) {
        return special(bytes);
    }
    let message = field.message().ok_or(ProtobufError::Malformed("a message of an unknown type"))?;
    let mut object = Map::new();
    fields(message, bytes, &mut object, depth + 1)?;
    Ok(Some(Value::Object(object)))
}

fn map_entry(field: &Field, bytes: &[u8], depth: usize) -> Result<(String, Value), ProtobufError> {
    let (mut key, mut value) = (String::new(), None);
    let mut reader = Reader::new(bytes);
    while let Some((number, part)) = reader.field()? {
        match (number, part) {
            (1, Wire::Bytes(text)) => key = wire::text(text)?.to_owned(),
            (2, part) => value = single(field, part, depth)?,
            _ => {}
        }
    }
    let value = match (value, field.scalar) {
        (Some(value), _) => value,
        // Whoever writes the entry leaves out what is empty.
        (None, Some(_)) => "".into(),
        (None, None) => single(field, Wire::Bytes(&[]), depth)?.unwrap_or_default(),
    };
    Ok((key, value))
}

/// What `omitempty` leaves out; never an object.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Bool(value) => !value,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
