//! Audit annotations that plugins add (`admission.Attributes.AddAnnotation`).

use super::changes::{CHANGED, Changes};
use crate::names::is_qualified_name;
use crate::object::Object;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Mutex, PoisonError};

/// The audit level that an annotation needs to be published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Every audit level from Metadata on.
    #[default]
    Metadata,
    /// The audit levels with request bodies: Request and RequestResponse.
    Request,
}

/// Key, value and level of an annotation.
pub(crate) type Annotation = (String, String, Level);

/// The audit annotations of one phase. Each key keeps its first value.
#[derive(Debug)]
pub(crate) struct Annotations {
    /// The highest level that is published. Annotations above this level are dropped at once, since webhooks may send many.
    published: Option<Level>,
    all: Mutex<BTreeMap<String, (String, Level)>>,
    /// What plugins changed; `None` if nobody reads it.
    changes: Option<Mutex<Changes>>,
}

impl Default for Annotations {
    /// An empty set that publishes every level.
    fn default() -> Self {
        Self::published_up_to(Some(Level::Request))
    }
}

impl Annotations {
    /// An empty set. Annotations above the level `published` are dropped, since they are never written.
    pub(crate) fn published_up_to(published: Option<Level>) -> Self {
        Self { published, all: Mutex::default(), changes: None }
    }

    /// Also records which plugin changes which paths of the object, if `is_wanted` and annotations are published.
    #[must_use]
    pub(crate) fn naming_changes(self, is_wanted: bool) -> Self {
        let changes = (is_wanted && self.published.is_some()).then(Mutex::default);
        Self { changes, ..self }
    }

    /// Whether changes are recorded.
    pub(crate) fn names_changes(&self) -> bool {
        self.changes.is_some()
    }

    /// Records the changes of a plugin, or of one policy of it.
    pub(crate) fn changed(&self, plugin: &'static str, policy: Option<&str>, before: &Object, after: &Object) {
        if let Some(changes) = &self.changes {
            changes.lock().unwrap_or_else(PoisonError::into_inner).add(plugin, policy, before, after);
        }
    }

    /// The recorded changes, as the annotation has them.
    pub(crate) fn changes(&self) -> Option<String> {
        self.changes.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner).text()
    }

    /// Adds the annotation of the changes.
    pub(super) fn publish_changes(&self) {
        if let Some(changes) = self.changes() {
            self.add(CHANGED, changes);
        }
    }

    /// Whether annotations of this level are published.
    pub(crate) fn is_published(&self, level: Level) -> bool {
        self.published.is_some_and(|highest| level <= highest)
    }

    /// Adds an annotation at level Metadata. A key that is not `<dns-prefix>/<name>`, or that already has another value, is
    /// logged and dropped, as kube-apiserver's callers do.
    pub(crate) fn add(&self, key: impl Into<String>, value: impl Into<String>) {
        self.add_with_level(key, value, Level::Metadata);
    }

    /// Adds an annotation that is published from the audit level `level` on.
    pub(crate) fn add_with_level(&self, key: impl Into<String>, value: impl Into<String>, level: Level) {
        if !self.is_published(level) {
            return;
        }
        let (key, value) = (key.into(), value.into());
        // `checkKeyFormat`
        if !(key.contains('/') && is_qualified_name(&key)) {
            tracing::warn!(key, "audit annotation left out: its key must be <dns-prefix>/<name>");
            return;
        }
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        match all.entry(key) {
            Entry::Occupied(there) if there.get().0 != value => {
                let key = there.key();
                tracing::warn!(key, "audit annotation left out: the key has another value already");
            }
            Entry::Occupied(_) => {}
            Entry::Vacant(place) => _ = place.insert((value, level)),
        }
    }

    /// Takes the annotations, sorted by key.
    pub(crate) fn take(&self) -> Vec<Annotation> {
        let all = std::mem::take(&mut *self.all.lock().unwrap_or_else(PoisonError::into_inner));
        all.into_iter().map(|(key, (value, level))| (key, value, level)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_of_a_key_stays() {
        let annotations = Annotations::default();
        annotations.add("a.io/k", "1");
        annotations.add("a.io/k", "2");
        annotations.add("no-prefix", "3");
        annotations.add("a..io/k", "4");
        annotations.add("a.io/k/l", "5");
        assert_eq!(annotations.take(), [("a.io/k".to_owned(), "1".to_owned(), Level::Metadata)]);
    }

    #[test]
    fn annotations_above_the_audit_level_are_left_out() {
        for (published, count) in [(None, 0), (Some(Level::Metadata), 1), (Some(Level::Request), 2)] {
            let annotations = Annotations::published_up_to(published);
            annotations.add("a.io/k", "1");
            annotations.add_with_level("a.io/l", "2", Level::Request);
            assert_eq!(annotations.take().len(), count, "{published:?}");
        }
    }
}
