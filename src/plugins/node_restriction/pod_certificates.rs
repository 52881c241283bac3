//! PodCertificateRequests: a node may request certificates of pods that run on the node.
//!
//! A failure that a stale cache may explain is returned as an error instead of a refusal, so that the kubelet retries.

use super::{no_object, not_found, pods, question, read};
use crate::admission::{Attributes, Denial, Operation};
use crate::cluster::{Cluster, ServiceAccount};
use crate::go_text::go_quote;
use k8s_openapi::api::core::v1::{Node, Pod};
use std::sync::Arc;

/// `admitPodCertificateRequest`, without the signer. Returns the pod.
pub(super) fn check(cluster: &Cluster, node: &str, attributes: &Attributes) -> Result<Arc<Pod>, Denial> {
    if attributes.operation != Operation::Create {
        return Err(Denial::forbidden(format!("unexpected operation {}", attributes.operation.as_str())));
    }
    if !attributes.subresource.is_empty() {
        return Err(Denial::forbidden(format!("unexpected subresource {}", attributes.subresource)));
    }
    let request = attributes.object.as_ref().ok_or_else(no_object)?;
    let field = |name: &str| read::text(request, &["spec", name]);
    let named = field("nodeName")?;
    if named != node {
        return Err(Denial::forbidden(format!(
            "PodCertificateRequest.Spec.NodeName={}, which is not the requesting node {}",
            go_quote(&named),
            go_quote(node)
        )));
    }
    let namespace = &attributes.namespace;
    let pod_name = field("podName")?;
    let subject = go_quote(&format!("{namespace}/{pod_name}"));
    check_node(cluster, node, &field("nodeUID")?, &subject)?;
    let Some(pod) = cluster.find::<Pod>(namespace, &pod_name) else {
        let why = not_found("", "pod", &pod_name).message;
        return Err(Denial::Plain(format!("while retrieving pod {subject} named in the PodCertificateRequest: {why}")));
    };
    let (uid, known) = (field("podUID")?, pod.metadata.uid.as_deref().unwrap_or_default());
    if uid != known {
        let (uid, known) = (go_quote(&uid), go_quote(known));
        return Err(Denial::Plain(format!(
            "PodCertificateRequest for pod {subject} contains pod UID ({uid}) which differs from running pod {known}"
        )));
    }
    if pods::node_name(&pod) != node {
        let node = go_quote(node);
        return Err(Denial::forbidden(format!(
            "pod {subject} is not running on node {node} named in the PodCertificateRequest"
        )));
    }
    if pods::is_mirror(&pod) {
        return Err(Denial::forbidden(format!("pod {subject} is a mirror pod")));
    }
    let account = field("serviceAccountName")?;
    let known = pod.spec.as_ref().and_then(|spec| spec.service_account_name.as_deref()).unwrap_or_default();
    if account != known {
        let (account, known) = (go_quote(&account), go_quote(known));
        return Err(Denial::forbidden(format!(
            "PodCertificateRequest for pod {subject} contains serviceAccountName ({account}) that differs from running pod ({known})"
        )));
    }
    check_account(cluster, namespace, &account, &field("serviceAccountUID")?, &subject)?;
    Ok(pod)
}

/// Since 1.37, a node may name a signer only if a volume of the pod does, or if the node has the right to (`validateNodePodCertificateSigner`).
pub(super) async fn check_signer(pod: &Pod, attributes: &Attributes) -> Result<(), Denial> {
    let request = attributes.object.as_ref().ok_or_else(no_object)?;
    let field = |name: &str| read::text(request, &["spec", name]);
    let signer = field("signerName")?;
    if has_volume_for(pod, &signer) {
        return Ok(());
    }
    // Rules of RBAC cannot name resources with slashes.
    let resource = signer.replace('/', ":");
    let verb = "request-serviceaccounts-podcertificate-signer";
    let question = question(attributes, verb, &resource, &field("serviceAccountName")?);
    let quoted = go_quote(&signer);
    match attributes.context.authorizer.check(&question).await {
        Ok(decision) if decision.allowed => Ok(()),
        Ok(_) => {
            let subject = go_quote(&format!("{}/{}", attributes.namespace, field("podName")?));
            Err(Denial::forbidden(format!(
                "pod {subject} does not mount a podCertificate projected volume for signer {quoted}"
            )))
        }
        Err(why) => {
            let user = &attributes.context.user.username;
            Err(Denial::forbidden(format!(
                "error authorizing {user} to request podcertificaterequests for signer {quoted}: {why}"
            )))
        }
    }
}

/// `podHasPodCertificateVolumeForSigner`.
fn has_volume_for(pod: &Pod, signer: &str) -> bool {
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    let projected = volumes.iter().filter_map(|volume| volume.projected.as_ref());
    let mut sources = projected.flat_map(|projected| projected.sources.iter().flatten());
    sources.any(|source| source.pod_certificate.as_ref().is_some_and(|source| source.signer_name == signer))
}

fn check_node(cluster: &Cluster, node: &str, uid: &str, subject: &str) -> Result<(), Denial> {
    let Some(known) = cluster.find::<Node>("", node) else {
        let (name, why) = (go_quote(node), not_found("", "node", node).message);
        return Err(Denial::Plain(format!("while retrieving node {name} named in the PodCertificateRequest: {why}")));
    };
    let known = known.metadata.uid.as_deref().unwrap_or_default();
    match known == uid {
        true => Ok(()),
        false => Err(Denial::Plain(format!(
            "PodCertificateRequest for pod {subject} names node UID {}, inconsistent with the running node ({})",
            go_quote(uid),
            go_quote(known)
        ))),
    }
}

fn check_account(cluster: &Cluster, namespace: &str, name: &str, uid: &str, subject: &str) -> Result<(), Denial> {
    let Some(known) = cluster.find::<ServiceAccount>(namespace, name) else {
        let (account, why) = (go_quote(&format!("{namespace}/{name}")), not_found("", "serviceaccount", name).message);
        return Err(Denial::Plain(format!(
            "while retrieving service account {account} named in the PodCertificateRequest: {why}"
        )));
    };
    let known = &*known.uid;
    match known == uid {
        true => Ok(()),
        false => Err(Denial::Plain(format!(
            "PodCertificateRequest for pod {subject} names service account UID {}, which differs from the running service account ({})",
            go_quote(uid),
            go_quote(known)
        ))),
    }
}

#[cfg(test)]
mod tests;
