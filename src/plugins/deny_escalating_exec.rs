//! DenyEscalatingExec: refuses exec and attach to pods that are privileged or share a namespace of the host.
//!
//! A plugin that Kubernetes removed; it decides as in Kubernetes 1.20.

use crate::admission::{Operations, Phases, Plugin, Removed, Resources, Spec};
use async_trait::async_trait;

/// The plugin's facts.
pub static SPEC: Spec = Spec {
    name: "DenyEscalatingExec",
    default_on: false,
    phases: Phases::Validating,
    operations: Operations::CONNECT,
    resources: Resources::Only(&[("", "pods", "exec"), ("", "pods", "attach")]),
    needs: &[],
    configuration: None,
    removed: Some(Removed { since: "1.1", until: "1.20", successor: "PodSecurity, or RBAC for pods/exec" }),
    about: "Refuses exec and attach to pods that are privileged or share a namespace of the host.",
    build: |_| Ok(Box::new(DenyEscalatingExec)),
};

struct DenyEscalatingExec;

#[async_trait]
impl Plugin for DenyEscalatingExec {}
