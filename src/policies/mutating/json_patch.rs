//! A JSON patch that an expression made (`patch.jsonPatcher`).

use super::apply::Go;
use super::names;
use crate::cel::Value;
use crate::cel::value::{List, Map, Struct, Text};
use crate::object::Object;
use crate::webhooks::patch::Patch;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map as JsonMap, Value as Json};

/// The largest integer that JSON's numbers hold in every implementation (`maxIntJSON`); others become texts.
const MAX_INTEGER: u64 = (1 << 53) - 1;

/// Applies a list of operations to an object; `None` where one of its tests fails, which leaves the object as it is.
///
/// # Errors
/// When an operation is none, or does not apply.
pub fn apply(object: &Object, operations: &Value<'_>) -> Result<Option<Json>, String> {
    let patch = Patch::new(list(operations)?);
    match patch.apply(object) {
        Ok(patched) => Ok(Some(patched)),
        Err(why) if why.ends_with(": test failed") => Ok(None),
        Err(why) => Err(format!("JSON Patch: {why}")),
    }
}

fn list(operations: &Value<'_>) -> Result<Vec<Json>, String> {
    match operations {
        Value::List(List::Values(operations)) => operations.iter().map(operation).collect(),
        Value::List(List::Json([])) => Ok(Vec::new()),
        _ => Err("type mismatch: JSONPatchType.expression should evaluate to array".into()),
    }
}

fn operation(value: &Value<'_>) -> Result<Json, String> {
    let Value::Struct(made) = value else {
        return Err("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch".into());
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
            format!("JSONPath valueExpression evaluated to a type that could not marshal to JSON: {why}")
        })?;
        operation.insert("value".into(), value);
    }
    Ok(Json::Object(operation))
}

fn text(made: &Struct<'_>, field: &str) -> String {
    let value = made.fields.iter().find(|(name, _)| **name == *field).map(|(_, value)| value);
    match value {
        Some(Value::String(Text::Borrowed(text))) => (*text).to_owned(),
        Some(Value::String(Text::Shared(text))) => text.to_string(),
        _ => String::new(),
    }
}

/// As `structpb.Value` and then JSON.
fn json(value: &Value<'_>) -> Result<Json, String> {
    Ok(match value {
        Value::Null => Json::Null,
        Value::Bool(value) => (*value).into(),
        Value::Int(value) if value.unsigned_abs() <= MAX_INTEGER => (*value).into(),
        Value::Int(value) => value.to_string().into(),
        Value::Uint(value) if *value <= MAX_INTEGER => (*value).into(),
        Value::Uint(value) => value.to_string().into(),
        Value::Double(_) => Go::of(value)?.into_json(),
        Value::String(Text::Borrowed(text)) => (*text).into(),
        Value::String(Text::Shared(text)) => (**text).into(),
        Value::Bytes(bytes) => STANDARD.encode(bytes).into(),
        Value::Duration(nanoseconds) => duration(*nanoseconds).into(),
        Value::Timestamp(seconds, nanoseconds) => timestamp(*seconds, *nanoseconds)?.into(),
        Value::List(List::Json(items)) => items.iter().map(safe).collect(),
        Value::List(List::Values(items)) => items.iter().map(json).collect::<Result<_, _>>()?,
        Value::Map(Map::Json(fields)) => fields.iter().map(|(name, value)| (name.clone(), safe(value))).collect(),
        Value::Map(Map::Values(entries)) => {
            let entries = entries.iter().map(|(key, value)| match Go::of(key)? {
                Go::String(key) => Ok((key, json(value)?)),
                key => Err(format!("bad key type: {}", key.type_name())),
            });
            Json::Object(entries.collect::<Result<_, String>>()?)
        }
        Value::Struct(made) => {
            let fields = made.fields.iter().map(|(name, value)| Ok((name.to_string(), within_object(value)?)));
            Json::Object(fields.collect::<Result<_, String>>()?)
        }
        Value::Optional(Some(value)) => json(value)?,
        other => return Err(format!("unsupported value: {other:?}")),
    })
}

