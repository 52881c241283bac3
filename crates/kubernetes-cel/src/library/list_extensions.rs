//! Slices, sorting and flattening of lists: `ext.Lists` of cel-go in version 3.

mod order;

use super::lists::is_comparable;
use super::{MAX_ELEMENTS, PER_CALL_LIMIT, Result, overload, size, too_large};
use crate::function::Function;
use crate::value::{Error, List, Value};
use crate::work;
use std::cmp::Ordering;
use std::sync::Arc;

/// Functions that return lists, the same in all releases.
pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "slice",
        overloads: &[overload("list_slice", "list(T).slice(int, int): list(T)")],
        call: slice,
        cost: Some(cost_of_result),
    },
    Function {
        name: "flatten",
        overloads: &[
            overload("list_flatten", "list(list(T)).flatten(): list(T)"),
            overload("list_flatten_int", "list(dyn).flatten(int): list(dyn)"),
        ],
        call: flatten,
        cost: Some(cost_of_flatten),
    },
    Function {
        name: "sort",
        overloads: &[
            overload("list_int_sort", "list(int).sort(): list(int)"),
            overload("list_uint_sort", "list(uint).sort(): list(uint)"),
            overload("list_double_sort", "list(double).sort(): list(double)"),
            overload("list_bool_sort", "list(bool).sort(): list(bool)"),
            overload("list_google.protobuf.Duration_sort", "list(duration).sort(): list(duration)"),
            overload("list_google.protobuf.Timestamp_sort", "list(timestamp).sort(): list(timestamp)"),
            overload("list_string_sort", "list(string).sort(): list(string)"),
            overload("list_bytes_sort", "list(bytes).sort(): list(bytes)"),
        ],
        call: |arguments| match arguments {
            [Value::List(list)] => sorted(list, list),
            _ => Err(Error::NoSuchOverload),
        },
        cost: Some(|overload, arguments, _| cost_of_comparisons(overload, arguments, 0)),
    },
    // The function behind the macro `sortBy`.
    Function {
        name: "@sortByAssociatedKeys",
        overloads: &[
            overload("list_int_sortByAssociatedKeys", "list(T).@sortByAssociatedKeys(list(int)): list(T)"),
            overload("list_uint_sortByAssociatedKeys", "list(T).@sortByAssociatedKeys(list(uint)): list(T)"),
            overload("list_double_sortByAssociatedKeys", "list(T).@sortByAssociatedKeys(list(double)): list(T)"),
            overload("list_bool_sortByAssociatedKeys", "list(T).@sortByAssociatedKeys(list(bool)): list(T)"),
            overload(
                "list_google.protobuf.Duration_sortByAssociatedKeys",
                "list(T).@sortByAssociatedKeys(list(duration)): list(T)",
            ),
            overload(
                "list_google.protobuf.Timestamp_sortByAssociatedKeys",
                "list(T).@sortByAssociatedKeys(list(timestamp)): list(T)",
            ),
            overload("list_string_sortByAssociatedKeys", "list(T).@sortByAssociatedKeys(list(string)): list(T)"),
            overload("list_bytes_sortByAssociatedKeys", "list(T).@sortByAssociatedKeys(list(bytes)): list(T)"),
        ],
        call: |arguments| match arguments {
            [Value::List(list), Value::List(keys)] => sorted(list, keys),
            _ => Err(Error::NoSuchOverload),
        },
        cost: Some(|overload, arguments, _| cost_of_comparisons(overload, arguments, 1)),
    },
    Function {
        name: "reverse",
        overloads: &[overload("list_reverse", "list(T).reverse(): list(T)")],
        call: |arguments| match arguments {
            [Value::List(list)] => Ok(Value::list((0..list.len()).rev().filter_map(|at| list.get(at)).collect())),
            _ => Err(Error::NoSuchOverload),
        },
        cost: Some(cost_of_result),
    },
    Function {
        name: "distinct",
        overloads: &[overload("list_distinct", "list(T).distinct(): list(T)")],
        call: distinct,
        cost: Some(|overload, arguments, _| cost_of_comparisons(overload, arguments, 0)),
    },
];

pub(crate) const UNTIL_36: &[Function] = &[Function {
    name: "lists.range",
    overloads: &[overload("lists_range", "lists.range(int): list(int)")],
    call: range,
    cost: Some(cost_of_result),
}];

pub(crate) const SINCE_37: &[Function] = &[Function {
    name: "lists.range",
    overloads: &[overload("lists_range", "lists.range(int): list(int)")],
    call: |arguments| match arguments {
        [Value::Int(count @ ..0)] => Err(Error::new(format!("lists.range: size must be non-negative, got {count}"))),
        [Value::Int(count)] if *count > MAX_RANGE => {
            Err(Error::new(format!("lists.range: size {count} exceeds maximum allowed ({MAX_RANGE})")))
        }
        arguments => range(arguments),
    },
    cost: Some(cost_of_result),
}];

/// The number of elements that `lists.range` makes since 1.37: `defaultMaxRangeSize`.
const MAX_RANGE: i64 = 1_000_000;

