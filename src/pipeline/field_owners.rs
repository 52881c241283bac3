//! Ownership of the fields that admission changes. In kube-apiserver these fields have no owner, because its field manager runs
//! before admission. The API server behind records the writer as the owner of all fields that a request writes. A second write,
//! of nothing but `metadata.managedFields`, gives those fields back.

use super::answer_object::{self, MANAGED_FIELDS};
use super::gateway::Answer;
use super::managed_fields::OwnersAfter;
use super::outgoing::{Outgoing, with_parameter};
use super::owners::Owners;
use super::request_log::Part;
use super::rest::Rest;
use super::write::{Write, is_conflict, schema};
use super::{managed_fields, negotiate};
use crate::admission::{Attributes, Operation};
use crate::cluster::segment;
use crate::config::FieldOwnership;
use crate::object::Object;
use crate::object::managed_fields::{give_back, owned_as};
use crate::object::patch::PatchType;
use crate::processor;
use crate::request::body::MediaType;
use crate::request::query::query_value;
use crate::status::Status;
use bytes::Bytes;
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
    /// `own` are the owners after the mutating phase, and `before` is the object before that phase, in case the owners are not known
    /// yet. An object with unknown fields keeps the recorded owners.
    pub(super) fn of_admitted(
        &self,
        attributes: &Attributes,
        rest: &Rest,
        own: Option<OwnersAfter>,
        before: impl FnOnce() -> Option<Object>,
    ) -> Option<Owners> {
        let admitted = attributes.object.as_ref().filter(|object| object.is_changed())?;
        if !rest.is_empty() || !self.are_owners_exact(attributes.operation) || is_removed_by(attributes, admitted) {
            return None;
        }
        let old = managed_fields::before_write(self.write, attributes)?;
        let after = |new: &Object| {
            managed_fields::after(self.write, attributes, &old, new.as_value()).map(|(owners, _)| owners)
        };
        let own = match own {
            Some(own) if own.are_set_by_plugin => return Some(Owners::of_plugin(own.entries)),
            Some(own) => own.entries,
            None => after(&before()?)?.unwrap_or_else(|| json!([])),
        };
        let (recorded, version) = (after(admitted)?, self.write.target.kind().api_version());
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

    /// Writes the admitted object, and then its owners. The answer is that to the first write: the caller may have no right to read what
    /// others have written since. A failure of the second write is not an error: the object is stored, and its writer owns all fields.
    pub(super) async fn write_and_disown(&self, outgoing: Outgoing, owners: &Owners) -> Result<Answer, Status> {
        let has_objects = !self.asks_for_rows_without_objects(&outgoing);
        let uri = match has_objects {
            true => outgoing.uri.clone(),
            false => with_parameter(&outgoing.uri, "includeObject=Metadata")?,
        };
        let mut written = self.write.forward_for_plain(Outgoing { uri, ..outgoing }).await?;
        processor::expect(written.body.len()).await;
        let first = answer_object::metadata(&written).filter(|_| written.status.is_success());
        // What is corrected is the written object.
        let is_written =
            |first: &Object| self.write.parts.method == Method::POST || *first.name() == *self.write.target.name;
        let first = first.filter(is_written);
        let own = first.and_then(|first| owners.instead_of(&first).map(|own| (first, own)));
        if let Some((first, own)) = own {
            match self.disown(&first, &written, own).await {
                Ok(Some((version, own))) => {
                    // The answer is decoded again to find the place of the owners.
                    processor::expect(2 * written.body.len()).await;
                    match answer_object::with_owners(&written, &version, &own) {
                        Some(corrected) => written = corrected,
                        None => tracing::warn!(
                            version,
                            "an answer has the field managers and the version before their correction"
                        ),
                    }
                }
                Ok(None) => {}
                Err(why) => {
                    let why = why.message;
                    tracing::warn!(why, "the field managers of a written object are not corrected");
                }
            }
        }
        Ok(if has_objects { written } else { answer_object::without_objects(written) })
    }

    /// Whether the client asks for a Table without objects, so that the proxy has to ask for their metadata.
    fn asks_for_rows_without_objects(&self, outgoing: &Outgoing) -> bool {
        let is_json = || {
            let (parts, known) = (&self.write.parts, self.write.pipeline.media_types);
            let agreed = negotiate::agree(&parts.headers, &parts.uri, &self.write.target, known);
            agreed.is_some_and(|agreed| agreed.media_type == MediaType::Json)
        };
        query_value(outgoing.uri.query().unwrap_or_default(), "includeObject").is_some_and(|asked| asked == "None")
            && is_json()
    }

    /// Writes the owners of the object that was just written. Returns the resourceVersion and the managedFields for the answer; `None` if
    /// another writer has corrected or replaced the object since.
    async fn disown(&self, first: &Object, written: &Answer, own: Value) -> Result<Option<(String, Value)>, Status> {
        let path = self.stored_path(&self.object_path(first)).into_owned();
        let _writing = self.write.times.begin(Part::FieldOwners);
        let mut answer =
            self.write_owners(&path, first, || answer_object::whole(written, self.write.target.kind()), &own).await?;
        if answer.status.is_success() {
            let second = answer_object::metadata(&answer);
            let second =
                second.ok_or_else(|| Status::internal_error("the answer of the API server has no metadata"))?;
            let owners = second.get(&MANAGED_FIELDS).cloned().unwrap_or_default();
            return Ok(Some((second.resource_version().to_owned(), owners)));
        }
        let query = self.write.parts.uri.query().unwrap_or_default();
        let manager = query_value(query, "fieldManager").unwrap_or_default();
        let is_writer = |name: &str, subresource: &str| name == manager && subresource == self.write.target.subresource;
        let of = |object: &Object| object.get(&MANAGED_FIELDS).cloned().unwrap_or_default();
        for _ in 1..self.write.pipeline.limits.conflict_retries {
            if !is_conflict(&answer) {
                break;
            }
            let fresh = self.read_as_caller(&path).await?.filter(|fresh| fresh.uid() == first.uid());
            let Some(fresh) = fresh else { return Ok(None) };
            let given_back = give_back(&own, &of(first), &of(&fresh), is_writer);
            let Some(given_back) = given_back.filter(|given_back| *given_back != of(&fresh)) else { return Ok(None) };
            answer = self.write_owners(&path, &fresh, || Some(fresh.clone()), &given_back).await?;
            if answer.status.is_success() {
                // With the first resourceVersion the client's next write meets what others have written since.
                return Ok(Some((first.resource_version().to_owned(), own)));
            }
        }
        Err(answer.into_refusal())
    }

    /// Writes the owners of the object at this path: by PATCH as the caller; by PUT where the caller updates and has no right to
    /// patch; otherwise as the proxy, because a right to write the object or its subresource includes its ownership in kube-apiserver.
    /// `whole` returns the object with all its fields, if they are known.
    async fn write_owners(
        &self,
        path: &str,
        object: &Object,
        whole: impl Fn() -> Option<Object>,
        entries: &Value,
    ) -> Result<Answer, Status> {
        // The API server fills an empty list with the entries recorded before (`decodeLiveOrNew`).
        let is_nobody = entries.as_array().is_some_and(Vec::is_empty);
        let entries = if is_nobody { &json!([{}]) } else { entries };
        let patch = self.owners_patch(path, object, entries)?;
        let answer = self.write.forward_for_metadata(patch.clone()).await?;
        let has_patched = self.write.parts.method == Method::PATCH && self.write.target.subresource.is_empty();
        if answer.status != StatusCode::FORBIDDEN || has_patched {
            return Ok(answer);
        }
        if self.write.parts.method == Method::PUT
            && *path == *self.write.parts.uri.path()
            && let Some(mut whole) = whole()
        {
            let _metadata_is_an_object = whole.set(&MANAGED_FIELDS, entries.clone());
            let body = serde_json::to_vec(&whole).map_err(Status::internal_error)?;
            let put = Outgoing { body: body.into(), content_type: "application/json", method: Method::PUT, ..patch };
            return self.write.forward_for_metadata(put).await;
        }
        match self.write.caller.credentials {
            Some(_) => Ok(answer),
            None => self.write.forward_as_proxy(patch).await,
        }
    }

    /// Returns the path of the written object, without its subresource: a write of a subresource does not change the owners
    /// (`decodeLiveOrNew`).
    fn object_path(&self, object: &Object) -> Cow<'_, str> {
        match self.write.parts.method {
            _ if !self.write.target.subresource.is_empty() => self.write.collection_path().into(),
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

    /// Reads the object that is stored at this path now, as the caller: who may not read an object gets no part of what others write.
    async fn read_as_caller(&self, path: &str) -> Result<Option<Object>, Status> {
        let path = if self.write.parts.method == Method::POST { path } else { self.write.readable_path() };
        let uri = path.parse().map_err(Status::internal_error)?;
        let reading = Outgoing { method: Method::GET, uri, ..self.write.outgoing(Bytes::new()) };
        let answer = self.write.forward_for_json(reading).await?;
        match answer.status {
            StatusCode::OK => answer.object().map(Some),
            StatusCode::NOT_FOUND => Ok(None),
            _ => Err(answer.into_refusal()),
        }
    }

    /// Builds the patch that gives the object at this path these owners, if the object still has its version.
    fn owners_patch(&self, path: &str, object: &Object, entries: &Value) -> Result<Outgoing, Status> {
        let metadata = json!({"managedFields": entries, "resourceVersion": object.resource_version()});
        let body = serde_json::to_vec(&json!({ "metadata": metadata })).map_err(Status::internal_error)?;
        let mut outgoing = self.write.outgoing(Bytes::from(body));
        outgoing.method = Method::PATCH;
        outgoing.uri = self.write.uri_with(path, &["fieldManager"])?;
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
