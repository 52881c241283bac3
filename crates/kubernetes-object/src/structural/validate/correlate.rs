//! The old values that belong to the values of an update (`common.CorrelatedObject`): fields of objects, and the items of lists with keys.

use super::node::{Id, Node};
use serde_json::Value;
use std::collections::HashMap;

/// A value, the old value in its place, and the schema that says how their items belong together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Correlated<'a> {
    pub(super) new: &'a Value,
    pub(super) old: &'a Value,
    pub(super) id: Id,
}

/// The items of an old list.
pub(super) enum Items<'a> {
    /// The items of a list with keys, by their keys.
    Keyed { id: Option<Id>, keys: &'a [Box<str>], old: HashMap<String, &'a Value> },
    /// No item belongs to another.
    Unrelated,
}

impl<'a> Items<'a> {
    /// The item of a list, and the old one.
    pub(super) fn at(&self, item: &'a Value) -> Option<Correlated<'a>> {
        let Self::Keyed { id, keys, old } = self else { return None };
        Some(Correlated { new: item, old: old.get(&key(item, keys)?)?, id: (*id)? })
    }
}

impl<'a> Correlated<'a> {
    fn node(self, nodes: &'a [Node]) -> Option<&'a Node> {
        nodes.get(usize::try_from(self.id).ok()?)
    }

    /// A field of both objects that the schema describes.
    pub(super) fn field(self, nodes: &'a [Node], name: &str) -> Option<Self> {
        let (new, old) = (self.new.as_object()?.get(name)?, self.old.as_object()?.get(name)?);
        Some(Self { new, old, id: self.node(nodes)?.field(name)? })
    }

    /// The items of the old list.
    pub(super) fn items(self, nodes: &'a [Node]) -> Items<'a> {
        let (Some(old), true, Some(node)) = (self.old.as_array(), self.new.is_array(), self.node(nodes)) else {
            return Items::Unrelated;
        };
        if node.list_type.as_deref() != Some("map") {
            return Items::Unrelated;
        }
        let keys = &*node.list_map_keys;
        let mut items = HashMap::new();
        if !keys.is_empty() && node.has_type("array") {
            for item in old {
                if let Some(key) = key(item, keys) {
                    items.entry(key).or_insert(item);
                }
            }
        }
        Items::Keyed { id: node.items, keys, old: items }
    }

    /// Whether an update leaves the value as it was (`CachedDeepEqual`). An object with fields that the schema does not describe counts as
    /// changed; the order of a list with keys does not count.
    pub(super) fn is_unchanged(self, nodes: &'a [Node]) -> bool {
        match (self.new, self.old) {
            (Value::Array(new), Value::Array(old)) => {
                new.len() == old.len()
                    && match self.items(nodes) {
                        Items::Unrelated => new == old,
                        keyed => new.iter().all(|item| keyed.at(item).is_some_and(|item| item.is_unchanged(nodes))),
                    }
            }
            (Value::Object(new), Value::Object(old)) => {
                new.len() == old.len()
                    && new.keys().all(|key| self.field(nodes, key).is_some_and(|field| field.is_unchanged(nodes)))
            }
            (new, old) => new == old,
        }
    }
}

/// The key of an item; `None` if a key field is missing or is no scalar.
fn key(item: &Value, keys: &[Box<str>]) -> Option<String> {
    let mut text = String::new();
    for key in keys {
        let value = item.as_object()?.get(&**key)?;
        if !matches!(value, Value::Bool(_) | Value::Number(_) | Value::String(_)) {
            return None;
        }
        text.push_str(&value.to_string());
        text.push('\0');
    }
    Some(text)
}
