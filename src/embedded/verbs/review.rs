//! Reviews: kinds that the server answers and does not store. Without RBAC every user may do everything.

use super::token_request::{self, Authenticated};
use crate::authz::{AccessAttributes, Decision};
use crate::body::Body;
use crate::embedded::http::call::Call;
use crate::embedded::http::{body, respond};
use crate::embedded::rbac;
use crate::embedded::strategies::metadata;
use crate::go_text;
use crate::object::Object;
use crate::status::{Cause, Status};
use crate::user::UserInfo;
use http::{Response, StatusCode};
use serde_json::{Map, Value, json};

/// Whether a resource is a review.
pub(in crate::embedded) fn is_review(group: &str, resource: &str) -> bool {
    match group {
        "authentication.k8s.io" => matches!(resource, "tokenreviews" | "selfsubjectreviews"),
        "authorization.k8s.io" => resource.ends_with("reviews"),
        _ => false,
    }
}

/// Responds to a review.
///
/// # Errors
/// If the review's spec is incomplete.
pub(in crate::embedded) fn review(call: &Call) -> Result<Response<Body>, Status> {
    let mut review = body::object(call, &call.resource.gvk())?;
    body::ensure_namespace(&mut review, call.namespace())?;
    keep_known_metadata(&mut review);
    call.owners().record(None, &mut review);
    let status = match &*call.resource.name {
        "selfsubjectreviews" => json!({"userInfo": call.caller}),
        "tokenreviews" => token_status(call, &review)?,
        "selfsubjectrulesreviews" => rules_status(call, &review)?,
        name => {
            check_access(call, &review)?;
            match name {
                "selfsubjectaccessreviews" => access_status(call, &call.caller, &review),
                _ => access_status(call, &reviewed_user(&review), &review),
            }
        }
    };
    review.fields_mut().insert("status".into(), status);
    match &*call.resource.name {
        // These answers are objects of their own.
        "selfsubjectreviews" => {
            review.fields_mut().insert("metadata".into(), json!({"creationTimestamp": metadata::now()}));
        }
        "selfsubjectrulesreviews" => {
            review.fields_mut().extend([("metadata".to_owned(), json!({})), ("spec".to_owned(), json!({}))]);
        }
        _ => {}
    }
    if review.get(&["metadata"]).is_none() {
        review.fields_mut().insert("metadata".into(), json!({}));
    }
    Ok(respond::value(call, StatusCode::CREATED, &review.into_value()))
}

/// The user in the spec of a SubjectAccessReview (`AuthorizationAttributesFrom`).
fn reviewed_user(review: &Object) -> UserInfo {
    let text = |field: &str| review.str(&["spec", field]).to_owned();
    let groups = review.items(&["spec", "groups"]).iter().filter_map(Value::as_str).map(str::to_owned).collect();
    UserInfo { username: text("user"), uid: text("uid"), groups, ..UserInfo::default() }
}

/// Decides the action in the spec of a review that [`check_access`] accepts.
fn access_status(call: &Call, user: &UserInfo, review: &Object) -> Value {
    let of = |part: &'static str| move |field: &str| review.str(&["spec", part, field]).to_owned();
    let (resource, path) = (of("resourceAttributes"), of("nonResourceAttributes"));
    let attributes = match review.get(&["spec", "resourceAttributes"]) {
        Some(Value::Object(_)) => AccessAttributes {
            is_resource_request: true,
            verb: resource("verb"),
            namespace: resource("namespace"),
            api_group: resource("group"),
            api_version: resource("version"),
            resource: resource("resource"),
            subresource: resource("subresource"),
            name: resource("name"),
            ..AccessAttributes::default()
        },
        _ => AccessAttributes { verb: path("verb"), path: path("path"), ..AccessAttributes::default() },
    };
    if !call.server.settings.rbac {
        return json!({"allowed": true});
    }
    let Decision { allowed, reason, .. } = rbac::authorize(&*call.server.store, user, &attributes);
    let mut status = json!({ "allowed": allowed });
    if let (false, Some(fields)) = (reason.is_empty(), status.as_object_mut()) {
        fields.insert("reason".to_owned(), reason.into());
    }
    status
}

/// `selfsubjectrulesreview.REST.Create`.
///
/// # Errors
/// If the spec names no namespace.
fn rules_status(call: &Call, review: &Object) -> Result<Value, Status> {
    let namespace = review.str(&["spec", "namespace"]);
    if namespace.is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    if !call.server.settings.rbac {
        return Ok(json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        }));
    }
    let (resources, paths) = rbac::rules_of(&*call.server.store, &call.caller, namespace);
    Ok(json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false}))
}

