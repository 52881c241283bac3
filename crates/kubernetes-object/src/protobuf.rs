//! Decodes Kubernetes' protobuf encoding into JSON values: the values that Go's `encoding/json` would write of the object that
//! kube-apiserver decodes (`runtime/serializer/protobuf`).
//!
//! Decoding is here; `protobuf/encode.rs` encodes requests, and `protobuf/answer.rs` answers. The table of fields is in `protobuf/table.rs`; the
//! effects of Go's pointers, `omitempty` and embedded structs on JSON are here. Go's generated code merges two halves of one message; this decoder rejects such a
//! body, since no encoder writes one.

mod encode;
mod answer;
mod metadata;
pub(crate) mod special;
mod status;
mod table;
pub mod wire;

pub use answer::{encode_answer, encode_as, encode_event, encode_list, has_encoding, has_version};
pub use encode::encode;
pub use metadata::{metadata, with_owners};
pub use status::{encode_status, status};

use super::decode::{InvalidJson, MAX_DEPTH, push_lossy};
use super::quantity::ParseQuantityError;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Number, Value};
use table::{Field, Shape, Special};
use wire::{DELIMITED, FIXED64, Reader, Tag, VARINT, WireError};

/// The first bytes of every body.
const MAGIC: &[u8] = b"k8s\0";

/// The number of JSON values that a body may stand for. An empty message of two bytes can stand for a whole object of zeros, so that the
/// length of the body alone does not bound the memory.
const MAX_VALUES: usize = 500_000;

/// The reason why a body cannot be decoded, with kube-apiserver's text where kube-apiserver refuses the body too.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidProtobuf {
    /// The body has no bytes.
    #[error("empty data")]
    Empty,
    /// The body does not begin with the bytes that mark protobuf.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NoPrefix,
    /// The body ends after its first bytes.
    #[error("empty body")]
    NoBody,
    /// The bytes are no message.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The kind has no protobuf encoding.
    #[error("the kind has no protobuf encoding")]
    UnknownKind,
    /// A field of the table has a message that the table does not have.
    #[error("a message is unknown")]
    UnknownMessage,
    /// The body has another kind than a Status.
    #[error("it is no Status")]
    NoStatus,
    /// The object nests too deep.
    #[error("exceeded max depth")]
    TooDeep,
    /// The object has too many fields.
    #[error("the object has too many fields")]
    TooManyFields,
    /// The body has two halves of one message.
    #[error("proto: {message}: field {field} occurs more than once")]
    Repeated {
        /// The name of the message that has the field.
        message: &'static str,
        /// The name of the field.
        field: String,
    },
    /// A list is within a list.
    #[error("lists are not within lists")]
    NestedList,
    /// A number that JSON does not have.
    #[error("json: unsupported value: {0}")]
    Double(String),
    /// A year that RFC 3339 does not have.
    #[error("a time is not within the years 1 to 9999")]
    Time,
    /// An `IntOrString` is neither.
    #[error("impossible IntOrString.Type")]
    IntOrString,
    /// A quantity is malformed.
    #[error(transparent)]
    Quantity(#[from] ParseQuantityError),
    /// An embedded JSON document is malformed.
    #[error(transparent)]
    Json(#[from] InvalidJson),
}

/// A body with its declared type (`runtime.Unknown`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// `apiVersion`; empty if the body has none.
    pub api_version: String,
    /// `kind`; empty if the body has none.
    pub kind: String,
    raw: &'a [u8],
    losses: Losses,
}

/// An object in a body.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message {
    /// The fields of the object, without `apiVersion` and `kind`, which are no part of the message.
    pub fields: Map<String, Value>,
    /// Whether the fields hold all facts of the bytes, except for fields that the table does not know. Otherwise the API server could read
    /// values from the bytes that the proxy has not checked: text that is no UTF-8, the other half of a union.
    pub is_complete: bool,
    /// Whether there are fields that the table does not know.
    pub has_unknown_fields: bool,
}

/// Parts of the bytes that the decoded value does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Losses {
    /// Fields that a message of the table does not have.
    unknown_fields: bool,
    /// Any other loss.
    others: bool,
}

