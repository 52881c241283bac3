//! Removes the fields that a manager applied before and applies no more (`merge.Updater.prune`).

use super::Change;
use super::entries::Entry;
use super::fields::{self, with_named};
use super::set::Set;
use super::versions::{InVersion, VersionConverter};
use crate::merge::Node;
use serde_json::Value;

impl Change<'_> {
    /// Removes the fields of the manager's last apply, unless `owners` own them. `owners` contain the new apply.
    pub(super) fn pruned<'e>(
        &self,
        merged: Value,
        last: &Entry,
        owners: impl Iterator<Item = &'e Entry>,
        versions: &dyn VersionConverter,
    ) -> Value {
        let own = self.kind.api_version();
        let version = last.api_version.as_str();
        let Some((start, node)) = self.known(versions, &merged, &own, version) else { return merged };
        let pruned = fields::without(node, start.clone(), with_named(node, &last.fields));
        let Some(kept) = self.with_owned(&start, pruned, version, owners, versions) else { return merged };
        // Fields without an owner stay.
        let (all, left) = (named(node, &start), named(node, &kept));
        let last = with_named(node, &last.fields);
        let gone: Set = all.into_iter().filter(|path| !left.contains(path) && last.contains(path)).collect();
        let pruned = fields::without(node, start, gone);
        self.known(versions, &pruned, version, &own).map_or(merged, |(pruned, _)| pruned)
    }

    /// Restores the fields that the owners own, version by version (`Updater.addBackOwnedItems`). `None` if the result cannot be
    /// converted back to its version.
    fn with_owned<'e>(
        &self,
        start: &Value,
        mut pruned: Value,
        version: &str,
        owners: impl Iterator<Item = &'e Entry>,
        versions: &dyn VersionConverter,
    ) -> Option<Value> {
        // The version of the last apply comes first: a conversion may need fields that are pruned.
        let mut by_version: Vec<(&str, Set)> = vec![(version, Set::new())];
        for owner in owners {
            match by_version.iter_mut().find(|(known, _)| *known == owner.api_version) {
                Some((_, owned)) => owned.extend(owner.fields.iter().cloned()),
                None => by_version.push((&owner.api_version, owner.fields.clone())),
            }
        }
        let (mut whole, mut at) = (start.clone(), version);
        for (next, owned) in by_version.into_iter().filter(|(_, owned)| !owned.is_empty()) {
            let converted = |value: &Value| self.known(versions, value, at, next);
            let (Some((whole_next, node)), Some((pruned_next, _))) = (converted(&whole), converted(&pruned)) else {
                continue;
            };
            let (left, owned) = (named(node, &pruned_next), with_named(node, &owned));
            let all = named(node, &whole_next).into_iter();
            let gone: Set = all.filter(|path| !left.contains(path) && !owned.contains(path)).collect();
            pruned = fields::without(node, whole_next.clone(), gone);
            (whole, at) = (whole_next, next);
        }
        self.known(versions, &pruned, at, version).map(|(pruned, _)| pruned)
    }

    fn known<'v>(
        &'v self,
        versions: &'v dyn VersionConverter,
        value: &Value,
        from: &str,
        to: &str,
    ) -> Option<(Value, Node<'v>)> {
        match self.convert(versions, value, from, to) {
            InVersion::Known(value, node) => Some((value, node)),
            InVersion::Missing | InVersion::Unknown => None,
        }
    }
}

fn named(node: Node<'_>, value: &Value) -> Set {
    with_named(node, &fields::of(node, value))
}
