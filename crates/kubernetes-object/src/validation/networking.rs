//! Ingresses, IngressClasses, NetworkPolicies, IPAddresses, ServiceCIDRs and EndpointSlices (`pkg/apis/networking/validation`,
//! `pkg/apis/discovery/validation`).

use super::formats::{
    domain_prefixed_path, endpoint_ip, is_ipv6, label, label_text, legacy_cidr, legacy_ip, masked, parse_cidr,
    parse_ip, port_name_errors, port_number, qualified_name, segment, strict_cidr_errors, strict_ip_errors, subdomain,
    wildcard_errors,
};
use super::metadata::{self, labels};
use super::node::{Causes, IMMUTABLE, Node, internal, is_equal};
use super::selector::{is_invalid, label_selector};
use super::service;
use crate::go_text::go_quote;
use crate::names::{dns_1123_label_errors, dns_1123_subdomain_errors, label_value_errors};
use std::collections::HashSet;

/// `ValidateIngressCreate` and its updates.
pub(super) fn ingress(object: &Node<'_>, old: Option<&Node<'_>>, subresource: &str, out: &mut Causes) {
    if let Some(old) = old {
        metadata::check_update(object, old, out);
        if subresource == "status" {
            let path = ["status", "loadBalancer", "ingress"];
            let known = old.under(&path).items().map(|ingress| ingress.at("ip").text()).collect();
            object.under(&path).items().for_each(|each| service::ingress_address(&each, &known, out));
            return;
        }
    }
    metadata::check(object, true, subdomain, out);
    let spec = object.at("spec");
    let rules = spec.at("rules");
    if rules.is_empty() && !spec.at("defaultBackend").is_given() {
        out.value(&rules.on(&spec), "either `defaultBackend` or `rules` must be specified");
    }
    if let Some(backend) = spec.at("defaultBackend").given() {
        self::backend(&backend, out);
    }
    rules.items().for_each(|rule| ingress_rule(&rule, out));
    let is_wrong =
        |tls: Node<'_>| !tls.at("secretName").is_empty() && !subdomain(tls.at("secretName").text(), false).is_empty();
    let allows_any_secret = old.is_some_and(|old| old.under(&["spec", "tls"]).items().any(is_wrong));
    for tls in spec.at("tls").items() {
        tls.at("hosts").items().for_each(|host| host_name(&host, out));
        let secret = tls.at("secretName");
        if !secret.is_empty() && !allows_any_secret {
            out.texts(&secret, subdomain(secret.text(), false));
        }
    }
    let class = spec.at("ingressClassName");
    if class.is_given() {
        out.texts(&class, subdomain(class.text(), false));
    }
    let annotation = object.under(&["metadata", "annotations"]).key("kubernetes.io/ingress.class");
    if old.is_none() && annotation.is_given() && class.is_given() && annotation.text() != class.text() {
        let node = annotation.named(&object.at("annotations"), "kubernetes.io/ingress.class");
        out.text(&node, "must match `ingressClassName` when both are specified");
    }
}

fn host_name(host: &Node<'_>, out: &mut Causes) {
    if host.text().contains('*') {
        out.texts(host, wildcard_errors(host.text()));
    } else {
        out.texts(host, dns_1123_subdomain_errors(host.text()));
    }
}

fn ingress_rule(rule: &Node<'_>, out: &mut Causes) {
    let host = rule.at("host");
    if !host.is_empty() {
        if parse_ip(host.text()).is_some() {
            out.text(&host, "must be a DNS name, not an IP address");
        }
        host_name(&host, out);
    }
    let Some(http) = rule.at("http").given() else { return };
    out.require(&http.at("paths"));
    http.at("paths").items().for_each(|path| ingress_path(&path, out));
}

