//! Validates policies and their bindings.

use super::webhook::match_conditions;
use super::{Faults, expressions, given, items, metadata, rules, selector, text, texts};
use crate::cel::Release;
use crate::names::{dns_1035_label_errors, dns_1123_subdomain_errors, path_segment_errors};
use crate::object::Object;
use serde_json::{Value, json};
use std::collections::HashSet;

/// The operations that a MutatingAdmissionPolicy may match.
const MUTATING_OPERATIONS: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];

/// Validates a ValidatingAdmissionPolicy (`validateValidatingAdmissionPolicySpec`) or a MutatingAdmissionPolicy
/// (`validateMutatingAdmissionPolicySpec`), as a release does.
pub(crate) fn policy(kind: &str, object: &Object, release: Release) -> Faults {
    let mut faults = Faults::default();
    metadata::check(object.get(&["metadata"]).unwrap_or(&Value::Null), &mut faults);
    let spec = object.get(&["spec"]).unwrap_or(&Value::Null);
    let is_validating = kind == "ValidatingAdmissionPolicy";
    match given(spec, "failurePolicy") {
        Some(value) => faults.one_of("spec.failurePolicy", value, &["Fail", "Ignore"]),
        None => faults.required("spec.failurePolicy", ""),
    }
    if let Some(kind) = spec.get("paramKind").filter(|kind| !kind.is_null()) {
        param_kind(kind, &mut faults);
    }
    match spec.get("matchConstraints").filter(|constraints| !constraints.is_null()) {
        Some(constraints) => {
            resources(constraints, "spec.matchConstraints", &mut faults);
            if items(constraints, "resourceRules").is_empty() {
                faults.required("spec.matchConstraints.resourceRules", "");
            }
            if !is_validating {
                mutable(constraints, "spec.matchConstraints", &mut faults);
            }
        }
        None => faults.required("spec.matchConstraints", ""),
    }
    let has_parameters = spec.get("paramKind").is_some_and(|kind| !kind.is_null());
    match_conditions(spec, "spec.matchConditions", has_parameters, release, &mut faults);
    expressions::policy(spec, object.name(), is_validating, release, &mut faults);
    faults
}

/// Validates a binding of either kind (`validateValidatingAdmissionPolicyBindingSpec`).
pub(crate) fn binding(kind: &str, object: &Object) -> Faults {
    let mut faults = Faults::default();
    metadata::check(object.get(&["metadata"]).unwrap_or(&Value::Null), &mut faults);
    let spec = object.get(&["spec"]).unwrap_or(&Value::Null);
    let name = text(spec, "policyName");
    if name.is_empty() {
        faults.required("spec.policyName", "");
    } else {
        dns_1123_subdomain_errors(name).iter().for_each(|error| faults.invalid("spec.policyName", name, error));
    }
    if let Some(reference) = spec.get("paramRef").filter(|reference| !reference.is_null()) {
        param_ref(reference, &mut faults);
    }
    let is_validating = kind == "ValidatingAdmissionPolicyBinding";
    if let Some(matched) = spec.get("matchResources").filter(|matched| !matched.is_null()) {
        resources(matched, "spec.matchResources", &mut faults);
        if !is_validating {
            mutable(matched, "spec.matchResources", &mut faults);
        }
    }
    if is_validating {
        actions(&texts(spec, "validationActions"), &mut faults);
    }
    faults
}

/// Reports operations of rules that a MutatingAdmissionPolicy may not match.
fn mutable(matched: &Value, path: &str, faults: &mut Faults) {
    for operation in items(matched, "resourceRules").iter().flat_map(|rule| texts(rule, "operations")) {
        faults.one_of(&format!("{path}.resourceRules.operations"), operation, &MUTATING_OPERATIONS);
    }
}

