//! Plugins for missing, provisioned and terminating namespaces, compared with kube-apiserver's own.

use super::pods::{as_developer, pod, pods};
use crate::harness::differential::{Case, compare, compare_when};
use crate::harness::{
    Api, Pair, Request, Side, User, WEBHOOK_SECONDS, Webhook, delete, eventually, get, patch, post, put, unique,
};
use serde_json::{Value, json};

const NAMESPACES: &str = "/api/v1/namespaces";

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

fn maps(namespace: &str) -> String {
    format!("{NAMESPACES}/{namespace}/configmaps")
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}})
}

fn class(name: &str) -> Value {
    json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": 1})
}

#[test]
fn a_terminating_namespace_gets_no_new_objects() {
    let (here, other, nowhere) = (unique("going"), unique("staying"), unique("nowhere"));
    let (maps_here, one) = (maps(&here), format!("{}/one", maps(&here)));
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "LocalSubjectAccessReview", "metadata": {"namespace": here},
        "spec": {"user": "bob", "resourceAttributes": {"namespace": here, "verb": "get", "resource": "pods"}}});
    let token = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    let accounts = format!("{NAMESPACES}/{here}/serviceaccounts");
    let gone = format!("{NAMESPACES}/{here}");
    let setup = vec![
        post(NAMESPACES, &namespace(&here)),
        post(NAMESPACES, &namespace(&other)),
        post(&maps_here, &config_map("one")),
        post(&accounts, &account),
        post(&pods(&here), &pod("p", json!({}))),
        delete(&gone),
    ];
    let mut steps = as_developer(vec![
        post(&maps_here, &config_map("two")),
        post(&format!("{maps_here}?dryRun=All"), &config_map("two")),
        post(&maps_here, &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "some-"}})),
        post(&maps_here, &config_map("one")),
        put(&one, &config_map("one")),
        patch(&one, "merge", &json!({"data": {"k": "w"}})),
        patch(&format!("{one}?fieldManager=me"), "apply", &config_map("one")),
        patch(&format!("{maps_here}/new?fieldManager=me"), "apply", &config_map("new")),
        post(&format!("{}/p/binding", pods(&here)), &binding),
        post(&format!("/apis/authorization.k8s.io/v1/namespaces/{here}/localsubjectaccessreviews"), &review),
        patch(&gone, "merge", &json!({"metadata": {"labels": {"a": "b"}}})),
        post(NAMESPACES, &namespace(&here)),
        post(&maps(&other), &config_map("one")),
        delete(&one),
        delete(&one),
        delete(&gone),
        post(&maps(&nowhere), &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "some-"}})),
        delete(&format!("{NAMESPACES}/kube-public")),
        delete(&format!("{NAMESPACES}/kube-system?dryRun=All")),
        delete(&format!("{NAMESPACES}/kube-node-lease")),
        delete(&format!("{NAMESPACES}/{nowhere}")),
    ]);
    // Even a user with all permissions may not do this.
    steps.push((User::admin(), post(&format!("{accounts}/robot/token"), &token)));
    steps.push((User::admin(), post(&maps_here, &config_map("two"))));
    let known = (User::admin(), post(&format!("{maps_here}?dryRun=All"), &config_map("probe")), 403);
    // A kube-apiserver creates its own namespaces some time after it starts to serve.
    let made = (User::admin(), get(&format!("{NAMESPACES}/kube-node-lease")), 200);
    compare_when(&[known, made], &Case { plugins: &["NamespaceLifecycle"], setup, webhook: None, steps });
}

fn same(plugin: &str, setup: Vec<Request>, steps: Vec<Request>) {
    compare(&Case { plugins: &[plugin], setup, webhook: None, steps: as_developer(steps) });
}

