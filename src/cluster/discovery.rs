//! Discovery: the kind, the scope and the subresources of each resource of the upstream API server.
//!
//! The table is fetched at the start, after changes of CustomResourceDefinitions or APIServices, after a lookup of an unknown
//! resource, and periodically. A lookup of a known resource neither waits nor calls the API server.

mod fetch;
mod parse;
mod refresh;

use crate::config::Limits;
use crate::kind::GroupVersionKind;
use crate::upstream::SharedTransport;
use arc_swap::ArcSwap;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{Notify, watch};
use tokio_util::task::AbortOnDropHandle;

/// One resource of one group and version in discovery.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Resource {
    /// The kind of the objects. Group and version may differ from the URL's (`pods/eviction`).
    pub(crate) kind: GroupVersionKind,
    /// Whether the resource is namespaced.
    pub(crate) namespaced: bool,
    /// The verbs: `create`, `get`, …
    pub(crate) verbs: Vec<String>,
    /// The subresources by name.
    pub(crate) subresources: HashMap<String, Subresource>,
}

/// A subresource in discovery.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Subresource {
    /// The kind of the body.
    pub(crate) kind: GroupVersionKind,
    /// The verbs: `create`, `get`, …
    pub(crate) verbs: Vec<String>,
}

/// The options kinds of the subresources that connect (`rest.Connecter`) instead of storing an object.
const CONNECT_KINDS: [&str; 6] = [
    "PodExecOptions",
    "PodAttachOptions",
    "PodPortForwardOptions",
    "PodProxyOptions",
    "ServiceProxyOptions",
    "NodeProxyOptions",
];

impl Subresource {
    /// Whether requests for the subresource are connections (exec, attach, portforward, proxy), which are admitted as CONNECT,
    /// whatever their method.
    pub(crate) fn is_connect(&self) -> bool {
        self.kind.group.is_empty() && CONNECT_KINDS.contains(&&*self.kind.kind)
    }
}

/// The resources of one group and version, by plural name.
type GroupVersion = HashMap<String, Arc<Resource>>;

/// The known resources by group and version.
#[derive(Debug, Default, PartialEq)]
struct Table(HashMap<String, HashMap<String, GroupVersion>>);

impl Table {
    fn find(&self, group: &str, version: &str, resource: &str) -> Option<&Arc<Resource>> {
        self.0.get(group)?.get(version)?.get(resource)
    }
}

/// The API server's discovery, cached and refreshed.
pub struct Discovery {
    shared: Arc<Shared>,
    limits: Arc<Limits>,
    // Dropping the value aborts the tasks. Without tasks, the table never changes.
    tasks: Vec<AbortOnDropHandle<()>>,
}

/// State that lookups share with the refreshing task.
struct Shared {
    table: ArcSwap<Table>,
    /// The number of refreshes that began.
    begun: AtomicU64,
    /// The number of the last refresh that ended, whether it succeeded or failed.
    ended: watch::Sender<u64>,
    synced: watch::Sender<bool>,
    /// Notified when an unknown resource is looked up.
    wanted: Notify,
    /// Notified when a CustomResourceDefinition or APIService changes.
    changed: Notify,
}

impl Shared {
    fn new(table: Table, synced: bool) -> Arc<Self> {
        Arc::new(Self {
            table: ArcSwap::from_pointee(table),
            begun: AtomicU64::new(0),
            ended: watch::Sender::new(0),
            synced: watch::Sender::new(synced),
            wanted: Notify::new(),
            changed: Notify::new(),
        })
    }
}

impl Discovery {
    /// Starts fetching through `transport`, which sends requests as the proxy itself, and watching changes through `client`.
    /// Both tasks end when the value is dropped. Must be called on a tokio runtime.
    pub fn start(transport: SharedTransport, client: kube::Client, limits: Arc<Limits>) -> Arc<Self> {
        let shared = Shared::new(Table::default(), false);
        let tasks = vec![
            AbortOnDropHandle::new(tokio::spawn(refresh::run(shared.clone(), transport, limits.clone()))),
            AbortOnDropHandle::new(tokio::spawn(refresh::follow_definitions(
                shared.clone(),
                client.clone(),
                limits.clone(),
            ))),
            AbortOnDropHandle::new(tokio::spawn(refresh::follow_api_services(shared.clone(), client, limits.clone()))),
        ];
        Arc::new(Self { shared, limits, tasks })
    }

