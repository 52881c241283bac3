//! Shared code of plugins that add a finalizer.

use crate::admission::Denial;
use crate::object::Object;

/// Adds the finalizer, unless the object already has it.
pub(super) fn add_finalizer(object: &mut Object, finalizer: &str) -> Result<(), Denial> {
    let path = ["metadata", "finalizers"];
    if object.items(&path).iter().any(|other| other == finalizer) || object.append(&path, finalizer.into()) {
        return Ok(());
    }
    Err(Denial::forbidden("metadata.finalizers: not a list"))
}
