//! The usage of a ResourceClaim: devices by class (`claimEvaluator`).

use super::evaluator::Gates;
use super::pods::{self, OF_DEVICE_CLASS};
use crate::cluster::{Cluster, OwnedClaim, WholePod};
use crate::object::Object;
use crate::object::quantity::Quantity;
use crate::plugins::rules::resources::ResourceList;
use k8s_openapi::api::resource::v1::DeviceClass;
use serde_json::Value;
use std::collections::BTreeMap;

const COUNT: &str = "count/resourceclaims.resource.k8s.io";
/// The suffix after the name of a device class (`ResourceClaimsPerClass`).
const DEVICES: &str = ".deviceclass.resource.k8s.io/devices";
/// The maximum number of devices of a claim (`AllocationResultsMaxSize`).
const ALL: i64 = 32;
/// Marks a claim that the scheduler creates for a pod that requests devices as extended resources.
const EXTENDED: [&str; 3] = ["metadata", "annotations", "resource.kubernetes.io/extended-resource-claim"];

pub(super) fn counts(name: &str, cluster: &Cluster, gates: &Gates) -> bool {
    if name == COUNT || name.ends_with(DEVICES) {
        return true;
    }
    let Some(resource) = name.strip_prefix("requests.").filter(|_| gates.extended_device_resources) else {
        return false;
    };
    match resource.strip_prefix(OF_DEVICE_CLASS) {
        Some(class) => cluster.find::<DeviceClass>("", class).is_some(),
        None => pods::is_extended_in_quota(name) && stands_for_devices(resource, cluster),
    }
}

fn stands_for_devices(resource: &str, cluster: &Cluster) -> bool {
    let classes = cluster.all::<DeviceClass>();
    classes.iter().any(|class| class.spec.extended_resource_name.as_deref() == Some(resource))
}

pub(super) async fn usage(claim: &Object, cluster: &Cluster, gates: &Gates, namespace: &str) -> ResourceList {
    let mut usage = ResourceList::from([(COUNT.to_owned(), Quantity::whole(1))]);
    for (class, count) in devices(claim) {
        usage.insert(format!("{class}{DEVICES}"), count);
    }
    if gates.extended_device_resources {
        let of_pod = pod_usage(claim, cluster, gates, namespace).await.unwrap_or_default();
        add_extended(&mut usage, claim, cluster, &of_pod);
    }
    usage
}

/// The maximum number of devices of each class. Among alternatives, the largest number of each class counts.
fn devices(claim: &Object) -> BTreeMap<String, Quantity> {
    let mut total: BTreeMap<String, Quantity> = BTreeMap::new();
    let mut sum = |class: String, count: Quantity| {
        total.entry(class).and_modify(|sum| *sum = sum.plus(count)).or_insert(count);
    };
    for request in claim.items(&["spec", "devices", "requests"]) {
        let alternatives = request.get("firstAvailable").and_then(Value::as_array).filter(|list| !list.is_empty());
        if let Some(alternatives) = alternatives {
            let mut most: BTreeMap<String, Quantity> = BTreeMap::new();
            for (class, count) in alternatives.iter().map(asked).filter(|(_, count)| *count > Quantity::ZERO) {
                let most = most.entry(class).or_insert(count);
                *most = count.max(*most);
            }
            most.into_iter().for_each(|(class, count)| sum(class, count));
            continue;
        }
        // The first API versions have the fields of `exactly` in the request itself.
        let exactly = request.get("exactly").filter(|exactly| !exactly.is_null()).unwrap_or(request);
        if exactly.get("deviceClassName").is_some_and(Value::is_string) {
            let (class, count) = asked(exactly);
            sum(class, count);
        }
    }
    total
}

/// The class and the number of devices in a request.
fn asked(request: &Value) -> (String, Quantity) {
    let class = request.get("deviceClassName").and_then(Value::as_str).unwrap_or_default().to_owned();
    let count = match request.get("allocationMode").and_then(Value::as_str) {
        Some("ExactCount") => request.get("count").and_then(Value::as_i64).unwrap_or_default(),
        Some("All") => ALL,
        _ => 0,
    };
    (class, Quantity::whole(count))
}

