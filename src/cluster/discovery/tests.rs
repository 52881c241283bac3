//! Discovery from an API server with fixed documents.

use super::*;
use crate::body::{Body, full};
use crate::cluster::tests::client;
use crate::upstream::{Transport, UpstreamError};
use async_trait::async_trait;
use http::{Request, Response};
use serde_json::{Value, json};
use std::sync::Mutex;

/// An API server with fixed documents by path; counts the calls. Other paths return 404.
#[derive(Default)]
struct Rote {
    documents: Mutex<HashMap<String, (u16, Value)>>,
    calls: Mutex<Vec<String>>,
}

impl Rote {
    fn new(documents: &[(&str, Value)]) -> Arc<Self> {
        let rote = Self::default();
        documents.iter().for_each(|(path, document)| rote.set(path, 200, document.clone()));
        Arc::new(rote)
    }

    fn set(&self, path: &str, code: u16, document: Value) {
        self.documents.lock().unwrap().insert(path.to_owned(), (code, document));
    }

    fn calls(&self, path: &str) -> usize {
        self.calls.lock().unwrap().iter().filter(|called| *called == path).count()
    }
}

#[async_trait]
impl Transport for Rote {
    async fn send(&self, request: Request<Body>) -> Result<Response<Body>, UpstreamError> {
        let path = request.uri().path().to_owned();
        let (code, document) = self.documents.lock().unwrap().get(&path).cloned().unwrap_or((404, json!({})));
        self.calls.lock().unwrap().push(path);
        Ok(Response::builder().status(code).body(full(document.to_string())).unwrap())
    }
}

fn aggregated(group: &str, version: &str, freshness: &str, resources: &[&str]) -> Value {
    let resources: Vec<_> = resources
        .iter()
        .map(|name| json!({"resource": name, "scope": "Namespaced", "verbs": ["get"], "responseKind": {"kind": "K"}}))
        .collect();
    json!({"metadata": {"name": group}, "versions": [{"version": version, "freshness": freshness, "resources": resources}]})
}

fn group_list(groups: &[Value]) -> Value {
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": groups})
}

/// Starts discovery; the watches of definitions stay silent.
fn start(rote: &Arc<Rote>) -> Arc<Discovery> {
    Discovery::start(rote.clone(), client(|_, _| None), Arc::default())
}

#[tokio::test(start_paused = true)]
async fn reads_aggregated_discovery() {
    let pods = json!({"resource": "pods", "responseKind": {"group": "", "version": "", "kind": "Pod"}, "scope": "Namespaced", "verbs": ["create"], "subresources": [
        {"subresource": "eviction", "responseKind": {"group": "policy", "version": "v1", "kind": "Eviction"}, "verbs": ["create"]},
        {"subresource": "exec", "responseKind": {"group": "", "version": "", "kind": "PodExecOptions"}, "verbs": ["create", "get"]},
        {"subresource": "odd", "responseKind": null, "verbs": null},
    ]});
    let core = json!({"metadata": {}, "versions": [{"version": "v1", "freshness": "Current", "resources": [pods]}, {"version": "v0", "resources": null}]});
    let rote = Rote::new(&[
        ("/api", group_list(&[core])),
        ("/apis", group_list(&[aggregated("g", "v1", "Current", &["things"])])),
    ]);
    let discovery = start(&rote);
    discovery.wait_synced().await;
    let pods = discovery.known("", "v1", "pods").unwrap();
    assert_eq!(
        (&pods.kind, pods.namespaced, &*pods.verbs),
        (&GroupVersionKind::new("", "v1", "Pod"), true, &["create".to_owned()][..])
    );
    assert_eq!(pods.subresources["eviction"].kind, GroupVersionKind::new("policy", "v1", "Eviction"));
    assert!(pods.subresources["exec"].is_connect() && !pods.subresources["eviction"].is_connect());
    assert_eq!(discovery.resource("g", "v1", "things").await.unwrap().kind, GroupVersionKind::new("g", "v1", "K"));
    assert_eq!(discovery.versions("g", "things")[0].0, "v1");
    assert_eq!(rote.calls("/apis"), 1);
}

