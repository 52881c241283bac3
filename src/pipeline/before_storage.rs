//! Reverts the changes that storing makes to an object: the API server answers with an object that was written and read again,
//! but the validating phase comes before the write.

use crate::admission::Operation;
use crate::kind::GroupVersionKind;
use crate::object::Object;
use crate::object::validation::{default_pod_resources, keep_pod_resources};
use serde_json::{Map, Value};

/// Turns the stored object into its form right before the write. `admitted` is the object that was sent.
pub(super) fn undo(kind: &GroupVersionKind, operation: Operation, admitted: &Object, stored: &mut Object) {
    restore_empty(admitted, stored);
    stored.hold(admitted.unwritten().clone());
    if operation != Operation::Create {
        return;
    }
    match (&*kind.group, &*kind.kind) {
        // The labels default to those of the pods, which the strategy has added only now.
        ("batch", "Job") if admitted.labels().is_none() => drop(stored.remove(&["metadata", "labels"])),
        // The strategy resets the phase, and reading the claim sets the default.
        ("", "PersistentVolumeClaim") => drop(stored.remove(&["status", "phase"])),
        _ => {}
    }
}

/// Returns the pod that the API server makes of a part: all other fields are those of the stored pod (`dropNonEphemeralContainerUpdates`,
/// `dropNonResizeUpdates`). A client could otherwise send, beside its part, the fields with which a plugin allows the part. `None` for
/// other subresources, and for containers that were added, removed, moved or renamed, which the API server refuses.
pub(super) fn whole_pod(subresource: &str, old: &Object, part: &Object) -> Option<Object> {
    if !matches!(subresource, "ephemeralcontainers" | "resize") {
        return None;
    }
    let mut pod = old.clone();
    let mut take = |path: &[&str]| match part.get(path) {
        Some(value) => drop::<bool>(pod.set(path, value.clone())),
        None => drop::<Option<Value>>(pod.remove(path)),
    };
    for field in ["name", "namespace", "uid", "resourceVersion", "managedFields"] {
        take(&["metadata", field]);
    }
    if subresource == "ephemeralcontainers" {
        take(&["spec", "ephemeralContainers"]);
        return Some(pod);
    }
    take(&["spec", "resources"]);
    for field in ["containers", "initContainers"] {
        let path = ["spec", field];
        let resized = resized(old.items(&path), part.items(&path))?;
        if !resized.is_empty() {
            let _spec_is_an_object = pod.set(&path, Value::Array(resized));
        }
    }
    // A resize also takes over empty lists of resources, which differ from nil ones.
    pod.hold(part.unwritten().clone());
    Some(pod)
}

/// Returns the pod with the resources that the strategy of pods sets since 1.37, after the mutating phase; `None` if it sets none
/// (`podStrategy.PrepareForCreate`, `podStrategy.PrepareForUpdate`, `podResizeStrategy.PrepareForUpdate`).
pub(super) fn with_resources(subresource: &str, old: Option<&Object>, pod: &Object) -> Option<Object> {
    let has_resources = |pod: &Object| pod.get(&["spec", "resources"]).is_some_and(Value::is_object);
    if !matches!(subresource, "" | "resize") || !(has_resources(pod) || old.is_some_and(has_resources)) {
        return None;
    }
    let mut prepared = pod.clone();
    if let Some(old) = old {
        keep_pod_resources(&mut prepared, old);
    }
    if old.is_none() || subresource == "resize" {
        default_pod_resources(&mut prepared);
    }
    (prepared != *pod).then_some(prepared)
}

fn resized(old: &[Value], new: &[Value]) -> Option<Vec<Value>> {
    let is_same = |(old, new): (&Value, &Value)| old.get("name") == new.get("name");
    if old.len() != new.len() || !old.iter().zip(new).all(is_same) {
        return None;
    }
    let resized = old.iter().zip(new).map(|(old, new)| {
        let mut container = old.clone();
        for field in ["resources", "resizePolicy"] {
            match (container.as_object_mut()?, new.get(field)) {
                (container, Some(value)) => drop(container.insert(field.to_owned(), value.clone())),
                (container, None) => drop(container.remove(field)),
            }
        }
        Some(container)
    });
    resized.collect()
}

