//! The owners of an object's fields: `metadata.managedFields` after each write, and server-side apply.
//!
//! The server's own objects and changes have no owners.

use crate::embedded::api::catalog::{self, ServedResource};
use crate::embedded::api::removed;
use crate::kind::GroupVersionKind;
use crate::object::managed_fields::{Change, InVersion, OneVersion, Unfit, VersionConverter, is_too_large};
use crate::object::merge::{Node, validate};
use crate::object::typed::Rest;
use crate::object::{Object, convert, normal, typed};
use crate::status::Status;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::fmt::Display;
use std::sync::Arc;

pub(in crate::embedded) const MANAGED_FIELDS: [&str; 2] = ["metadata", "managedFields"];

/// The versions in which a resource is served.
struct Served(Arc<ServedResource>);

impl VersionConverter for Served {
    fn convert(&self, object: &Value, from: &str, to: &str) -> InVersion<'_> {
        let (Some(from), Some(to)) = (self.kind(from), self.kind(to)) else { return InVersion::Missing };
        let Some(node) = node(&self.0, &to) else { return InVersion::Missing };
        if from == to {
            return InVersion::Known(object.clone(), node);
        }
        let object = Object::from_value(object.clone()).unwrap_or_default();
        if let Some(custom) = &self.0.custom {
            if custom.definition.webhook().is_some() {
                // A webhook's conversion cannot be waited for here.
                return custom
                    .converted(object, &to.version)
                    .map_or(InVersion::Missing, |object| InVersion::Known(object.into_value(), node));
            }
            // `nopConverter` keeps fields that the version does not have.
            let object = renamed(object, &to);
            return match validate(node, object.as_value()) {
                Ok(()) => InVersion::Known(object.into_value(), node),
                Err(why) => InVersion::Unfit(Unfit::new(why)),
            };
        }
        if removed::schema(&self.0).is_some() {
            // The versions of a removed kind differ in their names only.
            return InVersion::Known(renamed(object, &to).into_value(), node);
        }
        let converted = convert::built_in(&object, &from, &to);
        converted.map_or(InVersion::Missing, |object| InVersion::Known(object.into_value(), node))
    }
}

impl Served {
    fn kind(&self, api_version: &str) -> Option<GroupVersionKind> {
        if let Some(custom) = &self.0.custom {
            return custom.kinds().find(|kind| kind.api_version() == api_version).cloned();
        }
        let all = catalog::resources().iter().map(|resource| &**resource).chain(removed::resources());
        let cohabitants = all.filter(|other| other.collection == self.0.collection);
        cohabitants.map(ServedResource::gvk).find(|kind| kind.api_version() == api_version)
    }
}

/// An object with the name of another version.
fn renamed(mut object: Object, kind: &GroupVersionKind) -> Object {
    object.fields_mut().insert("apiVersion".to_owned(), kind.api_version().into());
    object
}

/// The kind of a write's bodies, and the versions of its objects.
pub(in crate::embedded) struct Subject<'a> {
    resource: &'a ServedResource,
    subresource: &'a str,
    kind: GroupVersionKind,
    manager: String,
    versions: Box<dyn VersionConverter + Send + Sync>,
}

impl<'a> Subject<'a> {
    /// An object, or a subresource that is a part of the object.
    pub(in crate::embedded) fn object(
        resource: &'a Arc<ServedResource>,
        subresource: &'a str,
        manager: String,
    ) -> Self {
        let versions = Box::new(Served(resource.clone()));
        Self { resource, subresource, kind: resource.gvk(), manager, versions }
    }

    /// An object of another kind, such as a Scale or a TokenRequest.
    pub(in crate::embedded) fn of_kind(
        resource: &'a ServedResource,
        subresource: &'a str,
        manager: String,
        kind: GroupVersionKind,
    ) -> Self {
        Self { resource, subresource, kind, manager, versions: Box::new(OneVersion) }
    }

    /// Sets the managedFields of an object after a create, update or patch by the client (`FieldManager.UpdateNoErrors`). `current` is
    /// the object that it replaces, in the same version.
    pub(in crate::embedded) fn record(&self, current: Option<&Object>, object: &mut Object) {
        if object.is_empty_but_not_nil(&MANAGED_FIELDS) {
            // An empty list resets the field as a list with an empty entry does (`isResetManagedFields`).
            let _ = object.set(&MANAGED_FIELDS, json!([{}]));
        }
        let old = current.map_or_else(|| Cow::Owned(self.empty()), |current| Cow::Borrowed(current.as_value()));
        let owners = match self.change() {
            Some(change) if !is_too_large(&old) && !is_too_large(object.as_value()) => {
                change.managed_fields_in(&old, object.as_value(), &*self.versions).0
            }
            _ => current.and_then(|current| current.get(&MANAGED_FIELDS).cloned()),
        };
        set(object, owners);
        if let Some(current) = current {
            keep_times(object, current);
        }
    }

