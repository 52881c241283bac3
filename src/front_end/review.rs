//! The AdmissionReview that an API server sends, and the answer to it: `admission.k8s.io/v1` and `v1beta1`.

use super::patch;
use crate::admission::{Annotation, Level, Operation};
use crate::kind::{GroupVersionKind, GroupVersionResource};
use crate::names::is_qualified_name;
use crate::object::{Object, decode};
use crate::status::Status;
use crate::user::UserInfo;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

const KIND: &str = "AdmissionReview";
/// The versions of the reviews that the front end reads.
pub(super) const VERSIONS: [&str; 2] = ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"];

/// The request of a review.
#[derive(Debug)]
pub(super) struct Review {
    /// The version of the review, which is also the version of the answer.
    version: &'static str,
    /// The uid, which the answer repeats.
    uid: String,
    /// The kind of the object in the review.
    pub(super) kind: GroupVersionKind,
    /// The resource of the object in the review.
    pub(super) resource: GroupVersionResource,
    pub(super) subresource: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) operation: Operation,
    pub(super) user: Arc<UserInfo>,
    pub(super) object: Option<Object>,
    pub(super) old_object: Option<Object>,
    pub(super) options: Option<Object>,
    pub(super) dry_run: bool,
}

/// The answer to a review.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// The refusal; `None` if the request may pass.
    pub(super) refusal: Option<Status>,
    /// The changes of the object.
    pub(super) patch: patch::Patch,
    /// The warnings for the client.
    pub(super) warnings: Vec<String>,
    /// The audit annotations.
    pub(super) annotations: Vec<Annotation>,
}

/// The fields of the request besides those that are moved out of it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Fields {
    uid: String,
    kind: Option<GroupVersionKind>,
    resource: Option<GroupVersionResource>,
    sub_resource: String,
    name: String,
    namespace: String,
    operation: String,
    user_info: UserInfo,
    dry_run: Option<bool>,
}

/// The reason why bytes are no review that can be answered, for the operator of the API server.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct InvalidReview(String);

impl Review {
    /// Decodes a review.
    ///
    /// # Errors
    /// If the bytes are no review, or no review that can be answered.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, InvalidReview> {
        let review = decode::json(bytes).map_err(|why| InvalidReview(format!("the body is no JSON: {why}")))?.value;
        let Value::Object(mut review) = review else { return Err(InvalidReview("the body is no JSON object".into())) };
        let text = |field: &str| review.get(field).and_then(Value::as_str).unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let version =
            VERSIONS.into_iter().find(|version| *version == api_version && kind == KIND).ok_or_else(|| {
                let known = VERSIONS.join(" or ");
                InvalidReview(format!("the body is {kind:?} of {api_version:?}: it must be {KIND:?} of {known}"))
            })?;
        let Some(Value::Object(mut request)) = review.remove("request") else {
            return Err(InvalidReview("the review has no request".into()));
        };
        let object = taken(&mut request, "object")?;
        let old_object = taken(&mut request, "oldObject")?;
        let options = taken(&mut request, "options")?;
        // A null is an absent value, as for Go.
        request.retain(|_, value| !value.is_null());
        let fields: Fields = typed(Value::Object(request))?;
        let missing = |field: &str| InvalidReview(format!("the review has no request.{field}"));
        if fields.uid.is_empty() {
            return Err(missing("uid"));
        }
        let operation = Operation::of(&fields.operation).ok_or_else(|| {
            let found = &fields.operation;
            InvalidReview(format!("request.operation {found:?} must be CREATE, UPDATE, DELETE or CONNECT"))
        })?;
        let needs_object = operation != Operation::Delete;
        if needs_object && object.is_none() {
            return Err(missing("object"));
        }
        if operation == Operation::Update && old_object.is_none() {
            return Err(missing("oldObject"));
        }
        Ok(Self {
            version,
            uid: fields.uid,
            kind: fields.kind.ok_or_else(|| missing("kind"))?,
            resource: fields.resource.ok_or_else(|| missing("resource"))?,
            subresource: fields.sub_resource,
            namespace: fields.namespace,
            name: fields.name,
            operation,
            user: Arc::new(fields.user_info),
            object,
            old_object,
            options,
            dry_run: fields.dry_run.unwrap_or_default(),
        })
    }

    /// The identity of the review, which its answer repeats.
    pub(super) fn id(&self) -> Id {
        Id { version: self.version, uid: self.uid.clone() }
    }
}

