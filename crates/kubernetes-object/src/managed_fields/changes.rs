//! The effect of a write on the owners of an object's fields (`merge.Updater.update`).

use super::compare::{Changed, compare};
use super::conflict::Conflict;
use super::entries::Entry;
use super::versions::{InVersion, Unfit, VersionConverter};
use super::{Change, fields, reset};
use serde_json::Value;

/// The paths that differ between two states of an object, in each version that an entry has.
pub(super) struct Changes {
    by_version: Vec<(String, Changed)>,
}

impl Change<'_> {
    /// Compares two states of the object. Removes entries of versions that the API server does not have.
    ///
    /// # Errors
    /// If a state does not fit the schema of an entry's version.
    pub(super) fn changes(
        &self,
        entries: &mut Vec<Entry>,
        before: &Value,
        after: &Value,
        versions: &dyn VersionConverter,
    ) -> Result<Changes, Unfit> {
        let own = self.kind.api_version();
        let reset = reset::fields(self.kind, self.subresource, self.has_status);
        let without_reset = |mut changed: Changed| {
            changed.retain(|path| !reset.takes(path));
            changed
        };
        let mut changes =
            Changes { by_version: vec![(own.clone(), without_reset(compare(self.schema, before, after)))] };
        let mut unfit = None;
        entries.retain(|entry| {
            let version = &entry.api_version;
            if changes.of(version).is_some() {
                return true;
            }
            match (self.convert(versions, before, &own, version), self.convert(versions, after, &own, version)) {
                (InVersion::Known(before, node), InVersion::Known(after, _)) => {
                    let changed = without_reset(compare(node, &before, &after));
                    changes.by_version.push((version.clone(), changed));
                    true
                }
                (InVersion::Missing, _) | (_, InVersion::Missing) => false,
                (InVersion::Unfit(why), _) => {
                    unfit.get_or_insert(why.during("failed to convert old object"));
                    true
                }
                (_, InVersion::Unfit(why)) => {
                    unfit.get_or_insert(why.during("failed to convert new object"));
                    true
                }
                (InVersion::Unknown, _) | (_, InVersion::Unknown) => true,
            }
        });
        unfit.map_or(Ok(changes), Err)
    }

    /// Adapts entries to lists and maps that have become atomic (`ReconcileFieldSetWithSchema`). Removes entries of versions that
    /// the API server does not have.
    ///
    /// # Errors
    /// If the object does not fit the schema of an entry's version.
    pub(super) fn reconcile(
        &self,
        entries: &mut Vec<Entry>,
        live: &Value,
        versions: &dyn VersionConverter,
    ) -> Result<(), Unfit> {
        let own = self.kind.api_version();
        let mut unfit = None;
        entries.retain_mut(|entry| {
            let in_version = match entry.api_version == own {
                true => InVersion::Known(Value::Null, self.schema),
                false => self.convert(versions, live, &own, &entry.api_version),
            };
            match in_version {
                InVersion::Known(_, node) => {
                    if let Some(reconciled) = fields::reconciled(node, &entry.fields) {
                        entry.fields = reconciled;
                    }
                    true
                }
                InVersion::Missing => false,
                InVersion::Unfit(why) => {
                    unfit.get_or_insert(why);
                    true
                }
                InVersion::Unknown => true,
            }
        });
        unfit.map_or(Ok(()), Err)
    }
}

impl Changes {
    fn of(&self, version: &str) -> Option<&Changed> {
        self.by_version.iter().find(|(known, _)| known == version).map(|(_, changed)| changed)
    }

    /// The changed fields that these managers own. A removed field conflicts with no manager.
    pub(super) fn conflicts(&self, entries: &[Entry]) -> Vec<Conflict> {
        let mut conflicts = Vec::new();
        for entry in entries {
            let Some(changed) = self.of(&entry.api_version) else { continue };
            let owned = entry.fields.intersection(changed.kept());
            conflicts.extend(owned.map(|path| Conflict::new(entry, path.clone())));
        }
        conflicts.sort_by(Conflict::order);
        conflicts
    }

    /// Removes the changed fields from all entries.
    pub(super) fn release(&self, entries: &mut [Entry]) {
        for entry in entries {
            if let Some(changed) = self.of(&entry.api_version) {
                entry.fields.retain(|path| !changed.contains(path));
            }
        }
    }

    /// The changed fields in this version.
    pub(super) fn into_changed(self, version: &str) -> Changed {
        self.by_version.into_iter().find(|(known, _)| known == version).map(|(_, changed)| changed).unwrap_or_default()
    }
}
