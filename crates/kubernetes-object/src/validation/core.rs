//! The core kinds that have few rules: ConfigMaps, Secrets, ServiceAccounts, Namespaces, Endpoints, Nodes, ReplicationControllers.

use super::formats::{
    config_key_errors, endpoint_ip, is_ipv6, label, label_text, legacy_cidr, legacy_ip, port_number, qualified_name,
    subdomain,
};
use super::metadata;
use super::node::{Causes, Node, internal, is_equal, is_equal_map};
use super::pod;
use super::resources;
use super::selector::label_key;
use crate::go_text::go_quote;
use crate::names::{label_value_errors, qualified_name_errors};
use crate::selector::LabelSelector;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::collections::HashSet;

/// `MaxSecretSize`
const MAX_DATA_BYTES: usize = 1 << 20;
const FROZEN: &str = "field is immutable when `immutable` is set";

fn data_keys(data: &Node<'_>, out: &mut Causes) {
    for (key, value) in data.entries() {
        config_key_errors(key).iter().for_each(|why| out.invalid(&value, go_quote(key), why));
    }
}

/// The number of bytes of data in base64.
fn decoded_bytes(data: &Node<'_>) -> usize {
    let padding = |text: &str| text.bytes().rev().take_while(|byte| *byte == b'=').count();
    data.entries().map(|(_, value)| (value.len() / 4 * 3).saturating_sub(padding(value.text()))).sum()
}

fn frozen(object: &Node<'_>, old: &Node<'_>, fields: &[&'static str], out: &mut Causes) {
    if !old.at("immutable").is_true() {
        return;
    }
    if !object.at("immutable").is_true() {
        out.forbidden(&object.at("immutable"), FROZEN);
    }
    for field in fields {
        if !is_equal_map(object.at(field).value(), old.at(field).value()) {
            out.forbidden(&object.at(field), FROZEN);
        }
    }
}

/// `ValidateConfigMap`, `ValidateConfigMapUpdate`
pub(super) fn config_map(object: &Node<'_>, old: Option<&Node<'_>>, out: &mut Causes) {
    if let Some(old) = old {
        metadata::check_update(object, old, out);
        frozen(object, old, &["data", "binaryData"], out);
    }
    metadata::check(object, true, subdomain, out);
    let (data, binary) = (object.at("data"), object.at("binaryData"));
    data_keys(&data, out);
    for (key, value) in data.entries().filter(|(key, _)| binary.value().get(key).is_some()) {
        out.invalid(&value, go_quote(key), "duplicate of key present in binaryData");
    }
    data_keys(&binary, out);
    let bytes = data.entries().map(|(_, value)| value.len()).sum::<usize>() + decoded_bytes(&binary);
    if bytes > MAX_DATA_BYTES {
        out.too_long(&object.at(""), MAX_DATA_BYTES);
    }
}

/// `ValidateSecret`, `ValidateSecretUpdate`
pub(super) fn secret(object: &Node<'_>, old: Option<&Node<'_>>, out: &mut Causes) {
    if let Some(old) = old {
        metadata::check_update(object, old, out);
        out.immutable_text(&object.at("type"), &old.at("type"));
        frozen(object, old, &["data"], out);
    }
    metadata::check(object, true, subdomain, out);
    let data = object.at("data");
    data_keys(&data, out);
    if decoded_bytes(&data) > MAX_DATA_BYTES {
        out.too_long(&data, MAX_DATA_BYTES);
    }
    let required = |key: &str, out: &mut Causes| {
        let is_missing = data.value().get(key).is_none();
        if is_missing {
            out.required(&data.key(key), "");
        }
        !is_missing
    };
    match object.at("type").text() {
        "kubernetes.io/service-account-token" => {
            let name = object.under(&["metadata", "annotations"]).key("kubernetes.io/service-account.name");
            out.require(&name);
        }
        "kubernetes.io/dockercfg" => docker(&data, ".dockercfg", out),
        "kubernetes.io/dockerconfigjson" => docker(&data, ".dockerconfigjson", out),
        "kubernetes.io/basic-auth" if ["username", "password"].iter().all(|key| data.value().get(*key).is_none()) => {
            required("username", out);
            required("password", out);
        }
        "kubernetes.io/ssh-auth" => drop(out.require(&data.key("ssh-privatekey"))),
        "kubernetes.io/tls" => {
            required("tls.crt", out);
            required("tls.key", out);
        }
        _ => {}
    }
}

fn docker(data: &Node<'_>, key: &str, out: &mut Causes) {
    let value = data.key(key);
    if !value.is_given() {
        return out.required(&value, "");
    }
    let bytes = STANDARD.decode(value.text()).unwrap_or_default();
    let why = match serde_json::from_slice::<Value>(&bytes) {
        Ok(Value::Object(_) | Value::Null) => return,
        Ok(other) => format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            crate::go_text::go_type(&other)
        ),
        Err(_) if bytes.is_empty() => "unexpected end of JSON input".to_owned(),
        Err(_) => {
            let first = bytes.first().copied().unwrap_or_default();
            let shown = match first {
                0x20..=0x7e => format!("'{}'", char::from(first)),
                _ => format!("'\\x{first:02x}'"),
            };
            format!("invalid character {shown} looking for beginning of value")
        }
    };
    out.invalid(&value, "\"<secret contents redacted>\"", &why);
}

