//! Lists as sets: `ext.Sets` of cel-go.

use super::{PER_CALL_LIMIT, Result, overload, size};
use crate::function::Function;
use crate::value::{Error, List, Value};

/// Functions that compare lists as sets.
pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "sets.contains",
        overloads: &[overload("list_sets_contains_list", "sets.contains(list(T), list(T)): bool")],
        call: |arguments| compare(arguments, 1, |set, subset| contains(set, subset)),
        cost: Some(|_, arguments, _| cost(arguments, 1)),
    },
    Function {
        name: "sets.equivalent",
        overloads: &[overload("list_sets_equivalent_list", "sets.equivalent(list(T), list(T)): bool")],
        call: |arguments| compare(arguments, 2, |a, b| Ok(contains(a, b)? && contains(b, a)?)),
        cost: Some(|_, arguments, _| cost(arguments, 2)),
    },
    Function {
        name: "sets.intersects",
        overloads: &[overload("list_sets_intersects_list", "sets.intersects(list(T), list(T)): bool")],
        call: |arguments| compare(arguments, 1, |a, b| any(a, |element| element.is_in(b))),
        cost: Some(|_, arguments, _| cost(arguments, 1)),
    },
];

fn cost(arguments: &[Value<'_>], times: u64) -> u64 {
    size(arguments, 0).saturating_mul(size(arguments, 1)).saturating_mul(times).saturating_add(1)
}

type Holds = std::result::Result<bool, Error>;

fn compare<'a>(arguments: &[Value<'a>], times: u64, holds: fn(&List<'a>, &List<'a>) -> Holds) -> Result<'a> {
    let [Value::List(a), Value::List(b)] = arguments else { return Err(Error::NoSuchOverload) };
    if cost(arguments, times) > PER_CALL_LIMIT {
        return Err(Error::CostLimit);
    }
    holds(a, b).map(Value::Bool)
}

fn contains(set: &List<'_>, subset: &List<'_>) -> Holds {
    Ok(!any(subset, |element| Ok(!element.is_in(set)?))?)
}

fn any(list: &List<'_>, holds: impl Fn(&Value<'_>) -> Holds) -> Holds {
    for element in list.iter() {
        if holds(&element)? {
            return Ok(true);
        }
    }
    Ok(false)
}
