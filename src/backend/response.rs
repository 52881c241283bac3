//! client-go's decoding of an HTTP answer, for any request: an object, or the Status of an error.

use super::Answer;
use crate::go_text::{go_quote, go_type};
use crate::kind::{GroupVersionKind, split_api_version};
use crate::object::decode::{self, Decoded, InvalidJson, InvalidYaml};
use crate::object::typed::{self, DecodeError, Typed};
use crate::status::{Cause, Details, Status};
use serde_json::{Map, Value};
use std::fmt;

/// The reason why an answer cannot be decoded, with client-go's text.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Undecodable {
    /// The body is empty.
    #[error("0-length response with status code: {code} and content type: {content_type}")]
    Empty {
        /// The code of the answer.
        code: u16,
        /// The media type of the answer.
        content_type: String,
    },
    /// The body is no JSON.
    #[error("{BROKEN}: {0}")]
    Json(InvalidJson),
    /// The body is neither JSON nor YAML.
    #[error(transparent)]
    Yaml(InvalidYaml),
    /// The body is YAML that cannot be converted to JSON.
    #[error("{BROKEN}: {0}")]
    Unconvertible(InvalidYaml),
    /// The value is no object, but has this type.
    #[error(
        "{BROKEN}: json: cannot unmarshal {0} into Go value of type struct {{ APIVersion string \
         \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
    )]
    NoObject(&'static str),
    /// The apiVersion or the kind is no text.
    #[error("{BROKEN}: json: cannot unmarshal {found} into Go struct field .{field} of type string")]
    NoText {
        /// The type of the value.
        found: &'static str,
        /// The name of the field.
        field: &'static str,
    },
    /// client-go does not know the kind.
    #[error("no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \"pkg/runtime/scheme.go:111\"")]
    UnknownKind {
        /// The apiVersion of the object.
        api_version: String,
        /// The kind of the object.
        kind: String,
    },
    /// The object is of a kind that client-go knows, but not of the expected one.
    #[error("converting ({found}) to ({wanted}): unknown conversion")]
    OtherKind {
        /// The version and kind of the object, with a dot between.
        found: String,
        /// The expected version and kind.
        wanted: String,
    },
    /// A field has another type.
    #[error(transparent)]
    Field(#[from] DecodeError),
    /// A field of a Status is out of the range that our Status has.
    #[error(transparent)]
    Status(#[from] serde_json::Error),
}

/// The beginning of errors about an object's apiVersion and kind.
const BROKEN: &str = "couldn't get version/kind; json parse error";

/// Checks that the answer is a success (`Request.transformResponse`).
///
/// # Errors
/// If the answer is an error: with the Status in it, or the Status that client-go makes from the code.
pub(crate) fn check(answer: &Answer) -> Result<(), Status> {
    media_type(&answer.content_type).map_err(|why| Status::internal_error(format!("mime: {why}")))?;
    if (200..=206).contains(&answer.status.as_u16()) { Ok(()) } else { Err(server_error(answer)) }
}

/// Returns the fields of the review in a success, each of its type (`Result.Into`); a missing apiVersion or kind counts as expected.
/// `known` are the apiVersions that the kind has.
///
/// # Errors
/// If the answer has no object, or another object.
pub(crate) fn review(
    answer: &Answer,
    api_version: &str,
    kind: &str,
    known: &[&str],
) -> Result<Map<String, Value>, Undecodable> {
    let (decoded, is_json) = document(answer)?;
    let given = type_of(&decoded.value)?;
    let found = if given.api_version.is_empty() { api_version } else { given.api_version };
    let found_kind = if given.kind.is_empty() { kind } else { given.kind };
    let is_known = found_kind == kind && known.contains(&found);
    if !is_known && (found, found_kind) != ("v1", "Status") {
        return Err(Undecodable::UnknownKind { api_version: found.to_owned(), kind: found_kind.to_owned() });
    }
    let is_expected = (found, found_kind) == (api_version, kind);
    let (group, version) = split_api_version(found);
    let found = GroupVersionKind::new(group, version, found_kind);
    let typed = match is_json {
        true => typed::decode_json(&found, decoded, &answer.body),
        false => typed::decode(&found, decoded.value),
    };
    match typed.unwrap_or_else(|| Ok(Typed::default()))?.value {
        _ if !is_expected => {
            let (_, wanted) = split_api_version(api_version);
            let (found, wanted) = (format!("{}.{}", found.version, found.kind), format!("{wanted}.{kind}"));
            Err(Undecodable::OtherKind { found, wanted })
        }
        Value::Object(fields) => Ok(fields),
        _ => Ok(Map::new()),
    }
}

/// The apiVersion and the kind that an object names (`metav1.TypeMeta`); empty if missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeclaredType<'a> {
    pub(crate) api_version: &'a str,
    pub(crate) kind: &'a str,
}

impl<'a> DeclaredType<'a> {
    /// Returns the type that a review names.
    pub(crate) fn of(review: &'a Map<String, Value>) -> Self {
        let text = |field: &str| review.get(field).and_then(Value::as_str).unwrap_or_default();
        Self { api_version: text("apiVersion"), kind: text("kind") }
    }
}

/// Formats the type like `GroupVersionKind.String`.
impl fmt::Display for DeclaredType<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (group, version) = split_api_version(self.api_version);
        write!(f, "{group}/{version}, Kind={}", self.kind)
    }
}

