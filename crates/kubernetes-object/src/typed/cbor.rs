//! Decodes CBOR (`decoder.parseToValue` of `fxamacker/cbor`, with Kubernetes' options).
//!
//! Unlike in JSON, a duplicate key is an error, and errors name only the outermost field.

use super::DecodeError;
use super::base64::{self, CorruptInput};
use super::table::{self, Field, Holds, Shape, Type};
use crate::cbor::{FALSE, Failure, First, NULL, Reader, TRUE, UNDEFINED, integer, unknown_simple};
use crate::go_text::time;
use crate::quantity;
use ciborium_ll::Header;
use serde_json::{Map, Number, Value};
use std::collections::HashSet;

/// The declared type of a body (`metav1.TypeMeta`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeMeta {
    /// `apiVersion`
    pub api_version: String,
    /// `kind`
    pub kind: String,
}

/// Reads the declared type of a body (`defaultMetaFactory.Interpret`).
///
/// # Errors
/// If the type cannot be decoded.
pub fn type_meta(bytes: &[u8]) -> Result<TypeMeta, DecodeError> {
    let read = || {
        let mut decoder = Decoder::new(bytes, false)?;
        decoder.reader.skip_self_described();
        decoder.structure(&Struct::TypeMeta)
    };
    let wrong = |failure| DecodeError(format!("unable to determine group/version/kind: {failure}"));
    let fields = read().map_err(wrong)?;
    let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    Ok(TypeMeta { api_version: text("apiVersion"), kind: text("kind") })
}

/// Decodes a body into a type. Returns the value, and the strict decoding error for the first field that the type does not have
/// (`serializer.unmarshal`).
///
/// # Errors
/// If the body cannot be decoded.
pub(super) fn decode(schema: &'static Type, bytes: &[u8]) -> Result<(Value, Option<String>), DecodeError> {
    let read = |is_strict: bool| {
        let mut decoder = Decoder::new(bytes, is_strict)?;
        decoder.reader.skip_self_described();
        let fields = decoder.structure(&Struct::Type(schema))?;
        decoder.raw.or(Value::Object(fields))
    };
    let (result, unknown) = match read(true) {
        Err(unknown @ Failure::Unknown(_)) => (read(false), Some(unknown.to_string())),
        strict => (strict, None),
    };
    result.map(|value| (value, unknown)).map_err(|failure| DecodeError(failure.to_string()))
}

/// A Go struct.
enum Struct {
    Type(&'static Type),
    TypeMeta,
}

impl Struct {
    fn go_type(&self) -> &'static str {
        match self {
            Self::Type(schema) => schema.go_type(),
            Self::TypeMeta => "v1.TypeMeta",
        }
    }

    fn field(&self, name: &str) -> Option<(&'static str, Option<&'static Field>)> {
        match (self, name) {
            (Self::Type(schema), name) => schema.field(name).map(|field| (field.name, Some(field))),
            (Self::TypeMeta, "apiVersion") => Some(("apiVersion", None)),
            (Self::TypeMeta, "kind") => Some(("kind", None)),
            (Self::TypeMeta, _) => None,
        }
    }
}

struct Decoder<'a> {
    reader: Reader<'a>,
    /// Whether unknown fields are failures.
    is_strict: bool,
    /// The failure of invalid raw JSON, which counts after all others (`transcodeRawTypes`).
    raw: First,
}

impl<'a> Decoder<'a> {
    fn new(bytes: &'a [u8], is_strict: bool) -> Result<Self, Failure> {
        Ok(Self { reader: Reader::new(bytes)?, is_strict, raw: First::default() })
    }

    /// Decodes the next item into a struct; null becomes a struct without fields.
    fn structure(&mut self, into: &Struct) -> Result<Map<String, Value>, Failure> {
        self.reader.check_tags()?;
        match self.reader.head() {
            Header::Tag(tag) => self.tagged(tag, |decoder| decoder.structure(into)),
            Header::Map(length) => self.fields(into, length),
            Header::Simple(NULL) => Ok(Map::new()),
            header @ Header::Array(_) => {
                self.reader.misfit(header, "");
                let why = "cannot decode CBOR array to struct without toarray option";
                Err(Failure::of_type_why(header, into.go_type(), why.to_owned()))
            }
            header => Err(self.reader.misfit(header, into.go_type())),
        }
    }