/// `ValidateServiceAccount`
pub(super) fn service_account(object: &Node<'_>, old: Option<&Node<'_>>, out: &mut Causes) {
    if let Some(old) = old {
        metadata::check_update(object, old, out);
    }
    metadata::check(object, true, subdomain, out);
}

/// `ValidateNamespace` and its updates.
pub(super) fn namespace(object: &Node<'_>, old: Option<&Node<'_>>, subresource: &str, out: &mut Causes) {
    if subresource.is_empty() {
        metadata::check(object, false, label, out);
        let list = object.under(&["spec", "finalizers"]);
        for finalizer in list.items().map(|finalizer| finalizer.on(&list)) {
            out.texts(&finalizer, qualified_name_errors(finalizer.text()));
            metadata::standard_finalizer(&finalizer, out);
        }
    }
    let Some(old) = old else { return };
    metadata::check_update(object, old, out);
    match subresource {
        "status" => {
            let phase = object.at("status").at("phase").named(&object.at("status"), "Phase");
            let is_deleted = object.under(&["metadata", "deletionTimestamp"]).is_given();
            let (expected, not) = if is_deleted { ("Terminating", " not") } else { ("Active", "") };
            if phase.text() != expected {
                out.text(&phase, &format!("may only be '{expected}' if `deletionTimestamp` is{not} empty"));
            }
        }
        "finalize" => {
            for finalizer in object.under(&["spec", "finalizers"]).items() {
                out.texts(&finalizer, qualified_name_errors(finalizer.text()));
                metadata::standard_finalizer(&finalizer, out);
            }
        }
        _ => {}
    }
}

/// `ValidateEndpoints`
pub(super) fn endpoints(object: &Node<'_>, old: Option<&Node<'_>>, out: &mut Causes) {
    if let Some(old) = old {
        metadata::check_update(object, old, out);
    }
    metadata::check(object, true, subdomain, out);
    if old.is_some_and(|old| is_equal(old.at("subsets").value(), object.at("subsets").value())) {
        return;
    }
    for subset in object.at("subsets").items() {
        let lists = ["addresses", "notReadyAddresses"].map(|field| subset.at(field));
        if lists.iter().all(Node::is_empty) {
            out.required(&subset, "must specify `addresses` or `notReadyAddresses`");
        }
        for address in lists.iter().flat_map(Node::items) {
            legacy_ip(&address.at("ip"), &HashSet::new(), out);
            if !address.at("hostname").is_empty() {
                label_text(&address.at("hostname"), out);
            }
            let node = address.at("nodeName");
            if node.is_given() {
                out.texts(&node, subdomain(node.text(), false));
            }
            endpoint_ip(&address.at("ip"), out);
        }
        for port in subset.at("ports").items() {
            let name = port.at("name");
            if !name.is_empty() {
                label_text(&name, out);
            } else if subset.at("ports").len() > 1 {
                out.required(&name, "");
            }
            port_number(&port.at("port"), out);
            out.required_one_of(&port.at("protocol"), &["SCTP", "TCP", "UDP"]);
            if let Some(protocol) = port.at("appProtocol").given() {
                qualified_name(&protocol, out);
            }
        }
    }
}

/// `ValidateNode`, `ValidateNodeUpdate`
pub(super) fn node(object: &Node<'_>, old: Option<&Node<'_>>, subresource: &str, out: &mut Causes) {
    if subresource.is_empty() {
        metadata::check(object, false, subdomain, out);
        node_parts(object, out);
        let ranges = object.under(&["spec", "podCIDRs"]);
        ranges.items().for_each(|range| legacy_cidr(&range, &HashSet::new(), out));
        let families: Vec<_> =
            ranges.texts().map(|range| is_ipv6(range.split('/').next().unwrap_or_default())).collect();
        let is_dual = families.contains(&true) && families.contains(&false);
        if families.len() > 1 && (!is_dual || families.len() > 2) {
            out.value(&ranges, "may specify no more than one CIDR for each IP family");
        }
    }
    if let Some(old) = old {
        metadata::check_update(object, old, out);
        node_parts(object, out);
        node_update(object, old, out);
    }
}

