//! Volumes of pods (`ValidateVolumes`).

use super::super::certificate::signer_name;
use super::super::claim;
use super::super::formats::{label_text, subdomain, subdomain_text};
use super::super::metadata::{annotations, template as template_metadata};
use super::super::node::{Causes, Node, internal};
use super::super::resources;
use super::super::volume_source as source;
use super::{Scope, file_mode, object_field};
use crate::go_text::go_quote;
use crate::quantity::Quantity;
use std::collections::{BTreeMap, BTreeSet, HashSet};

const MANY: &str = "may not specify more than 1 volume type";
const FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
const KEY_TYPES: [&str; 6] = ["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];

/// The valid volumes by their names.
pub(super) type Volumes<'v> = BTreeMap<&'v str, Node<'v>>;

/// The errors of the volumes; returns those without errors.
pub(super) fn check<'v>(volumes: &Node<'v>, scope: &Scope<'_>, out: &mut Causes) -> Volumes<'v> {
    let mut valid = Volumes::new();
    let created: HashSet<String> = match scope.pod_name {
        Some(pod) if !pod.is_empty() => {
            let ephemeral = volumes.items().filter(|volume| volume.at("ephemeral").is_given());
            ephemeral.map(|volume| format!("{pod}-{}", volume.at("name").text())).collect()
        }
        _ => HashSet::new(),
    };
    for volume in volumes.items() {
        let mut found = Causes::default();
        check_source(&volume, scope, &mut found);
        let name = volume.at("name");
        if found.require(&name) {
            label_text(&name, &mut found);
        }
        if valid.contains_key(name.text()) {
            found.duplicate(&name);
        }
        if found.is_empty() {
            valid.insert(name.text(), volume.clone());
        }
        out.append(found);
        let claim = volume.under(&["persistentVolumeClaim", "claimName"]);
        if claim.is_given() && created.contains(claim.text()) {
            out.text(&claim, "must not reference a PVC that gets created for an ephemeral volume");
        }
    }
    valid
}

/// A source of a volume: its field, the field that the error of a second source names, and its check.
type Source = (&'static str, &'static str, fn(&Node<'_>, &mut Causes));

const SOURCES: [Source; 28] = [
    ("emptyDir", "emptyDir", empty_dir),
    ("hostPath", "hostPath", source::host_path),
    ("gitRepo", "gitRepo", git_repo),
    ("gcePersistentDisk", "gcePersistentDisk", source::gce),
    ("awsElasticBlockStore", "awsElasticBlockStore", source::aws),
    ("secret", "secret", secret),
    ("nfs", "nfs", source::nfs),
    ("iscsi", "iscsi", source::iscsi),
    ("glusterfs", "glusterfs", source::glusterfs),
    ("flocker", "flocker", source::flocker),
    ("persistentVolumeClaim", "persistentVolumeClaim", claim_source),
    ("rbd", "rbd", source::rbd),
    ("cinder", "cinder", source::cinder),
    ("cephfs", "cephFS", source::cephfs),
    ("quobyte", "quobyte", source::quobyte),
    ("downwardAPI", "downwarAPI", downward_api),
    ("fc", "fc", source::fc),
    ("flexVolume", "flexVolume", source::flex),
    ("configMap", "configMap", config_map),
    ("azureFile", "azureFile", source::azure_file),
    ("vsphereVolume", "vsphereVolume", source::vsphere),
    ("photonPersistentDisk", "photonPersistentDisk", source::photon),
    ("portworxVolume", "portworxVolume", source::portworx),
    ("azureDisk", "azureDisk", source::azure_disk),
    ("storageos", "storageos", source::storage_os),
    ("projected", "projected", projected),
    ("scaleIO", "scaleIO", source::scale_io),
    ("csi", "csi", csi),
];

/// `validateVolumeSource`
fn check_source(volume: &Node<'_>, scope: &Scope<'_>, out: &mut Causes) {
    let mut has_one = false;
    let mut is_first = |node: &Node<'_>, name: &'static str, out: &mut Causes| {
        if std::mem::replace(&mut has_one, true) {
            out.forbidden(&node.named(volume, name), MANY);
            return false;
        }
        true
    };
    for (field, name, check) in SOURCES {
        let Some(node) = volume.at(field).given() else { continue };
        if is_first(&node, name, out) {
            check(&node, out);
        }
        if field == "iscsi" && node.at("initiatorName").is_given() {
            source::iscsi_length(&volume.at("name"), volume.at("name").text(), &node, out);
        }
    }
    if let Some(node) = volume.at("ephemeral").given()
        && is_first(&node, "ephemeral", out)
    {
        ephemeral(&node, out);
        if let Some(pod) = scope.pod_name.filter(|pod| !pod.is_empty() && !volume.at("name").is_empty()) {
            let claim = format!("{pod}-{}", volume.at("name").text());
            for why in subdomain(&claim, false) {
                out.text(&volume.at("name"), &format!("PVC name {}: {why}", go_quote(&claim)));
            }
        }
    }
    if let Some(node) = volume.at("image").given()
        && is_first(&node, "image", out)
    {
        if scope.is_pod && node.at("reference").is_empty() {
            out.required(&node.at("reference"), "");
        }
        out.required_one_of(&node.at("pullPolicy"), &["Always", "IfNotPresent", "Never"]);
    }
    if !has_one {
        out.required(volume, "must specify a volume type");
    }
}

fn empty_dir(node: &Node<'_>, out: &mut Causes) {
    if node.at("sizeLimit").quantity() < Quantity::whole(0) {
        out.forbidden(&node.at("sizeLimit"), "SizeLimit field must be a valid resource quantity");
    }
}

fn git_repo(node: &Node<'_>, out: &mut Causes) {
    out.require(&node.at("repository"));
    source::local_path(&node.at("directory"), out);
}

fn claim_source(node: &Node<'_>, out: &mut Causes) {
    out.require(&node.at("claimName"));
}

fn secret(node: &Node<'_>, out: &mut Causes) {
    out.require(&node.at("secretName"));
    file_mode(&node.at("defaultMode"), out);
    node.at("items").items().for_each(|item| key_to_path(&item, out));
}

fn config_map(node: &Node<'_>, out: &mut Causes) {
    out.require(&node.at("name"));
    file_mode(&node.at("defaultMode"), out);
    node.at("items").items().for_each(|item| key_to_path(&item, out));
}

/// `validateKeyToPath`
fn key_to_path(item: &Node<'_>, out: &mut Causes) {
    out.require(&item.at("key"));
    out.require(&item.at("path"));
    source::non_reserved_path(&item.at("path"), out);
    file_mode(&item.at("mode"), out);
}

fn downward_api(node: &Node<'_>, out: &mut Causes) {
    file_mode(&node.at("defaultMode"), out);
    // kube-apiserver names the volume rather than the item.
    node.at("items").items().for_each(|file| downward_file(&file, node, out));
}

/// `validateDownwardAPIVolumeFile`
fn downward_file(file: &Node<'_>, path: &Node<'_>, out: &mut Causes) {
    let file = file.on(path);
    out.require(&file.at("path"));
    source::non_reserved_path(&file.at("path"), out);
    let (field, resource) = (file.at("fieldRef"), file.at("resourceFieldRef"));
    if field.is_given() {
        object_field(&field, &FIELDS, out);
        if resource.is_given() {
            let why = "fieldRef and resourceFieldRef can not be specified simultaneously";
            out.invalid(&file, "\"resource\"", why);
        }
    } else if resource.is_given() {
        super::env::resource_field(&resource, true, out);
    } else {
        out.required(&file, "one of fieldRef and resourceFieldRef is required");
    }
    file_mode(&file.at("mode"), out);
}

/// `validateProjectedVolumeSource`
fn projected(node: &Node<'_>, out: &mut Causes) {
    file_mode(&node.at("defaultMode"), out);
    let mut paths: HashSet<&str> = HashSet::new();
    for source in node.at("sources").items() {
        let mut count = 0;
        for name in ["secret", "configMap"] {
            let Some(projection) = source.at(name).given() else { continue };
            count += 1;
            out.require(&projection.at("name"));
            for item in projection.at("items").items() {
                key_to_path(&item, out);
                let path = item.at("path").text();
                if !path.is_empty() && !paths.insert(path) {
                    out.text(&projection.at("name").on(node), "conflicting duplicate paths");
                }
            }
        }
        if let Some(projection) = source.at("downwardAPI").given() {
            count += 1;
            for file in projection.at("items").items() {
                downward_file(&file, &projection, out);
                unique_path(&file.at("path"), node, &mut paths, out);
            }
        }
        if let Some(projection) = source.at("serviceAccountToken").given() {
            count += 1;
            token(&projection, node, out);
        }
        if let Some(projection) = source.at("podCertificate").given() {
            count += 1;
            pod_certificate(&projection, node, &mut paths, out);
        }
        if count > 1 {
            out.forbidden(&source, "may not specify more than 1 volume type per source");
        }
    }
}

fn unique_path<'v>(path: &Node<'v>, volume: &Node<'_>, paths: &mut HashSet<&'v str>, out: &mut Causes) {
    if !path.is_empty() && !paths.insert(path.text()) {
        out.text(&path.on(volume), "conflicting duplicate paths");
    }
}

fn token(projection: &Node<'_>, volume: &Node<'_>, out: &mut Causes) {
    let seconds = projection.at("expirationSeconds");
    if seconds.int() < 600 {
        out.int(&seconds, "may not specify a duration less than 10 minutes");
    }
    if seconds.int() > 1 << 32 {
        out.int(&seconds, "may not specify a duration larger than 2^32 seconds");
    }
    let path = projection.at("path").named(volume, "path");
    if out.require(&path) {
        source::non_reserved_path(&path, out);
    }
}

fn pod_certificate<'v>(projection: &Node<'v>, volume: &Node<'_>, paths: &mut HashSet<&'v str>, out: &mut Causes) {
    signer_name(&projection.at("signerName"), out);
    annotations(&projection.at("userAnnotations"), out);
    out.one_of(&projection.at("keyType"), &KEY_TYPES);
    let seconds = projection.at("maxExpirationSeconds");
    if let Some(value) = seconds.optional_int() {
        if value < 3600 {
            out.int(&seconds, "if provided, maxExpirationSeconds must be >= 3600");
        }
        let is_kubernetes = projection.at("signerName").text().starts_with("kubernetes.io/");
        let most = if is_kubernetes { 86_400 } else { 7_862_400 };
        if value > most {
            out.int(&seconds, &format!("if provided, maxExpirationSeconds must be <= {most}"));
        }
    }
    let mut has_path = false;
    for field in ["credentialBundlePath", "keyPath", "certificateChainPath"] {
        let path = projection.at(field);
        if !path.is_empty() {
            has_path = true;
            source::non_reserved_path(&path, out);
            unique_path(&path, volume, paths, out);
        }
    }
    if !has_path {
        let why = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath";
        out.required(projection, why);
    }
}

fn csi(node: &Node<'_>, out: &mut Causes) {
    source::csi_driver(&node.at("driver"), out);
    let secret = node.at("nodePublishSecretRef");
    if secret.is_given() && out.require(&secret.at("name")) {
        out.texts(&secret.at("name").named(node, "name"), subdomain(secret.at("name").text(), false));
    }
}

/// `validateEphemeralVolumeSource`
fn ephemeral(node: &Node<'_>, out: &mut Causes) {
    let template = node.at("volumeClaimTemplate");
    if !template.is_given() {
        return out.required(&template, "");
    }
    template_metadata(&template.at("metadata"), out);
    claim::spec(&template.at("spec"), claim::Options::default(), out);
}

/// The errors of references to files of volumes (`validateFileKeyRefVolumes`).
pub(super) fn file_keys(spec: &Node<'_>, out: &mut Causes) {
    let volumes: BTreeMap<&str, Node<'_>> =
        spec.at("volumes").items().map(|volume| (volume.at("name").text(), volume)).collect();
    super::each_container(spec, |container| {
        for variable in container.at("env").items() {
            let reference = variable.under(&["valueFrom", "fileKeyRef"]);
            if !reference.is_given() {
                continue;
            }
            let name = reference.at("volumeName");
            match volumes.get(name.text()) {
                None => out.not_found(&name, ""),
                Some(volume) if !volume.at("emptyDir").is_given() => {
                    out.text(&name, "referenced volume must be of type emptyDir");
                }
                Some(_) => {}
            }
        }
    });
}

/// `ValidateVolumeMounts` and `ValidateVolumeDevices`
pub(super) fn mounts(container: &Node<'_>, volumes: &Volumes<'_>, out: &mut Causes) {
    let (mounts, devices) = (container.at("volumeMounts"), container.at("volumeDevices"));
    let (mount_names, mount_paths) = (texts_of(&mounts, "name"), texts_of(&mounts, "mountPath"));
    let (device_names, device_paths) = (texts_of(&devices, "name"), texts_of(&devices, "devicePath"));
    let mut paths = HashSet::new();
    for mount in mounts.items() {
        let (name, path) = (mount.at("name"), mount.at("mountPath"));
        out.require(&name);
        if !volumes.contains_key(name.text()) {
            out.not_found(&name, "");
        }
        out.require(&path);
        if !paths.insert(path.text()) {
            out.text(&path, "must be unique");
        }
        if device_names.contains(name.text()) {
            out.text(&name, "must not already exist in volumeDevices");
        }
        if device_paths.contains(path.text()) {
            out.text(&path, "must not already exist as a path in volumeDevices");
        }
        let (sub, expression) = (mount.at("subPath"), mount.at("subPathExpr"));
        if !sub.is_empty() {
            source::local_path(&sub.named(&mounts, "subPath"), out);
        }
        if !expression.is_empty() {
            if !sub.is_empty() {
                out.text(&expression, "subPathExpr and subPath are mutually exclusive");
            }
            source::local_path(&expression.named(&mounts, "subPathExpr"), out);
        }
        propagation(&mount, &mounts, container, out);
    }
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for device in devices.items() {
        let (name, path) = (device.at("name"), device.at("devicePath"));
        let volume = volumes.get(name.text());
        out.require(&name);
        if names.contains(name.text()) {
            out.text(&name, "must be unique");
        }
        match volume {
            None => out.not_found(&name, ""),
            Some(volume) if !volume.at("persistentVolumeClaim").is_given() && !volume.at("ephemeral").is_given() => {
                let why = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                out.text(&name, why);
            }
            Some(_) => {}
        }
        out.require(&path);
        if paths.contains(path.text()) {
            out.text(&path, "must be unique");
        }
        if path.text().split('/').any(|part| part == "..") {
            out.text(&path, "can not contain backsteps ('..')");
        } else {
            paths.insert(path.text());
        }
        if mount_names.contains(name.text()) {
            out.text(&name, "must not already exist in volumeMounts");
        }
        if mount_paths.contains(path.text()) {
            out.text(&path, "must not already exist as a path in volumeMounts");
        }
        if !name.is_empty() {
            names.insert(name.text());
        }
    }
}

/// The texts of a field of all items of a list.
fn texts_of<'v>(list: &Node<'v>, field: &'static str) -> HashSet<&'v str> {
    list.items().map(|item| item.at(field).text()).collect()
}

/// `validateMountPropagation` and `validateMountRecursiveReadOnly`. Their errors name the list rather than the mount.
fn propagation(mount: &Node<'_>, mounts: &Node<'_>, container: &Node<'_>, out: &mut Causes) {
    let propagation = mount.at("mountPropagation").named(mounts, "mountPropagation");
    if propagation.is_given() {
        out.one_of(&propagation, &["Bidirectional", "HostToContainer", "None"]);
        let is_privileged = container.under(&["securityContext", "privileged"]).is_true();
        if propagation.text() == "Bidirectional" && !is_privileged {
            out.forbidden(&propagation, "Bidirectional mount propagation is available only to privileged containers");
        }
    }
    let recursive = mount.at("recursiveReadOnly").named(mounts, "recursiveReadOnly");
    match recursive.optional_text() {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if !mount.at("readOnly").is_true() {
                out.forbidden(&recursive, "may only be specified when readOnly is true");
            }
            if propagation.optional_text().is_some_and(|propagation| propagation != "None") {
                out.forbidden(&recursive, "may only be specified when mountPropagation is None or not specified");
            }
        }
        Some(_) => drop(out.one_of(&recursive, &["Disabled", "Enabled", "IfPossible"])),
    }
}

