//! What client-go makes of an HTTP answer, whatever was asked: an object, or the Status of an error.

use super::Answer;
use crate::object::decode::{self, go_quote, go_type};
use crate::object::typed::{self, Typed};
use crate::object::{GroupVersionKind, split_api_version};
use crate::status::{Cause, Details, Status};
use serde_json::{Map, Value};

/// Makes sure that the answer is a success (`Request.transformResponse`).
///
/// # Errors
/// With the Status that is in it, or what client-go makes of its code.
pub fn check(answer: &Answer) -> Result<(), Status> {
    media_type(&answer.content_type).map_err(|why| Status::internal_error(format!("mime: {why}")))?;
    if (200..=206).contains(&answer.status.as_u16()) { Ok(()) } else { Err(server_error(answer)) }
}

/// The object in a success (`Result.Into`, as far as the kind does not matter).
///
/// # Errors
/// When there is none.
pub fn object(answer: &Answer) -> Result<Map<String, Value>, String> {
    if answer.body.is_empty() {
        return Err(format!(
            "0-length response with status code: {} and content type: {}",
            answer.status.as_u16(),
            if answer.content_type.is_empty() { "application/json" } else { &answer.content_type }
        ));
    }
    document(&answer.body)
}

/// `mime.ParseMediaType`, as far as its errors go.
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

/// The body as a JSON object: JSON if it begins like an object, else YAML.
fn document(body: &[u8]) -> Result<Map<String, Value>, String> {
    let is_json = body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    let broken = |why: String| format!("couldn't get version/kind; json parse error: {why}");
    let value = if is_json {
        decode::json(body).map_err(broken)?.value
    } else {
        decode::yaml(body).map_err(|why| if why.starts_with("yaml:") { why } else { broken(why) })?.value
    };
    match value {
        Value::Object(fields) => Ok(fields),
        other => Err(broken(format!(
            "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; \
             Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            go_type(&other)
        ))),
    }
}

/// What it says of its version and its kind.
///
/// # Errors
/// When these are no texts.
pub fn type_of(review: &Map<String, Value>) -> Result<(&str, &str), String> {
    let text = |field: &str, name: &str| match review.get(field) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(&**text),
        Some(other) => Err(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go struct field .{name} of type string",
            go_type(other)
        )),
    };
    Ok((text("apiVersion", "apiVersion")?, text("kind", "kind")?))
}

/// Makes sure that client-go decodes the object into one of this type: what it does not say of itself is as expected.
/// `known` are the apiVersions of the kind.
///
/// # Errors
/// When it is something else.
pub fn check_type(object: &Map<String, Value>, api_version: &str, kind: &str, known: &[&str]) -> Result<(), String> {
    let (found, found_kind) = type_of(object)?;
    let found_kind = if found_kind.is_empty() { kind } else { found_kind };
    let found = if found.is_empty() { api_version } else { found };
    let (_, wanted) = split_api_version(api_version);
    match (found, found_kind) {
        _ if found == api_version && found_kind == kind => Ok(()),
        _ if found_kind == kind && known.contains(&found) => {
            let (_, got) = split_api_version(found);
            Err(format!("converting ({got}.{kind}) to ({wanted}.{kind}): unknown conversion"))
        }
        ("v1", "Status") => Err(format!("converting (v1.Status) to ({wanted}.{kind}): unknown conversion")),
        _ => Err(format!(
            "no kind \"{found_kind}\" is registered for version \"{found}\" in scheme \"pkg/runtime/scheme.go:111\""
        )),
    }
}

/// `GroupVersionKind.String` of what an object says of itself.
pub fn kind_text(api_version: &str, kind: &str) -> String {
    let (group, version) = split_api_version(api_version);
    format!("{group}/{version}, Kind={kind}")
}

/// A Status as Go reads it: what is null is as good as missing, and numbers may be out of the range of what a Status of ours holds.
///
/// # Errors
/// When it is none.
pub fn status(value: Value) -> Result<Status, String> {
    let kind = GroupVersionKind::new("", "v1", "Status");
    let mut decoded = typed::decode(&kind, value).unwrap_or_else(|| Ok(Typed::default()))?.value;
    for (path, most) in [("/code", u64::from(u16::MAX)), ("/details/retryAfterSeconds", u64::from(u32::MAX))] {
        if let Some(number) = decoded.pointer_mut(path) {
            *number = number.as_u64().unwrap_or(0).min(most).into();
        }
    }
    serde_json::from_value(decoded).map_err(|error| error.to_string())
}

/// The error of an answer that is no success: the Status in it, or what client-go makes of the code.
fn server_error(answer: &Answer) -> Status {
    if let Ok(fields) = document(&answer.body)
        && let Ok((api_version, kind)) = type_of(&fields)
        && matches!(api_version, "" | "v1")
        && kind == "Status"
        && let Ok(status) = status(Value::Object(fields))
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
    let retry_after_seconds = answer.retry_after_seconds.and_then(|s| u32::try_from(s).ok()).unwrap_or(0);
    status.details = Some(Box::new(Details { causes: vec![cause], retry_after_seconds, ..Details::default() }));
    status
}

/// How much of an answer's text an error repeats (`maxUnstructuredResponseTextBytes`).
const MAX_TEXT_BYTES: usize = 2048;

/// `errors.NewGenericServerResponse` for a POST without a resource.
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
