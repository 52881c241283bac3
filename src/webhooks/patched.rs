//! What a hook's patch made of an object: decoded again, with defaults, and compared with what it was.

use crate::object::decode::{go_quote, go_type};
use crate::object::structural::numbers;
use crate::object::typed::{self, Typed};
use crate::object::{GroupVersionKind, Object, convert, normal, split_api_version, structural};
use crate::status::Status;
use serde_json::{Map, Value};

/// A patched object.
pub struct Patched {
    /// The object.
    pub object: Object,
    /// Whether the patch made another object of it; the defaults do not count.
    pub is_changed: bool,
}

/// What was patched, as the kind that it must still be: kube-apiserver decodes it into its kind, and that into the request's.
///
/// # Errors
/// When it is no object that can be of this kind.
pub fn decode(before: &Object, patched: Value, kind: &GroupVersionKind) -> Result<Patched, Box<Status>> {
    let found = go_type(&patched);
    let mut object = Object::from_value(patched).ok_or_else(|| {
        Status::internal_error(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go value of type struct {{ \
             APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
        ))
    })?;
    for (field, wanted) in [("apiVersion", kind.api_version()), ("kind", kind.kind.clone())] {
        if object.str(&[field]).is_empty() {
            object.fields_mut().insert(field.to_owned(), Value::from(wanted));
        }
    }
    let (group, version) = split_api_version(object.api_version());
    let now = GroupVersionKind::new(group, version, object.kind());
    let internal = |why: String| Box::new(Status::internal_error(why));
    if !typed::has_type(&now) {
        if now != *kind {
            let (kind, version) = (go_quote(object.kind()), go_quote(object.api_version()));
            let scheme = "in scheme \"pkg/runtime/scheme.go:111\"";
            return Err(internal(format!("no kind {kind} is registered for version {version} {scheme}")));
        }
        object.fields_mut().values_mut().for_each(numbers::read);
        return match structural::metadata_error(object.fields()) {
            Some(why) => Err(internal(why)),
            None => Ok(Patched { is_changed: !fields_equal(before.fields(), object.fields()), object }),
        };
    }
    let typed = typed::decode(&now, object.into_value()).unwrap_or_else(|| Ok(Typed::default())).map_err(internal)?;
    if now == *kind {
        let is_changed = is_changed(kind, before, &typed);
        let normal = normal::finish(kind, typed).map_err(Status::plain)?;
        return Ok(Patched { object: normal.object, is_changed });
    }
    let converted = Object::from_value(typed.value).and_then(|object| convert::built_in(&object, &now, kind));
    if let Some(object) = converted {
        return Ok(Patched { is_changed: true, object });
    }
    let internal = if kind.group.is_empty() { "core" } else { kind.group.split('.').next().unwrap_or_default() };
    let (version, from, to) = (&now.version, &now.kind, &kind.kind);
    Err(Status::plain(format!("converting ({version}.{from}) to ({internal}.{to}): unknown conversion")).into())
}

/// Whether Go would hold another object. Only where that is in doubt both are written as Go writes them.
fn is_changed(kind: &GroupVersionKind, before: &Object, patched: &Typed) -> bool {
    let Some(Ok(mut before)) = typed::decode(kind, before.clone().into_value()) else { return true };
    if differ(&before.value, &patched.value) {
        return true;
    }
    let mut patched = patched.value.clone();
    typed::encode(kind, &mut before.value);
    typed::encode(kind, &mut patched);
    !values_equal(&before.value, &patched)
}

/// Whether decoded values differ in something that is written in any case: lists and structs without anything may not be.
fn differ(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            a.iter().any(|(key, value)| b.get(key).map_or_else(|| is_written(value), |other| differ(value, other)))
                || b.iter().any(|(key, value)| !a.contains_key(key) && is_written(value))
        }
        (Value::Array(a), Value::Array(b)) => a.len() != b.len() || a.iter().zip(b).any(|(a, b)| differ(a, b)),
        (a, b) => a != b && (is_written(a) || is_written(b)),
    }
}

fn is_written(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => fields.values().any(is_written),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

fn values_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => fields_equal(a, b),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| values_equal(a, b)),
        (a, b) => a == b,
    }
}

/// `apiequality.Semantic.DeepEqual`: what is null or an empty list is as good as missing.
fn fields_equal(a: &Map<String, Value>, b: &Map<String, Value>) -> bool {
    let nothing = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    let within = |a: &Map<String, Value>, b: &Map<String, Value>| {
        a.iter().all(|(key, value)| match b.get(key) {
            Some(other) => values_equal(value, other) || (nothing(value) && nothing(other)),
            None => nothing(value),
        })
    };
    within(a, b) && b.iter().all(|(key, value)| a.contains_key(key) || nothing(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_go_holds_is_a_change() {
        let pod = |spec: Value| {
            let mut spec = spec;
            spec["containers"] = json!([{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}}]);
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
        };
        for (before, after, is_changed) in [
            (json!({}), json!({}), false),
            (json!({}), json!({"nodeSelector": {}, "tolerations": [], "hostname": "", "hostNetwork": false}), false),
            (json!({"tolerations": null}), json!({"volumes": []}), false),
            (json!({}), json!({"nodeSelector": {"a": ""}}), true),
            (json!({}), json!({"tolerations": [{}]}), true),
            (json!({"hostname": "a"}), json!({}), true),
            (json!({"priority": 0}), json!({}), true),
            (json!({"enableServiceLinks": false}), json!({}), true),
            (json!({"securityContext": {}}), json!({}), true),
            (json!({"overhead": {"cpu": "1000m"}}), json!({"overhead": {"cpu": "1"}}), false),
            (json!({"unknown": 1}), json!({}), false),
        ] {
            let (kind, object) =
                (GroupVersionKind::new("", "v1", "Pod"), Object::from_value(pod(before.clone())).unwrap());
            let patched = decode(&object, pod(after.clone()), &kind).unwrap();
            assert_eq!(patched.is_changed, is_changed, "{before} {after}");
        }
    }

    #[test]
    fn what_is_no_object_is_none_of_any_kind() {
        let kind = GroupVersionKind::new("", "v1", "Pod");
        let why = decode(&Object::default(), json!([]), &kind).map(|patched| patched.object).unwrap_err().message;
        assert!(why.contains("json: cannot unmarshal array into Go value of type struct"), "{why}");
    }
}
