//! The object that a hook's patch makes: decoded again, defaulted, and compared with the object before.

use crate::go_text::json::escape_html;
use crate::go_text::{go_quote, go_type};
use crate::initializers;
use crate::kind::{GroupVersionKind, split_api_version};
use crate::object::defaults::Defaulting;
use crate::object::go_text::numbers;
use crate::object::typed::{self, Typed};
use crate::object::{Object, convert, normal, structural};
use crate::status::{Status, invalid};
use serde_json::{Map, Value};
use std::fmt::Display;

/// A patched object.
pub(super) struct Patched {
    pub(crate) object: Object,
    /// Whether the patch changed the object; defaults do not count.
    pub(crate) is_changed: bool,
}

/// The object to which a patch was applied.
#[derive(Clone, Copy)]
pub(super) struct Before<'a> {
    pub(crate) object: &'a Object,
    /// Whether the object, if its kind is built in, had its defaults, and can be compared without being decoded.
    pub(crate) is_defaulted: bool,
    /// The defaults of the kind.
    pub(crate) defaulting: Defaulting,
}

impl Before<'_> {
    fn is_unchanged(self, patched: &Object) -> bool {
        self.is_defaulted && self.object.unwritten().is_empty() && self.object.fields() == patched.fields()
    }
}

/// Decodes a patched object, which must still have this kind: kube-apiserver decodes the object as the kind in its JSON, and converts
/// it to the request's kind.
///
/// # Errors
/// If the patched value is not an object that can have this kind.
pub(super) fn decode(before: Before<'_>, patched: Value, kind: &GroupVersionKind) -> Result<Patched, Box<Status>> {
    let found = go_type(&patched);
    let no_type = |found: &str, into: &str| {
        let why = format!("json: cannot unmarshal {found} into Go {into}");
        Box::new(Status::internal_error(format!("couldn't get version/kind; json parse error: {why}")))
    };
    let object = Object::from_value(patched).ok_or_else(|| {
        let into = "value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; \
             Kind string \"json:\\\"kind,omitempty\\\"\" }";
        no_type(found, into)
    })?;
    for field in ["apiVersion", "kind"] {
        if let Some(other) = object.get(&[field]).filter(|value| !value.is_string() && !value.is_null()) {
            return Err(no_type(go_type(other), &format!("struct field .{field} of type string")));
        }
    }
    match typed::has_type(kind) {
        // The patch changed nothing, and the object has its defaults already.
        true if before.is_unchanged(&object) => Ok(Patched { object, is_changed: false }),
        true => decode_beside_initializers(before, object, kind),
        false => decode_custom(before.object, object, kind),
    }
}

/// Decodes an object of a built-in kind. The types lack `metadata.initializers`, so a patch can only change a value that is there.
fn decode_beside_initializers(
    before: Before<'_>,
    mut object: Object,
    kind: &GroupVersionKind,
) -> Result<Patched, Box<Status>> {
    let Some(old) = initializers::of(before.object).cloned() else {
        return decode_built_in(before, object, kind);
    };
    let mut rest = before.object.clone();
    initializers::take(&mut rest);
    let sent = initializers::take(&mut object).unwrap_or_default();
    let new = initializers::decode(&sent).map_err(Status::internal_error)?.value;
    let mut patched = decode_built_in(Before { object: &rest, ..before }, object, kind)?;
    patched.is_changed |= new.as_ref() != Some(&old);
    initializers::put(&mut patched.object, new);
    Ok(patched)
}

