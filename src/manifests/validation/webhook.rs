//! Validates webhook configurations (`ValidateValidatingWebhookConfiguration`, `ValidateMutatingWebhookConfiguration`).

use super::{Faults, expressions, given, items, metadata, rules, selector, text, texts, url};
use crate::cel::Release;
use crate::names::{dns_1035_label_errors, dns_1123_subdomain_errors, qualified_name_errors};
use crate::object::Object;
use serde_json::{Value, json};
use std::collections::HashSet;

/// The AdmissionReview versions of which a configuration must name at least one.
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];
const NO_SIDE_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];
/// The maximum number of matchConditions of a webhook.
const MAX_MATCH_CONDITIONS: usize = 64;

/// Validates a new configuration of either kind, as a release does.
pub(crate) fn configuration(object: &Object, release: Release) -> Faults {
    let mut faults = Faults::default();
    metadata::check(object.get(&["metadata"]).unwrap_or(&Value::Null), &mut faults);
    let mut names = HashSet::new();
    for (index, hook) in object.items(&["webhooks"]).iter().enumerate() {
        let path = format!("webhooks[{index}]");
        check(hook, &path, release, &mut faults);
        review_versions(hook, &format!("{path}.admissionReviewVersions"), &mut faults);
        let name = text(hook, "name");
        if !name.is_empty() && !names.insert(name) {
            faults.duplicate(&format!("{path}.name"), name);
        }
    }
    faults
}

fn check(hook: &Value, path: &str, release: Release, faults: &mut Faults) {
    let at = |field: &str| format!("{path}.{field}");
    full_name(text(hook, "name"), &at("name"), faults);
    for (index, rule) in items(hook, "rules").iter().enumerate() {
        rules::check(rule, &format!("{path}.rules[{index}]"), faults);
    }
    for (field, supported) in [("failurePolicy", ["Fail", "Ignore"]), ("matchPolicy", ["Equivalent", "Exact"])] {
        if let Some(value) = given(hook, field) {
            faults.one_of(&at(field), value, &supported);
        }
    }
    match given(hook, "sideEffects") {
        Some(value) => faults.one_of(&at("sideEffects"), value, &NO_SIDE_EFFECTS),
        None => {
            let why = format!("must specify one of {}", NO_SIDE_EFFECTS.join(", "));
            faults.required(&at("sideEffects"), &why);
        }
    }
    if let Some(seconds) = hook.get("timeoutSeconds").and_then(Value::as_i64).filter(|n| !(1..=30).contains(n)) {
        let why = "the timeout value must be between 1 and 30 seconds";
        faults.invalid_value(&at("timeoutSeconds"), seconds, why);
    }
    selector::check(hook, path, "namespaceSelector", faults);
    selector::check(hook, path, "objectSelector", faults);
    if let Some(value) = given(hook, "reinvocationPolicy") {
        faults.one_of(&at("reinvocationPolicy"), value, &["IfNeeded", "Never"]);
    }
    url::check(hook.get("clientConfig").unwrap_or(&Value::Null), &at("clientConfig"), faults);
    match_conditions(hook, &at("matchConditions"), false, release, faults);
}

/// `utilvalidation.IsFullyQualifiedName`
fn full_name(name: &str, field: &str, faults: &mut Faults) {
    let errors = dns_1123_subdomain_errors(name);
    if name.is_empty() {
        faults.required(field, "");
    } else if !errors.is_empty() {
        faults.invalid(field, name, &errors.join(","));
    } else if name.split('.').count() < 3 {
        faults.invalid(field, name, "should be a domain with at least three segments separated by dots");
    }
}

fn review_versions(hook: &Value, field: &str, faults: &mut Faults) {
    let versions = texts(hook, "admissionReviewVersions");
    let known = REVIEW_VERSIONS.join(", ");
    if versions.is_empty() {
        return faults.required(field, &format!("must specify one of {known}"));
    }
    let mut seen = HashSet::new();
    for (index, version) in versions.iter().enumerate() {
        let field = format!("{field}[{index}]");
        if !seen.insert(*version) {
            faults.invalid(&field, version, "duplicate version");
            continue;
        }
        dns_1035_label_errors(version).iter().for_each(|error| faults.invalid(&field, version, error));
    }
    if !versions.iter().any(|version| REVIEW_VERSIONS.contains(version)) {
        faults.invalid_value(field, json!(versions), &format!("must include at least one of {known}"));
    }
}

/// `validateMatchConditions`. `has_parameters` declares `params` in the expressions.
pub(super) fn match_conditions(
    parent: &Value,
    field: &str,
    has_parameters: bool,
    release: Release,
    faults: &mut Faults,
) {
    let conditions = items(parent, "matchConditions");
    if conditions.len() > MAX_MATCH_CONDITIONS {
        let why = format!("must have at most {MAX_MATCH_CONDITIONS} items");
        faults.add(field, &format!("Too many: {}", conditions.len()), &why);
    }
    let mut names = HashSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let (name, path) = (text(condition, "name"), format!("{field}[{index}]"));
        let field = format!("{path}.expression");
        match text(condition, "expression").trim() {
            "" => faults.required(&field, ""),
            expression => expressions::match_condition(expression, &field, has_parameters, release, faults),
        }
        let path = format!("{path}.name");
        if name.is_empty() {
            faults.required(&path, "");
            continue;
        }
        qualified_name_errors(name).iter().for_each(|error| faults.invalid(&path, name, error));
        if !names.insert(name) {
            faults.duplicate(&path, name);
        }
    }
}
