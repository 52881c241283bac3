//! Ownership of the fields that admission changes. In kube-apiserver these fields have no owner, because its field manager runs
//! before admission. The API server behind records the writer as the owner of all fields that a request writes. A second write,
//! of nothing but `metadata.managedFields`, gives those fields back.

use super::gateway::Answer;
use super::managed_fields;
use super::outgoing::Outgoing;
use super::owners::{MANAGED_FIELDS, Owners};
use super::rest::Rest;
use super::write::{Write, is_conflict, schema};
use crate::admission::{Attributes, Operation};
use crate::cluster::segment;
use crate::config::FieldOwnership;
use crate::object::Object;
use crate::object::managed_fields::{give_back, owned_as};
use crate::object::patch::PatchType;
use crate::request::query::query_value;
use crate::status::Status;
use bytes::Bytes;
use http::header::WARNING;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use std::borrow::Cow;

/// The correction of the owners that a write gives to fields.
#[derive(Clone, Copy)]
pub(super) struct FieldOwners<'a> {
    pub(super) write: &'a Write<'a>,
}

impl Write<'_> {
    /// Returns the correction of the owners that the write gives to fields.
    pub(super) fn field_owners(&self) -> FieldOwners<'_> {
        FieldOwners { write: self }
    }
}

impl FieldOwners<'_> {
    /// Returns the owners of an admitted object's fields, if they differ from those that the API server behind will record.
    /// `own` are the owners at the start of the mutating phase, and `before` is the object at that time, in case the owners are
    /// not known yet. An object with unknown fields keeps the recorded owners.
    pub(super) fn of_admitted(
        &self,
        attributes: &Attributes,
        rest: &Rest,
        own: Option<Value>,
        before: impl FnOnce() -> Option<Object>,
    ) -> Option<Owners> {
        let admitted = attributes.object.as_ref().filter(|object| object.is_changed())?;
        if !rest.is_empty() || !self.are_owners_exact(attributes.operation) || is_removed_by(attributes, admitted) {
            return None;
        }
        let old = managed_fields::before_write(self.write, attributes)?;
        let after = |new| managed_fields::after(self.write, attributes, &old, &new).map(|(owners, _)| owners);
        let own = match own {
            Some(own) => own,
            None => after(before()?.into_value())?.unwrap_or_else(|| json!([])),
        };
        let (recorded, version) = (after(admitted.clone().into_value())?, self.write.target.kind().api_version());
        owned_as(&recorded?, &own, &version)?;
        Some(Owners::of_version(own, version))
    }

    fn are_owners_exact(&self, operation: Operation) -> bool {
        let is_frequent = matches!(&*self.write.target.resource.resource, "pods" | "events");
        let is_wanted = match self.write.pipeline.writes.field_ownership {
            FieldOwnership::Writer => false,
            FieldOwnership::Exact => !is_frequent,
            FieldOwnership::ExactAll => true,
        };
        let is_object = match operation {
            Operation::Create => self.write.target.subresource.is_empty() && self.write.target.must_be_named(),
            // The owners of a scale are those of its parent.
            Operation::Update => self.write.target.subresource != "scale",
            Operation::Delete | Operation::Connect => false,
        };
        // Initializers may change the object between the two writes.
        let is_final = !self.write.pipeline.keeps_initializers;
        let is_known = self.write.schema.is_some() || schema(self.write.target.kind()).is_some();
        is_wanted && is_final && is_object && is_known
    }

    /// Writes the admitted object, and then its owners. A failure of the second write is not an error: the object is stored, and its
    /// writer owns all fields.
    pub(super) async fn write_and_disown(&self, outgoing: Outgoing, owners: &Owners) -> Result<Answer, Status> {
        let written = self.write.forward_for_json(outgoing).await?;
        if !written.status.is_success() {
            return self.write.refusal_in_accepted_form(written).await;
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
            tracing::warn!(why, "the field managers of a written object are not corrected");
        }
        if self.write.accepts_plain_json() {
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
        let query = self.write.parts.uri.query().unwrap_or_default();
        let manager = query_value(query, "fieldManager").unwrap_or_default();
        let is_writer = |name: &str, subresource: &str| name == manager && subresource == self.write.target.subresource;
        let of = |object: &Object| object.get(&MANAGED_FIELDS).cloned().unwrap_or_default();
        let path = self.stored_path(asked_for);
        let (mut object, mut entries) = (Cow::Borrowed(first), own.clone());
        let mut attempt = 0;
        loop {
            let answer = self.write_owners(&path, &object, entries).await?;
            attempt += 1;
            if !is_conflict(&answer) || attempt >= self.write.pipeline.limits.conflict_retries {
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
        let answer = self.write.forward(patch.clone()).await?;
        if answer.status != StatusCode::FORBIDDEN || self.write.parts.method == Method::PATCH {
            return Ok(answer);
        }
        if self.write.parts.method == Method::PUT && *path == *self.write.parts.uri.path() {
            let mut whole = object.clone();
            let _metadata_is_an_object = whole.set(&MANAGED_FIELDS, entries);
            let body = serde_json::to_vec(&whole).map_err(Status::internal_error)?;
            return self
                .write
                .forward(Outgoing { body: body.into(), content_type: "application/json", method: Method::PUT, ..patch })
                .await;
        }
        match self.write.caller.credentials {
            Some(_) => Ok(answer),
            None => self.write.forward_as_proxy(patch).await,
        }
    }

    /// Returns the path of the written object.
    fn object_path(&self, object: &Object) -> Cow<'_, str> {
        match self.write.parts.method {
            // A name may contain `?` and `#`.
            Method::POST => {
                format!("{}/{}", self.write.parts.uri.path().trim_end_matches('/'), segment(object.name())).into()
            }
            _ => self.write.parts.uri.path().into(),
        }
    }

    /// Returns the path with the storage version: a write in another version would also change fields with defaults in that
    /// version.
    fn stored_path<'p>(&self, path: &'p str) -> Cow<'p, str> {
        let (group, version) = (&self.write.target.resource.group, &self.write.target.resource.version);
        match (&self.write.storage_version, path.strip_prefix(&format!("/apis/{group}/{version}/"))) {
            (Some(stored), Some(rest)) if stored != version => format!("/apis/{group}/{stored}/{rest}").into(),
            _ => path.into(),
        }
    }

    /// Reads the object that is stored at this path now.
    async fn stored_now(&self, path: &str) -> Result<Option<Object>, Status> {
        match self.write.parts.method {
            Method::POST => self.write.pipeline.gateway.read(path, self.write.caller).await,
            _ => self.write.old_object().await,
        }
    }

    /// Reads the object in the form that the client asked for.
    async fn read_again(&self, path: &str) -> Result<Answer, Status> {
        let uri = self.write.uri_with(path, &["includeObject", "pretty"])?;
        self.write.forward(Outgoing { method: Method::GET, uri, ..self.write.outgoing(Bytes::new()) }).await
    }

    /// Builds the patch that gives the object at this path these owners, if the object still has its version.
    fn owners_patch(&self, path: &str, object: &Object, entries: &Value) -> Result<Outgoing, Status> {
        let metadata = json!({"managedFields": entries, "resourceVersion": object.resource_version()});
        let body = serde_json::to_vec(&json!({ "metadata": metadata })).map_err(Status::internal_error)?;
        let mut outgoing = self.write.outgoing(Bytes::from(body));
        outgoing.method = Method::PATCH;
        outgoing.uri = self.write.uri_with(path, &["fieldManager", "includeObject", "pretty"])?;
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
