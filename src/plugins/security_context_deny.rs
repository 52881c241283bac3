//! SecurityContextDeny: refuses pods that set fields of the security context.
//!
//! A plugin that Kubernetes removed; it decides as in Kubernetes 1.29.

use crate::admission::{Operations, Phases, Plugin, Removed, Resources, Spec};
use async_trait::async_trait;

/// The plugin's facts.
pub static SPEC: Spec = Spec {
    name: "SecurityContextDeny",
    default_on: false,
    phases: Phases::Validating,
    operations: Operations::CREATE.or(Operations::UPDATE),
    resources: Resources::Only(&[("", "pods", "")]),
    needs: &[],
    configuration: None,
    removed: Some(Removed { since: "1.0", until: "1.29", successor: "PodSecurity" }),
    about: "Refuses pods that set fields of the security context.",
    build: |_| Ok(Box::new(SecurityContextDeny)),
};

struct SecurityContextDeny;

#[async_trait]
impl Plugin for SecurityContextDeny {}
