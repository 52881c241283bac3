//! The `scale` subresource of a custom resource (`ScaleREST`).

use super::convert::shown_to;
use super::write::{change, custom};
use crate::body::Body;
use crate::embedded::custom::resource::Custom;
use crate::embedded::http::call::Call;
use crate::embedded::http::{body, respond};
use crate::embedded::store::Reads;
use crate::embedded::strategies::owners::{self, MANAGED_FIELDS, Subject};
use crate::embedded::verbs::{read, scale as built_in, write};
use crate::go_text::{go_dynamic_type, go_print, go_quote};
use crate::kind::split_api_version;
use crate::object::Object;
use crate::object::managed_fields::{of_scale, of_scaled};
use crate::object::patch::PatchType;
use crate::object::structural::validate::Scale;
use crate::request::body::{OptionsKind, WriteOptions};
use crate::status::Status;
use http::Response;
use serde_json::{Value, json};

/// The replicas of a scale whose object has none (`invalidSpecReplicas`).
const UNSET: i64 = i32::MIN as i64;

/// Responds to a get.
///
/// # Errors
/// If the object does not exist, or has no replicas.
pub(in crate::embedded) async fn get(call: &Call) -> Result<Response<Body>, Status> {
    read::check_version(call)?;
    read::check_key(call)?;
    let custom = custom(call)?;
    let current = call.server.store.object(call.collection(), &call.key());
    let current = shown_to(call, current.ok_or_else(|| call.not_found())?).await?;
    let paths = paths(custom)?;
    let (scale, is_set) = scale_of(paths, &custom.shown(&current))?;
    if !is_set {
        let why = format!("the spec replicas field {} does not exist", go_quote(&paths.spec_replicas));
        return Err(Status::internal_error(why));
    }
    Ok(respond::scale(call, &scale))
}

/// Responds to an update.
///
/// # Errors
/// If the Scale is invalid, or the object has changed.
pub(in crate::embedded) async fn update(call: &Call) -> Result<Response<Body>, Status> {
    let submitted = body::object(call, &built_in::kind())?;
    write::check_name(call, &submitted)?;
    let options = WriteOptions::from_query(call.query(), OptionsKind::Update)?;
    scaled(call, &options, false, |owners, before| {
        let mut submitted = submitted.clone();
        owners.record(Some(before), &mut submitted);
        Ok(submitted)
    })
    .await
}

/// Responds to a patch.
///
/// # Errors
/// If the patch does not apply to the Scale, or the object has changed.
pub(in crate::embedded) async fn patch(call: &Call) -> Result<Response<Body>, Status> {
    let (patch_type, patch) = write::patch_of(call)?;
    if patch_type == PatchType::Strategic {
        return Err(PatchType::unsupported(false, false));
    }
    let options = WriteOptions::from_query(call.query(), OptionsKind::Patch(patch_type))?;
    let is_apply = patch_type == PatchType::Apply;
    scaled(call, &options, is_apply, |owners, before| {
        let patched = if is_apply {
            owners.apply(Some(before), &patch, options.force == Some(true))?
        } else {
            let mut patched = write::apply(patch_type, before.clone(), &patch, &built_in::kind())?;
            owners.record(Some(before), &mut patched);
            patched
        };
        write::check_name(call, &patched)?;
        Ok(patched)
    })
    .await
}

async fn scaled(
    call: &Call,
    options: &WriteOptions,
    is_apply: bool,
    wanted: impl Fn(&Subject<'_>, &Object) -> Result<Object, Status> + Send + Sync,
) -> Result<Response<Body>, Status> {
    let custom = custom(call)?;
    let paths = paths(custom)?;
    let definition = &custom.definition;
    let replicas_in = |api_version: &str| {
        let (group, version) = split_api_version(api_version);
        let version = definition.version(version).filter(|_| *definition.group == *group)?;
        version.scale.as_ref().map(|scale| &*scale.spec_replicas)
    };
    let owners = call.owners_of(built_in::kind());
    let stored = change(call, is_apply, options.is_dry_run(), |current| {
        let parent = current.get(&MANAGED_FIELDS).unwrap_or(&Value::Null);
        let (mut before, is_set) = scale_of(paths, current)?;
        if !is_set {
            let _ = before.set(&["spec", "replicas"], UNSET.into());
        }
        owners::set(&mut before, of_scale(parent, replicas_in));
        let scale = wanted(&owners, &before)?;
        let replicas = scale.get(&["spec", "replicas"]).cloned().unwrap_or_else(|| json!(0));
        if replicas.as_i64() == Some(UNSET) {
            let why = format!("the spec replicas field {} cannot be empty", go_quote(&paths.spec_replicas));
            return Err(Status::bad_request(why));
        }
        let mut object = current.clone();
        let path: Vec<&str> = steps(&paths.spec_replicas).collect();
        if !object.set(&path, replicas) {
            let why = format!("value cannot be set because {} is not a map[string]interface{{}}", paths.spec_replicas);
            return Err(Status::plain(why));
        }
        if !scale.resource_version().is_empty() {
            let _ = object.set(&["metadata", "resourceVersion"], scale.resource_version().into());
        }
        let owned = scale.get(&MANAGED_FIELDS).unwrap_or(&Value::Null);
        owners::set(&mut object, of_scaled(parent, owned, &custom.version.kind.api_version(), replicas_in));
        Ok(object)
    });
    let (scale, _) = scale_of(paths, &custom.shown(&*stored.await?))?;
    Ok(respond::scale(call, &scale))
}

fn paths(custom: &Custom) -> Result<&Scale, Status> {
    custom.version.scale.as_ref().ok_or_else(Status::no_such_path)
}

fn steps(path: &str) -> impl Iterator<Item = &str> {
    path.strip_prefix('.').unwrap_or(path).split('.')
}

/// The Scale of an object, and whether the object has replicas (`scaleFromCustomResource`).
fn scale_of(paths: &Scale, object: &Object) -> Result<(Object, bool), Status> {
    let value = |path: &str| object.get(&steps(path).collect::<Vec<_>>()).filter(|value| !value.is_null());
    let wrong = |path: &str, value: &Value, expected: &str| {
        let (shown, of) = (go_print(value), go_dynamic_type(value));
        let path = path.strip_prefix('.').unwrap_or(path);
        Status::plain(format!(".{path} accessor error: {shown} is of the type {of}, expected {expected}"))
    };
    let number = |path: &str| match value(path) {
        None => Ok(None),
        Some(value) => value.as_i64().map(Some).ok_or_else(|| wrong(path, value, "int64")),
    };
    let spec = number(&paths.spec_replicas)?;
    let mut status = json!({"replicas": number(&paths.status_replicas)?.unwrap_or_default()});
    if let Some(path) = &paths.label_selector
        && let Some(selector) = value(path)
    {
        let selector = selector.as_str().ok_or_else(|| wrong(path, selector, "string"))?;
        if let (false, Some(status)) = (selector.is_empty(), status.as_object_mut()) {
            status.insert("selector".to_owned(), selector.into());
        }
    }
    let scale = json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": built_in::metadata(object),
        "spec": built_in::spec(spec.unwrap_or_default()),
        "status": status,
    });
    Ok((Object::from_value(scale).unwrap_or_default(), spec.is_some()))
}
