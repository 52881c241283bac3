//! Merging by the types of fields (`typed.mergingWalker`): applies an apply configuration to an object.

mod element;
mod node;
mod validate;

pub use element::{Element, element};
pub use node::{Atom, FieldType, Items, ListType, MapType, Node, Scalar};
pub use validate::validate;

use serde_json::{Map, Value as Json};
use std::collections::{HashMap, HashSet};

/// Merges a patch into a value. Both are of the node's type.
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
        // A null removes no map or list whose items have owners of their own.
        (Json::Object(before), Json::Null)
            if !before.is_empty() && atom.map.as_ref().is_some_and(|map| !map.is_atomic) =>
        {
            Json::Object(before)
        }
        (Json::Array(before), Json::Null)
            if !before.is_empty() && atom.list.as_ref().is_some_and(|list| !matches!(list.items, Items::Atomic)) =>
        {
            Json::Array(before)
        }
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

/// Merges two lists. Items of both keep the patch's order, other items stay in place.
fn merge_items(list: &ListType<'_>, before: Vec<Json>, patch: Vec<Json>) -> Vec<Json> {
    let named = |items: Vec<Json>| -> Vec<(Option<String>, Json)> {
        items.into_iter().map(|item| (element(list, &item).ok().map(|element| element.field()), item)).collect()
    };
    let (before, patch) = (named(before), named(patch));
    let in_patch: HashSet<_> = patch.iter().map(|(element, _)| element).collect();
    // An item that occurs several times is not merged.
    let mut in_before: HashMap<_, Option<&Json>> = HashMap::new();
    for (element, item) in &before {
        in_before.entry(element).and_modify(|one| *one = None).or_insert(Some(item));
    }
    let mut shared = patch.iter().map(|(element, _)| element).filter(|element| in_before.contains_key(element));
    let mut next_shared = shared.next();
    let mut merged = HashSet::new();
    let mut items = Vec::with_capacity(before.len().max(patch.len()));
    let with_old = |element: &Option<String>, item: &Json| match in_before.get(element).copied().flatten() {
        Some(old) => merge(list.element, old.clone(), item.clone()),
        None => item.clone(),
    };
    let (mut left, mut right) = (0, 0);
    while left < before.len() || right < patch.len() {
        if let (Some((old, _)), Some((new, item))) = (before.get(left), patch.get(right)) {
            if old == new {
                merged.insert(new);
                items.push(with_old(new, item));
                left += 1;
                right += 1;
                next_shared = shared.next();
                continue;
            }
            if in_patch.contains(old) && next_shared.is_some_and(|next| next != old) {
                // The item is in both lists, but is not the next one that the lists share.
                left += 1;
                continue;
            }
        }
        if let Some((old, item)) = before.get(left) {
            if !in_patch.contains(old) {
                items.push(item.clone());
                left += 1;
                continue;
            }
            if merged.contains(old) {
                left += 1;
            }
        }
        if let Some((new, item)) = patch.get(right) {
            merged.insert(new);
            items.push(with_old(new, item));
            right += 1;
            if next_shared == Some(new) {
                next_shared = shared.next();
            }
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::GroupVersionKind;
    use serde_json::json;
    use std::time::{Duration, Instant};

    #[test]
    fn null_takes_away_only_what_is_owned_as_a_whole() {
        let node = Node::built_in(&GroupVersionKind::new("", "v1", "Pod")).unwrap();
        let pod = json!({
            "metadata": {"labels": {"a": "b"}},
            "spec": {"nodeSelector": {"a": "b"}, "hostname": "h", "volumes": [], "containers": [{"name": "c", "args": ["x"]}]},
        });
        let patch = json!({
            "metadata": {"labels": null},
            "spec": {"nodeSelector": null, "hostname": null, "volumes": null, "containers": null},
        });
        let expected = json!({
            "metadata": {"labels": {"a": "b"}},
            "spec": {"nodeSelector": null, "hostname": null, "volumes": null, "containers": [{"name": "c", "args": ["x"]}]},
        });
        assert_eq!(merge(node, pod.clone(), patch), expected);
        assert_eq!(merge(node, pod.clone(), json!({"metadata": null, "spec": null})), pod);
        let of_container = json!({"spec": {"containers": [{"name": "c", "args": null}]}});
        assert_eq!(merge(node, pod, of_container)["spec"]["containers"][0]["args"], Json::Null);
    }

    #[test]
    fn long_lists_do_not_take_long() {
        let node = Node::built_in(&GroupVersionKind::new("", "v1", "Pod")).unwrap();
        let pod = |image: &str, names: &mut dyn Iterator<Item = usize>| {
            let containers: Vec<_> = names.map(|at| json!({"name": at.to_string(), "image": image})).collect();
            json!({"spec": {"containers": containers}})
        };
        let (before, patch) = (pod("1", &mut (0..20_000)), pod("2", &mut (10_000..30_000).rev()));
        let began = Instant::now();
        let merged = merge(node, before, patch);
        assert_eq!(merged["spec"]["containers"].as_array().map(Vec::len), Some(30_000));
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    }
}
