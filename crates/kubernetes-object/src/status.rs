//! `metav1.Status`: the only form in which a client gets an error.
//!
//! The constructors follow `k8s.io/apimachinery/pkg/api/errors`, text for text. `response.rs` turns a `Status` into an HTTP
//! response.

pub mod invalid;
pub mod fault;

use crate::go_text::go_quote;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The reason of a conflict with an old resourceVersion (`registry.OptimisticLockErrorMsg`), for [`Status::conflict`].
pub const OPTIMISTIC_LOCK: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// A `metav1.Status` of failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Always `Status`.
    #[serde(default = "kind", skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Always `v1`.
    #[serde(default = "api_version", skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// A `ListMeta`, always empty here.
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// `Failure`, or `Success` in a Status from an upstream or a webhook.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// The description for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The reason for programs: `NotFound`, `Forbidden`, …; empty if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The object of the error, its causes, and the time of a retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<Details>>,
    /// The HTTP status code.
    #[serde(default)]
    pub code: u16,
    /// Whether a client gets the message alone, as plain text: an answer of Go's HTTP server, not of the API.
    #[serde(skip)]
    pub is_text: bool,
}

/// A `metav1.StatusDetails`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// Name of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// API group of the resource.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The plural resource name in most errors, the kind in validation errors.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// UID of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The causes, one entry each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// Seconds until a retry; 0 if unknown.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retry_after_seconds: i32,
}

/// A `metav1.StatusCause`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    /// The reason for programs: `FieldValueInvalid`, …
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The description for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Path of the field.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
}

fn kind() -> String {
    "Status".into()
}

fn api_version() -> String {
    "v1".into()
}

fn is_zero(n: &i32) -> bool {
    *n == 0
}

