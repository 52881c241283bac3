//! Nodes: a kubelet may register and update its own node, except the fields that steer where workloads run.

use super::{no_object, read};
use crate::admission::{Attributes, Denial, Operation};
use crate::go_text::go_quote;
use crate::object::Object;
use k8s_openapi::api::core::v1::{ConfigMapNodeConfigSource, NodeConfigSource, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use std::collections::BTreeMap;

/// The labels in Kubernetes' domains that a kubelet may set (`kubeletapis.KubeletLabels`).
const KUBELET_LABELS: [&str; 11] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];
/// The domains in which a kubelet may set any label (`kubeletapis.KubeletLabelNamespaces`).
const KUBELET_DOMAINS: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

/// Checks a request for a node or a subresource of a node (`admitNode`).
pub(super) fn check(node: &str, attributes: &Attributes) -> Result<(), Denial> {
    let name = go_quote(node);
    if attributes.name != node {
        let other = go_quote(&attributes.name);
        return Err(Denial::forbidden(format!("node {name} is not allowed to modify node {other}")));
    }
    match attributes.operation {
        Operation::Create => check_new(&name, attributes.object.as_ref().ok_or_else(no_object)?),
        Operation::Update => {
            let (old, new) = (attributes.old_object.as_deref(), attributes.object.as_ref());
            let (Some(old), Some(new)) = (old, new) else { return Err(no_object()) };
            check_changed(&name, old, new)
        }
        _ => Ok(()),
    }
}

fn check_new(name: &str, node: &Object) -> Result<(), Denial> {
    if config_source(node)?.is_some() {
        return Err(Denial::forbidden(format!(
            "node {name} is not allowed to create pods with a non-nil configSource"
        )));
    }
    let forbidden = forbidden_labels(&read::labels(node)?, &BTreeMap::new());
    match forbidden.is_empty() {
        true => Ok(()),
        false => Err(Denial::forbidden(format!("node {name} is not allowed to set the following labels: {forbidden}"))),
    }
}

fn check_changed(name: &str, old: &Object, new: &Object) -> Result<(), Denial> {
    let source = config_source(new)?;
    // A removal is allowed, because old kubelets drop the field when they update the status.
    if source.is_some() && source != config_source(old)? {
        return Err(Denial::forbidden(format!(
            "node {name} is not allowed to update configSource to a new non-nil configSource"
        )));
    }
    if taints(new)? != taints(old)? {
        return Err(Denial::forbidden(format!("node {name} is not allowed to modify taints")));
    }
    let owners = |node: &Object| read::part::<Vec<OwnerReference>>(node, &["metadata", "ownerReferences"]);
    if owners(new)? != owners(old)? {
        return Err(Denial::forbidden(format!("node {name} is not allowed to modify ownerReferences")));
    }
    let forbidden = forbidden_labels(&read::labels(new)?, &read::labels(old)?);
    match forbidden.is_empty() {
        true => Ok(()),
        false => Err(Denial::forbidden(format!("is not allowed to modify labels: {forbidden}"))),
    }
}

/// The configSource. An empty string counts as missing.
fn config_source(node: &Object) -> Result<Option<NodeConfigSource>, Denial> {
    let source: Option<NodeConfigSource> = read::part(node, &["spec", "configSource"])?;
    let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    let plain = |map: ConfigMapNodeConfigSource| ConfigMapNodeConfigSource {
        resource_version: given(map.resource_version),
        uid: given(map.uid),
        ..map
    };
    Ok(source.map(|source| NodeConfigSource { config_map: source.config_map.map(plain) }))
}

/// The taints. An empty string counts as missing.
fn taints(node: &Object) -> Result<Vec<Taint>, Denial> {
    let taints: Vec<Taint> = read::part(node, &["spec", "taints"])?;
    let plain = |taint: Taint| Taint { value: taint.value.filter(|value| !value.is_empty()), ..taint };
    Ok(taints.into_iter().map(plain).collect())
}

/// The added, removed and changed labels that a kubelet may not set, sorted (`getForbiddenLabels`).
fn forbidden_labels(new: &BTreeMap<String, String>, old: &BTreeMap<String, String>) -> String {
    let added = new.iter().filter(|(key, value)| old.get(*key) != Some(*value)).map(|(key, _)| key.as_str());
    let removed = old.keys().filter(|key| !new.contains_key(*key)).map(String::as_str);
    let mut forbidden: Vec<&str> = added.chain(removed).filter(|key| !is_free(key)).collect();
    forbidden.sort_unstable();
    forbidden.join(", ")
}

/// Whether a kubelet may set the label to any value.
fn is_free(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let is_in = |parent: &str| domain.strip_suffix(parent).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    if is_in("node-restriction.kubernetes.io") {
        return false;
    }
    let is_kubernetes = is_in("kubernetes.io") || is_in("k8s.io");
    !is_kubernetes || KUBELET_LABELS.contains(&key) || KUBELET_DOMAINS.into_iter().any(is_in)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_free_outside_of_kubernetes_domains_and_where_kubelets_are_at_home() {
        let table = [
            ("plain", true),
            ("example.com/x", true),
            ("notkubernetes.io/x", true),
            ("kubernetes.io.example.com/x", true),
            ("kubernetes.io/hostname", true),
            ("kubernetes.io/os", true),
            ("beta.kubernetes.io/arch", true),
            ("topology.kubernetes.io/zone", true),
            ("node.kubernetes.io/anything", true),
            ("a.node.kubernetes.io/anything", true),
            ("b.kubelet.kubernetes.io/anything", true),
            ("kubernetes.io/other", false),
            ("k8s.io/other", false),
            ("a.k8s.io/other", false),
            ("node-role.kubernetes.io/master", false),
            ("topology.kubernetes.io/other", false),
            ("node-restriction.kubernetes.io/x", false),
            ("a.node-restriction.kubernetes.io/x", false),
            ("node-restriction.kubernetes.io.example.com/x", true),
            ("/kubernetes.io", true),
        ];
        for (key, free) in table {
            assert_eq!(is_free(key), free, "{key}");
        }
    }

    #[test]
    fn names_every_label_that_changed_and_may_not() {
        let labels = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect::<BTreeMap<_, _>>()
        };
        let old = labels(&[("k8s.io/gone", ""), ("k8s.io/kept", "1"), ("k8s.io/changed", "1"), ("free", "1")]);
        let new = labels(&[("a.k8s.io/new", ""), ("k8s.io/kept", "1"), ("k8s.io/changed", "2")]);
        assert_eq!(forbidden_labels(&new, &old), "a.k8s.io/new, k8s.io/changed, k8s.io/gone");
    }
}
