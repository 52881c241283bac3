//! Validates the fields of volume sources (`core/validation` of Kubernetes 1.19).

use super::super::environment;
use crate::object::quantity::Quantity;
use crate::removed::validation::causes::{Causes, go_slice};
use crate::removed::validation::{given, integer, items, names, paths, structure, text, texts};
use serde_json::Value;
use std::collections::HashSet;

/// The fields of a pod that a file may have as its content, in order.
const POD_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

/// Requires strings in these fields.
pub(super) fn required(source: &Value, fields: &[&str], path: &str, causes: &mut Causes) {
    for field in fields.iter().filter(|field| text(source, field).is_empty()) {
        causes.required(format!("{path}.{field}"), "");
    }
}

/// Requires a list of Ceph's monitors (`validateCephFSVolumeSource`).
pub(super) fn monitors(source: &Value, path: &str, causes: &mut Causes) {
    if items(source, "monitors").is_empty() {
        causes.required(format!("{path}.monitors"), "");
    }
}

/// `validateRBDVolumeSource`
pub(super) fn ceph_image(source: &Value, path: &str, causes: &mut Causes) {
    monitors(source, path, causes);
    required(source, &["image"], path, causes);
}

/// Validates an optional mode of files.
fn mode(source: &Value, field: &str, path: &str, causes: &mut Causes) {
    if let Some(mode) = integer(source, field).filter(|mode| !(0..=0o777).contains(mode)) {
        let why = "must be a number between 0 and 0777 (octal), both inclusive";
        causes.invalid_value(format!("{path}.{field}"), mode, why);
    }
}

pub(super) fn empty_directory(source: &Value, path: &str, causes: &mut Causes) {
    if Quantity::of(source.get("sizeLimit")).is_negative() {
        causes.forbidden(format!("{path}.sizeLimit"), "SizeLimit field must be a valid resource quantity");
    }
}

/// `validateHostPathVolumeSource`
pub(super) fn host_path(source: &Value, path: &str, causes: &mut Causes) {
    const TYPES: [&str; 8] =
        ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    let field = format!("{path}.path");
    match text(source, "path") {
        "" => return causes.required(field, ""),
        host_path => paths::without_backsteps(host_path, &field, causes),
    }
    if let Some(value) = given(source, "type") {
        causes.one_of(format!("{path}.type"), value, &TYPES);
    }
}

/// `validateGitRepoVolumeSource`
pub(super) fn git_repository(source: &Value, path: &str, causes: &mut Causes) {
    required(source, &["repository"], path, causes);
    paths::descending(text(source, "directory"), &format!("{path}.directory"), causes);
}

/// `validateGCEPersistentDiskVolumeSource`, `validateAWSElasticBlockStoreVolumeSource`
pub(super) fn disk(source: &Value, name: &str, path: &str, causes: &mut Causes) {
    required(source, &[name], path, causes);
    if let Some(partition) = integer(source, "partition").filter(|number| !(0..=255).contains(number)) {
        // The text differs from the rule: 0 is valid.
        causes.invalid_value(format!("{path}.partition"), partition, "must be between 1 and 255, inclusive");
    }
}

/// Validates a source of files from a Secret or a ConfigMap, which this field names (`validateSecretVolumeSource`,
/// `validateConfigMapVolumeSource`).
pub(super) fn object(source: &Value, name: &str, path: &str, causes: &mut Causes) {
    required(source, &[name], path, causes);
    mode(source, "defaultMode", path, causes);
    for (index, item) in items(source, "items").iter().enumerate() {
        key_to_path(item, &format!("{path}.items[{index}]"), causes);
    }
}

/// `validateKeyToPath`
fn key_to_path(item: &Value, path: &str, causes: &mut Causes) {
    required(item, &["key", "path"], path, causes);
    paths::non_reserved(text(item, "path"), &format!("{path}.path"), causes);
    mode(item, "mode", path, causes);
}

/// `validateNFSVolumeSource`
pub(super) fn nfs(source: &Value, path: &str, causes: &mut Causes) {
    required(source, &["server", "path"], path, causes);
    let exported = text(source, "path");
    if !exported.starts_with('/') {
        causes.invalid(format!("{path}.path"), exported, "must be an absolute path");
    }
}

/// `validateFlockerVolumeSource`
pub(super) fn flocker(source: &Value, path: &str, causes: &mut Causes) {
    let (name, uuid) = (text(source, "datasetName"), text(source, "datasetUUID"));
    match (name, uuid) {
        ("", "") => causes.required(path, "one of datasetName and datasetUUID is required"),
        ("", _) | (_, "") => {}
        _ => causes.invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously"),
    }
    if name.contains('/') {
        causes.invalid(format!("{path}.datasetName"), name, "must not contain '/'");
    }
}

/// `validateCinderVolumeSource`
pub(super) fn cinder(source: &Value, path: &str, causes: &mut Causes) {
    required(source, &["volumeID"], path, causes);
    if let Some(secret) = structure(source, "secretRef") {
        required(secret, &["name"], &format!("{path}.secretRef"), causes);
    }
}

/// `validateDownwardAPIVolumeSource`. The errors of files have the path of the source.
pub(super) fn downward_api(source: &Value, path: &str, causes: &mut Causes) {
    mode(source, "defaultMode", path, causes);
    for file in items(source, "items") {
        downward_api_file(file, path, causes);
    }
}

