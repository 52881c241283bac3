//! The warnings of writes of webhook configurations, policies and bindings (`WarningsOnCreate`, `WarningsOnUpdate`).

use super::super::{GATE, SUFFIX};
use crate::config::FeatureGates;
use crate::go_text::go_quote;
use crate::matching::{EXCLUDING_GATE, is_review};
use crate::object::Object;
use serde_json::Value;

/// The warnings of a write of a valid object.
pub(crate) fn warnings(object: &Object, is_new: bool, gates: &FeatureGates) -> Vec<String> {
    let mut warnings = Vec::new();
    // A create of the name is an error with the gate. Before 1.36 the suffix has no meaning.
    let may_have_suffix = !is_new || !gates.is_on(GATE);
    if may_have_suffix && gates.since(36) && object.name().ends_with(SUFFIX) {
        warnings.push(format!(
            "metadata.name: names ending with {} are reserved for static manifest-based configurations and cannot be managed via the API",
            go_quote(SUFFIX)
        ));
    }
    if gates.is_on(EXCLUDING_GATE) {
        warnings.extend(of_rules(object));
    }
    warnings
}

/// The warnings of rules that name a resource that no webhook sees (`warningsForExcludedRules`).
fn of_rules(object: &Object) -> Vec<String> {
    let texts = |rule: &Value, field: &str| -> Vec<String> {
        let list = rule.get(field).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut warnings = Vec::new();
    for (at, webhook) in object.items(&["webhooks"]).iter().enumerate() {
        let rules = webhook.get("rules").and_then(Value::as_array);
        for (rule_at, rule) in rules.into_iter().flatten().enumerate() {
            let (groups, resources) = (texts(rule, "apiGroups"), texts(rule, "resources"));
            // The intent of an asterisk is not clear.
            if groups.iter().chain(&resources).any(|name| name == "*") {
                continue;
            }
            let named = groups.iter().flat_map(|group| resources.iter().map(move |resource| (group, resource)));
            for (group, resource) in named.filter(|(group, resource)| is_review(group, resource)) {
                let warning = format!(
                    "webhooks[{at}].rules[{rule_at}]: {resource}.{group} is excluded from admission webhooks; this rule will have no effect"
                );
                if !warnings.contains(&warning) {
                    warnings.push(warning);
                }
            }
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::EmulatedRelease;
    use serde_json::json;

    fn of(minor: u16, gates: &str, is_new: bool, object: Value) -> Vec<String> {
        let gates = FeatureGates::of(EmulatedRelease::new(minor), gates).unwrap();
        warnings(&Object::from_value(object).unwrap(), is_new, &gates)
    }

    #[test]
    fn rules_for_reviews_have_no_effect_since_1_37() {
        let rules = json!([
            {"apiGroups": ["authentication.k8s.io", "authorization.k8s.io"], "resources": ["tokenreviews", "pods", "tokenreviews"]},
            {"apiGroups": ["*"], "resources": ["tokenreviews"]},
            {"apiGroups": ["authorization.k8s.io"], "resources": ["*"]},
            {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews", "selfsubjectrulesreviews"]}
        ]);
        let object = json!({"metadata": {"name": "a"}, "webhooks": [{"name": "a"}, {"name": "b", "rules": rules}]});
        let wanted = [
            "webhooks[1].rules[0]: tokenreviews.authentication.k8s.io",
            "webhooks[1].rules[3]: subjectaccessreviews.authorization.k8s.io",
            "webhooks[1].rules[3]: selfsubjectrulesreviews.authorization.k8s.io",
        ];
        let wanted =
            wanted.map(|rule| format!("{rule} is excluded from admission webhooks; this rule will have no effect"));
        for is_new in [true, false] {
            assert_eq!(of(37, "", is_new, object.clone()), wanted);
            assert!(of(36, "", is_new, object.clone()).is_empty());
            let off = "ExcludeAdmissionWebhookVirtualResources=false";
            assert!(of(37, off, is_new, object.clone()).is_empty());
        }
    }

    #[test]
    fn a_reserved_name_is_worth_a_warning_where_it_is_no_error() {
        let object = json!({"metadata": {"name": "a.static.k8s.io"}});
        for (minor, is_new, count) in
            [(35, true, 0), (35, false, 0), (36, true, 1), (36, false, 1), (37, true, 0), (37, false, 1)]
        {
            assert_eq!(of(minor, "", is_new, object.clone()).len(), count, "1.{minor}");
        }
    }
}
