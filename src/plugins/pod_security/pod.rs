//! What the checks read of a pod or a pod template: its JSON, borrowed, with access that tells a field that is missing
//! from one of the wrong type.

use crate::plugins::rules::pod::WrongType;
use serde_json::{Map, Value};

/// The fields of a JSON object; none where it is missing or null.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fields<'a>(Option<&'a Map<String, Value>>);

impl<'a> Fields<'a> {
    /// The fields of a value that is an object, or null.
    pub(super) fn of(value: &'a Value) -> Result<Self, WrongType> {
        match value {
            Value::Null => Ok(Self(None)),
            Value::Object(map) => Ok(Self(Some(map))),
            _ => Err(WrongType),
        }
    }

    /// The fields of an object.
    pub(super) fn of_map(map: &'a Map<String, Value>) -> Self {
        Self(Some(map))
    }

    fn value(self, field: &str) -> Option<&'a Value> {
        self.0?.get(field).filter(|value| !value.is_null())
    }

    /// Whether the field is there and not null.
    pub(super) fn has(self, field: &str) -> bool {
        self.value(field).is_some()
    }

    /// Whether there is a field besides this one that is not null.
    pub(super) fn has_others_than(self, field: &str) -> bool {
        self.0.into_iter().flatten().any(|(key, value)| key != field && !value.is_null())
    }

    /// The object in a field: `None` where Go's pointer to it is nil.
    pub(super) fn pointer(self, field: &str) -> Result<Option<Self>, WrongType> {
        self.value(field).map(Self::of).transpose()
    }

    /// The object in a field; an empty one where there is none.
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

    /// The string in a field, empty where there is none.
    pub(super) fn text(self, field: &str) -> Result<&'a str, WrongType> {
        self.value(field).map_or(Ok(""), |value| value.as_str().ok_or(WrongType))
    }

    /// The string in a map of strings; null is an empty one.
    pub(super) fn entry(self, key: &str) -> Result<Option<&'a str>, WrongType> {
        self.0.and_then(|map| map.get(key)).map(text).transpose()
    }

    /// All of a map of strings.
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

/// A pod, or what a template makes of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pod<'a> {
    pub(super) annotations: Fields<'a>,
    pub(super) spec: Fields<'a>,
    /// `spec.securityContext`.
    pub(super) security: Fields<'a>,
    /// Whether the API server is about to store it as a new pod, which sets fields that only annotations say.
    pub(super) is_new: bool,
    containers: [&'a [Value]; 3],
}

/// A container of any of the three lists.
#[derive(Clone, Copy, Debug)]
pub(super) struct Container<'a> {
    pub(super) fields: Fields<'a>,
    /// Its `securityContext`.
    pub(super) security: Fields<'a>,
}

impl<'a> Container<'a> {
    pub(super) fn name(&self) -> Result<&'a str, WrongType> {
        self.fields.text("name")
    }
}

impl<'a> Pod<'a> {
    /// The pod in an object with `metadata` and `spec`.
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

    /// Every container: init containers first, then the containers, then the ephemeral ones (`visitContainers`).
    pub(super) fn containers(&self) -> impl Iterator<Item = Result<Container<'a>, WrongType>> {
        self.containers.into_iter().flatten().map(|value| {
            let fields = Fields::of(value)?;
            Ok(Container { fields, security: fields.object("securityContext")? })
        })
    }

    /// Whether its root is not the host's (`relaxPolicyForUserNamespacePod`).
    pub(super) fn has_user_namespace(&self) -> Result<bool, WrongType> {
        Ok(self.spec.boolean("hostUsers")? == Some(false))
    }

    /// Whether it says that it runs on Windows, where the API server refuses the fields of Linux.
    pub(super) fn is_for_windows(&self) -> Result<bool, WrongType> {
        Ok(self.spec.object("os")?.text("name")? == "windows")
    }
}
