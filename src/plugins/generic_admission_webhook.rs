//! GenericAdmissionWebhook: asks the hooks of ExternalAdmissionHookConfigurations.
//!
//! A plugin that Kubernetes removed; it decides as in Kubernetes 1.8.

use crate::admission::{Operations, Phases, Plugin, Removed, Resources, Spec};
use async_trait::async_trait;

/// The plugin's facts.
pub static SPEC: Spec = Spec {
    name: "GenericAdmissionWebhook",
    default_on: false,
    phases: Phases::Mutating,
    operations: Operations::ALL,
    resources: Resources::All,
    needs: &[],
    configuration: None,
    removed: Some(Removed { since: "1.7", until: "1.8", successor: "ValidatingAdmissionWebhook" }),
    about: "Asks the hooks of ExternalAdmissionHookConfigurations.",
    build: |_| Ok(Box::new(GenericAdmissionWebhook)),
};

struct GenericAdmissionWebhook;

#[async_trait]
impl Plugin for GenericAdmissionWebhook {}