/// `tokenreview.REST.Create`, with the tokens of service accounts alone.
fn token_status(call: &Call, review: &Object) -> Result<Value, Status> {
    let token = review.str(&["spec", "token"]);
    if token.is_empty() {
        return Err(Status::bad_request("token is required for TokenReview in authentication"));
    }
    let audiences = review.items(&["spec", "audiences"]).iter().filter_map(Value::as_str).map(str::to_owned);
    let audiences: Vec<String> = audiences.collect();
    let known = token_request::authenticate(&*call.server.store, &call.server.settings.tokens, token, &audiences);
    Ok(match known {
        Ok(Some(Authenticated { user, audiences })) => {
            json!({"authenticated": true, "user": user.with_authenticated_group(), "audiences": audiences})
        }
        Ok(None) => json!({"user": {}, "error": "invalid bearer token"}),
        Err(reason) => json!({"user": {}, "error": format!("[invalid bearer token, {reason}]")}),
    })
}

/// The fields of metadata that a client may set, in Go's order (`metav1.ObjectMeta`, `WipeObjectMetaSystemFields`).
const METADATA: [&str; 10] = [
    "name",
    "generateName",
    "namespace",
    "resourceVersion",
    "generation",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];
/// The fields of an item of `ownerReferences` and of `managedFields`, in Go's order.
const OWNER_REFERENCE: [&str; 6] = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
const MANAGER: [&str; 7] = ["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"];

/// Removes what kube-apiserver does not decode, or wipes. A review is not stored, so that fields of a later release have no use here.
fn keep_known_metadata(review: &mut Object) {
    if let Some(metadata) = review.fields_mut().get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|field, value| METADATA.contains(&&**field) && !is_zero(value));
    }
}

/// True for the values that Go omits (`omitempty`).
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) => false,
    }
}

/// The metadata of a review as kube-apiserver writes it into the text of an error.
fn metadata_text(metadata: &Map<String, Value>) -> String {
    let of = |fields: &Map<String, Value>, order: &[&str], text: &dyn Fn(&str, &Value) -> String| {
        let present = order.iter().filter_map(|field| Some((*field, fields.get(*field)?)));
        let texts: Vec<String> = present.map(|(field, value)| format!("\"{field}\":{}", text(field, value))).collect();
        format!("{{{}}}", texts.join(","))
    };
    let plain = |_: &str, value: &Value| go_text::json::text(value);
    of(metadata, &METADATA, &|field, value| {
        let order: &[&str] = match field {
            "ownerReferences" => &OWNER_REFERENCE,
            "managedFields" => &MANAGER,
            _ => return plain(field, value),
        };
        let items = value.as_array().into_iter().flatten().filter_map(Value::as_object);
        format!("[{}]", items.map(|item| of(item, order, &plain)).collect::<Vec<_>>().join(","))
    })
}

/// Checks an access review (`ValidateSubjectAccessReview`, `ValidateSelfSubjectAccessReview`, `ValidateLocalSubjectAccessReview`).
///
/// # Errors
/// 422 if the spec does not describe one action of a user, if the action of a local review is not in its namespace, or if the review has
/// metadata.
fn check_access(call: &Call, review: &Object) -> Result<(), Status> {
    let mut causes = Vec::new();
    let mut invalid = |field: &str, value: &str, why: &str| {
        let message = format!("Invalid value: {value}: {why}");
        causes.push(Cause { reason: "FieldValueInvalid".into(), message, field: field.into() });
    };
    let text = |path: &[&str]| go_text::json::string(review.str(path));
    let part = |name: &str| review.get(&["spec", name]).is_some_and(Value::is_object);
    let (resource, path) = (part("resourceAttributes"), part("nonResourceAttributes"));
    let of_path = ["path", "verb"].map(|field| text(&["spec", "nonResourceAttributes", field]));
    let of_path = format!("{{\"Path\":{},\"Verb\":{}}}", of_path[0], of_path[1]);
    if resource && path {
        let why = "cannot be specified in combination with resourceAttributes";
        invalid("spec.nonResourceAttributes", &of_path, why);
    }
    if !resource && !path {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        invalid("spec.resourceAttributes", "null", why);
    }
    let is_about_caller = call.resource.name == "selfsubjectaccessreviews";
    if !is_about_caller && review.str(&["spec", "user"]).is_empty() && review.items(&["spec", "groups"]).is_empty() {
        invalid("spec.user", "\"\"", "at least one of user or group must be specified");
    }
    let is_local = call.resource.name == "localsubjectaccessreviews";
    if let Some(metadata) = review.get(&["metadata"]).and_then(Value::as_object)
        && metadata.keys().any(|field| field != "managedFields" && !(is_local && field == "namespace"))
    {
        let why = if is_local { "must be empty except for namespace" } else { "must be empty" };
        invalid("metadata", &metadata_text(metadata), why);
    }
    if is_local {
        let field = ["spec", "resourceAttributes", "namespace"];
        if resource && review.str(&field) != call.namespace() {
            invalid(&field.join("."), &text(&field), "must match metadata.namespace");
        }
        if path {
            invalid("spec.nonResourceAttributes", &of_path, "disallowed on this kind of request");
        }
    }
    if causes.is_empty() {
        return Ok(());
    }
    let texts: Vec<String> = causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
    let text = if let [only] = &*texts { only.clone() } else { format!("[{}]", texts.join(", ")) };
    // The kind of a decoded review is empty in kube-apiserver.
    Err(Status::invalid("authorization.k8s.io", "", "", &text, causes))
}
