//! The paths to the fields of an object, and the removal of fields from an object (`typed.toFieldSetWalker`, `typed.removingWalker`).

use super::set::{self, Path, SELF, Set};
use crate::merge::{Element, FieldType, Items, ListType, MapType, Node, element};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::Arc;

/// The paths to the fields of a value.
pub(super) fn of(node: Node<'_>, value: &Value) -> Set {
    let mut set = Set::new();
    collect(node, value, &mut Path::new(), &mut set);
    set
}

fn collect(node: Node<'_>, value: &Value, path: &mut Path, set: &mut Set) {
    match Granular::of(node, value) {
        Granular::Leaf => drop(set.insert(path.clone())),
        Granular::Map(map, fields) => {
            for (name, value) in fields {
                let (node, is_named) = match map.field(name) {
                    FieldType::Named(node) => (node, true),
                    other => (other.node(), false),
                };
                path.push(format!("f:{name}").into());
                collect(node, value, path, set);
                if !is_named || value.is_null() || value.as_object().is_some_and(Map::is_empty) {
                    set.insert(path.clone());
                }
                path.pop();
            }
        }
        Granular::List(list, items) => {
            let elements: Vec<Option<String>> = items.iter().map(|item| name(&list, item)).collect();
            let mut times: HashMap<&String, usize> = HashMap::new();
            elements.iter().flatten().for_each(|element| *times.entry(element).or_default() += 1);
            for (element, item) in elements.iter().zip(items) {
                let Some(element) = element else { continue };
                path.push(element.as_str().into());
                // Items that occur several times are owned as a whole.
                if times.get(element) == Some(&1) {
                    collect(list.element, item, path, set);
                }
                set.insert(path.clone());
                path.pop();
            }
        }
        Granular::Nothing => {}
    }
}

/// The parts of a value.
enum Granular<'s, 'v> {
    Leaf,
    Map(MapType<'s>, &'v Map<String, Value>),
    List(ListType<'s>, &'v Vec<Value>),
    /// Null, where the type allows a map or a list.
    Nothing,
}

impl<'s, 'v> Granular<'s, 'v> {
    fn of(node: Node<'s>, value: &'v Value) -> Self {
        let atom = node.atom();
        let is_atomic_list = |list: &ListType<'_>| matches!(list.items, Items::Atomic);
        match (value, atom.map, atom.list) {
            (Value::Object(fields), Some(map), _) if !map.is_atomic => Self::Map(map, fields),
            (Value::Array(items), _, Some(list)) if !is_atomic_list(&list) => Self::List(list, items),
            (Value::Null, Some(map), _) if !map.is_atomic => Self::Nothing,
            (Value::Null, None, Some(list)) if atom.scalar.is_none() && !is_atomic_list(&list) => Self::Nothing,
            _ => Self::Leaf,
        }
    }
}

fn name(list: &ListType<'_>, item: &Value) -> Option<String> {
    element(list, item).ok().map(|element: Element| element.field())
}

/// Adds to the set the paths of all fields on the way that the type names (`Set.EnsureNamedFieldsAreMembers`).
pub(super) fn with_named(node: Node<'_>, set: &Set) -> Set {
    let mut all = set.clone();
    let mut last: &[Arc<str>] = &[];
    for path in set {
        let mut node = Some(node);
        // The paths are sorted: the elements shared with the previous path are complete already.
        let shared = path.iter().zip(last).take_while(|(one, other)| one == other).count();
        last = path;
        for (at, element) in path.iter().enumerate() {
            let atom = node.map(Node::atom);
            node = match (element.strip_prefix("f:"), atom) {
                (Some(name), Some(atom)) => match atom.map.map(|map| map.field(name)) {
                    Some(FieldType::Named(node)) => {
                        all.extend(path.get(..=at).filter(|_| at >= shared).map(<[Arc<str>]>::to_vec));
                        Some(node)
                    }
                    Some(FieldType::Other(node)) => Some(node),
                    Some(FieldType::Unknown) | None => None,
                },
                (None, Some(atom)) if element.starts_with("k:") => atom.list.map(|list| list.element),
                _ => None,
            };
        }
    }
    all
}

/// The set with one path for each list or map that has become atomic, instead of the paths below it (`reconcileWithSchemaWalker`);
/// `None` if the set fits the type.
pub(super) fn reconciled(node: Node<'_>, set: &Set) -> Option<Set> {
    if set.iter().all(|path| atomic_length(node, path) == path.len()) {
        return None;
    }
    Some(set.iter().map(|path| path.iter().take(atomic_length(node, path)).cloned().collect()).collect())
}

/// The number of elements of a path up to the first list or map that is owned as a whole.
fn atomic_length(mut node: Node<'_>, path: &Path) -> usize {
    for (at, element) in path.iter().enumerate() {
        let atom = node.atom();
        let next = match (atom.map, atom.list) {
            // Types that are deduced from values are not adapted.
            _ if matches!(node, Node::Deduced) => None,
            (Some(map), _) if map.is_atomic => return at,
            (Some(map), _) => element.strip_prefix("f:").and_then(|name| match map.field(name) {
                FieldType::Named(node) | FieldType::Other(node) => Some(node),
                FieldType::Unknown => None,
            }),
            (None, Some(list)) if atom.scalar.is_none() && matches!(list.items, Items::Atomic) => return at,
            (None, Some(list)) => Some(list.element),
            (None, None) => None,
        };
        match next {
            Some(next) => node = next,
            None => break,
        }
    }
    path.len()
}

/// Removes the values at these paths. A value without remaining parts becomes null.
pub(super) fn without(node: Node<'_>, value: Value, gone: Set) -> Value {
    match set::encode(gone) {
        Value::Object(gone) if !gone.is_empty() => take_out(node, value, &gone),
        _ => value,
    }
}

fn take_out(node: Node<'_>, value: Value, gone: &Map<String, Value>) -> Value {
    let atom = node.atom();
    // The rest of a child; `None` if the whole child is removed.
    let child = |element: &str, node: Node<'_>, value: Value| match gone.get(element).and_then(Value::as_object) {
        None => Some(value),
        Some(below) if below.is_empty() || below.contains_key(SELF) => None,
        Some(below) => Some(take_out(node, value, below)),
    };
    match (value, atom.map, atom.list) {
        (Value::Object(fields), Some(map), _) if !map.is_atomic => {
            let left = fields.into_iter().filter_map(|(name, value)| {
                let left = child(&format!("f:{name}"), map.field(&name).node(), value)?;
                Some((name, left))
            });
            let left: Map<String, Value> = left.collect();
            if left.is_empty() { Value::Null } else { Value::Object(left) }
        }
        (Value::Array(items), _, Some(list)) if !matches!(list.items, Items::Atomic) => {
            let left = items.into_iter().filter_map(|item| match name(&list, &item) {
                Some(element) => child(&element, list.element, item),
                None => Some(item),
            });
            let left: Vec<Value> = left.collect();
            if left.is_empty() { Value::Null } else { Value::Array(left) }
        }
        (Value::Object(_) | Value::Array(_), ..) => Value::Null,
        (scalar, ..) => scalar,
    }
}
