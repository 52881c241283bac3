//! Deployments, ReplicaSets, StatefulSets, DaemonSets and ControllerRevisions (`pkg/apis/apps/validation`).

use super::claim;
use super::formats::{at_most_100_percent, int_or_percent, int_or_percent_value, label, label_text, subdomain};
use super::metadata::{self, annotations, labels};
use super::node::{Causes, Node, internal, is_equal};
use super::pod;
use super::selector::{is_empty, label_selector, parsed};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const MISMATCH: &str = "`selector` does not match template `labels`";

/// The errors of counts of replicas (`ValidateReplicaSetStatus`, …).
pub(super) fn replica_counts(status: &Node<'_>, out: &mut Causes) {
    counts(status, &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"], "readyReplicas", out);
}

/// The errors of negative counts, and of counts of some replicas that exceed that of all.
fn counts(status: &Node<'_>, parts: &[&'static str], ready: &str, out: &mut Causes) {
    const FIELDS: [&str; 10] = [
        "observedGeneration",
        "replicas",
        "currentReplicas",
        "updatedReplicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ];
    FIELDS.into_iter().for_each(|field| out.non_negative(&status.at(field)));
    let all = status.at("replicas").int();
    for field in parts {
        if status.at(field).int() > all {
            out.int(&status.at(field), "cannot be greater than status.replicas");
        }
    }
    let available = status.at("availableReplicas");
    if available.int() > status.at("readyReplicas").int() {
        out.int(&available, &format!("cannot be greater than {ready}"));
    }
}

/// The error of a count of collisions that an update lowers (`IsDecremented`).
fn collisions(object: &Node<'_>, old: &Node<'_>, out: &mut Causes) {
    let path = ["status", "collisionCount"];
    let (new, old) = (object.under(&path), old.under(&path));
    if old.is_given() && (!new.is_given() || new.int() < old.int()) {
        out.int(&new, "cannot be decremented");
    }
}

fn metadata(object: &Node<'_>, old: Option<&Node<'_>>, names: metadata::NameRule, out: &mut Causes) {
    match old {
        Some(old) => metadata::check_update(object, old, out),
        None => metadata::check(object, true, names, out),
    }
}

/// The errors of the selector of a controller and of its template.
fn selected(controller: &str, empty: &str, spec: &Node<'_>, old: Option<&Node<'_>>, out: &mut Causes) {
    let selector = spec.at("selector");
    if selector.is_given() {
        label_selector(&selector, false, out);
        if is_empty(&selector) {
            out.value(&selector, &format!("empty selector is invalid for {empty}"));
        }
    } else {
        out.required(&selector, "");
    }
    let old = old.map(|old| old.under(&["spec", "template"]));
    match parsed(&selector) {
        Some(selector) => pod::template_for(controller, &spec.at("template"), &selector, old.as_ref(), out),
        None => out.value(&selector, "invalid label selector"),
    }
}

/// `ValidateDeployment` and its updates.
pub(super) fn deployment(object: &Node<'_>, old: Option<&Node<'_>>, subresource: &str, out: &mut Causes) {
    metadata(object, old, subdomain, out);
    if let (Some(old), "status") = (old, subresource) {
        let parts = ["updatedReplicas", "readyReplicas", "availableReplicas"];
        counts(&object.at("status"), &parts, "readyReplicas", out);
        return collisions(object, old, out);
    }
    let spec = object.at("spec");
    out.non_negative(&spec.at("replicas"));
    selected("ReplicaSet", "deployment", &spec, old, out);
    strategy(&spec.at("strategy"), out);
    out.non_negative(&spec.at("minReadySeconds"));
    out.non_negative(&spec.at("revisionHistoryLimit"));
    let deadline = spec.at("progressDeadlineSeconds");
    if deadline.is_given() {
        out.non_negative(&deadline);
        if deadline.int() <= spec.at("minReadySeconds").int() {
            out.int(&deadline, "must be greater than minReadySeconds");
        }
    }
    if let Some(old) = old {
        out.immutable(&spec.at("selector"), &old.under(&["spec", "selector"]));
    }
}

/// `ValidateDeploymentStrategy`
fn strategy(strategy: &Node<'_>, out: &mut Causes) {
    let rolling = strategy.at("rollingUpdate");
    match strategy.at("type").text() {
        "Recreate" => {
            if rolling.is_given() {
                out.forbidden(&rolling, "may not be specified when strategy `type` is 'Recreate'");
            }
        }
        "RollingUpdate" if !rolling.is_given() => {
            out.required(&rolling, "this should be defaulted and never be nil");
        }
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
            int_or_percent(&unavailable, out);
            int_or_percent(&surge, out);
            if int_or_percent_value(&unavailable) == 0 && int_or_percent_value(&surge) == 0 {
                out.value(&unavailable, "may not be 0 when `maxSurge` is 0");
            }
            at_most_100_percent(&unavailable, out);
        }
        _ => {
            let form = "Type:type RollingUpdate:rollingUpdate?{MaxUnavailable:maxUnavailable# MaxSurge:maxSurge#}";
            out.unsupported(strategy, shown(strategy, form), &["Recreate", "RollingUpdate"]);
        }
    }
}

