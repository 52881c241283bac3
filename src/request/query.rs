//! A URL's query as Go's `url.Values` holds it, and the little of the selectors' syntax that request info needs.

use std::borrow::Cow;

/// Names and values of a query, in order, as Go's `url.ParseQuery` reads them: pairs with a `;` or a malformed escape are
/// dropped, `+` is a space. Whoever reads them in another way sees other values than the API server.
pub fn query_pairs(query: &str) -> impl Iterator<Item = (String, String)> + '_ {
    query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')).filter_map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Some((query_unescape(name)?, query_unescape(value)?))
    })
}

/// All values of `key` in a query, in order.
pub fn query_values<'a>(query: &'a str, key: &'a str) -> impl Iterator<Item = String> + 'a {
    query_pairs(query).filter_map(move |(name, value)| (name == key).then_some(value))
}

/// The first value of `key` in a query.
pub fn query_value(query: &str, key: &str) -> Option<String> {
    query_values(query, key).next()
}

fn query_unescape(text: &str) -> Option<String> {
    percent_decode(&text.replace('+', " ")).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// The bytes behind percent escapes, the text's own where there are none; `None` where an escape is malformed, which Go
/// refuses.
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
        rest = &rest[2..];
    }
    Some(Cow::Owned(decoded))
}

/// `Convert_Slice_string_To_bool`: everything but `0` and `false` is true, the empty string too.
pub(super) fn is_true(value: &str) -> bool {
    value != "0" && !value.eq_ignore_ascii_case("false")
}

/// What `fields.ParseSelector(...).RequiresExactMatch(field)` finds; the outer `None` if the selector is invalid.
pub(crate) fn exact_field(selector: &str, field: &str) -> Option<Option<String>> {
    let mut terms = split_terms(selector);
    terms.sort_unstable();
    let mut found = None;
    for term in terms.into_iter().filter(|term| !term.is_empty()) {
        let at =
            term.char_indices().find(|(at, _)| ["!=", "="].iter().any(|operator| term[*at..].starts_with(operator)))?.0;
        let (name, rest) = term.split_at(at);
        let (negated, value) = match rest.strip_prefix("!=") {
            Some(value) => (true, value),
            None => (false, rest.strip_prefix("==").unwrap_or(&rest[1..])),
        };
        let value = unescape_field_value(value)?;
        if found.is_none() && !negated && name == field {
            found = Some(value);
        }
    }
    Some(found)
}

/// The terms of a field selector: split at commas that no backslash escapes.
fn split_terms(selector: &str) -> Vec<&str> {
    let (mut terms, mut start, mut escaped) = (Vec::new(), 0, false);
    for (at, c) in selector.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&selector[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&selector[start..]);
    terms
}

fn unescape_field_value(value: &str) -> Option<String> {
    let mut unescaped = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' => unescaped.push(characters.next().filter(|c| matches!(c, '\\' | ',' | '='))?),
            ',' | '=' => return None,
            c => unescaped.push(c),
        }
    }
    Some(unescaped)
}

/// Whether `labels.Parse` accepts the selector.
pub(super) fn is_label_selector(selector: &str) -> bool {
    let tokens = label_tokens(selector);
    let mut tokens = tokens.as_slice();
    while !tokens.is_empty() {
        let Some(rest) = label_requirement(tokens) else { return false };
        tokens = match rest {
            [] => return true,
            [",", rest @ ..] if !rest.is_empty() => rest,
            _ => return false,
        };
    }
    true
}

fn is_special(byte: u8) -> bool {
    matches!(byte, b'=' | b'!' | b'(' | b')' | b',' | b'>' | b'<')
}

/// A NUL is where Go's lexer thinks the text ends: it separates tokens, and hides what follows a separator.
fn label_tokens(selector: &str) -> Vec<&str> {
    let is_space = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n');
    let mut tokens = Vec::new();
    let mut rest = selector.trim_start_matches(is_space);
    while let Some(&first) = rest.as_bytes().first().filter(|first| **first != 0) {
        let length = if rest.starts_with("==") || rest.starts_with("!=") {
            2
        } else if is_special(first) {
            1
        } else {
            let is_end = |byte: u8| byte == 0 || is_special(byte) || is_space(char::from(byte));
            rest.bytes().position(is_end).unwrap_or(rest.len())
        };
        let (token, tail) = rest.split_at(length);
        tokens.push(token);
        rest = tail.strip_prefix('\0').unwrap_or(tail).trim_start_matches(is_space);
    }
    tokens
}