    fn tagged<T>(&mut self, tag: u64, read: impl FnOnce(&mut Self) -> T) -> T {
        let is_encoding = self.reader.begin_tag(tag);
        let value = read(self);
        self.reader.end_tag(is_encoding);
        value
    }

    /// `decoder.parseMapToStruct`
    fn fields(&mut self, into: &Struct, mut length: Option<usize>) -> Result<Map<String, Value>, Failure> {
        let (mut fields, mut first) = (Map::new(), First::default());
        let (mut seen, mut others) = (HashSet::new(), HashSet::new());
        let mut index = 0;
        while self.reader.has_next(&mut length) {
            let key = first.note(self.key()).flatten();
            let found = key.as_ref().and_then(|key| into.field(&key.0).filter(|_| key.1));
            match (key, found) {
                // A key that cannot be compared with names is skipped with its value.
                (None, _) => self.reader.skip(1),
                (Some(key), None) => {
                    self.reader.skip(1);
                    let failure = match (self.is_strict, &key) {
                        (true, _) => Failure::Unknown(index),
                        (false, (text, true)) => Failure::duplicate(text, index),
                        (false, (number, false)) => Failure::duplicate_item(number, index),
                    };
                    if self.is_strict || !others.insert(key) {
                        self.reader.skip_pairs(&mut length);
                        return Err(failure);
                    }
                }
                (Some(_), Some((name, field))) => {
                    if !seen.insert(name) {
                        self.reader.skip(1);
                        self.reader.skip_pairs(&mut length);
                        return Err(Failure::duplicate(name, index));
                    }
                    let value = match field {
                        Some(field) => self.value(&field.shape),
                        None => self.reader.go_string("string").map(|text| text.unwrap_or_default().into()),
                    };
                    let value = first.note(value.map_err(|failure| failure.in_field(into.go_type(), name)));
                    fields.extend(value.map(|value| (name.to_owned(), value)));
                }
            }
            index += 1;
        }
        first.or(fields)
    }

    /// Decodes a key, and returns whether it can be the name of a field.
    fn key(&mut self) -> Result<Option<(String, bool)>, Failure> {
        let header = self.reader.peek();
        match header {
            Header::Bytes(length) => {
                self.reader.head();
                Ok(Some((self.reader.bytes_as_name(length), true)))
            }
            Header::Text(length) => {
                self.reader.head();
                self.reader.text(length).map(|text| Some((text, true)))
            }
            Header::Positive(_) | Header::Negative(_) => {
                self.reader.head();
                match integer(header) {
                    Ok(number) => Ok(Some((number.to_string(), false))),
                    // Go truncates the key's number to a signed integer.
                    Err(number) if number > 0 => Ok(Some(((number as i64).to_string(), false))),
                    Err(number) => {
                        let why = format!("-1-{} overflows Go's int64", -1 - number);
                        Err(Failure::of_type_why(header, "int64", why))
                    }
                }
            }
            header => {
                self.reader.skip(1);
                let failure = Failure::of_type(header, "string");
                let Failure::Type { found, .. } = &failure else { return Err(failure) };
                let why = format!("map key is of type {found} and cannot be used to match struct field name");
                Err(Failure::of_type_why(header, "string", why))
            }
        }
    }

    /// `decoder.parseToValue`
    fn value(&mut self, shape: &'static Shape) -> Result<Value, Failure> {
        if let (true, Header::Simple(NULL | UNDEFINED)) = (shape.is_pointer, self.reader.peek()) {
            self.reader.head();
            return Ok(Value::Null);
        }
        self.reader.skip_self_described();
        match &shape.holds {
            Holds::Struct(index) => match table::resolve(*index) {
                Some(schema) if !matches!(self.reader.peek(), Header::Simple(NULL)) => {
                    self.structure(&Struct::Type(schema)).map(Value::Object)
                }
                _ => {
                    self.reader.head();
                    Ok(Value::Null)
                }
            },
            Holds::String => {
                self.reader.go_string(&shape.pointee()).map(|text| text.map_or(Value::Null, Value::String))
            }
            Holds::Time
            | Holds::MicroTime
            | Holds::Quantity
            | Holds::IntOrString
            | Holds::Raw(_)
            | Holds::SchemaOrBool
            | Holds::SchemaOrArray
            | Holds::SchemaOrStrings => {
                self.reader.check_tags()?;
                self.own(shape)
            }
            _ => self.plain(shape),
        }
    }

