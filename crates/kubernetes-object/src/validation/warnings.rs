//! The warnings of valid objects (`WarningsOnCreate`, `WarningsOnUpdate` of the strategies).
//!
//! The warnings that need certificates (`warningsForSecret`), schemas (custom resources, CustomResourceDefinitions) or the old annotations of AppArmor
//! profiles (`applyAppArmorVersionSkew`) are not here.

mod pods;
mod storage;

use super::formats::{canonical_ip, parse_cidr, parse_ip};
use super::node::Node;
use crate::Object;
use crate::go_text::go_quote;
use crate::kind::GroupVersionKind;
use crate::names::dns_1123_label_errors;
use std::collections::HashSet;
use std::fmt::Display;
use std::net::IpAddr;

/// The characters after which a client gets no more warnings, and those of one warning that count (`truncateAtTotalRunes`, `truncateItemRunes`).
const MOST_CHARACTERS: (usize, usize) = (4096, 256);

/// The warnings of an object that is stored in place of `old`, or as a new one. The subresource is empty for a write of the object itself.
pub fn warnings(kind: &GroupVersionKind, object: &Object, old: Option<&Object>, subresource: &str) -> Vec<String> {
    let (whole, old) = (object.whole(), old.map(Object::whole));
    let object = &Node::root(whole.as_value());
    let old = old.as_ref().map(|old| Node::root(old.as_value()));
    let old = old.as_ref();
    let mut out = Warnings::default();
    match (kind.group.as_str(), kind.kind.as_str(), subresource) {
        ("", "Pod", "status") => pods::status(object, &mut out),
        ("", "Pod", _) if old.is_none() => pods::pod(object, &mut out),
        ("", "Service", "status") | ("networking.k8s.io", "Ingress", "status") => ingress_status(object, &mut out),
        (ADMISSION, "ValidatingAdmissionPolicy", _) => static_name(object, &mut out),
        (_, _, "status") => {}
        ("", "PodTemplate", _) => pods::of_template(object, old, &["template"], &mut out),
        ("", "ReplicationController", _) => pods::replication_controller(object, old, &mut out),
        ("apps", "DaemonSet", _) => pods::daemon_set(object, old, &mut out),
        ("apps", "Deployment" | "ReplicaSet", _) => pods::named(object, old, &["spec", "template"], &mut out),
        ("apps", "StatefulSet", _) => pods::stateful_set(object, old, &mut out),
        ("batch", "Job", _) => pods::job(object, old, &["spec"], &mut out),
        ("batch", "CronJob", _) => pods::cron_job(object, old, &mut out),
        ("", "Service", _) => service(object, &mut out),
        ("", "Endpoints", _) => endpoints(object, &mut out),
        ("discovery.k8s.io", "EndpointSlice", _) => endpoint_slice(object, old, &mut out),
        ("", "Node", _) => node(object, &mut out),
        ("", "ServiceAccount", _) => service_account(object, old, &mut out),
        ("", "PersistentVolume", _) => storage::volume(object, &mut out),
        ("", "PersistentVolumeClaim", _) => storage::claim(object, &mut out),
        ("", "ResourceQuota", _) if old.is_none() => quota(object, &mut out),
        ("networking.k8s.io", "Ingress", _) if old.is_none() => ingress(object, &mut out),
        ("networking.k8s.io", "NetworkPolicy", _) => network_policy(object, &mut out),
        ("node.k8s.io", "RuntimeClass", _) => storage::runtime_class(object, &mut out),
        ("storage.k8s.io", "StorageClass", _) => storage::storage_class(object, &mut out),
        ("storage.k8s.io", "CSIStorageCapacity", _) => storage::capacity(object, &mut out),
        ("storage.k8s.io", "CSIDriver", _) => storage::driver(object, old, &mut out),
        ("resource.k8s.io", "ResourceSlice", _) => resource_slice(object, &mut out),
        (
            ADMISSION,
            "MutatingAdmissionPolicy"
            | "MutatingAdmissionPolicyBinding"
            | "ValidatingAdmissionPolicyBinding"
            | "MutatingWebhookConfiguration"
            | "ValidatingWebhookConfiguration",
            _,
        ) => static_name(object, &mut out),
        _ => {}
    }
    out.texts
}

