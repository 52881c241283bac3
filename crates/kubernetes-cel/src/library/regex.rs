//! `find` and `findAll`: `library.Regex` of Kubernetes.

use super::{MAX_ELEMENTS, Result, matching, overload, size, too_large};
use crate::function::Function;
use crate::re2::Regex;
use crate::value::{Error, Text, Value};

/// Functions that find parts of a text.
pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "find",
        overloads: &[overload("string_find_string", "string.find(string): string")],
        call: find,
        cost: Some(cost),
    },
    Function {
        name: "findAll",
        overloads: &[
            overload("string_find_all_string", "string.findAll(string): list(string)"),
            overload("string_find_all_string_int", "string.findAll(string, int): list(string)"),
        ],
        call: find_all,
        cost: Some(cost),
    },
];

fn cost(_: &str, arguments: &[Value<'_>], _: &Value<'_>) -> u64 {
    matching(size(arguments, 0), size(arguments, 1))
}

fn compiled(pattern: &str) -> std::result::Result<Regex, Error> {
    Regex::compile(pattern).map_err(|error| Error::new(format!("Illegal regex: {error}")))
}

/// A part of a text; borrowed if the text is borrowed.
fn part<'a>(of: &Text<'a>, found: &str) -> Value<'a> {
    match of {
        Text::Borrowed(text) => {
            let at = found.as_ptr() as usize - text.as_ptr() as usize;
            Value::text(text.get(at..at + found.len()).unwrap_or_default())
        }
        Text::Shared(_) => Value::string(found),
    }
}

fn find<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    let [Value::String(text), Value::String(pattern)] = arguments else { return Err(Error::NoSuchOverload) };
    Ok(find_with(&compiled(pattern)?, text))
}

fn find_all<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    match arguments {
        [Value::String(text), Value::String(pattern)] => find_all_with(&compiled(pattern)?, text, -1),
        [Value::String(text), Value::String(pattern), Value::Int(limit)] => {
            find_all_with(&compiled(pattern)?, text, *limit)
        }
        _ => Err(Error::NoSuchOverload),
    }
}

/// The first part of a text that matches a pattern, or the empty text.
pub(crate) fn find_with<'a>(regex: &Regex, text: &Text<'a>) -> Value<'a> {
    regex.find(text).map_or(Value::text(""), |found| part(text, found))
}

/// Up to `limit` parts of a text that match a pattern; all of them for a negative limit.
pub(crate) fn find_all_with<'a>(regex: &Regex, text: &Text<'a>, limit: i64) -> Result<'a> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let found: Vec<_> = regex.find_all(text).take(limit.min(MAX_ELEMENTS + 1)).map(|found| part(text, found)).collect();
    if found.len() > MAX_ELEMENTS { too_large() } else { Ok(Value::list(found)) }
}
