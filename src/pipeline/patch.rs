//! PATCH with a JSON, merge or strategic merge patch.
//!
//! The proxy applies the patch to the object as it is stored, admits the outcome, and sends the difference between the two
//! as a merge patch with the resourceVersion that it saw. Not the client's own patch: what is stored is then what was
//! admitted even where two implementations of a patch would disagree.

use super::Exchange;
use super::gateway::Answer;
use super::write::{Outgoing, Strictness, Write, is_conflict, schema};
use crate::admission::Operation;
use crate::object::Object;
use crate::object::decode::{Decoded, go_quote};
use crate::object::patch::{self, PatchType, merge_diff};
use crate::request::body::{
    OptionsKind, Unfit, WriteOptions, check_name, decode_patched, ensure_namespace, invalid_patch,
};
use crate::status::Status;
use crate::upstream::Body;
use bytes::Bytes;
use http::Response;
use http::header::CONTENT_TYPE;
use serde_json::{Map, Value, json};
use std::sync::Arc;

impl Write<'_> {
    /// Admits and patches the object; on a conflict that the client did not ask for, once more with the fresh one.
    pub(super) async fn patch(&self, exchange: &mut Exchange) -> Result<Response<Body>, Status> {
        let patch_type = PatchType::from_content_type(self.header(CONTENT_TYPE))?;
        let options = self.options(OptionsKind::Patch(patch_type))?;
        if patch_type == PatchType::Apply {
            return self.apply(&options, exchange).await;
        }
        let decoded = match patch::decode(patch_type, &self.body) {
            Ok(decoded) => decoded,
            // The API server looks at the object first.
            Err(refusal) => {
                self.old_object().await?.ok_or_else(|| self.not_found())?;
                return Err(refusal);
            }
        };
        if let Some(event) = &mut exchange.event {
            event.set_request_patch(&decoded.value);
        }
        let mut attempt = 0;
        loop {
            let old = self.old_object().await?.ok_or_else(|| self.not_found())?;
            let (answer, retry) = self.patch_existing(patch_type, &decoded, old, &options, exchange).await?;
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
        patch: &Decoded,
        old: Object,
        options: &WriteOptions,
        exchange: &mut Exchange,
    ) -> Result<(Answer, bool), Status> {
        let mut object = self.patched(patch_type, patch, &old, options)?;
        ensure_namespace(&mut object, self.target.expected_namespace())?;
        check_name(&object, &self.target.name)?;
        let old = Arc::new(old);
        let options = options.as_options_object(OptionsKind::Update);
        let mut attributes = self.attributes(Operation::Update, Some(object), Some(old.clone()), options);
        self.admit(&mut attributes, exchange).await?;
        if let Some(object) = &mut attributes.object {
            self.pin_version(object, &old)?;
        }
        let admitted = attributes.object.get_or_insert_default();
        let outgoing = self.difference(&old, admitted)?;
        let answer = match self.validate_write(&mut attributes, &outgoing, exchange).await? {
            Some(refusal) => refusal,
            None => self.forward(outgoing).await?,
        };
        let changed = is_conflict(&answer);
        Ok((answer, changed))
    }

    /// What the patch makes of the stored object.
    fn patched(
        &self,
        patch_type: PatchType,
        patch: &Decoded,
        stored: &Object,
        options: &WriteOptions,
    ) -> Result<Object, Status> {
        let apply = || {
            patch::apply(patch_type, Value::Object(stored.fields().clone()), &patch.value, schema(self.target.kind()))
        };
        // What an error shows is rarely wanted, so it is made anew.
        let invalid = |why: &str| match (patch_type, apply()) {
            (PatchType::Strategic, _) => invalid_patch(&go_print(&patch.value), &unstructured_error(why)),
            (_, Ok(patched)) => invalid_patch(&patched.to_string(), why),
            (_, Err(status)) => status,
        };
        let mut patched = apply()?;
        if let (PatchType::Strategic, Value::Object(fields)) = (patch_type, &mut patched) {
            // Go's object, which the outcome is put into, is of the kind that it is of.
            for field in ["apiVersion", "kind"] {
                if fields.get(field).is_none_or(Value::is_string) {
                    fields.extend(stored.fields().get(field).map(|said| (field.to_owned(), said.clone())));
                }
            }
        }
        let decoded = decode_patched(patched, self.target.kind(), self.schema.as_deref());
        let normal = decoded.map_err(|unfit| match unfit {
            Unfit::Invalid(why) => invalid(&why),
            Unfit::Refused(status) => status,
        })?;
        let mut errors = strict_errors(patch_type, patch);
        errors.extend(normal.unknown);
        match self.say_strict_errors(options, errors.iter()) {
            Strictness::Passed => Ok(normal.object),
            Strictness::Refused => Err(invalid(&format!("strict decoding error: {}", errors.join(", ")))),
        }
    }

    /// The patch that makes the stored object the admitted one, if it still has this version: a merge patch, or a JSON patch
    /// where that cannot say it, because the admitted object has fields that are null.
    pub(super) fn difference(&self, stored: &Object, admitted: &Object) -> Result<Outgoing, Status> {
        let (version, admitted) = (stored.resource_version(), admitted.whole());
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

/// Fields of an operation in a JSON patch (`jsonPatchOp`).
const OPERATION_FIELDS: [&str; 4] = ["op", "path", "from", "value"];

/// What strict decoding says of a patch itself.
fn strict_errors(patch_type: PatchType, patch: &Decoded) -> Vec<String> {
    let duplicates = patch.duplicates.iter().map(|path| format!("duplicate field {}", go_quote(path)));
    if patch_type != PatchType::Json {
        return duplicates.collect();
    }
    let operations = patch.value.as_array().into_iter().flatten().enumerate();
    let unknown = operations.flat_map(|(index, operation)| {
        let keys = operation.as_object().into_iter().flat_map(Map::keys);
        let unknown = keys.filter(|key| !OPERATION_FIELDS.contains(&key.as_str()));
        unknown.map(move |key| format!("unknown field {}", go_quote(&format!("[{index}].{key}"))))
    });
    duplicates.chain(unknown).map(|error| format!("json patch {error}")).collect()
}

/// A type error as the converter words it that makes the outcome of a strategic patch (`fromUnstructured`), from how a JSON
/// decoder words it.
fn unstructured_error(why: &str) -> String {
    let parts = why.strip_prefix("json: cannot unmarshal ").and_then(|rest| rest.split_once(" into Go "));
    let Some((found, (_, wanted))) = parts.and_then(|(found, rest)| Some((found, rest.rsplit_once(" of type ")?)))
    else {
        return why.to_owned();
    };
    let found = match found {
        "array" => "slice",
        "object" => "map",
        "string" | "bool" => found,
        number if number.trim_start_matches("number").contains(['.', 'e', 'E']) => "float64",
        _ => "int64",
    };
    let is_struct = || schema_types().any(|name| wanted.rsplit('.').next() == Some(name));
    let kind = match wanted {
        map if map.starts_with("map[") => return format!("cannot restore map from {found}"),
        list if list.starts_with("[]") => return format!("cannot restore slice from {found}"),
        "bool" | "string" | "int32" | "int64" | "float64" => wanted,
        _ if is_struct() => return format!("cannot restore struct from: {found}"),
        _ => "string",
    };
    let is_convertible = match found {
        "int64" => kind != "bool",
        "float64" => kind.starts_with("int"),
        _ => false,
    };
    if is_convertible { format!("cannot convert {found} to {wanted}") } else { format!("unrecognized type: {kind}") }
}

/// The names of the types that are objects.
fn schema_types() -> impl Iterator<Item = &'static str> {
    crate::object::schema::types().map(|known| known.go_name())
}

/// A value as Go's `%v` prints it.
fn go_print(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_print).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|(key, _)| key.as_str());
            let fields: Vec<_> = fields.into_iter().map(|(key, value)| format!("{key}:{}", go_print(value))).collect();
            format!("map[{}]", fields.join(" "))
        }
        other => other.to_string(),
    }
}

