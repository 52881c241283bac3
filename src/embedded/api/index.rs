//! The served custom resources, derived from the stored definitions.

use super::catalog::{self, Group, ServedResource, Subresource};
use super::registrations::{self, API_SERVICES, Registered};
use super::{discovery, openapi};
use crate::cel::Release;
use crate::config::Apis;
use crate::embedded::custom::DEFINITIONS;
use crate::embedded::custom::definition::{Definition, Version};
use crate::embedded::custom::resource::{Custom, VERBS};
use crate::embedded::store::Store;
use crate::kind::GroupVersionKind;
use crate::processor;
use crate::removed::Api;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The verbs of a subresource of a custom resource.
const VERBS_OF_SUBRESOURCE: [&str; 3] = ["get", "patch", "update"];

/// The index of the definitions at one state of the store.
pub(in crate::embedded) struct Index {
    /// The resourceVersion of the newest change of a definition or an APIService.
    revision: u64,
    /// The definitions by name. Definitions whose names are not accepted are left out.
    definitions: BTreeMap<String, Arc<Definition>>,
    /// The served resources by the name of their definition.
    resources: HashMap<String, Vec<Arc<ServedResource>>>,
    /// All groups.
    pub(in crate::embedded) groups: discovery::Groups,
    /// All documents.
    pub(in crate::embedded) openapi: openapi::Documents,
}

/// The number of served custom resources from which on a worker takes too long to write the documents of discovery.
const MANY: usize = 500;

