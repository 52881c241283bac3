//! Strategic merge of lists, by merge key or, for scalars, by value; and the order of the merged lists.

use super::{DIRECTIVE, Failure, Fields, Place, SET_ORDER, merge_fields, remove_directives, unknown_directive};
use crate::go_text::go_print;
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// Executes every `$setElementOrder/…` of a patch together with the list that it orders, and removes both from the patch
/// (`strategicpatch.mergePatchIntoOriginal`).
pub(super) fn set_orders(original: &mut Fields, patch: &mut Fields, place: Place) -> Result<(), Failure> {
    let directives: Vec<String> = patch.keys().filter(|key| key.starts_with(SET_ORDER)).cloned().collect();
    for directive in directives {
        let order = match patch.remove(&directive) {
            Some(Value::Array(order)) => order,
            Some(other) => return Err(Failure::wrong_type(&Value::Array(Vec::new()), &other)),
            None => continue,
        };
        let key = directive.strip_prefix(SET_ORDER).and_then(|rest| rest.strip_prefix('/'));
        let key = key.ok_or(Failure::Format("setElementOrder list"))?;
        let current = list(original.get(key))?;
        let patched = list(patch.get(key))?;
        let lookup = place.lookup(key)?;
        let items = lookup.items()?;
        let merge_key = lookup.merge_key();
        check_order(patched.unwrap_or_default(), &order, merge_key)?;

        let mut merged = match (current, patched) {
            (None, None) => continue,
            (Some(current), None) => current.to_vec(),
            (None, Some(patched)) => {
                let mut patched = patched.to_vec();
                patched.retain_mut(remove_directives);
                patched
            }
            (Some(current), Some(patched)) if lookup.merges() => {
                merge(current.to_vec(), patched.to_vec(), items, merge_key, false)?
            }
            (Some(_), Some(patched)) => patched.to_vec(),
        };
        let current = current.unwrap_or_default();
        element_kind(&[current, patched.unwrap_or_default()])?;
        merged = arrange(merged, &order, current, merge_key)?;
        patch.remove(key);
        original.insert(key.to_owned(), Value::Array(merged));
    }
    Ok(())
}

fn list(value: Option<&Value>) -> Result<Option<&[Value]>, Failure> {
    match value {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items)),
        Some(other) => Err(Failure::wrong_type(&Value::Array(Vec::new()), other)),
    }
}

/// Merges a patch's list into a list. With `deletes`, the patch lists the items to remove from a list of scalars
/// (`strategicpatch.mergeSlice`).
pub(super) fn merge(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    items: Place,
    merge_key: &str,
    deletes: bool,
) -> Result<Vec<Value>, Failure> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    if element_kind(&[&original, &patch])? == Kind::Scalar {
        if deletes {
            let deleted: HashSet<String> = patch.iter().map(Value::to_string).collect();
            original.retain(|item| !deleted.contains(&item.to_string()));
            return Ok(original);
        }
        let mut seen = HashSet::new();
        let both = original.iter().chain(&patch);
        let merged = both.filter(|item| seen.insert(item.to_string())).cloned().collect();
        return arrange(merged, &patch, &original, merge_key);
    }
    if merge_key.is_empty() {
        return Err(Failure::Other("cannot merge lists without merge key for struct".to_owned()));
    }
    let (original, patch) = carry_out_directives(original, patch, merge_key)?;
    let mut merged = original.clone();
    let mut found = positions(&merged, merge_key);
    for item in &patch {
        let fields = fields(item)?;
        let value = fields.get(merge_key).ok_or_else(|| Failure::no_merge_key(fields, merge_key))?;
        let at = *found.entry(value.to_string()).or_insert(merged.len());
        match merged.get_mut(at) {
            Some(Value::Object(found)) => *found = merge_fields(std::mem::take(found), fields.clone(), items)?,
            _ => merged.push(item.clone()),
        }
    }
    arrange(merged, &patch, &original, merge_key)
}

/// Executes the directives among the patch's items on the list. Returns the list, and the patch without directives.
fn carry_out_directives(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    merge_key: &str,
) -> Result<(Vec<Value>, Vec<Value>), Failure> {
    let mut rest = Vec::with_capacity(patch.len());
    let mut replace = false;
    let mut deleted = HashSet::new();
    for item in patch {
        let Some(directive) = item.get(DIRECTIVE) else {
            rest.push(item);
            continue;
        };
        let fields = fields(&item)?;
        match directive.as_str() {
            Some("delete") => {
                let value = fields.get(merge_key).ok_or_else(|| Failure::no_merge_key(fields, merge_key))?;
                deleted.insert(value.to_string());
            }
            Some("replace") => replace = true,
            Some("merge") => {
                return Err(Failure::Other("merging lists cannot yet be specified in the patch".to_owned()));
            }
            _ => return Err(unknown_directive(directive, fields.clone())),
        }
    }
    if !deleted.is_empty() {
        original.retain(|item| identity(item, merge_key).is_none_or(|identity| !deleted.contains(&identity)));
    }
    if replace { Ok((rest, Vec::new())) } else { Ok((original, rest)) }
}

