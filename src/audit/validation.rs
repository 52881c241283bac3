//! `ValidatePolicy`: validates an audit policy, in kube-apiserver's words.

use super::policy::{File, GroupResources, Level, PolicyError, Rule, Stage};
use crate::names::dns_1123_subdomain_errors;
use crate::status::invalid::aggregate;
use serde_json::Value;

/// Returns all errors, in the form of an `ErrorList`'s aggregate.
pub(super) fn validate(file: &File) -> Result<(), PolicyError> {
    let mut errors = Vec::new();
    omit_stages(&file.omit_stages, "omitStages", &mut errors);
    for (at, rule) in file.rules.iter().enumerate() {
        validate_rule(rule, &format!("rules[{at}]"), &mut errors);
    }
    aggregate(errors).map_or(Ok(()), |why| Err(PolicyError(why)))
}

fn invalid(path: &str, value: impl serde::Serialize, why: &str) -> String {
    format!("{path}: Invalid value: {}: {why}", serde_json::to_string(&value).unwrap_or_default())
}

fn validate_rule(rule: &Rule, path: &str, errors: &mut Vec<String>) {
    if rule.level.is_empty() {
        errors.push(format!("{path}.level: Required value"));
    } else if Level::parse(&rule.level).is_none() {
        let supported = r#""None", "Metadata", "Request", "RequestResponse""#;
        errors.push(format!("{path}.level: Unsupported value: {:?}: supported values: {supported}", rule.level));
    }
    for (at, url) in rule.non_resource_urls.iter().enumerate().filter(|(_, url)| *url != "*") {
        let path = format!("{path}.nonResourceURLs[{at}]");
        if !url.starts_with('/') {
            errors.push(invalid(&path, url, "non-resource URL rules must begin with a '/' character"));
        }
        if url.char_indices().any(|(at, c)| c == '*' && at + 1 < url.len()) {
            errors.push(invalid(&path, url, "non-resource URL wildcards '*' must be the final character of the rule"));
        }
    }
    rule.resources.iter().for_each(|resources| validate_resources(resources, &format!("{path}.resources"), errors));
    omit_stages(&rule.omit_stages, &format!("{path}.omitStages"), errors);
    let is_on_resources = !rule.resources.is_empty() || !rule.namespaces.is_empty();
    if is_on_resources && !rule.non_resource_urls.is_empty() {
        let why = "rules cannot apply to both regular resources and non-resource URLs";
        errors.push(invalid(&format!("{path}.nonResourceURLs"), &rule.non_resource_urls, why));
    }
}

fn validate_resources(resources: &GroupResources, path: &str, errors: &mut Vec<String>) {
    let group = &resources.group;
    if !group.is_empty() && group != "*" {
        let why = dns_1123_subdomain_errors(group);
        if !why.is_empty() {
            errors.push(invalid(&format!("{path}.group"), group, &why.join(",")));
        }
    }
    if !resources.resource_names.is_empty() && resources.resources.is_empty() {
        let why = "using resourceNames requires at least one resource";
        errors.push(invalid(&format!("{path}.resourceNames"), &resources.resource_names, why));
    }
}

fn omit_stages(stages: &[String], path: &str, errors: &mut Vec<String>) {
    for (at, stage) in stages.iter().enumerate() {
        if !Stage::ALL.iter().any(|valid| valid.as_str() == stage) {
            let allowed = Stage::ALL.map(Stage::as_str).join(",");
            errors.push(invalid(&format!("{path}[{at}]"), stage, &format!("allowed stages are {allowed}")));
        }
    }
}

/// The paths of a policy's unknown fields.
pub(super) fn unknown_fields(policy: &Value) -> Vec<String> {
    let mut unknown = Vec::new();
    fields(policy, "", &["apiVersion", "kind", "metadata", "rules", "omitStages", "omitManagedFields"], &mut unknown);
    for (at, rule) in items(policy, "rules") {
        let known = [
            "level",
            "users",
            "userGroups",
            "verbs",
            "resources",
            "namespaces",
            "nonResourceURLs",
            "omitStages",
            "omitManagedFields",
        ];
        fields(rule, &format!("rules[{at}]."), &known, &mut unknown);
        for (of, resources) in items(rule, "resources") {
            fields(
                resources,
                &format!("rules[{at}].resources[{of}]."),
                &["group", "resources", "resourceNames"],
                &mut unknown,
            );
        }
    }
    unknown
}

fn items<'a>(of: &'a Value, field: &str) -> impl Iterator<Item = (usize, &'a Value)> + use<'a> {
    of.get(field).and_then(Value::as_array).into_iter().flatten().enumerate()
}

fn fields(object: &Value, path: &str, known: &[&str], unknown: &mut Vec<String>) {
    let names = object.as_object().into_iter().flat_map(|object| object.keys());
    unknown.extend(names.filter(|name| !known.contains(&name.as_str())).map(|name| format!("{path}{name}")));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_the_fields_that_it_does_not_know() {
        let policy =
            json!({"kind": "Policy", "a": 1, "rules": [{"b": 1, "resources": [{"group": "", "c": 2}, 5]}, null]});
        assert_eq!(unknown_fields(&policy), ["a", "rules[0].b", "rules[0].resources[0].c"]);
        assert!(unknown_fields(&json!([1])).is_empty());
    }
}
