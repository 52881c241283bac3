//! Compares the validation of webhook configurations and policies in the embedded API server with kube-apiserver's.

use crate::harness::differential::proxy_only;
use crate::harness::{Api, Proxy, User, post, upstream};
use serde_json::{Value, json};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

/// A valid object of each kind, with the plural name of its resource.
fn objects() -> Vec<(&'static str, Value)> {
    let of = |kind: &str, fields: Value| {
        let mut object = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
            "metadata": {"name": "e2e.example.com", "labels": {"a": "b"}, "annotations": {"a": "b"}}});
        object.as_object_mut().unwrap().extend(fields.as_object().cloned().unwrap());
        object
    };
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods", "pods/status"], "operations": ["CREATE", "UPDATE"],
        "scope": "Namespaced"});
    let mut named = rule.clone();
    named["resourceNames"] = json!(["a", "b"]);
    let selector =
        json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "In", "values": ["d", "e"]}]});
    let condition = json!({"name": "not-mine", "expression": "request.userInfo.username != 'me'"});
    let hook = json!({"name": "hook.example.com", "admissionReviewVersions": ["v1", "v1beta1"], "sideEffects": "None",
        "timeoutSeconds": 5, "failurePolicy": "Fail", "matchPolicy": "Exact", "rules": [rule], "namespaceSelector": selector,
        "objectSelector": selector, "matchConditions": [condition],
        "clientConfig": {"service": {"namespace": "default", "name": "hook", "path": "/a/b", "port": 8443}}});
    let mut by_url = hook.clone();
    by_url["name"] = json!("other.example.com");
    by_url["clientConfig"] = json!({"url": "https://hook.example.com:8443/path"});
    let mut mutating = hook.clone();
    mutating["reinvocationPolicy"] = json!("IfNeeded");
    let matched = json!({"resourceRules": [named], "excludeResourceRules": [named], "matchPolicy": "Equivalent",
        "namespaceSelector": selector, "objectSelector": selector});
    let variables = json!([{"name": "replicas", "expression": "object.spec.replicas"}]);
    let parameters = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    let reference = json!({"name": "p", "namespace": "default", "parameterNotFoundAction": "Deny"});
    let selected = json!({"selector": selector, "parameterNotFoundAction": "Allow"});
    let validations = json!([
        {"expression": "variables.replicas > 1", "message": "few", "reason": "Invalid"},
        {"expression": "object.metadata.name == params.metadata.name", "messageExpression": "'no ' + object.metadata.name"},
    ]);
    let annotations = json!([{"key": "replicas", "valueExpression": "string(variables.replicas)"}]);
    let mutations = json!([
        {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{metadata: Object.metadata{labels: {'a': 'b'}}}"}},
        {"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 'add', path: '/metadata/labels/c', value: 'd'}]"}},
    ]);
    vec![
        ("validatingwebhookconfigurations", of("ValidatingWebhookConfiguration", json!({"webhooks": [hook, by_url]}))),
        ("mutatingwebhookconfigurations", of("MutatingWebhookConfiguration", json!({"webhooks": [mutating]}))),
        (
            "validatingadmissionpolicies",
            of(
                "ValidatingAdmissionPolicy",
                json!({"spec": {"failurePolicy": "Fail", "paramKind": parameters,
                "matchConstraints": matched, "matchConditions": [condition], "variables": variables,
                "validations": validations, "auditAnnotations": annotations}}),
            ),
        ),
        (
            "validatingadmissionpolicybindings",
            of(
                "ValidatingAdmissionPolicyBinding",
                json!({"spec": {"policyName": "p", "paramRef": reference,
                "matchResources": matched, "validationActions": ["Deny", "Audit"]}}),
            ),
        ),
        (
            "validatingadmissionpolicybindings",
            of(
                "ValidatingAdmissionPolicyBinding",
                json!({"spec": {"policyName": "p", "paramRef": selected,
                "validationActions": ["Warn"]}}),
            ),
        ),
        (
            "mutatingadmissionpolicies",
            of(
                "MutatingAdmissionPolicy",
                json!({"spec": {"failurePolicy": "Fail", "paramKind": parameters,
                "reinvocationPolicy": "Never", "matchConstraints": matched, "matchConditions": [condition],
                "variables": variables, "mutations": mutations}}),
            ),
        ),
        (
            "mutatingadmissionpolicybindings",
            of(
                "MutatingAdmissionPolicyBinding",
                json!({"spec": {"policyName": "p", "paramRef": reference, "matchResources": matched}}),
            ),
        ),
    ]
}

