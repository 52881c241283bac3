//! Discovery: which kind, scope and subresources a resource of the API server behind has.
//!
//! The table is fetched at the start, when CustomResourceDefinitions or APIServices change, when a resource is unknown, and
//! now and then. Looking something up that is known neither waits nor asks.

mod fetch;
mod parse;
mod refresh;

pub use fetch::ClientTransport;

use crate::kind::{GroupVersionKind, GroupVersionResource};
use crate::upstream::SharedTransport;
use arc_swap::ArcSwap;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio_util::task::AbortOnDropHandle;

/// What discovery says of one resource of one group and version.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// Kind of its objects; group and version may differ from the URL's (`pods/eviction`).
    pub kind: GroupVersionKind,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// `create`, `get`, …
    pub verbs: Vec<String>,
    /// By name: the kind of the subresource's body, and its verbs.
    pub subresources: HashMap<String, Subresource>,
}

/// What discovery says of a subresource.
#[derive(Clone, Debug, PartialEq)]
pub struct Subresource {
    /// Kind of its body.
    pub kind: GroupVersionKind,
    /// `create`, `get`, …
    pub verbs: Vec<String>,
}

/// The options kinds of the subresources that connect (`rest.Connecter`) instead of storing.
const CONNECT_KINDS: [&str; 6] = [
    "PodExecOptions",
    "PodAttachOptions",
    "PodPortForwardOptions",
    "PodProxyOptions",
    "ServiceProxyOptions",
    "NodeProxyOptions",
];

impl Subresource {
    /// Whether requests on it are connections (exec, attach, portforward, proxy): admitted as CONNECT, whatever their method.
    pub fn is_connect(&self) -> bool {
        self.kind.group.is_empty() && CONNECT_KINDS.contains(&&*self.kind.kind)
    }
}

/// The resources of one group and version, by plural name.
type GroupVersion = HashMap<String, Arc<Resource>>;

/// Every group, version and resource that is known.
#[derive(Debug, Default, PartialEq)]
struct Table(HashMap<String, HashMap<String, GroupVersion>>);

impl Table {
    fn find(&self, group: &str, version: &str, resource: &str) -> Option<&Arc<Resource>> {
        self.0.get(group)?.get(version)?.get(resource)
    }
}

/// Bounds of discovery.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// A single call to the API server, body included.
    pub call_timeout: Duration,
    /// The largest body that is read.
    pub body_bytes: usize,
    /// The most groups' versions that are asked one by one, where discovery is not aggregated.
    pub group_versions: usize,
    /// The least time between the starts of two refreshes, whoever asks for them.
    pub refresh_interval: Duration,
    /// How long a lookup of something unknown waits for a refresh.
    pub lookup_timeout: Duration,
    /// From a change of a CustomResourceDefinition or APIService to the refresh: changes come in groups.
    pub change_delay: Duration,
    /// From such a refresh to another one: the API server's own discovery lags behind.
    pub settle_delay: Duration,
    /// Between refreshes that nobody asked for.
    pub periodic_interval: Duration,
    /// The longest pause after failed refreshes.
    pub retry_interval: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            call_timeout: Duration::from_secs(10),
            body_bytes: 16 << 20,
            group_versions: 2000,
            refresh_interval: Duration::from_secs(1),
            lookup_timeout: Duration::from_secs(10),
            change_delay: Duration::from_millis(300),
            settle_delay: Duration::from_secs(5),
            periodic_interval: Duration::from_secs(300),
            retry_interval: Duration::from_secs(30),
        }
    }
}

/// The API server's discovery, kept and refreshed.
pub struct Discovery {
    shared: Arc<Shared>,
    limits: Limits,
    // Abort when the table goes. Without them, what is unknown stays unknown.
    tasks: Vec<AbortOnDropHandle<()>>,
}

