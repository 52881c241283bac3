//! Validates the label selector of a PodPreset (`ValidateLabelSelector` of Kubernetes 1.19, which accepts any value of a requirement).

use crate::removed::validation::{Causes, items, names, structure, text, texts};
use serde_json::Value;

/// Validates the selector of a spec. The labels are validated in the order of their names; the order of Go's maps is random.
pub(super) fn check(spec: &Value, field: &str, causes: &mut Causes) {
    let Some(selector) = structure(spec, "selector") else { return };
    for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
        let (field, value) = (format!("{field}.matchLabels"), value.as_str().unwrap_or_default());
        causes.invalid_each(&field, key, names::qualified_name_errors(key));
        causes.invalid_each(&field, value, names::label_value_errors(value));
    }
    for (index, requirement) in items(selector, "matchExpressions").iter().enumerate() {
        self::requirement(requirement, &format!("{field}.matchExpressions[{index}]"), causes);
    }
}

/// `ValidateLabelSelectorRequirement`
fn requirement(requirement: &Value, field: &str, causes: &mut Causes) {
    let (key, operator) = (text(requirement, "key"), text(requirement, "operator"));
    match (operator, texts(requirement, "values").is_empty()) {
        ("In" | "NotIn", true) => {
            causes.required(format!("{field}.values"), "must be specified when `operator` is 'In' or 'NotIn'");
        }
        ("Exists" | "DoesNotExist", false) => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            causes.forbidden(format!("{field}.values"), why);
        }
        ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => {}
        _ => causes.invalid(format!("{field}.operator"), operator, "not a valid selector operator"),
    }
    causes.invalid_each(&format!("{field}.key"), key, names::qualified_name_errors(key));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::removed::validation::tests::lines;
    use serde_json::json;

    #[track_caller]
    fn check_selector(selector: Value, expected: &[&str]) {
        let mut causes = Causes::default();
        check(&json!({"selector": selector}), "s", &mut causes);
        assert_eq!(lines(causes.0), expected, "{selector}");
    }

    #[test]
    fn labels_have_keys_and_values() {
        check_selector(json!({}), &[]);
        check_selector(json!({"matchLabels": {"a/b": "c", "d": ""}}), &[]);
        check_selector(
            json!({"matchLabels": {"": "", "/a": "-"}}),
            &[
                "s.matchLabels: Invalid value: \"\": name part must be non-empty",
                &format!("s.matchLabels: Invalid value: \"\": {}", names::qualified_name_errors("")[1]),
                "s.matchLabels: Invalid value: \"/a\": prefix part must be non-empty",
                &format!("s.matchLabels: Invalid value: \"-\": {}", names::label_value_errors("-")[0]),
            ],
        );
    }

    #[test]
    fn a_requirement_has_values_that_its_operator_takes() {
        for valid in [
            json!({"key": "a", "operator": "In", "values": ["b"]}),
            json!({"key": "a", "operator": "NotIn", "values": ["not a label"]}),
            json!({"key": "a", "operator": "Exists"}),
            json!({"key": "a", "operator": "DoesNotExist", "values": []}),
        ] {
            check_selector(json!({"matchExpressions": [valid]}), &[]);
        }
        let required =
            "s.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'";
        for operator in ["In", "NotIn"] {
            check_selector(json!({"matchExpressions": [{"key": "a", "operator": operator}]}), &[required]);
        }
        let forbidden = "s.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or \
            'DoesNotExist'";
        for operator in ["Exists", "DoesNotExist"] {
            let requirement = json!({"key": "a", "operator": operator, "values": ["b"]});
            check_selector(json!({"matchExpressions": [requirement]}), &[forbidden]);
        }
        check_selector(
            json!({"matchExpressions": [{"key": "a/", "operator": "in"}]}),
            &[
                "s.matchExpressions[0].operator: Invalid value: \"in\": not a valid selector operator",
                "s.matchExpressions[0].key: Invalid value: \"a/\": name part must be non-empty",
                &format!("s.matchExpressions[0].key: Invalid value: \"a/\": {}", names::qualified_name_errors("")[1]),
            ],
        );
    }
}
