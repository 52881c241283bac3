//! The lists of a pod and of presets, merged (`mergeEnv`, `mergeEnvFrom`, `mergeVolumeMounts`, `mergeVolumes`).

use super::preset::Preset;
use crate::object::Object;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::Arc;

const LISTS: [[&str; 2]; 2] = [["spec", "initContainers"], ["spec", "containers"]];

/// The merged `envFrom` of each container, by the container's list and name.
pub(super) type Sources = HashMap<(&'static str, String), Vec<Value>>;

/// The containers of a pod with the environment and the mounts of presets.
#[derive(Debug, Default)]
pub(super) struct Containers {
    /// The containers by the path of their list.
    pub(super) lists: Vec<([&'static str; 2], Vec<Value>)>,
    pub(super) sources: Sources,
}

impl Containers {
    /// Merges all init containers and containers. `None` if an item of a preset conflicts with another item of the same name.
    ///
    /// A container's `envFrom` that still equals the `first` pass's stays: after a conflict the list is empty, and in
    /// Kubernetes a second pass then adds the sources of the presets.
    pub(super) fn merge(pod: &Object, presets: &[Arc<Preset>], first: Option<Sources>) -> Option<Self> {
        let mut merged = Self::default();
        for path in LISTS {
            let mut containers = pod.items(&path).to_vec();
            for container in &mut containers {
                let container = container.as_object_mut()?;
                let of = |field: fn(&Preset) -> &Vec<Value>| presets.iter().flat_map(move |preset| field(preset));
                let env = by_name(list(container, "env"), of(|preset| &preset.env))?;
                let mounts = mounts(list(container, "volumeMounts"), of(|preset| &preset.volume_mounts))?;
                let key = (path[1], text(container.get("name")).to_owned());
                let own = list(container, "envFrom");
                let before = first.as_ref().and_then(|first| first.get(&key)).filter(|before| *before == own);
                let sources = before.cloned().unwrap_or_else(|| env_from(own, of(|preset| &preset.env_from)));
                put(container, "env", env);
                put(container, "volumeMounts", mounts);
                put(container, "envFrom", sources.clone());
                merged.sources.insert(key, sources);
            }
            if !containers.is_empty() {
                merged.lists.push((path, containers));
            }
        }
        Some(merged)
    }
}

/// Appends the items whose name is new. `None` if an item differs from the last one of its name.
pub(super) fn by_name<'a>(own: &'a [Value], added: impl Iterator<Item = &'a Value>) -> Option<Vec<Value>> {
    let mut known: HashMap<&str, &Value> = own.iter().map(|item| (text(item.get("name")), item)).collect();
    let mut merged = own.to_vec();
    for item in added {
        match known.insert(text(item.get("name")), item) {
            None => merged.push(item.clone()),
            Some(found) if found != item => return None,
            Some(_) => {}
        }
    }
    Some(merged)
}

/// Appends the mounts of new volumes. `None` if a mount differs from the last one of its volume, or of its path. Paths are
/// compared as texts.
fn mounts<'a>(own: &'a [Value], added: impl Iterator<Item = &'a Value>) -> Option<Vec<Value>> {
    let path = |mount: &'a Value| text(mount.get("mountPath"));
    let mut by_path: HashMap<&str, &Value> = own.iter().map(|mount| (path(mount), mount)).collect();
    let added: Vec<&Value> = added.collect();
    let merged = by_name(own, added.iter().copied())?;
    for mount in added {
        if by_path.insert(path(mount), mount).is_some_and(|found| found != mount) {
            return None;
        }
    }
    Some(merged)
}

/// Appends the sources that the container does not have. A source that differs from the container's own one empties the list,
/// without an error. Two presets may add the same source.
fn env_from<'a>(own: &'a [Value], added: impl Iterator<Item = &'a Value>) -> Vec<Value> {
    let known: HashMap<[&str; 3], &Value> = own.iter().map(|source| (source_key(source), source)).collect();
    let mut merged = own.to_vec();
    for source in added {
        match known.get(&source_key(source)) {
            None => merged.push(source.clone()),
            Some(found) if *found != source => return Vec::new(),
            Some(_) => {}
        }
    }
    merged
}

/// `envFromMergeKey`
fn source_key(source: &Value) -> [&str; 3] {
    ["/prefix", "/configMapRef/name", "/secretRef/name"].map(|pointer| text(source.pointer(pointer)))
}

fn text(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(container: &'a Map<String, Value>, field: &str) -> &'a [Value] {
    container.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Sets a list of the container. An empty list is omitted, as in the normal form of a pod.
fn put(container: &mut Map<String, Value>, field: &str, items: Vec<Value>) {
    if items.is_empty() {
        container.remove(field);
    } else {
        container.insert(field.to_owned(), items.into());
    }
}
