//! The function behind the macros `transformMap` and `transformMapEntry`: `ext.TwoVarComprehensions` of cel-go.

use crate::function::{Function, Overload};
use crate::value::{Error, Map, Value};
use std::sync::Arc;

/// The function of the macros. For an accumulator, the evaluator inserts in place instead.
pub(crate) const FUNCTIONS: &[Function] = &[Function {
    name: "cel.@mapInsert",
    overloads: &[
        Overload { id: "@mapInsert_map_key_value", signature: "cel.@mapInsert(map(K, V), K, V): map(K, V)" },
        Overload { id: "@mapInsert_map_map", signature: "cel.@mapInsert(map(K, V), map(K, V)): map(K, V)" },
    ],
    call: insert,
    cost: None,
}];

fn insert<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let (map, added) = match arguments {
        [Value::Map(map), key, value] => (map, vec![(key.clone(), value.clone())]),
        [Value::Map(map), Value::Map(added)] => (map, added.iter().collect()),
        _ => return Err(Error::NoSuchOverload),
    };
    let mut entries = map.iter().collect::<crate::value::Entries<'a>>();
    for (key, value) in added {
        entries.insert_new(key, value)?;
    }
    Ok(Value::Map(Map::Values(Arc::new(entries))))
}
