//! The bounds of a namespace: LimitRanges and ResourceQuotas.

use super::formats::subdomain;
use super::metadata;
use super::node::{Causes, Node, internal};
use super::resources;
use crate::go_text::go_quote;
use crate::names::qualified_name_errors;
use std::collections::{HashMap, HashSet};

/// `ValidateLimitRange`
pub(super) fn limit_range(object: &Node<'_>, _old: Option<&Node<'_>>, out: &mut Causes) {
    metadata::check(object, true, subdomain, out);
    let mut types = HashSet::new();
    for limit in object.under(&["spec", "limits"]).items() {
        let kind = limit.at("type");
        let errors = qualified_name_errors(kind.text());
        let is_standard = matches!(kind.text(), "Pod" | "Container" | "PersistentVolumeClaim");
        if errors.is_empty() && !kind.text().contains('/') && !is_standard {
            out.text(&kind, "must be a standard limit type or fully qualified");
        }
        out.texts(&kind, errors);
        if !types.insert(kind.text()) {
            out.duplicate(&kind);
        }
        limits(&limit, out);
    }
}

fn limits(limit: &Node<'_>, out: &mut Causes) {
    let kind = limit.at("type").text();
    let mut all: HashMap<&str, HashMap<&str, Node<'_>>> = HashMap::new();
    for field in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
        let list = limit.at(field);
        if kind == "Pod" && field.starts_with("default") {
            if !list.is_empty() {
                out.forbidden(&list, "may not be specified when `type` is 'Pod'");
            }
            continue;
        }
        for (name, quantity) in list.entries() {
            match kind {
                "Pod" | "Container" => resources::container_resource_name(name, &quantity, out),
                _ => drop(resources::resource_name(name, &quantity, out)),
            }
            all.entry(name).or_default().insert(field, quantity);
        }
    }
    let has_storage = ["min", "max"].iter().any(|field| limit.at(field).key("storage").is_given());
    if kind == "PersistentVolumeClaim" && !has_storage {
        let why = "either minimum or maximum storage value is required, but neither was provided";
        out.required(&limit.at("limits"), why);
    }
    for (name, quantities) in all {
        compare_limits(name, limit, &quantities, out);
    }
}

fn compare_limits(name: &str, limit: &Node<'_>, quantities: &HashMap<&str, Node<'_>>, out: &mut Causes) {
    // The lower bound, its name, the upper bound, its name, the field of the error, and the bound that the error shows.
    const ORDERED: [(&str, &str, &str, &str, &str, &str); 6] = [
        ("min", "min value", "max", "max value", "min", "min"),
        ("min", "min value", "defaultRequest", "default request value", "defaultRequest", "defaultRequest"),
        ("defaultRequest", "default request value", "max", "max value", "defaultRequest", "defaultRequest"),
        (
            "defaultRequest",
            "default request value",
            "default",
            "default limit value",
            "defaultRequest",
            "defaultRequest",
        ),
        ("min", "min value", "default", "default value", "default", "min"),
        ("default", "default value", "max", "max value", "default", "max"),
    ];
    for (low, low_name, high, high_name, field, shown) in ORDERED {
        let (Some(lower), Some(upper)) = (quantities.get(low), quantities.get(high)) else { continue };
        if lower.quantity() > upper.quantity() {
            let (lower, upper) = (lower.quantity_text(), upper.quantity_text());
            let verb = format!("{low_name} {lower} is greater than {high_name} {upper}");
            let shown = if shown == low { &lower } else { &upper };
            out.invalid(&limit.at(field).key(name), go_quote(shown), &verb);
        }
    }
    if let Some(ratio) = quantities.get("maxLimitRequestRatio") {
        let text = ratio.quantity_text();
        if ratio.quantity() < crate::quantity::Quantity::whole(1) {
            out.invalid(ratio, go_quote(&text), &format!("ratio {text} is less than 1"));
        }
        if let (Some(min), Some(max)) = (quantities.get("min"), quantities.get("max")) {
            let milli = |node: &Node<'_>| node.quantity().milli_value() as f64;
            let most = milli(max) / milli(min);
            if milli(ratio) / 1000.0 > most {
                let why = format!("ratio {text} is greater than max/min = {most:.6}");
                out.invalid(ratio, go_quote(&text), &why);
            }
        }
    }
    if let (Some(default), Some(request)) = (quantities.get("default"), quantities.get("defaultRequest"))
        && !resources::may_overcommit(name)
        && default.quantity() != request.quantity()
    {
        let (default, request) = (default.quantity_text(), request.quantity_text());
        let why = format!("default value {default} must equal to defaultRequest value {request} in {name}");
        out.invalid(&limit.at("defaultRequest").key(name), go_quote(&request), &why);
    }
}

