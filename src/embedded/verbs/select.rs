//! Selection of the objects for a list, a watch or a deletecollection.

use super::initializers;
use super::list_options::ListOptions;
use crate::embedded::api::catalog::ServedResource;
use crate::embedded::http::call::Call;
use crate::embedded::strategies;
use crate::object::Object;
use crate::object::selector::{FieldSelector, LabelSelector};
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

impl Selection {
    /// The selection of a request with these options.
    pub(in crate::embedded) fn of(call: &Call, options: &ListOptions) -> Self {
        Self {
            labels: options.labels.clone(),
            fields: options.fields.clone(),
            name: call.info.name.clone(),
            hides_uninitialized: initializers::are_hidden(call),
            resource: call.resource.clone(),
        }
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

/// The value of a field for its selector; the object is in its stored form.
fn value(resource: &ServedResource, object: &Object, field: &str) -> String {
    match field {
        "metadata.name" => object.name().to_owned(),
        "metadata.namespace" => object.namespace().to_owned(),
        _ => strategies::of(resource).selected(resource, object, field),
    }
}
