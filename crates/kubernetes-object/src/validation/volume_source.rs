//! Sources of volumes that pods and PersistentVolumes share.

use super::formats::{label_text, subdomain_text};
use super::node::{Causes, Node};
use crate::go_text::go_quote;
use crate::names::dns_1123_subdomain_errors;

/// `pdPartitionErrorMsg`
const PARTITION: &str = "must be between 1 and 255, inclusive";

/// `validatePathNoBacksteps`
pub(super) fn no_backsteps(path: &Node<'_>, out: &mut Causes) {
    if path.text().split('/').any(|part| part == "..") {
        out.text(path, "must not contain '..'");
    }
}

/// `validateLocalDescendingPath`
pub(super) fn local_path(path: &Node<'_>, out: &mut Causes) {
    if path.text().starts_with('/') {
        out.text(path, "must be a relative path");
    }
    no_backsteps(path, out);
}

/// `ValidateLocalNonReservedPath`
pub(super) fn non_reserved_path(path: &Node<'_>, out: &mut Causes) {
    local_path(path, out);
    if path.text().starts_with("..") && !path.text().starts_with("../") {
        out.text(path, "must not start with '..'");
    }
}

pub(super) fn host_path(node: &Node<'_>, out: &mut Causes) {
    if !out.require(&node.at("path")) {
        return;
    }
    no_backsteps(&node.at("path"), out);
    const TYPES: [&str; 8] =
        ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    out.one_of_if_given(&node.at("type"), &TYPES);
}

/// The error's path is that of the type in the internal version.
pub(super) fn gce(node: &Node<'_>, out: &mut Causes) {
    let node = node.renamed("persistentDisk");
    out.require(&node.at("pdName"));
    partition(&node, out);
}

pub(super) fn aws(node: &Node<'_>, out: &mut Causes) {
    out.require(&node.at("volumeID"));
    partition(node, out);
}

fn partition(node: &Node<'_>, out: &mut Causes) {
    if !(0..=255).contains(&node.at("partition").int()) {
        out.int(&node.at("partition"), PARTITION);
    }
}

pub(super) fn nfs(node: &Node<'_>, out: &mut Causes) {
    out.require(&node.at("server"));
    out.require(&node.at("path"));
    if !node.at("path").text().starts_with('/') {
        out.text(&node.at("path"), "must be an absolute path");
    }
}

