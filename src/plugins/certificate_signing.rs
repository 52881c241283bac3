//! CertificateSigning: the issuer of a certificate needs the permission to sign for the request's signer.

use super::signer;
use crate::admission::{Attributes, Denial, FrontEndSupport, Operations, Phases, Plugin, Resources, Spec};
use crate::object::Object;
use async_trait::async_trait;

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "CertificateSigning",
    default_on: true,
    phases: Phases::Validating,
    operations: Operations::UPDATE,
    resources: Resources::Only(&[("certificates.k8s.io", "certificatesigningrequests", "status")]),
    needs: &[],
    configuration: None,
    removed: None,
    front_end: FrontEndSupport::Part("a review does not show an empty certificate, which therefore passes"),
    about: "Refuses certificates and conditions from users who may not sign for the signer of the request.",
    build: |_| Ok(Box::new(CertificateSigning)),
};

struct CertificateSigning;

#[async_trait]
impl Plugin for CertificateSigning {
    /// The strategy keeps stored approvals and denials, and sets times of conditions.
    fn reads_stored_object(&self, attributes: &Attributes) -> bool {
        attributes.object.as_ref().zip(attributes.old_object.as_deref()).is_some_and(|(new, old)| is_signed(new, old))
    }

    async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        let expected = || Denial::forbidden("expected type CertificateSigningRequest, got: <nil>");
        let (new, old) = attributes.object.as_ref().zip(attributes.old_object.as_deref()).ok_or_else(expected)?;
        if !is_signed(new, old) {
            return Ok(());
        }
        let signer = old.str(&["spec", "signerName"]);
        match signer::may(attributes, "sign", signer).await {
            true => Ok(()),
            false => Err(Denial::forbidden(format!("user not permitted to sign requests with signerName {signer:?}"))),
        }
    }
}

/// Whether the update changes the certificate or the conditions.
fn is_signed(new: &Object, old: &Object) -> bool {
    let (certificate, conditions) = (["status", "certificate"], ["status", "conditions"]);
    // An empty certificate differs from a missing certificate.
    let is_emptied = old.get(&certificate).is_none() && new.is_empty_but_not_nil(&certificate);
    is_emptied || new.str(&certificate) != old.str(&certificate) || new.items(&conditions) != old.items(&conditions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authz::Decision;
    use crate::plugins::checker::check;
    use serde_json::{Value, json};

    async fn code(signer: &str, status: Value) -> Option<u16> {
        let request =
            |status: Value| json!({"metadata": {"name": "r"}, "spec": {"signerName": signer}, "status": status});
        let old = request(json!({"conditions": [], "usages": 1}));
        let checked = check(&CertificateSigning).validating().caller(|asked| Decision {
            allowed: asked.verb == "sign" && asked.name == "a.io/x",
            ..Decision::default()
        });
        checked.update("certificates.k8s.io", "certificatesigningrequests", old, request(status)).await.code()
    }

    #[tokio::test]
    async fn only_a_new_certificate_or_condition_is_signing() {
        assert_eq!(code("a.io/y", json!({"usages": 2})).await, None);
        assert_eq!(code("a.io/y", json!({"certificate": "YQ=="})).await, Some(403));
        assert_eq!(code("a.io/y", json!({"conditions": [{"type": "Failed"}]})).await, Some(403));
        assert_eq!(code("a.io/x", json!({"certificate": "YQ=="})).await, None);
    }
}