/// Returns the object in a success, of any kind.
///
/// # Errors
/// If the answer has no object.
pub(crate) fn object(answer: &Answer) -> Result<Map<String, Value>, Undecodable> {
    match document(answer)?.0.value {
        Value::Object(fields) => Ok(fields),
        other => Err(Undecodable::NoObject(go_type(&other))),
    }
}

/// Checks a media type for the errors of `mime.ParseMediaType`.
fn media_type(content_type: &str) -> Result<(), &'static str> {
    let media = content_type.split(';').next().unwrap_or_default().trim();
    if media.is_empty() {
        return if content_type.is_empty() { Ok(()) } else { Err("no media type") };
    }
    let token = |c: char| c.is_ascii_graphic() && !"()<>@,;:\\\"/[]?=".contains(c);
    let rest = media.trim_start_matches(token);
    match rest.strip_prefix('/') {
        _ if rest.is_empty() => Ok(()),
        _ if rest.len() == media.len() => Err("no media type"),
        None => Err("expected slash after first token"),
        Some(subtype) if subtype.is_empty() || !subtype.starts_with(token) => Err("expected token after slash"),
        Some(subtype) if subtype.contains(|c| !token(c)) => Err("unexpected content after media subtype"),
        Some(_) => Ok(()),
    }
}

/// Decodes the body, and returns whether it is JSON: a body that does not begin like an object is YAML.
fn document(answer: &Answer) -> Result<(Decoded, bool), Undecodable> {
    if answer.body.is_empty() {
        let content_type = if answer.content_type.is_empty() { "application/json" } else { &answer.content_type };
        return Err(Undecodable::Empty { code: answer.status.as_u16(), content_type: content_type.to_owned() });
    }
    let is_json = answer.body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    let decoded = match is_json {
        true => decode::json(&answer.body).map_err(Undecodable::Json),
        false => decode::yaml(&answer.body).map_err(|why| match why.to_string().starts_with("yaml:") {
            true => Undecodable::Yaml(why),
            false => Undecodable::Unconvertible(why),
        }),
    };
    Ok((decoded?, is_json))
}

/// Returns the type that an object names; empty for null.
fn type_of(value: &Value) -> Result<DeclaredType<'_>, Undecodable> {
    let fields = match value {
        Value::Object(fields) => fields,
        Value::Null => return Ok(Default::default()),
        other => return Err(Undecodable::NoObject(go_type(other))),
    };
    let text = |field: &'static str| match fields.get(field) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(&**text),
        Some(other) => Err(Undecodable::NoText { found: go_type(other), field }),
    };
    Ok(DeclaredType { api_version: text("apiVersion")?, kind: text("kind")? })
}

