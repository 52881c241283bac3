//! ResourceQuota, compared with kube-apiserver's own: responses, objects and usage; and through several proxies at once.

use crate::harness::differential::{Case, compare_with};
use crate::harness::{Api, Proxy, Request, User, delete, eventually, folder, get, patch, post, put, unique, upstream};
use serde_json::{Value, json};
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A resource that tests create only to check whether earlier quotas are in effect.
const PROBED: &str = "count/limitranges";

fn at(namespace: &str, resource: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/{resource}")
}

/// Creates a quota with these limits in its status and a usage of zero.
fn quota(namespace: &str, name: &str, hard: Value, mut spec: Value) -> Vec<Request> {
    let none = hard.as_object().unwrap().keys().map(|name| (name.clone(), json!("0"))).collect();
    let none: serde_json::Map<String, Value> = none;
    spec["hard"] = hard.clone();
    let object = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": spec});
    vec![post(&at(namespace, "resourcequotas"), &object), counted(namespace, name, hard, Value::Object(none))]
}

/// The status that the controller would write.
fn counted(namespace: &str, name: &str, hard: Value, used: Value) -> Request {
    let status = json!({"status": {"hard": hard, "used": used}});
    patch(&format!("{}/{name}/status", at(namespace, "resourcequotas")), "merge", &status)
}

fn usage(namespace: &str, name: &str) -> Request {
    get(&format!("{}/{name}", at(namespace, "resourcequotas")))
}

/// A namespace with quotas; the last quota shows when all are in effect.
fn namespace(name: &str, quotas: Vec<Vec<Request>>) -> Vec<Request> {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let last = quota(name, "zz-last", json!({ PROBED: "0" }), json!({}));
    let quotas = quotas.into_iter().flatten();
    [post("/api/v1/namespaces", &object)].into_iter().chain(quotas).chain(last).collect()
}

/// Waits until the quotas of these namespaces are in effect.
fn known(api: &Api, namespaces: &[&str]) {
    let object =
        json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "probe"}, "spec": {"limits": []}});
    for name in namespaces {
        let probe = post(&format!("{}?dryRun=All", at(name, "limitranges")), &object);
        eventually("a quota that is known", || (api.send(&User::admin(), probe.clone()).status == 403).then_some(()));
    }
}

fn as_developer(requests: Vec<Request>) -> Vec<(User, Request)> {
    requests.into_iter().map(|request| (User::developer(), request)).collect()
}

/// Compares the requests on both sides, once all quotas are in effect.
fn same(plugins: &[&str], flags: &[String], names: &[&str], setup: Vec<Vec<Request>>, steps: Vec<Request>) {
    let setup = setup.into_iter().flatten().collect();
    let case = Case { plugins, setup, webhook: None, steps: as_developer(steps) };
    compare_with(&case, flags, |api| known(api, names));
}

fn pod(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
}

fn container(name: &str, requests: Value, limits: Value) -> Value {
    json!({"name": name, "image": "i", "resources": {"requests": requests, "limits": limits}})
}

/// A pod with one container that has these resources.
fn asking(name: &str, requests: Value, limits: Value) -> Value {
    pod(name, json!({"containers": [container("a", requests, limits)]}))
}

fn plain(name: &str) -> Value {
    pod(name, json!({"containers": [{"name": "a", "image": "i"}]}))
}

const PLUGINS: &[&str] = &["NamespaceLifecycle", "ResourceQuota"];

