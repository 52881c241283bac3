//! Encodes CBOR (`modes.Encode`): texts become byte strings, numbers get their shortest form.

use super::SELF_DESCRIBED;
use ciborium_ll::{Encoder, Header, simple};
use serde_json::{Number, Value};
use std::convert::Infallible;

/// The bytes of a value, with the tag that marks CBOR.
pub fn encode(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::from(&mut bytes);
    let Ok(()) = encoder.push(Header::Tag(SELF_DESCRIBED)).and_then(|()| write(&mut encoder, value));
    bytes
}

type Written = Result<(), Infallible>;

fn write(encoder: &mut Encoder<&mut Vec<u8>>, value: &Value) -> Written {
    match value {
        Value::Null => encoder.push(Header::Simple(simple::NULL)),
        Value::Bool(false) => encoder.push(Header::Simple(simple::FALSE)),
        Value::Bool(true) => encoder.push(Header::Simple(simple::TRUE)),
        Value::Number(number) => encoder.push(number_header(number)),
        Value::String(text) => encoder.bytes(text.as_bytes(), None),
        Value::Array(items) => {
            encoder.push(Header::Array(Some(items.len())))?;
            items.iter().try_for_each(|item| write(encoder, item))
        }
        Value::Object(fields) => {
            encoder.push(Header::Map(Some(fields.len())))?;
            fields.iter().try_for_each(|(key, value)| {
                encoder.bytes(key.as_bytes(), None)?;
                write(encoder, value)
            })
        }
    }
}

fn number_header(number: &Number) -> Header {
    match (number.as_u64(), number.as_i64()) {
        (Some(number), _) => Header::Positive(number),
        (None, Some(number)) => Header::Negative(!number as u64),
        (None, None) => Header::Float(number.as_f64().unwrap_or_default()),
    }
}