/// `validateParamRef`
fn param_ref(reference: &Value, faults: &mut Faults) {
    const FIELD: &str = "spec.paramRef";
    const BOTH: &str = "name and selector are mutually exclusive";
    let (name, has_selector) = (text(reference, "name"), reference.get("selector").is_some_and(|it| !it.is_null()));
    let field = format!("{FIELD}.name");
    path_segment_errors(name).iter().for_each(|error| faults.invalid(&field, name, error));
    if has_selector && !name.is_empty() {
        faults.forbidden(&format!("{FIELD}.name"), BOTH);
    }
    if has_selector {
        selector::check(reference, FIELD, "selector", faults);
    }
    match (name.is_empty(), has_selector) {
        (false, true) => faults.forbidden(&format!("{FIELD}.selector"), BOTH),
        (true, false) => faults.required(FIELD, "one of name or selector must be specified"),
        _ => {}
    }
    let field = format!("{FIELD}.parameterNotFoundAction");
    match text(reference, "parameterNotFoundAction") {
        "" => faults.required(&field, ""),
        action => faults.one_of(&field, action, &["Deny", "Allow"]),
    }
}

/// `validateParamKind`
fn param_kind(kind: &Value, faults: &mut Faults) {
    const FIELD: &str = "spec.paramKind.apiVersion";
    let api_version = text(kind, "apiVersion");
    match api_version.split('/').collect::<Vec<_>>()[..] {
        _ if api_version.is_empty() => faults.required(FIELD, ""),
        ["", ""] | [_, ""] => faults.invalid(FIELD, api_version, "version must be specified"),
        [version] => joined(FIELD, version, &dns_1035_label_errors(version), "", faults),
        [group, version] => {
            let errors = if group.is_empty() { Vec::new() } else { dns_1123_subdomain_errors(group) };
            joined(FIELD, group, &errors, "", faults);
            joined(FIELD, version, &dns_1035_label_errors(version), "", faults);
        }
        _ => faults.invalid(FIELD, api_version, &format!("unexpected GroupVersion string: {api_version}")),
    }
    let name = text(kind, "kind");
    if name.is_empty() {
        return faults.required("spec.paramKind.kind", "");
    }
    let errors = dns_1035_label_errors(name.to_lowercase());
    joined("spec.paramKind.kind", name, &errors, "may have mixed case, but should otherwise match: ", faults);
}

fn joined(field: &str, value: &str, errors: &[String], before: &str, faults: &mut Faults) {
    if !errors.is_empty() {
        faults.invalid(field, value, &format!("{before}{}", errors.join(",")));
    }
}

/// `validateMatchResources`
fn resources(matched: &Value, path: &str, faults: &mut Faults) {
    match given(matched, "matchPolicy") {
        Some(value) => faults.one_of(&format!("{path}.matchPolicy"), value, &["Equivalent", "Exact"]),
        None => faults.required(&format!("{path}.matchPolicy"), ""),
    }
    for name in ["namespaceSelector", "objectSelector"] {
        match matched.get(name) {
            None | Some(Value::Null) => faults.required(&format!("{path}.{name}"), ""),
            Some(_) => selector::check(matched, path, name, faults),
        }
    }
    for name in ["resourceRules", "excludeResourceRules"] {
        for (index, rule) in items(matched, name).iter().enumerate() {
            named_rule(rule, &format!("{path}.{name}[{index}]"), faults);
        }
    }
}

/// `validateNamedRuleWithOperations`
fn named_rule(rule: &Value, path: &str, faults: &mut Faults) {
    let mut seen = HashSet::new();
    for (index, name) in texts(rule, "resourceNames").into_iter().enumerate() {
        let field = format!("{path}.resourceNames[{index}]");
        path_segment_errors(name).iter().for_each(|error| faults.invalid(&field, name, error));
        if !seen.insert(name) {
            faults.duplicate(&field, name);
        }
    }
    rules::check(rule, path, faults);
}

/// `validateValidationActions`
fn actions(actions: &[&str], faults: &mut Faults) {
    const FIELD: &str = "spec.validationActions";
    let mut seen = HashSet::new();
    for (index, action) in actions.iter().enumerate() {
        let field = format!("{FIELD}[{index}]");
        faults.one_of(&field, action, &["Audit", "Deny", "Warn"]);
        if !seen.insert(*action) {
            faults.duplicate(&field, action);
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API \
                   response and headers serves no purpose)";
        faults.invalid_value(FIELD, json!(actions), why);
    }
    if seen.is_empty() {
        faults.required(FIELD, "at least one validation action is required");
    }
}
