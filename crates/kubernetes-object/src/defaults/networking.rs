//! Defaults of the networking.k8s.io group.

use super::fields::{Fields, each, embedded, if_nil, if_zero, is_zero, pointer};
use serde_json::json;

pub(super) fn apply(kind: &str, object: &mut Fields) {
    match kind {
        "NetworkPolicy" => network_policy(object),
        "IngressClass" => {
            if let Some(parameters) = pointer(object, "spec").and_then(|spec| pointer(spec, "parameters")) {
                if_nil(parameters, "scope", "Cluster");
            }
        }
        _ => {}
    }
}

fn network_policy(object: &mut Fields) {
    let Some(spec) = embedded(object, "spec") else { return };
    let types = if is_zero(spec, "egress") { json!(["Ingress"]) } else { json!(["Ingress", "Egress"]) };
    if_zero(spec, "policyTypes", types);
    for direction in ["ingress", "egress"] {
        for rule in each(spec, direction) {
            each(rule, "ports").for_each(|port| if_nil(port, "protocol", "TCP"));
        }
    }
}
