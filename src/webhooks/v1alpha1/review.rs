//! The AdmissionReview that a hook receives (`NewAdmissionReview`).

use super::super::review::{Kind, Resource};
use super::internal;
use crate::admission::{Attributes, Operation};
use crate::go_text::json::escape_html;
use crate::kind::GroupVersionKind;
use crate::object::Object;
use crate::object::normal;
use crate::user::UserInfo;
use serde::Serialize;
use serde_json::value::RawValue;

/// The `apiVersion` of a review.
pub(super) const API_VERSION: &str = "admission.k8s.io/v1alpha1";
/// The `kind` of a review.
pub(super) const KIND: &str = "AdmissionReview";

/// A review, with its fields in the order of 1.8.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Review<'a> {
    kind: &'a str,
    api_version: &'a str,
    spec: Spec<'a>,
    status: Undecided,
}

/// The status of a review that no hook answered yet.
#[derive(Serialize)]
struct Undecided {
    allowed: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    kind: Kind<'a>,
    object: Box<RawValue>,
    old_object: Box<RawValue>,
    operation: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    resource: Resource<'a>,
    #[serde(skip_serializing_if = "str::is_empty")]
    sub_resource: &'a str,
    user_info: &'a UserInfo,
}

/// Returns the body of the request to the hooks.
///
/// # Errors
/// If a value has no JSON form, which cannot happen to a value that came as JSON.
pub(super) fn body(attributes: &Attributes) -> Result<String, serde_json::Error> {
    let Attributes { operation, resource, subresource, namespace, name, object, old_object, .. } = attributes;
    let GroupVersionKind { group, version, kind } = &attributes.kind;
    let is_connect = *operation == Operation::Connect;
    // In 1.8 the kind of a connection is that of the connected object, not that of its options.
    let kind = connected(attributes).filter(|_| is_connect).unwrap_or(kind);
    // A create carries no name, not even that of its object; nor does a create of a namespace carry the namespace.
    let is_create = *operation == Operation::Create;
    let is_new_namespace = is_create && (&*resource.resource, &**subresource) == ("namespaces", "");
    // A delete carries no object, not even the stored one.
    let is_delete = *operation == Operation::Delete;
    let objects = [object.as_ref(), old_object.as_deref()].map(|object| object.filter(|_| !is_delete));
    let [object, old_object] = match objects {
        [Some(options), _] if is_connect => [connect_request(attributes, options)?, "null".into()],
        // 1.8 sets the namespace of an object after admission.
        [Some(object), old_object] if attributes.namespace_from_url => {
            let mut object = object.clone();
            object.remove(&["metadata", "namespace"]);
            [written(&attributes.kind, Some(&object))?, written(&attributes.kind, old_object)?]
        }
        [object, old_object] => [written(&attributes.kind, object)?, written(&attributes.kind, old_object)?],
    };
    let review = Review {
        kind: KIND,
        api_version: API_VERSION,
        spec: Spec {
            kind: Kind { group, version, kind },
            object: RawValue::from_string(object)?,
            old_object: RawValue::from_string(old_object)?,
            operation: operation.as_str(),
            name: if is_create { "" } else { name },
            namespace: if is_new_namespace { "" } else { namespace },
            resource: Resource { group: &resource.group, version: &resource.version, resource: &resource.resource },
            sub_resource: subresource,
            user_info: &attributes.context.user,
        },
        status: Undecided { allowed: false },
    };
    let mut body = escape_html(&serde_json::to_string(&review)?);
    body.push('\n');
    Ok(body)
}

/// Returns the kind of the object to which the request connects.
fn connected(attributes: &Attributes) -> Option<&'static str> {
    let kinds = [("pods", "Pod"), ("services", "Service"), ("nodes", "Node")];
    let is_core = attributes.resource.group.is_empty();
    kinds.into_iter().find(|(resource, _)| is_core && *resource == attributes.resource.resource).map(|(_, kind)| kind)
}

/// Writes an object, or `null`. 1.8 has no internal form of custom resources. A built-in kind that 1.8 does not have is shown in its
/// version as well, since that is what today's webhooks receive.
fn written(kind: &GroupVersionKind, object: Option<&Object>) -> Result<String, serde_json::Error> {
    let Some(object) = object else { return Ok("null".into()) };
    match internal::write(kind, object) {
        Some(internal) => Ok(internal),
        None => serde_json::to_string(&*normal::as_written(object)),
    }
}

/// Writes the object of a connection (`rest.ConnectRequest`).
fn connect_request(attributes: &Attributes, options: &Object) -> Result<String, serde_json::Error> {
    #[derive(Serialize)]
    #[serde(rename_all = "PascalCase")]
    struct ConnectRequest<'a> {
        name: &'a str,
        options: Box<RawValue>,
        resource_path: String,
    }
    let Attributes { name, resource, subresource, .. } = attributes;
    serde_json::to_string(&ConnectRequest {
        name,
        options: RawValue::from_string(written(&attributes.kind, Some(options))?)?,
        resource_path: format!("{}/{subresource}", resource.resource),
    })
}

#[cfg(test)]
mod tests;
