//! Compares the validation of webhook configurations, policies and definitions in the embedded API server with kube-apiserver's: creates,
//! updates and writes of the status.

use crate::harness::{
    Api, Kept, Proxy, Request, User, delete, eventually, get, patch, post, proxy_only, sampled, upstream,
};
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

/// How the answers of the two servers agree.
#[derive(Default)]
struct Agreement {
    count: usize,
    verdicts: usize,
    answers: usize,
    differences: Vec<String>,
}

/// The compared part of an answer: the code, and the causes or the object.
type Seen = (u16, Vec<Value>);

impl Agreement {
    /// Sends a request to both servers.
    fn compare(&mut self, sides: &[Kept; 2], what: &str, request: &Request) {
        let [expected, got] = sides.each_ref().map(|api| seen(api, request));
        self.count += 1;
        self.verdicts += usize::from(expected.0 == got.0);
        self.answers += usize::from(expected == got);
        if expected != got {
            self.differences.push(format!("{what}\n  kube-apiserver: {expected:?}\n  embedded:       {got:?}"));
        }
    }

    /// Prints the differences. Returns whether the servers agree well enough.
    fn is_enough(&self, what: &str) -> bool {
        let Self { count, verdicts, answers, differences } = self;
        println!("{what}: {verdicts} of {count} verdicts, {answers} the same\n{}", differences.join("\n"));
        verdicts * 100 >= count * 98 && answers * 100 >= count * 95
    }
}

fn seen(api: &Kept, request: &Request) -> Seen {
    let answer = api.send(&User::admin(), request.clone());
    let body = answer.json();
    if body["kind"] != "Status" {
        return (answer.status, vec![timeless(body)]);
    }
    let mut causes = body["details"]["causes"].as_array().cloned().unwrap_or_default();
    causes.sort_by_key(Value::to_string);
    (answer.status, causes)
}

/// An object without what differs from server to server.
fn timeless(mut object: Value) -> Value {
    for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields"] {
        object["metadata"].as_object_mut().map(|metadata| metadata.remove(field));
    }
    let conditions = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten().filter_map(Value::as_object_mut) {
        condition.remove("lastTransitionTime");
    }
    object
}

fn embedded() -> Proxy {
    let flags = proxy_only(&[]);
    Proxy::embedded(&[&flags[0], &flags[1]])
}

#[test]
fn configurations_and_policies_are_validated_as_by_kube_apiserver() {
    let embedded = embedded();
    let sides: [&Api; 2] = [upstream(), &embedded];
    let kept = sides.map(Api::kept);
    let mut failures = Vec::new();
    for (plural, object) in objects() {
        let path = format!("{GROUP}/{plural}?dryRun=All");
        for api in sides {
            let answer = api.send(&User::admin(), post(&path, &object));
            assert_eq!(answer.status, 201, "{}", answer.text());
        }
        let mut places = Vec::new();
        pointers(&object, "", &mut places);
        let mut agreement = Agreement::default();
        let cases =
            places.iter().flat_map(|place| changed(&object, place).into_iter().map(move |changed| (place, changed)));
        for (place, changed) in sampled(cases) {
            let value = changed.pointer(place).unwrap();
            agreement.compare(&kept, &format!("{place} = {value}"), &post(&path, &changed));
        }
        if !agreement.is_enough(plural) {
            failures.push(plural);
        }
    }
    assert!(failures.is_empty(), "{failures:?}");
}

/// A definition of every part that has rules on updates.
fn definition() -> Value {
    let other = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "default": {}, "properties": {
            "size": {"type": "integer", "default": 1, "minimum": 0},
            "color": {"type": "string", "enum": ["red", "blue"], "nullable": true},
            "list": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}},
            "x-kubernetes-validations": [{"rule": "!has(self.size) || self.size < 10", "message": "too large"}]},
        "status": {"type": "object", "properties": {"size": {"type": "integer"}, "selector": {"type": "string"}}}}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.updates.e2e.test", "labels": {"a": "b"}},
    "spec": {"group": "updates.e2e.test", "scope": "Namespaced", "conversion": {"strategy": "None"},
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList", "shortNames": ["wi"],
            "categories": ["updated"]},
        "versions": [
            {"name": "v1", "served": true, "storage": true, "schema": schema,
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size",
                    "statusReplicasPath": ".status.size", "labelSelectorPath": ".status.selector"}},
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1}],
                "selectableFields": [{"jsonPath": ".spec.color"}]},
            {"name": "v1beta1", "served": true, "storage": false, "deprecated": true, "deprecationWarning": "old",
                "schema": other},
        ]}})
}

