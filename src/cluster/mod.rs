//! The cluster state that plugins read: watch caches, started only for the needs of enabled plugins, and discovery.

mod need;
mod removed_kinds;
mod keeping;
mod authority_maps;
mod ca_bundles;
mod cache;
mod decode;
mod follow;
mod live;
#[cfg(test)]
mod fixed;
mod pods;
mod projections;
mod texts;
mod custom_resources;
mod quotas;
mod service_accounts;
mod parameters;
mod parameter_reads;
mod endpoints;
mod made;
mod labelled;
mod metrics;
pub(crate) mod discovery;

pub(crate) use authority_maps::{AUTHORITY_CONFIG_MAP, AuthorityMaps, INJECT_LABEL};
pub(crate) use ca_bundles::CaBundles;
pub(crate) use endpoints::Endpoints;
pub(crate) use metrics::Metrics;
pub(crate) use parameter_reads::UnreadParameter;
pub(crate) use parameters::{Parameter, Parameters, Scope};

use crate::config::{Limits, WebhookTargets};
use crate::logging::cut;
use crate::look::listed;
use crate::removed::Api;
use crate::status::Status;
use cache::Cache;
pub(crate) use cache::CacheRoom;
pub(crate) use cache::Projection;
pub(crate) use custom_resources::Definition;
use custom_resources::Definitions;
pub(crate) use custom_resources::{Conversion, ConversionWebhook, CustomResource};
#[cfg(test)]
pub(crate) use fixed::FixedState;
use k8s_openapi::api::core::v1::Service;
use labelled::Labelled;
pub(crate) use labelled::Only;
use live::{CallError, path};
pub(crate) use live::{Loopback, segment};
pub(crate) use need::GroupResource;
pub use need::Need;
use parameter_reads::ParameterReads;
pub(crate) use projections::{CONFIGURATION, slim_with};
pub(crate) use quotas::{OwnedClaim, WholePod};
pub(crate) use removed_kinds::RemovedKind;
use serde_json::{Value, json};
pub(crate) use service_accounts::ServiceAccount;
use std::any::Any;
use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
pub(crate) use texts::Texts;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// A cache of objects of any kind.
pub(crate) trait AnyCache: Any + Debug + Send + Sync {
    /// The reason why the cache is not synced; `None` if the cache is synced.
    fn problem(&self) -> Option<String>;
    /// The state of the list and watch.
    fn health(&self) -> Health;
    /// The key of an object that could never be decoded, among keys that begin with `prefix`.
    fn unknown(&self, prefix: &str) -> Option<Arc<str>>;
    /// Whether the cache is synced; receivers are notified when it becomes synced.
    fn synced(&self) -> watch::Receiver<bool>;
    /// The number of changes to the objects so far; receivers are notified of each change.
    fn changes(&self) -> watch::Receiver<u64>;
}

/// The state of the list and watch of a kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health {
    /// The last failure.
    pub(crate) last_error: Option<String>,
    /// The instant of the API server's last answer.
    pub(crate) answered: Option<Instant>,
    /// The instant of the first in the current series of failures.
    pub(crate) failing_since: Option<Instant>,
    /// The number of objects whose current state cannot be decoded.
    pub(crate) undecodable_now: usize,
    /// The number of objects and events that could not be decoded so far.
    pub(crate) undecodable_so_far: u64,
    /// Whether the API server has more objects than the cache may hold.
    pub(crate) is_full: bool,
    /// The number of cached objects.
    pub(crate) objects: usize,
    /// The size of the cached objects in bytes, if it is counted.
    pub(crate) bytes: usize,
}

/// The fields of a Namespace that the cache keeps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Namespace {
    /// The name.
    pub name: String,
    /// The labels.
    pub labels: Texts,
    /// The annotations.
    pub(crate) annotations: Texts,
    /// Whether `status.phase` is `Terminating`.
    pub(crate) terminating: bool,
    /// Whether spec and status have the values that nearly every namespace has. If so, `rest` omits both.
    pub(crate) usual: bool,
    /// The other fields that expressions may read, as JSON text, because most policies do not read them. Empty if no other
    /// fields are known.
    pub rest: Box<str>,
}

