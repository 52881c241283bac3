//! `metadata.initializers` (Kubernetes 1.7 to 1.13): the initializers that must act before lists and watches show an object. The types of
//! the current release do not have the field.

use crate::go_text::{go_quote, go_type};
use crate::kind::GroupVersionKind;
use crate::names::dns_1123_subdomain_errors;
use crate::object::patch::{self, PatchType};
use crate::object::{Object, schema, typed};
use crate::status::{Cause, Status, invalid};
use serde_json::{Map, Value, json};

/// The name of the plugin that brings the field into use.
pub(crate) const PLUGIN: &str = "Initializers";
/// The strict decoding error about the field.
pub(crate) const UNKNOWN_FIELD: &str = "unknown field \"metadata.initializers\"";

const FIELD: [&str; 2] = ["metadata", "initializers"];
const PENDING: [&str; 3] = ["metadata", "initializers", "pending"];
const RESULT: [&str; 3] = ["metadata", "initializers", "result"];

/// The field of an object; `None` for an initialized object.
pub(crate) fn of(object: &Object) -> Option<&Value> {
    object.get(&FIELD).filter(|value| !value.is_null())
}

/// Whether an object has not been initialized.
pub(crate) fn is_uninitialized(object: &Object) -> bool {
    of(object).is_some()
}

/// Whether the initialization of an object goes on or has failed (`!initialization.IsObjectInitialized`).
pub(crate) fn are_pending(object: &Object) -> bool {
    of(object).is_some_and(|value| !is_empty(value))
}

/// The initializers that have yet to act on an object.
pub(crate) fn pending(object: &Object) -> &[Value] {
    object.items(&PENDING)
}

/// The Status of a failed initialization.
pub(crate) fn result(object: &Object) -> Option<&Value> {
    object.get(&RESULT).filter(|value| !value.is_null())
}

/// Whether a value of the field has neither pending initializers nor a result, so that it stands for an initialized object.
pub(crate) fn is_empty(value: &Value) -> bool {
    let is_there = |name: &str| value.get(name).is_some_and(|value| !value.is_null());
    value.get("pending").and_then(Value::as_array).is_none_or(Vec::is_empty) && !is_there("result")
}

/// Removes the field from an object. An object without the field does not count as changed.
pub(crate) fn take(object: &mut Object) -> Option<Value> {
    object.get(&FIELD)?;
    object.remove(&FIELD)
}

/// Sets the field of an object, if there is a value.
pub(crate) fn put(object: &mut Object, value: Option<Value>) {
    if let Some(value) = value {
        let _metadata_is_an_object = object.set(&FIELD, value);
    }
}

/// A decoded value of the field.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DecodedInitializers {
    /// The value as Go writes it; `None` for null.
    pub(crate) value: Option<Value>,
    /// The strict decoding errors.
    pub(crate) unknown: Vec<String>,
}

/// The reason why a value is none of the field, with the text of Go's decoder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct InvalidInitializers(String);

/// Decodes a value of the field (`metav1.Initializers`).
///
/// # Errors
/// If a value has another type.
pub(crate) fn decode(value: &Value) -> Result<DecodedInitializers, InvalidInitializers> {
    let fields = match value {
        Value::Null => return Ok(DecodedInitializers::default()),
        Value::Object(fields) => fields,
        other => return Err(mistyped(other, "ObjectMeta.metadata.initializers", "v1.Initializers")),
    };
    let (mut decoded, mut unknown) = (Map::new(), Vec::new());
    for (name, value) in fields {
        match (name.as_str(), value) {
            ("pending" | "result", Value::Null) => {}
            ("pending", Value::Array(items)) => {
                let items = items.iter().enumerate().map(|(at, item)| initializer(at, item, &mut unknown));
                decoded.insert(name.clone(), Value::Array(items.collect::<Result<_, _>>()?));
            }
            ("pending", other) => {
                return Err(mistyped(other, "Initializers.metadata.initializers.pending", "[]v1.Initializer"));
            }
            ("result", value) => drop(decoded.insert(name.clone(), status(value, &mut unknown)?)),
            (other, _) => unknown.push(unknown_field(other)),
        }
    }
    Ok(DecodedInitializers { value: Some(Value::Object(decoded)), unknown })
}

