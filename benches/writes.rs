//! The time of a pod's create in the process: decoding, encoding, and the plugins that are on by default. CPU time of one thread, the
//! median of several rounds; `e2e/bench.py admission` runs it.

#![allow(clippy::unwrap_used)]

#[path = "../tests/front/mod.rs"]
mod front;

use bytes::Bytes;
use front::{Front, POD_JSON, POD_PROTOBUF, VALIDATING_HOOKS, create, hooks_elsewhere};
use kube_admission_proxy::internal::admission::Attributes;
use kube_admission_proxy::internal::embedded;
use kube_admission_proxy::internal::request::{BodyForm, MediaType, decode_object};
use kubernetes_object::Object;
use kubernetes_object::kind::GroupVersionKind;
use std::hint::black_box;
use std::sync::Arc;
use tokio::runtime::Builder;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const JSON: &str = "application/json";

/// The number of rounds, or of calls in each, from the environment: instrumented runs need few.
fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// CPU time of this thread in microseconds; the kernel updates it at context switches and ticks.
fn cpu_microseconds() -> f64 {
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0) / 1000.0
}

/// Prints the time of a call of the measured part. `prepare` makes the input of a call, and is not measured.
fn figure<T>(what: &str, prepare: impl Fn() -> T, mut call: impl FnMut(T)) {
    let (rounds, calls) = (number("WRITES_ROUNDS", 15), number("WRITES_CALLS", 2000));
    let mut costs: Vec<f64> = (0..=rounds)
        .map(|_| {
            let inputs: Vec<T> = (0..calls).map(|_| prepare()).collect();
            let before = cpu_microseconds();
            inputs.into_iter().for_each(&mut call);
            (cpu_microseconds() - before) / calls as f64
        })
        .skip(1)
        .collect();
    costs.sort_by(f64::total_cmp);
    if let (Some(least), Some(median), Some(most)) = (costs.first(), costs.get(costs.len() / 2), costs.last()) {
        println!("{what}: {median:.1} µs ({least:.1}-{most:.1})");
    }
}

fn pod() -> GroupVersionKind {
    GroupVersionKind::new("", "v1", "Pod")
}

fn decode(bytes: &[u8], media_type: MediaType) -> Object {
    decode_object(bytes, media_type, &pod(), BodyForm::Normal(None))
        .ok()
        .map(|decoded| decoded.object)
        .unwrap_or_default()
}

/// The admission attributes of the pod's create in this namespace.
fn attributes(object: &Object, namespace: &str) -> Attributes {
    let mut object = object.clone();
    assert!(object.set(&["metadata", "namespace"], namespace.into()));
    object.settle();
    create("Pod", "pods", object)
}

/// A pipeline in front of a server with `namespaces` namespaces, each with a LimitRange if `has_limit_ranges`, and with `hooks` webhooks
/// that match none of the requests.
async fn front(namespaces: usize, has_limit_ranges: bool, hooks: usize) -> Front {
    let server = embedded::Server::new(Arc::default());
    let first = Front::new(&server, |transport| transport).await;
    let create = async |uri: &str, body: serde_json::Value| {
        let (code, answer) = first.ask("POST", uri, JSON, Bytes::from(body.to_string())).await;
        assert_eq!(code, 201, "{}", String::from_utf8_lossy(&answer));
    };
    for number in 0..namespaces {
        let name = format!("bench-{number}");
        create("/api/v1/namespaces", serde_json::json!({"metadata": {"name": name}})).await;
        if has_limit_ranges {
            let limits = serde_json::json!([{"type": "Container", "max": {"memory": "4Gi"}, "defaultRequest": {"cpu": "100m", "ephemeral-storage": "1Gi"}}]);
            let range = serde_json::json!({"metadata": {"name": "limits"}, "spec": {"limits": limits}});
            create(&format!("/api/v1/namespaces/{name}/limitranges"), range).await;
        }
    }
    let hooks = serde_json::from_str(&hooks_elsewhere("pods", hooks)).unwrap();
    create(VALIDATING_HOOKS, hooks).await;
    Front::new(&server, |transport| transport).await
}

fn main() {
    let only = std::env::var("WRITES_ONLY").unwrap_or_default();
    let is_wanted = |what: &str| only.is_empty() || only == what;
    let object = decode(POD_JSON, MediaType::Json);
    if is_wanted("decode-json") {
        figure("decode and default, JSON", || (), |()| drop(black_box(decode(black_box(POD_JSON), MediaType::Json))));
    }
    if is_wanted("decode-protobuf") {
        let decode = |()| drop(black_box(decode(black_box(POD_PROTOBUF), MediaType::Protobuf)));
        figure("decode and default, protobuf", || (), decode);
    }
    if is_wanted("encode") {
        figure("encode", || (), |()| drop(black_box(serde_json::to_vec(black_box(&object)))));
    }
    let Ok(runtime) = Builder::new_current_thread().enable_all().build() else { return };
    for (part, what, namespaces, has_limit_ranges, hooks) in [
        ("plugins", "plugins", 1, false, 0),
        ("limit-ranges", "plugins, 1 namespace with a limit range", 1, true, 0),
        ("limit-ranges", "plugins, 1,000 namespaces with limit ranges", 1000, true, 0),
        ("hooks", "plugins, 1,000 webhooks that do not match", 1, false, 1000),
    ] {
        if !is_wanted(part) {
            continue;
        }
        let front = runtime.block_on(front(namespaces, has_limit_ranges, hooks));
        let chain = &front.chain;
        let namespace = format!("bench-{}", namespaces / 2);
        let admit = |mut attributes: Attributes| {
            let result = runtime.block_on(async {
                chain.admit(&mut attributes).await?;
                chain.validate(&mut attributes).await
            });
            assert!(result.is_ok(), "{result:?}");
        };
        figure(what, || attributes(&object, &namespace), admit);
    }
    if is_wanted("create") {
        let front = runtime.block_on(front(1, false, 0));
        let body = Bytes::from_static(POD_JSON);
        let text = String::from_utf8_lossy(&body).replace("\"namespace\":\"bench\"", "\"namespace\":\"bench-0\"");
        let body = Bytes::from(text);
        figure(
            "dry-run create, without TLS, with the embedded API server",
            || body.clone(),
            |body| {
                let path = "/api/v1/namespaces/bench-0/pods?dryRun=All";
                assert_eq!(runtime.block_on(front.ask("POST", path, JSON, body)).0, 201);
            },
        );
    }
    if is_wanted("review") {
        let front = runtime.block_on(front(1, false, 0));
        let front_end = front.front_end();
        let object: serde_json::Value = serde_json::from_slice(POD_JSON).unwrap();
        let review = serde_json::json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "0df28fbd-5f5f-11e8-bc74-36e6bb280816", "operation": "CREATE", "namespace": "bench-0", "name": "",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "userInfo": {"username": "alice", "groups": ["developers", "system:authenticated"]},
            "object": object, "oldObject": null, "dryRun": false,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}}});
        let body = Bytes::from(review.to_string());
        figure(
            "review without plugins, without TLS",
            || body.clone(),
            |body| assert_eq!(runtime.block_on(front.review(&front_end, "/mutate?timeout=5s", body)).0, 200),
        );
    }
}