/// The form of a struct that may be missing.
fn shown(node: &Node<'_>, form: &str) -> String {
    internal(&node.with(if node.is_given() { node.value() } else { empty() }), form)
}

fn empty() -> &'static Value {
    static EMPTY: std::sync::LazyLock<Value> = std::sync::LazyLock::new(|| json!({}));
    &EMPTY
}

/// `ValidateReplicaSet` and its updates.
pub(super) fn replica_set(object: &Node<'_>, old: Option<&Node<'_>>, subresource: &str, out: &mut Causes) {
    metadata(object, old, subdomain, out);
    if subresource == "status" {
        return replica_counts(&object.at("status"), out);
    }
    let spec = object.at("spec");
    out.non_negative(&spec.at("replicas"));
    out.non_negative(&spec.at("minReadySeconds"));
    selected("ReplicaSet", "deployment", &spec, old, out);
    if let Some(old) = old {
        out.immutable(&spec.at("selector"), &old.under(&["spec", "selector"]));
    }
}

/// `ValidateDaemonSet` and its updates.
pub(super) fn daemon_set(object: &Node<'_>, old: Option<&Node<'_>>, subresource: &str, out: &mut Causes) {
    metadata(object, old, subdomain, out);
    if let (Some(old), "status") = (old, subresource) {
        const FIELDS: [&str; 9] = [
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ];
        FIELDS.into_iter().for_each(|field| out.non_negative(&object.at("status").at(field)));
        return collisions(object, old, out);
    }
    let spec = object.at("spec");
    let selector = spec.at("selector");
    if let Some(old) = old {
        out.immutable(&selector, &old.under(&["spec", "selector"]));
    }
    let allows_any_value = old.is_some_and(|old| super::selector::is_invalid(&old.under(&["spec", "selector"])));
    label_selector(&selector, allows_any_value, out);
    let template = spec.at("template");
    let template_labels = template.under(&["metadata", "labels"]);
    if parsed(&selector).is_some_and(|selector| !selector.matches(template_labels.value().as_object())) {
        out.value(&template_labels, MISMATCH);
    }
    if selector.is_given() && is_empty(&selector) {
        out.value(&selector, "empty selector is invalid for daemonset");
    }
    let everything = crate::selector::LabelSelector::everything();
    let old = old.map(|old| old.under(&["spec", "template"]));
    pod::template_for("DaemonSet", &template, &everything, old.as_ref(), out);
    out.non_negative(&spec.at("minReadySeconds"));
    daemon_strategy(&spec.at("updateStrategy"), out);
    out.non_negative(&spec.at("revisionHistoryLimit"));
}

