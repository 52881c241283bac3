//! `jsonpatch.escapeKey`: `library.JSONPatch` of Kubernetes, for mutations only.

use super::{Result, overload, traversal_of_first};
use crate::function::Function;
use crate::value::{Error, Value};

/// The function that escapes a key for a path.
pub const FUNCTIONS: &[Function] = &[Function {
    name: "jsonpatch.escapeKey",
    overloads: &[overload("string_jsonpatch_escapeKey_string", "jsonpatch.escapeKey(string): string")],
    call: escape_key,
    cost: Some(traversal_of_first),
}];

fn escape_key<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    match arguments {
        [Value::String(key)] => Ok(Value::string(key.replace('~', "~0").replace('/', "~1"))),
        _ => Err(Error::NoSuchOverload),
    }
}
