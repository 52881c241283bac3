//! Conversion of values to text and JSON.

use super::{Error, Text, Value, print};
use crate::work;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map as Fields, Number, Value as Json};

/// The largest integer that is a number in JSON; larger ones are text (`maxIntJSON` of cel-go).
const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

impl<'a> Value<'a> {
    /// The result of `string(…)`: `ConvertToType(StringType)` of cel-go.
    ///
    /// # Errors
    /// If the value has no text.
    pub fn to_text(&self) -> Result<Text<'a>, Error> {
        let text = match self {
            Self::String(text) => return Ok(text.clone()),
            Self::Null => "null".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::Int(value) => value.to_string(),
            Self::Uint(value) => value.to_string(),
            Self::Double(value) => print::double(*value),
            Self::Bytes(bytes) => std::str::from_utf8(bytes)
                .map_err(|_| Error::new("invalid UTF-8 in bytes, cannot convert to string"))?
                .to_owned(),
            Self::Duration(value) => print::duration(*value),
            Self::Timestamp(seconds, nanoseconds, offset) => print::timestamp(*seconds, *nanoseconds, *offset),
            Self::Type(value) => super::runtime_name(value).into_owned(),
            Self::Opaque(value) => value.to_text().ok_or_else(|| self.not_convertible("string"))?,
            Self::List(_) | Self::Map(_) | Self::Struct(_) | Self::Optional(_) => {
                return Err(self.not_convertible("string"));
            }
        };
        Ok(Text::Shared(text.into()))
    }

    /// The error of a conversion that does not exist.
    pub fn not_convertible(&self, r#type: &str) -> Error {
        Error::new(format!("type conversion error from '{}' to '{type}'", self.type_name()))
    }

    /// The value as JSON, as cel-go converts to `google.protobuf.Value`: integers that a double cannot hold become text, bytes become
    /// base64, times and durations their text.
    ///
    /// # Errors
    /// If the value has no JSON form: types, most values of libraries, maps with keys other than text, doubles that are NaN or infinite; or
    /// if the JSON becomes too large.
    pub fn to_json(&self) -> Result<Json, Error> {
        work::write(if let Self::String(text) = self { text.len() } else { size_of::<Json>() })?;
        Ok(match self {
            Self::Null => Json::Null,
            Self::Bool(value) => Json::Bool(*value),
            Self::Int(value) if value.unsigned_abs() <= MAX_SAFE_INTEGER => Json::from(*value),
            Self::Uint(value) if *value <= MAX_SAFE_INTEGER => Json::from(*value),
            Self::Int(value) => Json::String(value.to_string()),
            Self::Uint(value) => Json::String(value.to_string()),
            Self::Double(value) => Json::Number(number(*value)?),
            Self::String(text) => Json::String(text.to_string()),
            Self::Bytes(bytes) => Json::String(STANDARD.encode(bytes)),
            Self::Duration(_) | Self::Timestamp(..) => Json::String(self.to_text()?.to_string()),
            Self::List(list) => Json::Array(list.iter().map(|element| element.to_json()).collect::<Result<_, _>>()?),
            Self::Map(map) => {
                let mut fields = Fields::new();
                for (key, value) in map.iter() {
                    let Self::String(key) = key else {
                        return Err(Error::new(format!(
                            "unsupported type conversion from '{}' to string",
                            key.type_name()
                        )));
                    };
                    fields.insert(key.to_string(), value.to_json()?);
                }
                Json::Object(fields)
            }
            Self::Struct(value) => {
                let fields = value.fields.iter().map(|(name, value)| Ok((name.to_string(), value.to_json()?)));
                Json::Object(fields.collect::<Result<_, Error>>()?)
            }
            Self::Optional(Some(value)) => value.to_json()?,
            Self::Optional(None) => return Err(Error::new("optional.none() dereference")),
            Self::Type(_) | Self::Opaque(_) => {
                return Err(Error::new(format!("type conversion not supported for '{}'", self.type_name())));
            }
        })
    }
}

/// Converts a double; whole numbers are written as integers, as in Go's encoders.
fn number(value: f64) -> Result<Number, Error> {
    if value.trunc() == value && value.abs() <= MAX_SAFE_INTEGER as f64 {
        return Ok(Number::from(value as i64));
    }
    Number::from_f64(value).ok_or_else(|| Error::new(format!("{} is no number in JSON", print::double(value))))
}
