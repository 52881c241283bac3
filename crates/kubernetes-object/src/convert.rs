//! Conversion of built-in objects to another version: kube-apiserver converts by way of the internal version, for webhooks and policies
//! that want another version than the request's.
//!
//! In 1.36 nearly all versions of one kind have the same fields. The exceptions are horizontal pod autoscalers, events, and the devices of
//! resource.k8s.io/v1beta1.

mod autoscaling;
mod events;
mod resource;

use super::defaults::fields::Fields;
use super::{Object, kinds, typed};
use crate::kind::GroupVersionKind;
use serde_json::Value;

/// Converts the object, which is in the normal form of `from`, to the normal form of `to` without defaults. `None` if `from` and `to` are
/// not versions of one kind.
pub fn built_in(object: &Object, from: &GroupVersionKind, to: &GroupVersionKind) -> Option<Object> {
    if !is_stored_alike(from, to) || !typed::is_known(to) {
        return None;
    }
    let mut fields = object.fields().clone();
    match (&*from.group, &*from.kind) {
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaling::convert(&mut fields, &from.version, &to.version),
        ("" | "events.k8s.io", "Event") => events::convert(&mut fields, &from.group, &to.group),
        ("resource.k8s.io", kind) => resource::convert(&mut fields, kind, &from.version, &to.version),
        _ => {}
    }
    fields.insert("apiVersion".into(), to.api_version().into());
    fields.insert("kind".into(), to.kind.clone().into());
    let mut value = Value::Object(fields);
    typed::encode(to, &mut value);
    Object::from_value(value)
}

/// Whether both are versions of one kind. Events are the only kind that two groups have.
fn is_stored_alike(one: &GroupVersionKind, other: &GroupVersionKind) -> bool {
    let is_event =
        |kind: &GroupVersionKind| kind.kind == "Event" && kinds::storage_group(&kind.group, "events").is_empty();
    one.kind == other.kind && one.group == other.group || is_event(one) && is_event(other)
}

/// Renames a field.
fn rename(fields: &mut Fields, from: &str, to: &str) {
    if let Some(value) = fields.remove(from) {
        fields.insert(to.to_owned(), value);
    }
}

#[cfg(test)]
mod tests;
