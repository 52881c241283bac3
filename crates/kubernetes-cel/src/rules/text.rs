//! The fields of a rule other than its expressions, and kube-apiserver's texts about rules.

use super::REASONS;
use kubernetes_object::go_text::{go_quote, json};
use serde_json::Value;

/// Adds the faults of a rule that are found without compiling it.
pub(super) fn faults(schema: &Value, rule: &Value, path: &str, faults: &mut Vec<String>) {
    let given = |name: &str| rule.get(name).and_then(Value::as_str).unwrap_or_default();
    let has_lines = |text: &str| text.contains(['\n', '\r']);
    let (expression, message) = (given("rule").trim(), given("message"));
    let mut add = |field: &str, text: String| faults.push(format!("{path}.{field}: {text}"));
    let invalid = |value: &str, why: &str| format!("Invalid value: {}: {why}", go_quote(value));
    if expression.is_empty() {
        add("rule", "Required value: rule is not specified".to_owned());
    } else if !message.is_empty() && message.trim().is_empty() {
        add("message", invalid(message, "must be non-empty if specified"));
    } else if has_lines(message.trim()) {
        add("message", invalid(message, "must not contain line breaks"));
    } else if has_lines(expression) && message.is_empty() {
        add("message", "Required value: message must be specified if rule contains line breaks".to_owned());
    }
    let (text, field_path) = (given("messageExpression"), given("fieldPath"));
    if !text.is_empty() && text.trim().is_empty() {
        add("messageExpression", "Required value: messageExpression must be non-empty if specified".to_owned());
    }
    if let Some(reason) = rule.get("reason").and_then(Value::as_str).filter(|reason| !REASONS.contains(reason)) {
        let supported = REASONS.map(go_quote).join(", ");
        add("reason", format!("Unsupported value: {}: supported values: {supported}", go_quote(reason)));
    }
    if !field_path.is_empty() && field_path.trim().is_empty() {
        add("fieldPath", invalid(field_path, "must be non-empty if specified"));
    }
    if has_lines(field_path) {
        add("fieldPath", invalid(field_path, "must not contain line breaks"));
    }
    if !field_path.is_empty() && self::field_path(schema, field_path).is_none() {
        add("fieldPath", invalid(field_path, "must be a valid path"));
    }
}

/// The path of a rule's `fieldPath` in the format of errors; `None` if the schema has no such field (`ValidFieldPath`).
pub(super) fn field_path(mut schema: &Value, path: &str) -> Option<String> {
    let (mut rest, mut normal) = (path, String::new());
    while !rest.is_empty() {
        let (name, after) = match rest.strip_prefix("['") {
            Some(quoted) => quoted.split_once("']")?,
            None => {
                let name = rest.strip_prefix('.')?;
                name.split_at(name.find(['.', '[', ']']).unwrap_or(name.len()))
            }
        };
        rest = after;
        let properties =
            schema.get("properties").and_then(Value::as_object).filter(|properties| !properties.is_empty());
        if let Some(properties) = properties {
            normal += &format!("{}{name}", if normal.is_empty() { "" } else { "." });
            schema = properties.get(name)?;
        } else {
            normal += &format!("[{name}]");
            schema = schema.get("additionalProperties")?;
        }
    }
    Some(normal)
}

/// A rule as Go prints it in an error: the JSON of its internal type.
pub(super) fn rule(rule: &Value) -> String {
    let text = |name: &str| json::string(rule.get(name).and_then(Value::as_str).unwrap_or_default());
    let given = |name: &str| rule.get(name).unwrap_or(&Value::Null);
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        text("rule"),
        text("message"),
        text("messageExpression"),
        given("reason"),
        text("fieldPath"),
        given("optionalOldSelf")
    )
}

/// `getCostErrorMessage`
pub(super) fn too_costly(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength \
         where arrays, maps, and strings are declared)"
    )
}
