//! Sets defaults (`pkg/apiserver/schema/defaulting`).

use super::{Additional, Schema};
use serde_json::{Map, Value};

/// The number of bytes that defaults may add to an object, in text and [`VALUE_WEIGHT`]s. A list of many small items can request a long
/// default for each item; no API server stores an object above this size.
const MAX_ADDED: usize = 16 * 1024 * 1024;
/// The bytes of a value in addition to its text.
const VALUE_WEIGHT: usize = 16;

/// The defaults of a schema would make an object too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the defaults of its schema make the object too large")]
pub struct DefaultsTooLarge;

/// Sets defaults up to a number of bytes.
pub(super) struct Defaulter {
    room: usize,
}

impl Default for Defaulter {
    fn default() -> Self {
        Self { room: MAX_ADDED }
    }
}

impl Defaulter {
    /// Sets defaults for missing fields, and for null fields that are not nullable.
    fn apply(&mut self, value: &mut Value, schema: Schema<'_>) -> Result<(), DefaultsTooLarge> {
        if !schema.node.has_defaults {
            return Ok(());
        }
        match value {
            Value::Object(fields) => self.apply_to_fields(fields, schema),
            Value::Array(items) => {
                let Some(schema) = schema.items() else { return Ok(()) };
                items.iter_mut().try_for_each(|item| self.apply_in_place(item, schema))
            }
            _ => Ok(()),
        }
    }

    /// Sets the defaults of an object's fields.
    ///
    /// # Errors
    /// If the defaults are too large.
    pub(super) fn apply_to_fields(
        &mut self,
        fields: &mut Map<String, Value>,
        schema: Schema<'_>,
    ) -> Result<(), DefaultsTooLarge> {
        for (name, id) in &schema.node.properties {
            let Some(property) = schema.all.schema(*id).filter(|property| property.node.has_defaults) else { continue };
            match (fields.get_mut(&**name), &property.node.default) {
                (Some(value), _) => self.apply_in_place(value, property)?,
                (None, Some(default)) => {
                    let mut value = self.copy(default)?;
                    self.apply(&mut value, property)?;
                    fields.insert(name.to_string(), value);
                }
                (None, None) => {}
            }
        }
        let Some(Additional::Of(id)) = schema.node.additional else { return Ok(()) };
        let Some(additional) = schema.all.schema(id) else { return Ok(()) };
        let mut others = fields.iter_mut().filter(|(key, _)| schema.property(key).is_none());
        others.try_for_each(|(_, value)| self.apply_in_place(value, additional))
    }

    /// Sets the defaults of an existing value.
    fn apply_in_place(&mut self, value: &mut Value, schema: Schema<'_>) -> Result<(), DefaultsTooLarge> {
        if value.is_null()
            && schema.refuses_null()
            && let Some(default) = &schema.node.default
        {
            *value = self.copy(default)?;
        }
        self.apply(value, schema)
    }

    fn copy(&mut self, default: &Value) -> Result<Value, DefaultsTooLarge> {
        let room = self.room.checked_sub(weight(default));
        self.room = room.ok_or(DefaultsTooLarge)?;
        Ok(default.clone())
    }
}

/// The approximate number of bytes of a value.
fn weight(value: &Value) -> usize {
    let within = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(fields) => fields.iter().map(|(key, value)| key.len() + weight(value)).sum(),
        _ => 0,
    };
    VALUE_WEIGHT + within
}
