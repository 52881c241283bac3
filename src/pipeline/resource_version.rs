//! `metadata.resourceVersion` of writes: the version that a client names, and the version that the proxy adds so that a write replaces exactly
//! the admitted object.

use super::gateway::Answer;
use super::target::Target;
use super::write::Write;
use crate::go_text::go_quote;
use crate::object::{Object, kinds};
use crate::status::{OPTIMISTIC_LOCK, Status, invalid};
use http::StatusCode;

/// Sets the stored resourceVersion in the object, so that the write replaces exactly the admitted object (`Store.Update`). A
/// resourceVersion that a plugin or the client has set must equal the stored one. Returns whether the object already had the
/// stored one.
pub(super) fn pin(write: &Write<'_>, object: &mut Object, old: &Object) -> Result<bool, Status> {
    let (asked_for, stored) = (object.resource_version(), old.resource_version());
    if asked_for == stored {
        return Ok(true);
    }
    if !names_no_version(asked_for) {
        readable_version(asked_for)?;
        return Err(write.conflict(OPTIMISTIC_LOCK));
    }
    match object.set(&["metadata", "resourceVersion"], stored.into()) {
        true => Ok(false),
        false => Err(Status::bad_request("metadata is not an object after admission")),
    }
}

/// Whether the object has no resourceVersion, but updates of its kind may need one. The proxy then sends a dry run without a
/// resourceVersion, because the version that the proxy adds must not make such an update valid. Only a dry run shows the need
/// of a custom resource; the need of an aggregated API without support for dry run stays unknown.
pub(super) fn may_be_required(write: &Write<'_>, object: &Object) -> bool {
    let may_be_required = if write.target.is_built_in() { is_required(&write.target) } else { write.knows_dry_runs };
    may_be_required && names_no_version(object.resource_version())
}

/// Whether an update of the built-in resource needs a resourceVersion.
fn is_required(target: &Target) -> bool {
    let resource = &target.resource;
    kinds::of_resource(&resource.group, &resource.resource).is_some_and(|built_in| built_in.updated_by_version)
}

/// Checks that a patched object has a resourceVersion, if updates of its kind need one.
pub(super) fn check(write: &Write<'_>, object: &Object) -> Result<(), Status> {
    let required = write.schema.is_some() || write.target.is_built_in() && is_required(&write.target);
    match required && names_no_version(object.resource_version()) {
        true => Err(invalid::without_version(&write.target.resource, &write.target.name)),
        false => Ok(()),
    }
}

/// Parses the resourceVersion of an object, which is a number.
///
/// # Errors
/// If the text is not a number; with kube-apiserver's message.
pub(super) fn readable_version(text: &str) -> Result<u64, Status> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| is_number);
    number.ok_or_else(|| {
        let why = if is_number { "value out of range" } else { "invalid syntax" };
        Status::plain(format!("strconv.ParseUint: parsing {}: {why}", go_quote(text)))
    })
}

/// Whether the resourceVersion is empty or zero, so that the object may replace any version (`Store.Update`).
pub(super) fn names_no_version(text: &str) -> bool {
    text.is_empty() || matches!(readable_version(text), Ok(0))
}

/// Whether the API server refuses an update because it has no resourceVersion.
pub(super) fn is_about_version(answer: &Answer) -> bool {
    let is_cause = |status: Status| {
        let causes = status.details.map(|details| details.causes).unwrap_or_default();
        causes.iter().any(|cause| cause.field == "metadata.resourceVersion")
    };
    answer.status == StatusCode::UNPROCESSABLE_ENTITY && answer.status().is_some_and(is_cause)
}
