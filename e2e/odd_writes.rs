//! Writes that few clients send: without versions, with numbers and types that do not fit, in bodies that the proxy must re-encode. The
//! responses equal kube-apiserver's.

use crate::differential::{config_map, namespace};
use crate::harness::differential::{Case, compare};
use crate::harness::{Proxy, Request, User, get, patch, post, put, unique, upstream};
use serde_json::{Map, Value, json};

/// Compares the requests of an admin in a new namespace.
fn compare_in(place: &str, steps: Vec<Request>) {
    compare(&Case {
        plugins: &["NamespaceLifecycle"],
        setup: vec![post("/api/v1/namespaces", &namespace(place))],
        webhook: None,
        steps: steps.into_iter().map(|step| (User::admin(), step)).collect(),
    });
}

#[test]
fn writes_without_an_api_version_get_the_same_answers() {
    let here = unique("unversioned");
    let maps = format!("/api/v1/namespaces/{here}/configmaps");
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{here}/leases");
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "one"}});
    let mut steps = Vec::new();
    for (at, object) in [(maps, config_map("one")), (leases, lease)] {
        let one = format!("{at}/one");
        steps.extend([
            post(&at, &object),
            patch(&one, "json", &json!([{"op": "remove", "path": "/metadata/resourceVersion"}])),
        ]);
        for version in [json!(null), json!(""), json!("0"), json!("00"), json!("18446744073709551616")] {
            let mut said = object.clone();
            said["metadata"]["resourceVersion"] = version.clone();
            said["metadata"]["labels"] = json!({"version": format!("v{}", version.as_str().unwrap_or("null"))});
            let patched = json!({"metadata": said["metadata"]});
            let apply = |name: &str| {
                let mut said = said.clone();
                said["metadata"]["name"] = json!(name);
                patch(&format!("{at}/{name}?fieldManager=me&force=true"), "apply", &said)
            };
            let other = format!("new-{}", steps.len());
            steps.extend([put(&one, &said), patch(&one, "merge", &patched), patch(&one, "strategic", &patched)]);
            steps.extend([apply("one"), apply(&other), get(&one)]);
        }
        let missing = json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": {"name": "x", "resourceVersion": "x"}});
        steps.push(put(&format!("{at}/x"), &missing));
    }
    compare_in(&here, steps);
}

#[test]
fn paths_that_are_not_clean_get_the_answers_of_gos_mux() {
    let here = unique("odd-paths");
    let place = format!("namespaces/{here}/configmaps");
    let paths = [
        format!("//api/v1/{place}"),
        format!("/api//v1/{place}"),
        format!("/api/v1//{place}"),
        format!("/api/v1/{place}/"),
        format!("/api/./v1/{place}"),
        format!("/api/v2/../v1/{place}"),
        format!("/api/v1/{place}/../configmaps"),
        format!("/api/v1/{place}?dryRun=All//"),
        "//".to_owned(),
        "//apis".to_owned(),
    ];
    let both = |path: &String| [get(path), post(path, &config_map("odd"))];
    let mut steps: Vec<Request> = paths.iter().flat_map(both).collect();
    // kube-apiserver creates an object at this path. The proxy refuses every write whose path has an empty segment.
    steps.push(get(&format!("/api/v1/{place}//")));
    compare_in(&here, steps);
}