/// A JSON patch that replaces every top-level field, and takes away those that are gone.
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
    fn a_patch_is_shown_as_go_prints_it() {
        let patch = json!({"spec": {"b": [1, "x y", null], "a": true}, "data": {}});
        assert_eq!(go_print(&patch), "map[data:map[] spec:map[a:true b:[1 x y <nil>]]]");
    }

    #[test]
    fn type_errors_of_strategic_patches_have_their_own_words() {
        for (found, wanted, expected) in [
            ("number", "string", "cannot convert int64 to string"),
            ("number", "v1.PullPolicy", "cannot convert int64 to v1.PullPolicy"),
            ("number 1.5", "int32", "cannot convert float64 to int32"),
            ("string", "bool", "unrecognized type: bool"),
            ("bool", "v1.PullPolicy", "unrecognized type: string"),
            ("array", "map[string]string", "cannot restore map from slice"),
            ("object", "[]v1.Container", "cannot restore slice from map"),
            ("string", "v1.PodSpec", "cannot restore struct from: string"),
        ] {
            let why = format!("json: cannot unmarshal {found} into Go struct field X.y of type {wanted}");
            assert_eq!(unstructured_error(&why), expected, "{why}");
        }
        assert_eq!(unstructured_error("quantities must match"), "quantities must match");
    }

    #[test]
    fn fields_that_no_operation_has_are_unknown() {
        let patch =
            Decoded { value: json!([{"op": "remove", "path": "/a", "why": 1}]), duplicates: vec!["[0].op".into()] };
        let errors = strict_errors(PatchType::Json, &patch);
        assert_eq!(errors, [r#"json patch duplicate field "[0].op""#, r#"json patch unknown field "[0].why""#]);
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
