//! Lists of resources, and the requests of a pod as a whole.

use crate::object::Object;
use crate::object::quantity::Quantity;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Quantities by resource.
pub(crate) type ResourceList = BTreeMap<String, Quantity>;

/// The resource list in a field of an object; empty if the field is missing.
pub(crate) fn resource_list(value: Option<&Value>) -> ResourceList {
    let fields = value.and_then(Value::as_object).into_iter().flat_map(Map::iter);
    fields.map(|(name, quantity)| (name.clone(), Quantity::of(Some(quantity)))).collect()
}

/// Adds each quantity (`addResourceList`).
pub(crate) fn add(to: &mut ResourceList, other: &ResourceList) {
    for (name, quantity) in other {
        to.entry(name.clone()).and_modify(|sum| *sum = sum.plus(*quantity)).or_insert(*quantity);
    }
}

/// Raises each quantity to the larger one of the two lists (`maxResourceList`).
pub(crate) fn raise(to: &mut ResourceList, other: &ResourceList) {
    for (name, quantity) in other {
        let most = to.entry(name.clone()).or_insert(*quantity);
        if quantity > most {
            *most = *quantity;
        }
    }
}

/// Whether an init container runs beside the other containers.
pub(crate) fn is_sidecar(container: &Value) -> bool {
    container.get("restartPolicy").is_some_and(|policy| policy == "Always")
}

/// The resources that all containers of a pod need: the sum of the containers that run at the same time, or an init container with the
/// sidecars before it, if that is more (`AggregateContainerRequests`). `of` returns the needs of a container.
pub(crate) fn aggregate(pod: &Object, of: impl Fn(&Value) -> ResourceList) -> ResourceList {
    let mut total = ResourceList::new();
    for container in pod.items(&["spec", "containers"]) {
        add(&mut total, &of(container));
    }
    let (mut sidecars, mut most) = (ResourceList::new(), ResourceList::new());
    for container in pod.items(&["spec", "initContainers"]) {
        let mut needs = of(container);
        if is_sidecar(container) {
            add(&mut total, &needs);
            add(&mut sidecars, &needs);
            needs = sidecars.clone();
        } else {
            add(&mut needs, &sidecars);
        }
        raise(&mut most, &needs);
    }
    raise(&mut total, &most);
    total
}

/// The requests of a pod: pod-level requests take precedence over the sum of the containers; the pod's overhead is added
/// (`resource.PodRequests`).
pub(crate) fn pod_requests(pod: &Object) -> ResourceList {
    let of =
        |container: &Value| resource_list(container.get("resources").and_then(|resources| resources.get("requests")));
    let mut total = aggregate(pod, of);
    let own = resource_list(pod.get(&["spec", "resources", "requests"]));
    total.extend(own.into_iter().filter(|(name, _)| is_pod_level(name)));
    add(&mut total, &resource_list(pod.get(&["spec", "overhead"])));
    total
}

/// Whether a pod-level request may have this resource (`resource.IsSupportedPodLevelResource`).
pub(crate) fn is_pod_level(name: &str) -> bool {
    ["cpu", "memory"].contains(&name) || name.starts_with("hugepages-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_init_container_counts_beside_the_sidecars_before_it() {
        let container = |cpu: &str, policy: Option<&str>| json!({"cpu": cpu, "restartPolicy": policy});
        let pod = |init: Vec<Value>| {
            let containers = json!([container("1", None), container("500m", None)]);
            Object::from_value(json!({"spec": {"containers": containers, "initContainers": init}})).unwrap()
        };
        let total = |init| {
            let of = |container: &Value| ResourceList::from([("cpu".to_owned(), Quantity::of(container.get("cpu")))]);
            aggregate(&pod(init), of)["cpu"].to_string()
        };
        let (sidecar, always) = (|cpu| container(cpu, Some("Always")), |cpu| container(cpu, None));
        assert_eq!(total(vec![]), "1500m");
        assert_eq!(total(vec![always("1")]), "1500m");
        assert_eq!(total(vec![always("2")]), "2");
        assert_eq!(total(vec![sidecar("1"), always("2")]), "3");
        assert_eq!(total(vec![always("2"), sidecar("1")]), "2500m");
    }
}
