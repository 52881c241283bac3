//! CertificateSubjectRestriction: refuses requests for client certificates of the group `system:masters`.

use crate::admission::{Attributes, Denial, FrontEndSupport, Operations, Phases, Plugin, Resources, Spec};
use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer;

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "CertificateSubjectRestriction",
    default_on: true,
    phases: Phases::Validating,
    operations: Operations::CREATE,
    resources: Resources::Only(&[("certificates.k8s.io", "certificatesigningrequests", "")]),
    needs: &[],
    configuration: None,
    removed: None,
    front_end: FrontEndSupport::Full,
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

/// The reason why a certificate request cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct UnreadableRequest(String);

/// The subject in a PKCS#10 request.
pub(super) struct Subject {
    pub(super) common_name: String,
    pub(super) organizations: Vec<String>,
}

impl Subject {
    /// Reads the request in an object's form: base64 of PEM (`certificates.ParseCSR`).
    pub(super) fn read(base64: &str) -> Result<Self, UnreadableRequest> {
        let pem = STANDARD.decode(base64).map_err(|error| UnreadableRequest(error.to_string()))?;
        let der = der(&String::from_utf8_lossy(&pem))
            .ok_or_else(|| UnreadableRequest("PEM block type must be CERTIFICATE REQUEST".to_owned()))?;
        let (rest, request) =
            X509CertificationRequest::from_der(&der).map_err(|error| UnreadableRequest(error.to_string()))?;
        if !rest.is_empty() {
            return Err(UnreadableRequest("asn1: syntax error: trailing data".to_owned()));
        }
        let subject = &request.certification_request_info.subject;
        // An attribute that is not text makes the request unreadable, because the plugin cannot compare the attribute.
        let text = |attribute: &x509_parser::x509::AttributeTypeAndValue<'_>| {
            attribute
                .as_str()
                .map(str::to_owned)
                .map_err(|error| UnreadableRequest(format!("unreadable subject: {error}")))
        };
        Ok(Self {
            common_name: subject.iter_common_name().last().map(text).transpose()?.unwrap_or_default(),
            organizations: subject.iter_organization().map(text).collect::<Result<_, _>>()?,
        })
    }
}

/// The request in the first block of a PEM. The block must have the exact form: a signer with another parser may skip an
/// irregular block and read a later block.
fn der(pem: &str) -> Option<Vec<u8>> {
    let (before, block) = pem.split_at(pem.find("-----BEGIN ")?);
    let is_at_line_start = before.is_empty() || before.ends_with('\n');
    let mut lines = block.lines();
    lines.next().filter(|line| is_at_line_start && *line == "-----BEGIN CERTIFICATE REQUEST-----")?;
    let mut base64 = String::new();
    for line in lines {
        if line == "-----END CERTIFICATE REQUEST-----" {
            return STANDARD.decode(base64).ok();
        }
        // Other content, such as headers, makes the base64 invalid.
        base64.push_str(line);
    }
    None
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
    async fn a_malformed_request_is_refused() {
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

    /// The PEM in a [`request`].
    fn pem(organization: &str) -> String {
        String::from_utf8(STANDARD.decode(request(organization)).unwrap()).unwrap()
    }

    #[tokio::test]
    async fn bytes_after_a_request_are_refused() {
        let mut longer = der(&pem("o")).unwrap();
        longer.push(0);
        let text = STANDARD.encode(longer);
        let pem = format!("-----BEGIN CERTIFICATE REQUEST-----\n{text}\n-----END CERTIFICATE REQUEST-----\n");
        let why = "failed to parse CSR: asn1: syntax error: trailing data";
        let text = format!("certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: {why}");
        created(SIGNER, &STANDARD.encode(pem)).await.was_refused(403, &text);
    }

    #[tokio::test]
    async fn no_other_request_hides_behind_one_that_others_pass_over() {
        let (good, bad) = (pem("developers"), pem("system:masters"));
        let both = |first: &str| STANDARD.encode(format!("{first}{bad}"));
        let unfinished = good.replace("-----END", "-----EMD");
        for first in [
            good.replace("END CERTIFICATE REQUEST-----", "END CERTIFICATE REQUEST-----x"),
            good.replace("END CERTIFICATE REQUEST-----", "END CERTIFICATE REQUEST----- \r "),
            good.replace("-----\nM", "-----\nProc-Type: 4\n\nM"),
            good.replace('\n', "\r"),
            format!("x{good}"),
            good.replace("-----BEGIN CERTIFICATE", "-----BEGIN NEW CERTIFICATE"),
            unfinished,
            String::new(),
        ] {
            assert_eq!(created(SIGNER, &both(&first)).await.code(), Some(403), "{first}");
        }
        // All parsers read a first block in the exact form, whatever surrounds the block.
        created(SIGNER, &both(&good)).await.stays_unchanged();
        created(SIGNER, &both(&format!("Subject: O=x\n{}", good.replace('\n', "\r\n")))).await.stays_unchanged();
    }
}
