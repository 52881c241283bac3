//! PATCH with a JSON, merge or strategic merge patch.
//!
//! The proxy applies the patch to the object as it is stored, admits the outcome, and sends the difference between the two
//! as a merge patch with the resourceVersion that it saw. Not the client's own patch: what is stored is then what was
//! admitted even where two implementations of a patch would disagree.

use super::Exchange;
use super::gateway::Answer;
use super::write::{MODIFIED, Outgoing, Write, is_conflict, schema};
use crate::admission::Operation;
use crate::object::Object;
use crate::object::decode;
use crate::object::patch::{self, PatchType, merge_diff};
use crate::request::body::{OptionsKind, WriteOptions, check_name, ensure_namespace};
use crate::status::Status;
use crate::upstream::Body;
use bytes::Bytes;
use http::Response;
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};
use std::sync::Arc;

impl Write<'_> {
    /// Admits and patches the object; on a conflict that the client did not ask for, once more with the fresh one.
    pub(super) async fn patch(&self, exchange: &mut Exchange) -> Result<Response<Body>, Status> {
        let patch_type = PatchType::from_content_type(self.header(CONTENT_TYPE))?;
        if patch_type == PatchType::Strategic && schema(self.target.kind()).is_none() {
            return Err(PatchType::unsupported(false));
        }
        let options = self.options(OptionsKind::Patch(patch_type))?;
        if patch_type == PatchType::Apply {
            return self.apply(&options, exchange).await;
        }
        let decoded = decode::json(&self.body).map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))?;
        self.say_duplicates(&options, &decoded.duplicates, |found| format!("strict decoding error: {found}"))?;
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
        let mut object = Object::from_value(patched).ok_or_else(|| Status::bad_request("the patched object is no object"))?;
        ensure_namespace(&mut object, self.target.expected_namespace())?;
        check_name(&object, &self.target.name)?;
        let asked_for_version = object.resource_version() != old.resource_version();
        let old = Arc::new(old);
        let options = options.as_options_object(OptionsKind::Update);
        let mut attributes = self.attributes(Operation::Update, Some(object), Some(old.clone()), options);
        self.admit(&mut attributes, exchange).await?;
        if asked_for_version && attributes.object.as_ref().is_some_and(|object| !object.resource_version().is_empty()) {
            return Err(self.conflict(MODIFIED));
        }
        self.keep_version(&mut attributes, &old)?;
        self.validate(&attributes, exchange).await?;
        let admitted = attributes.object.unwrap_or_default().into_value();
        let answer = self.forward(self.merge_patch(&stored, &admitted, old.resource_version())?).await?;
        let changed = is_conflict(&answer);
        Ok((answer, changed))
    }

    /// The merge patch that makes the stored object the admitted one, if it still has this version.
    pub(super) fn merge_patch(&self, stored: &Value, admitted: &Value, version: &str) -> Result<Outgoing, Status> {
        let mut difference = merge_diff(stored, admitted);
        let metadata = difference.as_object_mut().map(|fields| fields.entry("metadata").or_insert_with(|| json!({})));
        let Some(metadata) = metadata.and_then(Value::as_object_mut) else {
            return Err(Status::bad_request("metadata is no object after the patch"));
        };
        metadata.insert("resourceVersion".into(), version.into());
        let body = serde_json::to_vec(&difference).map_err(Status::internal_error)?;
        let mut outgoing = self.outgoing(Bytes::from(body));
        outgoing.content_type = PatchType::Merge.content_type();
        Ok(outgoing)
    }
}
