//! PATCH with a JSON, merge or strategic merge patch.
//!
//! The proxy applies the patch to the stored object, admits the outcome, and sends the difference between the two as a merge
//! patch with the resourceVersion of the stored object. The client's own patch is not sent: so the API server stores the admitted
//! object even if two implementations of a patch disagree.

use super::Exchange;
use super::gateway::Answer;
use super::outgoing::Outgoing;
use super::rest::Rest;
use super::update::is_about_version;
use super::view::{as_answer, take_metadata};
use super::write::{Attempts, MODIFIED, Strictness, Write, is_conflict, schema};
use crate::admission::Operation;
use crate::body::Body;
use crate::go_text::{go_print, go_quote};
use crate::initializers;
use crate::object::decode::{self, Decoded};
use crate::object::patch::{self, NO_FIELD, PatchType, merge_diff};
use crate::object::{Object, typed};
use crate::processor;
use crate::request::body::{
    OptionsKind, Unfit, Unseen, WriteOptions, check_name, decode_patched, ensure_namespace, invalid_patch,
};
use crate::status::Status;
use bytes::Bytes;
use http::Response;
use http::header::CONTENT_TYPE;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::sync::Arc;

/// The fields of the metadata that the API server changes with every write.
const KEPT_BY_SERVER: [&str; 2] = ["generation", "managedFields"];

/// The highest number of operations of a JSON patch that are applied on a worker.
const SHORT_OPERATIONS: usize = 100;

