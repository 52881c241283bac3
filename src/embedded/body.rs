//! Bodies of requests: read within bounds, decoded, and checked to be of the kind that the URL asks for.

use super::call::Call;
use crate::object::{GroupVersionKind, Object, decode, split_api_version};
use crate::status::Status;
use crate::upstream::Body;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use serde_json::{Map, Value};

/// Bytes of a body that an error message shows (`handlers.summarizeData`).
const SUMMARY: usize = 30;

/// Reads a body.
///
/// # Errors
/// When it is too long, or breaks off.
pub async fn read(mut body: Body, limit: usize) -> Result<Bytes, Status> {
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|error| Status::bad_request(format!("unable to read the request's body: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if data.len() > limit - bytes.len() {
            return Err(Status::too_large(&format!("limit is {limit}")));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes.freeze())
}

/// The object in a request's body, which is of the kind `kind`, and says so.
///
/// # Errors
/// When it is of another kind, or no object at all.
pub fn object(call: &Call, kind: &GroupVersionKind) -> Result<Object, Status> {
    let decoded = decoded(call).map_err(|error| match error {
        Undecodable::MediaType(status) => status,
        Undecodable::Text(text) => unrecognized(kind, &text, &call.body),
    })?;
    let Some(mut object) = Object::from_value(decoded.value) else {
        let text = "couldn't get version/kind; json parse error: json: cannot unmarshal value into Go value of type struct \
                    { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }";
        return Err(unrecognized(kind, text, &call.body));
    };
    let named = named(&object, kind);
    if call.parameter("fieldValidation").as_deref() == Some("Strict") && !decoded.duplicates.is_empty() {
        let fields: Vec<_> = decoded.duplicates.iter().map(|field| format!("duplicate field {field:?}")).collect();
        let why = format!("strict decoding error: {}", fields.join(", "));
        return Err(mishandled(&named, kind, &why));
    }
    if named.api_version() != kind.api_version() && named.kind == kind.kind {
        let (data, expected) = (named.api_version(), kind.api_version());
        let text = format!("the API version in the data ({data}) does not match the expected API version ({expected})");
        return Err(Status::bad_request(text));
    }
    if named != *kind {
        let go = |kind: &GroupVersionKind| format!("({}.{})", kind.version, kind.kind);
        let why = format!("converting {} to {}: unknown conversion", go(&named), go(kind));
        return Err(mishandled(&named, kind, &why));
    }
    object.fields_mut().insert("apiVersion".into(), Value::from(kind.api_version()));
    object.fields_mut().insert("kind".into(), Value::from(kind.kind.clone()));
    well_formed_metadata(&object, kind)?;
    let mut value = object.into_value();
    // Only a ControllerRevision holds data in which null is something.
    if kind.kind != "ControllerRevision" {
        drop_nulls(&mut value);
    }
    Ok(Object::from_value(value).unwrap_or_default())
}

/// Options in a body (`DeleteOptions`); `None` if there is no body.
///
/// # Errors
/// When the body is no JSON object.
pub fn options(call: &Call) -> Result<Option<Object>, Status> {
    if call.body.is_empty() {
        return Ok(None);
    }
    let decoded = decoded(call).map_err(|error| match error {
        Undecodable::MediaType(status) => status,
        Undecodable::Text(text) => Status::bad_request(text),
    })?;
    match Object::from_value(decoded.value) {
        Some(options) if matches!(options.kind(), "" | "DeleteOptions") => Ok(Some(options)),
        _ => Err(Status::bad_request("decoded object cannot be converted to DeleteOptions")),
    }
}

/// Checks what everything else relies on: that the metadata is an object, with strings where names are.
///
/// # Errors
/// When it is not.
pub fn well_formed_metadata(object: &Object, kind: &GroupVersionKind) -> Result<(), Status> {
    let refuse = |go_type: &str, field: &str, value: &Value| {
        let why = format!(
            "json: cannot unmarshal {} into Go struct field {}.{field} of type {go_type}",
            decode::go_type(value),
            kind.kind
        );
        Err(mishandled(kind, kind, &why))
    };
    let fields: &[(&[&str], &str)] = &[
        (&["name"], "string"),
        (&["generateName"], "string"),
        (&["namespace"], "string"),
        (&["uid"], "types.UID"),
        (&["resourceVersion"], "string"),
    ];
    match object.get(&["metadata"]) {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Object(_)) => {}
        Some(other) => return refuse("v1.ObjectMeta", "metadata", other),
    }
    for (field, go_type) in fields {
        match object.get(&["metadata", field[0]]) {
            None | Some(Value::Null | Value::String(_)) => {}
            Some(other) => return refuse(go_type, &format!("metadata.{}", field[0]), other),
        }
    }
    for field in ["labels", "annotations"] {
        match object.get(&["metadata", field]) {
            None | Some(Value::Null) => {}
            Some(Value::Object(map)) => {
                if let Some(other) = map.values().find(|value| !value.is_string() && !value.is_null()) {
                    return refuse("string", &format!("metadata.{field}"), other);
                }
            }
            Some(other) => return refuse("map[string]string", &format!("metadata.{field}"), other),
        }
    }
    match object.get(&["metadata", "finalizers"]) {
        Some(other) if !other.is_null() && !other.is_array() => refuse("[]string", "metadata.finalizers", other),
        _ => Ok(()),
    }
}

/// Removes fields that are null: for a typed decoder they are not there.
pub fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

enum Undecodable {
    MediaType(Status),
    Text(String),
}

fn decoded(call: &Call) -> Result<decode::Decoded, Undecodable> {
    let media_type = call.content_type.as_deref().unwrap_or_default();
    match media_type.split(';').next().unwrap_or_default().trim() {
        "" | "application/json" => decode::json(&call.body).map_err(Undecodable::Text),
        "application/yaml" => decode::yaml(&call.body).map_err(Undecodable::Text),
        _ => Err(Undecodable::MediaType(Status::unsupported_media_type(&["application/json", "application/yaml"]))),
    }
}

/// The kind that an object says it is; what it leaves out is as expected.
fn named(object: &Object, expected: &GroupVersionKind) -> GroupVersionKind {
    let (group, version) = match object.api_version() {
        "" => (expected.group.as_str(), expected.version.as_str()),
        api_version => split_api_version(api_version),
    };
    let kind = if object.kind().is_empty() { &expected.kind } else { object.kind() };
    GroupVersionKind::new(group, version, kind)
}

/// `transformDecodeError` where a kind was found.
fn mishandled(named: &GroupVersionKind, kind: &GroupVersionKind, why: &str) -> Status {
    let (name, version) = (&named.kind, &named.version);
    Status::bad_request(format!("{name} in version {version:?} cannot be handled as a {}: {why}", kind.kind))
}

/// `transformDecodeError` where none was found.
fn unrecognized(kind: &GroupVersionKind, why: &str, body: &[u8]) -> Status {
    let (head, more) = match body.get(..SUMMARY) {
        Some(head) if body.len() > SUMMARY => (head, " ..."),
        _ => (body, ""),
    };
    let summary = match head.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(head).into_owned(),
        Some(_) => head.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): {why} ({summary}{more})",
        kind.kind
    ))
}

/// A map of strings at a path, empty where there is none.
pub fn strings(object: &Object, path: &[&str]) -> Map<String, Value> {
    object.get(path).and_then(Value::as_object).cloned().unwrap_or_default()
}