/// The status of a ValidatingAdmissionPolicy.
fn policy_status() -> Value {
    json!({"observedGeneration": 1, "typeChecking": {"expressionWarnings": [
            {"fieldRef": "spec.validations[0].expression", "warning": "no such field"}]},
        "conditions": [{"type": "Ready", "status": "True", "reason": "Because", "message": "m", "observedGeneration": 1,
            "lastTransitionTime": "2026-01-02T03:04:05Z"}]})
}

/// A JSON patch that sets one place of an object.
fn set(path: &str, place: &str, value: &Value) -> Request {
    patch(path, "json", &json!([{"op": "add", "path": place, "value": value}]))
}

#[test]
fn updates_and_statuses_are_validated_as_by_kube_apiserver() {
    let embedded = embedded();
    let sides: [&Api; 2] = [upstream(), &embedded];
    let kept = sides.map(Api::kept);
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned();
    let registrations = objects().into_iter().map(|(plural, object)| (format!("{GROUP}/{plural}"), object));
    let mut failures = Vec::new();
    for (at, (collection, mut object)) in registrations.chain([(definitions, definition())]).enumerate() {
        let is_definition = object["kind"] == "CustomResourceDefinition";
        if !is_definition {
            object["metadata"]["name"] = json!(format!("updated{at}.example.com"));
        }
        let path = format!("{collection}/{}", object["metadata"]["name"].as_str().unwrap());
        let (dry, dry_status) = (format!("{path}?dryRun=All"), format!("{path}/status?dryRun=All"));
        for api in sides {
            let answer = api.send(&User::admin(), post(&collection, &object));
            assert_eq!(answer.status, 201, "{}", answer.text());
        }
        if object["kind"] == "ValidatingAdmissionPolicy" {
            for api in sides {
                let answer = api.send(&User::admin(), set(&format!("{path}/status"), "/status", &policy_status()));
                assert_eq!(answer.status, 200, "{}", answer.text());
            }
        }
        let stored = sides.map(|api| {
            eventually("the state of the object", || {
                let stored = api.send(&User::admin(), get(&path)).json();
                let established = stored.pointer("/status/conditions/1/status");
                let is_settled = !is_definition || established == Some(&json!("True"));
                is_settled.then(|| timeless(stored))
            })
        });
        assert_eq!(stored[1], stored[0]);
        let (mut updates, mut statuses) = (Agreement::default(), Agreement::default());
        let mut places = Vec::new();
        pointers(&stored[0], "", &mut places);
        // A part of the few cases of a status would have another share of known differences.
        let cases =
            places.iter().flat_map(|place| changed(&stored[0], place).into_iter().map(move |changed| (place, changed)));
        for (place, changed) in cases {
            let value = changed.pointer(place).unwrap();
            let what = format!("{place} = {value}");
            updates.compare(&kept, &what, &set(&dry, place, value));
            // The status of a definition is also written by the server.
            if place.starts_with("/status") || place.matches('/').count() <= 2 {
                statuses.compare(&kept, &format!("{what} (status)"), &set(&dry_status, place, value));
            }
        }
        for (agreement, what) in [(updates, "updates"), (statuses, "statuses")] {
            let what = format!("{what} of {collection}");
            if !agreement.is_enough(&what) {
                failures.push(what);
            }
        }
        sides.iter().for_each(|api| drop(api.send(&User::admin(), delete(&path))));
    }
    assert!(failures.is_empty(), "{failures:?}");
}
