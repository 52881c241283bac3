//! CertificateSigningRequests: a node requests certificates only in its own name.

use super::no_object;
use crate::admission::{Attributes, Denial, Operation};
use crate::plugins::certificate_subject_restriction::Subject;

const KUBELET_SIGNERS: [&str; 2] = ["kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"];

/// `admitCSR`.
pub(super) fn check(node: &str, attributes: &Attributes) -> Result<(), Denial> {
    if attributes.operation != Operation::Create {
        return Ok(());
    }
    let request = attributes.object.as_ref().ok_or_else(no_object)?;
    if !KUBELET_SIGNERS.contains(&request.str(&["spec", "signerName"])) {
        return Ok(());
    }
    let subject = Subject::read(request.str(&["spec", "request"]))
        .map_err(|why| Denial::forbidden(format!("unable to parse csr: {why}")))?;
    match subject.common_name.strip_prefix("system:node:") == Some(node) {
        true => Ok(()),
        false => Err(Denial::forbidden(format!("can only create a node CSR with CN=system:node:{node}"))),
    }
}
