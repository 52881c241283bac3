//! What plugins read of the cluster: watch caches, started only for what enabled plugins need, and discovery.

mod need;
mod cache;
mod decode;
mod follow;
mod live;
mod fixed;
mod pods;
mod projections;
mod texts;
mod custom_resources;
mod quotas;
mod service_accounts;
mod parameters;
mod endpoints;
mod metrics;
pub mod discovery;

pub use endpoints::Endpoints;
pub use metrics::Metrics;
pub use parameters::{Parameter, Parameters, Scope, Unusable};
pub use pods::PodPage;

use crate::object::Object;
use crate::status::Status;
use cache::Cache;
pub(crate) use cache::Projection;
pub(crate) use custom_resources::Definition;
use custom_resources::Definitions;
pub use custom_resources::{Conversion, ConversionWebhook, CustomResource};
pub use fixed::FixedState;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::Service;
use live::{CallError, path};
pub use live::{Loopback, segment};
pub use need::Need;
pub(crate) use projections::{CONFIGURATION, slim_with};
pub(crate) use quotas::{OwnedClaim, WholePod};
pub(crate) use service_accounts::ServiceAccount;
use std::any::Any;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;
pub use texts::Texts;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// A cache of any kind.
pub(crate) trait Kept: Any + Debug + Send + Sync {
    /// Why it is not synced; none if it is.
    fn problem(&self) -> Option<String>;
    /// How it goes with following.
    fn health(&self) -> Health;
    /// The key that begins so of an object that could never be decoded.
    fn unknown(&self, prefix: &str) -> Option<Arc<str>>;
    /// Whether it is synced, and when it comes to be.
    fn synced(&self) -> watch::Receiver<bool>;
    /// How often its objects changed so far, and when they do.
    fn changes(&self) -> watch::Receiver<u64>;
}

/// How it goes with following the objects of a kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health {
    /// Why it last failed.
    pub(crate) last_error: Option<String>,
    /// When the API server last answered.
    pub(crate) answered: Option<Instant>,
    /// Since when it has failed each time.
    pub(crate) failing_since: Option<Instant>,
    /// How many objects cannot be decoded as they are now.
    pub(crate) undecodable_now: usize,
    /// How many objects and events could not be decoded so far.
    pub(crate) undecodable_so_far: u64,
    /// Whether there are more objects than may be kept.
    pub(crate) is_full: bool,
    /// Bytes that are kept, where they are counted.
    pub(crate) bytes: usize,
}

/// What is kept of a Namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Namespace {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: Texts,
    /// Its annotations.
    pub annotations: Texts,
    /// Whether `status.phase` is `Terminating`.
    pub terminating: bool,
    /// Whether its spec and status are those that nearly every namespace has, which `rest` lacks then.
    pub usual: bool,
    /// What else expressions may ask of it, as JSON: most policies do not look at it. Empty where nothing else is known.
    pub rest: Box<str>,
}

/// How long the cluster's own calls may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// A single call to the API server.
    pub call_timeout: Duration,
    /// A page of a list; one that stalls longer is begun anew.
    pub list_timeout: Duration,
    /// Bytes of a single object that is listed or watched.
    pub object_bytes: usize,
    /// How long a watch may fail before [`Cluster::stale`] says so.
    pub broken_watch_timeout: Duration,
    /// [`Cluster::wait_synced`], as `admission.Handler.WaitForReady`.
    pub ready_timeout: Duration,
    /// How long it is remembered what the API server said of a definition that its cache lacks.
    pub definition_ttl: Duration,
    /// Kinds that policies may take parameters from at the same time.
    pub parameter_kinds: usize,
    /// Bytes of JSON of the objects of one kind (in one namespace, where policies name it) that parameters are taken from.
    pub parameter_bytes: usize,
}

