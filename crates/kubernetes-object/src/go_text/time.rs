//! Times as Go's `time.Parse` reads them with the layouts of `metav1.Time` and `metav1.MicroTime`, with Go's errors.

use std::borrow::Cow;

const SECONDS_PER_DAY: i64 = 86_400;
/// The day of Go's zero time, 0001-01-01, in days since 1970.
const ZERO_DAY: i64 = -719_162;

/// `time.ParseError`
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseTimeError(String);

/// The layout of a time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// `time.RFC3339`
    Seconds,
    /// `metav1.RFC3339Micro`
    Micros,
}

/// Formats the time in UTC as Go does; `None` for Go's zero time.
///
/// # Errors
/// If the text has another layout, or a part of it is out of range.
pub fn canonical(text: &str, layout: Layout) -> Result<Option<Cow<'_, str>>, ParseTimeError> {
    let time = parse(text.as_bytes(), layout).map_err(|wrong| {
        ParseTimeError(format!("parsing time {}{}", quote(text.as_bytes()), wrong.describe(layout)))
    })?;
    let (days, second) = (time.seconds.div_euclid(SECONDS_PER_DAY), time.seconds.rem_euclid(SECONDS_PER_DAY));
    if days == ZERO_DAY && second == 0 && time.nanos == 0 {
        return Ok(None);
    }
    let (year, month, day) = date(days);
    let sign = if year < 0 { "-" } else { "" };
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let mut written = format!("{sign}{:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}", year.abs());
    if layout == Layout::Micros {
        written.push_str(&format!(".{:06}", time.nanos / 1000));
    }
    written.push('Z');
    Ok(Some(if written == text { Cow::Borrowed(text) } else { Cow::Owned(written) }))
}

/// Formats the parsed time as `Time.MarshalText` does.
///
/// # Errors
/// If the text has another layout, or a part of it is out of range.
pub(crate) fn rfc3339_nano(text: &str) -> Result<String, ParseTimeError> {
    canonical(text, Layout::Seconds)?;
    // The text is ASCII at this point, and the hour may have one digit.
    let (date, time) = text.split_at(11);
    let (hour, minutes) = time.split_once(':').unwrap_or((time, ""));
    let (minutes, rest) = minutes.split_at(5);
    let (fraction, offset) = rest.split_at(rest.find(['Z', '+', '-']).unwrap_or(rest.len()));
    let digits = fraction.get(1..).unwrap_or_default();
    let digits = digits.get(..9).unwrap_or(digits).trim_end_matches('0');
    let point = if digits.is_empty() { "" } else { "." };
    let offset = if matches!(offset, "+00:00" | "-00:00") { "Z" } else { offset };
    Ok(format!("{date}{hour:0>2}:{minutes}{point}{digits}{offset}"))
}

impl Layout {
    fn text(self) -> &'static str {
        match self {
            Self::Seconds => "2006-01-02T15:04:05Z07:00",
            Self::Micros => "2006-01-02T15:04:05.000000Z07:00",
        }
    }
}

struct Time {
    /// Seconds since 1970.
    seconds: i64,
    nanos: i64,
}

/// The reason why a text is not a time.
enum Wrong<'a> {
    /// The text does not match this element of the layout.
    Element(&'a [u8], &'static str),
    Range(&'static str),
    Extra(&'a [u8]),
}

impl Wrong<'_> {
    fn describe(&self, layout: Layout) -> String {
        match self {
            Self::Element(found, element) => {
                let layout = layout.text();
                format!(" as \"{layout}\": cannot parse {} as \"{element}\"", quote(found))
            }
            Self::Range(what) => format!(": {what} out of range"),
            Self::Extra(text) => format!(": extra text: {}", quote(text)),
        }
    }
}

fn parse(text: &[u8], layout: Layout) -> Result<Time, Wrong<'_>> {
    let mut rest = text;
    let year = year(rest).ok_or(Wrong::Element(rest, "2006"))?;
    rest = rest.get(4..).unwrap_or_default();
    rest = literal(rest, "-")?;
    let month = number(&mut rest, "01", true)?;
    if !(1..=12).contains(&month) {
        return Err(Wrong::Range("month"));
    }
    rest = literal(rest, "-")?;
    let day = number(&mut rest, "02", true)?;
    rest = literal(rest, "T")?;
    let hour = bounded(&mut rest, "15", false, 24, "hour")?;
    rest = literal(rest, ":")?;
    let minute = bounded(&mut rest, "04", true, 60, "minute")?;
    rest = literal(rest, ":")?;
    let second = bounded(&mut rest, "05", true, 60, "second")?;
    let nanos = fraction(&mut rest, layout)?;
    let offset = offset(&mut rest)?;
    if !rest.is_empty() {
        return Err(Wrong::Extra(rest));
    }
    if !(1..=days_in(month, year)).contains(&day) {
        return Err(Wrong::Range("day"));
    }
    let seconds = days_since_1970(year, month, day) * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second - offset;
    Ok(Time { seconds, nanos })
}

fn year(text: &[u8]) -> Option<i64> {
    let digits = text.get(..4)?;
    digits
        .iter()
        .all(u8::is_ascii_digit)
        .then(|| digits.iter().fold(0, |year, digit| year * 10 + i64::from(digit - b'0')))
}

fn literal<'a>(text: &'a [u8], expected: &'static str) -> Result<&'a [u8], Wrong<'a>> {
    text.strip_prefix(expected.as_bytes()).ok_or(Wrong::Element(text, expected))
}