/// Counts the devices also as extended resources, except for the part that is already counted with the pod
/// (`addExtendedResourceQuota`).
fn add_extended(usage: &mut ResourceList, claim: &Object, cluster: &Cluster, of_pod: &ResourceList) {
    for (class, count) in devices(claim).into_iter().filter(|(class, _)| !class.is_empty()) {
        let found = cluster.find::<DeviceClass>("", &class);
        let explicit = found.and_then(|class| class.spec.extended_resource_name.clone());
        for resource in [Some(format!("{OF_DEVICE_CLASS}{class}")), explicit].into_iter().flatten() {
            let name = format!("requests.{resource}");
            let rest = of_pod.get(&name).map_or(count, |counted| count.minus(*counted));
            if rest > Quantity::ZERO {
                usage.insert(name, rest);
            }
        }
    }
}

/// The usage of the pod for which the claim was created (`getVerifiedPodUsage`). Any user can write the annotation, so it
/// counts only if the pod exists and has no other such claim.
async fn pod_usage(claim: &Object, cluster: &Cluster, gates: &Gates, namespace: &str) -> Option<ResourceList> {
    let (name, uid) = owner(claim)?;
    let pod = &cluster.find_live::<WholePod>(namespace, name).await.ok()??.0;
    if pod.uid() != uid {
        return None;
    }
    match pod.get(&["status", "extendedResourceClaimStatus"]).filter(|status| !status.is_null()) {
        Some(status) if status.get("resourceClaimName").and_then(Value::as_str) != Some(claim.name()) => return None,
        Some(_) => {}
        None => {
            let claims = cluster.list_live::<OwnedClaim>(namespace).await.ok()?;
            let of_pod =
                claims.iter().map(|claim| &claim.0).filter(|other| owner(other).is_some_and(|own| own.1 == uid));
            if of_pod.into_iter().any(|other| is_before(other, claim)) {
                return None;
            }
        }
    }
    Some(pods::usage(pod, Some(pod), gates))
}

/// The name and uid of the pod for which a claim was created.
fn owner(claim: &Object) -> Option<(&str, &str)> {
    claim.get(&EXTENDED).filter(|value| *value == "true")?;
    let owners = claim.items(&["metadata", "ownerReferences"]);
    let owner = owners.iter().find(|owner| owner.get("controller").is_some_and(|is_it| *is_it == true))?;
    let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
    ((text("kind"), text("apiVersion")) == ("Pod", "v1")).then(|| (text("name"), text("uid")))
}