/// The version and the uid of a review.
#[derive(Clone, Debug)]
pub(super) struct Id {
    version: &'static str,
    uid: String,
}

impl Id {
    pub(super) fn uid(&self) -> &str {
        &self.uid
    }
}

/// Takes an object out of the request; `None` if the field is absent or null.
fn taken(request: &mut Map<String, Value>, field: &str) -> Result<Option<Object>, InvalidReview> {
    match request.remove(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => Object::from_value(value)
            .map(Some)
            .ok_or_else(|| InvalidReview(format!("request.{field} is no JSON object"))),
    }
}

fn typed<T: DeserializeOwned>(value: Value) -> Result<T, InvalidReview> {
    serde_json::from_value(value).map_err(|why| InvalidReview(format!("request: {why}")))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    kind: &'a str,
    api_version: &'a str,
    response: Response<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'a Status>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    audit_annotations: BTreeMap<String, &'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    warnings: &'a [String],
}

impl Answer {
    /// Encodes the answer to a review.
    ///
    /// # Errors
    /// If the patch has no JSON form, which cannot happen to values that came as JSON.
    pub(super) fn encode(&self, Id { version, uid }: &Id) -> Result<Vec<u8>, serde_json::Error> {
        let patch = match self.refusal.is_none() && !self.patch.is_empty() {
            true => Some(STANDARD.encode(serde_json::to_vec(&self.patch)?)),
            false => None,
        };
        let published = self.annotations.iter().filter(|(_, _, level)| *level == Level::Metadata);
        serde_json::to_vec(&Written {
            kind: KIND,
            api_version: version,
            response: Response {
                uid,
                allowed: self.refusal.is_none(),
                status: self.refusal.as_ref(),
                patch_type: patch.is_some().then_some("JSONPatch"),
                patch,
                audit_annotations: published
                    .filter_map(|(key, value, _)| Some((annotation_key(key)?, value.as_str())))
                    .collect(),
                warnings: &self.warnings,
            },
        })
    }
}

