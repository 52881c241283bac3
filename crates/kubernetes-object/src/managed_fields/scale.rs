//! The owners of the replicas of an object, as owners of its scale (`managedfields.ScaleHandler`).

use super::entries::{self, Entry};
use super::set::Path;
use serde_json::Value;

const SCALE_VERSION: &str = "autoscaling/v1";

/// The path of the replicas in a scale.
fn in_scale() -> Path {
    path(".spec.replicas")
}

fn path(text: &str) -> Path {
    text.split('.').filter(|step| !step.is_empty()).map(|step| format!("f:{step}").into()).collect()
}

/// Derives `metadata.managedFields` of a scale from its parent's: the owners of the replicas, which `replicas` locates in each version
/// (`ScaleHandler.ToSubresource`).
pub fn of_scale<'p>(parent: &Value, replicas: impl Fn(&str) -> Option<&'p str>) -> Option<Value> {
    let mut entries = entries::decode(parent).ok()?;
    entries.retain_mut(|entry| {
        let is_owner = replicas(&entry.api_version).is_some_and(|at| entry.fields.contains(&path(at)));
        entry.api_version = SCALE_VERSION.to_owned();
        entry.fields = [in_scale()].into();
        is_owner
    });
    entries::encode(entries)
}

/// Derives `metadata.managedFields` of an object in the version `api_version` from those of its scale after a write
/// (`ScaleHandler.ToParent`). Entries of versions that `replicas` does not know are removed.
pub fn of_scaled<'p>(
    parent: &Value,
    scale: &Value,
    api_version: &str,
    replicas: impl Fn(&str) -> Option<&'p str>,
) -> Option<Value> {
    let (parent, mut scale) = (entries::decode(parent).ok()?, entries::decode(scale).ok()?);
    let mut entries = Vec::new();
    for mut entry in parent.iter().cloned() {
        let Some(at) = replicas(&entry.api_version).map(path) else { continue };
        if entry.fields.contains(&at) {
            // Entries of updates differ in the version, so that kube-apiserver replaces them by new ones.
            match scale.iter().position(|other| entry.is_of_the_same_manager_as(other)) {
                Some(at) => drop(scale.remove(at)),
                None => drop(entry.fields.remove(&at)),
            }
        }
        entries.push(entry);
    }
    for entry in scale.into_iter().filter(|entry| entry.fields.contains(&in_scale())) {
        // kube-apiserver looks for the time among the parent's entries.
        let time = parent.iter().find(|other| entry.is_of_the_same_manager_as(other)).and_then(|other| other.time);
        let fields = [path(replicas(api_version)?)].into();
        entries.push(Entry { api_version: api_version.to_owned(), fields, time, ..entry });
    }
    entries.retain(|entry| !entry.fields.is_empty());
    entries::encode(entries)
}
