//! The objects of a request in the version that a webhook or a policy requires.

use super::{ConversionError, Converter};
use crate::admission::Attributes;
use crate::kind::GroupVersionKind;
use crate::object::round_trip::InternalValues;
use crate::object::{Object, normal};

/// A request's objects in another version than the request's.
#[derive(Debug)]
pub(crate) struct Objects {
    /// The kind of the objects.
    pub(crate) kind: GroupVersionKind,
    /// The converted `Attributes::object`.
    pub(crate) object: Option<Object>,
    /// The converted `Attributes::old_object`.
    pub(crate) old_object: Option<Object>,
}

impl Converter {
    /// Converts the request's objects to `kind` (`admission.NewVersionedAttributes`). `None` if the objects have that kind already.
    ///
    /// # Errors
    /// If an object cannot be converted.
    pub(crate) async fn objects(
        &self,
        attributes: &Attributes,
        kind: &GroupVersionKind,
    ) -> Result<Option<Objects>, ConversionError> {
        if *kind == attributes.kind {
            return Ok(None);
        }
        let old_object = self.converted(attributes.old_object.as_deref(), attributes, kind).await?;
        let object = self.converted(attributes.object.as_ref(), attributes, kind).await?;
        Ok(Some(Objects { kind: kind.clone(), object, old_object }))
    }

    async fn converted(
        &self,
        object: Option<&Object>,
        attributes: &Attributes,
        kind: &GroupVersionKind,
    ) -> Result<Option<Object>, ConversionError> {
        let Some(object) = object else { return Ok(None) };
        let Attributes { resource, kind: from, context, .. } = attributes;
        self.convert(object, resource, from, kind, context.deadline).await.map(Some)
    }
}

/// A request's objects in the last required version (`admission.VersionedAttributes`). Changes are converted back into the
/// request before the next conversion, and at the end.
pub(crate) struct Versioned<'a> {
    converter: &'a Converter,
    /// The objects in the current version; `None` for the request's own version.
    current: Option<Objects>,
    /// Set after a change in the current version (`Dirty`): the fields that the internal version keeps of the object before the change.
    changed: Option<InternalValues>,
    /// Whether the object changed since the last call of [`Self::is_new`].
    is_new: bool,
    /// Whether the object is defaulted, if its kind is built in.
    is_defaulted: bool,
    conversions: usize,
}

impl<'a> Versioned<'a> {
    /// The request's objects in the request's own version.
    pub(crate) fn new(converter: &'a Converter) -> Self {
        Self { converter, current: None, changed: None, is_new: false, is_defaulted: true, conversions: 0 }
    }

    /// The kind in the current version.
    pub(crate) fn kind<'b>(&'b self, attributes: &'b Attributes) -> &'b GroupVersionKind {
        self.current.as_ref().map_or(&attributes.kind, |current| &current.kind)
    }

    /// The object in the current version.
    pub(crate) fn object<'b>(&'b self, attributes: &'b Attributes) -> Option<&'b Object> {
        self.current.as_ref().map_or(attributes.object.as_ref(), |current| current.object.as_ref())
    }

    /// The old object in the current version.
    pub(crate) fn old_object<'b>(&'b self, attributes: &'b Attributes) -> Option<&'b Object> {
        self.current.as_ref().map_or(attributes.old_object.as_deref(), |current| current.old_object.as_ref())
    }

    /// Whether the object in the current version changed since the last call.
    pub(crate) fn is_new(&mut self) -> bool {
        std::mem::take(&mut self.is_new)
    }

    /// Whether an object of a built-in kind is in the form that `normal::defaulted` returns. The request's object has this form
    /// from the start; a converted object may not.
    pub(crate) fn is_defaulted(&self) -> bool {
        self.is_defaulted
    }

    /// The number of conversions so far.
    pub(crate) fn conversions(&self) -> usize {
        self.conversions
    }

    /// Replaces the object in the current version by a changed, defaulted object. An equal object counts as changed too,
    /// because the conversion through the internal version may change it.
    pub(crate) fn set_object(&mut self, attributes: &mut Attributes, object: Object) {
        self.is_defaulted = true;
        let (place, kind) = match &mut self.current {
            Some(current) => (&mut current.object, &current.kind),
            None => (&mut attributes.object, &attributes.kind),
        };
        let before = place.as_ref().map(Object::fields);
        self.changed.get_or_insert_with(|| before.map(|before| InternalValues::of(kind, before)).unwrap_or_default());
        if place.as_ref() != Some(&object) {
            self.is_new = true;
            *place = Some(object);
        }
    }

    /// Converts the objects to `kind`, unless they have that kind already (`admission.ConvertVersionedAttributes`).
    ///
    /// # Errors
    /// If an object cannot be converted.
    pub(crate) async fn convert(
        &mut self,
        attributes: &mut Attributes,
        kind: &GroupVersionKind,
    ) -> Result<(), ConversionError> {
        if self.kind(attributes) == kind {
            return Ok(());
        }
        (self.is_new, self.is_defaulted) = (true, false);
        self.conversions += 1;
        self.finish(attributes).await?;
        self.current = self.converter.objects(attributes, kind).await?;
        Ok(())
    }

    /// Converts a changed object back into the request, through the internal version.
    ///
    /// # Errors
    /// If the object cannot be converted.
    pub(crate) async fn finish(&mut self, attributes: &mut Attributes) -> Result<(), ConversionError> {
        let (current, changed) = (self.current.take(), self.changed.take());
        let Some(kept) = changed else { return Ok(()) };
        match current {
            Some(Objects { kind, object: Some(mut object), .. }) => {
                normal::round_trip(&kind, &mut object, &kept)?;
                let Attributes { resource, kind: own, context, .. } = &*attributes;
                attributes.object =
                    Some(self.converter.convert(&object, resource, &kind, own, context.deadline).await?);
            }
            Some(Objects { object: None, .. }) => {}
            None => {
                let Attributes { kind, object, .. } = attributes;
                object.as_mut().map_or(Ok(()), |object| normal::round_trip(kind, object, &kept))?;
            }
        }
        Ok(())
    }
}
