//! StorageClasses, VolumeAttachments, VolumeAttributesClasses and the kinds of CSI (`pkg/apis/storage/validation`).

use super::claim::volume_spec;
use super::formats::{qualified_name, subdomain, subdomain_text};
use super::metadata;
use super::node::{Causes, IMMUTABLE, Node, internal, is_equal, is_equal_map};
use super::resources;
use super::selector::{is_invalid, label_key, label_selector};
use super::volume_source::csi_driver;
use crate::names::qualified_name_errors;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

const MAX_PARAMETERS: usize = 512;
const MAX_PARAMETER_BYTES: usize = 256 << 10;

fn metadata(object: &Node<'_>, old: Option<&Node<'_>>, out: &mut Causes) {
    match old {
        Some(old) => metadata::check_update(object, old, out),
        None => metadata::check(object, false, subdomain, out),
    }
}

/// `validateProvisioner`
fn provisioner(node: &Node<'_>, out: &mut Causes) {
    if out.require(node) {
        let name = node.text().to_lowercase();
        let errors = qualified_name_errors(&name);
        out.texts(&node.with(&Value::from(name)), errors);
    }
}

/// `validateParameters`
fn parameters(node: &Node<'_>, may_be_empty: bool, out: &mut Causes) {
    if node.len() > MAX_PARAMETERS {
        return out.too_long(node, MAX_PARAMETERS);
    }
    let mut bytes = 0;
    for (key, value) in node.entries() {
        if key.is_empty() {
            out.invalid(node, "\"\"", "field can not be empty.");
        }
        bytes += key.len() + value.len();
    }
    if bytes > MAX_PARAMETER_BYTES {
        out.too_long(node, MAX_PARAMETER_BYTES);
    }
    if !may_be_empty && node.is_empty() {
        out.required(node, "must contain at least one key/value pair");
    }
}

/// `ValidateStorageClass`, `ValidateStorageClassUpdate`
pub(super) fn storage_class(object: &Node<'_>, old: Option<&Node<'_>>, out: &mut Causes) {
    metadata::check(object, false, subdomain, out);
    provisioner(&object.at("provisioner"), out);
    parameters(&object.at("parameters"), true, out);
    let (policy, mode) = (object.at("reclaimPolicy"), object.at("volumeBindingMode"));
    if !policy.is_empty() {
        out.one_of(&policy, &["Delete", "Retain"]);
    }
    if mode.is_given() {
        out.one_of(&mode, &["Immediate", "WaitForFirstConsumer"]);
    } else {
        out.required(&mode, "");
    }
    topologies(&object.at("allowedTopologies"), out);
    let Some(old) = old else { return };
    metadata::check_update(object, old, out);
    if !is_equal_map(object.at("parameters").value(), old.at("parameters").value()) {
        out.value(&object.at("parameters"), IMMUTABLE);
    }
    out.immutable_text(&object.at("provisioner"), &old.at("provisioner"));
    out.immutable(&object.at("reclaimPolicy"), &old.at("reclaimPolicy"));
    out.immutable(&object.at("volumeBindingMode"), &old.at("volumeBindingMode"));
}

/// `validateAllowedTopologies`
fn topologies(terms: &Node<'_>, out: &mut Causes) {
    // The number of terms with these keys and values.
    let mut all: HashMap<BTreeMap<&str, BTreeSet<&str>>, usize> = HashMap::new();
    for term in terms.items() {
        let mut known: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for expression in term.at("matchLabelExpressions").items() {
            let (key, values) = (expression.at("key"), expression.at("values"));
            out.require(&values);
            let mut unique = BTreeSet::new();
            for value in values.items() {
                if !unique.insert(value.text()) {
                    out.duplicate(&value);
                }
            }
            label_key(&key, out);
            if known.insert(key.text(), unique).is_some() {
                out.duplicate(&key);
            }
        }
        // kube-apiserver compares a term with one empty term for each term, too.
        let empty = if known.is_empty() { terms.len() } else { 0 };
        let same = all.entry(known).or_default();
        out.repeat(empty + *same, |out| out.duplicate_of(&term.at("matchLabelExpressions"), "\"\""));
        *same += 1;
    }
}

