//! The functions of Kubernetes' environment, one file for each library.

pub mod authz;
pub(crate) mod cidr;
pub(crate) mod comprehensions;
pub(crate) mod format;
pub(crate) mod ip;
pub mod jsonpatch;
pub(crate) mod list_extensions;
pub(crate) mod lists;
pub(crate) mod optional;
pub(crate) mod quantity;
pub(crate) mod regex;
pub(crate) mod semver;
pub(crate) mod sets;
pub(crate) mod standard;
pub mod strings;
pub mod url;

mod net;

use super::function::{Function, Overload};
use super::release::Release;
use super::value::{Error, Opaque, Value};
use std::any::Any;

/// The libraries that every release has, and those of one release.
macro_rules! libraries {
    ($($of_release:path),*) => {
        &[
            standard::FUNCTIONS,
            optional::FUNCTIONS,
            url::FUNCTIONS,
            regex::FUNCTIONS,
            lists::FUNCTIONS,
            authz::FUNCTIONS,
            quantity::FUNCTIONS,
            strings::FUNCTIONS,
            sets::FUNCTIONS,
            ip::FUNCTIONS,
            cidr::FUNCTIONS,
            format::FUNCTIONS,
            comprehensions::FUNCTIONS,
            semver::FUNCTIONS,
            list_extensions::FUNCTIONS,
            $($of_release),*
        ]
    };
}

pub(crate) const UNTIL_36: &[&[Function]] =
    libraries!(standard::UNTIL_36, strings::UNTIL_36, list_extensions::UNTIL_36);
/// The libraries of new expressions in 1.37.
pub(crate) const NEW_IN_37: &[&[Function]] =
    libraries!(standard::SINCE_37, strings::SINCE_37, list_extensions::SINCE_37);
pub(crate) const SINCE_37: &[&[Function]] =
    libraries!(standard::SINCE_37, strings::SINCE_37, list_extensions::SINCE_37, lists::SINCE_37);

/// Every library that `environment.MustBaseEnvSet` of a release enables.
pub fn of(release: Release) -> &'static [&'static [Function]] {
    match (release.has_functions_of(37), release.since(37)) {
        (true, _) => SINCE_37,
        (false, true) => NEW_IN_37,
        (false, false) => UNTIL_36,
    }
}

/// The bytes of a text that an expression makes. Costs are counted only afterwards, when the text exists.
const MAX_TEXT_BYTES: usize = 16 << 20;
/// The number of elements of a list that a function makes.
const MAX_ELEMENTS: usize = 2_000_000;
/// The highest cost of an evaluation in Kubernetes (`PerCallLimit`): a single step that costs more is skipped.
const PER_CALL_LIMIT: u64 = 1_000_000;

type Result<'a> = std::result::Result<Value<'a>, Error>;

const fn overload(id: &'static str, signature: &'static str) -> Overload {
    Overload { id, signature }
}

/// `actualSize` of Kubernetes' costs: one for a value without a size.
fn size(arguments: &[Value<'_>], at: usize) -> u64 {
    arguments.get(at).and_then(Value::size).unwrap_or(1)
}

/// The cost of visiting a text of this length `times` times (`StringTraversalCostFactor`).
fn traversal(size: u64, times: f64) -> u64 {
    (size as f64 * times * 0.1).ceil() as u64
}

/// The cost of visiting the first argument.
fn traversal_of_first(_: &str, arguments: &[Value<'_>], _: &Value<'_>) -> u64 {
    traversal(size(arguments, 0), 1.0)
}

/// The cost of a match, by both lengths (`RegexStringLengthCostFactor`).
fn matching(text: u64, pattern: u64) -> u64 {
    ((1.0 + text as f64) * 0.1).ceil() as u64 * (pattern as f64 * 0.25).ceil() as u64
}

/// Downcasts a library's value.
fn opaque<'v, T: Opaque>(value: &'v Value<'_>) -> Option<&'v T> {
    match value {
        Value::Opaque(value) => (&**value as &dyn Any).downcast_ref(),
        _ => None,
    }
}

/// Downcasts the other value of a comparison.
///
/// # Errors
/// If the other value is of another type, which is not inequality for values of libraries.
fn same<T: Opaque>(other: &dyn Opaque) -> std::result::Result<&T, Error> {
    (other as &dyn Any).downcast_ref().ok_or(Error::OVERLOAD)
}

/// Converts bytes to text as Go does: each byte that is no part of a character becomes a replacement character.
fn text_of(bytes: &[u8]) -> Value<'static> {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Value::string(text)
}

fn too_large<'a>() -> Result<'a> {
    Err(Error::new("the result is too large"))
}

#[cfg(test)]
mod tests;
