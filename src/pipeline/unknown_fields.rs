//! Stored objects without the unknown fields of built-in kinds, as plugins see them.

use super::initializers::has_unknown_fields;
use super::rest::Rest;
use super::write::Write;
use crate::initializers;
use crate::object::Object;
use std::sync::Arc;

/// Returns a stored object as plugins see it.
pub(super) fn seen(write: &Write<'_>, stored: &Arc<Object>) -> Arc<Object> {
    if !is_in(write, stored) {
        return stored.clone();
    }
    let mut seen = Object::clone(stored);
    hide(write, &mut seen);
    Arc::new(seen)
}

/// Takes the unknown fields out of a stored object.
pub(super) fn hide(write: &Write<'_>, object: &mut Object) {
    if is_in(write, object) {
        let field = if write.pipeline.keeps_initializers { initializers::take(object) } else { None };
        drop(Rest::take(write.target.kind(), object));
        initializers::put(object, field);
    }
}

/// Whether a stored object has unknown fields; false for an object of another kind, as a subresource's parent.
pub(super) fn is_in(write: &Write<'_>, object: &Object) -> bool {
    let kind = write.target.kind();
    kind.matches_type(object.api_version(), object.kind()) && has_unknown_fields(write, object)
}