#[test]
fn pods_are_counted_and_refused_as_by_kube_apiserver() {
    let here = unique("quota-pods");
    let hard = json!({"pods": "6", "requests.cpu": "2", "limits.memory": "3Gi", "requests.example.com/gpu": "1", "count/pods": "20"});
    let pods = at(&here, "pods");
    let create = |pod: Value| post(&pods, &pod);
    let small = |name: &str| asking(name, json!({"cpu": "100m"}), json!({"memory": "100Mi"}));
    let used = || usage(&here, "q");
    let resize = |cpu: &str| {
        let container = json!({"name": "a", "resources": {"requests": {"cpu": cpu}}});
        patch(&format!("{pods}/first/resize"), "strategic", &json!({"spec": {"containers": [container]}}))
    };
    let gpu = |name: &str, count: &str| {
        let limits = json!({"memory": "1Mi", "example.com/gpu": count});
        asking(name, json!({"cpu": "1m", "example.com/gpu": count}), limits)
    };
    same(
        PLUGINS,
        &[],
        &[&here],
        vec![namespace(&here, vec![quota(&here, "q", hard, json!({}))])],
        vec![
            create(plain("silent")),
            create(pod(
                "half-silent",
                json!({"containers": [container("b", json!({"cpu": "1"}), json!({})), container("a", json!({}), json!({"memory": "1Gi"}))],
                       "initContainers": [container("i", json!({"cpu": "1"}), json!({}))]}),
            )),
            create(asking("first", json!({"cpu": "500m"}), json!({"memory": "1Gi", "cpu": "1"}))),
            used(),
            create(asking("too-large", json!({"cpu": "1.6"}), json!({"memory": "2.5Gi"}))),
            create(gpu("two-devices", "2")),
            create(gpu("one-device", "1")),
            create(gpu("another-device", "1")),
            // Dry runs are checked but not charged.
            post(&format!("{pods}?dryRun=All"), &small("dry")),
            post(&format!("{pods}?dryRun=All"), &asking("dry", json!({"cpu": "9"}), json!({"memory": "1"}))),
            // Requests that are rejected before the quota is charged.
            create(asking("bad", json!({"cpu": "2"}), json!({"cpu": "1", "memory": "1"}))),
            create(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "Bad"}, "spec": small("x")["spec"]})),
            used(),
            // The create is charged although the pod exists already.
            create(small("first")),
            used(),
            resize("700m"),
            resize("3"),
            used(),
            patch(&format!("{pods}/first"), "merge", &json!({"metadata": {"labels": {"a": "b"}}})),
            patch(&format!("{pods}/first"), "merge", &json!({"spec": {"activeDeadlineSeconds": 60}})),
            used(),
            patch(&format!("{pods}/applied?fieldManager=e2e"), "apply", &small("applied")),
            patch(&format!("{pods}/applied?fieldManager=e2e"), "apply", &small("applied")),
            used(),
            create(
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "some-"}, "spec": small("x")["spec"]}),
            ),
            used(),
            create(small("one-too-many")),
            // A deletion releases no usage.
            delete(&format!("{pods}/one-device?gracePeriodSeconds=0")),
            used(),
        ],
    );
}