/// `validateHTTPIngressPath`
fn ingress_path(path: &Node<'_>, out: &mut Causes) {
    let (kind, text) = (path.at("pathType"), path.at("path"));
    match kind.optional_text() {
        None => return out.required(&kind, "pathType must be specified"),
        Some("Exact" | "Prefix") => {
            if !text.text().starts_with('/') {
                out.text(&text, "must be an absolute path");
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"] {
                if text.text().contains(part) {
                    out.text(&text, &format!("must not contain '{part}'"));
                }
            }
            for end in ["/..", "/."] {
                if text.text().ends_with(end) {
                    out.text(&text, &format!("cannot end with '{end}'"));
                }
            }
        }
        Some("ImplementationSpecific") => {
            if !text.is_empty() && !text.text().starts_with('/') {
                out.text(&text, "must be an absolute path");
            }
        }
        Some(_) => drop(out.one_of(&kind, &["Exact", "ImplementationSpecific", "Prefix"])),
    }
    backend(&path.at("backend"), out);
}

/// `validateIngressBackend`
fn backend(backend: &Node<'_>, out: &mut Causes) {
    let (resource, service) = (backend.at("resource"), backend.at("service"));
    match (resource.is_given(), service.is_given()) {
        (true, true) => return out.invalid(backend, "\"\"", "cannot set both resource and service backends"),
        (false, false) => return out.invalid(backend, "\"\"", "resource or service backend is required"),
        (true, false) => return reference(&resource, out),
        (false, true) => {}
    }
    if out.require(&service.at("name")) {
        out.texts(&service.at("name"), label(service.at("name").text(), false));
    }
    let (name, number) = (service.under(&["port", "name"]), service.under(&["port", "number"]));
    match (name.is_empty(), number.int() == 0) {
        (false, false) => out.invalid(backend, "\"\"", "cannot set both port name & port number"),
        (false, true) => out.texts(&name, port_name_errors(name.text())),
        (true, false) => port_number(&number, out),
        (true, true) => out.required(backend, "port name or number is required"),
    }
}

/// `validateIngressTypedLocalObjectReference`
fn reference(reference: &Node<'_>, out: &mut Causes) {
    let group = reference.at("apiGroup");
    if group.is_given() {
        out.texts(&group, dns_1123_subdomain_errors(group.text()));
    }
    for field in ["kind", "name"].map(|field| reference.at(field)) {
        if out.require(&field) {
            out.texts(&field, segment(field.text(), false));
        }
    }
}

/// `ValidateIngressClass`, `ValidateIngressClassUpdate`
pub(super) fn ingress_class(object: &Node<'_>, old: Option<&Node<'_>>, out: &mut Causes) {
    let spec = object.at("spec");
    let controller = spec.at("controller");
    if let Some(old) = old {
        metadata::check_update(object, old, out);
        out.immutable_text(&controller, &old.under(&["spec", "controller"]));
    }
    metadata::check(object, false, subdomain, out);
    if controller.len() > 250 {
        out.too_long(&controller, 250);
    }
    domain_prefixed_path(&controller, out);
    let Some(parameters) = spec.at("parameters").given() else { return };
    reference(&parameters, out);
    let (scope, namespace) = (parameters.at("scope"), parameters.at("namespace"));
    match scope.optional_text() {
        None => out.required(&scope, ""),
        Some("Namespace") if !namespace.is_given() => {
            out.required(&namespace, "`parameters.scope` is set to 'Namespace'");
        }
        Some("Namespace") => out.texts(&namespace, label(namespace.text(), false)),
        Some("Cluster") => {
            if namespace.is_given() {
                out.forbidden(&namespace, "`parameters.scope` is set to 'Cluster'");
            }
        }
        Some(_) => drop(out.one_of(&scope, &["Cluster", "Namespace"])),
    }
}

