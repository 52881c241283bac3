//! Sends invalid objects to the embedded API server and to a kube-apiserver: the cases that tools/record-validation.py recorded.

use crate::harness::{Api, Kept, Proxy, User, post, proxy_only, put, upstream};
use flate2::read::GzDecoder;
use serde_json::{Value, json};
use std::io::Read;

const RECORDED: &[u8] = include_bytes!("../crates/kubernetes-object/src/validation/recorded.jsonl.gz");
const NAMESPACE: &str = "embedded-validation";
/// One of so many cases is sent.
const STEP: usize = 8;
/// The cases that may differ, in percent; the unit test of the recorded cases has its own thresholds.
const MOST_DIFFERENT: usize = 6;

fn lines() -> Vec<Value> {
    let mut text = String::new();
    GzDecoder::new(RECORDED).read_to_string(&mut text).unwrap();
    text.replace("/namespaces/kinds/", &format!("/namespaces/{NAMESPACE}/"))
        .replace(r#""namespace":"kinds""#, &format!(r#""namespace":"{NAMESPACE}""#))
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The object with a change: operation, pointer, value. `None` if the object has no such place.
fn changed(mut object: Value, change: &Value) -> Option<Value> {
    let (parent, last) = change[1].as_str()?.rsplit_once('/')?;
    let last = last.replace("~1", "/").replace("~0", "~");
    match (object.pointer_mut(parent)?, change[0].as_str()? == "remove") {
        (Value::Array(items), true) => drop(items.remove(last.parse().ok().filter(|at| *at < items.len())?)),
        (Value::Array(items), false) => *items.get_mut(last.parse::<usize>().ok()?)? = change[2].clone(),
        (Value::Object(fields), true) => drop(fields.remove(&last)),
        (Value::Object(fields), false) => drop(fields.insert(last, change[2].clone())),
        _ => return None,
    }
    Some(object)
}

/// The code and the causes of an answer. The first line of a message is enough: others show Go's types.
fn seen(api: &Kept, request: crate::harness::Request) -> (u16, Vec<String>) {
    let answer = api.send(&User::admin(), request);
    let body = answer.json();
    let causes = body.pointer("/details/causes").and_then(Value::as_array).cloned().unwrap_or_default();
    let text = |cause: &Value, field: &str| cause[field].as_str().unwrap_or_default().to_owned();
    let shown = causes.iter().map(|cause| {
        let message = text(cause, "message");
        let first = message.lines().next().unwrap_or_default();
        format!("{} {} {first}", text(cause, "field"), text(cause, "reason"))
    });
    let mut shown: Vec<String> = shown.collect();
    shown.sort_unstable();
    (answer.status, shown)
}

#[test]
fn invalid_objects_are_refused_as_by_kube_apiserver() {
    let flags = proxy_only(&[]);
    let embedded = Proxy::embedded(&[&flags[0], &flags[1]]);
    let sides: [&Api; 2] = [upstream(), &embedded];
    let kept = sides.map(Api::kept);
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    sides.iter().for_each(|api| drop(api.accepts(post("/api/v1/namespaces", &namespace))));
    let (mut base, mut at) = (Value::Null, String::new());
    let mut stored: Option<[Value; 2]> = None;
    let (mut sent, mut different) = (0, Vec::new());
    for (number, line) in lines().iter().enumerate() {
        if line["object"].is_object() {
            (base, at, stored) = (line["object"].clone(), line["at"].as_str().unwrap().to_owned(), None);
            continue;
        }
        if line["stored"].is_object() {
            // Objects without a namespace would be in the way of other tests.
            if at.contains(NAMESPACE) {
                let created = sides.map(|api| api.send(&User::admin(), post(&at, &base)));
                let are_created = created.iter().all(|answer| answer.status == 201);
                stored = are_created.then(|| created.map(|answer| answer.json()));
            }
            continue;
        }
        if number % STEP != 0 || base["apiVersion"] == "admissionregistration.k8s.io/v1" {
            continue;
        }
        let requests = match (line["on"].as_str(), &stored) {
            (Some("create"), _) => {
                let object = changed(base.clone(), &line["change"]).unwrap();
                [0, 1].map(|_| Some(post(&format!("{at}?dryRun=All"), &object)))
            }
            (Some("update"), Some(stored)) => {
                let path = format!("{at}/{}?dryRun=All", base["metadata"]["name"].as_str().unwrap());
                [0, 1].map(|side| Some(put(&path, &changed(stored[side].clone(), &line["change"])?)))
            }
            _ => continue,
        };
        let [Some(first), Some(second)] = requests else { continue };
        sent += 1;
        let (expected, found) = (seen(&kept[0], first), seen(&kept[1], second));
        // Causes name the UIDs that each server draws.
        let without_uids = |texts: &[String]| -> Vec<String> {
            texts.iter().filter(|text| !text.contains("controller-uid")).cloned().collect()
        };
        if (expected.0, without_uids(&expected.1)) != (found.0, without_uids(&found.1)) {
            different.push(format!(
                "{} {} {} {}\n  kube-apiserver: {expected:?}\n  embedded:       {found:?}",
                base["kind"], base["metadata"]["name"], line["on"], line["change"]
            ));
        }
    }
    let list = different.join("\n");
    println!("{sent} cases, {} differ\n{list}", different.len());
    assert!(sent > 600, "{sent}");
    assert!(different.len() * 100 <= sent * MOST_DIFFERENT, "{} of {sent} differ\n{list}", different.len());
}
