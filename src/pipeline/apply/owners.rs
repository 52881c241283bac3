//! Who owns the fields of an applied object: what admission added, nobody, as kube-apiserver asks its field manager before
//! admission. An apply configuration is owned as a whole, and what is written by who writes it, so the rest is given back in a
//! write of its own, which changes nothing but the owners.

use crate::object::Object;
use crate::object::managed_fields::give_back;
use crate::object::patch::PatchType;
use crate::pipeline::gateway::Answer;
use crate::pipeline::write::{Outgoing, Write, is_conflict};
use crate::request::query::query_value;
use crate::status::Status;
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use std::borrow::Cow;

const MANAGED_FIELDS: [&str; 2] = ["metadata", "managedFields"];

/// The owners that the client's own configuration makes.
pub(super) struct Owners(Value);

impl Owners {
    /// Those of an object that an apply came to; none from an API server that does not count them.
    pub(super) fn of(outcome: &Object) -> Option<Self> {
        let is_counted = !outcome.items(&MANAGED_FIELDS).is_empty();
        outcome.get(&MANAGED_FIELDS).filter(|_| is_counted).cloned().map(Self)
    }
}

impl Write<'_> {
    /// Writes what was admitted, and gives back what the client's own configuration does not say.
    pub(super) async fn write_and_disown(&self, outgoing: Outgoing, owners: &Owners) -> Result<Answer, Status> {
        let applied = self.forward_for_json(outgoing).await?;
        if !applied.status.is_success() {
            return Ok(applied);
        }
        let query = self.parts.uri.query().unwrap_or_default();
        let manager = query_value(query, "fieldManager").unwrap_or_default();
        let is_writer = |name: &str, subresource: &str| name == manager && subresource == self.target.subresource;
        let written = applied.object()?;
        let (mut object, mut entries) = (written.clone(), owners.0.clone());
        let path = self.stored_path();
        for _ in 0..self.pipeline.limits.conflict_retries {
            let answer = self.forward(self.owners_patch(&path, &object, &entries)?).await?;
            if answer.status.is_success() {
                let is_asked_for = *path == *self.parts.uri.path();
                let answer = if is_asked_for { answer } else { self.read_again().await? };
                return Ok(if answer.status.is_success() {
                    Answer { status: applied.status, ..answer }
                } else {
                    applied
                });
            }
            if !is_conflict(&answer) {
                tracing::warn!(status = %answer.status, "what admission added to an apply stays its applier's");
                break;
            }
            let Some(fresh) = self.old_object().await?.filter(|fresh| fresh.uid() == written.uid()) else { break };
            let of = |object: &Object| object.get(&MANAGED_FIELDS).cloned().unwrap_or_default();
            let Some(given_back) = give_back(&owners.0, &of(&written), &of(&fresh), is_writer) else { break };
            if given_back == of(&fresh) {
                break;
            }
            (object, entries) = (fresh, given_back);
        }
        Ok(applied)
    }

    /// The URL's path in the version that objects are stored in: a write in another one changes what that has defaults for.
    fn stored_path(&self) -> Cow<'_, str> {
        let path = self.parts.uri.path();
        let (group, version) = (&self.target.resource.group, &self.target.resource.version);
        match (&self.storage_version, path.strip_prefix(&format!("/apis/{group}/{version}/"))) {
            (Some(stored), Some(rest)) if stored != version => format!("/apis/{group}/{stored}/{rest}").into(),
            _ => path.into(),
        }
    }

    /// The object as the client asked for it.
    async fn read_again(&self) -> Result<Answer, Status> {
        let uri = self.uri_with(self.parts.uri.path(), &["pretty"])?;
        self.forward(Outgoing { method: Method::GET, uri, ..self.outgoing(Bytes::new()) }).await
    }

    /// The patch that gives the object at this path these owners, if it still has its version.
    fn owners_patch(&self, path: &str, object: &Object, entries: &Value) -> Result<Outgoing, Status> {
        let metadata = json!({"managedFields": entries, "resourceVersion": object.resource_version()});
        let body = serde_json::to_vec(&json!({ "metadata": metadata })).map_err(Status::internal_error)?;
        let mut outgoing = self.outgoing(Bytes::from(body));
        outgoing.uri = self.uri_with(path, &["fieldManager", "pretty"])?;
        outgoing.content_type = PatchType::Merge.content_type();
        Ok(outgoing)
    }
}
