//! Validation of a whole custom resource, in kube-apiserver's order (`customResourceStrategy`).

use super::Validator;
use super::scale::Scale;
use crate::Object;
use crate::kind::GroupVersionKind;
use crate::names::{dns_1123_subdomain_errors, mask_trailing_dash};
use crate::object_meta;
use crate::status::Cause;
use crate::status::fault::{self, NO_PATH};
use serde_json::{Map, Value};

/// The facts of a definition that the validation of its objects needs.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The kind in the version of the request.
    pub kind: &'a GroupVersionKind,
    /// Whether the objects are in namespaces.
    pub is_namespaced: bool,
    /// The schema of the version.
    pub validator: &'a Validator,
    /// The scale subresource of the version.
    pub scale: Option<&'a Scale>,
}

/// The errors of a new custom resource, without those of its rules (`x-kubernetes-validations`).
pub fn validate(facts: Facts<'_>, object: &Object) -> Vec<Cause> {
    let mut causes = type_causes(facts.kind, object);
    if !causes.is_empty() {
        return causes;
    }
    let errors = |name: &str, is_prefix: bool| match is_prefix {
        true => dns_1123_subdomain_errors(mask_trailing_dash(name)),
        false => dns_1123_subdomain_errors(name),
    };
    causes.extend(object_meta::validate(&metadata(object), facts.is_namespaced, &errors, "metadata"));
    causes.extend(facts.validator.object_causes(object));
    if let Some(scale) = facts.scale {
        causes.extend(scale.spec_causes(object));
        causes.extend(scale.status_causes(object));
    }
    causes.extend(facts.validator.embedded_causes(object));
    causes.extend(facts.validator.list_causes(object));
    causes
}

/// As [`validate`], for an update. Errors of unchanged parts are left out.
pub fn validate_update(facts: Facts<'_>, object: &Object, old: &Object) -> Vec<Cause> {
    let mut causes = type_causes(facts.kind, object);
    if !causes.is_empty() {
        return causes;
    }
    causes.extend(object_meta::validate_update(&metadata(object), &metadata(old), "metadata"));
    causes.extend(facts.validator.update_causes(object, old));
    if let Some(scale) = facts.scale {
        causes.extend(scale.spec_causes(object));
        causes.extend(scale.status_causes(object));
    }
    causes.extend(facts.validator.embedded_causes(object));
    if facts.validator.list_causes(old).is_empty() {
        causes.extend(facts.validator.list_causes(object));
    }
    causes
}

/// As [`validate_update`], for an update of the status subresource.
pub fn validate_status_update(facts: Facts<'_>, object: &Object, old: &Object) -> Vec<Cause> {
    let mut causes = type_causes(facts.kind, object);
    if !causes.is_empty() {
        return causes;
    }
    causes.extend(object_meta::validate_update(&metadata(object), &metadata(old), "metadata"));
    causes.extend(facts.validator.status_causes(object, old));
    causes.extend(facts.scale.into_iter().flat_map(|scale| scale.status_causes(object)));
    let lists = facts.validator.list_causes(object);
    if !lists.is_empty() && facts.validator.list_causes(old).is_empty() {
        causes.extend(lists);
    }
    causes
}

/// The error that stands in place of the errors of rules, if the object has errors that keep rules from being evaluated
/// (`hasBlockingErr`).
pub fn without_rules(causes: &[Cause]) -> Option<Cause> {
    const BLOCKING: [&str; 5] = [
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    ];
    let why = "some validation rules were not checked because the object was invalid; correct the existing errors to complete \
               validation";
    let is_blocked = causes.iter().any(|cause| BLOCKING.contains(&&*cause.reason));
    is_blocked.then(|| fault::invalid_value(NO_PATH, &Value::Null, why))
}

fn metadata(object: &Object) -> Map<String, Value> {
    object.fields().get("metadata").and_then(Value::as_object).cloned().unwrap_or_default()
}

/// `ValidateTypeMeta`
fn type_causes(kind: &GroupVersionKind, object: &Object) -> Vec<Cause> {
    let check = |field: &str, is: &str, must_be: &str| {
        (is != must_be).then(|| fault::invalid_text(field, is, &format!("must be {must_be}")))
    };
    [
        check("kind", object.kind(), &kind.kind),
        check("apiVersion", object.api_version(), &format!("{}/{}", kind.group, kind.version)),
    ]
    .into_iter()
    .flatten()
    .collect()
}
