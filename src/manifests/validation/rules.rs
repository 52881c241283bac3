//! Validates rules of webhooks and policies (`validateRuleWithOperations`).

use super::{Faults, given, texts};
use serde_json::{Value, json};
use std::collections::HashSet;

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];

/// Validates a rule, which may name subresources.
pub(super) fn check(rule: &Value, path: &str, faults: &mut Faults) {
    let field = format!("{path}.operations");
    let operations = texts(rule, "operations");
    if operations.is_empty() {
        faults.required(&field, "");
    }
    alone(&operations, &field, "operations", faults);
    for (index, operation) in operations.iter().enumerate() {
        faults.one_of(&format!("{field}[{index}]"), operation, &OPERATIONS);
    }
    let groups = texts(rule, "apiGroups");
    let field = format!("{path}.apiGroups");
    if groups.is_empty() {
        faults.required(&field, "");
    }
    alone(&groups, &field, "API groups", faults);
    let versions = texts(rule, "apiVersions");
    let field = format!("{path}.apiVersions");
    if versions.is_empty() {
        faults.required(&field, "");
    }
    alone(&versions, &field, "API versions", faults);
    for (index, _) in versions.iter().enumerate().filter(|(_, version)| version.is_empty()) {
        faults.required(&format!("{field}[{index}]"), "");
    }
    resources(&texts(rule, "resources"), &format!("{path}.resources"), faults);
    if let Some(scope) = given(rule, "scope") {
        faults.one_of(&format!("{path}.scope"), scope, &SCOPES);
    }
}

/// Reports other values beside `*`.
fn alone(values: &[&str], field: &str, what: &str, faults: &mut Faults) {
    if values.len() > 1 && values.contains(&"*") {
        faults.invalid_value(field, json!(values), &format!("if '*' is present, must not specify other {what}"));
    }
}

/// `validateResources`
fn resources(resources: &[&str], field: &str, faults: &mut Faults) {
    if resources.is_empty() {
        faults.required(field, "");
    }
    let (mut whole, mut anywhere) = (HashSet::new(), HashSet::new());
    // Only the last resource without a subresource counts, as in kube-apiserver.
    let mut names_one = false;
    for (index, resource) in resources.iter().enumerate() {
        let field = format!("{field}[{index}]");
        if resource.is_empty() {
            faults.required(&field, "");
            continue;
        }
        let Some((name, subresource)) = resource.split_once('/') else {
            names_one = *resource != "*";
            continue;
        };
        if whole.contains(name) {
            let why = format!("if '{name}/*' is present, must not specify {resource}");
            faults.invalid(&field, resource, &why);
        }
        if anywhere.contains(subresource) {
            let why = format!("if '*/{subresource}' is present, must not specify {resource}");
            faults.invalid(&field, resource, &why);
        }
        if subresource == "*" {
            whole.insert(name);
        }
        if name == "*" {
            anywhere.insert(subresource);
        }
    }
    if resources.len() > 1 && resources.contains(&"*/*") {
        faults.invalid_value(field, json!(resources), "if '*/*' is present, must not specify other resources");
    }
    if names_one && resources.contains(&"*") {
        let why = "if '*' is present, must not specify other resources without subresources";
        faults.invalid_value(field, json!(resources), why);
    }
}
