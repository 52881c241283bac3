//! Sets of paths into an object, and their JSON form (`fieldpath.Set`, FieldsV1).

use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The path to a field: each element as FieldsV1 writes it, `f:name`, `k:{…}` or `v:…`. The paths to a field and below it share their elements,
/// because an object has many paths.
pub(super) type Path = Vec<Arc<str>>;
/// A set of paths; it may contain a path without the path's parents.
pub(super) type Set = BTreeSet<Path>;

/// The key by which FieldsV1 includes the object itself.
pub(super) const SELF: &str = ".";
/// The number of levels that FieldsV1 may nest; JSON nests no deeper.
const DEPTH: usize = 128;

/// Decodes FieldsV1; `None` if the value is malformed.
pub(super) fn decode(fields: &Value) -> Option<Set> {
    let mut set = Set::new();
    decode_into(fields, &mut Vec::new(), &mut set)?;
    Some(set)
}

fn decode_into(fields: &Value, path: &mut Path, set: &mut Set) -> Option<()> {
    let fields = fields.as_object()?;
    if path.len() > DEPTH {
        return None;
    }
    for (element, below) in fields {
        if element == SELF {
            set.insert(path.clone());
            continue;
        }
        if !["f:", "k:", "v:", "i:"].iter().any(|start| element.starts_with(start)) {
            return None;
        }
        path.push(element.as_str().into());
        if below.as_object()?.is_empty() {
            set.insert(path.clone());
        }
        decode_into(below, path, set)?;
        path.pop();
    }
    Some(())
}

/// Encodes FieldsV1. Drops each path once it is encoded, since a set can be larger than its object.
pub(super) fn encode(set: Set) -> Value {
    let mut root = Map::new();
    for path in set {
        // Paths are sorted: a path that precedes its children gets a `.` when the first child follows. Until then its map is empty.
        let (mut at, mut is_path) = (&mut root, false);
        for element in path {
            if is_path && at.is_empty() {
                at.insert(SELF.to_owned(), Value::Object(Map::new()));
            }
            is_path = at.contains_key(&*element);
            if !is_path {
                at.insert(element.to_string(), Value::Object(Map::new()));
            }
            match at.get_mut(&*element) {
                Some(Value::Object(below)) => at = below,
                _ => break,
            }
        }
    }
    Value::Object(root)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_written_set_is_read_again() {
        for fields in [
            json!({}),
            json!({"f:data": {".": {}, "f:a": {}, "f:b": {}}}),
            json!({"f:spec": {"f:ports": {".": {}, "k:{\"port\":80}": {".": {}, "f:port": {}}}, "f:x": {}}}),
            json!({"f:metadata": {"f:finalizers": {".": {}, "v:\"a\"": {}}}}),
        ] {
            assert_eq!(encode(decode(&fields).unwrap()), fields);
        }
    }

    #[test]
    fn a_text_that_is_not_a_set_is_not_read() {
        for fields in [json!([]), json!({"x": {}}), json!({"f:a": 1})] {
            assert_eq!(decode(&fields), None, "{fields}");
        }
    }
}
