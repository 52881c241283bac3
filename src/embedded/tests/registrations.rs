//! APIServices, the order of discovery, ComponentStatuses, and the order of fields.

use super::client::{Client, config_map};
use crate::config::Apis;
use crate::embedded::{Server, Settings};
use http::Method;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::sync::Arc;

const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn names(list: &Value) -> Vec<String> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

async fn groups(client: &Client) -> Vec<String> {
    let list = client.get("/apis").await.with_code(200);
    list["groups"].as_array().unwrap().iter().map(|group| group["name"].as_str().unwrap().to_owned()).collect()
}

fn definition(group: &str, versions: &[&str]) -> Value {
    let version = |at: usize, name: &&str| json!({"name": name, "served": true, "storage": at == 0, "schema": {"openAPIV3Schema": {"type": "object"}}});
    let versions: Vec<Value> = versions.iter().enumerate().map(|(at, name)| version(at, name)).collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things.{group}")},
        "spec": {"group": group, "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"}, "versions": versions},
    })
}

fn api_service(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": name}, "spec": spec})
}

fn remote(priority: u32) -> Value {
    json!({
        "group": "remote.example.com", "version": "v1", "groupPriorityMinimum": priority, "versionPriority": 10,
        "service": {"namespace": "default", "name": "remote"}, "insecureSkipTLSVerify": true,
    })
}

async fn available(client: &Client, name: &str) -> String {
    let found = client.get(&format!("{SERVICES}/{name}")).await.with_code(200);
    let conditions = found["status"]["conditions"].as_array().unwrap();
    assert_eq!(conditions.len(), 1);
    let text = |field: &str| conditions[0][field].as_str().unwrap().to_owned();
    format!("{} {}: {}", text("status"), text("reason"), text("message"))
}

#[tokio::test]
async fn every_served_version_has_an_api_service() {
    let client = Client::new();
    let list = client.get(SERVICES).await.with_code(200);
    assert_eq!(list["items"].as_array().unwrap().len(), 21);
    let apps = client.get(&format!("{SERVICES}/v1.apps")).await.with_code(200);
    assert_eq!(
        apps["spec"],
        json!({"group": "apps", "version": "v1", "groupPriorityMinimum": 17800, "versionPriority": 15})
    );
    assert_eq!(apps["metadata"]["labels"], json!({"kube-aggregator.kubernetes.io/automanaged": "onstart"}));
    assert_eq!(available(&client, "v1.").await, "True Local: Local APIServices are always available");
    let apis = Apis::parse(&["apps/v1=false".to_owned()]).unwrap();
    let client = Client::of(Server::with(Arc::default(), Settings { apis, ..Settings::default() }));
    client.get(&format!("{SERVICES}/v1.apps")).await.refused(404);
}

#[tokio::test]
async fn registrations_of_custom_resources_come_and_go() {
    let client = Client::new();
    for (group, versions) in [("b.example.com", &["v1", "v1beta1"][..]), ("a.example.com", &["v2"])] {
        client.post(DEFINITIONS, definition(group, versions)).await.with_code(201);
    }
    let found = client.get(&format!("{SERVICES}/v1beta1.b.example.com")).await.with_code(200);
    assert_eq!(found["metadata"]["labels"], json!({"kube-aggregator.kubernetes.io/automanaged": "true"}));
    assert_eq!(found["spec"]["groupPriorityMinimum"], 1000);
    // Groups of one priority are in the order of the names of their APIServices.
    assert_eq!(groups(&client).await[20..], ["b.example.com", "a.example.com"]);
    let versions = client.get("/apis/b.example.com").await.with_code(200);
    assert_eq!(versions["preferredVersion"]["version"], "v1");
    // The server repairs an APIService that a client deletes or changes.
    client.delete(&format!("{SERVICES}/v2.a.example.com")).await.with_code(200);
    let change = json!({"spec": {"groupPriorityMinimum": 2000}});
    client.patch(&format!("{SERVICES}/v1.b.example.com"), "merge", change.clone()).await.with_code(200);
    for name in ["v2.a.example.com", "v1.b.example.com"] {
        let found = client.get(&format!("{SERVICES}/{name}")).await.with_code(200);
        assert_eq!(found["spec"]["groupPriorityMinimum"], 1000, "{name}");
    }
    // An APIService without the label belongs to clients.
    let unmanaged = json!({"metadata": {"labels": null}, "spec": {"groupPriorityMinimum": 2000}});
    client.patch(&format!("{SERVICES}/v2.a.example.com"), "merge", unmanaged).await.with_code(200);
    assert_eq!(groups(&client).await[20..], ["a.example.com", "b.example.com"]);
    client.delete(&format!("{DEFINITIONS}/things.b.example.com")).await.with_code(200);
    let left = names(&client.get(SERVICES).await.with_code(200));
    assert!(!left.iter().any(|name| name.ends_with("b.example.com")), "{left:?}");
    assert_eq!(groups(&client).await[20..], ["a.example.com"]);
    // The built-in ones are repaired at the next start only.
    client.delete(&format!("{SERVICES}/v1.batch")).await.with_code(200);
    client.get(&format!("{SERVICES}/v1.batch")).await.refused(404);
    assert!(!groups(&client).await.contains(&"batch".to_owned()));
    client.get("/apis/batch/v1/jobs").await.with_code(200);
}

