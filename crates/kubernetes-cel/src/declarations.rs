//! The signatures of functions, parsed once from the tables of the libraries.

use crate::function::Function;
use crate::library;
use crate::release::Release;
use crate::types::Type;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// The functions of an environment by name.
pub(crate) type Functions = HashMap<&'static str, Vec<Declaration>>;

/// An overload in the form that the checker needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Declaration {
    /// The id in cel-go.
    pub id: &'static str,
    /// Whether the overload is a method of its first argument.
    pub method: bool,
    /// The names of the type parameters.
    pub parameters: Vec<Arc<str>>,
    /// The types of the arguments, a method's target first.
    pub arguments: Vec<Type>,
    /// The type of the result.
    pub result: Type,
}

/// The declarations of [`library::of`] a release, parsed once.
pub(crate) fn of(release: Release) -> Arc<Functions> {
    static UNTIL_36: LazyLock<Arc<Functions>> = LazyLock::new(|| all(library::UNTIL_36));
    static NEW_IN_37: LazyLock<Arc<Functions>> = LazyLock::new(|| all(library::NEW_IN_37));
    static SINCE_37: LazyLock<Arc<Functions>> = LazyLock::new(|| all(library::SINCE_37));
    Arc::clone(match (release.has_functions_of(37), release.since(37)) {
        (true, _) => &*SINCE_37,
        (false, true) => &*NEW_IN_37,
        (false, false) => &*UNTIL_36,
    })
}

fn all(libraries: &[&'static [Function]]) -> Arc<Functions> {
    let mut functions = Functions::new();
    libraries.iter().for_each(|library| declare(&mut functions, library));
    Arc::new(functions)
}

/// Adds the declarations of a library. Skips a malformed signature; a test checks that there is none.
pub(crate) fn declare(functions: &mut Functions, library: &'static [Function]) {
    for function in library {
        let declarations = functions.entry(function.name).or_default();
        declarations.extend(
            function.overloads.iter().filter_map(|overload| read(function.name, overload.id, overload.signature)),
        );
    }
}

/// Parses `string.indexOf(string, int): int`.
fn read(name: &str, id: &'static str, signature: &str) -> Option<Declaration> {
    // The text before the name is the target. A name contains no parentheses, but a type may.
    let (before, rest) = match signature.strip_prefix(name) {
        Some(rest) if rest.starts_with('(') => ("", rest),
        _ => {
            let (target, rest) = signature.split_at(signature.rfind(&format!(".{name}("))?);
            (target, rest.get(1 + name.len()..)?)
        }
    };
    let (arguments, result) = rest.strip_prefix('(')?.rsplit_once("): ")?;
    let mut types = Vec::new();
    if !before.is_empty() {
        types.push(read_type(before)?);
    }
    for argument in split(arguments) {
        types.push(read_type(argument)?);
    }
    let result = read_type(result)?;
    let mut parameters = Vec::new();
    [&result].into_iter().chain(&types).for_each(|of| collect_parameters(of, &mut parameters));
    Some(Declaration {
        id,
        method: !before.is_empty(),
        parameters: parameters.into_iter().collect(),
        arguments: types,
        result,
    })
}

fn collect_parameters(of: &Type, into: &mut Vec<Arc<str>>) {
    match of {
        Type::Parameter(name) if into.contains(name) => {}
        Type::Parameter(name) => into.push(name.clone()),
        _ => of.parameters().into_iter().for_each(|of| collect_parameters(of, into)),
    }
}

/// Splits at commas outside of parentheses.
fn split(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0usize;
    list.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .map(str::trim)
    .filter(|part| !part.is_empty())
}

/// Parses a type of a signature.
pub(crate) fn read_type(text: &str) -> Option<Type> {
    if let Some((name, rest)) = text.split_once('(') {
        let mut parameters = split(rest.strip_suffix(')')?).map(read_type).collect::<Option<Vec<_>>>()?.into_iter();
        return Some(match name {
            "list" => Type::list(parameters.next()?),
            "map" => Type::map(parameters.next()?, parameters.next()?),
            "type" => Type::Type(Arc::new(parameters.next()?)),
            name => Type::Opaque(name.into(), parameters.collect()),
        });
    }
    Some(match text {
        "dyn" => Type::Dyn,
        "null_type" => Type::Null,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "duration" | "google.protobuf.Duration" => Type::Duration,
        "timestamp" | "google.protobuf.Timestamp" => Type::Timestamp,
        name if name.len() == 1 && name.chars().all(|c| c.is_ascii_uppercase()) => Type::Parameter(name.into()),
        name if name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_')) && !name.is_empty() => {
            Type::opaque(name)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signature_of_every_library_can_be_read() {
        for function in [library::UNTIL_36, library::SINCE_37].concat().into_iter().flatten() {
            for overload in function.overloads {
                let read = read(function.name, overload.id, overload.signature);
                assert!(read.is_some(), "{}: {}", overload.id, overload.signature);
            }
        }
    }

    #[test]
    fn methods_have_their_target_first() {
        let read = read("join", "list_join_string", "list(string).join(string): string");
        let read = read.map(|read| (read.method, read.arguments, read.result));
        assert_eq!(read, Some((true, vec![Type::list(Type::String), Type::String], Type::String)));
    }

    #[test]
    fn operators_and_qualified_names_are_functions() {
        let operator =
            read("_[_]", "index_map", "_[_](map(A, B), A): B").map(|read| (read.method, read.parameters.len()));
        assert_eq!(operator, Some((false, 2)));
        let qualified = read("strings.quote", "strings_quote", "strings.quote(string): string").map(|read| read.method);
        assert_eq!(qualified, Some(false));
    }
}
