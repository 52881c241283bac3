//! PATCH with a JSON, merge or strategic merge patch.
//!
//! The proxy applies the patch to the object as it is stored, admits the outcome, and sends the difference between the two
//! as a merge patch with the resourceVersion that it saw. Not the client's own patch: what is stored is then what was
//! admitted even where two implementations of a patch would disagree.

use super::Exchange;
use super::gateway::Answer;
use super::write::{Outgoing, Write, is_conflict, schema};
use crate::admission::Operation;
use crate::object::Object;
use crate::object::patch::{self, PatchType, merge_diff};
use crate::request::body::{OptionsKind, WriteOptions, check_name, check_patched, ensure_namespace};
use crate::status::{Details, Status};
use crate::upstream::Body;
use bytes::Bytes;
use http::Response;
use http::header::CONTENT_TYPE;
use serde_json::{Map, Value, json};
use std::sync::Arc;

impl Write<'_> {
    /// Admits and patches the object; on a conflict that the client did not ask for, once more with the fresh one.
    pub(super) async fn patch(&self, exchange: &mut Exchange) -> Result<Response<Body>, Status> {
        let is_built_in = schema(self.target.kind()).is_some();
        let patch_type = match PatchType::from_content_type(self.header(CONTENT_TYPE)) {
            Ok(PatchType::Strategic) | Err(_) if !is_built_in => return Err(PatchType::unsupported(false)),
            Ok(patch_type) => patch_type,
            Err(refusal) if self.header(CONTENT_TYPE).is_some_and(names_a_patch) => return Err(refusal),
            // Of built-in kinds, the routes themselves know what they consume.
            Err(_) => {
                let status = Status::failure(415, "UnsupportedMediaType", "415: Unsupported Media Type");
                return Err(status.with_details(Details::default()));
            }
        };
        let options = self.options(OptionsKind::Patch(patch_type))?;
        if patch_type == PatchType::Apply {
            return self.apply(&options, exchange).await;
        }
        let decoded = patch::decode(patch_type, &self.body)?;
        self.say_duplicates(&options, &decoded.duplicates, || {
            format!("strict decoding error: {}", decoded.duplicates.join(", "))
        })?;
        if let Some(event) = &mut exchange.event {
            event.set_request_patch(&decoded.value);
        }
        let mut attempt = 0;
        loop {
            let old = self.old_object().await?.ok_or_else(|| self.not_found())?;
            let (answer, retry) = self.patch_existing(patch_type, &decoded.value, old, &options, exchange).await?;
            attempt += 1;
            if !retry || attempt >= self.pipeline.limits.conflict_retries {
                return Ok(answer.into_response());
            }
        }
    }

    /// One attempt: the answer, and whether the object changed while it was admitted.
    async fn patch_existing(
        &self,
        patch_type: PatchType,
        patch: &Value,
        old: Object,
        options: &WriteOptions,
        exchange: &mut Exchange,
    ) -> Result<(Answer, bool), Status> {
        let stored = old.clone().into_value();
        let patched = patch::apply(patch_type, &stored, patch, schema(self.target.kind()))?;
        check_patched(&patched, self.target.kind())?;
        let mut object =
            Object::from_value(patched).ok_or_else(|| Status::bad_request("the patched object is no object"))?;
        ensure_namespace(&mut object, self.target.expected_namespace())?;
        check_name(&object, &self.target.name)?;
        let old = Arc::new(old);
        let options = options.as_options_object(OptionsKind::Update);
        let mut attributes = self.attributes(Operation::Update, Some(object), Some(old.clone()), options);
        self.admit(&mut attributes, exchange).await?;
        if let Some(object) = &mut attributes.object {
            self.pin_version(object, &old)?;
        }
        let admitted = attributes.object.clone().unwrap_or_default();
        let outgoing = self.difference(&stored, admitted, old.resource_version())?;
        let answer = match self.validate_write(&mut attributes, &outgoing, exchange).await? {
            Some(refusal) => refusal,
            None => self.forward(outgoing).await?,
        };
        let changed = is_conflict(&answer);
        Ok((answer, changed))
    }

    /// The patch that makes the stored object the admitted one, if it still has this version: a merge patch, or a JSON patch
    /// where that cannot say it, because the admitted object has fields that are null.
    fn difference(&self, stored: &Value, mut admitted: Object, version: &str) -> Result<Outgoing, Status> {
        let (patch_type, patch) = match merge_diff(stored, &admitted.clone().into_value()) {
            Some(mut merge) => {
                let metadata =
                    merge.as_object_mut().map(|fields| fields.entry("metadata").or_insert_with(|| json!({})));
                if let Some(metadata) = metadata.and_then(Value::as_object_mut) {
                    metadata.insert("resourceVersion".into(), version.into());
                }
                (PatchType::Merge, merge)
            }
            None => {
                // Replacing the metadata as a whole carries the version along.
                if !admitted.set(&["metadata", "resourceVersion"], version.into()) {
                    return Err(Status::bad_request("metadata is no object after the patch"));
                }
                (PatchType::Json, replace_fields(stored, admitted.fields()))
            }
        };
        let mut outgoing = self.outgoing(Bytes::from(serde_json::to_vec(&patch).map_err(Status::internal_error)?));
        outgoing.content_type = patch_type.content_type();
        Ok(outgoing)
    }
}

/// Whether one of several content types is that of a patch: to the routes that will do (`restful.Route.matchesContentType`).
fn names_a_patch(content_type: &str) -> bool {
    content_type.split(',').any(|one| PatchType::from_content_type(Some(one.trim_matches(' '))).is_ok())
}

/// A JSON patch that replaces every top-level field, and takes away those that are gone.
fn replace_fields(stored: &Value, admitted: &Map<String, Value>) -> Value {
    let pointer = |key: &str| format!("/{}", key.replace('~', "~0").replace('/', "~1"));
    let gone = stored.as_object().into_iter().flat_map(Map::keys).filter(|key| !admitted.contains_key(*key));
    let gone = gone.map(|key| json!({"op": "remove", "path": pointer(key)}));
    let there = admitted.iter().map(|(key, value)| json!({"op": "add", "path": pointer(key), "value": value}));
    Value::Array(gone.chain(there).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_json_patch_says_what_a_merge_patch_cannot() {
        let stored = json!({"metadata": {"name": "a"}, "spec": {"x": 1}, "gone/with~it": 1});
        let admitted = json!({"metadata": {"name": "a"}, "spec": {"x": null}});
        assert_eq!(merge_diff(&stored, &admitted), None);
        let patch = replace_fields(&stored, admitted.as_object().unwrap());
        assert_eq!(patch::apply(PatchType::Json, &stored, &patch, None).unwrap(), admitted);
    }
}
