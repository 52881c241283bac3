//! Selection of the objects for a list, a watch or a deletecollection.

use super::initializers;
use crate::embedded::api::catalog::ServedResource;
use crate::embedded::http::call::Call;
use crate::object::Object;
use crate::object::selector::{FieldSelector, LabelSelector};
use crate::status::Status;
use serde_json::Value;
use std::sync::Arc;

/// The selectors of a request.
pub(in crate::embedded) struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
    /// The name in the URL's path, for a watch of the old form.
    name: String,
    /// Whether uninitialized objects are not selected.
    hides_uninitialized: bool,
    resource: Arc<ServedResource>,
}

/// Selectable fields of the kinds, besides name and namespace (`AddFieldLabelConversionFunc` and each registry's `ToSelectableFields`), by
/// group and plural name.
const FIELDS: [(&str, &str, &[&str]); 12] = [
    (
        "",
        "pods",
        &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
    ),
    ("", "nodes", &["spec.unschedulable"]),
    ("", "replicationcontrollers", &["status.replicas"]),
    ("", "namespaces", &["status.phase"]),
    ("", "secrets", &["type"]),
    ("", "services", &["spec.clusterIP", "spec.type"]),
    (
        "",
        "events",
        &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
    ),
    (
        "events.k8s.io",
        "events",
        &[
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ],
    ),
    ("batch", "jobs", &["status.successful"]),
    ("certificates.k8s.io", "certificatesigningrequests", &["spec.signerName"]),
    ("resource.k8s.io", "resourceslices", &["spec.nodeName", "spec.driver"]),
    ("apps", "statefulsets", &["status.successful"]),
];

impl Selection {
    /// Reads the selectors of a request.
    ///
    /// # Errors
    /// If a selector cannot be parsed, or names a field that the kind does not support.
    pub(in crate::embedded) fn new(call: &Call) -> Result<Self, Status> {
        let labels = call.parameter("labelSelector").unwrap_or_default();
        let fields = call.parameter("fieldSelector").unwrap_or_default();
        let labels = LabelSelector::parse(&labels).map_err(Status::bad_request)?;
        let fields = FieldSelector::parse(&fields).map_err(Status::bad_request)?;
        for requirement in fields.requirements() {
            check_field(&call.resource, &requirement.field)?;
        }
        let hides_uninitialized = initializers::are_hidden(call);
        Ok(Self { labels, fields, name: call.info.name.clone(), hides_uninitialized, resource: call.resource.clone() })
    }

    /// Selects uninitialized objects too, whatever the request asks for.
    pub(in crate::embedded) fn with_uninitialized(self) -> Self {
        Self { hides_uninitialized: false, ..self }
    }

    /// Whether all objects are selected.
    pub(in crate::embedded) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty() && self.name.is_empty() && !self.hides_uninitialized
    }

    /// Whether a stored object is selected.
    pub(in crate::embedded) fn matches(&self, object: &Object) -> bool {
        (self.name.is_empty() || self.name == object.name())
            && !(self.hides_uninitialized && crate::initializers::is_uninitialized(object))
            && self.labels.matches(object.labels())
            && self.fields.matches(|field| value(&self.resource, object, field))
    }
}

fn check_field(resource: &ServedResource, field: &str) -> Result<(), Status> {
    if matches!(field, "metadata.name" | "metadata.namespace") {
        return Ok(());
    }
    if let Some(custom) = &resource.custom {
        return match custom.selectable().any(|own| own == field) {
            true => Ok(()),
            false => Err(Status::bad_request(format!("field label not supported: {field}"))),
        };
    }
    match FIELDS.iter().find(|(group, name, _)| (*group, *name) == (&*resource.group, &*resource.name)) {
        Some((_, _, fields)) if fields.contains(&field) => Ok(()),
        Some(_) => Err(Status::bad_request(format!("field label not supported: {field}"))),
        // `runtime.DefaultMetaV1FieldSelectorConversion`
        None => Err(Status::bad_request(format!(
            "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        ))),
    }
}

/// The value of a field for its selector; the object is in its stored form.
fn value(resource: &ServedResource, object: &Object, field: &str) -> String {
    if let Some(custom) = resource.custom.as_ref().filter(|_| !field.starts_with("metadata.")) {
        return custom.selected(&custom.shown(object), field);
    }
    let core_name;
    let field = match (&*resource.name, field) {
        ("events", "reportingController") => "reportingComponent",
        ("events", field) if field.starts_with("regarding.") => {
            core_name = field.replacen("regarding", "involvedObject", 1);
            &core_name
        }
        (_, field) => field,
    };
    let path: Vec<&str> = match (&*resource.name, field) {
        ("jobs", "status.successful") => vec!["status", "succeeded"],
        ("events", "source") => vec!["source", "component"],
        _ => field.split('.').collect(),
    };
    match object.get(&path) {
        Some(Value::String(text)) if !text.is_empty() => text.clone(),
        Some(Value::Bool(value)) => value.to_string(),
        Some(Value::Number(number)) => number.to_string(),
        _ => unset(object, resource, field),
    }
}

/// The value of an unset field for a selector.
fn unset(object: &Object, resource: &ServedResource, field: &str) -> String {
    match (&*resource.name, field) {
        ("pods", "spec.hostNetwork") | ("nodes", "spec.unschedulable") => "false".into(),
        ("pods", "spec.restartPolicy") => "Always".into(),
        ("pods", "spec.schedulerName") => "default-scheduler".into(),
        (_, "status.successful" | "status.replicas") => "0".into(),
        ("secrets", "type") => "Opaque".into(),
        ("services", "spec.type") => "ClusterIP".into(),
        ("events", "source") => object.str(&["reportingComponent"]).into(),
        _ => String::new(),
    }
}
