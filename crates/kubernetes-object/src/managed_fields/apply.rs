//! Computes the result of an apply here, for the cases that the upstream API server does not compute (`managedfields.FieldManager.Apply`).

use super::compare::compare;
use super::entries::{self, Entry, Operation};
use super::fields::{self, with_named};
use super::set::Set;
use super::{Change, NOBODYS, reset, without_managed_fields};
use crate::merge::{Node, merge};
use crate::structural::numbers::canonicalize;
use serde_json::{Value, json};

/// The field manager whose applies also change the last-applied annotation of an object that has one (`lastAppliedUpdater`).
const KUBECTL: &str = "kubectl";
const LAST_APPLIED: &str = "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration";

impl Change<'_> {
    /// Returns the live object with the configuration applied, `metadata.managedFields` included. The apply takes ownership from other
    /// managers: the API server has checked for conflicts before. `None` if the result depends on the object in other versions, or on
    /// ownership that is not recorded.
    pub fn applied(&self, live: Option<&Value>, configuration: &Value) -> Option<Value> {
        let (mut entries, before) = match live {
            Some(live) if self.manager == KUBECTL && live.pointer(LAST_APPLIED).is_some() => return None,
            Some(live) => (entries_of(live)?, without_managed_fields(live)),
            None => (Vec::new(), json!({})),
        };
        let mut configuration = configuration.clone();
        // Go writes equal numbers alike in every unstructured object.
        canonicalize(&mut configuration);
        let reset = reset::fields(self.kind, self.subresource, self.has_status);
        let mut own = fields::of(self.schema, &configuration);
        own.retain(|path| !reset.takes(path));
        let mut mine = Entry {
            manager: self.manager.to_owned(),
            operation: Operation::Apply,
            api_version: self.kind.api_version(),
            subresource: self.subresource.to_owned(),
            time: Some(self.now),
            fields: own,
        };
        let last = entries.iter().position(|entry| entry.is_of_the_same_manager_as(&mine));
        let last = last.map(|at| entries.swap_remove(at));
        let mut after = merge(self.schema, before.clone(), configuration);
        if let Some(last) = &last
            && !last.fields.is_subset(&mine.fields)
        {
            let mut versions = entries.iter().chain([last]).map(|entry| &entry.api_version);
            if !versions.all(|version| *version == mine.api_version) {
                return None;
            }
            let owned = entries.iter().chain([&mine]).flat_map(|entry| &entry.fields).cloned().collect();
            after = prune(self.schema, after, &last.fields, &owned);
        }
        let mut changed = compare(self.schema, &before, &after);
        changed.retain(|path| !reset.takes(path));
        for entry in entries.iter_mut().filter(|entry| entry.api_version == mine.api_version) {
            entry.fields.retain(|path| !changed.contains(path));
        }
        mine.fields.retain(|path| !NOBODYS.iter().any(|nobodys| path.iter().eq(nobodys.iter())));
        if after == before {
            mine.time = last.and_then(|last| last.time);
        }
        entries.push(mine);
        entries.retain(|entry| !entry.fields.is_empty());
        entries::cap(&mut entries);
        if let (Some(entries), Some(metadata)) = (entries::encode(entries), after.get_mut("metadata")?.as_object_mut())
        {
            metadata.insert("managedFields".into(), entries);
        }
        Some(after)
    }
}

/// The managedFields entries of a live object; `None` if the object has none.
fn entries_of(live: &Value) -> Option<Vec<Entry>> {
    entries::decode(live.pointer("/metadata/managedFields")?).ok().filter(|entries| !entries.is_empty())
}

/// Removes fields of the manager's last apply that this apply lacks, unless another manager owns them (`Updater.prune`).
fn prune(node: Node<'_>, merged: Value, last: &Set, owned: &Set) -> Value {
    let last = with_named(node, last);
    let all = with_named(node, &fields::of(node, &merged));
    let named_in = |value: &Value| with_named(node, &fields::of(node, value));
    let left = named_in(&fields::without(node, merged.clone(), &last));
    let owned = with_named(node, owned);
    let gone = all.iter().filter(|path| !left.contains(*path) && !owned.contains(*path)).cloned().collect();
    let left = named_in(&fields::without(node, merged.clone(), &gone));
    let gone = all.iter().filter(|path| !left.contains(*path) && last.contains(*path)).cloned().collect();
    fields::without(node, merged, &gone)
}