fn node_parts(object: &Node<'_>, out: &mut Causes) {
    let status = object.at("status");
    taints(&object.under(&["spec", "taints"]).named(&object.at("metadata"), "taints"), out);
    for list in ["capacity", "allocatable"].map(|field| status.at(field)) {
        for (name, quantity) in list.entries() {
            resources::quantity_value(name, &quantity.named(&list, name.to_owned()), out);
        }
    }
    declared_features(&status.at("declaredFeatures"), out);
}

fn node_update(object: &Node<'_>, old: &Node<'_>, out: &mut Causes) {
    let (spec, status) = (object.at("spec"), object.at("status"));
    let ranges = spec.at("podCIDRs");
    let mut known = HashSet::new();
    for address in status.at("addresses").items() {
        if !known.insert((address.at("type").text(), address.at("address").text())) {
            out.duplicate_of(&address, internal(&address, "Type:type Address:address"));
        }
    }
    let old = old.at("spec");
    const RANGES: &str = "node updates may not change podCIDR except from \"\" to valid";
    let old_ranges = old.at("podCIDRs");
    if !old_ranges.is_empty() {
        if old_ranges.len() != ranges.len() {
            out.forbidden(&ranges, RANGES);
        } else {
            let changed = ranges.texts().zip(old_ranges.texts()).filter(|(new, old)| new != old);
            changed.for_each(|_| out.forbidden(&ranges, RANGES));
        }
    }
    let (provider, old_provider) = (spec.at("providerID"), old.at("providerID"));
    if !old_provider.is_empty() && provider.text() != old_provider.text() {
        out.forbidden(&provider, "node updates may not change providerID except from \"\" to valid");
    }
    if spec.at("externalID").text() != old.at("externalID").text() {
        out.forbidden(&spec.at("externalID"), "may not be updated");
    }
}

/// `validateNodeTaints`
fn taints(taints: &Node<'_>, out: &mut Causes) {
    let mut known = HashSet::new();
    for taint in taints.items() {
        label_key(&taint.at("key"), out);
        let errors = label_value_errors(taint.at("value").text());
        if !errors.is_empty() {
            out.text(&taint.at("value"), &errors.join(";"));
        }
        pod::taint_effect(&taint.at("effect"), out);
        if !known.insert((taint.at("effect").text(), taint.at("key").text())) {
            let shown = internal(&taint, "Key:key Value:value Effect:effect TimeAdded:timeAdded?");
            let why = "taints must be unique by key and effect pair";
            out.duplicate_of(&taint, format!("{shown}: {why}"));
        }
    }
}

/// `validateNodeDeclaredFeatures`
fn declared_features(features: &Node<'_>, out: &mut Causes) {
    let mut before: Option<&str> = None;
    for feature in features.items() {
        let name = feature.text();
        let is_valid = name.starts_with(|character: char| character.is_ascii_uppercase())
            && name.split('/').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        if name.len() > 253 {
            let why = format!("invalid feature name {}: must be no more than 253 characters", go_quote(name));
            out.text(&feature, &why);
        } else if !is_valid {
            let why = format!(
                "invalid feature name {}: must start with an UpperCamelCase segment, with subsequent segments separated by '/' \
                 (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes",
                go_quote(name)
            );
            out.text(&feature, &why);
        }
        match before {
            Some(before) if before == name => out.duplicate(&feature),
            Some(before) if before > name => out.text(&feature, "list must be sorted alphabetically"),
            _ => {}
        }
        before = Some(name);
    }
}

/// `ValidateReplicationController` and its updates.
pub(super) fn replication_controller(object: &Node<'_>, old: Option<&Node<'_>>, subresource: &str, out: &mut Causes) {
    match old {
        Some(old) => metadata::check_update(object, old, out),
        None => metadata::check(object, true, subdomain, out),
    }
    if subresource == "status" {
        return super::apps::replica_counts(&object.at("status"), out);
    }
    let spec = object.at("spec");
    out.non_negative(&spec.at("minReadySeconds"));
    out.require(&spec.at("selector"));
    if spec.at("replicas").is_given() {
        out.non_negative(&spec.at("replicas"));
    } else {
        out.required(&spec.at("replicas"), "");
    }
    let template = spec.at("template");
    if !template.is_given() {
        return out.required(&template, "");
    }
    let labels = template.under(&["metadata", "labels"]);
    let selector = spec.at("selector");
    if selector.entries().any(|(key, value)| labels.key(key).value() != value.value()) {
        out.value(&labels, "`selector` does not match template `labels`");
    }
    let old = old.map(|old| old.under(&["spec", "template"]));
    pod::template_for("ReplicationController", &template, &LabelSelector::everything(), old.as_ref(), out);
}

/// `ValidatePodBinding`
pub(super) fn binding(object: &Node<'_>, out: &mut Causes) {
    let target = object.at("target");
    let kind = target.at("kind");
    if !matches!(kind.text(), "" | "Node") {
        out.unsupported(&kind, go_quote(kind.text()), &["Node", "<empty>"]);
    }
    out.require(&target.at("name"));
}
