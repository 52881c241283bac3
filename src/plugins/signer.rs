//! The permission check that the certificate plugins share.

use crate::admission::Attributes;
use crate::authz;

/// Whether the caller has the permission for the signer, or for all signers of its domain
/// (`certauthorization.IsAuthorizedForSignerName`). A failed check counts as no permission.
pub(super) async fn may(attributes: &Attributes, verb: &str, signer: &str) -> bool {
    let domain = signer.split('/').next().unwrap_or_default();
    for name in [signer.to_owned(), format!("{domain}/*")] {
        let question = authz::AccessAttributes {
            is_resource_request: true,
            verb: verb.to_owned(),
            api_group: "certificates.k8s.io".to_owned(),
            api_version: "*".to_owned(),
            resource: "signers".to_owned(),
            name,
            ..authz::AccessAttributes::default()
        };
        if attributes.context.authorizer.check(&question).await.is_ok_and(|decision| decision.allowed) {
            return true;
        }
    }
    false
}
