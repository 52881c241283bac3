//! The `scale` subresource: an `autoscaling/v1` Scale, read from an object and written back to it.

use super::attempts::Attempts;
use super::read;
use super::write::{self, New};
use crate::body::Body;
use crate::embedded::http::call::Call;
use crate::embedded::http::{body, respond};
use crate::embedded::store::Reads;
use crate::embedded::strategies::fields::strings;
use crate::embedded::strategies::owners::{self, MANAGED_FIELDS, Subject};
use crate::kind::{GroupVersionKind, split_api_version};
use crate::object::managed_fields::{of_scale, of_scaled};
use crate::object::patch::PatchType;
use crate::object::{Object, validation};
use crate::request::body::{OptionsKind, WriteOptions};
use crate::status::{Status, invalid};
use http::Response;
use serde_json::{Value, json};

/// Responds to a get.
///
/// # Errors
/// If the object does not exist.
pub(in crate::embedded) fn get(call: &Call) -> Result<Response<Body>, Status> {
    read::check_version(call)?;
    read::check_key(call)?;
    let current = call.server.store.object(call.collection(), &call.key());
    let current = current.ok_or_else(|| call.not_found())?;
    Ok(respond::scale(call, &scale(&current)))
}

/// Responds to an update.
///
/// # Errors
/// If the Scale is invalid, or the object has changed.
pub(in crate::embedded) async fn update(call: &Call) -> Result<Response<Body>, Status> {
    let submitted = body::object(call, &kind())?;
    write::check_name(call, &submitted)?;
    let options = WriteOptions::from_query(call.query(), OptionsKind::Update)?;
    let wanted = |owners: &Subject<'_>, before: &Object| {
        write::check_uid(call, &submitted, before)?;
        let mut submitted = submitted.clone();
        body::ensure_namespace(&mut submitted, call.namespace())?;
        owners.record(Some(before), &mut submitted);
        Ok(submitted)
    };
    change(call, &options, false, wanted).await
}

/// Responds to a patch.
///
/// # Errors
/// If the patch does not apply to the Scale, or the object has changed.
pub(in crate::embedded) async fn patch(call: &Call) -> Result<Response<Body>, Status> {
    let (patch_type, patch) = write::patch_of(call)?;
    let options = WriteOptions::from_query(call.query(), OptionsKind::Patch(patch_type))?;
    let is_apply = patch_type == PatchType::Apply;
    let wanted = |owners: &Subject<'_>, before: &Object| {
        let patched = if is_apply {
            owners.apply(Some(before), &patch, options.force == Some(true))?
        } else {
            let mut patched = write::apply(patch_type, before.clone(), &patch, &kind())?;
            owners.record(Some(before), &mut patched);
            patched
        };
        write::check_name(call, &patched)?;
        Ok(patched)
    };
    change(call, &options, is_apply, wanted).await
}

pub(in crate::embedded) fn kind() -> GroupVersionKind {
    GroupVersionKind::new("autoscaling", "v1", "Scale")
}

async fn change(
    call: &Call,
    options: &WriteOptions,
    is_apply: bool,
    wanted: impl Fn(&Subject<'_>, &Object) -> Result<Object, Status> + Send + Sync,
) -> Result<Response<Body>, Status> {
    let replicas_in = |api_version: &str| {
        let (group, _) = split_api_version(api_version);
        (*group == *call.resource.group).then_some(".spec.replicas")
    };
    let mut attempts = Attempts::new(call);
    loop {
        let current = write::current(call).await.ok_or_else(|| call.not_found())?;
        let parent = current.get(&MANAGED_FIELDS).unwrap_or(&Value::Null);
        let mut before = self::scale(&current);
        owners::set(&mut before, of_scale(parent, replicas_in));
        let scale = wanted(&call.owners_of(kind()), &before)?;
        if let Some(status) = invalid::status(&kind(), current.name(), validation::validate(&kind(), &scale)) {
            return Err(status);
        }
        if !scale.uid().is_empty() && scale.uid() != current.uid() {
            let why = write::unmet("UID", scale.uid(), current.uid());
            let resource = format!("{}/scale", call.resource.name);
            return Err(Status::conflict(&call.resource.group, &resource, current.name(), &why));
        }
        let replicas = scale.get(&["spec", "replicas"]).cloned().unwrap_or_else(|| json!(0));
        let mut object = Object::clone(&current);
        let _ = object.set(&["spec", "replicas"], replicas);
        let _ = object.set(&["metadata", "resourceVersion"], Value::from(scale.resource_version()));
        let owners_of_scale = scale.get(&MANAGED_FIELDS).unwrap_or(&Value::Null);
        let api_version = call.resource.gvk().api_version();
        owners::set(&mut object, of_scaled(parent, owners_of_scale, &api_version, replicas_in));
        let new = New { object, is_apply, dry_run: options.is_dry_run() };
        if let Some(stored) = write::replace(call, &current, new)? {
            return Ok(respond::scale(call, &self::scale(&stored)));
        }
        attempts.start_over().await?;
    }
}

/// The metadata of an object's Scale.
pub(in crate::embedded) fn metadata(object: &Object) -> Value {
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let (Some(value), Some(metadata)) = (object.get(&["metadata", field]), metadata.as_object_mut()) {
            metadata.insert(field.into(), value.clone());
        }
    }
    metadata
}

/// The Scale of an object (`scaleFromDeployment` and similar functions).
fn scale(object: &Object) -> Object {
    let metadata = metadata(object);
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
        "spec": spec(number(&["spec", "replicas"], 1)),
        "status": status,
    });
    Object::from_value(scale).unwrap_or_default()
}

/// The spec of a Scale, in which Go omits zero.
pub(in crate::embedded) fn spec(replicas: i64) -> Value {
    if replicas == 0 { json!({}) } else { json!({ "replicas": replicas }) }
}

/// The object's selector as one string (`metav1.FormatLabelSelector`); a replication controller's selector has only labels.
fn selector(object: &Object) -> String {
    let is_labels_only = object.kind() == "ReplicationController";
    let labels =
        strings(object, if is_labels_only { &["spec", "selector"] } else { &["spec", "selector", "matchLabels"] });
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
