//! Operation of policies: policies that do not compile, and policies in shadow mode.

use crate::harness::{Api, ControlPlane, Proxy, User, eventually, folder, get, only, post, unique, upstream};
use serde_json::{Value, json};

const MUTATING: &str = "MutatingAdmissionPolicy";
const VALIDATING: &str = "ValidatingAdmissionPolicy";
const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const SHADOW: &str = "shadow.kube-admission-proxy.dev/policy";

fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    kind.strip_suffix('y').map_or_else(|| format!("{kind}s"), |kind| format!("{kind}ies"))
}

fn object(kind: &str, metadata: Value, spec: Value) -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec})
}

/// A policy for the configmaps of a namespace, with these additional fields.
fn spec(namespace: &str, fields: Value) -> Value {
    let rule = json!({"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]});
    let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
    let mut spec = json!({"matchConstraints": {"resourceRules": [rule], "namespaceSelector": selector}});
    for (field, value) in fields.as_object().unwrap() {
        spec[field] = value.clone();
    }
    spec
}

fn create(api: &Api, object: &Value) {
    let path = format!("{GROUP}/{}", plural(object["kind"].as_str().unwrap()));
    let answer = api.send(&User::admin(), post(&path, object));
    assert_eq!(answer.status, 201, "{}", answer.text());
}

/// Creates the binding of a policy, which denies.
fn bind(api: &Api, kind: &str, name: &str) {
    let mut spec = json!({ "policyName": name });
    if kind == VALIDATING {
        spec["validationActions"] = json!(["Deny"]);
    }
    create(api, &object(&format!("{kind}Binding"), json!({ "name": name }), spec));
}

/// Creates a configmap as a dry run: code, message and data.
fn tried(api: &Api, namespace: &str) -> Value {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}});
    let answer = api.send(&User::admin(), post(&format!("/api/v1/namespaces/{namespace}/configmaps?dryRun=All"), &map));
    let json = answer.json();
    json!([answer.status, json["message"], json["reason"], json["details"], json["data"]])
}

/// The errors of a policy, as the labels of its metrics.
fn errors(metrics: &str, name: &str) -> Vec<String> {
    let label = format!("policy=\"{name}\"");
    let lines = metrics.lines().filter(|line| line.contains("_policy_check_total{") && line.contains(&label));
    let labels = lines.filter_map(|line| line.split("} ").next()).filter(|line| !line.contains("no_error"));
    let mut labels: Vec<String> = labels.map(str::to_owned).collect();
    labels.sort();
    labels
}

