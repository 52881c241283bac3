//! The validating phase sees the object as it would be stored; that form is never sent.

use super::*;
use crate::config::ValidationView;
use crate::kind::{GroupVersionKind, GroupVersionResource};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn watched(name: &str) -> Value {
    let mut object = config_map(name);
    object["metadata"]["labels"] = json!({"look": "stored"});
    object
}

fn deployment(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "labels": {"look": "stored"}},
           "spec": {"selector": {"matchLabels": {"a": "b"}},
                    "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
}

/// The method, URL and body of every write.
type Writes = Arc<Mutex<Vec<(String, String, Value)>>>;

/// Returns a transport that records the writes.
fn recorded(server: &Arc<embedded::Server>) -> (SharedTransport, Writes) {
    let (server, writes) = (server.clone(), Arc::new(Mutex::new(Vec::new())));
    let written = writes.clone();
    let transport = from_fn(move |request: Request<Body>| {
        let (server, written) = (server.clone(), written.clone());
        async move {
            let (parts, body) = request.into_parts();
            let bytes = body.collect().await.unwrap().to_bytes();
            if parts.method != Method::GET && !parts.uri.path().ends_with("/selfsubjectaccessreviews") {
                let value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
                written.lock().unwrap().push((parts.method.to_string(), parts.uri.to_string(), value));
            }
            crate::upstream::Transport::send(&server, Request::from_parts(parts, full(bytes))).await
        }
    });
    (transport, writes)
}

#[tokio::test]
async fn a_create_is_validated_as_it_would_be_stored_and_sent_as_it_was_admitted() {
    let server = embedded::Server::new(Arc::default());
    let (transport, writes) = recorded(&server);
    let path = Path::over(server, transport).await;
    let object = watched("view-create");
    assert_eq!(path.json("POST", CONFIG_MAPS, &object).await.0, 201);
    let shown = &seen("view-create")[0]["object"];
    assert!(shown["metadata"]["creationTimestamp"].is_string(), "{shown}");
    assert_eq!(shown["metadata"]["uid"], Value::Null);
    let writes = writes.lock().unwrap();
    assert_eq!(writes.len(), 2, "{writes:?}");
    assert_eq!((&*writes[0].1, &writes[0].2), (&*format!("{CONFIG_MAPS}?dryRun=All"), &object));
    assert_eq!((&*writes[1].1, &writes[1].2), (CONFIG_MAPS, &object));
}

#[tokio::test]
async fn since_1_37_the_strategy_sets_the_resources_of_a_pod_as_a_whole() {
    for (pod_resources, name) in [(true, "view-pod-1-36"), (false, "view-pod-1-37")] {
        let server = embedded::Server::new(Arc::default());
        let (transport, writes) = recorded(&server);
        let mut path = Path::over(server, transport).await;
        path.pipeline.defaulting.pod_resources = pod_resources;
        let resources = json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}});
        let container = json!({"name": "c", "image": "i", "resources": resources});
        let spec = json!({"containers": [container], "resources": {"requests": {"cpu": "2"}}});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"mark": "me"}}, "spec": spec});
        let (code, _) = path.json("POST", "/api/v1/namespaces/default/pods", &pod).await;
        assert_eq!(code, 201);
        // The mutating phase changes the pod, and sends on what it saw; the validating phase has no dry run.
        let writes = writes.lock().unwrap();
        assert_eq!(writes[0].2["spec"]["resources"], json!({"requests": {"cpu": "2"}}), "{writes:?}");
        let expected = match pod_resources {
            true => json!({"requests": {"cpu": "2"}}),
            false => json!({"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}),
        };
        assert_eq!(seen(name)[0]["object"]["spec"]["resources"], expected);
    }
}

