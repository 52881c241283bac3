//! Ownership of the fields that admission changes. In kube-apiserver these fields have no owner, because its field manager runs
//! before admission. The API server behind records the writer as the owner of all fields that a request writes. A second write,
//! of nothing but `metadata.managedFields`, gives those fields back.

use super::gateway::Answer;
use super::outgoing::Outgoing;
use super::write::{Write, is_conflict, schema};
use crate::admission::{Attributes, Operation};
use crate::body::Body;
use crate::cluster::segment;
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
use http::{Method, Response, StatusCode};
use serde_json::{Value, json};
use std::borrow::Cow;

const MANAGED_FIELDS: [&str; 2] = ["metadata", "managedFields"];

/// The owners of an object's fields, without the changes that admission made.
#[derive(Clone)]
pub(super) struct Owners {
    entries: Value,
    /// The only version whose entries are known; `None` if all entries are known.
    version: Option<String>,
}

impl Owners {
    /// Returns the owners of the outcome of an apply; `None` if the API server records no owners.
    pub(super) fn of_applied(outcome: &Object) -> Option<Self> {
        let is_recorded = !outcome.items(&MANAGED_FIELDS).is_empty();
        let entries = outcome.get(&MANAGED_FIELDS).filter(|_| is_recorded).cloned()?;
        Some(Self { entries, version: None })
    }

    /// Returns the entries that are to replace the recorded ones; `None` if nothing differs.
    fn instead_of(&self, recorded: &Object) -> Option<Value> {
        if recorded.items(&MANAGED_FIELDS).is_empty() {
            return None;
        }
        match &self.version {
            None => Some(self.entries.clone()),
            Some(version) => owned_as(recorded.get(&MANAGED_FIELDS)?, &self.entries, version),
        }
    }

    /// Sets the owners in an object that is only shown.
    pub(super) fn show(&self, object: &mut Object) {
        if let Some(owners) = self.instead_of(object) {
            let _metadata_is_an_object = object.set(&MANAGED_FIELDS, owners);
        }
    }

