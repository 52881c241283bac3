//! Metadata that the server sets, rather than the client.

use crate::embedded::api::catalog::ServedResource;
use crate::embedded::store::capacity::STORED_AS_JSON;
pub(in crate::embedded) use crate::embedded::store::is_deleting;
use crate::go_text::go_quote;
use crate::kind::{GroupVersionKind, split_api_version};
use crate::names::path_segment_errors;
use crate::object::{Object, typed};
use crate::status::{Cause, invalid};
use serde_json::Value;
use std::collections::BTreeSet;

/// Fields that only the server may set, without the resourceVersion: a create that is no dry run may not have it.
const SERVERS: [&str; 7] = [
    "uid",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "clusterName",
];

/// The current time in Kubernetes' format, in whole seconds.
pub(in crate::embedded) fn now() -> String {
    timestamp(jiff::Timestamp::now())
}

/// A time in Kubernetes' format.
pub(in crate::embedded) fn timestamp(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The errors of a name that must be a segment of a path (`path.ValidatePathSegmentName`).
pub(in crate::embedded) fn name_causes(name: &str) -> Vec<Cause> {
    let cause = |why: String| invalid::invalid("metadata.name", &go_quote(name), &why);
    path_segment_errors(name).into_iter().map(cause).collect()
}

/// Sets the metadata of a new object (`rest.BeforeCreate`).
pub(in crate::embedded) fn begin(resource: &ServedResource, object: &mut Object) {
    for field in SERVERS {
        object.remove(&["metadata", field]);
    }
    let _ = object.set(&["metadata", "uid"], Value::from(uuid::Uuid::new_v4().to_string()));
    let _ = object.set(&["metadata", "creationTimestamp"], Value::from(now()));
    if resource.facts().has_generation {
        let _ = object.set(&["metadata", "generation"], Value::from(1));
    }
    drop_empty(object);
}

/// Adds zero values that Go writes, such as an empty status, and removes what Go omits or loses in the storage.
pub(in crate::embedded) fn complete(object: Object) -> Object {
    let (group, version) = split_api_version(object.api_version());
    let kind = GroupVersionKind::new(group, version, object.kind());
    let mut value = object.into_value();
    typed::encode(&kind, &mut value);
    if !STORED_AS_JSON.contains(&&*kind.group) {
        typed::through_protobuf(&kind, &mut value);
    }
    Object::from_value(value).unwrap_or_default()
}

/// Copies metadata that an update does not change from the current object (`rest.BeforeUpdate`).
pub(in crate::embedded) fn carry_over(object: &mut Object, current: &Object) {
    if object.uid().is_empty() {
        copy(object, current, "uid");
    }
    for field in ["resourceVersion", "generation", "creationTimestamp"] {
        copy(object, current, field);
    }
    object.remove(&["metadata", "selfLink"]);
    // The validation refuses other changes of these fields.
    if current.get(&["metadata", "deletionTimestamp"]).is_some() {
        copy(object, current, "deletionTimestamp");
    }
    if object.get(&["metadata", "deletionGracePeriodSeconds"]).is_none() {
        copy(object, current, "deletionGracePeriodSeconds");
    }
    drop_empty(object);
}

/// Restores the fields that only a deletion sets, for an object whose validation does not compare them (`rest.BeforeUpdate` does for all): an
/// update never deletes.
pub(in crate::embedded) fn keep_deletion(object: &mut Object, current: &Object) {
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        copy(object, current, field);
    }
}

/// The errors of an update that changes immutable metadata (`validation.ValidateObjectMetaAccessorUpdate`).
pub(in crate::embedded) fn update_causes(object: &Object, current: &Object) -> Vec<Cause> {
    let mut causes = Vec::new();
    if is_deleting(current) {
        let finalizers = |object: &Object| -> BTreeSet<String> {
            object.items(&["metadata", "finalizers"]).iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let before = finalizers(current);
        let new: Vec<_> = finalizers(object).difference(&before).map(|name| crate::go_text::go_quote(name)).collect();
        if !new.is_empty() {
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                new.join(", ")
            );
            causes.push(invalid::forbidden("metadata.finalizers", &why));
        }
    }
    for field in ["name", "namespace", "uid"] {
        let value = object.str(&["metadata", field]);
        if value != current.str(&["metadata", field]) {
            let field = format!("metadata.{field}");
            causes.push(invalid::invalid(&field, &crate::go_text::go_quote(value), "field is immutable"));
        }
    }
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        let (value, before) = (object.get(&["metadata", field]), current.get(&["metadata", field]));
        if value != before {
            let shown = value.map_or_else(|| "null".to_owned(), Value::to_string);
            causes.push(invalid::invalid(&format!("metadata.{field}"), &shown, "field is immutable"));
        }
    }
    causes
}

/// Increments the generation if a field outside of the metadata and the status changes, or if the update counts anyway (`PrepareForUpdate`
/// of the strategies).
pub(in crate::embedded) fn count_generation(
    resource: &ServedResource,
    subresource: &str,
    object: &mut Object,
    current: &Object,
    counts_anyway: bool,
) {
    let wanted = |object: &Object| {
        let mut fields = object.fields().clone();
        for other in ["metadata", "status", "apiVersion", "kind"] {
            fields.remove(other);
        }
        fields
    };
    let strategy = super::of(resource);
    let counts_anyway = counts_anyway || strategy.counts_too(subresource, object, current);
    if counts_anyway || strategy.counts_changes(resource) && wanted(object) != wanted(current) {
        let generation = current.get(&["metadata", "generation"]).and_then(Value::as_i64).unwrap_or_default();
        let _ = object.set(&["metadata", "generation"], Value::from(generation.saturating_add(1)));
    }
}

/// Increments an object's generation, if it has one.
pub(in crate::embedded) fn next_generation(object: &mut Object) {
    if let Some(generation) = object.get(&["metadata", "generation"]).and_then(Value::as_i64).filter(|n| *n > 0) {
        let _ = object.set(&["metadata", "generation"], Value::from(generation.saturating_add(1)));
    }
}

fn copy(object: &mut Object, current: &Object, field: &str) {
    match current.get(&["metadata", field]) {
        Some(value) => {
            let _ = object.set(&["metadata", field], value.clone());
        }
        None => drop(object.remove(&["metadata", field])),
    }
}

/// Removes fields that Go's `omitempty` omits.
fn drop_empty(object: &mut Object) {
    if let Some(Value::Object(metadata)) = object.get_mut(&["metadata"]) {
        metadata.retain(|_, value| match value {
            Value::Null => false,
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            Value::Object(fields) => !fields.is_empty(),
            _ => true,
        });
    }
}