/// What follows one valid requirement at the tokens' start.
fn label_requirement<'a, 'b>(tokens: &'a [&'b str]) -> Option<&'a [&'b str]> {
    let (negated, tokens) = match tokens {
        ["!", rest @ ..] => (true, rest),
        tokens => (false, tokens),
    };
    let (_, rest) = tokens.split_first().filter(|(key, _)| is_label_key(key))?;
    match rest {
        _ if negated => Some(rest),
        [] | [",", ..] => Some(rest),
        ["in" | "notin", "(", rest @ ..] => label_values(rest),
        ["=" | "==" | "!=", rest @ ..] => match rest {
            [] | [",", ..] => Some(rest),
            [value, rest @ ..] => is_label_value(value).then_some(rest),
        },
        [">" | "<", value, rest @ ..] => (is_label_value(value) && value.parse::<i64>().is_ok()).then_some(rest),
        _ => None,
    }
}

/// What follows a set's values and its closing parenthesis. Values may be empty, and are then not written at all.
fn label_values<'a, 'b>(tokens: &'a [&'b str]) -> Option<&'a [&'b str]> {
    let end = tokens.iter().position(|token| *token == ")")?;
    let (values, rest) = tokens.split_at(end);
    values
        .split(|token| *token == ",")
        .all(|value| matches!(value, []) || matches!(value, [value] if is_label_value(value)))
        .then_some(&rest[1..])
}

fn is_label_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    text.len() <= 63
        && ends.iter().all(|byte| byte.is_some_and(u8::is_ascii_alphanumeric))
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_label_name(text)
}

fn is_label_key(text: &str) -> bool {
    let is_dns_label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    match text.split_once('/') {
        Some((prefix, name)) => prefix.len() <= 253 && prefix.split('.').all(is_dns_label) && is_label_name(name),
        None => is_label_name(text),
    }
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
    fn a_field_selector_reads_as_in_go() {
        for (selector, expected) in [
            ("", Some(None)),
            ("metadata.name=a", Some(Some("a"))),
            ("metadata.name==a", Some(Some("a"))),
            ("metadata.name!=a", Some(None)),
            ("metadata.name=b,metadata.name=a", Some(Some("a"))),
            ("x=1,,metadata.name=a", Some(Some("a"))),
            (r"metadata.name=a\,b\=c\\", Some(Some(r"a,b=c\"))),
            (r"metadata.name=a\b", None),
            ("metadata.name=a=b", None),
            (r"metadata.name=a\", None),
            ("metadata.name", None),
            ("metadata.name=é,x", None),
            ("metadata.name=", Some(Some(""))),
        ] {
            let expected = expected.map(|name: Option<&str>| name.map(str::to_owned));
            assert_eq!(exact_field(selector, "metadata.name"), expected, "{selector}");
        }
    }

    #[test]
    fn a_label_selector_is_accepted_where_labels_parse_accepts_it() {
        for selector in [
            "",
            " ",
            "a",
            "!a",
            "a=b",
            "a = b , c",
            "a==",
            "a=,b",
            "a!=b",
            "a in (b)",
            "a in ()",
            "a in (,)",
            "a notin (b,,c)",
            "x.y/a in (in,notin)",
            "a>1",
            "in",
            "a\0",
            "\0x",
        ] {
            assert!(is_label_selector(selector), "{selector}");
        }
        for selector in [
            "=",
            "a,",
            ",a",
            "a b",
            "a=b c",
            "a in b",
            "a in (b",
            "a in (b c)",
            "-a",
            "a=-",
            "a/b/c=d",
            "a>x",
            "a<-1",
            "a===b",
            "(a)",
            "a in (=)",
            "é",
            "!",
            "X/a",
            "a\0b",
            "!a=b",
        ] {
            assert!(!is_label_selector(selector), "{selector}");
        }
    }
}
