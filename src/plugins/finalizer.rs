//! What plugins that add a finalizer share.

use crate::admission::Denial;
use crate::object::Object;

/// Adds the finalizer, unless it is there.
pub(super) fn add_finalizer(object: &mut Object, finalizer: &str) -> Result<(), Denial> {
    let path = ["metadata", "finalizers"];
    if object.items(&path).iter().any(|other| other == finalizer) || object.append(&path, finalizer.into()) {
        return Ok(());
    }
    Err(Denial::forbidden("metadata.finalizers: not a list"))
}
