//! Validates label selectors (`metav1validation.ValidateLabelSelector`).

use super::{Faults, items, metadata, text, texts};
use crate::names::{label_value_errors, qualified_name_errors};
use serde_json::Value;

/// Validates the selector in a field of an object, if the field exists.
pub(super) fn check(parent: &Value, path: &str, name: &str, faults: &mut Faults) {
    let Some(selector) = parent.get(name) else { return };
    let field = format!("{path}.{name}");
    if let Some(labels) = selector.get("matchLabels").and_then(Value::as_object) {
        metadata::labels(labels, &format!("{field}.matchLabels"), faults);
    }
    for (index, requirement) in items(selector, "matchExpressions").iter().enumerate() {
        self::requirement(requirement, &format!("{field}.matchExpressions[{index}]"), faults);
    }
}

fn requirement(requirement: &Value, field: &str, faults: &mut Faults) {
    let (key, operator, values) =
        (text(requirement, "key"), text(requirement, "operator"), texts(requirement, "values"));
    match (operator, values.is_empty()) {
        ("In" | "NotIn", true) => {
            faults.required(&format!("{field}.values"), "must be specified when `operator` is 'In' or 'NotIn'")
        }
        ("Exists" | "DoesNotExist", false) => faults.forbidden(
            &format!("{field}.values"),
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        ),
        ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => {}
        _ => faults.invalid(&format!("{field}.operator"), operator, "not a valid selector operator"),
    }
    qualified_name_errors(key).iter().for_each(|error| faults.invalid(&format!("{field}.key"), key, error));
    for (index, value) in values.into_iter().enumerate() {
        let field = format!("{field}.values[{index}]");
        label_value_errors(value).iter().for_each(|error| faults.invalid(&field, value, error));
    }
}
