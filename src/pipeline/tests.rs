//! The path in front of the embedded API server: the stored object is the admitted one, whatever happens in between.

mod apply;
mod attacks;
mod collections;
mod differences;
mod initializers;
mod later;
mod only_tenant;
mod owners;
mod permission;
mod retries;
mod view;
mod wire;

use super::gateway::Room;
use super::*;
use crate::admission::metrics::Metrics;
use crate::admission::{
    Attributes, Denial, FrontEndSupport, Operations, Phases, Plugin, PluginEnvironment, Resources, Spec,
};
use crate::authn::Schemes;
use crate::authz::{self, AccessReviews, Mode, Reviewer};
use crate::body::full;
use crate::cluster::{Cluster, FixedState, discovery};
use crate::config::FeatureGates;
use crate::metrics::Registry;
use crate::sharer::Sharing;
use crate::upstream::{CallerIdentity, Forwarder, SharedTransport, UpstreamRelease, from_fn, kube_client};
use crate::{authn, embedded};
use async_trait::async_trait;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A change of rights in a namespace concerns only the namespace.
#[test]
fn writes_of_roles_and_bindings_change_rights_where_they_count() {
    for (path, changed_in) in [
        ("/apis/rbac.authorization.k8s.io/v1/namespaces/n/rolebindings", Some("n")),
        ("/apis/rbac.authorization.k8s.io/v1/namespaces/n/roles/r", Some("n")),
        ("/apis/rbac.authorization.k8s.io/v1/rolebindings", Some("")),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles/r", Some("")),
        ("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", Some("")),
        ("/api/v1/namespaces/n/pods", None),
    ] {
        assert_eq!(rights_changed_in(&request_info(&Method::POST, &path.parse().unwrap())), changed_in, "{path}");
    }
}

/// A plugin that labels admitted objects, refuses objects with the label `refuse`, and records the objects that its validating
/// phase sees. The label `look` asks for the stored form.
struct Witness;

static SEEN: Mutex<Vec<Value>> = Mutex::new(Vec::new());
/// The label `id` of each object that came to the mutating phase.
static MUTATED: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[async_trait]
impl Plugin for Witness {
    async fn admit(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        if let Some(object) = &attributes.object {
            MUTATED.lock().unwrap().push(object.str(&["metadata", "labels", "id"]).to_owned());
        }
        let succeeds = |object: &crate::object::Object| object.str(&["metadata", "labels", "succeed"]) == "me";
        if attributes.object.as_ref().is_some_and(succeeds) {
            let success = Status { status: "Success".into(), ..Status::failure(200, "", "") };
            return Err(success.into());
        }
        let is_marked = |object: &crate::object::Object| object.str(&["metadata", "labels", "mark"]) == "me";
        match &mut attributes.object {
            Some(object) if is_marked(object) => {
                assert!(object.set(&["metadata", "labels", "admitted"], json!("yes")));
            }
            Some(object) if object.str(&["container"]) == "swap" => {
                assert!(object.set(&["container"], json!("other & more")));
                assert!(object.set(&["command"], json!(["a b", "", "c"])));
            }
            // A webhook that patches the options of an exec leaves null for a list that Go never omits.
            Some(object) if object.str(&["container"]) == "listless" => {
                assert!(object.set(&["command"], Value::Null));
                assert!(object.set(&["stdin"], json!(true)));
            }
            Some(object) if object.str(&["container"]) == "odd" => assert!(object.set(&["container"], json!(7))),
            Some(object) => play(object),
            None => {}
        }
        Ok(())
    }

    async fn admit_collection(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        let Attributes { resource, namespace, object, old_object, .. } = &*attributes;
        assert!(object.is_none() && old_object.is_none() && !attributes.of_collection);
        MUTATED.lock().unwrap().push(format!("{} of {namespace}", resource.resource));
        match &*resource.resource {
            "limitranges" => Err(Status::not_found("", "things", "t").into()),
            _ => Ok(()),
        }
    }

