//! Webhooks that name a resource in another version than the request's (`matchPolicy: Equivalent`): the objects that they get, and the
//! results of their patches.

use crate::harness::{Api, Pair, Request, User, WEBHOOK_SECONDS, Webhook, delete, eventually, get, patch, post, put};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

const PLUGINS: [&str; 3] = ["NamespaceLifecycle", "MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"];
const PROBE: &str = "/api/v1/namespaces/default/configmaps?dryRun=All";

/// A webhook, identified by its path.
struct Hook {
    path: String,
    group: &'static str,
    versions: &'static [&'static str],
    resources: &'static [&'static str],
    more: Value,
}

fn hook(
    path: &str,
    group: &'static str,
    versions: &'static [&'static str],
    resources: &'static [&'static str],
    more: Value,
) -> Hook {
    Hook { path: path.to_owned(), group, versions, resources, more }
}

/// The path whose response is this patch.
fn patching(operations: Value) -> String {
    format!("/patch/{}", URL_SAFE_NO_PAD.encode(operations.to_string()))
}

/// Fields of a webhook for objects with this label.
fn labelled(label: &str) -> Value {
    json!({"objectSelector": {"matchExpressions": [{"key": label, "operator": "Exists"}]}})
}

/// The configuration of these webhooks, and of one more to wait for.
fn configuration(webhook: &Webhook, kind: &str, hooks: &[Hook]) -> Request {
    // Other tests have configmaps too.
    let ours = json!({"objectSelector": {"matchLabels": {"probe": "versions"}}});
    let probe = hook(&format!("/allow/{kind}"), "", &["v1"], &["configmaps"], ours);
    let entry = |(index, hook): (usize, &Hook)| {
        let mut entry = json!({
            "name": format!("hook-{index}.e2e.test"),
            "clientConfig": webhook.client_config(&hook.path),
            "rules": [{"operations": ["*"], "apiGroups": [hook.group], "apiVersions": hook.versions, "resources": hook.resources}],
            "sideEffects": "None",
            "timeoutSeconds": WEBHOOK_SECONDS,
            "admissionReviewVersions": ["v1"],
        });
        entry.as_object_mut().unwrap().extend(hook.more.as_object().unwrap().clone());
        entry
    };
    let entries: Vec<Value> = hooks.iter().chain([&probe]).enumerate().map(entry).collect();
    let resource = format!("{}webhookconfigurations", kind.to_lowercase());
    let object = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}WebhookConfiguration"),
        "metadata": {"name": "versions"}, "webhooks": entries});
    post(&format!("/apis/admissionregistration.k8s.io/v1/{resource}"), &object)
}

/// Waits until both configurations are in effect.
fn known(api: &Api, webhook: &Webhook) {
    let probe = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "probe", "labels": {"probe": "versions"}}});
    eventually("webhooks that are known", || {
        api.send(&User::admin(), post(PROBE, &probe));
        let asked = webhook.take();
        let is_asked = |kind: &str| asked.iter().any(|review| review.path.starts_with(&format!("/allow/{kind}")));
        (is_asked("Mutating") && is_asked("Validating")).then_some(())
    });
}

fn as_admin(steps: Vec<Request>) -> Vec<(User, Request)> {
    steps.into_iter().map(|step| (User::admin(), step)).collect()
}

fn autoscaler(version: &str, name: &str, labels: Value, spec: Value) -> Value {
    let mut object = json!({"apiVersion": format!("autoscaling/{version}"), "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "labels": labels},
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}});
    object["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    object
}

fn metrics() -> Value {
    let average = |value: &str| json!({"type": "AverageValue", "averageValue": value});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
    json!([
        {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}},
        {"type": "Resource", "resource": {"name": "memory", "target": average("500Mi")}},
        {"type": "Pods", "pods": {"metric": {"name": "packets"}, "target": average("1.5k")}},
        {"type": "Object", "object": {"describedObject": deployment,
            "metric": {"name": "hits", "selector": {"matchLabels": {"a": "b"}}}, "target": {"type": "Value", "value": "2k"}}},
        {"type": "External", "external": {"metric": {"name": "queue"}, "target": average("30")}},
        {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c",
            "target": {"type": "Utilization", "averageUtilization": 70}}}
    ])
}