/// The cluster state that plugins read.
pub struct Cluster {
    /// The API server, for answers that the caches cannot give; `None` if there is none.
    client: Option<kube::Client>,
    limits: Arc<Limits>,
    caches: Arc<HashMap<Need, Arc<dyn AnyCache>>>,
    /// The memory for the caches.
    room: Arc<CacheRoom>,
    /// The kinds of which the view has only the objects with some labels.
    labelled: Vec<(Need, Labelled)>,
    definitions: Arc<Definitions>,
    parameters: Arc<parameters::Registry>,
    parameter_reads: Arc<ParameterReads>,
    made: Arc<made::Made>,
    /// Whether every cache was once synced. A cache stays synced afterwards, as long as there is room for its objects.
    seen_synced: AtomicBool,
    loopback: OnceLock<Weak<dyn Loopback>>,
    /// Unset if webhooks may be any server.
    webhook_targets: OnceLock<Arc<WebhookTargets>>,
    // Dropping the cluster and all its views aborts the watches.
    _watches: Arc<Vec<AbortOnDropHandle<()>>>,
}

/// Receives notifications when objects change.
pub(crate) struct Changes(Vec<watch::Receiver<u64>>);

impl Changes {
    /// Waits for a change since the last call. Returns whether there was a change: false if no cache is left that could change.
    pub(crate) async fn next(&mut self) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let changes = self.0.iter_mut().map(|changes| Box::pin(changes.changed()));
        futures_util::future::select_all(changes).await.0.is_ok()
    }
}

impl Cluster {
    /// Starts the caches in `needs`, which end when the cluster is dropped. Must be called on a tokio runtime.
    pub fn start(client: kube::Client, needs: &[Need], limits: Arc<Limits>) -> Arc<Self> {
        let room = CacheRoom::new(limits.caches_bytes);
        Self::start_within(client, needs, limits, &room, &[])
    }

