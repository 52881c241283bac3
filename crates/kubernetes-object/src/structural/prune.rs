//! Drops unknown fields (`pkg/apiserver/schema/pruning`), and nulls without a default.

use super::unknown::Unknown;
use super::{Additional, Schema};
use serde_json::Value;

/// Fields that every resource has, whether or not its schema names them.
const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Drops the unknown fields of a whole resource, and records them, sorted (`PruneWithOptions`).
pub(super) fn prune(resource: &mut Value, schema: Option<Schema<'_>>, unknown: &mut Unknown) {
    let first = unknown.count();
    let mut pruner = Pruner { path: String::new(), unknown };
    match (schema, resource) {
        // Without a schema all other fields are unknown.
        (None, Value::Object(fields)) => fields.retain(|key, _| {
            let is_known = META_FIELDS.contains(&key.as_str());
            if !is_known {
                pruner.record(key);
            }
            is_known
        }),
        (Some(schema), resource) => pruner.prune_resource(resource, schema),
        (None, _) => {}
    }
    unknown.sort_from(first);
}

/// Drops the unknown fields of a value, which is a whole resource if `is_resource`.
pub(super) fn prune_value(value: &mut Value, schema: Schema<'_>, is_resource: bool) {
    let mut pruner = Pruner { path: String::new(), unknown: &mut Unknown::default() };
    match schema.node.preserves {
        true => pruner.skip(value, schema, is_resource),
        false => pruner.prune_known(value, schema, is_resource),
    }
}

struct Pruner<'a> {
    path: String,
    unknown: &'a mut Unknown,
}

impl Pruner<'_> {
    fn record(&mut self, key: &str) {
        let dot = if self.path.is_empty() { "" } else { "." };
        self.unknown.record(&[&self.path, dot, key]);
    }

    fn under(&mut self, key: &str, prune: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        prune(self);
        self.path.truncate(length);
    }

    fn at(&mut self, index: usize, prune: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path.push_str(&format!("[{index}]"));
        prune(self);
        self.path.truncate(length);
    }

    fn prune_resource(&mut self, resource: &mut Value, schema: Schema<'_>) {
        match schema.node.preserves {
            true => self.skip(resource, schema, true),
            false => self.prune_known(resource, schema, true),
        }
    }

    /// `prune`
    fn prune(&mut self, value: &mut Value, schema: Option<Schema<'_>>) {
        match (schema, value) {
            (Some(schema), value) if schema.node.preserves => self.skip(value, schema, schema.node.is_embedded),
            (Some(schema), value) => self.prune_known(value, schema, schema.node.is_embedded),
            (None, Value::Object(fields)) => {
                fields.keys().for_each(|key| self.record(key));
                fields.clear();
            }
            (None, Value::Array(items)) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.at(index, |pruner| pruner.prune(item, None));
                }
            }
            (None, _) => {}
        }
    }

    fn prune_known(&mut self, value: &mut Value, schema: Schema<'_>, is_resource: bool) {
        match value {
            Value::Object(fields) => fields.retain(|key, value| {
                if is_resource && META_FIELDS.contains(&key.as_str()) {
                    return true;
                }
                let is_known = self.prune_field(key, value, schema);
                if !is_known {
                    self.record(key);
                }
                is_known
            }),
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.at(index, |pruner| pruner.prune(item, schema.items()));
                }
            }
            _ => {}
        }
    }

    /// Under `x-kubernetes-preserve-unknown-fields` only fields that the schema names are pruned (`skipPrune`).
    fn skip(&mut self, value: &mut Value, schema: Schema<'_>, is_resource: bool) {
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    if !is_resource || !META_FIELDS.contains(&key.as_str()) {
                        self.prune_field(key, value, schema);
                    }
                }
            }
            Value::Array(items) => {
                let Some(schema) = schema.items() else { return };
                for (index, item) in items.iter_mut().enumerate() {
                    self.at(index, |pruner| pruner.skip(item, schema, schema.node.is_embedded));
                }
            }
            _ => {}
        }
    }

    /// Prunes a field that the schema names. Returns false if the schema does not name the field.
    fn prune_field(&mut self, key: &str, value: &mut Value, schema: Schema<'_>) -> bool {
        let known = match (schema.property(key), schema.node.additional) {
            (Some(property), _) => Some(property),
            (None, Some(Additional::Of(id))) => schema.all.schema(id),
            (None, Some(Additional::Any)) => None,
            (None, None) => return false,
        };
        self.under(key, |pruner| pruner.prune(value, known));
        true
    }
}

/// Drops null fields that are not nullable and have no default (`PruneNonNullableNullsWithoutDefaults`).
pub(super) fn prune_nulls(value: &mut Value, schema: Option<Schema<'_>>) {
    let Some(schema) = schema else { return };
    match value {
        Value::Object(fields) => fields.retain(|key, value| {
            let Some(schema) = schema.field(key) else { return true };
            if value.is_null() {
                return schema.node.nullable || schema.node.default.is_some();
            }
            prune_nulls(value, Some(schema));
            true
        }),
        Value::Array(items) => items.iter_mut().for_each(|item| prune_nulls(item, schema.items())),
        _ => {}
    }
}
