//! Removes the fields that a manager applied before and applies no more (`merge.Updater.prune`).

use super::Change;
use super::entries::Entry;
use super::fields::{self, with_named};
use super::set::Set;
use super::versions::{InVersion, Unfit, VersionConverter};
use crate::merge::Node;
use serde_json::Value;

impl Change<'_> {
    /// Removes the fields of the manager's last apply, unless `owners` own them. `owners` contain the new apply.
    ///
    /// # Errors
    /// If the object does not fit the schema of an owner's version.
    pub(super) fn pruned<'e>(
        &self,
        merged: Value,
        last: &Entry,
        owners: impl Iterator<Item = &'e Entry>,
        versions: &dyn VersionConverter,
    ) -> Result<Value, Unfit> {
        let own = self.kind.api_version();
        let version = last.api_version.as_str();
        let start = self.known(versions, &merged, &own, version);
        let start = start.map_err(|why| why.during("failed to convert merged object to last applied version"))?;
        let Some((start, node)) = start else { return Ok(merged) };
        let pruned = fields::without(node, start.clone(), with_named(node, &last.fields));
        let kept = self.with_owned(&start, pruned, version, owners, versions);
        let kept = kept.map_err(|why| why.during("failed add back owned items"))?;
        let Some(kept) = kept else { return Ok(merged) };
        // Fields without an owner stay.
        let (all, left) = (named(node, &start), named(node, &kept));
        let last = with_named(node, &last.fields);
        let gone: Set = all.into_iter().filter(|path| !left.contains(path) && last.contains(path)).collect();
        let pruned = fields::without(node, start, gone);
        Ok(self.known(versions, &pruned, version, &own)?.map_or(merged, |(pruned, _)| pruned))
    }

    /// Restores the fields that the owners own, version by version (`Updater.addBackOwnedItems`). `None` if the result cannot be
    /// converted back to its version.
    ///
    /// # Errors
    /// If the object does not fit the schema of an owner's version.
    fn with_owned<'e>(
        &self,
        start: &Value,
        mut pruned: Value,
        version: &str,
        owners: impl Iterator<Item = &'e Entry>,
        versions: &dyn VersionConverter,
    ) -> Result<Option<Value>, Unfit> {
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
            let converted = |value: &Value, what: &str| {
                let known = self.known(versions, value, at, next);
                known.map_err(|why| why.during(format_args!("failed to convert {what} object at version {next}")))
            };
            let (whole_next, pruned_next) = (converted(&whole, "merged")?, converted(&pruned, "pruned")?);
            let (Some((whole_next, node)), Some((pruned_next, _))) = (whole_next, pruned_next) else {
                continue;
            };
            let (left, owned) = (named(node, &pruned_next), with_named(node, &owned));
            let all = named(node, &whole_next).into_iter();
            let gone: Set = all.filter(|path| !left.contains(path) && !owned.contains(path)).collect();
            pruned = fields::without(node, whole_next.clone(), gone);
            (whole, at) = (whole_next, next);
        }
        Ok(self.known(versions, &pruned, at, version)?.map(|(pruned, _)| pruned))
    }

    fn known<'v>(
        &'v self,
        versions: &'v dyn VersionConverter,
        value: &Value,
        from: &str,
        to: &str,
    ) -> Result<Option<(Value, Node<'v>)>, Unfit> {
        match self.convert(versions, value, from, to) {
            InVersion::Known(value, node) => Ok(Some((value, node))),
            InVersion::Unfit(why) => Err(why),
            InVersion::Missing | InVersion::Unknown => Ok(None),
        }
    }
}

fn named(node: Node<'_>, value: &Value) -> Set {
    with_named(node, &fields::of(node, value))
}
