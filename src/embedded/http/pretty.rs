//! JSON for people: `?pretty=true`, curl and browsers (`isPrettyPrint`).

use crate::body::{self, Body};
use crate::request::accept::{self, AnswerType};
use crate::request::body::MediaTypes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, Response, Uri};
use http_body::Body as _;
use http_body_util::BodyExt;

/// Whether the client gets indented JSON.
pub(in crate::embedded) fn is_asked(headers: &HeaderMap, uri: &Uri) -> bool {
    let is_of_api = uri.path().starts_with("/api");
    is_of_api
        && accept::negotiate(headers, uri, AnswerType::Custom, MediaTypes::default()).is_some_and(|form| form.is_pretty)
}

/// The response with its JSON indented. A watch stays as it is.
pub(in crate::embedded) async fn indented(response: Response<Body>) -> Response<Body> {
    let is_json = response.headers().get(CONTENT_TYPE).is_some_and(|of| of.as_bytes().starts_with(b"application/json"));
    if !is_json || response.body().size_hint().exact().is_none_or(|bytes| bytes == 0) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    parts.headers.remove(CONTENT_LENGTH);
    // The body is in memory, so that it cannot fail.
    let bytes = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    Response::from_parts(parts, body::full(indent(&bytes)))
}

/// Indents compact JSON as `json.MarshalIndent` does.
fn indent(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() * 2);
    let (mut depth, mut is_in_string, mut is_escaped) = (0, false, false);
    let new_line = |out: &mut Vec<u8>, depth: usize| {
        out.push(b'\n');
        out.extend(std::iter::repeat_n(b' ', depth * 2));
    };
    for &byte in json {
        if is_in_string {
            out.push(byte);
            is_in_string = is_escaped || byte != b'"';
            is_escaped = byte == b'\\' && !is_escaped;
            continue;
        }
        match byte {
            b' ' | b'\n' | b'\r' | b'\t' => {}
            b'{' | b'[' => {
                // What is within begins with a line of its own; an empty pair has none.
                if matches!(out.last(), Some(b'{' | b'[')) {
                    new_line(&mut out, depth);
                }
                out.push(byte);
                depth += 1;
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if !matches!(out.last(), Some(b'{' | b'[')) {
                    new_line(&mut out, depth);
                }
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                new_line(&mut out, depth);
            }
            b':' => out.extend(b": "),
            _ => {
                if matches!(out.last(), Some(b'{' | b'[')) {
                    new_line(&mut out, depth);
                }
                is_in_string = byte == b'"';
                out.push(byte);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn json_is_indented_as_by_go() {
        for value in [
            json!({}),
            json!([]),
            json!({"a": {}, "b": [], "c": [1, {"d": "{\"[,:]\\"}, [[]], [null, true]], "e": "x y"}),
            json!("a"),
        ] {
            let compact = serde_json::to_vec(&value).unwrap();
            let text = String::from_utf8(indent(&compact)).unwrap();
            assert_eq!(text, serde_json::to_string_pretty(&value).unwrap());
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
            assert_eq!(indent(text.as_bytes()), text.as_bytes());
        }
    }
}
