//! Defaults of volumes: of pods, and of persistent volumes, which share some sources.

use super::container::field_reference;
use super::core::claim_spec;
use super::fields::{Fields, each, embedded, if_nil, if_zero, pointer};
use super::image;
use serde_json::Value;

const MODE: i32 = 0o644;

/// `SetDefaults_Volume` and the defaults of nested values.
pub(super) fn apply(volume: &mut Fields) {
    if volume.keys().all(|name| name == "name") {
        volume.insert("emptyDir".to_owned(), Value::Object(Fields::new()));
        return;
    }
    if let Some(image) = pointer(volume, "image") {
        image::default_pull_policy(image, "reference", "pullPolicy");
    }
    for name in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = pointer(volume, name) {
            if_nil(source, "defaultMode", MODE);
        }
    }
    if let Some(source) = pointer(volume, "downwardAPI") {
        each(source, "items").for_each(field_reference);
    }
    if let Some(projected) = pointer(volume, "projected") {
        each(projected, "sources").for_each(projection);
    }
    if let Some(ephemeral) = pointer(volume, "ephemeral")
        && let Some(template) = pointer(ephemeral, "volumeClaimTemplate")
        && let Some(spec) = embedded(template, "spec")
    {
        claim_spec(spec);
    }
    source(volume);
}

fn projection(source: &mut Fields) {
    if let Some(downward) = pointer(source, "downwardAPI") {
        each(downward, "items").for_each(field_reference);
    }
    if let Some(token) = pointer(source, "serviceAccountToken") {
        if_nil(token, "expirationSeconds", 3600);
    }
}

/// Defaults of the sources that pods and persistent volumes share.
pub(super) fn source(volume: &mut Fields) {
    if let Some(host_path) = pointer(volume, "hostPath") {
        if_nil(host_path, "type", "");
    }
    if let Some(disk) = pointer(volume, "azureDisk") {
        if_nil(disk, "cachingMode", "ReadWrite");
        if_nil(disk, "fsType", "ext4");
        if_nil(disk, "readOnly", false);
        if_nil(disk, "kind", "Shared");
    }
    for (name, settings) in [
        ("iscsi", &[("iscsiInterface", "default")][..]),
        ("rbd", &[("pool", "rbd"), ("user", "admin"), ("keyring", "/etc/ceph/keyring")]),
        ("scaleIO", &[("storageMode", "ThinProvisioned"), ("fsType", "xfs")]),
    ] {
        if let Some(source) = pointer(volume, name) {
            settings.iter().for_each(|(name, value)| if_zero(source, name, *value));
        }
    }
}