/// Whether the first claim was created before the second. A claim without a creation time comes last.
fn is_before(one: &Object, other: &Object) -> bool {
    let created = |claim: &'_ Object| claim.str(&["metadata", "creationTimestamp"]).to_owned();
    let (first, second) = (created(one), created(other));
    second.is_empty() || (first, one.name()) < (second, other.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::FixedState;
    use crate::config::FeatureGates;
    use serde_json::json;
    use std::sync::Arc;

    fn gates() -> Gates {
        Gates::new(&FeatureGates::default())
    }

    fn state(extended: Option<&str>) -> FixedState {
        let class = json!({"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": extended}});
        FixedState::default().with::<DeviceClass>(vec![serde_json::from_value(class).unwrap()])
    }

    fn claim(requests: Value) -> Value {
        json!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": requests}}})
    }

    async fn seen(cluster: Arc<Cluster>, claim: Value) -> String {
        let usage = usage(&Object::from_value(claim).unwrap(), &cluster, &gates(), "n").await;
        let usage = usage.iter().filter(|(name, _)| !name.starts_with("requests.deviceclass"));
        usage.map(|(name, count)| format!("{}={count}", name.replace(DEVICES, ""))).collect::<Vec<_>>().join(" ")
    }

    fn exactly(class: &str, mode: &str, count: i64) -> Value {
        json!({"deviceClassName": class, "allocationMode": mode, "count": count})
    }

    #[tokio::test]
    async fn devices_are_counted_by_class_at_the_worst() {
        let none = || Cluster::fixed(FixedState::default());
        let one = json!([{"exactly": exactly("a", "ExactCount", 2)}, {"exactly": exactly("a", "ExactCount", 3)}]);
        assert_eq!(seen(none(), claim(one)).await, "a=5 count/resourceclaims.resource.k8s.io=1");
        let all = json!([{"exactly": exactly("a", "All", 0)}, {"exactly": exactly("b", "Some", 4)}]);
        assert_eq!(seen(none(), claim(all)).await, "a=32 b=0 count/resourceclaims.resource.k8s.io=1");
        let first = json!([{"firstAvailable": [exactly("a", "ExactCount", 2), exactly("a", "ExactCount", 4), exactly("b", "All", 0)]},
            {"firstAvailable": [exactly("a", "ExactCount", 1), exactly("c", "Some", 1)]}]);
        assert_eq!(seen(none(), claim(first)).await, "a=5 b=32 count/resourceclaims.resource.k8s.io=1");
        let older = json!([exactly("a", "ExactCount", 2), {"name": "unknown"}, 1]);
        assert_eq!(seen(none(), claim(older)).await, "a=2 count/resourceclaims.resource.k8s.io=1");
        assert_eq!(seen(none(), json!({"spec": 1})).await, "count/resourceclaims.resource.k8s.io=1");
    }

    #[tokio::test]
    async fn devices_count_as_the_resource_that_they_stand_for() {
        let two = claim(json!([{"exactly": exactly("gpu", "ExactCount", 2)}]));
        let usage =
            usage(&Object::from_value(two).unwrap(), &Cluster::fixed(state(Some("x.com/gpu"))), &gates(), "n").await;
        assert_eq!(usage["requests.x.com/gpu"].to_string(), "2");
        assert_eq!(usage["requests.deviceclass.resource.kubernetes.io/gpu"].to_string(), "2");
    }

    #[test]
    fn names_of_known_classes_and_their_resources_are_counted() {
        let cluster = Cluster::fixed(state(Some("x.com/gpu")));
        let off = Gates { extended_device_resources: false, ..gates() };
        for (name, want, want_off) in [
            ("count/resourceclaims.resource.k8s.io", true, true),
            ("any.deviceclass.resource.k8s.io/devices", true, true),
            ("requests.x.com/gpu", true, false),
            ("requests.y.com/gpu", false, false),
            ("requests.deviceclass.resource.kubernetes.io/gpu", true, false),
            ("requests.deviceclass.resource.kubernetes.io/none", false, false),
            ("requests.cpu", false, false),
        ] {
            assert_eq!(counts(name, &cluster, &gates()), want, "{name}");
            assert_eq!(counts(name, &cluster, &off), want_off, "{name}");
        }
    }

    #[tokio::test]
    async fn a_claim_that_is_counted_with_its_pod_is_not_counted_again() {
        let pod = |claim_status: Value| {
            let container = json!({"name": "a", "resources": {"requests": {"x.com/gpu": "1"}}});
            json!({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": {"containers": [container]},
                "status": {"extendedResourceClaimStatus": claim_status}})
        };
        let made_for = |name: &str, uid: &str, created: &str| {
            let mut claim = claim(json!([{"exactly": exactly("gpu", "ExactCount", 2)}]));
            claim["metadata"] = json!({"name": name, "namespace": "n", "creationTimestamp": created,
                "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
                "ownerReferences": [{"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": uid, "controller": true}]});
            claim
        };
        let mapped = |name: &str| json!({"resourceClaimName": name, "requestMappings": []});
        let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z");
        for (claim, status, other, want) in [
            (made_for("c", "u", early), mapped("c"), None, "1"),
            (made_for("c", "u", early), mapped("other"), None, "2"),
            (made_for("c", "v", early), mapped("c"), None, "2"),
            (made_for("c", "u", early), json!(null), None, "1"),
            (made_for("c", "u", late), json!(null), Some(made_for("d", "u", early)), "2"),
            (made_for("c", "u", early), json!(null), Some(made_for("d", "u", late)), "1"),
            (made_for("c", "u", early), json!(null), Some(made_for("b", "u", early)), "2"),
            (made_for("c", "u", early), json!(null), Some(made_for("c", "u", early)), "1"),
        ] {
            let claims = other.iter().map(|other| serde_json::from_value(other.clone()).unwrap()).collect();
            let pods = vec![serde_json::from_value(pod(status.clone())).unwrap()];
            let state = state(Some("x.com/gpu")).live::<WholePod>(pods).live::<OwnedClaim>(claims);
            let usage = usage(&Object::from_value(claim.clone()).unwrap(), &Cluster::fixed(state), &gates(), "n").await;
            assert_eq!(usage["requests.x.com/gpu"].to_string(), want, "{claim} {status} {other:?}");
        }
    }
}
