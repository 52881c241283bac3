//! Sums, extremes and positions in lists: `library.Lists` of Kubernetes.

use super::{Result, overload};
use crate::function::Function;
use crate::library::standard;
use crate::value::{Error, List, Value};
use crate::work;
use std::cmp::Ordering;

/// Functions of a list's elements, the same in all releases.
pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "isSorted",
        overloads: &[
            overload("list_int_is_sorted_bool", "list(int).isSorted(): bool"),
            overload("list_uint_is_sorted_bool", "list(uint).isSorted(): bool"),
            overload("list_double_is_sorted_bool", "list(double).isSorted(): bool"),
            overload("list_bool_is_sorted_bool", "list(bool).isSorted(): bool"),
            overload("list_duration_is_sorted_bool", "list(duration).isSorted(): bool"),
            overload("list_timestamp_is_sorted_bool", "list(timestamp).isSorted(): bool"),
            overload("list_string_is_sorted_bool", "list(string).isSorted(): bool"),
            overload("list_bytes_is_sorted_bool", "list(bytes).isSorted(): bool"),
        ],
        call: is_sorted,
        cost: Some(cost),
    },
    // The sum of an empty list depends on the list's type, so there is one function for each type. If the type is unknown, the first
    // element's type counts; for an empty list, the first of these functions.
    Function {
        name: "sum",
        overloads: &[overload("list_int_sum_int", "list(int).sum(): int")],
        call: |arguments| sum(arguments, Value::Int(0), |first| matches!(first, Value::Int(_))),
        cost: Some(cost),
    },
    Function {
        name: "sum",
        overloads: &[overload("list_uint_sum_uint", "list(uint).sum(): uint")],
        call: |arguments| sum(arguments, Value::Uint(0), |first| matches!(first, Value::Uint(_))),
        cost: Some(cost),
    },
    Function {
        name: "sum",
        overloads: &[overload("list_double_sum_double", "list(double).sum(): double")],
        call: |arguments| sum(arguments, Value::Double(0.0), |first| matches!(first, Value::Double(_))),
        cost: Some(cost),
    },
    Function {
        name: "sum",
        overloads: &[overload("list_duration_sum_duration", "list(duration).sum(): duration")],
        call: |arguments| sum(arguments, Value::Duration(0), |first| matches!(first, Value::Duration(_))),
        cost: Some(cost),
    },
    Function {
        name: "max",
        overloads: &[
            overload("list_int_max_int", "list(int).max(): int"),
            overload("list_uint_max_uint", "list(uint).max(): uint"),
            overload("list_double_max_double", "list(double).max(): double"),
            overload("list_bool_max_bool", "list(bool).max(): bool"),
            overload("list_duration_max_duration", "list(duration).max(): duration"),
            overload("list_timestamp_max_timestamp", "list(timestamp).max(): timestamp"),
            overload("list_string_max_string", "list(string).max(): string"),
            overload("list_bytes_max_bytes", "list(bytes).max(): bytes"),
        ],
        call: |arguments| extreme(arguments, Ordering::Less, "max called on empty list"),
        cost: Some(cost),
    },
    Function {
        name: "min",
        overloads: &[
            overload("list_int_min_int", "list(int).min(): int"),
            overload("list_uint_min_uint", "list(uint).min(): uint"),
            overload("list_double_min_double", "list(double).min(): double"),
            overload("list_bool_min_bool", "list(bool).min(): bool"),
            overload("list_duration_min_duration", "list(duration).min(): duration"),
            overload("list_timestamp_min_timestamp", "list(timestamp).min(): timestamp"),
            overload("list_string_min_string", "list(string).min(): string"),
            overload("list_bytes_min_bytes", "list(bytes).min(): bytes"),
        ],
        call: |arguments| extreme(arguments, Ordering::Greater, "min called on empty list"),
        cost: Some(cost),
    },
    Function {
        name: "indexOf",
        overloads: &[overload("list_a_index_of_int", "list(A).indexOf(A): int")],
        call: index_of,
        cost: Some(cost),
    },
    Function {
        name: "lastIndexOf",
        overloads: &[overload("list_a_last_index_of_int", "list(A).lastIndexOf(A): int")],
        call: last_index_of,
        cost: Some(cost),
    },
];

