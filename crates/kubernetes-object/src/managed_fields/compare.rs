//! Compares two objects by the list and map types of their schema (`typed.compareWalker`).

use super::set::{Path, Set};
use crate::merge::{Items, ListType, MapType, Node, element};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The granularity of a value's ownership.
enum Atom<'s> {
    /// A value that is owned as a whole.
    Leaf,
    /// A map whose fields are owned separately.
    Map(MapType<'s>),
    /// A list whose items are owned separately, with their fields.
    List(ListType<'s>),
}

fn atom<'s>(node: Node<'s>, value: Option<&Value>) -> Atom<'s> {
    let atom = node.atom();
    match value {
        Some(Value::Object(_)) => match atom.map {
            Some(map) if !map.is_atomic => Atom::Map(map),
            _ => Atom::Leaf,
        },
        Some(Value::Array(_)) => match atom.list {
            Some(list) if !matches!(list.items, Items::Atomic) => Atom::List(list),
            _ => Atom::Leaf,
        },
        _ => Atom::Leaf,
    }
}

/// The paths that differ between two objects.
#[derive(Debug, Default)]
pub(super) struct Changed {
    removed: Set,
    /// Added or modified paths. Ownership makes no difference between the two.
    kept: Set,
}

impl Changed {
    pub(super) fn retain(&mut self, keep: impl Fn(&Path) -> bool) {
        self.removed.retain(&keep);
        self.kept.retain(&keep);
    }

    pub(super) fn contains(&self, path: &Path) -> bool {
        self.removed.contains(path) || self.kept.contains(path)
    }

    /// The added and modified paths.
    pub(super) fn kept(&self) -> &Set {
        &self.kept
    }

    /// The added and modified paths.
    pub(super) fn into_kept(self) -> Set {
        self.kept
    }
}

pub(super) fn compare(schema: Node<'_>, old: &Value, new: &Value) -> Changed {
    let mut walk = Walk { path: Path::new(), changed: Changed::default() };
    walk.compare(schema, Some(old), Some(new));
    walk.changed
}

struct Walk {
    path: Path,
    changed: Changed,
}

impl Walk {
    fn compare(&mut self, node: Node<'_>, old: Option<&Value>, new: Option<&Value>) {
        // Null has every type.
        let kind = new.filter(|new| !new.is_null()).or(old);
        let was_left = match atom(node, kind) {
            Atom::Leaf => self.leaf(old, new),
            Atom::Map(map) => {
                let (old_fields, new_fields) = (fields(old), fields(new));
                match old_fields.is_none_or(Map::is_empty) && new_fields.is_none_or(Map::is_empty) {
                    true => self.leaf(old, new),
                    false => self.map(&map, old_fields, new_fields),
                }
            }
            Atom::List(list) => self.list(&list, old, new),
        };
        if was_left {
            return;
        }
        match (old, new) {
            (None, _) => self.changed.kept.insert(self.path.clone()),
            (_, None) => self.changed.removed.insert(self.path.clone()),
            _ => false,
        };
    }

    /// Compares two values as a whole. Always returns true: the comparison is complete.
    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) -> bool {
        match (old, new) {
            (_, None) => drop(self.changed.removed.insert(self.path.clone())),
            (old, new) if old != new => drop(self.changed.kept.insert(self.path.clone())),
            _ => {}
        }
        true
    }

    fn map(&mut self, of: &MapType<'_>, old: Option<&Map<String, Value>>, new: Option<&Map<String, Value>>) -> bool {
        let keys: BTreeSet<&String> = old.into_iter().chain(new).flat_map(Map::keys).collect();
        for key in keys {
            let (old, new) = (old.and_then(|map| map.get(key)), new.and_then(|map| map.get(key)));
            self.below(format!("f:{key}"), |walk| walk.compare(of.field(key).node(), old, new));
        }
        false
    }

    fn list(&mut self, of: &ListType<'_>, old: Option<&Value>, new: Option<&Value>) -> bool {
        let (old_items, new_items) = (items(old), items(new));
        if old_items.is_empty() && new_items.is_empty() {
            return self.leaf(old, new);
        }
        let mut by_element: BTreeMap<String, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for value in old_items {
            if let Ok(element) = element(of, value) {
                by_element.entry(element.field()).or_default().0.push(value);
            }
        }
        for value in new_items {
            if let Ok(element) = element(of, value) {
                by_element.entry(element.field()).or_default().1.push(value);
            }
        }
        for (element, (old, new)) in by_element {
            self.below(element, |walk| walk.items(of.element, &old, &new));
        }
        false
    }

    /// Compares items with one key: at most one on each side, unless the list has duplicates, which are owned as a whole.
    fn items(&mut self, node: Node<'_>, old: &[&Value], new: &[&Value]) {
        match (old, new) {
            ([] | [_], [] | [_]) => self.compare(node, old.first().copied(), new.first().copied()),
            ([_, _, ..], [_, _, ..]) => {
                if old != new {
                    self.changed.kept.insert(self.path.clone());
                }
            }
            ([_, _, ..], _) => {
                if let Some(new) = new.first() {
                    self.compare(node, None, Some(new));
                }
                self.changed.removed.insert(self.path.clone());
            }
            _ => {
                if let Some(old) = old.first() {
                    self.compare(node, Some(old), None);
                }
                self.changed.kept.insert(self.path.clone());
            }
        }
    }

    fn below(&mut self, element: String, walk: impl FnOnce(&mut Self)) {
        self.path.push(element.into());
        walk(self);
        self.path.pop();
    }
}

fn fields(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object)
}

fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}
