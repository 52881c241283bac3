//! The core group.

use super::pod;
use crate::defaults::fields::{Fields, embedded, is_zero, pointer, text};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

pub(super) fn make(kind: &str, object: &mut Fields) {
    match kind {
        "Pod" => pod::pod(object),
        "PodTemplate" => pod::template(object),
        "ReplicationController" => {
            pointer(object, "spec").map(pod::template);
        }
        "Secret" => secret(object),
        "Node" => {
            pointer(object, "spec").map(pod_ranges);
        }
        _ => {}
    }
}

/// Moves a secret's `stringData` to `data` (`Convert_v1_Secret_To_core_Secret`).
fn secret(object: &mut Fields) {
    let Some(Value::Object(given)) = object.remove("stringData") else { return };
    if given.is_empty() {
        return;
    }
    let Some(data) = embedded(object, "data") else { return };
    for (name, text) in given {
        if let Value::String(text) = text {
            data.insert(name, Value::String(STANDARD.encode(text)));
        }
    }
}

/// Makes `podCIDR` and the first of `podCIDRs` equal; if both are set, `podCIDR` takes precedence (`Convert_v1_NodeSpec_To_core_NodeSpec`
/// and back).
fn pod_ranges(spec: &mut Fields) {
    let first = spec.get("podCIDRs").and_then(|all| all.get(0)).and_then(Value::as_str);
    match (text(spec, "podCIDR"), first) {
        (one, first) if !one.is_empty() && first != Some(one) => {
            let all = json!([one]);
            spec.insert("podCIDRs".to_owned(), all);
        }
        ("", Some(first)) if !first.is_empty() && is_zero(spec, "podCIDR") => {
            let first = Value::from(first);
            spec.insert("podCIDR".to_owned(), first);
        }
        _ => {}
    }
}
