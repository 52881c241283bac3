//! Objects that policies take their parameters from: a cache for each kind, started when a policy names the kind and ended
//! with the last one that does.

use super::cache::{Cache, Projection, key};
use super::discovery::Discovery;
use super::{Cluster, Live, Need};
use crate::object::{GroupVersionKind, schema};
use kube::api::{Api, ApiResource, DynamicObject};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// How long a request waits for a cache to get its first list (`generic.CollectParams`).
const SYNC_TIMEOUT: Duration = Duration::from_secs(1);
/// Between two lookups of a kind that the API server does not serve (`policyRefreshInterval`).
const LOOKUP_INTERVAL: Duration = Duration::from_secs(1);

/// An object that may be a parameter, without its managed fields.
#[derive(Debug)]
pub struct Parameter {
    value: Value,
    bare: OnceLock<Value>,
}

impl Parameter {
    fn new(value: Value) -> Self {
        Self { value, bare: OnceLock::new() }
    }

    fn say_kind(&mut self, resource: &ApiResource) {
        if let Value::Object(fields) = &mut self.value {
            fields.insert("apiVersion".to_owned(), resource.api_version.as_str().into());
            fields.insert("kind".to_owned(), resource.kind.as_str().into());
        }
    }

    /// With `apiVersion` and `kind`.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Without `apiVersion` and `kind`, as client-go's informers keep objects of built-in kinds.
    pub fn bare(&self) -> &Value {
        self.bare.get_or_init(|| {
            let mut value = self.value.clone();
            if let Value::Object(fields) = &mut value {
                fields.remove("apiVersion");
                fields.remove("kind");
            }
            value
        })
    }

    /// `metadata.labels`, if it is an object.
    pub fn labels(&self) -> Option<&serde_json::Map<String, Value>> {
        self.value.get("metadata")?.get("labels")?.as_object()
    }

    /// Namespace, which may be empty, and name.
    pub fn identity(&self) -> (&str, &str) {
        let text = |field| self.value.get("metadata").and_then(|all| all.get(field)).and_then(Value::as_str);
        (text("namespace").unwrap_or_default(), text("name").unwrap_or_default())
    }
}

impl PartialEq for Parameter {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl Projection for Parameter {
    const NEED: Need = Need::Parameters;
    type Object = DynamicObject;

    fn project(mut object: DynamicObject) -> (String, Self) {
        object.metadata.managed_fields = None;
        let metadata = &object.metadata;
        let key = key(metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default());
        (key.into_owned(), Self::new(serde_json::to_value(object).unwrap_or_default()))
    }
}

/// What is known of a kind.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lookup {
    Pending,
    /// The API server does not serve it.
    Unknown,
    Served {
        namespaced: bool,
    },
}

/// The objects of one kind.
#[derive(Debug)]
pub struct Parameters {
    kind: GroupVersionKind,
    lookup: Arc<watch::Sender<Lookup>>,
    cache: Arc<Cache<Parameter>>,
    _watch: Option<AbortOnDropHandle<()>>,
}

impl Parameters {
    /// Of which kind.
    pub fn kind(&self) -> &GroupVersionKind {
        &self.kind
    }

    /// Whether client-go has an informer for the kind, so that its objects do not say what they are.
    pub fn is_built_in(&self) -> bool {
        schema::of(&self.kind).is_some()
    }

    /// Whether the kind lives in namespaces; `None` where the API server does not serve it. Waits at most a second for
    /// the first answer.
    pub async fn is_namespaced(&self) -> Option<bool> {
        let mut lookup = self.lookup.subscribe();
        let known = tokio::time::timeout(SYNC_TIMEOUT, lookup.wait_for(|lookup| *lookup != Lookup::Pending)).await;
        match *known.ok()?.ok()? {
            Lookup::Served { namespaced } => Some(namespaced),
            Lookup::Pending | Lookup::Unknown => None,
        }
    }

    /// Whether the kind is known not to be served.
    pub fn is_unknown(&self) -> bool {
        *self.lookup.borrow() == Lookup::Unknown
    }

    /// Waits at most a second for the first list; answers whether it is there.
    pub async fn wait_synced(&self) -> bool {
        use super::Kept;
        self.cache.is_synced()
            || tokio::time::timeout(SYNC_TIMEOUT, self.cache.synced().wait_for(|synced| *synced)).await.is_ok()
    }

