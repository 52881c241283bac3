//! The usage of a PersistentVolumeClaim (`pvcEvaluator`).

use super::evaluator::{Gates, Subject};
use super::scopes::Scoped;
use crate::initializers;
use crate::object::Object;
use crate::object::quantity::Quantity;
use crate::plugins::rules::resources::ResourceList;
use serde_json::Value;
use std::collections::BTreeSet;

const COUNT: &str = "count/persistentvolumeclaims";
const CLAIMS: &str = "persistentvolumeclaims";
const STORAGE: &str = "requests.storage";
/// The separator between a storage class and the resource name of its claims.
const OF_CLASS: &str = ".storageclass.storage.k8s.io/";
/// The annotation of the storage class, which takes precedence over the field.
const CLASS_ANNOTATION: [&str; 3] = ["metadata", "annotations", "volume.beta.kubernetes.io/storage-class"];

pub(super) fn counts(name: &str) -> bool {
    let of_class = name.rsplit_once(OF_CLASS).is_some_and(|(_, counted)| [CLAIMS, STORAGE].contains(&counted));
    of_class || [COUNT, CLAIMS, STORAGE].contains(&name)
}

pub(super) fn subject(desired: &Object, observed: Option<&Object>, gates: &Gates) -> Subject {
    let classes = attributes_classes(desired, observed);
    Subject { usage: usage(desired, observed, gates), scoped: Scoped::VolumeClaim(classes), containers: Vec::new() }
}

fn usage(desired: &Object, observed: Option<&Object>, gates: &Gates) -> ResourceList {
    let annotation = desired.get(&CLASS_ANNOTATION).and_then(Value::as_str);
    let class = annotation.unwrap_or_else(|| desired.str(&["spec", "storageClassName"]));
    let one = Quantity::whole(1);
    let mut usage = ResourceList::from([(CLAIMS.to_owned(), one), (COUNT.to_owned(), one)]);
    let mut of_class = ResourceList::from([(format!("{class}{OF_CLASS}{CLAIMS}"), one)]);
    // A claim that has not been initialized counts only as an object, as in Kubernetes 1.13.
    if initializers::are_pending(desired) {
        return usage;
    }
    if let Some(storage) = storage(desired, observed, gates) {
        usage.insert(STORAGE.to_owned(), storage);
        of_class.insert(format!("{class}{OF_CLASS}{STORAGE}"), storage);
    }
    if !class.is_empty() {
        usage.append(&mut of_class);
    }
    usage
}

/// The storage in whole bytes: the requested or the allocated storage, whichever is larger (`getStorageUsage`).
fn storage(desired: &Object, observed: Option<&Object>, gates: &Gates) -> Option<Quantity> {
    let asked = desired.get(&["spec", "resources", "requests", "storage"]).filter(|asked| !asked.is_null())?;
    let asked = Quantity::of(Some(asked)).rounded_up_to_whole();
    let allocated = observed.and_then(|claim| claim.get(&["status", "allocatedResources", "storage"]));
    let allocated = Quantity::of(allocated.filter(|_| gates.expansion_recovery));
    Some(if allocated > asked { allocated.rounded_up_to_whole() } else { asked })
}

/// `getReferencedVolumeAttributesClassNames`
fn attributes_classes(desired: &Object, observed: Option<&Object>) -> BTreeSet<String> {
    let observed = |path: &[&str]| observed.map(|claim| claim.str(path)).unwrap_or_default().to_owned();
    let names = [
        desired.str(&["spec", "volumeAttributesClassName"]).to_owned(),
        observed(&["status", "currentVolumeAttributesClassName"]),
        observed(&["status", "modifyVolumeStatus", "targetVolumeAttributesClassName"]),
    ];
    names.into_iter().filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::FeatureGates;
    use serde_json::json;

    fn seen(claim: Value) -> String {
        let claim = Object::from_value(claim).unwrap();
        let subject = subject(&claim, Some(&claim), &Gates::new(&FeatureGates::default()));
        let usage: Vec<String> = subject.usage.iter().map(|(name, quantity)| format!("{name}={quantity}")).collect();
        usage.join(" ")
    }

    fn asking(storage: &str) -> Value {
        json!({"resources": {"requests": {"storage": storage}}})
    }

    #[test]
    fn storage_is_counted_in_whole_bytes_and_sorted() {
        let count = "count/persistentvolumeclaims=1";
        let plain = "persistentvolumeclaims=1 requests.storage";
        assert_eq!(seen(json!({"spec": asking("10Gi")})), format!("{count} {plain}=10Gi"));
        assert_eq!(seen(json!({"spec": asking("1500m")})), format!("{count} {plain}=2"));
        assert_eq!(seen(json!({})), format!("{count} persistentvolumeclaims=1"));
        let mut spec = asking("1Gi");
        spec["storageClassName"] = json!("gold");
        let of = |class: &str| {
            let class = format!("{class}.storageclass.storage.k8s.io");
            format!("{class}/persistentvolumeclaims=1 {class}/requests.storage=1Gi {count} {plain}=1Gi")
        };
        let sorted = |seen: String| {
            let mut parts: Vec<&str> = seen.split(' ').collect();
            parts.sort_unstable();
            parts.join(" ")
        };
        assert_eq!(sorted(seen(json!({ "spec": spec }))), sorted(of("gold")));
        let annotations = json!({"volume.beta.kubernetes.io/storage-class": "azure"});
        let seen = seen(json!({"metadata": {"annotations": annotations}, "spec": spec}));
        assert_eq!(sorted(seen), sorted(of("azure")));
    }

    #[test]
    fn allocated_storage_counts_if_it_is_larger() {
        for (allocated, want) in [("5Gi", "10Gi"), ("20Gi", "20Gi"), ("20480.5Mi", "20972032Ki"), ("x", "10Gi")] {
            let status = json!({"allocatedResources": {"storage": allocated}});
            let seen = seen(json!({"spec": asking("10Gi"), "status": status}));
            assert!(seen.ends_with(&format!("requests.storage={want}")), "{seen}");
        }
    }

    #[test]
    fn names_of_any_class_are_counted() {
        for (name, want) in [
            ("persistentvolumeclaims", true),
            ("requests.storage", true),
            ("count/persistentvolumeclaims", true),
            ("a.b.storageclass.storage.k8s.io/requests.storage", true),
            ("a.storageclass.storage.k8s.io/persistentvolumeclaims", true),
            ("a.storageclass.storage.k8s.io/count", false),
            ("limits.storage", false),
        ] {
            assert_eq!(counts(name), want, "{name}");
        }
    }

    #[test]
    fn classes_that_were_that_are_and_that_come_count() {
        let claim = Object::from_value(json!({
            "spec": {"volumeAttributesClassName": "a"},
            "status": {"currentVolumeAttributesClassName": "b", "modifyVolumeStatus": {"targetVolumeAttributesClassName": "c"}}
        }));
        let classes = attributes_classes(&claim.clone().unwrap(), claim.as_ref());
        assert_eq!(classes.into_iter().collect::<Vec<_>>(), ["a", "b", "c"]);
    }
}
