//! Scale, binding, eviction, tokens, reviews, and subresources that the embedded API server cannot serve.

use super::client::{Client, PODS, deployment, pod};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

#[tokio::test]
async fn an_object_is_scaled_through_its_scale() {
    let client = Client::new();
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let created = client.post(deployments, deployment("a")).await.with_code(201);
    let path = format!("{deployments}/a/scale");
    let mut scale = client.get(&path).await.with_code(200);
    assert_eq!(
        scale,
        json!({
            "kind": "Scale", "apiVersion": "autoscaling/v1",
            "metadata": {
                "name": "a", "namespace": "default", "uid": created["metadata"]["uid"],
                "resourceVersion": created["metadata"]["resourceVersion"],
                "creationTimestamp": created["metadata"]["creationTimestamp"],
            },
            "spec": {"replicas": 1},
            "status": {"replicas": 0, "selector": "app=a"},
        })
    );
    scale["spec"]["replicas"] = json!(3);
    assert_eq!(client.put(&path, scale.clone()).await.with_code(200)["spec"]["replicas"], 3);
    client.put(&path, scale).await.refused(409);
    let patched = client.patch(&path, "merge", json!({"spec": {"replicas": 4}})).await.with_code(200);
    assert_eq!(patched["spec"]["replicas"], 4);
    let stored = client.get(&format!("{deployments}/a")).await.with_code(200);
    assert_eq!((&stored["spec"]["replicas"], &stored["metadata"]["generation"]), (&json!(4), &json!(3)));
    assert_eq!(
        client.patch(&path, "merge", json!({"spec": {"replicas": -1}})).await.refused(422),
        "Scale.autoscaling \"a\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0"
    );
    assert_eq!(client.get(&format!("{deployments}/b/scale")).await.refused(404), "deployments.apps \"b\" not found");
}

#[tokio::test]
async fn a_pod_is_bound_once() {
    let client = Client::new();
    client.post(PODS, pod("a")).await.with_code(201);
    let path = format!("{PODS}/a/binding");
    let binding = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}});
    let status = client.post(&path, binding.clone()).await.with_code(201);
    assert_eq!((&status["status"], &status["code"]), (&json!("Success"), &json!(201)));
    let bound = client.get(&format!("{PODS}/a")).await.with_code(200);
    assert_eq!(bound["spec"]["nodeName"], "n");
    assert_eq!(bound["status"]["conditions"][0]["type"], "PodScheduled");
    assert_eq!(
        client.post(&path, binding.clone()).await.refused(409),
        "Operation cannot be fulfilled on pods/binding \"a\": pod a is already assigned to node \"n\""
    );
    client.post(PODS, pod("b")).await.with_code(201);
    let mut other = binding;
    other["metadata"]["name"] = json!("b");
    client.post(&path, other.clone()).await.refused(400);
    client.post("/api/v1/namespaces/default/bindings", other).await.with_code(201);
    assert_eq!(client.get(&format!("{PODS}/b")).await.with_code(200)["spec"]["nodeName"], "n");
}

#[tokio::test]
async fn an_eviction_deletes_the_pod() {
    let client = Client::new();
    client.post(PODS, pod("a")).await.with_code(201);
    let path = format!("{PODS}/a/eviction");
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}});
    let mut dry = eviction.clone();
    dry["deleteOptions"] = json!({"dryRun": ["All"]});
    client.post(&path, dry).await.with_code(201);
    client.get(&format!("{PODS}/a")).await.with_code(200);
    client.post(&path, eviction.clone()).await.with_code(201);
    client.get(&format!("{PODS}/a")).await.refused(404);
    assert_eq!(client.post(&path, eviction).await.refused(404), "pods \"a\" not found");
}

