//! Only volume types without access to the node or to other tenants' storage are allowed.

use super::{Violation, texts};
use crate::plugins::pod_security::pod::{Fields, Pod};
use crate::plugins::rules::pod::WrongType;
use std::collections::BTreeSet;

const ALLOWED: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// All other types, in the order of the search.
const FORBIDDEN: [&str; 21] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

pub(super) fn check(pod: &Pod<'_>) -> Result<Option<Violation>, WrongType> {
    let mut bad = Vec::new();
    let mut kinds = BTreeSet::new();
    for volume in pod.spec.objects("volumes")? {
        let volume = volume?;
        if let Some(kind) = forbidden_type(volume) {
            bad.push(volume.text("name")?);
            kinds.insert(kind);
        }
    }
    Ok((!bad.is_empty()).then(|| Violation {
        reason: "restricted volume types",
        detail: format!(
            "{} {} {} {} {}",
            texts::pluralize("volume", "volumes", bad.len()),
            texts::join_quoted(&bad),
            texts::pluralize("uses", "use", bad.len()),
            texts::pluralize("restricted volume type", "restricted volume types", kinds.len()),
            texts::join_quoted(&kinds),
        ),
    }))
}

fn forbidden_type(volume: Fields<'_>) -> Option<&'static str> {
    if ALLOWED.iter().any(|kind| volume.has(kind)) {
        return None;
    }
    let known = FORBIDDEN.iter().find(|kind| volume.has(kind)).copied();
    // A volume without a type becomes an emptyDir (`SetDefaults_Volume`). An unknown type may be any volume, and so is forbidden.
    known.or_else(|| volume.has_others_than("name").then_some("unknown"))
}
