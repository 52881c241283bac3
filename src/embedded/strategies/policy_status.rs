//! Validation of the status of a ValidatingAdmissionPolicy (`validateValidatingAdmissionPolicyStatus`).
//!
//! The `fieldRef` of a warning is not parsed as JSONPath.

use crate::go_text::go_quote;
use crate::names::qualified_name_errors;
use crate::object::Object;
use crate::status::{Cause, fault, invalid};
use serde_json::Value;
use std::collections::HashSet;

const REASON: &str = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters \
    or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  \
    or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";

/// The causes to refuse a policy with this status.
pub(super) fn causes(policy: &Object) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (at, warning) in policy.items(&["status", "typeChecking", "expressionWarnings"]).iter().enumerate() {
        for field in ["warning", "fieldRef"] {
            let text = text(warning, field);
            if text.is_empty() || (field == "fieldRef" && text.trim().is_empty()) {
                let path = format!("status.typeChecking.expressionWarnings[{at}].{field}");
                causes.push(fault::required(&path, ""));
            }
        }
    }
    let mut kinds = HashSet::new();
    for (at, condition) in policy.items(&["status", "conditions"]).iter().enumerate() {
        let path = |field: &str| format!("status.conditions[{at}].{field}");
        let kind = text(condition, "type");
        if !kinds.insert(kind) {
            causes.push(fault::duplicate(&path("type"), &go_quote(kind)));
        }
        self::condition(condition, &path, &mut causes);
    }
    causes
}

/// `metav1validation.ValidateCondition`, without the lengths of texts.
fn condition(condition: &Value, path: &dyn Fn(&str) -> String, causes: &mut Vec<Cause>) {
    let kind = text(condition, "type");
    causes.extend(qualified_name_errors(kind).iter().map(|why| invalid::invalid(&path("type"), &go_quote(kind), why)));
    let status = text(condition, "status");
    if !matches!(status, "False" | "True" | "Unknown") {
        causes.push(invalid::not_supported(&path("status"), status, &["False", "True", "Unknown"]));
    }
    let generation = condition.get("observedGeneration").and_then(Value::as_i64).unwrap_or_default();
    if generation < 0 {
        let why = "must be greater than or equal to zero";
        causes.push(invalid::invalid(&path("observedGeneration"), &generation.to_string(), why));
    }
    if text(condition, "lastTransitionTime").is_empty() {
        causes.push(fault::required(&path("lastTransitionTime"), ""));
    }
    match text(condition, "reason") {
        "" => causes.push(fault::required(&path("reason"), "")),
        reason if !is_reason(reason) => causes.push(invalid::invalid(&path("reason"), &go_quote(reason), REASON)),
        _ => {}
    }
}

/// `conditionReasonRegexp`
fn is_reason(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().next_back().is_some_and(is_word)
        && text.bytes().all(|byte| is_word(byte) || matches!(byte, b',' | b':'))
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_status_has_complete_conditions_and_warnings() {
        let condition = |change: Value| {
            let mut condition = json!({"type": "Ready", "status": "True", "reason": "A_b", "lastTransitionTime": "2026-01-02T03:04:05Z"});
            condition.as_object_mut().unwrap().extend(change.as_object().cloned().unwrap());
            json!({"conditions": [condition]})
        };
        let warning = |warning: Value| json!({"typeChecking": {"expressionWarnings": [warning]}});
        for (status, field) in [
            (condition(json!({})), None),
            (condition(json!({"type": "a b"})), Some("status.conditions[0].type")),
            (condition(json!({"status": "Yes"})), Some("status.conditions[0].status")),
            (condition(json!({"reason": "A b"})), Some("status.conditions[0].reason")),
            (condition(json!({"reason": ""})), Some("status.conditions[0].reason")),
            (condition(json!({"observedGeneration": -1})), Some("status.conditions[0].observedGeneration")),
            (condition(json!({"lastTransitionTime": null})), Some("status.conditions[0].lastTransitionTime")),
            (warning(json!({"fieldRef": "spec", "warning": "w"})), None),
            (
                warning(json!({"fieldRef": " ", "warning": "w"})),
                Some("status.typeChecking.expressionWarnings[0].fieldRef"),
            ),
            (warning(json!({"fieldRef": "spec"})), Some("status.typeChecking.expressionWarnings[0].warning")),
            (json!("text"), None),
        ] {
            let policy = Object::from_value(json!({"status": status})).unwrap();
            let found = causes(&policy);
            let fields: Vec<&str> = found.iter().map(|cause| cause.field.as_str()).collect();
            assert_eq!(fields, field.into_iter().collect::<Vec<_>>(), "{status}");
        }
    }
}
