//! Responses with an unchanging document: negotiation of the document's form, and caching headers.

use crate::body::{Body, empty, full};
use crate::status::Status;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use sha2::{Digest, Sha512};

/// One media range of an `Accept` header.
#[derive(Debug, PartialEq)]
pub(super) struct Clause<'a> {
    kind: &'a str,
    subtype: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

/// The media ranges of an `Accept` header, the most preferred first (`goautoneg.ParseAccept`); an empty header accepts all.
pub(super) fn clauses(accept: &str) -> Vec<Clause<'_>> {
    let accept = if accept.trim().is_empty() { "*/*" } else { accept };
    let mut weighed: Vec<(f32, Clause<'_>)> = accept.split(',').filter_map(clause).collect();
    weighed.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    weighed.into_iter().map(|(_, clause)| clause).collect()
}

fn clause(text: &str) -> Option<(f32, Clause<'_>)> {
    let mut parts = text.split(';');
    let media_type = parts.next()?.trim();
    let (kind, subtype) = match media_type.split_once('/') {
        Some((kind, subtype)) => (kind, subtype),
        None if media_type == "*" => ("*", "*"),
        None => return None,
    };
    let mut weight = 1.0;
    let mut parameters = Vec::new();
    for part in parts {
        match part.split_once('=').map(|(name, value)| (name.trim(), value.trim())) {
            Some(("q", value)) => weight = value.parse().unwrap_or(1.0),
            Some(parameter) => parameters.push(parameter),
            None => {}
        }
    }
    Some((weight, Clause { kind, subtype, parameters }))
}

impl<'a> Clause<'a> {
    /// Whether the range contains `application/<subtype>`.
    pub(super) fn takes(&self, subtype: &str) -> bool {
        (self.kind == "application" || self.kind == "*") && (self.subtype == subtype || self.subtype == "*")
    }

    /// The value of a parameter, or `""`.
    pub(super) fn parameter(&self, name: &str) -> &'a str {
        self.parameters.iter().find(|(each, _)| *each == name).map_or("", |(_, value)| *value)
    }
}

/// The entity tag of a document, without quotes: the SHA-512 in upper-case hex (`computeETag`, `calculateETag`).
pub(super) fn tag(document: &[u8]) -> String {
    Sha512::digest(document).iter().map(|byte| format!("{byte:02X}")).collect()
}

/// A document with status 200.
pub(super) fn document(content_type: &'static str, body: impl Into<Bytes>) -> Response<Body> {
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
pub(super) fn tagged(content_type: &'static str, body: impl Into<Bytes>, tag: &str) -> Response<Body> {
    let mut response = document(content_type, body);
    set(&mut response, ETAG, &format!("\"{tag}\""));
    response
}

/// Sets a header; omits an invalid value.
pub(super) fn set(response: &mut Response<Body>, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

/// 406 as a Status that lists the accepted media types.
pub(super) fn not_acceptable(accepted: &[&str]) -> Response<Body> {
    let status = Status::not_acceptable(accepted);
    let mut response = document("application/json", serde_json::to_vec(&status).unwrap_or_default());
    *response.status_mut() = StatusCode::NOT_ACCEPTABLE;
    response
}

/// Applies `If-None-Match` to a response: 304 without a body if the client has this document already.
pub fn conditional(response: Response<Body>, if_none_match: &str) -> Response<Body> {
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
    fn the_most_wanted_media_range_comes_first() {
        let wanted = clauses("text/html;q=0.5, application/json;g=a;v=v2 ,application/yaml;q=0.9, nonsense");
        let subtypes: Vec<&str> = wanted.iter().map(|clause| clause.subtype).collect();
        assert_eq!(subtypes, ["json", "yaml", "html"]);
        assert_eq!((wanted[0].parameter("v"), wanted[0].parameter("as")), ("v2", ""));
        assert!(clauses("")[0].takes("json"));
        assert!(clauses("*")[0].takes("json"));
        assert!(!clauses("text/json")[0].takes("json"));
    }

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
