//! `imagepolicy.k8s.io/v1alpha1` ImageReview: the request to the backend, and its answer.

use crate::admission::Attributes;
use crate::backend::response::Undecodable;
use crate::go_text::go_type;
use crate::kind::{GroupVersionKind, split_api_version};
use crate::object::{Object, typed};
use crate::plugins::rules::pod::{WrongType, spec_list};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

const API_VERSION: &str = "imagepolicy.k8s.io/v1alpha1";
const KIND: &str = "ImageReview";
/// The part of a key that selects an annotation for the backend.
const ANNOTATION_PART: &str = ".image-policy.k8s.io/";

/// The spec of a request's review, as JSON. The spec is also the key of the cached answer.
///
/// # Errors
/// If the object is not a pod.
pub(super) fn spec(attributes: &Attributes) -> Result<String, WrongType> {
    let pod = attributes.object.as_ref().ok_or(WrongType)?;
    // The API server does not store other changes of such a request (`dropNonEphemeralContainerUpdates`).
    let is_debugging = attributes.subresource == "ephemeralcontainers";
    let annotated = attributes.old_object.as_deref().filter(|_| is_debugging).unwrap_or(pod);
    let lists: &[&str] = if is_debugging { &["ephemeralContainers"] } else { &["containers", "initContainers"] };
    let mut images = Vec::new();
    for list in lists {
        for container in spec_list(pod, list)? {
            images.push(match container.get("image") {
                None | Some(Value::Null) => json!({}),
                Some(Value::String(image)) if image.is_empty() => json!({}),
                Some(Value::String(image)) => json!({ "image": image }),
                Some(_) => return Err(WrongType),
            });
        }
    }
    let mut spec = Map::new();
    if !images.is_empty() {
        spec.insert("containers".into(), images.into());
    }
    let annotations = annotations(annotated)?;
    if !annotations.is_empty() {
        spec.insert("annotations".into(), json!(annotations));
    }
    if !attributes.namespace.is_empty() {
        spec.insert("namespace".into(), attributes.namespace.clone().into());
    }
    Ok(Value::Object(spec).to_string())
}

/// The annotations that the backend receives (`filterAnnotations`).
fn annotations(pod: &Object) -> Result<BTreeMap<&str, &str>, WrongType> {
    let all = match pod.get(&["metadata", "annotations"]) {
        None | Some(Value::Null) => return Ok(BTreeMap::new()),
        Some(all) => all.as_object().ok_or(WrongType)?,
    };
    let text = |value: &'_ Value| value.as_str().is_some() || value.is_null();
    if !all.values().all(text) {
        return Err(WrongType);
    }
    let wanted = all.iter().filter(|(key, _)| key.contains(ANNOTATION_PART));
    Ok(wanted.map(|(key, value)| (&**key, value.as_str().unwrap_or_default())).collect())
}

/// The review with the spec, in kube-apiserver's encoding.
pub(super) fn body(spec: &str) -> String {
    format!(
        "{{\"kind\":\"{KIND}\",\"apiVersion\":\"{API_VERSION}\",\"metadata\":{{}},\"spec\":{spec},\
         \"status\":{{\"allowed\":false}}}}\n"
    )
}

/// The status of an answered review.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Verdict {
    /// Whether the pod may run its images.
    pub(crate) allowed: bool,
    /// The reason of a refusal.
    pub(crate) reason: String,
    /// Annotations for the audit event, whose keys lack the plugin's prefix.
    pub(crate) audit_annotations: Vec<(String, String)>,
}

/// The reason why an answer has no verdict.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoVerdict {
    /// The answer is no ImageReview.
    #[error(transparent)]
    Undecodable(#[from] Undecodable),
    /// A field has another type, with the text of Go's decoder.
    #[error("json: cannot unmarshal {found} into Go struct field {path} of type {wanted}")]
    WrongType { found: &'static str, path: String, wanted: &'static str },
}

impl NoVerdict {
    fn wrong_type(found: &Value, path: &str, wanted: &'static str) -> Self {
        Self::WrongType { found: go_type(found), path: path.to_owned(), wanted }
    }
}

impl Verdict {
    /// Reads an answer. A missing field means that the pod is refused.
    ///
    /// # Errors
    /// If the answer is not an ImageReview.
    pub(super) fn read(answer: &Map<String, Value>) -> Result<Self, NoVerdict> {
        check_type(answer)?;
        let no_fields = Map::new();
        let object = |of: &'_ Map<String, Value>, field: &str, path: &str, of_type: &'static str| match of.get(field) {
            None | Some(Value::Null) => Ok(Map::new()),
            Some(Value::Object(fields)) => Ok(fields.clone()),
            Some(other) => Err(NoVerdict::wrong_type(other, path, of_type)),
        };
        if let Some(metadata) = answer.get("metadata") {
            typed::object_meta(metadata.clone()).map_err(Undecodable::Field)?;
        }
        object(answer, "spec", "ImageReview.spec", "v1alpha1.ImageReviewSpec")?;
        let status = match answer.get("status") {
            None | Some(Value::Null) => &no_fields,
            Some(Value::Object(fields)) => fields,
            Some(other) => {
                return Err(NoVerdict::wrong_type(other, "ImageReview.status", "v1alpha1.ImageReviewStatus"));
            }
        };
        let path = |field: &str| format!("ImageReviewStatus.status.{field}");
        let allowed = match status.get("allowed") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(allowed)) => *allowed,
            Some(other) => return Err(NoVerdict::wrong_type(other, &path("allowed"), "bool")),
        };
        let reason = text(status.get("reason"), &path("reason"))?;
        let given = object(status, "auditAnnotations", &path("auditAnnotations"), "map[string]string")?;
        let mut audit_annotations = Vec::new();
        for (key, value) in given {
            let value = text(Some(&value), &path("auditAnnotations"))?;
            audit_annotations.push((key, value));
        }
        Ok(Self { allowed, reason, audit_annotations })
    }

    /// The approximate size in bytes.
    pub(super) fn size(&self) -> usize {
        let pairs: usize = self.audit_annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
        self.reason.len() + pairs
    }
}

fn text(value: Option<&Value>, path: &str) -> Result<String, NoVerdict> {
    match value {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) => Err(NoVerdict::wrong_type(other, path, "string")),
    }
}

/// Checks that client-go would decode the object as a review. A missing apiVersion or kind is accepted.
fn check_type(answer: &Map<String, Value>) -> Result<(), Undecodable> {
    let given = |field: &'static str| match answer.get(field) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(&**text),
        Some(other) => Err(Undecodable::NoText { found: go_type(other), field }),
    };
    let (api_version, kind) = (given("apiVersion")?, given("kind")?);
    let api_version = if api_version.is_empty() { API_VERSION } else { api_version };
    let kind = if kind.is_empty() { KIND } else { kind };
    if (api_version, kind) == (API_VERSION, KIND) {
        return Ok(());
    }
    let (group, version) = split_api_version(api_version);
    let known = typed::decode(&GroupVersionKind::new(group, version, kind), json!({})).is_some();
    let is_status = (api_version, kind) == ("v1", "Status");
    let is_admission_review =
        kind == "AdmissionReview" && matches!(api_version, "admission.k8s.io/v1" | "admission.k8s.io/v1beta1");
    if known || is_status || is_admission_review {
        let (found, wanted) = (format!("{version}.{kind}"), "v1alpha1.ImageReview".to_owned());
        return Err(Undecodable::OtherKind { found, wanted });
    }
    Err(Undecodable::UnknownKind { api_version: api_version.to_owned(), kind: kind.to_owned() })
}
