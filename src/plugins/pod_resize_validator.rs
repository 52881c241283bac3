//! PodResizeValidator: a pod may be resized only if its node supports resizing and is large enough.

use crate::admission::{Attributes, Denial, FrontEndSupport, Operations, Phases, Plugin, Resources, Spec};
use crate::cluster::{Cluster, Need};
use crate::object::Object;
use crate::object::quantity::Quantity;
use crate::plugins::rules::resources::{ResourceList, pod_requests};
use crate::status::Cause;
use async_trait::async_trait;
use k8s_openapi::api::core::v1::Node;
use std::sync::Arc;

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "PodResizeValidator",
    default_on: true,
    phases: Phases::Validating,
    operations: Operations::UPDATE,
    resources: Resources::Only(&[("", "pods", "resize")]),
    needs: &[Need::NODES],
    configuration: None,
    removed: None,
    front_end: FrontEndSupport::Full,
    about: "Refuses to resize pods beyond the allocatable resources of their node.",
    build: |environment| {
        let is_on = environment.feature_gates.is_on("InPlacePodVerticalScaling");
        Ok(Box::new(PodResizeValidator { cluster: environment.cluster.clone(), is_on }))
    },
};

struct PodResizeValidator {
    cluster: Arc<Cluster>,
    is_on: bool,
}

#[async_trait]
impl Plugin for PodResizeValidator {
    async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        let (Some(pod), Some(old)) = (&attributes.object, &attributes.old_object) else { return Ok(()) };
        let name = pod.str(&["spec", "nodeName"]);
        // kube-apiserver compares the generation, which counts changes of the spec.
        if !self.is_on || name.is_empty() || pod.get(&["spec"]) == old.get(&["spec"]) {
            return Ok(());
        }
        if !self.cluster.wait_synced().await {
            return Err(Denial::forbidden("not yet ready to handle request"));
        }
        let node = self.cluster.find::<Node>("", name);
        let node = node.ok_or_else(|| Denial::forbidden(format!("node {name:?} not found")))?;
        let platform = node.metadata.labels.as_ref().and_then(|labels| labels.get("kubernetes.io/os"));
        if let Some(platform) = platform.filter(|platform| *platform != "linux") {
            let why = format!("pod resize is only supported on linux nodes, node {name:?} is {platform:?}");
            return Err(refused(attributes, &why, "UnsupportedPlatform"));
        }
        match excess(pod, &node) {
            excess if excess.is_empty() => Ok(()),
            excess => {
                let why = format!("node didn't have enough allocatable resources: {}", excess.join("; "));
                Err(refused(attributes, &why, "NodeCapacity"))
            }
        }
    }
}

/// The pod's requests in excess of the node's allocatable resources: CPU in thousandths, memory in bytes.
fn excess(pod: &Object, node: &Node) -> Vec<String> {
    let of_node = node.status.iter().flat_map(|status| status.allocatable.iter().flatten());
    let allocatable: ResourceList =
        of_node.filter_map(|(name, text)| Some((name.clone(), Quantity::parse(&text.0).ok()?))).collect();
    let requests = pod_requests(pod);
    let mut found = Vec::new();
    for name in ["cpu", "memory"] {
        let of = |list: &ResourceList| list.get(name).copied().unwrap_or(Quantity::ZERO);
        let (requested, allocatable) = (of(&requests), of(&allocatable));
        if requested > allocatable {
            let in_units = |one: Quantity| if name == "cpu" { one.milli_value() } else { one.value() };
            let (requested, allocatable) = (in_units(requested), in_units(allocatable));
            found.push(format!("{name}, requested: {requested}, allocatable: {allocatable}"));
        }
    }
    found
}

/// A 403 with a cause that has only a reason.
fn refused(attributes: &Attributes, why: &str, reason: &str) -> Denial {
    let mut status = Denial::forbidden(why).into_status(attributes);
    let cause = Cause { reason: reason.to_owned(), ..Cause::default() };
    status.details.get_or_insert_default().causes.push(cause);
    status.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::FixedState;
    use crate::plugins::checker::{Checked, check};
    use serde_json::{Value, json};

    async fn resized(node: &str, from: &str, to: &str) -> Checked {
        let known = |name: &str, labels: Value| {
            let allocatable = json!({"cpu": "2", "memory": "1Gi"});
            serde_json::from_value(
                json!({"metadata": {"name": name, "labels": labels}, "status": {"allocatable": allocatable}}),
            )
            .unwrap()
        };
        let nodes = vec![known("a", json!({})), known("w", json!({"kubernetes.io/os": "windows"}))];
        let plugin =
            PodResizeValidator { cluster: Cluster::fixed(FixedState::default().with::<Node>(nodes)), is_on: true };
        let pod = |cpu: &str| {
            let requests = json!({"requests": {"cpu": cpu, "memory": "1Gi"}});
            json!({"metadata": {"name": "p"}, "spec": {"nodeName": node, "containers": [{"name": "c", "resources": requests}]}})
        };
        check(&plugin).validating().subresource("resize").update("", "pods", pod(from), pod(to)).await
    }

    #[tokio::test]
    async fn a_pod_grows_within_its_node() {
        resized("a", "1", "2").await.stays_unchanged();
        resized("", "1", "3").await.stays_unchanged();
        resized("a", "3", "3").await.stays_unchanged();
        let status = resized("a", "1", "3").await.was_refused(
            403,
            "pods \"p\" is forbidden: node didn't have enough allocatable resources: cpu, requested: 3000, allocatable: 2000",
        );
        assert_eq!(status.details.unwrap().causes[0].reason, "NodeCapacity");
    }

    #[tokio::test]
    async fn a_node_must_be_there_and_run_linux() {
        resized("x", "1", "2").await.was_refused(403, "pods \"p\" is forbidden: node \"x\" not found");
        let status = resized("w", "1", "2").await.was_refused(
            403,
            "pods \"p\" is forbidden: pod resize is only supported on linux nodes, node \"w\" is \"windows\"",
        );
        assert_eq!(status.details.unwrap().causes[0].reason, "UnsupportedPlatform");
    }
}
