//! Services (`ValidateServiceCreate`, `ValidateServiceUpdate`).

use super::formats::{
    cidr_text, endpoint_ip, is_ipv6, label, label_text, legacy_ip, parse_ip, port, port_number, qualified_name,
    subdomain_text,
};
use super::metadata::{self, labels};
use super::node::{Causes, Node, internal};
use crate::names::dns_1123_subdomain_errors;
use serde_json::Value;
use std::collections::HashSet;

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
/// `MaxClientIPServiceAffinitySeconds`
const MAX_AFFINITY_SECONDS: i64 = 86_400;
const CHANGED: &str = "may not change once set";

pub(super) fn create(service: &Node<'_>, out: &mut Causes) {
    if first_addresses(service, None, out) {
        return;
    }
    metadata::check(service, true, label, out);
    check(service, None, out);
}

/// The errors of addresses, which the allocators of kube-apiserver check before anything else. Returns whether there are some.
pub(super) fn first_addresses(service: &Node<'_>, old: Option<&Node<'_>>, out: &mut Causes) -> bool {
    let before = out.len();
    let spec = service.at("spec");
    if kind(&spec) != "ExternalName" {
        addresses(&spec, old.map(|old| old.at("spec")).as_ref(), out);
    }
    out.len() > before
}

pub(super) fn update(service: &Node<'_>, old: &Node<'_>, out: &mut Causes) {
    if first_addresses(service, Some(old), out) {
        return;
    }
    metadata::check_update(service, old, out);
    let (spec, old_spec) = (service.at("spec"), old.at("spec"));
    if kind(&spec) != "ExternalName" && kind(&old_spec) != "ExternalName" {
        addresses_update(&spec, &old_spec, out);
        families_update(&spec, &old_spec, out);
    }
    let class = spec.at("loadBalancerClass");
    let are_balancers = kind(&spec) == "LoadBalancer" && kind(&old_spec) == "LoadBalancer";
    if are_balancers && class.value() != old_spec.at("loadBalancerClass").value() {
        out.value(&class, CHANGED);
    }
    balancer_class(&spec, out);
    let port = spec.at("healthCheckNodePort");
    if needs_health_check(&spec)
        && needs_health_check(&old_spec)
        && port.int() != old_spec.at("healthCheckNodePort").int()
    {
        out.forbidden(&port, "field is immutable");
    }
    check(service, Some(old), out);
}

/// `ValidateServiceStatusUpdate`
pub(super) fn status(service: &Node<'_>, old: &Node<'_>, out: &mut Causes) {
    metadata::check_update(service, old, out);
    let path = ["status", "loadBalancer", "ingress"];
    let ingresses = service.under(&path);
    if kind(&service.at("spec")) != "LoadBalancer" {
        if !ingresses.is_empty() {
            out.forbidden(&ingresses, "may only be used when `spec.type` is 'LoadBalancer'");
        }
        return;
    }
    let known = old.under(&path).items().map(|ingress| ingress.at("ip").text()).collect();
    for ingress in ingresses.items() {
        let (ip, mode) = (ingress.at("ip"), ingress.at("ipMode"));
        ingress_address(&ingress, &known, out);
        match (mode.optional_text(), ip.is_empty()) {
            (None, false) => out.required(&mode, "must be specified when `ip` is set"),
            (Some(_), true) => out.forbidden(&mode, "may not be specified when `ip` is not set"),
            (Some(_), false) => drop(out.one_of(&mode, &["Proxy", "VIP"])),
            (None, true) => {}
        }
    }
}

/// The errors of the address and the name of a load balancer's ingress. `known` are the addresses of the old object.
pub(super) fn ingress_address(ingress: &Node<'_>, known: &HashSet<&str>, out: &mut Causes) {
    let (ip, name) = (ingress.at("ip"), ingress.at("hostname"));
    if !ip.is_empty() {
        legacy_ip(&ip, known, out);
    }
    if !name.is_empty() {
        out.texts(&name, dns_1123_subdomain_errors(name.text()));
        if parse_ip(name.text()).is_some() {
            out.text(&name, "must be a DNS name, not an IP address");
        }
    }
}

fn kind<'v>(spec: &Node<'v>) -> &'v str {
    spec.at("type").text()
}

fn is_headless(spec: &Node<'_>) -> bool {
    spec.at("clusterIPs").len() == 1 && spec.at("clusterIPs").item(0).text() == "None"
}

