//! Times as Go reads them.

/// `time.Parse(time.RFC3339, …)` of Go: the seconds since 1970, the nanoseconds and the offset.
pub(crate) fn parse_timestamp(text: &str) -> Option<(i64, u32, i32)> {
    let mut rest = text;
    let mut take = |digits: usize, separator: &[char]| -> Option<i64> {
        let (number, after) = rest.split_at_checked(digits)?;
        let after = if separator.is_empty() { after } else { after.strip_prefix(separator)? };
        rest = after;
        number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse().ok())?
    };
    let year = take(4, &['-'])?;
    let month = take(2, &['-'])?;
    let day = take(2, &['T'])?;
    // Go accepts a single digit for the hour, and only there.
    let short = text.as_bytes().get("2006-01-02T1".len()) == Some(&b':');
    let hour = take(if short { 1 } else { 2 }, &[':'])?;
    let minute = take(2, &[':'])?;
    let second = take(2, &[])?;
    let mut nanoseconds = 0;
    if let Some(after) = rest.strip_prefix(['.', ',']) {
        let end = after.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(after.len());
        let (digits, after) = after.split_at(end);
        if digits.is_empty() {
            return None;
        }
        let digits = digits.get(..9).unwrap_or(digits);
        nanoseconds = digits.parse::<u32>().ok()? * 10u32.pow(9 - digits.len() as u32);
        rest = after;
    }
    let offset = match rest.as_bytes() {
        b"Z" => 0,
        [sign @ (b'+' | b'-'), a, b, b':', c, d] => {
            let digit = |byte: &u8| byte.is_ascii_digit().then(|| i32::from(byte - b'0'));
            let (hours, minutes) = (digit(a)? * 10 + digit(b)?, digit(c)? * 10 + digit(d)?);
            if hours > 24 || minutes > 60 {
                return None;
            }
            let seconds = (hours * 60 + minutes) * 60;
            if *sign == b'-' { -seconds } else { seconds }
        }
        _ => return None,
    };
    let date = jiff::civil::Date::new(year as i16, month as i8, day as i8).ok()?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let days = date.since(jiff::civil::date(1970, 1, 1)).ok()?.get_days();
    let seconds = i64::from(days) * 86_400 + hour * 3_600 + minute * 60 + second - i64::from(offset);
    Some((seconds, nanoseconds, offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_times_as_go_does() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some((0, 0, 0))),
            ("2024-02-29T12:30:45.5+02:00", Some((1_709_202_645, 500_000_000, 7200))),
            ("2024-02-29T1:30:45Z", Some((1_709_170_245, 0, 0))),
            ("2023-02-29T00:00:00Z", None),
            ("2024-01-01T24:00:00Z", None),
            ("2024-01-01T00:00:60Z", None),
            ("2024-01-01T00:00:00", None),
            ("2024-01-01t00:00:00z", None),
            ("2024-01-01T00:00:00+0200", None),
        ] {
            assert_eq!(parse_timestamp(text), expected, "{text}");
        }
    }
}
