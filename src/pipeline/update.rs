//! PUT: update, or create where the kind allows it.

use super::Exchange;
use super::gateway::Answer;
use super::outgoing::Outgoing;
use super::owner_references::Seen;
use super::view::{Trial, as_answer};
use super::write::{
    Attempts, MODIFIED, Sent, Write, is_already_exists, is_conflict, names_no_version, readable_version,
};
use crate::admission::Operation;
use crate::body::Body;
use crate::object::{Object, kinds};
use crate::request::body::{OptionsKind, WriteOptions, check_name, ensure_namespace};
use crate::status::{Status, invalid};
use http::{Method, Response, StatusCode};
use serde_json::Value;
use std::sync::Arc;

const VERSION: [&str; 2] = ["metadata", "resourceVersion"];

impl Write<'_> {
    /// Admits and updates the object. After a conflict with the proxy's own resourceVersion, retries with the fresh object.
    pub(super) async fn update(&self, exchange: &mut Exchange) -> Result<Response<Body>, Status> {
        let options = self.options(OptionsKind::Update)?;
        let decoded = self.decode(&options, exchange)?;
        let (mut object, mut sent) = (decoded.object, decoded.sent);
        ensure_namespace(&mut object, self.target.expected_namespace())?;
        check_name(&object, &self.target.name)?;
        if self.say_duplicate_owners(&mut object, Seen::AsSent) {
            sent.verbatim = None;
        }
        object.settle();
        let mut attempts = Attempts::new(&self.pipeline.limits);
        loop {
            let old = self.old_object().await?;
            let version = old.as_ref().map(|old| old.resource_version().to_owned()).unwrap_or_default();
            let answer = match old {
                Some(old) => self.update_existing(&object, old, &options, &sent, exchange).await?,
                None => self.update_missing(&object, &options, &sent, exchange).await?,
            };
            match answer {
                Outcome::Final(answer) => return self.respond(answer).await,
                Outcome::Changed(_) if attempts.may_go_on(&version) => {}
                Outcome::Changed(answer) => return self.respond(answer).await,
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
        self.hide_rest(&mut old);
        let old = Arc::new(old);
        check_uid(self, object, old.uid())?;
        let options = options.as_options_object(OptionsKind::Update);
        let mut attributes = self.attributes(Operation::Update, Some(object.clone()), Some(old.clone()), options);
        self.admit(&mut attributes, exchange).await?;
        let owners = self.owners(&attributes, || sent.rest.is_empty().then(|| object.clone()));
        let without_version = match attributes.object.as_ref().filter(|object| self.may_mind_the_version(object)) {
            Some(object) => {
                let body = serde_json::to_vec(&*sent.rest.put_back(object)?).map_err(Status::internal_error)?;
                Some(self.rehearse(self.written(body.into())?).await?)
            }
            None => None,
        };
        if let Some(refusal) = without_version.as_ref().filter(|answer| is_about_version(answer)) {
            return Ok(Outcome::Final(refusal.clone()));
        }
        let is_asked_for = match &mut attributes.object {
            Some(object) => self.pin_version(object, &old)?,
            None => true,
        };
        let outgoing = Outgoing { owners, ..self.admitted(&attributes, sent)? };
        let trial = match (self.is_to_be_tried(&attributes), without_version) {
            (false, _) => self.untried(&attributes),
            (true, Some(answer)) => self.judge(Operation::Update, answer),
            (true, None) => self.try_out(&attributes, &outgoing).await?,
        };
        if let Trial::Stored(stored, _) = &trial
            && stored.resource_version() != old.resource_version()
        {
            // The dry run was of another version than the admitted one.
            return Ok(Outcome::Changed(as_answer(&self.conflict(MODIFIED))));
        }
        let refused = self.validate_tried(&mut attributes, trial, &outgoing, exchange).await?;
        let answer = match refused {
            Some(refusal) => refusal,
            None => self.send_admitted(Operation::Update, outgoing, exchange).await?,
        };
        Ok(if !is_asked_for && is_conflict(&answer) { Outcome::Changed(answer) } else { Outcome::Final(answer) })
    }

    /// Whether the object has no resourceVersion, but updates of its kind may need one. The proxy then sends a dry run without a
    /// resourceVersion, because the version that the proxy adds must not make such an update valid. Only a dry run shows the need
    /// of a custom resource; the need of an aggregated API without support for dry run stays unknown.
    pub(super) fn may_mind_the_version(&self, object: &Object) -> bool {
        let may_mind = if self.target.is_built_in() { self.minds_the_version() } else { self.knows_dry_runs };
        may_mind && names_no_version(object.resource_version())
    }

    fn minds_the_version(&self) -> bool {
        let resource = &self.target.resource;
        kinds::of_resource(&resource.group, &resource.resource).is_some_and(|built_in| built_in.updated_by_version)
    }

    /// Checks that a patched object has a resourceVersion, if updates of its kind need one.
    pub(super) fn check_version(&self, object: &Object) -> Result<(), Status> {
        let minds = self.schema.is_some() || self.target.is_built_in() && self.minds_the_version();
        match minds && names_no_version(object.resource_version()) {
            true => Err(invalid::without_version(&self.target.resource, &self.target.name)),
            false => Ok(()),
        }
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
        let resource = &self.target.resource;
        let built_in = kinds::of_resource(&resource.group, &resource.resource);
        if !self.target.subresource.is_empty() || !built_in.is_some_and(|built_in| built_in.created_by_put) {
            return Err(self.not_found());
        }
        check_uid(self, object, "")?;
        self.authorize_create().await?;
        let options = options.as_options_object(OptionsKind::Create);
        let mut attributes = self.attributes(Operation::Create, Some(object.clone()), None, options);
        self.admit(&mut attributes, exchange).await?;
        let owners = self.owners(&attributes, || sent.rest.is_empty().then(|| object.clone()));
        let version = match &mut attributes.object {
            Some(object) => object.remove(&VERSION),
            None => None,
        };
        if let Some(version) = version.as_ref().and_then(Value::as_str).filter(|version| !version.is_empty()) {
            readable_version(version)?;
        }
        let sent = Sent { verbatim: None, rest: sent.rest.clone() };
        let mut outgoing = Outgoing { owners, ..self.admitted(&attributes, &sent)? };
        if let (Some(object), Some(version)) = (&mut attributes.object, version) {
            let _metadata_is_an_object = object.set(&VERSION, version);
        }
        outgoing.method = Method::POST;
        // A PUT does not wait for initializers.
        outgoing.uri = self.without_wait(self.collection_uri()?)?;
        let mut answer = match self.validate_write(&mut attributes, &outgoing, exchange).await? {
            Some(refusal) => refusal,
            None => self.send_admitted(Operation::Create, outgoing, exchange).await?,
        };
        if answer.status == StatusCode::ACCEPTED {
            answer.status = StatusCode::CREATED;
        }
        Ok(if is_already_exists(&answer) { Outcome::Changed(answer) } else { Outcome::Final(answer) })
    }

    /// Checks that the caller of a PUT or apply that creates an object may create it (`handlers.withAuthorization`).
    pub(super) async fn authorize_create(&self) -> Result<(), Status> {
        let mut info = crate::request::info::request_info(&self.parts.method, &self.parts.uri);
        info.verb = "create".into();
        self.pipeline.authorizer.authorize(&self.caller.user, &info, self.caller.credentials.as_ref()).await.map(|_| ())
    }

    /// Returns the URL of the object's collection, with the request's query.
    fn collection_uri(&self) -> Result<http::Uri, Status> {
        let query = self.parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        format!("{}{query}", self.collection_path()).parse().map_err(Status::internal_error)
    }

    /// Returns the path of the object's collection.
    pub(super) fn collection_path(&self) -> &str {
        let path = self.parts.uri.path().trim_end_matches('/');
        path.rsplit_once('/').map_or("", |(collection, _)| collection)
    }
}

/// The result of one attempt.
enum Outcome {
    /// The answer for the client.
    Final(Answer),
    /// The API server's conflict: the object changed during admission.
    Changed(Answer),
}

/// Whether the API server refuses an update because it has no resourceVersion.
pub(super) fn is_about_version(answer: &Answer) -> bool {
    let is_cause = |status: Status| {
        let causes = status.details.map(|details| details.causes).unwrap_or_default();
        causes.iter().any(|cause| cause.field == "metadata.resourceVersion")
    };
    answer.status == StatusCode::UNPROCESSABLE_ENTITY && answer.status().is_some_and(is_cause)
}

/// Checks that the object has the uid that the client gives, before any plugin runs.
fn check_uid(write: &Write<'_>, object: &Object, found: &str) -> Result<(), Status> {
    let wanted = object.uid();
    if wanted.is_empty() || wanted == found {
        return Ok(());
    }
    Err(write.conflict(&format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}")))
}