/// `ExternallyAccessible`
fn is_reached_from_outside(spec: &Node<'_>) -> bool {
    matches!(kind(spec), "LoadBalancer" | "NodePort")
        || (kind(spec) == "ClusterIP" && !spec.at("externalIPs").is_empty())
}

/// `NeedsHealthCheck`
fn needs_health_check(spec: &Node<'_>) -> bool {
    kind(spec) == "LoadBalancer" && spec.at("externalTrafficPolicy").text() == "Local"
}

/// `validateService`
fn check(service: &Node<'_>, old: Option<&Node<'_>>, out: &mut Causes) {
    let annotations = service.under(&["metadata", "annotations"]);
    let (hints, mode) = (annotations.key(TOPOLOGY_HINTS), annotations.key(TOPOLOGY_MODE));
    if hints.is_given() && mode.is_given() && hints.text() != mode.text() {
        out.text(&mode, &format!("must match annotations[{TOPOLOGY_HINTS}] when both are specified"));
    }
    let spec = service.at("spec");
    let headless = is_headless(&spec);
    if spec.at("ports").is_empty() && !headless && kind(&spec) != "ExternalName" {
        out.required(&spec.at("ports"), "");
    }
    match kind(&spec) {
        kind @ ("LoadBalancer" | "NodePort") if headless => {
            let why = format!("may not be set to 'None' for {kind} services");
            out.text(&spec.at("clusterIPs").item(0), &why);
        }
        "ExternalName" => external_name(&spec, out),
        _ => {}
    }
    ports(&spec, out);
    labels(&spec.at("selector"), out);
    affinity(&spec, out);
    let old_spec = old.map(|old| old.at("spec"));
    let known: HashSet<&str> = old_spec.iter().flat_map(|old| old.at("externalIPs").texts()).collect();
    for ip in spec.at("externalIPs").items() {
        if legacy_ip(&ip, &known, out) {
            endpoint_ip(&ip, out);
        }
    }
    out.required_one_of(&spec.at("type"), &TYPES);
    unique_ports(&spec, out);
    source_ranges(&spec, &annotations, old, out);
    let allocates = spec.at("allocateLoadBalancerNodePorts");
    match (allocates.is_given(), kind(&spec) == "LoadBalancer") {
        (true, false) => out.forbidden(&allocates, "may only be used when `type` is 'LoadBalancer'"),
        (false, true) => out.required(&Node::root(&Value::Null).at("allocateLoadBalancerNodePorts"), ""),
        _ => {}
    }
    balancer_class(&spec, out);
    traffic(&spec, out);
}

fn external_name(spec: &Node<'_>, out: &mut Causes) {
    for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"].map(|field| spec.at(field)) {
        if !field.is_empty() {
            out.forbidden(&field, "may not be set for ExternalName services");
        }
    }
    let name = spec.at("externalName");
    match name.text().strip_suffix('.').unwrap_or(name.text()) {
        "" => out.required(&name, ""),
        text => subdomain_text(&name.with(&Value::from(text)), out),
    }
}

/// `validateServicePort`
fn ports(spec: &Node<'_>, out: &mut Causes) {
    let mut names = HashSet::new();
    let needs_name = spec.at("ports").len() > 1;
    for each in spec.at("ports").items() {
        let name = each.at("name");
        if name.is_empty() {
            if needs_name {
                out.required(&name, "");
            }
        } else {
            label_text(&name, out);
            if !names.insert(name.text()) {
                out.duplicate(&name);
            }
        }
        port_number(&each.at("port"), out);
        out.required_one_of(&each.at("protocol"), &["SCTP", "TCP", "UDP"]);
        port(&each.at("targetPort"), out);
        if let Some(protocol) = each.at("appProtocol").given() {
            qualified_name(&protocol, out);
        }
    }
}

fn unique_ports(spec: &Node<'_>, out: &mut Causes) {
    let all: Vec<_> = spec.at("ports").items().collect();
    if kind(spec) == "ClusterIP" {
        for port in all.iter().map(|port| port.at("nodePort")).filter(|port| port.int() != 0) {
            out.forbidden(&port, "may not be used when `type` is 'ClusterIP'");
        }
    }
    let (mut node_ports, mut ports) = (HashSet::new(), HashSet::new());
    for each in &all {
        let (protocol, port) = (each.at("protocol").text(), each.at("nodePort"));
        if port.int() != 0 && !node_ports.insert((protocol, port.int())) {
            out.duplicate_of(&port, port.int());
        }
    }
    for each in &all {
        let (protocol, port) = (each.at("protocol").text(), each.at("port").int());
        if !ports.insert((protocol, port)) {
            let key = serde_json::json!({"protocol": protocol, "port": port, "targetPort": 0});
            const FORM: &str = "Name:name Protocol:protocol AppProtocol:appProtocol? Port:port# TargetPort:targetPort# NodePort:nodePort#";
            out.duplicate_of(each, internal(&Node::root(&key), FORM));
        }
    }
}

