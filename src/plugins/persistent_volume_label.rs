//! PersistentVolumeLabel: adds zone and region to the labels and the node affinity of PersistentVolumes.
//!
//! A plugin that Kubernetes removed; it decides as in Kubernetes 1.30.

use crate::admission::{Operations, Phases, Plugin, Removed, Resources, Spec};
use async_trait::async_trait;

/// The plugin's facts.
pub static SPEC: Spec = Spec {
    name: "PersistentVolumeLabel",
    default_on: false,
    phases: Phases::Mutating,
    operations: Operations::CREATE,
    resources: Resources::Only(&[("", "persistentvolumes", "")]),
    needs: &[],
    configuration: None,
    removed: Some(Removed { since: "1.2", until: "1.30", successor: "the cloud controller manager" }),
    about: "Adds zone and region to the labels and the node affinity of PersistentVolumes.",
    build: |_| Ok(Box::new(PersistentVolumeLabel)),
};

struct PersistentVolumeLabel;

#[async_trait]
impl Plugin for PersistentVolumeLabel {}
