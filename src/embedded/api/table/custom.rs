//! Tables of custom resources (`tableconvertor`).

use super::age;
use crate::embedded::custom::json_path;
use crate::embedded::custom::resource::Custom;
use serde_json::{Value, json};

/// The columns of a resource's table.
pub(in crate::embedded) fn columns(custom: &Custom) -> Value {
    let name = json!({"name": "Name", "type": "string", "format": "name", "description": NAME, "priority": 0});
    let others = custom.version.columns.iter().map(|column| {
        json!({
            "name": column.name,
            "type": column.kind,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        })
    });
    std::iter::once(name).chain(others).collect()
}

const NAME: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow \
                    a client to request the generation of an appropriate name automatically. Name is primarily intended for \
                    creation idempotence and configuration definition. Cannot be updated. More info: \
                    https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";

/// The cells of an object.
pub(in crate::embedded) fn cells(custom: &Custom, object: &Value, now: jiff::Timestamp) -> Vec<Value> {
    let name = object.pointer("/metadata/name").cloned().unwrap_or_else(|| json!(""));
    let others = custom.version.columns.iter().map(|column| {
        let found = column.path.select(object).unwrap_or_default();
        found.first().map_or(Value::Null, |value| cell(&column.kind, value, now))
    });
    std::iter::once(name).chain(others).collect()
}

/// `cellForJSONValue`
fn cell(kind: &str, value: &Value, now: jiff::Timestamp) -> Value {
    let found = match kind {
        "integer" => value.as_i64().or_else(|| value.as_f64().map(|value| value as i64)).map(Value::from),
        "number" => value.as_f64().map(Value::from),
        "boolean" => value.as_bool().map(Value::from),
        "string" => json_path::text(value).map(Value::from),
        "date" => value.as_str().map(|time| match time.parse() {
            Ok(time) => age(time, now).into(),
            Err(_) => "<invalid>".into(),
        }),
        _ => None,
    };
    found.unwrap_or_default()
}
