//! Bodies of requests: read and decoded as in the proxy, and converted to the form in which they are stored.

use super::call::Call;
use crate::embedded::api::removed;
use crate::embedded::custom::resource::Custom;
use crate::embedded::strategies;
use crate::initializers;
use crate::kind::GroupVersionKind;
use crate::object::defaults::Defaulting;
use crate::object::{Object, discard_nulls, typed};
use crate::request::body::{self, BodyForm, DecodedObject, MediaType, MediaTypes, OtherKind, Unseen};
use crate::status::{Cause, Status};
use serde_json::Value;

pub(in crate::embedded) use crate::request::body::{check_name, check_new_name, ensure_namespace, read};

/// The object in a request's body, which must be of the kind `kind`, with its `apiVersion` and `kind` set.
///
/// # Errors
/// If the body is of another kind, or no object.
pub(in crate::embedded) fn object(call: &Call, kind: &GroupVersionKind) -> Result<Object, Status> {
    let media_type = media_type(call)?;
    let custom = call.resource.custom.as_ref().filter(|_| *kind == call.resource.gvk());
    // The unknown fields of built-in kinds may be those of a later release; a definition's are mistakes.
    let form = match custom.is_some() || strategies::of(&call.resource).has_no_later_fields() {
        true => BodyForm::Normal(custom.and_then(Custom::structural)),
        false => BodyForm::Carrying(None),
    };
    let other = match removed::api(&call.resource) {
        Some(_) => OtherKind::Removed,
        None => OtherKind::Custom,
    };
    let mut decoded = body::decode_object_of(&call.body, media_type, kind, form, other, Defaulting::default())?;
    if call.server.settings.initializers {
        decoded.unknown.retain(|text| text != initializers::UNKNOWN_FIELD);
    }
    match call.parameter("fieldValidation").as_deref() {
        Some("Strict") => {
            if let Some(errors) = decoded.strict_errors(media_type) {
                return Err(Status::bad_request(format!(
                    "{} in version {:?} cannot be handled as a {}: strict decoding error: {errors}",
                    kind.kind, kind.version, kind.kind
                )));
            }
        }
        Some("Ignore") => {}
        _ if matches!(form, BodyForm::Normal(_)) => decoded.strict_warnings().for_each(|text| call.warn(text.clone())),
        _ => {}
    }
    if custom.is_some() {
        return Ok(decoded.object);
    }
    Ok(whole(decoded, kind))
}

/// A patched object, checked to be still of its kind.
///
/// # Errors
/// If the object is of another kind, or has fields of wrong types.
pub(in crate::embedded) fn patched(value: &Value, kind: &GroupVersionKind) -> Result<Object, Status> {
    let text = value.to_string();
    let decoded =
        body::decode_object(text.as_bytes(), MediaType::Json, kind, BodyForm::Carrying(None)).map_err(|status| {
            // `handlers.jsonPatcher.applyPatchToCurrentObject`: a decoding error is reported as an error of the patch.
            let Some((_, why)) = status.message.split_once(&format!("cannot be handled as a {}: ", kind.kind)) else {
                return status;
            };
            let message = format!("Invalid value: {text:?}: {why}");
            let cause = Cause { reason: "FieldValueInvalid".into(), message, field: "patch".into() };
            let name = value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
            Status::invalid(&kind.group, &kind.kind, name, &format!("patch: {}", cause.message), vec![cause])
        })?;
    Ok(whole(decoded, kind))
}

/// The encoding of a body.
///
/// # Errors
/// For every media type except JSON, YAML and protobuf.
pub(in crate::embedded) fn media_type(call: &Call) -> Result<MediaType, Status> {
    body::media_type(call.content_type.as_deref(), MediaTypes::default())
}

/// The object with its unknown fields, which are stored too.
fn whole(decoded: DecodedObject, kind: &GroupVersionKind) -> Object {
    let DecodedObject { mut object, unseen, .. } = decoded;
    if let Unseen::Fields(rest) = unseen {
        let before = object.fields().clone();
        // Decoding adds defaults and moves no items, so each item is found again.
        let _ = rest.put_back(&before, object.fields_mut());
    }
    without_nulls(object, kind)
}

/// Removes null fields of a kind without a typed decoder, which would drop them.
fn without_nulls(object: Object, kind: &GroupVersionKind) -> Object {
    if typed::has_type(kind) {
        return object;
    }
    let mut value = object.into_value();
    discard_nulls(&mut value);
    Object::from_value(value).unwrap_or_default()
}
