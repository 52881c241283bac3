//! PATCH with an apply configuration: server-side apply.
//!
//! The API server knows the field managers, so a dry run computes the outcome; the proxy computes the outcome only if the dry run
//! fails as invalid. The changes that admission makes go into the apply configuration that is forwarded. If no configuration can
//! express them, the proxy sends a patch or a create instead.

mod deviation;
mod extend;
mod last_applied;

use super::gateway::Answer;
use super::outgoing::{Outgoing, with_parameter};
use super::owners::Owners;
use super::resource_version::{is_about_version, names_no_version, readable_version};
use super::rest::Rest;
use super::view::{Trial, shown, take_metadata};
use super::write::{Attempts, Strictness, Write, is_already_exists, is_conflict};
use super::{Exchange, before_storage, managed_fields, unknown_fields};
use crate::admission::{Attributes, Operation};
use crate::body::Body;
use crate::go_text::go_type;
use crate::object::managed_fields::{is_too_large, manager_name};
use crate::object::merge::Node;
use crate::object::normal;
use crate::object::patch::{self, PatchType};
use crate::object::{Object, typed};
use crate::request::body::{OptionsKind, WriteOptions, ensure_namespace};
use crate::request::query::query_value;
use crate::status::{OPTIMISTIC_LOCK, Status};
use bytes::Bytes;
use deviation::deviation;
use extend::extend;
use http::header::CONTENT_TYPE;
use http::{Method, Response};
use serde_json::Value;
use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A resourceVersion that no object has: an apply configuration with this version creates a missing object and conflicts with an
/// existing one.
const NO_VERSION: &str = "1";

const UNREADABLE_VERSION: &str = "metadata or metadata.resourceVersion of the apply configuration is none";

/// The outcome of an apply configuration before admission.
struct Outcome {
    /// The answer to the dry run of the configuration.
    rehearsed: Answer,
    /// The object of that answer; `None` if the API server reports invalid fields.
    first: Option<Object>,
    /// The object that admission gets, without unknown fields.
    before: Object,
    /// The object with its unknown fields, if it has any.
    whole_before: Option<Object>,
    /// The unknown fields.
    rest: Rest,
    /// Whether the proxy has corrected the annotation of client-side apply.
    is_corrected: bool,
}

/// An admitted outcome with its last dry run.
struct Admitted<'a> {
    configuration: &'a Object,
    /// The object at the start of the mutating phase.
    before: &'a Object,
    /// The owners that a plugin has set.
    own: Option<Value>,
    /// Whether admission or the proxy has changed the object.
    is_changed: bool,
    /// The write to send.
    last: Outgoing,
    /// The answer to the dry run of that write.
    tried: Answer,
}

/// An apply in progress.
pub(super) struct Apply<'a> {
    pub(super) write: &'a Write<'a>,
}

