//! A cluster in front of an API server with fixed answers.

use super::*;
use async_trait::async_trait;
use bytes::Bytes;
use http::{Method, Request, Response, Uri};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::client::Body;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::future::pending;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

/// A client whose requests `answer` answers. A watch with the answer `None` stays open and silent.
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
    let cluster = Cluster::start(client, &[Need::NAMESPACES], Arc::default());
    assert!(cluster.wait_synced().await && cluster.is_synced() && cluster.unsynced().is_empty());
    assert_eq!(cluster.namespace("a").unwrap().labels.get("l"), Some("1"));
    assert!(cluster.namespace("b").unwrap().terminating);
    assert!(cluster.namespace("c").is_none());
    assert!(cluster.all::<MutatingWebhookConfiguration>().is_empty() && cluster.service("a", "b").is_none());
}

/// Without escaping, the request would read another namespace.
#[tokio::test]
async fn a_clients_name_of_a_namespace_stays_one_segment() {
    let client = client(|_, url| match url {
        "/api/v1/namespaces/a%3Fx%23y" => Some((404, status(404, "NotFound"))),
        _ => Some((403, status(403, "Forbidden"))),
    });
    let cluster = Cluster::start(client, &[], Arc::default());
    assert!(cluster.live_namespace("a?x#y").await.unwrap().is_none());
    assert_eq!(
        live::path::<k8s_openapi::api::core::v1::ResourceQuota>("a?x#y"),
        "/api/v1/namespaces/a%3Fx%23y/resourcequotas"
    );
}

#[tokio::test(start_paused = true)]
async fn a_cluster_with_a_refused_list_is_not_synced_and_names_the_reason() {
    let client = client(|_, _| Some((403, status(403, "Forbidden"))));
    let cluster = Cluster::start(client, &[Need::SERVICES], Arc::default());
    assert!(!cluster.wait_synced().await);
    let unsynced = cluster.unsynced();
    assert_eq!(unsynced[0].0, Need::SERVICES);
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
    let limits = Arc::new(Limits { cache_sync_timeout: Duration::from_secs(1000), ..Limits::default() });
    let cluster = Cluster::start(client, &[Need::SERVICES], limits);
    assert!(cluster.wait_synced().await);
}

