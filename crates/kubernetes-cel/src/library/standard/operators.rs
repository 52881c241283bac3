//! Operators: arithmetic, order, membership.
//!
//! As with cel-go's traits, an operator first checks whether its first operand supports the operation. If not, the error names the
//! operator, unless the operand has methods (`traits.Receiver`: text, durations, times).

use crate::value::{Error, List, Map, Value};
use std::cmp::Ordering;
use std::sync::Arc;

type Result<'a> = std::result::Result<Value<'a>, Error>;

/// The nanoseconds in a second.
const SECOND: i64 = 1_000_000_000;
/// The first and the last valid second: the years 1 to 9999.
pub(super) const SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

const INT_OVERFLOW: Error = Error::Message(std::borrow::Cow::Borrowed("integer overflow"));
const UINT_OVERFLOW: Error = Error::Message(std::borrow::Cow::Borrowed("unsigned integer overflow"));
pub(super) const TIMESTAMP_OVERFLOW: Error = Error::Message(std::borrow::Cow::Borrowed("timestamp overflow"));

/// Placeholder for an operator that the evaluator implements.
pub(super) fn special<'a>(_: &[Value<'a>]) -> Result<'a> {
    Err(Error::NoSuchOverload)
}

/// The error of an operand that does not support the operation.
fn unknown(operand: &Value<'_>, operator: &str) -> Error {
    match operand {
        Value::String(_) | Value::Duration(_) | Value::Timestamp(..) => Error::OVERLOAD,
        _ => Error::new(format!("no such overload: {operator}")),
    }
}

pub(super) fn not<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    match arguments {
        [Value::Bool(value)] => Ok(Value::Bool(!value)),
        _ => Err(Error::OVERLOAD),
    }
}

pub(super) fn negate<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    match arguments {
        [Value::Int(value)] => value.checked_neg().map(Value::Int).ok_or(INT_OVERFLOW),
        [Value::Double(value)] => Ok(Value::Double(-value)),
        [Value::Duration(value)] => value.checked_neg().map(Value::Duration).ok_or(INT_OVERFLOW),
        [Value::Bool(_)] => Err(Error::OVERLOAD),
        [value] => Err(unknown(value, "-_")),
        _ => Err(Error::NoSuchOverload),
    }
}

pub(crate) fn add<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    let [left, right] = arguments else { return Err(Error::NoSuchOverload) };
    Ok(match (left, right) {
        (Value::Int(a), Value::Int(b)) => Value::Int(a.checked_add(*b).ok_or(INT_OVERFLOW)?),
        (Value::Uint(a), Value::Uint(b)) => Value::Uint(a.checked_add(*b).ok_or(UINT_OVERFLOW)?),
        (Value::Double(a), Value::Double(b)) => Value::Double(a + b),
        (Value::String(a), Value::String(b)) => Value::string([&**a, &**b].concat()),
        (Value::Bytes(a), Value::Bytes(b)) => Value::Bytes([&**a, &**b].concat().into()),
        (Value::List(List::Keyed(a)), Value::List(b)) => Value::List(List::Keyed(Arc::new(a.merged(b)?))),
        (Value::List(a), Value::List(b)) => concatenated(a, b)?,
        (Value::Duration(a), Value::Duration(b)) => Value::Duration(a.checked_add(*b).ok_or(INT_OVERFLOW)?),
        (Value::Duration(by), time @ Value::Timestamp(..)) | (time @ Value::Timestamp(..), Value::Duration(by)) => {
            shifted(time, *by)?
        }
        (
            Value::Int(_)
            | Value::Uint(_)
            | Value::Double(_)
            | Value::String(_)
            | Value::Bytes(_)
            | Value::List(_)
            | Value::Duration(_)
            | Value::Timestamp(..),
            _,
        ) => return Err(Error::OVERLOAD),
        _ => return Err(unknown(left, "_+_")),
    })
}

/// Concatenates two lists. In cel-go this costs 1 for lists of any length, since it copies nothing; so the length has a bound of its own
/// here.
fn concatenated<'a>(a: &List<'a>, b: &List<'a>) -> Result<'a> {
    if a.is_empty() {
        return Ok(Value::List(b.clone()));
    }
    if b.is_empty() {
        return Ok(Value::List(a.clone()));
    }
    if a.len() + b.len() > crate::library::MAX_ELEMENTS {
        return crate::library::too_large();
    }
    Ok(Value::List(List::Values(Arc::new(a.iter().chain(b.iter()).collect()))))
}

/// A time plus a duration, with the time's offset.
fn shifted<'a>(time: &Value<'_>, by: i64) -> Result<'a> {
    let Value::Timestamp(seconds, nanoseconds, offset) = *time else { return Err(Error::OVERLOAD) };
    let nanoseconds = i64::from(nanoseconds) + by % SECOND;
    let seconds = seconds.checked_add(by / SECOND).and_then(|all| all.checked_add(nanoseconds.div_euclid(SECOND)));
    let seconds = seconds.ok_or(INT_OVERFLOW)?;
    if !SECONDS.contains(&seconds) {
        return Err(TIMESTAMP_OVERFLOW);
    }
    Ok(Value::Timestamp(seconds, nanoseconds.rem_euclid(SECOND) as u32, offset))
}

