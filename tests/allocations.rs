//! Counts the allocations of a request with warm caches, which grow unnoticed and cost time.
//!
//! The counts are those of this thread, which runs all code; allocations of the upstream API server are not counted. A bound is the
//! measured count plus a few for maps and buffers that grow from time to time. A change that saves allocations lowers the bound to the
//! printed count (`cargo test --test allocations -- --nocapture`); a change that raises a bound explains the increase in its commit
//! message.

#![allow(clippy::unwrap_used)]

mod front;

use allocation_counter::{measure, opt_out};
use async_trait::async_trait;
use bytes::Bytes;
use front::{Front, POD_JSON};
use http::{Request, Response};
use kube_admission_proxy::internal::admission::Metrics;
use kube_admission_proxy::internal::admission::{Chain, PluginEnvironment, Spec};
use kube_admission_proxy::internal::body::{Body, Weight};
use kube_admission_proxy::internal::cluster::Discovery;
use kube_admission_proxy::internal::cluster::{Cluster, Namespace};
use kube_admission_proxy::internal::embedded;
use kube_admission_proxy::internal::metrics::Registry;
use kube_admission_proxy::internal::plugins;
use kube_admission_proxy::internal::upstream::{SharedTransport, Transport, UpstreamError};
use kubernetes_object::{cbor, decode};
use serde_json::{Value, json};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use tokio::runtime::{Builder, Runtime};

const PODS: &str = "/api/v1/namespaces/bench/pods";
const JSON: &str = "application/json";
/// The number of uncounted requests before the counted ones.
const WARM_UP: usize = 10;
/// The number of counted requests; the smallest count is used, since background tasks run in between.
const ROUNDS: usize = 10;

/// A transport whose allocations are not counted.
struct Uncounted(SharedTransport);

#[async_trait]
impl Transport for Uncounted {
    async fn send(&self, request: Request<Body>) -> Result<Response<Body>, UpstreamError> {
        let mut sending = pin!(self.0.send(request));
        poll_fn(|context| {
            let mut polled = Poll::Pending;
            opt_out(|| polled = sending.as_mut().poll(context));
            polled
        })
        .await
    }
}

/// A pipeline and its runtime.
struct Counted {
    runtime: Runtime,
    front: Front,
}

impl Counted {
    fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let front = runtime.block_on(async {
            let server = embedded::Server::new(Arc::default());
            let front = Front::new(&server, |transport| Arc::new(Uncounted(transport))).await;
            let namespace = r#"{"metadata":{"name":"bench"}}"#;
            assert_eq!(front.ask("POST", "/api/v1/namespaces", JSON, namespace.into()).await.0, 201);
            front
        });
        Self { runtime, front }
    }

    /// Sends a request and checks the status code of the response.
    fn send(&self, method: &str, uri: &str, content_type: &str, body: &Bytes, expected: u16) {
        let (code, answer) = self.runtime.block_on(self.front.ask(method, uri, content_type, body.clone()));
        assert_eq!(code, expected, "{}", String::from_utf8_lossy(&answer));
    }

    /// The smallest number of allocations of several requests. `send` gets the number of the request; `prepare` is not counted.
    fn fewest(&self, prepare: impl Fn(usize), send: impl Fn(usize)) -> u64 {
        let mut fewest = u64::MAX;
        for number in 0..WARM_UP + ROUNDS {
            prepare(number);
            let count = measure(|| send(number)).count_total;
            if number >= WARM_UP {
                fewest = fewest.min(count);
            }
        }
        fewest
    }
}

