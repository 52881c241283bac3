//! The parts of times and durations. Times without a zone are in UTC.

use crate::value::print::civil;
use crate::value::{Error, Value};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

type Result<'a> = std::result::Result<Value<'a>, Error>;

/// A part of a time, or of a duration if it has that part.
fn part<'a>(arguments: &[Value<'a>], of_time: fn(DateTime, i64) -> i64, of_duration: Option<i64>) -> Result<'a> {
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
    let (time, year) = civil(seconds, nanoseconds, offset(seconds, zone)?);
    Ok(Value::Int(of_time(time, year)))
}

/// The seconds that a zone is east of UTC at a time. The zone is a name of the IANA database, or hours and minutes.
fn offset(seconds: i64, zone: &str) -> std::result::Result<i32, Error> {
    let Some((hours, minutes)) = zone.split_once(':') else {
        let found = match zone {
            "" | "UTC" => return Ok(0),
            "Local" => TimeZone::system(),
            name if name.starts_with(['/', '\\']) || name.contains("..") => {
                return Err(Error::new("time: invalid location name"));
            }
            // The library ignores the case of names, Go does not.
            name => TimeZone::get(name)
                .ok()
                .filter(|found| found.iana_name().is_none_or(|found| found == name))
                .ok_or_else(|| Error::new(format!("unknown time zone {name}")))?,
        };
        // The last valid day may be beyond the bounds of the library.
        let bounds = jiff::Timestamp::MIN.as_second()..=jiff::Timestamp::MAX.as_second();
        let time = jiff::Timestamp::from_second(seconds.clamp(*bounds.start(), *bounds.end())).unwrap_or_default();
        return Ok(found.to_offset(time).seconds());
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let minutes = if zone.starts_with('-') { hours * 60 - minutes } else { hours * 60 + minutes };
    i32::try_from(minutes * 60).map_err(|_| Error::new(format!("unknown time zone {zone}")))
}

/// `strconv.Atoi` of Go, for numbers of 32 bits.
fn number(text: &str) -> std::result::Result<i64, Error> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Error::new(format!("strconv.Atoi: parsing {text:?}: invalid syntax")));
    }
    text.parse::<i32>()
        .map(i64::from)
        .map_err(|_| Error::new(format!("strconv.Atoi: parsing {text:?}: value out of range")))
}

pub(super) fn full_year<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    part(arguments, |_, year| year, None)
}

pub(super) fn month<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    part(arguments, |time, _| i64::from(time.month()) - 1, None)
}

pub(super) fn day_of_year<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    part(arguments, |time, _| i64::from(time.date().day_of_year()) - 1, None)
}

pub(super) fn day_of_month<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    part(arguments, |time, _| i64::from(time.day()) - 1, None)
}

pub(super) fn date<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    part(arguments, |time, _| time.day().into(), None)
}

pub(super) fn day_of_week<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    part(arguments, |time, _| time.date().weekday().to_sunday_zero_offset().into(), None)
}

pub(super) fn hours<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    part(arguments, |time, _| time.hour().into(), Some(3_600_000_000_000))
}

pub(super) fn minutes<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    part(arguments, |time, _| time.minute().into(), Some(60_000_000_000))
}

pub(super) fn seconds<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    part(arguments, |time, _| time.second().into(), Some(1_000_000_000))
}

pub(super) fn milliseconds<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    part(arguments, |time, _| time.millisecond().into(), Some(1_000_000))
}