/// Reads a Status as Go does: null counts as missing, and numbers may exceed the range of our Status.
///
/// # Errors
/// If the value is no Status.
pub(crate) fn status(value: Value) -> Result<Status, Undecodable> {
    let kind = GroupVersionKind::new("", "v1", "Status");
    let typed = typed::decode(&kind, value).unwrap_or_else(|| Ok(Typed::default()))?;
    typed_status(typed.value)
}

/// Reads a Status from a decoded value.
///
/// # Errors
/// If the value is no Status.
pub(crate) fn typed_status(mut typed: Value) -> Result<Status, Undecodable> {
    if let Some(code) = typed.get_mut("code") {
        *code = code.as_u64().unwrap_or(0).min(u16::MAX.into()).into();
    }
    let status: Status = serde_json::from_value(typed)?;
    // The kind and apiVersion of the value are ignored.
    let Status { kind, api_version, .. } = Status::failure(0, "", "");
    Ok(Status { kind, api_version, ..status })
}

/// Returns the error of an answer that is no success: the Status in it, or the Status that client-go makes from the code.
fn server_error(answer: &Answer) -> Status {
    if let Ok((Decoded { value, .. }, _)) = document(answer)
        && let Ok(DeclaredType { api_version: "" | "v1", kind: "Status" }) = type_of(&value)
        && let Ok(status) = status(value)
        && status.status == "Failure"
    {
        return status;
    }
    let media = answer.content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_text = media.is_empty() || media.starts_with("text/");
    let cut = answer.body.get(..MAX_TEXT_BYTES).unwrap_or(&answer.body);
    let text = if is_text { String::from_utf8_lossy(cut).trim().to_owned() } else { "unknown".into() };
    let mut status = generic_server_response(answer.status.as_u16(), &text);
    let cause = Cause { reason: "UnexpectedServerResponse".into(), message: text, ..Cause::default() };
    let retry_after_seconds = answer.retry_after_seconds.and_then(|s| i32::try_from(s).ok()).unwrap_or(0);
    status.details = Some(Box::new(Details { causes: vec![cause], retry_after_seconds, ..Details::default() }));
    status
}

/// Bytes of an answer's text that an error repeats (`maxUnstructuredResponseTextBytes`).
const MAX_TEXT_BYTES: usize = 2048;

/// Creates the `errors.NewGenericServerResponse` of a POST without a resource.
fn generic_server_response(code: u16, text: &str) -> Status {
    let (reason, message) = match code {
        400 => ("BadRequest", "the server rejected our request for an unknown reason"),
        401 => ("Unauthorized", "the server has asked for the client to provide credentials"),
        403 => ("Forbidden", text),
        404 => ("NotFound", "the server could not find the requested resource"),
        405 => ("MethodNotAllowed", "the server does not allow this method on the requested resource"),
        406 if text.is_empty() || text == "unknown" => {
            ("NotAcceptable", "the server was unable to respond with a content type that the client supports")
        }
        406 => ("NotAcceptable", text),
        409 => ("AlreadyExists", "the server reported a conflict"),
        415 => ("UnsupportedMediaType", text),
        422 => ("Invalid", "the server rejected our request due to an error in our request"),
        429 => ("TooManyRequests", "the server has received too many requests and has asked us to try again later"),
        503 => ("ServiceUnavailable", "the server is currently unable to handle the request"),
        504 => (
            "Timeout",
            "the server was unable to return a response in the time allotted, but may still be processing the request",
        ),
        500.. => ("InternalError", ""),
        _ => ("", ""),
    };
    let message = match (message, reason) {
        ("", "InternalError") => {
            format!("an error on the server ({}) has prevented the request from succeeding", go_quote(text))
        }
        ("", "") => format!("the server responded with the status code {code} but did not return more information"),
        (message, _) => message.to_owned(),
    };
    Status::failure(code, reason, message)
}
