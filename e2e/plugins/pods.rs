//! The effects of plugins on pods, compared with kube-apiserver's own.

use crate::harness::{Pair, Request, User, get, patch, post, put, unique};
use serde_json::{Value, json};
use std::sync::OnceLock;

/// Both sides of every test in this module, and in `limits`, `accounts` and `nodes`.
pub fn pair() -> &'static Pair {
    static PAIR: OnceLock<Pair> = OnceLock::new();
    let plugins = [
        "LimitPodHardAntiAffinityTopology",
        "LimitRanger",
        "ServiceAccount",
        "TaintNodesByCondition",
        "Priority",
        "DefaultTolerationSeconds",
        "ExtendedResourceToleration",
        "RuntimeClass",
        "PodTopologyLabels",
        "NodeDeclaredFeatureValidator",
        "PodResizeValidator",
    ];
    let seconds = ["--default-not-ready-toleration-seconds=60", "--default-unreachable-toleration-seconds=-1"];
    PAIR.get_or_init(|| Pair::start(&plugins, &seconds.map(str::to_owned), &[]))
}

/// A namespace with its service account, which kube-controller-manager would create.
pub fn namespace(name: &str) -> [Request; 2] {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    [post("/api/v1/namespaces", &namespace), account(name, "default", json!({}))]
}

pub fn account(namespace: &str, name: &str, fields: Value) -> Request {
    let mut account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
    merge(&mut account, fields);
    post(&format!("/api/v1/namespaces/{namespace}/serviceaccounts"), &account)
}

pub fn pods(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods")
}

/// A pod with one container, with these fields in its spec.
pub fn pod(name: &str, spec: Value) -> Value {
    let mut whole = json!({"containers": [{"name": "a", "image": "i"}]});
    merge(&mut whole, spec);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": whole})
}

/// A pod with a generated name.
pub fn generated(prefix: &str, spec: Value) -> Value {
    let mut pod = pod("", spec);
    pod["metadata"] = json!({ "generateName": prefix });
    pod
}

pub fn merge(target: &mut Value, patch: Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(target.entry(key).or_insert(Value::Null), value);
            }
        }
        (target, patch) => *target = patch,
    }
}

pub fn container(name: &str, resources: Value) -> Value {
    json!({"name": name, "image": "i", "resources": resources})
}

pub fn as_developer(requests: Vec<Request>) -> Vec<(User, Request)> {
    requests.into_iter().map(|request| (User::developer(), request)).collect()
}

#[test]
fn required_anti_affinity_is_about_nodes() {
    let here = unique("anti-affinity");
    pair().set_up(&namespace(&here));
    let create = |pod: Value| post(&pods(&here), &pod);
    let affinity = |kind: &str, strength: &str, keys: &[&str]| {
        let terms: Vec<Value> = keys.iter().map(|key| json!({ "topologyKey": key })).collect();
        json!({"affinity": {kind: {strength: terms}}})
    };
    let (hostname, zone) = ("kubernetes.io/hostname", "topology.kubernetes.io/zone");
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let mut invalid = affinity("podAntiAffinity", required, &[zone]);
    invalid["containers"] = json!([]);
    let preferred = json!({"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
        [{"weight": 1, "podAffinityTerm": {"topologyKey": zone}}]}}});
    pair().compare(as_developer(vec![
        create(pod("hosts", affinity("podAntiAffinity", required, &[hostname, hostname]))),
        create(pod("second", affinity("podAntiAffinity", required, &[hostname, zone]))),
        create(pod("two", affinity("podAntiAffinity", required, &[zone, "other"]))),
        create(generated("some-", affinity("podAntiAffinity", required, &[zone]))),
        create(pod("preferred", preferred)),
        create(pod("together", affinity("podAffinity", required, &[zone]))),
        create(pod("empty", json!({"affinity": {"podAntiAffinity": {}}}))),
        // kube-apiserver's own validation of the pod comes before the plugin's error.
        create(pod("invalid", invalid)),
        create(pod("no-key", affinity("podAntiAffinity", required, &[""]))),
        post(&format!("{}?dryRun=All", pods(&here)), &pod("dry", affinity("podAntiAffinity", required, &[zone]))),
        patch(
            &format!("{}/applied?fieldManager=me", pods(&here)),
            "apply",
            &pod("applied", affinity("podAntiAffinity", required, &[zone])),
        ),
        patch(&format!("{}/hosts", pods(&here)), "merge", &json!({"metadata": {"labels": {"a": "b"}}})),
    ]));
}

