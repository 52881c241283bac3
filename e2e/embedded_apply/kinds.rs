//! Kinds with lists, defaults and versions of their own.

use super::{apply, compare, with};
use crate::harness::{get, patch, post, put};
use serde_json::{Value, json};

/// An object with the name `a`.
fn object(api_version: &str, kind: &str, more: Value) -> Value {
    with(json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}}), more)
}

#[test]
fn a_service_has_the_owners_of_kube_apiserver() {
    compare("embedded-services", |namespace| {
        let core = format!("/api/v1/namespaces/{namespace}");
        let service = |more: Value| object("v1", "Service", more);
        let at_service = format!("{core}/services/a");
        vec![
            apply(
                &at_service,
                "one",
                service(
                    json!({"spec": {"ports": [{"port": 80, "name": "web"}, {"port": 53, "protocol": "UDP", "name": "dns"}], "selector": {"a": "b"}}}),
                ),
            ),
            apply(
                &at_service,
                "one",
                service(
                    json!({"spec": {"ports": [{"port": 80, "name": "http"}, {"port": 53, "protocol": "UDP", "name": "dns"}], "selector": {"a": "b"}}}),
                ),
            ),
            apply(
                &at_service,
                "two",
                service(json!({"spec": {"ports": [{"port": 81, "name": "more"}], "selector": {"a": "c"}}})),
            ),
            apply(
                &at_service,
                "two&force=true",
                service(json!({"spec": {"ports": [{"port": 81, "name": "more"}], "selector": {"a": "c"}}})),
            ),
            apply(
                &at_service,
                "one",
                service(json!({"spec": {"ports": [{"port": 80, "name": "http"}], "selector": {"a": "c"}}})),
            ),
            patch(&format!("{at_service}?fieldManager=me"), "merge", &json!({"spec": {"sessionAffinity": "ClientIP"}})),
            post(
                &format!("{core}/services?fieldManager=creator"),
                &json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "b"}, "spec": {"ports": [{"port": 80}]}}),
            ),
        ]
    });
}

#[test]
fn a_cron_job_has_the_owners_of_kube_apiserver() {
    compare("embedded-jobs", |namespace| {
        let jobs = format!("/apis/batch/v1/namespaces/{namespace}/cronjobs/a");
        let cron = |spec: Value| object("batch/v1", "CronJob", json!({ "spec": spec }));
        let job = json!({"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
        vec![
            apply(&jobs, "one", cron(json!({"schedule": "* * * * *", "jobTemplate": job}))),
            apply(&jobs, "two", cron(json!({"schedule": "1 * * * *"}))),
            apply(&jobs, "two", cron(json!({"suspend": true}))),
            apply(&jobs, "two", cron(json!({}))),
        ]
    });
}

#[test]
fn an_autoscaler_has_the_owners_of_kube_apiserver_in_each_version() {
    compare("embedded-scalers", |namespace| {
        let v =
            |version: &str| format!("/apis/autoscaling/{version}/namespaces/{namespace}/horizontalpodautoscalers/a");
        let scaler = |version: &str, spec: Value| {
            let target = json!({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "maxReplicas": 5});
            let spec = json!({ "spec": with(target, spec) });
            object(&format!("autoscaling/{version}"), "HorizontalPodAutoscaler", spec)
        };
        let cpu = |percent: u8| json!({"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}}]});
        vec![
            post(
                &format!("/apis/autoscaling/v1/namespaces/{namespace}/horizontalpodautoscalers?fieldManager=creator"),
                &scaler("v1", json!({"targetCPUUtilizationPercentage": 50})),
            ),
            get(&v("v2")),
            apply(&v("v2"), "one", scaler("v2", cpu(60))),
            apply(&v("v2"), "one&force=true", scaler("v2", cpu(60))),
            apply(&v("v2"), "one", scaler("v2", json!({"minReplicas": 2}))),
            apply(&v("v1"), "two", scaler("v1", json!({"targetCPUUtilizationPercentage": 70, "minReplicas": 2}))),
            apply(&v("v1"), "one", scaler("v1", json!({}))),
            put(&format!("{}?fieldManager=putter", v("v1")), &scaler("v1", json!({"minReplicas": 3}))),
            get(&v("v2")),
        ]
    });
}

#[test]
fn ingresses_and_network_policies_have_the_owners_of_kube_apiserver() {
    compare("embedded-networking", |namespace| {
        let networking = format!("/apis/networking.k8s.io/v1/namespaces/{namespace}");
        let ingress = |hosts: &[&str]| {
            let rule = |host: &&str| json!({"host": host, "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "s", "port": {"number": 80}}}}]}});
            let rules: Vec<Value> = hosts.iter().map(rule).collect();
            object("networking.k8s.io/v1", "Ingress", json!({"spec": { "rules": rules }}))
        };
        let policy = |spec: Value| object("networking.k8s.io/v1", "NetworkPolicy", json!({ "spec": spec }));
        vec![
            apply(&format!("{networking}/ingresses/a"), "one", ingress(&["a.test", "b.test"])),
            apply(&format!("{networking}/ingresses/a"), "two", ingress(&["b.test"])),
            apply(&format!("{networking}/ingresses/a"), "two&force=true", ingress(&["b.test"])),
            apply(
                &format!("{networking}/networkpolicies/a"),
                "one",
                policy(json!({"podSelector": {"matchLabels": {"a": "b"}}, "policyTypes": ["Ingress"]})),
            ),
            apply(
                &format!("{networking}/networkpolicies/a"),
                "two",
                policy(json!({"podSelector": {"matchLabels": {"a": "c"}}})),
            ),
            apply(&format!("{networking}/networkpolicies/a"), "one", policy(json!({"podSelector": {}}))),
        ]
    });
}

#[test]
fn other_kinds_have_the_owners_of_kube_apiserver() {
    compare("embedded-kinds", |namespace| {
        let core = format!("/api/v1/namespaces/{namespace}");
        let secret = |more: Value| object("v1", "Secret", more);
        vec![
            post(&format!("{core}/secrets?fieldManager=creator"), &secret(json!({"stringData": {"a": "b"}}))),
            apply(&format!("{core}/secrets/a"), "one", secret(json!({"stringData": {"a": "b", "c": "d"}}))),
            apply(&format!("{core}/secrets/a"), "one", secret(json!({"stringData": {"c": "d"}}))),
            apply(
                &format!("/api/v1/namespaces/{namespace}"),
                "one",
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": {"a": "b"}}}),
            ),
            apply(
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/embedded-kinds",
                "one",
                json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "embedded-kinds"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
            ),
            apply(
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/embedded-kinds",
                "two",
                json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "embedded-kinds"}, "rules": []}),
            ),
            apply(
                &format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/l"),
                "one",
                json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {"holderIdentity": "h"}}),
            ),
            put(
                &format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/m?fieldManager=putter"),
                &json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "m"}, "spec": {"holderIdentity": "h"}}),
            ),
        ]
    });
}
