//! DenyEscalatingExec: refuses exec and attach to pods that are privileged or share a namespace of the host.
//!
//! A plugin that Kubernetes removed; it decides as in Kubernetes 1.20.

use crate::admission::{Attributes, Denial, FrontEndSupport, Operations, Phases, Plugin, Removed, Resources, Spec};
use crate::cluster::{Cluster, WholePod};
use crate::object::Object;
use crate::status::Status;
use async_trait::async_trait;
use serde_json::Value;
use std::sync::Arc;

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "DenyEscalatingExec",
    default_on: false,
    phases: Phases::Validating,
    operations: Operations::CONNECT,
    resources: Resources::Only(&[("", "pods", "exec"), ("", "pods", "attach")]),
    needs: &[],
    configuration: None,
    removed: Some(Removed { since: "1.1", until: "1.20", successor: "PodSecurity, or RBAC for pods/exec" }),
    front_end: FrontEndSupport::Full,
    about: "Refuses exec and attach to pods that are privileged or share a namespace of the host.",
    build: |environment| Ok(Box::new(DenyEscalatingExec(environment.cluster.clone()))),
};

/// The fields that share a namespace of the host, in the order of the checks, and the words of the error.
const HOST_NAMESPACES: [(&str, &str); 3] =
    [("hostNetwork", "host network"), ("hostPID", "host pid"), ("hostIPC", "host ipc")];

struct DenyEscalatingExec(Arc<Cluster>);

#[async_trait]
impl Plugin for DenyEscalatingExec {
    async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        let pod = live_pod(&self.0, attributes).await?;
        let is_shared = |field: &str| pod.0.get(&["spec", field]) == Some(&Value::Bool(true));
        if let Some((_, words)) = HOST_NAMESPACES.iter().find(|(field, _)| is_shared(field)) {
            return Err(Denial::forbidden(format!("cannot exec into or attach to a container using {words}")));
        }
        check_privileged(&pod.0)
    }
}

/// Reads the pod of the request from the API server. A cache may lack a pod that was created a moment ago.
///
/// # Errors
/// If the pod does not exist or cannot be read; both are refusals.
pub(super) async fn live_pod(cluster: &Cluster, attributes: &Attributes) -> Result<Arc<WholePod>, Denial> {
    let Attributes { namespace, name, .. } = attributes;
    let found = cluster.find_live::<WholePod>(namespace, name).await;
    match found.and_then(|pod| pod.ok_or_else(|| Status::not_found("", "pods", name))) {
        Ok(pod) => Ok(pod),
        // `admission.NewForbidden` does not wrap a refusal in a refusal.
        Err(status) if status.reason == "Forbidden" => Err(status.into()),
        Err(status) => Err(Denial::forbidden(status.message)),
    }
}

/// Checks that no container of the pod is privileged. As in Kubernetes, ephemeral containers do not count.
///
/// # Errors
/// If a container is privileged.
pub(super) fn check_privileged(pod: &Object) -> Result<(), Denial> {
    let lists = [["spec", "initContainers"], ["spec", "containers"]];
    let is_privileged =
        |container: &Value| container.pointer("/securityContext/privileged") == Some(&Value::Bool(true));
    if lists.iter().flat_map(|list| pod.items(list)).any(is_privileged) {
        return Err(Denial::forbidden("cannot exec into or attach to a privileged container"));
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::admission::Operation;
    use crate::cluster::FixedState;
    use crate::plugins::checker::attributes;
    use serde_json::json;

    /// The code and message of the refusal of an exec into a pod with this spec; no pod exists without a spec.
    pub(in crate::plugins) async fn refusal(
        build: fn(Arc<Cluster>) -> Box<dyn Plugin>,
        spec: Option<Value>,
    ) -> Option<(u16, String)> {
        let pod = |spec: Value| json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec});
        let pods = spec.map(|spec| serde_json::from_value(pod(spec)).unwrap()).into_iter().collect();
        let plugin = build(Cluster::fixed(FixedState::default().live::<WholePod>(pods)));
        let mut refusals = Vec::new();
        for subresource in ["exec", "attach"] {
            let options = json!({"kind": "PodExecOptions", "stdout": true});
            let mut attributes = attributes(Operation::Connect, "", "pods", Some(options), None);
            attributes.name = "p".to_owned();
            attributes.namespace = "n".to_owned();
            attributes.subresource = subresource.to_owned();
            let denial = plugin.validate(&attributes).await.err();
            let status = denial.map(|denial| denial.into_status(&attributes));
            let details = |status: &Status| status.details.clone().map(|details| (details.name, details.kind));
            let named = |status: &Status| details(status) == Some(("p".to_owned(), "pods".to_owned()));
            assert!(status.as_ref().is_none_or(named));
            refusals.push(status.map(|status| (status.code, status.message)));
        }
        assert_eq!(refusals[0], refusals[1]);
        refusals.remove(0)
    }

    pub(in crate::plugins) fn forbidden(why: &str) -> Option<(u16, String)> {
        Some((403, format!("pods \"p\" is forbidden: {why}")))
    }

    pub(in crate::plugins) fn container(privileged: Value) -> Value {
        json!({"name": "c", "securityContext": {"privileged": privileged, "capabilities": {"add": ["SYS_ADMIN"]}}})
    }

    async fn refused(spec: Value) -> Option<(u16, String)> {
        refusal(|cluster| Box::new(DenyEscalatingExec(cluster)), Some(spec)).await
    }

    #[tokio::test]
    async fn host_namespaces_are_checked_in_order_before_privileged_containers() {
        let mut spec = json!({"hostNetwork": true, "hostPID": true, "hostIPC": true,
            "containers": [{"name": "a"}, container(json!(true))]});
        for (field, words) in HOST_NAMESPACES {
            let want = forbidden(&format!("cannot exec into or attach to a container using {words}"));
            assert_eq!(refused(spec.clone()).await, want);
            spec[field] = json!(false);
        }
        let want = forbidden("cannot exec into or attach to a privileged container");
        assert_eq!(refused(spec).await, want);
        assert_eq!(refused(json!({"initContainers": [container(json!(true))], "containers": []})).await, want);
    }

    #[tokio::test]
    async fn other_pods_are_free() {
        for spec in [
            json!({"containers": [{"name": "c"}, container(json!(false)), container(json!(null))]}),
            json!({"hostNetwork": false, "hostPID": false, "hostIPC": null, "containers": []}),
            json!({"ephemeralContainers": [container(json!(true))], "containers": []}),
        ] {
            assert_eq!(refused(spec).await, None);
        }
    }

    #[tokio::test]
    async fn a_missing_pod_is_a_refusal() {
        let refused = refusal(|cluster| Box::new(DenyEscalatingExec(cluster)), None).await;
        assert_eq!(refused, forbidden("pods \"p\" not found"));
    }

    #[test]
    fn only_exec_and_attach_are_checked() {
        for (subresource, handled) in [("exec", true), ("attach", true), ("portforward", false), ("proxy", false)] {
            let mut attributes = attributes(Operation::Connect, "", "pods", None, None);
            attributes.subresource = subresource.to_owned();
            assert_eq!(SPEC.handles(&attributes), handled, "{subresource}");
        }
    }
}