const ADMISSION: &str = "admissionregistration.k8s.io";

/// Warnings, each once, up to the number of characters that a client gets.
#[derive(Default)]
struct Warnings {
    texts: Vec<String>,
    known: HashSet<String>,
    characters: usize,
}

impl Warnings {
    fn add(&mut self, text: String) {
        if !self.is_full() && self.known.insert(text.clone()) {
            self.characters += text.chars().take(MOST_CHARACTERS.1).count();
            self.texts.push(text);
        }
    }

    /// Adds a warning of a value.
    fn of(&mut self, node: &Node<'_>, why: impl Display) {
        if !self.is_full() {
            self.add(format!("{}: {why}", node.path()));
        }
    }

    fn is_full(&self) -> bool {
        self.characters >= MOST_CHARACTERS.0
    }
}

/// The warning of a name that pods and hosts get, but that is no label.
fn label_name(object: &Node<'_>, use_of_name: &str, out: &mut Warnings) {
    let errors = dns_1123_label_errors(object.under(&["metadata", "name"]).text());
    if !errors.is_empty() {
        let why = errors.join(" ");
        out.add(format!(
            "metadata.name: this is used in {use_of_name}, which can result in surprising behavior; a DNS label is recommended: [{why}]"
        ));
    }
}

/// `GetWarningsForIP`
fn address(node: &Node<'_>, out: &mut Warnings) {
    let text = node.text();
    let Some(sloppy) = parse_ip(text) else { return };
    let strict = text.parse::<IpAddr>().ok().filter(|address| !is_mapped(*address));
    match strict {
        None => {
            let (found, better) = (go_quote(text), go_quote(&canonical_ip(sloppy)));
            out.of(node, format_args!("non-standard IP address {found} is invalid: use {better}"));
        }
        Some(address @ IpAddr::V6(_)) if address.to_string() != text => {
            let (found, better) = (go_quote(text), go_quote(&address.to_string()));
            out.of(node, format_args!("IPv6 address {found} should be in RFC 5952 canonical format ({better})"));
        }
        Some(_) => {}
    }
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

/// `GetWarningsForCIDR`
fn network(node: &Node<'_>, out: &mut Warnings) {
    let text = node.text();
    let Some((network, length)) = parse_cidr(text) else { return };
    let (written, written_length) = text.split_once('/').unwrap_or_default();
    let Some(sloppy) = parse_ip(written) else { return };
    let found = go_quote(text);
    // Go shows an IPv4 network without the prefix of the IPv6 addresses in which it may be written.
    let shown_length = if is_mapped(network) { length.saturating_sub(96) } else { length };
    let shown = go_quote(&format!("{}/{shown_length}", canonical_ip(network)));
    let is_ambiguous = sloppy != network;
    if is_ambiguous {
        let whole = if sloppy.is_ipv4() { 32 } else { 128 };
        let single = go_quote(&format!("{}/{whole}", canonical_ip(sloppy)));
        out.of(node, format_args!("CIDR value {found} is ambiguous in this context (should be {shown} or {single}?)"));
    }
    let is_zero_led = written_length.len() > 1 && written_length.starts_with('0');
    match written.parse::<IpAddr>().ok().filter(|address| !is_zero_led && !is_mapped(*address)) {
        None => out.of(node, format_args!("non-standard CIDR value {found} is invalid: use {shown}")),
        Some(IpAddr::V6(strict)) if !is_ambiguous && format!("{strict}/{length}") != text => {
            let better = go_quote(&format!("{strict}/{length}"));
            out.of(node, format_args!("IPv6 CIDR value {found} should be in RFC 5952 canonical format ({better})"));
        }
        Some(_) => {}
    }
}

/// The deprecation of a label of nodes (`GetNodeLabelDeprecatedMessage`).
fn deprecated_label(label: &str) -> Option<&'static str> {
    Some(match label {
        "beta.kubernetes.io/arch" => "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
        "beta.kubernetes.io/os" => "deprecated since v1.14; use \"kubernetes.io/os\" instead",
        "failure-domain.beta.kubernetes.io/region" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead"
        }
        "failure-domain.beta.kubernetes.io/zone" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"
        }
        "beta.kubernetes.io/instance-type" => {
            "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"
        }
        "app.kubernetes.io/created-by" => "deprecated since v1.9",
        "scheduler.alpha.kubernetes.io/preferAvoidPods" => "deprecated since v1.22; use Taints and Tolerations instead",
        "node-role.kubernetes.io/master" => "use \"node-role.kubernetes.io/control-plane\" instead",
        _ => return None,
    })
}