/// Restores empty lists that are null now, and null bytes that are empty now: the store does not distinguish them.
pub(super) fn restore_empty(sent: &Object, stored: &mut Object) {
    for (field, sent) in sent.fields() {
        if let Some(stored) = stored.fields_mut().get_mut(field) {
            restore(sent, stored);
        }
    }
}

/// Restores the parts of a custom resource that reading drops: fields that webhooks have added and that the schema does not know,
/// and the fraction of a whole number such as `1.0`. `is_written` selects the top-level fields that are stored as they were sent.
pub(super) fn restore_read(admitted: &Object, stored: &mut Object, is_written: impl Fn(&str) -> bool) {
    for (field, admitted) in admitted.fields().iter().filter(|(field, _)| is_written(field)) {
        restore_field(field, admitted, stored.fields_mut());
    }
}

fn restore_field(field: &str, admitted: &Value, stored: &mut Map<String, Value>) {
    match stored.get_mut(field) {
        Some(stored) => restore_fields(admitted, stored),
        None => drop(stored.insert(field.to_owned(), admitted.clone())),
    }
}

fn restore_fields(admitted: &Value, stored: &mut Value) {
    match (admitted, stored) {
        (Value::Object(admitted), Value::Object(stored)) => {
            admitted.iter().for_each(|(field, admitted)| restore_field(field, admitted, stored));
        }
        (Value::Array(admitted), Value::Array(stored)) if admitted.len() == stored.len() => {
            admitted.iter().zip(stored).for_each(|(admitted, stored)| restore_fields(admitted, stored));
        }
        (Value::Number(admitted), Value::Number(stored)) if admitted.as_f64() == stored.as_f64() => {
            *stored = admitted.clone();
        }
        _ => {}
    }
}

