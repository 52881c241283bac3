//! Walking a pod's containers.

use super::Object;
use super::quantity::Quantity;
use serde_json::{Map, Value};

/// The container lists of a pod spec in `VisitContainersWithPath`'s order.
pub const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// What was to be a list of objects is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongType;

/// The objects in the list at `spec.<field>`; none where it is missing or null.
///
/// # Errors
/// When the list, or the spec around it, is of another type.
pub fn spec_list<'a>(pod: &'a Object, field: &str) -> Result<Vec<&'a Map<String, Value>>, WrongType> {
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

/// Whether the pod asks for no processor time and no memory (`qos.GetPodQOS`). A class in its status is believed.
pub fn is_best_effort(pod: &Object) -> bool {
    let class = pod.str(&["status", "qosClass"]);
    if !class.is_empty() {
        return class == "BestEffort";
    }
    asks_for_nothing(pod)
}

/// Whether its containers, or the pod as a whole, ask for no processor time and no memory (`qos.ComputePodQOS`).
pub fn asks_for_nothing(pod: &Object) -> bool {
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

/// Whether the pod refers to a secret anywhere (`podutil.VisitPodSecretNames`).
pub fn references_secrets(pod: &Object) -> bool {
    let is_there = |value: Option<&Value>| value.is_some_and(|value| !value.is_null());
    let items = |value: &Value, field: &str| value.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
    let in_container = |container: &Value| {
        let from_key = |variable: &Value| is_there(variable.get("valueFrom").and_then(|from| from.get("secretKeyRef")));
        items(container, "env").iter().any(from_key)
            || items(container, "envFrom").iter().any(|source| is_there(source.get("secretRef")))
    };
    let in_volume = |volume: &Value| {
        let of = |source: &str, field: &str| is_there(volume.get(source).and_then(|source| source.get(field)));
        let projected = volume.get("projected").map(|projected| items(projected, "sources")).unwrap_or_default();
        is_there(volume.get("secret"))
            || of("azureFile", "secretName")
            || of("csi", "nodePublishSecretRef")
            || ["cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos"]
                .iter()
                .any(|source| of(source, "secretRef"))
            || projected.iter().any(|source| is_there(source.get("secret")))
    };
    !pod.items(&["spec", "imagePullSecrets"]).is_empty()
        || CONTAINER_LISTS.iter().any(|list| pod.items(&["spec", list]).iter().any(in_container))
        || pod.items(&["spec", "volumes"]).iter().any(in_volume)
}

/// Calls `change` with each object in the list at `spec.<field>`.
///
/// # Errors
/// As [`spec_list`]; some objects may have been changed then.
pub fn change_spec_list(
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
