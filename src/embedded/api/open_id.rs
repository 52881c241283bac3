//! The documents with which others verify service account tokens: the OpenID configuration of the issuer, and its keys
//! (`pkg/serviceaccount/openidmetadata.go`, `pkg/routes/openidmetadata.go`).

use super::document;
use crate::body::Body;
use crate::embedded::identity::tokens::{PublicKey, Tokens};
use crate::status::{Details, Status};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, HeaderValue};
use http::{Method, Response, Uri};
use serde::Serialize;
use std::collections::BTreeSet;
use std::net::SocketAddr;

const CONFIGURATION: &str = "/.well-known/openid-configuration";
const KEYS: &str = "/openid/v1/jwks";

/// The documents.
pub(in crate::embedded) struct OpenId {
    configuration: Bytes,
    keys: Bytes,
}

/// `openIDMetadata`
#[derive(Serialize)]
struct Metadata<'a> {
    issuer: &'a str,
    jwks_uri: &'a str,
    response_types_supported: [&'static str; 1],
    subject_types_supported: [&'static str; 1],
    id_token_signing_alg_values_supported: BTreeSet<&'static str>,
}

#[derive(Serialize)]
struct KeySet<'a> {
    keys: &'a [PublicKey],
}

impl OpenId {
    /// The documents of an issuer that is reached at this address; `None` if the issuer is no https URL, or has a query or a fragment.
    pub(in crate::embedded) fn new(tokens: &Tokens, advertised: SocketAddr) -> Option<Self> {
        let issuer = tokens.issuer()?;
        let is_fit = issuer.parse::<Uri>().is_ok_and(|url| url.scheme_str() == Some("https"));
        if !is_fit || issuer.contains(['?', '#']) {
            tracing::warn!(
                issuer,
                "no OpenID configuration is served: the issuer must be an https URL without query and fragment"
            );
            return None;
        }
        let own = format!("https://{advertised}{KEYS}");
        let keys = tokens.public_keys();
        let metadata = Metadata {
            issuer,
            jwks_uri: tokens.jwks_uri().unwrap_or(&own),
            response_types_supported: ["id_token"],
            subject_types_supported: ["public"],
            id_token_signing_alg_values_supported: keys.iter().map(|key| key.alg).collect(),
        };
        let configuration = serde_json::to_vec(&metadata).ok()?.into();
        let keys = serde_json::to_vec(&KeySet { keys: &keys }).ok()?.into();
        Some(Self { configuration, keys })
    }

    /// The response to a request for one of the documents; `None` for other paths.
    ///
    /// # Errors
    /// If the method is not GET, or the client does not accept the document's media type.
    pub(in crate::embedded) fn respond(
        &self,
        method: &Method,
        path: &str,
        accept: &str,
    ) -> Option<Result<Response<Body>, Status>> {
        let (body, kind) = match path.strip_suffix('/').unwrap_or(path) {
            CONFIGURATION => (&self.configuration, "application/json"),
            KEYS => (&self.keys, "application/jwk-set+json"),
            _ => return None,
        };
        if method != Method::GET {
            return Some(Err(not_allowed()));
        }
        if !is_accepted(accept, kind) {
            let text = format!("406: Not Acceptable\n\nAvailable representations: {kind}");
            return Some(Err(Status::failure(406, "NotAcceptable", text).with_details(Details::default())));
        }
        let mut response = document::document(kind, body.clone());
        // `staticPublicKeysGetter.GetCacheAgeMaxSeconds`
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=3600"));
        Some(Ok(response))
    }
}

fn not_allowed() -> Status {
    let text = "the server does not allow this method on the requested resource";
    Status::failure(405, "MethodNotAllowed", text).with_details(Details::default())
}

/// Whether an `Accept` header has exactly this media type, or all of them (`restful.Route.matchesAccept`).
fn is_accepted(accept: &str, kind: &str) -> bool {
    let mut ranges = accept.split(',').map(|range| range.split(';').next().unwrap_or_default().trim());
    accept.trim().is_empty() || ranges.any(|range| range == "*/*" || range == kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TokenFiles;

    #[test]
    fn only_an_https_issuer_without_query_and_fragment_has_documents() {
        for (issuer, has_documents) in [
            ("https://issuer.example.com/a", true),
            ("http://issuer.example.com", false),
            ("https://issuer.example.com?a", false),
            ("https://issuer.example.com#a", false),
            ("kubernetes/serviceaccount", false),
        ] {
            let files = TokenFiles { issuers: vec![issuer.to_owned()], ..TokenFiles::default() };
            let tokens = Tokens::from_files(&files).unwrap();
            let known = OpenId::new(&tokens, "192.0.2.1:6443".parse().unwrap());
            assert_eq!(known.is_some(), has_documents, "{issuer}");
        }
    }
}
