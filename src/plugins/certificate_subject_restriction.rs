//! CertificateSubjectRestriction: no client certificate for `system:masters`.

use crate::admission::{Attributes, Denial, Operations, Phases, Plugin, Resources, Spec};
use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls_pki_types::CertificateSigningRequestDer;
use rustls_pki_types::pem::PemObject;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer;

/// The plugin's facts.
pub static SPEC: Spec = Spec {
    name: "CertificateSubjectRestriction",
    default_on: true,
    phases: Phases::Validating,
    operations: Operations::CREATE,
    resources: Resources::Only(&[("certificates.k8s.io", "certificatesigningrequests", "")]),
    needs: &[],
    configuration: None,
    about: "Refuses requests for client certificates of the group system:masters.",
    build: |_| Ok(Box::new(CertificateSubjectRestriction)),
};

const SIGNER: &str = "kubernetes.io/kube-apiserver-client";

struct CertificateSubjectRestriction;

#[async_trait]
impl Plugin for CertificateSubjectRestriction {
    async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        let request = attributes.object.as_ref().filter(|request| request.str(&["spec", "signerName"]) == SIGNER);
        let Some(request) = request else { return Ok(()) };
        let subject = Subject::read(request.str(&["spec", "request"]))
            .map_err(|why| Denial::forbidden(format!("failed to parse CSR: {why}")))?;
        match subject.organizations.iter().any(|organization| organization == "system:masters") {
            false => Ok(()),
            true => Err(Denial::forbidden(format!("use of {SIGNER} signer with system:masters group is not allowed"))),
        }
    }
}

/// The subject that a PKCS#10 request asks for.
pub(super) struct Subject {
    pub(super) common_name: String,
    pub(super) organizations: Vec<String>,
}

impl Subject {
    /// Reads a request as objects carry it: base64 of PEM (`certificates.ParseCSR`).
    pub(super) fn read(base64: &str) -> Result<Self, String> {
        const NOT_PEM: &str = "PEM block type must be CERTIFICATE REQUEST";
        let pem = STANDARD.decode(base64).map_err(|error| error.to_string())?;
        let der = CertificateSigningRequestDer::from_pem_slice(&pem).map_err(|_| NOT_PEM)?;
        let (rest, request) = X509CertificationRequest::from_der(&der).map_err(|error| error.to_string())?;
        if !rest.is_empty() {
            return Err("asn1: syntax error: trailing data".to_owned());
        }
        let subject = &request.certification_request_info.subject;
        // What is no text is a subject that nobody here can judge.
        let text = |attribute: &x509_parser::x509::AttributeTypeAndValue<'_>| {
            attribute.as_str().map(str::to_owned).map_err(|error| format!("unreadable subject: {error}"))
        };
        Ok(Self {
            common_name: subject.iter_common_name().last().map(text).transpose()?.unwrap_or_default(),
            organizations: subject.iter_organization().map(text).collect::<Result<_, _>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::checker::{Checked, check};
    use rcgen::{CertificateParams, DnType, KeyPair};
    use serde_json::json;

    fn request(organization: &str) -> String {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "alice");
        params.distinguished_name.push(DnType::OrganizationName, organization);
        let request = params.serialize_request(&KeyPair::generate().unwrap()).unwrap();
        STANDARD.encode(request.pem().unwrap())
    }

    async fn created(signer: &str, request: &str) -> Checked {
        let request = json!({"metadata": {"name": "r"}, "spec": {"signerName": signer, "request": request}});
        let checked = check(&CertificateSubjectRestriction).validating();
        checked.create("certificates.k8s.io", "certificatesigningrequests", request).await
    }

    #[tokio::test]
    async fn masters_get_no_client_certificate() {
        created(SIGNER, &request("developers")).await.stays_unchanged();
        created(SIGNER, &request("system:masters")).await.was_refused(
            403,
            "certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: use of kubernetes.io/kube-apiserver-client signer \
             with system:masters group is not allowed",
        );
        created("other.io/signer", &request("system:masters")).await.stays_unchanged();
        created("other.io/signer", "nonsense").await.stays_unchanged();
    }

    #[tokio::test]
    async fn what_is_no_request_is_refused() {
        for nonsense in [
            "",
            "?",
            &STANDARD.encode("text"),
            &STANDARD.encode("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"),
        ] {
            assert_eq!(created(SIGNER, nonsense).await.code(), Some(403), "{nonsense}");
        }
        assert_eq!(Subject::read(&request("o")).unwrap().common_name, "alice");
    }

    #[tokio::test]
    async fn nothing_may_follow_a_request() {
        let mut der =
            CertificateSigningRequestDer::from_pem_slice(&STANDARD.decode(request("o")).unwrap()).unwrap().to_vec();
        der.push(0);
        let text = STANDARD.encode(der);
        let pem = format!("-----BEGIN CERTIFICATE REQUEST-----\n{text}\n-----END CERTIFICATE REQUEST-----\n");
        let why = "failed to parse CSR: asn1: syntax error: trailing data";
        let text = format!("certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: {why}");
        created(SIGNER, &STANDARD.encode(pem)).await.was_refused(403, &text);
    }
}
