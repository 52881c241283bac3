//! Typed access to parts of an object, because the plugin's comparisons need correct types.

use crate::admission::Denial;
use crate::object::Object;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;

/// The value at a path. A missing value or null is the type's default.
///
/// # Errors
/// If the value, or a value on the path, has a wrong type.
pub(super) fn part<T: DeserializeOwned + Default>(object: &Object, path: &[&str]) -> Result<T, Denial> {
    let Some(value) = value(object, path)? else { return Ok(T::default()) };
    T::deserialize(value).map_err(|error| Denial::forbidden(format!("{}: {error}", path.join("."))))
}

/// The value at a path. `None` for a missing value and null.
///
/// # Errors
/// If a value on the path is not an object.
pub(super) fn value<'a>(object: &'a Object, path: &[&str]) -> Result<Option<&'a Value>, Denial> {
    let mut map = object.fields();
    for (depth, field) in path.iter().enumerate() {
        let value = match map.get(*field) {
            None | Some(Value::Null) => return Ok(None),
            Some(value) => value,
        };
        if depth + 1 == path.len() {
            return Ok(Some(value));
        }
        map = value
            .as_object()
            .ok_or_else(|| Denial::forbidden(format!("{}: not an object", path.split_at(depth + 1).0.join("."))))?;
    }
    Ok(None)
}

/// The string at a path. A missing value or null is the empty string.
///
/// # Errors
/// See [`part`].
pub(super) fn text(object: &Object, path: &[&str]) -> Result<String, Denial> {
    part(object, path)
}

/// The labels. A null label is the empty string.
///
/// # Errors
/// See [`part`].
pub(super) fn labels(object: &Object) -> Result<BTreeMap<String, String>, Denial> {
    let labels: BTreeMap<String, Option<String>> = part(object, &["metadata", "labels"])?;
    Ok(labels.into_iter().map(|(key, value)| (key, value.unwrap_or_default())).collect())
}