/// The pointers to all values in an object below its type.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    if !matches!(at, "" | "/metadata" | "/metadata/name") {
        found.push(at.to_owned());
    }
    match value {
        Value::Object(fields) => {
            let fields =
                fields.iter().filter(|(name, _)| !(at.is_empty() && matches!(name.as_str(), "apiVersion" | "kind")));
            fields.for_each(|(name, value)| pointers(value, &format!("{at}/{}", name.replace('/', "~1")), found));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| pointers(item, &format!("{at}/{index}"), found))
        }
        _ => {}
    }
}

/// The object with other values in one place.
fn changed(object: &Value, pointer: &str) -> Vec<Value> {
    let current = object.pointer(pointer).unwrap();
    let values = match current {
        Value::String(_) => {
            vec![json!(""), json!("A b"), json!("a"), json!("*"), json!("x.y/z-"), json!("1 +"), json!("a".repeat(300))]
        }
        Value::Number(_) => vec![json!(0), json!(-1), json!(31), json!(70000)],
        Value::Array(items) => vec![json!([]), items.iter().chain(items.first()).cloned().collect()],
        _ => vec![json!({})],
    };
    let with = |value: Value| {
        let mut object = object.clone();
        *object.pointer_mut(pointer).unwrap() = value;
        object
    };
    // kube-apiserver decodes null as a missing value.
    values.into_iter().chain([Value::Null]).map(with).collect()
}

#[test]
fn configurations_and_policies_are_validated_as_by_kube_apiserver() {
    let flags = proxy_only(&[]);
    let embedded = Proxy::embedded(&[&flags[0], &flags[1]]);
    let sides: [&Api; 2] = [upstream(), &embedded];
    let mut failures = Vec::new();
    for (plural, object) in objects() {
        let path = format!("{GROUP}/{plural}?dryRun=All");
        for api in sides {
            let answer = api.send(&User::admin(), post(&path, &object));
            assert_eq!(answer.status, 201, "{}", answer.text());
        }
        let mut places = Vec::new();
        pointers(&object, "", &mut places);
        let (mut count, mut verdicts, mut all_causes, mut differences) = (0, 0, 0, Vec::new());
        for place in places {
            for changed in changed(&object, &place) {
                let [expected, got] = sides.map(|api| {
                    let answer = api.send(&User::admin(), post(&path, &changed));
                    let mut causes = answer.json()["details"]["causes"].as_array().cloned().unwrap_or_default();
                    causes.sort_by_key(Value::to_string);
                    (answer.status, causes)
                });
                count += 1;
                verdicts += usize::from(expected.0 == got.0);
                all_causes += usize::from(expected == got);
                if expected != got {
                    let value = changed.pointer(&place).unwrap();
                    differences
                        .push(format!("{place} = {value}\n  kube-apiserver: {expected:?}\n  embedded:       {got:?}"));
                }
            }
        }
        println!(
            "{plural}: {verdicts} of {count} verdicts, {all_causes} with the same causes\n{}",
            differences.join("\n")
        );
        if verdicts * 100 < count * 98 || all_causes * 100 < count * 95 {
            failures.push(plural);
        }
    }
    assert!(failures.is_empty(), "{failures:?}");
}
