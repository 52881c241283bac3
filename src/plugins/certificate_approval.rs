//! CertificateApproval: the approver of a certificate signing request needs the permission to approve for the request's signer.

use super::signer;
use crate::admission::{Attributes, Denial, FrontEndSupport, Operations, Phases, Plugin, Resources, Spec};
use async_trait::async_trait;

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "CertificateApproval",
    default_on: true,
    phases: Phases::Validating,
    operations: Operations::UPDATE,
    resources: Resources::Only(&[("certificates.k8s.io", "certificatesigningrequests", "approval")]),
    needs: &[],
    configuration: None,
    removed: None,
    front_end: FrontEndSupport::Full,
    about: "Refuses approval of certificate signing requests from users who may not approve for their signer.",
    build: |_| Ok(Box::new(CertificateApproval)),
};

struct CertificateApproval;

#[async_trait]
impl Plugin for CertificateApproval {
    async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        // The stored signer counts. The API server later refuses a changed signer.
        let signer = attributes.old_object.as_ref().map(|request| request.str(&["spec", "signerName"]));
        let signer = signer.unwrap_or_default();
        match signer::may(attributes, "approve", signer).await {
            true => Ok(()),
            false => {
                Err(Denial::forbidden(format!("user not permitted to approve requests with signerName {signer:?}")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authz::Decision;
    use crate::plugins::checker::check;
    use serde_json::{Value, json};

    #[tokio::test]
    async fn the_stored_signer_or_its_domain_must_be_allowed() {
        let request = |signer: &str| -> Value { json!({"metadata": {"name": "r"}, "spec": {"signerName": signer}}) };
        let on = ("certificates.k8s.io", "certificatesigningrequests");
        for (stored, sent, accepted) in [
            ("a.io/x", "a.io/x", true),
            ("b.io/any", "a.io/y", true),
            ("a.io/y", "a.io/x", false),
            ("", "a.io/x", false),
        ] {
            let checked = check(&CertificateApproval).validating().caller(|asked| {
                let may = ["a.io/x", "b.io/*"].contains(&&*asked.name);
                let is_the_question =
                    asked.verb == "approve" && asked.resource == "signers" && asked.api_version == "*";
                Decision { allowed: may && is_the_question, ..Decision::default() }
            });
            let checked = checked.update(on.0, on.1, request(stored), request(sent)).await;
            let want = format!(
                "certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: user not permitted to approve requests with \
                 signerName {stored:?}"
            );
            assert_eq!(checked.refusal().map(|status| status.message), (!accepted).then_some(want));
        }
    }
}
