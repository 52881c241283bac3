//! Field ownership: `metadata.managedFields` as kube-apiserver writes it on create, update and patch (`managedfields.FieldManager.Update`)
//! before admission, and on an apply (`managedfields.FieldManager.Apply`).

mod apply;
mod changes;
mod compare;
mod conflict;
mod entries;
mod fields;
mod give_back;
mod last_applied;
mod own;
mod prune;
mod reset;
mod scale;
mod set;
mod versions;

use crate::go_text::numbers::{canonicalize, is_canonical};
use crate::kind::GroupVersionKind;
use crate::merge::Node;
use entries::{Entry, Operation};
pub use give_back::give_back;
use jiff::Timestamp;
pub use own::owned_as;
pub use scale::{of_scale, of_scaled};
use serde_json::Value;
use set::Path;
use std::borrow::Cow;
pub use versions::{InVersion, OneVersion, Unfit, VersionConverter};

/// The manager of the fields of an object that had no managedFields before its first apply.
const FIRST: &str = "before-first-apply";
/// The number of bytes of a manager name that comes from a user agent (`validation.FieldManagerMaxLength`).
const NAME_BYTES: usize = 128;
/// The number of steps that the paths to all fields of an object may have together, since field sets take memory in proportion to it. A
/// body with many deeply nested fields has far more steps than bytes.
const MAX_STEPS: usize = 2_000_000;
/// The number of bytes that the paths of all fields may have together.
const MAX_PATH_BYTES: usize = 64 << 20;
/// Fields that no manager owns (`NewStripMetaManager`).
const WITHOUT_OWNER: [&[&str]; 11] = [
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

fn has_no_owner(path: &Path) -> bool {
    WITHOUT_OWNER.iter().any(|field| path.iter().map(|element| &**element).eq(field.iter().copied()))
}

/// A write that is about to change an object.
#[derive(Debug)]
pub struct Change<'a> {
    /// The kind; the write is in its version.
    pub kind: &'a GroupVersionKind,
    /// The schema of the kind's fields.
    pub schema: Node<'a>,
    /// Whether the kind has a subresource `status`.
    pub has_status: bool,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// The field manager that writes; see [`manager_name`].
    pub manager: &'a str,
    /// The time of the write.
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

/// The reason why `metadata.managedFields` cannot be decoded, with kube-apiserver's text where that text explains the fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidManagedFields(String);

/// Checks that the value of `metadata.managedFields` can be decoded (`ValidateManagedFields`).
///
/// # Errors
/// If decoding fails.
pub fn check(list: &Value) -> Result<(), InvalidManagedFields> {
    entries::decode(list).map(drop)
}

/// Whether an object has too many, or too deeply nested, fields to compute their managedFields here.
pub fn is_too_large(object: &Value) -> bool {
    !Room { steps: MAX_STEPS, bytes: MAX_PATH_BYTES }.holds(object, 1, 0)
}

/// The steps and bytes that are left for the paths of an object's fields. Each path counts with all its parents.
struct Room {
    steps: usize,
    bytes: usize,
}

impl Room {
    /// Whether the fields within a value fit, if the value's path has `path_bytes` bytes.
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

/// An upper bound of an item's path element in JSON: the item's value, or its keys.
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

/// The number of bytes of a string in JSON.
fn text_bytes(text: &str) -> usize {
    let of = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(of).sum::<usize>() + 2
}

impl Change<'_> {
    /// Returns `metadata.managedFields` of `new` once it replaces `old`, `None` if no field has an owner; and whether they contain `now`.
    /// On a create, `old` is Go's empty object. Entries of other versions stay unchanged.
    pub fn managed_fields(&self, old: &Value, new: &Value) -> (Option<Value>, bool) {
        self.managed_fields_in(old, new, &OneVersion)
    }

    /// As [`Self::managed_fields`], with the object in the versions of all entries.
    pub fn managed_fields_in(
        &self,
        old: &Value,
        new: &Value,
        versions: &dyn VersionConverter,
    ) -> (Option<Value>, bool) {
        let entries = self.entries_before(old, new);
        let is_create = old.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default().is_empty();
        if entries.is_empty() && !is_create {
            // The stored object has no managedFields (`skipNonAppliedManager`).
            return (None, false);
        }
        let (old, new) = (without_managed_fields(old), without_managed_fields(new));
        let after = self.entries_after(entries, &old, &new, versions);
        // They are as large as the objects.
        drop((old, new));
        // `FieldManager.UpdateNoErrors`: an object that does not fit the version of an owner loses all owners.
        after.map_or((None, false), |(entries, is_renewed)| (entries::encode(entries), is_renewed))
    }

    /// `merge.Updater.Update`, and whether the manager's entry has changed.
    ///
    /// # Errors
    /// If a state does not fit the schema of an entry's version.
    fn entries_after(
        &self,
        mut entries: Vec<Entry>,
        old: &Value,
        new: &Value,
        versions: &dyn VersionConverter,
    ) -> Result<(Vec<Entry>, bool), Unfit> {
        self.reconcile(&mut entries, old, versions)?;
        let changes = self.changes(&mut entries, old, new, versions)?;
        changes.release(&mut entries);
        let api_version = self.kind.api_version();
        let mut own = changes.into_changed(&api_version).into_kept();
        own.retain(|path| !has_no_owner(path));
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
        Ok((entries, is_renewed))
    }

    /// The managedFields entries before the write (`decodeLiveOrNew`).
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

/// Prepares an object for comparison: removes its managedFields and writes equal numbers alike. Most new objects need no copy.
fn without_managed_fields(object: &Value) -> Cow<'_, Value> {
    if object.pointer("/metadata/managedFields").is_none() && is_canonical(object) {
        return Cow::Borrowed(object);
    }
    let mut object = copy_but(object, "metadata", |metadata| Some(copy_but(metadata, "managedFields", |_| None)));
    canonicalize(&mut object);
    Cow::Owned(object)
}

/// Copies a value, with the field `name` of an object as `copy` returns it.
fn copy_but(value: &Value, name: &str, copy: impl Fn(&Value) -> Option<Value>) -> Value {
    let Value::Object(fields) = value else { return value.clone() };
    let copied = fields.iter().filter_map(|(field, value)| {
        let value = if field == name { copy(value)? } else { value.clone() };
        Some((field.clone(), value))
    });
    Value::Object(copied.collect())
}

#[cfg(test)]
mod tests;