/// Orders the items that `order` names by `order`, and the other items by `current`. `current` decides between an item of each group; new
/// items come first (`strategicpatch.normalizeElementOrder`).
fn arrange(merged: Vec<Value>, order: &[Value], current: &[Value], merge_key: &str) -> Result<Vec<Value>, Failure> {
    if !merge_key.is_empty() {
        for item in merged.iter().chain(order).chain(current) {
            let fields = fields(item)?;
            if !fields.contains_key(merge_key) {
                return Err(Failure::no_merge_key(fields, merge_key));
            }
        }
    }
    let order = positions(order, merge_key);
    let current = positions(current, merge_key);
    let mut named = Vec::new();
    let mut others = Vec::new();
    for item in merged {
        let identity = identity(&item, merge_key).unwrap_or_default();
        let here = current.get(&identity).copied();
        match order.get(&identity) {
            Some(position) => named.push((*position, here, item)),
            None => others.push((here, item)),
        }
    }
    named.sort_by_key(|(position, ..)| *position);
    others.sort_by_key(|(here, _)| *here);

    let mut arranged = Vec::with_capacity(named.len() + others.len());
    let mut others = others.into_iter().peekable();
    for (_, here, item) in named {
        let comes_first = |other: Option<usize>| matches!((other, here), (Some(other), Some(here)) if other < here);
        while let Some((_, other)) = others.next_if(|(other, _)| comes_first(*other)) {
            arranged.push(other);
        }
        arranged.push(item);
    }
    arranged.extend(others.map(|(_, item)| item));
    Ok(arranged)
}

/// The identity of an item as JSON text: its merge key's value or, without a merge key, the item itself.
fn identity(item: &Value, merge_key: &str) -> Option<String> {
    if merge_key.is_empty() { Some(item.to_string()) } else { item.get(merge_key).map(Value::to_string) }
}

/// The first position of each identity.
fn positions(items: &[Value], merge_key: &str) -> HashMap<String, usize> {
    let mut positions = HashMap::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        if let Some(identity) = identity(item, merge_key) {
            positions.entry(identity).or_insert(at);
        }
    }
    positions
}

/// Rejects a patch's list that contradicts the order in the patch (`strategicpatch.validatePatchWithSetOrderList`).
fn check_order(patch: &[Value], order: &[Value], merge_key: &str) -> Result<(), Failure> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut rest = order.iter();
    for item in patch {
        if item.get(DIRECTIVE).is_some() {
            continue;
        }
        let mut found = false;
        for other in rest.by_ref() {
            found = if merge_key.is_empty() {
                item == other
            } else {
                value_at(item, merge_key)? == value_at(other, merge_key)?
            };
            if found {
                break;
            }
        }
        if !found {
            let (patch, order) = (go_print(&Value::Array(patch.to_vec())), go_print(&Value::Array(order.to_vec())));
            let why = format!("The order in patch list:\n{patch}\n doesn't match {SET_ORDER} list:\n{order}\n");
            return Err(Failure::Other(why));
        }
    }
    Ok(())
}

fn value_at<'a>(item: &'a Value, merge_key: &str) -> Result<&'a Value, Failure> {
    let fields = fields(item)?;
    fields.get(merge_key).ok_or_else(|| Failure::no_merge_key(fields, merge_key))
}

fn fields(item: &Value) -> Result<&Fields, Failure> {
    item.as_object().ok_or_else(|| Failure::wrong_type(&Value::Object(Fields::new()), item))
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Object,
    Scalar,
}

/// The kind of the lists' items, which must be of one type (`strategicpatch.sliceElementType`).
fn element_kind(lists: &[&[Value]]) -> Result<Kind, Failure> {
    let mut items = lists.iter().flat_map(|list| list.iter());
    let Some(first) = items.next() else {
        return Err(Failure::Other("no elements in any of the given slices".to_owned()));
    };
    let kind = match first {
        Value::Array(_) => return Err(Failure::ListOfLists),
        // kube-apiserver panics here.
        Value::Null => return Err(Failure::Other("null in a list that is merged".to_owned())),
        Value::Object(_) => Kind::Object,
        _ => Kind::Scalar,
    };
    if items.any(|item| super::reflected(item) != super::reflected(first)) {
        let lists: Vec<_> = lists.iter().map(|list| go_print(&Value::Array(list.to_vec()))).collect();
        return Err(Failure::Other(format!("list element types are not identical: [{}]", lists.join(" "))));
    }
    Ok(kind)
}