    /// As [`Self::start`], with this memory for the caches, in front of an API server that serves these removed APIs without definitions.
    pub(crate) fn start_within(
        client: kube::Client,
        needs: &[Need],
        limits: Arc<Limits>,
        room: &Arc<CacheRoom>,
        removed: &[&'static Api],
    ) -> Arc<Self> {
        let mut watches = Vec::new();
        let mut caches = HashMap::new();
        for need in needs {
            if !caches.contains_key(need) {
                caches.extend(need.start(&client, &limits, room, &mut watches).map(|cache| (*need, cache)));
            }
        }
        Arc::new(Self {
            client: Some(client),
            parameter_reads: Arc::new(ParameterReads::new(&limits)),
            limits,
            caches: Arc::new(caches),
            room: room.clone(),
            definitions: Arc::new(Definitions::new(removed)),
            _watches: Arc::new(watches),
            ..Self::without_caches()
        })
    }

    /// Creates a cluster without an API server and without objects, for checks of configurations.
    pub fn unconnected() -> Arc<Self> {
        Arc::new(Self::without_caches())
    }

    fn without_caches() -> Self {
        Self {
            client: None,
            limits: Arc::default(),
            caches: Arc::default(),
            room: CacheRoom::new(usize::MAX),
            labelled: Vec::new(),
            definitions: Arc::new(Definitions::new(&[])),
            parameters: Default::default(),
            parameter_reads: Arc::new(ParameterReads::new(&Arc::default())),
            made: Arc::default(),
            seen_synced: AtomicBool::new(false),
            loopback: OnceLock::new(),
            webhook_targets: OnceLock::new(),
            _watches: Arc::default(),
        }
    }

    /// Returns a view of the same caches with a sender of its own for the proxy's own requests. The view has only some of the objects of the
    /// given kinds.
    #[must_use]
    pub(crate) fn view(&self, only: &[(Need, Only)]) -> Arc<Self> {
        let is_without = |need: &Need| only.iter().any(|(of, only)| of == need && *only == Only::None);
        let replaced = || {
            self.caches.iter().map(|(need, cache)| match is_without(need) {
                true => (*need, need.empty().unwrap_or_else(|| cache.clone())),
                false => (*need, cache.clone()),
            })
        };
        let caches = match self.caches.keys().any(is_without) {
            true => Arc::new(replaced().collect()),
            false => self.caches.clone(),
        };
        let labelled = only.iter().filter_map(|(need, only)| match only {
            Only::None => None,
            Only::Labelled(labels) => Some((*need, Labelled::new(labels.clone()))),
        });
        Arc::new(Self {
            client: self.client.clone(),
            limits: self.limits.clone(),
            caches,
            room: self.room.clone(),
            labelled: labelled.collect(),
            definitions: self.definitions.clone(),
            parameters: self.parameters.clone(),
            parameter_reads: self.parameter_reads.clone(),
            made: self.made.clone(),
            seen_synced: AtomicBool::new(false),
            loopback: OnceLock::new(),
            webhook_targets: self.webhook_targets.clone(),
            _watches: self._watches.clone(),
        })
    }

    /// Confines the webhooks that the API server names to these servers. Later calls have no effect.
    pub(crate) fn confine_webhooks(&self, targets: Arc<WebhookTargets>) {
        let _the_first_stays = self.webhook_targets.set(targets);
    }

    /// Returns the servers that webhooks of the API server may be; `None` for any server.
    pub(crate) fn webhook_targets(&self) -> Option<&WebhookTargets> {
        self.webhook_targets.get().map(|targets| &**targets)
    }

    /// Whether the cache of the kind is synced and its watch works.
    pub(crate) fn is_current(&self, need: Need) -> bool {
        let Some(cache) = self.caches.get(&need) else { return false };
        cache.problem().is_none() && cache.health().failing_since.is_none()
    }

    fn cache<P: Projection>(&self) -> Option<&Cache<P>> {
        of_kind(&self.caches)
    }

    /// The cached object. The namespace is empty for cluster-scoped kinds.
    pub(crate) fn find<P: Projection>(&self, namespace: &str, name: &str) -> Option<Arc<P>> {
        self.cache::<P>()?.find(&cache::key(namespace, name))
    }

    /// The cached object, if it has the index value: for a Pod, the name of its node.
    pub(crate) fn indexed<P: Projection>(&self, index: &str, namespace: &str, name: &str) -> Option<Arc<P>> {
        self.cache::<P>()?.indexed(index, &cache::key(namespace, name))
    }

    /// All objects of a kind, sorted by namespace and name. The `Arc` stays the same until an object changes.
    pub(crate) fn all<P: Projection>(&self) -> Arc<Vec<Arc<P>>> {
        let all = self.cache::<P>().map(|cache| cache.sorted()).unwrap_or_default();
        match self.labelled.iter().find(|(need, _)| *need == P::NEED) {
            Some((_, labelled)) => labelled.of(all),
            None => all,
        }
    }

    /// The objects of a kind in a namespace, sorted by name.
    pub(crate) fn in_namespace<P: Projection>(&self, namespace: &str) -> Vec<Arc<P>> {
        self.cache::<P>().map(|cache| cache.in_namespace(namespace)).unwrap_or_default()
    }

    /// The namespace in the cache.
    pub fn namespace(&self, name: &str) -> Option<Arc<Namespace>> {
        self.find("", name)
    }

    /// The Service in the cache.
    pub fn service(&self, namespace: &str, name: &str) -> Option<Arc<Service>> {
        self.find(namespace, name)
    }

    /// Whether every started cache holds its first list.
    pub(crate) fn is_synced(&self) -> bool {
        if self.room.is_full() {
            return self.unsynced().is_empty();
        }
        if !self.seen_synced.load(Ordering::Relaxed) && self.unsynced().is_empty() {
            self.seen_synced.store(true, Ordering::Relaxed);
        }
        self.seen_synced.load(Ordering::Relaxed)
    }

    /// The caches without a first list, each with the reason if the reason is known.
    pub fn unsynced(&self) -> Vec<(Need, String)> {
        self.caches.iter().filter_map(|(need, cache)| Some((*need, cache.problem()?))).collect()
    }

    /// The caches, as people see them who look into the process.
    pub(crate) fn look(&self) -> Value {
        let caches = self.caches.iter().map(|(need, cache)| (format!("{need:?}"), cache.problem(), cache.health()));
        let parameters =
            self.parameters.health().into_iter().map(|(kind, health)| (kind.kind.to_string(), None, health));
        let mut all: Vec<_> = caches.chain(parameters).collect();
        all.sort_by(|(one, ..), (other, ..)| one.cmp(other));
        listed(all.into_iter().map(|(kind, problem, health)| {
            json!({
                "kind": kind,
                "objects": health.objects,
                "bytes": health.bytes,
                "ageSeconds": health.answered.map(|answered| answered.elapsed().as_secs()),
                "undecodable": health.undecodable_now,
                "full": health.is_full,
                "problem": problem.map(|problem| cut(&problem)),
                "lastError": health.last_error.map(|error| cut(&error)),
            })
        }))
    }

    /// The caches whose watch has failed for longer than [`Limits::broken_watch_timeout`], each with the reason. Plugins still
    /// read the objects in such a cache.
    pub fn stale(&self) -> Vec<(Need, String)> {
        let stale = self.caches.iter().filter_map(|(need, cache)| {
            let health = cache.health();
            let since = health.failing_since.filter(|since| since.elapsed() >= self.limits.broken_watch_timeout)?;
            let why = health.last_error.unwrap_or_default();
            Some((*need, format!("its watch has failed for {} s: {why}", since.elapsed().as_secs())))
        });
        stale.collect()
    }

    /// Checks that every object of these kinds could be decoded at least once; in the given namespace, unless `namespace` is
    /// empty. A plugin that depends on all objects must refuse the request otherwise.
    ///
    /// # Errors
    /// 500 that names an object that could never be decoded.
    pub(crate) fn check_decodable(&self, needs: &[Need], namespace: &str) -> Result<(), Status> {
        let prefix = if namespace.is_empty() { String::new() } else { cache::namespaced_key(namespace, "") };
        for need in needs {
            if let Some(key) = self.caches.get(need).and_then(|cache| cache.unknown(&prefix)) {
                return Err(undecodable(&format!("{need:?}"), &key));
            }
        }
        Ok(())
    }

    /// Checks that the cache can tell whether the object exists. An object that could never be decoded is not in the cache.
    ///
    /// # Errors
    /// 500 that names the object.
    pub(crate) fn check_known<P: Projection>(&self, namespace: &str, name: &str) -> Result<(), Status> {
        let key = cache::key(namespace, name);
        match self.cache::<P>().is_some_and(|cache| cache.is_unknown(&key)) {
            true => Err(undecodable(&format!("{:?}", P::NEED), &key)),
            false => Ok(()),
        }
    }

    /// The changes of the objects of these kinds from now on.
    pub(crate) fn changes(&self, needs: &[Need]) -> Changes {
        Changes(needs.iter().filter_map(|need| self.caches.get(need)).map(|cache| cache.changes()).collect())
    }

    /// Waits until [`Self::is_synced`], at most 10 s as in `admission.Handler.WaitForReady`. Returns whether the caches are synced.
    pub async fn wait_synced(&self) -> bool {
        if self.is_synced() {
            return true;
        }
        // A longer wait would not help.
        if self.room.is_full() {
            return false;
        }
        let all = async {
            for cache in self.caches.values() {
                // The cache lives as long as `self`, so the wait ends only when the cache is synced.
                let _ = cache.synced().wait_for(|synced| *synced).await;
            }
        };
        tokio::time::timeout(self.limits.cache_sync_timeout, all).await.is_ok()
    }
}

/// The error for an object that exists, but cannot be decoded.
fn undecodable(kind: &str, key: &str) -> Status {
    Status::internal_error(format!("the proxy cannot decode {key:?} of the kind {kind}"))
}

/// The cache of the kind of `P`.
fn of_kind<P: Projection>(caches: &HashMap<Need, Arc<dyn AnyCache>>) -> Option<&Cache<P>> {
    let cache: &dyn Any = &**caches.get(&P::NEED)?;
    cache.downcast_ref()
}

#[cfg(test)]
mod odd_objects;
#[cfg(test)]
mod tests;
