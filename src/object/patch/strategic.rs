//! Strategic merge patch.
use super::unprocessable;
use crate::object::schema::Type;
use crate::status::Status;
use serde_json::Value;

pub(super) fn apply(_original: &Value, _patch: &Value, _schema: &'static Type) -> Result<Value, Status> {
    Err(unprocessable())
}
