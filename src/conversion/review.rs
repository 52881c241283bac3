//! The ConversionReview request to a webhook, and the check of its answer (`getConvertedObjectsFromResponse`).

use super::ConversionError;
use super::metrics::Failure;
use crate::backend::{Answer, response};
use crate::go_text::{go_dynamic_type, go_quote, go_type};
use crate::kind::GroupVersionKind;
use crate::names::{label_value_errors, qualified_name_errors};
use crate::object::Object;
use crate::object::structural::numbers;
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
    let object = serde_json::to_vec(&*numbers::as_written(object)).ok()?;
    let after = r#"]},"response":{"uid":"","convertedObjects":null,"result":{"metadata":{}}}}"#;
    let body = [before.into(), object.into(), Bytes::from_static(after.as_bytes()), Bytes::from_static(b"\n")];
    Some(Request { api_version, uid, body })
}

impl Request {
    /// The objects of an answer, as undecoded JSON.
    ///
    /// # Errors
    /// If the answer is not a review, or reports a failure.
    pub(super) fn objects(&self, answer: &Answer) -> Result<Vec<Value>, (Failure, String)> {
        let call = |why: String| (Failure::Call, why);
        let malformed = |why: String| (Failure::MalformedResponse, why);
        response::check(answer).map_err(|status| call(status.message))?;
        let review = response::review(answer, self.api_version, KIND, &[V1, V1BETA1]);
        let mut review = review.map_err(|why| call(why.to_string()))?;
        let is_v1 = self.api_version == V1;
        let said = response::said_type(&review);
        if is_v1 && said != (V1, KIND) {
            let got = response::kind_text(said);
            return Err(malformed(format!("expected webhook response of {V1}, Kind={KIND}, got {got}")));
        }
        let Some(Value::Object(mut fields)) = review.remove("response") else {
            return Err(malformed("no response provided".into()));
        };
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let of_result = |field: &str| text(fields.get("result").and_then(|result| result.get(field)));
        let (uid, status, message) = (text(fields.get("uid")), of_result("status"), of_result("message"));
        if is_v1 && uid != self.uid {
            return Err(malformed(format!("expected response.uid={}, got {}", go_quote(&self.uid), go_quote(&uid))));
        }
        if status != "Success" {
            return Err(malformed(match message.is_empty() {
                true => format!("response.result.status was '{status}', not 'Success'"),
                false => message,
            }));
        }
        match fields.remove("convertedObjects") {
            Some(Value::Array(objects)) => Ok(objects),
            _ => Ok(Vec::new()),
        }
    }
}

/// Decodes a converted object (`Unstructured.UnmarshalJSON`).
///
/// # Errors
/// If the value has no kind, or is not a JSON object.
pub(super) fn object(mut value: Value) -> Result<Object, ConversionError> {
    let found = go_type(&value);
    if value.is_object() && value.get("kind").and_then(Value::as_str).unwrap_or_default().is_empty() {
        return Err(ConversionError(format!("Object 'Kind' is missing in '{value}'")));
    }
    numbers::read(&mut value);
    Object::from_value(value).ok_or_else(|| match found {
        "null" => ConversionError("unexpected end of JSON input".to_owned()),
        _ => ConversionError(format!(
            "json: cannot unmarshal {found} into Go value of type struct {{ Items gojson.RawMessage }}"
        )),
    })
}

/// The metadata of the original object. A webhook may change only labels and annotations.
pub(super) struct Metadata<'a> {
    pub(super) original: &'a Object,
}

impl Metadata<'_> {
    /// `validateConvertedObject`
    pub(super) fn check(&self, converted: &Object) -> Result<(), ConversionError> {
        let original = self.original;
        for (what, before, after) in [
            ("name", original.name(), converted.name()),
            ("namespace", original.namespace(), converted.namespace()),
            ("UID", original.uid(), converted.uid()),
        ] {
            if before != after {
                return Err(ConversionError(format!("must have the same {what}: {before} != {after}")));
            }
        }
        Ok(())
    }

    /// Returns the converted object with the original's metadata, but with the converted labels and annotations (`restoreObjectMeta`).
    pub(super) fn restore(&self, mut converted: Object) -> Result<Object, ConversionError> {
        let answered = match converted.fields_mut().remove("metadata") {
            None => return Err(ConversionError("missing metadata in converted object".into())),
            Some(Value::Object(answered)) => answered,
            Some(other) => {
                return Err(ConversionError(format!(
                    "invalid metadata of type {} in converted object",
                    go_dynamic_type(&other)
                )));
            }
        };
        let original = self.original.get(&["metadata"]);
        let mut metadata = original.and_then(Value::as_object).cloned().unwrap_or_default();
        for name in ["labels", "annotations"] {
            let before = metadata.remove(name);
            let after = match answered.get(name) {
                None | Some(Value::Null) => continue,
                Some(Value::Object(after)) => after,
                Some(other) => {
                    let found = go_dynamic_type(other);
                    return Err(ConversionError(format!(
                        "invalid metadata.{name} of type {found} in converted object"
                    )));
                }
            };
            for (key, value) in after {
                if !value.is_string() {
                    let found = go_dynamic_type(value);
                    return Err(ConversionError(format!(
                        "metadata.{name}[{key}] must be a string, but is {found} in converted object"
                    )));
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
fn validate(name: &str, entries: &Map<String, Value>) -> Result<(), ConversionError> {
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
    aggregate(errors).map_or(Ok(()), |why| Err(ConversionError(why)))
}
