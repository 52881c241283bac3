//! PUT: update, or create where the kind allows it.

use super::Exchange;
use super::gateway::Answer;
use super::outgoing::{Outgoing, without_wait};
use super::owner_references::{Seen, remove_duplicates};
use super::resource_version::{self, is_about_version, readable_version};
use super::unknown_fields;
use super::view::{Trial, as_answer};
use super::write::{Attempts, Sent, Write, is_already_exists, is_conflict};
use crate::admission::{Attributes, Operation};
use crate::body::Body;
use crate::object::{Object, kinds};
use crate::request::body::{OptionsKind, WriteOptions, check_name, ensure_namespace};
use crate::status::{OPTIMISTIC_LOCK, Status};
use http::{Method, Response, StatusCode};
use serde_json::Value;
use std::sync::Arc;

const VERSION: [&str; 2] = ["metadata", "resourceVersion"];

/// An update in progress.
pub(super) struct Update<'a> {
    pub(super) write: &'a Write<'a>,
}

impl Update<'_> {
    /// Admits and updates the object. After a conflict with the proxy's own resourceVersion, retries with the fresh object.
    pub(super) async fn run(&self, exchange: &mut Exchange) -> Result<Response<Body>, Status> {
        let options = self.write.options(OptionsKind::Update)?;
        let decoded = self.write.decode(&options, exchange)?;
        let (mut object, mut sent) = (decoded.object, decoded.sent);
        ensure_namespace(&mut object, self.write.target.expected_namespace())?;
        check_name(&object, &self.write.target.name)?;
        if remove_duplicates(&mut object, Seen::AsSent, &self.write.warnings) {
            sent.verbatim = None;
        }
        object.settle();
        let mut attempts = Attempts::new(&self.write.pipeline.limits);
        let mut conflict: Option<(String, Answer)> = None;
        loop {
            let old = self.write.old_object().await?;
            let version = old.as_ref().map(|old| old.resource_version().to_owned()).unwrap_or_default();
            if let Some((_, answer)) = conflict.take().filter(|(admitted, _)| *admitted == version) {
                // The conflict is about something else than the version that the client names.
                return self.write.respond(answer).await;
            }
            let answer = match old {
                Some(old) => self.update_existing(&object, old, &options, &sent, exchange).await?,
                None => self.update_missing(&object, &options, &sent, exchange).await?,
            };
            match answer {
                Outcome::Final(answer) => return self.write.respond(answer).await,
                Outcome::Changed(_) if attempts.start_over(self.write, &version).await => {}
                // kube-apiserver shows also such a write to mutating plugins again, and only then compares the versions (`Store.Update`).
                Outcome::Outdated(answer) if attempts.may_go_on(&version) => conflict = Some((version, answer)),
                Outcome::Changed(answer) | Outcome::Outdated(answer) => return self.write.respond(answer).await,
            }
        }
    }

    async fn update_existing(
        &self,
        object: &Object,
        mut old: Object,
        options: &WriteOptions,
        sent: &Sent,
        exchange: &mut Exchange,
    ) -> Result<Outcome, Status> {
        unknown_fields::hide(self.write, &mut old);
        let old = Arc::new(old);
        let options = options.as_options_object(OptionsKind::Update);
        let mut attributes = Attributes {
            namespace_from_url: sent.lacks_namespace,
            ..self.write.attributes(Operation::Update, Some(object.clone()), Some(old.clone()), options)
        };
        if !fits_uid(object, old.uid()) {
            return self.refuse_uid(&attributes, sent, old.uid()).await;
        }
        let own = self.write.admit(&mut attributes, exchange).await?;
        let owners = self.write.field_owners().of_admitted(&attributes, &sent.rest, own, || Some(object.clone()));
        let without_version =
            match attributes.object.as_ref().filter(|object| resource_version::may_be_required(self.write, object)) {
                Some(object) => {
                    let body = serde_json::to_vec(&*sent.rest.put_back(object)?).map_err(Status::internal_error)?;
                    Some(self.write.rehearse(self.write.written(body.into())?).await?)
                }
                None => None,
            };
        if let Some(refusal) = without_version.as_ref().filter(|answer| is_about_version(answer)) {
            return Ok(Outcome::Final(refusal.clone()));
        }
        let is_asked_for = match &mut attributes.object {
            Some(object) => resource_version::pin(self.write, object, &old)?,
            None => true,
        };
        let outgoing = Outgoing { owners, ..self.write.admitted(&attributes, sent)? };
        let trial = match (self.write.view().is_to_be_tried(&attributes), without_version) {
            (false, _) => self.write.view().untried(&attributes),
            (true, Some(answer)) => self.write.view().judge(Operation::Update, answer),
            (true, None) => self.write.view().try_out(&attributes, &outgoing).await?,
        };
        if let Trial::Stored(stored, _) = &trial
            && stored.resource_version() != old.resource_version()
        {
            // The dry run was of another version than the admitted one.
            return Ok(Outcome::Changed(as_answer(&self.write.conflict(OPTIMISTIC_LOCK))));
        }
        let refused = self.write.view().validate_tried(&mut attributes, trial, &outgoing, exchange).await?;
        let answer = match refused {
            Some(refusal) => refusal,
            None => self.write.view().send_admitted(Operation::Update, outgoing, exchange).await?,
        };
        Ok(match is_conflict(&answer) {
            true if is_asked_for => Outcome::Outdated(answer),
            true => Outcome::Changed(answer),
            false => Outcome::Final(answer),
        })
    }

    /// Handles a PUT of a missing object: a create for some kinds, 404 for the others. The create goes upstream as a POST, which
    /// a concurrent create cannot turn into an update.
    async fn update_missing(
        &self,
        object: &Object,
        options: &WriteOptions,
        sent: &Sent,
        exchange: &mut Exchange,
    ) -> Result<Outcome, Status> {
        let resource = &self.write.target.resource;
        let built_in = kinds::of_resource(&resource.group, &resource.resource);
        if !self.write.target.subresource.is_empty() || !built_in.is_some_and(|built_in| built_in.created_by_put) {
            return Err(self.write.not_found());
        }
        let options = options.as_options_object(OptionsKind::Create);
        let mut attributes = Attributes {
            namespace_from_url: sent.lacks_namespace,
            ..self.write.attributes(Operation::Create, Some(object.clone()), None, options)
        };
        if !fits_uid(object, "") {
            return self.refuse_uid(&attributes, sent, "").await;
        }
        self.write.authorize_create().await?;
        let own = self.write.admit(&mut attributes, exchange).await?;
        let owners = self.write.field_owners().of_admitted(&attributes, &sent.rest, own, || Some(object.clone()));
        let version = match &mut attributes.object {
            Some(object) => object.remove(&VERSION),
            None => None,
        };
        if let Some(version) = version.as_ref().and_then(Value::as_str).filter(|version| !version.is_empty()) {
            readable_version(version)?;
        }
        let sent = Sent { verbatim: None, rest: sent.rest.clone(), ..*sent };
        let mut outgoing = Outgoing { owners, ..self.write.admitted(&attributes, &sent)? };
        if let (Some(object), Some(version)) = (&mut attributes.object, version) {
            let _metadata_is_an_object = object.set(&VERSION, version);
        }
        outgoing.method = Method::POST;
        // A PUT does not wait for initializers.
        outgoing.uri = without_wait(self.write, self.collection_uri()?)?;
        let mut answer = match self.write.view().validate_write(&mut attributes, &outgoing, exchange).await? {
            Some(refusal) => refusal,
            None => self.write.view().send_admitted(Operation::Create, outgoing, exchange).await?,
        };
        if answer.status == StatusCode::ACCEPTED {
            answer.status = StatusCode::CREATED;
        }
        Ok(if is_already_exists(&answer) { Outcome::Changed(answer) } else { Outcome::Final(answer) })
    }

    /// Refuses an object with another uid than the stored one, before any plugin runs (`Preconditions.Check`). The API server refuses a
    /// dry run of the write with a text that has the key of the object in its store.
    async fn refuse_uid(&self, attributes: &Attributes, sent: &Sent, found: &str) -> Result<Outcome, Status> {
        if self.write.knows_dry_runs {
            let answer = self.write.rehearse(self.write.admitted(attributes, sent)?).await?;
            if !answer.status.is_success() {
                return Ok(Outcome::Final(answer));
            }
        }
        let wanted = attributes.object.as_ref().map_or("", Object::uid);
        let why = format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}");
        Err(self.write.conflict(&why))
    }

    /// Returns the URL of the object's collection, with the request's query.
    fn collection_uri(&self) -> Result<http::Uri, Status> {
        let query = self.write.parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        format!("{}{query}", self.write.collection_path()).parse().map_err(Status::internal_error)
    }
}

/// The result of one attempt.
enum Outcome {
    /// The answer for the client.
    Final(Answer),
    /// The API server's conflict: the object changed during admission.
    Changed(Answer),
    /// As [`Self::Changed`], but the client named the version.
    Outdated(Answer),
}

/// Whether the object has the uid that the client gives.
fn fits_uid(object: &Object, found: &str) -> bool {
    object.uid().is_empty() || object.uid() == found
}