impl Losses {
    fn note(&mut self) {
        self.others = true;
    }

    /// Converts a string as Go's `encoding/json` does; the bytes may be no UTF-8.
    fn text(&mut self, bytes: &[u8]) -> String {
        let mut text = String::new();
        push_lossy(&mut text, bytes);
        if text.as_bytes() != bytes {
            self.note();
        }
        text
    }

    /// Skips an unknown field.
    fn skip(&mut self, reader: &mut Reader<'_>, tag: Tag) -> Result<(), WireError> {
        self.note();
        reader.skip(tag)
    }
}

/// Reads the envelope of a body.
///
/// # Errors
/// If the bytes are no such body.
pub fn open(bytes: &[u8]) -> Result<Envelope<'_>, InvalidProtobuf> {
    if bytes.is_empty() {
        return Err(InvalidProtobuf::Empty);
    }
    let body = bytes.strip_prefix(MAGIC).ok_or(InvalidProtobuf::NoPrefix)?;
    if body.is_empty() {
        return Err(InvalidProtobuf::NoBody);
    }
    let mut envelope = Envelope::default();
    let mut reader = Reader(body);
    while let Some(tag) = reader.tag("Unknown")? {
        match tag.number {
            1 => {
                tag.expect(DELIMITED, "TypeMeta")?;
                envelope.read_type(reader.delimited()?)?;
            }
            2 => {
                tag.expect(DELIMITED, "Raw")?;
                envelope.raw = reader.delimited()?;
            }
            3 | 4 => {
                tag.expect(DELIMITED, if tag.number == 3 { "ContentEncoding" } else { "ContentType" })?;
                // Neither kube-apiserver nor the proxy reads contentEncoding and contentType.
                if !reader.delimited()?.is_empty() {
                    envelope.losses.note();
                }
            }
            _ => envelope.losses.skip(&mut reader, tag)?,
        }
    }
    Ok(envelope)
}

impl Envelope<'_> {
    fn read_type(&mut self, bytes: &[u8]) -> Result<(), InvalidProtobuf> {
        let mut reader = Reader(bytes);
        while let Some(tag) = reader.tag("TypeMeta")? {
            match tag.number {
                1 => {
                    tag.expect(DELIMITED, "APIVersion")?;
                    self.api_version = self.losses.text(reader.delimited()?);
                }
                2 => {
                    tag.expect(DELIMITED, "Kind")?;
                    self.kind = self.losses.text(reader.delimited()?);
                }
                _ => self.losses.skip(&mut reader, tag)?,
            }
        }
        Ok(())
    }

    /// Decodes the object as this kind.
    ///
    /// # Errors
    /// If the bytes are no object of this kind, or if the kind is not built in.
    pub fn object(&self, group: &str, version: &str, kind: &str) -> Result<Message, InvalidProtobuf> {
        let message = table::message(group, version, kind).ok_or(InvalidProtobuf::UnknownKind)?;
        let mut fields = Map::new();
        let mut decoder = Decoder { values: 0, losses: self.losses };
        decoder.message(message, self.raw, 1, &mut fields)?;
        let Losses { unknown_fields, others } = decoder.losses;
        Ok(Message { fields, is_complete: !others, has_unknown_fields: unknown_fields })
    }
}

struct Decoder {
    values: usize,
    losses: Losses,
}

impl Decoder {
    fn count(&mut self) -> Result<(), InvalidProtobuf> {
        self.values += 1;
        if self.values > MAX_VALUES { Err(InvalidProtobuf::TooManyFields) } else { Ok(()) }
    }

