//! Checks the clauses of a literal format against the types of a literal list of arguments: `stringFormatValidator` of cel-go's
//! `ext` library.

use crate::ast::{Expr, Id, Kind};
use crate::library::strings::clause::clause;
use crate::types::Type;
use std::collections::HashMap;

/// The error of a format and its arguments, with cel-go's text.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct InvalidFormat {
    /// The argument that the error is about; `None` for the format as a whole.
    pub(crate) argument: Option<Id>,
    text: String,
}

impl InvalidFormat {
    fn of_format(text: String) -> Self {
        Self { argument: None, text }
    }

    fn of_argument(argument: Id, wants: &str, found: &Type) -> Self {
        let text = format!("error during formatting: {wants}, was given {}", found.name());
        Self { argument: Some(argument), text }
    }
}

/// Checks a format and its arguments.
///
/// # Errors
/// If a clause is malformed or does not take its argument, or if there are too few or too many arguments; with cel-go's text.
pub(crate) fn check(format: &str, arguments: &[Expr], types: &HashMap<Id, Type>) -> Result<(), InvalidFormat> {
    let mut rest = format.as_bytes();
    let mut asked = 0;
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            continue;
        }
        if let [b'%', after @ ..] = rest {
            rest = after;
            continue;
        }
        if rest.is_empty() {
            return Err(InvalidFormat::of_format("unexpected end of string".to_owned()));
        }
        let Some(argument) = arguments.get(asked) else {
            return Err(InvalidFormat::of_format(format!("index {asked} out of range")));
        };
        asked += 1;
        let clause = clause(&mut rest)
            .map_err(|why| InvalidFormat::of_format(format!("could not parse formatting clause: {why}")))?;
        takes(clause.letter, argument, types)?;
    }
    if arguments.len() > asked {
        let given = arguments.len();
        let text = format!("too many arguments supplied to string.format (expected {asked}, got {given})");
        return Err(InvalidFormat::of_format(text));
    }
    Ok(())
}

fn takes(clause: u8, argument: &Expr, types: &HashMap<Id, Type>) -> Result<(), InvalidFormat> {
    let found = types.get(&argument.id).unwrap_or(&Type::Dyn).unwrapped();
    let (fits, wants) = match (clause, found) {
        (b's', _) => {
            let wants = "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps";
            return match unprintable(argument, types) {
                Some((at, found)) => Err(InvalidFormat::of_argument(at, wants, found)),
                None => Ok(()),
            };
        }
        (b'd', found) => (matches!(found, Type::Int | Type::Uint), "decimal clause can only be used on integers"),
        (b'f', found) => {
            (matches!(found, Type::Double | Type::String), "fixed-point clause can only be used on doubles")
        }
        (b'e', found) => {
            (matches!(found, Type::Double | Type::String), "scientific clause can only be used on doubles")
        }
        (b'b', found) => {
            (matches!(found, Type::Int | Type::Uint | Type::Bool), "only integers and bools can be formatted as binary")
        }
        (b'o', found) => (matches!(found, Type::Int | Type::Uint), "octal clause can only be used on integers"),
        (_, found) => (
            matches!(found, Type::Int | Type::Uint | Type::String | Type::Bytes),
            "only integers, byte buffers, and strings can be formatted as hex",
        ),
    };
    if fits || *found == Type::Dyn { Ok(()) } else { Err(InvalidFormat::of_argument(argument.id, wants, found)) }
}

/// The first part of an argument that `%s` does not accept.
fn unprintable<'t>(argument: &Expr, types: &'t HashMap<Id, Type>) -> Option<(Id, &'t Type)> {
    let found = types.get(&argument.id).unwrap_or(&Type::Dyn);
    if matches!(found, Type::Object(_) | Type::Opaque(..) | Type::Parameter(_) | Type::Any | Type::Error) {
        return Some((argument.id, found));
    }
    match &argument.kind {
        Kind::List { elements, .. } => elements.iter().find_map(|element| unprintable(element, types)),
        Kind::Map(entries) => {
            entries.iter().flat_map(|entry| [&entry.key, &entry.value]).find_map(|part| unprintable(part, types))
        }
        _ => None,
    }
}