    /// Decodes a value of a type without an `UnmarshalCBOR`.
    fn plain(&mut self, shape: &'static Shape) -> Result<Value, Failure> {
        self.reader.check_tags()?;
        let header = self.reader.head();
        match (&shape.holds, header) {
            (_, Header::Tag(tag)) => self.tagged(tag, |decoder| {
                decoder.reader.skip_self_described();
                decoder.plain(shape)
            }),
            (_, Header::Simple(NULL)) => Ok(Value::Null),
            (Holds::Bool, Header::Simple(value @ (FALSE | TRUE))) => Ok((value == TRUE).into()),
            (_, Header::Simple(value)) if !matches!(value, FALSE | TRUE) => Err(unknown_simple(value)),
            (Holds::Uint8 | Holds::Int32 | Holds::Int64, Header::Positive(_) | Header::Negative(_)) => {
                self.integer(shape, header)
            }
            (Holds::Float64, Header::Float(float)) => Ok(Number::from_f64(float).map_or(Value::Null, Value::Number)),
            (Holds::Float64, Header::Positive(number)) => Ok(Value::from(number as f64)),
            (Holds::Float64, Header::Negative(_)) if integer(header).is_ok() => {
                Ok(Value::from(integer(header).unwrap_or_default() as f64))
            }
            (Holds::Bytes, Header::Bytes(length)) => self.bytes(length),
            (Holds::Bytes, Header::Array(length)) => self.items(table::byte(), length),
            (Holds::List(items), Header::Array(length)) => self.items(items, length),
            (Holds::Map(key, values), Header::Map(length)) => self.entries(key, values, length),
            (_, header) => Err(self.reader.misfit(header, &shape.pointee())),
        }
    }

    /// `fillPositiveInt`, `fillNegativeInt`
    fn integer(&mut self, shape: &Shape, header: Header) -> Result<Value, Failure> {
        let go_type = shape.pointee();
        let number = match (integer(header), header) {
            (Err(number), Header::Negative(_)) => {
                let why = format!("{number} overflows Go's int64");
                return Err(Failure::of_type_why(header, &go_type, why));
            }
            (Err(number), _) => number,
            (Ok(number), _) => i128::from(number),
        };
        let fits = match shape.holds {
            // A negative number is a type error for an unsigned field, not an overflow.
            Holds::Uint8 if number < 0 => return Err(Failure::of_type(header, &go_type)),
            Holds::Uint8 => u8::try_from(number).is_ok(),
            Holds::Int32 => i32::try_from(number).is_ok(),
            _ => i64::try_from(number).is_ok(),
        };
        match i64::try_from(number).ok().filter(|_| fits) {
            Some(number) => Ok(number.into()),
            None => Err(Failure::of_type_why(header, &go_type, format!("{number} overflows {go_type}"))),
        }
    }

    /// Decodes a byte string: base64 text, unless a tag converts the bytes to base64.
    fn bytes(&mut self, length: Option<usize>) -> Result<Value, Failure> {
        let is_encoded_later = self.reader.is_encoded_later();
        let bytes = self.reader.string(length);
        if is_encoded_later {
            return Ok(base64::encode(&bytes).into());
        }
        // A byte that is no ASCII is an error at its own position, as any byte outside of base64.
        let text: String = bytes.iter().map(|byte| if byte.is_ascii() { char::from(*byte) } else { '?' }).collect();
        let wrong =
            |why: CorruptInput| Failure::Other(format!("cbor: failed to decode base64 from byte string: {why}"));
        base64::canonical(&text).map(|text| text.into_owned().into()).map_err(wrong)
    }

    /// `decoder.parseArrayToSlice`
    fn items(&mut self, shape: &'static Shape, mut length: Option<usize>) -> Result<Value, Failure> {
        let (mut items, mut first) = (Vec::new(), First::default());
        while self.reader.has_next(&mut length) {
            items.extend(first.note(self.value(shape)));
        }
        first.or(Value::Array(items))
    }

