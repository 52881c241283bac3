//! Tokens of service accounts: a node may request tokens for pods bound to the node, for audiences that the pods use.

use super::{NodeRestriction, audience, no_object, not_found, pods, read};
use crate::admission::{Attributes, Denial, Operation};
use k8s_openapi::api::authentication::v1::TokenRequestSpec;
use k8s_openapi::api::core::v1::Pod;

/// `admitServiceAccount`. The authorizer decides on a node's other requests for service accounts.
pub(super) async fn check(plugin: &NodeRestriction, node: &str, attributes: &Attributes) -> Result<(), Denial> {
    if attributes.operation != Operation::Create || attributes.subresource != "token" {
        return Ok(());
    }
    let request: TokenRequestSpec = read::part(attributes.object.as_ref().ok_or_else(no_object)?, &["spec"])?;
    let is = |text: &Option<String>, wanted: &str| text.as_deref() == Some(wanted);
    let bound = request.bound_object_ref.filter(|bound| is(&bound.api_version, "v1") && is(&bound.kind, "Pod"));
    let (name, uid) =
        bound.map(|bound| (bound.name.unwrap_or_default(), bound.uid.unwrap_or_default())).unwrap_or_default();
    if name.is_empty() {
        return Err(Denial::forbidden("node requested token not bound to a pod"));
    }
    if uid.is_empty() {
        return Err(Denial::forbidden("node requested token with a pod binding without a uid"));
    }
    let Some(pod) = plugin.cluster.find::<Pod>(&attributes.namespace, &name) else {
        return Err(not_found("", "pod", &name).into());
    };
    if pod.metadata.uid.as_deref() != Some(&uid) {
        return Err(Denial::forbidden(format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been \
             deleted and then recreated"
        )));
    }
    if pods::node_name(&pod) != node {
        return Err(Denial::forbidden("node requested token bound to a pod scheduled on a different node"));
    }
    if !plugin.restricts_audiences {
        return Ok(());
    }
    let audiences = request.audiences.unwrap_or_default();
    audience::check(plugin, &pod, &audiences, attributes).await.map_err(Denial::forbidden)
}

#[cfg(test)]
mod tests;
