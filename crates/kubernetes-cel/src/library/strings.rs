//! Parts and forms of text: `ext.Strings` of cel-go in version 2. Positions in a text are counted in code points.

pub(crate) mod clause;
mod format;
mod number;

use super::{MAX_ELEMENTS, MAX_TEXT_BYTES, Result, lists, overload, size, too_large, traversal, traversal_of_first};
use crate::function::Function;
use crate::value::{Error, Value};
use std::fmt::Write;

/// Functions of text that are the same in all releases.
pub const FUNCTIONS: &[Function] = &[
    Function {
        name: "charAt",
        overloads: &[overload("string_char_at_int", "string.charAt(int): string")],
        call: char_at,
        cost: None,
    },
    Function {
        name: "lowerAscii",
        overloads: &[overload("string_lower_ascii", "string.lowerAscii(): string")],
        call: |arguments| text(arguments).map(|text| Value::string(text.to_ascii_lowercase())),
        cost: Some(traversal_of_first),
    },
    Function {
        name: "upperAscii",
        overloads: &[overload("string_upper_ascii", "string.upperAscii(): string")],
        call: |arguments| text(arguments).map(|text| Value::string(text.to_ascii_uppercase())),
        cost: Some(traversal_of_first),
    },
    Function {
        name: "replace",
        overloads: &[
            overload("string_replace_string_string", "string.replace(string, string): string"),
            overload("string_replace_string_string_int", "string.replace(string, string, int): string"),
        ],
        call: replace,
        cost: Some(|_, arguments, _| traversal(size(arguments, 0), 2.0)),
    },
    Function {
        name: "split",
        overloads: &[
            overload("string_split_string", "string.split(string): list(string)"),
            overload("string_split_string_int", "string.split(string, int): list(string)"),
        ],
        call: split,
        cost: Some(|_, arguments, _| traversal(size(arguments, 0), 2.0)),
    },
    Function {
        name: "substring",
        overloads: &[
            overload("string_substring_int", "string.substring(int): string"),
            overload("string_substring_int_int", "string.substring(int, int): string"),
        ],
        call: substring,
        cost: Some(traversal_of_first),
    },
    Function {
        name: "trim",
        overloads: &[overload("string_trim", "string.trim(): string")],
        call: |arguments| text(arguments).map(|text| Value::string(text.trim())),
        cost: Some(traversal_of_first),
    },
    Function {
        name: "format",
        overloads: &[overload("string_format", "string.format(list(dyn)): string")],
        call: |arguments| match arguments {
            [Value::String(text), Value::List(values)] => format::format(text, values).map(Value::string),
            _ => Err(Error::NoSuchOverload),
        },
        cost: None,
    },
    Function {
        name: "strings.quote",
        overloads: &[overload("strings_quote", "strings.quote(string): string")],
        call: |arguments| text(arguments).map(|text| Value::string(quote(text))),
        cost: None,
    },
    Function {
        name: "join",
        overloads: &[
            overload("list_join", "list(string).join(): string"),
            overload("list_join_string", "list(string).join(string): string"),
        ],
        call: join,
        cost: Some(|_, _, result| traversal(result.size().unwrap_or(1), 2.0)),
    },
];

/// The functions that differ between releases.
macro_rules! of_release {
    ($index_of:expr, $last_index_of:expr) => {
        &[
            Function {
                name: "indexOf",
                overloads: &[
                    overload("string_index_of_string", "string.indexOf(string): int"),
                    overload("string_index_of_string_int", "string.indexOf(string, int): int"),
                ],
                call: $index_of,
                cost: Some(lists::cost),
            },
            Function {
                name: "lastIndexOf",
                overloads: &[
                    overload("string_last_index_of_string", "string.lastIndexOf(string): int"),
                    overload("string_last_index_of_string_int", "string.lastIndexOf(string, int): int"),
                ],
                call: $last_index_of,
                cost: Some(lists::cost),
            },
        ]
    };
}

pub(crate) const UNTIL_36: &[Function] = of_release!(index_of, last_index_of);
pub(crate) const SINCE_37: &[Function] =
    of_release!(|arguments| index_of_empty(arguments).unwrap_or_else(|| index_of(arguments)), |arguments| {
        index_of_empty(arguments).unwrap_or_else(|| last_index_of(arguments))
    });

fn text<'v>(arguments: &'v [Value<'_>]) -> std::result::Result<&'v str, Error> {
    match arguments {
        [Value::String(text)] => Ok(text),
        _ => Err(Error::NoSuchOverload),
    }
}

fn out_of_range<'a>(index: i64) -> Result<'a> {
    Err(Error::new(format!("index out of range: {index}")))
}

/// The byte at which a code point begins; the end is one past the last code point. `None` if the text is shorter.
fn byte_of(text: &str, index: i64) -> Option<usize> {
    let index = usize::try_from(index).ok()?;
    let starts = text.char_indices().map(|(at, _)| at);
    starts.chain([text.len()]).nth(index)
}

/// The number of code points before a byte.
fn index_of_byte(text: &str, at: usize) -> i64 {
    text.get(..at).map_or(0, |before| before.chars().count() as i64)
}

fn char_at<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    let [Value::String(text), Value::Int(index)] = arguments else { return Err(Error::NoSuchOverload) };
    let Some(at) = byte_of(text, *index) else { return out_of_range(*index) };
    let character = text.get(at..).and_then(|rest| rest.chars().next());
    Ok(character.map_or(Value::text(""), |character| Value::string(character.to_string())))
}