#[test]
fn the_usage_of_a_pod_is_computed_as_by_kube_apiserver() {
    let here = unique("quota-sums");
    let hard = json!({"cpu": "100", "limits.cpu": "100", "memory": "100Gi", "ephemeral-storage": "100Gi",
        "requests.ephemeral-storage": "100Gi", "hugepages-2Mi": "1Gi", "requests.hugepages-2Mi": "1Gi"});
    let pods = at(&here, "pods");
    let cpu = |name: &str, cpu: &str| container(name, json!({"cpu": cpu, "memory": "1Mi"}), json!({"cpu": cpu}));
    let used = || usage(&here, "q");
    let sidecar = |name: &str, request: &str| {
        let mut container = cpu(name, request);
        container["restartPolicy"] = json!("Always");
        container
    };
    let own = json!({"requests": {"cpu": "5", "memory": "1.5Gi"}, "limits": {"cpu": "6"}});
    let huge = json!({"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "4Mi", "ephemeral-storage": "0.5Gi"});
    let steps = [
        json!({"containers": [cpu("a", "1"), cpu("b", "0.5")], "initContainers": [cpu("i", "2"), cpu("j", "1")]}),
        json!({"containers": [cpu("a", "1")], "initContainers": [sidecar("s", "250m"), cpu("i", "2"), sidecar("t", "3")]}),
        json!({"containers": [cpu("a", "1"), {"name": "b", "image": "i"}], "resources": own}),
        json!({"containers": [container("a", huge, json!({"cpu": "1", "hugepages-2Mi": "4Mi"}))]}),
        json!({"containers": [cpu("a", "1e-1")]}),
        json!({"containers": [cpu("a", "100")]}),
    ];
    let create = |(index, spec): (usize, Value)| [post(&pods, &pod(&format!("p{index}"), spec)), used()];
    same(
        PLUGINS,
        &[],
        &[&here],
        vec![namespace(&here, vec![quota(&here, "q", hard, json!({}))])],
        steps.into_iter().enumerate().flat_map(create).collect(),
    );
}

#[test]
fn quotas_are_of_their_scopes_as_in_kube_apiserver() {
    let here = unique("quota-scopes");
    let class = |operator: &str, values: Value| {
        let expression = json!({"scopeName": "PriorityClass", "operator": operator, "values": values});
        json!({"scopeSelector": {"matchExpressions": [expression]}})
    };
    let of = |name: &str, scope: Value| quota(&here, name, json!({"pods": "2"}), scope);
    let names = [
        "best-effort",
        "not-best-effort",
        "terminating",
        "not-terminating",
        "high",
        "not-high",
        "classless",
        "crossing",
    ];
    let all_used = || names.map(|name| usage(&here, name));
    let pods = at(&here, "pods");
    let create = |name: &str, fields: Value| {
        let mut pod = plain(name);
        pod["spec"].as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        post(&pods, &pod)
    };
    let term = json!({"topologyKey": "k", "namespaces": ["a"], "labelSelector": {}});
    let affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    let priority = |name: &str, value: i32| {
        let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value});
        post("/apis/scheduling.k8s.io/v1/priorityclasses", &class)
    };
    let setup = namespace(
        &here,
        vec![
            of(names[0], json!({"scopes": ["BestEffort"]})),
            of(names[1], json!({"scopes": ["NotBestEffort"]})),
            of(names[2], json!({"scopes": ["Terminating"]})),
            of(names[3], json!({"scopes": ["NotTerminating"]})),
            of(names[4], class("In", json!([format!("{here}-high")]))),
            of(names[5], class("NotIn", json!([format!("{here}-high")]))),
            of(names[6], class("DoesNotExist", json!([]))),
            of(names[7], json!({"scopes": ["CrossNamespacePodAffinity"]})),
        ],
    );
    let high = json!({"priorityClassName": format!("{here}-high"), "priority": 10});
    let mut busy = high.clone();
    busy["containers"] = json!([container("a", json!({"cpu": "1"}), json!({}))]);
    let mut steps = vec![
        create("one", json!({})),
        create("two", json!({"activeDeadlineSeconds": 5, "affinity": affinity})),
        // The pod moves from one scope to another.
        patch(&format!("{pods}/one"), "merge", &json!({"spec": {"activeDeadlineSeconds": 10}})),
    ];
    steps.extend(all_used());
    steps.extend([create("three", busy), usage(&here, names[1]), usage(&here, names[3]), usage(&here, names[4])]);
    let full = json!({"activeDeadlineSeconds": 5, "priorityClassName": format!("{here}-high"), "priority": 10,
        "containers": [container("a", json!({"cpu": "1"}), json!({}))]});
    steps.push(create("four", full));
    steps.extend(all_used());
    same(PLUGINS, &[], &[&here], vec![vec![priority(&format!("{here}-high"), 10)], setup], steps);
}

