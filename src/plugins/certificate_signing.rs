//! CertificateSigning: who issues a certificate may sign for its signer.

use super::signer;
use crate::admission::{Attributes, Denial, Operations, Phases, Plugin, Resources, Spec};
use crate::object::Object;
use async_trait::async_trait;
use serde_json::Value;

/// The plugin's facts.
pub static SPEC: Spec = Spec {
    name: "CertificateSigning",
    default_on: true,
    phases: Phases::Validating,
    operations: Operations::UPDATE,
    resources: Resources::Only(&[("certificates.k8s.io", "certificatesigningrequests", "status")]),
    needs: &[],
    configuration: None,
    about: "Refuses certificates and conditions by who may not sign for the request's signer.",
    build: |_| Ok(Box::new(CertificateSigning)),
};

struct CertificateSigning;

#[async_trait]
impl Plugin for CertificateSigning {
    async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        let expected = || Denial::forbidden("expected type CertificateSigningRequest, got: <nil>");
        let (new, old) = attributes.object.as_ref().zip(attributes.old_object.as_deref()).ok_or_else(expected)?;
        let certificate = |request: &Object| request.str(&["status", "certificate"]).to_owned();
        let conditions = |request: &Object| -> Vec<Value> { request.items(&["status", "conditions"]).to_vec() };
        if certificate(new) == certificate(old) && conditions(new) == conditions(old) {
            return Ok(());
        }
        let signer = old.str(&["spec", "signerName"]);
        match signer::may(attributes, "sign", signer).await {
            true => Ok(()),
            false => Err(Denial::forbidden(format!("user not permitted to sign requests with signerName {signer:?}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authz::Decision;
    use crate::plugins::checker::check;
    use serde_json::json;

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
