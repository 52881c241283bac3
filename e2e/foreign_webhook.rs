//! The webhook server with which Kubernetes tests its own admission (`agnhost webhook`), behind kube-apiserver and behind the
//! proxy.

use crate::harness::{
    Pair, Program, Proxy, User, WEBHOOK_SECONDS, admitting, delete, eventually, free_port, patch, pki, post, put,
    unique, upstream,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

const PLUGINS: [&str; 2] = ["MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"];

/// A configuration of this kind with one webhook for each path, for one namespace; `fields` are in every webhook.
fn configuration(kind: &str, namespace: &str, port: u16, paths: &[(&str, &str)], fields: &Value) -> Value {
    let authorities = STANDARD.encode(std::fs::read(pki().ca()).unwrap());
    let hooks = paths.iter().enumerate().map(|(index, (path, resource))| {
        let mut hook = json!({"name": format!("hook-{index}.agnhost.test"), "sideEffects": "None", "timeoutSeconds": WEBHOOK_SECONDS,
            "clientConfig": {"url": format!("https://127.0.0.1:{port}{path}"), "caBundle": authorities},
            "rules": [{"operations": ["CREATE", "UPDATE", "DELETE"], "apiGroups": [""], "apiVersions": ["v1"],
                       "resources": [resource]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "admissionReviewVersions": ["v1"]});
        for (field, value) in fields.as_object().unwrap() {
            hook[field] = value.clone();
        }
        hook
    });
    let hooks: Vec<Value> = hooks.collect();
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}WebhookConfiguration"),
           "metadata": {"name": format!("{}-{namespace}", kind.to_lowercase())}, "webhooks": hooks})
}

#[test]
fn a_foreign_webhook_server_decides_as_behind_kube_apiserver() {
    let port = free_port();
    let certificate = &pki().server;
    let _server = Program::start(
        "webhook",
        &[
            format!("--tls-cert-file={}", certificate.certificate.display()),
            format!("--tls-private-key-file={}", certificate.key.display()),
            format!("--port={port}"),
            "--sidecar-image=sidecar".to_owned(),
        ],
    );
    let pair = Pair::start(&PLUGINS, &[], &[]);
    let (one, old) = (unique("agnhost"), unique("agnhost-v1beta1"));
    let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let group = "/apis/admissionregistration.k8s.io/v1";
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    let v1beta1 = json!({"admissionReviewVersions": ["v1beta1"]});
    let mutating = [
        ("/mutating-configmaps", "configmaps"),
        ("/add-label", "configmaps"),
        ("/mutating-pods", "pods"),
        ("/mutating-pods-sidecar", "pods"),
    ];
    let validating = [("/configmaps", "configmaps"), ("/pods", "pods"), ("/always-deny", "secrets")];
    pair.set_up(&[
        post("/api/v1/namespaces", &namespace(&one)),
        post("/api/v1/namespaces", &namespace(&old)),
        post(
            &format!("{group}/mutatingwebhookconfigurations"),
            &configuration("Mutating", &one, port, &mutating, &again),
        ),
        post(
            &format!("{group}/mutatingwebhookconfigurations"),
            &configuration("Mutating", &old, port, &mutating[..2], &v1beta1),
        ),
        post(
            &format!("{group}/validatingwebhookconfigurations"),
            &configuration("Validating", &one, port, &validating, &json!({})),
        ),
        post(
            &format!("{group}/validatingwebhookconfigurations"),
            &configuration("Validating", &old, port, &validating[..1], &v1beta1),
        ),
    ]);
    let map = |name: &str, data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"a": "b"}}, "data": data});
    let pod = |name: &str, label: &str, container: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"webhook-e2e-test": label}},
               "spec": {"containers": [{"name": container, "image": "i"}]}})
    };
    for namespace in [&one, &old] {
        let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
        let probe = post(&format!("{maps}?dryRun=All"), &map("probe", json!({"webhook-e2e-test": "webhook-disallow"})));
        pair.until(&User::admin(), &probe, "unwanted key and value");
        let probe = post(&format!("{maps}?dryRun=All"), &map("probe", json!({})));
        pair.until(&User::admin(), &probe, "added-label");
    }
    let maps = |namespace: &str| format!("/api/v1/namespaces/{namespace}/configmaps");
    let pods = format!("/api/v1/namespaces/{one}/pods");
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
    let steps = |namespace: &str| {
        let maps = maps(namespace);
        let path = |name: &str| format!("{maps}/{name}");
        vec![
            post(&maps, &map("plain", json!({"x": "y"}))),
            post(&maps, &map("staged", json!({"mutation-start": "yes"}))),
            post(&maps, &map("disallowed", json!({"webhook-e2e-test": "webhook-disallow"}))),
            put(&path("plain"), &map("plain", json!({"webhook-e2e-test": "webhook-disallow"}))),
            patch(&path("plain"), "merge", &json!({"data": {"webhook-e2e-test": "webhook-disallow"}})),
            patch(&path("plain"), "merge", &json!({"data": {"webhook-e2e-test": "webhook-nondeletable"}})),
            delete(&path("plain")),
            patch(&path("plain"), "merge", &json!({"data": null})),
            delete(&path("plain")),
        ]
    };
    let mut all = [steps(&one), steps(&old)].concat();
    all.extend([
        post(&pods, &pod("webhook-to-be-mutated", "fine", "c")),
        post(&pods, &pod("denied", "webhook-disallow", "webhook-disallow")),
        post(&pods, &pod("other", "fine", "webhook-added-sidecar")),
        post(&format!("/api/v1/namespaces/{one}/secrets"), &secret),
    ]);
    pair.compare(all.into_iter().map(|request| (User::developer(), request)).collect());
}

#[test]
fn webhooks_that_the_api_server_behind_calls_as_well_are_warned_of() {
    let twice = "webhooks are called twice, here and in the upstream API server: start one of the two with \
                 --disable-admission-plugins=MutatingAdmissionWebhook,ValidatingAdmissionWebhook";
    let says = |proxy: &Proxy, text: &str| {
        eventually(text, || {
            let (code, verbose) = proxy.health("/readyz?verbose")?;
            (code == 200 && verbose.contains(text)).then_some(())
        });
    };
    let warning = format!("[+]webhooks-called-once ok: warning: {twice}");
    // A write comes first, so that there are calls to count.
    admitting().namespace("counted");
    let doubled = Proxy::before(admitting(), &[]);
    says(&doubled, &warning);
    assert!(doubled.output().contains(twice), "{}", doubled.output());
    says(&Proxy::before(admitting(), &["--upstream-calls-webhooks=no"]), "[+]webhooks-called-once ok\n");
    says(&Proxy::before(upstream(), &[]), "[+]webhooks-called-once ok\n");
    says(&Proxy::before(upstream(), &["--upstream-calls-webhooks=yes"]), &warning);
}
