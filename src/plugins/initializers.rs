//! Initializers: keeps new objects hidden until the initializers of InitializerConfigurations have acted.
//!
//! A plugin that Kubernetes removed; it decides as in Kubernetes 1.13.

use crate::admission::{Operations, Phases, Plugin, Removed, Resources, Spec};
use async_trait::async_trait;

/// The plugin's facts.
pub static SPEC: Spec = Spec {
    name: "Initializers",
    default_on: false,
    phases: Phases::Mutating,
    operations: Operations::CREATE.or(Operations::UPDATE),
    resources: Resources::All,
    needs: &[],
    configuration: None,
    removed: Some(Removed { since: "1.7", until: "1.13", successor: "MutatingAdmissionWebhook" }),
    about: "Keeps new objects hidden until the initializers of InitializerConfigurations have acted.",
    build: |_| Ok(Box::new(Initializers)),
};

struct Initializers;

#[async_trait]
impl Plugin for Initializers {}
