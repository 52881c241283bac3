//! A kube-apiserver of the next minor release, whose kinds, fields and defaults the proxy has with `--emulated-version`.

use crate::harness::{ControlPlane, Pair, Proxy, Request, User, get, only, patch, post, put, upstream};
use serde_json::{Value, json};

const ALL: [&str; 2] = ["--runtime-config=api/all=true", "--feature-gates=AllAlpha=true,AllBeta=true"];

fn object(api_version: &str, kind: &str, name: &str, more: Value) -> Value {
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
    object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    object
}

/// A pod with fields that the release added.
fn pod(name: &str) -> Value {
    let http = json!({"path": "/", "port": 80, "protocol": "HTTP1"});
    let mounts = json!([{"name": "v", "mountPath": "/v", "bindMountOptions": ["noexec"]}]);
    let container = json!({"name": "c", "image": "i", "volumeMounts": mounts, "livenessProbe": {"httpGet": http}});
    let spec = json!({"automountServiceAccountToken": false, "containers": [container],
        "evictionResponders": [{"name": "example.com/responder", "priority": 5000}],
        "volumes": [{"name": "v", "emptyDir": {"mode": 511}}]});
    object("v1", "Pod", name, json!({ "spec": spec }))
}

fn slice(version: &str, name: &str, device: &Value) -> Value {
    let device = match version {
        "v1beta1" => json!({"name": "d", "basic": device}),
        _ => {
            let mut device = device.clone();
            device["name"] = json!("d");
            device
        }
    };
    let pool = json!({"name": "pool", "generation": 1, "resourceSliceCount": 1});
    let spec = json!({"driver": "d.example.com", "pool": pool, "nodeName": "old", "devices": [device]});
    object(&format!("resource.k8s.io/{version}"), "ResourceSlice", name, json!({ "spec": spec }))
}

#[test]
#[ignore = "needs a kube-apiserver of that release: `make e2e-newer`"]
fn a_release_one_minor_newer_has_its_fields_and_kinds() {
    let node = object("v1", "Node", "old", json!({}));
    let flags = [ALL[1].to_owned()];
    let of_servers = [ALL[0].to_owned()];
    let plugins = ["Priority", "NodeDeclaredFeatureValidator", "MutatingAdmissionWebhook"];
    let pair = Pair::alone(&plugins, &flags, &[post("/api/v1/nodes", &node)], &of_servers);
    let class = json!({"value": 5, "preemptionPolicy": "Never"});
    let class = object("scheduling.k8s.io/v1", "PriorityClass", "calm", class);
    pair.set_up(&[post("/apis/scheduling.k8s.io/v1/priorityclasses", &class)]);
    let found = get("/apis/scheduling.k8s.io/v1/priorityclasses/calm");
    pair.until(&User::admin(), &found, "calm");

    let pods = "/api/v1/namespaces/default/pods";
    let mut steps: Vec<Request> = vec![
        post(&format!("{pods}?fieldValidation=Strict"), &pod("p")),
        get(&format!("{pods}/p")),
        patch(&format!("{pods}/p"), "merge", &json!({"metadata": {"labels": {"a": "b"}}})),
        patch(&format!("{pods}/p"), "strategic", &json!({"metadata": {"labels": {"a": "c"}}})),
        patch(&format!("{pods}/q?fieldManager=m"), "apply", &pod("q")),
        // Fields of the release before.
        post(
            &format!("{pods}?fieldValidation=Strict&dryRun=All"),
            &object("v1", "Pod", "r", json!({"spec": {"containers": [{"name": "c", "image": "i", "next": 1}]}})),
        ),
    ];
    for version in ["v1", "v1beta2", "v1beta1"] {
        let slices = format!("/apis/resource.k8s.io/{version}/resourceslices?dryRun=All&fieldValidation=Strict");
        let named = |key: &str| json!({ key: {"cpu": {"mapping": {"capacityKey": "a"}}}});
        steps.extend([
            // The node does not declare the feature.
            post(
                &slices,
                &slice(version, "s", &json!({"nodeAllocatableResources": {"cpu": {"overhead": {"perPod": "1"}}}})),
            ),
            // The name of the field in the release before.
            post(&slices, &slice(version, "s", &named("nodeAllocatableResourceMappings"))),
            post(&slices, &slice(version, "s", &json!({}))),
        ]);
    }
    let group = |version: &str, spec: Value| {
        object(&format!("scheduling.k8s.io/{version}"), "PodGroup", "g", json!({ "spec": spec }))
    };
    for version in ["v1beta1", "v1alpha3"] {
        let groups =
            format!("/apis/scheduling.k8s.io/{version}/namespaces/default/podgroups?dryRun=All&fieldValidation=Strict");
        for spec in [
            json!({"priorityClassName": "calm", "schedulingPolicy": {"basic": {}}}),
            json!({"priorityClassName": "calm", "preemptionPolicy": "PreemptLowerPriority", "schedulingPolicy": {"basic": {}}}),
            json!({"schedulingPolicy": {"basic": {}}}),
        ] {
            steps.push(post(&groups, &group(version, spec)));
        }
    }
    pair.compare(steps.into_iter().map(|step| (User::admin(), step)).collect());

    let at = format!("{pods}/p");
    let statuses = json!([{"resourceClaimName": "c", "containers": ["c"],
        "mapping": [{"name": "cpu", "quantity": "1"}], "overhead": [{"name": "memory", "perPod": "1"}]}]);
    let written = pair.sides().map(|api| {
        let mut read = api.send(&User::admin(), get(&at)).json();
        assert_eq!(read["spec"]["evictionResponders"][0]["priority"], 5000, "{read}");
        read["status"]["nodeAllocatableResourceClaimStatuses"] = statuses.clone();
        let answer = api.send(&User::admin(), put(&format!("{at}/status"), &read));
        (answer.status, answer.header("warning"), answer.json()["status"].clone())
    });
    assert_eq!(written[1], written[0]);
}

