//! Values of custom resources by their structural schema: `UnstructuredToVal` of kube-apiserver.

use super::{Error, List, Map, Value, time};
use crate::release::Release;
use crate::schema::{escape, has, properties, unescape};
use crate::work;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubernetes_object::go_text::{duration, go_type};
use serde_json::Value as Json;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// An object with properties.
#[derive(Clone, Debug)]
pub struct Object<'a> {
    /// The properties that expressions see, by their names; null counts as absent.
    fields: BTreeMap<&'a str, Value<'a>>,
    /// The other properties.
    unknown: BTreeMap<&'a str, &'a Json>,
    /// The number of properties, null ones included.
    pub size: usize,
}

/// A list without a significant order (`x-kubernetes-list-type`).
#[derive(Clone, Debug)]
pub struct Keyed<'a> {
    /// The elements.
    pub elements: Vec<Value<'a>>,
    by: Key,
    release: Release,
    /// Whether the list is the result of `+`.
    is_sum: bool,
}

/// The identity of elements.
#[derive(Clone, Debug)]
enum Key {
    /// The element itself: a `set`.
    Whole,
    /// These properties of the element, escaped: a `map`.
    Properties(Arc<[String]>),
}

/// The reason why a value does not match its schema, with kube-apiserver's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SchemaMismatch(String);

impl<'a> Value<'a> {
    /// Converts a value by its schema, with the rules of a release; with `is_resource`, the value is a whole resource.
    ///
    /// # Errors
    /// If the value does not match the schema.
    pub fn typed(
        json: &'a Json,
        schema: &'a Json,
        is_resource: bool,
        release: Release,
    ) -> Result<Self, SchemaMismatch> {
        let text = |name: &str| schema.get(name).and_then(Json::as_str).unwrap_or_default();
        let invalid =
            |expected: &str| Err(SchemaMismatch(format!("invalid data, expected {expected}, got {}", go_type(json))));
        if json.is_null() {
            let is_nullable = has(schema, "nullable");
            let why = || SchemaMismatch("invalid data, got null for schema with nullable=false".to_owned());
            return is_nullable.then_some(Self::Null).ok_or_else(why);
        }
        if has(schema, "x-kubernetes-int-or-string") {
            return match Self::json(json) {
                value @ (Self::String(_) | Self::Int(_)) => Ok(value),
                _ => Err(SchemaMismatch(
                    "invalid data, expected XIntOrString value to be either a string or integer".to_owned(),
                )),
            };
        }
        let below = |json, schema| Self::typed(json, schema, has(schema, "x-kubernetes-embedded-resource"), release);
        match (text("type"), json) {
            ("object", Json::Object(fields)) => {
                if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
                    let entries = fields.iter().map(|(key, value)| Ok((Self::text(key), below(value, values)?)));
                    return Ok(Self::map(entries.collect::<Result<Vec<_>, SchemaMismatch>>()?));
                }
                let known: BTreeMap<&str, &Json> = properties(schema, is_resource).collect();
                let mut object = Object { fields: BTreeMap::new(), unknown: BTreeMap::new(), size: fields.len() };
                for (name, value) in fields {
                    match known.get(&**name) {
                        None => drop(object.unknown.insert(name, value)),
                        Some(_) if value.is_null() => {}
                        Some(schema) => {
                            object.fields.insert(name, below(value, schema)?);
                        }
                    }
                }
                Ok(Self::Map(Map::Object(Arc::new(object))))
            }
            ("array", Json::Array(elements)) => {
                let items = schema.get("items").unwrap_or(&Json::Null);
                let elements: Vec<_> =
                    elements.iter().map(|element| below(element, items)).collect::<Result<_, _>>()?;
                let by = match text("x-kubernetes-list-type") {
                    "set" => Key::Whole,
                    "map" => {
                        let keys = schema.get("x-kubernetes-list-map-keys").and_then(Json::as_array);
                        let keys = keys.into_iter().flatten().filter_map(Json::as_str);
                        Key::Properties(keys.map(|key| escape(key).unwrap_or_else(|| key.to_owned())).collect())
                    }
                    _ => return Ok(Self::list(elements)),
                };
                Ok(Self::List(List::Keyed(Arc::new(Keyed { elements, by, release, is_sum: false }))))
            }
            ("string", Json::String(text)) => of_format(text, schema.get("format").and_then(Json::as_str)),
            ("number", Json::Number(number)) => Ok(Self::Double(number.as_f64().unwrap_or(f64::NAN))),
            ("integer", Json::Number(number)) => match number.as_i64() {
                Some(value) => Ok(Self::Int(value)),
                None => Err(SchemaMismatch("invalid data, expected int, got float64".to_owned())),
            },
            ("boolean", Json::Bool(value)) => Ok(Self::Bool(*value)),
            ("object", _) => {
                Err(SchemaMismatch("invalid data, expected a map for the provided schema with type=object".to_owned()))
            }
            ("array", _) => Err(SchemaMismatch(
                "invalid data, expected an array for the provided schema with type=array".to_owned(),
            )),
            ("number", _) => invalid("float"),
            ("integer", _) => invalid("int"),
            ("boolean", _) => invalid("bool"),
            ("string", _) => invalid("string"),
            // Expressions can only compare preserved values.
            _ => Ok(Self::json(json)),
        }
    }
}

