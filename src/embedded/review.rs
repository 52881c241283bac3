//! Reviews: kinds that the server answers and does not store. Every user may do everything, and no token is valid.

use super::call::Call;
use super::{body, respond};
use crate::body::Body;
use crate::object::Object;
use crate::status::Status;
use http::{Response, StatusCode};
use serde_json::{Value, json};

/// Whether a resource is a review.
pub(super) fn is_review(group: &str, resource: &str) -> bool {
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
pub(super) fn review(call: &Call) -> Result<Response<Body>, Status> {
    let mut review = body::object(call, &call.resource.gvk())?;
    let status = match call.resource.name {
        "selfsubjectreviews" => json!({"userInfo": call.caller}),
        "tokenreviews" => token_status(&review)?,
        "selfsubjectrulesreviews" => json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        }),
        "localsubjectaccessreviews" => {
            check_namespace(call, &mut review)?;
            json!({"allowed": true})
        }
        _ => json!({"allowed": true}),
    };
    review.fields_mut().insert("status".into(), status);
    if review.get(&["metadata"]).is_none() {
        review.fields_mut().insert("metadata".into(), json!({}));
    }
    Ok(respond::value(StatusCode::CREATED, &review.into_value()))
}

/// `tokenreview.REST.Create`, without any authenticator.
fn token_status(review: &Object) -> Result<Value, Status> {
    if review.str(&["spec", "token"]).is_empty() {
        return Err(Status::bad_request("token is required for TokenReview in authentication"));
    }
    Ok(json!({"user": {}, "error": "invalid bearer token"}))
}

/// `localsubjectaccessreview.REST.Create`.
fn check_namespace(call: &Call, review: &mut Object) -> Result<(), Status> {
    let namespace = call.namespace();
    if review.str(&["spec", "resourceAttributes", "namespace"]) != namespace {
        return Err(Status::bad_request(format!(
            "spec.resourceAttributes.namespace must match namespace: {namespace}"
        )));
    }
    let _ = review.set(&["metadata", "namespace"], Value::from(namespace));
    Ok(())
}
