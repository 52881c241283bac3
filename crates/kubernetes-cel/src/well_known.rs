//! The messages that protobuf itself defines, as in cel-go: wrappers of scalars, times, JSON, `Any` and `Empty`. A message that an
//! expression makes is converted to its value at once, so that only `Empty` and an entry of a `Struct` are messages at run time.

mod any;

use super::release::Release;
use super::types::Type;
use super::value::{Error, List, Map, Struct, Value};
use super::work;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::sync::Arc;

/// The package of the messages.
const PACKAGE: &str = "google.protobuf.";

/// The type of a message (`checkedWellKnowns`); `None` for other names.
pub(crate) fn of_name(name: &str) -> Option<Type> {
    Some(match name.strip_prefix(PACKAGE)? {
        "BoolValue" => Type::Wrapper(&Type::Bool),
        "BytesValue" => Type::Wrapper(&Type::Bytes),
        "DoubleValue" | "FloatValue" => Type::Wrapper(&Type::Double),
        "Int32Value" | "Int64Value" => Type::Wrapper(&Type::Int),
        "StringValue" => Type::Wrapper(&Type::String),
        "UInt32Value" | "UInt64Value" => Type::Wrapper(&Type::Uint),
        "Any" => Type::Any,
        "Duration" => Type::Duration,
        "Timestamp" => Type::Timestamp,
        "ListValue" => Type::list(Type::Dyn),
        "Struct" => Type::map(Type::String, Type::Dyn),
        "Value" => Type::Dyn,
        "Empty" | "Struct.FieldsEntry" => Type::object(name),
        _ => return None,
    })
}

/// Whether the type of this name is a value, which `type(…)` returns. Expressions can only construct the other types.
pub(crate) fn is_a_value(name: &str) -> bool {
    !matches!(of_name(name), Some(of) if !matches!(of, Type::Object(_) | Type::Duration | Type::Timestamp))
}

/// The message with the fields of an expression of this type (`isWellKnownType`, `getWellKnownTypeName`). For wrappers, the message of 64
/// bits.
pub(crate) fn message_of(of: &Type) -> Option<&'static str> {
    Some(match of {
        Type::Any => "google.protobuf.Any",
        Type::Duration => "google.protobuf.Duration",
        Type::Timestamp => "google.protobuf.Timestamp",
        Type::Dyn => "google.protobuf.Value",
        Type::Null => "google.protobuf.NullValue",
        Type::List(element) if **element == Type::Dyn => "google.protobuf.ListValue",
        Type::Map(key, value) if **key == Type::String && **value == Type::Dyn => "google.protobuf.Struct",
        Type::Wrapper(of) => match of {
            Type::Bool => "google.protobuf.BoolValue",
            Type::Bytes => "google.protobuf.BytesValue",
            Type::Double => "google.protobuf.DoubleValue",
            Type::Int => "google.protobuf.Int64Value",
            Type::String => "google.protobuf.StringValue",
            _ => "google.protobuf.UInt64Value",
        },
        _ => return None,
    })
}

/// The type of a message's field.
pub(crate) fn field(message: &str, field: &str) -> Option<Type> {
    Some(match Field::find(message, field)? {
        Field::Bool => Type::Bool,
        Field::Bytes => Type::Bytes,
        Field::Double | Field::Float => Type::Double,
        Field::Enum | Field::Int32 | Field::Int64 => Type::Int,
        Field::Uint32 | Field::Uint64 => Type::Uint,
        Field::String => Type::String,
        Field::List | Field::ListMessage => Type::list(Type::Dyn),
        Field::Map | Field::StructMessage => Type::map(Type::String, Type::Dyn),
        Field::Value => Type::Dyn,
    })
}

/// The type of a message's field, which decides on the values that it takes.
#[derive(Clone, Copy)]
enum Field {
    Bool,
    Bytes,
    Double,
    Enum,
    Float,
    Int32,
    Int64,
    /// `repeated Value`
    List,
    /// `ListValue`
    ListMessage,
    /// `map<string, Value>`
    Map,
    String,
    /// `Struct`
    StructMessage,
    Uint32,
    Uint64,
    Value,
}