fn decode_built_in(before: Before<'_>, mut object: Object, kind: &GroupVersionKind) -> Result<Patched, Box<Status>> {
    for (field, wanted) in [("apiVersion", kind.api_version()), ("kind", kind.kind.clone())] {
        if object.str(&[field]).is_empty() {
            object.fields_mut().insert(field.to_owned(), Value::from(wanted));
        }
    }
    let now = named_kind(&object);
    let internal = |why: &dyn Display| Box::new(Status::internal_error(why));
    let typed = typed::decode(&now, object.into_value()).ok_or_else(|| {
        let (kind, version) = (go_quote(&now.kind), go_quote(&now.api_version()));
        internal(&format!("no kind {kind} is registered for version {version} in scheme \"pkg/runtime/scheme.go:111\""))
    })?;
    let typed = typed.map_err(|why| internal(&why))?;
    if now == *kind {
        let Before { object: before, is_defaulted, defaulting } = before;
        debug_assert!(!is_defaulted || stays(defaulting, kind, before), "{kind:?} {before:?}");
        let differs = || typed.value.as_object().is_some_and(|fields| fields_differ(before.fields(), fields, true));
        let is_changed = is_defaulted && differs() || is_changed(kind, before, &typed);
        return Ok(Patched { object: normal::defaulted(defaulting, kind, typed).object, is_changed });
    }
    let converted = Object::from_value(typed.value).and_then(|object| convert::built_in(&object, &now, kind));
    if let Some(object) = converted {
        return Ok(Patched { is_changed: true, object });
    }
    let internal = if kind.group.is_empty() { "core" } else { kind.group.split('.').next().unwrap_or_default() };
    let (version, from, to) = (&now.version, &now.kind, &kind.kind);
    Err(Status::plain(format!("converting ({version}.{from}) to ({internal}.{to}): unknown conversion")).into())
}

/// Whether an object stays as it is when it is decoded and defaulted.
fn stays(defaulting: Defaulting, kind: &GroupVersionKind, object: &Object) -> bool {
    let Some(Ok(typed)) = typed::decode(kind, object.clone().into_value()) else { return false };
    normal::defaulted(defaulting, kind, typed).object.fields() == object.fields()
}

/// Decodes a custom resource: its JSON is kept as it is. Metadata of a wrong type is dropped, since the API server does not store it.
fn decode_custom(before: &Object, mut object: Object, kind: &GroupVersionKind) -> Result<Patched, Box<Status>> {
    let now = named_kind(&object);
    let (wanted, found) = (kind.api_version(), object.api_version());
    if now.kind.is_empty() {
        let text = escape_html(&object.as_value().to_string());
        return Err(Status::internal_error(format!("Object 'Kind' is missing in '{text}'")).into());
    }
    if found != wanted {
        let why = match now.group == kind.group {
            true => format!("request to convert CR from an invalid group/version: {found}"),
            false => {
                let now = format!("{}/{}, Kind={}", now.group, now.version, now.kind);
                format!("{now} is unstructured and is not suitable for converting to {}", go_quote(&wanted))
            }
        };
        return Err(Status::plain(why).into());
    }
    if now.kind != kind.kind {
        let cause = invalid::invalid("kind", &go_quote(&now.kind), &format!("must be {}", kind.kind));
        let refusal = invalid::status(&now, object.name(), vec![cause]);
        return Err(refusal.unwrap_or_else(|| Status::plain("the kind was changed")).into());
    }
    object.fields_mut().values_mut().for_each(numbers::read);
    let is_changed = before.fields() != object.fields();
    structural::drop_invalid_metadata(object.fields_mut());
    Ok(Patched { object, is_changed })
}

fn named_kind(object: &Object) -> GroupVersionKind {
    let (group, version) = split_api_version(object.api_version());
    GroupVersionKind::new(group, version, object.kind())
}

/// Whether the Go values differ. FromFilesAndApi are written as Go writes them only if `differ` finds no difference.
fn is_changed(kind: &GroupVersionKind, before: &Object, patched: &Typed) -> bool {
    let Some(Ok(mut before)) = typed::decode(kind, before.clone().into_value()) else { return true };
    if differ(&before.value, &patched.value, false) {
        return true;
    }
    let mut patched = patched.value.clone();
    typed::encode(kind, &mut before.value);
    typed::encode(kind, &mut patched);
    !values_equal(&before.value, &patched)
}

/// Whether values differ in a part that Go always writes: empty lists and empty structs may be omitted. If a value is `encoded`, zeros do
/// not count either: some zeros are written that the decoded value lacks.
fn differ(a: &Value, b: &Value, encoded: bool) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => fields_differ(a, b, encoded),
        (Value::Array(a), Value::Array(b)) => a.len() != b.len() || a.iter().zip(b).any(|(a, b)| differ(a, b, encoded)),
        (a, b) => a != b && (is_written(a, encoded) || is_written(b, encoded)),
    }
}

