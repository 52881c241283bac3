//! The spec of a pod.

use super::super::formats::{label_text, legacy_ip, subdomain, subdomain_text, underscored_errors};
use super::super::metadata::labels;
use super::super::node::{Causes, Node};
use super::super::resources;
use super::container::Shared;
use super::{Scope, container, scheduling, security, volume};
use crate::go_text::go_quote;
use crate::names::qualified_name_errors;
use crate::quantity::Quantity;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashSet};

const MAX_NAMESERVERS: usize = 3;
const MAX_SEARCHES: usize = 32;
const MAX_SEARCH_BYTES: usize = 2048;

/// `ValidatePodSpec`
pub(super) fn check(spec: &Node<'_>, scope: Scope<'_>, out: &mut Causes) {
    if !spec.at("terminationGracePeriodSeconds").is_given() {
        out.required(&spec.at("terminationGracePeriodSeconds"), "");
    }
    let volumes = volume::check(&spec.at("volumes"), &scope, out);
    let claims = volume::resource_claims(&spec.at("resourceClaims"), out);
    let shared = Shared { spec: spec.clone(), volumes, claims };
    container::check(&shared, out);
    pod_resources(spec, &shared.claims, out);
    host_network(spec, scope, out);
    out.required_one_of(&spec.at("restartPolicy"), &["Always", "OnFailure", "Never"]);
    const DNS: [&str; 4] = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    out.required_one_of(&spec.at("dnsPolicy"), &DNS);
    labels(&spec.at("nodeSelector"), out);
    security::pod(spec, out);
    let allows_any_value = scope.old.is_some_and(scheduling::has_invalid_values);
    scheduling::affinity(&spec.at("affinity"), allows_any_value, out);
    dns(spec, out);
    for gate in spec.at("readinessGates").items() {
        out.texts(&gate.at("conditionType"), qualified_name_errors(gate.at("conditionType").text()));
    }
    scheduling_gates(&spec.at("schedulingGates"), out);
    scheduling::spread(&spec.at("topologySpreadConstraints"), out);
    security::host_process(spec, out);
    security::host_users(spec, out);
    hostname(spec, out);
    names(spec, out);
    scheduling::tolerations(&spec.at("tolerations"), out);
    for alias in spec.at("hostAliases").items() {
        legacy_ip(&alias.at("ip"), &HashSet::new(), out);
        alias.at("hostnames").items().for_each(|name| subdomain_text(&name, out));
    }
    if let Some(overhead) = spec.at("overhead").given() {
        let limits = Value::from_iter([("limits", overhead.value().clone())]);
        resources::requirements(&overhead.with(&limits), resources::container_resource_name, &BTreeSet::new(), out);
    }
    system(spec, out);
    volume::file_keys(spec, out);
}

fn names(spec: &Node<'_>, out: &mut Causes) {
    for field in ["serviceAccountName", "nodeName", "priorityClassName"].map(|field| spec.at(field)) {
        if !field.is_empty() {
            out.texts(&field, subdomain(field.text(), false));
        }
    }
    if let Some(class) = spec.at("runtimeClassName").given() {
        subdomain_text(&class, out);
    }
    if let Some(seconds) = spec.at("activeDeadlineSeconds").given() {
        out.in_range(&seconds, 1, i64::from(i32::MAX));
    }
    for field in ["hostname", "subdomain"].map(|field| spec.at(field)) {
        if !field.is_empty() {
            label_text(&field, out);
        }
    }
    if let Some(policy) = spec.at("preemptionPolicy").given() {
        out.required_one_of(&policy, &["PreemptLowerPriority", "Never"]);
    }
}

/// `validateOS`, `validateLinux` and `validateWindows`
fn system(spec: &Node<'_>, out: &mut Causes) {
    let Some(os) = spec.at("os").given() else { return };
    match os.at("name").text() {
        "" => out.required(&os.at("name"), ""),
        "linux" | "windows" => container::of_system(spec, out),
        name => out.unsupported(&os, go_quote(name), &["linux", "windows"]),
    }
}

/// `validatePodHostName`
fn hostname(spec: &Node<'_>, out: &mut Causes) {
    let Some(name) = spec.at("hostnameOverride").given() else { return };
    if spec.at("setHostnameAsFQDN").is_true() {
        out.forbidden(&name, "may not be specified when setHostnameAsFQDN is true");
    }
    if spec.at("hostNetwork").is_true() {
        out.forbidden(&name, "may not be specified when hostNetwork is true");
    }
    if name.len() > 64 {
        out.too_long(&name, 64);
    }
    subdomain_text(&name, out);
}

/// `validateSchedulingGates`
fn scheduling_gates(gates: &Node<'_>, out: &mut Causes) {
    let mut known = HashSet::new();
    for gate in gates.items() {
        let name = gate.at("name").on(&gate);
        out.texts(&name, qualified_name_errors(name.text()));
        if !known.insert(name.text()) {
            out.duplicate(&name);
        }
    }
}