    /// Returns the result of an apply to the current object, with its managedFields (`FieldManager.Apply`).
    ///
    /// # Errors
    /// 409 for conflicts with other managers, 400 and 500 for a malformed configuration, 413 for too many fields.
    pub(in crate::embedded) fn apply(
        &self,
        current: Option<&Object>,
        configuration: &Value,
        force: bool,
    ) -> Result<Object, Status> {
        let live = current.map(Object::as_value);
        if is_too_large(configuration) || live.is_some_and(is_too_large) {
            return Err(Status::too_large("the object has too many fields for a server-side apply"));
        }
        let change = self.change().ok_or_else(|| Status::plain("no corresponding type for the kind"))?;
        let mut applied = change.apply(live, configuration, force, &*self.versions)?;
        let unfit = |why: &dyn Display| Status::plain(format!("failed to convert new object to proper version: {why}"));
        let custom = self.resource.custom.as_ref().filter(|_| self.kind.group == *self.resource.group);
        if let Some(schema) = removed::schema(self.resource).or_else(|| custom?.structural()) {
            let mut object = schema.normalize(applied).map_err(|why| unfit(&why))?.object;
            current.into_iter().for_each(|current| keep_times(&mut object, current));
            return Ok(object);
        }
        let rest = applied.as_object_mut().and_then(|fields| Rest::take(&self.kind, fields));
        typed::from_unstructured(&self.kind, &mut applied).map_err(|why| unfit(&why))?;
        let normal = normal::built_in(&self.kind, applied).ok_or_else(|| unfit(&"the kind has no type"))?;
        let mut object = normal.map_err(|why| unfit(&why))?.object;
        if let Some(rest) = rest {
            let before = object.fields().clone();
            // Unknown fields of the current object stay.
            let _ = rest.put_back(&before, object.fields_mut());
        }
        if let Some(current) = current {
            keep_times(&mut object, current);
        }
        Ok(object)
    }

    fn change(&self) -> Option<Change<'_>> {
        Some(Change {
            kind: &self.kind,
            schema: node(self.resource, &self.kind)?,
            has_status: self.resource.facts().has_status,
            subresource: self.subresource,
            manager: &self.manager,
            now: jiff::Timestamp::now(),
        })
    }

    /// Go's empty object of the kind.
    fn empty(&self) -> Value {
        let mut empty = json!({"apiVersion": self.kind.api_version(), "kind": self.kind.kind});
        typed::encode(&self.kind, &mut empty);
        empty
    }
}

/// The types of the fields of a kind of the resource.
fn node<'r>(resource: &'r ServedResource, kind: &GroupVersionKind) -> Option<Node<'r>> {
    if let Some(custom) = resource.custom.as_ref().filter(|_| kind.group == *resource.group) {
        return Some(custom.structural_of(&kind.version)?.root().map_or(Node::Deduced, Node::Whole));
    }
    Node::built_in(kind).or_else(|| removed::schema(resource)?.root().map(Node::Whole))
}

/// Sets the managedFields of an object after a write of the server itself.
pub(in crate::embedded) fn record_own(
    kind: &GroupVersionKind,
    subresource: &str,
    current: &Object,
    object: &mut Object,
) {
    let Some(schema) = Node::built_in(kind) else { return };
    let manager = "kube-apiserver";
    let change = Change { kind, schema, has_status: true, subresource, manager, now: jiff::Timestamp::now() };
    let owners = change.managed_fields_in(current.as_value(), object.as_value(), &OneVersion).0;
    set(object, owners);
}

/// Sets the managedFields of an object.
pub(in crate::embedded) fn set(object: &mut Object, owners: Option<Value>) {
    match owners {
        Some(owners) => drop::<bool>(object.set(&MANAGED_FIELDS, owners)),
        None => drop::<Option<Value>>(object.remove(&MANAGED_FIELDS)),
    }
}

/// Restores the times of the managedFields if nothing else differs (`IgnoreManagedFieldsTimestampsTransformer`).
fn keep_times(object: &mut Object, current: &Object) {
    if object.get(&MANAGED_FIELDS) == current.get(&MANAGED_FIELDS) || !is_equal_without_times(object, current) {
        return;
    }
    set(object, current.get(&MANAGED_FIELDS).cloned());
}

/// Whether two objects are equal, the times of their managedFields aside.
fn is_equal_without_times(one: &Object, other: &Object) -> bool {
    let [metadata, owners] = MANAGED_FIELDS;
    let are_owners_equal = |one: Option<&Value>, other: Option<&Value>| match (one, other) {
        (Some(Value::Array(one)), Some(Value::Array(other))) => {
            let is_equal = |(one, other)| is_equal_but("time", one, other, |_, _| true);
            one.len() == other.len() && one.iter().zip(other).all(is_equal)
        }
        (one, other) => one == other,
    };
    is_equal_but(metadata, one.as_value(), other.as_value(), |one, other| match (one, other) {
        (Some(one), Some(other)) => is_equal_but(owners, one, other, are_owners_equal),
        (one, other) => one == other,
    })
}

/// Whether two values are equal, if one field of JSON objects is compared by `is_equal`.
fn is_equal_but(
    field: &str,
    one: &Value,
    other: &Value,
    is_equal: impl Fn(Option<&Value>, Option<&Value>) -> bool,
) -> bool {
    let (Value::Object(one), Value::Object(other)) = (one, other) else { return one == other };
    let others = |fields| Map::iter(fields).filter(|(name, _)| *name != field);
    is_equal(one.get(field), other.get(field)) && others(one).eq(others(other))
}
