//! A cluster in front of an API server that answers by rote.

use super::*;
use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::future::pending;

/// A client whose every request `answer` answers; a watch that it answers with `None` stays open and silent.
pub(super) fn client(answer: impl Fn(&Method, &str) -> Option<(u16, Value)> + Send + Sync + 'static) -> kube::Client {
    let answer = Arc::new(answer);
    let service = tower::service_fn(move |request: Request<Body>| {
        let answer = answer(request.method(), &request.uri().path_and_query().unwrap().to_string());
        async move {
            let Some((code, body)) = answer else { return pending().await };
            let body = Body::from(serde_json::to_vec(&body).unwrap());
            Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
        }
    });
    kube::Client::new(service, "default")
}

fn status(code: u16, reason: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": format!("it is {reason}"),
        "reason": reason, "details": {"name": "x", "kind": "namespaces"}, "code": code})
}

#[tokio::test]
async fn lists_what_is_needed_and_nothing_else() {
    let client = client(|_, url| match url {
        url if url.contains("watch=true") => None,
        url if url.starts_with("/api/v1/namespaces?") => Some((
            200,
            json!({"kind": "NamespaceList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": [
                {"metadata": {"name": "a", "labels": {"l": "1"}}, "status": {"phase": "Active"}},
                {"metadata": {"name": "b"}, "status": {"phase": "Terminating"}},
            ]}),
        )),
        url => panic!("nobody needs {url}"),
    });
    let cluster = Cluster::start(client, &[Need::Namespaces], Limits::default());
    assert!(cluster.wait_synced().await && cluster.is_synced() && cluster.unsynced().is_empty());
    assert_eq!(cluster.namespace("a").unwrap().labels.get("l"), Some("1"));
    assert!(cluster.namespace("b").unwrap().terminating);
    assert!(cluster.namespace("c").is_none());
    assert!(cluster.mutating_webhooks().is_empty() && cluster.service("a", "b").is_none());
}

/// Unescaped, the API server would be asked for another namespace.
#[tokio::test]
async fn a_clients_name_of_a_namespace_stays_one_segment() {
    let client = client(|_, url| match url {
        "/api/v1/namespaces/a%3Fx%23y" => Some((404, status(404, "NotFound"))),
        _ => Some((403, status(403, "Forbidden"))),
    });
    let cluster = Cluster::start(client, &[], Limits::default());
    assert!(cluster.live_namespace("a?x#y").await.unwrap().is_none());
    assert_eq!(
        live::path::<k8s_openapi::api::core::v1::ResourceQuota>("a?x#y"),
        "/api/v1/namespaces/a%3Fx%23y/resourcequotas"
    );
}

#[tokio::test(start_paused = true)]
async fn is_not_synced_while_a_list_is_refused_and_says_why() {
    let client = client(|_, _| Some((403, status(403, "Forbidden"))));
    let cluster = Cluster::start(client, &[Need::Services], Limits::default());
    assert!(!cluster.wait_synced().await);
    let unsynced = cluster.unsynced();
    assert_eq!(unsynced[0].0, Need::Services);
    assert!(unsynced[0].1.contains("it is Forbidden"), "{unsynced:?}");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_stalls_is_begun_anew() {
    let calls = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = calls.clone();
    let client = client(move |_, url| {
        let first = counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0;
        let list =
            json!({"kind": "ServiceList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []});
        (!first && !url.contains("watch=true")).then_some((200, list))
    });
    let limits = Limits { ready_timeout: Duration::from_secs(1000), ..Limits::default() };
    let cluster = Cluster::start(client, &[Need::Services], limits);
    assert!(cluster.wait_synced().await);
}

#[tokio::test]
async fn asks_the_api_server_itself_for_a_live_namespace() {
    let client = client(|_, url| match url {
        "/api/v1/namespaces/a" => Some((200, json!({"metadata": {"name": "a"}}))),
        "/api/v1/namespaces/none" => Some((404, status(404, "NotFound"))),
        _ => Some((403, status(403, "Forbidden"))),
    });
    let cluster = Cluster::start(client, &[], Limits::default());
    assert!(cluster.is_synced());
    assert_eq!(cluster.live_namespace("a").await.unwrap().unwrap().name, "a");
    assert!(cluster.live_namespace("none").await.unwrap().is_none());
    let refused = cluster.live_namespace("x").await.unwrap_err();
    assert_eq!(serde_json::to_value(refused).unwrap(), status(403, "Forbidden"));
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_does_not_answer_is_a_timeout() {
    let cluster = Cluster::start(client(|_, _| None), &[], Limits::default());
    assert_eq!(cluster.live_namespace("a").await.unwrap_err().code, 504);
    assert_eq!(cluster.create_namespace("a").await.unwrap_err().reason, "Timeout");
}

#[tokio::test]
async fn a_namespace_that_exists_already_counts_as_created() {
    for (code, answer, expected) in [
        (201, json!({"metadata": {"name": "a"}}), Ok(())),
        (409, status(409, "AlreadyExists"), Ok(())),
        (403, status(403, "Forbidden"), Err(403)),
    ] {
        let client = client(move |method, url| {
            assert_eq!((method, url.trim_end_matches(['?', '&'])), (&Method::POST, "/api/v1/namespaces"));
            Some((code, answer.clone()))
        });
        let cluster = Cluster::start(client, &[], Limits::default());
        assert_eq!(cluster.create_namespace("a").await.map_err(|status| status.code), expected);
    }
}

#[tokio::test]
async fn a_fixed_cluster_tells_cache_and_api_server_apart() {
    let named = |name: &str| Namespace { name: name.to_owned(), ..Namespace::default() };
    let cluster = Cluster::fixed(FixedState {
        namespaces: vec![named("cached")],
        live_namespaces: Some(vec![named("live")]),
        ..FixedState::default()
    });
    assert!(cluster.namespace("cached").is_some() && cluster.namespace("live").is_none());
    assert!(cluster.live_namespace("cached").await.unwrap().is_none());
    cluster.create_namespace("new").await.unwrap();
    assert!(cluster.live_namespace("new").await.unwrap().is_some());
    assert!(!Cluster::fixed(FixedState { unsynced: true, ..FixedState::default() }).is_synced());
}

#[tokio::test]
async fn its_watches_end_with_it() {
    let (sender, mut asked) = tokio::sync::mpsc::unbounded_channel::<()>();
    let client = client(move |_, _| {
        let _ = &sender;
        None
    });
    drop(Cluster::start(client, &[Need::Namespaces], Limits::default()));
    // The last holder of the sender is the watching task.
    assert!(asked.recv().await.is_none());
}