/// `validatePodDNSConfig`
fn dns(spec: &Node<'_>, out: &mut Causes) {
    let config = spec.at("dnsConfig");
    let servers = config.at("nameservers");
    if spec.at("dnsPolicy").text() == "None" {
        if !config.is_given() {
            return out.required(&config, "must provide `dnsConfig` when `dnsPolicy` is None");
        }
        if servers.is_empty() {
            return out.required(&servers, "must provide at least one DNS nameserver when `dnsPolicy` is None");
        }
    }
    if servers.len() > MAX_NAMESERVERS {
        out.value(&servers, &format!("must not have more than {MAX_NAMESERVERS} nameservers"));
    }
    for server in servers.items() {
        legacy_ip(&server, &HashSet::new(), out);
    }
    let searches = config.at("searches");
    if searches.len() > MAX_SEARCHES {
        out.value(&searches, &format!("must not have more than {MAX_SEARCHES} search paths"));
    }
    let bytes = searches.texts().map(|search| search.len() + 1).sum::<usize>();
    if bytes > MAX_SEARCH_BYTES + 1 {
        let why =
            format!("must not have more than {MAX_SEARCH_BYTES} characters (including spaces) in the search list");
        out.value(&searches, &why);
    }
    for search in searches.items().filter(|search| search.text() != ".") {
        let text = search.text().strip_suffix('.').unwrap_or(search.text());
        underscored_errors(text).iter().for_each(|why| out.invalid(&search, go_quote(text), why));
    }
    for option in config.at("options").items().filter(|option| option.at("name").is_empty()) {
        out.required(&option, "must not be empty");
    }
}

/// `validatePodHostNetworkDeps`
fn host_network(spec: &Node<'_>, scope: Scope<'_>, out: &mut Causes) {
    if !spec.at("hostNetwork").is_true() {
        return;
    }
    for port in spec.at("containers").items().flat_map(|container| container.at("ports").items()) {
        let host = port.at("hostPort");
        if (scope.is_pod || host.int() != 0) && host.int() != port.at("containerPort").int() {
            out.int(&host, "must match `containerPort` when `hostNetwork` is true");
        }
    }
}

/// `validatePodResources`
fn pod_resources(spec: &Node<'_>, claims: &BTreeSet<&str>, out: &mut Causes) {
    let Some(own) = spec.at("resources").given() else { return };
    if spec.under(&["os", "name"]).text() == "windows" {
        return out.forbidden(&own, "may not be set for a windows pod");
    }
    if own.at("claims").is_given() {
        out.forbidden(&own.at("claims"), "claims may not be set for Resources at pod-level");
    }
    resources::requirements(&own, resources::pod_resource_name, claims, out);
    let sums = aggregate(spec, "requests");
    for (name, quantity) in own.at("requests").entries() {
        if let Some((sum, text)) = sums.get(name)
            && *sum > quantity.quantity()
        {
            let why = format!("must be greater than or equal to aggregate container requests of {text}");
            out.invalid(&quantity, go_quote(&quantity.quantity_text()), &why);
        }
    }
    let sums = aggregate(spec, "limits");
    for (name, quantity) in own.at("limits").entries().filter(|(name, _)| resources::is_huge_pages(name)) {
        if let Some((sum, text)) = sums.get(name)
            && *sum > quantity.quantity()
        {
            let why = format!("must be greater than or equal to aggregate container limits of {text}");
            out.invalid(&quantity, go_quote(&quantity.quantity_text()), &why);
        }
    }
    let list = own.at("containers");
    for (index, container) in spec.at("containers").items().enumerate() {
        for (name, limit) in container.under(&["resources", "limits"]).entries() {
            let of_pod = own.at("limits").key(name);
            if of_pod.is_given() && limit.quantity() > of_pod.quantity() {
                let why = format!("must be less than or equal to pod limits of {}", of_pod.quantity_text());
                let node = list.item(index).key(name).at("limits");
                out.invalid(&node, go_quote(&limit.quantity_text()), &why);
            }
        }
    }
}

/// The amounts that the containers of a pod need together (`AggregateContainerRequests`), and their texts.
fn aggregate(spec: &Node<'_>, side: &'static str) -> BTreeMap<String, (Quantity, String)> {
    let mut sums: BTreeMap<String, Quantity> = BTreeMap::new();
    let zero = Quantity::whole(0);
    let amounts = |container: &Node<'_>| -> Vec<(String, Quantity)> {
        let entries = container.at("resources").at(side).entries();
        entries.map(|(name, quantity)| (name.to_owned(), quantity.quantity())).collect()
    };
    for container in spec.at("containers").items() {
        for (name, amount) in amounts(&container) {
            let sum = sums.get(&name).copied().unwrap_or(zero).plus(amount);
            sums.insert(name, sum);
        }
    }
    let mut sidecars: BTreeMap<String, Quantity> = BTreeMap::new();
    let mut most: BTreeMap<String, Quantity> = BTreeMap::new();
    for container in spec.at("initContainers").items() {
        let is_sidecar = container.at("restartPolicy").text() == "Always";
        for (name, amount) in amounts(&container) {
            let before = sidecars.get(&name).copied().unwrap_or(zero);
            let together = before.plus(amount);
            if is_sidecar {
                sidecars.insert(name.clone(), together);
                let sum = sums.get(&name).copied().unwrap_or(zero).plus(amount);
                sums.insert(name.clone(), sum);
            }
            let peak = most.get(&name).copied().unwrap_or(zero).max(together);
            most.insert(name, peak);
        }
    }
    for (name, peak) in most {
        let sum = sums.get(&name).copied().unwrap_or(zero).max(peak);
        sums.insert(name, sum);
    }
    sums.into_iter().map(|(name, sum)| (name, (sum, sum.to_string()))).collect()
}
