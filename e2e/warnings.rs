//! Warnings in responses: which there are, and in which order, also if the proxy rejects a request without the API server.

use crate::harness::{Api, ControlPlane, Pair, Proxy, Request, User, delete, get, only, patch, post, put, unique};
use serde_json::{Value, json};

const GROUP: &str = "warnings.e2e.test";

/// The paths of all collections that support create.
fn collections(api: &Api) -> Vec<String> {
    let read = |path: &str| api.send(&User::admin(), get(path)).json();
    let groups = read("/apis")["groups"].as_array().cloned().unwrap();
    let versions = groups.iter().flat_map(|group| group["versions"].as_array().unwrap());
    let prefixes = versions.map(|version| format!("/apis/{}", version["groupVersion"].as_str().unwrap()));
    let of_version = |prefix: String| {
        let resources = read(&prefix)["resources"].as_array().cloned().unwrap();
        let created = resources.into_iter().filter(|resource| {
            let name = resource["name"].as_str().unwrap();
            !name.contains('/') && resource["verbs"].as_array().unwrap().contains(&json!("create"))
        });
        created.map(move |resource| {
            let namespace = if resource["namespaced"] == true { "/namespaces/default" } else { "" };
            format!("{prefix}{namespace}/{}", resource["name"].as_str().unwrap())
        })
    };
    std::iter::once("/api/v1".to_owned()).chain(prefixes).flat_map(of_version).collect()
}

#[test]
fn every_version_that_is_deprecated_is_called_so() {
    let upstream =
        ControlPlane::start("all-versions", &[only(&[]), vec!["--runtime-config=api/all=true".into()]].concat());
    let proxy = Proxy::before(&upstream, &[]);
    let mut deprecated = 0;
    for path in collections(&upstream) {
        let [expected, got] = [&*upstream, &*proxy].map(|api| {
            let answer = api.send(&User::admin(), Request::new("POST", &path).body("application/json", "no JSON"));
            (answer.status, answer.header("warning"))
        });
        assert_eq!(got, expected, "{path}");
        deprecated += expected.1.len();
    }
    assert!(deprecated > 10, "{deprecated}");
}

fn definition() -> Value {
    let version = |name: &str, more: Value| {
        let mut version = json!({"name": name, "served": true, "storage": name == "v1", "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
        version.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        version
    };
    let versions = [
        version("v1", json!({})),
        version("v1beta1", json!({"deprecated": true})),
        version("v1alpha1", json!({"deprecated": true, "deprecationWarning": "it is \"old\""})),
    ];
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("olds.{GROUP}")},
        "spec": {"group": GROUP, "scope": "Namespaced", "versions": versions, "names": {"plural": "olds", "kind": "Old"}}})
}

