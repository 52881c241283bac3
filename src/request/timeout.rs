//! `?timeout=`: the time limit that a client sets.

use super::query::query_value;
use crate::go_text::duration;
use crate::status::Status;
use std::time::Duration;

/// Returns the timeout in the query; `None` if the query has no timeout, or zero (`filters.WithRequestDeadline`).
///
/// # Errors
/// 400 if the value is not a duration.
pub(crate) fn asked(query: &str) -> Result<Option<Duration>, Status> {
    let Some(text) = query_value(query, "timeout").filter(|text| !text.is_empty()) else { return Ok(None) };
    let nanoseconds = duration::nanoseconds(&text)
        .map_err(|why| Status::bad_request(format!("invalid timeout specified in the request URL - {why}")))?;
    Ok(u64::try_from(nanoseconds).ok().filter(|nanoseconds| *nanoseconds > 0).map(Duration::from_nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with the answers of a kube-apiserver 1.36.3.
    #[test]
    fn an_invalid_duration_is_refused_in_gos_words() {
        for (query, why) in [
            ("timeout=abc", "time: invalid duration \"abc\""),
            ("timeout=5", "time: missing unit in duration \"5\""),
            ("timeout=5x", "time: unknown unit \"x\" in duration \"5x\""),
            ("timeout=1m5", "time: missing unit in duration \"1m5\""),
            ("timeout=.s", "time: invalid duration \".s\""),
            ("timeout=-", "time: invalid duration \"-\""),
            ("timeout=5%20s", "time: unknown unit \" s\" in duration \"5 s\""),
            ("timeout=%225s%22", "time: invalid duration \"\\\"5s\\\"\""),
            ("timeout=5%C3%A9", "time: unknown unit \"\\xc3\\xa9\" in duration \"5\\xc3\\xa9\""),
            ("timeout=99999999999h", "time: invalid duration \"99999999999h\""),
            ("timeout=9223372036854775808ns", "time: invalid duration \"9223372036854775808ns\""),
            ("timeout=99999999999999999999999s", "time: invalid duration \"99999999999999999999999s\""),
            // The first value counts.
            ("timeout=abc&timeout=5s", "time: invalid duration \"abc\""),
        ] {
            let status = asked(query).unwrap_err();
            let expected = format!("invalid timeout specified in the request URL - {why}");
            assert_eq!((status.code, status.message), (400, expected), "{query}");
        }
    }

    #[test]
    fn no_time_is_as_if_nothing_were_asked() {
        for (query, milliseconds) in [
            ("", None),
            ("timeout=", None),
            ("timeout=0", None),
            ("timeout=-5s", None),
            ("timeout=-0", None),
            ("timeout=-9223372036854775808ns", None),
            ("timeout=1m5s", Some(65_000)),
            ("timeout=1.5s", Some(1500)),
            ("timeout=.5s", Some(500)),
            ("timeout=%2B5s", Some(5000)),
            ("timeout=2000%C2%B5s", Some(2)),
            ("timeout=5s&timeout=abc", Some(5000)),
            ("timeout=5s;x", None),
        ] {
            assert_eq!(asked(query), Ok(milliseconds.map(Duration::from_millis)), "{query}");
        }
    }
}