#[tokio::test(start_paused = true)]
async fn reads_legacy_discovery_where_nothing_else_is_offered() {
    let resources = json!([
        {"name": "pods/eviction", "namespaced": true, "group": "policy", "version": "v1", "kind": "Eviction", "verbs": ["create"]},
        {"name": "pods", "namespaced": true, "kind": "Pod", "verbs": ["get"]},
        {"name": "nodes", "namespaced": false, "kind": "Node", "verbs": ["get"]},
    ]);
    let rote = Rote::new(&[
        ("/api", json!({"kind": "APIVersions", "versions": ["v1"]})),
        ("/api/v1", json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": resources})),
        (
            "/apis",
            json!({"kind": "APIGroupList", "groups": [{"name": "g", "versions": [{"groupVersion": "g/v1"}, {"groupVersion": "g/v2"}]}]}),
        ),
        (
            "/apis/g/v1",
            json!({"kind": "APIResourceList", "groupVersion": "g/v1", "resources": [{"name": "things", "kind": "Thing"}]}),
        ),
    ]);
    rote.set("/apis/g/v2", 503, json!({}));
    let discovery = start(&rote);
    discovery.wait_synced().await;
    let pods = discovery.known("", "v1", "pods").unwrap();
    assert_eq!((&*pods.kind.kind, pods.namespaced), ("Pod", true));
    assert_eq!(pods.subresources["eviction"].kind.group, "policy");
    assert!(!discovery.known("", "v1", "nodes").unwrap().namespaced);
    assert_eq!(discovery.known("g", "v1", "things").unwrap().kind, GroupVersionKind::new("g", "v1", "Thing"));
    assert!(discovery.known("g", "v2", "things").is_none());
}

#[tokio::test(start_paused = true)]
async fn an_unknown_resource_causes_one_refresh_for_all_waiting_requests() {
    let rote = Rote::new(&[("/apis", group_list(&[]))]);
    let discovery = start(&rote);
    discovery.wait_synced().await;
    rote.set("/apis", 200, group_list(&[aggregated("g", "v1", "Current", &["things"])]));
    let lookups = (0..50).map(|_| discovery.resource("g", "v1", "things"));
    assert!(futures_util::future::join_all(lookups).await.iter().all(Option::is_some));
    assert_eq!(rote.calls("/apis"), 2);
    let begun = tokio::time::Instant::now();
    for _ in 0..3 {
        assert!(discovery.resource("g", "v1", "nothing").await.is_none());
    }
    assert!(begun.elapsed() >= Limits::default().discovery_refresh_interval * 3);
    assert_eq!(rote.calls("/apis"), 5);
}

#[tokio::test(start_paused = true)]
async fn a_document_that_cannot_be_refreshed_stays() {
    let apis = |one, other: Value| group_list(&[aggregated("one", "v1", one, &["a"]), other]);
    let rote = Rote::new(&[("/apis", apis("Current", aggregated("other", "v1", "Current", &["b"])))]);
    let discovery = start(&rote);
    discovery.wait_synced().await;
    // A stale, empty version keeps its resources. A removed group disappears.
    rote.set(
        "/apis",
        200,
        group_list(&[json!({"metadata": {"name": "one"}, "versions": [{"version": "v1", "freshness": "Stale"}]})]),
    );
    assert!(discovery.resource("x", "v1", "x").await.is_none());
    assert!(discovery.known("one", "v1", "a").is_some());
    assert!(discovery.known("other", "v1", "b").is_none());
    // A refresh that fails as a whole leaves the table unchanged.
    rote.set("/apis", 500, json!({}));
    assert!(discovery.resource("x", "v1", "x").await.is_none());
    assert!(discovery.known("one", "v1", "a").is_some() && discovery.is_synced());
}

#[tokio::test(start_paused = true)]
async fn is_not_synced_before_the_first_fetch_succeeds() {
    let rote = Rote::new(&[]);
    rote.set("/api", 503, json!({}));
    let discovery = start(&rote);
    assert!(discovery.resource("", "v1", "pods").await.is_none());
    assert!(!discovery.is_synced());
    rote.set("/api", 200, group_list(&[]));
    discovery.wait_synced().await;
    rote.set("/apis", 200, json!({"kind": "Nonsense"}));
    assert!(discovery.resource("", "v1", "pods").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_changed_definition_causes_a_refresh() {
    let list = |items: Value| json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "1"}, "items": items});
    let watching = client(move |_, url| match url {
        url if url.contains("watch=true") => None,
        url if url.starts_with("/apis/apiextensions.k8s.io/v1/customresourcedefinitions") => {
            Some((200, list(json!([{"metadata": {"name": "a"}}]))))
        }
        _ => Some((
            403,
            json!({"kind": "Status", "status": "Failure", "message": "no", "reason": "Forbidden", "code": 403}),
        )),
    });
    let rote = Rote::new(&[("/apis", group_list(&[]))]);
    let discovery = Discovery::start(rote.clone(), watching, Arc::default());
    // The first list of definitions is a change; a second refresh follows when the API server has settled.
    let mut ended = discovery.shared.ended.subscribe();
    let begun = tokio::time::Instant::now();
    ended.wait_for(|ended| *ended >= 3).await.unwrap();
    assert!(begun.elapsed() < Limits::default().discovery_interval);
}

#[tokio::test(start_paused = true)]
async fn a_body_past_the_bound_is_not_read() {
    let rote = Rote::new(&[("/apis", group_list(&[aggregated("g", "v1", "Current", &["a-rather-long-name"])]))]);
    let limits = Arc::new(Limits { discovery_bytes: 64, ..Limits::default() });
    let discovery = Discovery::start(rote.clone(), client(|_, _| None), limits);
    assert!(discovery.resource("g", "v1", "a-rather-long-name").await.is_none());
    assert!(!discovery.is_synced());
}

#[tokio::test]
async fn a_fixed_table_answers_at_once() {
    let kind = GroupVersionKind::new("", "v1", "Pod");
    let pods = Resource { kind, namespaced: true, verbs: vec![], subresources: HashMap::new() };
    let discovery = Discovery::fixed([(crate::kind::GroupVersionResource::new("", "v1", "pods"), pods)]);
    assert!(discovery.resource("", "v1", "pods").await.is_some() && discovery.is_synced());
    assert!(discovery.resource("", "v1", "nodes").await.is_none());
}

#[test]
fn reads_any_json_without_panic() {
    for body in [
        "",
        "null",
        "[]",
        "{}",
        r#"{"kind":"APIGroupDiscoveryList","items":[null]}"#,
        r#"{"kind":"APIGroupList","groups":[{"versions":[{"groupVersion":5}]}]}"#,
    ] {
        assert!(parse::root(body.as_bytes()).is_err(), "{body}");
        assert!(parse::legacy(body.as_bytes(), "", "v1").is_err(), "{body}");
    }
}
