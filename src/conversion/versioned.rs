//! The objects of a request in the version that a hook or a policy wants.

use super::Converter;
use crate::admission::Attributes;
use crate::kind::GroupVersionKind;
use crate::object::round_trip::Kept;
use crate::object::{Object, normal};

/// A request's objects in a version that is not the request's.
#[derive(Debug)]
pub struct Objects {
    /// Their kind.
    pub kind: GroupVersionKind,
    /// `Attributes::object`.
    pub object: Option<Object>,
    /// `Attributes::old_object`.
    pub old_object: Option<Object>,
}

impl Converter {
    /// The request's objects as `kind` (`admission.NewVersionedAttributes`); `None` where that is what they are.
    ///
    /// # Errors
    /// When one of them cannot be converted.
    pub async fn objects(&self, attributes: &Attributes, kind: &GroupVersionKind) -> Result<Option<Objects>, String> {
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
    ) -> Result<Option<Object>, String> {
        let Some(object) = object else { return Ok(None) };
        let Attributes { resource, kind: from, deadline, .. } = attributes;
        self.convert(object, resource, from, kind, *deadline).await.map(Some)
    }
}

/// A request's objects in the version that was wanted last (`admission.VersionedAttributes`). What is changed in it comes
/// back into the request when another version is wanted, and at the end.
pub struct Versioned<'a> {
    converter: &'a Converter,
    /// None: the request's own version.
    current: Option<Objects>,
    /// Once the object was changed in the present version (`Dirty`): what the internal version keeps of it.
    changed: Option<Kept>,
    /// Whether it became another since somebody asked.
    is_new: bool,
    /// Whether it has its defaults, if it is of a built-in kind.
    is_defaulted: bool,
    conversions: usize,
}

impl<'a> Versioned<'a> {
    /// In the request's own version.
    pub fn new(converter: &'a Converter) -> Self {
        Self { converter, current: None, changed: None, is_new: false, is_defaulted: true, conversions: 0 }
    }

    /// The present version.
    pub fn kind<'b>(&'b self, attributes: &'b Attributes) -> &'b GroupVersionKind {
        self.current.as_ref().map_or(&attributes.kind, |current| &current.kind)
    }

    /// The object in the present version.
    pub fn object<'b>(&'b self, attributes: &'b Attributes) -> Option<&'b Object> {
        self.current.as_ref().map_or(attributes.object.as_ref(), |current| current.object.as_ref())
    }

    /// The old object in the present version.
    pub fn old_object<'b>(&'b self, attributes: &'b Attributes) -> Option<&'b Object> {
        self.current.as_ref().map_or(attributes.old_object.as_deref(), |current| current.old_object.as_ref())
    }

    /// Whether the object in the present version has become another since this was asked last.
    pub fn is_new(&mut self) -> bool {
        std::mem::take(&mut self.is_new)
    }

    /// Whether the object, if it is of a built-in kind, is as `normal::defaulted` leaves it: the request's is from the start, what
    /// another version of it was converted to need not be.
    pub fn is_defaulted(&self) -> bool {
        self.is_defaulted
    }

    /// How often the objects were brought into another version.
    pub fn conversions(&self) -> usize {
        self.conversions
    }

    /// Takes what became of the object in the present version, with its defaults. It counts as changed also where it is the
    /// same: the way by the internal version may change it.
    pub fn set_object(&mut self, attributes: &mut Attributes, object: Object) {
        self.is_defaulted = true;
        let (place, kind) = match &mut self.current {
            Some(current) => (&mut current.object, &current.kind),
            None => (&mut attributes.object, &attributes.kind),
        };
        let before = place.as_ref().map(Object::fields);
        self.changed.get_or_insert_with(|| before.map(|before| Kept::of(kind, before)).unwrap_or_default());
        if place.as_ref() != Some(&object) {
            self.is_new = true;
            *place = Some(object);
        }
    }

    /// Brings the objects into another version, if that is not the present one (`admission.ConvertVersionedAttributes`).
    ///
    /// # Errors
    /// When they cannot be converted.
    pub async fn convert(&mut self, attributes: &mut Attributes, kind: &GroupVersionKind) -> Result<(), String> {
        if self.kind(attributes) == kind {
            return Ok(());
        }
        (self.is_new, self.is_defaulted) = (true, false);
        self.conversions += 1;
        self.finish(attributes).await?;
        self.current = self.converter.objects(attributes, kind).await?;
        Ok(())
    }

    /// Brings what was changed back into the request, by way of the internal version.
    ///
    /// # Errors
    /// When it cannot be converted.
    pub async fn finish(&mut self, attributes: &mut Attributes) -> Result<(), String> {
        let (current, changed) = (self.current.take(), self.changed.take());
        let Some(kept) = changed else { return Ok(()) };
        match current {
            Some(Objects { kind, object: Some(mut object), .. }) => {
                normal::round_trip(&kind, &mut object, &kept)?;
                let Attributes { resource, kind: own, deadline, .. } = &*attributes;
                attributes.object = Some(self.converter.convert(&object, resource, &kind, own, *deadline).await?);
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