/// A policy for a namespace, and its binding.
fn policy(name: &str, namespace: &str, expression: &str, action: &str) -> [Request; 2] {
    let api_version = "admissionregistration.k8s.io/v1";
    let rules = json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]);
    let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
    let policy = json!({"apiVersion": api_version, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
        "spec": {"matchConstraints": {"resourceRules": rules, "namespaceSelector": selector},
            "validations": [{"expression": expression, "message": action}]}});
    let binding = json!({"apiVersion": api_version, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": [action]}});
    [("ies", policy), ("ybindings", binding)]
        .map(|(plural, object)| post(&format!("/apis/{api_version}/validatingadmissionpolic{plural}"), &object))
}

#[test]
fn warnings_are_the_same_and_in_order() {
    let here = unique("warnings");
    let pair = Pair::start(&["MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"], &[], &[]);
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": here}});
    let denies = "!('deny' in (object == null ? oldObject : object).metadata.?labels.orValue({}))";
    let [warn, warn_all] = policy(&format!("{here}-a"), &here, "request.operation == 'CONNECT'", "Warn");
    let [deny, deny_some] = policy(&format!("{here}-b"), &here, denies, "Deny");
    pair.set_up(&[
        post("/api/v1/namespaces", &namespace),
        post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition()),
        warn,
        warn_all,
        deny,
        deny_some,
    ]);
    let core = format!("/api/v1/namespaces/{here}");
    let jobs = format!("/apis/batch/v1/namespaces/{here}/jobs");
    let olds = |version: &str| format!("/apis/{GROUP}/{version}/namespaces/{here}/olds");
    let labels = |deny: bool| if deny { json!({"deny": "1"}) } else { json!({}) };
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": labels(true)}});
    pair.until(&User::admin(), &post(&format!("{core}/configmaps"), &map), "denied request: Deny");
    for version in ["v1", "v1beta1", "v1alpha1"] {
        pair.until(&User::admin(), &get(&olds(version)), "OldList");
    }
    let endpoints = |deny: bool| json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "e", "labels": labels(deny)}});
    let mut steps = vec![
        post(&format!("{core}/endpoints"), &endpoints(true)),
        post(&format!("{core}/endpoints?fieldValidation=Nonsense"), &endpoints(false)),
        post(&format!("{core}/endpoints"), &json!({"apiVersion": "v1", "kind": "Pod"})),
        post(&format!("{core}/endpoints"), &endpoints(false)).header("accept", "application/nonsense"),
        post(&format!("{core}/endpoints"), &endpoints(false)),
        post(&format!("{core}/endpoints"), &endpoints(false)),
        get(&format!("{core}/endpoints/e")),
        put(&format!("{core}/endpoints/e"), &endpoints(true)),
        put(&format!("{core}/endpoints/e"), &endpoints(false)),
        put(&format!("{core}/endpoints/by-put"), &endpoints(true)),
        patch(&format!("{core}/endpoints/e"), "merge", &json!({"metadata": {"labels": {"a": "1"}}})),
        patch(&format!("{core}/endpoints/e"), "json", &json!([{"op": "remove", "path": "/none"}])),
        patch(&format!("{core}/endpoints/none"), "merge", &json!({})),
        patch(&format!("{core}/endpoints/e?fieldManager=m&force=true"), "apply", &endpoints(true)),
        patch(&format!("{core}/endpoints/e?fieldManager=m&force=true"), "apply", &endpoints(false)),
        Request::new("PATCH", &format!("{core}/endpoints/e")).body("application/nonsense", "{}"),
        Request::new("PUT", &format!("{core}/endpoints/e")).body("application/nonsense", "{}"),
        put(&format!("{core}/endpoints/e?timeout=nonsense"), &endpoints(false)),
        put(&format!("{core}/endpoints"), &endpoints(false)),
        delete(&format!("{core}/endpoints/none")),
        delete(&format!("{core}/endpoints/e")),
        post(&format!("{core}/endpoints"), &endpoints(false)),
        delete(&format!("{core}/endpoints")),
        delete(&format!("{core}/endpoints")),
    ];
    for deny in [true, false] {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": labels(deny)},
            "spec": {"nodeSelector": {"beta.kubernetes.io/arch": "amd64"}, "containers": [{"name": "a", "image": "i", "more": 1}]}});
        steps.push(post(&format!("{core}/pods"), &pod));
    }
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"suspend": true, "manualSelector": true,
        "selector": {"matchLabels": {"j": "1"}}, "template": {"metadata": {"labels": {"j": "1"}}, "spec": {"restartPolicy": "Never", "nodeSelector": {"beta.kubernetes.io/os": "linux"}, "containers": [{"name": "a", "image": "i"}]}}}});
    steps.extend([
        delete(&format!("{jobs}/none")),
        post(&jobs, &job),
        patch(&format!("{jobs}/j"), "merge", &json!({"spec": {"suspend": true}, "more": 1})),
        delete(&format!("{jobs}/j?dryRun=All")),
        delete(&format!("{jobs}/j?dryRun=All&propagationPolicy=Background")),
        delete(&format!("{jobs}/j?dryRun=All&orphanDependents=true")),
        delete(&jobs),
    ]);
    for version in ["v1alpha1", "v1beta1", "v1"] {
        let old = |name: &str, deny: bool| json!({"apiVersion": format!("{GROUP}/{version}"), "kind": "Old", "metadata": {"name": name, "labels": labels(deny)}});
        let at = olds(version);
        steps.extend([
            post(&at, &old("a", true)),
            post(&at, &old("a", false)),
            patch(&format!("{at}/a"), "strategic", &json!({})),
            patch(&format!("{at}/a"), "merge", &json!({"metadata": {"labels": {"deny": "1"}}})),
            put(&format!("{at}/a/status"), &old("a", false)),
            put(&format!("{at}/a"), &old("a", false)).header("accept", "application/nonsense"),
            Request::new("PATCH", &format!("{at}/a")).body("application/nonsense", "{}"),
            put(&at, &old("a", false)),
            put(&format!("{at}/a/nothing"), &old("a", false)),
            delete(&format!("{at}/b")),
            delete(&format!("{at}/a")),
            delete(&at),
        ]);
    }
    pair.compare(steps.into_iter().map(|step| (User::admin(), step)).collect());
}
