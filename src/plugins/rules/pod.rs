//! Access to a pod's containers.

use crate::object::Object;
use crate::object::quantity::Quantity;
use serde_json::{Map, Value};

/// The container lists of a pod spec in the order of `VisitContainersWithPath`.
pub(crate) const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// The error for a value that should be a list of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WrongType;

/// The objects in the list at `spec.<field>`; empty if the list is missing or null.
///
/// # Errors
/// If the list, or the spec around it, is of another type.
pub(crate) fn spec_list<'a>(pod: &'a Object, field: &str) -> Result<Vec<&'a Map<String, Value>>, WrongType> {
    let spec = match pod.get(&["spec"]) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(spec) => spec.as_object().ok_or(WrongType)?,
    };
    match spec.get(field) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) => items.iter().map(|item| item.as_object().ok_or(WrongType)).collect(),
        Some(_) => Err(WrongType),
    }
}

/// Whether the pod requests neither CPU nor memory (`qos.GetPodQOS`). A class in the pod's status takes precedence.
pub(crate) fn is_best_effort(pod: &Object) -> bool {
    let class = pod.str(&["status", "qosClass"]);
    if !class.is_empty() {
        return class == "BestEffort";
    }
    asks_for_nothing(pod)
}

/// Whether the pod's containers, or the pod as a whole, request neither CPU nor memory (`qos.ComputePodQOS`).
pub(crate) fn asks_for_nothing(pod: &Object) -> bool {
    let asks = |resources: Option<&Value>| {
        let lists = ["requests", "limits"].into_iter().filter_map(|list| resources?.get(list));
        lists
            .flat_map(|list| ["cpu", "memory"].map(|name| Quantity::of(list.get(name))))
            .any(|one| one > Quantity::ZERO)
    };
    if let Some(of_pod) = pod.get(&["spec", "resources"]).filter(|resources| !resources.is_null()) {
        return !asks(Some(of_pod));
    }
    let containers = |list| pod.items(&["spec", list]).iter();
    !containers("containers").chain(containers("initContainers")).any(|container| asks(container.get("resources")))
}

/// The field of a secret's name in each source of a volume. Only a volume's first source counts.
const SECRET_SOURCES: [(&str, &str); 11] = [
    ("azureFile", "/secretName"),
    ("cephfs", "/secretRef/name"),
    ("cinder", "/secretRef/name"),
    ("flexVolume", "/secretRef/name"),
    ("projected", ""),
    ("rbd", "/secretRef/name"),
    ("secret", "/secretName"),
    ("scaleIO", "/secretRef/name"),
    ("iscsi", "/secretRef/name"),
    ("storageos", "/secretRef/name"),
    ("csi", "/nodePublishSecretRef/name"),
];

/// Whether the pod names a secret anywhere (`podutil.VisitPodSecretNames`).
pub(crate) fn references_secrets(pod: &Object) -> bool {
    let is_named = |value: &Value, pointer: &str| {
        value.pointer(pointer).and_then(Value::as_str).is_some_and(|name| !name.is_empty())
    };
    let any = |list: Option<&Value>, pointer: &str| {
        list.and_then(Value::as_array).into_iter().flatten().any(|item| is_named(item, pointer))
    };
    let in_container = |container: &Value| {
        any(container.get("env"), "/valueFrom/secretKeyRef/name") || any(container.get("envFrom"), "/secretRef/name")
    };
    let in_volume = |volume: &Value| {
        let is_there = |source: &&(&str, &str)| volume.get(source.0).is_some_and(|source| !source.is_null());
        match SECRET_SOURCES.iter().find(is_there) {
            Some(("projected", _)) => any(volume.pointer("/projected/sources"), "/secret/name"),
            Some((source, pointer)) => volume.get(source).is_some_and(|source| is_named(source, pointer)),
            None => false,
        }
    };
    any(pod.get(&["spec", "imagePullSecrets"]), "/name")
        || CONTAINER_LISTS.iter().any(|list| pod.items(&["spec", list]).iter().any(in_container))
        || pod.items(&["spec", "volumes"]).iter().any(in_volume)
}

/// Calls `change` with each object in the list at `spec.<field>`.
///
/// # Errors
/// As [`spec_list`]; `change` may have changed some objects before the error.
pub(crate) fn change_spec_list(
    pod: &mut Object,
    field: &str,
    mut change: impl FnMut(&mut Map<String, Value>) -> Result<(), WrongType>,
) -> Result<(), WrongType> {
    let spec = match pod.get_mut(&["spec"]) {
        None | Some(Value::Null) => return Ok(()),
        Some(spec) => spec.as_object_mut().ok_or(WrongType)?,
    };
    match spec.get_mut(field) {
        None | Some(Value::Null) => Ok(()),
        Some(Value::Array(items)) => {
            items.iter_mut().try_for_each(|item| change(item.as_object_mut().ok_or(WrongType)?))
        }
        Some(_) => Err(WrongType),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_secret_without_a_name_is_none() {
        for (spec, expected) in [
            (json!({}), false),
            (json!({"imagePullSecrets": [{"name": ""}, {}]}), false),
            (json!({"imagePullSecrets": [{}, {"name": "s"}]}), true),
            (json!({"volumes": [{"secret": {}}, {"secret": {"secretName": ""}}]}), false),
            (json!({"volumes": [{"secret": {"secretName": "s"}}]}), true),
            (json!({"volumes": [{"azureFile": {"secretName": ""}}, {"csi": {"nodePublishSecretRef": {}}}]}), false),
            (json!({"volumes": [{"csi": {"nodePublishSecretRef": {"name": "s"}}}]}), true),
            (json!({"volumes": [{"projected": {"sources": [{"secret": {}}, {"secret": {"name": "s"}}]}}]}), true),
            // Among two sources, which no valid volume has, the first counts.
            (json!({"volumes": [{"rbd": {}, "secret": {"secretName": "s"}}]}), false),
            (json!({"volumes": [{"rbd": null, "secret": {"secretName": "s"}}]}), true),
            (json!({"containers": [{"envFrom": [{"secretRef": {}}]}]}), false),
            (json!({"containers": [{"envFrom": [{"secretRef": {"name": "s"}}]}]}), true),
            (json!({"initContainers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": ""}}}]}]}), false),
            (json!({"ephemeralContainers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "s"}}}]}]}), true),
            (json!({"volumes": "s", "containers": [1], "imagePullSecrets": {"name": "s"}}), false),
        ] {
            let pod = Object::from_value(json!({ "spec": spec })).unwrap();
            assert_eq!(references_secrets(&pod), expected, "{spec}");
        }
    }
}