/// The key of an audit annotation in an answer. The API server puts the webhook's name and a slash before the key, so that a slash in it
/// becomes an underscore. `None` if no such key is valid.
fn annotation_key(key: &str) -> Option<String> {
    let key = key.replace('/', "_");
    is_qualified_name(&key).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn review() -> Value {
        json!({
            "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
            "request": {
                "uid": "u", "kind": {"group": "", "version": "v1", "kind": "Pod"},
                "resource": {"group": "", "version": "v1", "resource": "pods"}, "subResource": "resize",
                "requestKind": {"group": "x", "version": "v2", "kind": "Other"},
                "requestResource": {"group": "x", "version": "v2", "resource": "others"},
                "name": "a", "namespace": "n", "operation": "UPDATE",
                "userInfo": {"username": "alice", "uid": "7", "groups": ["g"], "extra": {"k": ["v"]}},
                "object": {"metadata": {"name": "a"}}, "oldObject": {"metadata": {"name": "b"}},
                "dryRun": true, "options": {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"},
            },
        })
    }

    fn decoded(review: &Value) -> Result<Review, String> {
        Review::decode(review.to_string().as_bytes()).map_err(|why| why.to_string())
    }

    #[test]
    fn a_review_has_the_fields_of_the_request() {
        let review = decoded(&review()).unwrap();
        assert_eq!((review.version, &*review.uid), (VERSIONS[0], "u"));
        assert_eq!(review.kind, GroupVersionKind::new("", "v1", "Pod"));
        assert_eq!(review.resource, GroupVersionResource::new("", "v1", "pods"));
        assert_eq!((&*review.subresource, &*review.namespace, &*review.name), ("resize", "n", "a"));
        assert_eq!((review.operation, review.dry_run), (Operation::Update, true));
        assert_eq!((&*review.user.username, &*review.user.uid), ("alice", "7"));
        assert_eq!((&*review.user.groups[0], &*review.user.extra["k"][0]), ("g", "v"));
        assert_eq!(review.object.unwrap().name(), "a");
        assert_eq!(review.old_object.unwrap().name(), "b");
        assert_eq!(review.options.unwrap().kind(), "UpdateOptions");
    }

    #[test]
    fn absent_fields_are_those_of_go() {
        let mut of_delete = review();
        of_delete["apiVersion"] = json!("admission.k8s.io/v1beta1");
        for field in ["object", "options", "dryRun", "subResource"] {
            of_delete["request"][field] = Value::Null;
        }
        of_delete["request"]["operation"] = json!("DELETE");
        let review = decoded(&of_delete).unwrap();
        assert_eq!((review.version, review.operation), (VERSIONS[1], Operation::Delete));
        assert!(
            review.object.is_none() && review.options.is_none() && !review.dry_run && review.subresource.is_empty()
        );
    }

    #[test]
    fn a_bad_review_is_refused_with_the_reason() {
        let changed = |path: &str, value: Value| {
            let mut review = review();
            *review.pointer_mut(path).unwrap() = value;
            review
        };
        for (review, why) in [
            (json!([]), "the body is no JSON object"),
            (json!({}), "the body is \"\" of \"\""),
            (
                changed("/apiVersion", json!("admission.k8s.io/v2")),
                "the body is \"AdmissionReview\" of \"admission.k8s.io/v2\"",
            ),
            (changed("/kind", json!("Pod")), "the body is \"Pod\" of"),
            (changed("/request", Value::Null), "the review has no request"),
            (changed("/request/uid", json!("")), "the review has no request.uid"),
            (changed("/request/kind", Value::Null), "the review has no request.kind"),
            (changed("/request/resource", Value::Null), "the review has no request.resource"),
            (changed("/request/operation", json!("GET")), "request.operation \"GET\" must be"),
            (changed("/request/object", Value::Null), "the review has no request.object"),
            (changed("/request/oldObject", Value::Null), "the review has no request.oldObject"),
            (changed("/request/object", json!(7)), "request.object is no JSON object"),
            (changed("/request/userInfo", json!(7)), "request: invalid type"),
            (changed("/request/dryRun", json!("yes")), "request: invalid type"),
        ] {
            let error = decoded(&review).unwrap_err();
            assert!(error.starts_with(why), "{error} is not {why}");
        }
        assert!(Review::decode(b"{").unwrap_err().0.starts_with("the body is no JSON: "));
        assert!(Review::decode(b"").is_err());
    }

    fn written(answer: &Answer) -> Value {
        let id = Id { version: VERSIONS[1], uid: "u".into() };
        serde_json::from_slice(&answer.encode(&id).unwrap()).unwrap()
    }

    #[test]
    fn an_answer_without_content_has_no_more_than_uid_and_verdict() {
        let expected = json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1beta1",
            "response": {"uid": "u", "allowed": true}});
        assert_eq!(written(&Answer::default()), expected);
    }

    #[test]
    fn an_answer_has_patch_warnings_and_annotations() {
        let object = |value: Value| Object::from_value(value).unwrap();
        let change = patch::between(&object(json!({"a": 1})), &object(json!({"a": 2})));
        let annotations = vec![
            ("pod-security.kubernetes.io/exempt".to_owned(), "user".to_owned(), Level::Metadata),
            ("a.io/big".to_owned(), "x".to_owned(), Level::Request),
            (format!("a.io/{}", "x".repeat(63)), "too long".to_owned(), Level::Metadata),
        ];
        let mut answer = Answer { patch: change, warnings: vec!["w".into()], annotations, refusal: None };
        let response = written(&answer)["response"].take();
        let patch = STANDARD.decode(response["patch"].as_str().unwrap()).unwrap();
        let patch: Value = serde_json::from_slice(&patch).unwrap();
        assert_eq!(patch, json!([{"op": "replace", "path": "/a", "value": 2}]));
        assert_eq!(response["patchType"], "JSONPatch");
        assert_eq!(response["warnings"], json!(["w"]));
        assert_eq!(response["auditAnnotations"], json!({"pod-security.kubernetes.io_exempt": "user"}));
        // A refusal has no patch, since the API server refuses such an answer of a validating webhook.
        answer.refusal = Some(Status::forbidden("", "pods", "a", "no"));
        let response = written(&answer)["response"].take();
        assert_eq!(
            (&response["allowed"], &response["patch"], &response["patchType"]),
            (&json!(false), &Value::Null, &Value::Null)
        );
        assert_eq!((&response["status"]["code"], &response["status"]["reason"]), (&json!(403), &json!("Forbidden")));
        assert_eq!(response["status"]["message"], "pods \"a\" is forbidden: no");
    }
}
