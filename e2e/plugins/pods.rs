//! What plugins do to pods and nodes, against kube-apiserver's own.

use crate::harness::{Pair, Request, User, get, patch, post, put, unique};
use serde_json::{Value, json};
use std::sync::OnceLock;

/// Both sides of every test here.
fn pair() -> &'static Pair {
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

/// A namespace with its service account, which kube-controller-manager would make.
fn namespace(name: &str) -> [Request; 2] {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    [post("/api/v1/namespaces", &namespace), account(name, "default", json!({}))]
}

fn account(namespace: &str, name: &str, fields: Value) -> Request {
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

/// The same without a name.
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
        // What kube-apiserver finds invalid itself comes before what the plugin finds.
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

fn limit_range(namespace: &str, limits: Value) -> Request {
    let range =
        json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "limits"}, "spec": {"limits": limits}});
    post(&format!("/api/v1/namespaces/{namespace}/limitranges"), &range)
}

#[test]
fn limit_ranges_give_defaults() {
    let (here, plain, without) = (unique("limit-defaults"), unique("limit-plain"), unique("limit-none"));
    pair().set_up(&[namespace(&here), namespace(&plain), namespace(&without)].concat());
    let defaults = json!([{"type": "Container", "default": {"cpu": "0.5", "memory": "1Gi", "ephemeral-storage": "1G"},
                           "defaultRequest": {"cpu": "100m", "memory": "64Mi"}}]);
    let max_only = json!([{"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}}]);
    pair().set_up(&[limit_range(&here, defaults), limit_range(&plain, max_only)]);
    let probe = |namespace: &str| post(&format!("{}?dryRun=All", pods(namespace)), &pod("probe", json!({})));
    for namespace in [&here, &plain] {
        pair().until(&User::developer(), &probe(namespace), "LimitRanger plugin set");
    }
    let create = |pod: Value| post(&pods(&here), &pod);
    let of = |list: Value| json!({ "containers": list });
    let own = pod("own", of(json!([container("a", json!({"limits": {"cpu": "1"}}))])));
    let mut annotated = pod("annotated", json!({}));
    annotated["metadata"]["annotations"] = json!({"kubernetes.io/limit-ranger": "mine", "other": "o"});
    pair().compare(as_developer(vec![
        create(pod("bare", json!({}))),
        create(own),
        create(annotated),
        create(pod(
            "several",
            json!({"containers": [container("a", json!({"requests": {"cpu": "1m", "memory": "1Mi"}})), container("b", json!({}))],
                   "initContainers": [container("i", json!({"limits": {"memory": "1Gi"}})), container("j", json!({}))]}),
        )),
        create(pod(
            "full",
            of(json!([container(
                "a",
                json!({"requests": {"cpu": "1", "memory": "1", "ephemeral-storage": "1"}, "limits": {"cpu": "1", "memory": "1", "ephemeral-storage": "1"}})
            )])),
        )),
        create(generated("drawn-", json!({}))),
        // The default limit is less than the request.
        create(pod("less", of(json!([container("a", json!({"requests": {"cpu": "3"}}))])))),
        post(&pods(&plain), &pod("by-max", json!({"initContainers": [container("i", json!({}))]}))),
        post(&pods(&without), &pod("free", json!({"initContainers": [container("i", json!({}))]}))),
        patch(&format!("{}/bare", pods(&here)), "merge", &json!({"metadata": {"labels": {"a": "b"}}})),
        get(&format!("{}/bare", pods(&here))),
        patch(&format!("{}/applied?fieldManager=me", pods(&here)), "apply", &pod("applied", json!({}))),
    ]));
}

#[test]
fn limit_ranges_bound_pods_and_claims() {
    let here = unique("limits");
    pair().set_up(&namespace(&here));
    let limits = json!([
        {"type": "Container", "min": {"cpu": "50m"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "10"},
         "default": {"cpu": "100m"}, "defaultRequest": {"cpu": "100m"}},
        {"type": "Pod", "max": {"cpu": "3"}, "min": {"cpu": "60m"}},
        {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "5Gi"}}]);
    pair().set_up(&[limit_range(&here, limits)]);
    pair().until(
        &User::developer(),
        &post(&format!("{}?dryRun=All", pods(&here)), &pod("probe", json!({}))),
        "LimitRanger plugin set",
    );
    let claims = format!("/api/v1/namespaces/{here}/persistentvolumeclaims");
    let claim = |name: &str, size: &str| {
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
               "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}})
    };
    let both = |request: &str, limit: &str| json!({"requests": {"cpu": request}, "limits": {"cpu": limit}});
    let one = |name: &str, request: &str, limit: &str| {
        post(&pods(&here), &pod(name, json!({"containers": [container("a", both(request, limit))]})))
    };
    let sidecar = |request: &str| {
        let mut sidecar = container("s", both(request, request));
        sidecar["restartPolicy"] = json!("Always");
        sidecar
    };
    let whole = |name: &str, spec: Value| post(&pods(&here), &pod(name, spec));
    let resize = |name: &str, request: &str, limit: &str| {
        patch(
            &format!("{}/{name}/resize", pods(&here)),
            "strategic",
            &json!({"spec": {"containers": [{"name": "a", "resources": both(request, limit)}]}}),
        )
    };
    pair().compare(as_developer(vec![
        one("fine", "100m", "200m"),
        one("small", "40m", "50m"),
        one("large", "1", "2.5"),
        one("wide", "100m", "1100m"),
        one("exact", "100m", "1"),
        one("both", "10m", "3"),
        one("zero", "0", "1"),
        post(&pods(&here), &generated("drawn-", json!({"containers": [container("a", both("1m", "1m"))]}))),
        whole("sum", json!({"containers": [container("a", both("1", "2")), container("b", both("1", "1500m"))]})),
        whole("init", json!({"initContainers": [container("i", both("1", "3500m"))]})),
        whole(
            "sidecars",
            json!({"initContainers": [sidecar("1500m")], "containers": [container("a", both("1600m", "1600m"))]}),
        ),
        whole("two", json!({"containers": [container("a", both("10m", "20m")), container("b", both("3", "4"))]})),
        whole("pod-level", json!({"resources": both("2500m", "4"), "containers": [container("a", both("1", "1"))]})),
        whole("overhead", json!({"overhead": {"cpu": "5"}})),
        whole("nonsense", json!({"containers": [container("a", both("x", "1"))]})),
        post(&claims, &claim("fine", "2Gi")),
        post(&claims, &claim("small", "1023Mi")),
        post(&claims, &claim("large", "5000000000000m")),
        post(&claims, &claim("larger", "6Gi")),
        patch(&format!("{claims}/fine"), "merge", &json!({"spec": {"resources": {"requests": {"storage": "6Gi"}}}})),
        patch(&format!("{claims}/fine/status"), "merge", &json!({"status": {"capacity": {"storage": "7Gi"}}})),
        resize("fine", "150m", "300m"),
        resize("fine", "20m", "300m"),
        resize("fine", "150m", "2200m"),
        patch(&format!("{}/fine", pods(&here)), "merge", &json!({"metadata": {"labels": {"a": "b"}}})),
    ]));
}

#[test]
fn pods_run_as_their_service_account() {
    let (here, bare) = (unique("accounts"), unique("accounts-bare"));
    let robot = json!({"automountServiceAccountToken": false, "imagePullSecrets": [{"name": "one"}, {"name": "two"}]});
    let bare_namespace = namespace(&bare).into_iter().take(1);
    let setup: Vec<Request> =
        namespace(&here).into_iter().chain([account(&here, "robot", robot)]).chain(bare_namespace).collect();
    pair().set_up(&setup);
    let create = |pod: Value| post(&pods(&here), &pod);
    let mounting = |path: &str| json!({"name": "a", "image": "i", "volumeMounts": [{"name": "v", "mountPath": path}]});
    let default_path = "/var/run/secrets/kubernetes.io/serviceaccount";
    let empty = |name: &str| json!([{"name": name, "emptyDir": {}}]);
    let mirror = |name: &str, spec: Value| {
        let mut pod = pod(name, spec);
        pod["spec"]["nodeName"] = json!("nowhere");
        pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "m"});
        create(pod)
    };
    let token = json!({"serviceAccountToken": {"path": "t"}});
    let reused = json!({"name": "a", "image": "i"});
    pair().compare(as_developer(vec![
        create(pod("plain", json!({}))),
        create(pod("robot", json!({"serviceAccountName": "robot"}))),
        create(pod("former", json!({"serviceAccount": "robot"}))),
        create(pod("both", json!({"serviceAccount": "other", "serviceAccountName": "robot"}))),
        create(pod("wants", json!({"serviceAccountName": "robot", "automountServiceAccountToken": true, "imagePullSecrets": [{"name": "own"}]}))),
        create(pod("wants-not", json!({"automountServiceAccountToken": false}))),
        create(pod("mounted", json!({"containers": [mounting(default_path)], "volumes": empty("v")}))),
        create(pod(
            "one-mounted",
            json!({"containers": [mounting(default_path), {"name": "b", "image": "i"}], "initContainers": [{"name": "c", "image": "i"}], "volumes": empty("v")}),
        )),
        create(pod("elsewhere", json!({"containers": [mounting(&format!("{default_path}/"))], "volumes": empty("v")}))),
        create(pod("reused", json!({"containers": [reused], "volumes": empty("kube-api-access-mine")}))),
        create(pod("unknown", json!({"serviceAccountName": "unknown"}))),
        create(generated("unknown-", json!({"serviceAccountName": "unknown"}))),
        post(&pods(&bare), &pod("too-early", json!({}))),
        mirror("mirror", json!({})),
        mirror("mirror-account", json!({"serviceAccountName": "robot"})),
        mirror("mirror-secret", json!({"volumes": [{"name": "s", "secret": {"secretName": "x"}}]})),
        mirror("mirror-env", json!({"containers": [{"name": "a", "image": "i", "envFrom": [{"secretRef": {"name": "x"}}]}]})),
        mirror("mirror-token", json!({"volumes": [{"name": "t", "projected": {"sources": [token]}}]})),
        create(pod("nothing", json!({"containers": []}))),
        patch(&format!("{}/applied?fieldManager=me", pods(&here)), "apply", &pod("applied", json!({}))),
        patch(&format!("{}/plain", pods(&here)), "merge", &json!({"metadata": {"labels": {"a": "b"}}})),
        post(&format!("{}?dryRun=All", pods(&here)), &pod("dry", json!({}))),
    ]));
}

