//! Compares admission policies in kube-apiserver and in the proxy: all responses must be equal.

mod matching;
mod messages;
mod mutations;
mod numbers;
mod parameters;

use crate::harness::{Pair, Request, User, get, patch, post, unique};
use serde_json::{Value, json};
use std::sync::OnceLock;

const REGISTRATIONS: &str = "/apis/admissionregistration.k8s.io/v1";

/// Both sides of every test in this module.
fn pair() -> &'static Pair {
    static PAIR: OnceLock<Pair> = OnceLock::new();
    let plugins = [
        "MutatingAdmissionPolicy",
        "ValidatingAdmissionPolicy",
        "MutatingAdmissionWebhook",
        "ValidatingAdmissionWebhook",
    ];
    PAIR.get_or_init(|| {
        let pair = Pair::start(&plugins, &[], &[widgets()]);
        know_widgets(&pair);
        pair
    })
}

/// Waits until the policies of both sides know widgets: kube-apiserver only looks for kinds and their schemas at intervals.
fn know_widgets(pair: &Pair) {
    let version = "admissionregistration.k8s.io/v1";
    let register = |resource: &str, kind: &str, name: &str, spec: Value| {
        let object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec});
        post(&format!("{REGISTRATIONS}/{resource}"), &object)
    };
    let object = |version: &str, kind: &str| json!({"apiVersion": version, "kind": kind, "metadata": {"name": "aware", "namespace": "default", "labels": {"case": "aware"}}});
    let constraints = |group: &str, resource: &str| {
        json!({"objectSelector": {"matchLabels": {"case": "aware"}}, "resourceRules": [
            {"apiGroups": [group], "apiVersions": ["*"], "operations": ["CREATE"], "resources": [resource]}]})
    };
    let labels = r#"Object{metadata: Object.metadata{annotations: {"known": "widgets are merged"}}}"#;
    let widgets = "/apis/policies.e2e.test/v1/namespaces/default/widgets";
    let widget = object("policies.e2e.test/v1", "Widget");
    pair.until(&User::admin(), &post(&format!("{widgets}?dryRun=All"), &widget), "\"Widget\"");
    // Sometimes a restarted kube-apiserver serves the kind, but does not list it before the definition changes, or for another minute.
    let touched = json!({"metadata": {"annotations": {"touched": "yes"}}});
    let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.policies.e2e.test";
    pair.set_up(&[patch(definition, "merge", &touched)]);
    pair.until(&User::admin(), &get("/apis/policies.e2e.test/v1"), "\"Widget\"");
    let service = "/apis/apiregistration.k8s.io/v1/apiservices/v1.policies.e2e.test";
    pair.set_up(&[
        patch(service, "merge", &touched),
        post(widgets, &widget),
        register("validatingadmissionpolicies", "ValidatingAdmissionPolicy", "aware", json!({
            "paramKind": {"apiVersion": "policies.e2e.test/v1", "kind": "Widget"}, "matchConstraints": constraints("", "configmaps"),
            "validations": [{"expression": "params == null", "message": "widgets are parameters"}]})),
        register("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", "aware", json!({"policyName": "aware",
            "paramRef": {"name": "aware", "parameterNotFoundAction": "Deny"}, "validationActions": ["Deny"]})),
        register("mutatingadmissionpolicies", "MutatingAdmissionPolicy", "aware", json!({"reinvocationPolicy": "Never",
            "matchConstraints": constraints("policies.e2e.test", "widgets"), "mutations": applied(&[labels])})),
        register("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", "aware", json!({"policyName": "aware"})),
    ]);
    let config_map = post("/api/v1/namespaces/default/configmaps?dryRun=All", &object("v1", "ConfigMap"));
    pair.until(&User::admin(), &config_map, "widgets are parameters");
    let mut other = widget;
    other["metadata"]["name"] = json!("other");
    pair.until(&User::admin(), &post(&format!("{widgets}?dryRun=All"), &other), "widgets are merged");
}

/// Custom resources in two versions, as merged objects and as parameters of policies.
fn widgets() -> Request {
    let spec = json!({"type": "object", "properties": {
        "replicas": {"type": "integer", "default": 1},
        "ratio": {"type": "number"},
        "scale": {"type": "number", "default": 3.0},
        "size": {"x-kubernetes-int-or-string": true},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "plain": {"type": "array", "items": {"type": "string"}},
        "rules": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"],
                "properties": {"name": {"type": "string"}, "level": {"type": "integer"}}}}}});
    let version = |name: &str, is_stored: bool| {
        json!({"name": name, "served": true, "storage": is_stored,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}})
    };
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.policies.e2e.test"}, "spec": {"group": "policies.e2e.test", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [version("v1", true), version("v2", false)]}});
    post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition)
}

fn merge(target: &mut Value, patch: Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(target.entry(key).or_insert(Value::Null), value);
            }
        }
        (target, patch) => *target = patch,
    }
}

/// A namespace with policies that name it.
struct Place {
    name: String,
    policies: Vec<Request>,
    steps: Vec<(User, Request)>,
}

