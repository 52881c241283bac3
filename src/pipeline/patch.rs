//! PATCH with a JSON, merge or strategic merge patch.
//!
//! The proxy applies the patch to the stored object, admits the outcome, and sends the difference between the two as a merge
//! patch with the resourceVersion of the stored object. The client's own patch is not sent: so the API server stores the admitted
//! object even if two implementations of a patch disagree.

use super::apply::Apply;
use super::gateway::Answer;
use super::initializers::{merged_strategically, take as take_initializers};
use super::outgoing::Outgoing;
use super::resource_version::{self, is_about_version};
use super::rest::Rest;
use super::view::{as_answer, take_metadata};
use super::write::{Attempts, Strictness, Write, is_conflict, schema};
use super::{Exchange, unknown_fields};
use crate::admission::Operation;
use crate::body::Body;
use crate::go_text::{go_print, go_quote};
use crate::initializers;
use crate::object::decode::{self, Decoded};
use crate::object::patch::{self, NO_FIELD, PatchType};
use crate::object::{Object, typed};
use crate::processor;
use crate::request::body::{
    InvalidOutcome, OptionsKind, Unseen, WriteOptions, check_name, ensure_namespace, invalid_patch,
};
use crate::status::{OPTIMISTIC_LOCK, Status};
use http::Response;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::sync::Arc;

/// The fields of the metadata that the API server changes with every write.
const KEPT_BY_SERVER: [&str; 2] = ["generation", "managedFields"];

/// The highest number of operations of a JSON patch that are applied on a worker.
const SHORT_OPERATIONS: usize = 100;

/// A patch in progress, other than an apply.
pub(super) struct Patch<'a> {
    pub(super) write: &'a Write<'a>,
}

