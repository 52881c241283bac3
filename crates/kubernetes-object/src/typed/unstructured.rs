//! Converts untyped values to Go's types (`runtime.DefaultUnstructuredConverter`), as kube-apiserver does with the result of a strategic
//! merge patch. Unlike in JSON decoding, numbers are converted as in Go, and errors contain no path.

use super::DecodeError;
use super::base64;
use super::decode::Decoder;
use super::path::Path;
use super::table::{self, Holds, Shape, Type};
use serde_json::{Map, Number, Value};

/// The reason why an untyped value cannot be converted, with Go's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConvertError(String);

impl From<DecodeError> for ConvertError {
    fn from(DecodeError(why): DecodeError) -> Self {
        Self(why)
    }
}

/// `structFromUnstructured`
pub(super) fn convert_fields(schema: &'static Type, fields: &mut Map<String, Value>) -> Result<(), ConvertError> {
    let mut known = fields.iter_mut().filter_map(|(name, value)| Some((schema.field(name)?, value)));
    known.try_for_each(|(field, value)| convert(&field.shape, value))
}

/// `fromUnstructured`
fn convert(shape: &'static Shape, value: &mut Value) -> Result<(), ConvertError> {
    let found = kind_of(value);
    match (&shape.holds, value) {
        (_, Value::Null) => Ok(()),
        (Holds::Struct(index), Value::Object(fields)) => {
            table::resolve(*index).map_or(Ok(()), |schema| convert_fields(schema, fields))
        }
        (Holds::Struct(_), _) => Err(ConvertError(format!("cannot restore struct from: {found}"))),
        (Holds::List(shape), Value::Array(items)) => items.iter_mut().try_for_each(|item| convert(shape, item)),
        (Holds::Map(_, shape), Value::Object(entries)) => {
            entries.values_mut().try_for_each(|entry| convert(shape, entry))
        }
        (Holds::Map(..), _) => Err(ConvertError(format!("cannot restore map from {found}"))),
        (Holds::Bytes, Value::String(text)) => {
            base64::canonical(text).map(drop).map_err(|why| ConvertError(format!("error decoding from json: {why}")))
        }
        (Holds::Bytes, Value::Array(items)) => {
            items.iter_mut().try_for_each(|item| convert_scalar(&Holds::Uint8, "uint8", item))
        }
        (Holds::List(_) | Holds::Bytes, _) => Err(ConvertError(format!("cannot restore slice from {found}"))),
        (
            holds @ (Holds::String | Holds::Bool | Holds::Uint8 | Holds::Int32 | Holds::Int64 | Holds::Float64),
            value,
        ) => convert_scalar(holds, &shape.pointee(), value),
        // Types with an `UnmarshalJSON` decode JSON.
        (_, value) => {
            let mut decoder = Decoder::default();
            let result = decoder.value(shape, &mut value.clone(), &Path::ROOT).map(drop);
            Ok(decoder.finish(result)?)
        }
    }
}

/// Converts the numbers of `float64` fields to doubles (`toUnstructured`). Types with their own JSON keep the numbers of JSON.
pub(super) fn make_doubles(schema: &'static Type, fields: &mut Map<String, Value>) {
    for (name, value) in fields {
        if let Some(field) = schema.field(name) {
            make_double(&field.shape, value);
        }
    }
}

fn make_double(shape: &'static Shape, value: &mut Value) {
    match (&shape.holds, value) {
        (Holds::Float64, Value::Number(number)) => {
            *number = number.as_f64().and_then(Number::from_f64).unwrap_or_else(|| number.clone());
        }
        (Holds::Struct(index), Value::Object(fields)) => {
            if let Some(schema) = table::resolve(*index) {
                make_doubles(schema, fields);
            }
        }
        (Holds::List(shape), Value::Array(items)) => items.iter_mut().for_each(|item| make_double(shape, item)),
        (Holds::Map(_, shape), Value::Object(entries)) => {
            entries.values_mut().for_each(|entry| make_double(shape, entry));
        }
        _ => {}
    }
}

