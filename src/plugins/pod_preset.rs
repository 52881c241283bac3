//! PodPreset: adds the environment and volumes of matching PodPresets to pods.
//!
//! A plugin that Kubernetes removed; it decides as in Kubernetes 1.19.

use crate::admission::{Operations, Phases, Plugin, Removed, Resources, Spec};
use async_trait::async_trait;

/// The plugin's facts.
pub static SPEC: Spec = Spec {
    name: "PodPreset",
    default_on: false,
    phases: Phases::Mutating,
    operations: Operations::CREATE,
    resources: Resources::Only(&[("", "pods", "")]),
    needs: &[],
    configuration: None,
    removed: Some(Removed { since: "1.6", until: "1.19", successor: "MutatingAdmissionPolicy, or a mutating webhook" }),
    about: "Adds the environment and volumes of matching PodPresets to pods.",
    build: |_| Ok(Box::new(PodPreset)),
};

struct PodPreset;

#[async_trait]
impl Plugin for PodPreset {}
