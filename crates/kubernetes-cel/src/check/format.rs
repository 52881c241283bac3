//! Checks the clauses of a literal format against the types of a literal list of arguments: `stringFormatValidator` of cel-go's
//! `ext` library.

use crate::ast::{Expr, Id, Kind};
use crate::library::strings::clause::clause;
use crate::types::Type;
use std::collections::HashMap;

/// The error, and the argument that it is about; `None` for the format as a whole.
type Wrong = (Option<Id>, String);

/// Checks a format and its arguments.
///
/// # Errors
/// If a clause is malformed or does not take its argument, or if there are too few or too many arguments; with cel-go's text.
pub(crate) fn check(format: &str, arguments: &[Expr], types: &HashMap<Id, Type>) -> Result<(), Wrong> {
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
            return Err((None, "unexpected end of string".to_owned()));
        }
        let Some(argument) = arguments.get(asked) else { return Err((None, format!("index {asked} out of range"))) };
        asked += 1;
        let clause =
            clause(&mut rest).map_err(|message| (None, format!("could not parse formatting clause: {message}")))?;
        takes(clause.letter, argument, types)
            .map_err(|(at, message)| (Some(at), format!("error during formatting: {message}")))?;
    }
    if arguments.len() > asked {
        let given = arguments.len();
        return Err((None, format!("too many arguments supplied to string.format (expected {asked}, got {given})")));
    }
    Ok(())
}

fn takes(clause: u8, argument: &Expr, types: &HashMap<Id, Type>) -> Result<(), (Id, String)> {
    let found = types.get(&argument.id).unwrap_or(&Type::Dyn).unwrapped();
    let (fits, wants) = match (clause, found) {
        (b's', _) => {
            let wants = "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps";
            return match unprintable(argument, types) {
                Some((at, found)) => Err((at, format!("{wants}, was given {}", found.name()))),
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
    if fits || *found == Type::Dyn {
        Ok(())
    } else {
        Err((argument.id, format!("{wants}, was given {}", found.name())))
    }
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
