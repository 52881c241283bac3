//! The objects of a request in the versions that policies and validating webhooks name, each converted once
//! (`versionedAttributeAccessor`).

use crate::admission::Attributes;
use crate::conversion::{ConversionError, Converter, Objects};
use crate::kind::{GroupVersionKind, GroupVersionResource};
use crate::matching::InvocationKind;
use crate::object::Object;

/// The versions made so far, other than the request's own.
#[derive(Debug, Default)]
pub(crate) struct Versions(Vec<Objects>);

/// The view of a request in one version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    /// The kind of the objects.
    pub(crate) kind: &'a GroupVersionKind,
    /// The resource that the hook or policy names.
    pub(crate) resource: &'a GroupVersionResource,
    /// The object, converted to that kind.
    pub(crate) object: Option<&'a Object>,
    /// The old object, converted to that kind.
    pub(crate) old_object: Option<&'a Object>,
}

impl<'a> View<'a> {
    /// Returns the view of the request as it is.
    pub(crate) fn own(attributes: &'a Attributes) -> Self {
        Self {
            kind: &attributes.kind,
            resource: &attributes.resource,
            object: attributes.object.as_ref(),
            old_object: attributes.old_object.as_deref(),
        }
    }
}

impl Versions {
    /// Converts the objects to the wanted version, unless that is done already.
    ///
    /// # Errors
    /// If the objects cannot be converted.
    pub(crate) async fn prepare(
        &mut self,
        converter: &Converter,
        attributes: &Attributes,
        wanted: &InvocationKind,
    ) -> Result<(), ConversionError> {
        let kind = wanted.kind(attributes);
        if !self.0.iter().any(|objects| objects.kind == *kind) {
            self.0.extend(converter.objects(attributes, kind).await?);
        }
        Ok(())
    }

    /// Returns the view of the request in the wanted version, which must be prepared.
    pub(crate) fn view<'a>(&'a self, attributes: &'a Attributes, wanted: &'a InvocationKind) -> View<'a> {
        let (kind, resource) = (wanted.kind(attributes), wanted.resource(attributes));
        match self.0.iter().find(|objects| objects.kind == *kind) {
            Some(Objects { object, old_object, .. }) => {
                View { kind, resource, object: object.as_ref(), old_object: old_object.as_ref() }
            }
            None => View { kind, resource, ..View::own(attributes) },
        }
    }

    /// Returns the object in the wanted version, for changes.
    pub(crate) fn object_mut<'a>(
        &'a mut self,
        attributes: &'a mut Attributes,
        wanted: &InvocationKind,
    ) -> &'a mut Option<Object> {
        let kind = wanted.kind(attributes);
        match self.0.iter_mut().find(|objects| objects.kind == *kind) {
            Some(objects) => &mut objects.object,
            None => &mut attributes.object,
        }
    }
}