fn autoscalers() -> Vec<Request> {
    const V1: &str = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
    const V2: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let behavior = json!({"scaleDown": {"stabilizationWindowSeconds": 60,
        "policies": [{"type": "Percent", "value": 10, "periodSeconds": 15}]}});
    let all =
        autoscaler("v2", "all", json!({"cpu": "1", "max": "1"}), json!({"metrics": metrics(), "behavior": behavior}));
    let status = json!({"currentReplicas": 2, "desiredReplicas": 3, "conditions": [{"type": "AbleToScale", "status": "True"}],
        "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 5, "averageValue": "50m"}}}]});
    // A conflict comes after the mutating webhooks and before the validating ones.
    let mut stale = autoscaler("v2", "all", json!({"max": "1"}), json!({}));
    stale["metadata"]["resourceVersion"] = json!("1");
    vec![
        post(V1, &autoscaler("v1", "one", json!({"cpu": "1"}), json!({"targetCPUUtilizationPercentage": 50}))),
        post(V1, &autoscaler("v1", "max", json!({"max": "1"}), json!({}))),
        post(&format!("{V2}?dryRun=All"), &all),
        post(V2, &all),
        post(V2, &autoscaler("v2", "bare", json!({}), json!({}))),
        patch(&format!("{V1}/all"), "merge", &json!({"spec": {"minReplicas": 2}})),
        patch(&format!("{V2}/one"), "strategic", &json!({"spec": {"minReplicas": 2}})),
        patch(&format!("{V2}/all/status"), "merge", &json!({"status": status})),
        patch(&format!("{V1}/all/status"), "merge", &json!({"status": {"desiredReplicas": 4}})),
        put(&format!("{V2}/all"), &stale),
        get(&format!("{V2}/all")),
        delete(&format!("{V1}/all")),
        delete(V2),
    ]
}

fn events() -> Vec<Request> {
    const CORE: &str = "/api/v1/namespaces/default/events";
    const NEW: &str = "/apis/events.k8s.io/v1/namespaces/default/events";
    let pod = json!({"kind": "Pod", "name": "p", "namespace": "default"});
    vec![
        post(
            CORE,
            &json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e1"}, "involvedObject": pod, "reason": "Started",
            "message": "hello", "source": {"component": "kubelet", "host": "n1"}, "type": "Normal", "count": 2,
            "firstTimestamp": "2001-01-01T00:00:00Z", "lastTimestamp": "2001-01-01T00:00:05Z"}),
        ),
        post(
            NEW,
            &json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e2"}, "regarding": pod,
            "reason": "Started", "note": "hello", "action": "Run", "reportingController": "e2e.test/c",
            "reportingInstance": "c-1", "type": "Warning", "eventTime": "2001-01-01T00:00:00.000000Z"}),
        ),
        patch(&format!("{NEW}/e1"), "merge", &json!({"note": "other"})),
        patch(&format!("{CORE}/e1"), "merge", &json!({"count": 7})),
        patch(
            &format!("{NEW}/e2"),
            "merge",
            &json!({"series": {"count": 2, "lastObservedTime": "2001-01-01T00:00:09.000000Z"}}),
        ),
        delete(&format!("{CORE}/e2")),
    ]
}