#[test]
fn pods_use_the_secrets_that_their_account_may() {
    let here = unique("secrets");
    let strict = json!({"metadata": {"annotations": {"kubernetes.io/enforce-mountable-secrets": "T"}},
                        "secrets": [{"name": "good"}], "imagePullSecrets": [{"name": "pull"}]});
    let lax = json!({"metadata": {"annotations": {"kubernetes.io/enforce-mountable-secrets": "yes"}}});
    let setup: Vec<Request> =
        namespace(&here).into_iter().chain([account(&here, "strict", strict), account(&here, "lax", lax)]).collect();
    pair().set_up(&setup);
    let of = |account: &str, name: &str, fields: Value| {
        let mut spec = fields;
        spec["serviceAccountName"] = json!(account);
        post(&pods(&here), &pod(name, spec))
    };
    let secret = |name: &str| json!({"volumes": [{"name": "s", "secret": {"secretName": name}}]});
    let env = |name: &str, secret: &str| json!({"name": name, "image": "i", "env": [{"name": "A", "value": "a"}, {"name": "E", "valueFrom": {"secretKeyRef": {"name": secret, "key": "k"}}}]});
    let env_from =
        |name: &str, secret: &str| json!({"name": name, "image": "i", "envFrom": [{"secretRef": {"name": secret}}]});
    let debug = |container: Value| {
        let mut container = container;
        container["terminationMessagePolicy"] = json!("File");
        patch(
            &format!("{}/fine/ephemeralcontainers", pods(&here)),
            "strategic",
            &json!({"spec": {"ephemeralContainers": [container]}}),
        )
    };
    pair().compare(as_developer(vec![
        of(
            "strict",
            "fine",
            json!({"containers": [env("a", "good"), env_from("b", "good")], "imagePullSecrets": [{"name": "pull"}]}),
        ),
        of("strict", "volume", secret("bad")),
        of("strict", "env", json!({"containers": [env("a", "bad")]})),
        of("strict", "env-from", json!({"containers": [{"name": "o", "image": "i"}, env_from("a", "bad")]})),
        of("strict", "init-env", json!({"initContainers": [env("i", "bad")]})),
        of("strict", "init-env-from", json!({"initContainers": [env_from("i", "bad")]})),
        of("strict", "pull", json!({"imagePullSecrets": [{"name": "pull"}, {"name": "other"}]})),
        of(
            "strict",
            "projected",
            json!({"volumes": [{"name": "p", "projected": {"sources": [{"secret": {"name": "bad"}}]}}]}),
        ),
        of("lax", "lax", secret("bad")),
        debug(env("d", "bad")),
        debug(env_from("e", "bad")),
        debug(env("f", "good")),
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
        // A wrong toleration is mended.
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
        // Empty is not nil, also where a plugin changes the pod first.
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
fn what_is_empty_is_not_what_is_missing() {
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

fn node(name: &str, labels: Value, taints: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}})
}

#[test]
fn new_nodes_are_not_ready() {
    let name = unique("new-node");
    let of = |which: &str| format!("{name}-{which}");
    let create = |node: Value| post("/api/v1/nodes", &node);
    let taint =
        |effect: &str, value: Value| json!([{"key": "node.kubernetes.io/not-ready", "effect": effect, "value": value}]);
    let mut drawn = node("", json!({}), json!([]));
    drawn["metadata"] = json!({"generateName": of("drawn-")});
    let one = format!("/api/v1/nodes/{}", of("bare"));
    pair().compare(as_developer(vec![
        create(node(&of("bare"), json!({}), json!([]))),
        create(node(&of("null"), json!({}), Value::Null)),
        create(node(&of("other-effect"), json!({}), taint("NoExecute", Value::Null))),
        create(node(&of("value"), json!({}), taint("NoSchedule", json!("v")))),
        create(node(&of("other"), json!({}), json!([{"key": "k", "effect": "NoSchedule"}]))),
        create(node(&of("wrong"), json!({}), json!("text"))),
        create(drawn),
        patch(&one, "merge", &json!({"spec": {"taints": []}})),
        put(&one, &node(&of("bare"), json!({"a": "b"}), json!([]))),
        get(&one),
        patch(
            &format!("/api/v1/nodes/{}?fieldManager=me", of("applied")),
            "apply",
            &node(&of("applied"), json!({}), json!([])),
        ),
        post("/api/v1/nodes?dryRun=All", &node(&of("dry"), json!({}), json!([]))),
    ]));
}

#[test]
fn pods_know_where_their_node_is() {
    let here = unique("topology");
    pair().set_up(&namespace(&here));
    let node_name = format!("{here}-node");
    let (zone, region) = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region");
    let labels = json!({zone: "z", region: "r", "topology.kubernetes.io/rack": "k", "topology.k8s.io/zone": "old"});
    let half = format!("{here}-half");
    pair().set_up(&[
        post("/api/v1/nodes", &node(&node_name, labels, json!([]))),
        post("/api/v1/nodes", &node(&half, json!({region: "r"}), json!([]))),
    ]);
    let on = |name: &str, node: &str| pod(name, json!({ "nodeName": node }));
    for node in [&node_name, &half] {
        let probe = post(&format!("{}?dryRun=All", pods(&here)), &on("probe", node));
        pair().until(&User::developer(), &probe, region);
    }
    let mut labelled = on("labelled", &node_name);
    labelled["metadata"]["labels"] = json!({zone: "mine", "a": "b"});
    let mut half_labelled = on("half-labelled", &half);
    half_labelled["metadata"]["labels"] = json!({zone: "mine"});
    let binding = |name: &str, target: Value, labels: Value| json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "labels": labels}, "target": target});
    let bind =
        |name: &str, target: Value| post(&format!("{}/{name}/binding", pods(&here)), &binding(name, target, json!({})));
    let to = |node: &str| json!({"kind": "Node", "name": node});
    pair().compare(as_developer(vec![
        post(&pods(&here), &on("placed", &node_name)),
        post(&pods(&here), &labelled),
        post(&pods(&here), &half_labelled),
        post(&pods(&here), &on("lost", "nowhere")),
        post(&pods(&here), &pod("pending", json!({}))),
        post(&pods(&here), &pod("second", json!({}))),
        post(&pods(&here), &pod("third", json!({}))),
        post(&pods(&here), &pod("fourth", json!({}))),
        bind("pending", to(&node_name)),
        get(&format!("{}/pending", pods(&here))),
        bind("second", json!({"name": node_name})),
        get(&format!("{}/second", pods(&here))),
        post(&format!("/api/v1/namespaces/{here}/bindings"), &binding("third", to(&node_name), json!({}))),
        get(&format!("{}/third", pods(&here))),
        post(
            &format!("{}/fourth/binding", pods(&here)),
            &binding("fourth", to(&node_name), json!({zone: "mine", "l": "m"})),
        ),
        get(&format!("{}/fourth", pods(&here))),
        bind("missing", to(&node_name)),
        bind("pending", to(&half)),
        bind("pending", json!({"kind": "Pod", "name": "x"})),
        patch(&format!("{}/placed", pods(&here)), "merge", &json!({"metadata": {"labels": {zone: "changed"}}})),
    ]));
}

