//! The parts of times and durations. Times are read in UTC where no zone is named.

use crate::cel::value::{Error, Value};
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};

type Result<'a> = std::result::Result<Value<'a>, Error>;

/// A part of a time, or of a duration where there is such a part.
fn part<'a>(arguments: &[Value<'a>], of_time: fn(DateTime) -> i64, of_duration: Option<i64>) -> Result<'a> {
    let zone = match arguments {
        [Value::Timestamp(..)] => "UTC",
        [Value::Timestamp(..), Value::String(zone)] => zone,
        [Value::Duration(nanoseconds)] => {
            return Ok(Value::Int(nanoseconds / of_duration.ok_or(Error::NoSuchOverload)?));
        }
        _ => return Err(Error::NoSuchOverload),
    };
    let Some(&Value::Timestamp(seconds, nanoseconds, _)) = arguments.first() else {
        return Err(Error::NoSuchOverload);
    };
    let time = jiff::Timestamp::new(seconds, nanoseconds as i32).map_err(|_| super::operators::TIMESTAMP_OVERFLOW)?;
    Ok(Value::Int(of_time(local(time, zone)?)))
}

/// The time in a zone: a name of the IANA database, or hours and minutes.
fn local(time: jiff::Timestamp, zone: &str) -> std::result::Result<DateTime, Error> {
    let Some((hours, minutes)) = zone.split_once(':') else {
        return match zone {
            "" | "UTC" => Ok(Offset::UTC.to_datetime(time)),
            "Local" => Ok(TimeZone::system().to_datetime(time)),
            name => {
                let zone = TimeZone::get(name).map_err(|_| Error::new(format!("unknown time zone {name}")))?;
                Ok(zone.to_datetime(time))
            }
        };
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let minutes = if zone.starts_with('-') { hours * 60 - minutes } else { hours * 60 + minutes };
    let offset = i32::try_from(minutes * 60).ok().and_then(|seconds| Offset::from_seconds(seconds).ok());
    offset.map(|offset| offset.to_datetime(time)).ok_or_else(|| Error::new(format!("unknown time zone {zone}")))
}

/// `strconv.Atoi` of Go, within the bounds of what an offset can be.
fn number(text: &str) -> std::result::Result<i64, Error> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Error::new(format!("strconv.Atoi: parsing {text:?}: invalid syntax")));
    }
    text.parse::<i32>()
        .map(i64::from)
        .map_err(|_| Error::new(format!("strconv.Atoi: parsing {text:?}: value out of range")))
}

pub fn full_year<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    part(arguments, |time| time.year().into(), None)
}

pub fn month<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    part(arguments, |time| i64::from(time.month()) - 1, None)
}

pub fn day_of_year<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    part(arguments, |time| i64::from(time.date().day_of_year()) - 1, None)
}

pub fn day_of_month<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    part(arguments, |time| i64::from(time.day()) - 1, None)
}

pub fn date<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    part(arguments, |time| time.day().into(), None)
}

pub fn day_of_week<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    part(arguments, |time| time.date().weekday().to_sunday_zero_offset().into(), None)
}

pub fn hours<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    part(arguments, |time| time.hour().into(), Some(3_600_000_000_000))
}

pub fn minutes<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    part(arguments, |time| time.minute().into(), Some(60_000_000_000))
}

pub fn seconds<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    part(arguments, |time| time.second().into(), Some(1_000_000_000))
}

pub fn milliseconds<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    part(arguments, |time| time.millisecond().into(), Some(1_000_000))
}