fn devices() -> Vec<Request> {
    let at = |version: &str, resource: &str| {
        let namespace = if resource == "resourceclaims" { "namespaces/default/" } else { "" };
        format!("/apis/resource.k8s.io/{version}/{namespace}{resource}")
    };
    let claim = |version: &str, name: &str, requests: Value| {
        json!({"apiVersion": format!("resource.k8s.io/{version}"), "kind": "ResourceClaim", "metadata": {"name": name},
            "spec": {"devices": {"requests": requests}}})
    };
    let slice = |version: &str, name: &str, device: Value, spec: Value| {
        let mut slice = json!({"apiVersion": format!("resource.k8s.io/{version}"), "kind": "ResourceSlice",
            "metadata": {"name": name}, "spec": {"driver": "d.e2e.test", "nodeName": "n", "devices": [device],
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1}}});
        slice["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        slice
    };
    let tolerations = json!([{"key": "a", "operator": "Exists"}]);
    let exactly = json!({"deviceClassName": "c", "tolerations": tolerations});
    let attributes = json!({"model": {"string": "x"}});
    vec![
        post(&at("v1", "resourceclaims"), &claim("v1", "one", json!([{"name": "r", "exactly": exactly}]))),
        post(
            &at("v1beta1", "resourceclaims"),
            &claim("v1beta1", "flat", json!([{"name": "r", "deviceClassName": "c", "count": 2}])),
        ),
        post(
            &at("v1beta1", "resourceclaims"),
            &claim(
                "v1beta1",
                "first",
                json!([{"name": "r", "firstAvailable": [{"name": "s", "deviceClassName": "c"}]}]),
            ),
        ),
        post(
            &at("v1beta2", "resourceclaims"),
            &claim(
                "v1beta2",
                "two",
                json!([{"name": "r", "exactly": {"deviceClassName": "c", "allocationMode": "All"}}]),
            ),
        ),
        post(
            &at("v1", "resourceslices"),
            &slice(
                "v1",
                "s1",
                json!({"name": "d", "attributes": attributes, "capacity": {"m": {"value": "1Gi"}}}),
                json!({}),
            ),
        ),
        post(
            &at("v1beta1", "resourceslices"),
            &slice("v1beta1", "s2", json!({"name": "d", "basic": {"attributes": attributes}}), json!({})),
        ),
        patch(
            &format!("{}/one", at("v1beta1", "resourceclaims")),
            "merge",
            &json!({"metadata": {"labels": {"x": "y"}}}),
        ),
        get(&format!("{}/one", at("v1", "resourceclaims"))),
        delete(&format!("{}/flat", at("v1", "resourceclaims"))),
    ]
}

/// Kinds whose versions have equal fields.
fn alike() -> Vec<Request> {
    let class = |version: &str, name: &str| {
        json!({"apiVersion": format!("storage.k8s.io/{version}"), "kind": "VolumeAttributesClass", "metadata": {"name": name},
            "driverName": "d.e2e.test", "parameters": {"a": "b"}})
    };
    let address = |version: &str, name: &str| {
        json!({"apiVersion": format!("networking.k8s.io/{version}"), "kind": "IPAddress", "metadata": {"name": name},
            "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "s"}}})
    };
    let policy = |version: &str, name: &str| {
        json!({"apiVersion": format!("admissionregistration.k8s.io/{version}"), "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": name}, "spec": {"reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [{"apiGroups": ["none.test"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["x"]}]},
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}]}})
    };
    vec![
        post("/apis/storage.k8s.io/v1/volumeattributesclasses", &class("v1", "a")),
        post("/apis/storage.k8s.io/v1beta1/volumeattributesclasses", &class("v1beta1", "b")),
        post("/apis/networking.k8s.io/v1/ipaddresses", &address("v1", "10.9.9.1")),
        post("/apis/networking.k8s.io/v1beta1/ipaddresses", &address("v1beta1", "10.9.9.2")),
        post("/apis/admissionregistration.k8s.io/v1beta1/mutatingadmissionpolicies", &policy("v1beta1", "p")),
    ]
}

