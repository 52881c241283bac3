//! The fields of an object that a request may change, and access to fields.

use super::context::Context;
use super::owners;
use crate::object::Object;
use serde_json::{Map, Value};

/// Sets a field. Does nothing for an object of another shape, which is stored as the client sent it.
pub(super) fn put(object: &mut Object, path: &[&str], value: Value) {
    let _ = object.set(path, value);
}

/// Sets a field that is missing or empty.
pub(super) fn default(object: &mut Object, path: &[&str], value: Value) {
    if object.get(path).is_none_or(|value| value.is_null() || value == "") {
        put(object, path, value);
    }
}

/// Sets a field to its value in another object, or removes it.
pub(super) fn copy(object: &mut Object, from: &Object, path: &[&str]) {
    match from.get(path) {
        Some(value) => drop::<bool>(object.set(path, value.clone())),
        None => drop::<Option<Value>>(object.remove(path)),
    }
}

/// A map of strings at a path, empty if the path is missing.
pub(in crate::embedded) fn strings(object: &Object, path: &[&str]) -> Map<String, Value> {
    object.get(path).and_then(Value::as_object).cloned().unwrap_or_default()
}

/// The text of a field, with dots between its names, for a selector; `None` if the field is unset.
pub(super) fn text(object: &Object, field: &str) -> Option<String> {
    let path: Vec<&str> = field.split('.').collect();
    match object.get(&path)? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The part of a submitted object that the request may change. The `status` subresource is the only way to change a status.
pub(super) fn part(context: &Context<'_>, object: Object, current: &Object) -> Object {
    match context.subresource {
        "status" | "finalize" | "approval" => with_resets(context, object, current),
        _ => {
            let mut object = object;
            if context.resource.subresource("status").is_some() {
                match current.get(&["status"]) {
                    Some(status) => drop(object.fields_mut().insert("status".into(), status.clone())),
                    None => drop(object.fields_mut().remove("status")),
                }
            }
            object
        }
    }
}

/// The current object with one field of the submitted one.
pub(super) fn only(path: &[&str], object: &Object, current: &Object) -> Object {
    let mut changed = current.clone();
    owners::set(&mut changed, object.get(&owners::MANAGED_FIELDS).cloned());
    copy(&mut changed, object, path);
    changed
}

/// Applies a write of a subresource: the fields that the strategy resets keep their current values.
fn with_resets(context: &Context<'_>, mut object: Object, current: &Object) -> Object {
    let owners = object.get(&owners::MANAGED_FIELDS).cloned();
    for field in context.resource.facts().resets(context.subresource) {
        // The conditions of a signing request are reset in part (`certificate_signing_requests`).
        if context.subresource == "status" && field.iter().any(|step| step == "f:conditions") {
            continue;
        }
        let path: Vec<&str> = field.iter().map(|step| step.strip_prefix("f:").unwrap_or(step)).collect();
        copy(&mut object, current, &path);
    }
    owners::set(&mut object, owners);
    object
}
