//! Compares with Kubernetes' results for rules and objects, recorded by `tools/cel-vectors`.

use super::{check, validate};
use crate::environment::CompileError;
use crate::release::Release;
use crate::schema::Declared;
use crate::vectors::by_release;
use crate::{EvaluationLimits, Value};
use serde_json::{Value as Json, json};

#[test]
fn values_of_a_schema_are_what_kube_apiserver_makes_of_them() {
    let subject: Json = serde_json::from_str(include_str!("testdata/subject.json")).unwrap();
    let schema = &subject["schema"];
    let mut wrong = Vec::new();
    let since_37 = include_str!("testdata/values.since-1.37.jsonl");
    for (release, expected) in by_release(include_str!("testdata/values.jsonl"), since_37, &["expression"]) {
        let declared = Declared::of_schema(schema, true, release).unwrap();
        let typed = |name: &str| Value::typed(&subject[name], schema, true, release).unwrap();
        let expression = expected["expression"].as_str().unwrap();
        let (environment, checked) = match super::compile(expression, &declared, false, release) {
            Ok(compiled) => compiled,
            Err(CompileError(why)) => {
                if expected["fails"] != why {
                    wrong.push(format!("{release:?} {why}\n{expected}"));
                }
                continue;
            }
        };
        let program = environment.instantiate(&checked).unwrap();
        let limits = EvaluationLimits { cost: 1_000_000, deadline: None };
        let outcome = program.evaluate(&[Some(typed("self")), Some(typed("oldSelf"))], &limits);
        let cost = outcome.cost;
        let found = match outcome.value {
            Ok(value) => json!({"value": value.to_json().unwrap(), "cost": cost}),
            Err(error) => json!({"error": error.to_string(), "cost": cost}),
        };
        let numbers_alike = |json: &Json| json.as_f64().map_or_else(|| json.clone(), Json::from);
        let is_same = ["value", "error", "cost"]
            .iter()
            .all(|field| numbers_alike(&found[field]) == numbers_alike(&expected[field]));
        if !is_same {
            wrong.push(format!("{release:?} {found}\n{expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn definitions_and_objects_are_refused_as_by_kube_apiserver() {
    let mut wrong = Vec::new();
    let since_37 = include_str!("testdata/definitions.since-1.37.jsonl");
    let recorded = by_release(include_str!("testdata/definitions.jsonl"), since_37, &["definition", "object"]);
    for (release, expected) in recorded {
        let versions = expected["definition"]["spec"]["versions"].as_array().unwrap();
        let schema = |index: usize| &versions[index]["schema"]["openAPIV3Schema"];
        let mut errors: Vec<String> = match expected.get("object") {
            Some(object) => validate(schema(0), object, release),
            None if (1..versions.len()).all(|index| schema(index) == schema(0)) => {
                check(schema(0), "spec.validation.openAPIV3Schema", release).errors
            }
            None => {
                let check = |index| {
                    check(schema(index), &format!("spec.versions[{index}].schema.openAPIV3Schema"), release).errors
                };
                (0..versions.len()).flat_map(check).collect()
            }
        };
        errors.sort();
        let expected_errors: Vec<&str> =
            expected["errors"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
        if errors != expected_errors {
            wrong.push(format!(
                "{release:?} {}\nfound {errors:#?}\ninstead of {expected_errors:#?}",
                expected["definition"]["spec"]["versions"]
            ));
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_value_that_is_not_of_its_schema_is_an_error() {
    let schema = json!({"type": "object", "x-kubernetes-validations": [{"rule": "self.a == 1"}], "properties": {"a": {"type": "integer"}}});
    let validate = |object: Json| validate(&schema, &object, Release::default());
    assert_eq!(validate(json!({"a": 1.5})), ["<nil>: invalid data, expected int, got float64"]);
    assert_eq!(validate(json!({"a": "x"})), ["<nil>: invalid data, expected int, got string"]);
    assert_eq!(validate(json!({"a": 1})), [""; 0]);
}

#[test]
fn an_update_has_the_errors_of_changed_parts_and_of_transitions() {
    let rule = |rule: &str| json!([{"rule": rule}]);
    let item = json!({"type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "integer"}},
        "x-kubernetes-validations": rule("self.n < 5")});
    let schema = json!({"type": "object", "properties": {
        "size": {"type": "integer", "x-kubernetes-validations": rule("self >= oldSelf")},
        "low": {"type": "integer", "x-kubernetes-validations": rule("self < 5")},
        "first": {"type": "integer", "x-kubernetes-validations":
            [{"rule": "oldSelf.hasValue() || self == 1", "optionalOldSelf": true}]},
        "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": item},
    }});
    let rules = super::Rules::compile(std::sync::Arc::new(schema), Release::default());
    let found = |new: Json, old: Json| {
        let old = (!old.is_null()).then_some(old);
        let found = rules.validate(&new, old.as_ref());
        let causes: Vec<_> = found.causes.into_iter().map(|cause| cause.field).collect();
        (causes, found.warnings.len())
    };
    let none = || (Vec::new(), 0);
    assert_eq!(found(json!({"size": 1}), Json::Null), none());
    assert_eq!(found(json!({"size": 1}), json!({"size": 2})), (vec!["size".to_owned()], 0));
    assert_eq!(found(json!({"first": 2}), Json::Null), (vec!["first".to_owned()], 0));
    assert_eq!(found(json!({"first": 2}), json!({"first": 1})), none());
    assert_eq!(found(json!({"low": 9}), json!({"low": 8})), (vec!["low".to_owned()], 0));
    assert_eq!(found(json!({"low": 9}), json!({"low": 9})), (Vec::new(), 1));
    let item = |name: &str, n: u8| json!({"name": name, "n": n});
    let old = json!({"list": [item("a", 9), item("b", 1)]});
    assert_eq!(found(json!({"list": [item("b", 1), item("a", 9)]}), old.clone()), (Vec::new(), 1));
    assert_eq!(found(json!({"list": [item("b", 8), item("a", 9)]}), old), (vec!["list[0]".to_owned()], 1));
}
