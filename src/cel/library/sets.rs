//! Lists as sets, `ext.Sets` of cel-go.

use super::{PER_CALL_LIMIT, Result, overload, size};
use crate::cel::function::Function;
use crate::cel::value::{Error, List, Value};

/// What compares lists as sets.
pub const FUNCTIONS: &[Function] = &[
    Function {
        name: "sets.contains",
        overloads: &[overload("list_sets_contains_list", "sets.contains(list(T), list(T)): bool")],
        call: |arguments| compare(arguments, 1, |set, subset| contains(set, subset)),
        cost: Some(|_, arguments, _| cost(arguments, 1)),
    },
    Function {
        name: "sets.equivalent",
        overloads: &[overload("list_sets_equivalent_list", "sets.equivalent(list(T), list(T)): bool")],
        call: |arguments| compare(arguments, 2, |a, b| contains(a, b) && contains(b, a)),
        cost: Some(|_, arguments, _| cost(arguments, 2)),
    },
    Function {
        name: "sets.intersects",
        overloads: &[overload("list_sets_intersects_list", "sets.intersects(list(T), list(T)): bool")],
        call: |arguments| compare(arguments, 1, |a, b| a.iter().any(|element| has(b, &element))),
        cost: Some(|_, arguments, _| cost(arguments, 1)),
    },
];

fn cost(arguments: &[Value<'_>], times: u64) -> u64 {
    size(arguments, 0).saturating_mul(size(arguments, 1)).saturating_mul(times).saturating_add(1)
}

fn compare<'a>(arguments: &[Value<'a>], times: u64, holds: fn(&List<'a>, &List<'a>) -> bool) -> Result<'a> {
    let [Value::List(a), Value::List(b)] = arguments else { return Err(Error::NoSuchOverload) };
    if cost(arguments, times) > PER_CALL_LIMIT {
        return Err(Error::CostLimit);
    }
    Ok(Value::Bool(holds(a, b)))
}

fn contains(set: &List<'_>, subset: &List<'_>) -> bool {
    subset.iter().all(|element| has(set, &element))
}

fn has(list: &List<'_>, element: &Value<'_>) -> bool {
    list.iter().any(|each| element.contained_as(&each))
}
