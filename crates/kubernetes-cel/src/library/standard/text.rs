//! Functions of text.

use crate::re2::Regex;
use crate::value::{Error, Value};

type Result<'a> = std::result::Result<Value<'a>, Error>;

pub(super) fn size<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    match arguments {
        [value @ (Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_))] => {
            Ok(Value::Int(value.size().unwrap_or(0) as i64))
        }
        [Value::Duration(_) | Value::Timestamp(..)] => Err(Error::OVERLOAD),
        [_] => Err(Error::new("no such overload: size")),
        _ => Err(Error::NoSuchOverload),
    }
}

fn pair<'a>(arguments: &[Value<'a>], holds: fn(&str, &str) -> bool) -> Result<'a> {
    match arguments {
        [Value::String(text), Value::String(other)] => Ok(Value::Bool(holds(text, other))),
        [_, _] => Err(Error::OVERLOAD),
        _ => Err(Error::NoSuchOverload),
    }
}

pub(super) fn contains<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    pair(arguments, |text, part| text.contains(part))
}

pub(super) fn starts_with<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    pair(arguments, |text, part| text.starts_with(part))
}

pub(super) fn ends_with<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    pair(arguments, |text, part| text.ends_with(part))
}

pub(super) fn matches<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    match arguments {
        [Value::String(text), Value::String(pattern)] => {
            let regex = Regex::compile(pattern).map_err(|error| Error::new(error.to_string()))?;
            Ok(Value::Bool(regex.is_match(text)))
        }
        [Value::String(_), _] | [Value::Duration(_) | Value::Timestamp(..), _] => Err(Error::OVERLOAD),
        [_, _] => Err(Error::new("no such overload: matches")),
        _ => Err(Error::NoSuchOverload),
    }
}
