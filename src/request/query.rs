//! The query of a URL as Go's `url.Values` holds it.

use std::borrow::Cow;

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
}
