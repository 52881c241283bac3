//! Setting defaults (`pkg/apiserver/schema/defaulting`).

use super::{Additional, Schema};
use serde_json::{Map, Value};

/// Sets what is missing, or null and may not be.
pub(super) fn apply(value: &mut Value, schema: Schema<'_>) {
    if !schema.node.has_defaults {
        return;
    }
    match value {
        Value::Object(fields) => apply_to_fields(fields, schema),
        Value::Array(items) => {
            let Some(schema) = schema.items() else { return };
            items.iter_mut().for_each(|item| apply_in_place(item, schema));
        }
        _ => {}
    }
}

/// The same for an object's fields.
pub(super) fn apply_to_fields(fields: &mut Map<String, Value>, schema: Schema<'_>) {
    for (name, id) in &schema.node.properties {
        let Some(property) = schema.all.schema(*id).filter(|property| property.node.has_defaults) else { continue };
        match (fields.get_mut(&**name), &property.node.default) {
            (Some(value), _) => apply_in_place(value, property),
            (None, Some(default)) => {
                let mut value = default.clone();
                apply(&mut value, property);
                fields.insert(name.to_string(), value);
            }
            (None, None) => {}
        }
    }
    let Some(Additional::Of(id)) = schema.node.additional else { return };
    let Some(additional) = schema.all.schema(id) else { return };
    let others = fields.iter_mut().filter(|(key, _)| schema.property(key).is_none());
    others.for_each(|(_, value)| apply_in_place(value, additional));
}

/// The same for a value that is there.
fn apply_in_place(value: &mut Value, schema: Schema<'_>) {
    if value.is_null()
        && schema.refuses_null()
        && let Some(default) = &schema.node.default
    {
        *value = default.clone();
    }
    apply(value, schema);
}
