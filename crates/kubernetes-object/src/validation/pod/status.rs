//! The status of a pod (`ValidatePodStatusUpdate`).

use super::super::formats::{is_ipv6, legacy_ip, subdomain, subdomain_text};
use super::super::node::{Causes, Node, internal};
use super::update;
use crate::names::qualified_name_errors;
use std::collections::{HashMap, HashSet};

const SYSTEM: [&str; 3] = ["PodScheduled", "Ready", "Initialized"];

pub(super) fn check(pod: &Node<'_>, old: &Node<'_>, out: &mut Causes) {
    let (spec, old_spec) = (pod.at("spec"), old.at("spec"));
    let (status, old) = (pod.at("status"), old.at("status"));
    for condition in status.at("conditions").items() {
        observed_generation(&condition.at("observedGeneration"), out);
        let kind = condition.at("type").named(&condition, "Type");
        if !SYSTEM.contains(&kind.text()) {
            out.texts(&kind, qualified_name_errors(kind.text()));
        }
    }
    if spec.at("nodeName").text() != old_spec.at("nodeName").text() {
        out.forbidden(&status.at("nodeName"), "may not be changed directly");
    }
    let nominated = status.at("nominatedNodeName");
    if !nominated.is_empty() && nominated.text() != old.at("nominatedNodeName").text() {
        out.texts(&nominated, subdomain(nominated.text(), false));
        if !old_spec.at("nodeName").is_empty() {
            out.forbidden(&nominated, "may not be set on pods that are already bound to a node");
        }
    }
    observed_generation(&status.at("observedGeneration"), out);
    update::class(&status, &old, out);
    for list in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        let list = [status.at(list), old.at(list)];
        containers(&list, &old_spec, out);
    }
    claims(&status.at("resourceClaimStatuses"), &spec.at("resourceClaims"), out);
    addresses(&status, &old, "podIPs", out);
    let host = status.at("hostIPs");
    if !host.is_empty() {
        let first = host.item(0).at("ip");
        if status.at("hostIP").text() != first.text() {
            out.text(&first, "must be equal to `hostIP`");
        }
        addresses(&status, &old, "hostIPs", out);
    }
}

fn observed_generation(generation: &Node<'_>, out: &mut Causes) {
    if generation.int() < 0 {
        out.int(generation, "must be a non-negative integer");
    }
}

/// The errors of containers that start again although they must not (`ValidateContainerStateTransition`), and of their users.
fn containers([statuses, old]: &[Node<'_>; 2], spec: &Node<'_>, out: &mut Causes) {
    let restarts = spec.at("restartPolicy").text();
    let mut by_name: HashMap<&str, Node<'_>> = HashMap::new();
    for status in statuses.items() {
        // The first one of a name counts.
        by_name.entry(status.at("name").text()).or_insert(status);
    }
    for (index, before) in old.items().enumerate() {
        let end = before.under(&["state", "terminated"]);
        if !end.is_given() || restarts == "Always" || (restarts == "OnFailure" && end.at("exitCode").int() != 0) {
            continue;
        }
        if by_name.get(before.at("name").text()).is_some_and(|after| !after.under(&["state", "terminated"]).is_given())
        {
            let why = "may not be transitioned to non-terminated state";
            out.forbidden(&statuses.item(index).at("state"), why);
        }
    }
    for user in statuses.items().map(|status| status.at("user").at("linux")) {
        for id in ["uid", "gid"].map(|field| user.at(field)) {
            if id.is_given() {
                out.in_range(&id, 0, i64::from(i32::MAX));
            }
        }
        for group in user.at("supplementalGroups").items() {
            out.in_range(&group, 0, i64::from(i32::MAX));
        }
    }
}

/// `validatePodResourceClaimStatuses`
fn claims(statuses: &Node<'_>, claims: &Node<'_>, out: &mut Causes) {
    let claims: HashSet<&str> = claims.items().map(|claim| claim.at("name").text()).collect();
    let mut known = HashSet::new();
    for status in statuses.items() {
        let name = status.at("name");
        if !claims.contains(name.text()) {
            out.text(&name, "must match the name of an entry in `spec.resourceClaims`");
        }
        if !known.insert(name.text()) {
            out.duplicate(&name);
        }
        if status.at("resourceClaimName").is_given() {
            subdomain_text(&status.at("resourceClaimName"), out);
        }
    }
}

/// `validatePodIPs` and `validateHostIPs`
fn addresses(status: &Node<'_>, old: &Node<'_>, field: &'static str, out: &mut Causes) {
    let list = status.at(field);
    let known: HashSet<&str> = old.at(field).items().map(|address| address.at("ip").text()).collect();
    for address in list.items() {
        legacy_ip(&address.at("ip").on(&address), &known, out);
    }
    let families: Vec<bool> = list.items().map(|address| is_ipv6(address.at("ip").text())).collect();
    let is_dual = families.contains(&true) && families.contains(&false);
    if families.len() > 1 && (!is_dual || families.len() > 2) {
        let shown: Vec<_> = list.items().map(|address| internal(&address, "IP:ip")).collect();
        let why = "may specify no more than one IP for each IP family";
        out.invalid(&list, format!("[{}]", shown.join(",")), why);
    }
}