impl Field {
    fn find(message: &str, field: &str) -> Option<Self> {
        Some(match (message.strip_prefix(PACKAGE)?, field) {
            ("BoolValue", "value") | ("Value", "bool_value") => Self::Bool,
            ("BytesValue" | "Any", "value") => Self::Bytes,
            ("DoubleValue", "value") | ("Value", "number_value") => Self::Double,
            ("FloatValue", "value") => Self::Float,
            ("Int32Value", "value") | ("Duration" | "Timestamp", "nanos") => Self::Int32,
            ("Int64Value", "value") | ("Duration" | "Timestamp", "seconds") => Self::Int64,
            ("StringValue", "value")
            | ("Any", "type_url")
            | ("Value", "string_value")
            | ("Struct.FieldsEntry", "key") => Self::String,
            ("UInt32Value", "value") => Self::Uint32,
            ("UInt64Value", "value") => Self::Uint64,
            ("ListValue", "values") => Self::List,
            ("Struct", "fields") => Self::Map,
            ("Struct.FieldsEntry", "value") => Self::Value,
            ("Value", "null_value") => Self::Enum,
            ("Value", "struct_value") => Self::StructMessage,
            ("Value", "list_value") => Self::ListMessage,
            _ => return None,
        })
    }

    /// The Go name of the type that values are converted to.
    fn go_type(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Bytes => "[]uint8",
            Self::Double => "float64",
            Self::Enum => "protoreflect.EnumNumber",
            Self::Float => "float32",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::List | Self::Map | Self::Value => "*structpb.Value",
            Self::ListMessage => "*structpb.ListValue",
            Self::String => "string",
            Self::StructMessage => "*structpb.Struct",
            Self::Uint32 => "uint32",
            Self::Uint64 => "uint64",
        }
    }

    /// The field's value after an assignment: `ConvertToNative` of cel-go and back.
    fn take<'a>(self, value: Value<'a>) -> Result<Value<'a>, Error> {
        let value = match value {
            Value::Optional(Some(inner)) => return self.take((*inner).clone()),
            Value::Optional(None) => return Err(Error::new("optional.none() dereference")),
            value => value,
        };
        match (self, value) {
            (Self::Value, value) => json(&value),
            (Self::Bool, value @ Value::Bool(_))
            | (Self::Bytes, value @ Value::Bytes(_))
            | (Self::Double, value @ Value::Double(_))
            | (Self::Int64, value @ Value::Int(_))
            | (Self::String, value @ Value::String(_))
            | (Self::Uint64, value @ Value::Uint(_)) => Ok(value),
            (Self::Float, Value::Double(value)) => Ok(Value::Double(f64::from(value as f32))),
            (Self::Int32 | Self::Enum, Value::Int(value)) => match i32::try_from(value) {
                Ok(_) => Ok(Value::Int(value)),
                Err(_) => Err(Error::new("integer overflow")),
            },
            (Self::Uint32, Value::Uint(value)) => match u32::try_from(value) {
                Ok(_) => Ok(Value::Uint(value)),
                Err(_) => Err(Error::new("unsigned integer overflow")),
            },
            (Self::Bytes, Value::List(list)) => bytes(&list),
            (Self::List | Self::ListMessage, value @ Value::List(_)) => json(&value),
            (Self::Map | Self::StructMessage, value @ Value::Map(_)) => json(&value),
            (Self::String, Value::Opaque(value)) => {
                let text = value.to_text().map(Value::string);
                text.ok_or_else(|| self.misfit(&Value::Opaque(value)))
            }
            (Self::ListMessage, Value::Map(map)) => match map.iter().next() {
                Some((key, _)) => {
                    // The name of the field in the Go struct.
                    let key = key.to_text()?;
                    let (first, rest) = key.split_at(key.chars().next().map_or(0, char::len_utf8));
                    let field = first.to_uppercase() + rest;
                    Err(Error::new(format!(
                        "type conversion error, no such field '{field}' in type 'structpb.ListValue'"
                    )))
                }
                None => Ok(Value::list(Vec::new())),
            },
            (_, value) => Err(self.misfit(&value)),
        }
    }

    fn misfit(self, value: &Value<'_>) -> Error {
        let to = self.go_type();
        Error::new(match value {
            Value::Int(_) | Value::Uint(_) => {
                format!("unsupported type conversion from '{}' to {to}", value.type_name())
            }
            Value::String(_) => format!("unsupported native conversion from string to '{to}'"),
            Value::Double(_) => format!("type conversion error from Double to '{to}'"),
            Value::Bytes(_) => format!("type conversion error from Bytes to '{to}'"),
            Value::Bool(_) | Value::List(_) | Value::Map(_) => {
                format!("type conversion error from {} to '{to}'", value.type_name())
            }
            Value::Duration(_) => format!("type conversion error from 'Duration' to '{to}'"),
            Value::Timestamp(..) => format!("type conversion error from 'Timestamp' to '{to}'"),
            Value::Type(_) => "type conversion not supported for 'type'".to_owned(),
            Value::Struct(message) if message.name.starts_with(PACKAGE) => {
                format!("type conversion error from '*dynamicpb.Message' to '{to}'")
            }
            value => {
                let name = value.type_name();
                // Kubernetes' own types have names without their package, except for those of the authorizer.
                let name = match &*name {
                    "kubernetes.NamedFormat" => "Format",
                    "net.IP" | "net.CIDR" | "kubernetes.Quantity" | "kubernetes.URL" | "kubernetes.Semver" => {
                        name.rsplit('.').next().unwrap_or_default()
                    }
                    name => name,
                };
                format!("type conversion error from '{name}' to '{to}'")
            }
        })
    }
}

