//! The effects of plugins on nodes, and on pods because of their nodes, compared with kube-apiserver's own.

use super::pods::{as_developer, container, merge, namespace, node, pair, pod, pods};
use crate::harness::{User, get, patch, post, put, unique};
use serde_json::{Value, json};

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
