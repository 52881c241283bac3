//! Answers of a kube-apiserver, recorded by tools/record-schema-validation.py, and bounds.

use super::*;
use crate::kind::GroupVersionKind;
use crate::object_meta;
use crate::structural::Structural;
use serde_json::json;
use std::collections::HashMap;
use std::io::Read;

const RECORDED: &[u8] = include_bytes!("recorded.jsonl.gz");

/// The recorded answers.
pub(crate) fn lines(recorded: &[u8]) -> Vec<Value> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(recorded).read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The `regex` crate in place of Go's regular expressions.
pub(crate) fn patterns(pattern: &str) -> Result<PatternMatcher, InvalidPattern> {
    let compiled = regex::Regex::new(pattern).map_err(|_| match pattern {
        "[" => InvalidPattern("error parsing regexp: missing closing ]: `[`".to_owned()),
        "(?=a)" => InvalidPattern("error parsing regexp: invalid or unsupported Perl syntax: `(?=`".to_owned()),
        other => panic!("{other} has no recorded error"),
    })?;
    Ok(Arc::new(move |text| compiled.is_match(text)))
}

struct Recorded {
    structural: Structural,
    validator: Validator,
    scale: Option<Scale>,
    has_rules: bool,
}

impl Recorded {
    fn new(line: &Value) -> Self {
        let text = |name: &str| line.pointer(&format!("/subresources/scale/{name}")).and_then(Value::as_str);
        let scale = text("specReplicasPath").map(|spec| Scale {
            spec_replicas: spec.to_owned(),
            status_replicas: text("statusReplicasPath").unwrap_or_default().to_owned(),
            label_selector: None,
        });
        let schema = &line["is"];
        let validator = Validator::compile(schema, &patterns).unwrap();
        let has_rules = schema.to_string().contains("x-kubernetes-validations");
        Self { structural: Structural::compile(schema).unwrap(), validator, scale, has_rules }
    }

    /// The causes of a recorded case.
    fn causes(&self, line: &Value) -> Vec<[String; 3]> {
        let decode = |value: &Value| self.structural.normalize(value.clone()).unwrap().object;
        let mut object = decode(&line["object"]);
        let kind = GroupVersionKind::new("lab.dev", "v1", object.kind());
        let facts = Facts { kind: &kind, is_namespaced: true, validator: &self.validator, scale: self.scale.as_ref() };
        let mut causes = if line["old"].is_null() {
            assert!(object.set(&["metadata", "namespace"], json!("default")));
            validate(facts, &object)
        } else {
            let old = decode(&line["old"]);
            let metadata = |object: &Object| object.fields()["metadata"].as_object().unwrap().clone();
            let mut causes = object_meta::validate_any_update(&metadata(&object), &metadata(&old), true);
            causes.extend(if line["subresource"] == "status" {
                validate_status_update(facts, &object, &old)
            } else {
                validate_update(facts, &object, &old)
            });
            causes
        };
        causes.extend(without_rules(&causes).filter(|_| self.has_rules));
        causes.into_iter().map(|cause| [cause.field, cause.reason, cause.message]).collect()
    }
}

#[test]
fn objects_have_the_errors_of_kube_apiserver() {
    let mut schemas = HashMap::new();
    let (mut equal, mut different) = (0, Vec::new());
    for line in lines(RECORDED) {
        if let Some(name) = line["schema"].as_str() {
            schemas.insert(name.to_owned(), Recorded::new(&line));
            continue;
        }
        let mut found = schemas[line["of"].as_str().unwrap()].causes(&line);
        let mut expected: Vec<[String; 3]> = serde_json::from_value(line["causes"].clone()).unwrap();
        found.sort_unstable();
        expected.sort_unstable();
        if found == expected {
            equal += 1;
        } else {
            different.push(format!("{} {}\n  is {found:#?}\n  not {expected:#?}", line["of"], line["object"]));
        }
    }
    assert!(different.is_empty(), "{equal} equal, {} different:\n{}", different.len(), different.join("\n"));
    assert!(equal > 500);
}

#[test]
fn lists_are_compared_by_hashing() {
    let schema = json!({"type": "object", "properties": {
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}},
        "unique": {"type": "array", "uniqueItems": true, "items": {"type": "integer", "enum": (0..50_000).collect::<Vec<_>>()}},
    }});
    let validator = Validator::compile(&schema, &patterns).unwrap();
    let items: Vec<_> = (0..50_000).collect();
    let object = Object::from_value(json!({"set": items, "unique": items})).unwrap();
    assert!(validator.list_causes(&object).is_empty() && validator.object_causes(&object).is_empty());
}

#[test]
fn the_errors_of_an_object_are_bounded() {
    let allowed: Vec<_> = (0..10_000).map(|index| format!("value-{index}")).collect();
    let schema =
        json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string", "enum": allowed}}}});
    let validator = Validator::compile(&schema, &patterns).unwrap();
    let causes = validator.causes(&json!({"a": vec!["x"; 10_000]}), "");
    let bytes: usize = causes.iter().map(|cause| cause.message.len()).sum();
    assert!(!causes.is_empty() && bytes < 5 << 20);
}

#[test]
fn equal_parts_of_a_schema_are_compiled_once() {
    let part = json!({"type": "object", "properties": {"x": {"type": "string", "maxLength": 5}}});
    let properties: serde_json::Map<_, _> = (0..100).map(|index| (format!("p{index}"), part.clone())).collect();
    let schema = json!({"type": "object", "properties": properties});
    assert_eq!(Validator::compile(&schema, &patterns).unwrap().nodes.len(), 3);
}

#[test]
fn a_schema_that_is_too_deep_is_refused() {
    let deep = (0..200).fold(json!({"type": "string"}), |items, _| json!({"type": "array", "items": items}));
    assert!(Validator::compile(&deep, &patterns).is_err());
}

#[test]
fn a_long_path_is_not_written_for_each_item() {
    let schema = json!({"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}});
    let validator = Validator::compile(&schema, &patterns).unwrap();
    let causes = validator.causes(&json!({"x".repeat(1 << 20): vec![1; 100_000]}), "");
    let bytes: usize = causes.iter().map(|cause| cause.message.len() + cause.field.len()).sum();
    assert!(!causes.is_empty() && bytes < 16 << 20);
}

#[test]
fn any_value_is_validated_against_any_schema_without_a_panic() {
    let (schemas, cases): (Vec<_>, Vec<_>) = lines(RECORDED).into_iter().partition(|line| line["of"].is_null());
    for schema in &schemas {
        let validator = Validator::compile(&schema["is"], &patterns).unwrap();
        for case in cases.iter().step_by(3) {
            let object = Object::from_value(case["object"].clone()).unwrap();
            validator.object_causes(&object);
            validator.update_causes(&object, &object);
            validator.embedded_causes(&object);
            validator.list_causes(&object);
        }
    }
}
