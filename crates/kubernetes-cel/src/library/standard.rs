//! The functions of the language itself.

mod conversions;
mod operators;
mod text;
mod time;

pub(super) use operators::add;

use super::overload;
use crate::function::Function;

/// A comparison operator; compares the values of some types with those of others.
macro_rules! order {
    ($name:literal, $id:literal, $call:path) => {
        Function {
            name: $name,
            overloads: &[
                overload(concat!($id, "_bool"), concat!($name, "(bool, bool): bool")),
                overload(concat!($id, "_int64"), concat!($name, "(int, int): bool")),
                overload(concat!($id, "_int64_double"), concat!($name, "(int, double): bool")),
                overload(concat!($id, "_int64_uint64"), concat!($name, "(int, uint): bool")),
                overload(concat!($id, "_uint64"), concat!($name, "(uint, uint): bool")),
                overload(concat!($id, "_uint64_double"), concat!($name, "(uint, double): bool")),
                overload(concat!($id, "_uint64_int64"), concat!($name, "(uint, int): bool")),
                overload(concat!($id, "_double"), concat!($name, "(double, double): bool")),
                overload(concat!($id, "_double_int64"), concat!($name, "(double, int): bool")),
                overload(concat!($id, "_double_uint64"), concat!($name, "(double, uint): bool")),
                overload(concat!($id, "_string"), concat!($name, "(string, string): bool")),
                overload(concat!($id, "_bytes"), concat!($name, "(bytes, bytes): bool")),
                overload(concat!($id, "_timestamp"), concat!($name, "(timestamp, timestamp): bool")),
                overload(concat!($id, "_duration"), concat!($name, "(duration, duration): bool")),
            ],
            call: $call,
            cost: None,
        }
    };
}

/// A part of a time, in UTC or a time zone; also of a duration, if that overload is given.
macro_rules! part {
    ($name:literal, $id:literal, $call:path $(, $more:expr)?) => {
        Function {
            name: $name,
            overloads: &[
                overload($id, concat!("timestamp.", $name, "(): int")),
                overload(concat!($id, "_with_tz"), concat!("timestamp.", $name, "(string): int")),
                $($more,)?
            ],
            call: $call,
            cost: None,
        }
    };
}

