//! The strategy of a kind, and its defaults.

use super::context::Context;
use super::delete_options::Options;
use super::disabled::DisabledFields;
use super::fields;
use crate::embedded::api::catalog::ServedResource;
use crate::embedded::store::{Collection, State};
use crate::object::Object;
use crate::object::kinds::is_built_in_group;
use crate::status::{Cause, Status};

/// What a write does in its own transaction after it has stored the object with this key.
pub(in crate::embedded) type Following = Box<dyn FnOnce(&mut State, &str) + Send>;

/// The grace period of a deletion.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::embedded) enum Grace {
    /// The kind has no graceful deletion.
    None,
    /// The grace period is zero.
    Over,
    /// The object has got a grace period.
    Period,
    /// The grace period runs already, and the request does not change it.
    Pending,
    /// The object is marked, and a controller removes it.
    Marked,
}

/// What is particular to a kind. The methods stand in the order in which a create, an update, a deletion and a read ask them.
pub(in crate::embedded) trait Strategy: Send + Sync {
    /// Whether unknown fields of a body are mistakes, rather than fields of a later release, which are stored.
    fn has_no_later_fields(&self) -> bool {
        false
    }

    /// Whether the bytes of an object say little about the time that its validation takes, because it contains expressions or schemas.
    fn takes_long(&self) -> bool {
        false
    }

    /// Whether a write depends on the other objects of the collection. Such a write starts over if one of them changes meanwhile.
    fn depends_on_others(&self) -> bool {
        false
    }

    /// Whether a write that starts over uses what it has prepared: only [`Strategy::following`] and [`Strategy::check_room`] depend on others.
    fn is_prepared_once(&self) -> bool {
        false
    }

    /// Checks that the caller may give the rights that an object gives. `current` is the object that it replaces.
    ///
    /// # Errors
    /// 403 if the caller may not.
    fn check_rights(&self, _: &Context<'_>, _object: &Object, _current: Option<&Object>) -> Result<(), Status> {
        Ok(())
    }

    /// The name of a new object that has neither a name nor a prefix for one.
    fn default_name(&self) -> Option<String> {
        None
    }

    /// Whether the validation of the kind checks the name, and whether there is one.
    fn validates_name(&self) -> bool {
        false
    }

    /// Whether a create may set the status.
    fn keeps_status(&self) -> bool {
        false
    }