    async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        let subject = attributes.object.as_ref().or(attributes.old_object.as_deref()).cloned().unwrap_or_default();
        if subject.str(&["metadata", "labels", "refuse"]) == "me" {
            return Err(Denial::forbidden("it says so itself"));
        }
        let note = subject.str(&["metadata", "labels", "note"]);
        if !note.is_empty() {
            attributes.annotations.add(format!("witness.test/{note}"), "seen");
        }
        SEEN.lock().unwrap().push(json!({
            "operation": attributes.operation.as_str(),
            "name": attributes.name,
            "object": attributes.object,
            "oldObject": attributes.old_object.as_deref(),
            "options": attributes.options.as_deref(),
        }));
        Ok(())
    }

    fn reads_managed_fields(&self, attributes: &Attributes) -> bool {
        attributes.object.as_ref().is_some_and(|object| object.str(&TRICK).starts_with("own-"))
    }

    fn reads_stored_object(&self, attributes: &Attributes) -> bool {
        attributes.object.as_ref().is_some_and(|object| object.str(&["metadata", "labels", "look"]) == "stored")
    }
}

/// Returns how often an object with this label `id` came to the mutating phase.
fn mutated(id: &str) -> usize {
    MUTATED.lock().unwrap().iter().filter(|other| *other == id).count()
}

const TRICK: [&str; 3] = ["metadata", "labels", "trick"];

/// Makes the odd change that the object's label `trick` names.
fn play(object: &mut crate::object::Object) {
    let (field, value) = match object.str(&TRICK) {
        "own-nothing" => {
            assert!(object.remove(&["metadata", "managedFields"]).is_some());
            return;
        }
        "own-other" => {
            let owners = object.get_mut(&["metadata", "managedFields"]).and_then(Value::as_array_mut).unwrap();
            owners.iter_mut().for_each(|owner| owner["manager"] = json!("other"));
            return;
        }
        "annotate" => {
            assert!(object.set(&["metadata", "annotations", "admitted"], json!("yes")));
            return;
        }
        "rename" => ("name", "renamed"),
        "move" => ("namespace", "elsewhere"),
        "version" => ("resourceVersion", "1"),
        "expire" => ("deletionTimestamp", "2026-01-01T00:00:00Z"),
        "retype" => {
            assert!(object.set(&["apiVersion"], json!("v2")));
            return;
        }
        "differ" => {
            let mut versions = object.items(&["spec", "versions"]).to_vec();
            versions[1]["schema"]["openAPIV3Schema"]["description"] = json!("of the second version");
            assert!(object.set(&["spec", "versions"], json!(versions)));
            return;
        }
        "tell-version" => {
            let version = if object.resource_version().is_empty() { "none" } else { "some" };
            assert!(object.set(&["metadata", "labels", "version"], json!(version)));
            return;
        }
        _ => return,
    };
    assert!(object.set(&["metadata", field], json!(value)));
}

static WITNESS: Spec = Spec {
    name: "Witness",
    default_on: true,
    phases: Phases::Both,
    operations: Operations::ALL,
    resources: Resources::All,
    needs: &[],
    configuration: None,
    removed: None,
    front_end: FrontEndSupport::Full,
    about: "",
    build: |_| Ok(Box::new(Witness)),
};

/// Returns the witness's records about the object with this name, in order.
fn seen(name: &str) -> Vec<Value> {
    let is_it = |review: &&Value| {
        let named = |field: &str| review[field]["metadata"]["name"] == name;
        review["name"] == name || named("object") || named("oldObject")
    };
    SEEN.lock().unwrap().iter().filter(is_it).cloned().collect()
}

/// A connection of a client without a certificate.
fn connection() -> Arc<Connection> {
    Arc::new(Connection {
        remote: SocketAddr::from(([127, 0, 0, 1], 1)),
        certificates: Vec::new(),
        kept: Default::default(),
        server_name: None,
        is_http2: false,
        state: Default::default(),
    })
}

struct Path {
    pipeline: Pipeline,
    server: Arc<embedded::Server>,
}

impl Path {
    async fn new() -> Self {
        let server = embedded::Server::new(Arc::default());
        Self::over(server.clone(), Arc::new(server)).await
    }

    /// Builds a path over a transport that differs from the server's.
    async fn over(server: Arc<embedded::Server>, transport: SharedTransport) -> Self {
        Self::with_plugins(server, transport, &[&WITNESS], FixedState::default()).await
    }