impl Apply<'_> {
    /// Admits the outcome of the apply configuration, and applies it.
    pub(super) async fn run(&self, options: &WriteOptions, exchange: &mut Exchange) -> Result<Response<Body>, Status> {
        if !self.write.knows_dry_runs {
            // Admission needs the outcome, and only a dry run shows it.
            return Err(Status::not_implemented(
                "the result of an apply to an aggregated API without support for dry run is unknown, so that it cannot be admitted; use client-side apply",
            ));
        }
        let decoded = patch::decode_configuration(self.write.header(CONTENT_TYPE), &self.write.body)?;
        if let Some(event) = &mut exchange.event {
            event.set_request_patch(&decoded.value);
        }
        let configuration = match decoded.value {
            // An empty document is an empty object.
            Value::Null => Object::default(),
            Value::Object(fields) => Object::from_value(Value::Object(fields)).unwrap_or_default(),
            other => {
                return Err(Status::bad_request(format!(
                    "error decoding {}: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of \
                     type map[string]interface {{}}",
                    patch::configuration_name(),
                    go_type(&other)
                )));
            }
        };
        let oddity = oddity(&configuration);
        if oddity.is_some() || !decoded.duplicates.is_empty() {
            // A dry run gets the API server's error; the resourceVersion that the proxy sets later would hide the error.
            let answer = self.write.rehearse(self.apply_patch(&configuration)?).await?;
            let is_refused = match answer.status.as_u16() {
                200..=299 => false,
                // The API server reports other invalid fields after the mutating phase.
                422 => is_about_version(&answer),
                409 => !is_version_conflict(&answer),
                _ => true,
            };
            match oddity {
                _ if is_refused => return self.write.respond(answer).await,
                Some(Oddity::Undecidable) => return Err(Status::bad_request(UNREADABLE_VERSION)),
                Some(Oddity::NoVersion) | None => {}
            }
        }
        if self.write.report_strict_errors(options, decoded.duplicates.iter()) == Strictness::Refused {
            return Err(Status::bad_request(format!(
                "error strict decoding {}: error converting YAML to JSON: yaml: unmarshal errors:\n  {}",
                patch::configuration_name(),
                decoded.duplicates.join("\n  ")
            )));
        }
        let mut attempts = Attempts::new(&self.write.pipeline.limits);
        let asked_for_version = !names_no_version(configuration.resource_version());
        let mut conflict: Option<(String, Answer)> = None;
        loop {
            let old = self.write.old_object().await?;
            let version = old.as_ref().map_or(NO_VERSION, Object::resource_version).to_owned();
            if let Some((_, answer)) = conflict.take().filter(|(admitted, _)| *admitted == version) {
                return self.write.respond(answer).await;
            }
            // Without the resourceVersion, the apply could replace a version that admission has not seen.
            let mut pinned = configuration.clone();
            if !pinned.set(&["metadata", "resourceVersion"], Value::from(version.as_str())) {
                let name = patch::configuration_name();
                return Err(Status::bad_request(format!("error decoding {name}: metadata is not an object")));
            }
            if old.is_none() && options.is_dry_run() {
                // The dry run of a create replaces nothing, and its answer would show the proxy's resourceVersion.
                pinned = configuration.clone();
            }
            let answer = self.apply_once(&configuration, pinned, old, options, exchange).await?;
            let is_late = is_version_conflict(&answer) || is_already_exists(&answer);
            match asked_for_version {
                // As an update with a version: see `Outcome::Outdated` of updates.
                true if is_version_conflict(&answer) && attempts.may_go_on(&version) => {
                    conflict = Some((version, answer));
                }
                false if is_late && attempts.start_over(self.write, &version).await => {}
                _ => return self.write.respond(answer).await,
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
        let outcome = match self.outcome(configuration, &pinned, old.as_ref(), options).await? {
            ControlFlow::Continue(outcome) => outcome,
            ControlFlow::Break(answer) => return Ok(answer),
        };
        let (operation, kind) = match &old {
            Some(_) => (Operation::Update, OptionsKind::Update),
            None => (Operation::Create, OptionsKind::Create),
        };
        if operation == Operation::Create {
            self.write.authorize_create().await?;
        }
        let (old, options) = (old.map(Arc::new), options.as_options_object(kind));
        let seen = old.as_ref().map(|old| unknown_fields::seen(self.write, old));
        let mut attributes = self.write.attributes(operation, Some(outcome.before.clone()), seen, options);
        let own = self.write.admit(&mut attributes, exchange).await?;
        let Some(admitted) = &mut attributes.object else { return Ok(outcome.rehearsed) };
        let version = old.as_deref().unwrap_or(&outcome.before).resource_version();
        let admitted_version = admitted.resource_version();
        if admitted_version != version && !names_no_version(admitted_version) {
            return Err(self.write.conflict(OPTIMISTIC_LOCK));
        }
        let is_changed = admitted.is_changed() || outcome.is_corrected;
        let (last, tried) = match (&outcome.first, is_changed) {
            (Some(_), false) => (self.apply_patch(&pinned)?, outcome.rehearsed),
            (None, false) => return Ok(outcome.rehearsed),
            (_, true) => {
                if !version.is_empty() && !admitted.set(&["metadata", "resourceVersion"], version.into()) {
                    return Err(Status::bad_request("metadata is not an object after admission"));
                }
                let (last, tried) = self.try_changed(&pinned, &outcome, admitted, old.as_deref()).await?;
                if !tried.status.is_success() {
                    return Ok(tried);
                }
                (last, tried)
            }
        };
        let own = own.map(|own| own.entries);
        let admitted = Admitted { configuration, before: &outcome.before, own, is_changed, last, tried };
        self.validate_and_send(&mut attributes, admitted, exchange).await
    }

    /// Returns the outcome of the configuration, which admission gets, or the answer to the client if there is nothing to admit.
    async fn outcome(
        &self,
        configuration: &Object,
        pinned: &Object,
        old: Option<&Object>,
        options: &WriteOptions,
    ) -> Result<ControlFlow<Answer, Outcome>, Status> {
        let rehearsed = self.write.rehearse(self.apply_patch(pinned)?).await?;
        let first = match rehearsed.status.as_u16() {
            200..=299 => Some(rehearsed.object()?),
            // An invalid outcome is refused after the mutating phase, unless admission corrects it.
            422 => None,
            _ => return Ok(ControlFlow::Break(rehearsed)),
        };
        let (asked, found) = (configuration.resource_version(), old.map(Object::resource_version));
        let is_stale = !names_no_version(asked) && found.is_some_and(|found| found != asked);
        let computed = match (old, &first) {
            (Some(old), Some(first)) => self.defaulted(first).filter(|_| is_stale || first.fields() != old.fields()),
            // The kind has no schema.
            _ if matches!(self.write.node(), Node::Resource) => None,
            (old, first) => self.applied(configuration, old, first.is_some(), options)?,
        };
        let Some(mut before) = unprepared(configuration, computed, first.as_ref(), old) else {
            // The version is compared before the object is validated (`Store.Update`).
            return if is_stale {
                Err(self.write.conflict(OPTIMISTIC_LOCK))
            } else {
                Ok(ControlFlow::Break(rehearsed))
            };
        };
        let is_corrected = self.correct_annotation(&mut before, first.as_ref(), pinned, configuration);
        let whole_before = typed::has_rest(self.write.target.kind(), before.fields()).then(|| before.clone());
        let rest = Rest::take(self.write.target.kind(), &mut before);
        before.settle();
        Ok(ControlFlow::Continue(Outcome { rehearsed, first, before, whole_before, rest, is_corrected }))
    }

    /// Returns the write of an object that admission or the proxy has changed, and the answer to its dry run.
    async fn try_changed(
        &self,
        pinned: &Object,
        outcome: &Outcome,
        admitted: &Object,
        old: Option<&Object>,
    ) -> Result<(Outgoing, Answer), Status> {
        let Outcome { first, before, whole_before, rest, is_corrected, .. } = outcome;
        let written = normal::as_written(admitted);
        let written = if rest.is_empty() { written } else { Cow::Owned(rest.put_back(&written)?.into_owned()) };
        let before = whole_before.as_ref().unwrap_or(before);
        // The API server would renew the annotation again after an apply.
        let first = first.as_ref().filter(|_| !is_corrected);
        self.try_admitted(pinned, Forms { first, before, admitted: &written }, old).await
    }

    /// Runs the validating phase on the object of the last dry run, and sends the write.
    async fn validate_and_send(
        &self,
        attributes: &mut Attributes,
        admitted: Admitted<'_>,
        exchange: &mut Exchange,
    ) -> Result<Answer, Status> {
        let Admitted { configuration, before, own, is_changed, last, tried } = admitted;
        let mut stored = tried.object()?;
        // Admission owns no fields.
        take_metadata(&mut stored, before, "managedFields");
        let own = own.map(Owners::of_plugin);
        if let Some(own) = &own {
            own.show(&mut stored);
        }
        if attributes.operation == Operation::Create {
            // The resourceVersion in the answer is the one that the proxy set.
            take_version(&mut stored, configuration);
        }
        let whole =
            self.write.view().asks_for_no_more(attributes, &tried).then(|| tried.with_object(&stored)).transpose()?;
        let trial = match self.write.view().can_be_tried(attributes) {
            true => {
                let trial = shown(attributes.operation, stored, tried.headers);
                self.write.view().allocated(attributes, trial).await
            }
            false => Trial::Unknown,
        };
        let owners = own.or_else(|| Owners::of_applied(before)).filter(|_| is_changed && !attributes.dry_run);
        match self.write.view().validate_tried(attributes, trial, &last, exchange).await? {
            Some(refusal) => Ok(refusal),
            None => match (whole, owners) {
                (Some(whole), _) => Ok(whole),
                (None, Some(owners)) => self.write.field_owners().write_and_disown(last, &owners).await,
                (None, None) => self.write.forward(last).await,
            },
        }
    }

    /// Removes the resourceVersion of the proxy from the annotation of client-side apply in an outcome. Returns whether the annotation that
    /// the API server reported has it.
    fn correct_annotation(
        &self,
        outcome: &mut Object,
        reported: Option<&Object>,
        pinned: &Object,
        configuration: &Object,
    ) -> bool {
        let query = self.write.parts.uri.query().unwrap_or_default();
        let is_kubectl = query_value(query, "fieldManager").is_some_and(|manager| manager == last_applied::KUBECTL);
        let reported = reported.filter(|_| is_kubectl);
        let corrected = reported.and_then(|reported| last_applied::corrected(reported, pinned, configuration));
        corrected.is_some_and(|text| outcome.set(&last_applied::ANNOTATION, text.into()))
    }

    /// Returns the outcome with the defaults of a version that is not the storage version: no answer shows these defaults,
    /// because storing the object has dropped them. The caller skips an apply without changes, which adds no defaults.
    fn defaulted(&self, outcome: &Object) -> Option<Object> {
        self.write.storage_version.as_ref().filter(|stored| **stored != self.write.target.resource.version)?;
        let decoded = self.write.decode_patched(outcome.clone().into_value());
        decoded.ok().map(|normal| normal.object)
    }

    /// Computes the outcome of a configuration, alone or on top of the stored object; `None` if the proxy cannot. Computes the
    /// field owners too, unless the API server has reported them.
    fn applied(
        &self,
        configuration: &Object,
        old: Option<&Object>,
        is_owner_known: bool,
        options: &WriteOptions,
    ) -> Result<Option<Object>, Status> {
        let live = old.map(Object::as_value);
        // The field managers of a scale are those of its parent.
        let is_of_parent = old.is_some() && self.write.target.subresource == "scale";
        let is_untold = is_of_parent || is_too_large(configuration.as_value()) || live.is_some_and(is_too_large);
        let mut applied = match (old, is_owner_known || is_untold) {
            (None, true) => configuration.clone().into_value(),
            (Some(_), true) => return Ok(None),
            (_, false) => {
                let options = options.as_options_object(OptionsKind::Update);
                let manager = manager_name(options.str(&["fieldManager"]), "");
                match managed_fields::change(self.write, &manager).applied(live, configuration.as_value()) {
                    Some(applied) => applied,
                    None => return Ok(None),
                }
            }
        };
        let kind = self.write.target.kind();
        let rest = applied.as_object_mut().and_then(|fields| typed::Rest::take(kind, fields));
        let decoded = self.write.decode_patched(applied);
        let Ok(mut object) = decoded.map(|normal| normal.object) else { return Ok(None) };
        if let Some(rest) = rest {
            let before = object.fields().clone();
            // Since then only decoding has changed the object, and only its lists.
            if rest.put_back(&before, object.fields_mut()).is_err() {
                return Ok(None);
            }
        }
        ensure_namespace(&mut object, self.write.target.expected_namespace())?;
        Ok(Some(object))
    }

    /// Returns the write that turns the object into the admitted one, and the answer to its dry run. The write is an apply with
    /// an extended configuration if the dry run of that apply gives exactly the admitted object.
    async fn try_admitted(
        &self,
        pinned: &Object,
        forms: Forms<'_>,
        old: Option<&Object>,
    ) -> Result<(Outgoing, Answer), Status> {
        if let Some(first) = forms.first
            && let Some(last) = self.apply_more(pinned, &forms)?
        {
            let tried = self.write.rehearse(last.clone()).await?;
            if tried.status.is_success() {
                let (before, admitted) = (forms.before.fields(), forms.admitted.fields());
                match deviation(first.fields(), before, admitted, tried.object()?.fields()) {
                    None => return Ok((last, tried)),
                    Some(field) => tracing::debug!(
                        field,
                        "no apply configuration yields the admitted object; sending another write instead"
                    ),
                }
            }
        }
        let last = self.written_instead(old, forms.admitted)?;
        let tried = self.write.rehearse(last.clone()).await?;
        Ok((last, tried))
    }

    /// Returns the configuration with the changes that admission made; `None` if no configuration can express them. The apply is
    /// forced, so it takes the fields that admission changed from other managers. The client's own conflicts have already shown
    /// in the first dry run.
    fn apply_more(&self, pinned: &Object, forms: &Forms<'_>) -> Result<Option<Outgoing>, Status> {
        let mut configuration = pinned.clone();
        let (before, admitted) = (forms.before.fields(), forms.admitted.fields());
        if extend(configuration.fields_mut(), before, admitted, self.write.node()).is_none() {
            return Ok(None);
        }
        let mut outgoing = self.apply_patch(&configuration)?;
        outgoing.uri = with_parameter(&outgoing.uri, "force=true")?;
        Ok(Some(outgoing))
    }

    /// Builds an update of the stored object, or a create, instead of an apply. The writer owns the changed fields until the
    /// second write of the owners.
    fn written_instead(&self, old: Option<&Object>, admitted: &Object) -> Result<Outgoing, Status> {
        let mut outgoing = match old {
            Some(old) => self.write.difference(old, admitted.whole())?,
            None => {
                let mut object = admitted.whole().into_owned();
                for field in ["resourceVersion", "managedFields"] {
                    object.remove(&["metadata", field]);
                }
                let body = serde_json::to_vec(&object).map_err(Status::internal_error)?;
                Outgoing { method: Method::POST, ..self.write.outgoing(body.into()) }
            }
        };
        let path = if old.is_some() { self.write.parts.uri.path() } else { self.write.collection_path() };
        outgoing.uri = self.write.uri_with(path, &["fieldManager", "dryRun", "pretty"])?;
        if self.write.schema.is_some() {
            outgoing.uri = with_parameter(&outgoing.uri, "fieldValidation=Ignore")?;
        }
        Ok(outgoing)
    }

    fn apply_patch(&self, configuration: &Object) -> Result<Outgoing, Status> {
        let mut outgoing =
            self.write.outgoing(Bytes::from(serde_json::to_vec(configuration).map_err(Status::internal_error)?));
        outgoing.content_type = PatchType::Apply.content_type();
        Ok(outgoing)
    }
}

/// The forms of an object during an apply.
struct Forms<'a> {
    /// The outcome of the client's configuration; `None` if the API server refuses it as invalid.
    first: Option<&'a Object>,
    /// The outcome as mutating plugins were shown it.
    before: &'a Object,
    /// The object after the mutating phase.
    admitted: &'a Object,
}

