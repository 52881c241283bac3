//! The usage of a service (`serviceEvaluator`).

use crate::object::Object;
use crate::object::quantity::Quantity;
use crate::plugins::rules::resources::ResourceList;
use serde_json::Value;

const NAMES: [&str; 4] = ["count/services", "services", "services.nodeports", "services.loadbalancers"];

pub(super) fn counts(name: &str) -> bool {
    NAMES.contains(&name)
}

pub(super) fn usage(service: &Object) -> ResourceList {
    let ports = service.items(&["spec", "ports"]);
    let is_given = |port: &&Value| port.get("nodePort").and_then(Value::as_i64).is_some_and(|port| port != 0);
    let allocates = service.get(&["spec", "allocateLoadBalancerNodePorts"]).and_then(Value::as_bool).unwrap_or(true);
    let (node_ports, balancers) = match service.str(&["spec", "type"]) {
        "NodePort" => (ports.len(), 0),
        "LoadBalancer" if allocates => (ports.len(), 1),
        "LoadBalancer" => (ports.iter().filter(is_given).count(), 1),
        _ => (0, 0),
    };
    let node_ports = i64::try_from(node_ports).unwrap_or(i64::MAX);
    let counts = [1, 1, node_ports, balancers].map(Quantity::whole);
    NAMES.into_iter().map(str::to_owned).zip(counts).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn node_ports_are_counted_as_they_are_meant() {
        let ports = json!([{"port": 1}, {"port": 2, "nodePort": 30000}, {"port": 3, "nodePort": 0}]);
        for (kind, allocates, node_ports, balancers) in [
            ("ClusterIP", json!(null), "0", "0"),
            ("ExternalName", json!(null), "0", "0"),
            ("NodePort", json!(false), "3", "0"),
            ("LoadBalancer", json!(null), "3", "1"),
            ("LoadBalancer", json!(true), "3", "1"),
            ("LoadBalancer", json!(false), "1", "1"),
        ] {
            let spec = json!({"type": kind, "ports": ports, "allocateLoadBalancerNodePorts": allocates});
            let usage = usage(&Object::from_value(json!({ "spec": spec })).unwrap());
            let got = NAMES.map(|name| usage[name].to_string());
            assert_eq!(got, ["1", "1", node_ports, balancers], "{kind} {allocates}");
        }
    }

    #[test]
    fn wrong_types_count_for_nothing_more() {
        let usage = usage(&Object::from_value(json!({"spec": {"type": 1, "ports": "x"}})).unwrap());
        assert_eq!(usage["services.nodeports"], Quantity::ZERO);
    }
}