/// The newest index.
pub(in crate::embedded) struct CurrentIndex {
    removed: Vec<&'static Api>,
    /// The built-in APIs that are not served.
    apis: Apis,
    /// The release whose rules expressions follow.
    release: Release,
    newest: Mutex<Arc<Index>>,
    /// The turn of the request that makes the next index: the others wait for that one.
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl CurrentIndex {
    /// An index without definitions.
    pub(in crate::embedded) fn new(removed: &[&'static Api], apis: Apis, release: Release) -> Self {
        let registered = registrations::built_in(&catalog::groups(removed, &apis));
        let index = Index::new(0, BTreeMap::new(), registered, removed, &apis, None);
        Self { removed: removed.to_vec(), apis, release, newest: Mutex::new(Arc::new(index)), turn: Arc::default() }
    }

    /// The index of the store's current definitions and APIServices. A new one is made off the worker: a definition may have many versions.
    pub(in crate::embedded) async fn current(self: &Arc<Self>, store: &Arc<Store>) -> Arc<Index> {
        if let Some(newest) = self.up_to_date(store) {
            return newest;
        }
        let turn = self.turn.clone().lock_owned().await;
        if let Some(newest) = self.up_to_date(store) {
            return newest;
        }
        let (index, store) = (self.clone(), store.clone());
        processor::beside_workers(move || {
            // Even if the client leaves, no second index is made beside this one.
            let _turn = turn;
            index.renew(&store)
        })
        .await
    }

    fn newest(&self) -> MutexGuard<'_, Arc<Index>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest index, unless a definition or an APIService has changed since.
    fn up_to_date(&self, store: &Store) -> Option<Arc<Index>> {
        let newest = self.newest().clone();
        let changed = store.with(|state| state.changed(DEFINITIONS).max(state.changed(API_SERVICES)));
        (changed <= newest.revision).then_some(newest)
    }

    /// Makes the index of the current state, and the documents of discovery if they are long.
    fn renew(&self, store: &Store) -> Arc<Index> {
        let before = self.newest().clone();
        let (revision, definitions, registered) = store.with(|state| {
            let revision = state.changed(DEFINITIONS).max(state.changed(API_SERVICES));
            (revision, state.slots(DEFINITIONS, ""), state.slots(API_SERVICES, ""))
        });
        let registered = registered.into_iter().map(|(_, slot)| Registered::of(&slot.object())).collect();
        let definitions = definitions.into_iter().filter_map(|(name, slot)| {
            let object = slot.object();
            let before = before.definitions.get(&name);
            match before.filter(|before| Arc::ptr_eq(&before.object, &object)) {
                Some(unchanged) => Some((name, unchanged.clone())),
                None => {
                    let definition = Definition::new(&object, self.release, before.map(|before| &**before))?;
                    Some((name, Arc::new(definition)))
                }
            }
        });
        let definitions = definitions.collect();
        let index = Arc::new(Index::new(revision, definitions, registered, &self.removed, &self.apis, Some(&*before)));
        if index.resources.values().map(Vec::len).sum::<usize>() > MANY {
            index.groups.prepare();
        }
        *self.newest() = index.clone();
        index
    }
}

impl Index {
    fn new(
        revision: u64,
        definitions: BTreeMap<String, Arc<Definition>>,
        registered: Vec<Registered>,
        removed: &[&'static Api],
        apis: &Apis,
        before: Option<&Self>,
    ) -> Self {
        let mut groups = catalog::groups(removed, apis);
        let is_built_in = |group: &str, version: &str| {
            groups
                .iter()
                .any(|known| known.name == *group && known.versions.iter().any(|known| known.version == *version))
        };
        let mut resources: HashMap<String, Vec<Arc<ServedResource>>> = HashMap::new();
        for (name, definition) in &definitions {
            let same = before
                .filter(|before| before.definitions.get(name).is_some_and(|before| Arc::ptr_eq(before, definition)));
            if let Some(same) = same.and_then(|before| before.resources.get(name)) {
                resources.insert(name.clone(), same.clone());
                continue;
            }
            let served = definition.versions.iter().filter(|version| version.is_served);
            let served = served.filter(|version| !is_built_in(&definition.group, &version.name));
            let served: Vec<_> = served.map(|version| Arc::new(self::resource(definition, version))).collect();
            resources.insert(name.clone(), served);
        }
        let all = || definitions.keys().filter_map(|name| resources.get(name)).flatten();
        let custom: Vec<Group> = super::discovery::custom::groups(all());
        let documents = super::openapi::custom::documents(all(), before.map(|before| before.openapi.custom()));
        for group in custom {
            match groups.iter_mut().find(|known| known.name == group.name) {
                Some(known) => known.versions.extend(group.versions),
                None => groups.push(group),
            }
        }
        let openapi = openapi::Documents::new(removed, documents);
        Self { revision, definitions, resources, groups: discovery::Groups::new(groups, registered), openapi }
    }

    /// The resource with this group, version and plural name.
    pub(in crate::embedded) fn resource(
        &self,
        group: &str,
        version: &str,
        plural: &str,
    ) -> Option<&Arc<ServedResource>> {
        self.resources.get(&format!("{plural}.{group}"))?.iter().find(|resource| resource.version == *version)
    }
}

/// The resource of a version of a definition.
fn resource(definition: &Arc<Definition>, version: &Arc<Version>) -> ServedResource {
    let mut subresources = Vec::new();
    let mut add = |name: &'static str, kind: GroupVersionKind| {
        subresources.push(Subresource { name: name.into(), kind, verbs: VERBS_OF_SUBRESOURCE.to_vec() });
    };
    if version.has_status {
        add("status", version.kind.clone());
    }
    if version.scale.is_some() {
        add("scale", GroupVersionKind::new("autoscaling", "v1", "Scale"));
    }
    ServedResource {
        group: definition.group.clone(),
        version: version.name.clone(),
        name: definition.plural.clone(),
        kind: definition.kind.clone(),
        singular: definition.singular.clone(),
        namespaced: definition.is_namespaced,
        short_names: definition.short_names.clone(),
        categories: definition.categories.clone(),
        verbs: VERBS.to_vec(),
        subresources,
        collection: definition.collection(),
        custom: Some(Custom::new(definition, version)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::Server;
    use crate::object::Object;
    use futures_util::FutureExt;
    use futures_util::future::join_all;
    use serde_json::json;

    #[tokio::test]
    async fn one_request_makes_the_index_and_the_others_wait_for_it() {
        let server = Server::new(Arc::default());
        let (index, store) = (&server.index, &server.store);
        let before = index.current(store).await;
        let definition = json!({
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com", "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [{"name": "v1", "served": true, "storage": true}],
            },
            "status": {"acceptedNames": {"plural": "widgets", "kind": "Widget"}},
        });
        store.with(|state| state.put(DEFINITIONS, "widgets.example.com", Object::from_value(definition).unwrap()));
        let turn = index.turn.clone().lock_owned().await;
        let mut waiting = [(); 2].map(|()| Box::pin(index.current(store)));
        assert!(waiting.iter_mut().all(|waiting| waiting.as_mut().now_or_never().is_none()));
        drop(turn);
        let made = join_all(waiting).await;
        assert!(Arc::ptr_eq(&made[0], &made[1]) && !Arc::ptr_eq(&made[0], &before));
        assert!(made[0].revision > before.revision);
        assert!(Arc::ptr_eq(&index.current(store).await, &made[0]));
    }
}