/// Whether a name of an initiator has the form of its kind; `None` for unknown kinds.
fn initiator_form(name: &str) -> Option<bool> {
    let is_hex = |text: &str, lengths: &[usize]| {
        lengths.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    if name.starts_with("iqn") {
        // iqn\.\d{4}-\d{2}\.([[:alnum:]-.]+)(:[^,;*&$|\s]+)$
        let form = |name: &str| {
            let rest = name.strip_prefix("iqn.")?;
            let (date, rest) = rest.split_at_checked(8)?;
            let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
            let is_date =
                digits(date.get(..4)?) && date.get(4..5)? == "-" && digits(date.get(5..7)?) && date.ends_with('.');
            let (authority, name) = rest.split_once(':')?;
            let is_authority = !authority.is_empty()
                && authority.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
            let is_name = !name.is_empty() && !name.contains([',', ';', '*', '&', '$', '|', ' ', '\t', '\n', '\r']);
            Some(is_date && is_authority && is_name)
        };
        return Some(form(name).unwrap_or(false));
    }
    if name.starts_with("eui") {
        return Some(name.strip_prefix("eui.").is_some_and(|rest| is_hex(rest, &[16])));
    }
    if name.starts_with("naa") {
        return Some(name.strip_prefix("naa.").is_some_and(|rest| is_hex(rest, &[16, 32])));
    }
    None
}

pub(super) fn iscsi(node: &Node<'_>, out: &mut Causes) {
    iscsi_source(node, "must be valid format starting with iqn, eui, or naa", out);
}

/// `validateISCSIPersistentVolumeSource`, without the length of names.
pub(super) fn iscsi_persistent(node: &Node<'_>, out: &mut Causes) {
    iscsi_source(node, "must be valid format", out);
    let secret = node.at("secretRef");
    if secret.is_given() {
        out.require(&secret.at("name"));
    }
}

fn iscsi_source(node: &Node<'_>, unknown: &str, out: &mut Causes) {
    out.require(&node.at("targetPortal"));
    let name = node.at("iqn");
    if out.require(&name) {
        initiator(&name, unknown, out);
    }
    out.in_range(&node.at("lun"), 0, 255);
    let is_authenticated = node.at("chapAuthDiscovery").is_true() || node.at("chapAuthSession").is_true();
    if is_authenticated && !node.at("secretRef").is_given() {
        out.required(&node.at("secretRef"), "");
    }
    let name = node.at("initiatorName").named(node, "initiatorname");
    if name.is_given() {
        initiator(&name, unknown, out);
    }
}

fn initiator(name: &Node<'_>, unknown: &str, out: &mut Causes) {
    match initiator_form(name.text()) {
        Some(true) => {}
        Some(false) => out.text(name, "must be valid format"),
        None => out.text(name, unknown),
    }
}

/// The error of a volume whose name and portal are too long together.
pub(super) fn iscsi_length(node: &Node<'_>, name: &str, source: &Node<'_>, out: &mut Causes) {
    if name.len() + 1 + source.at("targetPortal").len() > 64 {
        let why = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is \
                   specified.";
        out.text(node, why);
    }
}

pub(super) fn glusterfs(node: &Node<'_>, out: &mut Causes) {
    out.require(&node.at("endpoints"));
    out.require(&node.at("path"));
}

pub(super) fn flocker(node: &Node<'_>, out: &mut Causes) {
    let (name, uuid) = (node.at("datasetName"), node.at("datasetUUID"));
    if name.is_empty() && uuid.is_empty() {
        out.required(node, "one of datasetName and datasetUUID is required");
    }
    if !name.is_empty() && !uuid.is_empty() {
        out.invalid(node, "\"resource\"", "datasetName and datasetUUID can not be specified simultaneously");
    }
    if name.text().contains('/') {
        out.text(&name, "must not contain '/'");
    }
}

pub(super) fn rbd(node: &Node<'_>, out: &mut Causes) {
    out.require(&node.at("monitors"));
    out.require(&node.at("image"));
}

pub(super) fn cinder(node: &Node<'_>, out: &mut Causes) {
    out.require(&node.at("volumeID"));
    if node.at("secretRef").is_given() {
        out.require(&node.at("secretRef").at("name"));
    }
}

pub(super) fn cinder_persistent(node: &Node<'_>, out: &mut Causes) {
    cinder(node, out);
    if node.at("secretRef").is_given() {
        out.require(&node.at("secretRef").at("namespace"));
    }
}

pub(super) fn cephfs(node: &Node<'_>, out: &mut Causes) {
    out.require(&node.at("monitors"));
}

pub(super) fn quobyte(node: &Node<'_>, out: &mut Causes) {
    const FORM: &str = "must be a host:port pair or multiple pairs separated by commas";
    let registry = node.at("registry");
    if registry.is_empty() {
        out.required(&registry, FORM);
    } else if node.at("tenant").len() >= 65 {
        out.required(&node.at("tenant"), "must be a UUID and may not exceed a length of 64 characters");
    } else {
        for pair in registry.text().split(',') {
            let is_pair = pair.rsplit_once(':').is_some_and(|(host, _)| {
                !host.contains(':') && !host.contains(['[', ']']) || (host.starts_with('[') && host.ends_with(']'))
            });
            if !is_pair {
                out.text(&registry, FORM);
            }
        }
    }
    out.require(&node.at("volume"));
}

pub(super) fn fc(node: &Node<'_>, out: &mut Causes) {
    let (names, ids, lun) = (node.at("targetWWNs"), node.at("wwids"), node.at("lun"));
    if names.is_empty() && ids.is_empty() {
        out.required(&names, "must specify either targetWWNs or wwids, but not both");
    }
    if names.is_empty() {
        return;
    }
    if !ids.is_empty() {
        out.value(&names, "targetWWNs and wwids can not be specified simultaneously");
    }
    if lun.is_given() {
        out.in_range(&lun, 0, 255);
    } else {
        out.required(&lun, "lun is required if targetWWNs is specified");
    }
}

pub(super) fn flex(node: &Node<'_>, out: &mut Causes) {
    out.require(&node.at("driver"));
    for (key, option) in node.at("options").entries() {
        let domain = key.split_once('/').map_or(key, |(domain, _)| domain);
        let domain = format!(".{}", domain.to_lowercase());
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            out.invalid(&option, go_quote(key), "kubernetes.io and k8s.io namespaces are reserved");
        }
    }
}