/// `ValidateNetworkPolicy`, `ValidateNetworkPolicyUpdate`
pub(super) fn network_policy(object: &Node<'_>, old: Option<&Node<'_>>, out: &mut Causes) {
    match old {
        Some(old) => metadata::check_update(object, old, out),
        None => metadata::check(object, true, subdomain, out),
    }
    let allows_any_value = old.is_some_and(|old| is_invalid(&old.under(&["spec", "podSelector"])));
    let mut known = HashSet::new();
    if let Some(old) = old {
        for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
            for peer in old.at("spec").at(rules).items().flat_map(|rule| rule.at(peers).items()) {
                let block = peer.at("ipBlock");
                known.insert(block.at("cidr").text());
                known.extend(block.at("except").texts());
            }
        }
    }
    let spec = object.at("spec");
    label_selector(&spec.at("podSelector"), allows_any_value, out);
    for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.at(rules).items() {
            rule.at("ports").items().for_each(|port| policy_port(&port, out));
            rule.at(peers).items().for_each(|peer| policy_peer(&peer, allows_any_value, &known, out));
        }
    }
    let types = spec.at("policyTypes");
    if types.len() > 2 {
        return out.value(&types, "may not specify more than two policyTypes");
    }
    for kind in types.items() {
        out.one_of(&kind, &["Ingress", "Egress"]);
    }
}

/// `ValidateNetworkPolicyPort`
fn policy_port(port: &Node<'_>, out: &mut Causes) {
    out.one_of_if_given(&port.at("protocol"), &["TCP", "UDP", "SCTP"]);
    let (number, end) = (port.at("port"), port.at("endPort"));
    if !number.is_given() {
        if end.is_given() {
            out.int(&end, "may not be specified when `port` is not specified");
        }
    } else if let Some(name) = number.optional_text() {
        if end.is_given() {
            out.int(&end, "may not be specified when `port` is non-numeric");
        }
        out.texts(&number, port_name_errors(name));
    } else {
        port_number(&number, out);
        if end.is_given() {
            if end.int() < number.int() {
                out.int(&number.on(&end), "must be greater than or equal to `port`");
            }
            port_number(&end, out);
        }
    }
}

/// `ValidateNetworkPolicyPeer`
fn policy_peer(peer: &Node<'_>, allows_any_value: bool, known: &HashSet<&str>, out: &mut Causes) {
    let selectors = ["podSelector", "namespaceSelector"].map(|field| peer.at(field));
    for selector in selectors.iter().filter(|selector| selector.is_given()) {
        label_selector(selector, allows_any_value, out);
    }
    let block = peer.at("ipBlock");
    let has_selector = selectors.iter().any(Node::is_given);
    if block.is_given() {
        ip_block(&block, known, out);
        if has_selector {
            out.forbidden(peer, "may not specify both ipBlock and another peer");
        }
    } else if !has_selector {
        out.required(peer, "must specify a peer");
    }
}

/// `ValidateIPBlock`
fn ip_block(block: &Node<'_>, known: &HashSet<&str>, out: &mut Causes) {
    let range = block.at("cidr");
    if !out.require(&range) {
        return;
    }
    legacy_cidr(&range, known, out);
    let Some((network, length)) = parse_cidr(range.text()) else { return };
    for except in block.at("except").items() {
        legacy_cidr(&except, known, out);
        let Some((inner, inner_length)) = parse_cidr(except.text()) else { continue };
        let is_within = inner.is_ipv4() == network.is_ipv4() && masked(inner, u32::from(length)) == network;
        if !is_within || length >= inner_length {
            out.text(&except, "must be a strict subset of `cidr`");
        }
    }
}

/// `ValidateIPAddress`, `ValidateIPAddressUpdate`
pub(super) fn ip_address(object: &Node<'_>, old: Option<&Node<'_>>, out: &mut Causes) {
    let parent = object.under(&["spec", "parentRef"]);
    if let Some(old) = old {
        metadata::check_update(object, old, out);
        let form = "Group:group Resource:resource Namespace:namespace Name:name";
        out.immutable_as(&parent, &old.under(&["spec", "parentRef"]), form);
    }
    metadata::check(object, false, |name, _| strict_ip_errors(name), out);
    if !parent.is_given() {
        return out.required(&parent, "");
    }
    let group = parent.at("group");
    if !group.is_empty() {
        out.texts(&group, dns_1123_subdomain_errors(group.text()));
    }
    for field in ["resource", "name"].map(|field| parent.at(field)) {
        if out.require(&field) {
            out.texts(&field, segment(field.text(), false));
        }
    }
    out.texts(&parent.at("namespace"), segment(parent.at("namespace").text(), false));
}

