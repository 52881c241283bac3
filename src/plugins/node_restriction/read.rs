//! Parts of objects as their types: what a rule compares must be what it is meant to be.

use crate::admission::Denial;
use crate::object::Object;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;

/// What stands at a path; what is missing or null is empty.
///
/// # Errors
/// When it, or something on the way to it, is of another type.
pub(super) fn part<T: DeserializeOwned + Default>(object: &Object, path: &[&str]) -> Result<T, Denial> {
    let Some(value) = value(object, path)? else { return Ok(T::default()) };
    T::deserialize(value).map_err(|error| Denial::forbidden(format!("{}: {error}", path.join("."))))
}

/// What stands at a path, if anything but null does.
///
/// # Errors
/// When something on the way to it is no object.
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
            .ok_or_else(|| Denial::forbidden(format!("{}: not an object", path[..=depth].join("."))))?;
    }
    Ok(None)
}

/// The text at a path; what is missing or null is empty.
///
/// # Errors
/// As [`part`].
pub(super) fn text(object: &Object, path: &[&str]) -> Result<String, Denial> {
    part(object, path)
}

/// The labels.
///
/// # Errors
/// As [`part`].
pub(super) fn labels(object: &Object) -> Result<BTreeMap<String, String>, Denial> {
    let labels: BTreeMap<String, Option<String>> = part(object, &["metadata", "labels"])?;
    Ok(labels.into_iter().map(|(key, value)| (key, value.unwrap_or_default())).collect())
}