/// A fault of a configuration that the API server no longer reports once the proxy has set a resourceVersion.
#[derive(Clone, Copy)]
enum Oddity {
    /// The configuration has no metadata, or its resourceVersion is null, empty or zero.
    NoVersion,
    /// The metadata is not an object, or the resourceVersion is not a number.
    Undecidable,
}

fn oddity(configuration: &Object) -> Option<Oddity> {
    match configuration.fields().get("metadata") {
        None | Some(Value::Null) => Some(Oddity::NoVersion),
        Some(Value::Object(metadata)) => match metadata.get("resourceVersion")? {
            Value::Null => Some(Oddity::NoVersion),
            Value::String(text) if names_no_version(text) => Some(Oddity::NoVersion),
            Value::String(text) if readable_version(text).is_ok() => None,
            _ => Some(Oddity::Undecidable),
        },
        Some(_) => Some(Oddity::Undecidable),
    }
}

/// Copies the resourceVersion from a configuration; removes the object's if the configuration has none.
fn take_version(object: &mut Object, configuration: &Object) {
    match configuration.resource_version() {
        "" => drop(object.remove(&["metadata", "resourceVersion"])),
        _ => take_metadata(object, configuration, "resourceVersion"),
    }
}

/// Whether the answer is a conflict of versions, not of field managers.
fn is_version_conflict(answer: &Answer) -> bool {
    let has_no_causes = |status: &Status| status.details.as_ref().is_none_or(|details| details.causes.is_empty());
    is_conflict(answer) && answer.status().is_some_and(|status| has_no_causes(&status))
}

/// Returns a configuration's outcome as mutating plugins see it: without the changes that the API server makes after the mutating
/// phase.
fn unprepared(
    configuration: &Object,
    computed: Option<Object>,
    outcome: Option<&Object>,
    old: Option<&Object>,
) -> Option<Object> {
    let mut object = computed.or_else(|| outcome.cloned())?;
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
            take_version(&mut object, configuration);
        }
    }
    before_storage::restore_empty(configuration, &mut object);
    object.settle();
    Some(object)
}
