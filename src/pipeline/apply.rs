//! PATCH with an apply configuration: server-side apply.
//!
//! Only the API server knows the field managers, so it computes the outcome with a dry run. What admission adds to it goes
//! into the apply configuration that is forwarded.

mod deviation;
mod extend;
mod owners;

use super::Exchange;
use super::gateway::Answer;
use super::storage;
use super::view::{Trial, shown, take_metadata};
use super::write::{MODIFIED, Outgoing, Strictness, Write, is_conflict, schema, with_parameter};
use crate::admission::Operation;
use crate::object::Object;
use crate::object::patch::{self, PatchType};
use crate::object::structural::Structural;
use crate::request::body::{OptionsKind, WriteOptions, decode_patched, ensure_namespace};
use crate::status::Status;
use crate::upstream::Body;
use bytes::Bytes;
use deviation::deviation;
use extend::{Schema, extend, inexpressible};
use http::Response;
use owners::Owners;
use serde_json::{Map, Value};
use std::sync::Arc;

/// A resourceVersion that no object has: an apply configuration with it creates a missing object and conflicts with one
/// that is there.
const NO_VERSION: &str = "1";

impl Write<'_> {
    /// Admits what the apply comes to, and applies it.
    pub(super) async fn apply(
        &self,
        options: &WriteOptions,
        exchange: &mut Exchange,
    ) -> Result<Response<Body>, Status> {
        if self.is_aggregated {
            // What it comes to shows only when it is tried, before it is admitted.
            return Err(Status::not_implemented(
                "what an apply comes to at an aggregated API cannot be admitted; apply on the client's side instead",
            ));
        }
        let decoded = patch::decode(PatchType::Apply, &self.body)?;
        if self.say_strict_errors(options, decoded.duplicates.iter()) == Strictness::Refused {
            return Err(Status::bad_request(format!(
                "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  {}",
                decoded.duplicates.join("\n  ")
            )));
        }
        if let Some(event) = &mut exchange.event {
            event.set_request_patch(&decoded.value);
        }
        // An empty document is an empty object.
        let value = if decoded.value.is_null() { Value::Object(Map::new()) } else { decoded.value };
        let configuration = Object::from_value(value)
            .ok_or_else(|| Status::bad_request("error decoding YAML: the apply configuration is no object"))?;
        let mut attempt = 0;
        loop {
            let old = self.old_object().await?;
            let version = old.as_ref().map_or(NO_VERSION, Object::resource_version);
            // Otherwise a version that is written meanwhile would be replaced, and admission would have seen another.
            let mut pinned = configuration.clone();
            if !pinned.set(&["metadata", "resourceVersion"], Value::from(version)) {
                return Err(Status::bad_request("error decoding YAML: metadata is no object"));
            }
            let answer = self.apply_once(&configuration, pinned, old, options, exchange).await?;
            attempt += 1;
            let asked_for_version = !configuration.resource_version().is_empty();
            let retry =
                !asked_for_version && is_version_conflict(&answer) && attempt < self.pipeline.limits.conflict_retries;
            if !retry {
                return Ok(answer.into_response());
            }
        }
    }

    async fn apply_once(
        &self,
        configuration: &Object,
        pinned: Object,
        old: Option<Object>,
        options: &WriteOptions,
        exchange: &mut Exchange,
    ) -> Result<Answer, Status> {
        let rehearsed = self.rehearse(self.apply_patch(&pinned)?).await?;
        let as_new = if old.is_none() { self.as_new(configuration)? } else { None };
        let mut first = match rehearsed.status.as_u16() {
            200..=299 => Some(rehearsed.object()?),
            // What is invalid is refused after the mutating phase, if it still is.
            422 if as_new.is_some() => None,
            _ => return Ok(rehearsed),
        };
        let (operation, kind) = match &old {
            Some(_) => (Operation::Update, OptionsKind::Update),
            None => (Operation::Create, OptionsKind::Create),
        };
        if operation == Operation::Create {
            self.authorize_create().await?;
            // It is the proxy's.
            first.iter_mut().for_each(|first| take_metadata(first, configuration, "resourceVersion"));
        }
        let Some(before) = unprepared(configuration, as_new, first.as_ref(), old.as_ref()) else {
            return Ok(rehearsed);
        };
        let (old, options) = (old.map(Arc::new), options.as_options_object(kind));
        let mut attributes = self.attributes(operation, Some(before.clone()), old.clone(), options);
        self.admit(&mut attributes, exchange).await?;
        let Some(admitted) = &mut attributes.object else { return Ok(rehearsed) };
        let version = old.as_deref().unwrap_or(&before).resource_version();
        if !["", version].contains(&admitted.resource_version()) {
            return Err(self.conflict(MODIFIED));
        }
        let mut owners = None;
        let (last, stored) = match first {
            Some(first) if !admitted.is_changed() => {
                (self.apply_patch(&pinned)?, shown(operation, first, &rehearsed.headers))
            }
            None if !admitted.is_changed() => return Ok(rehearsed),
            first => {
                owners = first.as_ref().filter(|_| !attributes.dry_run).and_then(Owners::of);
                if !version.is_empty() && !admitted.set(&["metadata", "resourceVersion"], version.into()) {
                    return Err(Status::bad_request("metadata is no object after admission"));
                }
                let last = self.apply_more(&pinned, &before, admitted)?;
                let again = self.rehearse(last.clone()).await?;
                if !again.status.is_success() {
                    return Ok(again);
                }
                let mut second = again.object()?;
                if operation == Operation::Create {
                    take_metadata(&mut second, configuration, "resourceVersion");
                }
                let first = first.as_ref().unwrap_or(&second).fields();
                if let Some(field) = deviation(first, before.fields(), admitted.fields(), second.fields()) {
                    return Err(inexpressible(&field));
                }
                (last, shown(operation, second, &again.headers))
            }
        };
        let trial = if self.can_be_tried(&attributes) { stored } else { Trial::Unknown };
        match self.validate_tried(&mut attributes, trial, &last, exchange).await? {
            Some(refusal) => Ok(refusal),
            None => match owners {
                Some(owners) => self.apply_and_disown(last, &owners).await,
                None => self.forward(last).await,
            },
        }
    }

    /// The object that a configuration creates, where the proxy can tell.
    fn as_new(&self, configuration: &Object) -> Result<Option<Object>, Status> {
        let value = configuration.clone().into_value();
        let decoded = decode_patched(value, self.target.kind(), self.schema.as_deref());
        let Ok(mut object) = decoded.map(|normal| normal.object) else { return Ok(None) };
        ensure_namespace(&mut object, self.target.expected_namespace())?;
        Ok(Some(object))
    }

    /// The configuration with what admission added. It takes from other managers what admission changed, and only that: the
    /// client's own conflicts have shown already.
    fn apply_more(&self, pinned: &Object, before: &Object, admitted: &Object) -> Result<Outgoing, Status> {
        let mut configuration = pinned.clone();
        let custom = || self.schema.as_deref().and_then(Structural::root).map(Schema::Custom);
        let schema = schema(self.target.kind()).map(Schema::BuiltIn).or_else(custom);
        extend(configuration.fields_mut(), before.fields(), admitted.fields(), schema)?;
        let mut outgoing = self.apply_patch(&configuration)?;
        outgoing.uri = with_parameter(&outgoing.uri, "force=true")?;
        Ok(outgoing)
    }

    fn apply_patch(&self, configuration: &Object) -> Result<Outgoing, Status> {
        let mut outgoing =
            self.outgoing(Bytes::from(serde_json::to_vec(configuration).map_err(Status::internal_error)?));
        outgoing.content_type = PatchType::Apply.content_type();
        Ok(outgoing)
    }
}

/// A conflict of versions, not one of field managers.
fn is_version_conflict(answer: &Answer) -> bool {
    let has_no_causes = |status: &Status| status.details.as_ref().is_none_or(|details| details.causes.is_empty());
    is_conflict(answer) && answer.status().is_some_and(|status| has_no_causes(&status))
}

/// What mutating plugins see of a configuration's outcome: what the API server only does behind them is not there yet.
fn unprepared(
    configuration: &Object,
    as_new: Option<Object>,
    outcome: Option<&Object>,
    old: Option<&Object>,
) -> Option<Object> {
    let mut object = as_new.or_else(|| outcome.cloned())?;
    match old {
        Some(old) => {
            take_metadata(&mut object, old, "generation");
            if !configuration.resource_version().is_empty() {
                take_metadata(&mut object, configuration, "resourceVersion");
            }
        }
        None => {
            if let Some(outcome) = outcome {
                take_metadata(&mut object, outcome, "managedFields");
            }
            for field in ["creationTimestamp", "generation", "uid"] {
                object.remove(&["metadata", field]);
            }
            take_metadata(&mut object, configuration, "resourceVersion");
        }
    }
    storage::restore_empty_lists(configuration, &mut object);
    object.settle();
    Some(object)
}
