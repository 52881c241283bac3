//! Who owns which fields: `metadata.managedFields` as kube-apiserver writes it on create, update and patch
//! (`managedfields.FieldManager.Update`), before admission sees the object, and on an apply that only admission could make
//! a valid one.

mod apply;
mod compare;
mod entries;
mod fields;
mod give_back;
mod own;
mod reset;
mod set;

use crate::kind::GroupVersionKind;
use crate::merge::Node;
use crate::structural::numbers::canonicalize;
use compare::compare;
use entries::{Entry, Operation};
pub use give_back::give_back;
use jiff::Timestamp;
pub use own::owned_as;
use serde_json::Value;

/// The longest name of a manager that is taken from a user agent (`validation.FieldManagerMaxLength`).
const NAME_BYTES: usize = 128;
/// How many steps the paths to all fields of an object may have, which is what their sets take: a body of many fields deep
/// down stands for far more of them than it has bytes.
const MAX_STEPS: usize = 2_000_000;
/// How many bytes the paths of all fields may have together.
const MAX_PATH_BYTES: usize = 64 << 20;
/// What no manager owns (`NewStripMetaManager`).
const NOBODYS: [&[&str]; 11] = [
    &["f:apiVersion"],
    &["f:kind"],
    &["f:metadata"],
    &["f:metadata", "f:name"],
    &["f:metadata", "f:namespace"],
    &["f:metadata", "f:creationTimestamp"],
    &["f:metadata", "f:selfLink"],
    &["f:metadata", "f:uid"],
    &["f:metadata", "f:generation"],
    &["f:metadata", "f:managedFields"],
    &["f:metadata", "f:resourceVersion"],
];

/// A write that is about to change an object.
#[derive(Debug)]
pub struct Change<'a> {
    /// The kind in whose version the write is made.
    pub kind: &'a GroupVersionKind,
    /// What is known of the kind's fields.
    pub schema: Node<'a>,
    /// Whether the kind has a subresource `status`.
    pub has_status: bool,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// Who makes it; see [`manager_name`].
    pub manager: &'a str,
    /// When.
    pub now: Timestamp,
}

/// The name of a manager: `fieldManager` of the options, or the first part of the user agent
/// (`handlers.managerOrUserAgent`).
pub fn manager_name(field_manager: &str, user_agent: &str) -> String {
    if !field_manager.is_empty() {
        return field_manager.to_owned();
    }
    let mut name = String::new();
    for letter in user_agent.split('/').next().unwrap_or_default().chars().filter(|letter| !letter.is_control()) {
        if name.len() + letter.len_utf8() > NAME_BYTES {
            break;
        }
        name.push(letter);
    }
    if name.is_empty() { "unknown".to_owned() } else { name }
}

/// Whether what stands in `metadata.managedFields` can be read (`ValidateManagedFields`).
///
/// # Errors
/// When it cannot, in the words of kube-apiserver where those say what is wrong.
pub fn check(list: &Value) -> Result<(), String> {
    entries::decode(list).map(drop)
}

/// Whether an object has so many fields so deep down that nobody keeps books of them here.
pub fn is_too_large(object: &Value) -> bool {
    !Room { steps: MAX_STEPS, bytes: MAX_PATH_BYTES }.holds(object, 1, 0)
}

/// What the paths of an object's fields may still take, each with the names of all that it is within.
struct Room {
    steps: usize,
    bytes: usize,
}

impl Room {
    /// Whether there is room for what is within a value that stands at a path of so many bytes.
    fn holds(&mut self, value: &Value, depth: usize, path_bytes: usize) -> bool {
        match value {
            Value::Object(fields) => {
                fields.iter().all(|(name, value)| self.takes(value, depth, path_bytes + name.len()))
            }
            Value::Array(items) => items.iter().all(|item| self.takes(item, depth, path_bytes + key_bytes(item))),
            _ => true,
        }
    }

    fn takes(&mut self, value: &Value, depth: usize, path_bytes: usize) -> bool {
        let left = (self.steps.checked_sub(depth), self.bytes.checked_sub(path_bytes));
        let (Some(steps), Some(bytes)) = left else { return false };
        (self.steps, self.bytes) = (steps, bytes);
        self.holds(value, depth + 1, path_bytes)
    }
}