    /// Decodes a message into the fields of a JSON object.
    fn message(
        &mut self,
        message: &'static table::Message,
        bytes: &[u8],
        depth: usize,
        into: &mut Map<String, Value>,
    ) -> Result<(), InvalidProtobuf> {
        if depth > MAX_DEPTH {
            return Err(InvalidProtobuf::TooDeep);
        }
        let mut seen = 0_u64;
        let mut reader = Reader(bytes);
        while let Some(tag) = reader.tag(message.name)? {
            let Some((position, field)) = message.field(tag.number) else {
                self.losses.unknown_fields = true;
                reader.skip(tag)?;
                continue;
            };
            let mark = 1_u64 << (position & 63);
            if seen & mark != 0 && matches!(field.shape, Shape::Message(_) | Shape::Special(_) | Shape::Wrapped(_)) {
                return Err(InvalidProtobuf::Repeated { message: message.name, field: field.go_name() });
            }
            seen |= mark;
            self.field(field, tag, &mut reader, depth, into)?;
        }
        for (position, field) in message.fields.iter().enumerate() {
            if seen & (1 << (position & 63)) == 0 {
                self.absent(field, into)?;
            }
        }
        Ok(())
    }

    fn field(
        &mut self,
        field: &'static Field,
        tag: Tag,
        reader: &mut Reader<'_>,
        depth: usize,
        into: &mut Map<String, Value>,
    ) -> Result<(), InvalidProtobuf> {
        let value = match &field.shape {
            Shape::List(items) => {
                // Go accepts numbers one by one and packed.
                if is_number(items) && tag.wire_type == DELIMITED {
                    let mut packed = Reader(reader.delimited()?);
                    while !packed.is_empty() {
                        let item = Tag { number: tag.number, wire_type: wire_type(items) };
                        let value = self.value(items, item, field, &mut packed, depth + 2)?;
                        push(into, field.name, value);
                    }
                    if !into.contains_key(field.name) {
                        self.absent(field, into)?;
                    }
                } else {
                    let value = self.value(items, tag, field, reader, depth + 2)?;
                    push(into, field.name, value);
                }
                return Ok(());
            }
            Shape::Map(values) => {
                tag.expect(DELIMITED, &field.go_name())?;
                let (key, value) = self.entry(values, field, reader.delimited()?, depth + 2)?;
                match into.get_mut(field.name) {
                    Some(Value::Object(entries)) => drop(entries.insert(key, value)),
                    _ => drop(into.insert(field.name.to_owned(), Value::Object(Map::from_iter([(key, value)])))),
                }
                return Ok(());
            }
            Shape::Message(index) if field.is_inline => {
                tag.expect(DELIMITED, &field.go_name())?;
                let message = table::resolve(*index).ok_or(InvalidProtobuf::TooDeep)?;
                return self.message(message, reader.delimited()?, depth + 1, into);
            }
            shape => self.value(shape, tag, field, reader, depth + 1)?,
        };
        let is_omitted = !field.is_pointer && field.omits_empty && is_empty(&field.shape, &value)
            || !field.is_pointer && field.omits_zero && value.is_null();
        if is_omitted {
            into.remove(field.name);
        } else {
            into.insert(field.name.to_owned(), value);
        }
        Ok(())
    }

    /// Decodes one value, with its length prefix if the wire type has one.
    fn value(
        &mut self,
        shape: &'static Shape,
        tag: Tag,
        field: &Field,
        reader: &mut Reader<'_>,
        depth: usize,
    ) -> Result<Value, InvalidProtobuf> {
        self.count()?;
        if tag.wire_type != wire_type(shape) {
            tag.expect(wire_type(shape), &field.go_name())?;
        }
        Ok(match shape {
            Shape::Bool => Value::Bool(reader.varint()? != 0),
            // Go keeps the lower bits.
            Shape::Int32 => (reader.varint()? as i32).into(),
            Shape::Int64 => (reader.varint()? as i64).into(),
            Shape::Double => double(f64::from_bits(reader.fixed64()?))?,
            Shape::String => self.losses.text(reader.delimited()?).into(),
            Shape::Bytes => BASE64.encode(reader.delimited()?).into(),
            Shape::Special(special) => self.special(*special, reader.delimited()?, depth)?,
            Shape::Message(index) => self.object(table::resolve(*index), reader.delimited()?, depth)?,
            Shape::Wrapped(items) => self.wrapped(items, field, reader.delimited()?, depth)?,
            Shape::List(_) | Shape::Map(_) => return Err(InvalidProtobuf::NestedList),
        })
    }

