//! The validating phase's view of a write: the object as the API server behind would store it.
//!
//! In kube-apiserver the validating phase runs inside the storage layer, after the strategy and the validation of the kind. The
//! proxy gets that view from a dry run of the write (`dryRun=All`). Plugins see the outcome; the proxy never sends it.

use super::gateway::Answer;
use super::outgoing::{Outgoing, is_dry_run};
use super::write::{Write, is_already_exists};
use super::{Exchange, before_storage, cluster_ips, eviction, managed_fields, unknown_fields};
use crate::admission::{Attributes, Operation};
use crate::config::ValidationView;
use crate::object::{Object, generate_name};
use crate::status::Status;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::Value;

/// The result of the dry run of a write.
pub(super) enum Trial {
    /// The object as it would be stored, and the headers of the answer, which have the API server's warnings.
    Stored(Box<Object>, HeaderMap),
    /// No object to show: plugins see the submitted object, and the write itself gets the API server's refusal.
    Unknown,
    /// No dry run yet, because no plugin reads the stored form. If a plugin refuses, a dry run then finds out whether the API
    /// server refuses first.
    Untried,
    /// The API server's refusal, which kube-apiserver returns before the validating phase.
    Refused(Answer),
}

/// The validating phase of a write.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) write: &'a Write<'a>,
}

impl Write<'_> {
    /// Returns the validating phase of the write.
    pub(super) fn view(&self) -> View<'_> {
        View { write: self }
    }
}

