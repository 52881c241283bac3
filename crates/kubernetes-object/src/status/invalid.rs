//! 422: `field.ErrorList` and its texts.

use super::{Cause, Status};
use crate::kind::{GroupVersionKind, GroupVersionResource};

/// `field.Invalid`.
pub fn invalid(field: &str, value: &str, why: &str) -> Cause {
    cause("FieldValueInvalid", field, format!("Invalid value: {value}: {why}"))
}

/// `field.TypeInvalid`.
pub fn of_type(field: &str, value: &str, why: &str) -> Cause {
    cause("FieldValueTypeInvalid", field, format!("Invalid value: {value}: {why}"))
}

/// `field.Required`.
pub fn required(field: &str, why: &str) -> Cause {
    cause("FieldValueRequired", field, format!("Required value: {why}"))
}

/// `field.Forbidden`.
pub fn forbidden(field: &str, why: &str) -> Cause {
    cause("FieldValueForbidden", field, format!("Forbidden: {why}"))
}

/// `field.NotSupported`.
pub fn not_supported(field: &str, value: &str, supported: &[&str]) -> Cause {
    let supported: Vec<_> = supported.iter().map(|value| format!("{value:?}")).collect();
    let message = format!("Unsupported value: {value:?}: supported values: {}", supported.join(", "));
    cause("FieldValueNotSupported", field, message)
}

/// Joins the errors to one text, each once (`utilerrors.NewAggregate`); `None` without errors.
pub fn aggregate(errors: impl IntoIterator<Item = String>) -> Option<String> {
    let mut texts: Vec<String> = Vec::new();
    for error in errors {
        if !texts.contains(&error) {
            texts.push(error);
        }
    }
    match texts.len() {
        0 | 1 => texts.pop(),
        _ => Some(format!("[{}]", texts.join(", "))),
    }
}

/// Creates the `NewInvalid` of these causes; `None` without causes.
pub fn status(kind: &GroupVersionKind, name: &str, causes: Vec<Cause>) -> Option<Status> {
    let text = aggregate(causes.iter().map(|Cause { field, message, .. }| format!("{field}: {message}")))?;
    Some(Status::invalid(&kind.group, &kind.kind, name, &text, causes))
}

/// Creates the error of an update without a required resourceVersion (`Store.Update`). kube-apiserver names the resource here, where
/// other errors name the kind.
pub fn without_version(resource: &GroupVersionResource, name: &str) -> Status {
    let cause = invalid("metadata.resourceVersion", "0", "must be specified for an update");
    let text = format!("{}: {}", cause.field, cause.message);
    Status::invalid(&resource.group, &resource.resource, name, &text, vec![cause])
}

/// Creates the `NewInvalid` for options of a request, whose kinds are in `meta.k8s.io`.
pub fn options(kind: &str, causes: Vec<Cause>) -> Option<Status> {
    status(&GroupVersionKind::new("meta.k8s.io", "v1", kind), "", causes)
}

fn cause(reason: &str, field: &str, message: String) -> Cause {
    Cause { reason: reason.into(), field: field.into(), message }
}