/// `ValidateServiceCIDR`, `ValidateServiceCIDRUpdate`
pub(super) fn service_cidr(object: &Node<'_>, old: Option<&Node<'_>>, subresource: &str, out: &mut Causes) {
    let ranges = object.under(&["spec", "cidrs"]);
    let Some(old) = old else {
        metadata::check(object, false, subdomain, out);
        return service_ranges(&ranges, out);
    };
    metadata::check_update(object, old, out);
    if subresource == "status" {
        return;
    }
    let before = old.under(&["spec", "cidrs"]);
    match (before.len(), ranges.len()) {
        (old, new) if old == new => {
            for (range, before) in ranges.items().zip(before.items()) {
                out.immutable_text(&range, &before);
            }
        }
        (1, 2) => {
            out.immutable_text(&ranges.item(0), &before.item(0));
            service_ranges(&ranges, out);
        }
        _ => out.value(&ranges, IMMUTABLE),
    }
}

fn service_ranges(ranges: &Node<'_>, out: &mut Causes) {
    if ranges.is_empty() {
        return out.required(ranges, "at least one CIDR required");
    }
    if ranges.len() > 2 {
        let spec = serde_json::json!({"cidrs": ranges.value()});
        return out.invalid(ranges, internal(&Node::root(&spec), "CIDRs:cidrs?"), "may only hold up to 2 values");
    }
    ranges.items().for_each(|range| out.texts(&range, strict_cidr_errors(range.text())));
    let families: Vec<_> = ranges.texts().filter_map(parse_cidr).map(|(network, _)| network.is_ipv4()).collect();
    if families.len() == 2 && families.first() == families.last() {
        let why = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        out.value(ranges, why);
    }
}

/// `ValidateEndpointSlice`, `ValidateEndpointSliceUpdate`
pub(super) fn endpoint_slice(object: &Node<'_>, old: Option<&Node<'_>>, out: &mut Causes) {
    metadata::check(object, true, subdomain, out);
    let kind = object.at("addressType");
    out.required_one_of(&kind, &["FQDN", "IPv4", "IPv6"]);
    slice_ports(&object.at("ports"), out);
    let endpoints = object.at("endpoints");
    if !old.is_some_and(|old| is_equal(old.at("endpoints").value(), endpoints.value())) {
        if endpoints.len() > 1000 {
            out.too_many(&endpoints, 1000);
        } else {
            endpoints.items().for_each(|endpoint| self::endpoint(&endpoint, kind.text(), out));
        }
    }
    if let Some(old) = old {
        metadata::check_update(object, old, out);
        out.immutable_text(&kind, &old.at("addressType"));
    }
}

fn slice_ports(ports: &Node<'_>, out: &mut Causes) {
    if ports.len() > 20_000 {
        return out.too_many(ports, 20_000);
    }
    let mut names = HashSet::new();
    for port in ports.items() {
        let (name, protocol) = (port.at("name"), port.at("protocol"));
        if !name.is_empty() {
            label_text(&name, out);
        }
        if !names.insert(name.text()) {
            out.duplicate(&name);
        }
        if protocol.is_given() {
            out.one_of(&protocol, &["SCTP", "TCP", "UDP"]);
        } else {
            out.required(&protocol, "");
        }
        if let Some(protocol) = port.at("appProtocol").given() {
            qualified_name(&protocol, out);
        }
    }
}

