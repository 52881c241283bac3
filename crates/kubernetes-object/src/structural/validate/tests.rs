//! Answers of a kube-apiserver, recorded by tools/record-schema-validation.py, and bounds.

use super::*;
use crate::kind::GroupVersionKind;
use crate::structural::Structural;
use serde_json::json;
use std::collections::HashMap;

const RECORDED: &str = include_str!("recorded.jsonl");

/// The `regex` crate in place of Go's regular expressions.
pub(crate) fn patterns(pattern: &str) -> Result<Matcher, String> {
    let compiled = regex::Regex::new(pattern).map_err(|_| match pattern {
        "[" => "error parsing regexp: missing closing ]: `[`".to_owned(),
        "(?=a)" => "error parsing regexp: invalid or unsupported Perl syntax: `(?=`".to_owned(),
        other => panic!("{other} has no recorded error"),
    })?;
    Ok(Arc::new(move |text| compiled.is_match(text)))
}

struct Recorded {
    structural: Structural,
    validator: Validator,
    scale: Option<Scale>,
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
        Self { structural: Structural::compile(schema).unwrap(), validator, scale }
    }

    /// The causes of a recorded case, sorted.
    fn causes(&self, line: &Value) -> Vec<[String; 3]> {
        let decode = |value: &Value| self.structural.normalize(value.clone()).unwrap().object;
        let mut object = decode(&line["object"]);
        let kind = GroupVersionKind::new("lab.dev", "v1", object.kind());
        let facts = Facts { kind: &kind, is_namespaced: true, validator: &self.validator, scale: self.scale.as_ref() };
        let causes = if line["old"].is_null() {
            assert!(object.set(&["metadata", "namespace"], json!("default")));
            validate(facts, &object)
        } else {
            let old = decode(&line["old"]);
            if line["subresource"] == "status" {
                validate_status_update(facts, &object, &old)
            } else {
                validate_update(facts, &object, &old)
            }
        };
        let mut causes: Vec<_> = causes.into_iter().map(|cause| [cause.field, cause.reason, cause.message]).collect();
        causes.sort_unstable();
        causes
    }
}

#[test]
fn objects_have_the_errors_of_kube_apiserver() {
    let mut schemas = HashMap::new();
    let (mut equal, mut different) = (0, Vec::new());
    for line in RECORDED.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        if let Some(name) = line["schema"].as_str() {
            schemas.insert(name.to_owned(), Recorded::new(&line));
            continue;
        }
        let found = schemas[line["of"].as_str().unwrap()].causes(&line);
        let mut expected: Vec<[String; 3]> = serde_json::from_value(line["causes"].clone()).unwrap();
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
