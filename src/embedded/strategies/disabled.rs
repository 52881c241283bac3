//! Fields of features that are off. A write that sets such a field for the first time loses it, and an object that has it keeps it
//! (`DropDisabledTemplateFields`, `dropDisabledFields` and similar functions of kube-apiserver's strategies).

use crate::config::FeatureGates;
use crate::object::{Object, release};
use serde_json::Value;

/// A step `*` stands for each item of a list, and for each value of a map.
type Path = &'static [&'static str];

/// Fields that a feature adds to a kind. They are in use together.
pub(in crate::embedded) struct DisabledFields {
    pub(super) gate: &'static str,
    pub(super) paths: &'static [Path],
}

/// The gate of fields that no release serves any more.
pub(super) const NEVER: &str = "";

/// Fields of the specs of pods and of templates.
const OF_PODS: [(&str, &[Path]); 4] = [
    (
        "ContainerStopSignals",
        &[
            &["containers", "*", "lifecycle", "stopSignal"],
            &["initContainers", "*", "lifecycle", "stopSignal"],
            &["ephemeralContainers", "*", "lifecycle", "stopSignal"],
        ],
    ),
    ("ClusterTrustBundleProjection", &[&["volumes", "*", "projected", "sources", "*", "clusterTrustBundle"]]),
    ("PodCertificateRequest", &[&["volumes", "*", "projected", "sources", "*", "podCertificate"]]),
    ("GenericWorkload", &[&["schedulingGroup"]]),
];

/// Those that 1.37 added.
const OF_PODS_SINCE_1_37: [(&str, &[Path]); 4] = [
    ("EvictionRequestAPI", &[&["evictionResponders"]]),
    ("EmptyDirVolumeMode", &[&["volumes", "*", "emptyDir", "mode"]]),
    (
        "VolumeBindMountOptions",
        &[
            &["containers", "*", "volumeMounts", "*", "bindMountOptions"],
            &["initContainers", "*", "volumeMounts", "*", "bindMountOptions"],
            &["ephemeralContainers", "*", "volumeMounts", "*", "bindMountOptions"],
        ],
    ),
    ("H2CContainerProbe", &PROTOCOLS),
];

/// The protocols of the HTTP requests of probes and of hooks.
const PROTOCOLS: [Path; 15] = [
    &["containers", "*", "livenessProbe", "httpGet", "protocol"],
    &["containers", "*", "readinessProbe", "httpGet", "protocol"],
    &["containers", "*", "startupProbe", "httpGet", "protocol"],
    &["containers", "*", "lifecycle", "postStart", "httpGet", "protocol"],
    &["containers", "*", "lifecycle", "preStop", "httpGet", "protocol"],
    &["initContainers", "*", "livenessProbe", "httpGet", "protocol"],
    &["initContainers", "*", "readinessProbe", "httpGet", "protocol"],
    &["initContainers", "*", "startupProbe", "httpGet", "protocol"],
    &["initContainers", "*", "lifecycle", "postStart", "httpGet", "protocol"],
    &["initContainers", "*", "lifecycle", "preStop", "httpGet", "protocol"],
    &["ephemeralContainers", "*", "livenessProbe", "httpGet", "protocol"],
    &["ephemeralContainers", "*", "readinessProbe", "httpGet", "protocol"],
    &["ephemeralContainers", "*", "startupProbe", "httpGet", "protocol"],
    &["ephemeralContainers", "*", "lifecycle", "postStart", "httpGet", "protocol"],
    &["ephemeralContainers", "*", "lifecycle", "preStop", "httpGet", "protocol"],
];

/// Removes the fields of features that are off, unless the current object has them.
pub(super) fn drop_fields(
    gates: &FeatureGates,
    fields: &[DisabledFields],
    pod_spec: Option<Path>,
    object: &mut Object,
    current: Option<&Object>,
) {
    let is_off = |gate: &str| gate == NEVER || !gates.is_on(gate);
    for fields in fields.iter().filter(|fields| is_off(fields.gate)) {
        drop_paths(&[], fields.paths, object, current);
    }
    if let Some(spec) = pod_spec {
        let since_1_37 = OF_PODS_SINCE_1_37.iter().filter(|_| release::since(37));
        for (gate, paths) in OF_PODS.iter().chain(since_1_37).filter(|(gate, _)| is_off(gate)) {
            drop_paths(spec, paths, object, current);
            if *gate == "ContainerStopSignals" {
                drop_empty_lifecycles(spec, object);
            }
        }
    }
}