fn affinity(spec: &Node<'_>, out: &mut Causes) {
    let (affinity, config) = (spec.at("sessionAffinity"), spec.at("sessionAffinityConfig"));
    out.required_one_of(&affinity, &["ClientIP", "None"]);
    match affinity.text() {
        "ClientIP" => {
            const WHY: &str = "when session affinity type is ClientIP";
            let seconds = config.under(&["clientIP", "timeoutSeconds"]);
            for node in [&config, &config.at("clientIP"), &seconds] {
                if !node.is_given() {
                    return out.required(node, WHY);
                }
            }
            if !(1..=MAX_AFFINITY_SECONDS).contains(&seconds.int()) {
                out.int(&seconds, &format!("must be greater than 0 and less than {MAX_AFFINITY_SECONDS}"));
            }
        }
        "None" if config.is_given() => {
            out.forbidden(&config, "must not be set when session affinity is None");
        }
        _ => {}
    }
}

fn source_ranges(spec: &Node<'_>, annotations: &Node<'_>, old: Option<&Node<'_>>, out: &mut Causes) {
    const WHY: &str = "may only be used when `type` is 'LoadBalancer'";
    let ranges = spec.at("loadBalancerSourceRanges").named(spec, "LoadBalancerSourceRanges");
    let is_balancer = kind(spec) == "LoadBalancer";
    if !ranges.is_empty() {
        if !is_balancer {
            out.forbidden(&ranges, WHY);
        }
        let known: HashSet<&str> = old
            .iter()
            .flat_map(|old| old.under(&["spec", "loadBalancerSourceRanges"]).texts())
            .map(str::trim)
            .collect();
        ranges.items().for_each(|range| cidr_text(&range, range.text().trim(), &known, out));
        return;
    }
    let annotation = annotations.key(SOURCE_RANGES);
    if !annotation.is_given() {
        return;
    }
    if !is_balancer {
        out.forbidden(&annotation, WHY);
    }
    let before = old.map(|old| old.under(&["metadata", "annotations"]).key(SOURCE_RANGES).text());
    if before != Some(annotation.text()) && !annotation.text().trim().is_empty() {
        annotation
            .text()
            .trim()
            .split(',')
            .for_each(|range| cidr_text(&annotation, range.trim(), &HashSet::new(), out));
    }
}

/// `validateLoadBalancerClassField`
fn balancer_class(spec: &Node<'_>, out: &mut Causes) {
    let Some(class) = spec.at("loadBalancerClass").given() else { return };
    if kind(spec) == "LoadBalancer" {
        qualified_name(&class, out);
    } else {
        out.forbidden(&class, "may only be used when `type` is 'LoadBalancer'");
    }
}

/// `validateServiceExternalTrafficPolicy`, `validateServiceInternalTrafficFieldsValue`, `validateServiceTrafficDistribution`
fn traffic(spec: &Node<'_>, out: &mut Causes) {
    let (external, internal) = (spec.at("externalTrafficPolicy"), spec.at("internalTrafficPolicy"));
    if is_reached_from_outside(spec) {
        out.required_one_of(&external, &["Cluster", "Local"]);
    } else if !external.is_empty() {
        out.text(&external, "may only be set for externally-accessible services");
    }
    let port = spec.at("healthCheckNodePort");
    if !needs_health_check(spec) {
        if port.int() != 0 {
            let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            out.int(&port, why);
        }
    } else if port.int() == 0 {
        out.required(&port, "");
    } else {
        port_number(&port, out);
    }
    if internal.is_given() {
        out.one_of(&internal, &["Cluster", "Local"]);
    } else if matches!(kind(spec), "NodePort" | "LoadBalancer" | "ClusterIP") {
        out.required(&internal, "");
    }
    out.one_of_if_given(&spec.at("trafficDistribution"), &["PreferClose", "PreferSameZone", "PreferSameNode"]);
}