impl Write<'_> {
    /// Admits and patches the object. After a conflict with the proxy's own resourceVersion, retries with the fresh object.
    pub(super) async fn patch(&self, exchange: &mut Exchange) -> Result<Response<Body>, Status> {
        let patch_type = self.patch_type()?;
        let options = self.options(OptionsKind::Patch(patch_type))?;
        if patch_type == PatchType::Apply {
            return self.apply(&options, exchange).await;
        }
        let decoded = match patch::decode(patch_type, &self.body) {
            Ok(decoded) => decoded,
            // The API server looks for the object first.
            Err(refusal) => {
                self.old_object().await?.ok_or_else(|| self.not_found())?;
                return Err(refusal);
            }
        };
        if let Some(event) = &mut exchange.event {
            event.set_request_patch(&decoded.value);
        }
        // Each operation may move a whole list.
        if decoded.value.as_array().is_some_and(|operations| operations.len() > SHORT_OPERATIONS) {
            processor::expect_long().await;
        }
        let mut attempts = Attempts::new(&self.pipeline.limits);
        loop {
            let old = self.old_object().await?.ok_or_else(|| self.not_found())?;
            let version = old.resource_version().to_owned();
            let (answer, retry) = self.patch_existing(patch_type, &decoded, old, &options, exchange).await?;
            if !retry || !attempts.may_go_on(&version) {
                return self.respond(answer).await;
            }
        }
    }

    /// Returns the type of the patch in `Content-Type`.
    pub(super) fn patch_type(&self) -> Result<PatchType, Status> {
        PatchType::from_content_type(self.header(CONTENT_TYPE), self.pipeline.media_types.has_cbor)
    }

    /// Makes one attempt. Returns the answer, and whether the object changed during admission.
    async fn patch_existing(
        &self,
        patch_type: PatchType,
        patch: &Decoded,
        old: Object,
        options: &WriteOptions,
        exchange: &mut Exchange,
    ) -> Result<(Answer, bool), Status> {
        let merged = match self.merged(patch_type, patch, &old) {
            Err(why) if why.message.starts_with(NO_FIELD) && (self.may_have_rest || self.has_rest(&old)) => {
                let answer = self.rehearse(self.own_patch(patch_type)).await?;
                if !answer.status.is_success() {
                    return Ok((answer, false));
                }
                let mut outcome = answer.object()?;
                if outcome.resource_version() != old.resource_version() {
                    return Ok((as_answer(&self.conflict(MODIFIED)), true));
                }
                for field in KEPT_BY_SERVER {
                    take_metadata(&mut outcome, &old, field);
                }
                outcome.into_value()
            }
            merged => merged?,
        };
        let say = |errors: &[String]| self.say_strict_errors(options, errors.iter());
        let (mut object, rest) = self.patched(patch_type, patch, merged, &old, say)?;
        ensure_namespace(&mut object, self.target.expected_namespace())?;
        check_name(&object, &self.target.name)?;
        let old = Arc::new(old);
        let options = options.as_options_object(OptionsKind::Update);
        let mut attributes = self.attributes(Operation::Update, Some(object), Some(self.seen(&old)), options);
        self.admit(&mut attributes, exchange).await?;
        let owners = self.owners(&attributes, || {
            let merged = self.merged(patch_type, patch, &old).ok().filter(|_| rest.is_empty())?;
            let (object, _) = self.patched(patch_type, patch, merged, &old, |_| Strictness::Passed).ok()?;
            Some(object)
        });
        if let Some(object) = &mut attributes.object {
            if self.may_mind_the_version(object) {
                let without_version = self.rehearse(self.difference_at("", &old, rest.put_back(object)?)?).await?;
                if is_about_version(&without_version) {
                    return Ok((without_version, false));
                }
            }
            self.pin_version(object, &old)?;
        }
        let admitted = attributes.object.get_or_insert_default();
        let outgoing = Outgoing { owners, ..self.difference(&old, rest.put_back(admitted)?)? };
        let answer = match self.validate_write(&mut attributes, &outgoing, exchange).await? {
            Some(refusal) => refusal,
            None => self.send_admitted(Operation::Update, outgoing, exchange).await?,
        };
        let changed = is_conflict(&answer);
        Ok((answer, changed))
    }

    /// Applies the patch to the stored object.
    fn merged(&self, patch_type: PatchType, patch: &Decoded, stored: &Object) -> Result<Value, Status> {
        let stored = Value::Object(stored.fields().clone());
        match patch_type {
            PatchType::Strategic => self.merged_strategically(stored, &patch.value),
            _ => patch::apply(patch_type, stored, &patch.value, schema(self.target.kind())),
        }
    }

    /// Returns the client's own patch. Only the API server can apply a strategic patch to a list whose merge key is not known
    /// here.
    fn own_patch(&self, patch_type: PatchType) -> Outgoing {
        Outgoing { content_type: patch_type.content_type(), ..self.outgoing(self.body.clone()) }
    }

    /// Decodes the patched object, and separates the fields that plugins do not see. An API server that stores unknown fields
    /// also knows unknown fields in the patch.
    fn patched(
        &self,
        patch_type: PatchType,
        patch: &Decoded,
        mut patched: Value,
        stored: &Object,
        say: impl FnOnce(&[String]) -> Strictness,
    ) -> Result<(Object, Rest), Status> {
        // Errors are rare, so the object for their text is computed again.
        let invalid = |why: &str| match (patch_type, self.merged(patch_type, patch, stored)) {
            (PatchType::Strategic, _) => invalid_patch(&go_print(&patch.value), why),
            (_, Ok(patched)) => invalid_patch(&patched.to_string(), why),
            (_, Err(status)) => status,
        };
        let has_rest = self.may_have_rest || self.has_rest(stored);
        if patch_type == PatchType::Strategic {
            typed::from_unstructured(self.target.kind(), &mut patched).map_err(|why| invalid(&why))?;
            // Go decodes the outcome into an object that has its apiVersion and kind already.
            let said = stored.fields().iter().filter(|(field, _)| matches!(field.as_str(), "apiVersion" | "kind"));
            patched.as_object_mut().into_iter().for_each(|fields| {
                fields.extend(said.clone().map(|(field, said)| (field.clone(), said.clone())));
            });
        }
        let mut errors = strict_errors(patch_type, patch, &self.body);
        if typed::is_known(self.target.kind()) && says_no_version(&patched) {
            errors.extend(take_versioned(&mut patched));
        }
        let field = self.take_initializers(&mut patched).map_err(|why| invalid(&why))?;
        let rest = patched.as_object_mut().filter(|_| has_rest);
        let rest = rest.and_then(|fields| typed::Rest::take(self.target.kind(), fields));
        let decoded = decode_patched(patched, self.target.kind(), self.schema.as_deref());
        let mut normal = decoded.map_err(|unfit| match unfit {
            Unfit::Invalid(why) => invalid(&why),
            Unfit::Refused(status) => status,
        })?;
        initializers::put(&mut normal.object, field.value);
        errors.extend(normal.unknown);
        errors.extend(field.unknown);
        match say(&errors) {
            Strictness::Passed => {
                let unseen = rest.map_or(Unseen::Nothing, Unseen::Fields);
                let rest = Rest::of(unseen, &normal.object);
                Ok((normal.object, rest))
            }
            Strictness::Refused => Err(invalid(&format!("strict decoding error: {}", errors.join(", ")))),
        }
    }

    /// Builds the patch that turns the stored object into the admitted one, if the stored object still has its version: a merge
    /// patch, or a JSON patch if the admitted object has null fields, which a merge patch cannot express.
    pub(super) fn difference(&self, stored: &Object, admitted: Cow<'_, Object>) -> Result<Outgoing, Status> {
        self.difference_at(stored.resource_version(), stored, admitted)
    }

    fn difference_at(&self, version: &str, stored: &Object, admitted: Cow<'_, Object>) -> Result<Outgoing, Status> {
        let (patch_type, patch) = match merge_diff(stored.fields(), admitted.fields()) {
            Some(mut merge) => {
                if let Some(metadata) = merge.entry("metadata").or_insert_with(|| json!({})).as_object_mut() {
                    metadata.insert("resourceVersion".into(), version.into());
                }
                (PatchType::Merge, Value::Object(merge))
            }
            None => {
                // Replacing the metadata as a whole carries the version along.
                let mut admitted = admitted.into_owned();
                if !admitted.set(&["metadata", "resourceVersion"], version.into()) {
                    return Err(Status::bad_request("metadata is no object after the patch"));
                }
                (PatchType::Json, replace_fields(stored.fields(), admitted.fields()))
            }
        };
        let mut outgoing = self.written(Bytes::from(serde_json::to_vec(&patch).map_err(Status::internal_error)?))?;
        outgoing.content_type = patch_type.content_type();
        Ok(outgoing)
    }
}

