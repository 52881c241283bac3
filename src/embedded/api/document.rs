//! Responses with an unchanging document, and the headers for caching it.

use crate::body::{Body, empty, full};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use sha2::{Digest, Sha512};

/// The entity tag of a document, without quotes: the SHA-512 in upper-case hex (`computeETag`, `calculateETag`).
pub(in crate::embedded) fn tag(document: &[u8]) -> String {
    Sha512::digest(document).iter().map(|byte| format!("{byte:02X}")).collect()
}

/// A document with status 200.
pub(in crate::embedded) fn document(content_type: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    let body = body.into();
    let length = HeaderValue::from(body.len());
    let mut response = Response::new(full(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CONTENT_LENGTH, length);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// A document with status 200 and an entity tag.
pub(in crate::embedded) fn tagged(content_type: &'static str, body: impl Into<Bytes>, tag: &str) -> Response<Body> {
    let mut response = document(content_type, body);
    set(&mut response, ETAG, &format!("\"{tag}\""));
    response
}

/// Sets a header; omits an invalid value.
pub(in crate::embedded) fn set(response: &mut Response<Body>, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

/// Applies `If-None-Match` to a response: 304 without a body if the client has this document already.
pub(crate) fn conditional(response: Response<Body>, if_none_match: &str) -> Response<Body> {
    let tag = response.headers().get(ETAG).and_then(|tag| tag.to_str().ok());
    let known = tag.is_some_and(|tag| if_none_match.split(',').any(|each| each.trim().trim_start_matches("W/") == tag));
    if !known || response.status() != StatusCode::OK {
        return response;
    }
    let (mut parts, _) = response.into_parts();
    parts.status = StatusCode::NOT_MODIFIED;
    for name in [CONTENT_TYPE, CONTENT_LENGTH] {
        parts.headers.remove(name);
    }
    Response::from_parts(parts, empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_tag_answers_not_modified() {
        let answer = |if_none_match| conditional(tagged("application/json", "{}", "A1"), if_none_match);
        assert_eq!(answer("").status(), 200);
        assert_eq!(answer("\"B2\"").status(), 200);
        assert_eq!(answer("\"A1\"").status(), 304);
        assert_eq!(answer("\"B2\", W/\"A1\"").status(), 304);
        assert_eq!(answer("\"A1\"").headers().get(ETAG).unwrap(), "\"A1\"");
        assert_eq!(conditional(document("application/json", "{}"), "\"\"").status(), 200);
    }
}