/// The cost of a call and of a new list, without the costs that depend on sizes (`trackAllocatingListCall`).
const NEW_LIST: u64 = 1 + 10;

fn cost_of_result(_: &str, _: &[Value<'_>], result: &Value<'_>) -> u64 {
    result.size().unwrap_or(1) + NEW_LIST
}

/// The cost of `flatten`: each level visits the list. A negative number of levels wraps around, as in Go.
fn cost_of_flatten(_: &str, arguments: &[Value<'_>], _: &Value<'_>) -> u64 {
    let levels = match arguments.get(1) {
        Some(Value::Int(levels)) => *levels as f64,
        _ => 1.0,
    };
    let cost = levels * size(arguments, 0) as f64;
    let cost = if cost < 0.0 { cost as i64 as u64 } else { cost as u64 };
    cost.wrapping_add(NEW_LIST)
}

/// The cost of comparing every element with every other one, twice, plus the cost of reading text (`trackListSelfCompare`).
fn cost_of_comparisons(overload: &str, arguments: &[Value<'_>], at: usize) -> u64 {
    // cel-go counts by overload, and counts 1 if the checker left several overloads.
    if overload.is_empty() {
        return 1;
    }
    let first = match arguments.get(at) {
        Some(Value::List(list)) => list.get(0),
        _ => None,
    };
    let times = if matches!(first, Some(Value::String(_) | Value::Bytes(_))) { 2.1 } else { 2.0 };
    let size = size(arguments, at);
    (size.saturating_mul(size) as f64 * times) as u64 + NEW_LIST
}

fn slice<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = arguments else { return Err(Error::NoSuchOverload) };
    let wrong = |why: &str| Err(Error::new(format!("cannot slice({start}, {end}), {why}")));
    let (Ok(from), Ok(to)) = (usize::try_from(*start), usize::try_from(*end)) else {
        return wrong("negative indexes not supported");
    };
    if from > to {
        return wrong("start index must be less than or equal to end index");
    }
    if list.len() < to {
        return wrong(&format!("list is length {}", list.len()));
    }
    Ok(Value::list((from..to).filter_map(|at| list.get(at)).collect()))
}

fn flatten<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    let no_overload = |call: String| Err(Error::new(format!("no such overload: {call}")));
    let (list, levels) = match arguments {
        [Value::List(list)] => (list, 1),
        [Value::List(list), Value::Int(levels)] => (list, *levels),
        [other] => return no_overload(format!("{}.flatten()", other.type_name())),
        [other, levels] => return no_overload(format!("{}.flatten({})", other.type_name(), levels.type_name())),
        _ => return Err(Error::NoSuchOverload),
    };
    let Ok(levels) = usize::try_from(levels) else { return Err(Error::new("level must be non-negative")) };
    let mut flat = Vec::new();
    // The lists on the path to the current element, each with the next position.
    let mut open = vec![(list.clone(), 0)];
    while let Some((list, at)) = open.last_mut() {
        let element = list.get(*at);
        *at += 1;
        work::look(1)?;
        match element {
            None => {
                open.pop();
            }
            Some(Value::List(inner)) if open.len() <= levels => open.push((inner, 0)),
            Some(_) if flat.len() >= MAX_ELEMENTS => return too_large(),
            Some(element) => flat.push(element),
        }
    }
    Ok(Value::list(flat))
}

fn range<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    match arguments {
        [Value::Int(count)] if u64::try_from(*count).is_ok_and(|count| count > PER_CALL_LIMIT) => Err(Error::CostLimit),
        [Value::Int(count)] => Ok(Value::list((0..*count).map(Value::Int).collect())),
        _ => Err(Error::NoSuchOverload),
    }
}

fn distinct<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    let [Value::List(list)] = arguments else { return Err(Error::NoSuchOverload) };
    let count = list.len() as u64;
    if count.saturating_mul(count).saturating_mul(2) > PER_CALL_LIMIT {
        return Err(Error::CostLimit);
    }
    let mut distinct = List::Values(Arc::default());
    for element in list.iter() {
        if !element.is_in(&distinct)?
            && let List::Values(distinct) = &mut distinct
        {
            Arc::make_mut(distinct).push(element);
        }
    }
    Ok(Value::List(distinct))
}

/// Sorts a list by its elements' keys (`sortListByAssociatedKeys`).
fn sorted<'a>(list: &List<'a>, keys: &List<'a>) -> Result<'a> {
    if list.len() != keys.len() {
        return Err(Error::new(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} \
             elements respectively",
            list.len(),
            keys.len()
        )));
    }
    let keys: Vec<_> = keys.iter().collect();
    let Some(first) = keys.first() else { return Ok(Value::List(list.clone())) };
    if !is_comparable(first) {
        return Err(Error::new("list elements must be comparable"));
    }
    if keys.iter().any(|key| key.type_name() != first.type_name()) {
        return Err(Error::new("list elements must have the same type"));
    }
    let mut order: Vec<_> = keys.iter().enumerate().collect();
    order::sort(&mut order, |(_, a), (_, b)| a.compare(b) == Ok(Ordering::Less));
    Ok(Value::list(order.into_iter().filter_map(|(at, _)| list.get(at)).collect()))
}
