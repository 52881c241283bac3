//! PriorityClasses, RuntimeClasses and Leases (`pkg/apis/scheduling`, `node`, `coordination`).

use super::formats::{label, subdomain};
use super::metadata;
use super::node::{Causes, Node, internal};
use super::pod;
use super::resources;
use serde_json::Value;
use std::collections::{BTreeSet, HashSet};

/// `HighestUserDefinablePriority`
const HIGHEST_PRIORITY: i64 = 1_000_000_000;

/// `ValidatePriorityClass`, `ValidatePriorityClassUpdate`
pub(super) fn priority_class(object: &Node<'_>, old: Option<&Node<'_>>, out: &mut Causes) {
    let (value, policy) = (object.at("value"), object.at("preemptionPolicy"));
    if let Some(old) = old {
        metadata::check_update(object, old, out);
        if value.int() != old.at("value").int() {
            out.forbidden(&value, "may not be changed in an update.");
        }
        out.immutable(&policy, &old.at("preemptionPolicy"));
        return;
    }
    metadata::check(object, false, subdomain, out);
    let name = object.under(&["metadata", "name"]);
    if name.text().starts_with("system-") {
        if let Some(why) = system_class_error(name.text(), value.int(), object.at("globalDefault").is_true()) {
            let reserved = "priority class names with 'system-' prefix are reserved for system use only. error:";
            out.forbidden(&name, &format!("{reserved} {why}"));
        }
    } else if value.int() > HIGHEST_PRIORITY {
        let why = format!("maximum allowed value of a user defined priority is {HIGHEST_PRIORITY}");
        out.forbidden(&value, &why);
    }
    if policy.is_given() {
        out.required_one_of(&policy, &["PreemptLowerPriority", "Never"]);
    }
}

/// `IsKnownSystemPriorityClass`
fn system_class_error(name: &str, value: i64, is_default: bool) -> Option<String> {
    let expected = match name {
        "system-node-critical" => 2_000_001_000,
        "system-cluster-critical" => 2_000_000_000,
        _ => return Some(format!("{name} is not a known system priority class")),
    };
    if value != expected {
        return Some(format!("value of {name} PriorityClass must be {expected}"));
    }
    is_default.then(|| format!("globalDefault of {name} PriorityClass must be false"))
}

/// `ValidateRuntimeClass`, `ValidateRuntimeClassUpdate`
pub(super) fn runtime_class(object: &Node<'_>, old: Option<&Node<'_>>, out: &mut Causes) {
    let handler = object.at("handler");
    if let Some(old) = old {
        metadata::check_update(object, old, out);
        out.immutable_text(&handler, &old.at("handler"));
    }
    metadata::check(object, false, subdomain, out);
    if out.require(&handler) {
        out.texts(&handler, label(handler.text(), false));
    }
    if let Some(overhead) = object.at("overhead").given() {
        let limits = Value::from_iter([("limits", overhead.at("podFixed").value().clone())]);
        let node = overhead.with(&limits);
        resources::requirements(&node, resources::container_resource_name, &BTreeSet::new(), out);
    }
    let scheduling = object.at("scheduling");
    metadata::labels(&scheduling.at("nodeSelector"), out);
    let tolerations = scheduling.at("tolerations");
    pod::tolerations(&tolerations, out);
    let mut known = HashSet::new();
    for toleration in tolerations.items() {
        let key = ["key", "operator", "value", "effect"].map(|field| toleration.at(field).text());
        if !known.insert(key) {
            let form = "Key:key Operator:operator Value:value Effect:effect TolerationSeconds:tolerationSeconds?";
            out.duplicate_of(&toleration, internal(&toleration, form));
        }
    }
}

/// `ValidateLease`, `ValidateLeaseUpdate`
pub(super) fn lease(object: &Node<'_>, old: Option<&Node<'_>>, out: &mut Causes) {
    match old {
        Some(old) => metadata::check_update_generic(object, old, out),
        None => metadata::check_generic(object, true, subdomain, out),
    }
    let spec = object.at("spec");
    let (duration, transitions) = (spec.at("leaseDurationSeconds"), spec.at("leaseTransitions"));
    if duration.is_given() && duration.int() <= 0 {
        out.int(&duration, "must be greater than 0");
    }
    out.non_negative(&transitions);
}