    /// Builds a path with these plugins and this state of the cluster.
    async fn with_plugins(
        server: Arc<embedded::Server>,
        transport: SharedTransport,
        plugins: &[&'static Spec],
        state: FixedState,
    ) -> Self {
        let client = kube_client(Arc::new(server.clone()));
        let discovery = Discovery::start(Arc::new(server.clone()), client.clone(), Arc::default());
        discovery.wait_synced().await;
        let metrics = Arc::new(Metrics::new(&crate::metrics::Registry::new()).unwrap());
        let cluster = Cluster::fixed(state);
        // The seats suffice for a test's requests, and the room for a page of 1 MiB.
        let limits = Limits { page_bytes: 1 << 20, response_bytes: 1 << 20, long_work: 0, ..Limits::default() };
        let chain = Chain::build(plugins, metrics.clone(), |_| PluginEnvironment {
            limits: &limits,
            ..PluginEnvironment::with_defaults(cluster.clone(), discovery.clone(), metrics.clone())
        });
        let forwarder = Forwarder::new(transport.clone(), CallerIdentity::Impersonate, Drain::new());
        let process = Process::new(&limits, Arc::default(), Writes::default(), &Registry::new()).unwrap();
        let reviewer = Reviewer::Subject(client);
        let parts = Parts {
            tenant: Arc::default(),
            schemes: Schemes::new(authn::Config { anonymous: true, ..authn::Config::default() }),
            tenant_ca: None,
            reviews: AccessReviews::new(authz::Config::new(Mode::AlwaysAllow, reviewer, &Limits::default())),
            discovery,
            cluster,
            chain: Arc::new(chain.unwrap()),
            feature_gates: &FeatureGates::default(),
            admitted_mark: None,
            transport,
            forwarder,
            release: Arc::new(UpstreamRelease::known()),
            audit: Audit::off(),
            keeps_initializers: false,
            limits: Arc::new(limits),
        };
        Self { pipeline: Pipeline::new(&process, parts), server }
    }

    async fn ask(&self, method: &str, uri: &str, content_type: &str, body: impl Into<bytes::Bytes>) -> (u16, Value) {
        let (parts, body) = self.ask_raw(method, uri, &[("content-type", content_type)], body).await.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (parts.status.as_u16(), serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    async fn ask_raw(
        &self,
        method: &str,
        uri: &str,
        headers: &[(&str, &str)],
        body: impl Into<bytes::Bytes>,
    ) -> Response<Body> {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(full(body)).unwrap()).await
    }

    async fn send(&self, mut request: Request<Body>) -> Response<Body> {
        request.extensions_mut().insert(connection());
        self.pipeline.handle(request, Known::default(), &Drain::new()).await
    }

    async fn json(&self, method: &str, uri: &str, body: &Value) -> (u16, Value) {
        self.ask(method, uri, "application/json", body.to_string()).await
    }

    /// Reads the stored object directly from the server.
    async fn stored(&self, uri: &str) -> Value {
        let request = Request::get(uri).body(crate::body::empty()).unwrap();
        let answer = crate::upstream::Transport::send(&self.server, request).await.unwrap();
        serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap()
    }
}

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

fn at(name: &str) -> String {
    format!("{CONFIG_MAPS}/{name}")
}

/// A transport that changes the object `name` right before it forwards the first write to that object.
fn meddling(server: &Arc<embedded::Server>, name: &'static str) -> SharedTransport {
    let (server, writes) = (server.clone(), Arc::new(AtomicUsize::new(0)));
    from_fn(move |request| {
        let (server, writes) = (server.clone(), writes.clone());
        async move {
            let is_write = request.method() != Method::GET && request.method() != Method::POST;
            if is_write && writes.fetch_add(1, Ordering::SeqCst) == 0 {
                let patch = json!({"data": {"meddled": "yes"}}).to_string();
                let meddle = Request::patch(at(name)).header("content-type", "application/merge-patch+json");
                let answer = crate::upstream::Transport::send(&server, meddle.body(full(patch)).unwrap()).await?;
                assert_eq!(answer.status(), 200);
            }
            crate::upstream::Transport::send(&server, request).await
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_arrive_makes_room_for_another() {
    let mut path = Path::new().await;
    let one = Limits { mutating_requests_inflight: 1, arriving_bodies_bytes: 1, ..Limits::default() };
    path.pipeline.in_flight = InFlight::alone(&one);
    let stalled = Request::post(CONFIG_MAPS).header("content-type", "application/json");
    let mut stalled = Box::pin(path.send(stalled.body(crate::server::testing::silent().0).unwrap()));
    for _ in 0..20 {
        assert!(futures_util::FutureExt::now_or_never(&mut stalled).is_none());
        tokio::task::yield_now().await;
    }
    let (code, status) = path.json("POST", CONFIG_MAPS, &config_map("arrived")).await;
    assert_eq!(code, 201, "{status}");
    assert_eq!(stalled.await.status(), 429);
}

#[tokio::test]
async fn a_create_is_admitted_and_stored_as_admitted() {
    let path = Path::new().await;
    let mut object = config_map("created");
    object["metadata"]["labels"] = json!({"mark": "me"});
    assert_eq!(path.json("POST", CONFIG_MAPS, &object).await.0, 201);
    assert_eq!(path.stored(&at("created")).await["metadata"]["labels"], json!({"mark": "me", "admitted": "yes"}));
    assert_eq!(seen("created")[0]["operation"], "CREATE");
}

#[tokio::test]
async fn a_refused_create_stores_nothing() {
    let path = Path::new().await;
    let mut object = config_map("refused");
    object["metadata"]["labels"] = json!({"refuse": "me"});
    let (code, status) = path.json("POST", CONFIG_MAPS, &object).await;
    assert_eq!((code, &status["message"]), (403, &json!("configmaps \"refused\" is forbidden: it says so itself")));
    assert_eq!(path.stored(&at("refused")).await["reason"], "NotFound");
}

#[tokio::test]
async fn a_refusal_with_the_code_of_a_success_stores_nothing() {
    let path = Path::new().await;
    let mut object = config_map("succeeds");
    object["metadata"]["labels"] = json!({"succeed": "me"});
    let (code, status) = path.json("POST", CONFIG_MAPS, &object).await;
    assert_eq!((code, &status["kind"], &status["status"]), (200, &json!("Status"), &json!("Success")));
    assert_eq!(path.stored(&at("succeeds")).await["reason"], "NotFound");
}

#[tokio::test]
async fn validating_plugins_see_the_name_that_was_drawn() {
    let path = Path::new().await;
    let mut object = config_map("");
    object["metadata"] = json!({"generateName": "drawn-"});
    let (code, created) = path.json("POST", CONFIG_MAPS, &object).await;
    let name = created["metadata"]["name"].as_str().unwrap();
    assert_eq!((code, name.len()), (201, "drawn-".len() + 5));
    assert_eq!(seen(name)[0]["object"]["metadata"]["name"], name);
}

#[tokio::test]
async fn a_field_that_is_there_twice_never_reaches_the_api_server_twice() {
    let path = Path::new().await;
    let body =
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"twice"},"data":{"a":"1"},"data":{"b":"2"}}"#;
    let response = path.ask_raw("POST", CONFIG_MAPS, &[], body).await;
    assert_eq!(response.status(), 201);
    assert_eq!(response.headers()["warning"], r#"299 - "duplicate field \"data\"""#);
    assert_eq!(path.stored(&at("twice")).await["data"], seen("twice")[0]["object"]["data"]);
    let (code, status) =
        path.ask("POST", &format!("{CONFIG_MAPS}?fieldValidation=Strict"), "application/json", body).await;
    assert_eq!(code, 400);
    assert!(
        status["message"].as_str().unwrap().ends_with("strict decoding error: duplicate field \"data\""),
        "{status}"
    );
}

/// Returns every way to change an object: method, content type, body.
fn changes(name: &str) -> Vec<(&'static str, &'static str, String)> {
    let put = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"changed": "yes"}});
    let merge = json!({"data": {"changed": "yes"}});
    let json_patch = json!([{"op": "add", "path": "/data/changed", "value": "yes"}]);
    vec![
        ("PUT", "application/json", put.to_string()),
        ("PATCH", "application/merge-patch+json", merge.to_string()),
        ("PATCH", "application/strategic-merge-patch+json", merge.to_string()),
        ("PATCH", "application/json-patch+json", json_patch.to_string()),
    ]
}

#[tokio::test]
async fn a_change_that_meets_another_is_admitted_again_on_the_fresh_object() {
    for (i, (method, content_type, body)) in changes("raced").into_iter().enumerate() {
        let server = embedded::Server::new(Arc::default());
        let path = Path::over(server.clone(), meddling(&server, "raced")).await;
        assert_eq!(path.json("POST", CONFIG_MAPS, &config_map("raced")).await.0, 201);
        SEEN.lock().unwrap().retain(|review| review["name"] != "raced");
        let (code, _) = path.ask(method, &at("raced"), content_type, body).await;
        assert_eq!(code, 200, "change {i}");
        let stored = path.stored(&at("raced")).await;
        assert_eq!(stored["data"]["changed"], "yes", "change {i}");
        let reviews = seen("raced");
        assert_eq!(reviews.len(), 2, "change {i} was not admitted again");
        assert_eq!(reviews[1]["oldObject"]["data"]["meddled"], "yes", "change {i}");
        assert_eq!(reviews[1]["object"]["data"], stored["data"], "change {i}");
    }
}

#[tokio::test]
async fn a_delete_that_meets_a_change_is_admitted_again() {
    let server = embedded::Server::new(Arc::default());
    let path = Path::over(server.clone(), meddling(&server, "delete-raced")).await;
    assert_eq!(path.json("POST", CONFIG_MAPS, &config_map("delete-raced")).await.0, 201);
    assert_eq!(path.ask("DELETE", &at("delete-raced"), "application/json", "").await.0, 200);
    let deletes: Vec<Value> =
        seen("delete-raced").into_iter().filter(|review| review["operation"] == "DELETE").collect();
    assert_eq!(deletes.len(), 2);
    assert_eq!(deletes[1]["oldObject"]["data"]["meddled"], "yes");
}

#[tokio::test]
async fn a_version_that_the_client_names_is_its_own_affair() {
    let path = Path::new().await;
    path.json("POST", CONFIG_MAPS, &config_map("versioned")).await;
    let mut stale = config_map("versioned");
    stale["metadata"]["resourceVersion"] = json!("1");
    let (code, status) = path.json("PUT", &at("versioned"), &stale).await;
    assert_eq!((code, &status["reason"]), (409, &json!("Conflict")));
    let text = "Operation cannot be fulfilled on configmaps \"versioned\": the object has been modified; \
                please apply your changes to the latest version and try again";
    assert_eq!(status["message"], text);
}

#[tokio::test]
async fn deletes_a_collection_item_by_item_and_stops_at_the_first_refusal() {
    let path = Path::new().await;
    for name in ["c1", "c2"] {
        path.json("POST", CONFIG_MAPS, &config_map(name)).await;
    }
    let (code, list) = path.ask("DELETE", CONFIG_MAPS, "application/json", "").await;
    assert_eq!((code, list["items"].as_array().unwrap().len()), (200, 2));
    assert!(seen("c2").iter().any(|review| review["operation"] == "DELETE" && review["name"] == ""));
    let kept =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept", "labels": {"refuse": "me"}}});
    let create = Request::post(CONFIG_MAPS).body(full(kept.to_string())).unwrap();
    crate::upstream::Transport::send(&path.server, create).await.unwrap();
    let (code, status) = path.ask("DELETE", CONFIG_MAPS, "application/json", "").await;
    assert_eq!(code, 403, "{status}");
    assert_eq!(path.stored(&at("kept")).await["kind"], "ConfigMap");
}

#[tokio::test]
async fn a_put_of_what_is_missing_creates_some_kinds_only() {
    let path = Path::new().await;
    let (code, status) = path.json("PUT", &at("missing"), &config_map("missing")).await;
    assert_eq!((code, &status["message"]), (404, &json!("configmaps \"missing\" not found")));
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "missing-lease"}});
    let uri = "/apis/coordination.k8s.io/v1/namespaces/default/leases/missing-lease";
    assert_eq!(path.json("PUT", uri, &lease).await.0, 201);
    assert_eq!(seen("missing-lease")[0]["operation"], "CREATE");
}