#[tokio::test]
async fn reviews_allow_everything_to_every_user_of_the_proxy() {
    let client = Client::new().header("impersonate-user", "jane").header("impersonate-group", "dev");
    let who = client.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json!({})).await.with_code(201);
    assert_eq!(who["status"]["userInfo"], json!({"username": "jane", "groups": ["dev", "system:authenticated"]}));
    let action = json!({"verb": "get", "resource": "pods", "namespace": "default"});
    for (path, spec) in [
        ("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", json!({"resourceAttributes": action})),
        ("/apis/authorization.k8s.io/v1/subjectaccessreviews", json!({"resourceAttributes": action, "user": "jane"})),
        (
            "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews",
            json!({"resourceAttributes": action, "groups": ["dev"]}),
        ),
    ] {
        let review = json!({ "spec": spec });
        let answer = client.post(path, review.clone()).await.with_code(201);
        assert_eq!((&answer["status"], &answer["spec"]), (&json!({"allowed": true}), &review["spec"]), "{path}");
    }
    let rules =
        client.post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", json!({"spec": {"namespace": "x"}}));
    assert_eq!(rules.await.with_code(201)["status"]["incomplete"], false);
    let pem = STANDARD.encode("-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----\n");
    let spec = json!({"signerName": "a.test/x", "username": "somebody", "usages": ["client auth"], "request": pem});
    let request = json!({"metadata": {"name": "a"}, "spec": spec});
    let csr = client.post("/apis/certificates.k8s.io/v1/certificatesigningrequests", request).await.with_code(201);
    assert_eq!(csr["spec"]["username"], "jane");
}

/// The texts are those of a kube-apiserver 1.36.3.
#[tokio::test]
async fn a_review_of_no_single_action_is_invalid() {
    let client = Client::new();
    let (action, path) = (json!({"verb": "get", "namespace": "other"}), json!({"verb": "get", "path": "/x"}));
    let one = "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified";
    let given = r#"spec.nonResourceAttributes: Invalid value: {"Path":"/x","Verb":"get"}"#;
    for (resource, spec, expected) in [
        ("selfsubjectaccessreviews", json!({}), one.to_owned()),
        (
            "selfsubjectaccessreviews",
            json!({"resourceAttributes": action, "nonResourceAttributes": path}),
            format!("{given}: cannot be specified in combination with resourceAttributes"),
        ),
        (
            "subjectaccessreviews",
            json!({}),
            format!("[{one}, spec.user: Invalid value: \"\": at least one of user or group must be specified]"),
        ),
        (
            "namespaces/default/localsubjectaccessreviews",
            json!({"user": "jane", "resourceAttributes": action}),
            "spec.resourceAttributes.namespace: Invalid value: \"other\": must match metadata.namespace".into(),
        ),
        (
            "namespaces/default/localsubjectaccessreviews",
            json!({"user": "jane", "nonResourceAttributes": path}),
            format!("{given}: disallowed on this kind of request"),
        ),
    ] {
        let path = format!("/apis/authorization.k8s.io/v1/{resource}");
        let text = client.post(&path, json!({ "spec": spec })).await.refused(422);
        assert_eq!(text, format!(".authorization.k8s.io \"\" is invalid: {expected}"), "{resource} {spec}");
    }
}