/// What discovery says, without the times and hashes that a server computes of its own.
fn discovered(api: &crate::harness::Api) -> Vec<(String, Value)> {
    let read = |path: &str| api.send(&User::admin(), get(path)).json();
    let mut found = vec![("/api/v1".to_owned(), read("/api/v1")), ("/apis".to_owned(), read("/apis"))];
    let groups = found[1].1["groups"].as_array().unwrap().clone();
    for version in groups.iter().flat_map(|group| group["versions"].as_array().unwrap()) {
        let path = format!("/apis/{}", version["groupVersion"].as_str().unwrap());
        found.push((path.clone(), read(&path)));
        let schemas = format!("/openapi/v3{path}");
        found.push((schemas.clone(), read(&schemas)["components"]["schemas"].clone()));
    }
    found
}

#[test]
#[ignore = "needs a kube-apiserver of that release: `make e2e-newer`"]
fn a_release_one_minor_newer_is_served_by_the_embedded_server() {
    let embedded = Proxy::embedded(&[]);
    let expected = discovered(upstream());
    let found = discovered(&embedded);
    let paths = |all: &[(String, Value)]| all.iter().map(|(path, _)| path.clone()).collect::<Vec<_>>();
    assert_eq!(paths(&found), paths(&expected));
    for ((path, found), (_, expected)) in found.iter().zip(&expected) {
        assert!(found == expected, "{path}:\n{found}\n{expected}");
    }
    let version = |api: &crate::harness::Api| api.send(&User::admin(), get("/version")).json();
    for field in ["major", "minor", "gitVersion", "emulationMinor", "minCompatibilityMinor"] {
        assert_eq!(version(&embedded)[field], version(upstream())[field], "{field}");
    }
}

