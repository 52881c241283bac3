//! DenyExecOnPrivileged: refuses exec and attach to pods with a privileged container.
//!
//! A plugin that Kubernetes removed; it decides as in Kubernetes 1.20.

use crate::admission::{Operations, Phases, Plugin, Removed, Resources, Spec};
use async_trait::async_trait;

/// The plugin's facts.
pub static SPEC: Spec = Spec {
    name: "DenyExecOnPrivileged",
    default_on: false,
    phases: Phases::Validating,
    operations: Operations::CONNECT,
    resources: Resources::Only(&[("", "pods", "exec"), ("", "pods", "attach")]),
    needs: &[],
    configuration: None,
    removed: Some(Removed { since: "1.0", until: "1.20", successor: "DenyEscalatingExec, later PodSecurity" }),
    about: "Refuses exec and attach to pods with a privileged container.",
    build: |_| Ok(Box::new(DenyExecOnPrivileged)),
};

struct DenyExecOnPrivileged;

#[async_trait]
impl Plugin for DenyExecOnPrivileged {}
