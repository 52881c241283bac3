//! `google.protobuf.Any` that contains another one of these messages: `anypb.Any.UnmarshalNew`. kube-apiserver knows some more messages,
//! which expressions cannot use.

use super::{Field, of_name};
use crate::types::Type;
use crate::value::{Error, Value};
use crate::work;
use kubernetes_object::protobuf::wire::{DELIMITED, FIXED32, FIXED64, Reader, VARINT};
use std::fmt::Write;
use std::sync::Arc;

/// The number of levels that messages may nest.
const MAX_DEPTH: usize = 64;

/// Decodes the contained message.
///
/// # Errors
/// If the contained message is unknown, or if the bytes are no such message.
pub(super) fn unpack<'a>(fields: &[(Arc<str>, Value<'a>)]) -> Result<Value<'a>, Error> {
    let found = |name: &str| fields.iter().find(|(field, _)| &**field == name).map(|(_, value)| value);
    let url = match found("type_url") {
        Some(Value::String(url)) => url,
        _ => "",
    };
    let bytes = match found("value") {
        Some(Value::Bytes(bytes)) => bytes,
        _ => &[][..],
    };
    work::write(bytes.len().saturating_mul(size_of::<Value<'_>>()))?;
    let name = url.rsplit('/').next().unwrap_or_default();
    message(name, bytes, MAX_DEPTH).ok_or_else(|| {
        let mut shown = String::new();
        if !url.is_empty() {
            let _ = write!(shown, "type_url:{url:?}");
        }
        if !bytes.is_empty() {
            let _ = write!(shown, " value:\"{}\"", bytes.escape_ascii());
        }
        Error::new(format!("unsupported conversion to ref.Val: (*dynamicpb.Message){}", shown.trim_start()))
    })
}

/// The name of the field with a number.
fn field_name(message: &str, number: u32) -> Option<&'static str> {
    Some(match (message.strip_prefix(super::PACKAGE)?, number) {
        ("Any", 1) => "type_url",
        ("Duration" | "Timestamp", 1) => "seconds",
        ("Duration" | "Timestamp", 2) => "nanos",
        ("Struct", 1) => "fields",
        ("Struct.FieldsEntry", 1) => "key",
        ("ListValue", 1) => "values",
        ("Value", 1) => "null_value",
        ("Value", 2) => "number_value",
        ("Value", 3) => "string_value",
        ("Value", 4) => "bool_value",
        ("Value", 5) => "struct_value",
        ("Value", 6) => "list_value",
        ("Any" | "Struct.FieldsEntry", 2) => "value",
        (_, 1) => "value",
        _ => return None,
    })
}

/// The value of a message's bytes; `None` if the bytes are no such message.
fn message<'a>(name: &str, bytes: &[u8], depth: usize) -> Option<Value<'a>> {
    let of = of_name(name)?;
    let fields = fields(name, bytes, depth)?;
    match of {
        Type::Object(_) if name != "google.protobuf.Empty" => None,
        of => super::value(&name.into(), &of, fields).ok(),
    }
}

/// The fields of a message: the last value of each field, and all values of a repeated field.
fn fields<'a>(name: &str, bytes: &[u8], depth: usize) -> Option<Vec<(Arc<str>, Value<'a>)>> {
    let deeper = depth.checked_sub(1)?;
    let mut fields: Vec<(Arc<str>, Value<'a>)> = Vec::new();
    let (mut elements, mut entries) = (Vec::new(), Vec::new());
    let mut rest = Reader(bytes);
    while let Some(tag) = rest.tag(name).ok()? {
        let field = field_name(name, tag.number).and_then(|field| Some((field, Field::find(name, field)?)));
        let Some((field_name, field)) = field else {
            rest.skip(tag).ok()?;
            continue;
        };
        let value = match (field, tag.wire_type) {
            (Field::Bool, VARINT) => Value::Bool(rest.varint().ok()? != 0),
            (Field::Int32 | Field::Enum, VARINT) => Value::Int(i64::from(rest.varint().ok()? as i32)),
            (Field::Int64, VARINT) => Value::Int(rest.varint().ok()? as i64),
            (Field::Uint32, VARINT) => Value::Uint(u64::from(rest.varint().ok()? as u32)),
            (Field::Uint64, VARINT) => Value::Uint(rest.varint().ok()?),
            (Field::Double, FIXED64) => Value::Double(f64::from_bits(rest.fixed64().ok()?)),
            (Field::Float, FIXED32) => Value::Double(f64::from(f32::from_bits(rest.fixed32().ok()?))),
            (Field::String, DELIMITED) => Value::string(std::str::from_utf8(rest.delimited().ok()?).ok()?),
            (Field::Bytes, DELIMITED) => Value::Bytes(rest.delimited().ok()?.into()),
            (Field::Value, DELIMITED) => message("google.protobuf.Value", rest.delimited().ok()?, deeper)?,
            (Field::StructMessage, DELIMITED) => message("google.protobuf.Struct", rest.delimited().ok()?, deeper)?,
            (Field::ListMessage, DELIMITED) => message("google.protobuf.ListValue", rest.delimited().ok()?, deeper)?,
            (Field::List, DELIMITED) => {
                elements.push(message("google.protobuf.Value", rest.delimited().ok()?, deeper)?);
                continue;
            }
            (Field::Map, DELIMITED) => {
                let mut entry = self::fields("google.protobuf.Struct.FieldsEntry", rest.delimited().ok()?, deeper)?;
                let mut take = |field: &str| {
                    let at = entry.iter().position(|(name, _)| &**name == field)?;
                    Some(entry.swap_remove(at).1)
                };
                entries.push((take("key").unwrap_or(Value::text("")), take("value").unwrap_or(Value::Null)));
                continue;
            }
            _ => {
                rest.skip(tag).ok()?;
                continue;
            }
        };
        fields.retain(|(name, _)| &**name != field_name);
        fields.push((field_name.into(), value));
    }
    match name {
        "google.protobuf.ListValue" => fields.push(("values".into(), Value::list(elements))),
        "google.protobuf.Struct" => fields.push(("fields".into(), Value::map(entries))),
        _ => {}
    }
    Some(fields)
}
