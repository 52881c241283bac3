//! Policies from files (`staticManifestsDir`), compared with kube-apiserver's.

use crate::harness::{
    Api, ControlPlane, Proxy, Request, User, delete, eventually, folder, get, only, post, put, unique, upstream,
};
use crate::manifests::{GATE, configuration, counted, put_file, reason};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const MUTATING: &str = "MutatingAdmissionPolicy";
const VALIDATING: &str = "ValidatingAdmissionPolicy";
const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// A spec for configmaps and for bindings of policies, with these additional fields.
fn spec(fields: Value) -> Value {
    let rule = json!({"operations": ["CREATE"], "apiGroups": ["", "admissionregistration.k8s.io"], "apiVersions": ["v1"],
        "resources": ["configmaps", "validatingadmissionpolicybindings"]});
    let mut spec = json!({"matchConstraints": {"resourceRules": [rule]}});
    for (field, value) in fields.as_object().unwrap() {
        spec[field] = value.clone();
    }
    spec
}

/// Invalid policies: the kind and the spec of each.
fn faulty() -> Vec<(String, Value)> {
    let bound = |kind: &str, fields: Value| {
        let mut spec = json!({"policyName": "p.static.k8s.io", "validationActions": ["Deny"]});
        if kind == MUTATING {
            spec = json!({"policyName": "p.static.k8s.io"});
        }
        for (field, value) in fields.as_object().unwrap() {
            spec[field] = value.clone();
        }
        (format!("{kind}Binding"), spec)
    };
    let validating = |fields: Value| (VALIDATING.to_owned(), spec(fields));
    let validation = |fields: Value| validating(json!({ "validations": [fields] }));
    let mutating = |fields: Value| (MUTATING.to_owned(), spec(fields));
    let long = format!("'{}'", "x".repeat(6000));
    vec![
        validating(json!({})),
        validating(
            json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "validations": [{"expression": "true"}]}),
        ),
        validating(
            json!({"matchConditions": [{"name": "a", "expression": "variables.a"}, {"name": "b b", "expression": " 1 "}],
            "variables": [{"name": "a", "expression": "true"}], "validations": [{"expression": "true"}]}),
        ),
        validating(json!({"variables": [{"name": "", "expression": " "}, {"name": "if", "expression": "1 +"},
            {"name": "1", "expression": "1"}, {"name": "c", "expression": "variables.d"}], "validations": [{"expression": "variables.e"}]})),
        validation(json!({"expression": "variables.a"})),
        validation(json!({"expression": " ", "messageExpression": " ", "message": " ", "reason": "X"})),
        validation(json!({"expression": "1", "messageExpression": "authorizer", "message": "a\nb"})),
        validation(json!({"expression": "true", "messageExpression": "1"})),
        validation(json!({"expression": "int('x') == 1", "messageExpression": "string(duration('x'))"})),
        validating(
            json!({"auditAnnotations": [{"key": "a b", "valueExpression": " 1 "}, {"key": "a b", "valueExpression": ""},
            {"key": "c", "valueExpression": long}]}),
        ),
        mutating(json!({})),
        mutating(json!({"reinvocationPolicy": "X", "mutations": [{"patchType": ""}, {"patchType": "X"}]})),
        mutating(json!({"reinvocationPolicy": "Never", "variables": [{"name": "a", "expression": "b"}], "mutations": [
            {"patchType": "JSONPatch", "applyConfiguration": {"expression": "1"}},
            {"patchType": "JSONPatch", "jsonPatch": {"expression": " 1 "}},
            {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{a: }"}},
            {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": " "}, "jsonPatch": {"expression": "[]"}}]})),
        bound(VALIDATING, json!({"paramRef": {"name": "a/b%", "selector": {"matchLabels": {"a b": "c"}}}})),
        bound(VALIDATING, json!({"paramRef": {"name": "..", "parameterNotFoundAction": "X"}})),
        bound(VALIDATING, json!({"paramRef": {"parameterNotFoundAction": "Deny"}})),
        bound(
            MUTATING,
            json!({"paramRef": {}, "matchResources": {"resourceRules": [{"operations": ["DELETE"],
            "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]}}),
        ),
        bound(MUTATING, json!({"paramRef": {"name": "a", "parameterNotFoundAction": "Allow"}})),
        mutating(
            json!({"reinvocationPolicy": "Never", "matchConstraints": {"resourceRules": [{"operations": ["DELETE", "*"],
            "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]},
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": "[]"}}]}),
        ),
    ]
}

#[test]
fn policies_in_files_are_refused_at_the_start_as_by_kube_apiserver() {
    let mut differences = Vec::new();
    for (kind, spec) in faulty() {
        let place = folder("faulty-policies");
        fs::write(place.join("a.json"), object(&kind, "p.static.k8s.io", &spec).to_string()).unwrap();
        let plugin = kind.strip_suffix("Binding").unwrap_or(&kind);
        let flag = configuration(&[(plugin, place.to_str().unwrap())]);
        let expected = reason(&ControlPlane::refusal(&[GATE.to_owned(), flag.clone()]));
        let got = reason(&Proxy::refusal(&[GATE, &flag]));
        if got != expected {
            differences.push(format!("{spec}\n  {expected}\n  {got}"));
        }
    }
    assert!(differences.is_empty(), "not as kube-apiserver (first line):\n{}", differences.join("\n"));
}

/// A file with a mutating policy that sets two labels, and its binding.
fn labelling(name: &str) -> Value {
    let label = format!("Object{{metadata: Object.metadata{{labels: {{\"{name}\": \"set\", \"last\": \"{name}\"}}}}}}");
    let name = format!("{name}.static.k8s.io");
    let mutation = json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": label}});
    let policy = object(MUTATING, &name, &spec(json!({"reinvocationPolicy": "Never", "mutations": [mutation]})));
    let binding = object("MutatingAdmissionPolicyBinding", &name, &json!({ "policyName": name }));
    json!({"apiVersion": "v1", "kind": "List", "items": [policy, binding]})
}

/// A file with a validating policy that requires names to start with `good`, and its binding.
fn refusing(name: &str) -> Value {
    let fault = json!({"expression": "object.metadata.name.startsWith('good')", "messageExpression": format!("'refused by {name} ' + object.metadata.name")});
    let name = format!("{name}.static.k8s.io");
    let policy = object(VALIDATING, &name, &spec(json!({ "validations": [fault] })));
    let binding =
        object("ValidatingAdmissionPolicyBinding", &name, &json!({"policyName": name, "validationActions": ["Deny"]}));
    json!({"apiVersion": "v1", "kind": "List", "items": [policy, binding]})
}

/// The requests of the test to one side, and the response to each.
fn scenario(
    api: &Api,
    metrics: &dyn Fn() -> String,
    [mutating, validating]: [&Path; 2],
    namespace: &str,
) -> Vec<Value> {
    let send = |request: Request| {
        let answer = api.send(&User::admin(), request);
        let json = answer.json();
        json!([answer.status, json["message"], json["reason"], json["details"], json["metadata"]["labels"]])
    };
    send(post(
        "/api/v1/namespaces",
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
    ));
    let map = |name: &str| {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        send(post(&format!("/api/v1/namespaces/{namespace}/configmaps?dryRun=All"), &map))
    };
    let bound = |name: &str| {
        let binding = json!({"policyName": "none", "validationActions": ["Deny"]});
        let binding = object("ValidatingAdmissionPolicyBinding", name, &binding);
        send(post(&format!("{GROUP}/validatingadmissionpolicybindings?dryRun=All"), &binding))
    };
    let all_of = || [map("good"), map("bad"), bound("good"), bound("bad")];
    let mut all = all_of().to_vec();
    // A policy in the API, whose name sorts before those of the files.
    let label = "Object{metadata: Object.metadata{labels: {\"stored\": \"set\", \"last\": \"stored\"}}}";
    let mutation = json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": label}});
    let of = spec(json!({"reinvocationPolicy": "Never", "mutations": [mutation],
        "matchConditions": [{"name": "n", "expression": format!("request.?namespace.orValue('{namespace}') == '{namespace}'")}]}));
    let name = format!("a-{namespace}");
    send(post(&format!("{GROUP}/mutatingadmissionpolicies"), &object(MUTATING, &name, &of)));
    let binding = object("MutatingAdmissionPolicyBinding", &name, &json!({ "policyName": name }));
    send(post(&format!("{GROUP}/mutatingadmissionpolicybindings"), &binding));
    eventually("the stored policy", || (map("good")[4]["stored"] == "set").then_some(()));
    all.extend(all_of());
    put_file(mutating, "second.json", &labelling("a").to_string());
    put_file(validating, "second.json", &refusing("a").to_string());
    eventually("the second files", || {
        let is_refused = map("bad")[1].as_str().is_some_and(|message| message.contains("refused by a bad"));
        (is_refused && map("good")[4]["a"] == "set").then_some(())
    });
    all.extend(all_of());
    put_file(validating, "second.json", "{}");
    eventually("a failed reload", || {
        (!counted(&metrics(), "automatic_reloads_total", "failure").is_empty()).then_some(())
    });
    all.extend(all_of());
    for name in ["first.json", "second.json"] {
        fs::remove_file(validating.join(name)).unwrap();
    }
    eventually("an empty folder", || (map("bad")[0] == 201).then_some(()));
    all.extend(all_of());
    all.push(json!(counted(&metrics(), "last_config_info", "plugin=")));
    for resource in ["mutatingadmissionpolicies", "mutatingadmissionpolicybindings"] {
        send(delete(&format!("{GROUP}/{resource}/{name}")));
    }
    all
}

#[test]
fn a_folder_of_policies_is_followed_as_by_kube_apiserver() {
    let namespace = unique("policy-files");
    let folders = |side: &str| {
        let [mutating, validating] = ["mp", "vp"].map(|kind| folder(&format!("{side}-{kind}")));
        fs::write(mutating.join("first.json"), labelling("b").to_string()).unwrap();
        fs::write(validating.join("first.json"), refusing("b").to_string()).unwrap();
        let flag = configuration(&[(MUTATING, mutating.to_str().unwrap()), (VALIDATING, validating.to_str().unwrap())]);
        (mutating, validating, flag)
    };
    let plugins = [MUTATING, VALIDATING];
    let (mutating, validating, flag) = folders("reference");
    let reference = ControlPlane::start("policy-files", &[only(&plugins), vec![flag, GATE.to_owned()]].concat());
    let metrics = || reference.send(&User::admin(), get("/metrics")).text();
    let expected = scenario(&reference, &metrics, [&mutating, &validating], &namespace);

    let (mutating, validating, flag) = folders("proxy");
    let named = crate::harness::proxy_only(&plugins);
    let proxy = Proxy::before(upstream(), &[&named[0], &named[1], &flag, GATE]);
    let metrics = || proxy.health("/metrics").unwrap().1;
    let got = scenario(&proxy, &metrics, [&mutating, &validating], &namespace);
    for (at, (expected, got)) in expected.iter().zip(&got).enumerate() {
        assert_eq!(got, expected, "request {at}\n{}", proxy.output());
    }
    assert_eq!(expected[0][4], json!({"b": "set", "last": "b"}));
    assert_eq!(expected[4][4], json!({"b": "set", "stored": "set", "last": "stored"}));
    assert_eq!(expected[6][4], json!({"b": "set", "last": "b"}));
    for refused in [1, 3] {
        assert_eq!(expected[refused][0], 422, "{}", expected[refused]);
    }
}

#[test]
fn policies_from_files_have_parameters_if_a_flag_allows_them() {
    let namespace = unique("policy-files");
    let (name, binding) = (VALIDATING, "ValidatingAdmissionPolicyBinding");
    let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
    let fault = json!({"expression": "int(object.data.size) <= int(params.data.limit)", "messageExpression": "'at most ' + params.data.limit"});
    let mut policy = spec(json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "validations": [fault]}));
    policy["matchConstraints"]["namespaceSelector"] = selector;
    policy["matchConstraints"]["objectSelector"] = json!({"matchLabels": {"limited": "yes"}});
    let bound = json!({"policyName": "p.static.k8s.io", "validationActions": ["Deny"],
        "paramRef": {"name": "limits", "parameterNotFoundAction": "Deny"}});
    let items = [object(name, "p.static.k8s.io", &policy), object(binding, "p.static.k8s.io", &bound)];
    let place = folder("policy-parameters");
    fs::write(place.join("a.json"), json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()).unwrap();
    let flag = configuration(&[(name, place.to_str().unwrap())]);
    let refused = Proxy::refusal(&[GATE, &flag]);
    assert!(refused.contains("spec.paramKind is not supported for static manifests"), "{refused}");

    let proxy = Proxy::before(upstream(), &[GATE, &flag, "--enable-static-policy-parameters"]);
    let send = |request: Request| proxy.send(&User::admin(), request);
    let map = |name: &str, labels: Value, data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": data});
    send(post(
        "/api/v1/namespaces",
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
    ));
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let says = |size: &str, text: &str| {
        let request =
            post(&format!("{maps}?dryRun=All"), &map("c", json!({"limited": "yes"}), json!({ "size": size })));
        eventually(text, || send(request.clone()).text().contains(text).then_some(()));
    };
    says("1", "no params found for policy binding with `Deny` parameterNotFoundAction");
    assert_eq!(send(post(&maps, &map("limits", json!({}), json!({"limit": "5"})))).status, 201);
    says("6", "at most 5");
    says("5", "\"size\":\"5\"");
    let limits = map("limits", json!({}), json!({"limit": "7"}));
    assert_eq!(send(put(&format!("{maps}/limits"), &limits)).status, 200);
    says("6", "\"size\":\"6\"");
    assert_eq!(send(delete(&format!("{maps}/limits"))).status, 200);
    says("1", "no params found");
}
