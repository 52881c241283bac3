//! `metadata.initializers`, which the types lack: kept in the objects of writes if the API server behind has the field.

use super::write::{Write, schema};
use crate::initializers::{self, DecodedInitializers, InvalidInitializers};
use crate::object::patch::{self, PatchType};
use crate::object::{Object, typed};
use crate::status::Status;
use serde_json::Value;

const FIELD: &str = "initializers";

/// Takes the field out of a patched object, so that the object can be decoded.
///
/// # Errors
/// If the field has values of wrong types, with the text of Go's decoder.
pub(super) fn take(write: &Write<'_>, patched: &mut Value) -> Result<DecodedInitializers, InvalidInitializers> {
    if !write.pipeline.keeps_initializers {
        return Ok(DecodedInitializers::default());
    }
    let metadata = patched.get_mut("metadata").and_then(Value::as_object_mut);
    let field = metadata.and_then(|metadata| metadata.remove(FIELD));
    field.map_or_else(|| Ok(DecodedInitializers::default()), |field| initializers::decode(&field))
}

/// Applies a strategic merge patch to an object. The field has no schema, so it is merged by itself.
pub(super) fn merged_strategically(write: &Write<'_>, mut stored: Value, patch: &Value) -> Result<Value, Status> {
    let schema = schema(write.target.kind());
    let part = patch.get("metadata").and_then(|metadata| metadata.get(FIELD));
    let Some(part) = part.filter(|_| write.pipeline.keeps_initializers) else {
        return patch::apply(PatchType::Strategic, stored, patch, schema);
    };
    let take = |value: &mut Value| value.get_mut("metadata")?.as_object_mut()?.remove(FIELD);
    let mut rest = patch.clone();
    take(&mut rest);
    let field = initializers::merge(take(&mut stored), part)?;
    let mut merged = patch::apply(PatchType::Strategic, stored, &rest, schema)?;
    let metadata = merged.get_mut("metadata").and_then(Value::as_object_mut);
    if let (Some(metadata), Some(field)) = (metadata, field) {
        metadata.insert(FIELD.to_owned(), field);
    }
    Ok(merged)
}

/// Whether an object of the target's kind has fields that are not in the tables, apart from this one.
pub(super) fn has_unknown_fields(write: &Write<'_>, object: &Object) -> bool {
    let kind = write.target.kind();
    if !write.pipeline.keeps_initializers || !initializers::is_uninitialized(object) {
        return typed::has_rest(kind, object.fields());
    }
    let mut object = object.clone();
    initializers::take(&mut object);
    typed::has_rest(kind, object.fields())
}