    /// Returns the answer to a dry run with these owners. An answer without a JSON object stays unchanged.
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
    /// Returns the owners of an admitted object's fields, if they differ from those that the API server behind will record.
    /// `before` is the object at the start of the mutating phase.
    pub(super) fn owners(&self, attributes: &Attributes, before: impl FnOnce() -> Option<Object>) -> Option<Owners> {
        let admitted = attributes.object.as_ref().filter(|object| object.is_changed())?;
        if !self.are_owners_exact(attributes.operation) || is_removed_by(attributes, admitted) {
            return None;
        }
        let (old, before) = (self.before_write(attributes)?, before()?.into_value());
        let (own, _) = self.owners_after(attributes, &old, &before)?;
        let (recorded, _) = self.owners_after(attributes, &old, &admitted.clone().into_value())?;
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
            // The owners of a scale are those of its parent.
            Operation::Update => self.target.subresource != "scale",
            Operation::Delete | Operation::Connect => false,
        };
        // Initializers may change the object between the two writes.
        let is_final = !self.pipeline.keeps_initializers;
        let is_known = self.schema.is_some() || schema(self.target.kind()).is_some();
        is_wanted && is_final && is_object && is_known
    }

    /// Returns the object that a write replaces; on a create, Go's empty object.
    pub(super) fn before_write(&self, attributes: &Attributes) -> Option<Value> {
        let kind = self.target.kind();
        match (attributes.operation, &attributes.old_object) {
            (Operation::Update, Some(old)) => Some((**old).clone().into_value()),
            (Operation::Create, _) => {
                let mut empty = json!({"apiVersion": kind.api_version(), "kind": kind.kind});
                typed::encode(kind, &mut empty);
                Some(empty)
            }
            _ => None,
        }
    }

    /// Computes `metadata.managedFields` for the replacement of `old` by `new`, and whether the time of the write is in them;
    /// `None` for objects that are too large.
    pub(super) fn owners_after(
        &self,
        attributes: &Attributes,
        old: &Value,
        new: &Value,
    ) -> Option<(Option<Value>, bool)> {
        if is_too_large(old) || is_too_large(new) {
            return None;
        }
        Some(self.change(&self.manager(attributes)).managed_fields(old, new))
    }

    /// Writes the admitted object, and then its owners. A failure of the second write is not an error: the object is stored, and its
    /// writer owns all fields.
    pub(super) async fn write_and_disown(&self, outgoing: Outgoing, owners: &Owners) -> Result<Answer, Status> {
        let written = self.forward_for_json(outgoing).await?;
        if !written.status.is_success() {
            return self.refusal_in_accepted_form(written).await;
        }
        let Ok(first) = written.object() else { return Ok(written) };
        let path = self.object_path(&first);
        let disowned = match owners.instead_of(&first) {
            Some(own) => self.disown(&first, own, &path).await,
            None => Ok(None),
        };
        let failure = match disowned {
            Ok(Some(answer)) if answer.status.is_success() => return Ok(as_first(answer, &written)),
            Ok(Some(answer)) => Some(answer.status.to_string()),
            Ok(None) => None,
            Err(why) => Some(why.message),
        };
        if let Some(why) = failure {
            tracing::warn!(why, "the owners of an object that was written are not corrected");
        }
        if self.accepts_plain_json() {
            return Ok(written);
        }
        match self.read_again(&path).await {
            Ok(answer) if answer.status.is_success() => Ok(as_first(answer, &written)),
            _ => Ok(written),
        }
    }

    /// Writes the owners of the object that was just written. Returns the object in the client's form; `None` if another writer
    /// has corrected or replaced the object since.
    async fn disown(&self, first: &Object, own: Value, asked_for: &str) -> Result<Option<Answer>, Status> {
        let query = self.parts.uri.query().unwrap_or_default();
        let manager = query_value(query, "fieldManager").unwrap_or_default();
        let is_writer = |name: &str, subresource: &str| name == manager && subresource == self.target.subresource;
        let of = |object: &Object| object.get(&MANAGED_FIELDS).cloned().unwrap_or_default();
        let path = self.stored_path(asked_for);
        let (mut object, mut entries) = (Cow::Borrowed(first), own.clone());
        let mut attempt = 0;
        loop {
            let answer = self.write_owners(&path, &object, entries).await?;
            attempt += 1;
            if !is_conflict(&answer) || attempt >= self.pipeline.limits.conflict_retries {
                let is_asked_for = path == asked_for || !answer.status.is_success();
                return if is_asked_for { Ok(Some(answer)) } else { self.read_again(asked_for).await.map(Some) };
            }
            let fresh = self.stored_now(&path).await?.filter(|fresh| fresh.uid() == first.uid());
            let Some(fresh) = fresh else { return Ok(None) };
            let given_back = give_back(&own, &of(first), &of(&fresh), is_writer);
            let Some(given_back) = given_back.filter(|given_back| *given_back != of(&fresh)) else { return Ok(None) };
            (object, entries) = (Cow::Owned(fresh), given_back);
        }
    }

    /// Writes the owners of the object at this path: by PATCH as the caller; by PUT where the caller updates and has no right to
    /// patch; otherwise as the proxy, because a right to write the object includes its ownership in kube-apiserver.
    async fn write_owners(&self, path: &str, object: &Object, entries: Value) -> Result<Answer, Status> {
        // The API server fills an empty list with the entries recorded before (`decodeLiveOrNew`).
        let is_nobody = entries.as_array().is_some_and(Vec::is_empty);
        let entries = if is_nobody { json!([{}]) } else { entries };
        let patch = self.owners_patch(path, object, &entries)?;
        let answer = self.forward(patch.clone()).await?;
        if answer.status != StatusCode::FORBIDDEN || self.parts.method == Method::PATCH {
            return Ok(answer);
        }
        if self.parts.method == Method::PUT && *path == *self.parts.uri.path() {
            let mut whole = object.clone();
            let _metadata_is_an_object = whole.set(&MANAGED_FIELDS, entries);
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

    /// Returns the path of the written object.
    fn object_path(&self, object: &Object) -> Cow<'_, str> {
        match self.parts.method {
            // A name may contain `?` and `#`.
            Method::POST => {
                format!("{}/{}", self.parts.uri.path().trim_end_matches('/'), segment(object.name())).into()
            }
            _ => self.parts.uri.path().into(),
        }
    }

    /// Returns the path with the storage version: a write in another version would also change fields with defaults in that
    /// version.
    fn stored_path<'p>(&self, path: &'p str) -> Cow<'p, str> {
        let (group, version) = (&self.target.resource.group, &self.target.resource.version);
        match (&self.storage_version, path.strip_prefix(&format!("/apis/{group}/{version}/"))) {
            (Some(stored), Some(rest)) if stored != version => format!("/apis/{group}/{stored}/{rest}").into(),
            _ => path.into(),
        }
    }

    /// Reads the object that is stored at this path now.
    async fn stored_now(&self, path: &str) -> Result<Option<Object>, Status> {
        match self.parts.method {
            Method::POST => self.pipeline.gateway.read(path, self.caller).await,
            _ => self.old_object().await,
        }
    }

    /// Turns an answer into a response. The proxy asks for dry runs in JSON: their refusals are converted to the form that the
    /// client accepts.
    pub(super) async fn respond(&self, answer: Answer) -> Result<Response<Body>, Status> {
        let is_json = answer.headers.get(CONTENT_TYPE).is_some_and(|form| form == "application/json");
        let form = Form::of(&self.parts.headers, &self.parts.uri, self.pipeline.media_types);
        if !is_json || answer.status.is_success() || form.is_json() {
            return Ok(answer.into_response());
        }
        // Only a Status repeats the code.
        let is_status = answer.status().is_some_and(|status| status.code == answer.status.as_u16());
        let answer = if is_status { self.refusal_in_accepted_form(answer).await? } else { answer };
        Ok(answer.into_response())
    }

    /// Converts a refusal in JSON to the form that the client accepts.
    async fn refusal_in_accepted_form(&self, refusal: Answer) -> Result<Answer, Status> {
        let Some(status) = refusal.status().filter(|_| !self.accepts_plain_json()) else { return Ok(refusal) };
        let form = Form::of(&self.parts.headers, &self.parts.uri, self.pipeline.media_types);
        let (written, body) = response::status(&status, form).into_parts();
        let body = body::read(body, self.pipeline.limits.response_bytes).await?;
        let mut headers = refusal.headers;
        headers.remove(CONTENT_LENGTH);
        if let Some(content_type) = written.headers.get(CONTENT_TYPE) {
            headers.insert(CONTENT_TYPE, content_type.clone());
        }
        Ok(Answer { status: refusal.status, headers, body })
    }

    /// Whether JSON is the form that the client prefers.
    pub(super) fn accepts_plain_json(&self) -> bool {
        self.header(ACCEPT).is_none_or(|accept| matches!(accept, "*/*" | "application/json"))
    }

    /// Reads the object in the form that the client asked for.
    async fn read_again(&self, path: &str) -> Result<Answer, Status> {
        let uri = self.uri_with(path, &["includeObject", "pretty"])?;
        self.forward(Outgoing { method: Method::GET, uri, ..self.outgoing(Bytes::new()) }).await
    }

    /// Builds the patch that gives the object at this path these owners, if the object still has its version.
    fn owners_patch(&self, path: &str, object: &Object, entries: &Value) -> Result<Outgoing, Status> {
        let metadata = json!({"managedFields": entries, "resourceVersion": object.resource_version()});
        let body = serde_json::to_vec(&json!({ "metadata": metadata })).map_err(Status::internal_error)?;
        let mut outgoing = self.outgoing(Bytes::from(body));
        outgoing.method = Method::PATCH;
        outgoing.uri = self.uri_with(path, &["fieldManager", "includeObject", "pretty"])?;
        outgoing.content_type = PatchType::Merge.content_type();
        Ok(outgoing)
    }
}