    /// An object; the namespace is empty for kinds of the cluster's scope.
    pub fn find(&self, namespace: &str, name: &str) -> Option<Arc<Parameter>> {
        self.cache.find(&key(namespace, name))
    }

    /// The objects of a namespace, or all of them if it is empty, sorted by name.
    pub fn list(&self, namespace: &str) -> Vec<Arc<Parameter>> {
        if namespace.is_empty() { self.cache.sorted().to_vec() } else { self.cache.in_namespace(namespace) }
    }
}

/// The caches that somebody holds.
#[derive(Debug, Default)]
pub(super) struct Registry(Mutex<HashMap<GroupVersionKind, Weak<Parameters>>>);

impl Cluster {
    /// The objects of a kind; `None` when as many kinds as may be are followed already. Must be called on a tokio runtime.
    pub fn parameters(&self, kind: &GroupVersionKind, discovery: &Arc<Discovery>) -> Option<Arc<Parameters>> {
        let mut kinds = self.parameters.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = kinds.get(kind).and_then(Weak::upgrade) {
            return Some(found);
        }
        kinds.retain(|_, held| held.strong_count() > 0);
        if kinds.len() >= self.limits.parameter_kinds {
            tracing::error!(?kind, "policies take parameters from more kinds than are followed");
            return None;
        }
        let started = Arc::new(self.follow_parameters(kind, discovery));
        kinds.insert(kind.clone(), Arc::downgrade(&started));
        Some(started)
    }

    fn follow_parameters(&self, kind: &GroupVersionKind, discovery: &Arc<Discovery>) -> Parameters {
        let lookup = Arc::new(watch::Sender::new(Lookup::Pending));
        let client = match &self.live {
            Live::ApiServer(client) => client.clone(),
            Live::Fixed { parameters, .. } => {
                return Parameters::fixed(kind, parameters.iter().filter(|object| of_kind(object, kind)), discovery);
            }
        };
        let cache = Arc::new(Cache::new());
        let (kind, list_timeout) = (kind.clone(), self.limits.list_timeout);
        let task = {
            let (kind, lookup, cache, discovery) = (kind.clone(), lookup.clone(), cache.clone(), discovery.clone());
            async move {
                let (plural, namespaced) = loop {
                    if let Some(found) = discovery.of_kind(&kind).await.into_iter().min() {
                        break found;
                    }
                    lookup.send_replace(Lookup::Unknown);
                    tokio::time::sleep(LOOKUP_INTERVAL).await;
                };
                lookup.send_replace(Lookup::Served { namespaced });
                let GroupVersionKind { group, version, kind: name } = &kind;
                let api_version = kind.api_version();
                let resource = ApiResource {
                    group: group.clone(),
                    version: version.clone(),
                    api_version,
                    kind: name.clone(),
                    plural,
                };
                // In lists they do not say what they are.
                let complete = |parameter: &mut Parameter| parameter.say_kind(&resource);
                cache.follow(name, Api::all_with(client, &resource), complete, list_timeout).await;
            }
        };
        let watch = Some(AbortOnDropHandle::new(tokio::spawn(task)));
        Parameters { kind, lookup, cache, _watch: watch }
    }
}

/// Whether an object says that it is of this kind.
fn of_kind(object: &Value, kind: &GroupVersionKind) -> bool {
    let text = |field| object.get(field).and_then(Value::as_str).unwrap_or_default();
    kind.is_said(text("apiVersion"), text("kind"))
}

impl Parameters {
    /// A cache that holds these objects and follows nothing.
    fn fixed<'a>(kind: &GroupVersionKind, objects: impl Iterator<Item = &'a Value>, discovery: &Discovery) -> Self {
        let lookup = match discovery.known_kind(kind).into_iter().min() {
            Some((_, namespaced)) => Lookup::Served { namespaced },
            None => Lookup::Unknown,
        };
        let objects = objects.map(|object| {
            let object = Parameter::new(object.clone());
            let (namespace, name) = object.identity();
            (key(namespace, name).into_owned(), object)
        });
        let cache = Arc::new(Cache::fixed(objects, true));
        Self { kind: kind.clone(), lookup: Arc::new(watch::Sender::new(lookup)), cache, _watch: None }
    }
}