#[test]
fn tolerations_are_added_where_they_are_missing() {
    let here = unique("tolerations");
    pair().set_up(&namespace(&here));
    let create = |pod: Value| post(&pods(&here), &pod);
    let tolerating = |name: &str, list: Value| create(pod(name, json!({ "tolerations": list })));
    let (not_ready, gpu) = ("node.kubernetes.io/not-ready", "example.com/gpu");
    let device = |name: &str| json!({"requests": {name: "1"}, "limits": {name: "1"}});
    let asking = |name: &str, resources: Value, tolerations: Value| {
        create(pod(name, json!({"containers": [container("a", resources)], "tolerations": tolerations})))
    };
    let one = format!("{}/bare", pods(&here));
    pair().compare(as_developer(vec![
        create(pod("bare", json!({}))),
        tolerating("other-effect", json!([{"key": not_ready, "effect": "NoSchedule", "operator": "Exists"}])),
        tolerating("any-effect", json!([{"key": not_ready, "operator": "Exists"}])),
        tolerating(
            "other-value",
            json!([{"key": not_ready, "value": "x", "effect": "NoExecute", "tolerationSeconds": 7}]),
        ),
        tolerating("wildcard", json!([{"operator": "Exists"}])),
        tolerating("execute", json!([{"operator": "Exists", "effect": "NoExecute"}])),
        tolerating("schedule", json!([{"operator": "Exists", "effect": "NoSchedule"}])),
        tolerating("twice", json!([{"key": "k", "operator": "Exists"}, {"key": "k", "operator": "Exists"}])),
        asking("device", json!({"limits": {gpu: "1"}}), json!([])),
        asking("two-devices", json!({"limits": {"z.example.com/b": "1", "a.example.com/b": "2"}}), json!([])),
        asking("domain", device("kubernetes.io/gpu"), json!([])),
        asking("native", json!({"limits": {"hugepages-2Mi": "2Mi", "cpu": "1"}, "requests": {"cpu": "1"}}), json!([])),
        asking(
            "has-other",
            device(gpu),
            json!([{"key": gpu, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3}]),
        ),
        asking("has", device(gpu), json!([{"key": gpu, "operator": "Exists", "effect": "NoSchedule"}])),
        asking("has-wildcard", device(gpu), json!([{"operator": "Exists"}])),
        // A wrong toleration is corrected.
        asking(
            "mended",
            device(gpu),
            json!([{"key": gpu, "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 3}]),
        ),
        asking("equal", device(gpu), json!([{"key": gpu, "operator": "Equal", "value": "v", "effect": "NoSchedule"}])),
        create(pod("init-device", json!({"initContainers": [container("i", device(gpu))]}))),
        asking("wrong", json!({"requests": {"example.com/gpu": "1"}}), json!([])),
        patch(
            &one,
            "json",
            &json!([{"op": "add", "path": "/spec/tolerations/-", "value": {"key": "new", "operator": "Exists"}}]),
        ),
        patch(&one, "merge", &json!({"metadata": {"labels": {"a": "b"}}})),
        patch(&one, "merge", &json!({"spec": {"tolerations": []}})),
        create(generated("drawn-", json!({}))),
        create(pod("text", json!({"tolerations": "text"}))),
    ]));
}

#[test]
fn runtime_classes_cost_and_place() {
    let here = unique("runtime");
    pair().set_up(&namespace(&here));
    let of = |name: &str| format!("{here}-{name}");
    let class = |name: &str, rest: Value| {
        let mut class = json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": of(name)}, "handler": "h"});
        merge(&mut class, rest);
        post("/apis/node.k8s.io/v1/runtimeclasses", &class)
    };
    let tolerations = json!([{"key": "k", "operator": "Exists"}, {"key": "t", "operator": "Equal", "value": "v", "effect": "NoExecute", "tolerationSeconds": 5}]);
    pair().set_up(&[
        class("plain", json!({})),
        class("empty", json!({"overhead": {}})),
        class("heavy", json!({"overhead": {"podFixed": {"cpu": "250m", "memory": "1024Ki"}}})),
        class("placed", json!({"scheduling": {"nodeSelector": {"a": "b", "c": "d"}, "tolerations": tolerations}})),
    ]);
    let create = |name: &str, class: &str, rest: Value| {
        let mut pod = pod(name, rest);
        pod["spec"]["runtimeClassName"] = json!(of(class));
        post(&pods(&here), &pod)
    };
    let named = |name: &str, class: Value| post(&pods(&here), &pod(name, json!({ "runtimeClassName": class })));
    pair().compare(as_developer(vec![
        create("plain", "plain", json!({})),
        create("empty", "empty", json!({})),
        create("empty-given", "empty", json!({"overhead": {"cpu": "1"}})),
        create("heavy", "heavy", json!({})),
        create("same", "heavy", json!({"overhead": {"cpu": "0.25", "memory": "1Mi"}})),
        create("differs", "heavy", json!({"overhead": {"cpu": "1"}})),
        create("no-overhead", "heavy", json!({"overhead": {}})),
        create("uncalled-for", "plain", json!({"overhead": {"cpu": "1"}})),
        post(&pods(&here), &pod("no-class", json!({"overhead": {"cpu": "1"}}))),
        // An empty value is not nil, also if a plugin has changed the pod before.
        post(&pods(&here), &pod("no-class-empty", json!({"overhead": {}}))),
        post(&pods(&here), &generated("no-class-drawn-", json!({"overhead": {}}))),
        create("uncalled-for-empty", "placed", json!({"overhead": {}})),
        create("hollow", "empty", json!({"overhead": {}, "nodeSelector": {}, "tolerations": [], "volumes": []})),
        create("placed", "placed", json!({})),
        create(
            "placed-too",
            "placed",
            json!({"nodeSelector": {"a": "b", "x": "y"}, "tolerations": [{"key": "o", "operator": "Exists"}]}),
        ),
        create("elsewhere", "placed", json!({"nodeSelector": {"c": "x"}})),
        create(
            "narrower",
            "placed",
            json!({"tolerations": [{"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}]}),
        ),
        create("wider", "placed", json!({"tolerations": [{"operator": "Exists"}]})),
        create("missing", "missing", json!({})),
        named("nameless", json!("")),
        named("slash", json!("a/b%c")),
        named("dots", json!("..")),
        named("upper", json!("UPPER")),
        named("number", json!(1)),
        post(&pods(&here), &generated("drawn-", json!({"runtimeClassName": of("missing")}))),
        patch(&format!("{}/heavy", pods(&here)), "merge", &json!({"metadata": {"labels": {"a": "b"}}})),
    ]));
}

#[test]
fn an_empty_field_differs_from_a_missing_field() {
    let here = unique("hollow");
    pair().set_up(&namespace(&here));
    let autoscalers = format!("/apis/autoscaling/v2/namespaces/{here}/horizontalpodautoscalers");
    let autoscaler = |name: &str, behavior: Value| {
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"});
        json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": name},
            "spec": {"maxReplicas": 3, "scaleTargetRef": target, "behavior": behavior}})
    };
    let empty = json!({"scaleUp": {"policies": []}});
    let at = |name: &str| format!("{autoscalers}/{name}");
    let node = node(&here, json!({}), json!([]));
    let status = format!("/api/v1/nodes/{here}/status");
    let capacity = json!({"status": {"capacity": {"cpu": "4"}}});
    let allocatable = json!({"status": {"capacity": {"cpu": "4"}, "allocatable": {}}});
    let mut whole = node.clone();
    merge(&mut whole, allocatable.clone());
    let requests = vec![
        post(&autoscalers, &autoscaler("a", empty.clone())),
        post(&autoscalers, &autoscaler("a", json!({"scaleUp": {}}))),
        put(&at("a"), &autoscaler("a", empty.clone())),
        patch(&at("a"), "merge", &json!({"spec": {"behavior": empty}})),
        patch(&at("a"), "strategic", &json!({"spec": {"behavior": empty}})),
        patch(&at("a"), "json", &json!([{"op": "add", "path": "/spec/behavior/scaleDown", "value": {"policies": []}}])),
        get(&at("a")),
        post("/api/v1/nodes", &node),
        patch(&status, "merge", &allocatable),
        put(&status, &whole),
        get(&status),
        patch(&status, "merge", &capacity),
    ];
    pair().compare(requests.into_iter().map(|request| (User::admin(), request)).collect());
}

pub fn node(name: &str, labels: Value, taints: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}})
}
