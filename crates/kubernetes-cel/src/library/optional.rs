//! Optional values: `cel.OptionalTypes` of cel-go.

use crate::function::{Function, Overload};
use crate::value::{Error, Value};
use std::sync::Arc;

/// Functions of optional values.
pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "_[_]",
        overloads: &[
            Overload {
                id: "optional_list_index_int",
                signature: "_[_](optional_type(list(V)), int): optional_type(V)",
            },
            Overload {
                id: "optional_map_index_value",
                signature: "_[_](optional_type(map(K, V)), K): optional_type(V)",
            },
        ],
        call: special,
        cost: None,
    },
    Function {
        name: "_?._",
        overloads: &[Overload { id: "select_optional_field", signature: "_?._(dyn, string): optional_type(V)" }],
        call: special,
        cost: None,
    },
    Function {
        name: "_[?_]",
        overloads: &[
            Overload { id: "list_optindex_optional_int", signature: "_[?_](list(V), int): optional_type(V)" },
            Overload {
                id: "optional_list_optindex_optional_int",
                signature: "_[?_](optional_type(list(V)), int): optional_type(V)",
            },
            Overload { id: "map_optindex_optional_value", signature: "_[?_](map(K, V), K): optional_type(V)" },
            Overload {
                id: "optional_map_optindex_optional_value",
                signature: "_[?_](optional_type(map(K, V)), K): optional_type(V)",
            },
        ],
        call: special,
        cost: None,
    },
    Function {
        name: "first",
        overloads: &[Overload { id: "list_first", signature: "list(V).first(): optional_type(V)" }],
        call: first,
        cost: None,
    },
    Function {
        name: "last",
        overloads: &[Overload { id: "list_last", signature: "list(V).last(): optional_type(V)" }],
        call: last,
        cost: None,
    },
    Function {
        name: "hasValue",
        overloads: &[Overload { id: "optional_hasValue", signature: "optional_type(V).hasValue(): bool" }],
        call: has_value,
        cost: None,
    },
    Function {
        name: "optional.none",
        overloads: &[Overload { id: "optional_none", signature: "optional.none(): optional_type(V)" }],
        call: none,
        cost: None,
    },
    Function {
        name: "optional.of",
        overloads: &[Overload { id: "optional_of", signature: "optional.of(V): optional_type(V)" }],
        call: of,
        cost: None,
    },
    Function {
        name: "optional.ofNonZeroValue",
        overloads: &[Overload {
            id: "optional_ofNonZeroValue",
            signature: "optional.ofNonZeroValue(V): optional_type(V)",
        }],
        call: of_non_zero,
        cost: None,
    },
    Function {
        name: "optional.unwrap",
        overloads: &[Overload { id: "optional_unwrap", signature: "optional.unwrap(list(optional_type(V))): list(V)" }],
        call: unwrap,
        cost: None,
    },
    Function {
        name: "or",
        overloads: &[Overload {
            id: "optional_or_optional",
            signature: "optional_type(V).or(optional_type(V)): optional_type(V)",
        }],
        call: special,
        cost: None,
    },
    Function {
        name: "orValue",
        overloads: &[Overload { id: "optional_orValue_value", signature: "optional_type(V).orValue(V): V" }],
        call: special,
        cost: None,
    },
    Function {
        name: "unwrapOpt",
        overloads: &[Overload { id: "optional_unwrapOpt", signature: "list(optional_type(V)).unwrapOpt(): list(V)" }],
        call: unwrap,
        cost: None,
    },
    Function {
        name: "value",
        overloads: &[Overload { id: "optional_value", signature: "optional_type(V).value(): V" }],
        call: value,
        cost: None,
    },
];

/// Placeholder for a function that the evaluator implements.
fn special<'a>(_: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Err(Error::NoSuchOverload)
}

fn first<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match arguments {
        [Value::List(list)] => Ok(Value::Optional(list.get(0).map(Arc::new))),
        _ => Err(Error::NoSuchOverload),
    }
}

fn last<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match arguments {
        [Value::List(list)] => Ok(Value::Optional(list.get(list.len().wrapping_sub(1)).map(Arc::new))),
        _ => Err(Error::NoSuchOverload),
    }
}

fn has_value<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match arguments {
        [Value::Optional(value)] => Ok(Value::Bool(value.is_some())),
        _ => Err(Error::NoSuchOverload),
    }
}

fn none<'a>(_: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Ok(Value::Optional(None))
}

fn of<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match arguments {
        [value] => Ok(Value::some(value.clone())),
        _ => Err(Error::NoSuchOverload),
    }
}

fn of_non_zero<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match arguments {
        [value] if value.is_zero() => Ok(Value::Optional(None)),
        arguments => of(arguments),
    }
}

fn value<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match arguments {
        [Value::Optional(Some(value))] => Ok((**value).clone()),
        [Value::Optional(None)] => Err(Error::new("optional.none() dereference")),
        _ => Err(Error::NoSuchOverload),
    }
}

fn unwrap<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [Value::List(list)] = arguments else { return Err(Error::NoSuchOverload) };
    let mut values = Vec::with_capacity(list.len());
    for element in list.iter() {
        match element {
            Value::Optional(value) => values.extend(value.map(|value| (*value).clone())),
            other => return Err(Error::new(format!("value {other} is not optional"))),
        }
    }
    Ok(Value::list(values))
}