fn endpoint(endpoint: &Node<'_>, kind: &str, out: &mut Causes) {
    let addresses = endpoint.at("addresses");
    if addresses.is_empty() {
        out.required(&addresses, "must contain at least 1 address");
    } else if addresses.len() > 100 {
        out.too_many(&addresses, 100);
    }
    for address in addresses.items() {
        match kind {
            "IPv4" => {
                let is_address = legacy_ip(&address, &HashSet::new(), out);
                if is_address {
                    if is_ipv6(address.text()) {
                        out.text(&address.on(&addresses), "must be an IPv4 address");
                    }
                    endpoint_ip(&address, out);
                }
            }
            "IPv6" => {
                let errors = strict_ip_errors(address.text());
                if errors.is_empty() {
                    if !is_ipv6(address.text()) {
                        out.text(&address.on(&addresses), "must be an IPv6 address");
                    }
                    endpoint_ip(&address, out);
                }
                out.texts(&address, errors);
            }
            "FQDN" => domain_name(&address, out),
            _ => {}
        }
    }
    let node = endpoint.at("nodeName");
    if node.is_given() {
        out.texts(&node, subdomain(node.text(), false));
    }
    let topology = endpoint.at("deprecatedTopology");
    if topology.len() > 16 {
        out.too_many(&topology, 16);
    }
    labels(&topology, out);
    if endpoint.at("hostname").is_given() {
        label_text(&endpoint.at("hostname"), out);
    }
    for (field, is_zone) in [("forZones", true), ("forNodes", false)] {
        let hints = endpoint.at("hints").at(field);
        if hints.len() > 8 {
            return out.too_many(&hints, 8);
        }
        let mut names = HashSet::new();
        for name in hints.items().map(|hint| hint.at("name")) {
            if !names.insert(name.text()) {
                out.duplicate(&name);
            }
            let errors = if is_zone { label_value_errors(name.text()) } else { subdomain(name.text(), false) };
            out.texts(&name, errors);
        }
    }
}

/// `IsFullyQualifiedDomainName`
fn domain_name(node: &Node<'_>, out: &mut Causes) {
    if !out.require(node) {
        return;
    }
    let name = node.text().strip_suffix('.').unwrap_or(node.text());
    let errors = dns_1123_subdomain_errors(name);
    if !errors.is_empty() {
        return out.invalid(node, go_quote(name), &errors.join(","));
    }
    if !name.contains('.') {
        let why = "should be a domain with at least two segments separated by dots";
        return out.invalid(node, go_quote(name), why);
    }
    for part in name.split('.') {
        let errors = dns_1123_label_errors(part);
        if !errors.is_empty() {
            return out.invalid(node, go_quote(part), &errors.join(","));
        }
    }
}

/// `ValidatePodDisruptionBudget` and its updates.
pub(super) fn disruption_budget(object: &Node<'_>, old: Option<&Node<'_>>, subresource: &str, out: &mut Causes) {
    use super::formats::{at_most_100_percent, int_or_percent};
    if subresource == "status" {
        let fields = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];
        fields.into_iter().for_each(|field| out.non_negative(&object.at("status").at(field)));
        return conditions(&object.at("status").at("conditions"), out);
    }
    let spec = object.at("spec");
    let bounds = ["minAvailable", "maxUnavailable"].map(|field| spec.at(field));
    if bounds.iter().all(Node::is_given) {
        let shown = internal(
            &spec,
            "MinAvailable:minAvailable? Selector:selector? MaxUnavailable:maxUnavailable? \
             UnhealthyPodEvictionPolicy:unhealthyPodEvictionPolicy?",
        );
        out.invalid(&spec, shown, "minAvailable and maxUnavailable cannot be both set");
    }
    for bound in bounds.iter().filter(|bound| bound.is_given()) {
        int_or_percent(bound, out);
        at_most_100_percent(bound, out);
    }
    let allows_any_value = old.is_some_and(|old| is_invalid(&old.under(&["spec", "selector"])));
    label_selector(&spec.at("selector"), allows_any_value, out);
    out.one_of_if_given(&spec.at("unhealthyPodEvictionPolicy"), &["AlwaysAllow", "IfHealthyBudget"]);
}

/// `ValidateConditions`, without the form of reasons.
fn conditions(list: &Node<'_>, out: &mut Causes) {
    for condition in list.items() {
        qualified_name(&condition.at("type"), out);
        let (status, generation) = (condition.at("status"), condition.at("observedGeneration"));
        out.one_of(&status, &["False", "True", "Unknown"]);
        if generation.int() < 0 {
            out.int(&generation, "must be greater than or equal to zero");
        }
        for field in ["lastTransitionTime", "reason"].map(|field| condition.at(field)) {
            if field.is_empty() {
                out.required(&field, "must be set");
            }
        }
    }
}
