//! The mutating and the validating phase of a write.

use super::managed_fields::OwnersAfter;
use super::owner_references::{Seen, remove_duplicates};
use super::request_log::Part;
use super::write::Write;
use super::{Exchange, managed_fields, resource_version};
use crate::admission::{Attributes, Operation, Phase};
use crate::go_text::go_quote;
use crate::object::{Object, typed};
use crate::removed;
use crate::request::body;
use crate::status::{Status, invalid};
use http::Method;
use std::sync::Arc;

const NAME: &str = "metadata.name";
const REPLICAS: [&str; 2] = ["spec", "replicas"];
/// Stands for the drawn end of a generated name.
const SUFFIX: &str = "xxxxx";

impl Write<'_> {
    /// Runs the mutating phase. Then checks that the object still has the name, namespace and kind of the URL: a plugin may
    /// change the stored content, not its place. Returns the owners of the fields, if plugins were shown them; for an apply, if a plugin
    /// has changed them.
    pub(super) async fn admit(
        &self,
        attributes: &mut Attributes,
        exchange: &mut Exchange,
    ) -> Result<Option<OwnersAfter>, Status> {
        self.permission.check_before(Phase::Admit, attributes).await?;
        let old = managed_fields::show_owners_of_scale(self, attributes).await?;
        let shown = managed_fields::show(self, attributes);
        let before = managed_fields::shown_before(self, attributes);
        attributes.annotations = exchange.annotations();
        let mutating = self.times.begin(Part::Mutating);
        let result = self.pipeline.chain.admit(attributes).await;
        drop(mutating);
        exchange.publish(attributes.annotations.take());
        exchange.ended(&result, attributes);
        if let (Ok(()), Some(before)) = (&result, &before) {
            managed_fields::mend(self, attributes, before.clone());
        }
        if old.is_some() {
            attributes.old_object = old;
        }
        if self.target.subresource == "scale"
            && let Some(old) = &mut attributes.old_object
            && old.get(&REPLICAS).is_some_and(|replicas| *replicas == i32::MIN)
        {
            // For the validating phase kube-apiserver reads the object again, without the placeholder
            // (`toScaleUpdateValidation`).
            Arc::make_mut(old).remove(&REPLICAS);
        }
        let owners = match (shown, before) {
            (Some(shown), _) => Some(shown.take_back(attributes)),
            (None, Some(before)) if self.is_apply() => {
                attributes.object.as_mut().and_then(|object| OwnersAfter::of_outcome(object, before))
            }
            _ => None,
        };
        result?;
        self.pipeline.reserved_names.check(attributes)?;
        if self.parts.method == Method::PATCH
            && attributes.operation == Operation::Update
            && let Some(object) = &attributes.object
        {
            resource_version::check(self, object)?;
        }
        if let Some(object) = attributes.object.as_mut().filter(|object| object.is_changed()) {
            remove_duplicates(object, Seen::AfterMutation, &self.warnings);
            self.check_identity(object, attributes.operation)?;
        }
        self.check_removed(attributes)?;
        self.warnings.end_of_mutation();
        Ok(owners)
    }

    /// Validates an object of a removed API, which the API server stores as a custom resource. The rules of its definition are not all rules
    /// of the last release, and an object that breaks them could refuse every pod of its namespace.
    fn check_removed(&self, attributes: &Attributes) -> Result<(), Status> {
        let (Some(api), Some(object)) = (self.pipeline.chain.removed_api(&attributes.resource), &attributes.object)
        else {
            return Ok(());
        };
        if self.pipeline.cluster.serves_removed(self.target.kind()) || !self.target.subresource.is_empty() {
            return Ok(());
        }
        let mut object = object.clone();
        let drawn = format!("{}{SUFFIX}", object.generate_name());
        if object.name().is_empty() && drawn != SUFFIX && !object.set(&["metadata", "name"], drawn.into()) {
            return Ok(());
        }
        removed::set_defaults(api, &mut object);
        let causes = match &attributes.old_object {
            Some(old) if attributes.operation == Operation::Update => removed::validate_update(api, &object, old),
            _ => removed::validate(api, &object),
        };
        invalid::status(self.target.kind(), object.name(), causes).map_or(Ok(()), Err)
    }

    fn check_identity(&self, object: &mut Object, operation: Operation) -> Result<(), Status> {
        let kind = self.target.kind();
        if operation == Operation::Create
            && object.get(&["metadata"]).is_some_and(|metadata| !metadata.is_object())
            && !typed::has_type(kind)
        {
            return Err(Status::internal_error("system metadata was not initialized"));
        }
        if !kind.matches_type(object.api_version(), object.kind()) {
            return Err(Status::bad_request("admission changed the kind of the object"));
        }
        body::ensure_namespace(object, self.target.expected_namespace())?;
        let mut causes = Vec::new();
        if operation == Operation::Update && object.name() != self.target.name {
            // `validation.ValidateObjectMetaAccessorUpdate` runs twice: in `rest.BeforeUpdate` and in the kind's own validation.
            let is_missing = object.name().is_empty();
            let missing = invalid::required(NAME, "name or generateName is required");
            let changed = invalid::invalid(NAME, &go_quote(object.name()), "field is immutable");
            causes.extend(is_missing.then_some(missing).into_iter().chain([changed.clone(), changed]));
        } else if let Some(schema) = &self.schema {
            causes = schema.invalid(object, self.target.subresource == "status");
        }
        invalid::status(kind, object.name(), causes).map_or(Ok(()), Err)
    }

    /// Runs the validating phase.
    pub(super) async fn validate(&self, attributes: &mut Attributes, exchange: &mut Exchange) -> Result<(), Status> {
        self.permission.check_before(Phase::Validate, attributes).await?;
        attributes.annotations = exchange.annotations();
        let validating = self.times.begin(Part::Validating);
        let result = self.pipeline.chain.validate(attributes).await;
        drop(validating);
        exchange.hold(attributes.annotations.take(), attributes.effects.take());
        exchange.ended(&result, attributes);
        result
    }
}