#[test]
fn built_in_kinds_are_shown_in_the_version_that_a_hook_names() {
    const HPA: &[&str] = &["horizontalpodautoscalers", "horizontalpodautoscalers/status"];
    const DRA: &[&str] = &["resourceclaims", "resourceslices"];
    let plain = || json!({});
    let exact = || json!({"matchPolicy": "Exact"});
    let cpu = patching(json!([{"op": "add", "path": "/spec/targetCPUUtilizationPercentage", "value": 33}]));
    let max = patching(json!([{"op": "replace", "path": "/spec/maxReplicas", "value": 9}]));
    let admin = patching(json!([{"op": "add", "path": "/metadata/annotations", "value": {"flat": "yes"}}]));
    let mutating = [
        hook(&cpu, "autoscaling", &["v1"], HPA, labelled("cpu")),
        hook("/label/v2/seen", "autoscaling", &["v2"], HPA, plain()),
        hook(&max, "autoscaling", &["v2"], HPA, labelled("max")),
        hook("/label/exact-v1/seen", "autoscaling", &["v1"], HPA, exact()),
        hook("/label/exact-v2/seen", "autoscaling", &["v2"], HPA, exact()),
        hook("/label/both/seen", "autoscaling", &["v2", "v1"], HPA, json!({"reinvocationPolicy": "IfNeeded"})),
        hook("/label/core/seen", "", &["v1"], &["events"], plain()),
        hook("/label/new/seen", "events.k8s.io", &["v1"], &["events"], plain()),
        hook(&admin, "resource.k8s.io", &["v1beta1"], DRA, plain()),
        hook("/label/dra/v1", "resource.k8s.io", &["v1"], DRA, plain()),
        hook("/label/class/beta", "storage.k8s.io", &["v1beta1"], &["*"], plain()),
        hook("/label/policy/v1", "admissionregistration.k8s.io", &["v1"], &["*"], plain()),
    ];
    let validating = [
        hook("/warn", "autoscaling", &["v1"], HPA, plain()),
        hook("/allow/hpa/2", "autoscaling", &["v2"], HPA, plain()),
        hook("/allow/core", "", &["*"], &["*"], plain()),
        hook("/allow/new", "events.k8s.io", &["*"], &["*"], plain()),
        hook("/allow/exact", "events.k8s.io", &["*"], &["*"], exact()),
        hook("/allow/beta2", "resource.k8s.io", &["v1beta2"], DRA, plain()),
        hook("/allow/beta1", "resource.k8s.io", &["v1beta1"], DRA, plain()),
        hook("/allow/address", "networking.k8s.io", &["v1beta1"], &["ipaddresses"], plain()),
    ];
    let webhook = Webhook::start();
    let served = ["--runtime-config=api/all=true".to_owned()];
    let pair = Pair::alone(&PLUGINS, &[], &[], &served);
    pair.set_up(&[configuration(&webhook, "Mutating", &mutating), configuration(&webhook, "Validating", &validating)]);
    let steps = as_admin([autoscalers(), events(), devices(), alike()].concat());
    pair.compare_asked(&webhook, |api| known(api, &webhook), &steps);
}

/// A definition with three versions, each with its own schema, of which the last is not served.
fn definition(plural: &str, kind: &str, conversion: Value) -> Request {
    let text = json!({"type": "string"});
    let version = |name: &str, default: &str, is_served: bool| {
        let spec = json!({"type": "object", "properties": {"replicas": {"type": "integer"}, "size": {
            "x-kubernetes-preserve-unknown-fields": true}, default: {"type": "string", "default": format!("of-{name}")}}});
        let status = json!({"type": "object", "properties": {"replicas": {"type": "integer"}, "phase": text}});
        let mut subresources = json!({"status": {}});
        if name != "v1alpha1" {
            subresources["scale"] =
                json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
        }
        json!({"name": name, "served": is_served, "storage": name == "v1", "subresources": subresources,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}}})
    };
    let object = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.versions.e2e.test")},
        "spec": {"group": "versions.e2e.test", "scope": "Namespaced", "conversion": conversion,
            "names": {"plural": plural, "kind": kind},
            "versions": [version("v1", "one", true), version("v2", "two", true), version("v1alpha1", "none", false)]}});
    post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &object)
}