impl Limits {
    fn follow(self) -> follow::Bounds {
        follow::Bounds { list_timeout: self.list_timeout, object_bytes: self.object_bytes }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            call_timeout: Duration::from_secs(10),
            list_timeout: Duration::from_secs(90),
            object_bytes: 32 << 20,
            broken_watch_timeout: Duration::from_secs(300),
            ready_timeout: Duration::from_secs(10),
            definition_ttl: Duration::from_secs(5),
            parameter_kinds: 256,
            parameter_bytes: 64 << 20,
        }
    }
}

/// The cluster as plugins see it.
pub struct Cluster {
    live: Live,
    limits: Limits,
    caches: HashMap<Need, Arc<dyn Kept>>,
    definitions: Definitions,
    parameters: parameters::Registry,
    /// Whether every cache was seen to hold its first list, which it does not lose again.
    seen_synced: AtomicBool,
    /// [`FixedState::refused_updates`].
    refused_updates: Mutex<VecDeque<Status>>,
    loopback: OnceLock<Weak<dyn Loopback>>,
    // Aborts the watches when the cluster goes.
    _watches: Vec<AbortOnDropHandle<()>>,
}

/// Tells when objects change.
pub struct Changes(Vec<watch::Receiver<u64>>);

impl Changes {
    /// Waits for a change since the last call. Answers whether there was one: not when there is nothing left that could change.
    pub async fn next(&mut self) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let changes = self.0.iter_mut().map(|changes| Box::pin(changes.changed()));
        futures_util::future::select_all(changes).await.0.is_ok()
    }
}

/// Who answers what is asked past the caches.
enum Live {
    ApiServer(kube::Client),
    Fixed {
        namespaces: Mutex<BTreeMap<String, Arc<Namespace>>>,
        cached: HashMap<Need, Arc<dyn Kept>>,
        pods: Option<Vec<Object>>,
        parameters: Vec<serde_json::Value>,
    },
}

impl Cluster {
    /// Starts the caches that are needed; they end with the cluster. Must be called on a tokio runtime.
    pub fn start(client: kube::Client, needs: &[Need], limits: Limits) -> Arc<Self> {
        let mut watches = Vec::new();
        let mut caches = HashMap::new();
        for need in needs {
            if !caches.contains_key(need) {
                caches.extend(need.start(&client, limits, &mut watches).map(|cache| (*need, cache)));
            }
        }
        Arc::new(Self {
            live: Live::ApiServer(client),
            limits,
            caches,
            definitions: Definitions::new(),
            parameters: Default::default(),
            seen_synced: AtomicBool::new(false),
            refused_updates: Mutex::default(),
            loopback: OnceLock::new(),
            _watches: watches,
        })
    }

    fn cache<P: Projection>(&self) -> Option<&Cache<P>> {
        of_kind(&self.caches)
    }

    /// What the cache keeps of an object; the namespace is empty for kinds of the cluster's scope.
    pub(crate) fn find<P: Projection>(&self, namespace: &str, name: &str) -> Option<Arc<P>> {
        self.cache::<P>()?.find(&cache::key(namespace, name))
    }

    /// The same if the object has this index: of a Pod, if it is bound to this node.
    pub(crate) fn indexed<P: Projection>(&self, index: &str, namespace: &str, name: &str) -> Option<Arc<P>> {
        self.cache::<P>()?.indexed(index, &cache::key(namespace, name))
    }

    /// All objects of a kind, sorted by namespace and name; the same `Arc` as long as none changed.
    pub(crate) fn all<P: Projection>(&self) -> Arc<Vec<Arc<P>>> {
        self.cache::<P>().map(|cache| cache.sorted()).unwrap_or_default()
    }

    /// The objects of a kind in a namespace, sorted by name.
    pub(crate) fn in_namespace<P: Projection>(&self, namespace: &str) -> Vec<Arc<P>> {
        self.cache::<P>().map(|cache| cache.in_namespace(namespace)).unwrap_or_default()
    }

    /// The namespace, from the cache.
    pub fn namespace(&self, name: &str) -> Option<Arc<Namespace>> {
        self.find("", name)
    }

