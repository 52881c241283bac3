//! Field ownership of what admission changed: in kube-apiserver nobody's, because its field manager runs before admission. An
//! API server behind counts all that a request writes as its writer's. A second write, of nothing but `metadata.managedFields`,
//! gives those fields back.

use super::gateway::Answer;
use super::write::{Outgoing, Write, is_conflict, schema};
use crate::admission::{Attributes, Operation};
use crate::config::FieldOwnership;
use crate::object::managed_fields::{give_back, is_too_large, owned_as};
use crate::object::patch::PatchType;
use crate::object::{Object, typed};
use crate::request::body;
use crate::request::query::query_value;
use crate::response::{self, Form};
use crate::status::Status;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, WARNING};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use std::borrow::Cow;

const MANAGED_FIELDS: [&str; 2] = ["metadata", "managedFields"];

/// The owners of an object's fields without what admission changed.
#[derive(Clone)]
pub(super) struct Owners {
    entries: Value,
    /// The only version whose entries are known; none where all are.
    version: Option<String>,
}

impl Owners {
    /// Those of an object that an apply comes to; none from an API server that records none.
    pub(super) fn of_applied(outcome: &Object) -> Option<Self> {
        let is_recorded = !outcome.items(&MANAGED_FIELDS).is_empty();
        let entries = outcome.get(&MANAGED_FIELDS).filter(|_| is_recorded).cloned()?;
        Some(Self { entries, version: None })
    }

    /// What is to be recorded instead of this; none where nothing differs.
    fn instead_of(&self, recorded: &Object) -> Option<Value> {
        if recorded.items(&MANAGED_FIELDS).is_empty() {
            return None;
        }
        match &self.version {
            None => Some(self.entries.clone()),
            Some(version) => owned_as(recorded.get(&MANAGED_FIELDS)?, &self.entries, version),
        }
    }

    /// Puts the owners into an object that is only shown.
    pub(super) fn show(&self, object: &mut Object) {
        if let Some(owners) = self.instead_of(object) {
            let _metadata_is_an_object = object.set(&MANAGED_FIELDS, owners);
        }
    }

    /// The answer to a dry run with these owners; as it is, where it is no object in JSON.
    pub(super) fn shown_in(&self, answer: Answer) -> Answer {
        let with_owners = || {
            let mut object = answer.object().ok().filter(|_| answer.status.is_success())?;
            self.show(&mut object);
            answer.with_object(&object).ok()
        };
        with_owners().unwrap_or(answer)
    }
}

