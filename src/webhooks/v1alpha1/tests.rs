//! Hooks at a real TLS server in the process.

use super::*;
use crate::admission::Operation;
use crate::backend::testing::{HookServer, Reply};
use crate::cluster::{Endpoints, FixedState};
use crate::metrics::Registry;
use crate::webhooks::tests::{configmap, create, default_state};
use prometheus::TextEncoder;
use serde_json::{Value, json};
use tokio::sync::{Barrier, oneshot};

/// A hook for every operation on configmaps, at a Service of the namespace `lab`.
pub(crate) fn hook(name: &str, service: &str, server: &HookServer) -> Value {
    let client = json!({"service": {"namespace": "lab", "name": service}, "caBundle": server.ca_base64()});
    let rule = json!({"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]});
    json!({"name": name, "clientConfig": client, "rules": [rule]})
}

/// A cluster with these hooks, and with Services whose endpoints are these servers.
pub(crate) fn state(hooks: &[Value], services: &[(&str, u16)]) -> FixedState {
    let service = |(name, _): &(&str, u16)| {
        let spec = json!({"clusterIP": "10.0.0.1", "ports": [{"port": 443}]});
        serde_json::from_value(json!({"metadata": {"name": name, "namespace": "lab"}, "spec": spec})).unwrap()
    };
    let slice = |(name, port): &(&str, u16)| {
        let labels = json!({"kubernetes.io/service-name": name});
        let slice = json!({"metadata": {"name": name, "namespace": "lab", "labels": labels}, "addressType": "IPv4",
            "endpoints": [{"addresses": ["127.0.0.1"]}], "ports": [{"name": "", "port": port}]});
        serde_json::from_value(slice).unwrap()
    };
    let configuration = json!({"metadata": {"name": "c"}, "externalAdmissionHooks": hooks});
    let configuration = serde_json::from_value(configuration).unwrap();
    FixedState { services: services.iter().map(service).collect(), ..default_state() }
        .with::<Endpoints>(services.iter().map(slice).collect())
        .cached::<ExternalAdmissionHookConfiguration>(vec![configuration])
}

pub(crate) fn external(state: FixedState) -> (External, Registry) {
    let registry = Registry::new();
    let metrics = Arc::new(Metrics::new(&registry).unwrap());
    let cluster = Cluster::fixed(state);
    let configurations = RemovedObjects::ApiServer(cluster.clone());
    (External::new(cluster, configurations, metrics, &Limits::default(), Kubeconfig::default()), registry)
}

pub(crate) fn reply(status: Value) -> Reply {
    let review = json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1alpha1", "status": status});
    Reply::Http(200, "application/json", review.to_string().into_bytes())
}

pub(crate) async fn server(reply: Reply) -> HookServer {
    HookServer::start_named(&[("", reply)], &["a.lab.svc", "b.lab.svc"]).await
}

/// Asks one hook about a create of a configmap.
async fn asked(reply: Reply) -> (Result<(), Denial>, HookServer) {
    let server = server(reply).await;
    let (external, _) = external(state(&[hook("a.lab.io", "a", &server)], &[("a", server.port())]));
    (external.admit(&create(configmap())).await, server)
}

#[tokio::test]
async fn a_hook_is_asked_as_by_a_kube_apiserver() {
    let (answer, server) = asked(reply(json!({"allowed": true}))).await;
    answer.unwrap();
    let seen = &server.seen()[0];
    assert_eq!(seen.path, "/");
    for (header, value) in [
        ("content-type", "application/json"),
        ("accept", "application/json, */*"),
        ("user-agent", "kube-apiserver-admission"),
        ("host", &*format!("127.0.0.1:{}", server.port())),
    ] {
        assert_eq!(seen.headers[header], value);
    }
    let body: Value = serde_json::from_str(&review::body(&create(configmap())).unwrap()).unwrap();
    assert_eq!(seen.review, body);
}

#[tokio::test]
async fn a_refusal_is_the_hooks_status() {
    for (status, code, message) in [
        (
            json!({"status": "Failure", "message": "no from the hook", "reason": "Conflict", "code": 409}),
            409,
            "no from the hook",
        ),
        (json!({"status": "Success", "code": 200}), 200, ""),
    ] {
        let (answer, _server) = asked(reply(json!({"allowed": false, "status": status}))).await;
        let status = answer.unwrap_err().into_status(&create(configmap()));
        assert_eq!((status.code, &*status.message), (code, message));
    }
}

#[tokio::test]
async fn a_refusal_without_an_explanation_is_an_error_without_a_reason() {
    let (answer, _server) = asked(reply(json!({"allowed": false}))).await;
    let status = answer.unwrap_err().into_status(&create(configmap()));
    let text = "admission webhook \"a.lab.io\" denied the request without explanation";
    assert_eq!((status.code, &*status.reason, &*status.message), (500, "", text));
}

#[tokio::test]
async fn a_broken_answer_allows() {
    let status = br#"{"kind": "Status", "apiVersion": "v1", "status": "Failure"}"#.to_vec();
    for reply in [
        Reply::Http(500, "application/json", b"{\"status\":{\"allowed\":false}}".to_vec()),
        Reply::Http(200, "text/plain", b"sorry".to_vec()),
        Reply::Http(200, "application/json", status),
        Reply::Reset,
        Reply::Bytes(b"HTTP/1.1 200 X\r\nContent-Length: 9\r\n\r\n{}".to_vec()),
    ] {
        let (answer, server) = asked(reply).await;
        answer.unwrap();
        assert!(!server.seen().is_empty());
    }
}

#[tokio::test]
async fn a_hook_that_cannot_be_reached_allows() {
    let denying = server(reply(json!({"allowed": false}))).await;
    let other = server(reply(json!({"allowed": false}))).await;
    let with = |field: &str, value: Value| {
        let mut hook = hook("a.lab.io", "a", &denying);
        hook["clientConfig"][field] = value;
        hook
    };
    let (open, closed) = (denying.port(), 1);
    for (hook, services, why) in [
        (with("caBundle", json!(other.ca_base64())), vec![("a", open)], "another CA"),
        (with("caBundle", Value::Null), vec![("a", open)], "no CA bundle"),
        (with("caBundle", json!("?")), vec![("a", open)], "no base64"),
        (with("caBundle", json!("eA==")), vec![("a", open)], "no certificate"),
        (with("service", json!({"namespace": "lab", "name": "c"})), vec![("c", open)], "another name"),
        (with("service", json!({"namespace": "lab", "name": "none"})), vec![("a", open)], "no Service"),
        (with("service", json!({})), vec![("a", open)], "no reference"),
        (with("url", json!(denying.url("/"))), vec![("a", closed)], "nobody listens"),
    ] {
        let mut state = state(&[], &services);
        let configuration = json!({"metadata": {"name": "c"}, "externalAdmissionHooks": [hook]});
        match serde_json::from_value(configuration) {
            Ok(configuration) => state = state.cached::<ExternalAdmissionHookConfiguration>(vec![configuration]),
            Err(error) => panic!("{why}: {error}"),
        }
        let (external, registry) = external(state);
        external.admit(&create(configmap())).await.unwrap_or_else(|_| panic!("{why}"));
        let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        let open = "apiserver_admission_webhook_fail_open_count{name=\"a.lab.io\",type=\"admit\"} 1";
        assert!(text.lines().any(|line| line == open), "{why}");
    }
    assert!(denying.seen().is_empty());
}

#[tokio::test]
async fn three_failing_hooks_still_allow() {
    let server = server(Reply::Reset).await;
    let hooks = ["a", "b", "c"].map(|name| hook(&format!("{name}.lab.io"), name, &server));
    let (external, _) = external(state(&hooks, &[("a", server.port()), ("b", server.port())]));
    external.admit(&create(configmap())).await.unwrap();
}

#[tokio::test]
async fn silence_allows_when_the_time_is_over() {
    let server = server(Reply::Hang).await;
    let (external, _) = external(state(&[hook("a.lab.io", "a", &server)], &[("a", server.port())]));
    let mut attributes = create(configmap());
    attributes.context.deadline = Instant::now() + Duration::from_millis(200);
    external.admit(&attributes).await.unwrap();
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn all_hooks_are_asked_at_the_same_time() {
    // The server answers only when both requests are there.
    let server = server(Reply::Together(Arc::new(Barrier::new(2)))).await;
    let hooks = ["a", "b"].map(|name| hook(&format!("{name}.lab.io"), name, &server));
    let (external, _) = external(state(&hooks, &[("a", server.port()), ("b", server.port())]));
    external.admit(&create(configmap())).await.unwrap_err();
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn the_first_refusal_in_time_counts_and_all_calls_are_awaited() {
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..3).map(|_| oneshot::channel::<Option<Denial>>()).unzip();
    let calls = receivers.into_iter().map(|call| async { call.await.unwrap() }).collect::<FuturesUnordered<_>>();
    let mut refusal = Box::pin(first_refusal(calls));
    let mut answers =
        ["slow", "fast"].map(|text| Some(Denial::Plain(text.into()))).into_iter().chain([None]).zip(senders);
    let (slow, fast, allowing) = (answers.next().unwrap(), answers.next().unwrap(), answers.next().unwrap());
    for (answer, sender) in [fast, allowing] {
        sender.send(answer).unwrap();
        assert!(futures_util::poll!(&mut refusal).is_pending());
    }
    slow.1.send(slow.0).unwrap();
    assert!(matches!(refusal.await, Some(Denial::Plain(text)) if text == "fast"));
}

#[tokio::test]
async fn a_hook_that_does_not_match_is_not_asked() {
    let server = server(reply(json!({"allowed": false}))).await;
    let (external, _) = external(state(&[hook("a.lab.io", "a", &server)], &[("a", server.port())]));
    let mut attributes = create(configmap());
    attributes.resource.resource = "secrets".into();
    external.admit(&attributes).await.unwrap();
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn every_request_is_allowed_without_configurations() {
    let (external, _) = external(default_state());
    external.admit(&create(configmap())).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_request_is_refused_before_the_configurations_are_known() {
    let (external, _) = external(FixedState { unsynced: true, ..default_state() });
    let attributes = create(configmap());
    let status = external.admit(&attributes).await.unwrap_err().into_status(&attributes);
    let message = "Unable to refresh the ExternalAdmissionHook configuration: configuration is not ready";
    assert_eq!((status.code, &*status.reason, &*status.message), (500, "LoadingConfiguration", message));
    let details = status.details.unwrap();
    assert_eq!((&*details.name, &*details.kind, details.retry_after_seconds), ("CREATE", "configmaps", 1));
    assert_eq!(details.causes[0].reason, "ExternalAdmissionHookConfigurationFailure");
}

#[tokio::test]
async fn a_configuration_that_cannot_be_decoded_prevents_all_but_its_correction() {
    let (external, _) = external(default_state().undecodable::<ExternalAdmissionHookConfiguration>(&["c"]));
    let mut attributes = create(configmap());
    let status = external.admit(&attributes).await.unwrap_err().into_status(&attributes);
    assert_eq!((status.code, &*status.reason), (500, "LoadingConfiguration"));
    let api = &crate::removed::EXTERNAL_ADMISSION_HOOK_CONFIGURATIONS;
    attributes.resource.group = api.group.into();
    attributes.resource.resource = api.plural.into();
    external.admit(&attributes).await.unwrap();
}

#[tokio::test]
async fn the_configurations_themselves_are_not_exempt() {
    let server = server(reply(json!({"allowed": false}))).await;
    let api = &crate::removed::EXTERNAL_ADMISSION_HOOK_CONFIGURATIONS;
    let mut hook = hook("a.lab.io", "a", &server);
    hook["rules"][0]["apiGroups"] = json!([api.group]);
    hook["rules"][0]["apiVersions"] = json!([api.version]);
    hook["rules"][0]["resources"] = json!([api.plural]);
    let (external, _) = external(state(&[hook], &[("a", server.port())]));
    let mut attributes = create(json!({"metadata": {"name": "c"}}));
    attributes.operation = Operation::Update;
    attributes.resource = crate::kind::GroupVersionResource::new(api.group, api.version, api.plural);
    external.admit(&attributes).await.unwrap_err();
}