/// The position of an empty text at an offset since 1.37: the offset, and at most the length. `None` for other arguments.
fn index_of_empty<'a>(arguments: &[Value<'a>]) -> Option<Result<'a>> {
    match arguments {
        [Value::String(_), Value::String(part), Value::Int(offset)] if part.is_empty() && *offset < 0 => {
            Some(out_of_range(*offset))
        }
        [Value::String(text), Value::String(part), Value::Int(offset)] if part.is_empty() => {
            Some(Ok(Value::Int((*offset).min(text.chars().count() as i64))))
        }
        _ => None,
    }
}

fn index_of<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    let (text, part, offset) = match arguments {
        [Value::String(text), Value::String(part)] => (text, part, 0),
        [Value::String(text), Value::String(part), Value::Int(offset)] => (text, part, *offset),
        _ => return Err(Error::NoSuchOverload),
    };
    if part.is_empty() {
        return Ok(Value::Int(offset));
    }
    if offset < 0 {
        return out_of_range(offset);
    }
    let found = byte_of(text, offset).and_then(|from| Some(from + text.get(from..)?.find(&**part)?));
    Ok(Value::Int(found.map_or(-1, |at| index_of_byte(text, at))))
}

fn last_index_of<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    let (text, part, offset) = match arguments {
        [Value::String(text), Value::String(part)] if part.is_empty() => {
            return Ok(Value::Int(text.chars().count() as i64));
        }
        [Value::String(text), Value::String(part)] => (text, part, None),
        [Value::String(text), Value::String(part), Value::Int(offset)] => (text, part, Some(*offset)),
        _ => return Err(Error::NoSuchOverload),
    };
    let end = match offset {
        None => text.len(),
        Some(offset) if part.is_empty() => return Ok(Value::Int(offset)),
        Some(offset) if offset < 0 => return out_of_range(offset),
        Some(offset) => match byte_of(text, offset) {
            Some(from) if from < text.len() => text.len().min(from + part.len()),
            // An offset beyond the text finds nothing.
            _ => return Ok(Value::Int(-1)),
        },
    };
    // A match must begin at the offset or before it, and so end at this byte or before it.
    let found = text.get(..text.floor_char_boundary(end)).and_then(|text| text.rfind(&**part));
    Ok(Value::Int(found.map_or(-1, |at| index_of_byte(text, at))))
}

fn replace<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    let (text, old, new, count) = match arguments {
        [Value::String(text), Value::String(old), Value::String(new)] => (text, old, new, -1),
        [Value::String(text), Value::String(old), Value::String(new), Value::Int(count)] => (text, old, new, *count),
        _ => return Err(Error::NoSuchOverload),
    };
    // A negative count means any number.
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let places = text.matches(&**old).take(count).count();
    if text.len().saturating_add(places.saturating_mul(new.len())) > MAX_TEXT_BYTES {
        return too_large();
    }
    Ok(Value::string(text.replacen(&**old, new, count)))
}

fn split<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    let (text, separator, count) = match arguments {
        [Value::String(text), Value::String(separator)] => (text, separator, -1),
        [Value::String(text), Value::String(separator), Value::Int(count)] => (text, separator, *count),
        _ => return Err(Error::NoSuchOverload),
    };
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let parts: Vec<_> = if separator.is_empty() {
        let starts = text.char_indices().map(|(at, _)| at).skip(1).take(count.saturating_sub(1));
        let ends: Vec<_> = starts.chain([text.len()]).take(MAX_ELEMENTS + 1).collect();
        let starts = [0].into_iter().chain(ends.iter().copied());
        let parts = starts.zip(&ends).filter_map(|(from, to)| text.get(from..*to));
        if text.is_empty() || count == 0 { Vec::new() } else { parts.collect() }
    } else {
        text.splitn(count, &**separator).take(MAX_ELEMENTS + 1).collect()
    };
    if parts.len() > MAX_ELEMENTS {
        return too_large();
    }
    Ok(Value::list(parts.into_iter().map(Value::string).collect()))
}

fn substring<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    let (text, start, end) = match arguments {
        [Value::String(text), Value::Int(start)] => (text, *start, None),
        [Value::String(_), Value::Int(start), Value::Int(end)] if start > end => {
            return Err(Error::new(format!("invalid substring range. start: {start}, end: {end}")));
        }
        [Value::String(text), Value::Int(start), Value::Int(end)] => (text, *start, Some(*end)),
        _ => return Err(Error::NoSuchOverload),
    };
    let Some(from) = byte_of(text, start) else { return out_of_range(start) };
    let to = match end {
        None => text.len(),
        Some(end) => match byte_of(text, end) {
            Some(to) => to,
            None => return out_of_range(end),
        },
    };
    Ok(Value::string(text.get(from..to).unwrap_or_default()))
}

fn join<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    let (list, separator) = match arguments {
        [list] => (list, ""),
        [list, Value::String(separator)] => (list, &**separator),
        _ => return Err(Error::NoSuchOverload),
    };
    let list = lists::list_of(std::slice::from_ref(list), |first| matches!(first, Value::String(_)))?;
    let mut joined = String::new();
    for (at, element) in list.iter().enumerate() {
        let Value::String(part) = &element else {
            return Err(Error::new(format!("join: invalid input: {element}")));
        };
        if at > 0 {
            joined.push_str(separator);
        }
        joined.push_str(part);
        if joined.len() > MAX_TEXT_BYTES {
            return too_large();
        }
    }
    Ok(Value::string(joined))
}

/// Writes the text as a literal of the language.
fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        let escaped = match character {
            '\x07' => 'a',
            '\x08' => 'b',
            '\x0c' => 'f',
            '\n' => 'n',
            '\r' => 'r',
            '\t' => 't',
            '\x0b' => 'v',
            '\\' | '"' => character,
            other => {
                quoted.push(other);
                continue;
            }
        };
        let _ = write!(quoted, "\\{escaped}");
    }
    quoted.push('"');
    quoted
}