/// The warnings of a quantity of bytes that is no whole number.
fn fraction(amounts: &Node<'_>, resource: &str, out: &mut Warnings) {
    let amount = amounts.key(resource);
    let milli = amount.quantity().milli_value();
    // An amount that does not fit is whole.
    if milli % 1000 != 0 && milli.unsigned_abs() < i64::MAX.unsigned_abs() {
        let text = go_quote(&amount.quantity_text());
        out.of(&amount, format_args!("fractional byte value {text} is invalid, must be an integer"));
    }
}

/// `GetWarningsForService`
fn service(object: &Node<'_>, out: &mut Warnings) {
    const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
    if object.under(&["metadata", "annotations"]).key(HINTS).is_given() {
        let better = "service.kubernetes.io/topology-mode";
        out.add(format!("annotation {HINTS} is deprecated, please use {better} instead"));
    }
    let spec = object.at("spec");
    let (address_of, kind) = (spec.at("clusterIP"), spec.at("type"));
    let is_headless = kind.text() == "ClusterIP" && address_of.text() == "None";
    let is_external = kind.text() == "ExternalName";
    if !matches!(address_of.text(), "" | "None") {
        spec.at("clusterIPs").items().for_each(|item| address(&item, out));
    }
    let (balancer, external) = (spec.at("loadBalancerIP"), spec.at("externalIPs"));
    if is_headless {
        if !balancer.is_empty() {
            out.add("spec.loadBalancerIP is ignored for headless services".to_owned());
        }
        if !external.is_empty() {
            out.add("spec.externalIPs is ignored for headless services".to_owned());
        }
        if spec.at("sessionAffinity").text() != "None" {
            out.add("spec.SessionAffinity is ignored for headless services".to_owned());
        }
    }
    external.items().for_each(|item| address(&item, out));
    if !external.is_empty() && !is_headless && !is_external {
        out.add("spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned());
    }
    if !balancer.is_empty() {
        address(&balancer, out);
    }
    spec.at("loadBalancerSourceRanges").items().for_each(|item| network(&item, out));
    if is_external && !external.is_empty() {
        out.add("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if !is_external && !spec.at("externalName").is_empty() {
        out.add("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    let distribution = spec.at("trafficDistribution");
    if distribution.text() == "PreferClose" {
        out.of(&distribution, "\"PreferClose\" is deprecated; use \"PreferSameZone\"");
    }
}

/// The status of a Service or of an Ingress.
fn ingress_status(object: &Node<'_>, out: &mut Warnings) {
    for item in object.under(&["status", "loadBalancer", "ingress"]).items() {
        // kube-apiserver names the item here, and not its field.
        address(&item.at("ip").on(&item), out);
    }
}

/// The label of objects that a controller of the API writes, whose addresses are valid.
fn is_managed_by(object: &Node<'_>, label: &str, controllers: &[&str]) -> bool {
    controllers.contains(&object.under(&["metadata", "labels"]).key(label).text())
}

/// `endpointsWarnings`
fn endpoints(object: &Node<'_>, out: &mut Warnings) {
    if is_managed_by(object, "endpoints.kubernetes.io/managed-by", &["endpoint-controller"]) {
        return;
    }
    for subset in object.at("subsets").items() {
        for field in ["addresses", "notReadyAddresses"] {
            subset.at(field).items().for_each(|item| address(&item.at("ip"), out));
        }
    }
}

/// `endpointSliceStrategy.WarningsOnCreate`
fn endpoint_slice(object: &Node<'_>, old: Option<&Node<'_>>, out: &mut Warnings) {
    if old.is_none() && object.at("addressType").text() == "FQDN" {
        out.add("spec.addressType: FQDN endpoints are deprecated".to_owned());
    }
    let controllers = ["endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"];
    if is_managed_by(object, "endpointslice.kubernetes.io/managed-by", &controllers) {
        return;
    }
    for endpoint in object.at("endpoints").items() {
        endpoint.at("addresses").items().for_each(|item| address(&item, out));
    }
}

/// `nodeWarnings`
fn node(object: &Node<'_>, out: &mut Warnings) {
    let spec = object.at("spec");
    if spec.at("configSource").is_given() {
        out.add("spec.configSource: the feature is removed".to_owned());
    }
    if !spec.at("externalID").is_empty() {
        out.add("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
    }
    spec.at("podCIDRs").items().for_each(|item| network(&item, out));
}

/// `warnIfHasEnforceMountableSecretsAnnotation`
fn service_account(object: &Node<'_>, old: Option<&Node<'_>>, out: &mut Warnings) {
    const ENFORCE: &str = "kubernetes.io/enforce-mountable-secrets";
    let is_set = |object: &Node<'_>| object.under(&["metadata", "annotations"]).key(ENFORCE).is_given();
    if is_set(object) && !old.is_some_and(is_set) {
        let annotation = object.under(&["metadata", "annotations"]).key(ENFORCE);
        out.of(&annotation, "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets");
    }
}

/// `resourcequotaStrategy.WarningsOnCreate`
fn quota(object: &Node<'_>, out: &mut Warnings) {
    let hard = object.under(&["spec", "hard"]);
    for resource in ["cpu", "memory", "storage", "ephemeral-storage"] {
        let (mut request, limit) = (format!("requests.{resource}"), format!("limits.{resource}"));
        if !hard.key(&request).is_given() && matches!(resource, "cpu" | "memory") {
            resource.clone_into(&mut request);
        }
        let (of_requests, of_limits) = (hard.key(&request), hard.key(&limit));
        let are_given = of_requests.is_given() && of_limits.is_given();
        if are_given && of_requests.quantity() > of_limits.quantity() {
            let (of_requests, of_limits) = (of_requests.quantity_text(), of_limits.quantity_text());
            out.add(format!("ResourceQuota {request} ({of_requests}) should be less than {limit} ({of_limits})"));
        }
    }
}

/// `ingressStrategy.WarningsOnCreate`
fn ingress(object: &Node<'_>, out: &mut Warnings) {
    const CLASS: &str = "kubernetes.io/ingress.class";
    let is_annotated = object.under(&["metadata", "annotations"]).key(CLASS).is_given();
    if is_annotated && !object.under(&["spec", "ingressClassName"]).is_given() {
        let class = go_quote(CLASS);
        out.add(format!("annotation {class} is deprecated, please use 'spec.ingressClassName' instead"));
    }
}

/// `networkPolicyWarnings`
fn network_policy(object: &Node<'_>, out: &mut Warnings) {
    for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in object.under(&["spec", rules]).items() {
            for peer in rule.at(peers).items() {
                let block = peer.at("ipBlock");
                if block.is_given() {
                    network(&block.at("cidr"), out);
                    block.at("except").items().for_each(|item| network(&item, out));
                }
            }
        }
    }
}

/// `resourceSliceStrategy.WarningsOnCreate`
fn resource_slice(object: &Node<'_>, out: &mut Warnings) {
    let driver = object.under(&["spec", "driver"]);
    if driver.text() != driver.text().to_lowercase() {
        let found = go_quote(driver.text());
        out.of(&driver, format_args!("driver names should be lowercase; {found} contains uppercase characters"));
    }
}

/// `WarningsForStaticSuffix`
fn static_name(object: &Node<'_>, out: &mut Warnings) {
    const SUFFIX: &str = ".static.k8s.io";
    let name = object.under(&["metadata", "name"]);
    if name.text().ends_with(SUFFIX) {
        out.of(
            &name,
            format_args!(
                "names ending with {} are reserved for static manifest-based configurations and cannot be managed via the API",
                go_quote(SUFFIX)
            ),
        );
    }
}

/// Whether an update changes the generation of the object, so that its template is looked at again.
fn has_new_generation(object: &Node<'_>, old: &Node<'_>) -> bool {
    let generation = |object: &Node<'_>| object.under(&["metadata", "generation"]).int();
    generation(object) != generation(old)
}

#[cfg(test)]
mod tests;
