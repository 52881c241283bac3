//! HorizontalPodAutoscalers (`pkg/apis/autoscaling/validation`), in the form of `autoscaling/v2`, and Scales.

use super::formats::{label_text, segment, subdomain};
use super::metadata;
use super::node::{Causes, Node};
use super::resources;
use crate::go_text::go_quote;
use crate::kind::split_api_version;

const TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];
const SOURCES: [(&str, &str); 5] = [
    ("object", "Object"),
    ("external", "External"),
    ("pods", "Pods"),
    ("resource", "Resource"),
    ("containerResource", "ContainerResource"),
];

/// `ValidateHorizontalPodAutoscaler` and its updates.
pub(super) fn autoscaler(object: &Node<'_>, old: Option<&Node<'_>>, subresource: &str, out: &mut Causes) {
    match old {
        Some(old) => metadata::check_update(object, old, out),
        None => metadata::check(object, true, subdomain, out),
    }
    if subresource == "status" {
        let status = object.at("status");
        return ["currentReplicas", "desiredReplicas"]
            .into_iter()
            .for_each(|field| out.non_negative(&status.at(field)));
    }
    let spec = object.at("spec");
    let (least, most) = (spec.at("minReplicas"), spec.at("maxReplicas"));
    let lower = i64::from(old.is_none_or(|old| old.under(&["spec", "minReplicas"]).optional_int() != Some(0)));
    if least.is_given() && least.int() < lower {
        out.int(&least, &format!("must be greater than or equal to {lower}"));
    }
    match most.int() {
        0 => out.required(&most, "must be set and greater than 0"),
        ..0 => out.int(&most, "must be greater than or equal to 1"),
        _ => {}
    }
    if least.is_given() && most.int() < least.int() {
        out.int(&most, "must be greater than or equal to `minReplicas`");
    }
    target_reference(&spec.at("scaleTargetRef"), false, out);
    let metrics = spec.at("metrics");
    metrics.items().for_each(|metric| self::metric(&metric, out));
    let can_be_zero = metrics.items().any(|metric| matches!(metric.at("type").text(), "Object" | "External"));
    if least.optional_int() == Some(0) && !can_be_zero {
        let why = "must specify at least one Object or External metric to support scaling to zero replicas";
        out.forbidden(&metrics, why);
    }
    for rules in ["scaleUp", "scaleDown"].into_iter().filter_map(|field| spec.at("behavior").at(field).given()) {
        scaling_rules(&rules, out);
    }
}

/// `ValidateCrossVersionObjectReference`
fn target_reference(reference: &Node<'_>, allows_core: bool, out: &mut Causes) {
    for field in ["kind", "name"].map(|field| reference.at(field)) {
        if out.require(&field) {
            out.texts(&field, segment(field.text(), false));
        }
    }
    let version = reference.at("apiVersion");
    if version.text().matches('/').count() > 1 {
        out.text(&version, &format!("unexpected GroupVersion string: {}", version.text()));
    } else {
        let (group, _) = split_api_version(version.text());
        let is_core = matches!((reference.at("kind").text(), version.text()), ("ReplicationController", "v1"));
        if group.is_empty() && !allows_core && !is_core {
            out.text(&version, "apiVersion must specify API group");
        }
    }
}

/// `validateScalingRules`
fn scaling_rules(rules: &Node<'_>, out: &mut Causes) {
    let window = rules.at("stabilizationWindowSeconds");
    if window.int() < 0 {
        out.int(&window, "must be greater than or equal to zero");
    }
    if window.int() > 3600 {
        out.int(&window, "must be less than or equal to 3600");
    }
    out.one_of_if_given(&rules.at("selectPolicy"), &["Disabled", "Max", "Min"]);
    let policies = rules.at("policies");
    if policies.is_empty() {
        out.required(&policies, "must specify at least one Policy");
    }
    for policy in policies.items() {
        let period = policy.at("periodSeconds");
        out.one_of(&policy.at("type"), &["Percent", "Pods"]);
        for field in [&policy.at("value"), &period].into_iter().filter(|field| field.int() <= 0) {
            out.int(field, "must be greater than zero");
        }
        if period.int() > 1800 {
            out.int(&period, "must be less than or equal to 1800");
        }
    }
    if rules.at("tolerance").is_given() {
        resources::non_negative(&rules.at("tolerance"), out);
    }
}