/// `ValidateDaemonSetUpdateStrategy`
fn daemon_strategy(strategy: &Node<'_>, out: &mut Causes) {
    let rolling = strategy.at("rollingUpdate");
    match strategy.at("type").text() {
        "OnDelete" => {}
        "RollingUpdate" if !rolling.is_given() => out.required(&rolling, ""),
        "RollingUpdate" => {
            let fields = ["maxUnavailable", "maxSurge"].map(|field| rolling.at(field));
            fields.iter().for_each(|field| int_or_percent(field, out));
            fields.iter().for_each(|field| at_most_100_percent(field, out));
            let [unavailable, surge] = &fields;
            match (int_or_percent_value(unavailable) != 0, int_or_percent_value(surge) != 0) {
                (true, true) => out.value(surge, "may not be set when maxUnavailable is non-zero"),
                (false, false) => out.required(unavailable, "cannot be 0 when maxSurge is 0"),
                _ => {}
            }
        }
        _ => {
            let form = "Type:type RollingUpdate:rollingUpdate?{MaxUnavailable:maxUnavailable# MaxSurge:maxSurge#}";
            out.unsupported(strategy, shown(strategy, form), &["RollingUpdate", "OnDelete"]);
        }
    }
}

/// `ValidateStatefulSet` and its updates.
pub(super) fn stateful_set(object: &Node<'_>, old: Option<&Node<'_>>, subresource: &str, out: &mut Causes) {
    metadata(object, old, label, out);
    if let (Some(old), "status") = (old, subresource) {
        let parts = ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
        counts(&object.at("status"), &parts, "status.readyReplicas", out);
        return collisions(object, old, out);
    }
    let spec = object.at("spec");
    stateful_spec(&spec, old, out);
    let Some(old) = old else { return };
    const MUTABLE: [&str; 7] = [
        "replicas",
        "template",
        "updateStrategy",
        "minReadySeconds",
        "ordinals",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
    ];
    let rest = |spec: &Node<'_>| {
        let mut fields = spec.value().as_object().cloned().unwrap_or_default();
        fields.retain(|name, _| !MUTABLE.contains(&name.as_str()));
        Value::Object(fields)
    };
    if !is_equal(&rest(&spec), &rest(&old.at("spec"))) {
        let why = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
                   'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        out.forbidden(&spec, why);
    }
}

fn stateful_spec(spec: &Node<'_>, old: Option<&Node<'_>>, out: &mut Causes) {
    let management = spec.at("podManagementPolicy");
    match management.text() {
        "" => out.required(&management, ""),
        "OrderedReady" | "Parallel" => {}
        _ => out.text(&management, "must be 'OrderedReady' or 'Parallel'"),
    }
    stateful_strategy(&spec.at("updateStrategy"), out);
    if let Some(policy) = spec.at("persistentVolumeClaimRetentionPolicy").given() {
        for field in ["whenDeleted", "whenScaled"] {
            out.one_of(&policy.at(field), &["Retain", "Delete"]);
        }
    }
    if old.is_none() {
        for claim in spec.at("volumeClaimTemplates").items() {
            claim::spec(&claim.at("spec"), claim::Options::default(), out);
        }
    }
    out.non_negative(&spec.at("replicas"));
    out.non_negative(&spec.at("minReadySeconds"));
    out.non_negative(&spec.at("ordinals").at("start").named(spec, "ordinals.start"));
    let service = spec.at("serviceName");
    if old.is_none() && !service.is_empty() {
        label_text(&service, out);
    }
    let selector = spec.at("selector");
    if selector.is_given() {
        label_selector(&selector, false, out);
        if is_empty(&selector) {
            out.value(&selector, "empty selector is invalid for statefulset");
        }
    } else {
        out.required(&selector, "");
    }
    match parsed(&selector) {
        Some(parsed) => stateful_template(spec, &parsed, old, out),
        None => out.value(&selector, ""),
    }
    let of_pod = spec.under(&["template", "spec"]);
    out.one_of(&of_pod.at("restartPolicy"), &["Always"]);
    if of_pod.at("activeDeadlineSeconds").is_given() {
        let why = "activeDeadlineSeconds in StatefulSet is not Supported";
        out.forbidden(&of_pod.at("activeDeadlineSeconds"), why);
    }
}