fn fields_differ(a: &Map<String, Value>, b: &Map<String, Value>, encoded: bool) -> bool {
    let is_missed = |value: &Value| is_written(value, encoded);
    a.iter().any(|(key, value)| b.get(key).map_or_else(|| is_missed(value), |other| differ(value, other, encoded)))
        || b.iter().any(|(key, value)| !a.contains_key(key) && is_missed(value))
}

fn is_written(value: &Value, encoded: bool) -> bool {
    match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => fields.values().any(|value| is_written(value, encoded)),
        Value::Bool(value) => !encoded || *value,
        Value::Number(value) => !encoded || value.as_f64() != Some(0.0),
        Value::String(value) => !encoded || !value.is_empty(),
    }
}

fn values_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => fields_equal(a, b),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| values_equal(a, b)),
        (a, b) => a == b,
    }
}

/// `apiequality.Semantic.DeepEqual`: null and an empty list equal a missing field.
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

    fn unpatched(object: &Object, is_defaulted: bool) -> Before<'_> {
        Before { object, is_defaulted, defaulting: Defaulting::default() }
    }

    #[test]
    fn only_differences_of_gos_values_are_a_change() {
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
            let patched = decode(unpatched(&object, false), pod(after.clone()), &kind).unwrap();
            assert_eq!(patched.is_changed, is_changed, "{before} {after}");
            let before_it = decode(unpatched(&object, false), object.clone().into_value(), &kind).unwrap().object;
            let again = |is_defaulted| decode(unpatched(&before_it, is_defaulted), pod(after.clone()), &kind).unwrap();
            let (slow, fast) = (again(false), again(true));
            assert_eq!((fast.is_changed, fast.object), (slow.is_changed, slow.object), "{before} {after}");
        }
    }

    #[test]
    fn since_1_37_a_patched_pod_has_no_defaults_of_its_resources_as_a_whole() {
        let kind = GroupVersionKind::new("", "v1", "Pod");
        let container = json!({"name": "c", "resources": {"requests": {"cpu": "1"}}});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {"containers": [container], "resources": {"limits": {"cpu": "2"}}}});
        for (pod_resources, requests) in [(true, Some(&json!({"cpu": "1"}))), (false, None)] {
            let defaulting = Defaulting { pod_resources, ..Defaulting::default() };
            let before = |object, is_defaulted| Before { object, is_defaulted, defaulting };
            let none = Object::default();
            let first = decode(before(&none, false), pod.clone(), &kind).unwrap().object;
            let mut labelled = first.clone();
            assert!(labelled.set(&["metadata", "labels"], json!({"a": "b"})));
            let patched = decode(before(&first, true), labelled.into_value(), &kind).unwrap();
            assert!(patched.is_changed);
            assert_eq!(patched.object.get(&["spec", "resources", "requests"]), requests);
        }
    }

    #[test]
    fn initializers_are_kept() {
        let kind = GroupVersionKind::new("", "v1", "ConfigMap");
        let object = |metadata: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        let before = Object::from_value(object(json!({"initializers": {"pending": [{"name": "a.b.c"}]}}))).unwrap();
        for (sent, kept, is_changed) in [
            (json!({"pending": [{"name": "a.b.c"}]}), json!({"pending": [{"name": "a.b.c"}]}), false),
            (json!({"pending": [{"name": "d.e.f", "x": 1}]}), json!({"pending": [{"name": "d.e.f"}]}), true),
            (Value::Null, Value::Null, true),
        ] {
            let sent = object(json!({"initializers": sent, "labels": null}));
            for is_defaulted in [false, true] {
                let patched = decode(unpatched(&before, is_defaulted), sent.clone(), &kind).unwrap();
                let found = patched.object.get(&["metadata", "initializers"]).cloned().unwrap_or_default();
                assert_eq!((found, patched.is_changed), (kept.clone(), is_changed), "{sent}");
            }
        }
        let wrong = object(json!({"initializers": 1}));
        assert_eq!(decode(unpatched(&before, true), wrong, &kind).err().map(|status| status.code), Some(500));
        let initialized = Object::from_value(object(json!({}))).unwrap();
        let sent = object(json!({"initializers": {"pending": [{"name": "a.b.c"}]}}));
        let patched = decode(unpatched(&initialized, true), sent, &kind).unwrap();
        assert!(!patched.is_changed && patched.object.get(&["metadata", "initializers"]).is_none());
    }

    #[test]
    fn a_decoded_object_is_the_same_when_it_is_decoded_again() {
        let mut count = 0;
        // A WatchEvent is never written, and its JSON has no kind.
        let is_written = |kind: &GroupVersionKind| typed::has_type(kind) && kind.kind != "WatchEvent";
        for (kind, _) in crate::object::schema::kinds().filter(|(kind, _)| is_written(kind)) {
            let item = json!({"name": "n", "image": "i", "ports": [{"port": 1, "containerPort": 1}], "resources": {"limits": {"cpu": "1000m"}}});
            let pod = json!({"containers": [item], "volumes": [{"name": "v"}]});
            let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": pod});
            let mut whole = json!({"apiVersion": kind.api_version(), "kind": kind.kind, "metadata": {"name": "n", "creationTimestamp": null}});
            for spec in [json!({}), json!({"template": template}), pod.clone()] {
                whole["spec"] = spec;
                let Ok(first) = decode(unpatched(&Object::default(), false), whole.clone(), &kind) else { continue };
                let mut changed = first.object.clone().into_value();
                changed["metadata"]["labels"]["x"] = json!("y");
                for next in [first.object.clone().into_value(), changed] {
                    let again =
                        |is_defaulted| decode(unpatched(&first.object, is_defaulted), next.clone(), &kind).unwrap();
                    let (slow, fast) = (again(false), again(true));
                    assert_eq!((fast.is_changed, &fast.object), (slow.is_changed, &slow.object), "{kind:?} {next}");
                    count += 1;
                }
            }
        }
        assert!(count > 500, "{count}");
    }

    #[test]
    fn a_value_that_is_no_object_has_no_kind() {
        let kind = GroupVersionKind::new("", "v1", "Pod");
        let why = decode(unpatched(&Object::default(), false), json!([]), &kind)
            .map(|patched| patched.object)
            .unwrap_err()
            .message;
        assert!(why.contains("json: cannot unmarshal array into Go value of type struct"), "{why}");
    }

    #[test]
    fn a_custom_resource_equals_its_json() {
        let kind = GroupVersionKind::new("example.com", "v1", "Widget");
        let widget =
            json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a", "labels": {"b": "c"}}});
        let patched = |change: &dyn Fn(&mut Value)| {
            let mut value = widget.clone();
            change(&mut value);
            decode(unpatched(&Object::from_value(widget.clone()).unwrap(), false), value, &kind)
        };
        let set = |pointer: &'static str, value: Value| {
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            patched(&|object| object.pointer_mut(parent).unwrap()[key] = value.clone())
        };
        assert!(!patched(&|_| ()).unwrap().is_changed);
        for (pointer, value) in [("/spec", Value::Null), ("/metadata/labels/q", Value::Null), ("/spec", json!([]))] {
            assert!(set(pointer, value).unwrap().is_changed, "{pointer}");
        }
        for (field, value) in [("labels", json!("x")), ("annotations", json!({"a": 1})), ("generation", json!("7"))] {
            let mut object = widget.clone();
            object["metadata"][field] = value;
            let object = decode(unpatched(&Object::default(), false), object, &kind).unwrap().object;
            assert_eq!(object.get(&["metadata", field]), None);
            assert_eq!(object.name(), "a");
        }
        let unsuitable = "is unstructured and is not suitable for converting to \"example.com/v1\"";
        for (pointer, value, code, why) in [
            ("/kind", json!(1), 500, "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .kind of type string".to_owned()),
            ("/kind", json!(null), 500, r#"Object 'Kind' is missing in '{"apiVersion":"example.com/v1","kind":null,"#.to_owned()),
            ("/kind", json!("Other"), 422, r#"Other.example.com "a" is invalid: kind: Invalid value: "Other": must be Widget"#.to_owned()),
            ("/apiVersion", json!("v1"), 500, format!("/v1, Kind=Widget {unsuitable}")),
            ("/apiVersion", json!(""), 500, format!("/, Kind=Widget {unsuitable}")),
            ("/apiVersion", json!("example.com/v2"), 500, "request to convert CR from an invalid group/version: example.com/v2".to_owned()),
        ] {
            let status = set(pointer, value).map(|patched| patched.object).unwrap_err();
            assert_eq!(status.code, code, "{status:?}");
            assert!(status.message.contains(&why), "{status:?}");
        }
    }
}
