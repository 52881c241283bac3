//! InitialResources: sets resource requests of containers from past usage.
//!
//! A plugin that Kubernetes removed; it decides as in Kubernetes 1.10.

use crate::admission::{Operations, Phases, Plugin, Removed, Resources, Spec};
use async_trait::async_trait;

/// The plugin's facts.
pub static SPEC: Spec = Spec {
    name: "InitialResources",
    default_on: false,
    phases: Phases::Mutating,
    operations: Operations::CREATE,
    resources: Resources::Only(&[("", "pods", "")]),
    needs: &[],
    configuration: None,
    removed: Some(Removed { since: "1.1", until: "1.10", successor: "the VerticalPodAutoscaler, which is no plugin" }),
    about: "Sets resource requests of containers from past usage.",
    build: |_| Ok(Box::new(InitialResources)),
};

struct InitialResources;

#[async_trait]
impl Plugin for InitialResources {}
