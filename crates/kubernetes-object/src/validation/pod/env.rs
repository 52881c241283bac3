//! Environment variables and ports of containers.

use super::super::formats::{config_key_errors, label_text, port_name_errors, port_number, subdomain, variable_errors};
use super::super::node::{Causes, Node};
use super::super::volume_source::no_backsteps;
use super::object_field;
use crate::go_text::go_quote;
use std::collections::HashSet;

const FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const DIVISORS: [&str; 13] = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

/// `ValidateEnv` and `ValidateEnvFrom`
pub(super) fn check(container: &Node<'_>, out: &mut Causes) {
    for variable in container.at("env").items() {
        if out.require(&variable.at("name")) {
            out.texts(&variable.at("name"), variable_errors(variable.at("name").text()));
        }
        value_from(&variable, out);
    }
    let sources = container.at("envFrom");
    for source in sources.items() {
        let prefix = source.at("prefix");
        if !prefix.is_empty() {
            out.texts(&prefix, variable_errors(prefix.text()));
        }
        let mut count = 0;
        for reference in ["configMapRef", "secretRef"].into_iter().filter_map(|field| source.at(field).given()) {
            count += 1;
            if out.require(&reference.at("name")) {
                out.texts(&reference.at("name"), subdomain(reference.at("name").text(), true));
            }
        }
        // kube-apiserver names the list rather than the source.
        match count {
            0 => out.invalid(&sources, "\"\"", "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => out.invalid(&sources, "\"\"", "may not have more than one field specified at a time"),
        }
    }
}

/// `validateEnvVarValueFrom`
fn value_from(variable: &Node<'_>, out: &mut Causes) {
    let Some(from) = variable.at("valueFrom").given() else { return };
    let mut count = 0;
    if let Some(field) = from.at("fieldRef").given() {
        count += 1;
        object_field(&field, &FIELDS, out);
    }
    if let Some(resource) = from.at("resourceFieldRef").given() {
        count += 1;
        resource_field(&resource, false, out);
    }
    for selector in ["configMapKeyRef", "secretKeyRef"].into_iter().filter_map(|field| from.at(field).given()) {
        count += 1;
        out.texts(&selector.at("name"), subdomain(selector.at("name").text(), false));
        if out.require(&selector.at("key")) {
            out.texts(&selector.at("key"), config_key_errors(selector.at("key").text()));
        }
    }
    if let Some(file) = from.at("fileKeyRef").given() {
        count += 1;
        if out.require(&file.at("key")) {
            out.texts(&file.at("key"), variable_errors(file.at("key").text()));
        }
        if out.require(&file.at("volumeName")) {
            label_text(&file.at("volumeName"), out);
        }
        if out.require(&file.at("path")) {
            no_backsteps(&file.at("path"), out);
        }
    }
    if count == 0 {
        let why =
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
        out.invalid(&from, "\"\"", why);
    } else if !variable.at("value").is_empty() {
        out.invalid(&from, "\"\"", "may not be specified when `value` is not empty");
    } else if count > 1 {
        out.invalid(&from, "\"\"", "may not have more than one field specified at a time");
    }
}

/// `validateContainerResourceFieldSelector`
pub(super) fn resource_field(selector: &Node<'_>, is_volume: bool, out: &mut Causes) {
    let resource = selector.at("resource");
    let name = resource.text();
    let is_huge_pages = name.starts_with("requests.hugepages-") || name.starts_with("limits.hugepages-");
    if is_volume && selector.at("containerName").is_empty() {
        out.required(&selector.at("containerName"), "");
    } else if out.require(&resource) && !is_huge_pages {
        out.one_of(&resource, &RESOURCES);
    }
    let divisor = selector.at("divisor");
    if divisor.quantity().is_zero() {
        return;
    }
    let text = divisor.quantity_text();
    let all = DIVISORS.join(", ");
    let (is_valid, values, what) = match name {
        "limits.cpu" | "requests.cpu" => (matches!(text.as_str(), "1m" | "1"), "1m and 1", "cpu"),
        "limits.memory" | "requests.memory" => (DIVISORS.contains(&text.as_str()), all.as_str(), "memory"),
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => {
            (DIVISORS.contains(&text.as_str()), all.as_str(), "local ephemeral storage")
        }
        _ if is_huge_pages => (DIVISORS.contains(&text.as_str()), all.as_str(), "hugepages"),
        _ => return,
    };
    if !is_valid {
        let why = format!("only divisor's values {values} are supported with the {what} resource");
        out.invalid(&divisor, go_quote(name), &why);
    }
}

/// `validateContainerPorts`
pub(super) fn ports(ports: &Node<'_>, out: &mut Causes) {
    let mut names = HashSet::new();
    for port in ports.items() {
        let name = port.at("name");
        if !name.is_empty() {
            let errors = port_name_errors(name.text());
            if errors.is_empty() && !names.insert(name.text()) {
                out.duplicate(&name);
            }
            out.texts(&name, errors);
        }
        if port.at("containerPort").int() == 0 {
            out.required(&port.at("containerPort"), "");
        } else {
            port_number(&port.at("containerPort"), out);
        }
        if port.at("hostPort").int() != 0 {
            port_number(&port.at("hostPort"), out);
        }
        out.required_one_of(&port.at("protocol"), &["SCTP", "TCP", "UDP"]);
    }
}

/// The errors of ports of the host that several containers name (`AccumulateUniqueHostPorts`).
pub(super) fn host_ports<'v>(containers: impl Iterator<Item = Node<'v>>, list: &Node<'_>, out: &mut Causes) {
    let mut known = HashSet::new();
    for (index, container) in containers.enumerate() {
        for (at, port) in container.at("ports").items().enumerate() {
            let number = port.at("hostPort").int();
            if number == 0 {
                continue;
            }
            let text = format!("{}/{}/{number}", port.at("protocol").text(), port.at("hostIP").text());
            if !known.insert(text.clone()) {
                out.duplicate_of(&list.item(index).at("ports").item(at).at("hostPort"), go_quote(&text));
            }
        }
    }
}