pub(super) fn azure_file(node: &Node<'_>, out: &mut Causes) {
    out.require(&node.at("secretName"));
    out.require(&node.at("shareName"));
}

pub(super) fn azure_file_persistent(node: &Node<'_>, out: &mut Causes) {
    azure_file(node, out);
    if node.at("secretNamespace").is_given() {
        out.require(&node.at("secretNamespace"));
    }
}

pub(super) fn azure_disk(node: &Node<'_>, out: &mut Causes) {
    const MANAGED: &str =
        "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
    const BLOB: &str = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
    let (uri, kind) = (node.at("diskURI"), node.at("kind"));
    out.require(&node.at("diskName"));
    out.require(&uri);
    out.one_of_if_given(&node.at("cachingMode"), &["None", "ReadOnly", "ReadWrite"]);
    out.one_of_if_given(&kind, &["Dedicated", "Managed", "Shared"]);
    let (prefix, form) = match kind.optional_text() {
        None => return,
        Some("Managed") => ("/subscriptions/", MANAGED),
        Some(_) => ("https://", BLOB),
    };
    if !uri.text().starts_with(prefix) {
        out.unsupported(&uri, go_quote(uri.text()), &[form]);
    }
}

pub(super) fn vsphere(node: &Node<'_>, out: &mut Causes) {
    out.require(&node.at("volumePath"));
}

pub(super) fn photon(node: &Node<'_>, out: &mut Causes) {
    out.require(&node.at("pdID"));
}

pub(super) fn portworx(node: &Node<'_>, out: &mut Causes) {
    out.require(&node.at("volumeID"));
}

pub(super) fn scale_io(node: &Node<'_>, out: &mut Causes) {
    for field in ["gateway", "system", "volumeName"] {
        out.require(&node.at(field));
    }
}

pub(super) fn storage_os(node: &Node<'_>, out: &mut Causes) {
    if out.require(&node.at("volumeName")) {
        label_text(&node.at("volumeName"), out);
    }
    if !node.at("volumeNamespace").is_empty() {
        label_text(&node.at("volumeNamespace"), out);
    }
    if node.at("secretRef").is_given() {
        out.require(&node.at("secretRef").at("name"));
    }
}

pub(super) fn storage_os_persistent(node: &Node<'_>, out: &mut Causes) {
    storage_os(node, out);
    if node.at("secretRef").is_given() {
        out.require(&node.at("secretRef").at("namespace"));
    }
}

/// `validateLocalVolumeSource`
pub(super) fn local(node: &Node<'_>, out: &mut Causes) {
    if out.require(&node.at("path")) {
        no_backsteps(&node.at("path"), out);
    }
}

/// `ValidateCSIDriverName`
pub(super) fn csi_driver(driver: &Node<'_>, out: &mut Causes) {
    if !out.require(driver) {
        return;
    }
    if driver.len() > 63 {
        out.too_long(driver, 63);
    }
    out.texts(driver, dns_1123_subdomain_errors(driver.text().to_lowercase()));
}

/// `validateCSIPersistentVolumeSource`
pub(super) fn csi_persistent(node: &Node<'_>, out: &mut Causes) {
    csi_driver(&node.at("driver"), out);
    out.require(&node.at("volumeHandle"));
    let secrets =
        ["controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef"];
    for secret in secrets.into_iter().filter_map(|field| node.at(field).given()) {
        if out.require(&secret.at("name")) {
            subdomain_text(&secret.at("name"), out);
        }
        if out.require(&secret.at("namespace")) {
            label_text(&secret.at("namespace"), out);
        }
    }
}