#[test]
fn services_and_claims_are_counted_as_by_kube_apiserver() {
    let here = unique("quota-objects");
    let hard =
        json!({"services": "4", "services.nodeports": "3", "services.loadbalancers": "1", "count/services": "9"});
    let gold = "gold.storageclass.storage.k8s.io";
    let (of_gold, gold_claims) = (format!("{gold}/requests.storage"), format!("{gold}/persistentvolumeclaims"));
    let stored = json!({"requests.storage": "10Gi", "persistentvolumeclaims": "4", of_gold: "5Gi", gold_claims: "2"});
    let (services, claims) = (at(&here, "services"), at(&here, "persistentvolumeclaims"));
    let ports =
        |count: usize| -> Value { (1..=count).map(|port| json!({"name": format!("p{port}"), "port": port})).collect() };
    // Values that the API server allocates differ from run to run.
    let node_port = |port: usize| json!({"name": format!("p{port}"), "port": port, "nodePort": 30_010 + port});
    let node_ports: Vec<Value> = (1..=2).map(node_port).collect();
    let balanced = json!({"allocateLoadBalancerNodePorts": false, "clusterIP": "10.0.0.12"});
    let service = |name: &str, kind: &str, count: usize, more: Value| {
        let mut spec = json!({"type": kind, "ports": ports(count)});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec})
    };
    let claim = |name: &str, storage: &str, class: Value| {
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class, "resources": {"requests": {"storage": storage}}}})
    };
    let grown = |name: &str, storage: &str| {
        patch(&format!("{claims}/{name}"), "merge", &json!({"spec": {"resources": {"requests": {"storage": storage}}}}))
    };
    let observed =
        |name: &str, status: Value| patch(&format!("{claims}/{name}/status"), "merge", &json!({ "status": status }));
    same(
        PLUGINS,
        &[],
        &[&here],
        vec![namespace(&here, vec![quota(&here, "net", hard, json!({})), quota(&here, "disk", stored, json!({}))])],
        vec![
            post(&services, &service("one", "ClusterIP", 2, json!({"clusterIP": "10.0.0.11"}))),
            post(&services, &service("many-ports", "NodePort", 4, json!({}))),
            patch(&format!("{services}/one"), "merge", &json!({"spec": {"type": "NodePort", "ports": node_ports}})),
            usage(&here, "net"),
            post(&services, &service("balanced", "LoadBalancer", 2, json!({}))),
            post(&services, &service("balanced", "LoadBalancer", 2, balanced)),
            post(&services, &service("another", "LoadBalancer", 1, json!({"allocateLoadBalancerNodePorts": false}))),
            patch(&format!("{services}/one"), "merge", &json!({"spec": {"type": "ClusterIP"}})),
            usage(&here, "net"),
            post(&claims, &claim("plain", "3Gi", json!(""))),
            post(&claims, &claim("golden", "6Gi", json!("gold"))),
            post(&claims, &claim("golden", "4.0000000001Gi", json!("gold"))),
            usage(&here, "disk"),
            observed("plain", json!({"phase": "Bound", "capacity": {"storage": "3Gi"}})),
            grown("plain", "9Gi"),
            grown("plain", "4Gi"),
            usage(&here, "disk"),
            // Charged regardless of the limits.
            observed("plain", json!({"allocatedResources": {"storage": "20Gi"}})),
            usage(&here, "disk"),
            // A lower usage is allowed, although the limit is exceeded.
            patch(&format!("{claims}/plain"), "merge", &json!({"metadata": {"labels": {"a": "b"}}})),
            post(&claims, &claim("nothing", "1", json!(""))),
            usage(&here, "disk"),
        ],
    );
}

