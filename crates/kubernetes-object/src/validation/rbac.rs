//! Roles and bindings (`pkg/apis/rbac/validation`).

use super::formats::{segment, subdomain};
use super::metadata;
use super::node::{Causes, Node, internal};
use super::selector::{is_invalid, label_selector, parsed};

const GROUP: &str = "rbac.authorization.k8s.io";

/// `ValidateRole`, `ValidateClusterRole` and their updates.
pub(super) fn role(object: &Node<'_>, old: Option<&Node<'_>>, is_namespaced: bool, out: &mut Causes) {
    metadata::check(object, is_namespaced, segment, out);
    for rule in object.at("rules").items() {
        self::rule(&rule, is_namespaced, out);
    }
    let aggregation = object.at("aggregationRule");
    if !is_namespaced && aggregation.is_given() {
        let selectors = aggregation.at("clusterRoleSelectors");
        if selectors.is_empty() {
            out.required(&selectors, "at least one clusterRoleSelector required if aggregationRule is non-nil");
        }
        let path = ["aggregationRule", "clusterRoleSelectors"];
        let allows_any_value = old.is_some_and(|old| old.under(&path).items().any(|selector| is_invalid(&selector)));
        for selector in selectors.items() {
            label_selector(&selector, allows_any_value, out);
            if parsed(&selector).is_none() {
                out.invalid(&selector, "null", "invalid label selector.");
            }
        }
    }
    if let Some(old) = old {
        metadata::check_update(object, old, out);
    }
}

/// `ValidatePolicyRule`
fn rule(rule: &Node<'_>, is_namespaced: bool, out: &mut Causes) {
    if rule.at("verbs").is_empty() {
        out.required(&rule.at("verbs"), "verbs must contain at least one value");
    }
    let urls = rule.at("nonResourceURLs");
    if !urls.is_empty() {
        if is_namespaced {
            out.value(&urls, "namespaced rules cannot apply to non-resource URLs");
        }
        if ["apiGroups", "resources", "resourceNames"].iter().any(|field| !rule.at(field).is_empty()) {
            out.value(&urls, "rules cannot apply to both regular resources and non-resource URLs");
        }
        return;
    }
    if rule.at("apiGroups").is_empty() {
        out.required(&rule.at("apiGroups"), "resource rules must supply at least one api group");
    }
    if rule.at("resources").is_empty() {
        out.required(&rule.at("resources"), "resource rules must supply at least one resource");
    }
}

/// `ValidateRoleBinding`, `ValidateClusterRoleBinding` and their updates.
pub(super) fn binding(object: &Node<'_>, old: Option<&Node<'_>>, is_namespaced: bool, out: &mut Causes) {
    metadata::check(object, is_namespaced, segment, out);
    let role = object.at("roleRef");
    out.one_of(&role.at("apiGroup"), &[GROUP]);
    let kinds: &[&str] = if is_namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    out.one_of(&role.at("kind"), kinds);
    if out.require(&role.at("name")) {
        out.texts(&role.at("name"), segment(role.at("name").text(), false));
    }
    for subject in object.at("subjects").items() {
        self::subject(&subject, is_namespaced, out);
    }
    let Some(old) = old else { return };
    metadata::check_update(object, old, out);
    let before = old.at("roleRef");
    if ["apiGroup", "kind", "name"].iter().any(|field| role.at(field).text() != before.at(field).text()) {
        out.invalid(&role, internal(&role, "APIGroup:apiGroup Kind:kind Name:name"), "cannot change roleRef");
    }
}

/// `ValidateRoleBindingSubject`
fn subject(subject: &Node<'_>, is_namespaced: bool, out: &mut Causes) {
    let (name, group) = (subject.at("name"), subject.at("apiGroup"));
    out.require(&name);
    match subject.at("kind").text() {
        "ServiceAccount" => {
            if !name.is_empty() {
                out.texts(&name, subdomain(name.text(), false));
            }
            out.one_of(&group, &[""]);
            if !is_namespaced {
                out.require(&subject.at("namespace"));
            }
        }
        "User" | "Group" => drop(out.one_of(&group, &[GROUP])),
        _ => drop(out.one_of(&subject.at("kind"), &["ServiceAccount", "User", "Group"])),
    }
}