/// The errors of requests for resources of claims that are no pod's (`validatePodResourceClaims`).
pub(super) fn resource_claims<'v>(claims: &Node<'v>, out: &mut Causes) -> BTreeSet<&'v str> {
    const FORM: &str =
        "Name:name ResourceClaimName:resourceClaimName? ResourceClaimTemplateName:resourceClaimTemplateName?";
    let mut names = BTreeSet::new();
    for claim in claims.items() {
        let name = claim.at("name");
        if out.require(&name) {
            if names.insert(name.text()) {
                label_text(&name, out);
            } else {
                out.duplicate(&name);
            }
        }
        let (direct, template) = (claim.at("resourceClaimName"), claim.at("resourceClaimTemplateName"));
        let shown = || internal(&claim, FORM);
        match (direct.is_given(), template.is_given()) {
            (true, true) => {
                let why = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
                out.invalid(&claim, shown(), why);
            }
            (false, false) => {
                out.invalid(&claim, shown(), "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`");
            }
            _ => {}
        }
        for reference in [direct, template].iter().filter(|reference| reference.is_given()) {
            subdomain_text(reference, out);
        }
    }
    names
}

/// `ValidateContainerResourceRequirements`
pub(super) fn container_resources(node: &Node<'_>, claims: &BTreeSet<&str>, out: &mut Causes) {
    resources::requirements(node, resources::container_resource_name, claims, out);
}