/// Converts a list of numbers that fit to bytes.
fn bytes<'a>(list: &List<'_>) -> Result<Value<'a>, Error> {
    let byte = |value: Value<'_>| match value {
        Value::Uint(value) => u8::try_from(value).map_err(|_| Error::new("unsigned integer overflow")),
        Value::Int(_) => Err(Error::new("unsupported type conversion from 'int' to uint8")),
        value => Err(Field::Bytes.misfit(&value)),
    };
    Ok(Value::Bytes(list.iter().map(byte).collect::<Result<Vec<u8>, _>>()?.into()))
}

/// Converts a value to JSON and back to a value: numbers become doubles.
fn json<'a>(value: &Value<'a>) -> Result<Value<'a>, Error> {
    work::write(size_of::<Value<'_>>())?;
    Ok(match value {
        Value::Null | Value::Bool(_) | Value::Double(_) | Value::String(_) => value.clone(),
        Value::Int(number) if number.unsigned_abs() < 1 << 53 => Value::Double(*number as f64),
        Value::Uint(number) if *number < 1 << 53 => Value::Double(*number as f64),
        Value::Bytes(bytes) => Value::string(STANDARD.encode(bytes)),
        Value::Int(_) | Value::Uint(_) | Value::Duration(_) | Value::Timestamp(..) => Value::String(value.to_text()?),
        Value::List(list) => Value::list(list.iter().map(|element| json(&element)).collect::<Result<_, _>>()?),
        Value::Map(map) => {
            let entry = |(key, value): (Value<'a>, Value<'a>)| Ok((Field::String.take(key)?, json(&value)?));
            Value::map(map.iter().map(entry).collect::<Result<Vec<_>, Error>>()?)
        }
        Value::Optional(Some(value)) => json(value)?,
        Value::Optional(None) => return Err(Error::new("optional.none() dereference")),
        Value::Struct(message) if message.name.starts_with(PACKAGE) => {
            let field = |(name, value): &(Arc<str>, Value<'a>)| (Value::string(name.clone()), value.clone());
            Value::map(message.fields.iter().map(field))
        }
        Value::Type(_) | Value::Opaque(_) | Value::Struct(_) => return Err(Field::Value.misfit(value)),
    })
}

/// The value of a message in a release (`Registry.NewValue`); `None` for a name of another package.
pub(crate) fn make<'a>(
    name: &Arc<str>,
    fields: &[(Arc<str>, Value<'a>)],
    release: Release,
) -> Option<Result<Value<'a>, Error>> {
    let of = of_name(name)?;
    Some(take_all(name, fields, release).and_then(|fields| value(name, &of, fields)))
}

fn take_all<'a>(
    message: &str,
    fields: &[(Arc<str>, Value<'a>)],
    release: Release,
) -> Result<Vec<(Arc<str>, Value<'a>)>, Error> {
    let take = |(name, value): &(Arc<str>, Value<'a>)| {
        let field = Field::find(message, name).ok_or_else(|| Error::new(format!("no such field: {name}")))?;
        match (field, value) {
            (Field::List, Value::List(_)) | (Field::Map, Value::Map(_)) => {}
            (Field::List | Field::Map, value) => {
                let of = match value {
                    Value::Type(_) => value.type_name().into_owned(),
                    Value::Optional(_) if !release.since(37) => value.type_name().into_owned(),
                    value => value.r#type().declaration(),
                };
                return Err(Error::new(format!("unsupported field type for {message}.{name}: {of}")));
            }
            _ => {}
        }
        let taken = field.take(value.clone()).map_err(|error| match error {
            Error::Message(why) => {
                Error::new(format!("field type conversion error for {message}.{name} value type: {why}"))
            }
            error => error,
        })?;
        Ok((name.clone(), taken))
    };
    fields.iter().map(take).collect()
}

/// The value of a message, with the defaults of its fields.
fn value<'a>(name: &Arc<str>, of: &Type, mut fields: Vec<(Arc<str>, Value<'a>)>) -> Result<Value<'a>, Error> {
    let number = |field: &str| match fields.iter().find(|(name, _)| &**name == field) {
        Some((_, Value::Int(number))) => *number,
        _ => 0,
    };
    Ok(match of {
        Type::Duration => Value::Duration(duration(number("seconds"), number("nanos"))),
        Type::Timestamp => timestamp(number("seconds"), number("nanos")),
        Type::Any => return any::unpack(&fields),
        Type::Object(_) => Value::Struct(Arc::new(Struct::new(name.clone(), fields)?)),
        // The last of the fields of a `Value` counts.
        of => match fields.pop() {
            Some((field, _)) if &*field == "null_value" => Value::Null,
            Some((_, value)) => value,
            None => zero(of),
        },
    })
}

