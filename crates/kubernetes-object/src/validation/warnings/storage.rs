//! Volumes, claims and classes, and the selectors of nodes.

use super::{Warnings, deprecated_label, fraction};
use crate::names::label_value_errors;
use crate::validation::node::{Node, is_equal};

/// The sources of volumes that do nothing any more: the field, and the releases in which they were deprecated and ended.
const REMOVED_SOURCES: [(&str, &str); 6] = [
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// `warningsForPersistentVolumeSpecAndMeta`
pub(super) fn volume(object: &Node<'_>, out: &mut Warnings) {
    let annotations = object.under(&["metadata", "annotations"]);
    for (key, why) in [
        (
            "volume.beta.kubernetes.io/storage-class",
            "deprecated since v1.8; use \"storageClassName\" attribute instead",
        ),
        ("volume.beta.kubernetes.io/mount-options", "deprecated since v1.31; use \"mountOptions\" attribute instead"),
    ] {
        let annotation = annotations.key(key);
        if annotation.is_given() {
            out.of(&annotation, why);
        }
    }
    let spec = object.at("spec");
    let policy = spec.at("persistentVolumeReclaimPolicy");
    if policy.text() == "Recycle" {
        let why = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.";
        out.of(&policy, why);
    }
    for term in spec.under(&["nodeAffinity", "required", "nodeSelectorTerms"]).items() {
        node_term(&term, false, out);
    }
    for (field, why) in REMOVED_SOURCES {
        let source = spec.at(field);
        if source.is_given() {
            // The Go field of one source has another name than its JSON.
            let shown = if field == "storageos" { source.renamed("storageOS") } else { source };
            out.of(&shown, why);
        }
    }
}

/// `GetWarningsForPersistentVolumeClaim`
pub(super) fn claim(object: &Node<'_>, out: &mut Warnings) {
    let annotation = object.under(&["metadata", "annotations"]).key("volume.beta.kubernetes.io/storage-class");
    if annotation.is_given() {
        out.of(&annotation, "deprecated since v1.8; use \"storageClassName\" attribute instead");
    }
    claim_spec(&object.at("spec"), out);
}

/// `GetWarningsForPersistentVolumeClaimSpec`
pub(super) fn claim_spec(spec: &Node<'_>, out: &mut Warnings) {
    for amounts in ["requests", "limits"] {
        fraction(&spec.at("resources").at(amounts), "storage", out);
    }
}

/// `GetWarningsForNodeSelectorTerm`
pub(super) fn node_term(term: &Node<'_>, with_values: bool, out: &mut Warnings) {
    for expression in term.at("matchExpressions").items() {
        let key = expression.at("key");
        if let Some(why) = deprecated_label(key.text()) {
            out.of(&key, format_args!("{} is {why}", key.text()));
        }
        if !with_values || out.is_full() {
            continue;
        }
        for value in expression.at("values").items() {
            for why in label_value_errors(value.text()) {
                out.of(&value, format_args!("{} is invalid, {why}", value.text()));
            }
        }
    }
}

/// `GetWarningsForRuntimeClass`
pub(super) fn runtime_class(object: &Node<'_>, out: &mut Warnings) {
    let selector = object.under(&["scheduling", "nodeSelector"]);
    for why in selector.entries().filter_map(|(label, _)| deprecated_label(label)) {
        out.of(&selector, why);
    }
}

/// `GetWarningsForStorageClass`
pub(super) fn storage_class(object: &Node<'_>, out: &mut Warnings) {
    for topology in object.at("allowedTopologies").items() {
        for expression in topology.at("matchLabelExpressions").items() {
            let key = expression.at("key");
            if let Some(why) = deprecated_label(key.text()) {
                out.of(&key, why);
            }
        }
    }
}

/// `GetWarningsForCSIStorageCapacity`
pub(super) fn capacity(object: &Node<'_>, out: &mut Warnings) {
    let topology = object.at("nodeTopology");
    node_term(&topology, false, out);
    let labels = topology.at("matchLabels");
    for (label, value) in labels.entries() {
        if let Some(why) = deprecated_label(label) {
            // The label is a field of the path here, and no key.
            out.of(&value.named(&labels, label.to_owned()), why);
        }
    }
}

/// `csiDriverStrategy.WarningsOnCreate`
pub(super) fn driver(object: &Node<'_>, old: Option<&Node<'_>>, out: &mut Warnings) {
    let requests = |object: &Node<'_>| object.under(&["spec", "tokenRequests"]).value().clone();
    let is_same = old.is_some_and(|old| is_equal(&requests(old), &requests(object)));
    let in_secrets = object.under(&["spec", "serviceAccountTokenInSecrets"]);
    if !is_same && !object.under(&["spec", "tokenRequests"]).is_empty() && !in_secrets.is_given() {
        let why = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of \
                   tokens in volume attributes";
        out.add(why.to_owned());
    }
}
