//! Rules of initializers and hooks (`validateRule`, the same in Kubernetes 1.8 and 1.13).

use super::causes::{Causes, go_slice};
use super::texts;
use serde_json::Value;
use std::collections::HashSet;

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

/// Validates a rule of an initializer, which names no subresources.
pub(super) fn check(rule: &Value, path: &str, causes: &mut Causes) {
    groups_and_versions(rule, path, causes);
    let (field, resources) = (format!("{path}.resources"), texts(rule, "resources"));
    if resources.is_empty() {
        causes.required(&field, "");
    }
    for (index, resource) in resources.iter().enumerate() {
        if resource.is_empty() {
            causes.required(format!("{field}[{index}]"), "");
        }
        if resource.contains('/') {
            causes.invalid(format!("{field}[{index}]"), resource, "must not specify subresources");
        }
    }
    alone(&resources, &field, "string", "resources", causes);
}

/// Validates a rule of a hook, which names operations and may name subresources (`validateRuleWithOperations`).
pub(super) fn check_with_operations(rule: &Value, path: &str, causes: &mut Causes) {
    let (field, operations) = (format!("{path}.operations"), texts(rule, "operations"));
    if operations.is_empty() {
        causes.required(&field, "");
    }
    alone(&operations, &field, "admissionregistration.OperationType", "operations", causes);
    for (index, operation) in operations.iter().enumerate() {
        causes.one_of_unquoted(format!("{field}[{index}]"), operation, &OPERATIONS);
    }
    groups_and_versions(rule, path, causes);
    resources(&texts(rule, "resources"), &format!("{path}.resources"), causes);
}

fn groups_and_versions(rule: &Value, path: &str, causes: &mut Causes) {
    let (field, groups) = (format!("{path}.apiGroups"), texts(rule, "apiGroups"));
    if groups.is_empty() {
        causes.required(&field, "");
    }
    alone(&groups, &field, "string", "API groups", causes);
    let (field, versions) = (format!("{path}.apiVersions"), texts(rule, "apiVersions"));
    if versions.is_empty() {
        causes.required(&field, "");
    }
    alone(&versions, &field, "string", "API versions", causes);
    for (index, _) in versions.iter().enumerate().filter(|(_, version)| version.is_empty()) {
        causes.required(format!("{field}[{index}]"), "");
    }
}

/// Rejects a wildcard beside other items.
fn alone(items: &[&str], field: &str, item_type: &str, what: &str, causes: &mut Causes) {
    if items.len() > 1 && items.contains(&"*") {
        let why = format!("if '*' is present, must not specify other {what}");
        causes.invalid_value(field, go_slice(item_type, items), &why);
    }
}

/// `validateResources`: a wildcard conflicts with the resources that it covers and that stand after it.
fn resources(resources: &[&str], field: &str, causes: &mut Causes) {
    if resources.is_empty() {
        causes.required(field, "");
    }
    let (mut whole_resources, mut whole_subresources) = (HashSet::new(), HashSet::new());
    let mut last_is_resource = false;
    for (index, name) in resources.iter().enumerate() {
        let field = format!("{field}[{index}]");
        if name.is_empty() {
            causes.required(field, "");
            continue;
        }
        let Some((resource, subresource)) = name.split_once('/') else {
            // kube-apiserver overwrites the flag, so a wildcard after a resource conceals the resource.
            last_is_resource = *name != "*";
            continue;
        };
        if whole_resources.contains(resource) {
            causes.invalid(&field, name, &format!("if '{resource}/*' is present, must not specify {name}"));
        }
        if whole_subresources.contains(subresource) {
            causes.invalid(&field, name, &format!("if '*/{subresource}' is present, must not specify {name}"));
        }
        if subresource == "*" {
            whole_resources.insert(resource);
        }
        if resource == "*" {
            whole_subresources.insert(subresource);
        }
    }
    if resources.len() > 1 && resources.contains(&"*/*") {
        let why = "if '*/*' is present, must not specify other resources";
        causes.invalid_value(field, go_slice("string", resources), why);
    }
    if resources.contains(&"*") && last_is_resource {
        let why = "if '*' is present, must not specify other resources without subresources";
        causes.invalid_value(field, go_slice("string", resources), why);
    }
}
