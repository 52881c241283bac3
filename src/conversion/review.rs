//! The ConversionReview request to a webhook, and the check of its answer (`getConvertedObjectsFromResponse`).

use super::WebhookFault;
use crate::backend::response::{DeclaredType, Undecodable};
use crate::backend::{Answer, NoAnswer, response};
use crate::go_text::{go_dynamic_type, go_quote, go_type};
use crate::kind::GroupVersionKind;
use crate::names::{label_value_errors, qualified_name_errors};
use crate::object::Object;
use crate::object::go_text::numbers;
use crate::object::normal;
use crate::status::Status;
use crate::status::invalid::aggregate;
use bytes::Bytes;
use serde_json::{Map, Value};

const KIND: &str = "ConversionReview";
const V1: &str = "apiextensions.k8s.io/v1";
const V1BETA1: &str = "apiextensions.k8s.io/v1beta1";
/// The maximum bytes of all annotations of an object (`validation.TotalAnnotationSizeLimitB`).
const MAX_ANNOTATION_BYTES: usize = 256 * 1024;

/// A review request with one object.
pub(super) struct Request {
    api_version: &'static str,
    uid: String,
    /// The request body.
    pub(super) body: [Bytes; 4],
}

/// The review request in the first supported version of `versions`. `None` if no version is supported.
pub(super) fn request(versions: &[String], object: &Object, to: &GroupVersionKind) -> Option<Request> {
    let known = |version: &String| match version.as_str() {
        "v1" => Some(V1),
        "v1beta1" => Some(V1BETA1),
        _ => None,
    };
    let api_version = versions.iter().find_map(known)?;
    let uid = uuid::Uuid::new_v4().to_string();
    let desired = to.api_version();
    let before = format!(
        r#"{{"kind":"{KIND}","apiVersion":"{api_version}","request":{{"uid":"{uid}","desiredAPIVersion":"{desired}","objects":["#
    );
    let object = serde_json::to_vec(&*normal::as_written(object)).ok()?;
    let after = r#"]},"response":{"uid":"","convertedObjects":null,"result":{"metadata":{}}}}"#;
    let body = [before.into(), object.into(), Bytes::from_static(after.as_bytes()), Bytes::from_static(b"\n")];
    Some(Request { api_version, uid, body })
}

/// The reason why a call gives no objects.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoObjects {
    /// No answer comes. In Go, the client's own timeout ends such a call and adds its text.
    #[error("{}{}", .0, waits(.0))]
    NoAnswer(NoAnswer),
    /// The server answers with an error.
    #[error(transparent)]
    Refused(Box<Status>),
    /// The answer is no review.
    #[error(transparent)]
    Undecodable(#[from] Undecodable),
    /// The answer does not name its kind.
    #[error("expected webhook response of {V1}, Kind={KIND}, got {0}")]
    Kind(String),
    /// The review has no response.
    #[error("no response provided")]
    NoResponse,
    /// The response is for another request.
    #[error("expected response.uid={}, got {}", go_quote(wanted), go_quote(got))]
    Uid {
        /// The request's identifier.
        wanted: String,
        /// The response's identifier.
        got: String,
    },
    /// The response has this status instead of success, and no message.
    #[error("response.result.status was '{0}', not 'Success'")]
    Status(String),
    /// The webhook's own message of a failure.
    #[error("{0}")]
    Message(String),
}

impl NoObjects {
    /// Whether the call itself failed, rather than its review.
    pub(super) fn is_of_call(&self) -> bool {
        matches!(self, Self::NoAnswer(_) | Self::Refused(_) | Self::Undecodable(_))
    }
}

fn waits(error: &NoAnswer) -> &'static str {
    let is_late = error.to_string().ends_with("context deadline exceeded");
    if is_late { " (Client.Timeout exceeded while awaiting headers)" } else { "" }
}

impl Request {
    /// The objects of an answer, as undecoded JSON.
    ///
    /// # Errors
    /// If the answer is not a review, or reports a failure.
    pub(super) fn objects(&self, answer: &Answer) -> Result<Vec<Value>, NoObjects> {
        response::check(answer).map_err(|status| NoObjects::Refused(Box::new(status)))?;
        let mut review = response::review(answer, self.api_version, KIND, &[V1, V1BETA1])?;
        let is_v1 = self.api_version == V1;
        let found = DeclaredType::of(&review);
        if is_v1 && found != (DeclaredType { api_version: V1, kind: KIND }) {
            return Err(NoObjects::Kind(found.to_string()));
        }
        let Some(Value::Object(mut fields)) = review.remove("response") else {
            return Err(NoObjects::NoResponse);
        };
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let of_result = |field: &str| text(fields.get("result").and_then(|result| result.get(field)));
        let (uid, status, message) = (text(fields.get("uid")), of_result("status"), of_result("message"));
        if is_v1 && uid != self.uid {
            return Err(NoObjects::Uid { wanted: self.uid.clone(), got: uid });
        }
        if status != "Success" {
            return Err(if message.is_empty() { NoObjects::Status(status) } else { NoObjects::Message(message) });
        }
        match fields.remove("convertedObjects") {
            Some(Value::Array(objects)) => Ok(objects),
            _ => Ok(Vec::new()),
        }
    }
}

