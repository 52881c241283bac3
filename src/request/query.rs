//! The query of a URL as Go's `url.Values` holds it.

use crate::go_text::go_quote;
use std::borrow::Cow;
use std::num::{IntErrorKind, ParseIntError};
use thiserror::Error;

/// Returns the names and values of a query, in order, as Go's `url.ParseQuery` reads them: pairs with a `;` or a malformed escape
/// are dropped, `+` is a space. Another parser would see other values than the API server.
pub(crate) fn query_pairs(query: &str) -> impl Iterator<Item = (String, String)> + '_ {
    query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')).filter_map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Some((query_unescape(name)?, query_unescape(value)?))
    })
}

/// Returns all values of `key` in a query, in order.
pub(crate) fn query_values<'a>(query: &'a str, key: &'a str) -> impl Iterator<Item = String> + 'a {
    query_pairs(query).filter_map(move |(name, value)| (name == key).then_some(value))
}

/// Returns the first value of `key` in a query.
pub(crate) fn query_value(query: &str, key: &str) -> Option<String> {
    query_values(query, key).next()
}

fn query_unescape(text: &str) -> Option<String> {
    percent_decode(&text.replace('+', " ")).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Decodes percent escapes; borrows a text without escapes. `None` for a malformed escape, which Go refuses.
pub(super) fn percent_decode(text: &str) -> Option<Cow<'_, [u8]>> {
    let mut rest = text.as_bytes();
    if !rest.contains(&b'%') {
        return Some(Cow::Borrowed(rest));
    }
    let mut decoded = Vec::with_capacity(rest.len());
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let digits = rest.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
        decoded.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = rest.get(2..)?;
    }
    Some(Cow::Owned(decoded))
}

/// `Convert_Slice_string_To_bool`: everything but `0` and `false` is true, the empty string too.
pub(super) fn is_true(value: &str) -> bool {
    value != "0" && !value.eq_ignore_ascii_case("false")
}

/// A text that is no number of a type, with Go's text (`strconv.NumError`).
#[derive(Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub(crate) struct NoNumber(String);

/// Parses a whole number (`strconv.ParseInt`).
///
/// # Errors
/// If the text is no number, or one of more than 64 bits, with Go's text.
pub(crate) fn integer(text: &str) -> Result<i64, NoNumber> {
    text.parse().map_err(|error| not_parsed("ParseInt", text, &error))
}

/// Parses a number that is not negative (`strconv.ParseUint`).
///
/// # Errors
/// As [`integer`]; also for a sign.
pub(crate) fn unsigned(text: &str) -> Result<u64, NoNumber> {
    // Rust reads a plus sign, Go does not.
    let text_or_empty = if text.starts_with('+') { "" } else { text };
    text_or_empty.parse().map_err(|error| not_parsed("ParseUint", text, &error))
}

fn not_parsed(function: &str, text: &str, error: &ParseIntError) -> NoNumber {
    let why = match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
        _ => "invalid syntax",
    };
    NoNumber(format!("strconv.{function}: parsing {}: {why}", go_quote(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_reads_as_in_go() {
        for (query, expected) in [
            ("a=1&a=2", vec!["1", "2"]),
            ("b=1&a=x+y%2Bz", vec!["x y+z"]),
            ("a", vec![""]),
            ("a=1;b=2&a=3", vec!["3"]),
            ("a=%zz&a=%4&a=ok", vec!["ok"]),
            ("%61=1&A=2", vec!["1"]),
            ("&&", vec![]),
        ] {
            assert_eq!(query_values(query, "a").collect::<Vec<_>>(), expected, "{query}");
        }
    }

    #[test]
    fn numbers_are_parsed_as_in_go() {
        for (text, integer_is, unsigned_is) in [
            ("7", Ok(7), Ok(7)),
            ("+7", Ok(7), Err("invalid syntax")),
            ("-7", Ok(-7), Err("invalid syntax")),
            ("", Err("invalid syntax"), Err("invalid syntax")),
            ("x", Err("invalid syntax"), Err("invalid syntax")),
            ("1_0", Err("invalid syntax"), Err("invalid syntax")),
            ("9223372036854775808", Err("value out of range"), Ok(9_223_372_036_854_775_808)),
            ("18446744073709551616", Err("value out of range"), Err("value out of range")),
        ] {
            let why = |function: &str, why: &str| format!("strconv.{function}: parsing {text:?}: {why}");
            assert_eq!(
                integer(text).map_err(|error| error.to_string()),
                integer_is.map_err(|text| why("ParseInt", text)),
                "{text}"
            );
            assert_eq!(
                unsigned(text).map_err(|error| error.to_string()),
                unsigned_is.map_err(|text| why("ParseUint", text)),
                "{text}"
            );
        }
    }
}