#[tokio::test]
async fn a_remote_api_is_never_available() {
    let client = Client::new();
    let created = client.post(SERVICES, api_service("v1.remote.example.com", remote(2000))).await.with_code(201);
    assert_eq!((&created["status"], &created["spec"]["service"]["port"]), (&json!({}), &json!(443)));
    let name = "v1.remote.example.com";
    assert_eq!(available(&client, name).await, "False ServiceNotFound: service/remote in \"default\" is not present");
    let service = |port: u16| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "remote"},
        "spec": {"clusterIP": "10.96.0.9", "ports": [{"port": port}]}})
    };
    let services = "/api/v1/namespaces/default/services";
    client.post(services, service(80)).await.with_code(201);
    let text = "False ServicePortError: service/remote in \"default\" is not listening on port 443";
    assert_eq!(available(&client, name).await, text);
    client.delete(&format!("{services}/remote")).await.with_code(200);
    client.post(services, service(443)).await.with_code(201);
    let text = "False EndpointsNotFound: cannot find endpointslices for service/remote in \"default\"";
    assert_eq!(available(&client, name).await, text);
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "remote", "labels": {"kubernetes.io/service-name": "remote"}},
        "endpoints": [{"addresses": ["192.0.2.1"]}], "ports": [{"name": "", "port": 443}]});
    client.post("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice).await.with_code(201);
    let text = "False FailedDiscoveryCheck: failing or missing response from \
                https://10.96.0.9:443/apis/remote.example.com/v1: \
                the embedded API server forwards no requests to other API servers";
    assert_eq!(available(&client, name).await, text);
    client.get("/apis/remote.example.com").await.with_code(200);
    for path in
        ["/apis/remote.example.com/v1", "/apis/remote.example.com/v1/things", "/apis/remote.example.com/v1/a/b/c/d/e/f"]
    {
        let answer = client.send(Method::GET, path, "", crate::body::empty()).await;
        assert_eq!(answer.status(), 503, "{path}");
    }
    assert_eq!(groups(&client).await[20], "remote.example.com");
    client.delete(&format!("{SERVICES}/{name}")).await.with_code(200);
    client.get("/apis/remote.example.com").await.with_code(404);
}

#[tokio::test]
async fn an_api_service_is_validated() {
    let client = Client::new();
    let spec = json!({"group": "a_b", "version": "v1.1", "insecureSkipTLSVerify": true, "caBundle": "aGVsbG8="});
    let text = client.post(SERVICES, api_service("x", spec)).await.refused(422);
    for part in [
        "metadata.name: Invalid value: \"x\": must be `spec.version+\".\"+spec.group`: \"v1.1.a_b\"",
        "spec.group: Invalid value: \"a_b\"",
        "spec.version: Invalid value: \"v1.1\"",
        "spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000",
        "spec.caBundle: Invalid value: \"5 bytes\": local APIServices may not have a caBundle",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let status = json!({"status": {"conditions": [{"type": "A", "status": "x"}]}});
    client.patch(&format!("{SERVICES}/v1.apps/status"), "merge", status).await.refused(422);
}

#[tokio::test]
async fn components_have_a_status_that_cannot_be_written() {
    let client = Client::new();
    let components = "/api/v1/componentstatuses";
    let list = client.get(components).await.with_code(200);
    assert_eq!(
        (names(&list), &list["metadata"]),
        (vec!["controller-manager".into(), "scheduler".into(), "etcd-0".into()], &json!({}))
    );
    let selected = client.get(&format!("{components}?fieldSelector=metadata.name=etcd-0")).await.with_code(200);
    assert_eq!(names(&selected), ["etcd-0"]);
    let etcd = client.get(&format!("{components}/etcd-0")).await.with_code(200);
    assert_eq!(etcd["conditions"], json!([{"type": "Healthy", "status": "True", "message": "ok"}]));
    assert_eq!(client.get(&format!("{components}/x")).await.refused(404), "componentstatus \"x\" not found");
    let text = client.get(&format!("{components}?watch=1")).await.refused(405);
    assert_eq!(text, "watch is not supported on resources of kind \"componentstatuses\"");
    client.post(components, json!({})).await.refused(405);
}

#[tokio::test]
async fn built_in_kinds_begin_with_their_kind_and_custom_ones_with_their_version() {
    let client = Client::new();
    client.post(DEFINITIONS, definition("example.com", &["v1"])).await.with_code(201);
    let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}});
    client.post("/apis/example.com/v1/things", thing).await.with_code(201);
    client.post("/api/v1/namespaces/default/configmaps", config_map("a")).await.with_code(201);
    for (path, start) in [
        ("/api/v1/namespaces/default/configmaps/a", r#"{"kind":"ConfigMap","apiVersion":"v1","data":"#),
        ("/api/v1/namespaces/default/configmaps", r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":"#),
        ("/api/v1/namespaces/default/configmaps/b", r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"#),
        ("/apis/example.com/v1/things/a", r#"{"apiVersion":"example.com/v1","kind":"Thing","metadata":"#),
        (
            "/apis/example.com/v1/things",
            r#"{"apiVersion":"example.com/v1","items":[{"apiVersion":"example.com/v1","kind":"#,
        ),
    ] {
        let answer = client.send(Method::GET, path, "", crate::body::empty()).await;
        let text = String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap();
        assert!(text.starts_with(start), "{text}");
    }
}