/// `validateDownwardAPIVolumeFile`
fn downward_api_file(file: &Value, path: &str, causes: &mut Causes) {
    required(file, &["path"], path, causes);
    paths::non_reserved(text(file, "path"), &format!("{path}.path"), causes);
    match (structure(file, "fieldRef"), structure(file, "resourceFieldRef")) {
        (None, None) => causes.required(path, "one of fieldRef and resourceFieldRef is required"),
        (None, Some(resource)) => {
            environment::container_resource(resource, true, &format!("{path}.resourceFieldRef"), causes);
        }
        (Some(field), resource) => {
            environment::pod_field(field, &POD_FIELDS, &format!("{path}.fieldRef"), causes);
            if resource.is_some() {
                causes.invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously");
            }
        }
    }
    mode(file, "mode", path, causes);
}

/// `validateFCVolumeSource`
pub(super) fn fibre_channel(source: &Value, path: &str, causes: &mut Causes) {
    let (targets, ids) = (texts(source, "targetWWNs"), texts(source, "wwids"));
    let field = format!("{path}.targetWWNs");
    if targets.is_empty() && ids.is_empty() {
        causes.required(field, "must specify either targetWWNs or wwids, but not both");
    } else if !targets.is_empty() && !ids.is_empty() {
        let why = "targetWWNs and wwids can not be specified simultaneously";
        causes.invalid_value(field, go_slice("string", &targets), why);
    }
    if targets.is_empty() {
        return;
    }
    match integer(source, "lun") {
        None => causes.required(format!("{path}.lun"), "lun is required if targetWWNs is specified"),
        Some(0..=255) => {}
        Some(lun) => causes.invalid_value(format!("{path}.lun"), lun, "must be between 0 and 255, inclusive"),
    }
}

/// `validateFlexVolumeSource`
pub(super) fn flex_volume(source: &Value, path: &str, causes: &mut Causes) {
    required(source, &["driver"], path, causes);
    for option in source.get("options").and_then(Value::as_object).into_iter().flat_map(|options| options.keys()) {
        let namespace = option.split_once('/').map_or(option.as_str(), |(namespace, _)| namespace);
        let domain = format!(".{}", namespace.to_lowercase());
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            let why = "kubernetes.io and k8s.io namespaces are reserved";
            causes.invalid(format!("{path}.options[{option}]"), option, why);
        }
    }
}

/// `validateCSIVolumeSource`. One of kube-apiserver's paths has a space, another lacks the reference.
pub(super) fn csi(source: &Value, path: &str, causes: &mut Causes) {
    names::csi_driver(text(source, "driver"), &format!("{path}.driver"), names::subdomain_errors, causes);
    match structure(source, "nodePublishSecretRef").map(|secret| text(secret, "name")) {
        None => {}
        Some("") => causes.required(format!("{path}.nodePublishSecretRef .name"), ""),
        Some(name) => causes.invalid_each(&format!("{path}.name"), name, names::subdomain_errors(name.as_bytes())),
    }
}

/// `validateProjectedVolumeSource`
pub(super) fn projected(source: &Value, path: &str, causes: &mut Causes) {
    mode(source, "defaultMode", path, causes);
    let mut seen = HashSet::new();
    for (index, projection) in items(source, "sources").iter().enumerate() {
        let field = format!("{path}.sources[{index}]");
        let mut count = 0;
        for name in ["secret", "configMap"] {
            let Some(object) = structure(projection, name) else { continue };
            count += 1;
            projected_object(object, &format!("{field}.{name}"), path, &mut seen, causes);
        }
        if let Some(files) = structure(projection, "downwardAPI") {
            count += 1;
            for file in items(files, "items") {
                downward_api_file(file, &format!("{field}.downwardAPI"), causes);
                let file = text(file, "path");
                if !file.is_empty() && !seen.insert(file) {
                    causes.invalid(path, file, "conflicting duplicate paths");
                }
            }
        }
        if let Some(token) = structure(projection, "serviceAccountToken") {
            count += 1;
            projected_token(token, &format!("{field}.serviceAccountToken"), path, causes);
        }
        if count > 1 {
            causes.forbidden(field, "may not specify more than 1 volume type");
        }
    }
}

/// Validates the projection of a Secret or a ConfigMap. The errors of equal paths have the path of the volume's source.
fn projected_object<'a>(
    object: &'a Value,
    field: &str,
    source: &str,
    seen: &mut HashSet<&'a str>,
    causes: &mut Causes,
) {
    required(object, &["name"], field, causes);
    for (index, item) in items(object, "items").iter().enumerate() {
        key_to_path(item, &format!("{field}.items[{index}]"), causes);
        let file = text(item, "path");
        if !file.is_empty() && !seen.insert(file) {
            causes.invalid(source, text(object, "name"), "conflicting duplicate paths");
        }
    }
}

/// Validates the projection of a token. A missing expiration has the default of an hour; the error of a missing path has the path of the
/// volume's source.
fn projected_token(token: &Value, field: &str, source: &str, causes: &mut Causes) {
    if let Some(seconds) = integer(token, "expirationSeconds") {
        let field = format!("{field}.expirationSeconds");
        if seconds < 10 * 60 {
            causes.invalid_value(&field, seconds, "may not specify a duration less than 10 minutes");
        }
        if seconds > 1 << 32 {
            causes.invalid_value(field, seconds, "may not specify a duration larger than 2^32 seconds");
        }
    }
    required(token, &["path"], source, causes);
}
