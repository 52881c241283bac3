//! The class of the quality of service of a pod (`qos.ComputePodQOS`).

use super::super::node::Node;
use crate::quantity::Quantity;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Containers whose resources count.
const CONTAINERS: [&str; 2] = ["containers", "initContainers"];

/// The class that follows from CPU and memory of the pod, or of all its containers.
pub(crate) fn class(pod: &Node<'_>) -> &'static str {
    let spec = pod.at("spec");
    let of_pod = spec.at("resources").given();
    let all: Vec<Node<'_>> = match &of_pod {
        Some(resources) => vec![resources.clone()],
        None => CONTAINERS.iter().flat_map(|list| spec.at(list).items()).map(|each| each.at("resources")).collect(),
    };
    let (mut requests, mut limits) = (BTreeMap::new(), BTreeMap::new());
    let mut is_guaranteed = true;
    for resources in all {
        add_amounts(&mut requests, &resources.at("requests"));
        let found = add_amounts(&mut limits, &resources.at("limits"));
        // A pod's own limits count only if there are some.
        is_guaranteed &= found == 2 || (of_pod.is_some() && resources.at("limits").is_empty());
    }
    let is_equal = |(name, request): (&&str, &Quantity)| {
        limits.get(name).is_some_and(|limit: &Quantity| limit.cmp(request) == Ordering::Equal)
    };
    match () {
        () if requests.is_empty() && limits.is_empty() => "BestEffort",
        () if is_guaranteed && requests.len() == limits.len() && requests.iter().all(is_equal) => "Guaranteed",
        () => "Burstable",
    }
}

/// Adds the amounts of CPU and memory above zero; returns how many there are.
fn add_amounts(sums: &mut BTreeMap<&'static str, Quantity>, amounts: &Node<'_>) -> usize {
    let mut found = 0;
    for resource in ["cpu", "memory"] {
        let amount = amounts.at(resource).quantity();
        if !amount.is_zero() && !amount.is_negative() {
            found += 1;
            let sum = sums.entry(resource).or_insert(Quantity::ZERO);
            *sum = sum.plus(amount);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn class_of(spec: Value) -> &'static str {
        class(&Node::root(&json!({ "spec": spec })))
    }

    #[test]
    fn a_pods_class_follows_from_its_containers() {
        let both = json!({"cpu": "1", "memory": "1Gi"});
        for (resources, class) in [
            (json!([{}]), "BestEffort"),
            (json!([{"resources": {"requests": {"cpu": "0"}}}]), "BestEffort"),
            (json!([{"resources": {"requests": {"cpu": "1"}}}]), "Burstable"),
            (json!([{"resources": {"requests": &both, "limits": {"cpu": "1000m", "memory": "1024Mi"}}}]), "Guaranteed"),
            (json!([{"resources": {"requests": &both, "limits": &both}}, {}]), "Burstable"),
            // The server has set the requests of a pod with limits alone.
            (json!([{"resources": {"limits": &both}}]), "Burstable"),
            (json!("text"), "BestEffort"),
        ] {
            assert_eq!(class_of(json!({ "containers": resources })), class, "{resources}");
        }
    }

    #[test]
    fn a_pods_class_follows_from_its_own_resources() {
        let both = json!({"cpu": "1", "memory": "1Gi"});
        for (resources, class) in [
            (json!({}), "BestEffort"),
            (json!({"requests": &both}), "Burstable"),
            (json!({"requests": &both, "limits": &both}), "Guaranteed"),
        ] {
            let containers = json!([{"resources": {"requests": {"cpu": "1"}}}]);
            assert_eq!(class_of(json!({"resources": resources, "containers": containers})), class, "{resources}");
        }
    }
}