impl Write<'_> {
    /// The owners of the fields of an admitted object, where they are others than those that the API server behind is going to
    /// record. `before` is the object as the mutating phase began with it.
    pub(super) fn owners(&self, attributes: &Attributes, before: impl FnOnce() -> Option<Object>) -> Option<Owners> {
        let admitted = attributes.object.as_ref().filter(|object| object.is_changed())?;
        if !self.are_owners_exact(attributes.operation) {
            return None;
        }
        let before = before()?.into_value();
        let (own, _) = self.owners_after(attributes, &before)?;
        let (recorded, _) = self.owners_after(attributes, &admitted.clone().into_value())?;
        let (own, version) = (own.unwrap_or_else(|| json!([])), self.target.kind().api_version());
        owned_as(&recorded?, &own, &version)?;
        Some(Owners { entries: own, version: Some(version) })
    }

    fn are_owners_exact(&self, operation: Operation) -> bool {
        let is_frequent = matches!(&*self.target.resource.resource, "pods" | "events");
        let is_wanted = match self.pipeline.field_ownership {
            FieldOwnership::Writer => false,
            FieldOwnership::Exact => !is_frequent,
            FieldOwnership::ExactAll => true,
        };
        let is_object = match operation {
            Operation::Create => self.target.subresource.is_empty() && self.target.must_be_named(),
            // The owners of a scale are its parent's.
            Operation::Update => self.target.subresource != "scale",
            Operation::Delete | Operation::Connect => false,
        };
        let is_known = self.schema.is_some() || schema(self.target.kind()).is_some();
        is_wanted && is_object && is_known
    }

    /// `metadata.managedFields` once this object has replaced the old one, and whether the time of the write is in them; none for
    /// objects of which no ownership is computed here.
    pub(super) fn owners_after(&self, attributes: &Attributes, new: &Value) -> Option<(Option<Value>, bool)> {
        let kind = self.target.kind();
        let old = match (attributes.operation, &attributes.old_object) {
            (Operation::Update, Some(old)) => (**old).clone().into_value(),
            (Operation::Create, _) => {
                let mut empty = json!({"apiVersion": kind.api_version(), "kind": kind.kind});
                typed::encode(kind, &mut empty);
                empty
            }
            _ => return None,
        };
        if is_too_large(&old) || is_too_large(new) {
            return None;
        }
        Some(self.change(&self.manager(attributes)).managed_fields(&old, new))
    }

    /// Writes what was admitted, and then who owns it. Where nobody may write that, the writer owns all of it.
    pub(super) async fn write_and_disown(&self, outgoing: Outgoing, owners: &Owners) -> Result<Answer, Status> {
        let written = self.forward_for_json(outgoing).await?;
        if !written.status.is_success() {
            return self.refusal_in_accepted_form(written).await;
        }
        let query = self.parts.uri.query().unwrap_or_default();
        let manager = query_value(query, "fieldManager").unwrap_or_default();
        let is_writer = |name: &str, subresource: &str| name == manager && subresource == self.target.subresource;
        let first = written.object()?;
        let asked_for = self.object_path(&first);
        let Some(own) = owners.instead_of(&first) else { return self.in_accepted_form(written, &asked_for).await };
        let of = |object: &Object| object.get(&MANAGED_FIELDS).cloned().unwrap_or_default();
        let (mut object, mut entries) = (first.clone(), own.clone());
        let path = self.stored_path(&asked_for);
        for _ in 0..self.pipeline.limits.conflict_retries {
            let answer = self.write_owners(&path, &object, &entries).await?;
            if answer.status.is_success() {
                let answer = if path == asked_for { answer } else { self.read_again(&asked_for).await? };
                return Ok(if answer.status.is_success() { as_first(answer, &written) } else { written });
            }
            if !is_conflict(&answer) {
                tracing::warn!(status = %answer.status, "the fields that admission changed are owned by who wrote the object");
                break;
            }
            let Some(fresh) = self.stored_now(&path).await?.filter(|fresh| fresh.uid() == first.uid()) else { break };
            let Some(given_back) = give_back(&own, &of(&first), &of(&fresh), is_writer) else { break };
            if given_back == of(&fresh) {
                break;
            }
            (object, entries) = (fresh, given_back);
        }
        self.in_accepted_form(written, &asked_for).await
    }

    /// Writes the owners of the object at this path: by PATCH as the caller; by PUT, where the caller updates and may not
    /// patch; otherwise as the proxy, for who may write an object decides by that who owns its fields.
    async fn write_owners(&self, path: &str, object: &Object, entries: &Value) -> Result<Answer, Status> {
        let patch = self.owners_patch(path, object, entries)?;
        let answer = self.forward(patch.clone()).await?;
        if answer.status != StatusCode::FORBIDDEN || self.parts.method == Method::PATCH {
            return Ok(answer);
        }
        if self.parts.method == Method::PUT && *path == *self.parts.uri.path() {
            let mut whole = object.clone();
            let _metadata_is_an_object = whole.set(&MANAGED_FIELDS, entries.clone());
            let body = serde_json::to_vec(&whole).map_err(Status::internal_error)?;
            return self
                .forward(Outgoing { body: body.into(), content_type: "application/json", method: Method::PUT, ..patch })
                .await;
        }
        match self.caller.credentials {
            Some(_) => Ok(answer),
            None => self.forward_as_proxy(patch).await,
        }
    }

    /// The path of the object that is written.
    fn object_path(&self, object: &Object) -> Cow<'_, str> {
        match self.parts.method {
            Method::POST => format!("{}/{}", self.parts.uri.path().trim_end_matches('/'), object.name()).into(),
            _ => self.parts.uri.path().into(),
        }
    }

    /// The same path in the version that objects are stored in: a write in another one changes what that has defaults for.
    fn stored_path<'p>(&self, path: &'p str) -> Cow<'p, str> {
        let (group, version) = (&self.target.resource.group, &self.target.resource.version);
        match (&self.storage_version, path.strip_prefix(&format!("/apis/{group}/{version}/"))) {
            (Some(stored), Some(rest)) if stored != version => format!("/apis/{group}/{stored}/{rest}").into(),
            _ => path.into(),
        }
    }

    /// The object that is stored at this path now.
    async fn stored_now(&self, path: &str) -> Result<Option<Object>, Status> {
        match self.parts.method {
            Method::POST => self.pipeline.gateway.read(path, self.caller).await,
            _ => self.old_object().await,
        }
    }

    /// A refusal that was asked for in JSON, in the form that the client accepts.
    async fn refusal_in_accepted_form(&self, refusal: Answer) -> Result<Answer, Status> {
        let Some(status) = refusal.status().filter(|_| !self.accepts_plain_json()) else { return Ok(refusal) };
        let form = Form::of(&self.parts.headers, &self.parts.uri);
        let (written, body) = response::status(&status, form).into_parts();
        let body = body::read(body, self.pipeline.limits.response_bytes).await?;
        let mut headers = refusal.headers;
        headers.remove(CONTENT_LENGTH);
        if let Some(content_type) = written.headers.get(CONTENT_TYPE) {
            headers.insert(CONTENT_TYPE, content_type.clone());
        }
        Ok(Answer { status: refusal.status, headers, body })
    }

    fn accepts_plain_json(&self) -> bool {
        self.header(ACCEPT).is_none_or(|accept| matches!(accept, "*/*" | "application/json"))
    }

    /// An answer in JSON in the form that the client accepts, if the client may read the object.
    async fn in_accepted_form(&self, written: Answer, path: &str) -> Result<Answer, Status> {
        if self.accepts_plain_json() {
            return Ok(written);
        }
        let answer = self.read_again(path).await?;
        Ok(if answer.status.is_success() { as_first(answer, &written) } else { written })
    }

    /// The object as the client asked for it.
    async fn read_again(&self, path: &str) -> Result<Answer, Status> {
        let uri = self.uri_with(path, &["includeObject", "pretty"])?;
        self.forward(Outgoing { method: Method::GET, uri, ..self.outgoing(Bytes::new()) }).await
    }

    /// The patch that gives the object at this path these owners, if it still has its version.
    fn owners_patch(&self, path: &str, object: &Object, entries: &Value) -> Result<Outgoing, Status> {
        // An empty list would be filled with what was recorded before (`decodeLiveOrNew`).
        let nobody = json!([{}]);
        let entries = if entries.as_array().is_some_and(Vec::is_empty) { &nobody } else { entries };
        let metadata = json!({"managedFields": entries, "resourceVersion": object.resource_version()});
        let body = serde_json::to_vec(&json!({ "metadata": metadata })).map_err(Status::internal_error)?;
        let mut outgoing = self.outgoing(Bytes::from(body));
        outgoing.method = Method::PATCH;
        outgoing.uri = self.uri_with(path, &["fieldManager", "includeObject", "pretty"])?;
        outgoing.content_type = PatchType::Merge.content_type();
        Ok(outgoing)
    }
}

/// The answer to the second write as that to the first: with its status, and what the API server warned of.
fn as_first(mut answer: Answer, first: &Answer) -> Answer {
    answer.headers.remove(WARNING);
    for warning in first.headers.get_all(WARNING) {
        answer.headers.append(WARNING, warning.clone());
    }
    Answer { status: first.status, ..answer }
}
