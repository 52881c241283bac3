//! `metav1.Time` from text: Go's `time.Parse(time.RFC3339, …)`, and the seconds of it in UTC.

use jiff::civil::DateTime;
use jiff::{SignedDuration, civil};

const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
/// After so many years the calendar repeats itself.
const CYCLE_YEARS: i64 = 400;
/// The first year of a cycle: an offset may lead out of the years of four digits, which is all that is reckoned in here.
const SAFE_YEAR: i64 = 2000;

/// The text that Go writes of a time; none for the zero time.
///
/// # Errors
/// Go's text for what it does not read.
pub(super) fn canonical(text: &str) -> Result<Option<String>, String> {
    let (date_time, cycle, offset_seconds) = match Parser::new(text).parse() {
        Ok(parsed) => parsed,
        Err(Failure::Mismatch { rest, element }) => {
            let (text, rest) = (quote(text), quote(rest));
            return Err(format!("parsing time {text} as \"{LAYOUT}\": cannot parse {rest} as \"{element}\""));
        }
        Err(Failure::Range(what)) => return Err(format!("parsing time {}: {what} out of range", quote(text))),
        Err(Failure::Extra(extra)) => {
            return Err(format!("parsing time {}: extra text: {}", quote(text), quote(extra)));
        }
    };
    let utc = date_time.checked_sub(SignedDuration::from_secs(offset_seconds));
    let utc = utc.map_err(|_| format!("parsing time {}: day out of range", quote(text)))?;
    let (date, time) = (utc.date(), utc.time());
    let year = i64::from(date.year()) - SAFE_YEAR + cycle;
    if (year, date.month(), date.day()) == (1, 1, 1) && time == civil::Time::midnight() {
        return Ok(None);
    }
    let (sign, year) = (if year < 0 { "-" } else { "" }, year.abs());
    let (hour, minute, second) = (time.hour(), time.minute(), time.second());
    Ok(Some(format!("{sign}{year:04}-{:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z", date.month(), date.day())))
}

/// Why a text is no time.
enum Failure<'a> {
    /// What is left of it does not begin with this element of the layout.
    Mismatch {
        rest: &'a str,
        element: &'static str,
    },
    Range(&'static str),
    Extra(&'a str),
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Self {
        Self { rest: text }
    }

    /// The date and time in a cycle of years that has room before and after, the year that their own cycle begins with, and
    /// the offset from UTC in seconds.
    fn parse(mut self) -> Result<(DateTime, i64, i64), Failure<'a>> {
        let year = self.digits(4, "2006")?;
        self.literal("-")?;
        let month = self.in_range("01", 1..=12, "month")?;
        self.literal("-")?;
        let day = self.digits(2, "02")?;
        self.literal("T")?;
        let hour = self.hour()?;
        self.literal(":")?;
        let minute = self.in_range("04", 0..=59, "minute")?;
        self.literal(":")?;
        let second = self.in_range("05", 0..=59, "second")?;
        self.fraction();
        let offset = self.zone()?;
        if !self.rest.is_empty() {
            return Err(Failure::Extra(self.rest));
        }
        let narrow = |number: i64| i8::try_from(number).unwrap_or_default();
        let year_in_cycle = i16::try_from(SAFE_YEAR + year % CYCLE_YEARS).unwrap_or_default();
        let date_time =
            DateTime::new(year_in_cycle, narrow(month), narrow(day), narrow(hour), narrow(minute), narrow(second), 0);
        Ok((date_time.map_err(|_| Failure::Range("day"))?, year - year % CYCLE_YEARS, offset))
    }

    fn mismatch(&self, element: &'static str) -> Failure<'a> {
        Failure::Mismatch { rest: self.rest, element }
    }

    fn take(&mut self, count: usize) -> Option<i64> {
        let (digits, rest) = self.rest.split_at_checked(count)?;
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        self.rest = rest;
        digits.parse().ok()
    }

    fn digits(&mut self, count: usize, element: &'static str) -> Result<i64, Failure<'a>> {
        self.take(count).ok_or_else(|| self.mismatch(element))
    }

    fn in_range(
        &mut self,
        element: &'static str,
        range: std::ops::RangeInclusive<i64>,
        what: &'static str,
    ) -> Result<i64, Failure<'a>> {
        let number = self.digits(2, element)?;
        if range.contains(&number) { Ok(number) } else { Err(Failure::Range(what)) }
    }

    /// One digit is enough here.
    fn hour(&mut self) -> Result<i64, Failure<'a>> {
        let hour = self.take(2).or_else(|| self.take(1)).ok_or_else(|| self.mismatch("15"))?;
        if hour < 24 { Ok(hour) } else { Err(Failure::Range("hour")) }
    }

    fn literal(&mut self, literal: &'static str) -> Result<(), Failure<'a>> {
        self.rest = self.rest.strip_prefix(literal).ok_or_else(|| self.mismatch(literal))?;
        Ok(())
    }

    /// Go reads a fraction of seconds that the layout does not have.
    fn fraction(&mut self) {
        let Some(fraction) = self.rest.strip_prefix(['.', ',']) else { return };
        let after = fraction.trim_start_matches(|character: char| character.is_ascii_digit());
        if after.len() < fraction.len() {
            self.rest = after;
        }
    }

    fn zone(&mut self) -> Result<i64, Failure<'a>> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let mismatch = self.mismatch("Z07:00");
        let sign = match self.rest.as_bytes() {
            [b'+', _, _, b':', _, _, ..] => 1,
            [b'-', _, _, b':', _, _, ..] => -1,
            _ => return Err(mismatch),
        };
        let mut zone = Parser::new(self.rest.get(1..).unwrap_or_default());
        let (Some(hours), Ok(()), Some(minutes)) = (zone.take(2), zone.literal(":"), zone.take(2)) else {
            return Err(mismatch);
        };
        if hours > 24 {
            return Err(Failure::Range("time zone offset hour"));
        }
        if minutes > 60 {
            return Err(Failure::Range("time zone offset minute"));
        }
        self.rest = zone.rest;
        Ok(sign * (hours * 60 + minutes) * 60)
    }
}

/// The `quote` of Go's package `time`: what is no printable ASCII is shown by its bytes.
fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            ' '..='~' => quoted.push(character),
            other => {
                let mut buffer = [0; 4];
                other.encode_utf8(&mut buffer).bytes().for_each(|byte| quoted.push_str(&format!("\\x{byte:02x}")));
            }
        }
    }
    quoted.push('"');
    quoted
}
