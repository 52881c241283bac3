//! The value of an expression as the Go value that kube-apiserver merges: errors show its Go types.

use super::Unpatchable;
use crate::cel::value::{List, Map};
use crate::cel::{Value, work};
use serde_json::{Map as JsonMap, Value as Json};
use std::collections::BTreeMap;

/// A Go value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Go {
    /// `structpb.NullValue`, a number: no schema accepts it.
    Null,
    /// `bool`
    Bool(bool),
    /// `int64`
    Int(i64),
    /// `uint64`
    Uint(u64),
    /// `float64`
    Double(f64),
    /// `string`
    String(String),
    /// `[]uint8`
    Bytes(Vec<u8>),
    /// `time.Duration`, in nanoseconds
    Duration(i64),
    /// `time.Time`, or a value of a library; no schema accepts either.
    Other(String),
    /// `[]interface{}`
    List(Vec<Go>),
    /// `map[string]interface{}`
    Map(BTreeMap<String, Go>),
}

impl Go {
    /// Converts the value of an expression (`ref.Val.Value`).
    ///
    /// # Errors
    /// If a map has keys other than strings, or the value gets too large.
    pub(in crate::policies::mutating) fn of(value: &Value<'_>) -> Result<Self, Unpatchable> {
        let bytes = if let Value::String(text) = value { text.len() } else { size_of::<Self>() };
        work::write(bytes).map_err(|error| Unpatchable(error.to_string()))?;
        Ok(match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Int(value) => Self::Int(*value),
            Value::Uint(value) => Self::Uint(*value),
            Value::Double(value) => Self::Double(*value),
            Value::String(text) => Self::String(text.to_string()),
            Value::Bytes(bytes) => Self::Bytes(bytes.to_vec()),
            Value::Duration(nanoseconds) => Self::Duration(*nanoseconds),
            Value::List(List::Json(items) | List::BuiltIn(items)) => {
                Self::List(items.iter().map(Self::of_json).collect())
            }
            Value::List(List::Values(items)) => Self::List(items.iter().map(Self::of).collect::<Result<_, _>>()?),
            Value::Map(Map::Json(fields) | Map::BuiltIn(fields)) => Self::of_fields(fields),
            Value::Map(Map::Values(entries)) => {
                let entries = entries.iter().map(|(key, value)| match key {
                    Value::String(key) => Ok((key.to_string(), Self::of(value)?)),
                    key => Err(Unpatchable(format!("map key {key:?} is not a string"))),
                });
                Self::Map(entries.collect::<Result<_, _>>()?)
            }
            Value::Struct(made) => {
                let fields = made.fields.iter().map(|(name, value)| Ok((name.to_string(), Self::of(value)?)));
                Self::Map(fields.collect::<Result<_, Unpatchable>>()?)
            }
            Value::Optional(Some(value)) => Self::of(value)?,
            other => Self::Other(format!("{other:?}")),
        })
    }

    fn of_fields(fields: &JsonMap<String, Json>) -> Self {
        Self::Map(fields.iter().map(|(name, value)| (name.clone(), Self::of_json(value))).collect())
    }

    /// Converts a JSON value.
    pub(crate) fn of_json(value: &Json) -> Self {
        match value {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(*value),
            Json::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(number), _) => Self::Int(number),
                (None, Some(number)) => Self::Uint(number),
                (None, None) => Self::Double(number.as_f64().unwrap_or_default()),
            },
            Json::String(text) => Self::String(text.clone()),
            Json::Array(items) => Self::List(items.iter().map(Self::of_json).collect()),
            Json::Object(fields) => Self::of_fields(fields),
        }
    }

    /// Converts the value to JSON, after a schema accepted it.
    pub(crate) fn into_json(self) -> Json {
        match self {
            Self::Null | Self::Bytes(_) | Self::Other(_) => Json::Null,
            Self::Bool(value) => value.into(),
            Self::Int(value) | Self::Duration(value) => value.into(),
            Self::Uint(value) => value.into(),
            Self::Double(value) => Json::from(value),
            Self::String(text) => text.into(),
            Self::List(items) => items.into_iter().map(Self::into_json).collect(),
            Self::Map(fields) => fields.into_iter().map(|(name, value)| (name, value.into_json())).collect(),
        }
    }

    /// The type, as `%T` prints it.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "structpb.NullValue",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int64",
            Self::Uint(_) => "uint64",
            Self::Double(_) => "float64",
            Self::String(_) => "string",
            Self::Bytes(_) => "[]uint8",
            Self::Duration(_) => "time.Duration",
            Self::Other(_) => "time.Time",
            Self::List(_) => "[]interface {}",
            Self::Map(_) => "map[string]interface {}",
        }
    }

    /// The `value.Value` around the value, as `%v` prints it.
    pub(crate) fn shown(&self) -> String {
        format!("&{{{}}}", self.plain())
    }

    fn plain(&self) -> String {
        match self {
            Self::Null => "NULL_VALUE".into(),
            Self::Bool(value) => value.to_string(),
            Self::Int(value) => value.to_string(),
            Self::Uint(value) => value.to_string(),
            Self::Double(value) => value.to_string(),
            Self::String(text) | Self::Other(text) => text.clone(),
            Self::Bytes(bytes) => format!("{bytes:?}").replace(',', ""),
            Self::Duration(value) => format!("{}s", *value as f64 / 1e9),
            Self::List(items) => format!("[{}]", items.iter().map(Self::plain).collect::<Vec<_>>().join(" ")),
            Self::Map(fields) => {
                let fields: Vec<_> = fields.iter().map(|(name, value)| format!("{name}:{}", value.plain())).collect();
                format!("map[{}]", fields.join(" "))
            }
        }
    }

    /// The `value.Value` around the value, as `%#v` prints it.
    pub(crate) fn detailed(&self) -> String {
        format!("&value.valueUnstructured{{Value:{}}}", self.literal())
    }

    fn literal(&self) -> String {
        match self {
            Self::Null => "0".into(),
            Self::Bool(value) => value.to_string(),
            Self::Int(value) | Self::Duration(value) => value.to_string(),
            Self::Uint(value) => format!("{value:#x}"),
            Self::Double(value) => value.to_string(),
            Self::String(text) => crate::go_text::go_quote(text),
            Self::Other(text) => text.clone(),
            Self::Bytes(bytes) => {
                let bytes: Vec<_> = bytes.iter().map(|byte| format!("{byte:#x}")).collect();
                format!("[]uint8{{{}}}", bytes.join(", "))
            }
            Self::List(items) => {
                format!("[]interface {{}}{{{}}}", items.iter().map(Self::literal).collect::<Vec<_>>().join(", "))
            }
            Self::Map(fields) => {
                let literal = |(name, value): (&String, &Self)| format!("{name:?}:{}", value.literal());
                format!("map[string]interface {{}}{{{}}}", fields.iter().map(literal).collect::<Vec<_>>().join(", "))
            }
        }
    }
}
