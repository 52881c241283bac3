//! Validates volumes (`ValidateVolumes` of Kubernetes 1.19, without a pod).
//!
//! The fields of five sources are not validated: `iscsi`, `quobyte`, `azureDisk`, `storageos`, `ephemeral`. The rule for the name of a volume
//! with an iSCSI initiator is not applied either.

mod sources;

use crate::removed::validation::{Causes, names, structure, text};
use serde_json::Value;
use std::collections::HashSet;

/// A source of a volume.
struct Source {
    /// The field of the volume.
    field: &'static str,
    /// The field in the error of a second source.
    second: &'static str,
    /// The field in the errors of the source's fields.
    inner: &'static str,
    check: Check,
}

/// Validates the fields of a source at a path.
type Check = fn(&Value, &str, &mut Causes);

const fn source(field: &'static str, check: Check) -> Source {
    Source { field, second: field, inner: field, check }
}

/// The sources in the order of `validateVolumeSource`. Some of kube-apiserver's paths differ from the fields.
static SOURCES: [Source; 29] = [
    source("emptyDir", sources::empty_directory),
    source("hostPath", sources::host_path),
    source("gitRepo", sources::git_repository),
    Source {
        inner: "persistentDisk",
        ..source("gcePersistentDisk", |disk, path, causes| sources::disk(disk, "pdName", path, causes))
    },
    source("awsElasticBlockStore", |disk, path, causes| sources::disk(disk, "volumeID", path, causes)),
    source("secret", |source, path, causes| sources::object(source, "secretName", path, causes)),
    source("nfs", sources::nfs),
    source("iscsi", |_, _, _| {}),
    source("glusterfs", |source, path, causes| sources::required(source, &["endpoints", "path"], path, causes)),
    source("flocker", sources::flocker),
    source("persistentVolumeClaim", |source, path, causes| sources::required(source, &["claimName"], path, causes)),
    source("rbd", sources::ceph_image),
    source("cinder", sources::cinder),
    Source { second: "cephFS", ..source("cephfs", sources::monitors) },
    source("quobyte", |_, _, _| {}),
    Source { second: "downwarAPI", ..source("downwardAPI", sources::downward_api) },
    source("fc", sources::fibre_channel),
    source("flexVolume", sources::flex_volume),
    source("configMap", |source, path, causes| sources::object(source, "name", path, causes)),
    source("azureFile", |source, path, causes| sources::required(source, &["secretName", "shareName"], path, causes)),
    source("vsphereVolume", |source, path, causes| sources::required(source, &["volumePath"], path, causes)),
    source("photonPersistentDisk", |source, path, causes| sources::required(source, &["pdID"], path, causes)),
    source("portworxVolume", |source, path, causes| sources::required(source, &["volumeID"], path, causes)),
    source("azureDisk", |_, _, _| {}),
    source("storageos", |_, _, _| {}),
    source("projected", sources::projected),
    source("scaleIO", |source, path, causes| {
        sources::required(source, &["gateway", "system", "volumeName"], path, causes);
    }),
    source("csi", sources::csi),
    source("ephemeral", |_, _, _| {}),
];

/// Validates the volumes, and returns the names of the valid ones.
pub(super) fn check<'a>(volumes: &'a [Value], field: &str, causes: &mut Causes) -> HashSet<&'a str> {
    let mut valid = HashSet::new();
    for (index, volume) in volumes.iter().enumerate() {
        let (path, before) = (format!("{field}[{index}]"), causes.0.len());
        source_of(volume, &path, causes);
        let (name, field) = (text(volume, "name"), format!("{path}.name"));
        match name {
            "" => causes.required(&field, ""),
            name => causes.invalid_each(&field, name, names::label_errors(name)),
        }
        if valid.contains(name) {
            causes.duplicate(field, name);
        }
        if causes.0.len() == before {
            valid.insert(name);
        }
    }
    valid
}

/// `validateVolumeSource`
fn source_of(volume: &Value, path: &str, causes: &mut Causes) {
    let mut has_source = false;
    for source in &SOURCES {
        let Some(fields) = structure(volume, source.field) else { continue };
        match has_source {
            true => causes.forbidden(format!("{path}.{}", source.second), "may not specify more than 1 volume type"),
            false => (source.check)(fields, &format!("{path}.{}", source.inner), causes),
        }
        has_source = true;
    }
    if !has_source {
        causes.required(path, "must specify a volume type");
    }
}

#[cfg(test)]
mod tests;