/// The reason why a value is no object, with kube-apiserver's text.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoObject {
    /// The object has no kind.
    #[error("Object 'Kind' is missing in '{0}'")]
    NoKind(Value),
    /// The value is null.
    #[error("unexpected end of JSON input")]
    Null,
    /// The value has this type.
    #[error("json: cannot unmarshal {0} into Go value of type struct {{ Items gojson.RawMessage }}")]
    Type(&'static str),
}

/// Decodes a converted object (`Unstructured.UnmarshalJSON`).
///
/// # Errors
/// If the value has no kind, or is not a JSON object.
pub(super) fn object(mut value: Value) -> Result<Object, NoObject> {
    let found = go_type(&value);
    if value.is_object() && value.get("kind").and_then(Value::as_str).unwrap_or_default().is_empty() {
        return Err(NoObject::NoKind(value));
    }
    numbers::read(&mut value);
    Object::from_value(value).ok_or(match found {
        "null" => NoObject::Null,
        _ => NoObject::Type(found),
    })
}

/// The reason why the metadata of a converted object is invalid.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InvalidMetadata {
    /// There is none.
    #[error("missing metadata in converted object")]
    Missing,
    /// The metadata has this type.
    #[error("invalid metadata of type {0} in converted object")]
    Type(&'static str),
    /// The labels or annotations have another type.
    #[error("invalid metadata.{field} of type {found} in converted object")]
    FieldType {
        /// The name of the field.
        field: &'static str,
        /// The type of the field.
        found: &'static str,
    },
    /// A label or an annotation has another type.
    #[error("metadata.{field}[{key}] must be a string, but is {found} in converted object")]
    ValueType {
        /// The name of the field.
        field: &'static str,
        /// The key of the value.
        key: String,
        /// The type of the value.
        found: &'static str,
    },
    /// The rules of the API that labels or annotations break, with their text.
    #[error("{0}")]
    Rules(String),
}

/// The metadata of the original object. A webhook may change only labels and annotations.
pub(super) struct Metadata<'a> {
    pub(super) original: &'a Object,
}

impl Metadata<'_> {
    /// `validateConvertedObject`
    pub(super) fn check(&self, converted: &Object) -> Result<(), WebhookFault> {
        let original = self.original;
        for (what, before, after) in [
            ("name", original.name(), converted.name()),
            ("namespace", original.namespace(), converted.namespace()),
            ("UID", original.uid(), converted.uid()),
        ] {
            if before != after {
                let (before, after) = (before.to_owned(), after.to_owned());
                return Err(WebhookFault::Identity { what, before, after });
            }
        }
        Ok(())
    }

    /// Returns the converted object with the original's metadata, but with the converted labels and annotations (`restoreObjectMeta`).
    pub(super) fn restore(&self, mut converted: Object) -> Result<Object, InvalidMetadata> {
        let answered = match converted.fields_mut().remove("metadata") {
            None => return Err(InvalidMetadata::Missing),
            Some(Value::Object(answered)) => answered,
            Some(other) => return Err(InvalidMetadata::Type(go_dynamic_type(&other))),
        };
        let original = self.original.get(&["metadata"]);
        let mut metadata = original.and_then(Value::as_object).cloned().unwrap_or_default();
        for name in ["labels", "annotations"] {
            let before = metadata.remove(name);
            let after = match answered.get(name) {
                None | Some(Value::Null) => continue,
                Some(Value::Object(after)) => after,
                Some(other) => {
                    return Err(InvalidMetadata::FieldType { field: name, found: go_dynamic_type(other) });
                }
            };
            for (key, value) in after {
                if !value.is_string() {
                    let (key, found) = (key.clone(), go_dynamic_type(value));
                    return Err(InvalidMetadata::ValueType { field: name, key, found });
                }
            }
            let empty = Map::new();
            if before.as_ref().and_then(Value::as_object).unwrap_or(&empty) != after {
                validate(name, after)?;
            }
            metadata.insert(name.to_owned(), Value::Object(after.clone()));
        }
        converted.fields_mut().insert("metadata".into(), Value::Object(metadata));
        Ok(converted)
    }
}

/// `ValidateLabels` and `ValidateAnnotations`. The latter names its field `metadata.annotation`, as kube-apiserver does.
fn validate(name: &str, entries: &Map<String, Value>) -> Result<(), InvalidMetadata> {
    let mut errors = Vec::new();
    let mut invalid = |path: &str, value: &str, why: Vec<String>| {
        errors.extend(why.iter().map(|why| format!("{path}: Invalid value: {}: {why}", go_quote(value))));
    };
    let texts = || entries.iter().map(|(key, value)| (key, value.as_str().unwrap_or_default()));
    if name == "labels" {
        for (key, value) in texts() {
            invalid("metadata.labels", key, qualified_name_errors(key));
            invalid("metadata.labels", value, label_value_errors(value));
        }
    } else {
        for (key, _) in texts() {
            invalid("metadata.annotation", key, qualified_name_errors(key.to_lowercase()));
        }
        if texts().map(|(key, value)| key.len() + value.len()).sum::<usize>() > MAX_ANNOTATION_BYTES {
            errors.push(format!("metadata.annotation: Too long: may not be more than {MAX_ANNOTATION_BYTES} bytes"));
        }
    }
    aggregate(errors).map_or(Ok(()), |why| Err(InvalidMetadata::Rules(why)))
}