const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "VolumeAttributesClass",
    "CrossNamespacePodAffinity",
];

/// `ValidateResourceQuota` and its updates.
pub(super) fn resource_quota(object: &Node<'_>, old: Option<&Node<'_>>, subresource: &str, out: &mut Causes) {
    match old {
        Some(old) => metadata::check_update(object, old, out),
        None => metadata::check(object, true, subdomain, out),
    }
    let amounts = |list: Node<'_>, out: &mut Causes| {
        for (name, quantity) in list.entries() {
            resources::quota_resource_name(name, &quantity, out);
            resources::quantity_value(name, &quantity, out);
        }
    };
    if subresource == "status" {
        ["hard", "used"].into_iter().for_each(|field| amounts(object.at("status").at(field), out));
        return;
    }
    let spec = object.at("spec");
    amounts(spec.at("hard"), out);
    let scopes = spec.at("scopes");
    let mut unsupported: HashMap<&str, usize> = HashMap::new();
    for scope in scopes.texts() {
        if !SCOPES.contains(&scope) {
            out.value(&scopes, "unsupported scope");
        }
        let times = *unsupported.entry(scope).or_insert_with(|| unsupported_by(scope, &spec));
        out.repeat(times, |out| out.value(&scopes, "unsupported scope applied to resource"));
    }
    conflicting(scopes.texts().collect(), &scopes, &scopes, out);
    if let Some(selector) = spec.at("scopeSelector").given() {
        scope_selector(&selector, &spec, out);
    }
    if let Some(old) = old {
        let set = |object: &Node<'_>| -> std::collections::BTreeSet<String> {
            object.under(&["spec", "scopes"]).texts().map(str::to_owned).collect()
        };
        if set(object) != set(old) {
            out.value(&scopes, super::node::IMMUTABLE);
        }
    }
}

/// The number of resources of a quota for which a scope is not valid (`IsResourceQuotaScopeValidForResource`).
fn unsupported_by(scope: &str, spec: &Node<'_>) -> usize {
    const COMPUTE: [&str; 6] = ["cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];
    if !SCOPES.contains(&scope) {
        return 0;
    }
    let supports = |name: &str| match scope {
        "Terminating" | "NotTerminating" | "NotBestEffort" | "PriorityClass" | "CrossNamespacePodAffinity" => {
            name == "pods" || COMPUTE.contains(&name)
        }
        "BestEffort" => name == "pods",
        "VolumeAttributesClass" => matches!(name, "persistentvolumeclaims" | "requests.storage"),
        _ => true,
    };
    let names = spec.at("hard").entries().map(|(name, _)| name);
    names.filter(|name| resources::is_quota(name) && !supports(name)).count()
}

fn conflicting(scopes: HashSet<&str>, path: &Node<'_>, shown: &Node<'_>, out: &mut Causes) {
    for pair in [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]] {
        if pair.iter().all(|scope| scopes.contains(*scope)) {
            out.value(&shown.on(path), "conflicting scopes");
        }
    }
}

/// `validateScopedResourceSelectorRequirement`
fn scope_selector(selector: &Node<'_>, spec: &Node<'_>, out: &mut Causes) {
    let list = selector.at("matchExpressions");
    let mut unsupported: HashMap<&str, usize> = HashMap::new();
    for requirement in list.items().map(|requirement| requirement.on(&list)) {
        let (scope, operator, values) =
            (requirement.at("scopeName"), requirement.at("operator"), requirement.at("values"));
        if !SCOPES.contains(&scope.text()) {
            out.text(&scope, "unsupported scope");
        }
        let times = *unsupported.entry(scope.text()).or_insert_with(|| unsupported_by(scope.text(), spec));
        out.repeat(times, |out| {
            let shown = internal(
                selector,
                "MatchExpressions:matchExpressions[ScopeName:scopeName Operator:operator Values:values?]",
            );
            out.invalid(&list, shown, "unsupported scope applied to resource");
        });
        let needs_exists =
            SCOPES.contains(&scope.text()) && !matches!(scope.text(), "PriorityClass" | "VolumeAttributesClass");
        if needs_exists && operator.text() != "Exists" {
            let why = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, \
                       ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or \
                       ResourceQuotaScopeCrossNamespacePodAffinity";
            out.text(&operator, why);
        }
        match (operator.text(), values.is_empty()) {
            ("In" | "NotIn", true) => {
                out.required(
                    &values,
                    "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
                );
            }
            ("Exists" | "DoesNotExist", false) => {
                out.value(&values, "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector");
            }
            ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => {}
            _ => out.text(&operator, "not a valid selector operator"),
        }
    }
    let scopes = list.items().map(|requirement| requirement.at("scopeName").text()).collect();
    conflicting(scopes, &list, &spec.at("scopes"), out);
}
