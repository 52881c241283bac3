//! A JSON patch that an expression made (`patch.jsonPatcher`).

use super::apply::{Go, Unpatchable};
use super::names;
use crate::cel::Value;
use crate::cel::value::{List, Struct};
use crate::object::Object;
use crate::object::patch::admission::Patch;
use serde_json::{Map as JsonMap, Value as Json};
use uuid::Uuid;

/// Applies a list of operations to an object; `None` if a `test` operation fails, which leaves the object unchanged.
///
/// # Errors
/// If an operation is invalid, or does not apply.
pub(super) fn apply(object: &Object, operations: &Value<'_>) -> Result<Option<Json>, Unpatchable> {
    let patch = Patch::new(list(operations)?);
    match patch.apply(object).map_err(|why| why.to_string()) {
        Ok(patched) => Ok(Some(patched)),
        Err(why) if why.starts_with("testing value ") && why.ends_with(": test failed") => Ok(None),
        Err(why) => Err(Unpatchable(format!("JSON Patch: {why}"))),
    }
}

fn list(operations: &Value<'_>) -> Result<Vec<Json>, Unpatchable> {
    match operations {
        Value::List(List::Values(operations)) => operations.iter().map(operation).collect(),
        Value::List(List::Json([]) | List::BuiltIn([])) => Ok(Vec::new()),
        _ => Err(Unpatchable("type mismatch: JSONPatchType.expression should evaluate to array".into())),
    }
}

fn operation(value: &Value<'_>) -> Result<Json, Unpatchable> {
    let Value::Struct(made) = value else {
        return Err(Unpatchable(
            "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch".into(),
        ));
    };
    let mut operation = JsonMap::new();
    for field in ["op", "path", "from"] {
        let text = text(made, field);
        if !(field == "from" && text.is_empty()) {
            operation.insert(field.into(), text.into());
        }
    }
    if let Some((_, value)) = made.fields.iter().find(|(name, _)| &**name == "value") {
        names::check(value)?;
        let value = json(value).map_err(|why| {
            Unpatchable(format!("JSONPath valueExpression evaluated to a type that could not marshal to JSON: {why}"))
        })?;
        // kube-apiserver turns null into a text, which no field equals, neither a missing nor a null one. A random text does the same.
        let is_test = operation.get("op").is_some_and(|op| op == "test");
        let value = if is_test && value.is_null() { Json::from(Uuid::new_v4().to_string()) } else { value };
        operation.insert("value".into(), value);
    }
    Ok(Json::Object(operation))
}

fn text(made: &Struct<'_>, field: &str) -> String {
    let value = made.fields.iter().find(|(name, _)| **name == *field).map(|(_, value)| value);
    match value {
        Some(Value::String(text)) => text.to_string(),
        _ => String::new(),
    }
}

/// Converts a value to JSON. Go converts an `Object{…}` field by field, and some values have no JSON form there.
fn json(value: &Value<'_>) -> Result<Json, Unpatchable> {
    let Value::Struct(made) = value else { return value.to_json().map_err(|error| Unpatchable(error.to_string())) };
    let fields = made.fields.iter().map(|(name, value)| match value {
        Value::Null => Err(Unpatchable("proto: invalid type: structpb.NullValue".to_owned())),
        Value::Duration(_) | Value::Timestamp(..) => {
            Err(Unpatchable(format!("proto: invalid type: {}", Go::of(value)?.type_name())))
        }
        Value::Int(value) => Ok((name.to_string(), Json::from(*value))),
        value => Ok((name.to_string(), json(value)?)),
    });
    fields.collect::<Result<JsonMap<_, _>, _>>().map(Json::Object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::sync::Arc;

    fn operation(op: &'static str, path: &'static str, value: Option<Value<'static>>) -> Value<'static> {
        let mut fields: Vec<(Arc<str>, Value<'static>)> =
            vec![("op".into(), Value::text(op)), ("path".into(), Value::text(path))];
        fields.extend(value.map(|value| ("value".into(), value)));
        Value::Struct(Arc::new(Struct { name: "JSONPatch".into(), fields }))
    }

    fn patched(operations: Vec<Value<'static>>) -> Result<Option<Json>, String> {
        let object = Object::from_value(json!({"metadata": {"labels": {"a": "b"}}})).unwrap();
        apply(&object, &Value::list(operations)).map_err(|why| why.to_string())
    }

    #[test]
    fn a_value_may_contain_objects_and_parts_of_built_in_kinds() {
        let part = json!({"k": ["v", 1]});
        let made =
            Value::Struct(Arc::new(Struct { name: "Object.x".into(), fields: vec![("a".into(), Value::Int(1))] }));
        for (value, expected) in [
            (made.clone(), json!({"a": 1})),
            (Value::list(vec![made.clone()]), json!([{"a": 1}])),
            (Value::map([(Value::text("k"), Value::list(vec![made.clone()]))]), json!({"k": [{"a": 1}]})),
            (Value::built_in(&part), part.clone()),
            (Value::list(vec![Value::built_in(&part)]), json!([part])),
        ] {
            assert_eq!(json(&value).map_err(|why| why.to_string()), Ok(expected));
        }
    }

    #[test]
    fn a_failed_test_leaves_the_object_alone() {
        let text = |text| Some(Value::text(text));
        let add = || operation("add", "/metadata/labels/c", Some(Value::Int(1 << 53)));
        let labels = json!({"metadata": {"labels": {"a": "b", "c": "9007199254740992"}}});
        assert_eq!(patched(vec![operation("test", "/metadata/labels/a", text("b")), add()]), Ok(Some(labels)));
        assert_eq!(patched(vec![add(), operation("test", "/metadata/labels/a", text("x"))]), Ok(None));
        assert_eq!(patched(vec![operation("test", "/metadata/labels/absent", Some(Value::Null)), add()]), Ok(None));
        assert_eq!(
            patched(vec![operation("remove", "/metadata/labels/x", None)]).unwrap_err(),
            "JSON Patch: error in remove for path: '/metadata/labels/x': Unable to remove nonexistent key: x: missing value"
        );
        // Only a test operation can be a failed test, whatever text another operation's error has.
        let why = patched(vec![operation("x: test failed", "/metadata", None)]).unwrap_err();
        assert_eq!(why, "JSON Patch: Unexpected kind: x: test failed");
    }
}
