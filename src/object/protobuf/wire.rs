//! The wire format: tags, varints, lengths.

use super::ProtobufError;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// A scalar type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    String,
    Bytes,
    Bool,
    Int,
    Uint,
    Double,
}

/// A value as it stands on the wire.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32,
}

const SHORT: ProtobufError = ProtobufError::Malformed("unexpected EOF");
const WRONG: ProtobufError = ProtobufError::Malformed("wrong wireType");

/// Reads a message's fields.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next field's number and value; none at the end.
    pub(super) fn field(&mut self) -> Result<Option<(u32, Wire<'a>)>, ProtobufError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| *number > 0);
        let number = number.ok_or(ProtobufError::Malformed("illegal tag"))?;
        let value = match tag & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(u64::from_le_bytes(self.take(8)?.try_into().map_err(|_| SHORT)?)),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| SHORT)?;
                Wire::Bytes(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                Wire::Fixed32
            }
            // Groups: nothing in Kubernetes has them.
            _ => return Err(ProtobufError::Malformed("illegal wireType")),
        };
        Ok(Some((number, value)))
    }

    fn varint(&mut self) -> Result<u64, ProtobufError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or(SHORT)?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(ProtobufError::Malformed("integer overflow"))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], ProtobufError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(SHORT)?;
        self.0 = rest;
        Ok(taken)
    }
}

/// A string. Go's JSON has the replacement character for what is no UTF-8; here it is refused.
pub(super) fn text(bytes: &[u8]) -> Result<&str, ProtobufError> {
    std::str::from_utf8(bytes).map_err(|_| ProtobufError::Malformed("a string that is no UTF-8"))
}

/// A scalar as JSON.
pub(super) fn scalar(scalar: Scalar, value: Wire<'_>) -> Result<Value, ProtobufError> {
    Ok(match (scalar, value) {
        (Scalar::String, Wire::Bytes(bytes)) => text(bytes)?.into(),
        (Scalar::Bytes, Wire::Bytes(bytes)) => STANDARD.encode(bytes).into(),
        (Scalar::Bool, Wire::Varint(value)) => (value != 0).into(),
        (Scalar::Int, Wire::Varint(value)) => value.cast_signed().into(),
        (Scalar::Uint, Wire::Varint(value)) => value.into(),
        (Scalar::Double, Wire::Fixed64(bits)) => f64::from_bits(bits).into(),
        _ => return Err(WRONG),
    })
}

/// The values of one occurrence of a repeated field: numbers may be packed into one.
pub(super) fn each<'a>(
    scalar: Option<Scalar>,
    value: Wire<'a>,
    mut take: impl FnMut(Wire<'a>) -> Result<(), ProtobufError>,
) -> Result<(), ProtobufError> {
    let (Some(Scalar::Int | Scalar::Uint | Scalar::Bool), Wire::Bytes(packed)) = (scalar, value) else { return take(value) };
    let mut reader = Reader(packed);
    while !reader.0.is_empty() {
        take(Wire::Varint(reader.varint()?))?;
    }
    Ok(())
}
