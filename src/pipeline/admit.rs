//! The mutating and the validating phase of a write.

use super::owner_references::{Seen, remove_duplicates};
use super::write::Write;
use super::{Exchange, managed_fields, resource_version};
use crate::admission::{Attributes, Operation, Phase};
use crate::go_text::go_quote;
use crate::object::{Object, typed};
use crate::request::body;
use crate::status::{Status, invalid};
use http::Method;
use serde_json::Value;
use std::sync::Arc;

const NAME: &str = "metadata.name";
const REPLICAS: [&str; 2] = ["spec", "replicas"];

impl Write<'_> {
    /// Runs the mutating phase. Then checks that the object still has the name, namespace and kind of the URL: a plugin may
    /// change the stored content, not its place. Returns the owners of the fields at the start of the phase, if plugins were shown
    /// them.
    pub(super) async fn admit(
        &self,
        attributes: &mut Attributes,
        exchange: &mut Exchange,
    ) -> Result<Option<Value>, Status> {
        self.permission.check_before(Phase::Admit, attributes).await?;
        let old = managed_fields::show_owners_of_scale(self, attributes).await?;
        let shown = managed_fields::show(self, attributes);
        let before = managed_fields::shown_before(self, attributes);
        attributes.annotations = exchange.annotations();
        let result = self.pipeline.chain.admit(attributes).await;
        exchange.publish(attributes.annotations.take());
        exchange.ended(&result, attributes);
        if let (Ok(()), Some(before)) = (&result, before) {
            managed_fields::mend(self, attributes, before);
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
        let owners = shown.map(|shown| shown.take_back(attributes));
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
        self.warnings.end_of_mutation();
        Ok(owners)
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
        let result = self.pipeline.chain.validate(attributes).await;
        exchange.hold(attributes.annotations.take(), attributes.effects.take());
        exchange.ended(&result, attributes);
        result
    }
}
