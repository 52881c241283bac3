//! Turns the outcome of a request into an HTTP response: the only place that writes a [`Status`] to a client.

mod yaml;

pub(crate) use yaml::{document as yaml_document, entry as yaml_entry};

use crate::body::{Body, full};
use crate::go_text::json::escape_html;
use crate::object::{cbor, protobuf};
use crate::request::accept::{self, Agreed, AnswerType};
use crate::request::body::{MediaType, MediaTypes};
use crate::status::Status;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, Response, StatusCode, Uri};

/// The form of a Status for a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResponseForm(Option<Agreed>);

impl ResponseForm {
    /// Returns the form that a request accepts; indented JSON if the server supports no such form
    /// (`responsewriters.ErrorNegotiated`).
    pub(crate) fn of(headers: &HeaderMap, uri: &Uri, known: MediaTypes) -> Self {
        Self(accept::negotiate(headers, uri, AnswerType::Failure, known))
    }

    /// Whether the form is JSON.
    pub(crate) fn is_json(self) -> bool {
        self.0.is_none_or(|agreed| agreed.media_type == MediaType::Json)
    }
}

/// Writes a Status as an HTTP response, in the form that the client accepts.
pub(crate) fn status(status: &Status, form: ResponseForm) -> Response<Body> {
    if status.is_text {
        return text(status);
    }
    if status.is_of_timeout_filter() {
        let line = serde_json::to_string(status).unwrap_or_default();
        return text(&Status { message: line, ..status.clone() });
    }
    let media_type = form.0.map_or(MediaType::Json, |agreed| agreed.media_type);
    let body = match media_type {
        MediaType::Yaml => yaml::status(status).into_bytes(),
        MediaType::Protobuf => protobuf::encode_status(status),
        // A Status has only strings, numbers and a JSON map, which can always be serialized.
        MediaType::Cbor => cbor::encode(&serde_json::to_value(status).unwrap_or_default()),
        MediaType::Json => json(status, form.0.is_none_or(|agreed| agreed.is_pretty)),
    };
    let mut response = Response::new(full(body));
    *response.status_mut() = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type.as_str()));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    if let Some(seconds) = status.details.as_ref().map(|details| details.retry_after_seconds).filter(|s| *s > 0) {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// `http.Error`
fn text(status: &Status) -> Response<Body> {
    let mut response = Response::new(full(format!("{}\n", status.message)));
    *response.status_mut() = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Writes JSON as Go's `encoding/json` does: indented or with a newline at the end, and with the characters of HTML escaped.
fn json(status: &Status, is_pretty: bool) -> Vec<u8> {
    // A Status has only strings, numbers and a JSON map, which can always be serialized.
    let text = if is_pretty { serde_json::to_string_pretty(status) } else { serde_json::to_string(status) };
    let mut written = escape_html(&text.unwrap_or_default());
    if !is_pretty {
        written.push('\n');
    }
    written.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    fn form(accept: &'static str, uri: &'static str) -> ResponseForm {
        let headers = HeaderMap::from_iter([(http::header::ACCEPT, HeaderValue::from_static(accept))]);
        ResponseForm::of(&headers, &Uri::from_static(uri), MediaTypes { has_cbor: true })
    }

    async fn written(status: &Status, form: ResponseForm) -> (String, String) {
        let (parts, body) = super::status(status, form).into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (parts.headers[CONTENT_TYPE].to_str().unwrap().to_owned(), String::from_utf8_lossy(&body).into_owned())
    }

    #[test]
    fn an_impossible_code_becomes_500() {
        assert_eq!(status(&Status::failure(7, "", "x"), form("", "/")).status(), 500);
    }

    #[test]
    fn says_when_to_come_back() {
        let mut busy = Status::too_many_requests("later");
        busy.details = Some(Box::new(crate::status::Details { retry_after_seconds: 3, ..Default::default() }));
        assert_eq!(status(&busy, form("", "/")).headers()[RETRY_AFTER], "3");
    }

    /// Compares with the answers of a kube-apiserver 1.36.3.
    #[tokio::test]
    async fn the_timeout_filter_knows_no_forms() {
        for accept in ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"] {
            let response = status(&Status::out_of_allotted_time(), form(accept, "/"));
            let (parts, body) = response.into_parts();
            assert_eq!(
                (parts.status.as_u16(), &parts.headers[CONTENT_TYPE]),
                (504, &HeaderValue::from_static("text/plain; charset=utf-8"))
            );
            let body = http_body_util::BodyExt::collect(body).await.unwrap().to_bytes();
            let expected = r#"{"metadata":{},"status":"Failure","message":"Timeout: request did not complete within the allotted timeout","reason":"Timeout","details":{},"code":504}"#;
            assert_eq!(String::from_utf8_lossy(&body), format!("{expected}\n"), "{accept}");
        }
    }

    #[tokio::test]
    async fn is_written_in_the_form_that_the_client_accepts() {
        let refusal = Status::not_found("", "configmaps", "<x>");
        let plain = "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\
                     \"message\":\"configmaps \\\"\\u003cx\\u003e\\\" not found\",\"reason\":\"NotFound\",\
                     \"details\":{\"name\":\"\\u003cx\\u003e\",\"kind\":\"configmaps\"},\"code\":404}\n";
        let pretty = "{\n  \"kind\": \"Status\",\n  \"apiVersion\": \"v1\",\n  \"metadata\": {},\n  \"status\": \"Failure\",\n  \
                      \"message\": \"configmaps \\\"\\u003cx\\u003e\\\" not found\",\n  \"reason\": \"NotFound\",\n  \
                      \"details\": {\n    \"name\": \"\\u003cx\\u003e\",\n    \"kind\": \"configmaps\"\n  },\n  \"code\": 404\n}";
        let yaml = "apiVersion: v1\ncode: 404\ndetails:\n  kind: configmaps\n  name: <x>\nkind: Status\n\
                    message: configmaps \"<x>\" not found\nmetadata: {}\nreason: NotFound\nstatus: Failure\n";
        let json = "application/json";
        for (accept, uri, media_type, expected) in [
            ("", "/", json, plain),
            ("application/json", "/?pretty=1", json, pretty),
            ("application/json;pretty=1", "/", json, pretty),
            // The server does not support this form.
            ("text/html", "/", json, pretty),
            ("application/json;as=Table;v=v1;g=meta.k8s.io", "/", json, pretty),
            ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "/", json, plain),
            ("application/yaml", "/?pretty=1", "application/yaml", yaml),
        ] {
            let found = written(&refusal, form(accept, uri)).await;
            assert_eq!(found, (media_type.to_owned(), expected.to_owned()), "{accept} {uri}");
        }
    }

    #[tokio::test]
    async fn a_path_that_is_no_apis_is_not_found_in_plain_text() {
        let found = written(&Status::page_not_found(), form("application/json", "/")).await;
        assert_eq!(found, ("text/plain; charset=utf-8".to_owned(), "404 page not found\n".to_owned()));
    }

    #[tokio::test]
    async fn is_written_in_cbor() {
        let response = super::status(&Status::not_found("", "pods", "a"), form("application/cbor", "/"));
        let (parts, body) = response.into_parts();
        assert_eq!(parts.headers[CONTENT_TYPE], "application/cbor");
        let body = body.collect().await.unwrap().to_bytes();
        let expected = serde_json::json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "pods \"a\" not found",
            "reason": "NotFound", "details": {"name": "a", "kind": "pods"}, "code": 404,
        });
        assert!(cbor::is_cbor(&body));
        assert_eq!(cbor::decode(&body).unwrap().map(serde_json::Value::Object), Some(expected));
    }

    #[tokio::test]
    async fn is_written_in_protobuf_byte_for_byte() {
        let refusal = Status::not_found("", "configmaps", "nope");
        let expected = "k8s\0\n\x0c\n\x02v1\x12\x06Status\x12U\n\x06\n\0\x12\0\x1a\0\x12\x07Failure\x1a\x1bconfigmaps \"nope\" \
                        not found\"\x08NotFound*\x18\n\x04nope\x12\0\x1a\nconfigmaps(\x002\x000\u{fffd}\x03\x1a\0\"\0";
        let (media_type, found) = written(&refusal, form("application/vnd.kubernetes.protobuf", "/")).await;
        assert_eq!((&*media_type, &*found), ("application/vnd.kubernetes.protobuf", expected));
    }
}