#[test]
#[ignore = "needs a kube-apiserver of that release: `make e2e-newer`"]
fn a_release_one_minor_newer_is_stored_by_the_embedded_server_with_the_same_defaults() {
    let reference = ControlPlane::start("newer-reference", &only(&[]));
    let plugins = crate::harness::proxy_only(&[]);
    let embedded = Proxy::embedded(&plugins.each_ref().map(String::as_str));
    let driver = object("storage.k8s.io/v1", "CSIDriver", "d.example.com", json!({"spec": {}}));
    let scale =
        json!({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "maxReplicas": 3});
    let scaler = object("autoscaling/v2", "HorizontalPodAutoscaler", "h", json!({ "spec": scale }));
    let migration = json!({"spec": {"resource": {"group": "apps", "resource": "deployments"}}});
    let taint =
        json!({"spec": {"taint": {"key": "k", "effect": "NoSchedule"}, "deviceSelector": {"driver": "d.example.com"}}});
    let mut annotated = pod("a");
    annotated["metadata"]["annotations"] = json!({"pod.beta.kubernetes.io/init-containers": "x", "kept": "y"});
    for (path, object) in [
        ("/api/v1/namespaces/default/pods", pod("p")),
        ("/api/v1/namespaces/default/pods", annotated),
        ("/apis/storage.k8s.io/v1/csidrivers", driver),
        ("/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", scaler),
        (
            "/apis/storagemigration.k8s.io/v1/storageversionmigrations",
            object("storagemigration.k8s.io/v1", "StorageVersionMigration", "m", migration),
        ),
        ("/apis/resource.k8s.io/v1/devicetaintrules", object("resource.k8s.io/v1", "DeviceTaintRule", "t", taint)),
    ] {
        let [expected, found] = [&*reference, &*embedded].map(|api| {
            let answer = api.send(&User::admin(), post(path, &object));
            let mut body = answer.json();
            for field in ["uid", "creationTimestamp", "resourceVersion", "managedFields"] {
                body["metadata"].as_object_mut().map(|metadata| metadata.remove(field));
            }
            if let Some(taint) = body.pointer_mut("/spec/taint").and_then(Value::as_object_mut) {
                taint.remove("timeAdded");
            }
            (answer.status, answer.header("warning"), body)
        });
        assert_eq!(found, expected, "{path}");
    }
}

#[test]
#[ignore = "needs a kube-apiserver of that release: `make e2e-newer`"]
fn a_release_one_minor_newer_refuses_malformed_patches_as_by_itself() {
    let pair = Pair::start(&[], &[], &[]);
    let map = object("v1", "ConfigMap", "malformed", json!({"data": {"a": "b"}}));
    pair.set_up(&[post("/api/v1/namespaces/default/configmaps", &map)]);
    let twice = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: malformed}\ndata: {x: a, x: b}";
    let steps = [
        ("json-patch+json", "malformed", "{"),
        ("json-patch+json", "missing", "{"),
        ("json-patch+json", "missing", "[]"),
        ("json-patch+json", "malformed", "{}"),
        ("json-patch+json", "malformed", "[{}]x"),
        ("merge-patch+json", "malformed", "{"),
        ("merge-patch+json", "missing", "x"),
        ("merge-patch+json", "malformed", "[]"),
        ("merge-patch+json", "malformed", "\"x\""),
        ("strategic-merge-patch+json", "malformed", "{"),
        ("strategic-merge-patch+json", "malformed", "[]"),
        ("apply-patch+yaml", "malformed?fieldManager=m", "a: ["),
        ("apply-patch+yaml", "missing?fieldManager=m", "a: ["),
        ("apply-patch+yaml", "malformed?fieldManager=m", "x"),
        ("apply-patch+yaml", "malformed?fieldManager=m&fieldValidation=Strict", twice),
    ];
    let step = |(kind, target, body): (&str, &str, &str)| {
        let request = Request::new("PATCH", &format!("/api/v1/namespaces/default/configmaps/{target}"));
        (User::admin(), request.body(&format!("application/{kind}"), body.to_owned()))
    };
    pair.compare(steps.into_iter().map(step).collect());
}
