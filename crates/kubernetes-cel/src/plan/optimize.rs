//! Optimizations before the first evaluation, as in `decOptimize` of cel-go, and the costs of calls.

use super::nodes::{Call, Dispatch, Member, Node, Scalar, Search};
use crate::function::Cost;
use crate::re2::Regex;
use crate::release::Release;
use crate::value::{Error, Value};
use std::collections::HashSet;

/// Makes a list; a list of constants becomes a constant.
pub(super) fn list(id: u32, elements: Vec<(Node, bool)>) -> Node {
    if !elements.iter().all(|(element, optional)| matches!(element, Node::Constant(..)) && !optional) {
        return Node::List(id, elements);
    }
    let values = elements.into_iter().filter_map(|(element, _)| constant(element));
    Node::Constant(id, Value::list(values.collect()))
}

/// Makes a map; a map of constants becomes a constant.
pub(super) fn map(id: u32, entries: Vec<(Node, Node, bool)>) -> Node {
    let is_constant = |(key, value, optional): &(Node, Node, bool)| {
        matches!((key, value), (Node::Constant(..), Node::Constant(..))) && !optional
    };
    if !entries.iter().all(is_constant) {
        return Node::Map(id, entries);
    }
    Node::Constant(
        id,
        Value::map(entries.into_iter().filter_map(|(key, value, _)| Some((constant(key)?, constant(value)?)))),
    )
}

fn constant(node: Node) -> Option<Value<'static>> {
    match node {
        Node::Constant(_, value) => Some(value),
        _ => None,
    }
}

/// Optimizes a call: converts constants, compiles constant patterns, and turns `in` with a list of constants into a set lookup.
///
/// # Errors
/// If a conversion or a pattern fails.
pub(super) fn call(mut call: Call) -> Result<Node, Error> {
    const CONVERSIONS: [&str; 10] =
        ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"];
    if let [Node::Constant(_, value)] = &*call.arguments
        && CONVERSIONS.contains(&&*call.name)
    {
        let value = call.of(std::slice::from_ref(value))?;
        return Ok(Node::Constant(call.id, value));
    }
    let search = match &*call.name {
        "matches" => Some(Search::Matches),
        "find" => Some(Search::Find),
        "findAll" => Some(Search::FindAll),
        _ => None,
    };
    if let (Some(search), [_, Node::Constant(_, Value::String(pattern)), ..]) = (search, &*call.arguments) {
        let regex = Regex::compile(pattern).map_err(|error| Error::new(error.to_string()))?;
        call.dispatch = Dispatch::Search(search, regex);
        call.early = true;
    }
    if call.overload == "in_list"
        && let [_, Node::Constant(_, Value::List(list))] = &*call.arguments
    {
        if list.is_empty() {
            return Ok(Node::Constant(call.id, Value::Bool(false)));
        }
        let mut set = HashSet::new();
        if list.iter().all(|value| insert(&mut set, &value)) {
            let argument = call.arguments.swap_remove(0);
            return Ok(Node::Member(Box::new(Member { id: call.id, argument, set })));
        }
    }
    Ok(Node::Call(Box::new(call)))
}

/// Adds a constant and its equals of other types; false for a value that a set cannot hold.
fn insert(set: &mut HashSet<Scalar>, value: &Value<'_>) -> bool {
    let Some(scalar) = Scalar::of(value) else { return false };
    let within = |value: f64| value > i64::MIN as f64 && value < i64::MAX as f64;
    match value {
        Value::Double(value) => {
            let whole = value.trunc() == *value;
            set.extend((within(*value) && whole).then_some(Scalar::Int(*value as i64)));
            set.extend((whole && *value >= 0.0 && *value < u64::MAX as f64).then_some(Scalar::Uint(*value as u64)));
        }
        Value::Int(value) => {
            set.extend(Scalar::of(&Value::Double(*value as f64)));
            set.extend(u64::try_from(*value).ok().map(Scalar::Uint));
        }
        Value::Uint(value) => {
            set.extend(Scalar::of(&Value::Double(*value as f64)));
            set.extend(i64::try_from(*value).ok().map(Scalar::Int));
        }
        _ => {}
    }
    set.insert(scalar);
    true
}

impl Scalar {
    /// The scalar of a value; `None` for a value that a set cannot hold.
    pub(crate) fn of(value: &Value<'_>) -> Option<Self> {
        Some(match value {
            Value::Bool(value) => Self::Bool(*value),
            Value::Int(value) => Self::Int(*value),
            Value::Uint(value) => Self::Uint(*value),
            // Both zeros are equal.
            Value::Double(value) => Self::Double((value + 0.0).to_bits()),
            Value::String(value) => Self::String((**value).into()),
            _ => return None,
        })
    }
}

/// Whether one function of cel-go implements all overloads of a function of two arguments: a `Singleton…Binding`.
pub(super) fn has_one_binding(name: &str) -> bool {
    name.starts_with('_') || matches!(name, "@in" | "size" | "matches" | "contains" | "startsWith" | "endsWith")
}

/// Whether a function of two arguments is declared with `FunctionBinding`.
pub(super) fn takes_a_slice(name: &str) -> bool {
    matches!(name, "format")
}

/// The cost of a call of a standard library overload, if it is not 1 (`CostTracker.costCall` of cel-go).
pub(super) fn standard_cost(overload: &str, release: Release) -> Option<Cost> {
    Some(match overload {
        "starts_with_string" | "ends_with_string" if release.since(37) => |_, arguments, _| tenth(size(arguments, 1)),
        "starts_with_string" | "ends_with_string" | "string_to_bytes" | "bytes_to_string" | "strings_quote"
        | "string_format" => |_, arguments, _| tenth(size(arguments, 0)),
        "in_list" => |_, arguments, _| size(arguments, 1),
        "less_string"
        | "greater_string"
        | "less_equals_string"
        | "greater_equals_string"
        | "less_bytes"
        | "greater_bytes"
        | "less_equals_bytes"
        | "greater_equals_bytes" => |_, arguments, _| tenth(size(arguments, 0).min(size(arguments, 1))),
        "add_string" | "add_bytes" => |_, arguments, _| tenth(size(arguments, 0) + size(arguments, 1)),
        "matches" if !release.since(37) => return None,
        "matches" | "matches_string" => {
            |_, arguments, _| tenth(1 + size(arguments, 0)) * size(arguments, 1).div_ceil(4)
        }
        "contains_string" => |_, arguments, _| tenth(size(arguments, 0)) * tenth(size(arguments, 1)),
        _ => return None,
    })
}

/// The cost of visiting a text of this length: `StringTraversalCostFactor`, rounded up.
pub(crate) fn tenth(size: u64) -> u64 {
    (size as f64 * 0.1).ceil() as u64
}

fn size(arguments: &[Value<'_>], index: usize) -> u64 {
    arguments.get(index).map_or(1, Value::cost_size)
}
