//! Volumes may be of a few types that give no access to the node or to storage of other tenants.

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

/// All others, in the order in which they are looked for.
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
    // A volume of no type becomes an emptyDir (`SetDefaults_Volume`); what this version does not know may be anything.
    known.or_else(|| volume.has_others_than("name").then_some("unknown"))
}
