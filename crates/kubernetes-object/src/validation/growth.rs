//! The work on an object grows with its size: a long list does not make it quadratic.
//!
//! The measure is a ratio of times in one thread, each the least of several: eight times as many items may take some twenty times as long,
//! where quadratic work takes sixty-four times as long.

use super::{validate, validate_update};
use crate::kind::GroupVersionKind;
use crate::normal;
use crate::status::{Status, invalid};
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};

/// The growth of the number of items.
const TIMES: usize = 8;
/// The growth of the time from which on work is not linear.
const MOST: u32 = 20;
const SUBRESOURCES: [&str; 2] = ["", "status"];

/// An object with so many items.
type Build<'a> = dyn Fn(usize) -> Value + 'a;

/// Does the work of a create and of updates on an object. The errors have a bound.
fn work(kind: &GroupVersionKind, value: Value) {
    let Some(Ok(normal)) = normal::built_in(kind, value) else { return };
    let object = normal.object;
    let mut all = vec![validate(kind, &object)];
    all.extend(SUBRESOURCES.map(|subresource| validate_update(kind, &object, &object, subresource)));
    for causes in all {
        let status = invalid::status(kind, "a", causes);
        assert!(status.as_ref().map_or(0, texts) < 5 * invalid::MAX_BYTES, "{kind:?}");
    }
}

fn texts(status: &Status) -> usize {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.message.len() + causes.map(|cause| cause.field.len() + cause.message.len()).sum::<usize>()
}

fn least_time(kind: &GroupVersionKind, value: &Value, tries: usize) -> Duration {
    let times = (0..tries).map(|_| {
        let value = value.clone();
        let start = Instant::now();
        work(kind, value);
        start.elapsed()
    });
    times.min().unwrap_or_default()
}

/// Whether the work on an object grows faster than the object. A machine with other work is measured again, with larger objects.
fn is_steep(kind: &GroupVersionKind, build: &Build<'_>, items: usize) -> bool {
    [(items, 2), (items, 5), (4 * items, 5)].into_iter().all(|(items, tries)| {
        let (few, many) = (build(items), build(TIMES * items));
        let limit = least_time(kind, &few, tries) * MOST;
        // Short times say nothing.
        least_time(kind, &many, tries) > limit.max(Duration::from_millis(10))
    })
}

fn core(kind: &str) -> GroupVersionKind {
    GroupVersionKind::new("", "v1", kind)
}

fn pod(spec: Value) -> Value {
    let mut spec = spec;
    if let Some(spec) = spec.as_object_mut() {
        spec.entry("containers").or_insert_with(|| json!([{"name": "c", "image": "i"}]));
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "b"}, "spec": spec})
}

fn list(items: usize, item: impl Fn(usize) -> Value) -> Value {
    (0..items).map(item).collect()
}

fn names(items: usize) -> Value {
    list(items, |at| json!({"name": format!("n-{at}")}))
}

#[test]
fn long_lists_take_linear_time() {
    let constraint =
        |at: usize| json!({"maxSkew": 1, "topologyKey": format!("k{at}"), "whenUnsatisfiable": "DoNotSchedule"});
    let claims = |items: usize, names: &str| {
        let resources = json!({"claims": list(items, |at| json!({"name": format!("{names}-{at}")}))});
        let claims = list(items, |at| json!({"name": format!("c-{at}"), "resourceClaimName": "x"}));
        pod(json!({"resourceClaims": claims, "containers": [{"name": "c", "image": "i", "resources": resources}]}))
    };
    let of_one_claim = |at: usize| json!({"name": "c", "request": format!("r-{at}")});
    let cases: [(&str, GroupVersionKind, usize, &Build<'_>); 10] = [
        ("topologySpreadConstraints", core("Pod"), 500, &|items| {
            pod(json!({"topologySpreadConstraints": list(items, constraint)}))
        }),
        ("claims", core("Pod"), 500, &|items| claims(items, "c")),
        ("claims that do not exist", core("Pod"), 500, &|items| claims(items, "wrong")),
        ("requests of one claim", core("Pod"), 500, &|items| {
            let resources = json!({"claims": list(items, of_one_claim)});
            pod(json!({"containers": [{"name": "c", "image": "i", "resources": resources}]}))
        }),
        ("volumeMounts and volumeDevices", core("Pod"), 500, &|items| {
            let mounts = list(items, |at| json!({"name": format!("m-{at}"), "mountPath": format!("/m/{at}")}));
            let devices = list(items, |at| json!({"name": format!("d-{at}"), "devicePath": format!("/d/{at}")}));
            pod(json!({"containers": [{"name": "c", "image": "i", "volumeMounts": mounts, "volumeDevices": devices}]}))
        }),
        ("resourceClaimStatuses", core("Pod"), 500, &|items| {
            let mut pod = pod(json!({"resourceClaims": names(items)}));
            pod["status"] = json!({"resourceClaimStatuses": names(items)});
            pod
        }),
        ("tolerations", core("Pod"), 500, &|items| {
            let toleration = |at: usize| json!({"key": format!("k{at}"), "operator": "Exists"});
            pod(json!({"tolerations": list(items, toleration)}))
        }),
        ("owners that are controllers", core("ConfigMap"), 500, &|items| {
            let owner = |at: usize| json!({"apiVersion": "v1", "kind": "Pod", "name": format!("p{at}"), "uid": "u", "controller": true});
            json!({"metadata": {"name": "a", "namespace": "b", "ownerReferences": list(items, owner)}})
        }),
        ("scopes of a quota", core("ResourceQuota"), 500, &|items| {
            let hard: Map<String, Value> = (0..items).map(|at| (format!("hugepages-{at}"), json!("1"))).collect();
            let scopes = list(items, |_| json!("PriorityClass"));
            json!({"metadata": {"name": "a", "namespace": "b"}, "spec": {"hard": hard, "scopes": scopes}})
        }),
        ("empty topologies", GroupVersionKind::new("storage.k8s.io", "v1", "StorageClass"), 500, &|items| {
            let terms = list(items, |_| json!({}));
            json!({"metadata": {"name": "a"}, "provisioner": "p", "allowedTopologies": terms})
        }),
    ];
    let steep: Vec<&str> =
        cases.iter().filter(|(_, kind, items, build)| is_steep(kind, *build, *items)).map(|(name, ..)| *name).collect();
    assert!(steep.is_empty(), "{steep:?}");
}