/// `validateMetricSpec`
fn metric(metric: &Node<'_>, out: &mut Causes) {
    let kind = metric.at("type");
    if kind.is_empty() {
        out.required(&kind, "must specify a metric source type");
    }
    let is_known = out.one_of(&kind, &TYPES);
    let mut present = Vec::new();
    for (field, _) in SOURCES {
        let Some(source) = metric.at(field).given() else { continue };
        present.push(field);
        if present.len() == 1 {
            self::source(field, &source, out);
        }
    }
    let expected = SOURCES.iter().find(|(_, name)| *name == kind.text()).map(|(field, _)| *field);
    match expected {
        Some(field) if !present.contains(&field) => {
            out.required(&metric.at(field), "must populate information for the given metric source");
        }
        None if !is_known => drop(out.one_of(&kind, &TYPES)),
        _ => {}
    }
    if present.len() != 1 {
        for field in present.into_iter().filter(|field| Some(*field) != expected) {
            out.forbidden(&metric.at(field), "must populate the given metric source only");
        }
    }
}

fn source(kind: &str, source: &Node<'_>, out: &mut Causes) {
    let target = source.at("target");
    let [value, average, utilization] = ["value", "averageValue", "averageUtilization"].map(|field| target.at(field));
    match kind {
        "object" => target_reference(&source.at("describedObject"), true, out),
        "containerResource" => {
            let (name, container) = (source.at("name"), source.at("container"));
            if name.is_empty() {
                out.required(&name, "must specify a resource name");
            } else {
                resources::container_resource_name(name.text(), &name, out);
            }
            if container.is_empty() {
                out.required(&container, "must specify a container");
            } else {
                label_text(&container, out);
            }
        }
        "resource" if source.at("name").is_empty() => {
            out.required(&source.at("name"), "must specify a resource name");
        }
        _ => {}
    }
    let name = source.at("metric").at("name");
    if !kind.to_lowercase().ends_with("resource") {
        if name.is_empty() {
            out.required(&name, "must specify a metric name");
        } else {
            out.texts(&name, segment(name.text(), false));
        }
    }
    self::target(&target, out);
    let has_one = value.is_given() || average.is_given();
    match kind {
        "object" if !has_one => out.required(&average, "must set either a target value or averageValue"),
        "external" if !has_one => {
            out.required(&average, "must set either a target value for metric or a per-pod target");
        }
        "external" if value.is_given() && average.is_given() => {
            out.forbidden(&value, "may not set both a target value for metric and a per-pod target");
        }
        "pods" if !average.is_given() => out.required(&average, "must specify a positive target averageValue"),
        "resource" | "containerResource" => match (utilization.is_given(), average.is_given()) {
            (false, false) => {
                out.required(&utilization, "must set either a target raw value or a target utilization");
            }
            (true, true) => {
                out.forbidden(&average, "may not set both a target raw value and a target utilization");
            }
            _ => {}
        },
        _ => {}
    }
}

/// `validateMetricTarget`
fn target(target: &Node<'_>, out: &mut Causes) {
    let kind = target.at("type");
    if kind.is_empty() {
        out.required(&kind, "must specify a metric target type");
    }
    if !matches!(kind.text(), "Utilization" | "Value" | "AverageValue") {
        out.text(&kind, "must be either Utilization, Value, or AverageValue");
    }
    for quantity in ["value", "averageValue"].into_iter().filter_map(|field| target.at(field).given()) {
        if quantity.quantity().is_negative() || quantity.quantity().is_zero() {
            out.invalid(&quantity, go_quote(&quantity.quantity_text()), "must be positive");
        }
    }
    let utilization = target.at("averageUtilization");
    if utilization.is_given() && utilization.int() < 1 {
        out.int(&utilization, "must be greater than 0");
    }
}

/// `ValidateScale`
pub(super) fn scale(object: &Node<'_>, out: &mut Causes) {
    metadata::check(object, true, subdomain, out);
    out.non_negative(&object.under(&["spec", "replicas"]));
}