/// Parses two digits; one digit is enough if the length is not fixed (`getnum`).
fn number<'a>(text: &mut &'a [u8], element: &'static str, is_fixed: bool) -> Result<i64, Wrong<'a>> {
    let digit = |at: usize| text.get(at).filter(|byte| byte.is_ascii_digit()).map(|byte| i64::from(byte - b'0'));
    let (number, length) = match (digit(0), digit(1)) {
        (Some(first), Some(second)) => (first * 10 + second, 2),
        (Some(first), None) if !is_fixed => (first, 1),
        _ => return Err(Wrong::Element(text, element)),
    };
    *text = text.get(length..).unwrap_or_default();
    Ok(number)
}

fn bounded<'a>(
    text: &mut &'a [u8],
    element: &'static str,
    is_fixed: bool,
    end: i64,
    what: &'static str,
) -> Result<i64, Wrong<'a>> {
    let number = number(text, element, is_fixed)?;
    if number < end { Ok(number) } else { Err(Wrong::Range(what)) }
}

/// Parses the fraction of a second in nanoseconds: six digits for `Micros`, any number or none for `Seconds`.
fn fraction<'a>(text: &mut &'a [u8], layout: Layout) -> Result<i64, Wrong<'a>> {
    let length = match layout {
        Layout::Micros => 7,
        Layout::Seconds => match text {
            [b'.' | b',', digits @ ..] => 1 + digits.iter().take_while(|byte| byte.is_ascii_digit()).count(),
            _ => return Ok(0),
        },
    };
    if layout == Layout::Seconds && length == 1 {
        return Ok(0);
    }
    let wrong = Wrong::Element(text, ".000000");
    let Some([b'.' | b',', digits @ ..]) = text.get(..length) else { return Err(wrong) };
    // Go reads at most nine bytes, and accepts a sign as for any integer.
    let (is_negative, digits) = match digits.get(..9).unwrap_or(digits) {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if !digits.iter().all(u8::is_ascii_digit) {
        return Err(wrong);
    }
    let number = digits.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'));
    if is_negative && number > 0 {
        return Err(Wrong::Range("fractional second"));
    }
    let missing = 10_usize.saturating_sub(length);
    *text = text.get(length..).unwrap_or_default();
    Ok((0..missing).fold(number, |number, _| number * 10))
}

/// Parses `Z` or `+01:30`, in seconds.
fn offset<'a>(text: &mut &'a [u8]) -> Result<i64, Wrong<'a>> {
    let element = "Z07:00";
    let whole = *text;
    let wrong = || Wrong::Element(whole, element);
    if let [b'Z', rest @ ..] = whole {
        *text = rest;
        return Ok(0);
    }
    let [sign, first, second, b':', third, fourth, rest @ ..] = whole else { return Err(wrong()) };
    let two = |digits: [u8; 2]| number(&mut &digits[..], element, true).map_err(|_| wrong());
    let (hours, minutes) = (two([*first, *second])?, two([*third, *fourth])?);
    if hours > 24 {
        return Err(Wrong::Range("time zone offset hour"));
    }
    if minutes > 60 {
        return Err(Wrong::Range("time zone offset minute"));
    }
    let seconds = hours * 3600 + minutes * 60;
    *text = rest;
    match sign {
        b'+' => Ok(seconds),
        b'-' => Ok(-seconds),
        _ => Err(wrong()),
    }
}

fn days_in(month: i64, year: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the date of a day since 1970-01-01, computed in cycles of 400 years that begin in March.
pub fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (cycle, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (cycle * 400 + year + i64::from(month <= 2), month, day)
}

/// The inverse of [`date`], computed in years that begin in March. A day past the end of the month falls into the next month.
pub(crate) fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    365 * year + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

/// `time.quote`: writes bytes that are not printable ASCII by number.
pub(super) fn quote(text: &[u8]) -> String {
    let mut quoted = String::from("\"");
    for byte in text {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(*byte)]),
            0x20..=0x7f => quoted.push(char::from(*byte)),
            _ => quoted.push_str(&format!("\\x{byte:02x}")),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_count_from_1970_and_back() {
        for (days, expected) in [
            (0, (1970, 1, 1)),
            (11_016, (2000, 2, 29)),
            (ZERO_DAY, (1, 1, 1)),
            (-719_163, (0, 12, 31)),
            (2_932_896, (9999, 12, 31)),
        ] {
            let (year, month, day) = expected;
            assert_eq!(date(days), expected);
            assert_eq!(days_since_1970(year, month, day), days);
        }
        assert_eq!(date(days_since_1970(2023, 2, 29)), (2023, 3, 1));
    }

    #[test]
    fn times_are_read_by_their_layout() {
        for (text, layout, expected) in [
            ("2024-02-29T1:02:03.9+01:30", Layout::Seconds, Ok(Some("2024-02-28T23:32:03Z"))),
            ("2024-01-02T03:04:05.000006Z", Layout::Micros, Ok(Some("2024-01-02T03:04:05.000006Z"))),
            ("0001-01-01T00:00:00Z", Layout::Seconds, Ok(None)),
            ("2023-02-29T00:00:00Z", Layout::Seconds, Err("parsing time \"2023-02-29T00:00:00Z\": day out of range")),
        ] {
            let found = canonical(text, layout);
            let found = found.as_ref().map(|time| time.as_deref()).map_err(|error| &*error.0);
            assert_eq!(found, expected, "{text}");
        }
    }
}
