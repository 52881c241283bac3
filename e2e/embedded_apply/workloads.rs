//! Workloads: lists with keys, and subresources.

use super::{apply, compare, with};
use crate::harness::{get, patch, post, put};
use serde_json::{Value, json};

fn deployments(namespace: &str) -> String {
    format!("/apis/apps/v1/namespaces/{namespace}/deployments")
}

fn deployment(more: Value) -> Value {
    with(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}}), more)
}

/// A valid deployment.
fn whole(replicas: Value, containers: Value) -> Value {
    let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": containers}});
    let mut spec = json!({"selector": {"matchLabels": {"app": "a"}}, "template": template});
    if !replicas.is_null() {
        spec["replicas"] = replicas;
    }
    deployment(json!({ "spec": spec }))
}

fn container(name: &str, more: Value) -> Value {
    with(json!({"name": name, "image": format!("{name}:1")}), more)
}

fn scale(replicas: u8) -> Value {
    json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": replicas}})
}

#[test]
fn lists_with_keys_have_the_owners_of_kube_apiserver() {
    compare("embedded-lists", |namespace| {
        let a = format!("{}/a", deployments(namespace));
        let env = |names: &[&str]| json!({"env": names.iter().map(|name| json!({"name": name, "value": "1"})).collect::<Vec<_>>()});
        let ports = json!({"ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]});
        vec![
            apply(&a, "one", whole(json!(2), json!([container("x", env(&["A", "B"])), container("y", ports.clone())]))),
            apply(
                &a,
                "two",
                deployment(json!({"spec": {"template": {"spec": {"containers": [container("z", json!({}))]}}}})),
            ),
            apply(
                &a,
                "two",
                deployment(json!({"spec": {"template": {"spec": {"containers": [{"name": "x", "image": "other"}]}}}})),
            ),
            apply(
                &a,
                "two",
                deployment(
                    json!({"spec": {"template": {"spec": {"containers": [{"name": "x", "env": [{"name": "A", "value": "2"}, {"name": "C", "value": "1"}]}]}}}}),
                ),
            ),
            apply(&a, "one", whole(Value::Null, json!([container("x", env(&["B"]))]))),
            apply(&a, "one", whole(json!(2), json!([container("x", json!({})), container("y", ports)]))),
        ]
    });
}

#[test]
fn the_replicas_of_a_scale_have_the_owners_of_kube_apiserver() {
    compare("embedded-scales", |namespace| {
        let a = format!("{}/a", deployments(namespace));
        let at_scale = format!("{a}/scale");
        vec![
            apply(&a, "one", whole(json!(2), json!([container("x", json!({})), container("y", json!({}))]))),
            put(&format!("{at_scale}?fieldManager=scaler"), &scale(3)),
            get(&a),
            apply(&a, "one", whole(json!(2), json!([container("x", json!({}))]))),
            apply(&at_scale, "applier", scale(3)),
            get(&a),
            apply(&at_scale, "other", scale(4)),
            apply(&at_scale, "other&force=true", scale(4)),
            get(&a),
            patch(&format!("{at_scale}?fieldManager=scaler"), "merge", &json!({"spec": {"replicas": 5}})),
            get(&a),
            patch(&format!("{a}?fieldManager=me"), "merge", &json!({"spec": {"replicas": 6}})),
            patch(&format!("{at_scale}?fieldManager=me"), "merge", &json!({"spec": {"replicas": 7}})),
            get(&a),
        ]
    });
}

#[test]
fn a_status_has_the_owners_of_kube_apiserver() {
    compare("embedded-statuses", |namespace| {
        let a = format!("{}/a", deployments(namespace));
        vec![
            apply(&a, "one", whole(json!(2), json!([container("x", json!({}))]))),
            patch(
                &format!("{a}/status?fieldManager=kubelet"),
                "merge",
                &json!({"status": {"replicas": 5}, "metadata": {"annotations": {"s": "1"}, "labels": {"s": "1"}}}),
            ),
            apply(&format!("{a}/status"), "controller", deployment(json!({"status": {"replicas": 6}}))),
            apply(
                &format!("{a}/status"),
                "controller&force=true",
                deployment(json!({"status": {"replicas": 6, "conditions": [{"type": "Available", "status": "True"}]}})),
            ),
            apply(
                &a,
                "one",
                with(whole(Value::Null, json!([container("x", json!({}))])), json!({"status": {"replicas": 9}})),
            ),
            get(&a),
        ]
    });
}

#[test]
fn a_pod_and_its_subresources_have_the_owners_of_kube_apiserver() {
    compare("embedded-pods", |namespace| {
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        let pod = |more: Value| with(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}), more);
        vec![
            apply(
                &format!("{pods}/p"),
                "one",
                pod(json!({"spec": {"containers": [{"name": "c", "image": "i"}], "nodeSelector": {"a": "b"}}})),
            ),
            apply(&format!("{pods}/p"), "two", pod(json!({"metadata": {"labels": {"a": "b"}}}))),
            apply(
                &format!("{pods}/p"),
                "one",
                pod(json!({"spec": {"containers": [{"name": "c", "image": "j"}], "nodeSelector": {"a": "b"}}})),
            ),
            patch(
                &format!("{pods}/p/status?fieldManager=kubelet"),
                "strategic",
                &json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
            ),
            apply(
                &format!("{pods}/p/status"),
                "probe",
                pod(json!({"status": {"conditions": [{"type": "Probe", "status": "True"}]}})),
            ),
            apply(
                &format!("{pods}/p/status"),
                "probe",
                pod(json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}})),
            ),
            post(
                &format!("{pods}/p/binding"),
                &json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}),
            ),
            get(&format!("{pods}/p")),
            patch(
                &format!("{pods}/p/ephemeralcontainers?fieldManager=debugger"),
                "strategic",
                &json!({"spec": {"ephemeralContainers": [{"name": "d", "image": "d", "terminationMessagePolicy": "File"}]}}),
            ),
        ]
    });
}
