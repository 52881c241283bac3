//! Patches: JSON (RFC 6902), merge (RFC 7386) and strategic merge, each as kube-apiserver applies it.
//!
//! Server-side apply is not here: only the API server knows the field managers.

pub mod admission;
mod json;
mod merge;
mod strategic;
mod text;

pub(crate) use json::{Failure, apply_operations, operation_fields};
pub use merge::merge_diff;
pub use strategic::NO_FIELD;
pub use text::text;

use super::decode::{self, Decoded};
use super::{cbor, release, schema};
use crate::status::{Cause, Details, Status};
use serde_json::Value;

/// The format of a PATCH request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PatchType {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Kubernetes' strategic merge, which merges lists by keys.
    Strategic,
    /// Server-side apply.
    Apply,
}

/// The media types that kube-apiserver lists as accepted, in its order.
const ACCEPTED: [&str; 5] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    STRATEGIC,
    "application/apply-patch+yaml",
    APPLY_CBOR,
];

/// The media type that custom resources do not accept.
const STRATEGIC: &str = "application/strategic-merge-patch+json";
/// The media type that needs its feature gate.
const APPLY_CBOR: &str = "application/apply-patch+cbor";

impl PatchType {
    /// Parses a `Content-Type` header; ignores parameters (`handlers.PatchResource`). With `has_cbor`, an apply configuration may be CBOR.
    ///
    /// # Errors
    /// 415 for any other media type.
    pub fn from_content_type(content_type: Option<&str>, has_cbor: bool) -> Result<Self, Status> {
        match without_parameters(content_type) {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            STRATEGIC => Ok(Self::Strategic),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            APPLY_CBOR if has_cbor => Ok(Self::Apply),
            _ => Err(Self::unsupported(true, has_cbor)),
        }
    }

    /// The 415 for a kind with or without strategic merge.
    pub fn unsupported(strategic: bool, has_cbor: bool) -> Status {
        let is_accepted = |one: &&str| (strategic || *one != STRATEGIC) && (has_cbor || *one != APPLY_CBOR);
        Status::unsupported_media_type(&ACCEPTED.into_iter().filter(is_accepted).collect::<Vec<_>>())
    }

    /// The media type.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json => ACCEPTED[0],
            Self::Merge => ACCEPTED[1],
            Self::Strategic => ACCEPTED[2],
            Self::Apply => ACCEPTED[3],
        }
    }
}

fn without_parameters(content_type: Option<&str>) -> &str {
    let content_type = content_type.unwrap_or_default();
    match content_type.find(';') {
        Some(at) if at > 0 => &content_type[..at],
        _ => content_type,
    }
}

/// Decodes an apply configuration by its `Content-Type`.
///
/// # Errors
/// As [`decode()`].
pub fn decode_configuration(content_type: Option<&str>, bytes: &[u8]) -> Result<Decoded, Status> {
    if without_parameters(content_type) != APPLY_CBOR {
        return decode(PatchType::Apply, bytes);
    }
    let fields = cbor::decode(bytes)
        .map_err(|why| Status::bad_request(format!("error decoding {}: {why}", configuration_name())))?;
    Ok(Decoded { value: fields.map_or(Value::Null, Value::Object), duplicates: Vec::new() })
}

/// What errors call an apply configuration (`applyPatchToCurrentObject`).
pub fn configuration_name() -> &'static str {
    if release::since(37) { "patch" } else { "YAML" }
}

/// Whether a body that cannot be parsed is refused before the object is read (`validateAndTranscodePatch`).
pub fn is_parsed_first() -> bool {
    release::since(37)
}

/// Decodes the body of a PATCH request.
///
/// # Errors
/// 400 with kube-apiserver's text, which depends on the patch type.
pub fn decode(patch_type: PatchType, bytes: &[u8]) -> Result<Decoded, Status> {
    match patch_type {
        PatchType::Json | PatchType::Merge | PatchType::Strategic if is_parsed_first() => {
            decode::json(bytes).map_err(|_| Status::bad_request("invalid JSON patch"))
        }
        PatchType::Apply if is_parsed_first() => {
            decode::yaml(bytes).map_err(|why| Status::bad_request(format!("error encoding patch: {why}")))
        }
        PatchType::Json | PatchType::Merge => {
            decode::json(bytes).map_err(|why| Status::bad_request(format!("error decoding patch: {why}")))
        }
        PatchType::Strategic => decode::json(bytes).map_err(Status::bad_request),
        PatchType::Apply => decode::yaml(bytes)
            .map_err(|why| Status::bad_request(format!("error decoding YAML: error converting YAML to JSON: {why}"))),
    }
}

/// Applies a decoded patch to an object, in place where possible.
///
/// # Errors
/// 400 for a patch of the wrong shape, 413 for a patch with too many operations, 415 for a strategic patch without `schema`, 422 for a
/// patch that does not apply; 501 for apply, which only the API server can do.
pub fn apply(
    patch_type: PatchType,
    original: Value,
    patch: &Value,
    schema: Option<&'static schema::ApiType>,
) -> Result<Value, Status> {
    let patched = match patch_type {
        PatchType::Json => json::apply(original, patch)?,
        PatchType::Merge => merge::apply(original, patch)?,
        PatchType::Strategic => match schema {
            Some(schema) => strategic::apply(original, patch, schema)?,
            None => return Err(PatchType::unsupported(false, false)),
        },
        PatchType::Apply => return Err(Status::not_implemented("a server-side apply outside the API server")),
    };
    if patched.is_object() { Ok(patched) } else { Err(no_object(&patched)) }
}

/// The Status of kube-apiserver if it cannot decode the patched object (`jsonPatcher.applyPatchToCurrentObject`).
fn no_object(patched: &Value) -> Status {
    let found = crate::go_text::go_type(patched);
    let why = format!(
        "Invalid value: {}: couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go value of type \
         struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
        crate::go_text::go_quote(&patched.to_string())
    );
    let text = format!("patch: {why}");
    let cause = Cause { reason: "FieldValueInvalid".into(), message: why, field: "patch".into() };
    Status::invalid("", "", "", &text, vec![cause])
}

/// The 422 of a patch that does not apply. kube-apiserver drops the reason (`NewGenericServerResponse` with an expected response).
fn unprocessable() -> Status {
    Status::failure(422, "Invalid", "the server rejected our request due to an error in our request")
        .with_details(Details::default())
}

#[cfg(test)]
mod tests;
