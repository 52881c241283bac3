//! Built-in objects in another version: what kube-apiserver makes of one on the way to the internal version and from there
//! to the other, as it converts what webhooks and policies want in a version that is not the request's.
//!
//! Nearly all versions of 1.36 that are stored as one have the same fields. Those that do not are horizontal pod
//! autoscalers, events, and what resource.k8s.io/v1beta1 says of devices.

mod autoscaling;
mod events;
mod resource;

use super::defaults::fields::Fields;
use super::{Object, typed};
use crate::kind::GroupVersionKind;
use serde_json::Value;

/// The object, which is `from` in its normal form, as `to`, in the normal form of that but without its defaults. `None`
/// when the two are not versions of one kind.
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

/// Whether both are versions of one kind. Events are the one kind that two groups have.
fn is_stored_alike(one: &GroupVersionKind, other: &GroupVersionKind) -> bool {
    let is_event = |kind: &GroupVersionKind| kind.kind == "Event" && matches!(&*kind.group, "" | "events.k8s.io");
    one.kind == other.kind && one.group == other.group || is_event(one) && is_event(other)
}

/// Gives a field another name.
fn rename(fields: &mut Fields, from: &str, to: &str) {
    if let Some(value) = fields.remove(from) {
        fields.insert(to.to_owned(), value);
    }
}

#[cfg(test)]
mod tests;
