//! PodSecurityPolicy: applies and enforces the PodSecurityPolicies that the user or the service account may use.
//!
//! A plugin that Kubernetes removed; it decides as in Kubernetes 1.24.

use crate::admission::{Operations, Phases, Plugin, Removed, Resources, Spec};
use async_trait::async_trait;

/// The plugin's facts.
pub static SPEC: Spec = Spec {
    name: "PodSecurityPolicy",
    default_on: false,
    phases: Phases::Both,
    operations: Operations::CREATE.or(Operations::UPDATE),
    resources: Resources::Only(&[("", "pods", "")]),
    needs: &[],
    configuration: None,
    removed: Some(Removed { since: "1.3", until: "1.24", successor: "PodSecurity" }),
    about: "Applies and enforces the PodSecurityPolicies that the user or the service account may use.",
    build: |_| Ok(Box::new(PodSecurityPolicy)),
};

struct PodSecurityPolicy;

#[async_trait]
impl Plugin for PodSecurityPolicy {}
