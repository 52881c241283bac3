//! Answers of a kube-apiserver, recorded by tools/record-schema-validation.py.

use super::*;
use crate::kind::GroupVersionKind;
use crate::normal;
use crate::structural::validate::tests::{lines, patterns};
use serde_json::json;

const RECORDED: &[u8] = include_bytes!("recorded.jsonl.gz");

fn decoded(value: &Value) -> Object {
    let kind = GroupVersionKind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    normal::built_in(&kind, value.clone()).unwrap().unwrap().object
}

fn causes(line: &Value) -> Vec<[String; 3]> {
    let checks = DefinitionChecks {
        patterns: &patterns,
        rules: &|_, _, _| Vec::new(),
        defaults: &|_, left| (Vec::new(), Some(left)),
    };
    let mut definition = decoded(&line["definition"]);
    let causes = if line["old"].is_null() {
        prepare_for_create(&mut definition);
        validate(&definition, checks)
    } else {
        let old = decoded(&line["old"]);
        prepare_for_update(&mut definition, &old);
        let metadata = |object: &Object| object.fields()["metadata"].as_object().unwrap().clone();
        let mut causes = object_meta::validate_any_update(&metadata(&definition), &metadata(&old), false);
        causes.extend(validate_update(&definition, &old, checks));
        causes
    };
    causes.into_iter().map(|cause| [cause.field, cause.reason, cause.message]).collect()
}

#[test]
fn definitions_have_the_errors_of_kube_apiserver() {
    let (mut equal, mut different) = (0, Vec::new());
    for line in lines(RECORDED) {
        if !matches!(line["code"].as_u64(), Some(200 | 201 | 422)) {
            continue;
        }
        let mut found = causes(&line);
        let mut expected: Vec<[String; 3]> = serde_json::from_value(line["causes"].clone()).unwrap();
        found.sort_unstable();
        expected.sort_unstable();
        if found == expected {
            equal += 1;
        } else {
            different.push(format!("{}\n  is {found:#?}\n  not {expected:#?}", line["definition"]));
        }
    }
    assert!(different.is_empty(), "{equal} equal, {} different:\n{}", different.len(), different.join("\n"));
    assert!(equal > 400);
}

#[test]
fn unknown_formats_are_warnings_until_they_are_stored() {
    let definition = |format: &str| {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string", "format": format}}});
        let version = json!({"name": "v1", "schema": {"openAPIV3Schema": schema}});
        Object::from_value(json!({"spec": {"versions": [version]}})).unwrap()
    };
    assert_eq!(warnings(&definition("x"), None, false), ["unrecognized format \"x\""]);
    assert!(warnings(&definition("date-time"), None, false).is_empty());
    assert!(warnings(&definition("x"), Some(&definition("x")), false).is_empty());
}

#[test]
fn sets_of_objects_are_warnings_since_1_37_until_they_are_stored() {
    let definition = |items: &[&str]| {
        let set = |of: &&str| json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": of}});
        let properties: Map<String, Value> = (0..).zip(items).map(|(at, of)| (format!("p{at}"), set(of))).collect();
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}});
        let version = json!({"name": "v1", "schema": {"openAPIV3Schema": schema}});
        Object::from_value(json!({"spec": {"versions": [version]}})).unwrap()
    };
    let warning = |of: &str| {
        format!(
            "x-kubernetes-list-type: set for items of type \"{of}\" is not supported by server-side apply or CEL validation rules"
        )
    };
    let object = definition(&["object", "string", "object"]);
    assert_eq!(warnings(&object, None, true), [warning("object")]);
    assert_eq!(warnings(&object, None, false), [""; 0]);
    let both = definition(&["object", "array"]);
    assert_eq!(warnings(&both, None, true), [warning("array"), warning("object")]);
    assert_eq!(warnings(&both, Some(&object), true), [warning("array")]);
    assert_eq!(warnings(&object, Some(&both), true), [""; 0]);
}

#[test]
fn values_of_wrong_types_cause_no_panic() {
    fn replace(value: &mut Value, left: &mut usize, by: &Value) -> bool {
        if *left == 0 {
            *value = by.clone();
            return true;
        }
        *left -= 1;
        match value {
            Value::Array(items) => items.iter_mut().any(|item| replace(item, left, by)),
            Value::Object(fields) => fields.values_mut().any(|field| replace(field, left, by)),
            _ => false,
        }
    }
    let checks = DefinitionChecks {
        patterns: &patterns,
        rules: &|_, _, _| Vec::new(),
        defaults: &|_, left| (Vec::new(), Some(left)),
    };
    for line in lines(RECORDED).iter().step_by(60) {
        let good = Object::from_value(line["definition"].clone()).unwrap();
        for by in [json!(null), json!(5), json!("x"), json!([]), json!({}), json!([1]), json!({"a": 1})] {
            for place in 1.. {
                let mut value = line["definition"].clone();
                if !replace(&mut value, &mut place.clone(), &by) {
                    break;
                }
                let Some(mut definition) = Object::from_value(value) else { continue };
                validate(&definition, checks);
                validate_update(&definition, &good, checks);
                validate_update(&good, &definition, checks);
                prepare_for_update(&mut definition, &good);
            }
        }
    }
}

#[test]
fn a_definition_with_many_errors_or_long_paths_is_checked_in_bounded_time() {
    let definition = |schema: Value| {
        let version = json!({"name": "v1", "storage": true, "schema": {"openAPIV3Schema": schema}});
        Object::from_value(json!({"spec": {"versions": [version]}})).unwrap()
    };
    let checks = DefinitionChecks {
        patterns: &patterns,
        rules: &|_, _, _| Vec::new(),
        defaults: &|_, left| (Vec::new(), Some(left)),
    };
    let many: Map<_, _> = (0..20_000).map(|index| (format!("p{index}"), json!({"type": "x"}))).collect();
    let found = validate(&definition(json!({"type": "object", "properties": many})), checks);
    assert!((4096..10_000).contains(&found.len()), "{}", found.len());
    let long = validate(&definition(json!({"type": "object", "properties": {"x".repeat(5000): {}}})), checks);
    assert!(long.iter().any(|cause| cause.message.contains("paths of more than 4096 bytes")));
}