fn says_no_version(object: &Value) -> bool {
    object.get("apiVersion").is_none_or(|version| version.is_null() || version == "")
}

/// Removes all fields but apiVersion and kind from an object whose apiVersion is empty: Go decodes such an object into a type
/// without other fields. Returns the strict decoding errors about these fields.
fn take_versioned(object: &mut Value) -> Vec<String> {
    let Value::Object(fields) = object else { return Vec::new() };
    let (mut kept, mut unknown) = (Map::new(), Vec::new());
    for (key, value) in std::mem::take(fields) {
        match key.as_str() {
            "apiVersion" | "kind" => drop(kept.insert(key, value)),
            _ => unknown.push(format!("unknown field {}", go_quote(&key))),
        }
    }
    *fields = kept;
    unknown
}

/// The fields of an operation in a JSON patch (`jsonPatchOp`).
const OPERATION_FIELDS: [&str; 4] = ["op", "path", "from", "value"];

/// Returns the strict decoding errors of a patch itself, which was decoded from `text`.
fn strict_errors(patch_type: PatchType, patch: &Decoded, text: &[u8]) -> Vec<String> {
    if patch_type != PatchType::Json {
        return patch.duplicates.iter().map(|path| format!("duplicate field {}", go_quote(path))).collect();
    }
    let mut keys = patch.value.as_array().into_iter().flatten().filter_map(Value::as_object).flat_map(Map::keys);
    if patch.duplicates.is_empty() && keys.all(|key| OPERATION_FIELDS.contains(&key.as_str())) {
        return Vec::new();
    }
    // Only the text has the order of the fields.
    let errors = decode::strict_operations(text, &OPERATION_FIELDS);
    errors.into_iter().map(|error| format!("json patch {error}")).collect()
}

/// Builds a JSON patch that replaces every top-level field, and removes the missing fields.
fn replace_fields(stored: &Map<String, Value>, admitted: &Map<String, Value>) -> Value {
    let pointer = |key: &str| format!("/{}", key.replace('~', "~0").replace('/', "~1"));
    let gone = stored.keys().filter(|key| !admitted.contains_key(*key));
    let gone = gone.map(|key| json!({"op": "remove", "path": pointer(key)}));
    let there = admitted.iter().map(|(key, value)| json!({"op": "add", "path": pointer(key), "value": value}));
    Value::Array(gone.chain(there).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_no_operation_has_are_unknown() {
        for (text, expected) in [
            (
                r#"[{"op": "add", "path": "/a", "value": {}, "foo": {"x": 1, "x": 2}}, {"op": "add", "path": "/b", "path": "/a"}]"#,
                &[r#"json patch unknown field "[0].foo""#, r#"json patch duplicate field "[1].path""#][..],
            ),
            (
                r#"[{"zoo": 1, "op": "add", "path": "/data", "foo": 1, "zoo": 2, "op": "add"}]"#,
                &[
                    r#"json patch unknown field "[0].zoo""#,
                    r#"json patch unknown field "[0].foo""#,
                    r#"json patch duplicate field "[0].op""#,
                ],
            ),
            (
                r#"[{"op": "add", "path": "/data", "value": {"c": "d", "c": "e", "c": "f"}, "Op": "x"}]"#,
                &[r#"json patch duplicate field "[0].value.c""#, r#"json patch unknown field "[0].Op""#],
            ),
            (r#"[{"op": "remove", "path": "/a", "from": "", "value": {"foo": [{"bar": 1}]}}]"#, &[]),
        ] {
            let patch = patch::decode(PatchType::Json, text.as_bytes()).unwrap();
            assert_eq!(strict_errors(PatchType::Json, &patch, text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn what_says_no_version_has_no_other_fields() {
        let mut patched = json!({"kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "b"}});
        assert!(says_no_version(&patched) && !says_no_version(&json!({"apiVersion": 1})));
        let mut unknown = take_versioned(&mut patched);
        unknown.sort();
        assert_eq!(unknown, [r#"unknown field "data""#, r#"unknown field "metadata""#]);
        assert_eq!(patched, json!({"kind": "ConfigMap"}));
    }

    #[test]
    fn a_json_patch_says_what_a_merge_patch_cannot() {
        let stored = json!({"metadata": {"name": "a"}, "spec": {"x": 1}, "gone/with~it": 1});
        let admitted = json!({"metadata": {"name": "a"}, "spec": {"x": null}});
        let (old, new) = (stored.as_object().unwrap(), admitted.as_object().unwrap());
        assert_eq!(merge_diff(old, new), None);
        let patch = replace_fields(old, new);
        assert_eq!(patch::apply(PatchType::Json, stored, &patch, None).unwrap(), admitted);
    }
}