/// Removes what is at the paths below `base`, unless the current object has something at one of them.
fn drop_paths(base: Path, paths: &[Path], object: &mut Object, current: Option<&Object>) {
    let whole = |path: &Path| -> Vec<&str> { base.iter().chain(*path).copied().collect() };
    if current.is_some_and(|current| paths.iter().any(|path| has_field(current, &whole(path)))) {
        return;
    }
    for path in paths.iter().map(whole).filter(|path| has_field(object, path)).collect::<Vec<_>>() {
        match path.split_first() {
            Some((first, [])) => drop(object.fields_mut().remove(*first)),
            Some((first, rest)) => {
                object.fields_mut().get_mut(*first).into_iter().for_each(|value| remove(value, rest));
            }
            None => {}
        }
    }
}

/// Whether an object has a value at a path. The fields of most objects stay untouched.
fn has_field(object: &Object, path: &[&str]) -> bool {
    let found = path.split_first().and_then(|(first, rest)| Some((object.fields().get(*first)?, rest)));
    found.is_some_and(|(value, rest)| has(value, rest))
}

fn has(value: &Value, path: &[&str]) -> bool {
    let Some((step, rest)) = path.split_first() else { return !value.is_null() };
    match (*step, value) {
        ("*", Value::Array(items)) => items.iter().any(|item| has(item, rest)),
        ("*", Value::Object(fields)) => fields.values().any(|value| has(value, rest)),
        (name, Value::Object(fields)) => fields.get(name).is_some_and(|value| has(value, rest)),
        _ => false,
    }
}

fn remove(value: &mut Value, path: &[&str]) {
    match (path, value) {
        ([name], Value::Object(fields)) => drop(fields.remove(*name)),
        (["*", rest @ ..], Value::Array(items)) => items.iter_mut().for_each(|item| remove(item, rest)),
        (["*", rest @ ..], Value::Object(fields)) => fields.values_mut().for_each(|value| remove(value, rest)),
        ([name, rest @ ..], Value::Object(fields)) => {
            fields.get_mut(*name).into_iter().for_each(|value| remove(value, rest));
        }
        _ => {}
    }
}

/// Removes lifecycles that only had a signal.
fn drop_empty_lifecycles(spec: Path, object: &mut Object) {
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        let path: Vec<&str> = spec.iter().copied().chain([list]).collect();
        let is_empty = |container: &Value| {
            container.get("lifecycle").and_then(Value::as_object).is_some_and(serde_json::Map::is_empty)
        };
        if !object.items(&path).iter().any(is_empty) {
            continue;
        }
        let containers = object.get_mut(&path).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter(|container| is_empty(container)) {
            container.as_object_mut().into_iter().for_each(|fields| _ = fields.remove("lifecycle"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::api::catalog;
    use serde_json::json;

    fn dropped(gates: &str, group: &str, version: &str, name: &str, object: &Value, current: Option<&Value>) -> Value {
        let resource = catalog::resource(group, version, name).unwrap();
        let strategy = super::super::of(resource);
        let mut object = Object::from_value(object.clone()).unwrap();
        let current = current.map(|current| Object::from_value(current.clone()).unwrap());
        drop_fields(
            &FeatureGates::parse(gates).unwrap(),
            strategy.disabled_fields(),
            strategy.pod_spec(),
            &mut object,
            current.as_ref(),
        );
        object.into_value()
    }

    #[test]
    fn a_field_of_a_feature_that_is_off_is_dropped_unless_it_is_in_use() {
        let lease = json!({"spec": {"preferredHolder": "p", "holderIdentity": "h"}});
        let dropped = |gates: &str, current: Option<&Value>| {
            dropped(gates, "coordination.k8s.io", "v1", "leases", &lease, current)
        };
        assert_eq!(dropped("", None), json!({"spec": {"holderIdentity": "h"}}));
        assert_eq!(dropped("", Some(&json!({"spec": {"strategy": "s"}}))), json!({"spec": {"holderIdentity": "h"}}));
        assert_eq!(dropped("", Some(&lease)), lease);
        assert_eq!(dropped("CoordinatedLeaderElection=true", None), lease);
    }

    #[test]
    fn templates_lose_the_fields_of_pods() {
        let containers = json!([{"name": "c", "lifecycle": {"stopSignal": "SIGUSR1"}},
            {"name": "d", "lifecycle": {"stopSignal": "SIGUSR1", "preStop": {}}}]);
        let job = |spec: Value| json!({"spec": {"jobTemplate": {"spec": {"template": {"spec": spec}}}}});
        let object = job(json!({"containers": containers, "schedulingGroup": {}}));
        let expected = job(json!({"containers": [{"name": "c"}, {"name": "d", "lifecycle": {"preStop": {}}}]}));
        assert_eq!(dropped("", "batch", "v1", "cronjobs", &object, None), expected);
        assert_eq!(dropped("", "batch", "v1", "cronjobs", &object, Some(&object)), object);
    }
}