#[test]
fn pods_are_resized_within_what_their_node_can_do() {
    let here = unique("resize");
    pair().set_up(&namespace(&here));
    let of = |which: &str| format!("{here}-{which}");
    let status = |which: &str, features: &[&str]| {
        let status = json!({"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "10"}, "declaredFeatures": features});
        patch(&format!("/api/v1/nodes/{}/status", of(which)), "merge", &json!({ "status": status }))
    };
    let make =
        |which: &str, os: &str| post("/api/v1/nodes", &node(&of(which), json!({"kubernetes.io/os": os}), json!([])));
    let resources = |cpu: &str, memory: &str| json!({"requests": {"cpu": cpu, "memory": memory}});
    let on = |name: &str, node: Value, more: Value| {
        let mut pod = pod(name, json!({"nodeName": node, "containers": [container("a", resources("100m", "10Mi"))]}));
        merge(&mut pod["spec"], more);
        post(&pods(&here), &pod)
    };
    let init = |cpu: &str| container("i", resources(cpu, "10Mi"));
    let mut sidecar = init("100m");
    sidecar["restartPolicy"] = json!("Always");
    let features = ["InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers"];
    pair().set_up(&[
        make("linux", "linux"),
        make("windows", "windows"),
        make("able", "linux"),
        status("linux", &[]),
        status("windows", &[]),
        status("able", &features),
        on("linux", json!(of("linux")), json!({"initContainers": [sidecar]})),
        on("windows", json!(of("windows")), json!({})),
        on("lost", json!("nowhere"), json!({})),
        on("pending", Value::Null, json!({})),
        on("init", json!(of("linux")), json!({"initContainers": [init("100m")]})),
        on("able-init", json!(of("able")), json!({"initContainers": [init("100m")]})),
        on("level", json!(of("linux")), json!({"resources": resources("200m", "20Mi")})),
        on("able-level", json!(of("able")), json!({"resources": resources("200m", "20Mi")})),
        on("lost-level", json!("nowhere"), json!({"resources": resources("200m", "20Mi")})),
    ]);
    let resize = |name: &str, spec: Value| {
        patch(&format!("{}/{name}/resize", pods(&here)), "strategic", &json!({ "spec": spec }))
    };
    let to = |cpu: &str, memory: &str| json!({"containers": [{"name": "a", "resources": resources(cpu, memory)}]});
    let init_to = |cpu: &str| json!({"initContainers": [{"name": "i", "resources": resources(cpu, "10Mi")}]});
    let dry =
        patch(&format!("{}/linux/resize?dryRun=All", pods(&here)), "strategic", &json!({"spec": to("3", "10Mi")}));
    pair().until(&User::developer(), &dry, "allocatable: 2000");
    pair().compare(as_developer(vec![
        resize("linux", to("1", "20Mi")),
        resize("linux", to("1950m", "20Mi")),
        resize("linux", to("3", "2Gi")),
        resize("linux", to("1", "2Gi")),
        resize("linux", to("1", "20Mi")),
        resize("linux", init_to("200m")),
        patch(&format!("{}/linux/status", pods(&here)), "merge", &json!({"status": {"message": "m"}})),
        resize("windows", to("1", "20Mi")),
        resize("windows", to("3", "20Mi")),
        resize("lost", to("1", "20Mi")),
        resize("lost", to("100m", "10Mi")),
        resize("pending", to("5", "20Mi")),
        resize("init", init_to("200m")),
        resize("init", to("200m", "10Mi")),
        resize("able-init", init_to("200m")),
        resize("level", json!({"resources": resources("300m", "20Mi")})),
        resize("level", to("150m", "10Mi")),
        resize("able-level", json!({"resources": resources("300m", "20Mi")})),
        resize("able-level", json!({"resources": resources("3", "20Mi")})),
        resize("lost-level", json!({"resources": resources("300m", "20Mi")})),
        patch(&format!("{}/linux", pods(&here)), "merge", &json!({"metadata": {"labels": {"a": "b"}}})),
    ]));
}
