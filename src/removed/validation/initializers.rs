//! Validates InitializerConfigurations as Kubernetes 1.13 does (`ValidateInitializerConfiguration`).

use super::{Causes, items, names, rules, text};
use crate::object::Object;

pub(super) fn validate(object: &Object, causes: &mut Causes) {
    super::name(object, names::subdomain_errors, causes);
    for (index, initializer) in object.items(&["initializers"]).iter().enumerate() {
        let path = format!("initializers[{index}]");
        names::full_name(text(initializer, "name"), &format!("{path}.name"), causes);
        for (index, rule) in items(initializer, "rules").iter().enumerate() {
            rules::check(rule, &format!("{path}.rules[{index}]"), causes);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::removed::INITIALIZER_CONFIGURATIONS;
    use crate::removed::validation::tests::{self, OLD_SUBDOMAIN};
    use serde_json::{Value, json};

    #[track_caller]
    fn check(initializers: Value, expected: &[&str]) {
        let object = json!({"metadata": {"name": "c"}, "initializers": initializers});
        tests::check(&INITIALIZER_CONFIGURATIONS, object, expected);
    }

    #[track_caller]
    fn check_rule(groups: Value, versions: Value, resources: Value, expected: &[&str]) {
        let rule = json!({"apiGroups": groups, "apiVersions": versions, "resources": resources});
        let expected: Vec<_> = expected.iter().map(|line| format!("initializers[0].rules[0].{line}")).collect();
        let expected: Vec<_> = expected.iter().map(String::as_str).collect();
        check(json!([{"name": "a.b.c", "rules": [rule]}]), &expected);
    }

    #[test]
    fn a_name_has_three_segments() {
        let three = "should be a domain with at least three segments separated by dots";
        check(json!([]), &[]);
        check(json!([{"name": "a.b.c"}, {"name": "a.b.c"}]), &[]);
        check(json!([{"name": "short"}]), &[&format!("initializers[0].name: Invalid value: \"short\": {three}")]);
        check(json!([{"name": "a.b"}]), &[&format!("initializers[0].name: Invalid value: \"a.b\": {three}")]);
        check(
            json!([{"name": ""}, {}, 1]),
            &[
                "initializers[0].name: Required value",
                "initializers[1].name: Required value",
                "initializers[2].name: Required value",
            ],
        );
        check(
            json!([{"name": "A.b.c"}]),
            &[&format!("initializers[0].name: Invalid value: \"A.b.c\": {OLD_SUBDOMAIN}")],
        );
        let long = format!("{}!", "a.".repeat(130));
        let both = format!(
            "initializers[0].name: Invalid value: \"{long}\": must be no more than 253 characters,{OLD_SUBDOMAIN}"
        );
        check(json!([{"name": long}]), &[&both]);
    }

    #[test]
    fn a_rule_names_groups_versions_and_resources() {
        let (groups, versions, resources) = (json!([""]), json!(["v1"]), json!(["configmaps"]));
        check_rule(groups.clone(), versions.clone(), resources.clone(), &[]);
        check_rule(json!(["*"]), json!(["*"]), json!(["*"]), &[]);
        check_rule(json!([]), versions.clone(), resources.clone(), &["apiGroups: Required value"]);
        check_rule(groups.clone(), json!([]), resources.clone(), &["apiVersions: Required value"]);
        check_rule(groups.clone(), json!([""]), resources.clone(), &["apiVersions[0]: Required value"]);
        check_rule(groups.clone(), versions.clone(), json!([]), &["resources: Required value"]);
        check_rule(groups.clone(), versions.clone(), json!([""]), &["resources[0]: Required value"]);
        check_rule(
            Value::Null,
            Value::Null,
            Value::Null,
            &["apiGroups: Required value", "apiVersions: Required value", "resources: Required value"],
        );
    }

    #[test]
    fn a_wildcard_stands_alone() {
        let (groups, versions, resources) = (json!([""]), json!(["v1"]), json!(["configmaps"]));
        let why =
            r#"apiGroups: Invalid value: []string{"*", "x"}: if '*' is present, must not specify other API groups"#;
        check_rule(json!(["*", "x"]), versions.clone(), resources.clone(), &[why]);
        let why = r#"apiVersions: Invalid value: []string{"v1", "*"}: if '*' is present, must not specify other API versions"#;
        check_rule(groups.clone(), json!(["v1", "*"]), resources, &[why]);
        let why =
            r#"resources: Invalid value: []string{"*", "pods"}: if '*' is present, must not specify other resources"#;
        check_rule(groups, versions, json!(["*", "pods"]), &[why]);
    }

    #[test]
    fn subresources_are_invalid() {
        for name in ["pods/status", "*/*", "pods/"] {
            let why = format!("resources[0]: Invalid value: \"{name}\": must not specify subresources");
            check_rule(json!([""]), json!(["v1"]), json!([name]), &[&why]);
        }
    }
}