/// `ValidateServiceClusterIPsRelatedFields`
fn addresses(spec: &Node<'_>, old: Option<&Node<'_>>, out: &mut Causes) {
    let (ip, ips, families) = (spec.at("clusterIP"), spec.at("clusterIPs"), spec.at("ipFamilies"));
    if ip.is_empty() {
        if !ips.is_empty() {
            out.value(&ips, "must be empty when `clusterIP` is not specified");
        }
    } else if ips.is_empty() {
        out.required(&ips, "");
    } else if ips.item(0).text() != ip.text() {
        out.value(&ips, "first value must match `clusterIP`");
    }
    let mut known = HashSet::new();
    for family in families.items() {
        out.one_of(&family, &["IPv4", "IPv6"]);
        if !known.insert(family.text()) {
            out.duplicate(&family);
        }
    }
    const POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    out.one_of_if_given(&spec.at("ipFamilyPolicy"), &POLICIES);
    let old: HashSet<&str> = old.iter().flat_map(|old| old.at("clusterIPs").texts()).collect();
    let mut are_valid = true;
    for (index, address) in ips.items().enumerate() {
        if index == 0 && address.text() == "None" {
            if ips.len() > 1 {
                are_valid = false;
                out.value(&ips, "'None' must be the first and only value");
            }
            continue;
        }
        are_valid &= legacy_ip(&address, &old, out);
    }
    if ips.len() > 2 {
        out.value(&ips, "may only hold up to 2 values");
    }
    if !are_valid {
        return;
    }
    let kinds: Vec<bool> = ips.texts().map(is_ipv6).collect();
    if kinds.len() > 1 && !(kinds.contains(&true) && kinds.contains(&false)) {
        out.value(&ips, "may specify no more than one IP for each IP family");
    }
    if is_headless(spec) {
        return;
    }
    for (index, (address, family)) in ips.items().zip(families.texts()).enumerate() {
        let is_wrong = match family {
            "IPv4" => is_ipv6(address.text()),
            "IPv6" => !is_ipv6(address.text()),
            _ => false,
        };
        if is_wrong {
            out.text(&address, &format!("expected an {family} value as indicated by `ipFamilies[{index}]`"));
        }
    }
}

/// `validateUpgradeDowngradeClusterIPs`
fn addresses_update(spec: &Node<'_>, old: &Node<'_>, out: &mut Causes) {
    if is_headless(spec) && is_headless(old) {
        return;
    }
    let (ips, old_ips) = (spec.at("clusterIPs"), old.at("clusterIPs"));
    let mut wrong = |index: usize, why: &str| out.value(&ips.on(&ips.item(index)), why);
    let is_first_kept = ips.item(0).text() == old_ips.item(0).text();
    if ips.len() == old_ips.len() {
        let changed = ips.texts().zip(old_ips.texts()).enumerate().filter(|(_, (new, old))| new != old);
        changed.for_each(|(index, _)| wrong(index, CHANGED));
    } else if old_ips.len() > ips.len() {
        if ips.is_empty() {
            wrong(0, "primary clusterIP can not be unset");
        } else if !is_first_kept {
            wrong(0, CHANGED);
        }
        let policy = spec.at("ipFamilyPolicy");
        if ips.len() == 1 && policy.text() != "SingleStack" {
            out.value(&policy, "must be set to 'SingleStack' when releasing the secondary clusterIP");
        }
    } else if !old_ips.is_empty() && !is_first_kept {
        wrong(0, CHANGED);
    }
}

/// `validateUpgradeDowngradeIPFamilies`
fn families_update(spec: &Node<'_>, old: &Node<'_>, out: &mut Causes) {
    if is_headless(spec) || is_headless(old) {
        return;
    }
    let (new, before) = (spec.at("ipFamilies"), old.at("ipFamilies"));
    let first = new.item(0);
    let is_first_changed = !new.is_empty() && !before.is_empty() && first.text() != before.item(0).text();
    if new.len() == before.len() {
        for _ in new.texts().zip(before.texts()).filter(|(new, old)| new != old) {
            out.value(&new.on(&first), CHANGED);
        }
        return;
    }
    if is_first_changed {
        out.value(&spec.at("clusterIPs").on(&first), CHANGED);
    }
    if before.len() > new.len() {
        if spec.at("clusterIPs").is_empty() {
            out.value(&new.on(&first), "primary ipFamily can not be unset");
        }
        let policy = spec.at("ipFamilyPolicy");
        if new.len() == 1 && policy.text() != "SingleStack" {
            out.value(&policy, "must be set to 'SingleStack' when releasing the secondary ipFamily");
        }
    }
}
