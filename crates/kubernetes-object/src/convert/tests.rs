use super::*;
use crate::kind::split_api_version;
use flate2::read::GzDecoder;
use serde_json::json;
use std::io::Read;

fn kind_of(object: &Value) -> GroupVersionKind {
    let (group, version) = split_api_version(object["apiVersion"].as_str().unwrap());
    GroupVersionKind::new(group, version, object["kind"].as_str().unwrap())
}

fn converted(object: Value, to: &GroupVersionKind) -> Value {
    let from = kind_of(&object);
    let object = Object::from_value(object).unwrap();
    built_in(&object, &from, to).unwrap_or_else(|| panic!("{from:?} to {to:?}")).into_value()
}

/// The paths where two values differ.
fn differences(path: &str, found: &Value, expected: &Value, all: &mut Vec<String>) {
    match (found, expected) {
        (Value::Object(one), Value::Object(other)) => {
            let names: std::collections::BTreeSet<_> = one.keys().chain(other.keys()).collect();
            for name in names {
                let absent = Value::String("(absent)".to_owned());
                let (one, other) = (one.get(name).unwrap_or(&absent), other.get(name).unwrap_or(&absent));
                differences(&format!("{path}/{name}"), one, other, all);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (at, (one, other)) in one.iter().zip(other).enumerate() {
                differences(&format!("{path}/{at}"), one, other, all);
            }
        }
        _ if found != expected => all.push(format!("{path}: {found}, not {expected}")),
        _ => {}
    }
}

/// Random objects of every kind with several versions, and Go's conversions of them, from `tools/default-vectors -versions`.
#[test]
fn objects_are_converted_as_by_kube_apiserver() {
    let mut text = String::new();
    GzDecoder::new(&include_bytes!("vectors.gz")[..]).read_to_string(&mut text).unwrap();
    let mut found = Vec::new();
    for (line, vector) in text.lines().enumerate() {
        let vector: Value = serde_json::from_str(vector).unwrap();
        let (input, output) = (&vector["input"], &vector["output"]);
        let (from, to) = (kind_of(input), kind_of(output));
        let place = format!("{line} {} {} to {}", from.kind, from.api_version(), to.api_version());
        differences(&place, &converted(input.clone(), &to), output, &mut found);
    }
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn only_versions_of_one_kind_are_converted() {
    let pod = Object::from_value(json!({"apiVersion": "v1", "kind": "Pod"})).unwrap();
    let kind = |group: &str, version: &str, kind: &str| GroupVersionKind::new(group, version, kind);
    for to in [kind("", "v1", "Secret"), kind("", "v9", "Pod"), kind("apps", "v1", "Pod")] {
        assert!(built_in(&pod, &kind("", "v1", "Pod"), &to).is_none(), "{to:?}");
    }
    let event = Object::from_value(json!({"apiVersion": "v1", "kind": "Event", "message": "m"})).unwrap();
    let event = built_in(&event, &kind("", "v1", "Event"), &kind("events.k8s.io", "v1", "Event")).unwrap();
    assert_eq!((event.api_version(), event.str(&["note"])), ("events.k8s.io/v1", "m"));
}