#[tokio::test]
async fn asks_the_api_server_itself_for_a_live_namespace() {
    let client = client(|_, url| match url {
        "/api/v1/namespaces/a" => Some((200, json!({"metadata": {"name": "a"}}))),
        "/api/v1/namespaces/none" => Some((404, status(404, "NotFound"))),
        _ => Some((403, status(403, "Forbidden"))),
    });
    let cluster = Cluster::start(client, &[], Arc::default());
    assert!(cluster.is_synced());
    assert_eq!(cluster.live_namespace("a").await.unwrap().unwrap().name, "a");
    assert!(cluster.live_namespace("none").await.unwrap().is_none());
    let refused = cluster.live_namespace("x").await.unwrap_err();
    assert_eq!(serde_json::to_value(refused).unwrap(), status(403, "Forbidden"));
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_does_not_answer_is_a_timeout() {
    let cluster = Cluster::start(client(|_, _| None), &[], Arc::default());
    assert_eq!(cluster.live_namespace("a").await.unwrap_err().code, 504);
}

#[tokio::test]
async fn a_namespace_that_exists_already_counts_as_created() {
    struct Answers(Result<(), Status>);
    #[async_trait]
    impl Loopback for Answers {
        async fn create(&self, path: &'static str, object: &Value) -> Result<(), Status> {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}});
            assert_eq!((path, object), ("/api/v1/namespaces", &namespace));
            self.0.clone()
        }

        async fn post(&self, uri: Uri, _: crate::body::Body, _: usize) -> Result<Response<Bytes>, Status> {
            panic!("nothing calls {uri}");
        }
    }
    let refused = |code, reason| Err(serde_json::from_value::<Status>(status(code, reason)).unwrap());
    for (answer, expected) in
        [(Ok(()), Ok(())), (refused(409, "AlreadyExists"), Ok(())), (refused(403, "Forbidden"), Err(403))]
    {
        let cluster = Cluster::start(client(|_, _| None), &[], Arc::default());
        let nobody = cluster.create_namespace("a").await.map_err(|status| status.code);
        assert_eq!(nobody, Err(500));
        let writes: Arc<dyn Loopback> = Arc::new(Answers(answer));
        cluster.loop_back_to(Arc::downgrade(&writes));
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
async fn the_watches_of_a_cluster_end_with_the_cluster() {
    let (sender, mut asked) = tokio::sync::mpsc::unbounded_channel::<()>();
    let client = client(move |_, _| {
        let _ = &sender;
        None
    });
    drop(Cluster::start(client, &[Need::NAMESPACES], Arc::default()));
    // The watching task is the last holder of the sender.
    assert!(asked.recv().await.is_none());
}

fn list(items: Value) -> Value {
    json!({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": items})
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_the_api_server_does_not_have_is_empty_until_it_appears() {
    let appeared = Arc::new(AtomicBool::new(false));
    let seen = appeared.clone();
    let client = client(move |_, url| match url {
        url if url.contains("watch=true") => None,
        url if url.starts_with("/apis?") => {
            let versions = |version: &str| json!([{"groupVersion": format!("g/{version}"), "version": version}]);
            let groups = json!([{"name": "apps", "versions": versions("v1")}, {"name": "discovery.k8s.io", "versions": versions("v1")}]);
            Some((200, json!({"groups": groups})))
        }
        url if url.starts_with("/apis/discovery.k8s.io/v1?") => Some((200, json!({"resources": []}))),
        _ if seen.load(Ordering::SeqCst) => Some((200, list(json!([{"metadata": {"name": "c"}, "spec": {}}])))),
        _ => Some((404, json!("404 page not found"))),
    });
    let cluster = Cluster::start(client, &[Need::DEVICE_CLASSES, Need::ENDPOINT_SLICES], Arc::default());
    assert!(cluster.wait_synced().await, "{:?}", cluster.unsynced());
    assert!(cluster.all::<k8s_openapi::api::resource::v1::DeviceClass>().is_empty() && cluster.stale().is_empty());
    let mut changes = cluster.changes(&[Need::DEVICE_CLASSES]);
    appeared.store(true, Ordering::SeqCst);
    assert!(changes.next().await);
    assert!(cluster.find::<k8s_openapi::api::resource::v1::DeviceClass>("", "c").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_404_of_what_discovery_has_is_no_empty_list() {
    let client = client(|_, url| match url {
        url if url.starts_with("/api/v1?") => Some((200, json!({"resources": [{"name": "services"}]}))),
        _ => Some((404, json!("404 page not found"))),
    });
    let cluster = Cluster::start(client, &[Need::SERVICES], Arc::default());
    assert!(!cluster.wait_synced().await);
    assert_eq!(cluster.unsynced()[0].1, "the API server answered 404: \"404 page not found\"");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_stays_broken_is_stale_and_what_it_held_counts() {
    let client = client(|_, url| match url.contains("watch=true") {
        true => Some((403, status(403, "Forbidden"))),
        false => Some((200, list(json!([{"metadata": {"name": "a", "namespace": "n"}}])))),
    });
    let cluster = Cluster::start(client, &[Need::SERVICES], Arc::default());
    assert!(cluster.wait_synced().await && cluster.stale().is_empty());
    tokio::time::sleep(Duration::from_secs(200)).await;
    assert!(cluster.stale().is_empty());
    tokio::time::sleep(Duration::from_secs(120)).await;
    let stale = cluster.stale();
    assert!(stale[0].1.contains("it is Forbidden"), "{stale:?}");
    assert!(cluster.is_synced() && cluster.service("n", "a").is_some());
    let registry = crate::metrics::Registry::new();
    registry.register(Box::new(Metrics::new(cluster).unwrap())).unwrap();
    let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
    assert!(text.contains("kube_admission_proxy_watch_last_event_seconds{kind=\"Services\"} 3"), "{text}");
    assert!(text.contains("kube_admission_proxy_watch_undecodable_objects{kind=\"Services\"} 0"), "{text}");
}

#[tokio::test]
async fn pages_that_are_too_large_are_asked_for_again_with_fewer_items() {
    let large = "x".repeat(3 << 20);
    let client = client(move |_, url| {
        let query: HashMap<String, String> =
            form_urlencoded::parse(url.split_once('?').unwrap().1.as_bytes()).into_owned().collect();
        if query.contains_key("watch") {
            return None;
        }
        let (limit, from): (usize, usize) =
            (query["limit"].parse().unwrap(), query.get("continue").map_or(0, |from| from.parse().unwrap()));
        let until = (from + limit).min(20);
        let items: Vec<_> = (from..until)
            .map(|n| json!({"metadata": {"name": format!("s{n}"), "namespace": "n"}, "status": large}))
            .collect();
        let next = if until < 20 { until.to_string() } else { String::new() };
        Some((200, json!({"metadata": {"resourceVersion": "1", "continue": next}, "items": items})))
    });
    let cluster = Cluster::start(client, &[Need::SERVICES], Arc::default());
    assert!(cluster.wait_synced().await, "{:?}", cluster.unsynced());
    assert_eq!(cluster.all::<Service>().len(), 20);
}

#[tokio::test(start_paused = true)]
async fn events_that_cannot_be_decoded_delay_no_other() {
    let lines = |count: usize| -> String {
        let event = |name: String, spec: Value, version: usize| {
            let metadata = json!({"name": name, "namespace": "n", "resourceVersion": version.to_string()});
            json!({"type": "MODIFIED", "object": {"metadata": metadata, "spec": spec}}).to_string() + "\n"
        };
        let odd = (0..count).map(|n| event("odd".to_owned(), json!("text"), n));
        odd.chain([event("good".to_owned(), json!({}), count)]).collect()
    };
    let service = tower::service_fn(move |request: Request<Body>| {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let lines = lines(100);
        async move {
            let body = match query.contains("watch=true") {
                false => list(json!([])).to_string(),
                true if query.contains("resourceVersion=1&") || query.ends_with("resourceVersion=1") => lines,
                true => return pending().await,
            };
            Ok::<_, Infallible>(Response::new(Body::from(body.into_bytes())))
        }
    });
    let cluster = Cluster::start(kube::Client::new(service, "default"), &[Need::SERVICES], Arc::default());
    let mut changes = cluster.changes(&[Need::SERVICES]);
    let begun = tokio::time::Instant::now();
    while cluster.service("n", "good").is_none() {
        assert!(changes.next().await);
    }
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert_eq!(cluster.check_decodable(&[Need::SERVICES], "n").unwrap_err().code, 500);
    assert!(cluster.check_decodable(&[Need::SERVICES], "m").is_ok());
    assert!(cluster.check_known::<Service>("n", "odd").is_err() && cluster.check_known::<Service>("n", "good").is_ok());
}

/// Answers with endless pages of namespaces. `next` gives the continue token after a page.
fn endless(pages: Arc<AtomicUsize>, next: impl Fn(usize) -> String + Send + Sync + 'static) -> kube::Client {
    client(move |_, url| {
        let page = pages.fetch_add(1, Ordering::SeqCst);
        let items: Vec<_> = (0..16).map(|n| json!({"metadata": {"name": format!("n-{page}-{n}")}})).collect();
        let list = json!({"metadata": {"resourceVersion": "1", "continue": next(page)}, "items": items});
        (!url.contains("watch=true")).then_some((200, list))
    })
}

#[tokio::test(start_paused = true)]
async fn a_list_without_an_end_fills_only_the_caches_of_its_api_server() {
    let all = CacheRoom::new(4 << 20);
    let pages = Arc::new(AtomicUsize::new(0));
    let needs = [Need::NAMESPACES, Need::SERVICES];
    let start = |client| Cluster::start_within(client, &needs, Arc::default(), &all.quarter(), &[]);
    let bad = start(endless(pages.clone(), |page| page.to_string()));
    let good = start(client(|_, url| (!url.contains("watch=true")).then(|| (200, list(json!([]))))));
    assert!(good.wait_synced().await);
    assert!(!bad.wait_synced().await && !bad.is_synced());
    let (need, why) = bad.unsynced().remove(0);
    assert!(why.contains("--memory-limit"), "{need:?}: {why}");
    assert!(bad.all::<Namespace>().is_empty());
    // An object counts at least 512 bytes.
    assert!(pages.load(Ordering::SeqCst) <= (1 << 20) / 512 / 16 * 2, "{pages:?}");
    assert!(good.is_synced());
}

#[tokio::test(start_paused = true)]
async fn a_full_cache_is_synced_again_when_there_is_room() {
    let many = Arc::new(AtomicBool::new(false));
    let asked = many.clone();
    let client = client(move |_, url| {
        let count = if asked.load(Ordering::SeqCst) { 3000 } else { 3 };
        let items: Vec<_> = (0..count).map(|n| json!({"metadata": {"name": format!("n{n}")}})).collect();
        match url.contains("watch=true") {
            // The watch ends, and its version is too old.
            true => Some((410, status(410, "Expired"))),
            false => Some((200, list(items.into()))),
        }
    });
    let cluster = Cluster::start_within(client, &[Need::NAMESPACES], Arc::default(), &CacheRoom::new(1 << 20), &[]);
    assert!(cluster.wait_synced().await && cluster.namespace("n2").is_some());
    many.store(true, Ordering::SeqCst);
    while cluster.is_synced() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(cluster.namespace("n2").is_none() && !cluster.wait_synced().await);
    many.store(false, Ordering::SeqCst);
    while !cluster.is_synced() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(cluster.namespace("n2").is_some() && cluster.unsynced().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_continue_token_that_comes_twice_ends_the_list() {
    let client = endless(Arc::default(), |page| if page > 0 { "again".to_owned() } else { "first".to_owned() });
    let cluster = Cluster::start(client, &[Need::NAMESPACES], Arc::default());
    assert!(!cluster.wait_synced().await);
    assert!(cluster.unsynced()[0].1.contains("the same continue token"), "{:?}", cluster.unsynced());
}

#[tokio::test(start_paused = true)]
async fn a_list_has_one_deadline_for_all_pages() {
    let pages = Arc::new(AtomicUsize::new(0));
    let counted = pages.clone();
    let service = tower::service_fn(move |_: Request<Body>| {
        let page = counted.fetch_add(1, Ordering::SeqCst);
        async move {
            tokio::time::sleep(Duration::from_secs(60)).await;
            let page = json!({"metadata": {"resourceVersion": "1", "continue": page.to_string()}, "items": []});
            Ok::<_, Infallible>(Response::new(Body::from(page.to_string().into_bytes())))
        }
    });
    let cluster = Cluster::start(kube::Client::new(service, "default"), &[Need::NAMESPACES], Arc::default());
    tokio::time::sleep(Duration::from_secs(599)).await;
    assert_eq!((pages.load(Ordering::SeqCst), &*cluster.unsynced()[0].1), (10, "the first list is not complete yet"));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(cluster.unsynced()[0].1, "the list takes too long");
}