/// What lookups and the refreshing task tell each other.
struct Shared {
    table: ArcSwap<Table>,
    /// How many refreshes have begun.
    begun: AtomicU64,
    /// The number of the last refresh that ended, however it went.
    ended: watch::Sender<u64>,
    synced: watch::Sender<bool>,
    /// Something unknown was looked up.
    wanted: Notify,
    /// A CustomResourceDefinition or APIService changed.
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
    /// Starts fetching through `transport`, which sends requests as the proxy itself, and following changes through `client`.
    /// Both end with the value. Must be called on a tokio runtime.
    pub fn start(transport: SharedTransport, client: kube::Client, limits: Limits) -> Arc<Self> {
        let shared = Shared::new(Table::default(), false);
        let tasks = vec![
            AbortOnDropHandle::new(tokio::spawn(refresh::run(shared.clone(), transport, limits))),
            AbortOnDropHandle::new(tokio::spawn(refresh::follow_definitions(shared.clone(), client.clone(), limits))),
            AbortOnDropHandle::new(tokio::spawn(refresh::follow_api_services(shared.clone(), client, limits))),
        ];
        Arc::new(Self { shared, limits, tasks })
    }

    /// A table that holds these resources and never changes.
    pub fn fixed(resources: impl IntoIterator<Item = (GroupVersionResource, Resource)>) -> Arc<Self> {
        let mut table = Table::default();
        for (on, resource) in resources {
            let versions = table.0.entry(on.group).or_default();
            versions.entry(on.version).or_default().insert(on.resource, Arc::new(resource));
        }
        Arc::new(Self { shared: Shared::new(table, true), limits: Limits::default(), tasks: Vec::new() })
    }

    /// The resource, from what is known.
    pub fn known(&self, group: &str, version: &str, resource: &str) -> Option<Arc<Resource>> {
        self.shared.table.load().find(group, version, resource).cloned()
    }

    /// The resources that a kind is served as, and whether they are namespaced; after one refresh (bounded in rate) if there
    /// is none.
    pub async fn of_kind(&self, kind: &GroupVersionKind) -> Vec<(String, bool)> {
        let found = self.known_kind(kind);
        if !found.is_empty() || self.tasks.is_empty() {
            return found;
        }
        self.refresh().await;
        self.known_kind(kind)
    }

    /// The same from what is known.
    pub fn known_kind(&self, kind: &GroupVersionKind) -> Vec<(String, bool)> {
        let table = self.shared.table.load();
        let resources = table.0.get(&kind.group).and_then(|versions| versions.get(&kind.version));
        let of_kind = resources.into_iter().flatten().filter(|(_, resource)| resource.kind == *kind);
        of_kind.map(|(name, resource)| (name.clone(), resource.namespaced)).collect()
    }

    /// Whether a group is served in any version, from what is known.
    pub fn serves_group(&self, group: &str) -> bool {
        self.shared.table.load().0.contains_key(group)
    }

    /// The versions in which a group serves a resource, sorted by version.
    pub fn versions(&self, group: &str, resource: &str) -> Vec<(String, Arc<Resource>)> {
        let table = self.shared.table.load();
        let versions = table.0.get(group).into_iter().flatten();
        let mut found: Vec<_> =
            versions.filter_map(|(version, all)| Some((version.clone(), all.get(resource)?.clone()))).collect();
        found.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        found
    }

    /// The resource, from what is known; after one refresh (bounded in rate) if it is not known.
    pub async fn resource(&self, group: &str, version: &str, resource: &str) -> Option<Arc<Resource>> {
        if let Some(found) = self.known(group, version, resource) {
            return Some(found);
        }
        if self.tasks.is_empty() {
            return None;
        }
        self.refresh().await;
        self.known(group, version, resource)
    }

    /// Waits for a whole refresh: one that has begun already may have asked too early.
    async fn refresh(&self) {
        let mut ended = self.shared.ended.subscribe();
        let next = self.shared.begun.load(Ordering::SeqCst) + 1;
        self.shared.wanted.notify_one();
        let _ = tokio::time::timeout(self.limits.lookup_timeout, ended.wait_for(|ended| *ended >= next)).await;
    }

    /// Whether discovery was fetched at least once.
    pub fn is_synced(&self) -> bool {
        *self.shared.synced.borrow()
    }

    /// Waits until [`Self::is_synced`].
    pub async fn wait_synced(&self) {
        // The sender lives as long as `self`, so this ends only when it is true.
        let _ = self.shared.synced.subscribe().wait_for(|synced| *synced).await;
    }
}

#[cfg(test)]
mod tests;