impl Place {
    fn new(subject: &str) -> Self {
        let name = unique(subject);
        let metadata = json!({"name": name, "labels": {"place": name, "team": "red"}, "annotations": {"note": "n"}});
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
        Self { policies: vec![post("/api/v1/namespaces", &namespace)], steps: Vec::new(), name }
    }

    /// Rules for configmaps of a case in this namespace.
    fn constraints(&self, case: &str) -> Value {
        json!({"namespaceSelector": {"matchLabels": {"place": self.name}}, "objectSelector": {"matchLabels": {"case": case}},
            "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}]})
    }

    /// A policy, with a binding of the same name.
    fn policy(&mut self, kind: &str, case: &str, spec: Value, binding: Value) {
        let name = format!("{}-{case}", self.name);
        let mut bound = json!({ "policyName": name });
        merge(&mut bound, binding);
        self.register(&format!("{kind}AdmissionPolicy"), &name, spec);
        self.register(&format!("{kind}AdmissionPolicyBinding"), &name, bound);
    }

    fn register(&mut self, kind: &str, name: &str, spec: Value) {
        let object = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec});
        let plural = match kind.strip_suffix("Policy") {
            Some(kind) => format!("{kind}policies"),
            None => format!("{kind}s"),
        };
        self.policies.push(post(&format!("{REGISTRATIONS}/{}", plural.to_lowercase()), &object));
    }

    /// A validating policy for the configmaps of a case.
    fn validating(&mut self, case: &str, spec: Value, binding: Value) {
        let mut whole = json!({ "matchConstraints": self.constraints(case) });
        merge(&mut whole, spec);
        let mut bound = json!({"validationActions": ["Deny"]});
        merge(&mut bound, binding);
        self.policy("Validating", case, whole, bound);
    }

    /// A mutating policy for the configmaps of a case.
    fn mutating(&mut self, case: &str, spec: Value, binding: Value) {
        let mut constraints = self.constraints(case);
        constraints["resourceRules"][0]["operations"] = json!(["CREATE", "UPDATE"]);
        let mut whole = json!({"matchConstraints": constraints, "reinvocationPolicy": "Never"});
        merge(&mut whole, spec);
        self.policy("Mutating", case, whole, binding);
    }

    fn config_maps(&self) -> String {
        format!("/api/v1/namespaces/{}/configmaps", self.name)
    }

    /// A configmap of a case.
    fn config_map(&self, case: &str, fields: Value) -> Value {
        let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": case, "labels": {"case": case}},
            "data": {"a": "1", "b": "2"}});
        merge(&mut object, fields);
        object
    }

    fn step(&mut self, request: Request) {
        self.steps.push((User::admin(), request));
    }

    /// Creates a configmap of a case as a dry run.
    fn tries(&mut self, case: &str, fields: Value) {
        let request = post(&format!("{}?dryRun=All", self.config_maps()), &self.config_map(case, fields));
        self.step(request);
    }

    /// A validating policy for a case, and a configmap of the case.
    fn judges(&mut self, case: &str, spec: Value) {
        self.validating(case, spec, json!({}));
        self.tries(case, json!({}));
    }

    /// A mutating policy with these apply configurations, and a configmap that it changes.
    fn applies(&mut self, case: &str, expressions: &[&str]) {
        self.mutating(case, json!({ "mutations": applied(expressions) }), json!({}));
        self.tries(case, json!({}));
    }

    /// A mutating policy with these JSON patches, and a configmap that it changes.
    fn patches(&mut self, case: &str, expressions: &[&str]) {
        self.mutating(case, json!({ "mutations": patched(expressions) }), json!({}));
        self.tries(case, json!({}));
    }

    /// Registers the policies, waits until both sides know them, and compares.
    fn compare(mut self) {
        self.set_up();
        pair().compare(self.steps);
    }

    /// Registers the policies, and waits until both sides know them.
    fn set_up(&mut self) {
        self.validating(
            "known",
            json!({"validations": [{"expression": "false", "message": "policies are known"}]}),
            json!({}),
        );
        let labels = r#"Object{metadata: Object.metadata{annotations: {"known": "mutations are known"}}}"#;
        self.mutating("mutable", json!({ "mutations": applied(&[labels]) }), json!({}));
        pair().set_up(&self.policies);
        let probe = |case: &str| post(&format!("{}?dryRun=All", self.config_maps()), &self.config_map(case, json!({})));
        pair().until(&User::admin(), &probe("known"), "policies are known");
        pair().until(&User::admin(), &probe("mutable"), "mutations are known");
    }
}

fn applied(expressions: &[&str]) -> Value {
    let mutation = |expression: &&str| json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}});
    expressions.iter().map(mutation).collect()
}

fn patched(expressions: &[&str]) -> Value {
    let mutation = |expression: &&str| json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}});
    expressions.iter().map(mutation).collect()
}

/// A validation of an expression.
fn holds(expression: &str) -> Value {
    json!({"validations": [{ "expression": expression }]})
}

/// A validation that fails with the value of an expression as its message.
fn says(expression: &str) -> Value {
    json!({"validations": [{"expression": "false", "messageExpression": format!("string({expression})")}]})
}
