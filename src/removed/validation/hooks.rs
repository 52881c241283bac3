//! Validates ExternalAdmissionHookConfigurations as Kubernetes 1.8 does (`ValidateExternalAdmissionHookConfiguration`). A client
//! configuration has no rules.

use super::{Causes, given, items, names, rules, text};
use crate::object::Object;

pub(super) fn validate(object: &Object, causes: &mut Causes) {
    super::name(object, names::subdomain_errors, causes);
    for (index, hook) in object.items(&["externalAdmissionHooks"]).iter().enumerate() {
        let path = format!("externalAdmissionHooks[{index}]");
        names::full_name(text(hook, "name"), &format!("{path}.name"), causes);
        for (index, rule) in items(hook, "rules").iter().enumerate() {
            rules::check_with_operations(rule, &format!("{path}.rules[{index}]"), causes);
        }
        if let Some(policy) = given(hook, "failurePolicy") {
            causes.one_of_unquoted(format!("{path}.failurePolicy"), policy, &["Ignore"]);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::removed::EXTERNAL_ADMISSION_HOOK_CONFIGURATIONS;
    use crate::removed::validation::tests;
    use serde_json::{Value, json};

    #[track_caller]
    fn check(hook: Value, expected: &[&str]) {
        let object = json!({"metadata": {"name": "c"}, "externalAdmissionHooks": [hook]});
        let expected: Vec<_> = expected.iter().map(|line| format!("externalAdmissionHooks[0].{line}")).collect();
        let expected: Vec<_> = expected.iter().map(String::as_str).collect();
        tests::check(&EXTERNAL_ADMISSION_HOOK_CONFIGURATIONS, object, &expected);
    }

    #[track_caller]
    fn check_rule(operations: Value, resources: Value, expected: &[&str]) {
        let rule = json!({"operations": operations, "apiGroups": [""], "apiVersions": ["v1"], "resources": resources});
        let expected: Vec<_> = expected.iter().map(|line| format!("rules[0].{line}")).collect();
        let expected: Vec<_> = expected.iter().map(String::as_str).collect();
        check(json!({"name": "a.lab.io", "rules": [rule]}), &expected);
    }

    #[test]
    fn a_hook_has_a_full_name_and_ignores_failures() {
        check(json!({"name": "a.lab.io", "failurePolicy": "Ignore"}), &[]);
        check(
            json!({"name": "a.lab.io", "clientConfig": {"service": {"name": "", "namespace": ""}, "caBundle": ""}}),
            &[],
        );
        let why = "failurePolicy: Unsupported value: \"Fail\": supported values: Ignore";
        check(json!({"name": "a.lab.io", "failurePolicy": "Fail"}), &[why]);
        let why = "name: Invalid value: \"lab.io\": should be a domain with at least three segments separated by dots";
        check(json!({"name": "lab.io"}), &[why]);
        check(json!({}), &["name: Required value"]);
    }

    #[test]
    fn errors_of_a_rule_stand_between_those_of_name_and_failure_policy() {
        check(
            json!({"failurePolicy": "", "rules": [{}, {"operations": ["x"]}]}),
            &[
                "name: Required value",
                "rules[0].operations: Required value",
                "rules[0].apiGroups: Required value",
                "rules[0].apiVersions: Required value",
                "rules[0].resources: Required value",
                "rules[1].operations[0]: Unsupported value: \"x\": supported values: *, CONNECT, CREATE, DELETE, UPDATE",
                "rules[1].apiGroups: Required value",
                "rules[1].apiVersions: Required value",
                "rules[1].resources: Required value",
                "failurePolicy: Unsupported value: \"\": supported values: Ignore",
            ],
        );
    }

    #[test]
    fn operations_are_those_of_admission() {
        let resources = json!(["pods"]);
        check_rule(json!(["*"]), resources.clone(), &[]);
        check_rule(json!(["CREATE", "UPDATE", "DELETE", "CONNECT"]), resources.clone(), &[]);
        check_rule(json!([]), resources.clone(), &["operations: Required value"]);
        let alone = "operations: Invalid value: []admissionregistration.OperationType{\"*\", \"CREATE\"}: if '*' is present, must not \
            specify other operations";
        check_rule(json!(["*", "CREATE"]), resources.clone(), &[alone]);
        let unknown =
            "operations[1]: Unsupported value: \"create\": supported values: *, CONNECT, CREATE, DELETE, UPDATE";
        check_rule(json!(["CREATE", "create"]), resources, &[unknown]);
    }

    #[test]
    fn a_wildcard_covers_the_resources_after_it() {
        let create = || json!(["CREATE"]);
        for valid in [
            json!(["*", "pods/status"]),
            json!(["*", "*/status"]),
            json!(["pods/*", "nodes/status"]),
            json!(["pods/exec", "pods/*"]),
            json!(["pods", "*"]),
            json!(["*/*"]),
        ] {
            check_rule(create(), valid, &[]);
        }
        check_rule(create(), json!([]), &["resources: Required value"]);
        check_rule(create(), json!(["pods", ""]), &["resources[1]: Required value"]);
        let why = "resources[1]: Invalid value: \"pods/exec\": if 'pods/*' is present, must not specify pods/exec";
        check_rule(create(), json!(["pods/*", "pods/exec"]), &[why]);
        let why = "resources[1]: Invalid value: \"pods/exec\": if '*/exec' is present, must not specify pods/exec";
        check_rule(create(), json!(["*/exec", "pods/exec"]), &[why]);
        let why = r#"resources: Invalid value: []string{"*/*", "pods"}: if '*/*' is present, must not specify other resources"#;
        check_rule(create(), json!(["*/*", "pods"]), &[why]);
        let why = r#"resources: Invalid value: []string{"*", "pods"}: if '*' is present, must not specify other resources without subresources"#;
        check_rule(create(), json!(["*", "pods"]), &[why]);
        check_rule(
            create(),
            json!(["*/*", "*/*"]),
            &[
                "resources[1]: Invalid value: \"*/*\": if '*/*' is present, must not specify */*",
                "resources[1]: Invalid value: \"*/*\": if '*/*' is present, must not specify */*",
                r#"resources: Invalid value: []string{"*/*", "*/*"}: if '*/*' is present, must not specify other resources"#,
            ],
        );
    }
}