/// The pod with a name.
fn pod(name: &str) -> Bytes {
    let text = std::str::from_utf8(POD_JSON).unwrap();
    text.replace(r#""generateName":"checkout-7d4b9c8f5d-""#, &format!(r#""name":"{name}""#)).into()
}

#[test]
fn a_request_allocates_no_more_often_than_it_did() {
    let counted = Counted::new();
    let create = |name: &str| counted.send("POST", PODS, JSON, &pod(name), 201);
    let path = |name: &str| format!("{PODS}/{name}");
    create("one");

    let read = path("one");
    let get = counted.fewest(|_| (), |_| counted.send("GET", &read, "", &Bytes::new(), 200));

    let body = Bytes::from_static(POD_JSON);
    let creates = counted.fewest(|_| (), |_| counted.send("POST", PODS, JSON, &body, 201));

    let patches: Vec<Bytes> =
        (0..WARM_UP + ROUNDS).map(|n| format!(r#"{{"metadata":{{"annotations":{{"a":"{n}"}}}}}}"#).into()).collect();
    let merge = "application/merge-patch+json";
    let patch = counted.fewest(|_| (), |n| counted.send("PATCH", &read, merge, &patches[n], 200));

    let names: Vec<String> = (0..WARM_UP + ROUNDS).map(|n| format!("going-{n}")).collect();
    let paths: Vec<String> = names.iter().map(|name| format!("{}?gracePeriodSeconds=0", path(name))).collect();
    let delete = counted.fewest(|n| create(&names[n]), |n| counted.send("DELETE", &paths[n], "", &Bytes::new(), 200));

    let counts = [
        ("GET", get, 41),
        ("create of a pod", creates, 618),
        ("merge patch of a pod", patch, 1751),
        // A pod's delete is admitted twice, as in kube-apiserver: when the pod is marked, and when it is removed.
        ("delete of a pod", delete, 1744),
    ];
    for (what, count, bound) in counts {
        println!("{what}: {count} allocations, at most {bound}");
    }
    for (what, count, bound) in counts {
        assert!(count <= bound, "{what}: {count} allocations, more than {bound}");
    }
}

const REGISTRATIONS: &str = "/apis/admissionregistration.k8s.io/v1";

impl Counted {
    /// Registers policies with one validation for creates of a resource, each with a binding.
    fn register(
        &self,
        names: impl Iterator<Item = String>,
        resource: &str,
        expression: &str,
        selector: impl Fn(&str) -> Value,
    ) {
        let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": [resource]});
        for name in names {
            let constraints = json!({"resourceRules": [rule], "namespaceSelector": selector(&name)});
            let policy = json!({"metadata": {"name": name}, "spec": {"matchConstraints": constraints, "validations": [{ "expression": expression }]}});
            let binding =
                json!({"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}});
            for (kind, object) in [("policies", policy), ("policybindings", binding)] {
                let uri = format!("{REGISTRATIONS}/validatingadmission{kind}");
                self.send("POST", &uri, JSON, &object.to_string().into(), 201);
            }
        }
    }

    /// Registers one more policy, and waits until the proxy knows it and all policies before it.
    fn settle(&self, name: &str) {
        self.register([name.to_owned()].into_iter(), "secrets", &format!("object.metadata.name != '{name}'"), |_| {
            json!({})
        });
        let secret: Bytes = json!({"metadata": {"name": name}}).to_string().into();
        let uri = "/api/v1/namespaces/bench/secrets?dryRun=All";
        let refused = || self.runtime.block_on(self.front.ask("POST", uri, JSON, secret.clone())).0 == 422;
        while !refused() {
            self.runtime.block_on(async { tokio::time::sleep(std::time::Duration::from_millis(5)).await });
        }
    }
}

/// The allocations that policies add to a create: few for matching policies, none for others.
#[test]
fn policies_that_are_not_meant_allocate_nothing() {
    let counted = Counted::new();
    let expression =
        "object.spec.containers.all(c, !c.image.endsWith(':latest') && !c.?securityContext.?privileged.orValue(false))";
    let body = Bytes::from_static(POD_JSON);
    let create = || counted.fewest(|_| (), |_| counted.send("POST", PODS, JSON, &body, 201));
    let names = |prefix: &'static str, count: usize| (0..count).map(move |n| format!("{prefix}-{n}"));
    let anywhere = |_: &str| json!({});
    counted.register(names("one", 1), "pods", expression, anywhere);
    counted.settle("settled-1");
    let with_one = create();
    counted.register(names("others", 100), "configmaps", expression, anywhere);
    counted.register(names("elsewhere", 100), "pods", expression, |name| json!({"matchLabels": {"team": name}}));
    let elsewhere =
        json!({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["bench"]}]});
    counted.register(names("not-here", 100), "pods", expression, |_| elsewhere.clone());
    counted.settle("settled-2");
    let with_others = create();
    counted.register(names("meant", 100), "pods", expression, anywhere);
    counted.settle("settled-3");
    let with_meant = create();
    let each = with_meant.saturating_sub(with_others).div_ceil(100);
    println!("one policy: {with_one} allocations; 300 that are not meant: {with_others}; each that is: {each}");
    assert!(
        with_others <= with_one + 8,
        "{with_others} allocations with 300 policies that are not meant, {with_one} without"
    );
    assert!(each <= 20, "{each} allocations a policy");
}

/// The memory for one namespace in a cache, of which a cluster may have ten thousand.
#[test]
fn a_namespace_takes_little_room() {
    let namespace = json!({"metadata": {
        "name": "team-12345", "uid": "5c3c1b6e-6a0a-4b0e-9f0e-0d6c8f3d2a11", "resourceVersion": "123456",
        "labels": {"kubernetes.io/metadata.name": "team-12345", "pod-security.kubernetes.io/enforce": "baseline"},
        "annotations": {"scheduler.alpha.kubernetes.io/node-selector": "pool=a"},
        "managedFields": [{"manager": "kubectl", "operation": "Update"}],
    }, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
    let text = namespace.to_string();
    let mut kept = None;
    let bytes = measure(|| kept = Namespace::read(&text)).bytes_current;
    println!("a namespace: {bytes} bytes, and {} for itself", size_of::<Namespace>());
    assert!(kept.is_some_and(|namespace| namespace.labels.get("kubernetes.io/metadata.name").is_some()));
    // Half of the bytes are the text that policies' expressions may read.
    assert!(bytes <= 640, "{bytes} bytes");
}

/// The memory for the plugins of one more tenant that sends nothing.
#[test]
fn the_plugins_of_an_idle_tenant_take_little_room() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let _entered = runtime.enter();
    let (cluster, discovery) = (Cluster::unconnected(), Discovery::unconnected());
    let metrics = Arc::new(Metrics::new(&Registry::new()).unwrap());
    let chain = |specs: &[&'static Spec]| {
        let environment = || PluginEnvironment::with_defaults(cluster.clone(), discovery.clone(), metrics.clone());
        Chain::build(specs, metrics.clone(), |_| environment()).unwrap()
    };
    let on: Vec<&'static Spec> = plugins::ALL.iter().copied().filter(|spec| spec.default_on).collect();
    // The first chain makes the parts that all chains share.
    let _first = chain(&on);
    let mut kept = None;
    let bytes = measure(|| kept = Some(chain(&on))).bytes_current;
    println!("the default plugins: {bytes} bytes");
    // 16 bytes of each plugin are for the counts of its calls.
    assert!(bytes <= 12_288 + 512, "{bytes} bytes");
}

/// A document of about `bytes` bytes: `part` as often as it fits between `start` and `end`, with `#` as its number.
fn repeated(start: &str, part: &str, end: &str, bytes: usize) -> Bytes {
    let mut text = start.to_owned();
    for number in 0.. {
        text.push_str(&part.replace('#', &number.to_string()));
        if text.len() >= bytes {
            break;
        }
        text.push(',');
    }
    text.push_str(end);
    text.into()
}

/// The weight of a document that arrives in pieces.
fn weight(text: &[u8]) -> Weight {
    let mut weight = Weight::default();
    text.chunks(7).for_each(|piece| weight.add(piece));
    weight.complete(text);
    weight
}

/// The memory of decoded values against the estimate that bounds them.
#[test]
fn the_weight_of_a_document_is_an_upper_bound_of_its_memory() {
    for (name, text, most) in [
        ("entries", repeated("[", r#"{"a":0}"#, "]", 100_000), 1.5),
        ("lists", repeated("[", "[0]", "]", 100_000), 1.6),
        ("deep lists", repeated("[", "[[[[[[[[0]]]]]]]]", "]", 100_000), 1.6),
        ("numbers", repeated("[", "0", "]", 100_000), 2.2),
        ("texts", repeated("[", r#""a""#, "]", 100_000), 2.2),
        ("commas", repeated(r#"{"a":""#, "a, {b: [c", r#""}"#, 100_000), 1.5),
        ("keys", repeated("{", r##""k#":"v""##, "}", 100_000), 1.8),
        ("small maps", repeated("{", r##""k#":{"a":{"b":[1,2]},"c":"d"}"##, "}", 100_000), 1.5),
        ("env", repeated("[", r##"{"name":"E#","value":"x"}"##, "]", 100_000), 1.5),
        ("pods", repeated("[", std::str::from_utf8(POD_JSON).unwrap(), "]", 100_000), 2.2),
        // The maps of a list may get defaults, which the bytes do not show.
        ("empty maps", repeated("[", "{}", "]", 100_000), 30.0),
    ] {
        let mut kept = None;
        let bytes = measure(|| kept = Some(decode::json(&text).unwrap())).bytes_current;
        let weight = weight(&text).decoded() as f64 / bytes as f64;
        println!("{name}: {bytes} bytes for {} bytes, weight {weight:.2}", text.len());
        assert!((1.0..most).contains(&weight), "{name}: {weight}");
    }
    for (name, text, most) in [
        ("entries", "- a: 0\n".repeat(10_000), 2.0),
        ("entries below", "-\n  a: 0\n".repeat(10_000), 4.0),
        ("flow", format!("[{}a: 0]", "a: 0, ".repeat(10_000)), 2.0),
        ("flow pairs", format!("[{}\"a\": 0]", "\"a\": 0,".repeat(10_000)), 2.0),
        ("keys without values", format!("[{}{{a}}]", "{a},".repeat(10_000)), 2.5),
        ("quotes", format!("{{b: x\"y, c: [{}]}}", "{a: 0},".repeat(10_000)), 3.5),
        ("lists", "- - 0\n".repeat(10_000), 12.0),
        ("env", "- name: E\n  value: x\n".repeat(10_000), 2.0),
        ("aliases", format!("a: &a {{b: 0}}\nc: [{}]", "*a,".repeat(10_000)), 40.0),
        ("a text", format!("data: |\n{}", "  some words: and more, of course\n".repeat(10_000)), 12.0),
    ] {
        let mut kept = None;
        let bytes = measure(|| kept = Some(decode::yaml(text.as_bytes()).unwrap())).bytes_current;
        let weight = weight(text.as_bytes()).decoded() as f64 / bytes as f64;
        println!("{name} in YAML: {bytes} bytes for {} bytes, weight {weight:.2}", text.len());
        assert!((1.0..most).contains(&weight), "{name}: {weight}");
    }
    for (name, text, most) in [
        ("entries", repeated(r#"{"a":["#, r#"{"a":0}"#, "]}", 100_000), 2.0),
        ("pods", repeated(r#"{"a":["#, std::str::from_utf8(POD_JSON).unwrap(), "]}", 100_000), 2.2),
        ("texts", repeated(r#"{"a":["#, r#""a""#, "]}", 100_000), 2.5),
    ] {
        let bytes = cbor::encode(&decode::json(&text).unwrap().value);
        let mut kept = None;
        let memory = measure(|| kept = Some(cbor::decode(&bytes).unwrap())).bytes_current;
        let weight = weight(&bytes).decoded() as f64 / memory as f64;
        println!("{name} in CBOR: {memory} bytes for {} bytes, weight {weight:.2}", bytes.len());
        assert!((1.0..most).contains(&weight), "{name}: {weight}");
    }
}

/// Bodies that take far more memory than their length, of creates.
fn heavy() -> Vec<(&'static str, &'static str, Bytes, u16)> {
    const PODS: &str = "/api/v1/namespaces/bench/pods?dryRun=All";
    let pod = r#"{"metadata":{"generateName":"p-"},"spec":{"containers":["#;
    vec![
        (
            "env",
            PODS,
            repeated(
                &format!(r#"{pod}{{"name":"c","image":"i","env":["#),
                r##"{"name":"E#","value":"x"}"##,
                "]}]}}",
                300_000,
            ),
            201,
        ),
        ("containers", PODS, repeated(pod, r##"{"name":"c#","image":"i"}"##, "]}}", 50_000), 201),
    ]
}

/// The memory of creates against the weight of their bodies, in the proxy and with the embedded API server.
#[test]
fn a_create_takes_no_more_memory_than_its_weight() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let both = runtime.block_on(Front::new(&embedded::Server::new(Arc::default()), |transport| transport));
    let both = Counted { runtime, front: both };
    both.send("POST", "/api/v1/namespaces", JSON, &r#"{"metadata":{"name":"bench"}}"#.into(), 201);
    let proxy = Counted::new();
    let mut too_large = Vec::new();
    for (name, uri, body, code) in heavy() {
        let taken = [&proxy, &both].map(|counted| {
            counted.send("POST", uri, JSON, &body, code);
            measure(|| counted.send("POST", uri, JSON, &body, code)).bytes_max
        });
        let weight = weight(&body).of(0);
        let parts = taken.map(|taken| taken as f64 / weight as f64);
        println!("{name}: {taken:?} bytes for {} bytes, {parts:.2?} of the weight", body.len());
        // Defaults, the mount of a token and managedFields make far more of a container than its text.
        let most = if name == "containers" { 2.5 } else { 1.0 };
        too_large.extend(parts.into_iter().filter(|part| *part > most).map(|part| (name, part)));
    }
    assert!(too_large.is_empty(), "{too_large:.2?}");
}
