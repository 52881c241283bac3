//! PersistentVolumes and claims of them.

use super::formats::{label, subdomain, subdomain_text};
use super::metadata;
use super::node::{Causes, IMMUTABLE, Node, internal, is_equal};
use super::resources;
use super::selector::{self, label_selector, node_selector};
use super::volume_source as source;
use crate::go_text::{go_quote, json::string};
use crate::names::{dns_1123_subdomain_errors, label_value_errors, qualified_name_errors};
use serde_json::Value;

const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// The invalid parts of the old claim that an update may keep.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Options {
    pub(super) allows_any_selector_value: bool,
    pub(super) allows_any_group: bool,
}

fn access_modes(modes: &Node<'_>, out: &mut Causes) {
    for mode in modes.items().filter(|mode| !MODES.contains(&mode.text())) {
        out.one_of(&mode.on(modes), &MODES);
    }
    let others = modes.texts().any(|mode| mode != "ReadWriteOncePod" && MODES.contains(&mode));
    if modes.has_text("ReadWriteOncePod") && others {
        out.forbidden(modes, "may not use ReadWriteOncePod with other access modes");
    }
}

/// `ValidatePersistentVolumeClaimSpec`
pub(super) fn spec(spec: &Node<'_>, options: Options, out: &mut Causes) {
    let modes = spec.at("accessModes");
    if modes.is_empty() {
        out.required(&modes, "at least 1 access mode is required");
    }
    if spec.at("selector").is_given() {
        label_selector(&spec.at("selector"), options.allows_any_selector_value, out);
    }
    access_modes(&modes, out);
    let node = spec.at("resources").key("storage");
    let storage = spec.under(&["resources", "requests"]).key("storage").on(&node);
    if !storage.is_given() {
        out.required(&storage, "");
    } else if resources::positive(&storage, out) {
        resources::quantity_value("storage", &storage, out);
    }
    for class in ["storageClassName", "volumeAttributesClassName"].map(|field| spec.at(field)) {
        if !class.is_empty() {
            subdomain_text(&class, out);
        }
    }
    out.one_of_if_given(&spec.at("volumeMode"), &["Block", "Filesystem"]);
    let (source, reference) = (spec.at("dataSource"), spec.at("dataSourceRef"));
    for each in [&source, &reference].into_iter().filter(|each| each.is_given()) {
        data_source(each, options, out);
    }
    let namespace = reference.at("namespace");
    if !namespace.is_empty() {
        out.texts(&namespace, label(namespace.text(), false));
    }
    if source.is_given() && reference.is_given() {
        let fields = ["apiGroup", "kind", "name"];
        // kube-apiserver shows a path, whose JSON is empty.
        if !namespace.is_empty() {
            out.invalid(spec, "{}", "may not be specified when dataSourceRef.namespace is specified");
        } else if fields.iter().any(|field| source.at(field).value() != reference.at(field).value()) {
            out.invalid(spec, "{}", "must match dataSourceRef");
        }
    }
}

fn data_source(source: &Node<'_>, options: Options, out: &mut Causes) {
    out.require(&source.at("name"));
    out.require(&source.at("kind"));
    let (group, kind) = (source.at("apiGroup"), source.at("kind"));
    if group.is_empty() {
        if kind.text() != "PersistentVolumeClaim" {
            out.text(&kind.on(source), "must be 'PersistentVolumeClaim' when referencing the default apiGroup");
        }
    } else if !options.allows_any_group {
        out.texts(&group, dns_1123_subdomain_errors(group.text()));
    }
}

/// `ValidatePersistentVolumeClaim` and its updates.
pub(super) fn claim(object: &Node<'_>, old: Option<&Node<'_>>, subresource: &str, out: &mut Causes) {
    let Some(old) = old else {
        metadata::check(object, true, subdomain, out);
        return spec(&object.at("spec"), Options::default(), out);
    };
    metadata::check_update(object, old, out);
    if subresource == "status" {
        return claim_status(object, out);
    }
    let old_spec = old.at("spec");
    let has_group = ["dataSource", "dataSourceRef"].iter().any(|field| old_spec.at(field).at("apiGroup").is_given());
    let options = Options {
        allows_any_selector_value: selector::is_invalid(&old_spec.at("selector")),
        allows_any_group: has_group,
    };
    metadata::check(object, true, subdomain, out);
    spec(&object.at("spec"), options, out);
    claim_update(object, old, out);
}