#[tokio::test]
async fn the_trial_of_a_dry_run_is_its_answer() {
    let server = embedded::Server::new(Arc::default());
    let (transport, writes) = recorded(&server);
    let path = Path::over(server, transport).await;
    let dry_run = format!("{CONFIG_MAPS}?dryRun=All");
    let (code, answer) = path.json("POST", &dry_run, &watched("view-dry")).await;
    assert_eq!((code, &answer["metadata"]["name"]), (201, &json!("view-dry")));
    assert!(answer["metadata"]["uid"].is_string(), "{answer}");
    assert_eq!((seen("view-dry").len(), writes.lock().unwrap().len()), (1, 1));
    let as_table = [("content-type", "application/json"), ("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")];
    let answer = path.ask_raw("POST", &dry_run, &as_table, watched("view-dry").to_string()).await;
    let answer: Value = serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap();
    assert_eq!((&answer["kind"], writes.lock().unwrap().len()), (&json!("Table"), 3));
    let mut refused = watched("view-dry");
    refused["metadata"]["labels"]["refuse"] = json!("me");
    assert_eq!(path.json("POST", &dry_run, &refused).await.0, 403);
    assert_eq!(path.stored(&at("view-dry")).await["reason"], "NotFound");
}

#[tokio::test]
async fn changes_are_validated_as_they_would_be_stored() {
    let path = Path::new().await;
    let uri = format!("{DEPLOYMENTS}/view-change");
    assert_eq!(path.json("POST", DEPLOYMENTS, &deployment("view-change")).await.0, 201);
    let mut put = deployment("view-change");
    put["spec"]["replicas"] = json!(2);
    put["status"] = json!({"replicas": 7});
    assert_eq!(path.json("PUT", &uri, &put).await.0, 200);
    let patch = json!({"spec": {"replicas": 3}, "status": {"replicas": 7}}).to_string();
    assert_eq!(path.ask("PATCH", &uri, "application/merge-patch+json", patch).await.0, 200);
    let reviews = seen("view-change");
    let generations: Vec<_> = reviews.iter().map(|review| &review["object"]["metadata"]["generation"]).collect();
    assert_eq!(generations, [1, 2, 3]);
    assert_ne!(reviews[2]["object"]["status"]["replicas"], 7);
    assert_eq!(reviews[2]["object"]["metadata"]["uid"], reviews[2]["oldObject"]["metadata"]["uid"]);
    assert_eq!(path.stored(&uri).await["spec"]["replicas"], 3);
}

#[tokio::test]
async fn an_invalid_object_is_reported_before_the_refusal_of_a_plugin_that_reads_the_submitted_object() {
    let path = Path::new().await;
    for (name, code) in [("not%a%name", 422), ("view-refused", 403)] {
        let mut object = config_map(name);
        object["metadata"]["labels"] = json!({"refuse": "me"});
        assert_eq!(path.json("POST", CONFIG_MAPS, &object).await.0, code, "{name}");
    }
}

#[tokio::test]
async fn a_taken_address_is_refused_before_the_validating_phase() {
    const SERVICES: &str = "/api/v1/namespaces/default/services";
    let path = Path::new().await;
    let service = |name: &str, labels: Value, spec: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "labels": labels}, "spec": spec});
    let at = |ip: &str| json!({"clusterIP": ip, "ports": [{"port": 80}]});
    let (code, first) =
        path.json("POST", SERVICES, &service("address-first", json!({}), json!({"ports": [{"port": 80}]}))).await;
    let ip = first["spec"]["clusterIP"].as_str().unwrap();
    assert_eq!(code, 201);
    let external = json!({"type": "ExternalName", "externalName": "e.test"});
    assert_eq!(
        path.json("POST", SERVICES, &service("external-changed", json!({"look": "stored"}), external)).await.0,
        201
    );
    for (name, method, labels) in [
        ("address-taken", "POST", json!({"look": "stored"})),
        ("address-refused", "POST", json!({"refuse": "me"})),
        ("external-changed", "PUT", json!({"look": "stored"})),
    ] {
        let before = seen(name).len();
        let uri = if method == "PUT" { format!("{SERVICES}/{name}") } else { SERVICES.to_owned() };
        let (code, status) = path.json(method, &uri, &service(name, labels.clone(), at(ip))).await;
        let why = format!(
            "Service \"{name}\" is invalid: spec.clusterIPs: Invalid value: [\"{ip}\"]: failed to allocate IP {ip}: provided IP is \
             already allocated"
        );
        assert_eq!((code, &status["message"]), (422, &json!(why)), "{name}");
        assert_eq!(seen(name).len(), before, "{name}");
        // A dry run allocates nothing.
        if labels.get("look").is_some() {
            let dry = format!("{uri}?dryRun=All");
            assert!(path.json(method, &dry, &service(name, labels, at(ip))).await.0 < 300, "{name}");
        }
    }
    // The Service keeps its own address.
    let kept = service("address-first", json!({"look": "stored"}), at(ip));
    assert_eq!(path.json("PUT", &format!("{SERVICES}/address-first"), &kept).await.0, 200);
}

