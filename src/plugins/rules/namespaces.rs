//! The namespace of a request.

use crate::admission::{Attributes, Denial};
use crate::status::Status;

/// Whether the request's object is in a namespace, and is not itself a Namespace.
pub(in crate::plugins) fn is_in_a_namespace(attributes: &Attributes) -> bool {
    !attributes.namespace.is_empty() && !is_namespace(attributes)
}

/// The error of a failed live lookup: NotFound unchanged, any other error as an internal error.
pub(in crate::plugins) fn internal_unless_not_found(status: Status) -> Denial {
    if status.reason == "NotFound" { status.into() } else { Status::internal_error(status.message).into() }
}

/// Whether the request's object is a Namespace.
pub(in crate::plugins) fn is_namespace(attributes: &Attributes) -> bool {
    attributes.kind.group.is_empty() && attributes.kind.kind == "Namespace"
}
