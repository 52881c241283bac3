//! The `scale` subresource: an `autoscaling/v1` Scale, read from an object and written back to it.

use super::call::Call;
use super::{body, respond, write};
use crate::body::Body;
use crate::kind::GroupVersionKind;
use crate::object::Object;
use crate::request::body::OptionsKind;
use crate::status::{Status, invalid};
use http::{Response, StatusCode};
use serde_json::{Value, json};

/// Responds to a get.
///
/// # Errors
/// If the object does not exist.
pub(super) fn get(call: &Call) -> Result<Response<Body>, Status> {
    let current = call.store.with(|state| state.object(call.collection(), &call.key()));
    let current = current.ok_or_else(|| call.not_found())?;
    Ok(respond::value(StatusCode::OK, &scale(&current).into_value()))
}

/// Responds to an update.
///
/// # Errors
/// If the Scale is invalid, or the object has changed.
pub(super) fn update(call: &Call) -> Result<Response<Body>, Status> {
    let submitted = body::object(call, &kind())?;
    write::check_name(call, &submitted)?;
    change(call, |_| Ok(submitted))
}

/// Responds to a patch.
///
/// # Errors
/// If the patch does not apply to the Scale, or the object has changed.
pub(super) fn patch(call: &Call) -> Result<Response<Body>, Status> {
    let (patch_type, patch) = write::patch_of(call)?;
    change(call, |current| {
        let patched = write::apply(patch_type, scale(current), &patch, &kind())?;
        write::check_name(call, &patched)?;
        Ok(patched)
    })
}

fn kind() -> GroupVersionKind {
    GroupVersionKind::new("autoscaling", "v1", "Scale")
}

fn change(call: &Call, wanted: impl FnOnce(&Object) -> Result<Object, Status>) -> Result<Response<Body>, Status> {
    let dry_run = call.dry_run(OptionsKind::Update)?;
    let stored = call.store.with(|state| {
        let current = state.object(call.collection(), &call.key()).ok_or_else(|| call.not_found())?;
        let scale = wanted(&current)?;
        let replicas = scale.get(&["spec", "replicas"]).cloned().unwrap_or_else(|| json!(0));
        if replicas.as_i64().is_none_or(|replicas| replicas < 0) {
            let why = "must be greater than or equal to 0";
            let cause = invalid::invalid("spec.replicas", &replicas.to_string(), why);
            return invalid::status(&kind(), current.name(), vec![cause]).map_or(Ok(current), Err);
        }
        let mut object = Object::clone(&current);
        let _ = object.set(&["spec", "replicas"], replicas);
        let _ = object.set(&["metadata", "resourceVersion"], Value::from(scale.resource_version()));
        write::replace(state, call, &current, object, dry_run)
    })?;
    Ok(respond::value(StatusCode::OK, &scale(&stored).into_value()))
}

/// The Scale of an object (`scaleFromDeployment` and similar functions).
fn scale(object: &Object) -> Object {
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let (Some(value), Some(metadata)) = (object.get(&["metadata", field]), metadata.as_object_mut()) {
            metadata.insert(field.into(), value.clone());
        }
    }
    let number = |path: &[&str], unset: i64| object.get(path).and_then(Value::as_i64).unwrap_or(unset);
    let mut status = json!({"replicas": number(&["status", "replicas"], 0)});
    let selector = selector(object);
    if let (false, Some(status)) = (selector.is_empty(), status.as_object_mut()) {
        status.insert("selector".into(), Value::from(selector));
    }
    let scale = json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": number(&["spec", "replicas"], 1)},
        "status": status,
    });
    Object::from_value(scale).unwrap_or_default()
}

/// The object's selector as one string (`metav1.FormatLabelSelector`); a replication controller's selector has only labels.
fn selector(object: &Object) -> String {
    let is_labels_only = object.kind() == "ReplicationController";
    let labels = body::strings(
        object,
        if is_labels_only { &["spec", "selector"] } else { &["spec", "selector", "matchLabels"] },
    );
    let mut terms: Vec<(String, String)> = labels
        .into_iter()
        .map(|(label, value)| {
            let term = format!("{label}={}", value.as_str().unwrap_or_default());
            (label, term)
        })
        .collect();
    let expressions = if is_labels_only { &[] } else { object.items(&["spec", "selector", "matchExpressions"]) };
    for expression in expressions {
        let text = |field: &str| expression.get(field).and_then(Value::as_str).unwrap_or_default();
        let mut values: Vec<_> = expression.get("values").and_then(Value::as_array).into_iter().flatten().collect();
        values.sort_by_key(|value| value.as_str());
        let values: Vec<_> = values.into_iter().filter_map(Value::as_str).collect();
        let (label, values) = (text("key"), values.join(","));
        let term = match text("operator") {
            "In" => format!("{label} in ({values})"),
            "NotIn" => format!("{label} notin ({values})"),
            "Exists" => label.to_owned(),
            _ => format!("!{label}"),
        };
        terms.push((label.to_owned(), term));
    }
    terms.sort();
    terms.into_iter().map(|(_, term)| term).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selector_is_one_sorted_string() {
        let object = Object::from_value(json!({"kind": "Deployment", "spec": {"selector": {
            "matchLabels": {"b": "2", "a": "1"},
            "matchExpressions": [{"key": "c", "operator": "In", "values": ["y", "x"]}, {"key": "d", "operator": "DoesNotExist"}]}}}))
        .unwrap();
        assert_eq!(selector(&object), "a=1,b=2,c in (x,y),!d");
    }
}
