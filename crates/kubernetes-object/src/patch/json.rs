//! JSON patch as `evanphx/json-patch` v4 applies it, which is laxer than RFC 6902.
//!
//! `replace` of a missing field adds the field, `copy` of a missing field adds null, indices may be negative, a missing `value` is null,
//! and the text before the first slash of a path is ignored.

use super::unprocessable;
use crate::decode::{MAX_DEPTH, is_deeper};
use crate::go_text::go_type;
use crate::status::Status;
use serde_json::{Map, Value};
use std::sync::LazyLock;

/// The number of operations that a patch may have (`handlers.maxJSONPatchOperations`).
const MAX_OPERATIONS: usize = 10_000;

/// The number of bytes by which the `copy` operations of a patch may make the object grow (`JSONPatchMaxCopyBytes`).
const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// The fields of an operation; empty for a null operation.
pub(crate) fn operation_fields(operation: &Value) -> &Map<String, Value> {
    static NOTHING: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
    operation.as_object().unwrap_or(&NOTHING)
}

/// The number of list items that insertions and removals may move: a short patch can move a long list again and again.
const MAX_MOVED_ITEMS: usize = 1 << 22;

/// The number of values that depth checks may visit: a short patch can move a large value again and again.
const MAX_MEASURED: usize = 1 << 22;

/// The failure of an operation. Clients do not get a reason.
pub(super) struct Inapplicable;

/// The reason why a patch does not apply.
#[derive(Debug, PartialEq)]
pub(crate) enum Failure {
    /// The position of the operation that does not apply.
    Operation(usize),
    /// The patch moves too many list items, or the result nests too deep.
    TooMuch,
}

/// The costs of a patch's operations so far.
#[derive(Default)]
struct Costs {
    copied_bytes: usize,
    moved_items: usize,
    measured: usize,
    is_too_deep: bool,
}

impl Costs {
    /// Checks that a value at this path does not nest too deep. By moving parts into each other, a short patch could nest a document deeper
    /// than the stack allows.
    fn check_depth(&mut self, path: &str, value: &Value) -> Result<(), Inapplicable> {
        self.is_too_deep = self.is_deeper(value, MAX_DEPTH.saturating_sub(path.matches('/').count()));
        if self.is_too_deep { Err(Inapplicable) } else { Ok(()) }
    }

    fn is_deeper(&mut self, value: &Value, limit: usize) -> bool {
        self.measured += 1;
        match value {
            _ if self.measured > MAX_MEASURED => true,
            Value::Array(items) => limit == 0 || items.iter().any(|item| self.is_deeper(item, limit - 1)),
            Value::Object(map) => limit == 0 || map.values().any(|value| self.is_deeper(value, limit - 1)),
            _ => false,
        }
    }
}

/// Applies a JSON patch as a client sent it.
pub(super) fn apply(mut document: Value, patch: &Value) -> Result<Value, Status> {
    let operations = operations(patch)?;
    apply_operations(&mut document, operations.into_iter()).map_err(|_| unprocessable())?;
    Ok(document)
}

/// Applies operations one after the other.
///
/// # Errors
/// If an operation does not apply; the document is then partly changed.
pub(crate) fn apply_operations<'a>(
    document: &mut Value,
    operations: impl Iterator<Item = &'a Map<String, Value>>,
) -> Result<(), Failure> {
    let mut costs = Costs::default();
    for (position, operation) in operations.enumerate() {
        let applied = apply_operation(document, operation, &mut costs);
        if costs.is_too_deep || costs.moved_items > MAX_MOVED_ITEMS {
            return Err(Failure::TooMuch);
        }
        applied.map_err(|Inapplicable| Failure::Operation(position))?;
    }
    // A document that was too deep before the patch is rejected too.
    if is_deeper(document, MAX_DEPTH) { Err(Failure::TooMuch) } else { Ok(()) }
}

/// Decodes and checks the patch's operations as the strict decoding into `[]handlers.jsonPatchOp` does. A null operation passes this check
/// and fails when it is applied.
fn operations(patch: &Value) -> Result<Vec<&Map<String, Value>>, Status> {
    let items = match patch {
        Value::Null => return Ok(Vec::new()),
        Value::Array(items) => items,
        other => return Err(undecodable(other, "value of type []handlers.jsonPatchOp")),
    };
    let mut operations = Vec::with_capacity(items.len().min(MAX_OPERATIONS));
    for item in items {
        let operation = match item {
            Value::Null | Value::Object(_) => operation_fields(item),
            other => return Err(undecodable(other, "value of type handlers.jsonPatchOp")),
        };
        for field in ["op", "path", "from"] {
            if let Some(value) = operation.get(field).filter(|value| !value.is_string() && !value.is_null()) {
                return Err(undecodable(value, &format!("struct field jsonPatchOp.{field} of type string")));
            }
        }
        operations.push(operation);
    }
    if operations.len() > MAX_OPERATIONS {
        return Err(Status::too_large(&format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            operations.len()
        )));
    }
    Ok(operations)
}

fn undecodable(value: &Value, into: &str) -> Status {
    Status::bad_request(format!("error decoding patch: json: cannot unmarshal {} into Go {into}", go_type(value)))
}