/// Decodes an item of `pending` (`metav1.Initializer`).
fn initializer(at: usize, item: &Value, unknown: &mut Vec<String>) -> Result<Value, InvalidInitializers> {
    let mut decoded = "";
    match item {
        Value::Null => {}
        Value::Object(fields) => {
            for (name, value) in fields {
                match (name.as_str(), value) {
                    ("name", Value::Null) => {}
                    ("name", Value::String(text)) => decoded = text,
                    ("name", other) => {
                        return Err(mistyped(other, "Initializer.metadata.initializers.pending.name", "string"));
                    }
                    (other, _) => unknown.push(unknown_field(&format!("pending[{at}].{other}"))),
                }
            }
        }
        other => return Err(mistyped(other, "Initializers.metadata.initializers.pending", "v1.Initializer")),
    }
    Ok(json!({ "name": decoded }))
}

/// Decodes `result` (`metav1.Status`).
fn status(value: &Value, unknown: &mut Vec<String>) -> Result<Value, InvalidInitializers> {
    if !value.is_object() {
        return Err(mistyped(value, "Initializers.metadata.initializers.result", "v1.Status"));
    }
    let kind = GroupVersionKind::new("", "v1", "Status");
    let typed = typed::decode(&kind, value.clone()).unwrap_or_else(|| Ok(Default::default()));
    let mut typed = typed.map_err(|why| InvalidInitializers(why.to_string()))?;
    typed::encode(&kind, &mut typed.value);
    let in_field = |error: String| error.replacen('"', "\"metadata.initializers.result.", 1);
    unknown.extend(typed.unknown.into_iter().map(in_field));
    Ok(typed.value)
}

fn unknown_field(path: &str) -> String {
    format!("unknown field {}", go_quote(&format!("metadata.initializers.{path}")))
}

fn mistyped(found: &Value, field: &str, wanted: &str) -> InvalidInitializers {
    let found = go_type(found);
    InvalidInitializers(format!("json: cannot unmarshal {found} into Go struct field {field} of type {wanted}"))
}

/// The errors of the field in an object (`validation.ValidateInitializers`).
pub(crate) fn invalid_values(object: &Object) -> Vec<Cause> {
    let names = pending(object).iter().enumerate().filter_map(|(at, item)| {
        let name = item.get("name").and_then(Value::as_str).unwrap_or_default();
        invalid_name(&format!("metadata.initializers.pending[{at}].name"), name)
    });
    names.chain(invalid_result(result(object))).collect()
}

/// `validation.IsFullyQualifiedName`
fn invalid_name(field: &str, name: &str) -> Option<Cause> {
    if name.is_empty() {
        return Some(Cause { message: "Required value".to_owned(), ..invalid::required(field, "") });
    }
    let errors = dns_1123_subdomain_errors(name);
    if !errors.is_empty() {
        // Kubernetes 1.19 reworded the error.
        let errors = errors.join(",").replace("a lowercase RFC 1123 subdomain", "a DNS-1123 subdomain");
        return Some(invalid::invalid(field, &go_quote(name), &errors));
    }
    let is_short = name.split('.').count() < 3;
    is_short.then(|| {
        let why = "should be a domain with at least three segments separated by dots";
        invalid::invalid(field, &go_quote(name), why)
    })
}

/// `validation.validateInitializersResult`
fn invalid_result(result: Option<&Value>) -> Option<Cause> {
    let status = result?.get("status").and_then(Value::as_str).unwrap_or_default();
    let field = "metadata.initializers.result.status";
    (status != "Failure").then(|| invalid::invalid(field, &go_quote(status), "must be 'Failure'"))
}

