//! A library of real policies, unchanged, with valid and invalid objects: every response equals kube-apiserver's.
//!
//! Each policy is bound to a namespace of its own, so that one request tests one policy. `policy_library/policies.yaml` holds the policies,
//! `policy_library/objects.yaml` the objects.

use crate::harness::{Api, Pair, Request, User, eventually, post, put};
use serde_json::{Value, json};

const REGISTRATIONS: &str = "/apis/admissionregistration.k8s.io/v1";

#[test]
fn a_library_of_policies_judges_as_in_kube_apiserver() {
    let policies = documents(include_str!("policy_library/policies.yaml"));
    let objects = documents(include_str!("policy_library/objects.yaml"));
    let of_servers = ["--allow-privileged=true".to_owned()];
    let pair = Pair::alone(&["ValidatingAdmissionPolicy"], &[], &before(&policies), &of_servers);
    let registered = policies.iter().flat_map(|policy| {
        let url = format!("{REGISTRATIONS}/validatingadmissionpolicies");
        [post(&url, policy), post(&format!("{REGISTRATIONS}/validatingadmissionpolicybindings"), &binding(policy))]
    });
    pair.set_up(&registered.collect::<Vec<_>>());
    let mut steps = Vec::new();
    for policy in &policies {
        let name = name(policy);
        let about: Vec<Request> = objects.iter().map(|object| create(object, name)).chain([downgrade(name)]).collect();
        for api in pair.sides() {
            eventually(&format!("{name} to deny something"), || denies(api, &about, name).then_some(()));
        }
        steps.extend(about.into_iter().map(|request| (User::admin(), request)));
    }
    pair.compare(steps);
}

fn denies(api: &Api, requests: &[Request], policy: &str) -> bool {
    let denial = format!("ValidatingAdmissionPolicy '{policy}' with binding '{policy}' denied request");
    requests.iter().any(|request| api.send(&User::admin(), request.clone()).text().contains(&denial))
}

/// Objects that exist before the policies: a namespace for each policy, with a deployment to update, and the parameters.
fn before(policies: &[Value]) -> Vec<Request> {
    let namespace = |name: &str| {
        let metadata =
            json!({"name": name, "labels": {"policy": name}, "annotations": {"library.test/replicas-max": "4"}});
        post("/api/v1/namespaces", &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}))
    };
    let parameters = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "parameters"}, "data": {
        "untrustedRegistries": "bad.test, worse.test", "allowedRegistries": "registry.test,registry.test:5000",
        "memoryLimitMax": "1Gi", "labels": "app tier app.kubernetes.io/name"}});
    let of_a_policy = policies.iter().map(name).flat_map(|name| {
        let deployments = format!("/apis/apps/v1/namespaces/{name}/deployments");
        [namespace(name), post(&deployments, &deployment("2.1.0"))]
    });
    let of_all = [namespace("parameters"), post("/api/v1/namespaces/parameters/configmaps", &parameters)];
    of_all.into_iter().chain(of_a_policy).collect()
}

fn binding(policy: &Value) -> Value {
    let name = name(policy);
    let mut spec = json!({"policyName": name, "validationActions": ["Deny", "Audit"],
        "matchResources": {"namespaceSelector": {"matchLabels": {"policy": name}}}});
    if policy["spec"].get("paramKind").is_some() {
        spec["paramRef"] = json!({"name": "parameters", "namespace": "parameters", "parameterNotFoundAction": "Deny"});
    }
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name}, "spec": spec})
}

fn deployment(version: &str) -> Value {
    let labels = json!({"app": "present"});
    let container = json!({"name": "app", "image": format!("registry.test/app:{version}")});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "present", "labels": labels}, "spec": {
        "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}}})
}

/// Downgrades the deployment to an older version.
fn downgrade(namespace: &str) -> Request {
    put(&format!("/apis/apps/v1/namespaces/{namespace}/deployments/present?dryRun=All"), &deployment("1.9.7"))
}

fn create(object: &Value, namespace: &str) -> Request {
    let version = object["apiVersion"].as_str().unwrap();
    let prefix = if version == "v1" { "/api/v1".to_owned() } else { format!("/apis/{version}") };
    let resource = format!("{}s", object["kind"].as_str().unwrap().to_lowercase());
    post(&format!("{prefix}/namespaces/{namespace}/{resource}?dryRun=All"), object)
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

fn documents(yaml: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(yaml).unwrap()
}