fn claim_update(object: &Node<'_>, old: &Node<'_>, out: &mut Causes) {
    let (spec, old_spec) = (object.at("spec"), old.at("spec"));
    let mut new = spec.value().as_object().cloned().unwrap_or_default();
    let mut before = old_spec.value().as_object().cloned().unwrap_or_default();
    if old_spec.at("volumeName").is_empty() {
        before.remove("volumeName");
        new.remove("volumeName");
    }
    let (class, old_class) = (spec.at("storageClassName"), old_spec.at("storageClassName"));
    let (own, old_own) = (class_annotation(object), class_annotation(old));
    let is_upgrade =
        !old_own.is_null() && !old_class.is_given() && class.value() == old_own && (own.is_null() || own == old_own);
    if is_upgrade {
        new.remove("storageClassName");
    } else {
        if own.as_str().unwrap_or_default() != old_own.as_str().unwrap_or_default() {
            let node = object.under(&["metadata", "annotations"]).at(STORAGE_CLASS).with(own);
            out.text(&node, IMMUTABLE);
        }
        let is_first = class.is_given() && !old_class.is_given();
        if is_first && (old_own.is_null() || class.value() == old_own) {
            new.remove("storageClassName");
        }
    }
    let is_bound = object.under(&["status", "phase"]).text() == "Bound";
    let storage = ["resources", "requests"];
    if is_bound {
        let old_storage = old_spec.under(&storage).key("storage").value().clone();
        let requests = new.get_mut("resources").and_then(|resources| resources.get_mut("requests"));
        if let Some(requests) = requests.and_then(Value::as_object_mut) {
            requests.insert("storage".to_owned(), old_storage);
        }
        new.remove("volumeAttributesClassName");
        before.remove("volumeAttributesClassName");
    }
    if !is_equal(&Value::Object(new), &Value::Object(before)) {
        let why =
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        out.forbidden(&spec, why);
    }
    let (size, old_size) = (spec.under(&storage).key("storage"), old_spec.under(&storage).key("storage"));
    let actual = old.under(&["status", "capacity"]).key("storage");
    if size.quantity() < old_size.quantity() && size.quantity() <= actual.quantity() {
        out.forbidden(&size.named(&spec.under(&storage), "storage"), "field can not be less than status.capacity");
    }
    mode(&spec, &old_spec, out);
    let (class, current) =
        (spec.at("volumeAttributesClassName"), old.under(&["status", "currentVolumeAttributesClassName"]));
    if class.value() != old_spec.at("volumeAttributesClassName").value() && current.is_given() {
        let what = match class.optional_text() {
            None => "nil",
            Some("") => "empty string",
            Some(_) => return,
        };
        let why = format!("update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil");
        out.forbidden(&class, &why);
    }
}

/// The annotation that named the class before there was a field.
fn class_annotation<'v>(object: &Node<'v>) -> &'v Value {
    object.under(&["metadata", "annotations"]).key(STORAGE_CLASS).value()
}

/// The error of a mode that changes. kube-apiserver names no `spec`.
fn mode(spec: &Node<'_>, old: &Node<'_>, out: &mut Causes) {
    let root = Node::root(&Value::Null);
    out.immutable(&spec.at("volumeMode").on(&root.at("volumeMode")), &old.at("volumeMode"));
}

/// `ValidatePersistentVolumeClaimStatusUpdate`
fn claim_status(object: &Node<'_>, out: &mut Causes) {
    const STATES: [&str; 5] = [
        "ControllerResizeInProgress",
        "ControllerResizeInfeasible",
        "NodeResizePending",
        "NodeResizeInProgress",
        "NodeResizeInfeasible",
    ];
    let status = object.at("status");
    if object.under(&["spec", "accessModes"]).is_empty() {
        out.required(&object.at("Spec").at("accessModes"), "");
    }
    status.at("capacity").entries().for_each(|(_, quantity)| resources::basic(&quantity, out));
    let states = status.at("allocatedResourceStatuses");
    for (name, state) in states.entries() {
        claim_resource(name, &states, out);
        if !STATES.contains(&state.text()) {
            let mut sorted = STATES;
            sorted.sort_unstable();
            out.unsupported(&states, go_quote(name), &sorted);
        }
    }
    let allocated = status.at("allocatedResources");
    for (name, quantity) in allocated.entries() {
        let before = out.len();
        claim_resource(name, &allocated, out);
        if out.len() == before {
            resources::basic(&quantity, out);
        }
    }
}

/// `validatePersistentVolumeClaimResourceKey`
fn claim_resource(name: &str, node: &Node<'_>, out: &mut Causes) {
    let errors = qualified_name_errors(name);
    errors.iter().for_each(|why| out.invalid(node, go_quote(name), why));
    if errors.is_empty() && resources::is_native(name) && name != "storage" {
        out.unsupported(node, go_quote(name), &["storage"]);
    }
}