fn of_format<'a>(text: &'a str, format: Option<&str>) -> Result<Value<'a>, SchemaMismatch> {
    let time = |text: &str| {
        time::parse_timestamp(text).map(|(seconds, nanoseconds, offset)| Value::Timestamp(seconds, nanoseconds, offset))
    };
    let (what, parsed) = match format {
        Some("byte") => ("byte formatted string", STANDARD.decode(text).ok().map(|bytes| Value::Bytes(bytes.into()))),
        Some("duration") => ("duration", duration::nanoseconds(text).ok().map(Value::Duration)),
        Some("date-time") => ("date-time formatted string", time(text)),
        Some("date") => ("date formatted string", time(&format!("{text}T00:00:00Z"))),
        _ => return Ok(Value::text(text)),
    };
    parsed.ok_or_else(|| SchemaMismatch(format!("Invalid {what} {text}")))
}

impl<'a> Object<'a> {
    /// The value of a property by its name in expressions; a reserved word may be unescaped.
    pub fn get(&self, name: &str) -> Option<&Value<'a>> {
        self.fields.get(&*unescape(name)?)
    }

    /// The properties that expressions see, by their names in expressions.
    pub fn iter(&self) -> impl Iterator<Item = (Value<'a>, Value<'a>)> {
        let key = |name: &str| Value::string(escape(name).unwrap_or_else(|| name.to_owned()));
        self.fields.iter().map(move |(name, value)| (key(name), value.clone()))
    }

    /// `unstructuredMap.Equal`: compares unknown properties only if both objects have them.
    ///
    /// # Errors
    /// If two values of a property cannot be compared, or the comparison is too much work.
    pub fn equals(&self, other: &Object<'_>) -> Result<bool, Error> {
        if self.size != other.size {
            return Ok(false);
        }
        for (name, value) in &self.fields {
            match other.fields.get(name) {
                Some(other) if value.equals(other)? => {}
                _ => return Ok(false),
            }
        }
        Ok(self.unknown.iter().all(|(name, value)| other.unknown.get(name).is_none_or(|other| value == other)))
    }
}

