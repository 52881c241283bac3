//! From what the path decided to HTTP: the one place that writes a [`Status`] to a client.

use crate::status::Status;
use crate::upstream::{Body, full};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};

/// A Status as an HTTP response (`responsewriters.ErrorNegotiated`), in JSON: clients that accept protobuf only read it too.
pub fn status(status: &Status) -> Response<Body> {
    // A Status holds nothing that cannot be serialized: strings, numbers and a JSON map.
    let body = serde_json::to_vec(status).unwrap_or_default();
    let mut response = Response::new(full(body));
    *response.status_mut() = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    if let Some(seconds) = status.details.as_ref().map(|details| details.retry_after_seconds).filter(|s| *s > 0) {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_impossible_code_becomes_500() {
        assert_eq!(status(&Status::failure(7, "", "x")).status(), 500);
    }

    #[test]
    fn says_when_to_come_back() {
        let mut busy = Status::too_many_requests("later");
        busy.details = Some(Box::new(crate::status::Details { retry_after_seconds: 3, ..Default::default() }));
        assert_eq!(status(&busy).headers()[RETRY_AFTER], "3");
    }
}
