//! A Kubernetes object of any kind.

use crate::{Step, Unwritten};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::sync::LazyLock;

static NO_FIELDS: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

/// A Kubernetes object of any kind: a JSON object with access that neither panics nor inserts.
///
/// Readers return `None` (or an empty string) for a value that is missing or of another type. The object remembers whether it still equals
/// the request's bytes, so that the proxy can forward those bytes.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct Object {
    /// Always a JSON object: readers of values then need no copy of the fields.
    value: Value,
    /// Whether the object still equals the request's bytes. Private, so that a value that replaces the object counts as changed.
    #[serde(skip)]
    settled: bool,
    /// Empty values of the Go object that are not nil although no field shows them.
    #[serde(skip)]
    unwritten: Unwritten,
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl Default for Object {
    fn default() -> Self {
        Self::from(Map::new())
    }
}

impl From<Map<String, Value>> for Object {
    fn from(fields: Map<String, Value>) -> Self {
        Self { value: Value::Object(fields), settled: false, unwritten: Unwritten::default() }
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Map::deserialize(deserializer).map(Self::from)
    }
}

impl Object {
    /// Converts a JSON value to an object; `None` if the value is no JSON object.
    pub fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Object(fields) => Some(Self::from(fields)),
            _ => None,
        }
    }

    /// Whether the object may differ from its state at the last [`Self::settle`].
    pub fn is_changed(&self) -> bool {
        !self.settled
    }

    /// Marks the object as unchanged: the API server makes the changes up to now itself.
    pub fn settle(&mut self) {
        self.settled = true;
    }

    /// Sets the empty values that the Go object has but no field shows.
    pub fn hold(&mut self, unwritten: Unwritten) {
        self.unwritten = unwritten;
    }

    /// The empty values that the Go object has but no field shows.
    pub fn unwritten(&self) -> &Unwritten {
        &self.unwritten
    }

    /// Whether the Go value at the path is an empty list, map or byte slice that no field shows, rather than nil.
    pub fn is_empty_but_not_nil(&self, path: &[&str]) -> bool {
        self.get(path).is_none() && self.unwritten.contains(path)
    }

    /// Notes that the Go value at the path is an empty map rather than nil. The request's bytes are not changed by that.
    pub fn hold_empty_map(&mut self, path: &[Step<'_>]) {
        self.unwritten.add(path, Value::Object(Map::new()));
    }

    /// Whether a field of the object is or has an empty list, map or byte slice that no field shows, rather than nil.
    pub fn has_empty_but_not_nil(&self, field: &str) -> bool {
        self.unwritten.is_at_or_below(field)
    }

    /// Returns the object with its unwritten empty values as fields, for a decoder that works as Go's does: the API server. Go itself does
    /// not write these fields.
    pub fn whole(&self) -> Cow<'_, Self> {
        if self.unwritten.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut fields = self.fields().clone();
        self.unwritten.fill(&mut fields);
        Cow::Owned(Self::from(fields))
    }

    /// Returns the object as a JSON value.
    pub fn into_value(self) -> Value {
        self.value
    }

    /// The object as a JSON value, which is always a JSON object.
    pub fn as_value(&self) -> &Value {
        &self.value
    }

    /// The top-level fields.
    pub fn fields(&self) -> &Map<String, Value> {
        self.value.as_object().unwrap_or(&NO_FIELDS)
    }

    /// The top-level fields, to change.
    pub fn fields_mut(&mut self) -> &mut Map<String, Value> {
        self.settled = false;
        match &mut self.value {
            Value::Object(fields) => fields,
            _ => unreachable!("no constructor takes another value"),
        }
    }

    /// The value at a path of field names.
    pub fn get(&self, path: &[&str]) -> Option<&Value> {
        let (last, parents) = path.split_last()?;
        let mut map = self.fields();
        for field in parents {
            map = map.get(*field)?.as_object()?;
        }
        map.get(*last)
    }

    /// The value at a path of field names, mutable; inserts nothing.
    pub fn get_mut(&mut self, path: &[&str]) -> Option<&mut Value> {
        let (last, parents) = path.split_last()?;
        let mut map = self.fields_mut();
        for field in parents {
            map = map.get_mut(*field)?.as_object_mut()?;
        }
        map.get_mut(*last)
    }

    /// Sets the value at a path, and creates the objects on the way. Returns `false` if a value on the way is neither missing, null nor an
    /// object.
    #[must_use]
    pub fn set(&mut self, path: &[&str], value: Value) -> bool {
        let Some((last, parents)) = path.split_last() else { return false };
        let mut map = self.fields_mut();
        for field in parents {
            let child = map.entry(*field).or_insert(Value::Null);
            if child.is_null() {
                *child = Value::Object(Map::new());
            }
            let Some(child) = child.as_object_mut() else { return false };
            map = child;
        }
        map.insert((*last).to_owned(), value);
        true
    }

    /// Appends to the list at a path, and creates the list if it is missing or null. Returns `false` as [`Self::set`] does.
    #[must_use]
    pub fn append(&mut self, path: &[&str], item: Value) -> bool {
        match self.get_mut(path) {
            Some(Value::Array(items)) => items.push(item),
            None | Some(Value::Null) => return self.set(path, Value::Array(vec![item])),
            Some(_) => return false,
        }
        true
    }

    /// Removes and returns the value at a path.
    pub fn remove(&mut self, path: &[&str]) -> Option<Value> {
        let (last, parents) = path.split_last()?;
        let mut map = self.fields_mut();
        for field in parents {
            map = map.get_mut(*field)?.as_object_mut()?;
        }
        map.remove(*last)
    }

    /// The string at a path, or `""`.
    pub fn str(&self, path: &[&str]) -> &str {
        self.get(path).and_then(Value::as_str).unwrap_or_default()
    }

    /// The items of the array at a path; empty if the value is no array.
    pub fn items(&self, path: &[&str]) -> &[Value] {
        self.get(path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// `apiVersion`.
    pub fn api_version(&self) -> &str {
        self.str(&["apiVersion"])
    }

    /// `kind`.
    pub fn kind(&self) -> &str {
        self.str(&["kind"])
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        self.str(&["metadata", "name"])
    }

    /// `metadata.generateName`.
    pub fn generate_name(&self) -> &str {
        self.str(&["metadata", "generateName"])
    }

    /// `metadata.namespace`.
    pub fn namespace(&self) -> &str {
        self.str(&["metadata", "namespace"])
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> &str {
        self.str(&["metadata", "uid"])
    }

    /// `metadata.resourceVersion`.
    pub fn resource_version(&self) -> &str {
        self.str(&["metadata", "resourceVersion"])
    }

    /// `metadata.labels`, if it is an object.
    pub fn labels(&self) -> Option<&Map<String, Value>> {
        self.get(&["metadata", "labels"]).and_then(Value::as_object)
    }

    /// Each label with its text. A label that is null decodes to the empty string in Go.
    pub fn label_texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.labels().into_iter().flatten().map(|(key, value)| (&**key, value.as_str().unwrap_or_default()))
    }

    /// `metadata.annotations`, if it is an object.
    pub fn annotations(&self) -> Option<&Map<String, Value>> {
        self.get(&["metadata", "annotations"]).and_then(Value::as_object)
    }
}

/// Removes fields that are null, at any depth.
pub fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(discard_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::GroupVersionKind;
    use serde_json::json;

    #[test]
    fn only_an_object_that_was_settled_and_left_alone_is_unchanged() {
        let mut object = Object::from_value(json!({"a": 1})).unwrap();
        assert!(object.is_changed());
        object.settle();
        assert!(!object.clone().is_changed());
        let another = Object::from_value(json!({"a": 1})).unwrap();
        assert!(another.is_changed() && another == object);
        object.remove(&["a"]);
        assert!(object.is_changed());
    }

    #[test]
    fn a_kind_matches_the_kind_of_its_objects() {
        for (kind, api_version, name, expected) in [
            (GroupVersionKind::new("", "v1", "Pod"), "v1", "Pod", true),
            (GroupVersionKind::new("", "v1", "Pod"), "", "Pod", false),
            (GroupVersionKind::new("", "v1", "Pod"), "v1", "", false),
            (GroupVersionKind::new("apps", "v1", "Deployment"), "apps/v1", "Deployment", true),
            (GroupVersionKind::new("apps", "v1", "Deployment"), "v1", "Deployment", false),
            (GroupVersionKind::new("apps", "v1", "Deployment"), "appsv1", "Deployment", false),
            (GroupVersionKind::new("apps", "v1", "Deployment"), "apps/v1beta1", "Deployment", false),
        ] {
            assert_eq!(kind.matches_type(api_version, name), expected, "{kind:?} {api_version} {name}");
            assert_eq!(kind.api_version() == api_version && kind.kind == name, expected);
        }
    }

    #[test]
    fn set_does_not_replace_what_is_of_another_type() {
        let mut object = Object::from_value(json!({"spec": "text"})).unwrap();
        assert!(!object.set(&["spec", "a"], json!(1)));
        assert!(object.set(&["metadata", "labels", "a"], json!("b")));
        assert_eq!(object.into_value(), json!({"spec": "text", "metadata": {"labels": {"a": "b"}}}));
    }
}
