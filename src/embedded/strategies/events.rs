//! Events (`pkg/registry/core/event`), which have other names for their fields in their own group.

use super::fields;
use super::strategy::Strategy;
use crate::embedded::api::catalog::ServedResource;
use crate::object::Object;

const IN_CORE: [&str; 11] = [
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
];
const IN_EVENTS: [&str; 10] = [
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
];

pub(super) struct Events;

impl Strategy for Events {
    fn selectable_fields(&self, resource: &ServedResource) -> &'static [&'static str] {
        if resource.group.is_empty() { &IN_CORE } else { &IN_EVENTS }
    }

    /// Events are stored as those of the core group.
    fn selected(&self, _: &ServedResource, object: &Object, field: &str) -> String {
        let field = match field {
            "source" => {
                let source = fields::text(object, "source.component");
                return source.unwrap_or_else(|| object.str(&["reportingComponent"]).to_owned());
            }
            "reportingController" => "reportingComponent".to_owned(),
            field => match field.strip_prefix("regarding.") {
                Some(rest) => format!("involvedObject.{rest}"),
                None => field.to_owned(),
            },
        };
        fields::text(object, &field).unwrap_or_default()
    }
}