fn restore(sent: &Value, stored: &mut Value) {
    match (sent, stored) {
        (Value::Object(sent), Value::Object(stored)) => {
            for (field, sent) in sent {
                if let Some(stored) = stored.get_mut(field) {
                    restore(sent, stored);
                }
            }
        }
        (Value::Array(sent), Value::Array(stored)) => {
            sent.iter().zip(stored).for_each(|(sent, stored)| restore(sent, stored));
        }
        (Value::Array(sent), stored) if sent.is_empty() && stored.is_null() => *stored = Value::Array(Vec::new()),
        (Value::Null, stored) if *stored == "" => *stored = Value::Null,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Step;
    use serde_json::json;

    fn undone(kind: (&str, &str), operation: Operation, admitted: Value, stored: Value) -> Value {
        let mut object = Object::from_value(stored).unwrap();
        let admitted = Object::from_value(admitted).unwrap();
        undo(&GroupVersionKind::new(kind.0, "v1", kind.1), operation, &admitted, &mut object);
        object.into_value()
    }

    #[test]
    fn empty_lists_and_null_bytes_are_what_they_were() {
        let stored = undone(
            ("rbac.authorization.k8s.io", "ClusterRole"),
            Operation::Update,
            json!({"rules": [], "a": [{"b": []}], "c": [], "e": {"f": null, "g": null}}),
            json!({"rules": null, "a": [{"b": null}], "c": [1], "d": null, "e": {"f": "", "g": "h"}}),
        );
        let expected = json!({"rules": [], "a": [{"b": []}], "c": [1], "d": null, "e": {"f": null, "g": "h"}});
        assert_eq!(stored, expected);
    }

    #[test]
    fn fields_that_reading_prunes_are_restored() {
        let object = |value: Value| Object::from_value(value).unwrap();
        let admitted =
            object(json!({"metadata": {"a": 1}, "spec": {"a": 1, "b": {"c": 2}, "d": [{"e": 3}]}, "status": 1}));
        let mut stored = object(json!({"metadata": {}, "spec": {"a": 4, "b": {}, "d": [{}], "f": 5}}));
        restore_read(&admitted, &mut stored, |field| field == "spec");
        let expected = json!({"metadata": {}, "spec": {"a": 4, "b": {"c": 2}, "d": [{"e": 3}], "f": 5}});
        assert_eq!(stored.into_value(), expected);
    }

    #[test]
    fn fields_that_reading_adds_are_removed() {
        let labelled = json!({"metadata": {"labels": {"a": "b"}}});
        let plain = json!({"metadata": {}});
        let job = ("batch", "Job");
        assert_eq!(undone(job, Operation::Create, plain.clone(), labelled.clone()), plain);
        assert_eq!(undone(job, Operation::Create, labelled.clone(), labelled.clone()), labelled);
        assert_eq!(undone(job, Operation::Update, plain, labelled.clone()), labelled);
        let claim = undone(
            ("", "PersistentVolumeClaim"),
            Operation::Create,
            json!({}),
            json!({"status": {"phase": "Pending"}}),
        );
        assert_eq!(claim, json!({"status": {}}));
    }

    #[test]
    fn resources_of_a_pod_as_a_whole_are_kept_and_defaulted() {
        let pod = |resources: Value, limit: &str| {
            let container = json!({"name": "a", "resources": {"requests": {"cpu": limit}, "limits": {"cpu": limit}}});
            Object::from_value(json!({"spec": {"resources": resources, "containers": [container]}})).unwrap()
        };
        let none = || pod(Value::Null, "1");
        let given = || pod(json!({"requests": {"cpu": "2"}}), "1");
        let whole = || pod(json!({"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}), "1");
        for (subresource, old, new, expected) in [
            ("", None, none(), None),
            ("", None, given(), Some(whole())),
            ("", None, whole(), None),
            ("", Some(whole()), none(), Some(whole())),
            ("", Some(none()), none(), None),
            ("", Some(none()), given(), None),
            ("resize", Some(whole()), none(), Some(whole())),
            ("resize", Some(none()), given(), Some(whole())),
            ("status", Some(whole()), none(), None),
        ] {
            let prepared = with_resources(subresource, old.as_ref(), &new);
            assert_eq!(prepared, expected, "{subresource} {old:?} {new:?}");
        }
    }

    #[test]
    fn a_part_of_a_pod_is_completed_from_the_stored_pod() {
        let object = |value: Value| Object::from_value(value).unwrap();
        let old = object(json!({
            "metadata": {"name": "p", "labels": {"a": "b"}, "resourceVersion": "1"},
            "spec": {"hostPID": true, "containers": [{"name": "a", "image": "i"}, {"name": "b", "resources": {"x": 1}}]},
            "status": {"phase": "Running"},
        }));
        let part = object(json!({
            "metadata": {"name": "p", "labels": {"a": "c"}, "resourceVersion": "2"},
            "spec": {"ephemeralContainers": [1], "containers": [{"name": "a", "image": "j", "resources": {"y": 1}}, {"name": "b"}]},
        }));
        let wanted = |spec: Value| {
            json!({"metadata": {"name": "p", "labels": {"a": "b"}, "resourceVersion": "2"}, "spec": spec,
                "status": {"phase": "Running"}})
        };
        let whole = |subresource| whole_pod(subresource, &old, &part).map(Object::into_value);
        assert_eq!(
            whole("ephemeralcontainers"),
            Some(wanted(json!({"hostPID": true, "ephemeralContainers": [1],
                "containers": [{"name": "a", "image": "i"}, {"name": "b", "resources": {"x": 1}}]})))
        );
        assert_eq!(
            whole("resize"),
            Some(wanted(json!({"hostPID": true,
                "containers": [{"name": "a", "image": "i", "resources": {"y": 1}}, {"name": "b"}]})))
        );
        assert_eq!(whole("status"), None);
        let limits = [
            Step::Field("spec"),
            Step::Field("containers"),
            Step::Item(1),
            Step::Field("resources"),
            Step::Field("limits"),
        ];
        let mut held = part.clone();
        held.hold_empty_map(&limits);
        let is_held = |subresource| whole_pod(subresource, &old, &held).unwrap().unwritten().is_at(&limits);
        assert!(is_held("resize") && !is_held("ephemeralcontainers"));
        let renamed = object(json!({"spec": {"containers": [{"name": "b"}, {"name": "a"}]}}));
        assert!(whole_pod("resize", &old, &renamed).is_none());
    }
}