fn custom(plural: &str, kind: &str) -> Vec<Request> {
    let at = |version: &str| format!("/apis/versions.e2e.test/{version}/namespaces/default/{plural}");
    let object = |version: &str, name: &str, spec: Value| json!({"apiVersion": format!("versions.e2e.test/{version}"), "kind": kind, "metadata": {"name": name}, "spec": spec});
    let size = |version: &str| if version == "v1" { json!("big") } else { json!(["big"]) };
    let mut steps = vec![
        post(&at("v1"), &object("v1", "a", json!({"replicas": 1, "size": size("v1")}))),
        post(&at("v2"), &object("v2", "b", json!({"replicas": 1, "size": size("v2"), "unknown": 2}))),
        post(&format!("{}?dryRun=All", at("v2")), &object("v2", "dry", json!({}))),
        patch(&format!("{}/a", at("v2")), "merge", &json!({"spec": {"two": "other"}})),
        get(&format!("{}/a", at("v1"))),
        put(&format!("{}/b", at("v1")), &object("v1", "b", json!({"size": "small"}))),
        patch(&format!("{}/a/status", at("v2")), "merge", &json!({"status": {"replicas": 4}, "spec": {"size": "x"}})),
        patch(&format!("{}/a/scale", at("v2")), "merge", &json!({"spec": {"replicas": 3}})),
        patch(&format!("{}/a/scale", at("v1")), "merge", &json!({"spec": {"replicas": 2}})),
        delete(&format!("{}/b", at("v2"))),
    ];
    if plural == "hooked" {
        for name in ["bad-status", "bad-name", "bad-version", "bad-labels"] {
            steps.push(post(&at("v1"), &object("v1", name, json!({"size": size("v1")}))));
        }
    }
    steps
}

#[test]
fn custom_resources_are_shown_in_the_version_that_a_hook_names() {
    const GROUP: &str = "versions.e2e.test";
    let two = patching(json!([{"op": "add", "path": "/spec/note", "value": "v2"}]));
    let mut mutating = Vec::new();
    let mut validating = Vec::new();
    for (of, all) in
        [("plain", &["plain", "plain/status", "plain/scale"]), ("hooked", &["hooked", "hooked/status", "hooked/scale"])]
    {
        mutating.extend([
            hook(&format!("/label/{of}-v2/1"), GROUP, &["v2"], all, json!({})),
            hook(&format!("/label/{of}-v2-again/2"), GROUP, &["v2"], all, json!({})),
            hook(&format!("/label/{of}-v1/3"), GROUP, &["v1"], all, json!({})),
            hook(&two, GROUP, &["v2"], &all[..1], json!({})),
            hook(&format!("/label/{of}-alpha/4"), GROUP, &["v1alpha1"], all, json!({})),
            hook(&format!("/label/{of}-exact/5"), GROUP, &["v2"], all, json!({"matchPolicy": "Exact"})),
        ]);
        validating.extend([
            hook(&format!("/allow/{of}/1"), GROUP, &["v1"], all, json!({})),
            hook(&format!("/allow/{of}/2"), GROUP, &["v2"], all, json!({})),
            hook(&format!("/allow/{of}/exact"), GROUP, &["v1"], all, json!({"matchPolicy": "Exact"})),
        ]);
    }
    let webhook = Webhook::start();
    let pair = Pair::start(&PLUGINS, &[], &[]);
    let asked = json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"], "clientConfig": webhook.client_config("/convert/size")}});
    pair.set_up(&[
        definition("plain", "Plain", json!({"strategy": "None"})),
        definition("hooked", "Hooked", asked),
        configuration(&webhook, "Mutating", &mutating),
        configuration(&webhook, "Validating", &validating),
    ]);
    for plural in ["plain", "hooked"] {
        let path = format!("/apis/versions.e2e.test/v2/namespaces/default/{plural}");
        pair.until(&User::admin(), &get(&path), "\"items\"");
    }
    let steps = as_admin([custom("plain", "Plain"), custom("hooked", "Hooked")].concat());
    pair.compare_asked(&webhook, |api| known(api, &webhook), &steps);
}