/// `structpb.NewValue`, which takes Go values.
fn within_object(value: &Value<'_>) -> Result<Json, String> {
    match value {
        Value::Null => Err("proto: invalid type: structpb.NullValue".into()),
        Value::Bytes(_) => json(value),
        Value::Duration(_) | Value::Timestamp(..) => {
            Err(format!("proto: invalid type: {}", Go::of(value)?.type_name()))
        }
        Value::Struct(_) | Value::List(_) | Value::Map(_) => json(value),
        value => Ok(Go::of(value)?.into_json()),
    }
}

/// JSON with integers that are safe everywhere.
fn safe(value: &Json) -> Json {
    match value {
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(integer), _) if integer.unsigned_abs() > MAX_INTEGER => integer.to_string().into(),
            (None, Some(integer)) => integer.to_string().into(),
            _ => value.clone(),
        },
        Json::Array(items) => items.iter().map(safe).collect(),
        Json::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), safe(value))).collect(),
        other => other.clone(),
    }
}

/// `durationpb` as JSON: seconds with no, three, six or nine digits behind the point.
fn duration(nanoseconds: i64) -> String {
    let (sign, all) = (if nanoseconds < 0 { "-" } else { "" }, nanoseconds.unsigned_abs());
    format!("{sign}{}{}s", all / 1_000_000_000, fraction(all % 1_000_000_000))
}

fn fraction(nanoseconds: u64) -> String {
    match nanoseconds {
        0 => String::new(),
        n if n % 1_000_000 == 0 => format!(".{:03}", n / 1_000_000),
        n if n % 1_000 == 0 => format!(".{:06}", n / 1_000),
        n => format!(".{n:09}"),
    }
}

fn timestamp(seconds: i64, nanoseconds: u32) -> Result<String, String> {
    let time = jiff::Timestamp::from_second(seconds).map_err(|error| error.to_string())?;
    let whole = time.to_string();
    Ok(format!("{}{}Z", whole.trim_end_matches('Z'), fraction(nanoseconds.into())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::sync::Arc;

    fn operation(op: &'static str, path: &'static str, value: Option<Value<'static>>) -> Value<'static> {
        let mut fields: Vec<(Arc<str>, Value<'static>)> = vec![
            ("op".into(), Value::String(Text::Borrowed(op))),
            ("path".into(), Value::String(Text::Borrowed(path))),
        ];
        fields.extend(value.map(|value| ("value".into(), value)));
        Value::Struct(Arc::new(Struct { name: "JSONPatch".into(), fields }))
    }

    fn patched(operations: Vec<Value<'static>>) -> Result<Option<Json>, String> {
        let object = Object::from_value(json!({"metadata": {"labels": {"a": "b"}}})).unwrap();
        apply(&object, &Value::List(List::Values(Arc::new(operations))))
    }

    #[test]
    fn a_failed_test_leaves_the_object_alone() {
        let text = |text| Some(Value::String(Text::Borrowed(text)));
        let add = || operation("add", "/metadata/labels/c", Some(Value::Int(1 << 53)));
        let labels = json!({"metadata": {"labels": {"a": "b", "c": "9007199254740992"}}});
        assert_eq!(patched(vec![operation("test", "/metadata/labels/a", text("b")), add()]), Ok(Some(labels)));
        assert_eq!(patched(vec![add(), operation("test", "/metadata/labels/a", text("x"))]), Ok(None));
        assert_eq!(
            patched(vec![operation("remove", "/metadata/labels/x", None)]).unwrap_err(),
            "JSON Patch: error in remove for path: '/metadata/labels/x': Unable to remove nonexistent key: x: missing value"
        );
    }

    #[test]
    fn values_become_json_as_protobuf_writes_it() {
        for (value, expected) in [
            (Value::Duration(3_600_000_000_000), json!("3600s")),
            (Value::Duration(-1_500_000_000), json!("-1.500s")),
            (Value::Timestamp(0, 1_000), json!("1970-01-01T00:00:00.000001Z")),
            (Value::Bytes(Arc::from(*b"xyz")), json!("eHl6")),
            (Value::Double(2.0), json!(2)),
            (Value::Double(2.5), json!(2.5)),
            (Value::Uint(u64::MAX), json!("18446744073709551615")),
        ] {
            assert_eq!(super::json(&value), Ok(expected));
        }
    }
}