/// A source of a PersistentVolume: its field, the field that the error of a second source names, and its check.
type Source = (&'static str, &'static str, fn(&Node<'_>, &mut Causes));

const SOURCES: [Source; 22] = [
    ("hostPath", "hostPath", source::host_path),
    ("gcePersistentDisk", "gcePersistentDisk", source::gce),
    ("awsElasticBlockStore", "awsElasticBlockStore", source::aws),
    ("glusterfs", "glusterfs", glusterfs),
    ("flocker", "flocker", source::flocker),
    ("nfs", "nfs", source::nfs),
    ("rbd", "rbd", source::rbd),
    ("quobyte", "quobyte", source::quobyte),
    ("cephfs", "cephFS", source::cephfs),
    ("iscsi", "iscsi", source::iscsi_persistent),
    ("cinder", "cinder", source::cinder_persistent),
    ("fc", "fc", source::fc),
    ("flexVolume", "flexVolume", source::flex),
    ("azureFile", "azureFile", source::azure_file_persistent),
    ("vsphereVolume", "vsphereVolume", source::vsphere),
    ("photonPersistentDisk", "photonPersistentDisk", source::photon),
    ("portworxVolume", "portworxVolume", source::portworx),
    ("azureDisk", "azureDisk", source::azure_disk),
    ("scaleIO", "scaleIO", source::scale_io),
    ("local", "local", source::local),
    ("storageos", "storageos", source::storage_os_persistent),
    ("csi", "csi", source::csi_persistent),
];

fn glusterfs(node: &Node<'_>, out: &mut Causes) {
    source::glusterfs(node, out);
    let namespace = node.at("endpointsNamespace");
    match namespace.optional_text() {
        None => {}
        Some("") => out.text(&namespace, "if the endpointnamespace is set, it must be a valid namespace name"),
        Some(text) => out.texts(&namespace, label(text, false)),
    }
}

/// `ValidatePersistentVolumeSpec`. The spec of a VolumeAttachment is inline.
pub(super) fn volume_spec(spec: &Node<'_>, name: &str, is_inline: bool, old: Option<&Node<'_>>, out: &mut Causes) {
    const INLINE: &str = "may not be specified in the context of inline volumes";
    let (capacity, affinity, csi) = (spec.at("capacity"), spec.at("nodeAffinity"), spec.at("csi"));
    if is_inline {
        if spec.at("claimRef").is_given() {
            out.forbidden(&spec.at("claimRef"), INLINE);
        }
        if !capacity.is_empty() {
            out.forbidden(&capacity, INLINE);
        }
        if !csi.is_given() {
            out.required(&csi, "has to be specified in the context of inline volumes");
        }
    }
    out.require(&spec.at("accessModes"));
    access_modes(&spec.at("accessModes"), out);
    let policy = spec.at("persistentVolumeReclaimPolicy");
    if is_inline {
        if !matches!(policy.text(), "" | "Retain") {
            out.forbidden(&policy, "may only be Retain in the context of inline volumes");
        }
        if affinity.is_given() {
            out.forbidden(&affinity, INLINE);
        }
    } else {
        volume_capacity(&capacity, out);
        if !policy.is_empty() {
            out.one_of(&policy, &["Delete", "Recycle", "Retain"]);
        }
        if affinity.is_given() {
            volume_affinity(&affinity, old, out);
        }
    }
    volume_source(spec, name, affinity.is_given() && !is_inline, out);
    if spec.under(&["hostPath", "path"]).text() == "/" && policy.text() == "Recycle" {
        out.forbidden(&policy, "may not be 'recycle' for a hostPath mount of '/'");
    }
    let (class, mode) = (spec.at("storageClassName"), spec.at("volumeMode"));
    if is_inline {
        if !class.is_empty() {
            out.forbidden(&class, INLINE);
        }
        if mode.is_given() && mode.text() != "Filesystem" {
            out.forbidden(&mode, "may not specify volumeMode other than Filesystem in the context of inline volumes");
        }
        return;
    }
    if !class.is_empty() {
        subdomain_text(&class, out);
    }
    out.one_of_if_given(&mode, &["Block", "Filesystem"]);
    let attributes = spec.at("volumeAttributesClassName");
    if attributes.is_given() {
        if attributes.is_empty() {
            out.required(&attributes, "an empty string is disallowed");
        } else {
            subdomain_text(&attributes, out);
        }
        if !csi.is_given() {
            out.required(&csi, "has to be specified when using volumeAttributesClassName");
        }
    }
}

fn volume_capacity(capacity: &Node<'_>, out: &mut Causes) {
    out.require(capacity);
    if capacity.len() > 1 || !capacity.key("storage").is_given() {
        let entries: Vec<_> = capacity
            .entries()
            .map(|(name, quantity)| format!("{}:{}", string(name), go_quote(&quantity.quantity_text())))
            .collect();
        let mut entries = entries;
        entries.sort_unstable();
        let shown = if capacity.is_given() { format!("{{{}}}", entries.join(",")) } else { "null".to_owned() };
        out.unsupported(capacity, shown, &["storage"]);
    }
    for (_, quantity) in capacity.entries() {
        resources::basic(&quantity, out);
        resources::positive(&quantity, out);
    }
}

fn volume_affinity(affinity: &Node<'_>, old: Option<&Node<'_>>, out: &mut Causes) {
    let required = affinity.at("required");
    if !required.is_given() {
        return out.required(&required, "must specify required node constraints");
    }
    let terms = old.map(|old| old.under(&["spec", "nodeAffinity", "required", "nodeSelectorTerms"]));
    let values = terms.iter().flat_map(Node::items).flat_map(|term| term.at("matchExpressions").items());
    let mut values = values.flat_map(|requirement| requirement.at("values").texts());
    let allows_any_value = values.any(|value| !label_value_errors(value).is_empty());
    node_selector(&required, allows_any_value, out);
}

fn volume_source(spec: &Node<'_>, name: &str, has_affinity: bool, out: &mut Causes) {
    let mut has_one = false;
    for (field, shown, check) in SOURCES {
        let Some(node) = spec.at(field).given() else { continue };
        let is_second = std::mem::replace(&mut has_one, true);
        // kube-apiserver accepts a flexVolume beside another source.
        if is_second && field != "flexVolume" {
            out.forbidden(&node.named(spec, shown), "may not specify more than 1 volume type");
            continue;
        }
        check(&node, out);
        if field == "iscsi" && node.at("initiatorName").is_given() {
            let portal = node.at("targetPortal").named(&node, "targetportal");
            source::iscsi_length(&portal, name, &node, out);
        }
        if field == "local" && !has_affinity {
            out.required(&spec.at("nodeAffinity"), "Local volume requires node affinity");
        }
    }
    if !has_one {
        out.required(spec, "must specify a volume type");
    }
}

/// `ValidatePersistentVolume` and its updates.
pub(super) fn volume(object: &Node<'_>, old: Option<&Node<'_>>, subresource: &str, out: &mut Causes) {
    if let (Some(old), "status") = (old, subresource) {
        return metadata::check_update(object, old, out);
    }
    metadata::check(object, false, subdomain, out);
    let (spec, name) = (object.at("spec"), object.under(&["metadata", "name"]).text());
    volume_spec(&spec, name, false, old, out);
    let Some(old) = old else { return };
    // kube-apiserver validates an updated volume twice.
    metadata::check(object, false, subdomain, out);
    volume_spec(&spec, name, false, Some(old), out);
    let old_spec = old.at("spec");
    let sources = |spec: &Node<'_>| -> Value {
        let given = SOURCES.iter().filter_map(|(field, _, _)| Some((*field, spec.at(field).given()?.value().clone())));
        Value::from_iter(given)
    };
    let (mut new, before) = (sources(&spec), sources(&old_spec));
    let secret = "controllerExpandSecretRef";
    if !old_spec.at("csi").at(secret).is_given()
        && let Some(csi) = new.get_mut("csi").and_then(Value::as_object_mut)
    {
        csi.remove(secret);
    }
    if !is_equal(&new, &before) {
        let why = "spec.persistentvolumesource is immutable after creation";
        out.forbidden(&spec.at("persistentvolumesource"), why);
    }
    mode(&spec, &old_spec, out);
    let (affinity, old_affinity) = (spec.at("nodeAffinity"), old_spec.at("nodeAffinity"));
    if old_affinity.is_given() && !is_equal(affinity.value(), old_affinity.value()) {
        const REQUIREMENT: &str = "Key:key Operator:operator Values:values?";
        let form = format!(
            "Required:required?{{NodeSelectorTerms:nodeSelectorTerms[MatchExpressions:matchExpressions[{REQUIREMENT}] \
             MatchFields:matchFields[{REQUIREMENT}]]}}"
        );
        let root = Node::root(&Value::Null);
        let why = "field is immutable, except for updating from beta label to GA";
        out.invalid(&root.at("nodeAffinity"), internal(&affinity, &form), why);
    }
    let class = spec.at("volumeAttributesClassName");
    if old_spec.at("volumeAttributesClassName").is_given() && !class.is_given() {
        out.forbidden(&class, "update from non-nil value to nil is forbidden");
    }
}
