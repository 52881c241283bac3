//! The conformance tests of the language's specification, as far as Kubernetes' environment supports them. `tools/cel-spec` writes
//! `tests.jsonl`, and lists in `left_out.txt` the omitted tests with reasons. `different.txt` names the tests that Kubernetes answers
//! differently, or that its environment rejects.
//!
//! The tests are from <https://github.com/google/cel-spec>, Apache-2.0.

use super::messages::AdmissionTypes;
use super::{Environment, EvaluationLimits, Release, Type, Value};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::sync::Arc;

const TESTS: &str = include_str!("conformance/tests.jsonl");
const DIFFERENT: &str = include_str!("conformance/different.txt");

/// Converts a type from the JSON of `cel.expr.Type`.
fn declared(of: &Json) -> Type {
    let Some((kind, of)) = of.as_object().and_then(|fields| fields.iter().next()) else { return Type::Dyn };
    match (kind.as_str(), of.as_str()) {
        ("primitive", Some("INT64")) => Type::Int,
        ("primitive", Some("UINT64")) => Type::Uint,
        ("primitive", Some("BOOL")) => Type::Bool,
        ("primitive", Some("DOUBLE")) => Type::Double,
        ("primitive", Some("STRING")) => Type::String,
        ("primitive", Some("BYTES")) => Type::Bytes,
        ("wellKnown", Some("DURATION")) => Type::Duration,
        ("wellKnown", Some("TIMESTAMP")) => Type::Timestamp,
        ("listType", _) => Type::list(declared(&of["elemType"])),
        ("mapType", _) => Type::map(declared(&of["keyType"]), declared(&of["valueType"])),
        _ => Type::Dyn,
    }
}

/// Converts a value from the JSON of `cel.expr.Value`.
fn value(json: &Json) -> Value<'static> {
    let (kind, of) = json.as_object().unwrap().iter().next().unwrap();
    let text = of.as_str().unwrap_or_default();
    match kind.as_str() {
        "nullValue" => Value::Null,
        "boolValue" => Value::Bool(of.as_bool().unwrap()),
        "int64Value" => Value::Int(text.parse().unwrap()),
        "uint64Value" => Value::Uint(text.parse().unwrap()),
        "doubleValue" => Value::Double(of.as_f64().unwrap_or_else(|| text.replace("Infinity", "inf").parse().unwrap())),
        "stringValue" => Value::string(text),
        "bytesValue" => Value::Bytes(STANDARD.decode(text).unwrap().into()),
        "listValue" => Value::list(of["values"].as_array().into_iter().flatten().map(value).collect()),
        "mapValue" => {
            let entries = of["entries"].as_array().into_iter().flatten();
            Value::map(entries.map(|entry| (value(&entry["key"]), value(&entry["value"]))))
        }
        "typeValue" => Value::Type(Arc::new(match text {
            "null_type" => Type::Null,
            "google.protobuf.Duration" => Type::Duration,
            "google.protobuf.Timestamp" => Type::Timestamp,
            name => Type::object(name),
        })),
        "objectValue" => {
            let read = of["value"].as_str().unwrap().to_owned();
            let environment = Environment::new(Arc::new(AdmissionTypes::default()));
            let call = if of["@type"].as_str().unwrap().ends_with("Duration") { "duration" } else { "timestamp" };
            let program = environment.compile(&format!("{call}('{read}')")).unwrap();
            match program.evaluate(&[], &LIMITS).value.unwrap() {
                Value::Duration(value) => Value::Duration(value),
                Value::Timestamp(a, b, c) => Value::Timestamp(a, b, c),
                _ => Value::Null,
            }
        }
        kind => panic!("{kind}"),
    }
}

const LIMITS: EvaluationLimits = EvaluationLimits { cost: 10_000_000, deadline: None };

/// The fault in the result of a test, if there is one.
fn wrong(test: &Json, release: Release) -> Option<String> {
    let mut environment = Environment::of(release, Arc::new(AdmissionTypes::default()));
    let mut values = Vec::new();
    for declaration in test["declarations"].as_array().into_iter().flatten() {
        let name = declaration["name"].as_str().unwrap();
        environment = environment.variable(name, declared(&declaration["ident"]["type"]));
        values.push(test["bindings"].get(name).map(|bound| value(&bound["value"])));
    }
    let program = match environment.compile(test["expr"].as_str().unwrap()) {
        Ok(program) => program,
        // An error in a constant is a compile error.
        Err(_) if test["error"] == true => return None,
        Err(error) => return Some(error.to_string()),
    };
    let found = program.evaluate(&values, &LIMITS).value;
    match (found, test.get("value")) {
        (Err(_), None) => None,
        (Err(error), Some(expected)) => Some(format!("{error}, not {expected}")),
        (Ok(found), None) => Some(format!("{found}, not an error")),
        (Ok(found), Some(expected)) => {
            let expected = value(expected);
            let not_a_number =
                matches!((&found, &expected), (Value::Double(a), Value::Double(b)) if a.is_nan() && b.is_nan());
            let same = not_a_number || found.type_name() == expected.type_name() && found.equals(&expected) == Ok(true);
            (!same).then(|| format!("{found}, not {expected}"))
        }
    }
}

#[test]
fn answers_as_the_specification_says() {
    let different: BTreeSet<&str> =
        DIFFERENT.lines().filter_map(|line| line.split_once(": ")).map(|(name, _)| name).collect();
    let mut unexpected = Vec::new();
    for line in TESTS.lines() {
        let test: Json = serde_json::from_str(line).unwrap();
        let name = test["name"].as_str().unwrap();
        for release in [36, 37].map(Release::of) {
            match (wrong(&test, release), different.contains(name)) {
                (Some(why), false) => unexpected.push(format!("{release:?} {name}: {} is {why}", test["expr"])),
                (None, true) => {
                    unexpected.push(format!("{release:?} {name}: as the specification, against different.txt"))
                }
                _ => {}
            }
        }
    }
    assert!(unexpected.is_empty(), "{}\n{}", unexpected.len(), unexpected.join("\n"));
}