impl Patch<'_> {
    /// Admits and patches the object. After a conflict with the proxy's own resourceVersion, retries with the fresh object.
    pub(super) async fn run(&self, exchange: &mut Exchange) -> Result<Response<Body>, Status> {
        let patch_type = self.write.patch_type()?;
        let options = self.write.options(OptionsKind::Patch(patch_type))?;
        if patch_type == PatchType::Apply {
            return Apply { write: self.write }.run(&options, exchange).await;
        }
        let decoded = match patch::decode(patch_type, &self.write.body) {
            Ok(decoded) => decoded,
            Err(refusal) => {
                if patch::is_parsed_first() {
                    return Err(refusal);
                }
                // The API server looks for the object first.
                self.write.old_object().await?.ok_or_else(|| self.write.not_found())?;
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
        let mut attempts = Attempts::new(&self.write.pipeline.limits);
        loop {
            let old = self.write.old_object().await?.ok_or_else(|| self.write.not_found())?;
            let version = old.resource_version().to_owned();
            let (answer, retry) = self.patch_existing(patch_type, &decoded, old, &options, exchange).await?;
            if !retry || !attempts.start_over(self.write, &version).await {
                return self.write.respond(answer).await;
            }
        }
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
            Err(why)
                if why.message.starts_with(NO_FIELD)
                    && (self.write.may_have_rest || unknown_fields::is_in(self.write, &old)) =>
            {
                let answer = self.write.rehearse(self.own_patch(patch_type)).await?;
                if !answer.status.is_success() {
                    return Ok((answer, false));
                }
                let mut outcome = answer.object()?;
                if outcome.resource_version() != old.resource_version() {
                    return Ok((as_answer(&self.write.conflict(OPTIMISTIC_LOCK)), true));
                }
                for field in KEPT_BY_SERVER {
                    take_metadata(&mut outcome, &old, field);
                }
                outcome.into_value()
            }
            merged => merged?,
        };
        let say = |errors: &[String]| self.write.report_strict_errors(options, errors.iter());
        let (mut object, rest) = match self.patched(patch_type, patch, merged, &old, say) {
            Ok(patched) => patched,
            Err(InvalidOutcome::Invalid(why)) => return Err(self.invalid(patch_type, patch, &old, &why).await),
            Err(InvalidOutcome::Refused(status)) => return Err(status),
        };
        ensure_namespace(&mut object, self.write.target.expected_namespace())?;
        check_name(&object, &self.write.target.name)?;
        let old = Arc::new(old);
        let options = options.as_options_object(OptionsKind::Update);
        let mut attributes = self.write.attributes(
            Operation::Update,
            Some(object),
            Some(unknown_fields::seen(self.write, &old)),
            options,
        );
        let own = self.write.admit(&mut attributes, exchange).await?;
        let owners = self.write.field_owners().of_admitted(&attributes, &rest, own, || {
            let merged = self.merged(patch_type, patch, &old).ok()?;
            let (object, _) = self.patched(patch_type, patch, merged, &old, |_| Strictness::Passed).ok()?;
            Some(object)
        });
        if let Some(object) = &mut attributes.object {
            if resource_version::may_be_required(self.write, object) {
                let without_version =
                    self.write.rehearse(self.write.difference_at("", &old, rest.put_back(object)?)?).await?;
                if is_about_version(&without_version) {
                    return Ok((without_version, false));
                }
            }
            resource_version::pin(self.write, object, &old)?;
        }
        let admitted = attributes.object.get_or_insert_default();
        let outgoing = Outgoing { owners, ..self.write.difference(&old, rest.put_back(admitted)?)? };
        let answer = match self.write.view().validate_write(&mut attributes, &outgoing, exchange).await? {
            Some(refusal) => refusal,
            None => self.write.view().send_admitted(Operation::Update, outgoing, exchange).await?,
        };
        let changed = is_conflict(&answer);
        Ok((answer, changed))
    }

    /// Applies the patch to the stored object.
    fn merged(&self, patch_type: PatchType, patch: &Decoded, stored: &Object) -> Result<Value, Status> {
        let stored = Value::Object(stored.fields().clone());
        match patch_type {
            PatchType::Strategic => merged_strategically(self.write, stored, &patch.value),
            _ => patch::apply(patch_type, stored, &patch.value, schema(self.write.target.kind())),
        }
    }

    /// Returns the client's own patch. Only the API server can apply a strategic patch to a list whose merge key is not known
    /// here.
    fn own_patch(&self, patch_type: PatchType) -> Outgoing {
        Outgoing { content_type: patch_type.content_type(), ..self.write.outgoing(self.write.body.clone()) }
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
    ) -> Result<(Object, Rest), InvalidOutcome> {
        let invalid = |why: &str| InvalidOutcome::Invalid(why.to_owned());
        let has_rest = self.write.may_have_rest || unknown_fields::is_in(self.write, stored);
        if patch_type == PatchType::Strategic {
            typed::from_unstructured(self.write.target.kind(), &mut patched)
                .map_err(|why| invalid(&why.to_string()))?;
            // Go decodes the outcome into an object that has its apiVersion and kind already.
            let said = stored.fields().iter().filter(|(field, _)| matches!(field.as_str(), "apiVersion" | "kind"));
            patched.as_object_mut().into_iter().for_each(|fields| {
                fields.extend(said.clone().map(|(field, said)| (field.clone(), said.clone())));
            });
        }
        let mut errors = strict_errors(patch_type, patch, &self.write.body);
        if typed::is_known(self.write.target.kind()) && lacks_version(&patched) {
            errors.extend(take_versioned(&mut patched));
        }
        let field = take_initializers(self.write, &mut patched).map_err(|why| invalid(&why.to_string()))?;
        let rest = patched.as_object_mut().filter(|_| has_rest);
        let rest = rest.and_then(|fields| typed::Rest::take(self.write.target.kind(), fields));
        let mut normal = self.write.decode_patched(patched)?;
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
}

impl Patch<'_> {
    /// Returns the refusal of a patch whose outcome cannot be decoded. Its text has the outcome, which is computed again, since errors are
    /// rare.
    async fn invalid(&self, patch_type: PatchType, patch: &Decoded, stored: &Object, why: &str) -> Status {
        if patch_type == PatchType::Strategic {
            return invalid_patch(&go_print(&patch.value), why);
        }
        match self.outcome_in_order(patch_type, stored).await {
            Some(text) => invalid_patch(&text, why),
            None => match self.merged(patch_type, patch, stored) {
                Ok(patched) => invalid_patch(&patched.to_string(), why),
                Err(status) => status,
            },
        }
    }

    /// Returns the text of the outcome with the fields in kube-apiserver's order: that of its types, which only its answers have. `None` if
    /// the object has changed since it was read.
    async fn outcome_in_order(&self, patch_type: PatchType, stored: &Object) -> Option<String> {
        let Write { pipeline, caller, body, .. } = self.write;
        let read = pipeline.gateway.read_document::<Box<RawValue>>(self.write.readable_path(), caller).await;
        let text = read.ok()?;
        let found: Object = serde_json::from_str(text.get()).ok()?;
        if found.resource_version() != stored.resource_version() {
            return None;
        }
        patch::text(patch_type, text.get(), std::str::from_utf8(body).ok()?)
    }
}

fn lacks_version(object: &Value) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
    fn fields_of_a_patched_object_without_a_version_are_unknown() {
        let mut patched = json!({"kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "b"}});
        assert!(lacks_version(&patched) && !lacks_version(&json!({"apiVersion": 1})));
        let mut unknown = take_versioned(&mut patched);
        unknown.sort();
        assert_eq!(unknown, [r#"unknown field "data""#, r#"unknown field "metadata""#]);
        assert_eq!(patched, json!({"kind": "ConfigMap"}));
    }
}