#[test]
fn writes_need_a_namespace_that_exists() {
    let (here, nowhere) = (unique("exists"), unique("nowhere"));
    let one = format!("{}/one", maps(&here));
    let steps = vec![
        post(&maps(&here), &config_map("one")),
        put(&one, &config_map("one")),
        patch(&one, "merge", &json!({"data": {"k": "w"}})),
        post(&maps(&nowhere), &config_map("one")),
        post(&format!("{}?dryRun=All", maps(&nowhere)), &config_map("one")),
        patch(&format!("{}/one?fieldManager=me", maps(&nowhere)), "apply", &config_map("one")),
        put(&format!("{}/one", maps(&nowhere)), &config_map("one")),
        delete(&format!("{}/one", maps(&nowhere))),
        post("/apis/scheduling.k8s.io/v1/priorityclasses?dryRun=All", &class("none")),
        post(NAMESPACES, &namespace(&unique("exists"))),
        delete(&one),
        delete(&format!("{NAMESPACES}/{nowhere}")),
    ];
    same("NamespaceExists", vec![post(NAMESPACES, &namespace(&here))], steps);
}

#[test]
fn namespaces_come_on_their_own() {
    // The front end does not run NamespaceAutoProvision.
    if Side::is_front_end() {
        return;
    }
    let fresh = unique("provisioned");
    let of = |which: &str| format!("{fresh}-{which}");
    let there = |which: &str| get(&format!("{NAMESPACES}/{}", of(which)));
    let steps = vec![
        post(&format!("{}?dryRun=All", maps(&of("dry"))), &config_map("one")),
        there("dry"),
        post(&maps(&fresh), &config_map("one")),
        get(&format!("{NAMESPACES}/{fresh}")),
        post(&maps(&fresh), &config_map("two")),
        // A request that is rejected later still creates its namespace.
        post(&maps(&of("invalid")), &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "A b"}})),
        there("invalid"),
        patch(&format!("{}/one?fieldManager=me", maps(&of("applied"))), "apply", &config_map("one")),
        there("applied"),
        patch(&format!("{}/one", maps(&of("patched"))), "merge", &json!({"data": {"k": "w"}})),
        there("patched"),
        delete(&format!("{}/one", maps(&of("deleted")))),
        there("deleted"),
        post(&maps("Not_A_Name"), &config_map("one")),
        post("/apis/scheduling.k8s.io/v1/priorityclasses?dryRun=All", &class("none")),
        post(NAMESPACES, &namespace(&of("own"))),
    ];
    same("NamespaceAutoProvision", Vec::new(), steps);
}

/// The proxy admits an object that a plugin creates like the object of a request.
#[test]
fn namespaces_that_come_on_their_own_are_admitted() {
    // The front end does not run NamespaceAutoProvision.
    if Side::is_front_end() {
        return;
    }
    let plugins = ["NamespaceAutoProvision", "MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"];
    let (webhook, pair) = (Webhook::start(), Pair::alone(&plugins, &[], &[], &[]));
    let prefix = unique("admitted");
    for kind in ["Mutating", "Validating"] {
        let hook = |name: &str, path: &str, expression: String| {
            json!({"name": format!("{name}.e2e.test"), "clientConfig": webhook.client_config(path),
                "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["namespaces"]}],
                "matchConditions": [{"name": "own", "expression": expression}],
                "sideEffects": "None", "timeoutSeconds": WEBHOOK_SECONDS, "admissionReviewVersions": ["v1"]})
        };
        let good = hook("good", &format!("/allow/{kind}"), format!("object.metadata.name.startsWith('{prefix}-')"));
        let bad = hook("bad", "/deny", format!("object.metadata.name == '{prefix}-{kind}'"));
        let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1",
            "kind": format!("{kind}WebhookConfiguration"), "metadata": {"name": prefix.clone()}, "webhooks": [good, bad]});
        let path = format!("/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations", kind.to_lowercase());
        pair.set_up(&[post(&path, &configuration)]);
    }
    let ready = |api: &Api| {
        eventually("webhooks that are known", || {
            let probe = post(&format!("{NAMESPACES}?dryRun=All"), &namespace(&format!("{prefix}-probe")));
            api.send(&User::admin(), probe);
            (webhook.take().len() == 2).then_some(())
        });
    };
    let names = ["one", "Mutating", "Validating"].map(|name| format!("{prefix}-{name}"));
    let steps = names.iter().flat_map(|name| {
        [
            post(&maps(name), &config_map("one")),
            get(&format!("{NAMESPACES}/{name}")),
            get(&format!("{}/one", maps(name))),
        ]
    });
    let steps: Vec<_> = steps.map(|step| (User::developer(), step)).collect();
    pair.compare_asked(&webhook, ready, &steps);
}