    /// The fields that features add to the kind.
    fn disabled_fields(&self) -> &'static [DisabledFields] {
        &[]
    }

    /// The path to the spec of the pods that an object describes.
    fn pod_spec(&self) -> Option<&'static [&'static str]> {
        None
    }

    /// Sets and drops fields of a new object before its validation (`PrepareForCreate`).
    ///
    /// # Errors
    /// If the server cannot allocate what the object asks for, or the kind is validated here.
    fn prepare_for_create(&self, _: &Context<'_>, _object: &mut Object) -> Result<(), Status> {
        Ok(())
    }

    /// The part of a submitted object that the request may change, with the rest of the current object.
    fn part(&self, context: &Context<'_>, object: Object, current: &Object) -> Object {
        fields::part(context, object, current)
    }

    /// Prepares and validates an update before its metadata is compared with the current one.
    ///
    /// # Errors
    /// If the update is invalid; the error hides those of the metadata.
    fn begin_update(&self, _: &Context<'_>, _object: &mut Object, _current: &Object) -> Result<(), Status> {
        Ok(())
    }

    /// Restores fields that an update must not change, and sets fields that depend on others (`PrepareForUpdate`). Returns whether the update
    /// counts as one of the object's generation, whatever else it changes.
    ///
    /// # Errors
    /// If the server cannot allocate what the object asks for, or the kind is validated here.
    fn prepare_for_update(&self, _: &Context<'_>, _object: &mut Object, _current: &Object) -> Result<bool, Status> {
        Ok(false)
    }

    /// The errors of a new object beside those of its fields.
    fn validate(&self, _: &Context<'_>, _object: &Object) -> Vec<Cause> {
        Vec::new()
    }

    /// The errors of an update beside those of the fields.
    fn validate_update(&self, _: &Context<'_>, _object: &Object) -> Vec<Cause> {
        Vec::new()
    }

    /// A warning of a valid object beside those of its fields (`WarningsOnCreate`, `WarningsOnUpdate`).
    fn warning(&self, _object: &Object) -> Option<String> {
        None
    }

    /// Whether initializers may change an object as long as no other client sees it, so that its update is validated as a create, and its status
    /// waits.
    fn is_free_until_initialized(&self) -> bool {
        false
    }

    /// Whether a change of a field outside of the metadata and the status increments the generation.
    fn counts_changes(&self, resource: &ServedResource) -> bool {
        resource.facts().has_generation
    }

    /// Whether an update counts that changes no field outside of the metadata and the status.
    fn counts_too(&self, _subresource: &str, _object: &Object, _current: &Object) -> bool {
        false
    }

    /// Sets fields of an updated object in the form in which it will be stored.
    fn complete_update(&self, _object: &mut Object, _current: &Object) {}

    /// What the transaction of a write does after it has stored `object` in place of `current`, computed before it.
    fn following(&self, _: &Context<'_>, _object: &Object, _current: Option<&Object>) -> Option<Following> {
        None
    }

    /// Checks in the transaction of a create that there is room for another object of the kind.
    ///
    /// # Errors
    /// 403 if there are too many.
    fn check_room(&self, _: &State, _: &Context<'_>, _name: &str) -> Result<(), Status> {
        Ok(())
    }

    /// Follows a create (`AfterCreate`), in its transaction.
    fn after_create(&self, _: &mut State, _object: &Object) {}

    /// Follows an update or a removal by a client or a controller, in its transaction: leaves it to the controllers to restore what must be
    /// there.
    fn after_change(&self, _: &mut State, _object: &Object) {}

    /// Follows a removal (`AfterDelete`), in its transaction and before [`Strategy::after_change`].
    fn after_delete(&self, _: &mut State, _collection: &Collection, _object: &Object) {}

    /// Checks the preconditions of a deletion (`rest.BeforeDelete`).
    ///
    /// # Errors
    /// 409 if one fails.
    fn check_preconditions(&self, options: &Options, resource: &ServedResource, object: &Object) -> Result<(), Status> {
        options.check_object(resource, object)
    }

    /// The warning of a deletion with these options.
    fn deletion_warning(&self, _: &Options) -> Option<&'static str> {
        None
    }

    /// Whether a deletion without a policy orphans the dependents (`DefaultGarbageCollectionPolicy`).
    fn orphans_dependents(&self) -> bool {
        false
    }

    /// Marks an object for a graceful deletion (`CheckGracefulDelete`).
    fn begin_deletion(&self, _object: &mut Object, _: &Options) -> Grace {
        Grace::None
    }

    /// Follows a deletion that leaves the object to a controller, in its transaction.
    fn after_deletion_begun(&self, _: &mut State, _key: &str) {}

    /// Whether something beside its finalizers holds up the removal of an object.
    fn is_held(&self, _object: &Object) -> bool {
        false
    }

    /// Fields for selectors, besides name and namespace (`AddFieldLabelConversionFunc`, `ToSelectableFields`).
    fn selectable_fields(&self, _: &ServedResource) -> &'static [&'static str] {
        &[]
    }

    /// Checks that objects can be selected by a field.
    ///
    /// # Errors
    /// 400 if they cannot.
    fn check_selector(&self, resource: &ServedResource, field: &str) -> Result<(), Status> {
        match self.selectable_fields(resource) {
            // `runtime.DefaultMetaV1FieldSelectorConversion`
            [] => Err(Status::bad_request(format!(
                "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
            ))),
            fields if fields.contains(&field) => Ok(()),
            _ => Err(Status::bad_request(format!("field label not supported: {field}"))),
        }
    }

    /// The value of a field for its selector; the object is in its stored form.
    fn selected(&self, _: &ServedResource, object: &Object, field: &str) -> String {
        fields::text(object, field).unwrap_or_else(|| self.unset(field).to_owned())
    }

    /// The value of an unset field for its selector.
    fn unset(&self, _field: &str) -> &'static str {
        ""
    }

    /// The path of the collection in kube-apiserver's store, below `/registry`.
    fn storage_path(&self, collection: &Collection) -> String {
        let Collection { group, resource } = collection;
        match is_built_in_group(group) {
            true => (**resource).to_owned(),
            false => format!("{group}/{resource}"),
        }
    }
}

/// The strategy of kinds that differ in nothing.
pub(super) struct Plain;

impl Strategy for Plain {}