impl<'a> Keyed<'a> {
    /// Whether both lists have equal elements, in any order.
    ///
    /// # Errors
    /// If two elements cannot be compared, or the comparison is too much work.
    pub fn equals(&self, other: &List<'_>) -> Result<bool, Error> {
        if self.elements.len() != other.len() {
            return Ok(false);
        }
        if self.release.since(37) {
            return self.equals_both_ways(other);
        }
        for element in other.iter() {
            let same = self.elements.iter().rev().find(|own| self.by.is_same(own, &element));
            match (same, &self.by) {
                (Some(_), Key::Whole) => {}
                (Some(own), Key::Properties(_)) if own.equals(&element)? => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// `Equal` of Kubernetes' lists since 1.37: each list must have all identities of the other one.
    fn equals_both_ways(&self, other: &List<'_>) -> Result<bool, Error> {
        let mut own: HashMap<Identity<'_>, &Value<'a>> = HashMap::with_capacity(self.elements.len());
        for element in &self.elements {
            work::look(1)?;
            let Some(identity) = self.by.identity(element, self.is_sum)? else { return Ok(false) };
            own.insert(identity, element);
        }
        let mut seen = HashSet::with_capacity(own.len());
        for element in other.iter() {
            work::look(1)?;
            let Some(identity) = self.by.identity(&element, self.is_sum)? else { return Ok(false) };
            let Some((identity, own)) = own.get_key_value(&identity) else { return Ok(false) };
            if matches!(self.by, Key::Properties(_)) && !own.equals(&element)? {
                return Ok(false);
            }
            seen.insert(identity);
        }
        Ok(seen.len() == own.len())
    }

    /// Merges another list: replaces elements of equal identity in place, and appends the others.
    ///
    /// # Errors
    /// If an element of a set is a list or a map, or if the merge is too much work.
    pub fn merged(&self, other: &List<'a>) -> Result<Self, Error> {
        let mut elements = self.elements.clone();
        if self.release.since(37) {
            self.merge(&mut elements, other)?;
        } else {
            for element in other.iter() {
                match elements.iter_mut().find(|own| self.by.is_same(own, &element)) {
                    Some(own) => *own = element,
                    None => elements.push(element),
                }
            }
        }
        Ok(Self { elements, by: self.by.clone(), release: self.release, is_sum: true })
    }

    /// `addToSetList` and `addToMapList` since 1.37.
    fn merge(&self, elements: &mut Vec<Value<'a>>, other: &List<'a>) -> Result<(), Error> {
        let others: Vec<Value<'a>> = other.iter().collect();
        let mut places: HashMap<Identity<'_>, usize> = HashMap::with_capacity(elements.len());
        for (place, element) in self.elements.iter().enumerate() {
            work::look(1)?;
            places.extend(self.by.identity(element, true)?.map(|identity| (identity, place)));
        }
        for element in &others {
            work::look(1)?;
            let Some(identity) = self.by.identity(element, true)? else {
                elements.push(element.clone());
                continue;
            };
            let appended = elements.len();
            match places.entry(identity) {
                Entry::Vacant(vacant) => {
                    vacant.insert(appended);
                    elements.push(element.clone());
                }
                Entry::Occupied(place) => {
                    if let (Key::Properties(_), Some(own)) = (&self.by, elements.get_mut(*place.get())) {
                        *own = element.clone();
                    }
                }
            }
        }
        Ok(())
    }
}

/// The identity of an element since 1.37, as Go compares it: numbers of different types differ.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Identity<'v> {
    /// An element of a set.
    Scalar(super::containers::Key<'v>),
    /// The values of the key properties.
    Properties(Vec<Option<super::containers::Key<'v>>>),
}

impl Key {
    /// The identity of an element since 1.37; `None` if it equals no other one. Until a list is the result of `+`, kube-apiserver looks
    /// properties up without escapes, so it never finds one whose name must be escaped.
    ///
    /// # Errors
    /// If an element of a set is a list or a map (`setElementKey`).
    fn identity<'v>(&self, element: &Value<'v>, unescapes: bool) -> Result<Option<Identity<'v>>, Error> {
        // Go distinguishes times with an offset by their zone, which each value has for itself.
        let scalar = |value: &Value<'v>| match value {
            Value::Timestamp(_, _, offset) if *offset != 0 => None,
            value => super::containers::Key::of(value),
        };
        match self {
            Self::Whole => match element {
                Value::List(_) | Value::Map(_) => {
                    Err(Error::new("listSet operations are only supported on lists of scalar values"))
                }
                element => Ok(scalar(element).map(Identity::Scalar)),
            },
            Self::Properties(names) => {
                let Value::Map(map) = element else { return Ok(None) };
                let property = |name: &String| match map {
                    Map::Object(object) if !unescapes => Some(object.fields.get(&**name).cloned()),
                    Map::Object(object) => Some(object.get(name).cloned()),
                    map if unescapes => Some(map.get(&Value::text(name))),
                    _ => None,
                };
                let mut identity = Vec::with_capacity(names.len());
                for name in names.iter() {
                    match property(name) {
                        None => return Ok(None),
                        Some(None) => identity.push(None),
                        Some(Some(value)) => match scalar(&value) {
                            None => return Ok(None),
                            found => identity.push(found),
                        },
                    }
                }
                Ok(Some(Identity::Properties(identity)))
            }
        }
    }

    /// Whether two elements have one identity.
    fn is_same(&self, own: &Value<'_>, other: &Value<'_>) -> bool {
        match self {
            // kube-apiserver compares an element's JSON with a converted value: a whole number differs from a float, a text from a time.
            Self::Whole => match (own, other) {
                (Value::Double(own), Value::Double(other)) => own == other && own.fract() != 0.0,
                (Value::Timestamp(..) | Value::Duration(_) | Value::Bytes(_), _) => false,
                _ if own.type_name() != other.type_name() => false,
                _ => own.equals(other).unwrap_or(false),
            },
            Self::Properties(names) => {
                let (Value::Map(Map::Object(own)), Value::Map(Map::Object(other))) = (own, other) else { return false };
                // kube-apiserver looks properties up without escapes, so it never finds one whose name must be escaped.
                names.iter().all(|name| match (own.fields.get(&**name), other.fields.get(&**name)) {
                    (Some(own), Some(other)) => own.equals(other).unwrap_or(false),
                    (own, other) => own.is_none() && other.is_none(),
                })
            }
        }
    }
}