/// `ValidateVolumeAttachment`, `ValidateVolumeAttachmentUpdate`
pub(super) fn attachment(object: &Node<'_>, old: Option<&Node<'_>>, subresource: &str, out: &mut Causes) {
    metadata::check(object, false, subdomain, out);
    let (spec, status) = (object.at("spec"), object.at("status"));
    csi_driver(&spec.at("attacher"), out);
    let (inline, name) = (spec.under(&["source", "inlineVolumeSpec"]), spec.under(&["source", "persistentVolumeName"]));
    const ONE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (inline.is_given(), name.is_given()) {
        (false, false) => out.required(&spec.at("source"), ONE),
        (true, true) => out.forbidden(&spec.at("source"), ONE),
        (false, true) => {
            if name.is_empty() {
                out.required(&name, "must specify non empty persistentVolumeName");
            }
        }
        (true, false) => volume_spec(&inline, "", true, None, out),
    }
    subdomain_text(&spec.at("nodeName"), out);
    let bytes: usize = status.at("attachmentMetadata").entries().map(|(key, value)| key.len() + value.len()).sum();
    if bytes > MAX_PARAMETER_BYTES {
        out.too_long(&status.at("attachmentMetadata"), MAX_PARAMETER_BYTES);
    }
    for error in ["attachError", "detachError"].map(|field| status.at(field)) {
        if error.at("message").len() > 1024 {
            out.too_long(&error.at("message"), MAX_PARAMETER_BYTES);
        }
        if error.at("errorCode").int() < 0 {
            out.in_range(&error.at("errorCode"), 0, i64::from(i32::MAX));
        }
    }
    if name.is_given() {
        subdomain_text(&name, out);
    }
    let Some(old) = old.filter(|_| subresource != "status") else { return };
    if !is_equal(spec.value(), old.at("spec").value()) {
        let shown = internal(
            &spec,
            "Attacher:attacher Source:source{PersistentVolumeName:persistentVolumeName? InlineVolumeSpec:inlineVolumeSpec?} NodeName:nodeName",
        );
        out.invalid(&spec, shown, IMMUTABLE);
    }
}

/// `ValidateCSINode`, `ValidateCSINodeUpdate`
pub(super) fn csi_node(object: &Node<'_>, old: Option<&Node<'_>>, out: &mut Causes) {
    metadata::check(object, false, subdomain, out);
    let drivers = object.under(&["spec", "drivers"]);
    let mut names = HashSet::new();
    for driver in drivers.items() {
        let (name, id) = (driver.at("name"), driver.at("nodeID"));
        csi_driver(&name, out);
        out.require(&id);
        if id.len() > 256 {
            out.text(&id, "must be 256 characters or less");
        }
        out.non_negative(&driver.at("allocatable").at("count"));
        if !names.insert(name.text()) {
            out.duplicate(&name);
        }
        let mut keys = HashSet::new();
        for key in driver.at("topologyKeys").items().map(|key| key.on(&driver)) {
            out.require(&key);
            if !keys.insert(key.text()) {
                out.duplicate(&key);
            }
            qualified_name(&key, out);
        }
    }
    let Some(old) = old else { return };
    let rest = |driver: &Node<'_>| {
        let mut fields = driver.value().as_object().cloned().unwrap_or_default();
        fields.remove("allocatable");
        Value::Object(fields)
    };
    for before in old.under(&["spec", "drivers"]).items() {
        for driver in drivers.items().filter(|driver| driver.at("name").text() == before.at("name").text()) {
            let rest_of_driver = rest(&driver);
            if !is_equal(&rest_of_driver, &rest(&before)) {
                let form = "Name:name NodeID:nodeID TopologyKeys:topologyKeys? Allocatable:allocatable?";
                out.invalid(&drivers, internal(&drivers.with(&rest_of_driver), form), IMMUTABLE);
            }
        }
    }
}

