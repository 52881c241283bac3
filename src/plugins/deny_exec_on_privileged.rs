//! DenyExecOnPrivileged: refuses exec and attach to pods with a privileged container.
//!
//! A plugin that Kubernetes removed; it decides as in Kubernetes 1.20.

use super::deny_escalating_exec::{check_privileged, live_pod};
use crate::admission::{Attributes, Denial, FrontEndSupport, Operations, Phases, Plugin, Removed, Resources, Spec};
use crate::cluster::Cluster;
use async_trait::async_trait;
use std::sync::Arc;

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "DenyExecOnPrivileged",
    default_on: false,
    phases: Phases::Validating,
    operations: Operations::CONNECT,
    resources: Resources::Only(&[("", "pods", "exec"), ("", "pods", "attach")]),
    needs: &[],
    configuration: None,
    removed: Some(Removed { since: "1.0", until: "1.20", successor: "DenyEscalatingExec, later PodSecurity" }),
    front_end: FrontEndSupport::Full,
    about: "Refuses exec and attach to pods with a privileged container.",
    build: |environment| Ok(Box::new(DenyExecOnPrivileged(environment.cluster.clone()))),
};

struct DenyExecOnPrivileged(Arc<Cluster>);

#[async_trait]
impl Plugin for DenyExecOnPrivileged {
    async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        check_privileged(&live_pod(&self.0, attributes).await?.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::deny_escalating_exec::tests::{container, forbidden, refusal};
    use serde_json::{Value, json};

    async fn refused(spec: Option<Value>) -> Option<(u16, String)> {
        refusal(|cluster| Box::new(DenyExecOnPrivileged(cluster)), spec).await
    }

    #[tokio::test]
    async fn a_privileged_container_is_refused() {
        let want = forbidden("cannot exec into or attach to a privileged container");
        let privileged = || container(json!(true));
        let regular = json!({"containers": [{"name": "a"}, privileged()]});
        let init = json!({"initContainers": [privileged()], "containers": []});
        assert_eq!(refused(Some(regular)).await, want);
        assert_eq!(refused(Some(init)).await, want);
    }

    #[tokio::test]
    async fn host_namespaces_are_free() {
        let spec = json!({"hostNetwork": true, "hostPID": true, "hostIPC": true,
            "containers": [container(json!(false)), container(json!(null)), {"name": "c"}]});
        assert_eq!(refused(Some(spec)).await, None);
    }

    #[tokio::test]
    async fn a_missing_pod_is_a_refusal() {
        assert_eq!(refused(None).await, forbidden("pods \"p\" not found"));
    }
}
