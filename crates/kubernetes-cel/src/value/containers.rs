//! Lists and maps: views of JSON, or made by an expression.

use super::typed::{Keyed, Object};
use super::{Error, LazyValue, Text, Value, runtime_name};
use serde_json::Value as Json;
use std::collections::HashMap;
use std::sync::Arc;

/// A list, borrowed or shared.
#[derive(Clone, Debug)]
pub enum List<'a> {
    /// A list of the JSON.
    Json(&'a [Json]),
    /// A list in an object of a built-in kind, since 1.37: a Go slice (`reflectSchemalessTypedList`).
    BuiltIn(&'a [Json]),
    /// A list that an expression made.
    Values(Arc<Vec<Value<'a>>>),
    /// A list of a custom resource, with the list type `set` or `map` in the schema.
    Keyed(Arc<Keyed<'a>>),
}

/// A map, borrowed or shared.
#[derive(Clone, Debug)]
pub enum Map<'a> {
    /// A map of the JSON.
    Json(&'a serde_json::Map<String, Json>),
    /// An object of a built-in kind or a map in one, since 1.37: a Go struct or map (`reflectSchemalessTypedStruct`).
    BuiltIn(&'a serde_json::Map<String, Json>),
    /// A map that an expression made, in arbitrary order.
    Values(Arc<Entries<'a>>),
    /// A map whose values are evaluated on demand.
    Lazy(&'a (dyn LazyValue + 'a)),
    /// An object of a custom resource, with properties in the schema.
    Object(Arc<Object<'a>>),
}

/// The entries of a map that an expression made, one for each key.
#[derive(Clone, Debug, Default)]
pub struct Entries<'a> {
    items: Vec<(Value<'a>, Value<'a>)>,
    /// The position of each key, once there are more than [`SCANNED`].
    index: HashMap<Key<'a>, usize>,
}

/// The number of entries up to which a lookup scans all of them.
const SCANNED: usize = 8;

/// The identity of a key in a map: Go's `==` of cel-go's values. Numbers of different types are different keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(u64),
    String(Text<'a>),
    Bytes(Arc<[u8]>),
    Duration(i64),
    Timestamp(i64, u32),
    Type(Box<str>),
}

impl<'a> Key<'a> {
    /// The key of a scalar that equals itself.
    pub(super) fn of(value: &Value<'a>) -> Option<Self> {
        Some(match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Int(value) => Self::Int(*value),
            Value::Uint(value) => Self::Uint(*value),
            Value::Double(value) if value.is_nan() => return None,
            // Both zeros are one key.
            Value::Double(value) => Self::Double((value + 0.0).to_bits()),
            Value::String(text) => Self::String(text.clone()),
            Value::Bytes(bytes) => Self::Bytes(bytes.clone()),
            Value::Duration(value) => Self::Duration(*value),
            Value::Timestamp(seconds, nanoseconds, _) => Self::Timestamp(*seconds, *nanoseconds),
            Value::Type(value) => Self::Type(runtime_name(value).into()),
            _ => return None,
        })
    }

    fn is(&self, value: &Value<'_>) -> bool {
        match (self, value) {
            (Self::String(text), Value::String(other)) => **text == **other,
            (Self::Int(key), Value::Int(other)) => key == other,
            _ => Key::of(value).is_some_and(|other| *self == other),
        }
    }
}

impl<'a> List<'a> {
    /// The number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::Json(elements) | Self::BuiltIn(elements) => elements.len(),
            Self::Values(elements) => elements.len(),
            Self::Keyed(list) => list.elements.len(),
        }
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at a position.
    #[inline]
    pub fn get(&self, index: usize) -> Option<Value<'a>> {
        match self {
            Self::Json(elements) => elements.get(index).map(Value::json),
            Self::BuiltIn(elements) => elements.get(index).map(Value::built_in),
            Self::Values(elements) => elements.get(index).cloned(),
            Self::Keyed(list) => list.elements.get(index).cloned(),
        }
    }

    /// The elements in order.
    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}

impl<'a> Map<'a> {
    /// The number of entries; 0 for a [`Map::Lazy`].
    pub fn len(&self) -> usize {
        match self {
            Self::Json(fields) | Self::BuiltIn(fields) => fields.len(),
            Self::Values(entries) => entries.items.len(),
            Self::Lazy(_) => 0,
            Self::Object(object) => object.size,
        }
    }

    /// Whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a key. Also finds an equal number of another type (`Find` of cel-go's maps).
    pub fn get(&self, key: &Value<'_>) -> Option<Value<'a>> {
        match (self, key) {
            (Self::Json(fields), Value::String(key)) => fields.get(&**key).map(Value::json),
            (Self::BuiltIn(fields), Value::String(key)) => fields.get(&**key).map(Value::built_in),
            (Self::Json(_) | Self::BuiltIn(_), _) => None,
            (Self::Values(entries), _) => entries.get(key).cloned(),
            (Self::Lazy(map), Value::String(key)) => map.get(key)?.ok(),
            (Self::Lazy(_), _) => None,
            (Self::Object(object), Value::String(key)) => object.get(key).cloned(),
            (Self::Object(_), _) => None,
        }
    }

    /// The entries, in arbitrary order; empty for a [`Map::Lazy`].
    pub fn iter(&self) -> impl Iterator<Item = (Value<'a>, Value<'a>)> + '_ {
        type Read<'a> = fn(&'a Json) -> Value<'a>;
        let (json, values, object) = match self {
            Self::Json(fields) => (Some((*fields, Value::json as Read<'a>)), None, None),
            Self::BuiltIn(fields) => (Some((*fields, Value::built_in as Read<'a>)), None, None),
            Self::Values(entries) => (None, Some(&entries.items), None),
            Self::Object(object) => (None, None, Some(object.iter())),
            Self::Lazy(_) => (None, None, None),
        };
        json.into_iter()
            .flat_map(|(fields, read)| fields.iter().map(move |(key, value)| (Value::text(key), read(value))))
            .chain(values.into_iter().flatten().cloned())
            .chain(object.into_iter().flatten())
    }
}

impl<'a> Entries<'a> {
    /// The entries.
    pub fn iter(&self) -> impl Iterator<Item = &(Value<'a>, Value<'a>)> {
        self.items.iter()
    }

    /// The entry at a position.
    pub fn at(&self, position: usize) -> Option<&(Value<'a>, Value<'a>)> {
        self.items.get(position)
    }

    /// The value of exactly this key, or of an equal number.
    pub fn get(&self, key: &Value<'_>) -> Option<&Value<'a>> {
        let position = self.position(key).or_else(|| {
            let mut others = equal_keys(key).into_iter().flatten();
            others.find_map(|other| self.position(&other))
        })?;
        self.items.get(position).map(|(_, value)| value)
    }

    /// Sets the value of exactly this key.
    pub fn insert(&mut self, key: Value<'a>, value: Value<'a>) {
        if let Some((_, old)) = self.position(&key).and_then(|position| self.items.get_mut(position)) {
            *old = value;
            return;
        }
        self.items.push((key, value));
        let position = self.items.len() - 1;
        if position == SCANNED {
            let keys = self.items.iter().enumerate().filter_map(|(position, (key, _))| Some((Key::of(key)?, position)));
            self.index = keys.collect();
        } else if position > SCANNED
            && let Some(key) = self.items.last().and_then(|(key, _)| Key::of(key))
        {
            self.index.insert(key, position);
        }
    }

    /// Adds an entry: `InsertMapKeyValue` of cel-go.
    ///
    /// # Errors
    /// If the key exists.
    pub fn insert_new(&mut self, key: Value<'a>, value: Value<'a>) -> Result<(), Error> {
        if self.get(&key).is_some() {
            return Err(Error::new(format!("insert failed: key {key} already exists")));
        }
        self.insert(key, value);
        Ok(())
    }

    /// Removes exactly this key.
    pub fn remove(&mut self, key: &Value<'_>) {
        if let Some(position) = self.position(key) {
            let mut rest = std::mem::take(&mut self.items);
            rest.remove(position);
            self.index.clear();
            self.extend(rest);
        }
    }

    fn position(&self, key: &Value<'_>) -> Option<usize> {
        let key = Key::of(key)?;
        if self.items.len() > SCANNED {
            return self.index.get(&key).copied();
        }
        self.items.iter().position(|(other, _)| key.is(other))
    }
}

/// The equal keys of other numeric types.
fn equal_keys(key: &Value<'_>) -> [Option<Value<'static>>; 2] {
    match key {
        Value::Double(value) => [lossless_int(*value).map(Value::Int), lossless_uint(*value).map(Value::Uint)],
        Value::Int(value) => [u64::try_from(*value).ok().map(Value::Uint), None],
        Value::Uint(value) => [i64::try_from(*value).ok().map(Value::Int), None],
        _ => [None, None],
    }
}

/// Converts a double to an integer, if it is one within the bounds of cel-go.
pub(super) fn lossless_int(value: f64) -> Option<i64> {
    (value > i64::MIN as f64 && value < i64::MAX as f64 && value.trunc() == value).then_some(value as i64)
}

/// Converts a double to an unsigned integer, if it is one.
pub(super) fn lossless_uint(value: f64) -> Option<u64> {
    (value >= 0.0 && value < u64::MAX as f64 && value.trunc() == value).then_some(value as u64)
}

impl<'a> Extend<(Value<'a>, Value<'a>)> for Entries<'a> {
    fn extend<I: IntoIterator<Item = (Value<'a>, Value<'a>)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<'a> FromIterator<(Value<'a>, Value<'a>)> for Entries<'a> {
    fn from_iter<I: IntoIterator<Item = (Value<'a>, Value<'a>)>>(entries: I) -> Self {
        let mut made = Self::default();
        made.extend(entries);
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_find_keys_however_many_there_are() {
        for count in [0, 1, SCANNED, SCANNED + 1, 100] {
            let mut entries: Entries<'_> =
                (0..count as i64).map(|key| (Value::Int(key), Value::Int(key * 2))).collect();
            entries.insert(Value::Int(0), Value::Int(-1));
            assert_eq!(entries.iter().count(), count.max(1));
            assert!(matches!(entries.get(&Value::Double(0.0)), Some(Value::Int(-1))));
            assert!(entries.get(&Value::Uint(count as u64 + 1)).is_none());
            assert!(entries.insert_new(Value::Uint(0), Value::Null).is_err());
            entries.remove(&Value::Int(0));
            assert!(entries.get(&Value::Int(0)).is_none());
            assert_eq!(entries.get(&Value::Uint(1)).is_some(), count > 1);
        }
    }

    #[test]
    fn doubles_find_integers_but_not_the_reverse() {
        let entries: Entries<'_> = [(Value::Double(1.0), Value::Null)].into_iter().collect();
        assert!(entries.get(&Value::Double(1.0)).is_some());
        assert!(entries.get(&Value::Int(1)).is_none());
    }
}