/// The errors of a change of the field (`validation.ValidateInitializersUpdate`).
pub(crate) fn invalid_change(new: Option<&Value>, old: Option<&Value>) -> Vec<Cause> {
    let result = |value: &Value| value.get("result").filter(|result| !result.is_null()).cloned();
    let cause = match (old, new) {
        (None, Some(_)) => {
            let why = "field is immutable once initialization has completed";
            Some(invalid::invalid("metadata.initializers", "\"null\"", why))
        }
        (Some(old), Some(new)) => match (result(old), result(new)) {
            (None, new) => invalid_result(new.as_ref()),
            (old, new) if old == new => None,
            (_, new) => {
                let shown = new.map_or_else(|| "\"null\"".to_owned(), |new| new.to_string());
                Some(invalid::invalid("metadata.initializers.result", &shown, "field is immutable"))
            }
        },
        _ => None,
    };
    cause.into_iter().collect()
}

/// Merges a part of a strategic merge patch into the field: `pending` is merged by the key `name`.
///
/// # Errors
/// If the part does not apply.
pub(crate) fn merge(current: Option<Value>, part: &Value) -> Result<Option<Value>, Status> {
    let Value::Object(part) = part else { return Ok(Some(part.clone()).filter(|part| !part.is_null())) };
    match part.get("$patch").and_then(Value::as_str) {
        Some("delete") => return Ok(None),
        Some("replace") => {
            let fields = part.iter().filter(|(name, _)| *name != "$patch");
            return Ok(Some(Value::Object(fields.map(|(name, value)| (name.clone(), value.clone())).collect())));
        }
        _ => {}
    }
    let mut merged = match current {
        Some(Value::Object(current)) => current,
        _ => Map::new(),
    };
    // A pod's list of image pull secrets has the same type in the schema: objects with the key `name`.
    let in_pod = |fields: &Map<String, Value>| {
        let of_pod = |name: &String| name.ends_with("pending").then(|| name.replace("pending", "imagePullSecrets"));
        let spec: Map<_, _> = fields.iter().filter_map(|(name, value)| Some((of_pod(name)?, value.clone()))).collect();
        json!({ "spec": spec })
    };
    let pod = schema::of(&GroupVersionKind::new("", "v1", "Pod"));
    let pod = patch::apply(PatchType::Strategic, in_pod(&merged), &in_pod(part), pod)?;
    let mut set = |name: &str, value: Option<&Value>| match value.filter(|value| !value.is_null()) {
        Some(value) => drop(merged.insert(name.to_owned(), value.clone())),
        None => drop(merged.remove(name)),
    };
    set("pending", pod.pointer("/spec/imagePullSecrets"));
    if let Some(result) = part.get("result") {
        let current = json!({ "result": merged.get("result") });
        let patched = patch::apply(PatchType::Merge, current, &json!({ "result": result }), None)?;
        match patched.get("result").filter(|result| !result.is_null()) {
            Some(result) => drop(merged.insert("result".to_owned(), result.clone())),
            None => drop(merged.remove("result")),
        }
    }
    Ok(Some(Value::Object(merged)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(initializers: Value) -> Object {
        Object::from_value(json!({"metadata": {"name": "a", "initializers": initializers}})).unwrap()
    }

    fn texts(causes: Vec<Cause>) -> Vec<String> {
        causes.into_iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    }

    #[test]
    fn the_field_is_decoded_as_in_go() {
        let sent =
            json!({"pending": [{"name": "a.b.c", "x": 1}, null, {}], "result": {"status": "Failure", "y": 1}, "z": 1});
        let decoded = decode(&sent).unwrap();
        let expected = json!({
            "pending": [{"name": "a.b.c"}, {"name": ""}, {"name": ""}], "result": {"metadata": {}, "status": "Failure"},
        });
        assert_eq!(decoded.value, Some(expected));
        let unknown = ["pending[0].x", "result.y", "z"].map(unknown_field);
        assert_eq!(decoded.unknown, unknown);
        assert_eq!(decode(&Value::Null), Ok(DecodedInitializers::default()));
        assert_eq!(decode(&json!({"pending": null, "result": null})).unwrap().value, Some(json!({})));
    }

    #[test]
    fn a_value_of_another_type_is_an_error() {
        for (value, why) in [
            (json!("a"), "string into Go struct field ObjectMeta.metadata.initializers of type v1.Initializers"),
            (
                json!({"pending": {}}),
                "object into Go struct field Initializers.metadata.initializers.pending of type []v1.Initializer",
            ),
            (
                json!({"pending": ["a"]}),
                "string into Go struct field Initializers.metadata.initializers.pending of type v1.Initializer",
            ),
            (
                json!({"pending": [{"name": 1}]}),
                "number into Go struct field Initializer.metadata.initializers.pending.name of type string",
            ),
            (
                json!({"result": []}),
                "array into Go struct field Initializers.metadata.initializers.result of type v1.Status",
            ),
        ] {
            assert_eq!(decode(&value), Err(InvalidInitializers(format!("json: cannot unmarshal {why}"))), "{value}");
        }
    }

    #[test]
    fn a_name_needs_three_segments() {
        let errors =
            |name: &str| texts(invalid_values(&object(json!({"pending": [{"name": "a.b.c"}, {"name": name}]}))));
        let field = "metadata.initializers.pending[1].name";
        assert_eq!(errors("x.y.z"), [""; 0]);
        assert_eq!(errors(""), [format!("{field}: Required value")]);
        assert_eq!(
            errors("a.b"),
            [format!(
                "{field}: Invalid value: \"a.b\": should be a domain with at least three segments separated by dots"
            )]
        );
        assert!(errors("bad name")[0].starts_with(&format!(
            "{field}: Invalid value: \"bad name\": a DNS-1123 subdomain must consist of lower case"
        )));
    }

    #[test]
    fn a_result_is_a_failure() {
        let errors = |status: &str| texts(invalid_values(&object(json!({"result": {"status": status}}))));
        assert_eq!(errors("Failure"), [""; 0]);
        let wrong = "metadata.initializers.result.status: Invalid value: \"Success\": must be 'Failure'";
        assert_eq!(errors("Success"), [wrong]);
        let setting = invalid_change(
            Some(&json!({"pending": [], "result": {"status": "Success"}})),
            Some(&json!({"pending": [{"name": "a.b.c"}]})),
        );
        assert_eq!(texts(setting), [wrong]);
    }

    #[test]
    fn an_initialized_object_stays_initialized_and_a_result_stays() {
        let one = json!({"pending": [{"name": "a.b.c"}]});
        let other = json!({"pending": []});
        let failed = json!({"result": {"status": "Failure"}});
        let set =
            "metadata.initializers: Invalid value: \"null\": field is immutable once initialization has completed";
        assert_eq!(texts(invalid_change(Some(&one), None)), [set]);
        for (new, old) in [(None, None), (None, Some(&one)), (Some(&other), Some(&one)), (Some(&failed), Some(&failed))]
        {
            assert_eq!(texts(invalid_change(new, old)), [""; 0]);
        }
        let unset = "metadata.initializers.result: Invalid value: \"null\": field is immutable";
        assert_eq!(texts(invalid_change(Some(&one), Some(&failed))), [unset]);
    }

    #[test]
    fn a_strategic_patch_merges_pending_by_name() {
        let current = || Some(json!({"pending": [{"name": "a.b.c"}, {"name": "d.e.f"}]}));
        for (part, merged) in [
            (json!({"pending": [{"name": "g.h.i"}]}), json!([{"name": "g.h.i"}, {"name": "a.b.c"}, {"name": "d.e.f"}])),
            (json!({"pending": [{"name": "a.b.c", "$patch": "delete"}]}), json!([{"name": "d.e.f"}])),
            (
                json!({"$setElementOrder/pending": [{"name": "d.e.f"}, {"name": "a.b.c"}]}),
                json!([{"name": "d.e.f"}, {"name": "a.b.c"}]),
            ),
            (json!({"$patch": "replace", "pending": [{"name": "x.y.z"}]}), json!([{"name": "x.y.z"}])),
        ] {
            assert_eq!(merge(current(), &part).unwrap(), Some(json!({ "pending": merged })), "{part}");
        }
        assert_eq!(merge(current(), &Value::Null).unwrap(), None);
        assert_eq!(merge(current(), &json!({"$patch": "delete"})).unwrap(), None);
        assert_eq!(merge(current(), &json!({"pending": null})).unwrap(), Some(json!({})));
        let failed = merge(None, &json!({"result": {"status": "Failure", "code": null}})).unwrap();
        assert_eq!(failed, Some(json!({"result": {"status": "Failure"}})));
    }
}