impl View<'_> {
    /// Runs the validating phase of a write that is then sent as `outgoing`. Returns the API server's refusal if kube-apiserver
    /// would return it first, and the API server's answer if the write needs no further request: the client's own dry run is sent
    /// only once.
    pub(super) async fn validate_write(
        &self,
        attributes: &mut Attributes,
        outgoing: &Outgoing,
        exchange: &mut Exchange,
    ) -> Result<Option<Answer>, Status> {
        if self.write.target.subresource == "eviction"
            && let Some(shown) = eviction::shown(attributes, &self.write.target.name)?
        {
            let submitted = attributes.object.replace(shown);
            let trial = self.untried(attributes);
            let result = self.validate_tried(attributes, trial, outgoing, exchange).await;
            attributes.object = submitted;
            return result;
        }
        if !self.is_to_be_tried(attributes) {
            let trial = self.untried(attributes);
            return self.validate_tried(attributes, trial, outgoing, exchange).await;
        }
        if self.write.target.is_review() {
            // A review changes nothing: its answer is kept until the phase has ended. A refusal is returned before the phase.
            let answer = self.write.forward(outgoing.clone()).await?;
            if answer.status.is_success() {
                self.validate_tried(attributes, Trial::Unknown, outgoing, exchange).await?;
            }
            return Ok(Some(answer));
        }
        let answer = self.write.rehearse(outgoing.clone()).await?;
        let is_whole = answer.status.is_success() && self.asks_for_no_more(attributes, &answer);
        let whole = is_whole.then(|| match &outgoing.owners {
            None => answer.clone(),
            Some(owners) => owners.shown_in(answer.clone()),
        });
        let trial = self.judge_of(attributes, answer, outgoing).await?;
        let refusal = self.validate_tried(attributes, trial, outgoing, exchange).await?;
        Ok(refusal.or(whole))
    }

    /// Whether the answer to the dry run is also the answer to the client: the client asked for a dry run, in plain JSON.
    pub(super) fn asks_for_no_more(&self, attributes: &Attributes, answer: &Answer) -> bool {
        // The client's own dry run waits for initializers.
        attributes.dry_run
            && answer.status != StatusCode::ACCEPTED
            && self.write.accepts_plain_json()
            && self.write.comes_plain(answer.body.len())
    }

    /// The result for a write without a dry run.
    pub(super) fn untried(&self, attributes: &Attributes) -> Trial {
        if self.write.pipeline.chain.reads_stored_object(attributes) { Trial::Unknown } else { Trial::Untried }
    }

    /// Whether a plugin reads the stored form, which only a dry run shows.
    pub(super) fn is_to_be_tried(&self, attributes: &Attributes) -> bool {
        self.can_be_tried(attributes) && self.write.pipeline.chain.reads_stored_object(attributes)
    }

    /// Whether a dry run shows more than the submitted object. Evictions are validated as submitted; so are objects that are
    /// never stored, except reviews, and objects of an aggregated API without support for dry run.
    pub(super) fn can_be_tried(&self, attributes: &Attributes) -> bool {
        let tells_more = match attributes.operation {
            Operation::Create if self.write.target.subresource.is_empty() => {
                self.write.target.must_be_named() || self.write.target.is_review()
            }
            Operation::Create => matches!(&*self.write.target.subresource, "binding" | "token"),
            Operation::Update => true,
            Operation::Delete | Operation::Connect => false,
        };
        tells_more && self.write.knows_dry_runs && self.write.pipeline.writes.validation_view == ValidationView::Stored
    }

    /// Sends the write as a dry run.
    pub(super) async fn try_out(&self, attributes: &Attributes, outgoing: &Outgoing) -> Result<Trial, Status> {
        let answer = self.write.rehearse(outgoing.clone()).await?;
        self.judge_of(attributes, answer, outgoing).await
    }

    async fn judge_of(&self, attributes: &Attributes, answer: Answer, outgoing: &Outgoing) -> Result<Trial, Status> {
        let trial = match &attributes.object {
            Some(object) if is_already_exists(&answer) => self.try_elsewhere(object, outgoing).await?,
            Some(request) if self.write.target.subresource == "token" => self.judge_token(request, answer),
            // Plugins see a review as submitted, without its answer, but an invalid review is refused first.
            Some(_) if self.write.target.is_review() && answer.status.is_success() => Trial::Unknown,
            _ => self.judge(attributes.operation, answer),
        };
        Ok(self.allocated(attributes, trial).await)
    }

    /// Adds the refusals of an allocation that no dry run makes.
    pub(super) async fn allocated(&self, attributes: &Attributes, trial: Trial) -> Trial {
        let Trial::Stored(stored, _) = &trial else { return trial };
        match cluster_ips::refusal(self.write, attributes, stored).await {
            Some(refusal) => Trial::Refused(as_answer(&refusal)),
            None => trial,
        }
    }

    /// Sends the dry run of a create under another name if the name is taken: kube-apiserver finds that conflict only after the
    /// validating phase.
    async fn try_elsewhere(&self, object: &Object, outgoing: &Outgoing) -> Result<Trial, Status> {
        let name = object.name();
        // The body may have fields that the object does not have.
        let mut other = match outgoing.content_type {
            "application/json" => serde_json::from_slice(&outgoing.body).map_err(Status::internal_error)?,
            _ => object.clone(),
        };
        let drawn = generate_name(&format!("{name}-"));
        if !other.set(&["metadata", "name"], drawn.as_str().into()) {
            return Ok(Trial::Unknown);
        }
        let body = Bytes::from(serde_json::to_vec(&*other.whole()).map_err(Status::internal_error)?);
        let answer = self
            .write
            .rehearse(Outgoing { body, content_type: "application/json", is_encoded: false, ..outgoing.clone() })
            .await?;
        let Trial::Stored(mut stored, headers) = self.judge(Operation::Create, answer) else {
            return Ok(Trial::Unknown);
        };
        // The name also stands in labels: of a namespace, of a job's pods.
        stored.fields_mut().values_mut().for_each(|value| rename(value, &drawn, name));
        Ok(Trial::Stored(stored, headers))
    }

    /// Builds the object for a token before it is issued: its service account and its audiences (`TokenREST.Create`). The token
    /// that the dry run issues is removed.
    fn judge_token(&self, request: &Object, answer: Answer) -> Trial {
        let is_refused = match answer.status.as_u16() {
            200..=299 => false,
            404 => answer.status().and_then(|status| status.details).is_some_and(|what| what.kind == "serviceaccounts"),
            code => !matches!(code, 400 | 409),
        };
        if is_refused {
            return Trial::Refused(answer);
        }
        let (Ok(made), mut shown) = (answer.object(), request.clone()) else { return Trial::Unknown };
        if !answer.status.is_success() {
            return Trial::Unknown;
        }
        for field in ["name", "namespace", "uid", "creationTimestamp"] {
            take_metadata(&mut shown, &made, field);
        }
        shown.remove(&["status"]);
        if let Some(audiences) =
            made.get(&["spec", "audiences"]).filter(|_| shown.items(&["spec", "audiences"]).is_empty())
        {
            let _spec_is_an_object = shown.set(&["spec", "audiences"], audiences.clone());
        }
        match self.write.decode_patched(shown.into_value()) {
            Ok(normal) => Trial::Stored(Box::new(normal.object), HeaderMap::new()),
            Err(_) => Trial::Unknown,
        }
    }

    /// Classifies the answer to a dry run. Some refusals come after the validating phase: the write itself gets them.
    pub(super) fn judge(&self, operation: Operation, answer: Answer) -> Trial {
        if self.is_refused_first(operation, &answer) {
            return Trial::Refused(answer);
        }
        match answer.object() {
            Ok(object) if answer.status.is_success() && object.kind() == self.write.target.kind().kind => {
                shown(operation, object, answer.headers)
            }
            _ => Trial::Unknown,
        }
    }

    /// Whether this answer is a refusal that kube-apiserver returns before its validating phase.
    fn is_refused_first(&self, operation: Operation, answer: &Answer) -> bool {
        let is_create = operation == Operation::Create;
        match answer.status.as_u16() {
            200..=299 => false,
            // A webhook or aggregated API behind has side effects: only the write itself can call it.
            400 => !answer.status().is_some_and(|status| status.message.contains("does not support dry run")),
            409 => !is_create,
            404 => !is_create || self.write.target.subresource.is_empty(),
            _ => true,
        }
    }

    /// Sends an admitted write. Drops the annotations and warnings of the validating phase if the API server refuses with an
    /// error that kube-apiserver returns before that phase.
    pub(super) async fn send_admitted(
        &self,
        operation: Operation,
        outgoing: Outgoing,
        exchange: &mut Exchange,
    ) -> Result<Answer, Status> {
        let answer = match outgoing.owners.clone() {
            None => self.write.forward(outgoing).await?,
            Some(owners) if is_dry_run(&outgoing.uri) => owners.shown_in(self.write.forward_for_plain(outgoing).await?),
            Some(owners) => self.write.field_owners().write_and_disown(outgoing, &owners).await?,
        };
        if self.is_refused_first(operation, &answer) {
            exchange.forget_validation();
        }
        Ok(answer)
    }

    /// Runs the validating phase on the result of the dry run. The admitted object stays the one that goes to the API server.
    pub(super) async fn validate_tried(
        &self,
        attributes: &mut Attributes,
        trial: Trial,
        outgoing: &Outgoing,
        exchange: &mut Exchange,
    ) -> Result<Option<Answer>, Status> {
        let (stored, headers) = match trial {
            Trial::Stored(stored, headers) => (stored, headers),
            Trial::Untried => {
                return match self.validate_submitted(attributes, exchange).await {
                    Ok(()) => Ok(None),
                    Err(refusal) => self.refuse(attributes, outgoing, refusal, exchange).await,
                };
            }
            Trial::Unknown => {
                let shown = managed_fields::show(self.write, attributes);
                let result = self.validate_submitted(attributes, exchange).await;
                if let Some(shown) = shown {
                    shown.take_back(attributes);
                }
                return result.map(|()| None);
            }
            Trial::Refused(answer) => return Ok(Some(answer)),
        };
        let mut stored = stored;
        if let Some(owners) = &outgoing.owners {
            owners.show(&mut stored);
        }
        let admitted = attributes.object.replace(*stored);
        if let (Some(admitted), Some(stored)) = (&admitted, &mut attributes.object) {
            unknown_fields::hide(self.write, stored);
            before_storage::undo(self.write.target.kind(), attributes.operation, admitted, stored);
            if attributes.operation == Operation::Create {
                // The version that a PUT names stays until the object is stored.
                take_metadata(stored, admitted, "resourceVersion");
            }
            if self.write.schema.is_some() {
                let of_status = (self.write.target.has_status(), self.write.target.subresource == "status");
                before_storage::restore_read(admitted, stored, |field| match (field, of_status) {
                    ("apiVersion" | "kind" | "metadata", _) => false,
                    // An update keeps the stored fields that it does not write.
                    (field, (true, is_status)) => is_status == (field == "status"),
                    _ => true,
                });
            }
        }
        if self.write.target.subresource == "token" {
            // A TokenRequest is not stored, so the API server's answer has no managedFields.
            let _goes_with_the_object = managed_fields::show(self.write, attributes);
        }
        let result = self.write.validate(attributes, exchange).await;
        attributes.object = admitted;
        if result.is_err() {
            // The write is not sent after a refusal, so its warnings come from the dry run.
            self.write.warnings.add_stored(&headers);
        }
        result.map(|()| None)
    }

    /// Runs the validating phase on the submitted object; of a part of a pod, on the whole pod.
    async fn validate_submitted(&self, attributes: &mut Attributes, exchange: &mut Exchange) -> Result<(), Status> {
        let is_pod = attributes.resource.group.is_empty() && attributes.resource.resource == "pods";
        let (object, old) = (attributes.object.as_ref().filter(|_| is_pod), attributes.old_object.as_deref());
        let whole =
            object.zip(old).and_then(|(part, old)| before_storage::whole_pod(&attributes.subresource, old, part));
        let whole = match whole.as_ref().or(object) {
            Some(pod) if !attributes.defaulting.pod_resources => {
                before_storage::with_resources(&attributes.subresource, old, pod).or(whole)
            }
            _ => whole,
        };
        let part = whole.and_then(|whole| attributes.object.replace(whole));
        let result = self.write.validate(attributes, exchange).await;
        if part.is_some() {
            attributes.object = part;
        }
        result
    }

    /// Returns a plugin's refusal, or the API server's if kube-apiserver would return that first; adds the dry run's warnings.
    async fn refuse(
        &self,
        attributes: &Attributes,
        outgoing: &Outgoing,
        refusal: Status,
        exchange: &mut Exchange,
    ) -> Result<Option<Answer>, Status> {
        if !self.can_be_tried(attributes) {
            return Err(refusal);
        }
        match self.try_out(attributes, outgoing).await {
            Ok(Trial::Refused(answer)) => {
                exchange.forget_validation();
                return Ok(Some(answer));
            }
            Ok(Trial::Stored(_, headers)) => self.write.warnings.add_stored(&headers),
            Ok(Trial::Unknown | Trial::Untried) | Err(_) => {}
        }
        Err(refusal)
    }
}

