//! Answers of a kube-apiserver to objects with one change, recorded by tools/record-validation.py.

use super::*;
use crate::{convert, kinds, normal, object_meta};
use flate2::read::GzDecoder;
use regex::Regex;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::sync::LazyLock;

const RECORDED: &[u8] = include_bytes!("recorded.jsonl.gz");

/// The verdicts and the causes that are equal, in percent of the cases.
const EQUAL_VERDICTS: f64 = 99.5;
const EQUAL_CAUSES: f64 = 99.0;

struct Base {
    kind: GroupVersionKind,
    resource: String,
    object: Value,
    stored: Option<Value>,
}

fn lines() -> Vec<Value> {
    let mut text = String::new();
    GzDecoder::new(RECORDED).read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn change(value: &Value, change: &Value) -> Value {
    let mut value = value.clone();
    let (operation, pointer) = (change[0].as_str().unwrap(), change[1].as_str().unwrap());
    let (parent, last) = pointer.rsplit_once('/').unwrap();
    let last = last.replace("~1", "/").replace("~0", "~");
    match value.pointer_mut(parent).unwrap() {
        Value::Array(items) if operation == "remove" => drop(items.remove(last.parse().unwrap())),
        Value::Array(items) => items[last.parse::<usize>().unwrap()] = change[2].clone(),
        Value::Object(fields) if operation == "remove" => drop(fields.remove(&last)),
        Value::Object(fields) => drop(fields.insert(last, change[2].clone())),
        other => panic!("{other}"),
    }
    value
}

/// The object in the version in which kube-apiserver validates it.
fn decoded(kind: &GroupVersionKind, value: Value) -> Option<Object> {
    let object = normal::built_in(kind, value)?.ok()?.object;
    if kind.group != "autoscaling" || kind.version != "v1" {
        return Some(object);
    }
    convert::built_in(&object, kind, &GroupVersionKind::new("autoscaling", "v2", &kind.kind))
}

/// Sets what the allocators of a Service set.
fn allocate(object: &mut Object) {
    if object.str(&["spec", "type"]) == "ExternalName" {
        return;
    }
    if object.str(&["spec", "clusterIP"]).is_empty() && object.items(&["spec", "clusterIPs"]).is_empty() {
        assert!(object.set(&["spec", "clusterIP"], json!("10.0.0.9")));
    }
    let address = object.str(&["spec", "clusterIP"]).to_owned();
    if object.items(&["spec", "clusterIPs"]).is_empty() && !address.is_empty() {
        assert!(object.set(&["spec", "clusterIPs"], json!([address])));
    }
    for (field, value) in [("ipFamilies", json!(["IPv4"])), ("ipFamilyPolicy", json!("SingleStack"))] {
        if object.get(&["spec", field]).is_none() {
            assert!(object.set(&["spec", field], value));
        }
    }
    let is_local = object.str(&["spec", "externalTrafficPolicy"]) == "Local";
    if is_local
        && object.str(&["spec", "type"]) == "LoadBalancer"
        && object.get(&["spec", "healthCheckNodePort"]).is_none()
    {
        assert!(object.set(&["spec", "healthCheckNodePort"], json!(30000)));
    }
}

/// Sets the fields of the strategy's resets to those of the old object.
fn reset(base: &Base, object: &mut Object, old: Option<&Object>, subresource: &str) {
    let facts = kinds::of_resource(&base.kind.group, &base.resource).unwrap();
    for field in facts.resets(subresource) {
        let path: Vec<&str> = field.iter().map(|step| step.trim_start_matches("f:")).collect();
        // A new object keeps its spec, a new Node its status, and the status of a CertificateSigningRequest its conditions.
        if old.is_none() && (path == ["spec"] || base.kind.kind == "Node") || path == ["status", "conditions"] {
            continue;
        }
        match old.and_then(|old| old.get(&path)).cloned() {
            Some(value) => assert!(object.set(&path, value)),
            None => drop(object.remove(&path)),
        }
    }
}

fn metadata(object: &Object) -> Map<String, Value> {
    object.fields()["metadata"].as_object().unwrap().clone()
}

fn found(base: &Base, case: &Value) -> Option<Vec<Cause>> {
    let facts = kinds::of_resource(&base.kind.group, &base.resource).unwrap();
    if case["on"] == "create" {
        let mut object = decoded(&base.kind, change(&base.object, &case["change"]))?;
        reset(base, &mut object, None, "");
        let _ = object.set(&["metadata", "uid"], json!("uid"));
        if facts.is_namespaced && object.namespace().is_empty() {
            let _ = object.set(&["metadata", "namespace"], json!("kinds"));
        }
        if object.name().is_empty() && !object.generate_name().is_empty() {
            let name = format!("{}12345", object.generate_name());
            let _ = object.set(&["metadata", "name"], json!(name));
        }
        prepare_for_create(&base.kind, &mut object);
        if base.kind.kind == "Service" {
            allocate(&mut object);
        }
        let causes = validate(&base.kind, &object);
        if !causes.is_empty() {
            return Some(causes);
        }
        let names = &object_meta::path_segment_name_errors;
        return Some(object_meta::validate(&metadata(&object), facts.is_namespaced, names, "metadata"));
    }
    let subresource = if case["on"] == "status" { "status" } else { "" };
    let old = decoded(&base.kind, base.stored.clone()?)?;
    let mut object = decoded(&base.kind, change(base.stored.as_ref()?, &case["change"]))?;
    reset(base, &mut object, Some(&old), subresource);
    for field in ["generation", "uid", "creationTimestamp"] {
        if let Some(value) = old.get(&["metadata", field]) {
            let _ = object.set(&["metadata", field], value.clone());
        }
    }
    for field in ["namespace", "resourceVersion"] {
        if object.str(&["metadata", field]).is_empty()
            && let Some(value) = old.get(&["metadata", field])
        {
            let _ = object.set(&["metadata", field], value.clone());
        }
    }
    if base.kind.kind == "Namespace"
        && let Some(value) = old.get(&["spec", "finalizers"])
    {
        let _ = object.set(&["spec", "finalizers"], value.clone());
    }
    if subresource.is_empty() {
        prepare_for_update(&base.kind, &mut object, &old);
    }
    let mut causes = object_meta::validate_any_update(&metadata(&object), &metadata(&old), facts.is_namespaced);
    causes.extend(validate_update(&base.kind, &object, &old, subresource));
    Some(causes)
}

/// A message without what no rule decides: differences of internal Go types, and random UIDs.
fn comparable(message: &str) -> String {
    static UID: LazyLock<Regex> = LazyLock::new(|| Regex::new("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").unwrap());
    let first = message.split('\n').next().unwrap_or_default();
    let first = UID.replace_all(first, "uid");
    // The template of a Job and the volume of a VolumeAttachment are in their internal versions.
    let is_internal = [r#""Spec":{"Volumes":"#, r#""InlineVolumeSpec":{"#].iter().any(|start| first.contains(start));
    match is_internal && first.ends_with("field is immutable") {
        true => "Invalid value: {}: field is immutable".to_owned(),
        false => first.into_owned(),
    }
}

#[test]
fn objects_have_the_errors_of_kube_apiserver() {
    let mut bases: HashMap<u64, Base> = HashMap::new();
    let (mut all, mut verdicts, mut equal) = (0, 0, 0);
    let mut different: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in lines() {
        if let Some(number) = line["base"].as_u64() {
            if line["object"].is_object() {
                let object = line["object"].clone();
                let api_version = object["apiVersion"].as_str().unwrap();
                let (group, version) = crate::kind::split_api_version(api_version);
                let kind = GroupVersionKind::new(group, version, object["kind"].as_str().unwrap());
                let resource = line["at"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
                bases.insert(number, Base { kind, resource, object, stored: None });
            } else {
                bases.get_mut(&number).unwrap().stored = Some(line["stored"].clone());
            }
            continue;
        }
        let base = &bases[&line["case"].as_u64().unwrap()];
        if base.kind.group == "admissionregistration.k8s.io" {
            continue;
        }
        let Some(causes) = found(base, &line) else { continue };
        all += 1;
        let causes = causes.into_iter().map(|cause| [cause.field, cause.reason, comparable(&cause.message)]);
        let mut causes: Vec<[String; 3]> = causes.collect();
        let mut expected: Vec<[String; 3]> = serde_json::from_value(line["causes"].clone()).unwrap();
        // kube-apiserver ran without --allow-privileged.
        expected.retain(|cause| !cause[2].contains("disallowed by cluster policy"));
        expected.iter_mut().for_each(|cause| cause[2] = comparable(&cause[2]));
        verdicts += usize::from(expected.is_empty() == causes.is_empty());
        causes.sort_unstable();
        expected.sort_unstable();
        if causes == expected {
            equal += 1;
            continue;
        }
        let missing: Vec<_> = expected.iter().filter(|cause| !causes.contains(cause)).collect();
        let surplus: Vec<_> = causes.iter().filter(|cause| !expected.contains(cause)).collect();
        let counts = if missing.is_empty() && surplus.is_empty() { " (counts)" } else { "" };
        let what = format!(
            "{} {}{}{counts}\n    missing {missing:?}\n    surplus {surplus:?}",
            line["on"], line["change"], base.object["metadata"]["name"]
        );
        different.entry(base.kind.kind.clone()).or_default().push(what);
    }
    let percent = |count: usize| count as f64 * 100.0 / f64::from(all);
    for (kind, cases) in &different {
        println!("{kind}: {} differ", cases.len());
        cases.iter().for_each(|case| println!("  {}", case.chars().take(1500).collect::<String>()));
    }
    println!("{all} cases: {:.2} % equal verdicts, {:.2} % equal causes", percent(verdicts), percent(equal));
    assert!(percent(verdicts) >= EQUAL_VERDICTS && percent(equal) >= EQUAL_CAUSES && all > 10_000);
}
