//! Optional values, `cel.OptionalTypes` of cel-go.

use crate::cel::function::{Call, Function, Overload};
use crate::cel::value::Error;

const NOT_YET: Call = |_| Err(Error::NoSuchOverload);

/// What is done with optional values.
pub const FUNCTIONS: &[Function] = &[
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
        call: NOT_YET,
        cost: None,
    },
    Function {
        name: "_?._",
        overloads: &[Overload { id: "select_optional_field", signature: "_?._(dyn, string): optional_type(V)" }],
        call: NOT_YET,
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
        call: NOT_YET,
        cost: None,
    },
    Function {
        name: "hasValue",
        overloads: &[Overload { id: "optional_hasValue", signature: "optional_type(V).hasValue(): bool" }],
        call: NOT_YET,
        cost: None,
    },
    Function {
        name: "optional.none",
        overloads: &[Overload { id: "optional_none", signature: "optional.none(): optional_type(V)" }],
        call: NOT_YET,
        cost: None,
    },
    Function {
        name: "optional.of",
        overloads: &[Overload { id: "optional_of", signature: "optional.of(V): optional_type(V)" }],
        call: NOT_YET,
        cost: None,
    },
    Function {
        name: "optional.ofNonZeroValue",
        overloads: &[Overload {
            id: "optional_ofNonZeroValue",
            signature: "optional.ofNonZeroValue(V): optional_type(V)",
        }],
        call: NOT_YET,
        cost: None,
    },
    Function {
        name: "optional.unwrap",
        overloads: &[Overload { id: "optional_unwrap", signature: "optional.unwrap(list(optional_type(V))): list(V)" }],
        call: NOT_YET,
        cost: None,
    },
    Function {
        name: "or",
        overloads: &[Overload {
            id: "optional_or_optional",
            signature: "optional_type(V).or(optional_type(V)): optional_type(V)",
        }],
        call: NOT_YET,
        cost: None,
    },
    Function {
        name: "orValue",
        overloads: &[Overload { id: "optional_orValue_value", signature: "optional_type(V).orValue(V): V" }],
        call: NOT_YET,
        cost: None,
    },
    Function {
        name: "unwrapOpt",
        overloads: &[Overload { id: "optional_unwrapOpt", signature: "list(optional_type(V)).unwrapOpt(): list(V)" }],
        call: NOT_YET,
        cost: None,
    },
    Function {
        name: "value",
        overloads: &[Overload { id: "optional_value", signature: "optional_type(V).value(): V" }],
        call: NOT_YET,
        cost: None,
    },
];
