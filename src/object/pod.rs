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