fn apply_operation(
    document: &mut Value,
    operation: &Map<String, Value>,
    costs: &mut Costs,
) -> Result<(), Inapplicable> {
    let text = |field| operation.get(field).and_then(Value::as_str).ok_or(Inapplicable);
    let value = || operation.get("value").cloned().unwrap_or_default();
    match text("op")? {
        "add" => {
            let (path, value) = (text("path")?, value());
            costs.check_depth(path, &value)?;
            let (container, key) = find(document, path)?;
            add(container, key, value, costs)
        }
        "remove" => {
            let (container, key) = find(document, text("path")?)?;
            remove(container, &key, costs).map(drop)
        }
        "replace" => {
            let (path, value) = (text("path")?, value());
            costs.check_depth(path, &value)?;
            replace(document, path, value)
        }
        "move" => {
            let (container, key) = find(document, text("from")?)?;
            let moved = remove(container, &key, costs)?;
            let path = text("path")?;
            costs.check_depth(path, &moved)?;
            let (container, key) = find(document, path)?;
            add(container, key, moved, costs)
        }
        "copy" => {
            let (container, key) = find(document, text("from")?)?;
            let copy = read(container, &key)?.cloned().unwrap_or_default();
            costs.copied_bytes += serde_json::to_vec(&copy).map_or(usize::MAX / 2, |json| json.len());
            if costs.copied_bytes > MAX_COPIED_BYTES {
                return Err(Inapplicable);
            }
            let path = text("path")?;
            costs.check_depth(path, &copy)?;
            let (container, key) = find(document, path)?;
            add(container, key, copy, costs)
        }
        "test" => test(document, text("path")?, operation.get("value")),
        _ => Err(Inapplicable),
    }
}

/// The object or array that holds a path's last part, and that part.
fn find<'a>(document: &'a mut Value, path: &str) -> Result<(&'a mut Value, String), Inapplicable> {
    let (_, path) = path.split_once('/').ok_or(Inapplicable)?;
    let mut container = document;
    let (parents, last) = match path.rsplit_once('/') {
        Some((parents, last)) => (Some(parents), last),
        None => (None, path),
    };
    for part in parents.into_iter().flat_map(|parents| parents.split('/')) {
        let part = unescape(part);
        container = match container {
            Value::Object(map) => map.get_mut(&part),
            Value::Array(items) => {
                let index = index(&part, items.len())?;
                items.get_mut(index)
            }
            _ => None,
        }
        .ok_or(Inapplicable)?;
    }
    if container.is_object() || container.is_array() { Ok((container, unescape(last))) } else { Err(Inapplicable) }
}

/// Replaces `~1` by a slash and `~0` by a tilde, in one pass.
pub(super) fn unescape(part: &str) -> String {
    let mut text = String::with_capacity(part.len());
    let mut rest = part;
    while let Some((before, after)) = rest.split_once('~') {
        text.push_str(before);
        rest = match after.as_bytes().first() {
            Some(b'0') => {
                text.push('~');
                after.get(1..).unwrap_or_default()
            }
            Some(b'1') => {
                text.push('/');
                after.get(1..).unwrap_or_default()
            }
            _ => {
                text.push('~');
                after
            }
        };
    }
    text.push_str(rest);
    text
}

/// Parses an index as `strconv.Atoi` does; negative indices count from `length`. An index of `length` or more is an error.
pub(super) fn index(part: &str, length: usize) -> Result<usize, Inapplicable> {
    let number: i64 = part.parse().map_err(|_| Inapplicable)?;
    let number = if number < 0 { number.checked_add_unsigned(length as u64).ok_or(Inapplicable)? } else { number };
    usize::try_from(number).ok().filter(|number| *number < length).ok_or(Inapplicable)
}

/// Reads a part of a container: a missing field is `None`, a missing item an error.
fn read<'a>(container: &'a Value, key: &str) -> Result<Option<&'a Value>, Inapplicable> {
    match container {
        Value::Object(map) => Ok(map.get(key)),
        Value::Array(items) => Ok(items.get(index(key, items.len())?)),
        _ => Err(Inapplicable),
    }
}

fn add(container: &mut Value, key: String, value: Value, costs: &mut Costs) -> Result<(), Inapplicable> {
    match container {
        Value::Object(map) => {
            map.insert(key, value);
        }
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            let at = index(&key, items.len() + 1)?;
            costs.moved_items += items.len() - at;
            items.insert(at, value);
        }
        _ => return Err(Inapplicable),
    }
    Ok(())
}

fn remove(container: &mut Value, key: &str, costs: &mut Costs) -> Result<Value, Inapplicable> {
    match container {
        Value::Object(map) => map.remove(key).ok_or(Inapplicable),
        Value::Array(items) => {
            let at = index(key, items.len())?;
            costs.moved_items += items.len() - at;
            Ok(items.remove(at))
        }
        _ => Err(Inapplicable),
    }
}

fn replace(document: &mut Value, path: &str, value: Value) -> Result<(), Inapplicable> {
    if path.is_empty() {
        if !value.is_object() && !value.is_array() {
            return Err(Inapplicable);
        }
        *document = value;
        return Ok(());
    }
    let (container, key) = find(document, path)?;
    match container {
        Value::Object(map) => {
            map.insert(key, value);
            Ok(())
        }
        Value::Array(items) => {
            let at = index(&key, items.len())?;
            let item = items.get_mut(at).ok_or(Inapplicable)?;
            *item = value;
            Ok(())
        }
        _ => Err(Inapplicable),
    }
}

/// Compares a value. A missing value equals null and a missing `value`; numbers are equal if their texts are equal.
fn test(document: &mut Value, path: &str, expected: Option<&Value>) -> Result<(), Inapplicable> {
    let equal = if path.is_empty() {
        expected == Some(document)
    } else {
        let (container, key) = find(document, path)?;
        read(container, &key)?.unwrap_or(&Value::Null) == expected.unwrap_or(&Value::Null)
    };
    if equal { Ok(()) } else { Err(Inapplicable) }
}