#[tokio::test]
async fn an_invalid_object_is_refused_before_the_validating_phase() {
    let path = Path::new().await;
    let mut object = watched("not%a%name");
    object["metadata"]["labels"]["refuse"] = json!("me");
    assert_eq!(path.json("POST", CONFIG_MAPS, &object).await.0, 422);
    object["metadata"]["name"] = json!("view-refused");
    assert_eq!(path.json("POST", CONFIG_MAPS, &object).await.0, 403);
    assert_eq!(path.stored(&at("view-refused")).await["reason"], "NotFound");
}

#[tokio::test]
async fn a_taken_name_is_reported_after_the_validating_phase() {
    let path = Path::new().await;
    assert_eq!(path.json("POST", CONFIG_MAPS, &config_map("view-taken")).await.0, 201);
    let (code, status) = path.json("POST", CONFIG_MAPS, &watched("view-taken")).await;
    assert_eq!((code, &status["reason"]), (409, &json!("AlreadyExists")));
    let reviews = seen("view-taken");
    assert_eq!(reviews.len(), 2);
    assert!(reviews[1]["object"]["metadata"]["creationTimestamp"].is_string(), "{}", reviews[1]);
    let mut refused = watched("view-taken");
    refused["metadata"]["labels"]["refuse"] = json!("me");
    assert_eq!(path.json("POST", CONFIG_MAPS, &refused).await.0, 403);
}

#[tokio::test]
async fn annotations_of_the_phase_count_unless_the_api_server_refuses_first() {
    let lines = Arc::<audit::testing::Lines>::default();
    let mut path = Path::new().await;
    path.pipeline.audit = audit::testing::audit("Metadata", lines.clone());
    let noted = || -> Vec<String> {
        let event = lines.last();
        let annotations = event["annotations"].as_object().unwrap().keys();
        annotations.filter_map(|key| key.strip_prefix("witness.test/").map(str::to_owned)).collect()
    };
    for (name, note, code, expected) in [
        ("not%a%name", "zero", 422, &[][..]),
        ("note-one", "one", 201, &["one"]),
        ("note-one", "taken", 409, &["taken"]),
        ("note-two", "two", 201, &["two"]),
    ] {
        let mut object = config_map(name);
        object["metadata"]["labels"] = json!({"note": note});
        assert_eq!(path.json("POST", CONFIG_MAPS, &object).await.0, code, "{name}");
        assert_eq!(noted(), expected, "{name}");
    }
    // A deletecollection annotates for each object.
    let these = format!("{CONFIG_MAPS}?labelSelector=note");
    assert_eq!(path.json("DELETE", &these, &json!({})).await.0, 200);
    assert_eq!(noted(), ["one", "two"]);
}

#[test]
fn a_renamed_object_has_its_name_wherever_a_value_equals_the_old_name() {
    let mut value =
        json!({"metadata": {"name": "a-x", "labels": {"n": "a-x", "a-x": "b", "c": "a-xy"}}, "list": ["a-x", 1, null]});
    crate::pipeline::view::rename(&mut value, "a-x", "a");
    assert_eq!(
        value,
        json!({"metadata": {"name": "a", "labels": {"n": "a", "a-x": "b", "c": "a-xy"}}, "list": ["a", 1, null]})
    );
}