#[test]
fn other_resources_are_counted_by_number_as_by_kube_apiserver() {
    let here = unique("quota-counts");
    let hard = json!({"configmaps": "3", "count/configmaps": "9", "count/secrets": "0", "count/leases.coordination.k8s.io": "2",
        "count/deployments.apps": "1", "count/events": "0", "count/serviceaccounts": "1"});
    let partial = counted(
        &here,
        "partial",
        json!({"count/endpoints": "1", "count/podtemplates": "5"}),
        json!({"count/endpoints": "0"}),
    );
    let maps = at(&here, "configmaps");
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{here}/leases");
    let object = |version: &str, kind: &str, name: &str| json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}});
    let map = |name: &str| object("v1", "ConfigMap", name);
    let lease = |name: &str| object("coordination.k8s.io/v1", "Lease", name);
    let labels = json!({"app": "a"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "i"}]}});
    let deployment = |name: &str| {
        let mut deployment = object("apps/v1", "Deployment", name);
        deployment["spec"] = json!({"selector": {"matchLabels": labels}, "template": template});
        deployment
    };
    let mut pod_template = object("v1", "PodTemplate", "t");
    pod_template["template"] = template.clone();
    let mut event = object("v1", "Event", "e");
    event["involvedObject"] = json!({"namespace": here, "kind": "Pod", "name": "p"});
    let mut another = object("v1", "ResourceQuota", "another");
    another["spec"] = json!({"hard": {"pods": "1"}});
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "LocalSubjectAccessReview", "metadata": {"namespace": here},
        "spec": {"user": "x", "resourceAttributes": {"namespace": here, "verb": "get", "resource": "pods"}}});
    let deployments = format!("/apis/apps/v1/namespaces/{here}/deployments");
    let accounts = at(&here, "serviceaccounts");
    // The quota that counts quotas comes last.
    let mut partly = quota(&here, "partial", json!({"count/podtemplates": "5"}), json!({}));
    partly.truncate(1);
    let mut setup = namespace(&here, vec![quota(&here, "q", hard, json!({})), partly, vec![partial]]);
    setup.pop();
    let last = json!({ PROBED: "0", "resourcequotas": "0" });
    setup.push(counted(&here, "zz-last", last.clone(), last));
    same(
        PLUGINS,
        &[],
        &[&here],
        vec![setup],
        vec![
            post(&maps, &map("one")),
            post(&maps, &map("one")),
            patch(&format!("{maps}/two?fieldManager=e2e"), "apply", &map("two")),
            patch(&format!("{maps}/two?fieldManager=e2e"), "apply", &map("two")),
            usage(&here, "q"),
            post(&maps, &map("three")),
            put(&format!("{maps}/one"), &map("one")),
            post(&at(&here, "secrets"), &object("v1", "Secret", "s")),
            put(&format!("{leases}/one"), &lease("one")),
            patch(&format!("{leases}/two?fieldManager=e2e"), "apply", &lease("two")),
            put(&format!("{leases}/three"), &lease("three")),
            post(&format!("{leases}?dryRun=All"), &lease("three")),
            post(&deployments, &deployment("one")),
            post(&deployments, &deployment("two")),
            patch(&format!("{deployments}/one/scale"), "merge", &json!({"spec": {"replicas": 3}})),
            post(&at(&here, "events"), &event),
            post(&accounts, &object("v1", "ServiceAccount", "one")),
            post(&accounts, &object("v1", "ServiceAccount", "two")),
            post(&at(&here, "podtemplates"), &pod_template),
            post(&at(&here, "resourcequotas"), &another),
            post(&format!("/apis/authorization.k8s.io/v1/namespaces/{here}/localsubjectaccessreviews"), &review),
            usage(&here, "q"),
            usage(&here, "partial"),
        ],
    );
}

