//! Messages whose JSON is not an object of their fields.

use super::ProtobufError;
use super::wire::{self, Reader, Wire};
use jiff::Timestamp;
use serde_json::Value;

/// Makes JSON of a message's bytes; none where nothing is set.
type Decode = fn(&[u8]) -> Result<Option<Value>, ProtobufError>;

/// How a type is decoded that has JSON of its own.
pub(super) fn of(kind: &str) -> Option<Decode> {
    Some(match kind {
        "apis.meta.v1.Time" => |bytes| time(bytes, false),
        "apis.meta.v1.MicroTime" => |bytes| time(bytes, true),
        "apis.meta.v1.Duration" => duration,
        "api.resource.Quantity" | "api.resource.QuantityValue" => quantity,
        "util.intstr.IntOrString" => int_or_string,
        "runtime.RawExtension" | "apis.meta.v1.FieldsV1" => raw,
        _ if kind.ends_with(".ExtraValue") || kind == "apis.meta.v1.Verbs" => strings,
        _ => return None,
    })
}

/// The varints and the strings of a message with at most four fields.
fn parts(bytes: &[u8]) -> Result<([i64; 4], [&[u8]; 4]), ProtobufError> {
    let (mut numbers, mut texts) = ([0; 4], [&[][..]; 4]);
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.field()? {
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        match (numbers.get_mut(at), texts.get_mut(at), value) {
            (Some(place), _, Wire::Varint(value)) => *place = value.cast_signed(),
            (_, Some(place), Wire::Bytes(value)) => *place = value,
            _ => {}
        }
    }
    Ok((numbers, texts))
}

/// `Time.MarshalJSON` and `MicroTime.MarshalJSON`. Nothing at all is the zero time.
fn time(bytes: &[u8], is_micro: bool) -> Result<Option<Value>, ProtobufError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let ([_, seconds, nanoseconds, _], _) = parts(bytes)?;
    let nanoseconds = if is_micro { i32::try_from(nanoseconds).unwrap_or(0) } else { 0 };
    let time = Timestamp::new(seconds, nanoseconds).map_err(|_| ProtobufError::Malformed("a time out of range"))?;
    let text = if is_micro { time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ") } else { time.strftime("%Y-%m-%dT%H:%M:%SZ") };
    Ok(Some(text.to_string().into()))
}

/// As seconds, which Go reads as well: no built-in kind that is written has one.
fn duration(bytes: &[u8]) -> Result<Option<Value>, ProtobufError> {
    let ([_, nanoseconds, ..], _) = parts(bytes)?;
    Ok(Some(format!("{nanoseconds}ns").into()))
}

fn quantity(bytes: &[u8]) -> Result<Option<Value>, ProtobufError> {
    let (_, [_, text, ..]) = parts(bytes)?;
    let text = wire::text(text)?;
    Ok(Some(if text.is_empty() { "0" } else { text }.into()))
}

fn int_or_string(bytes: &[u8]) -> Result<Option<Value>, ProtobufError> {
    let ([_, kind, number, _], [.., text]) = parts(bytes)?;
    Ok(Some(if kind == 1 { wire::text(text)?.into() } else { number.into() }))
}

/// JSON as it is.
fn raw(bytes: &[u8]) -> Result<Option<Value>, ProtobufError> {
    let (_, [_, json, ..]) = parts(bytes)?;
    if json.is_empty() {
        return Ok(None);
    }
    serde_json::from_slice(json).map(Some).map_err(|_| ProtobufError::Malformed("a raw extension that is no JSON"))
}

fn strings(bytes: &[u8]) -> Result<Option<Value>, ProtobufError> {
    let mut list = Vec::new();
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.field()? {
        if let (1, Wire::Bytes(text)) = (number, value) {
            list.push(Value::from(wire::text(text)?));
        }
    }
    Ok(Some(list.into()))
}