/// The object in an answer, for the validating phase. The uid of a new object is removed, because the write draws another one.
pub(super) fn shown(operation: Operation, mut object: Object, headers: HeaderMap) -> Trial {
    if operation == Operation::Create {
        object.remove(&["metadata", "uid"]);
    }
    Trial::Stored(Box::new(object), headers)
}

/// Replaces the name `from` with `to` in every string that equals `from`.
pub(super) fn rename(value: &mut Value, from: &str, to: &str) {
    match value {
        Value::String(text) if text == from => to.clone_into(text),
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, from, to)),
        Value::Object(fields) => fields.values_mut().for_each(|field| rename(field, from, to)),
        _ => {}
    }
}

/// A Status in the form of an answer of the API server.
pub(super) fn as_answer(status: &Status) -> Answer {
    let body = serde_json::to_vec(status).unwrap_or_default().into();
    let code = http::StatusCode::from_u16(status.code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    let mut headers = HeaderMap::new();
    headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Answer { status: code, headers, body, room: None }
}

/// Copies a field of the metadata from another object; removes the field if the other object has none.
pub(super) fn take_metadata(object: &mut Object, other: &Object, field: &str) {
    match other.get(&["metadata", field]).cloned() {
        Some(value) => {
            let _metadata_is_an_object = object.set(&["metadata", field], value);
        }
        None => drop::<Option<Value>>(object.remove(&["metadata", field])),
    }
}