/// Whether an update removes the last finalizer of an object in deletion, and so the object (`Store.deleteWithoutFinalizers`). An
/// update of a subresource cannot change finalizers.
fn is_removed_by(attributes: &Attributes, admitted: &Object) -> bool {
    let is_going = |old: &Object| {
        let period = old.get(&["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_i64);
        !old.str(&["metadata", "deletionTimestamp"]).is_empty() && period.unwrap_or_default() == 0
    };
    attributes.subresource.is_empty()
        && attributes.old_object.as_deref().is_some_and(is_going)
        && admitted.items(&["metadata", "finalizers"]).is_empty()
}

/// Returns the answer to the second write, with the status and the API server's warnings of the first.
fn as_first(mut answer: Answer, first: &Answer) -> Answer {
    answer.headers.remove(WARNING);
    for warning in first.headers.get_all(WARNING) {
        answer.headers.append(WARNING, warning.clone());
    }
    Answer { status: first.status, ..answer }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::checker;

    #[test]
    fn an_object_is_removed_with_its_last_finalizer() {
        let of = |metadata: Value| json!({ "metadata": metadata });
        let going =
            |period: Value| json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": period});
        for (old, finalizers, expected) in [
            (going(json!(0)), json!([]), true),
            (going(Value::Null), Value::Null, true),
            (going(json!(0)), json!(["a"]), false),
            (going(json!(30)), json!([]), false),
            (json!({}), json!([]), false),
        ] {
            let new = of(json!({ "finalizers": finalizers }));
            let attributes = checker::attributes(Operation::Update, "", "configmaps", Some(new), Some(of(old.clone())));
            let admitted = attributes.object.as_ref().unwrap();
            assert_eq!(is_removed_by(&attributes, admitted), expected, "{old} {finalizers}");
        }
    }
}