/// Converts a scalar. Numbers convert to numbers; other conversions fail.
fn convert_scalar(holds: &Holds, name: &str, value: &mut Value) -> Result<(), ConvertError> {
    let found = kind_of(value);
    let kind = match holds {
        Holds::String => "string",
        Holds::Bool => "bool",
        Holds::Uint8 => "uint8",
        Holds::Int32 => "int32",
        Holds::Int64 => "int64",
        _ => "float64",
    };
    match (kind, value) {
        (_, Value::Null) | ("string", Value::String(_)) | ("bool", Value::Bool(_)) | ("float64", Value::Number(_)) => {
            Ok(())
        }
        ("string", Value::Number(_)) if found == "int64" => {
            Err(ConvertError(format!("cannot convert {found} to {name}")))
        }
        ("uint8" | "int32" | "int64", Value::Number(number)) => {
            let whole = whole(number).ok_or_else(|| ConvertError(format!("cannot convert {found} to {name}")))?;
            *number = match kind {
                "uint8" => (whole as u8).into(),
                "int32" => (whole as i32).into(),
                _ => whole.into(),
            };
            Ok(())
        }
        _ => Err(ConvertError(format!("unrecognized type: {kind}"))),
    }
}

/// Converts a number without a fraction to an integer as Go on amd64: a number that is too large becomes the smallest.
fn whole(number: &Number) -> Option<i64> {
    if let Some(number) = number.as_i64() {
        return Some(number);
    }
    let float = number.as_f64().filter(|float| float.fract() == 0.0)?;
    let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&float);
    Some(if fits { float as i64 } else { i64::MIN })
}

/// `reflect.Kind` of a value in an `interface{}`.
fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.as_i64().is_some() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}

#[cfg(test)]
mod tests {
    use crate::kind::GroupVersionKind;
    use crate::typed::from_unstructured;
    use serde_json::{Value, json};

    fn converted(kind: (&str, &str), mut value: Value) -> Result<Value, String> {
        let converted = from_unstructured(&GroupVersionKind::new(kind.0, "v1", kind.1), &mut value);
        converted.map(|()| value).map_err(|error| error.to_string())
    }

    #[test]
    fn numbers_are_converted_as_go_does() {
        for (given, expected) in [
            (json!(2_147_483_648_i64), json!(-2_147_483_648_i64)),
            (json!(4_294_967_297_i64), json!(1)),
            (json!(i64::MAX), json!(-1)),
            (json!(u64::MAX), json!(0)),
            (json!(1e30), json!(0)),
            (json!(2e10), json!(-1_474_836_480)),
            (json!(3.0), json!(3)),
            (json!(null), json!(null)),
        ] {
            let deployment = converted(("apps", "Deployment"), json!({"spec": {"replicas": given}}));
            assert_eq!(deployment.unwrap(), json!({"spec": {"replicas": expected}}), "{given}");
        }
    }

    #[test]
    fn errors_are_worded_as_in_the_converter() {
        for (spec, expected) in [
            (json!(1.5), "cannot restore struct from: float64"),
            (json!({"replicas": 1.5}), "cannot convert float64 to int32"),
            (json!({"replicas": "1"}), "unrecognized type: int32"),
            (json!({"paused": 1}), "unrecognized type: bool"),
            (json!({"strategy": {"type": 1}}), "cannot convert int64 to v1.DeploymentStrategyType"),
            (json!({"strategy": {"type": 1.5}}), "unrecognized type: string"),
            (json!({"strategy": {"type": false}}), "unrecognized type: string"),
            (json!({"selector": {"matchLabels": []}}), "cannot restore map from slice"),
            (json!({"selector": {"matchExpressions": {}}}), "cannot restore slice from map"),
            (json!({"selector": {"matchExpressions": ["a"]}}), "cannot restore struct from: string"),
            (
                json!({"strategy": {"rollingUpdate": {"maxSurge": true}}}),
                "json: cannot unmarshal bool into Go value of type int32",
            ),
            (
                json!({"template": {"metadata": {"creationTimestamp": 1}}}),
                "json: cannot unmarshal number into Go value of type string",
            ),
            (
                json!({"template": {"spec": {"overhead": {"cpu": "x"}}}}),
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            ),
        ] {
            assert_eq!(converted(("apps", "Deployment"), json!({"spec": spec})).unwrap_err(), expected);
        }
        for (bytes, expected) in [
            (json!("!!"), Err("error decoding from json: illegal base64 data at input byte 0")),
            (json!(1), Err("cannot restore slice from int64")),
            (json!(["a"]), Err("unrecognized type: uint8")),
            (json!([97, 256]), Ok(json!([97, 0]))),
            (json!(""), Ok(json!(""))),
        ] {
            let found = converted(("", "ConfigMap"), json!({"binaryData": {"a": bytes}}));
            let expected = expected.map(|bytes| json!({"binaryData": {"a": bytes}})).map_err(str::to_owned);
            assert_eq!(found, expected);
        }
    }
}