    /// All MutatingWebhookConfigurations, sorted by name; the same `Arc` as long as none changed.
    pub fn mutating_webhooks(&self) -> Arc<Vec<Arc<MutatingWebhookConfiguration>>> {
        self.all()
    }

    /// All ValidatingWebhookConfigurations, sorted by name; the same `Arc` as long as none changed.
    pub fn validating_webhooks(&self) -> Arc<Vec<Arc<ValidatingWebhookConfiguration>>> {
        self.all()
    }

    /// A Service, from the cache.
    pub fn service(&self, namespace: &str, name: &str) -> Option<Arc<Service>> {
        self.find(namespace, name)
    }

    /// Whether every cache that was asked for holds its first list.
    pub fn is_synced(&self) -> bool {
        if !self.seen_synced.load(Ordering::Relaxed) && self.unsynced().is_empty() {
            self.seen_synced.store(true, Ordering::Relaxed);
        }
        self.seen_synced.load(Ordering::Relaxed)
    }

    /// The caches that have no first list yet, each with the reason as far as it is known.
    pub fn unsynced(&self) -> Vec<(Need, String)> {
        self.caches.iter().filter_map(|(need, cache)| Some((*need, cache.problem()?))).collect()
    }

    /// The caches whose watch has failed for longer than [`Limits::broken_watch_timeout`], each with the reason. What they
    /// hold goes on counting.
    pub fn stale(&self) -> Vec<(Need, String)> {
        let stale = self.caches.iter().filter_map(|(need, cache)| {
            let health = cache.health();
            let since = health.failing_since.filter(|since| since.elapsed() >= self.limits.broken_watch_timeout)?;
            let why = health.last_error.unwrap_or_default();
            Some((*need, format!("its watch has failed for {} s: {why}", since.elapsed().as_secs())))
        });
        stale.collect()
    }

    /// An object of these kinds, in this namespace where it is not empty, of which nothing is known, for it could never be
    /// decoded: whoever depends on all of them has to refuse.
    ///
    /// # Errors
    /// 500 that names such an object.
    pub fn check_decodable(&self, needs: &[Need], namespace: &str) -> Result<(), Status> {
        let prefix = if namespace.is_empty() { String::new() } else { cache::namespaced_key(namespace, "") };
        for need in needs {
            if let Some(key) = self.caches.get(need).and_then(|cache| cache.unknown(&prefix)) {
                return Err(undecodable(&format!("{need:?}"), &key));
            }
        }
        Ok(())
    }

    /// Whether it is known if there is such an object: not if there is one that could never be decoded.
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

    /// The changes of these kinds' objects from now on.
    pub fn changes(&self, needs: &[Need]) -> Changes {
        Changes(needs.iter().filter_map(|need| self.caches.get(need)).map(|cache| cache.changes()).collect())
    }

    /// Waits until [`Self::is_synced`], at most 10 s as `admission.Handler.WaitForReady`; answers whether it came so far.
    pub async fn wait_synced(&self) -> bool {
        if self.is_synced() {
            return true;
        }
        let all = async {
            for cache in self.caches.values() {
                // The cache lives as long as `self`, so this ends only when it is synced.
                let _ = cache.synced().wait_for(|synced| *synced).await;
            }
        };
        tokio::time::timeout(self.limits.ready_timeout, all).await.is_ok()
    }
}

/// An object that is there, but cannot be decoded.
fn undecodable(kind: &str, key: &str) -> Status {
    Status::internal_error(format!("the proxy cannot decode {key:?} of the kind {kind}"))
}

/// The cache of a kind among these.
fn of_kind<P: Projection>(caches: &HashMap<Need, Arc<dyn Kept>>) -> Option<&Cache<P>> {
    let cache: &dyn Any = &**caches.get(&P::NEED)?;
    cache.downcast_ref()
}

#[cfg(test)]
mod odd_objects;
#[cfg(test)]
mod tests;