/// The functions that 1.37 introduces.
pub(crate) const SINCE_37: &[Function] = &[Function {
    name: "includes",
    overloads: &[overload("list_includes_dyn_dyn", "dyn.includes(dyn): bool")],
    call: |arguments| match arguments {
        [Value::List(list), item] => item_in(list, item),
        [value, item] => value.equals_or(item, false).map(Value::Bool),
        _ => Err(Error::NoSuchOverload),
    },
    cost: Some(cost),
}];

/// The cost of visiting the first argument with all nested values (`traversalCost`).
pub(super) fn cost(_: &str, arguments: &[Value<'_>], _: &Value<'_>) -> u64 {
    arguments.first().map_or(0, whole)
}

fn whole(value: &Value<'_>) -> u64 {
    if work::look(1).is_err() {
        return u64::MAX;
    }
    match value {
        Value::String(text) => (text.len() as f64 * 0.1) as u64,
        Value::Bytes(bytes) => (bytes.len() as f64 * 0.1) as u64,
        Value::List(list) => list.iter().fold(0, |sum, element| whole(&element).saturating_add(sum)),
        Value::Map(map) => {
            map.iter().fold(0, |sum, (key, value)| whole(&key).saturating_add(whole(&value)).saturating_add(sum))
        }
        _ => 1,
    }
}

/// Whether the value's type has an order (`traits.Comparer`).
pub(super) fn is_comparable(value: &Value<'_>) -> bool {
    matches!(
        value,
        Value::Int(_)
            | Value::Uint(_)
            | Value::Double(_)
            | Value::Bool(_)
            | Value::Duration(_)
            | Value::Timestamp(..)
            | Value::String(_)
            | Value::Bytes(_)
    )
}

/// The list that is the only argument. Like cel-go, distinguishes types of lists by their first elements.
pub(super) fn list_of<'v, 'a>(
    arguments: &'v [Value<'a>],
    fits: fn(&Value<'_>) -> bool,
) -> std::result::Result<&'v List<'a>, Error> {
    match arguments {
        [Value::List(list)] if list.get(0).is_none_or(|first| fits(&first)) => Ok(list),
        _ => Err(Error::NoSuchOverload),
    }
}

fn is_sorted<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    let mut previous: Option<Value<'_>> = None;
    for next in list_of(arguments, is_comparable)?.iter() {
        if !is_comparable(&next) {
            return Err(Error::OVERLOAD);
        }
        if previous.is_some_and(|previous| previous.compare(&next) == Ok(Ordering::Greater)) {
            return Ok(Value::Bool(false));
        }
        previous = Some(next);
    }
    Ok(Value::Bool(true))
}

fn sum<'a>(arguments: &[Value<'a>], zero: Value<'a>, fits: fn(&Value<'_>) -> bool) -> Result<'a> {
    list_of(arguments, fits)?.iter().try_fold(zero, |sum, next| standard::add(&[sum, next]))
}

/// Finds the smallest or the largest element. `unless` is the order of the current element and a better one.
fn extreme<'a>(arguments: &[Value<'a>], unless: Ordering, empty: &'static str) -> Result<'a> {
    let mut found: Option<Value<'a>> = None;
    for next in list_of(arguments, is_comparable)?.iter() {
        if !is_comparable(&next) {
            return Err(Error::OVERLOAD);
        }
        if found.as_ref().is_none_or(|found| found.compare(&next) == Ok(unless)) {
            found = Some(next);
        }
    }
    found.ok_or(Error::new(empty))
}

fn index_of<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    let [Value::List(list), item] = arguments else { return Err(Error::NoSuchOverload) };
    position(list, item, 0..list.len())
}

fn last_index_of<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    let [Value::List(list), item] = arguments else { return Err(Error::NoSuchOverload) };
    position(list, item, (0..list.len()).rev())
}

/// Whether an element equals an item. An element that cannot be compared does not.
fn item_in<'a>(list: &List<'a>, item: &Value<'a>) -> Result<'a> {
    Ok(Value::Bool(!matches!(position(list, item, 0..list.len())?, Value::Int(-1))))
}

/// The first of these positions that holds the item.
fn position<'a>(list: &List<'a>, item: &Value<'a>, places: impl Iterator<Item = usize>) -> Result<'a> {
    for at in places {
        if list.get(at).map_or(Ok(false), |element| element.equals_or(item, false))? {
            return Ok(Value::Int(i64::try_from(at).unwrap_or(-1)));
        }
    }
    Ok(Value::Int(-1))
}
