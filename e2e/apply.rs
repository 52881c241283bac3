//! Server-side apply where admission changes what was applied: as behind a kube-apiserver that admits, and nobody owns what
//! it added.

use crate::harness::{Api, Pair, Proxy, Request, User, Webhook, eventually, get, patch, post, upstream};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// Who owns what, without when.
fn owners(object: &Value) -> Vec<Value> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let timeless = |mut entry: Value| {
        entry.as_object_mut().unwrap().remove("time");
        entry
    };
    entries.into_iter().map(timeless).collect()
}

fn pod(name: &str, labels: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels},
           "spec": {"containers": [{"name": "a", "image": "i:1"}]}})
}

#[test]
fn what_admission_adds_is_owned_by_nobody_and_stays() {
    let plugins = "--enable-admission-plugins=AlwaysPullImages";
    // There is no controller here that makes accounts.
    let proxy = Proxy::before(upstream(), &[plugins, "--disable-admission-plugins=ServiceAccount"]);
    let namespace = proxy.namespace("apply");
    let at = |name: &str| format!("/api/v1/namespaces/{namespace}/pods/{name}?fieldManager=me&force=true");
    let applied = |through_proxy: bool, name: &str, labels: Value| {
        let request = patch(&at(name), "apply", &pod(name, labels));
        if through_proxy { proxy.accepts(request) } else { upstream().accepts(request) }
    };
    let plain = applied(false, "plain", json!({"a": "1"}));
    let admitted = applied(true, "admitted", json!({"a": "1"}));
    assert_eq!(admitted["spec"]["containers"][0]["imagePullPolicy"], "Always");
    assert_eq!(admitted["spec"]["tolerations"].as_array().map(Vec::len), Some(2));
    assert_eq!(owners(&admitted), owners(&plain));
    // Applied once more with other labels, what admission added is not taken back.
    let plain = applied(false, "plain", json!({"b": "2"}));
    let again = applied(true, "admitted", json!({"b": "2"}));
    assert_eq!(again["metadata"]["labels"], json!({"b": "2"}));
    assert_eq!(again["spec"], admitted["spec"]);
    assert_eq!(owners(&again), owners(&plain));
}

/// A hook for objects with this label that answers with this patch.
fn hook(webhook: &Webhook, label: &str, operations: &Value) -> Value {
    let path = match operations {
        Value::Null => format!("/allow/{label}"),
        operations => format!("/patch/{}", URL_SAFE_NO_PAD.encode(operations.to_string())),
    };
    json!({
        "name": format!("{label}.e2e.test"),
        "clientConfig": webhook.client_config(&path),
        "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps", "pods"]}],
        "objectSelector": {"matchLabels": {"apply": label}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    })
}

fn hooks(kind: &str, hooks: Vec<Value>) -> Request {
    let resource = format!("{}webhookconfigurations", kind.to_lowercase());
    let object = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}WebhookConfiguration"),
        "metadata": {"name": "apply"}, "webhooks": hooks});
    post(&format!("/apis/admissionregistration.k8s.io/v1/{resource}"), &object)
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn map(name: &str, label: &str, more: Value) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    if !label.is_empty() {
        object["metadata"]["labels"] = json!({"apply": label});
    }
    object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    object
}

fn apply(manager: &str, query: &str, object: &Value) -> Request {
    let at = if object["kind"] == "Pod" { PODS } else { MAPS };
    let name = object["metadata"]["name"].as_str().unwrap();
    patch(&format!("{at}/{name}?fieldManager={manager}{query}"), "apply", object)
}

#[test]
fn hooks_may_mend_what_is_invalid_and_do_what_no_configuration_says() {
    let webhook = Webhook::start();
    let pair = Pair::start(&["MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"], &[], &[]);
    let patches = [
        ("mended", json!([{"op": "replace", "path": "/data/a", "value": "1"}])),
        ("shown", Value::Null),
        ("created", json!([{"op": "remove", "path": "/data/no key"}])),
        ("taken", json!([{"op": "remove", "path": "/data/theirs"}, {"op": "add", "path": "/data/hook", "value": "x"}])),
        ("named", json!([{"op": "add", "path": "/spec/containers/0/ports/1/name", "value": "dns"}])),
        ("probe", Value::Null),
    ];
    let of = |patches: &[(&str, Value)]| patches.iter().map(|(label, patch)| hook(&webhook, label, patch)).collect();
    let none = patches.clone().map(|(label, _)| (label, Value::Null));
    pair.set_up(&[hooks("Mutating", of(&patches)), hooks("Validating", of(&none))]);
    let ready = |api: &Api| {
        let probe = post(&format!("{MAPS}?dryRun=All"), &map("probe", "probe", json!({})));
        eventually("hooks that are known", || {
            api.send(&User::admin(), probe.clone());
            (webhook.take().len() == 2).then_some(())
        });
    };
    let fixed = |data: Value| json!({"immutable": true, "data": data});
    let pod = |name: &str, image: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"apply": "named"}},
            "spec": {"containers": [{"name": "c", "image": image, "ports": [{"containerPort": 53}, {"containerPort": 53, "protocol": "UDP"}]}]}})
    };
    let mut steps = Vec::new();
    for (name, label, data) in [
        ("mended", "mended", json!({"a": "2", "b": "2"})),
        ("shown", "shown", json!({"a": "2", "b": "2"})),
        ("pruned", "shown", json!({"b": "2"})),
        ("unseen", "", json!({"a": "2"})),
    ] {
        steps.extend([
            apply("me", "", &map(name, "", fixed(json!({"a": "1", "b": "2"})))),
            apply("other", "", &map(name, "", json!({"metadata": {"name": name, "labels": {"other": "1"}}}))),
            apply("me", "", &map(name, label, fixed(data))),
            get(&format!("{MAPS}/{name}")),
        ]);
    }
    steps.extend([
        apply("me", "", &map("created", "created", json!({"data": {"no key": "1", "a": "1"}}))),
        apply("me", "", &map("not-created", "shown", json!({"data": {"no key": "1"}}))),
        post(MAPS, &map("taken", "", json!({"data": {"theirs": "1", "b": "1"}}))),
        apply("me", "&force=true", &map("taken", "taken", json!({"data": {"a": "1", "b": "2"}}))),
        get(&format!("{MAPS}/taken")),
        // What the hook took is not there any more.
        apply("me", "", &map("taken", "", json!({"data": {"a": "1"}}))),
        apply("me", "", &pod("named", "i:1")),
        apply("me", "", &pod("named", "i:2")),
        get(&format!("{PODS}/named")),
    ]);
    let steps: Vec<_> = steps.into_iter().map(|step| (User::admin(), step)).collect();
    pair.compare_asked(&webhook, ready, &steps);
}
