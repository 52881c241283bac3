//! NodeRestriction: a kubelet may change only its own node, the pods bound to the node, and related objects.

mod audience;
mod certificates;
mod claim_diff;
mod claims;
mod drivers;
mod nodes;
mod owned;
mod pod_certificates;
mod pods;
mod read;
mod references;
mod tokens;

use crate::admission::{Attributes, Denial, FrontEndSupport, Operations, Phases, Plugin, Resources, Spec};
use crate::authz::AccessAttributes;
use crate::cluster::{Cluster, Need};
use crate::go_text::go_quote;
use crate::status::Status;
use crate::user::UserInfo;
use async_trait::async_trait;
use std::sync::Arc;

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "NodeRestriction",
    default_on: false,
    phases: Phases::Mutating,
    operations: Operations::CREATE.or(Operations::UPDATE).or(Operations::DELETE),
    // A node without a name may write nothing.
    resources: Resources::All,
    needs: &[
        Need::PODS,
        Need::NODES,
        Need::SERVICE_ACCOUNTS,
        Need::PERSISTENT_VOLUMES,
        Need::PERSISTENT_VOLUME_CLAIMS,
        Need::CSI_DRIVERS,
    ],
    configuration: None,
    removed: None,
    front_end: FrontEndSupport::Of(&[
        ("", "pods", "*"),
        ("", "nodes", "*"),
        ("", "persistentvolumeclaims", "*"),
        ("", "serviceaccounts", "*"),
        ("coordination.k8s.io", "leases", "*"),
        ("storage.k8s.io", "csinodes", "*"),
        ("resource.k8s.io", "resourceslices", "*"),
        ("certificates.k8s.io", "certificatesigningrequests", "*"),
        ("certificates.k8s.io", "podcertificaterequests", "*"),
    ]),
    about: "Lets kubelets change only their own node and the pods bound to it.",
    build: |environment| {
        let gates = environment.feature_gates;
        Ok(Box::new(NodeRestriction {
            cluster: environment.cluster.clone(),
            restricts_audiences: gates.is_on("ServiceAccountNodeAudienceRestriction"),
            restricts_certificates: !gates.is_on("AllowInsecureKubeletCertificateSigningRequests"),
            has_pod_certificates: gates.is_on("PodCertificateRequest"),
            has_volume_health: gates.is_on("CSIVolumeHealth"),
            since_1_37: gates.since(37),
        }))
    },
};

struct NodeRestriction {
    cluster: Arc<Cluster>,
    restricts_audiences: bool,
    restricts_certificates: bool,
    has_pod_certificates: bool,
    has_volume_health: bool,
    since_1_37: bool,
}

#[async_trait]
impl Plugin for NodeRestriction {
    async fn admit(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        let attributes = &*attributes;
        let Some(node) = node_of(&attributes.context.user) else { return Ok(()) };
        if node.is_empty() {
            let user = go_quote(&attributes.context.user.username);
            return Err(Denial::forbidden(format!("could not determine node from user {user}")));
        }
        match (attributes.resource.group.as_str(), attributes.resource.resource.as_str()) {
            ("", "pods") => pods::check(&self.cluster, self.since_1_37, node, attributes),
            ("", "nodes") => nodes::check(node, attributes),
            ("", "persistentvolumeclaims") => claims::check(node, attributes),
            ("", "serviceaccounts") => tokens::check(self, node, attributes).await,
            ("coordination.k8s.io", "leases") => owned::check_lease(node, attributes),
            ("storage.k8s.io", "csinodes") if self.since_1_37 && attributes.subresource == "status" => {
                owned::check_csi_node_status(self.has_volume_health, node, attributes)
            }
            ("storage.k8s.io", "csinodes") => owned::check_csi_node(node, attributes),
            ("resource.k8s.io", "resourceslices") => owned::check_resource_slice(node, attributes),
            ("certificates.k8s.io", "certificatesigningrequests") if self.restricts_certificates => {
                certificates::check(node, attributes)
            }
            ("certificates.k8s.io", "podcertificaterequests") if !self.has_pod_certificates => {
                Err(Denial::forbidden("PodCertificateRequest feature gate is disabled"))
            }
            ("certificates.k8s.io", "podcertificaterequests") => {
                let pod = pod_certificates::check(&self.cluster, node, attributes)?;
                match self.since_1_37 {
                    true => pod_certificates::check_signer(&pod, attributes).await,
                    false => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }
}

/// The node's name, which may be empty, if the user is a node; else `None` (`defaultNodeIdentifier.NodeIdentity`).
fn node_of(user: &UserInfo) -> Option<&str> {
    let node = user.username.strip_prefix("system:node:")?;
    user.groups.iter().any(|group| group == "system:nodes").then_some(node)
}

/// The question whether the node may do something for a service account of the request's namespace (`buildAuthorizerAttributes`).
fn question(attributes: &Attributes, verb: &str, resource: &str, service_account: &str) -> AccessAttributes {
    AccessAttributes {
        is_resource_request: true,
        verb: verb.to_owned(),
        namespace: attributes.namespace.clone(),
        api_group: attributes.resource.group.clone(),
        api_version: attributes.resource.version.clone(),
        resource: resource.to_owned(),
        name: service_account.to_owned(),
        ..AccessAttributes::default()
    }
}

/// The error of a Go lister for a missing object, which names the singular resource.
fn not_found(group: &str, singular: &str, name: &str) -> Status {
    Status::not_found(group, singular, name)
}

/// The error of a request without the required object.
fn no_object() -> Denial {
    Denial::forbidden("unexpected type <nil>")
}

#[cfg(test)]
mod tests;
