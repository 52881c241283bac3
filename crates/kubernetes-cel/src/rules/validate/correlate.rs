//! The old values that belong to the values of an update (`common.CorrelatedObject`), for errors of unchanged parts.

use serde_json::Value as Json;
use std::collections::HashMap;

/// A value, the old value in its place, and their schema.
#[derive(Clone, Copy, Debug)]
pub(super) struct Correlated<'a> {
    pub(super) new: &'a Json,
    pub(super) old: &'a Json,
    pub(super) schema: &'a Json,
}

/// The old value of a value, or of the nearest value around it that has one (`ratchetingOptions`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Correlation<'a> {
    pub(super) current: Option<Correlated<'a>>,
    parent: Option<Correlated<'a>>,
}

/// The items of an old list by their keys.
pub(super) struct Keyed<'a> {
    keys: Vec<&'a str>,
    items: HashMap<String, &'a Json>,
}

impl<'a> Correlation<'a> {
    pub(super) fn of_root(current: Option<Correlated<'a>>) -> Self {
        Self { current, parent: None }
    }

    /// The correlation with the value around alone.
    pub(super) fn of_parent(self) -> Self {
        Self { current: None, parent: self.parent }
    }

    pub(super) fn field(self, name: &str) -> Self {
        let Some(current) = self.current else { return self };
        if self.parent.is_none() && matches!(name, "apiVersion" | "kind") {
            return Self::default();
        }
        Self { current: current.field(name), parent: Some(current) }
    }

    /// The correlation of an item; `keyed` are the old items.
    pub(super) fn item(self, new: &'a Json, keyed: Option<&Keyed<'a>>) -> Self {
        let Some(current) = self.current else { return self };
        Self { current: current.item(new, keyed), parent: Some(current) }
    }

    /// Returns true if an update may keep an invalid value, because the update did not change the value (`shouldRatchetError`).
    pub(super) fn is_unchanged(self) -> bool {
        self.current.or(self.parent).is_some_and(Correlated::is_unchanged)
    }
}

impl<'a> Correlated<'a> {
    fn field(self, name: &str) -> Option<Self> {
        let (new, old) = (self.new.as_object()?.get(name)?, self.old.as_object()?.get(name)?);
        let property = self.schema.get("properties").and_then(|properties| properties.get(name));
        let values = || self.schema.get("additionalProperties").filter(|values| values.is_object());
        Some(Self { new, old, schema: property.or_else(values)? })
    }

    fn item(self, new: &'a Json, keyed: Option<&Keyed<'a>>) -> Option<Self> {
        Some(Self { new, old: keyed?.get(new)?, schema: self.schema.get("items")? })
    }

    /// Compares the value with the old one. The items of a list with keys may be in another order (`CachedDeepEqual`).
    fn is_unchanged(self) -> bool {
        match (self.new, self.old) {
            (Json::Array(new), Json::Array(old)) => {
                let keyed = Keyed::of(self.schema, self.old);
                new.len() == old.len()
                    && match &keyed {
                        Some(keyed) => {
                            new.iter().all(|new| self.item(new, Some(keyed)).is_some_and(Self::is_unchanged))
                        }
                        None => new == old,
                    }
            }
            (Json::Object(new), Json::Object(old)) => {
                new.len() == old.len() && new.keys().all(|name| self.field(name).is_some_and(Self::is_unchanged))
            }
            (new, old) => new == old,
        }
    }
}

impl<'a> Keyed<'a> {
    /// The items of an old list; `None` if the list has no keys.
    pub(super) fn of(schema: &'a Json, old: &'a Json) -> Option<Self> {
        if schema.get("x-kubernetes-list-type")?.as_str()? != "map" {
            return None;
        }
        let keys: Vec<_> =
            schema.get("x-kubernetes-list-map-keys")?.as_array()?.iter().filter_map(Json::as_str).collect();
        let items = old.as_array()?.iter().filter_map(|item| Some((key(item, &keys)?, item)));
        Some(Self { items: items.collect(), keys })
    }

    /// The old item with the keys of the new one.
    pub(super) fn get(&self, new: &Json) -> Option<&'a Json> {
        self.items.get(&key(new, &self.keys)?).copied()
    }
}

fn key(item: &Json, keys: &[&str]) -> Option<String> {
    let item = item.as_object()?;
    let values: Vec<_> = keys.iter().map(|key| item.get(*key).unwrap_or(&Json::Null)).collect();
    serde_json::to_string(&values).ok()
}