#[tokio::test]
async fn a_put_that_creates_shows_plugins_the_version_of_the_client() {
    let path = Path::new().await;
    let metadata = json!({"name": "versioned-lease", "resourceVersion": "7", "labels": {"trick": "tell-version"}});
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata});
    let uri = "/apis/coordination.k8s.io/v1/namespaces/default/leases/versioned-lease";
    let (code, created) = path.json("PUT", uri, &lease).await;
    assert_eq!((code, &created["metadata"]["labels"]["version"]), (201, &json!("some")), "{created}");
}

#[tokio::test]
async fn a_patch_may_not_move_the_object() {
    let path = Path::new().await;
    path.json("POST", CONFIG_MAPS, &config_map("still")).await;
    let merge = "application/merge-patch+json";
    let (code, status) = path.ask("PATCH", &at("still"), merge, r#"{"metadata":{"name":"moved"}}"#).await;
    assert_eq!(
        (code, &status["message"]),
        (400, &json!("the name of the object (moved) does not match the name on the URL (still)"))
    );
    let (code, _) = path.ask("PATCH", &at("still"), merge, r#"{"metadata":{"namespace":"elsewhere"}}"#).await;
    assert_eq!(code, 400);
}

#[tokio::test]
async fn no_trick_carries_a_write_past_admission() {
    let path = Path::new().await;
    let object = config_map("tricked").to_string();
    let trick = |method: &'static str, uri: &'static str, headers: &'static [(&str, &str)]| (method, uri, headers);
    for (method, uri, headers) in [
        trick("POST", "//api/v1/namespaces/default/configmaps", &[]),
        trick("POST", "/api/v1/namespaces/default//configmaps", &[]),
        trick("POST", "/api/v1/namespaces/default/x/../configmaps", &[]),
        trick("POST", "/api/v1/namespaces/default/%2e%2e/default/configmaps", &[]),
        trick("POST", "/api/v1/namespaces%2Fdefault%2Fconfigmaps", &[]),
        trick("POST", "/API/v1/namespaces/default/configmaps", &[]),
        trick("POST", "/api/v1/watch/namespaces/default/configmaps", &[]),
        trick("POST", "/api/v1/proxy/namespaces/default/configmaps", &[]),
        trick("GET", "/api/v1/namespaces/default/configmaps/tricked", &[("x-http-method-override", "PUT")]),
        trick(
            "GET",
            "/api/v1/namespaces/default/configmaps",
            &[("x-http-method", "POST"), ("x-method-override", "POST")],
        ),
        trick("POST", "/api/v1/namespaces/default/configmaps", &[("content-type", "application/cbor")]),
        trick("POST", "/api/v1/namespaces/default/configmaps", &[("content-type", "text/plain")]),
        trick("PATCH", "/api/v1/namespaces/default/configmaps/tricked", &[("content-type", "application/json")]),
        trick("QUERY", "/api/v1/namespaces/default/configmaps", &[]),
    ] {
        let response = path.ask_raw(method, uri, headers, object.clone()).await;
        let code = response.status().as_u16();
        assert!(code >= 400 || method == "GET", "{method} {uri}: {code}");
        assert_eq!(path.stored(&at("tricked")).await["reason"], "NotFound", "{method} {uri} stored it");
    }
    assert!(seen("tricked").is_empty());
}

#[tokio::test]
async fn a_read_is_not_admitted() {
    let path = Path::new().await;
    let (code, _) = path.ask("GET", "/api/v1/namespaces/kube-public", "", "").await;
    assert_eq!(code, 200);
    assert!(seen("kube-public").is_empty());
}

#[tokio::test]
async fn an_unreachable_api_server_is_503_at_once() {
    let server = embedded::Server::new(Arc::default());
    let down = from_fn(|_| async { Err(crate::upstream::UpstreamError::Unreachable("down".into())) });
    let path = Path::over(server, down).await;
    for (method, uri) in [("GET", CONFIG_MAPS), ("POST", CONFIG_MAPS), ("DELETE", &*at("x"))] {
        let body = if method == "POST" { config_map("x").to_string() } else { String::new() };
        let (code, status) = path.ask(method, uri, "application/json", body).await;
        assert_eq!((code, &status["kind"]), (503, &json!("Status")), "{method} {uri}");
    }
}

#[tokio::test]
async fn a_request_has_a_seat_until_its_answer_is_audited() {
    let endless = from_fn(|_| async {
        let body = futures_util::stream::pending::<Result<http_body::Frame<bytes::Bytes>, crate::body::BoxError>>();
        Ok(Response::new(http_body_util::StreamBody::new(body).boxed_unsync()))
    });
    let mut path = Path::over(embedded::Server::new(Arc::default()), endless).await;
    path.pipeline.audit = audit::testing::audit("RequestResponse", Arc::<audit::testing::Lines>::default());
    let one = Limits { requests_inflight: 1, ..Limits::default() };
    path.pipeline.in_flight = InFlight::alone(&one);
    let mut waiting = Box::pin(path.ask("GET", CONFIG_MAPS, "", ""));
    for _ in 0..20 {
        assert!(futures_util::FutureExt::now_or_never(&mut waiting).is_none());
        tokio::task::yield_now().await;
    }
    assert_eq!(path.ask("GET", CONFIG_MAPS, "", "").await.0, 429);
    drop(waiting);
    let mut next = Box::pin(path.ask("GET", CONFIG_MAPS, "", ""));
    assert!(futures_util::FutureExt::now_or_never(&mut next).is_none());
}