#[test]
fn devices_are_counted_as_by_kube_apiserver() {
    let here = unique("quota-devices");
    let class = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": format!("{here}-gpu")},
        "spec": {"extendedResourceName": format!("{here}.example.com/gpu")}});
    let (big, small) =
        (format!("{here}-gpu.deviceclass.resource.k8s.io/devices"), "small.deviceclass.resource.k8s.io/devices");
    let extended = format!("requests.{here}.example.com/gpu");
    let implicit = format!("requests.deviceclass.resource.kubernetes.io/{here}-gpu");
    let exceeded = format!("requested: {extended}=5");
    let hard =
        json!({big: "5", small: "40", extended: "4", implicit: "9", "count/resourceclaims.resource.k8s.io": "9"});
    let claims = format!("/apis/resource.k8s.io/v1/namespaces/{here}/resourceclaims");
    let claim = |name: &str, request: Value| {
        let mut request = request;
        request["name"] = json!("r");
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name},
            "spec": {"devices": {"requests": [request]}}})
    };
    let exactly = |class: &str, count: u32| json!({"exactly": {"deviceClassName": class, "count": count}});
    let one_of = |name: &str, class: &str, count: u32| json!({"name": name, "deviceClassName": class, "count": count});
    let gpu = format!("{here}-gpu");
    let steps = vec![
        post(&claims, &claim("one", exactly(&gpu, 3))),
        usage(&here, "q"),
        post(&claims, &claim("two", exactly(&gpu, 2))),
        post(&claims, &claim("all", json!({"exactly": {"deviceClassName": "small", "allocationMode": "All"}}))),
        post(
            &claims,
            &claim(
                "alternatives",
                json!({"firstAvailable": [one_of("a", &gpu, 1), one_of("b", "small", 3), one_of("c", "small", 4)]}),
            ),
        ),
        usage(&here, "q"),
        post(&claims, &claim("too-many", exactly("small", 5))),
        patch(&format!("{claims}/one"), "merge", &json!({"metadata": {"labels": {"a": "b"}}})),
        usage(&here, "q"),
    ];
    let setup = vec![
        vec![post("/apis/resource.k8s.io/v1/deviceclasses", &class)],
        namespace(&here, vec![quota(&here, "q", hard, json!({}))]),
    ];
    let setup = setup.into_iter().flatten().collect();
    let case = Case { plugins: PLUGINS, setup, webhook: None, steps: as_developer(steps) };
    compare_with(&case, &[], |api| {
        known(api, &[&here]);
        let probe = post(&format!("{claims}?dryRun=All"), &claim("probe", exactly(&gpu, 5)));
        eventually("a device class that is known", || {
            let answer = api.send(&User::admin(), probe.clone());
            answer.text().contains(&exceeded).then_some(())
        });
    });
}

#[test]
fn a_limited_resource_needs_a_quota_as_in_kube_apiserver() {
    let (bare, covered) = (unique("quota-bare"), unique("quota-covered"));
    let folder = folder("limited");
    let configuration = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "ResourceQuotaConfiguration", "limitedResources": [
        {"resource": "pods", "matchContains": ["cpu", "pods"], "matchScopes": [
            {"scopeName": "PriorityClass", "operator": "In", "values": ["system-cluster-critical", "high"]},
            {"scopeName": "CrossNamespacePodAffinity", "operator": "Exists"}]},
        {"apiGroup": "apps", "resource": "deployments", "matchContains": ["deployments"]},
        {"resource": "services", "matchContains": ["loadbalancers"]}]});
    let file = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration",
        "plugins": [{"name": "ResourceQuota", "configuration": configuration}]});
    let path = folder.join("admission.yaml");
    fs::write(&path, file.to_string()).unwrap();
    let flags = [format!("--admission-control-config-file={}", path.display())];
    let critical = json!({"priorityClassName": "system-cluster-critical", "priority": 2_000_000_000});
    let term = json!({"topologyKey": "k", "namespaceSelector": {}, "labelSelector": {}});
    let crossing = json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}});
    let with = |name: &str, fields: &[&Value]| {
        let mut pod = asking(name, json!({"cpu": "1"}), json!({}));
        for fields in fields {
            pod["spec"].as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        }
        pod
    };
    let service = |kind: &str| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": kind.to_lowercase()},
            "spec": {"type": kind, "externalName": if kind == "ExternalName" { "a.b" } else { "" }, "ports": [{"port": 1}]}})
    };
    let labels = json!({"app": "a"});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": plain("x")["spec"]}}});
    let counts = json!({"pods": "5", "count/pods": "5", "cpu": "3", "requests.cpu": "3"});
    let of_scope = json!({"scopeSelector": {"matchExpressions": [
        {"scopeName": "PriorityClass", "operator": "In", "values": ["system-cluster-critical"]}]}});
    let deployments = |namespace: &str| format!("/apis/apps/v1/namespaces/{namespace}/deployments");
    let setup = vec![
        namespace(&bare, vec![]),
        namespace(
            &covered,
            vec![
                quota(&covered, "counts", counts, json!({})),
                quota(&covered, "critical", json!({"pods": "1"}), of_scope),
            ],
        ),
    ];
    let steps = vec![
        post(&at(&bare, "pods"), &with("one", &[])),
        post(&at(&bare, "pods"), &with("critical", &[&critical])),
        post(&format!("{}?dryRun=All", at(&bare, "pods")), &with("dry", &[])),
        post(&deployments(&bare), &deployment),
        post(&at(&bare, "services"), &service("ExternalName")),
        post(&at(&bare, "services"), &service("LoadBalancer")),
        post(&at(&bare, "configmaps"), &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "free"}})),
        post(&at(&covered, "pods"), &with("one", &[])),
        post(&at(&covered, "pods"), &with("crossing", &[&crossing])),
        post(&at(&covered, "pods"), &with("critical", &[&critical])),
        post(&at(&covered, "pods"), &with("both", &[&critical, &crossing])),
        post(&at(&covered, "pods"), &with("another", &[&critical])),
        usage(&covered, "counts"),
        usage(&covered, "critical"),
    ];
    same(PLUGINS, &flags, &[&bare, &covered], setup, steps);
}