    /// Creates discovery without an API server and without resources, for checks of configurations.
    pub fn unconnected() -> Arc<Self> {
        Self::constant(Table::default())
    }

    fn constant(table: Table) -> Arc<Self> {
        Arc::new(Self { shared: Shared::new(table, true), limits: Arc::default(), tasks: Vec::new() })
    }

    /// Looks up the resource in the table.
    pub(crate) fn known(&self, group: &str, version: &str, resource: &str) -> Option<Arc<Resource>> {
        self.shared.table.load().find(group, version, resource).cloned()
    }

    /// The resources that serve a kind, and whether they are namespaced. If the table has no such resource, the function waits
    /// for one refresh (bounded in rate).
    pub(crate) async fn of_kind(&self, kind: &GroupVersionKind) -> Vec<(String, bool)> {
        let found = self.known_kind(kind);
        if !found.is_empty() || self.tasks.is_empty() {
            return found;
        }
        self.refresh().await;
        self.known_kind(kind)
    }

    /// The resources in the table that serve a kind, and whether they are namespaced.
    fn known_kind(&self, kind: &GroupVersionKind) -> Vec<(String, bool)> {
        let table = self.shared.table.load();
        let resources = table.0.get(&kind.group).and_then(|versions| versions.get(&kind.version));
        let of_kind = resources.into_iter().flatten().filter(|(_, resource)| resource.kind == *kind);
        of_kind.map(|(name, resource)| (name.clone(), resource.namespaced)).collect()
    }

    /// Whether the table has the group in any version.
    pub(crate) fn serves_group(&self, group: &str) -> bool {
        self.shared.table.load().0.contains_key(group)
    }

    /// The versions in which a group serves a resource, sorted by version.
    pub(crate) fn versions(&self, group: &str, resource: &str) -> Vec<(String, Arc<Resource>)> {
        let table = self.shared.table.load();
        let versions = table.0.get(group).into_iter().flatten();
        let mut found: Vec<_> =
            versions.filter_map(|(version, all)| Some((version.clone(), all.get(resource)?.clone()))).collect();
        found.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        found
    }

    /// Looks up the resource in the table. If the table lacks the resource, the function waits for one refresh (bounded in rate).
    pub(crate) async fn resource(&self, group: &str, version: &str, resource: &str) -> Option<Arc<Resource>> {
        if let Some(found) = self.known(group, version, resource) {
            return Some(found);
        }
        if self.tasks.is_empty() {
            return None;
        }
        self.refresh().await;
        self.known(group, version, resource)
    }

    /// Waits for a whole refresh. A refresh that already began may have called the API server too early.
    async fn refresh(&self) {
        let mut ended = self.shared.ended.subscribe();
        let next = self.shared.begun.load(Ordering::SeqCst) + 1;
        self.shared.wanted.notify_one();
        // After a timeout, the caller looks up the resource in the old table.
        let _ =
            tokio::time::timeout(self.limits.discovery_lookup_timeout, ended.wait_for(|ended| *ended >= next)).await;
    }

    /// Whether discovery was fetched once.
    pub(crate) fn is_synced(&self) -> bool {
        *self.shared.synced.borrow()
    }

    /// Waits until [`Self::is_synced`].
    pub async fn wait_synced(&self) {
        // The sender lives as long as `self`, so the wait ends only when the value is true.
        let _ = self.shared.synced.subscribe().wait_for(|synced| *synced).await;
    }
}

#[cfg(test)]
impl Discovery {
    /// Discovery with fixed resources.
    pub(crate) fn fixed(
        resources: impl IntoIterator<Item = (crate::kind::GroupVersionResource, Resource)>,
    ) -> Arc<Self> {
        let mut table = Table::default();
        for (on, resource) in resources {
            let versions = table.0.entry(on.group).or_default();
            versions.entry(on.version).or_default().insert(on.resource, Arc::new(resource));
        }
        Self::constant(table)
    }
}

#[cfg(test)]
mod tests;
