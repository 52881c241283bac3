//! The kinds of 1.37, with what Go makes of random objects of them. The unit tests have those of 1.36: a process has the kinds of one release.

#![allow(clippy::unwrap_used)]

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::read::GzDecoder;
use kubernetes_object::kind::{GroupVersionKind, split_api_version};
use kubernetes_object::typed::{self, Typed};
use kubernetes_object::{decode, normal, protobuf, release};
use serde_json::{Value, json};
use std::io::Read;

fn lines(recorded: &[u8]) -> Vec<String> {
    release::choose(37).unwrap();
    let mut text = String::new();
    GzDecoder::new(recorded).read_to_string(&mut text).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn kind_of(object: &Value) -> GroupVersionKind {
    let (group, version) = split_api_version(object["apiVersion"].as_str().unwrap());
    GroupVersionKind::new(group, version, object["kind"].as_str().unwrap())
}

fn value(text: &str) -> Value {
    decode::json(text.as_bytes()).unwrap().value
}

/// The first path where two values differ; the current time matches any time.
fn difference(path: &str, found: &Value, expected: &Value) -> Option<String> {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            found.keys().chain(expected.keys()).find_map(|key| match (found.get(key), expected.get(key)) {
                (Some(found), Some(expected)) => difference(&format!("{path}.{key}"), found, expected),
                (found, expected) => Some(format!("{path}.{key}: {found:?} is not {expected:?}")),
            })
        }
        (Value::Array(found), Value::Array(expected)) if found.len() == expected.len() => {
            let mut pairs = found.iter().zip(expected).enumerate();
            pairs.find_map(|(index, (found, expected))| difference(&format!("{path}[{index}]"), found, expected))
        }
        (Value::Number(found), Value::Number(expected)) if found.as_f64() == expected.as_f64() => None,
        (Value::String(_), Value::String(expected)) if expected == "now" => None,
        _ => (found != expected).then(|| format!("{path}: {found} is not {expected}")),
    }
}

fn assert_none(wrong: &[String], of: usize) {
    assert!(wrong.is_empty(), "{} of {of}:\n{}", wrong.len(), wrong[..wrong.len().min(40)].join("\n"));
}

/// The difference between our decoding of a document and Go's.
fn disagreement(line: &str) -> Option<String> {
    let [kind, document, expected] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
    let [group, version, name] = kind.split('/').collect::<Vec<_>>()[..] else { panic!("{line}") };
    let (kind, expected) = (GroupVersionKind::new(group, version, name), value(expected));
    let found = match decode::json(document.as_bytes()) {
        Ok(decoded) => typed::decode_json(&kind, decoded, document.as_bytes())?.map_err(|why| why.to_string()),
        Err(why) => Err(why.to_string()),
    };
    let found = found.map(|Typed { mut value, unknown }| {
        typed::encode(&kind, &mut value);
        (value, Value::from(unknown))
    });
    match (found, expected.get("error")) {
        (Err(why), Some(error)) => (error != &why).then(|| format!("{why} is not {error}")),
        (Err(why), None) => Some(why),
        (Ok(_), Some(error)) => Some(format!("no error is not {error}")),
        (Ok((value, unknown)), None) => {
            let strict = expected.get("strict").cloned().unwrap_or_else(|| json!([]));
            difference(name, &value, &expected["value"]).or_else(|| difference("strict", &unknown, &strict))
        }
    }
}

#[test]
fn documents_are_what_go_makes_of_them() {
    let lines = lines(include_bytes!("kubernetes_1_37/cases.gz"));
    assert_none(&lines.iter().filter_map(|line| disagreement(line)).collect::<Vec<_>>(), lines.len());
}

#[test]
fn objects_in_protobuf_are_what_go_makes_of_them() {
    let lines = lines(include_bytes!("kubernetes_1_37/objects.gz"));
    let mut wrong = Vec::new();
    for line in &lines {
        let (body, expected) = line.split_once(' ').unwrap();
        let (body, expected) = (BASE64_STANDARD.decode(body).unwrap(), value(expected));
        let kind = kind_of(&expected);
        let envelope = protobuf::open(&body).unwrap();
        let mut found = envelope.object(&kind.group, &kind.version, &kind.kind).unwrap().fields;
        found.insert("apiVersion".to_owned(), kind.api_version().into());
        found.insert("kind".to_owned(), kind.kind.clone().into());
        wrong.extend(difference(&kind.kind, &Value::Object(found), &expected));
    }
    assert_none(&wrong, lines.len());
}

#[test]
fn objects_get_what_kube_apiserver_gives_them() {
    let lines = lines(include_bytes!("kubernetes_1_37/vectors.gz"));
    let mut wrong = Vec::new();
    for (line, vector) in lines.iter().enumerate() {
        let vector: Value = serde_json::from_str(vector).unwrap();
        let kind = kind_of(&vector["input"]);
        let found = normal::built_in(&kind, vector["input"].clone()).unwrap();
        match (found, vector.get("error")) {
            (Ok(found), None) => {
                let path = format!("{line} {}", kind.kind);
                wrong.extend(difference(&path, &found.object.into_value(), &vector["output"]));
            }
            (Err(why), Some(error)) if *error == why.to_string() => {}
            (found, error) => wrong.push(format!("{line} {}: {found:?} is not {error:?}", kind.kind)),
        }
    }
    assert_none(&wrong, lines.len());
}

#[test]
fn fields_and_kinds_of_another_release_are_unknown() {
    release::choose(37).unwrap();
    let slice = GroupVersionKind::new("resource.k8s.io", "v1", "ResourceSlice");
    let device = json!({"name": "d", "nodeAllocatableResources": {}, "nodeAllocatableResourceMappings": {}});
    let Typed { value, unknown } = typed::decode(&slice, json!({"spec": {"devices": [device]}})).unwrap().unwrap();
    assert_eq!(unknown, [r#"unknown field "spec.devices[0].nodeAllocatableResourceMappings""#]);
    assert!(value.pointer("/spec/devices/0/nodeAllocatableResources").is_some(), "{value}");
    for (version, is_known) in [("v1alpha2", false), ("v1alpha3", true), ("v1beta1", true)] {
        let kind = GroupVersionKind::new("scheduling.k8s.io", version, "PodGroup");
        assert_eq!(typed::is_known(&kind), is_known, "{version}");
        assert_eq!(protobuf::has_encoding(&kind.group, version, "PodGroup"), is_known, "{version}");
    }
}