#[test]
fn odd_patches_and_configurations_get_the_same_answers() {
    let here = unique("odd-patches");
    let maps = format!("/api/v1/namespaces/{here}/configmaps");
    let deployments = format!("/apis/apps/v1/namespaces/{here}/deployments");
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "one"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
    let strategic = |spec: Value| patch(&format!("{deployments}/one?dryRun=All"), "strategic", &json!({"spec": spec}));
    let mut steps = vec![post(&deployments, &deployment), post(&maps, &config_map("one"))];
    let numbers = [json!(4_294_967_297_i64), json!(2_147_483_648_i64), json!(1e20), json!(2.0), json!(1.5), json!("1")];
    steps.extend(numbers.into_iter().map(|replicas| strategic(json!({"replicas": replicas}))));
    let odd = [
        json!(1.5),
        json!({"paused": 1}),
        json!({"strategy": {"type": 1}}),
        json!({"strategy": {"type": 1.5}}),
        json!({"strategy": {"rollingUpdate": {"maxSurge": true}}}),
        json!({"selector": {"matchLabels": [1]}}),
        json!({"template": {"spec": {"containers": {"name": "c"}}}}),
        json!({"template": {"metadata": {"creationTimestamp": 1}}}),
    ];
    steps.extend(odd.into_iter().map(strategic));
    // The error repeats the patched object with the order of fields in Go.
    for (path, value) in
        [("/spec/replicas", json!("x")), ("/spec/template/spec/containers/0/image", json!(1)), ("/data", json!({}))]
    {
        let operation = json!([{"op": "add", "path": path, "value": value}]);
        steps.push(patch(&format!("{deployments}/one?fieldValidation=Strict"), "json", &operation));
    }
    let one = format!("{maps}/one");
    for query in ["", "?fieldValidation=Strict"] {
        steps.push(patch(&format!("{one}{query}"), "merge", &json!({"apiVersion": null})));
        steps.push(patch(
            &format!("{one}{query}"),
            "json",
            &json!([{"op": "replace", "path": "/apiVersion", "value": ""}]),
        ));
        steps.push(patch(&format!("{one}{query}"), "strategic", &json!({"apiVersion": 1})));
    }
    let apply = |manager: &str, more: &str, body: &str| {
        let path = format!("{one}?fieldManager={manager}{more}");
        Request::new("PATCH", &path).body("application/apply-patch+yaml", body.to_owned())
    };
    let twice = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"k": "w"}, "data": {"k": "x"}}"#;
    let own = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"own": "1"}}"#;
    steps.push(apply("me", "", own));
    for more in ["", "&fieldValidation=Strict", "&fieldValidation=Strict&force=true", "&force=true"] {
        steps.push(apply("other", more, twice));
    }
    for body in [
        "[]",
        "1",
        "text",
        "",
        r#"{"apiVersion": "v1", "kind": "ConfigMap"}"#,
        r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": []}"#,
        r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": "x"}"#,
        r#"{"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "one"}}"#,
    ] {
        steps.push(apply("me", "", body));
    }
    compare_in(&here, steps);
}

/// The API server writes the labels of a job's pods into the job's own labels, if the job's labels are defaulted from them.
#[test]
fn a_job_that_is_written_anew_shares_the_labels_of_its_pods() {
    let proxy = Proxy::before(upstream(), &[]);
    let namespace = proxy.namespace("jobs");
    let jobs = format!("/apis/batch/v1/namespaces/{namespace}/jobs");
    let job = |metadata: Value| {
        let spec = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}]});
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": spec});
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}})
    };
    let yaml = |metadata: Value| {
        let body = format!("# yaml\n{}", job(metadata));
        Request::new("POST", &jobs).body("application/yaml", body)
    };
    let mut unknown = job(json!({"name": "unknown"}));
    unknown["spec"]["unknown"] = json!(1);
    for request in [
        post(&jobs, &job(json!({"name": "verbatim"}))),
        post(&jobs, &job(json!({"generateName": "drawn-"}))),
        post(&jobs, &unknown),
        yaml(json!({"name": "yaml"})),
        yaml(json!({"name": "empty", "labels": {}})),
    ] {
        let made = proxy.accepts(request);
        let labels = &made["metadata"]["labels"];
        assert_eq!(labels.as_object().map(Map::len), Some(5), "{made}");
        assert_eq!(labels, &made["spec"]["template"]["metadata"]["labels"]);
    }
    let own = proxy.accepts(yaml(json!({"name": "own", "labels": {"a": "b"}})));
    assert_eq!(own["metadata"]["labels"], json!({"a": "b"}));
}

#[test]
fn the_kind_in_a_strategic_patch_does_not_matter() {
    let here = unique("kinds");
    let maps = format!("/api/v1/namespaces/{here}/configmaps");
    let said = [
        json!({"kind": "Secret"}),
        json!({"apiVersion": "v9"}),
        json!({"kind": null, "data": {"k": "x"}}),
        json!({"kind": "Foo", "data": {"k": "y"}}),
    ];
    let mut steps = vec![post(&maps, &config_map("one"))];
    steps.extend(said.iter().map(|patched| patch(&format!("{maps}/one"), "strategic", patched)));
    compare_in(&here, steps);
}