/// The functions of the standard library that are the same in all releases.
pub(crate) const FUNCTIONS: &[Function] = &[
    Function { name: "!_", overloads: &[overload("logical_not", "!_(bool): bool")], call: operators::not, cost: None },
    Function {
        name: "-_",
        overloads: &[overload("negate_double", "-_(double): double"), overload("negate_int64", "-_(int): int")],
        call: operators::negate,
        cost: None,
    },
    Function {
        name: "@in",
        overloads: &[overload("in_list", "@in(A, list(A)): bool"), overload("in_map", "@in(A, map(A, B)): bool")],
        call: operators::is_in,
        cost: None,
    },
    Function {
        name: "@not_strictly_false",
        overloads: &[overload("not_strictly_false", "@not_strictly_false(bool): bool")],
        call: operators::special,
        cost: None,
    },
    Function {
        name: "_!=_",
        overloads: &[overload("not_equals", "_!=_(A, A): bool")],
        call: operators::special,
        cost: None,
    },
    Function {
        name: "_%_",
        overloads: &[
            overload("modulo_int64", "_%_(int, int): int"),
            overload("modulo_uint64", "_%_(uint, uint): uint"),
        ],
        call: operators::modulo,
        cost: None,
    },
    Function {
        name: "_&&_",
        overloads: &[overload("logical_and", "_&&_(bool, bool): bool")],
        call: operators::special,
        cost: None,
    },
    Function {
        name: "_*_",
        overloads: &[
            overload("multiply_double", "_*_(double, double): double"),
            overload("multiply_int64", "_*_(int, int): int"),
            overload("multiply_uint64", "_*_(uint, uint): uint"),
        ],
        call: operators::multiply,
        cost: None,
    },
    Function {
        name: "_+_",
        overloads: &[
            overload("add_bytes", "_+_(bytes, bytes): bytes"),
            overload("add_double", "_+_(double, double): double"),
            overload("add_duration_duration", "_+_(duration, duration): duration"),
            overload("add_duration_timestamp", "_+_(duration, timestamp): timestamp"),
            overload("add_timestamp_duration", "_+_(timestamp, duration): timestamp"),
            overload("add_int64", "_+_(int, int): int"),
            overload("add_list", "_+_(list(A), list(A)): list(A)"),
            overload("add_string", "_+_(string, string): string"),
            overload("add_uint64", "_+_(uint, uint): uint"),
        ],
        call: operators::add,
        cost: None,
    },
    Function {
        name: "_-_",
        overloads: &[
            overload("subtract_double", "_-_(double, double): double"),
            overload("subtract_duration_duration", "_-_(duration, duration): duration"),
            overload("subtract_int64", "_-_(int, int): int"),
            overload("subtract_timestamp_duration", "_-_(timestamp, duration): timestamp"),
            overload("subtract_timestamp_timestamp", "_-_(timestamp, timestamp): duration"),
            overload("subtract_uint64", "_-_(uint, uint): uint"),
        ],
        call: operators::subtract,
        cost: None,
    },
    Function {
        name: "_/_",
        overloads: &[
            overload("divide_double", "_/_(double, double): double"),
            overload("divide_int64", "_/_(int, int): int"),
            overload("divide_uint64", "_/_(uint, uint): uint"),
        ],
        call: operators::divide,
        cost: None,
    },
    order!("_<=_", "less_equals", operators::less_equals),
    order!("_<_", "less", operators::less),
    Function {
        name: "_==_",
        overloads: &[overload("equals", "_==_(A, A): bool")],
        call: operators::special,
        cost: None,
    },
    order!("_>=_", "greater_equals", operators::greater_equals),
    order!("_>_", "greater", operators::greater),
    Function {
        name: "_?_:_",
        overloads: &[overload("conditional", "_?_:_(bool, A, A): A")],
        call: operators::special,
        cost: None,
    },
    Function {
        name: "_[_]",
        overloads: &[overload("index_list", "_[_](list(A), int): A"), overload("index_map", "_[_](map(A, B), A): B")],
        call: operators::special,
        cost: None,
    },
    Function {
        name: "_||_",
        overloads: &[overload("logical_or", "_||_(bool, bool): bool")],
        call: operators::special,
        cost: None,
    },
    Function {
        name: "bool",
        overloads: &[overload("bool_to_bool", "bool(bool): bool"), overload("string_to_bool", "bool(string): bool")],
        call: conversions::bool,
        cost: None,
    },
    Function {
        name: "bytes",
        overloads: &[
            overload("bytes_to_bytes", "bytes(bytes): bytes"),
            overload("string_to_bytes", "bytes(string): bytes"),
        ],
        call: conversions::bytes,
        cost: None,
    },
    Function {
        name: "contains",
        overloads: &[overload("contains_string", "string.contains(string): bool")],
        call: text::contains,
        cost: None,
    },
    Function {
        name: "double",
        overloads: &[
            overload("double_to_double", "double(double): double"),
            overload("int64_to_double", "double(int): double"),
            overload("string_to_double", "double(string): double"),
            overload("uint64_to_double", "double(uint): double"),
        ],
        call: conversions::double,
        cost: None,
    },
    Function { name: "dyn", overloads: &[overload("to_dyn", "dyn(A): dyn")], call: conversions::dynamic, cost: None },
    Function {
        name: "endsWith",
        overloads: &[overload("ends_with_string", "string.endsWith(string): bool")],
        call: text::ends_with,
        cost: None,
    },
    part!("getDate", "timestamp_to_day_of_month_1_based", time::date),
    part!("getDayOfMonth", "timestamp_to_day_of_month", time::day_of_month),
    part!("getDayOfWeek", "timestamp_to_day_of_week", time::day_of_week),
    part!("getDayOfYear", "timestamp_to_day_of_year", time::day_of_year),
    part!("getFullYear", "timestamp_to_year", time::full_year),
    part!("getHours", "timestamp_to_hours", time::hours, overload("duration_to_hours", "duration.getHours(): int")),
    part!(
        "getMilliseconds",
        "timestamp_to_milliseconds",
        time::milliseconds,
        overload("duration_to_milliseconds", "duration.getMilliseconds(): int")
    ),
    part!(
        "getMinutes",
        "timestamp_to_minutes",
        time::minutes,
        overload("duration_to_minutes", "duration.getMinutes(): int")
    ),
    part!("getMonth", "timestamp_to_month", time::month),
    Function {
        name: "getSeconds",
        overloads: &[
            overload("timestamp_to_seconds", "timestamp.getSeconds(): int"),
            overload("timestamp_to_seconds_tz", "timestamp.getSeconds(string): int"),
            overload("duration_to_seconds", "duration.getSeconds(): int"),
        ],
        call: time::seconds,
        cost: None,
    },
    Function {
        name: "int",
        overloads: &[
            overload("int64_to_int64", "int(int): int"),
            overload("double_to_int64", "int(double): int"),
            overload("duration_to_int64", "int(duration): int"),
            overload("string_to_int64", "int(string): int"),
            overload("timestamp_to_int64", "int(timestamp): int"),
            overload("uint64_to_int64", "int(uint): int"),
        ],
        call: conversions::int,
        cost: None,
    },
    Function {
        name: "matches",
        overloads: &[
            overload("matches", "matches(string, string): bool"),
            overload("matches_string", "string.matches(string): bool"),
        ],
        call: text::matches,
        cost: None,
    },
    Function {
        name: "size",
        overloads: &[
            overload("size_bytes", "size(bytes): int"),
            overload("bytes_size", "bytes.size(): int"),
            overload("size_list", "size(list(A)): int"),
            overload("list_size", "list(A).size(): int"),
            overload("size_map", "size(map(A, B)): int"),
            overload("map_size", "map(A, B).size(): int"),
            overload("size_string", "size(string): int"),
            overload("string_size", "string.size(): int"),
        ],
        call: text::size,
        cost: None,
    },
    Function {
        name: "startsWith",
        overloads: &[overload("starts_with_string", "string.startsWith(string): bool")],
        call: text::starts_with,
        cost: None,
    },
    Function {
        name: "string",
        overloads: &[
            overload("string_to_string", "string(string): string"),
            overload("bool_to_string", "string(bool): string"),
            overload("bytes_to_string", "string(bytes): string"),
            overload("double_to_string", "string(double): string"),
            overload("duration_to_string", "string(duration): string"),
            overload("int64_to_string", "string(int): string"),
            overload("timestamp_to_string", "string(timestamp): string"),
            overload("uint64_to_string", "string(uint): string"),
        ],
        call: conversions::string,
        cost: None,
    },
    Function {
        name: "timestamp",
        overloads: &[
            overload("timestamp_to_timestamp", "timestamp(timestamp): timestamp"),
            overload("int64_to_timestamp", "timestamp(int): timestamp"),
            overload("string_to_timestamp", "timestamp(string): timestamp"),
        ],
        call: conversions::timestamp,
        cost: None,
    },
    Function {
        name: "type",
        overloads: &[overload("type", "type(A): type(A)")],
        call: conversions::r#type,
        cost: None,
    },
    Function {
        name: "uint",
        overloads: &[
            overload("uint64_to_uint64", "uint(uint): uint"),
            overload("double_to_uint64", "uint(double): uint"),
            overload("int64_to_uint64", "uint(int): uint"),
            overload("string_to_uint64", "uint(string): uint"),
        ],
        call: conversions::uint,
        cost: None,
    },
];

pub(crate) const UNTIL_36: &[Function] = &[Function {
    name: "duration",
    overloads: &[
        overload("duration_to_duration", "duration(duration): duration"),
        overload("int64_to_duration", "duration(int): duration"),
        overload("string_to_duration", "duration(string): duration"),
    ],
    call: conversions::duration_or_int,
    cost: None,
}];

pub(crate) const SINCE_37: &[Function] = &[Function {
    name: "duration",
    overloads: &[
        overload("duration_to_duration", "duration(duration): duration"),
        overload("string_to_duration", "duration(string): duration"),
    ],
    call: conversions::duration,
    cost: None,
}];
