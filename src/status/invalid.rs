//! 422: `field.ErrorList` and its texts.

use super::{Cause, Status};
use crate::object::{GroupVersionKind, GroupVersionResource};

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

/// The `NewInvalid` of these causes; `None` if there are none. Its text says nothing twice.
pub fn status(kind: &GroupVersionKind, name: &str, causes: Vec<Cause>) -> Option<Status> {
    let mut texts: Vec<String> = Vec::with_capacity(causes.len());
    for Cause { field, message, .. } in &causes {
        let text = format!("{field}: {message}");
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    let text = match texts.as_slice() {
        [] => return None,
        [text] => text.clone(),
        texts => format!("[{}]", texts.join(", ")),
    };
    Some(Status::invalid(&kind.group, &kind.kind, name, &text, causes))
}

/// An update that must say a resourceVersion and doesn't (`Store.Update`). Here kube-apiserver says the resource where it says the
/// kind elsewhere.
pub fn without_version(resource: &GroupVersionResource, name: &str) -> Status {
    let cause = invalid("metadata.resourceVersion", "0", "must be specified for an update");
    let text = format!("{}: {}", cause.field, cause.message);
    Status::invalid(&resource.group, &resource.resource, name, &text, vec![cause])
}

/// The same for options of a request, whose kinds are of `meta.k8s.io`.
pub fn options(kind: &str, causes: Vec<Cause>) -> Option<Status> {
    status(&GroupVersionKind::new("meta.k8s.io", "v1", kind), "", causes)
}

fn cause(reason: &str, field: &str, message: String) -> Cause {
    Cause { reason: reason.into(), field: field.into(), message }
}
