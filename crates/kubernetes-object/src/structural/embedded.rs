//! Resources within resources, whose metadata must have the types of metadata too (`pkg/apiserver/schema/objectmeta`).

use super::unknown::Unknown;
use super::{Schema, metadata};
use crate::go_text::go_quote;
use crate::go_text::json::escape_html;
use crate::go_text::numbers;
use crate::status::Cause;
use serde_json::{Map, Value};

/// An embedded resource has wrong types.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct InvalidEmbedded {
    field: String,
    message: String,
}

impl InvalidEmbedded {
    /// The fault as a cause of a Status.
    pub(crate) fn into_cause(self) -> Cause {
        Cause { reason: "FieldValueInvalid".into(), message: self.message, field: self.field }
    }
}

/// Decodes and encodes the metadata of every embedded resource by its Go type, and records unknown fields, sorted (`CoerceWithOptions`).
///
/// # Errors
/// If the metadata of an embedded resource cannot be decoded.
pub(super) fn coerce(
    value: &mut Value,
    schema: Option<Schema<'_>>,
    unknown: &mut Unknown,
) -> Result<(), InvalidEmbedded> {
    let Some(schema) = schema else { return Ok(()) };
    let first = unknown.count();
    let mut coercer = Coercer { drops_invalid: false, path: String::new(), unknown };
    coercer.coerce(value, schema, schema.node.is_embedded)?;
    unknown.sort_from(first);
    Ok(())
}

/// Decodes and encodes the metadata of a whole resource and of its embedded resources, and drops values of wrong types.
pub(super) fn coerce_leniently(resource: &mut Value, schema: Schema<'_>) -> Result<(), InvalidEmbedded> {
    let mut unknown = Unknown::default();
    let mut coercer = Coercer { drops_invalid: true, path: String::new(), unknown: &mut unknown };
    coercer.coerce(resource, schema, true)
}

/// Decodes and encodes the metadata of a value, which is a whole resource if `is_resource`, and of its embedded resources.
pub(super) fn coerce_value(value: &mut Value, schema: Schema<'_>, is_resource: bool) -> Result<(), InvalidEmbedded> {
    let mut coercer = Coercer { drops_invalid: false, path: String::new(), unknown: &mut Unknown::default() };
    coercer.coerce(value, schema, is_resource)
}

struct Coercer<'a> {
    drops_invalid: bool,
    /// The current path in the format of `field.Path`.
    path: String,
    unknown: &'a mut Unknown,
}

impl Coercer<'_> {
    fn coerce(&mut self, value: &mut Value, schema: Schema<'_>, is_resource: bool) -> Result<(), InvalidEmbedded> {
        if !is_resource && !schema.node.has_embedded {
            return Ok(());
        }
        match value {
            Value::Object(fields) => {
                if is_resource {
                    self.type_meta("apiVersion", fields)?;
                    self.type_meta("kind", fields)?;
                    self.metadata(fields)?;
                }
                for (key, value) in fields {
                    let Some(child) = schema.field(key) else { continue };
                    let length = self.path.len();
                    match schema.property(key) {
                        Some(_) => self.push_child(key),
                        None => self.path.extend(["[", key, "]"]),
                    }
                    self.coerce(value, child, child.node.is_embedded)?;
                    self.path.truncate(length);
                }
            }
            Value::Array(items) => {
                let Some(schema) = schema.items() else { return Ok(()) };
                for (index, item) in items.iter_mut().enumerate() {
                    let length = self.path.len();
                    self.path.push_str(&format!("[{index}]"));
                    self.coerce(item, schema, schema.node.is_embedded)?;
                    self.path.truncate(length);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn push_child(&mut self, key: &str) {
        if !self.path.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(key);
    }

    fn type_meta(&mut self, key: &str, fields: &mut Map<String, Value>) -> Result<(), InvalidEmbedded> {
        match fields.get(key) {
            None | Some(Value::String(_)) => {}
            Some(_) if self.drops_invalid => drop(fields.remove(key)),
            Some(other) => return Err(self.invalid(key, other, "must be a string")),
        }
        Ok(())
    }

    fn metadata(&mut self, fields: &mut Map<String, Value>) -> Result<(), InvalidEmbedded> {
        let Some(found) = fields.get_mut("metadata") else { return Ok(()) };
        numbers::canonicalize(found);
        let decoded = match self.drops_invalid {
            false => metadata::decode(found).map_err(|why| self.invalid("metadata", found, &why.to_string()))?,
            // Metadata that is no object stays unchanged.
            true => match metadata::decode_leniently(found) {
                Some(decoded) => decoded,
                None => return Ok(()),
            },
        };
        let length = self.path.len();
        self.push_child("metadata");
        decoded.unknown.iter().for_each(|field| self.unknown.record(&[&self.path, ".", field]));
        self.path.truncate(length);
        fields.insert("metadata".into(), Value::Object(decoded.fields));
        Ok(())
    }

    /// `field.Invalid`
    fn invalid(&self, key: &str, value: &Value, why: &str) -> InvalidEmbedded {
        let dot = if self.path.is_empty() { "" } else { "." };
        let shown = match value {
            Value::String(text) => go_quote(text),
            Value::Number(number) => numbers::text(number),
            other => escape_html(&other.to_string()),
        };
        InvalidEmbedded { field: format!("{}{dot}{key}", self.path), message: format!("Invalid value: {shown}: {why}") }
    }
}
