//! Validation of built-in objects before they are stored ([`crate::object::validation`]).

use super::context::Context;
use super::privileged;
use super::strategy::Strategy;
use crate::embedded::api::catalog::ServedResource;
use crate::initializers;
use crate::kind::{GroupVersionKind, split_api_version};
use crate::object::kinds;
use crate::object::object_meta;
use crate::object::typed::{Rest, has_rest};
use crate::object::{Object, validation};
use crate::status::{Cause, Status, invalid};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Validates a new object in its stored form.
///
/// # Errors
/// 422 with every error.
pub(in crate::embedded) fn create(context: &Context<'_>, object: &Object) -> Result<(), Status> {
    let resource = context.resource;
    if !is_built_in(resource) {
        return Ok(());
    }
    let strategy = super::of(resource);
    let shown = known(resource.validated(object));
    let mut causes = validation::validate(&kind_of(&shown), &shown);
    causes.extend(privileged(context, strategy, &shown));
    causes.extend(strategy.validate(context, &shown));
    if causes.is_empty() {
        // `rest.BeforeCreate` checks the metadata of all kinds alike, after the kind itself.
        let names = &object_meta::path_segment_name_errors;
        causes = object_meta::validate(metadata(&shown), resource.namespaced, names, "metadata");
    }
    invalid::status(&resource.gvk(), object.name(), causes).map_or(Ok(()), Err)
}

/// Validates an object in its stored form that replaces another.
///
/// # Errors
/// 422 with every error.
pub(in crate::embedded) fn update(context: &Context<'_>, object: &Object, current: &Object) -> Result<(), Status> {
    let resource = context.resource;
    if !is_built_in(resource) {
        return Ok(());
    }
    let strategy = super::of(resource);
    // An initializer may change an object that other clients do not see yet (`isUpdatingUninitializedPod` of Kubernetes 1.13).
    if strategy.is_free_until_initialized() && initializers::is_uninitialized(current) {
        return create(context, object);
    }
    let (shown, current) = (known(resource.validated(object)), known(resource.validated(current)));
    let mut causes = object_meta::validate_any_update(metadata(&shown), metadata(&current), resource.namespaced);
    causes.extend(validation::validate_update(&kind_of(&shown), &shown, &current, context.subresource));
    causes.extend(privileged(context, strategy, &shown));
    causes.extend(strategy.validate_update(context, &shown));
    invalid::status(&resource.gvk(), object.name(), causes).map_or(Ok(()), Err)
}

/// Whether [`update`] compares the metadata with the current one.
pub(in crate::embedded) fn checks_metadata(context: &Context<'_>, current: &Object) -> bool {
    let is_free = super::of(context.resource).is_free_until_initialized() && initializers::is_uninitialized(current);
    is_built_in(context.resource) && !is_free
}

/// Warns of a valid object in its stored form, which replaces `current` or is new (`WarningsOnCreate`, `WarningsOnUpdate`).
pub(in crate::embedded) fn warn(context: &Context<'_>, object: &Object, current: Option<&Object>) {
    let resource = context.resource;
    if !is_built_in(resource) {
        return;
    }
    let (shown, current) =
        (known(resource.validated(object)), current.map(|current| known(resource.validated(current))));
    let mut warnings = validation::warnings(&kind_of(&shown), &shown, current.as_deref(), context.subresource);
    warnings.extend(super::of(resource).warning(&shown));
    warnings.into_iter().for_each(|warning| context.warnings.warn(warning));
}

/// The causes of `--allow-privileged=false`.
fn privileged(context: &Context<'_>, strategy: &dyn Strategy, object: &Object) -> Vec<Cause> {
    match strategy.pod_spec() {
        Some(spec) if !context.settings.allow_privileged => privileged::causes(spec, object),
        _ => Vec::new(),
    }
}

/// Whether the resource is one of Kubernetes 1.36, rather than a removed or a custom one.
fn is_built_in(resource: &ServedResource) -> bool {
    kinds::of_resource(&resource.group, &resource.name).is_some()
}

/// The object without fields that its kind does not have in Kubernetes 1.36. The server stores them, and they have no rules.
fn known(object: Cow<'_, Object>) -> Cow<'_, Object> {
    let kind = kind_of(&object);
    if !has_rest(&kind, object.fields()) {
        return object;
    }
    let mut object = object.into_owned();
    let _ = Rest::take(&kind, object.fields_mut());
    Cow::Owned(object)
}

fn kind_of(object: &Object) -> GroupVersionKind {
    let (group, version) = split_api_version(object.api_version());
    GroupVersionKind::new(group, version, object.kind())
}

fn metadata(object: &Object) -> &Map<String, Value> {
    static NONE: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    object.get(&["metadata"]).and_then(Value::as_object).unwrap_or(&NONE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Limits;
    use crate::embedded::api::catalog;
    use crate::embedded::settings::Settings;
    use crate::embedded::store::Store;
    use crate::embedded::strategies::Silent;
    use crate::user::UserInfo;
    use serde_json::json;
    use std::sync::Arc;

    fn object(value: Value) -> Object {
        Object::from_value(value).unwrap()
    }

    /// Runs a validation of ConfigMaps.
    fn validated(validate: impl FnOnce(&Context<'_>) -> Result<(), Status>) -> Result<(), Status> {
        let (limits, settings) = (Arc::<Limits>::default(), Arc::<Settings>::default());
        validate(&Context {
            store: &Store::new(limits.clone(), settings.clone()),
            settings: &settings,
            limits: &limits,
            resource: catalog::resource("", "v1", "configmaps").unwrap(),
            namespace: "b",
            name: "a",
            subresource: "",
            caller: &UserInfo::default(),
            dry_run: false,
            warnings: &Silent,
        })
    }

    #[test]
    fn a_new_object_is_refused_with_every_error() {
        let new = |data: Value| {
            object(
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b"}, "data": data}),
            )
        };
        assert!(validated(|context| create(context, &new(json!({"a": "b"})))).is_ok());
        let status = validated(|context| create(context, &new(json!({"a b": "", "..": ""})))).unwrap_err();
        assert_eq!((status.code, status.details.unwrap().causes.len()), (422, 2));
    }

    #[test]
    fn an_immutable_object_stays_as_it_is() {
        let with = |data: Value| {
            object(json!({"apiVersion": "v1", "kind": "ConfigMap", "immutable": true, "data": data,
                "metadata": {"name": "a", "namespace": "b", "resourceVersion": "1"}}))
        };
        let (old, new) = (with(json!({"a": "b"})), with(json!({"a": "c"})));
        assert!(validated(|context| update(context, &old, &old)).is_ok());
        let status = validated(|context| update(context, &new, &old)).unwrap_err();
        assert!(status.message.ends_with("data: Forbidden: field is immutable when `immutable` is set"), "{status}");
    }
}