/// `resource.group`, or `resource` in the core group: `schema.GroupResource.String`.
pub fn group_resource(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

impl Status {
    /// Creates a failure with this code, reason and message, without details.
    pub fn failure(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self {
            kind: kind(),
            api_version: api_version(),
            metadata: Map::new(),
            status: "Failure".into(),
            message: message.into(),
            reason: reason.into(),
            details: None,
            code,
            is_text: false,
        }
    }

    /// Adds details.
    pub fn with_details(mut self, details: Details) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// Creates the Status of a Go error that is no Status: code 500, no reason (`responsewriters.ErrorToAPIStatus`).
    pub fn plain(why: impl std::fmt::Display) -> Self {
        Self::failure(500, "", why.to_string())
    }

    /// `NewBadRequest`.
    pub fn bad_request(why: impl std::fmt::Display) -> Self {
        Self::failure(400, "BadRequest", why.to_string())
    }

    /// `NewUnauthorized`.
    pub fn unauthorized() -> Self {
        Self::failure(401, "Unauthorized", "Unauthorized")
    }

    /// `NewForbidden`: the message leaves out an empty resource or name.
    pub fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let subject = group_resource(group, resource);
        let message = match (subject.as_str(), name) {
            ("", _) => format!("forbidden: {why}"),
            (subject, "") => format!("{subject} is forbidden: {why}"),
            (subject, name) => format!("{subject} \"{name}\" is forbidden: {why}"),
        };
        Self::failure(403, "Forbidden", message).with_details(details(group, resource, name))
    }

    /// `NewNotFound`.
    pub fn not_found(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{} {} not found", group_resource(group, resource), go_quote(name));
        Self::failure(404, "NotFound", message).with_details(details(group, resource, name))
    }

    /// `NewGenericServerResponse(404)`: the API server has no such path.
    pub fn no_such_path() -> Self {
        Self::failure(404, "NotFound", "the server could not find the requested resource")
            .with_details(Details::default())
    }

    /// `http.NotFound`: no API has such a path.
    pub fn page_not_found() -> Self {
        Self::text(404, "404 page not found")
    }

    /// Creates an answer of Go's HTTP server itself.
    pub fn text(code: u16, message: &str) -> Self {
        Self { is_text: true, ..Self::failure(code, "", message) }
    }

    /// `NewAlreadyExists`.
    pub fn already_exists(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{} {} already exists", group_resource(group, resource), go_quote(name));
        Self::failure(409, "AlreadyExists", message).with_details(details(group, resource, name))
    }

    /// `NewConflict`.
    pub fn conflict(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", group_resource(group, resource));
        Self::failure(409, "Conflict", message).with_details(details(group, resource, name))
    }

    /// `NewInvalid`: `kind` is the kind, not the resource; `text` is the aggregate of the causes.
    pub fn invalid(group: &str, kind: &str, name: &str, text: &str, causes: Vec<Cause>) -> Self {
        let message = format!("{} \"{name}\" is invalid: {text}", group_resource(group, kind));
        let mut details = details(group, kind, name);
        details.causes = causes;
        Self::failure(422, "Invalid", message).with_details(details)
    }

    /// `NewMethodNotSupported`.
    pub fn method_not_supported(group: &str, resource: &str, action: &str) -> Self {
        let message = format!("{action} is not supported on resources of kind \"{}\"", group_resource(group, resource));
        Self::failure(405, "MethodNotAllowed", message).with_details(details(group, resource, ""))
    }

    /// `NewInternalError`.
    pub fn internal_error(why: impl std::fmt::Display) -> Self {
        let why = why.to_string();
        Self::failure(500, "InternalError", format!("Internal error occurred: {why}"))
            .with_details(Details { causes: vec![Cause { message: why, ..Cause::default() }], ..Details::default() })
    }

    /// `NewRequestEntityTooLargeError`.
    pub fn too_large(why: &str) -> Self {
        Self::failure(413, "RequestEntityTooLarge", format!("Request entity too large: {why}"))
    }

    /// `NewTimeoutError`.
    pub fn timeout(why: &str) -> Self {
        Self::failure(504, "Timeout", format!("Timeout: {why}")).with_details(Details::default())
    }

    /// The answer to a write that took too long (`finisher.FinishRequest`).
    pub fn out_of_requested_time() -> Self {
        Self::timeout("request did not complete within requested timeout - context deadline exceeded")
    }

    /// The answer after the time that the client or `--request-timeout` gives a request: the filter that writes the answer
    /// (`filters.WithTimeoutForNonLongRunningRequests`) knows neither the answer's kind nor the media types that the client accepts.
    pub fn out_of_allotted_time() -> Self {
        let status = Self::timeout("request did not complete within the allotted timeout");
        Self { kind: String::new(), api_version: String::new(), ..status }
    }

    /// Whether the Status is [`Self::out_of_allotted_time`].
    pub fn is_of_timeout_filter(&self) -> bool {
        self.kind.is_empty()
    }

    /// `NewTooManyRequestsError`.
    pub fn too_many_requests(why: &str) -> Self {
        Self::failure(429, "TooManyRequests", format!("Too many requests: {why}"))
    }

    /// `filters.tooManyRequests`: the client should retry after a second.
    pub fn try_again_later() -> Self {
        let status = Self::failure(429, "TooManyRequests", "Too many requests, please try again later.");
        status.with_details(Details { retry_after_seconds: 1, ..Details::default() })
    }

    /// `NewServiceUnavailable`.
    pub fn service_unavailable(why: impl Into<String>) -> Self {
        Self::failure(503, "ServiceUnavailable", why)
    }

    /// `negotiation.NewUnsupportedMediaTypeError`.
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::failure(415, "UnsupportedMediaType", message)
    }

    /// `negotiation.NewNotAcceptableError`.
    pub fn not_acceptable(accepted: &[&str]) -> Self {
        let message = format!("only the following media types are accepted: {}", accepted.join(", "));
        Self::failure(406, "NotAcceptable", message)
    }

    /// Rejects a mutating request of a kind that the proxy cannot admit yet.
    pub fn not_implemented(what: &str) -> Self {
        Self::failure(501, "NotImplemented", format!("kube-admission-proxy cannot admit this request: {what}"))
    }
}

fn details(group: &str, kind: &str, name: &str) -> Details {
    Details { group: group.into(), kind: kind.into(), name: name.into(), ..Details::default() }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forbidden_leaves_out_what_is_empty() {
        assert_eq!(Status::forbidden("", "", "x", "no").message, "forbidden: no");
        assert_eq!(Status::forbidden("", "pods", "", "no").message, "pods is forbidden: no");
        assert_eq!(
            Status::forbidden("apps", "deployments", "x", "no").message,
            "deployments.apps \"x\" is forbidden: no"
        );
    }

    #[test]
    fn serializes_as_an_api_server_does() {
        let json = serde_json::to_value(Status::not_found("", "namespaces", "x")).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "namespaces \"x\" not found", "reason": "NotFound",
                "details": {"name": "x", "kind": "namespaces"}, "code": 404
            })
        );
    }
}
