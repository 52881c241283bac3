//! 422: `field.ErrorList` and its texts, where the embedded server itself checks something.

use crate::object::GroupVersionKind;
use crate::status::{Cause, Status};

/// `field.Invalid`.
pub fn invalid(field: &str, value: &str, why: &str) -> Cause {
    cause("FieldValueInvalid", field, format!("Invalid value: {value}: {why}"))
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

/// The `NewInvalid` of these causes; `None` if there are none.
pub fn status(kind: &GroupVersionKind, name: &str, causes: Vec<Cause>) -> Option<Status> {
    let texts: Vec<_> = causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
    let text = match texts.as_slice() {
        [] => return None,
        [text] => text.clone(),
        texts => format!("[{}]", texts.join(", ")),
    };
    Some(Status::invalid(&kind.group, &kind.kind, name, &text, causes))
}

/// The same for options of a request, whose kinds are of `meta.k8s.io`.
pub fn options(kind: &str, causes: Vec<Cause>) -> Option<Status> {
    status(&GroupVersionKind::new("meta.k8s.io", "v1", kind), "", causes)
}

fn cause(reason: &str, field: &str, message: String) -> Cause {
    Cause { reason: reason.into(), field: field.into(), message }
}