/// `ValidateCSIDriver`, `ValidateCSIDriverUpdate`
pub(super) fn driver(object: &Node<'_>, old: Option<&Node<'_>>, out: &mut Causes) {
    metadata(object, old, out);
    let spec = object.at("spec");
    for (field, shown) in [
        ("attachRequired", "attachedRequired"),
        ("podInfoOnMount", "podInfoOnMount"),
        ("storageCapacity", "storageCapacity"),
        ("seLinuxMount", "seLinuxMount"),
    ] {
        if !spec.at(field).is_given() {
            out.required(&spec.at(shown), "");
        }
    }
    out.one_of_if_given(&spec.at("fsGroupPolicy"), &["File", "None", "ReadWriteOnceWithFSType"]);
    let requests = spec.at("tokenRequests");
    let mut audiences = HashSet::new();
    for request in requests.items() {
        let seconds = request.at("expirationSeconds");
        if !audiences.insert(request.at("audience").text()) {
            out.duplicate(&request.at("audience"));
            continue;
        }
        if seconds.is_given() && seconds.int() < 600 {
            out.int(&seconds, "may not specify a duration less than 10 minutes");
        }
        if seconds.int() > 1 << 32 {
            out.int(&seconds, "may not specify a duration larger than 2^32 seconds");
        }
    }
    let modes = spec.at("volumeLifecycleModes");
    for mode in modes.items() {
        out.one_of(&mode.on(&modes), &["Persistent", "Ephemeral"]);
    }
    let period = spec.at("nodeAllocatableUpdatePeriodSeconds");
    if period.is_given() && period.int() < 10 {
        out.int(&period, "must be greater than or equal to 10 seconds");
    }
    let in_secrets = spec.at("serviceAccountTokenInSecrets");
    if in_secrets.is_given() && requests.is_empty() {
        out.value(&in_secrets, "serviceAccountTokenInSecrets is set but no tokenRequests are specified");
    }
    let Some(old) = old.map(|old| old.at("spec")) else { return };
    let attach = spec.at("attachRequired").named(&spec, "attachedRequired");
    out.immutable(&attach, &old.at("attachRequired"));
    out.immutable(&modes, &old.at("volumeLifecycleModes"));
}

/// `ValidateCSIStorageCapacity`, `ValidateCSIStorageCapacityUpdate`
pub(super) fn capacity(object: &Node<'_>, old: Option<&Node<'_>>, out: &mut Causes) {
    let (topology, class) = (object.at("nodeTopology"), object.at("storageClassName"));
    metadata::check(object, true, subdomain, out);
    let allows_any_value = old.is_some_and(|old| is_invalid(&old.at("nodeTopology")));
    label_selector(&topology, allows_any_value, out);
    subdomain_text(&class, out);
    if object.at("capacity").is_given() {
        resources::non_negative(&object.at("capacity"), out);
    }
    if let Some(old) = old {
        metadata::check_update(object, old, out);
        out.immutable(&topology, &old.at("nodeTopology"));
        out.immutable_text(&class, &old.at("storageClassName"));
    }
}

/// `ValidateVolumeAttributesClass`, `ValidateVolumeAttributesClassUpdate`
pub(super) fn attributes_class(object: &Node<'_>, old: Option<&Node<'_>>, out: &mut Causes) {
    if let Some(old) = old {
        metadata::check_update(object, old, out);
        if object.at("driverName").text() != old.at("driverName").text() {
            out.forbidden(&object.at("driverName"), "updates to driverName are forbidden.");
        }
        if !is_equal_map(object.at("parameters").value(), old.at("parameters").value()) {
            out.forbidden(&object.at("parameters"), "updates to parameters are forbidden.");
        }
    }
    metadata::check(object, false, subdomain, out);
    provisioner(&object.at("driverName"), out);
    parameters(&object.at("parameters"), false, out);
}
