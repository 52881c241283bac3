//! Who owns the fields of an applied object: what admission added, nobody, as kube-apiserver asks its field manager before
//! admission. An apply configuration is owned as a whole, and what is written by who writes it, so the rest is given back in a
//! write of its own, which changes nothing but the owners.

use crate::object::Object;
use crate::object::patch::PatchType;
use crate::pipeline::gateway::Answer;
use crate::pipeline::write::{Outgoing, Write, is_conflict};
use crate::request::query::query_value;
use crate::status::Status;
use bytes::Bytes;
use serde_json::{Value, json};

const MANAGED_FIELDS: [&str; 2] = ["metadata", "managedFields"];

/// The owners that the client's own configuration makes.
pub(super) struct Owners(Vec<Value>);

impl Owners {
    /// Those of an object that an apply came to; none from an API server that does not count them.
    pub(super) fn of(outcome: &Object) -> Option<Self> {
        let entries = outcome.items(&MANAGED_FIELDS);
        (!entries.is_empty()).then(|| Self(entries.to_vec()))
    }

    /// The owners of an object that somebody changed since: who wrote here owns what is in `self`.
    fn among(&self, others: &[Value], is_writer: impl Fn(&Value) -> bool) -> Vec<Value> {
        let own = self.0.iter().filter(|entry| is_writer(entry));
        let others = others.iter().filter(|entry| !is_writer(entry));
        own.chain(others).cloned().collect()
    }
}

impl Write<'_> {
    /// Writes what was admitted, and gives back what the client's own configuration does not say.
    pub(super) async fn write_and_disown(&self, outgoing: Outgoing, owners: &Owners) -> Result<Answer, Status> {
        let operations: &[&str] =
            if outgoing.content_type == PatchType::Apply.content_type() { &["Apply"] } else { &["Apply", "Update"] };
        let applied = self.forward_for_json(outgoing).await?;
        if !applied.status.is_success() {
            return Ok(applied);
        }
        let query = self.parts.uri.query().unwrap_or_default();
        let manager = query_value(query, "fieldManager").unwrap_or_default();
        let is_writer = |entry: &Value| {
            let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default();
            operations.contains(&text("operation"))
                && text("manager") == manager
                && text("subresource") == self.target.subresource
        };
        let (mut object, mut entries) = (applied.object()?, owners.0.clone());
        for _ in 0..self.pipeline.limits.conflict_retries {
            let answer = self.forward(self.owners_patch(&object, &entries)?).await?;
            if answer.status.is_success() {
                return Ok(Answer { status: applied.status, ..answer });
            }
            if !is_conflict(&answer) {
                tracing::warn!(status = %answer.status, "what admission added to an apply stays its applier's");
                break;
            }
            let Some(fresh) = self.old_object().await? else { break };
            entries = owners.among(fresh.items(&MANAGED_FIELDS), is_writer);
            object = fresh;
        }
        Ok(applied)
    }

    /// The patch that gives this object these owners, if it still has its version.
    fn owners_patch(&self, object: &Object, entries: &[Value]) -> Result<Outgoing, Status> {
        let metadata = json!({"managedFields": entries, "resourceVersion": object.resource_version()});
        let body = serde_json::to_vec(&json!({ "metadata": metadata })).map_err(Status::internal_error)?;
        let mut outgoing = self.outgoing(Bytes::from(body));
        outgoing.uri = self.uri_with(self.parts.uri.path(), &["fieldManager", "pretty"])?;
        outgoing.content_type = PatchType::Merge.content_type();
        Ok(outgoing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_applier_owns_what_it_said_and_the_others_what_they_own_by_now() {
        let entry = |manager: &str, fields: &str| json!({"manager": manager, "fieldsV1": {fields: {}}});
        let owners = Owners(vec![entry("me", "f:own"), entry("other", "f:old")]);
        let fresh = [entry("other", "f:new"), entry("me", "f:extended"), entry("third", "f:x")];
        let merged = owners.among(&fresh, |entry| entry["manager"] == "me");
        assert_eq!(merged, [entry("me", "f:own"), entry("other", "f:new"), entry("third", "f:x")]);
    }
}