pub(super) fn subtract<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    let [left, right] = arguments else { return Err(Error::NoSuchOverload) };
    Ok(match (left, right) {
        (Value::Int(a), Value::Int(b)) => Value::Int(a.checked_sub(*b).ok_or(INT_OVERFLOW)?),
        (Value::Uint(a), Value::Uint(b)) => Value::Uint(a.checked_sub(*b).ok_or(UINT_OVERFLOW)?),
        (Value::Double(a), Value::Double(b)) => Value::Double(a - b),
        (Value::Duration(a), Value::Duration(b)) => Value::Duration(a.checked_sub(*b).ok_or(INT_OVERFLOW)?),
        (time @ Value::Timestamp(..), Value::Duration(by)) => shifted(time, by.checked_neg().ok_or(INT_OVERFLOW)?)?,
        (Value::Timestamp(a, b, _), Value::Timestamp(c, d, _)) => {
            let seconds = a.checked_sub(*c).and_then(|seconds| seconds.checked_mul(SECOND));
            let difference = seconds.and_then(|all| all.checked_add(i64::from(*b) - i64::from(*d)));
            Value::Duration(difference.ok_or(INT_OVERFLOW)?)
        }
        (Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::Duration(_) | Value::Timestamp(..), _) => {
            return Err(Error::OVERLOAD);
        }
        _ => return Err(unknown(left, "_-_")),
    })
}

pub(super) fn multiply<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    let [left, right] = arguments else { return Err(Error::NoSuchOverload) };
    Ok(match (left, right) {
        (Value::Int(a), Value::Int(b)) => Value::Int(a.checked_mul(*b).ok_or(INT_OVERFLOW)?),
        (Value::Uint(a), Value::Uint(b)) => Value::Uint(a.checked_mul(*b).ok_or(UINT_OVERFLOW)?),
        (Value::Double(a), Value::Double(b)) => Value::Double(a * b),
        (Value::Int(_) | Value::Uint(_) | Value::Double(_), _) => return Err(Error::OVERLOAD),
        _ => return Err(unknown(left, "_*_")),
    })
}

pub(super) fn divide<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    let [left, right] = arguments else { return Err(Error::NoSuchOverload) };
    Ok(match (left, right) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => {
            return Err(Error::new("division by zero"));
        }
        (Value::Int(a), Value::Int(b)) => Value::Int(a.checked_div(*b).ok_or(INT_OVERFLOW)?),
        (Value::Uint(a), Value::Uint(b)) => Value::Uint(a / b),
        (Value::Double(a), Value::Double(b)) => Value::Double(a / b),
        (Value::Int(_) | Value::Uint(_) | Value::Double(_), _) => return Err(Error::OVERLOAD),
        _ => return Err(unknown(left, "_/_")),
    })
}

pub(super) fn modulo<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    let [left, right] = arguments else { return Err(Error::NoSuchOverload) };
    Ok(match (left, right) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => {
            return Err(Error::new("modulus by zero"));
        }
        (Value::Int(a), Value::Int(b)) => Value::Int(a.checked_rem(*b).ok_or(INT_OVERFLOW)?),
        (Value::Uint(a), Value::Uint(b)) => Value::Uint(a % b),
        (Value::Int(_) | Value::Uint(_), _) => return Err(Error::OVERLOAD),
        _ => return Err(unknown(left, "_%_")),
    })
}

fn ordered<'a>(arguments: &[Value<'a>], operator: &str, holds: fn(Ordering) -> bool) -> Result<'a> {
    let [left, right] = arguments else { return Err(Error::NoSuchOverload) };
    match left {
        Value::Int(_)
        | Value::Uint(_)
        | Value::Double(_)
        | Value::Bool(_)
        | Value::String(_)
        | Value::Bytes(_)
        | Value::Duration(_)
        | Value::Timestamp(..) => Ok(Value::Bool(holds(left.compare(right)?))),
        _ => Err(unknown(left, operator)),
    }
}

pub(super) fn less<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    ordered(arguments, "_<_", Ordering::is_lt)
}

pub(super) fn less_equals<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    ordered(arguments, "_<=_", Ordering::is_le)
}

pub(super) fn greater<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    ordered(arguments, "_>_", Ordering::is_gt)
}

pub(super) fn greater_equals<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    ordered(arguments, "_>=_", Ordering::is_ge)
}

/// Whether a value is in a list or a map. A value that cannot be compared is not in a list (`inAggregate` of cel-go).
pub(super) fn is_in<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    match arguments {
        [value, Value::List(list)] => value.is_in(list).map(Value::Bool),
        [key, Value::Map(Map::BuiltIn(_))] if !matches!(key, Value::String(_)) => Err(key.as_invalid_key()),
        [key, Value::Map(map)] => Ok(Value::Bool(map.get(key).is_some())),
        _ => Err(Error::OVERLOAD),
    }
}
