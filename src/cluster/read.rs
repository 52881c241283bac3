//! An object as a cache reads it: decoded, and at once reduced to what is kept.
//!
//! A page of a list holds hundreds of objects. Were all of them decoded before the first is reduced, the allocator would keep
//! room for them.

use super::cache::Projection;
use kube::Resource;
use kube::api::ObjectMeta;
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::sync::Arc;

/// What is kept of an object, with its key.
#[derive(Debug)]
pub(super) struct Read<P> {
    pub(super) key: Arc<str>,
    pub(super) kept: Arc<P>,
    /// Its version: the watch goes on from there.
    metadata: ObjectMeta,
}

impl<P> Clone for Read<P> {
    fn clone(&self) -> Self {
        Self { key: self.key.clone(), kept: self.kept.clone(), metadata: self.metadata.clone() }
    }
}

impl<P: Projection> Read<P> {
    fn of(mut object: P::Object) -> Self {
        let resource_version = object.meta_mut().resource_version.clone();
        let (key, kept) = P::project(object);
        let metadata = ObjectMeta { resource_version, ..ObjectMeta::default() };
        Self { key: key.into(), kept: Arc::new(kept), metadata }
    }
}

impl<'de, P: Projection> Deserialize<'de> for Read<P> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        P::Object::deserialize(deserializer).map(Self::of)
    }
}

impl<P: Projection> Resource for Read<P> {
    type DynamicType = <P::Object as Resource>::DynamicType;
    type Scope = <P::Object as Resource>::Scope;

    fn kind(of: &Self::DynamicType) -> Cow<'_, str> {
        P::Object::kind(of)
    }

    fn group(of: &Self::DynamicType) -> Cow<'_, str> {
        P::Object::group(of)
    }

    fn version(of: &Self::DynamicType) -> Cow<'_, str> {
        P::Object::version(of)
    }

    fn plural(of: &Self::DynamicType) -> Cow<'_, str> {
        P::Object::plural(of)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