/// The errors of a strategy. kube-apiserver drops `maxUnavailable` without its feature gate.
fn stateful_strategy(strategy: &Node<'_>, out: &mut Causes) {
    const ROLLING: &str = "RollingUpdate:rollingUpdate?{Partition:partition# MaxUnavailable:dropped?}";
    let rolling = strategy.at("rollingUpdate");
    match strategy.at("type").text() {
        "" => out.required(strategy, ""),
        "OnDelete" => {
            if rolling.is_given() {
                let shown = internal(&rolling, "Partition:partition# MaxUnavailable:dropped?");
                out.invalid(&rolling, shown, "only allowed for updateStrategy 'RollingUpdate'");
            }
        }
        "RollingUpdate" => out.non_negative(&rolling.at("partition")),
        _ => {
            let shown = shown(strategy, &format!("Type:type {ROLLING}"));
            out.invalid(strategy, shown, "must be 'RollingUpdate' or 'OnDelete'");
        }
    }
}

/// `ValidatePodTemplateSpecForStatefulSet`: the volumes of claims exist, and the names of hosts are the set's.
fn stateful_template(
    spec: &Node<'_>,
    selector: &crate::selector::LabelSelector,
    old: Option<&Node<'_>>,
    out: &mut Causes,
) {
    let mut template = spec.at("template").value().clone();
    if let Some(fields) = template.get_mut("spec").and_then(Value::as_object_mut) {
        fields.remove("subdomain");
        fields.remove("hostname");
        let names: BTreeSet<&str> =
            spec.at("volumeClaimTemplates").items().map(|claim| claim.under(&["metadata", "name"]).text()).collect();
        if !names.is_empty() {
            let mut volumes: Vec<Value> =
                names.iter().map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}})).collect();
            let own = fields.get("volumes").and_then(Value::as_array).cloned().unwrap_or_default();
            let is_own =
                |volume: &Value| !names.contains(volume.get("name").and_then(Value::as_str).unwrap_or_default());
            volumes.extend(own.into_iter().filter(is_own));
            fields.insert("volumes".to_owned(), Value::Array(volumes));
        }
    }
    let node = spec.at("template").with(&template);
    let template_labels = node.under(&["metadata", "labels"]);
    if !selector.is_empty() && !selector.matches(template_labels.value().as_object()) {
        out.value(&template_labels, MISMATCH);
    }
    let old_template = old.map(|old| old.under(&["spec", "template"]));
    pod::template(&node, old_template.as_ref(), out);
    // kube-apiserver checks the labels and the annotations of the template twice.
    labels(&template_labels.named(&node, "labels"), out);
    annotations(&node.under(&["metadata", "annotations"]).named(&node, "annotations"), out);
}

/// `ValidateControllerRevisionCreate`, `ValidateControllerRevisionUpdate`
pub(super) fn controller_revision(object: &Node<'_>, old: Option<&Node<'_>>, out: &mut Causes) {
    if let Some(old) = old {
        metadata::check_update(object, old, out);
    }
    metadata::check(object, true, subdomain, out);
    out.non_negative(&object.at("revision"));
    let data = object.at("data");
    match (old, data.value()) {
        (Some(old), _) => {
            if data.value() != old.at("data").value() {
                let bytes = super::node::Node::root(data.value());
                out.value(&bytes.on(&data), super::node::IMMUTABLE);
            }
        }
        (None, Value::Null) => out.required(&data, "data is mandatory"),
        (None, Value::Object(_)) => {}
        (None, _) => out.required(&data, "data must be a valid JSON object"),
    }
}
