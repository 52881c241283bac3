//! Messages with a JSON form of their own in Go.

use super::wire::{DELIMITED, Reader, VARINT};
use super::{InvalidProtobuf, Losses};
use crate::go_text::time::date;
use crate::{decode, quantity};
use serde_json::Value;

pub(super) const SECONDS_PER_DAY: i64 = 86_400;
/// 0001-01-01T00:00:00Z, Go's zero time, in seconds since 1970.
const ZERO_TIME: i64 = -62_135_596_800;
/// The last second that RFC 3339 can express.
const LAST_SECOND: i64 = 253_402_300_799;

/// `metav1.Time`, in whole seconds.
pub(super) fn time(bytes: &[u8], losses: &mut Losses) -> Result<Value, InvalidProtobuf> {
    let (seconds, _) = timestamp(bytes, losses)?;
    if bytes.is_empty() || seconds == ZERO_TIME {
        return Ok(Value::Null);
    }
    Ok(format!("{}Z", date_and_time(seconds)?).into())
}

/// `metav1.MicroTime`.
pub(super) fn micro_time(bytes: &[u8], losses: &mut Losses) -> Result<Value, InvalidProtobuf> {
    let (seconds, nanos) = timestamp(bytes, losses)?;
    let micros = i64::from(nanos / 1000);
    let seconds = seconds.saturating_add(micros.div_euclid(1_000_000));
    let micros = micros.rem_euclid(1_000_000);
    if bytes.is_empty() || (seconds == ZERO_TIME && micros == 0) {
        return Ok(Value::Null);
    }
    Ok(format!("{}.{micros:06}Z", date_and_time(seconds)?).into())
}

fn timestamp(bytes: &[u8], losses: &mut Losses) -> Result<(i64, i32), InvalidProtobuf> {
    let (mut seconds, mut nanos) = (0, 0);
    let mut reader = Reader(bytes);
    while let Some(tag) = reader.tag("Timestamp")? {
        match tag.number {
            1 => {
                tag.expect(VARINT, "Seconds")?;
                seconds = reader.varint()? as i64;
            }
            2 => {
                tag.expect(VARINT, "Nanos")?;
                nanos = reader.varint()? as i32;
            }
            _ => losses.skip(&mut reader, tag)?,
        }
    }
    Ok((seconds, nanos))
}

/// Formats a time. Rejects years of more than four digits, which Go writes but no parser reads.
fn date_and_time(seconds: i64) -> Result<String, InvalidProtobuf> {
    if !(ZERO_TIME..=LAST_SECOND).contains(&seconds) {
        return Err(InvalidProtobuf::Time);
    }
    let (days, second) = (seconds.div_euclid(SECONDS_PER_DAY), seconds.rem_euclid(SECONDS_PER_DAY));
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    Ok(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"))
}

/// `resource.Quantity`, in its canonical form.
pub(super) fn quantity(bytes: &[u8], losses: &mut Losses) -> Result<Value, InvalidProtobuf> {
    let mut found = "0".to_owned();
    let mut reader = Reader(bytes);
    while let Some(tag) = reader.tag("Quantity")? {
        match tag.number {
            1 => {
                tag.expect(DELIMITED, "String_")?;
                found = quantity::canonical(&losses.text(reader.delimited()?))?;
            }
            _ => losses.skip(&mut reader, tag)?,
        }
    }
    Ok(found.into())
}

/// `intstr.IntOrString`.
pub(super) fn int_or_string(bytes: &[u8], losses: &mut Losses) -> Result<Value, InvalidProtobuf> {
    let (mut kind, mut number, mut string) = (0, 0, String::new());
    let mut reader = Reader(bytes);
    while let Some(tag) = reader.tag("IntOrString")? {
        match tag.number {
            1 => {
                tag.expect(VARINT, "Type")?;
                kind = reader.varint()? as i64;
            }
            2 => {
                tag.expect(VARINT, "IntVal")?;
                number = reader.varint()? as i32;
            }
            3 => {
                tag.expect(DELIMITED, "StrVal")?;
                string = losses.text(reader.delimited()?);
            }
            _ => losses.skip(&mut reader, tag)?,
        }
    }
    // Go also keeps the unused value, and writes it as protobuf.
    if kind == 0 && !string.is_empty() || kind == 1 && number != 0 {
        losses.note();
    }
    match kind {
        0 => Ok(number.into()),
        1 => Ok(string.into()),
        _ => Err(InvalidProtobuf::IntOrString),
    }
}

/// Decodes JSON text. `depth` is the level of the text in the document.
pub(super) fn raw(bytes: &[u8], depth: usize, losses: &mut Losses) -> Result<Value, InvalidProtobuf> {
    let mut json: &[u8] = &[];
    let mut reader = Reader(bytes);
    while let Some(tag) = reader.tag("RawExtension")? {
        match tag.number {
            1 => {
                tag.expect(DELIMITED, "Raw")?;
                json = reader.delimited()?;
            }
            _ => losses.skip(&mut reader, tag)?,
        }
    }
    if json.is_empty() {
        return Ok(Value::Null);
    }
    let decode::Decoded { value, duplicates } = decode::json(json)?;
    if !duplicates.is_empty() || std::str::from_utf8(json).is_err() {
        losses.note();
    }
    if depth + nesting(&value) > decode::MAX_DEPTH {
        return Err(InvalidProtobuf::TooDeep);
    }
    Ok(value)
}

fn nesting(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(nesting).max().unwrap_or_default(),
        Value::Object(fields) => 1 + fields.values().map(nesting).max().unwrap_or_default(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00"),
            (951_782_400, "2000-02-29T00:00:00"),
            (1_709_251_199, "2024-02-29T23:59:59"),
            (4_107_542_400, "2100-03-01T00:00:00"),
            (-1, "1969-12-31T23:59:59"),
            (ZERO_TIME + 1, "0001-01-01T00:00:01"),
            (LAST_SECOND, "9999-12-31T23:59:59"),
        ] {
            assert_eq!(date_and_time(seconds), Ok(expected.to_owned()));
        }
        assert!(date_and_time(LAST_SECOND + 1).is_err());
        assert!(date_and_time(i64::MIN).is_err());
    }

    #[test]
    fn times_have_no_fractions_and_micro_times_six_digits() {
        assert_eq!(time(&[8, 1, 16, 5], &mut Losses::default()), Ok(json!("1970-01-01T00:00:01Z")));
        assert_eq!(time(&[], &mut Losses::default()), Ok(Value::Null));
        assert_eq!(
            micro_time(&[8, 1, 16, 0xd0, 0x0f], &mut Losses::default()),
            Ok(json!("1970-01-01T00:00:01.000002Z"))
        );
    }

    #[test]
    fn an_int_or_string_is_one_of_the_two() {
        let read = |bytes| int_or_string(bytes, &mut Losses::default());
        assert_eq!(read(&[8, 0, 16, 80]), Ok(json!(80)));
        assert_eq!(read(&[8, 1, 16, 80, 26, 1, b'x']), Ok(json!("x")));
        assert!(read(&[8, 2]).is_err());
    }

    #[test]
    fn raw_json_counts_towards_the_depth() {
        let nested = format!("{}{}", "[".repeat(20), "]".repeat(20));
        let bytes = [&[10, 40], nested.as_bytes()].concat();
        assert!(raw(&bytes, decode::MAX_DEPTH - 20, &mut Losses::default()).is_ok());
        assert!(raw(&bytes, decode::MAX_DEPTH - 19, &mut Losses::default()).is_err());
    }
}
