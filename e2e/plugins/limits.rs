//! The effects of LimitRanger on pods and claims, compared with kube-apiserver's own plugin.

use super::pods::{as_developer, container, generated, namespace, pair, pod, pods};
use crate::harness::{Request, Side, User, get, patch, post, unique};
use serde_json::{Value, json};

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
        // The default limit is lower than the request.
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
    let resize_sidecar = |request: &str| {
        let sidecars = json!([{"name": "s", "resources": both(request, request)}]);
        let body = json!({"spec": {"initContainers": sidecars}});
        patch(&format!("{}/with-sidecar/resize", pods(&here)), "strategic", &body)
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
        // An error of both containers is reported once.
        whole("alike", json!({"containers": [container("a", both("10m", "3")), container("b", both("10m", "3"))]})),
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
        // The plugin checks init containers in a resize, too.
        whole(
            "with-sidecar",
            json!({"initContainers": [sidecar("500m")], "containers": [container("a", both("100m", "200m"))]}),
        ),
        resize_sidecar("20m"),
        resize_sidecar("2100m"),
        resize_sidecar("600m"),
        resize("with-sidecar", "2", "2500m"),
        patch(&format!("{}/fine", pods(&here)), "merge", &json!({"metadata": {"labels": {"a": "b"}}})),
    ]));
}

#[test]
fn a_resize_that_a_limit_range_touches_needs_the_feature_of_init_containers() {
    // A review does not show empty resources.
    if Side::is_front_end() {
        return;
    }
    let (here, without) = (unique("resized"), unique("resized-free"));
    let node = unique("resized-node");
    pair().set_up(&[namespace(&here), namespace(&without)].concat());
    let node_object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}});
    pair().set_up(&[
        post("/api/v1/nodes", &node_object),
        limit_range(&here, json!([{"type": "Pod", "min": {"cpu": "10m"}}])),
    ]);
    let small = pod("probe", json!({"containers": [container("a", json!({"requests": {"cpu": "1m"}}))]}));
    pair().until(
        &User::developer(),
        &post(&format!("{}?dryRun=All", pods(&here)), &small),
        "minimum cpu usage per Pod",
    );
    let both = json!({"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}});
    let placed = |name: &str, init: Value| {
        let of_init = container("i", init);
        pod(name, json!({"nodeName": node, "initContainers": [of_init], "containers": [container("a", both.clone())]}))
    };
    let mut sidecar = placed("sidecar", json!({"requests": {"cpu": "50m"}}));
    sidecar["spec"]["initContainers"][0]["restartPolicy"] = json!("Always");
    let at = |namespace: &str, name: &str| format!("{}/{name}/resize", pods(namespace));
    let resize = |namespace: &str, name: &str, cpu: &str| {
        let containers = json!([{"name": "a", "resources": {"requests": {"cpu": cpu}}}]);
        patch(&at(namespace, name), "strategic", &json!({"spec": {"containers": containers}}))
    };
    let cpu = |cpu: &str| {
        json!([{"op": "replace", "path": "/spec/containers/0/resources/requests/cpu", "value": cpu},
            {"op": "add", "path": "/spec/initContainers/0/resources/limits", "value": {}}])
    };
    let mut steps = Vec::new();
    for namespace in [&here, &without] {
        for (name, object) in [
            ("bare", placed("bare", json!({}))),
            ("requests", placed("requests", json!({"requests": {"cpu": "50m"}}))),
            ("full", placed("full", both.clone())),
            ("sidecar", sidecar.clone()),
        ] {
            steps.extend([
                post(&pods(namespace), &object),
                resize(namespace, name, "110m"),
                resize(namespace, name, "100m"),
                patch(&at(namespace, name), "json", &cpu("120m")),
                patch(&at(namespace, name), "merge", &json!({"metadata": {"labels": {"a": "b"}}})),
                get(&format!("{}/{name}", pods(namespace))),
            ]);
        }
    }
    pair().compare(as_developer(steps));
}