/// The number of objects that fit, and the number of clients.
const ROOM: usize = 40;
const CLIENTS: usize = 8;

/// Fills a quota through these proxies concurrently; returns the number of accepted objects.
fn fill(proxies: &[&Api], namespace: &str) -> usize {
    let (accepted, next) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (accepted, next) = (&accepted, &next);
            scope.spawn(move || {
                // A client with too many conflicts gets an error, as from kube-apiserver, and retries.
                for _ in 0..100 * ROOM {
                    let name = format!("c{}", next.fetch_add(1, Ordering::SeqCst));
                    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
                    let answer = proxies[client % proxies.len()]
                        .send(&User::developer(), post(&at(namespace, "configmaps"), &map));
                    match answer.status {
                        201 => drop(accepted.fetch_add(1, Ordering::SeqCst)),
                        409 => assert!(answer.message().contains("resourcequotas \"q\""), "{}", answer.text()),
                        403 => {
                            assert!(answer.message().contains("exceeded quota: q, requested"), "{}", answer.text());
                            return;
                        }
                        _ => panic!("{}", answer.text()),
                    }
                }
                panic!("the quota never fills");
            });
        }
    });
    accepted.into_inner()
}

fn fills_exactly(proxies: &[&Api], api: &Api) {
    let here = unique("quota-full");
    for request in namespace(&here, vec![quota(&here, "q", json!({"configmaps": ROOM.to_string()}), json!({}))]) {
        let answer = api.send(&User::admin(), request);
        assert!(answer.status < 300, "{}", answer.text());
    }
    proxies.iter().for_each(|proxy| known(proxy, &[&here]));
    assert_eq!(fill(proxies, &here), ROOM);
    let stored = api.send(&User::admin(), get(&at(&here, "configmaps"))).json();
    assert_eq!(stored["items"].as_array().unwrap().len(), ROOM);
    let quota = api.send(&User::admin(), usage(&here, "q")).json();
    assert_eq!(quota["status"]["used"], json!({"configmaps": ROOM.to_string()}));
}

#[test]
fn many_clients_of_two_proxies_fill_a_quota_exactly() {
    let proxies = [Proxy::before(upstream(), &[]), Proxy::before(upstream(), &[])];
    fills_exactly(&[&proxies[0], &proxies[1]], upstream());
}

#[test]
fn many_clients_fill_a_quota_of_the_embedded_server_exactly() {
    let proxy = Proxy::embedded(&["--controllers=*,-root-ca-cert-publisher"]);
    fills_exactly(&[&proxy], &proxy);
}
