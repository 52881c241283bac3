//! The fields of a pod that may change.

use super::super::node::{Causes, IMMUTABLE, Node, is_equal, is_equal_map};
use super::annotations::MIRROR;
use super::scheduling;
use serde_json::{Map, Value, json};
use std::collections::{HashMap, HashSet};

const UPDATABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` \
    (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// `ValidatePodUpdate` after the checks of the new pod.
pub(super) fn spec(pod: &Node<'_>, old: &Node<'_>, out: &mut Causes) {
    let (spec, old) = (pod.at("spec"), old.at("spec"));
    for list in ["containers", "initContainers"] {
        if spec.at(list).len() != old.at(list).len() {
            return out.forbidden(&spec.at(list), "pod updates may not add or remove containers");
        }
        for container in spec.at(list).items() {
            out.require(&container.at("image"));
            super::trimmed_image(&container, out);
        }
    }
    if !deadline(&spec, &old, out) {
        return;
    }
    tolerations(&spec, &old, out);
    scheduling_gates(&spec, &old, out);
    if is_equal(spec.value(), old.value()) {
        return;
    }
    let mut munged = spec.value().as_object().cloned().unwrap_or_default();
    for list in ["containers", "initContainers"] {
        let items = munged.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for (container, old) in items.zip(old.at(list).items()) {
            if let Some(container) = container.as_object_mut() {
                restore(container, "image", &old);
            }
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        restore(&mut munged, field, &old);
    }
    let grace = "terminationGracePeriodSeconds";
    if old.at(grace).int() < 0 && spec.at(grace).int() == 1 {
        restore(&mut munged, grace, &old);
    }
    if !old.at("schedulingGates").is_empty() {
        gated(&spec, &old, &mut munged, out);
    }
    if !is_equal(&Value::Object(munged), old.value()) {
        out.forbidden(&spec, &format!("pod updates may not change fields other than {UPDATABLE}"));
    }
}

/// Sets a field to its old value.
fn restore(fields: &mut Map<String, Value>, name: &'static str, old: &Node<'_>) {
    match old.at(name).value() {
        Value::Null => drop(fields.remove(name)),
        value => drop(fields.insert(name.to_owned(), value.clone())),
    }
}

fn deadline(spec: &Node<'_>, old: &Node<'_>, out: &mut Causes) -> bool {
    let (new, old) = (spec.at("activeDeadlineSeconds"), old.at("activeDeadlineSeconds"));
    let Some(seconds) = new.optional_int() else {
        if old.is_given() {
            out.value(&new, "must not update from a positive integer to nil value");
        }
        return true;
    };
    if !(0..=i64::from(i32::MAX)).contains(&seconds) {
        out.in_range(&new, 0, i64::from(i32::MAX));
        return false;
    }
    if old.optional_int().is_some_and(|old| old < seconds) {
        out.int(&new, "must be less than or equal to previous value");
        return false;
    }
    true
}

/// `validateOnlyAddedTolerations`
fn tolerations(spec: &Node<'_>, old: &Node<'_>, out: &mut Causes) {
    let list = spec.at("tolerations");
    let without_seconds = |toleration: Node<'_>| {
        let mut fields = toleration.value().as_object().cloned().unwrap_or_default();
        fields.remove("tolerationSeconds");
        Value::Object(fields)
    };
    let new: HashSet<Value> = list.items().map(without_seconds).collect();
    if old.at("tolerations").items().any(|toleration| !new.contains(&without_seconds(toleration))) {
        return out.forbidden(&list, "existing toleration can not be modified except its tolerationSeconds");
    }
    scheduling::tolerations(&list, out);
}

/// `validateOnlyDeletedSchedulingGates`
fn scheduling_gates(spec: &Node<'_>, old: &Node<'_>, out: &mut Causes) {
    let known: HashSet<&str> = old.at("schedulingGates").items().map(|gate| gate.at("name").text()).collect();
    for name in spec.at("schedulingGates").items().map(|gate| gate.at("name")) {
        if !known.contains(name.text()) {
            let why = format!("only deletion is allowed, but found new scheduling gate '{}'", name.text());
            out.forbidden(&name, &why);
        }
    }
}

/// The changes of a pod that waits for gates: its selectors of nodes may become narrower.
fn gated(spec: &Node<'_>, old: &Node<'_>, munged: &mut Map<String, Value>, out: &mut Causes) {
    let (selector, old_selector) = (spec.at("nodeSelector"), old.at("nodeSelector"));
    if !is_equal_map(selector.value(), old_selector.value()) {
        if old_selector.entries().any(|(key, value)| selector.key(key).value() != value.value()) {
            let why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
            out.value(&selector, why);
        }
        restore(munged, "nodeSelector", old);
    }
    let affinity = spec.at("affinity").at("nodeAffinity");
    let old_affinity = old.at("affinity").at("nodeAffinity");
    if is_equal(affinity.value(), old_affinity.value()) {
        return;
    }
    let terms = affinity.at(REQUIRED).at("nodeSelectorTerms");
    let old_terms = old_affinity.at(REQUIRED).at("nodeSelectorTerms");
    if !old_terms.is_empty() && old_terms.len() != terms.len() {
        out.value(&terms, "no additions/deletions to non-empty NodeSelectorTerms list are allowed");
    } else {
        for (term, old) in terms.items().zip(old_terms.items()) {
            if !only_adds(&term, &old) {
                let internal = internal_term(&term);
                out.value(&term.with(&internal), "only additions are allowed (no mutations or deletions)");
            }
        }
    }
    let entry = munged.entry("affinity").or_insert_with(|| Value::Object(Map::new()));
    if let Some(fields) = entry.as_object_mut() {
        restore(fields, "nodeAffinity", &old.at("affinity"));
        // The affinity to nodes was the only change.
        if fields.is_empty() {
            restore(munged, "affinity", old);
        }
    }
}

/// The JSON of `core.NodeSelectorTerm`, whose fields have no names of their own.
fn internal_term(term: &Node<'_>) -> Value {
    let requirement = |each: Node<'_>| json!({"Key": each.at("key").text(), "Operator": each.at("operator").text(), "Values": each.at("values").value()});
    let list = |name: &'static str| {
        let list = term.at(name);
        if list.is_empty() { Value::Null } else { list.items().map(requirement).collect() }
    };
    json!({"MatchExpressions": list("matchExpressions"), "MatchFields": list("matchFields")})
}

/// `validateNodeSelectorTermHasOnlyAdditions`
fn only_adds(term: &Node<'_>, old: &Node<'_>) -> bool {
    let lists = ["matchExpressions", "matchFields"];
    let is_empty = |term: &Node<'_>| lists.iter().all(|list| term.at(list).is_empty());
    if is_empty(old) && !is_empty(term) {
        return false;
    }
    lists.iter().all(|list| {
        let (new, old) = (term.at(list), old.at(list));
        new.len() >= old.len() && new.items().zip(old.items()).all(|(new, old)| is_equal(new.value(), old.value()))
    })
}

/// `ValidatePodEphemeralContainersUpdate` after the checks of the new pod.
pub(super) fn ephemeral_containers(pod: &Node<'_>, old: &Node<'_>, out: &mut Causes) {
    if old.under(&["metadata", "annotations"]).key(MIRROR).is_given() {
        *out = Causes::default();
        return out.forbidden(&pod.with_empty_path(), "static pods do not support ephemeral containers");
    }
    let list = pod.at("spec").at("ephemeralContainers");
    // The last one of a name counts.
    let by_name: HashMap<&str, Node<'_>> = list.items().map(|each| (each.at("name").text(), each)).collect();
    for container in old.at("spec").at("ephemeralContainers").items() {
        let name = container.at("name").text();
        match by_name.get(name) {
            None => out.forbidden(&list, &format!("existing ephemeral containers {name:?} may not be removed\n")),
            Some(new) if !is_equal(new.value(), container.value()) => {
                out.forbidden(&list, &format!("existing ephemeral containers {name:?} may not be changed"));
            }
            Some(_) => {}
        }
    }
}

/// The error of a class of service that changes.
pub(super) fn class(status: &Node<'_>, old: &Node<'_>, out: &mut Causes) {
    let (new, old) = (status.at("qosClass"), old.at("qosClass"));
    // A status without a class keeps the old one.
    if !new.is_empty() && new.text() != old.text() {
        out.text(&new, IMMUTABLE);
    }
}