#[tokio::test]
async fn a_write_without_readers_of_the_result_has_no_dry_run() {
    let server = embedded::Server::new(Arc::default());
    let (transport, writes) = recorded(&server);
    let mut path = Path::over(server, transport).await;
    assert_eq!(path.json("POST", CONFIG_MAPS, &config_map("view-unwatched")).await.0, 201);
    path.pipeline.writes.validation_view = ValidationView::Submitted;
    assert_eq!(path.json("POST", CONFIG_MAPS, &watched("view-submitted")).await.0, 201);
    assert_eq!(path.json("PUT", &at("view-submitted"), &watched("view-submitted")).await.0, 200);
    assert_eq!(seen("view-submitted")[0]["object"]["metadata"]["creationTimestamp"], Value::Null);
    assert_eq!(writes.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn a_write_to_an_aggregated_api_has_no_dry_run_before_admission() {
    const THINGS: &str = "/apis/aggregated.example/v1/namespaces/default/things";
    let on = GroupVersionResource::new("aggregated.example", "v1", "things");
    let kind = GroupVersionKind::new("aggregated.example", "v1", "Thing");
    let scale = GroupVersionKind::new("autoscaling", "v1", "Scale");
    let verbs: Vec<_> = ["create", "get", "patch", "update"].map(str::to_owned).into();
    let scale = discovery::Subresource { kind: scale, verbs: verbs.clone() };
    let thing = |kind: &str, group: &str| {
        json!({"apiVersion": format!("{group}/v1"), "kind": kind, "metadata": {"name": "it", "namespace": "default", "uid": "u",
               "labels": {"look": "stored", "refuse": "me"}}})
    };
    let writes = Arc::new(AtomicUsize::new(0));
    let (written, stored) = (writes.clone(), thing("Thing", "aggregated.example"));
    let transport = from_fn(move |request: Request<Body>| {
        let (written, mut answer) = (written.clone(), stored.clone());
        async move {
            if request.uri().path().ends_with("/selfsubjectaccessreviews") {
                // An access review for a refused caller stores nothing.
                let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "metadata": {},
                                    "spec": {}, "status": {"allowed": true}});
                return Ok(Response::new(full(review.to_string())));
            }
            if request.method() != Method::GET {
                written.fetch_add(1, Ordering::SeqCst);
            }
            answer["metadata"]["resourceVersion"] = json!("7");
            if request.uri().path().ends_with("/scale") {
                answer["apiVersion"] = json!("autoscaling/v1");
                answer["kind"] = json!("Scale");
            }
            Ok(Response::new(full(answer.to_string())))
        }
    });
    let mut path = Path::over(embedded::Server::new(Arc::default()), transport).await;
    path.pipeline.discovery = Discovery::fixed([(
        on,
        discovery::Resource { kind, namespaced: true, verbs, subresources: [("scale".to_owned(), scale)].into() },
    )]);
    let (object, scale) = (thing("Thing", "aggregated.example"), thing("Scale", "autoscaling"));
    let merge = json!({"metadata": {"labels": {"a": "b"}}});
    let apply = "application/apply-patch+yaml";
    for (method, rest, content_type, body, code) in [
        ("POST", "", "application/json", &object, 403),
        ("PUT", "/it", "application/json", &object, 403),
        ("PUT", "/it/scale", "application/json", &scale, 403),
        ("PATCH", "/it", "application/merge-patch+json", &merge, 403),
        ("PUT", "/it?dryRun=All", "application/json", &object, 403),
        ("PATCH", "/it?fieldManager=m", apply, &object, 501),
        ("PATCH", "/it?fieldManager=m&dryRun=All", apply, &object, 501),
    ] {
        let (found, status) = path.ask(method, &format!("{THINGS}{rest}"), content_type, body.to_string()).await;
        assert_eq!((found, writes.load(Ordering::SeqCst)), (code, 0), "{method} {rest}: {status}");
    }
}