#[test]
fn a_policy_that_does_not_compile_obeys_its_failure_policy_as_at_kube_apiserver() {
    let plugins = [MUTATING, VALIDATING];
    let reference = ControlPlane::start("broken-policies", &only(&plugins));
    let named = crate::harness::proxy_only(&plugins);
    let proxy = Proxy::before(upstream(), &[&named[0], &named[1]]);
    let mutation = |expression: &str| json!({"reinvocationPolicy": "Never", "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}]});
    let validation = |expression: &str| json!({"validations": [{ "expression": expression }]});
    let base = unique("broken");
    for (kind, good, bad) in [
        (VALIDATING, validation("object.data.a == '2'"), validation("objects.data.a == '2'")),
        (VALIDATING, validation("object.data.a == '2'"), validation("'not a boolean'")),
        (MUTATING, mutation("Object{data: {'b': '2'}}"), mutation("Objects{data: {'b': '2'}}")),
    ] {
        for failure_policy in ["Fail", "Ignore"] {
            let name = unique(&base);
            let with = |fields: &Value| {
                let mut spec = spec(&name, fields.clone());
                spec["failurePolicy"] = json!(failure_policy);
                object(kind, json!({"name": name, "uid": "0b7a0e0e-4f0e-4b8a-9a54-0d0f3d1f2a11"}), spec)
            };
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            let sides: [(&ControlPlane, &Api, &dyn Fn() -> String); 2] = [
                (&reference, &reference, &|| reference.send(&User::admin(), get("/metrics")).text()),
                (upstream(), &proxy, &|| proxy.health("/metrics").unwrap().1),
            ];
            let [expected, got] = sides.map(|(store, api, metrics)| {
                assert_eq!(api.send(&User::admin(), post("/api/v1/namespaces", &namespace)).status, 201);
                create(api, &with(&good));
                bind(api, kind, &name);
                let is_known = |tried: &Value| tried[0] == 422 || tried[4]["b"] == "2";
                eventually("a policy that is known", || is_known(&tried(api, &name)).then_some(()));
                let before = errors(&metrics(), &name);
                // No API server accepts such a policy, but one of another version may have stored it.
                store.store(&format!("{}/{name}", plural(kind)), &with(&bad));
                eventually("a policy that does not compile", || {
                    tried(api, &name);
                    (errors(&metrics(), &name) != before).then_some(())
                });
                let labels = errors(&metrics(), &name);
                (tried(api, &name), labels)
            });
            assert_eq!(got, expected, "{kind} {failure_policy}\n{}", proxy.output());
            assert_eq!(expected.0[0] == 201, failure_policy == "Ignore", "{expected:?}");
            let (_, verbose) = proxy.health("/readyz?verbose").unwrap();
            assert!(verbose.contains(&format!("{kind} {name}: ")), "{verbose}");
        }
    }
}

#[test]
fn shadows_do_not_decide_and_are_reported() {
    let place = folder("policy-shadows");
    let (log, policy) = (place.join("audit.log"), place.join("policy.yaml"));
    std::fs::write(&policy, "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}").unwrap();
    let namespace = unique("policy-shadows");
    let names = ["annotated", "named", "bound", "real"].map(|name| format!("{namespace}-{name}"));
    let [annotated, named, bound, real] = &names;
    let flags = [
        format!("--audit-log-path={}", log.display()),
        format!("--audit-policy-file={}", policy.display()),
        format!("--shadow-policies={named},{bound}/{bound}"),
    ];
    let proxy = Proxy::before(upstream(), &flags.each_ref().map(String::as_str));
    let object_of_namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    assert_eq!(proxy.send(&User::admin(), post("/api/v1/namespaces", &object_of_namespace)).status, 201);
    let applied = |key: &str| {
        let expression = format!("Object{{data: {{'{key}': '2'}}}}");
        let mutation = json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}});
        spec(&namespace, json!({"reinvocationPolicy": "Never", "mutations": [mutation]}))
    };
    let refusing =
        spec(&namespace, json!({"validations": [{"expression": "object.data.real != '2'", "message": "no"}]}));
    let metadata = json!({"name": annotated, "annotations": {SHADOW: "true"}});
    for (kind, object) in [
        (MUTATING, object(MUTATING, metadata, applied("shadow"))),
        (VALIDATING, object(VALIDATING, json!({ "name": named }), refusing.clone())),
        (VALIDATING, object(VALIDATING, json!({ "name": bound }), refusing)),
        (MUTATING, object(MUTATING, json!({ "name": real }), applied("real"))),
    ] {
        create(&proxy, &object);
        bind(&proxy, kind, object["metadata"]["name"].as_str().unwrap());
    }
    let decided = |name: &str, decision: &str| {
        let (_, metrics) = proxy.health("/metrics").unwrap();
        let start =
            format!("admission_proxy_shadow_decisions_total{{decision=\"{decision}\",kind=\"policy\",name=\"{name}\"");
        metrics.lines().any(|line| line.starts_with(&start))
    };
    eventually("all policies", || {
        let got = tried(&proxy, &namespace);
        assert_eq!((&got[0], &got[4]["shadow"]), (&json!(201), &Value::Null), "{got}");
        let all = decided(annotated, "changed") && decided(named, "denied") && decided(bound, "denied");
        (all && got[4]["real"] == "2").then_some(())
    });
    let texts =
        ["\\\"decision\\\":\\\"changed\\\"", "\\\"paths\\\":[\\\"/data/shadow\\\"]", "\\\"message\\\":\\\"no\\\""];
    eventually("the shadows in the audit log", || {
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        texts.iter().all(|text| log.contains(text)).then_some(())
    });
    assert!(proxy.output().contains("shadow decision"), "{}", proxy.output());
}
