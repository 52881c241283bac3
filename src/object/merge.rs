//! Merging by the types of fields (`typed.mergingWalker`): what an apply configuration makes of an object.

mod element;
mod node;

pub use element::{Element, element};
pub use node::{Atom, FieldType, Items, ListType, MapType, Node, Scalar};

use serde_json::{Map, Value as Json};

/// What a patch makes of a value. Both are of the type.
pub fn merge(node: Node<'_>, before: Json, patch: Json) -> Json {
    let atom = node.atom();
    match (before, patch) {
        (Json::Object(before), Json::Object(patch)) => match atom.map {
            Some(map) if !map.is_atomic && !patch.is_empty() => Json::Object(merge_fields(&map, before, patch)),
            Some(map) if !map.is_atomic && !before.is_empty() => Json::Object(before),
            _ => Json::Object(patch),
        },
        (Json::Array(before), Json::Array(patch)) => match atom.list {
            Some(list) if !matches!(list.items, Items::Atomic) && !patch.is_empty() => {
                Json::Array(merge_items(&list, before, patch))
            }
            Some(list) if !matches!(list.items, Items::Atomic) && !before.is_empty() => Json::Array(before),
            _ => Json::Array(patch),
        },
        (_, patch) => patch,
    }
}

fn merge_fields(map: &MapType<'_>, mut before: Map<String, Json>, patch: Map<String, Json>) -> Map<String, Json> {
    for (name, value) in patch {
        let merged = match (before.remove(&name), map.field(&name)) {
            (Some(old), FieldType::Named(node) | FieldType::Other(node)) => merge(node, old, value),
            _ => value,
        };
        before.insert(name, merged);
    }
    before
}

/// Items that are in both keep the order of the patch, others stay where they are.
fn merge_items(list: &ListType<'_>, before: Vec<Json>, patch: Vec<Json>) -> Vec<Json> {
    let named = |items: Vec<Json>| -> Vec<(Option<Element>, Json)> {
        items.into_iter().map(|item| (element(list, &item).ok(), item)).collect()
    };
    let (before, patch) = (named(before), named(patch));
    let is_in =
        |items: &[(Option<Element>, Json)], element: &Option<Element>| items.iter().any(|(other, _)| other == element);
    let mut shared = patch.iter().map(|(element, _)| element).filter(|element| is_in(&before, element));
    let mut next_shared = shared.next();
    let mut merged: Vec<&Option<Element>> = Vec::new();
    let mut items = Vec::with_capacity(before.len().max(patch.len()));
    // An item that is there several times is none to merge with.
    let with_old = |element: &Option<Element>, item: &Json| {
        let mut old = before.iter().filter(|(other, _)| other == element);
        match (old.next(), old.next()) {
            (Some((_, old)), None) => merge(list.element, old.clone(), item.clone()),
            _ => item.clone(),
        }
    };
    let (mut left, mut right) = (0, 0);
    while left < before.len() || right < patch.len() {
        if let (Some((old, _)), Some((new, item))) = (before.get(left), patch.get(right)) {
            if old == new {
                merged.push(new);
                items.push(with_old(new, item));
                left += 1;
                right += 1;
                next_shared = shared.next();
                continue;
            }
            if is_in(&patch, old) && next_shared.is_some_and(|next| next != old) {
                // Shared, but not the one that comes next.
                left += 1;
                continue;
            }
        }
        if let Some((old, item)) = before.get(left) {
            if !is_in(&patch, old) {
                items.push(item.clone());
                left += 1;
                continue;
            }
            if merged.contains(&old) {
                left += 1;
            }
        }
        if let Some((new, item)) = patch.get(right) {
            merged.push(new);
            items.push(with_old(new, item));
            right += 1;
            if next_shared == Some(new) {
                next_shared = shared.next();
            }
        }
    }
    items
}