/// The most that an item of a list is called by, written in JSON: what it is, or its keys.
fn key_bytes(item: &Value) -> usize {
    match item {
        Value::Object(fields) => fields.iter().map(|(name, value)| text_bytes(name) + scalar_bytes(value) + 2).sum(),
        item => scalar_bytes(item),
    }
}

fn scalar_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text_bytes(text),
        Value::Number(number) => number.to_string().len(),
        _ => 5,
    }
}

/// The bytes of a string in JSON.
fn text_bytes(text: &str) -> usize {
    let of = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(of).sum::<usize>() + 2
}

impl Change<'_> {
    /// `metadata.managedFields` of `new` once it replaces `old`, none where nobody owns anything; and whether `now` is in
    /// them. On a create `old` is what Go's empty object looks like.
    pub fn managed_fields(&self, old: &Value, new: &Value) -> (Option<Value>, bool) {
        let mut entries = self.entries_before(old, new);
        let is_create = old.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default().is_empty();
        if entries.is_empty() && !is_create {
            // Nobody kept books so far (`skipNonAppliedManager`).
            return (None, false);
        }
        let mut changed = compare(self.schema, &without_managed_fields(old), &without_managed_fields(new));
        let reset = reset::fields(self.kind, self.subresource, self.has_status);
        changed.retain(|path| !reset.takes(path));
        let api_version = self.kind.api_version();
        for entry in &mut entries {
            // Entries of other versions would need both objects in those; they stay as they are.
            if entry.api_version == api_version {
                entry.fields.retain(|path| !changed.contains(path));
            }
        }
        let mut own = changed.into_kept();
        own.retain(|path| !NOBODYS.iter().any(|nobodys| path.iter().eq(nobodys.iter())));
        let is_renewed = !own.is_empty();
        if is_renewed {
            let mine = Entry {
                manager: self.manager.to_owned(),
                operation: Operation::Update,
                api_version,
                subresource: self.subresource.to_owned(),
                time: Some(self.now),
                fields: own,
            };
            match entries.iter_mut().find(|entry| entry.is_of_the_same_manager_as(&mine)) {
                Some(entry) => {
                    entry.fields.extend(mine.fields);
                    entry.time = mine.time;
                }
                None => entries.push(mine),
            }
        }
        entries.retain(|entry| !entry.fields.is_empty());
        entries::cap(&mut entries);
        (entries::encode(entries), is_renewed)
    }

    /// The entries that the write starts with (`decodeLiveOrNew`).
    fn entries_before(&self, old: &Value, new: &Value) -> Vec<Entry> {
        let of = |object: &Value| object.pointer("/metadata/managedFields").cloned().unwrap_or_default();
        let (live, sent) = (of(old), of(new));
        if self.subresource.is_empty() {
            if sent.as_array().is_some_and(|list| matches!(&list[..], [Value::Object(only)] if only.is_empty())) {
                return Vec::new();
            }
            let entries = entries::decode(&sent).unwrap_or_default();
            if !entries.is_empty() {
                return entries;
            }
        }
        entries::decode(&live).unwrap_or_default()
    }
}

/// `metadata.managedFields` of a scale, from those of its parent: who owns the replicas there, at the path that they have
/// in each version (`ScaleHandler.ToSubresource`).
pub fn of_scale<'p>(parent: &Value, replicas: impl Fn(&str) -> Option<&'p str>) -> Option<Value> {
    let mut entries = entries::decode(parent).ok()?;
    entries.retain_mut(|entry| {
        let path = replicas(&entry.api_version).map(|path| path.split('.').filter(|step| !step.is_empty()));
        let is_owner =
            path.is_some_and(|path| entry.fields.contains(&path.map(|step| format!("f:{step}")).collect::<Vec<_>>()));
        entry.api_version = "autoscaling/v1".to_owned();
        entry.fields = [vec!["f:spec".to_owned(), "f:replicas".to_owned()]].into();
        is_owner
    });
    entries::encode(entries)
}

/// As it is compared: without who owns it, and with numbers that are equal written alike.
fn without_managed_fields(object: &Value) -> Value {
    let mut object = object.clone();
    canonicalize(&mut object);
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("managedFields");
    }
    object
}

#[cfg(test)]
mod tests;