    /// `decoder.parseMapToMap`
    fn entries(&mut self, key_type: &str, shape: &'static Shape, mut length: Option<usize>) -> Result<Value, Failure> {
        let (mut entries, mut first) = (Map::new(), First::default());
        let (mut index, mut key, mut before) = (0, String::new(), Value::Null);
        let is_kept = !shape.is_pointer && shape.holds.is_scalar();
        while self.reader.has_next(&mut length) {
            index += 1;
            match first.note(self.reader.go_string(key_type)) {
                Some(Some(found)) => key = found,
                Some(None) => {}
                None => {
                    self.reader.skip(1);
                    continue;
                }
            }
            let Some(mut value) = first.note(self.value(shape)) else { continue };
            // A null scalar equals the previous value, since Go reuses the variable.
            if is_kept && value.is_null() {
                value = before.clone();
            }
            before.clone_from(&value);
            if entries.insert(key.clone(), value).is_some() {
                self.reader.skip_pairs(&mut length);
                return Err(Failure::duplicate(&key, index - 1));
            }
        }
        first.or(Value::Object(entries))
    }

    /// Decodes a value of a type with an `UnmarshalCBOR`, for which the tags around it do not count.
    fn own(&mut self, shape: &'static Shape) -> Result<Value, Failure> {
        let around = self.reader.begin_item();
        let value = self.own_item(shape);
        self.reader.end_item(around);
        value
    }

    fn own_item(&mut self, shape: &'static Shape) -> Result<Value, Failure> {
        let [schema, schemas, strings] = table::json_schema();
        match (&shape.holds, self.reader.peek()) {
            (Holds::Time | Holds::MicroTime | Holds::Quantity, Header::Simple(NULL | UNDEFINED)) => self.nothing(),
            (Holds::Time | Holds::MicroTime | Holds::Quantity, _) => {
                let text = self.reader.go_string("string")?.unwrap_or_default();
                let layout = match shape.holds {
                    Holds::Time => time::Layout::Seconds,
                    Holds::MicroTime => time::Layout::Micros,
                    _ => {
                        let canonical = quantity::canonical(text.trim()).map(Value::String);
                        return canonical.map_err(|why| Failure::Other(why.to_string()));
                    }
                };
                match time::canonical(&text, layout) {
                    Ok(_) => Ok(text.into()),
                    Err(why) => Err(Failure::Other(why.to_string())),
                }
            }
            (Holds::IntOrString, _) => {
                let start = self.reader.place();
                match self.reader.go_string("string") {
                    Ok(text) => Ok(text.unwrap_or_default().into()),
                    Err(_) => {
                        self.reader.go_back(start);
                        self.strictly(table::int32())
                    }
                }
            }
            (Holds::SchemaOrBool, Header::Simple(value @ (FALSE | TRUE))) => {
                self.reader.head();
                Ok((value == TRUE).into())
            }
            (Holds::SchemaOrArray, Header::Array(_)) => self.strictly(schemas),
            (Holds::SchemaOrStrings, Header::Array(_)) => self.strictly(strings),
            (Holds::SchemaOrBool | Holds::SchemaOrArray | Holds::SchemaOrStrings, Header::Map(_)) => {
                self.strictly(schema)
            }
            (Holds::SchemaOrBool, _) => {
                self.reader.skip(1);
                Err(Failure::Other("boolean or JSON schema expected".to_owned()))
            }
            (Holds::SchemaOrArray | Holds::SchemaOrStrings, _) | (_, Header::Simple(NULL)) => self.nothing(),
            (Holds::Raw("v1.JSON"), _) => self.reader.raw(),
            (Holds::Raw("v1.FieldsV1"), _) => {
                self.late("failed to transcode FieldsV1 to JSON: metav1.FieldsV1 cbor invalid")
            }
            _ => self.late("failed to transcode RawExtension to JSON: failed to parse RawExtension bytes as CBOR"),
        }
    }

    /// Skips an item that becomes null.
    fn nothing(&mut self) -> Result<Value, Failure> {
        self.reader.skip(1);
        Ok(Value::Null)
    }

    /// Decodes a value by an `UnmarshalCBOR`, which always rejects unknown fields (`direct.Unmarshal`).
    fn strictly(&mut self, shape: &'static Shape) -> Result<Value, Failure> {
        let around = std::mem::replace(&mut self.is_strict, true);
        let value = self.value(shape);
        self.is_strict = around;
        value
    }

    /// Decodes raw JSON. Its failure counts only if there is no other failure.
    fn late(&mut self, what: &str) -> Result<Value, Failure> {
        let value = self.reader.raw().map_err(|failure| Failure::Other(format!("{what}: {failure}")));
        Ok(self.raw.note(value).unwrap_or_default())
    }
}