    fn object(
        &mut self,
        message: Option<&'static table::Message>,
        bytes: &[u8],
        depth: usize,
    ) -> Result<Value, InvalidProtobuf> {
        let message = message.ok_or(InvalidProtobuf::UnknownMessage)?;
        let mut fields = Map::new();
        self.message(message, bytes, depth, &mut fields)?;
        Ok(Value::Object(fields))
    }

    fn wrapped(
        &mut self,
        items: &'static Shape,
        field: &Field,
        bytes: &[u8],
        depth: usize,
    ) -> Result<Value, InvalidProtobuf> {
        let mut list = Vec::new();
        let mut reader = Reader(bytes);
        while let Some(tag) = reader.tag(&field.go_name())? {
            match tag.number {
                1 => list.push(self.value(items, tag, field, &mut reader, depth + 1)?),
                _ => self.losses.skip(&mut reader, tag)?,
            }
        }
        Ok(Value::Array(list))
    }

    /// Decodes an entry of a map; a missing key or value is zero.
    fn entry(
        &mut self,
        values: &'static Shape,
        field: &Field,
        bytes: &[u8],
        depth: usize,
    ) -> Result<(String, Value), InvalidProtobuf> {
        let (mut key, mut value) = (String::new(), None);
        let mut reader = Reader(bytes);
        while let Some(tag) = reader.tag(&field.go_name())? {
            match tag.number {
                1 => {
                    tag.expect(DELIMITED, "mapkey")?;
                    key = self.losses.text(reader.delimited()?);
                }
                2 => value = Some(self.value(values, tag, field, &mut reader, depth)?),
                _ => self.losses.skip(&mut reader, tag)?,
            }
        }
        let value = match (values, value) {
            // Go's generated code allocates these values before it reads them, so that they are never nil.
            (Shape::Bytes, None) => "".into(),
            (Shape::Wrapped(_), None) => Value::Array(Vec::new()),
            (_, Some(value)) => value,
            (_, None) => self.zero(values)?,
        };
        Ok((key, value))
    }

    fn special(&mut self, special: Special, bytes: &[u8], depth: usize) -> Result<Value, InvalidProtobuf> {
        match special {
            Special::Time => special::time(bytes, &mut self.losses),
            Special::MicroTime => special::micro_time(bytes, &mut self.losses),
            Special::Quantity => special::quantity(bytes, &mut self.losses),
            Special::IntOrString => special::int_or_string(bytes, &mut self.losses),
            Special::Raw => special::raw(bytes, depth, &mut self.losses),
            Special::SchemaOrBool | Special::SchemaOrArray | Special::SchemaOrStrings => {
                self.schema_or(special, bytes, depth)
            }
        }
    }

    /// Decodes `JSONSchemaPropsOrBool` or a similar union: a schema, or another value in its place.
    fn schema_or(&mut self, special: Special, bytes: &[u8], depth: usize) -> Result<Value, InvalidProtobuf> {
        let (mut schema, mut is_allowed, mut list) = (None, false, Vec::new());
        let schema_number = if special == Special::SchemaOrBool { 2 } else { 1 };
        let mut reader = Reader(bytes);
        while let Some(tag) = reader.tag("JSONSchemaProps")? {
            match (special, tag.number) {
                (_, number) if number == schema_number => {
                    tag.expect(DELIMITED, "Schema")?;
                    if schema.is_some() {
                        return Err(InvalidProtobuf::Repeated {
                            message: "JSONSchemaProps",
                            field: "Schema".to_owned(),
                        });
                    }
                    self.count()?;
                    schema = Some(self.object(table::json_schema(), reader.delimited()?, depth)?);
                }
                (Special::SchemaOrBool, 1) => {
                    tag.expect(VARINT, "Allows")?;
                    is_allowed = reader.varint()? != 0;
                }
                (Special::SchemaOrArray, 2) => {
                    tag.expect(DELIMITED, "JSONSchemas")?;
                    self.count()?;
                    list.push(self.object(table::json_schema(), reader.delimited()?, depth + 1)?);
                }
                (Special::SchemaOrStrings, 2) => {
                    tag.expect(DELIMITED, "Property")?;
                    self.count()?;
                    list.push(self.losses.text(reader.delimited()?).into());
                }
                _ => self.losses.skip(&mut reader, tag)?,
            }
        }
        // Go keeps both and writes only one of them as JSON; a schema is always allowed.
        let is_hidden = schema.is_some() && (!list.is_empty() || special == Special::SchemaOrBool && !is_allowed);
        if is_hidden {
            self.losses.note();
        }
        Ok(match (schema, special) {
            _ if !list.is_empty() => Value::Array(list),
            (Some(schema), _) => schema,
            (None, Special::SchemaOrBool) => Value::Bool(is_allowed),
            (None, _) => Value::Null,
        })
    }