/// The texts are those of a kube-apiserver 1.36.3.
#[tokio::test]
async fn an_access_review_with_metadata_is_invalid() {
    let client = Client::new();
    let action = json!({"verb": "get", "resource": "pods", "namespace": "default"});
    let spec = json!({"user": "jane", "resourceAttributes": action});
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": true});
    let reference = r#"{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u","controller":true}"#;
    let local = "namespaces/default/localsubjectaccessreviews";
    for resource in ["selfsubjectaccessreviews", "subjectaccessreviews", local] {
        let spec = if resource.starts_with("self") { json!({"resourceAttributes": action}) } else { spec.clone() };
        let path = format!("/apis/authorization.k8s.io/v1/{resource}");
        let ask = |metadata: Value| client.post(&path, json!({ "metadata": metadata, "spec": spec }));
        let namespace = if resource == local { r#""namespace":"default","# } else { "" };
        let except = if resource == local { " except for namespace" } else { "" };
        for (metadata, before, after) in [
            (json!({"name": "a"}), r#""name":"a","#, ""),
            (json!({"generateName": "a<"}), r#""generateName":"a\u003c","#, ""),
            (json!({"name": "a", "uid": "u", "x": 1}), r#""name":"a","#, ""),
            (json!({"labels": {"b": "1", "a": "2"}}), "", r#""labels":{"a":"2","b":"1"},"#),
            (json!({"resourceVersion": "1", "generation": 2}), "", r#""resourceVersion":"1","generation":2,"#),
            (
                json!({"finalizers": ["a/b"], "ownerReferences": [owner]}),
                "",
                &format!(r#""ownerReferences":[{reference}],"finalizers":["a/b"],"#),
            ),
        ] {
            let text = ask(metadata).await.refused(422);
            let given = format!("{before}{namespace}{after}");
            let (start, end) = text.split_once("\"managedFields\":[{").unwrap();
            let invalid = r#".authorization.k8s.io "" is invalid: metadata: Invalid value: {"#;
            assert_eq!(start, format!("{invalid}{given}"), "{resource}");
            assert!(
                end.starts_with("\"manager\":") && end.contains("\"operation\":\"Update\",\"apiVersion\":"),
                "{end}"
            );
            assert!(end.ends_with(&format!("}}]}}: must be empty{except}")), "{end}");
        }
        // Fields that are wiped, empty or unknown are no metadata, and are not in the answer.
        let metadata =
            json!({"uid": "u", "creationTimestamp": "2027-01-01T00:00:00Z", "labels": {}, "name": "", "x": 1});
        let mut answer = ask(metadata).await.with_code(201);
        let metadata = answer["metadata"].as_object_mut().unwrap();
        metadata.remove("managedFields");
        let wanted = if resource == local { json!({"namespace": "default"}) } else { json!({}) };
        assert_eq!(answer["metadata"], wanted, "{resource}");
    }
    let path = format!("/apis/authorization.k8s.io/v1/{local}");
    let other = json!({"metadata": {"namespace": "other"}, "spec": spec});
    let why = "the namespace of the provided object does not match the namespace sent on the request";
    assert_eq!(client.post(&path, other).await.refused(400), why);
}

#[tokio::test]
async fn a_subresource_that_needs_a_kubelet_is_not_implemented() {
    let client = Client::new();
    assert_eq!(client.get(&format!("{PODS}/a/log")).await.refused(404), "pods \"a\" not found");
    let mut on_a_node = pod("a");
    on_a_node["spec"]["nodeName"] = json!("n");
    client.post(PODS, on_a_node).await.with_code(201);
    for path in ["log", "exec?command=x", "attach", "portforward"] {
        assert_eq!(client.get(&format!("{PODS}/a/{path}")).await.refused(404), "pods \"n\" not found", "{path}");
    }
    client.post("/api/v1/nodes", json!({"metadata": {"name": "n"}})).await.with_code(201);
    assert_eq!(client.get(&format!("{PODS}/a/proxy")).await.refused(400), "address not allowed");
    let address = json!({"status": {"podIPs": [{"ip": "10.0.0.1"}]}});
    client.patch(&format!("{PODS}/a/status"), "merge", address).await.with_code(200);
    for path in ["log", "exec?command=x", "attach", "portforward", "proxy/index.html"] {
        client.get(&format!("{PODS}/a/{path}")).await.refused(501);
    }
}

#[tokio::test]
async fn a_connection_needs_a_node_and_a_container_of_the_pod() {
    let client = Client::new();
    client.post(PODS, pod("a")).await.with_code(201);
    let mut two = pod("b");
    two["spec"]["initContainers"] = json!([{"name": "i", "image": "x"}]);
    two["spec"]["containers"] = json!([{"name": "c", "image": "x"}, {"name": "d", "image": "x"}]);
    client.post(PODS, two).await.with_code(201);
    for (path, why) in [
        ("a/exec?command=x", "pod a does not have a host assigned"),
        ("a/attach", "pod a does not have a host assigned"),
        ("a/portforward", "pod a does not have a host assigned"),
        ("a/exec?command=x&container=no", "container no is not valid for pod a"),
        ("b/exec?command=x", "a container name must be specified for pod b, choose one of: [i c d]"),
        ("b/attach?container=i", "pod b does not have a host assigned"),
        ("b/portforward", "pod b does not have a host assigned"),
    ] {
        assert_eq!(client.get(&format!("{PODS}/{path}")).await.refused(400), why, "{path}");
    }
}

#[tokio::test]
async fn a_pod_without_a_node_has_no_log() {
    let client = Client::new();
    client.post(PODS, pod("a")).await.with_code(201);
    for options in ["", "?container=c", "?follow=true&tailLines=0", "?sinceTime=2020-01-01T00:00:00Z"] {
        client.get(&format!("{PODS}/a/log{options}")).await.with_code(204);
    }
    let invalid = |why: &str| (422, format!("PodLogOptions \"a\" is invalid: {why}"));
    let bad = |why: &str| (400, why.to_owned());
    for (options, (code, why)) in [
        ("container=d", bad("container d is not valid for pod a")),
        ("tailLines=x", bad("strconv.ParseInt: parsing \"x\": invalid syntax")),
        ("sinceTime=x", bad("parsing time \"x\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"x\" as \"2006\"")),
        ("container=d&tailLines=-1", invalid("tailLines: Invalid value: -1: must be greater than or equal to 0")),
        ("limitBytes=0", invalid("limitBytes: Invalid value: 0: must be greater than 0")),
        ("sinceSeconds=0", invalid("sinceSeconds: Invalid value: 0: must be greater than 0")),
        (
            "sinceSeconds=0&sinceTime=2020-01-01T00:00:00Z",
            invalid("[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"),
        ),
        ("stream=All", invalid("stream: Forbidden: may not be specified")),
    ] {
        assert_eq!(client.get(&format!("{PODS}/a/log?{options}")).await.refused(code), why, "{options}");
    }
}

#[tokio::test]
async fn a_resize_keeps_the_class_of_service() {
    let client = Client::new();
    let both = json!({"cpu": "1", "memory": "1Gi"});
    let container = json!({"name": "c", "image": "i", "resources": {"requests": both, "limits": both}});
    client.post(PODS, json!({"metadata": {"name": "a"}, "spec": {"containers": [container]}})).await.with_code(201);
    let path = format!("{PODS}/a/resize");
    let body = |resources: Value| json!({"spec": {"containers": [{"name": "c", "resources": resources}]}});
    let refused =
        client.patch(&path, "strategic-merge", body(json!({"requests": {"cpu": "500m"}}))).await.with_code(422);
    let cause = &refused["details"]["causes"][0];
    assert_eq!(cause["field"], "spec");
    assert_eq!(cause["message"], "Invalid value: \"Guaranteed\": Pod QOS Class may not change as a result of resizing");
    let both = json!({"requests": {"cpu": "500m"}, "limits": {"cpu": "500m"}});
    client.patch(&path, "strategic-merge", body(both)).await.with_code(200);
}

#[tokio::test]
async fn a_scale_omits_zero_and_has_a_table() {
    let client = Client::new();
    let mut object = deployment("d");
    object["spec"]["replicas"] = json!(0);
    client.post("/apis/apps/v1/namespaces/default/deployments", object).await.with_code(201);
    let path = "/apis/apps/v1/namespaces/default/deployments/d/scale";
    assert_eq!(client.get(path).await.with_code(200)["spec"], json!({}));
    let table =
        client.header("accept", "application/json;as=Table;v=v1beta1;g=meta.k8s.io").get(path).await.with_code(200);
    let columns: Vec<_> = table["columnDefinitions"].as_array().unwrap().iter().map(|column| &column["name"]).collect();
    assert_eq!(columns, ["Name", "Desired", "Available", "Age"]);
    assert_eq!(table["rows"][0]["cells"].as_array().unwrap()[..3], [json!("d"), json!(0), json!(0)]);
    assert_eq!(table["rows"][0]["object"]["apiVersion"], "meta.k8s.io/v1beta1");
    let list =
        client.header("accept", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io").get(path).await;
    assert!(list.refused(406).ends_with("the requested object is not a list (*autoscaling.Scale)"));
    let table = client.header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
    let message = table.get(&format!("{path}?includeObject=x")).await.refused(400);
    assert!(
        message.starts_with("Unable to convert to Table as requested: includeObject: Invalid value: \"x\": "),
        "{message}"
    );
}
