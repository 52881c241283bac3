//! Compares with the reviews of a kube-apiserver 1.8.15.

use super::*;
use crate::admission::RequestContext;
use crate::kind::GroupVersionResource;
use crate::object::normal;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The object as the pipeline has it: decoded and defaulted, if its kind is known.
fn object(kind: &GroupVersionKind, value: &Value) -> Option<Object> {
    let given = Object::from_value(value.clone())?;
    match normal::built_in(kind, value.clone()) {
        Some(Ok(normal)) => Some(normal.object),
        _ => Some(given),
    }
}

/// The request of a recorded case.
fn request(case: &Value) -> Attributes {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let triple = |value: &Value| [text(&value[0]), text(&value[1]), text(&value[2])];
    let [group, version, kind] = triple(&case["kind"]);
    let kind = GroupVersionKind { group, version, kind };
    let [group, version, resource] = triple(&case["resource"]);
    let operation = match case["operation"].as_str().unwrap() {
        "CREATE" => Operation::Create,
        "UPDATE" => Operation::Update,
        "DELETE" => Operation::Delete,
        "CONNECT" => Operation::Connect,
        other => panic!("{other}"),
    };
    let user = serde_json::from_value(case["user"].clone()).unwrap();
    let context = RequestContext::new(Arc::new(user), Instant::now() + Duration::from_secs(30));
    let resource = GroupVersionResource { group, version, resource };
    Attributes {
        subresource: text(&case["subresource"]),
        name: text(&case["name"]),
        namespace: text(&case["namespace"]),
        object: object(&kind, &case["object"]),
        old_object: object(&kind, &case["oldObject"]).map(Arc::new),
        ..Attributes::new(operation, kind, resource, context)
    }
}

#[tokio::test]
async fn requests_are_shown_as_by_a_kube_apiserver() {
    let mut count = 0;
    for line in include_str!("recorded.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let mut want = case["review"].clone();
        if case["case"] == "a namespace" {
            // 1.8 does not set this label.
            want["spec"]["object"]["labels"] = json!({"kubernetes.io/metadata.name": "nn"});
        }
        let got: Value = serde_json::from_str(&body(&request(&case)).unwrap()).unwrap();
        assert_eq!(got, want, "{}", case["case"]);
        count += 1;
    }
    assert_eq!(count, 13);
}

fn recorded(name: &str) -> Attributes {
    let cases = include_str!("recorded.jsonl").lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    request(&cases.into_iter().find(|case| case["case"] == name).unwrap())
}

#[tokio::test]
async fn a_review_has_the_bytes_of_a_kube_apiserver() {
    let want = r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1alpha1","spec":{"kind":{"group":"","version":"v1","kind":"ConfigMap"},"object":{"name":"c","namespace":"ns","creationTimestamp":null,"Data":{"a":"b"}},"oldObject":null,"operation":"CREATE","namespace":"ns","resource":{"group":"","version":"v1","resource":"configmaps"},"userInfo":{"username":"alice","groups":["developers","system:authenticated"]}},"status":{"allowed":false}}"#;
    assert_eq!(body(&recorded("a create")).unwrap(), format!("{want}\n"));
    let pod = body(&recorded("a pod")).unwrap();
    for part in [
        r#""object":{"name":"p","namespace":"ns","creationTimestamp":null,"Spec":{"Volumes":null,"InitContainers":null,"Containers":[{"Name":"c","Image":"nginx","#,
        r#""Resources":{"Limits":null,"Requests":null},"#,
        r#""TTY":false}],"RestartPolicy":"Always","#,
        r#""SecurityContext":{"HostNetwork":false,"#,
    ] {
        assert!(pod.contains(part), "{part} is not in {pod}");
    }
    let exec = body(&recorded("an exec")).unwrap();
    let part = r#""object":{"Name":"p","Options":{"Stdin":false,"Stdout":true,"#;
    assert!(exec.contains(part) && exec.contains(r#""Command":["ls"]},"ResourcePath":"pods/exec"}"#), "{exec}");
    let binding = body(&recorded("a binding")).unwrap();
    assert!(
        binding.contains(r#"{"name":"p","creationTimestamp":null,"Target":{"Kind":"Node","Namespace":"","Name":"n","#)
    );
}

#[tokio::test]
async fn characters_of_html_are_escaped_as_by_go() {
    let mut attributes = recorded("a create");
    assert!(attributes.object.as_mut().unwrap().set(&["data", "a"], json!("<&>")));
    assert!(body(&attributes).unwrap().contains(r#""a":"\u003c\u0026\u003e""#));
}

#[tokio::test]
async fn custom_resources_and_later_kinds_are_shown_as_they_are() {
    for (group, kind) in [("example.com", "Thing"), ("coordination.k8s.io", "Lease")] {
        let mut attributes = recorded("a create");
        attributes.kind = GroupVersionKind::new(group, "v1", kind);
        let object = json!({"apiVersion": format!("{group}/v1"), "kind": kind, "metadata": {"name": "x"}, "spec": {"b": 1, "a": 2}});
        attributes.object = Object::from_value(object);
        let shown = format!(
            r#""object":{{"apiVersion":"{group}/v1","kind":"{kind}","metadata":{{"name":"x"}},"spec":{{"a":2,"b":1}}}}"#
        );
        let body = body(&attributes).unwrap();
        assert!(body.contains(&shown), "{body}");
    }
}

#[tokio::test]
async fn an_object_without_a_namespace_is_shown_without() {
    let mut attributes = recorded("a create");
    attributes.namespace_from_url = true;
    let review: Value = serde_json::from_str(&body(&attributes).unwrap()).unwrap();
    assert_eq!((&review["spec"]["namespace"], &review["spec"]["object"]["namespace"]), (&json!("ns"), &Value::Null));
    assert_eq!(attributes.object.unwrap().namespace(), "ns");
}

#[tokio::test]
async fn a_connection_has_the_kind_of_the_connected_object() {
    for (resource, kind, options) in [
        ("pods", "Pod", "PodProxyOptions"),
        ("services", "Service", "ServiceProxyOptions"),
        ("nodes", "Node", "NodeProxyOptions"),
    ] {
        let mut attributes = recorded("an exec");
        attributes.kind = GroupVersionKind::new("", "v1", options);
        attributes.resource.resource = resource.into();
        attributes.subresource = "proxy".into();
        attributes.object = Object::from_value(json!({"apiVersion": "v1", "kind": options, "path": "/x"}));
        let review: Value = serde_json::from_str(&body(&attributes).unwrap()).unwrap();
        assert_eq!(review["spec"]["kind"]["kind"], kind);
        let object = json!({"Name": "p", "Options": {"Path": "/x"}, "ResourcePath": format!("{resource}/proxy")});
        assert_eq!(review["spec"]["object"], object);
    }
}

#[tokio::test]
async fn a_namespace_that_exists_is_its_own_namespace() {
    let mut attributes = recorded("a namespace");
    attributes.operation = Operation::Update;
    let review: Value = serde_json::from_str(&body(&attributes).unwrap()).unwrap();
    assert_eq!((&review["spec"]["name"], &review["spec"]["namespace"]), (&json!("nn"), &json!("nn")));
}
