//! Nulls that a schema does not allow. An API server drops them while decoding, before its validation; nulls that admission adds are
//! validated.

use super::{Kind, Schema};
use crate::status::{Cause, invalid};
use serde_json::{Map, Value};

/// The number of nulls to report.
const MAX_CAUSES: usize = 100;

/// Finds the nulls in an object that `prune::prune_nulls` would drop, and reports them as validation errors: only those in the status, or
/// only those outside of it.
pub(super) fn find(object: &Map<String, Value>, root: Schema<'_>, is_status: bool) -> Vec<Cause> {
    let mut finder = Finder { path: String::new(), causes: Vec::new() };
    for (key, value) in object.iter().filter(|(key, _)| (*key == "status") == is_status && *key != "metadata") {
        finder.field(key, value, root);
    }
    finder.causes
}

struct Finder {
    path: String,
    causes: Vec<Cause>,
}

impl Finder {
    fn field(&mut self, key: &str, value: &Value, schema: Schema<'_>) {
        let Some(schema) = schema.field(key) else { return };
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        match value.is_null() {
            true => self.null(schema),
            false => self.within(value, schema),
        }
        self.path.truncate(length);
    }

    fn within(&mut self, value: &Value, schema: Schema<'_>) {
        match value {
            Value::Object(fields) => fields.iter().for_each(|(key, value)| self.field(key, value, schema)),
            Value::Array(items) => {
                let Some(schema) = schema.items() else { return };
                for (index, item) in items.iter().enumerate() {
                    let length = self.path.len();
                    self.path.push_str(&format!("[{index}]"));
                    self.within(item, schema);
                    self.path.truncate(length);
                }
            }
            _ => {}
        }
    }

    fn null(&mut self, schema: Schema<'_>) {
        let wanted = match (schema.node.is_int_or_string, schema.node.kind) {
            (true, _) => "integer,string",
            (false, Some(Kind::Object)) => "object",
            (false, Some(Kind::Array)) => "array",
            (false, Some(Kind::String)) => "string",
            (false, Some(Kind::Integer)) => "integer",
            (false, Some(Kind::Number)) => "number",
            (false, Some(Kind::Boolean)) => "boolean",
            (false, None) => return,
        };
        if schema.refuses_null() && schema.default().is_none() && self.causes.len() < MAX_CAUSES {
            let why = format!("{} in body must be of type {wanted}: \"null\"", self.path);
            self.causes.push(invalid::of_type(&self.path, "\"null\"", &why));
        }
    }
}