    /// Adds the JSON that Go writes for a field that the message does not have.
    fn absent(&mut self, field: &'static Field, into: &mut Map<String, Value>) -> Result<(), InvalidProtobuf> {
        if field.is_inline {
            if let (false, Shape::Message(index)) = (field.is_pointer, &field.shape) {
                for field in table::resolve(*index).into_iter().flat_map(|message| &message.fields) {
                    self.absent(field, into)?;
                }
            }
            return Ok(());
        }
        let value = match &field.shape {
            _ if field.is_pointer && field.omits_empty => return Ok(()),
            _ if field.is_pointer => Value::Null,
            Shape::Message(_) | Shape::Special(_) => self.zero(&field.shape)?,
            _ if field.omits_empty => return Ok(()),
            shape => self.zero(shape)?,
        };
        if field.omits_zero && value.is_null() {
            return Ok(());
        }
        self.count()?;
        into.insert(field.name.to_owned(), value);
        Ok(())
    }

    /// Returns Go's zero value.
    fn zero(&mut self, shape: &'static Shape) -> Result<Value, InvalidProtobuf> {
        Ok(match shape {
            Shape::String => "".into(),
            Shape::Bool => false.into(),
            Shape::Int32 | Shape::Int64 | Shape::Double => 0.into(),
            Shape::Bytes | Shape::List(_) | Shape::Map(_) | Shape::Wrapped(_) => Value::Null,
            Shape::Special(Special::Quantity) => "0".into(),
            Shape::Special(Special::IntOrString) => 0.into(),
            Shape::Special(Special::SchemaOrBool) => false.into(),
            Shape::Special(_) => Value::Null,
            Shape::Message(index) => {
                let mut fields = Map::new();
                for field in table::resolve(*index).into_iter().flat_map(|message| &message.fields) {
                    self.absent(field, &mut fields)?;
                }
                Value::Object(fields)
            }
        })
    }
}

fn push(into: &mut Map<String, Value>, name: &str, value: Value) {
    match into.get_mut(name) {
        Some(Value::Array(items)) => items.push(value),
        _ => drop(into.insert(name.to_owned(), Value::Array(vec![value]))),
    }
}

fn is_number(shape: &Shape) -> bool {
    matches!(shape, Shape::Bool | Shape::Int32 | Shape::Int64 | Shape::Double)
}

fn wire_type(shape: &Shape) -> u8 {
    match shape {
        Shape::Bool | Shape::Int32 | Shape::Int64 => VARINT,
        Shape::Double => FIXED64,
        _ => DELIMITED,
    }
}

/// Whether `omitempty` omits the value. A struct is never empty.
fn is_empty(shape: &Shape, value: &Value) -> bool {
    match shape {
        Shape::Message(_) | Shape::Special(_) => false,
        _ => match value {
            Value::Null => true,
            Value::Bool(value) => !value,
            Value::Number(value) => value.as_f64() == Some(0.0),
            Value::String(value) => value.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
        },
    }
}

/// Converts a double as Go does: whole numbers have no fraction, and NaN and infinity are errors.
fn double(value: f64) -> Result<Value, InvalidProtobuf> {
    if value.fract() == 0.0 && value.abs() < 1e18 && !(value == 0.0 && value.is_sign_negative()) {
        return Ok((value as i64).into());
    }
    Number::from_f64(value).map(Value::Number).ok_or_else(|| InvalidProtobuf::Double(value.to_string()))
}

#[cfg(test)]
mod tests;
