//! Objects with values that kube-apiserver stores but that the proxy's types cannot hold: they do not stop a cache.

use crate::harness::{Api, ControlPlane, Proxy, Relay, Request, User, eventually, get, only, patch, post};
use serde_json::{Value, json};

const LATE: &str = "9999-12-31T23:59:59Z";
const REGISTRATIONS: &str = "/apis/admissionregistration.k8s.io/v1";

fn sends(api: &Api, request: Request) {
    let answer = api.send(&User::admin(), request);
    assert!(answer.status < 300, "{}", answer.text());
}

fn object(kind: &str, name: &str, more: Value) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
    object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    object
}

/// Adds an entry to managedFields whose time is later than any time type can hold.
fn poison(api: &Api, path: &str, label: &str) {
    let late = json!([
        {"op": "add", "path": "/metadata/managedFields/0/time", "value": LATE},
        {"op": "add", "path": "/metadata/labels", "value": {"a": label}},
    ]);
    sends(api, patch(&format!("{path}?fieldManager={label}"), "json", &late));
    let stored = api.send(&User::admin(), get(path)).text();
    assert!(stored.contains(LATE), "{stored}");
}

#[test]
fn no_object_stops_a_cache_and_policies_stay_enforced() {
    let plane = ControlPlane::start("caches", &only(&[]));
    let relay = Relay::to(plane.port);
    let kubeconfig = Api { port: relay.port }.kubeconfig(&User::named("admission-proxy", "system:masters"));
    for namespace in ["tenant", "policies"] {
        sends(&plane, post("/api/v1/namespaces", &object("Namespace", namespace, json!({}))));
    }
    let tenant = "/api/v1/namespaces/tenant";
    let parameters = "/api/v1/namespaces/policies/configmaps";
    sends(&plane, post(parameters, &object("ConfigMap", "parameters", json!({"data": {"forbidden": "evil"}}))));
    let paths = [
        (format!("{tenant}/configmaps"), "ConfigMap", json!({"data": {"k": "v"}})),
        (format!("{tenant}/services"), "Service", json!({"spec": {"ports": [{"port": 80}]}})),
        (format!("{tenant}/serviceaccounts"), "ServiceAccount", json!({})),
        (parameters.to_owned(), "ConfigMap", json!({})),
    ];
    for (path, kind, more) in &paths {
        let mut pill = object(kind, "pill", more.clone());
        // An object without any field has no managed fields.
        pill["metadata"]["labels"] = json!({"a": "zeroth"});
        sends(&plane, post(path, &pill));
        poison(&plane, &format!("{path}/pill"), "first");
    }
    poison(&plane, "/api/v1/namespaces/tenant", "first");
    let policy = |name: &str, namespace: Option<&str>, failure_policy: &str| {
        let (version, metadata) = ("admissionregistration.k8s.io/v1", json!({"name": name}));
        let rules =
            json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]}]);
        let spec = json!({"failurePolicy": failure_policy, "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "matchConstraints": {"resourceRules": rules},
            "validations": [{"expression": "object.metadata.name != params.data.forbidden"}]});
        let kind = "ValidatingAdmissionPolicy";
        let policy = json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec});
        sends(&plane, post(&format!("{REGISTRATIONS}/validatingadmissionpolicies"), &policy));
        let mut reference = json!({"name": "parameters", "parameterNotFoundAction": "Allow"});
        if let Some(namespace) = namespace {
            reference["namespace"] = namespace.into();
        }
        let spec = json!({"policyName": name, "validationActions": ["Deny"], "paramRef": reference});
        let binding =
            json!({"apiVersion": version, "kind": format!("{kind}Binding"), "metadata": metadata, "spec": spec});
        sends(&plane, post(&format!("{REGISTRATIONS}/validatingadmissionpolicybindings"), &binding));
    };
    policy("lenient", Some("policies"), "Ignore");
    // This policy makes the proxy watch the ConfigMaps of all namespaces.
    policy("anywhere", None, "Ignore");

    let start = || Proxy::before_kubeconfig(&kubeconfig, &["--authorization-mode=AlwaysAllow", "--v=6"]);
    let create = |proxy: &Proxy, name: &str| {
        let secret = post(&format!("{tenant}/secrets?dryRun=All"), &object("Secret", name, json!({})));
        proxy.try_send(&User::admin(), secret).map_or(0, |answer| answer.status)
    };
    let forbid = |name: &str| {
        let data = json!({"data": {"forbidden": name}});
        sends(&plane, patch(&format!("{parameters}/parameters"), "merge", &data));
    };
    let refuses = |proxy: &Proxy, name: &str| eventually(name, || (create(proxy, name) == 422).then_some(()));
    // Objects that exist when the proxy starts.
    let proxy = start();
    refuses(&proxy, "evil");
    assert_eq!(create(&proxy, "good"), 201);
    // Objects that are created while the proxy watches.
    for (path, ..) in &paths {
        poison(&plane, &format!("{path}/pill"), "second");
    }
    forbid("worse");
    refuses(&proxy, "worse");
    assert_eq!(create(&proxy, "evil"), 201);
    // Objects that are created while the API server is down, and while the proxy is down.
    relay.turn_to(0);
    forbid("worst");
    relay.turn_to(plane.port);
    refuses(&proxy, "worst");
    // The answer is that of the last probe of the API server.
    eventually("a proxy that is ready again", || proxy.health("/readyz").filter(|(code, _)| *code == 200));
    drop(proxy);
    let proxy = start();
    refuses(&proxy, "worst");
    let (_, metrics) = proxy.health("/metrics").unwrap();
    assert!(metrics.contains("kube_admission_proxy_watch_last_event_seconds{kind=\"ConfigMap\"}"), "{metrics}");
    assert!(metrics.contains("kube_admission_proxy_watch_undecodable_objects{kind=\"Services\"} 0"), "{metrics}");
    assert!(!proxy.output().contains(LATE));
}
