//! The fields of a pod or a pod template that the checks read: borrowed JSON, with access that distinguishes a missing field
//! from a wrong type.

use crate::plugins::rules::pod::WrongType;
use serde_json::{Map, Value};

/// The fields of a JSON object; `None` if the object is missing or null.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fields<'a>(Option<&'a Map<String, Value>>);

impl<'a> Fields<'a> {
    /// The fields of a value, which must be an object or null.
    pub(super) fn of(value: &'a Value) -> Result<Self, WrongType> {
        match value {
            Value::Null => Ok(Self(None)),
            Value::Object(map) => Ok(Self(Some(map))),
            _ => Err(WrongType),
        }
    }

    /// The fields of a map.
    pub(super) fn of_map(map: &'a Map<String, Value>) -> Self {
        Self(Some(map))
    }

    fn value(self, field: &str) -> Option<&'a Value> {
        self.0?.get(field).filter(|value| !value.is_null())
    }

    /// Whether the field exists and is not null.
    pub(super) fn has(self, field: &str) -> bool {
        self.value(field).is_some()
    }

    /// Whether a field other than `field` exists and is not null.
    pub(super) fn has_others_than(self, field: &str) -> bool {
        self.0.into_iter().flatten().any(|(key, value)| key != field && !value.is_null())
    }

    /// The object in a field. `None` if Go's pointer would be nil.
    pub(super) fn pointer(self, field: &str) -> Result<Option<Self>, WrongType> {
        self.value(field).map(Self::of).transpose()
    }

    /// The object in a field; empty if the field is missing.
    pub(super) fn object(self, field: &str) -> Result<Self, WrongType> {
        Ok(self.pointer(field)?.unwrap_or_default())
    }

    /// The object at a path.
    pub(super) fn at(self, path: &[&str]) -> Result<Self, WrongType> {
        path.iter().try_fold(self, |fields, field| fields.object(field))
    }

    pub(super) fn boolean(self, field: &str) -> Result<Option<bool>, WrongType> {
        self.value(field).map(|value| value.as_bool().ok_or(WrongType)).transpose()
    }

    pub(super) fn integer(self, field: &str) -> Result<Option<i64>, WrongType> {
        self.value(field).map(|value| value.as_i64().ok_or(WrongType)).transpose()
    }

    /// The string in a field; empty if the field is missing.
    pub(super) fn text(self, field: &str) -> Result<&'a str, WrongType> {
        self.value(field).map_or(Ok(""), |value| value.as_str().ok_or(WrongType))
    }

    /// The value of a key in a map of strings. Null is the empty string.
    pub(super) fn entry(self, key: &str) -> Result<Option<&'a str>, WrongType> {
        self.0.and_then(|map| map.get(key)).map(text).transpose()
    }

    /// The entries of a map of strings.
    pub(super) fn entries(self) -> impl Iterator<Item = Result<(&'a str, &'a str), WrongType>> {
        self.0.into_iter().flatten().map(|(key, value)| Ok((key.as_str(), text(value)?)))
    }

    /// The list in a field.
    pub(super) fn list(self, field: &str) -> Result<&'a [Value], WrongType> {
        self.value(field).map_or(Ok(&[]), |value| value.as_array().map(Vec::as_slice).ok_or(WrongType))
    }

    /// The list of strings in a field.
    pub(super) fn texts(self, field: &str) -> Result<impl Iterator<Item = Result<&'a str, WrongType>>, WrongType> {
        Ok(self.list(field)?.iter().map(text))
    }

    /// The list of objects in a field.
    pub(super) fn objects(self, field: &str) -> Result<impl Iterator<Item = Result<Self, WrongType>>, WrongType> {
        Ok(self.list(field)?.iter().map(Self::of))
    }
}

fn text(value: &Value) -> Result<&str, WrongType> {
    if value.is_null() { Ok("") } else { value.as_str().ok_or(WrongType) }
}

/// A pod, or the pod of a template.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pod<'a> {
    pub(super) annotations: Fields<'a>,
    pub(super) spec: Fields<'a>,
    /// `spec.securityContext`.
    pub(super) security: Fields<'a>,
    /// Whether the API server will store the pod as new. The API server then sets fields from annotations.
    pub(super) is_new: bool,
    containers: [&'a [Value]; 3],
}

/// A container of any of the three lists.
#[derive(Clone, Copy, Debug)]
pub(super) struct Container<'a> {
    pub(super) fields: Fields<'a>,
    /// The container's `securityContext`.
    pub(super) security: Fields<'a>,
}

impl<'a> Container<'a> {
    pub(super) fn name(&self) -> Result<&'a str, WrongType> {
        self.fields.text("name")
    }
}

impl<'a> Pod<'a> {
    /// Reads the pod in an object with `metadata` and `spec`.
    pub(super) fn read(object: Fields<'a>) -> Result<Self, WrongType> {
        let spec = object.object("spec")?;
        Ok(Self {
            annotations: object.at(&["metadata", "annotations"])?,
            spec,
            security: spec.object("securityContext")?,
            is_new: false,
            containers: [spec.list("initContainers")?, spec.list("containers")?, spec.list("ephemeralContainers")?],
        })
    }

    /// All containers: init containers, containers, ephemeral containers (`visitContainers`).
    pub(super) fn containers(&self) -> impl Iterator<Item = Result<Container<'a>, WrongType>> {
        self.containers.into_iter().flatten().map(|value| {
            let fields = Fields::of(value)?;
            Ok(Container { fields, security: fields.object("securityContext")? })
        })
    }

    /// Whether the pod has a user namespace, in which root is not the host's root (`relaxPolicyForUserNamespacePod`).
    pub(super) fn has_user_namespace(&self) -> Result<bool, WrongType> {
        Ok(self.spec.boolean("hostUsers")? == Some(false))
    }

    /// Whether the pod's OS is Windows, for which the API server refuses Linux fields.
    pub(super) fn is_for_windows(&self) -> Result<bool, WrongType> {
        Ok(self.spec.object("os")?.text("name")? == "windows")
    }
}