/// The value of a message without fields.
fn zero<'a>(of: &Type) -> Value<'a> {
    match of.unwrapped() {
        Type::Bool => Value::Bool(false),
        Type::Bytes => Value::Bytes(Arc::default()),
        Type::Double => Value::Double(0.0),
        Type::Int => Value::Int(0),
        Type::Uint => Value::Uint(0),
        Type::String => Value::text(""),
        Type::List(_) => Value::list(Vec::new()),
        Type::Map(..) => Value::Map(Map::Values(Arc::default())),
        _ => Value::Null,
    }
}

/// `durationpb.Duration.AsDuration`: a duration beyond the limits becomes the limit.
fn duration(seconds: i64, nanoseconds: i64) -> i64 {
    const SECOND: i64 = 1_000_000_000;
    let limit = if seconds < 0 { i64::MIN } else { i64::MAX };
    seconds.checked_mul(SECOND).and_then(|whole| whole.checked_add(nanoseconds)).unwrap_or(limit)
}

/// `timestamppb.Timestamp.AsTime`
fn timestamp<'a>(seconds: i64, nanoseconds: i64) -> Value<'a> {
    const SECOND: i64 = 1_000_000_000;
    let whole = seconds.wrapping_add(nanoseconds.div_euclid(SECOND));
    Value::Timestamp(whole, nanoseconds.rem_euclid(SECOND) as u32, 0)
}

/// Selects a field of one of these messages, as the qualifiers of cel-go do.
///
/// # Errors
/// If the message's type does not have the field.
pub(crate) fn qualify<'a>(message: &Struct<'a>, field: &str, if_present: bool) -> Result<Option<Value<'a>>, Error> {
    let found = select(message, field).ok_or_else(|| Error::new(format!("no such field '{field}'")))?;
    let is_present = || message.get(field).is_some_and(|value| value.size() != Some(0));
    Ok(Some(found).filter(|_| !if_present || is_present()))
}

/// A field of a message; `None` if its type does not have the field.
fn select<'a>(message: &Struct<'a>, field: &str) -> Option<Value<'a>> {
    let default = || match Field::find(&message.name, field)? {
        Field::String => Some(Value::text("")),
        _ => Some(Value::Null),
    };
    message.get(field).cloned().or_else(default)
}

/// Whether the message is one of protobuf's.
pub(crate) fn is_message(name: &str) -> bool {
    name.starts_with(PACKAGE)
}
