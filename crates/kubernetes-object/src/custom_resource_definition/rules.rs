//! Rules of a schema, without their expressions.

use super::field_path;
use super::internal::Fields;
use crate::go_text::go_quote;
use crate::go_text::json;
use crate::status::Cause;
use crate::status::fault;
use serde_json::Value;

const REASONS: [&str; 4] = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// The errors of the rules directly in a schema.
pub(super) fn check(schema: Fields<'_>, path: &str) -> Vec<Cause> {
    let rules = schema.objects("x-kubernetes-validations");
    let checked =
        rules.map(|(index, rule)| check_rule(schema, rule, &format!("{path}.x-kubernetes-validations[{index}]")));
    checked.flatten().collect()
}

fn check_rule(schema: Fields<'_>, rule: Fields<'_>, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let has_lines = |text: &str| text.contains(['\n', '\r']);
    let at = |field: &str| format!("{path}.{field}");
    let (expression, message) = (rule.text("rule").trim(), rule.text("message"));
    if expression.is_empty() {
        causes.push(fault::required(&at("rule"), "rule is not specified"));
    } else if !message.is_empty() && message.trim().is_empty() {
        causes.push(fault::invalid_text(&at("message"), message, "must be non-empty if specified"));
    } else if has_lines(message.trim()) {
        causes.push(fault::invalid_text(&at("message"), message, "must not contain line breaks"));
    } else if has_lines(expression) && message.trim().is_empty() {
        causes.push(fault::required(&at("message"), "message must be specified if rule contains line breaks"));
    }
    let text = rule.text("messageExpression");
    if !text.is_empty() && text.trim().is_empty() {
        causes.push(fault::required(&at("messageExpression"), "messageExpression must be non-empty if specified"));
    }
    if let Some(reason) =
        rule.given("reason").filter(|reason| !reason.as_str().is_some_and(|text| REASONS.contains(&text)))
    {
        let shown = reason.as_str().map_or_else(|| json::text(reason), go_quote);
        causes.push(fault::not_supported(&at("reason"), &shown, REASONS));
    }
    let field = rule.text("fieldPath");
    if !field.is_empty() && field.trim().is_empty() {
        causes.push(fault::invalid_text(&at("fieldPath"), field, "must be non-empty if specified"));
    }
    if has_lines(field) {
        causes.push(fault::invalid_text(&at("fieldPath"), field, "must not contain line breaks"));
    }
    if !field.is_empty() && field_path::find(field, schema, true).is_err() {
        causes.push(fault::invalid_text(&at("fieldPath"), field, "must be a valid path"));
    }
    causes
}

/// Whether a schema has rules.
pub(super) fn has_rules(schema: Fields<'_>) -> bool {
    schema.given("x-kubernetes-validations").and_then(Value::as_array).is_some_and(|rules| !rules.is_empty())
}
