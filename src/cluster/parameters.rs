//! Parameter objects of policies: one cache per kind, or per namespace of the kind if bindings name namespaces. A cache starts
//! when a policy names the kind, and ends with the last such policy.

use super::cache::{Cache, Projection, key, namespaced_key};
use super::discovery::Discovery;
use super::follow::{Bounds, Source};
use super::parameter_reads::ParameterReads;
use super::{Cluster, Health, Need};
use crate::kind::GroupVersionKind;
use crate::object::schema;
use kube::api::ApiResource;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// The time for which a request waits for the first list of a cache (`generic.CollectParams`).
const SYNC_TIMEOUT: Duration = Duration::from_secs(1);
/// The interval of lookups of a kind that the API server does not serve (`policyRefreshInterval`).
const LOOKUP_INTERVAL: Duration = Duration::from_secs(1);

/// The maximum number of namespaces of a kind that have a watch each. If policies name more, one watch covers all namespaces.
const MOST_NAMESPACES: usize = 8;

/// An object that may be a parameter, without managedFields.
#[derive(Debug)]
pub(crate) struct Parameter {
    value: Value,
    bare: OnceLock<Value>,
}

impl Parameter {
    fn new(value: Value) -> Self {
        Self { value, bare: OnceLock::new() }
    }

    pub(super) fn set_kind(&mut self, resource: &ApiResource) {
        if let Value::Object(fields) = &mut self.value {
            fields.insert("apiVersion".to_owned(), resource.api_version.as_str().into());
            fields.insert("kind".to_owned(), resource.kind.as_str().into());
        }
    }

    /// The object with `apiVersion` and `kind`.
    pub(crate) fn value(&self) -> &Value {
        &self.value
    }

    /// The object without `apiVersion` and `kind`, as in client-go's informers of built-in kinds.
    pub(crate) fn bare(&self) -> &Value {
        self.bare.get_or_init(|| {
            let mut value = self.value.clone();
            if let Value::Object(fields) = &mut value {
                fields.remove("apiVersion");
                fields.remove("kind");
            }
            value
        })
    }

    /// The object's `metadata.labels`, if they are a JSON object.
    pub(crate) fn labels(&self) -> Option<&serde_json::Map<String, Value>> {
        self.value.get("metadata")?.get("labels")?.as_object()
    }

    /// The namespace, which may be empty, and the name.
    pub(crate) fn identity(&self) -> (&str, &str) {
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
    const NEED: Need = Need::PARAMETERS;
    const FIELDS: &'static [&'static str] = &[];
    type Object = Value;

    fn project(mut value: Value) -> (String, Self) {
        if let Some(Value::Object(metadata)) = value.get_mut("metadata") {
            metadata.remove("managedFields");
        }
        let parameter = Self::new(value);
        let (namespace, name) = parameter.identity();
        (key(namespace, name).into_owned(), parameter)
    }

    fn bytes(&self, _: usize) -> usize {
        // Twice the weight, because `bare` may hold a second copy.
        2 * weight(&self.value)
    }
}

/// The approximate size of a value in bytes.
fn weight(value: &Value) -> usize {
    const NODE: usize = size_of::<Value>();
    NODE + match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(fields) => fields.iter().map(|(name, value)| NODE + name.len() + weight(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// The result of a kind's lookup in discovery.
#[derive(Clone, Debug, PartialEq)]
enum Lookup {
    Pending,
    /// The API server does not serve the kind.
    Unknown,
    Served {
        resource: Arc<ApiResource>,
        namespaced: bool,
    },
}

/// The cached objects of one kind, in all namespaces or in one namespace.
#[derive(Debug)]
struct Watched {
    lookup: Arc<watch::Sender<Lookup>>,
    cache: Arc<Cache<Parameter>>,
    _watch: Option<AbortOnDropHandle<()>>,
}

/// The namespaces in which policies look for parameters of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All namespaces, and cluster-scoped objects.
    All,
    /// The named namespaces, at least one.
    Namespaces(BTreeSet<Box<str>>),
}

impl Scope {
    /// The scope of these namespaces, where `None` means any namespace: [`Self::All`] if one is `None` or if there are many.
    pub(crate) fn of<'a>(namespaces: impl Iterator<Item = Option<&'a str>>) -> Self {
        match namespaces.map(|namespace| namespace.map(Box::from)).collect::<Option<BTreeSet<_>>>() {
            Some(named) if (1..=MOST_NAMESPACES).contains(&named.len()) => Self::Namespaces(named),
            _ => Self::All,
        }
    }

    /// The namespaces to watch. `None` stands for all namespaces.
    fn namespaces(&self) -> Vec<Option<Box<str>>> {
        match self {
            Self::All => vec![None],
            Self::Namespaces(named) => named.iter().cloned().map(Some).collect(),
        }
    }
}

/// The objects of one kind that policies may use as parameters.
pub(crate) struct Parameters {
    kind: GroupVersionKind,
    /// The caches by namespace; `None` is the key of the cache of all namespaces.
    watched: HashMap<Option<Box<str>>, Arc<Watched>>,
    /// The API server; `None` if there is none.
    pub(super) client: Option<kube::Client>,
    pub(super) reads: Arc<ParameterReads>,
}

impl fmt::Debug for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parameters").field("kind", &self.kind).field("watched", &self.watched).finish_non_exhaustive()
    }
}

/// The reason why parameters are unavailable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unusable {
    /// The API server has more objects of the kind than the proxy may cache.
    #[error("the kind has more objects than the bound of its cache")]
    TooLarge,
    /// The object exists, but could never be decoded.
    #[error("the proxy cannot decode {0:?}")]
    Undecodable(Arc<str>),
}

impl Parameters {
    /// The kind of the objects.
    pub(crate) fn kind(&self) -> &GroupVersionKind {
        &self.kind
    }

    /// Whether the kind is built in. client-go has an informer for such a kind, whose objects lack `apiVersion` and `kind`.
    pub(crate) fn is_built_in(&self) -> bool {
        schema::of(&self.kind).is_some()
    }

    /// Whether the kind is namespaced. `None` if the API server does not serve the kind. Waits at most a second for the first lookup.
    pub(crate) async fn is_namespaced(&self) -> Option<bool> {
        let mut lookup = self.watched.values().next()?.lookup.subscribe();
        let known = tokio::time::timeout(SYNC_TIMEOUT, lookup.wait_for(|lookup| *lookup != Lookup::Pending)).await;
        match *known.ok()?.ok()? {
            Lookup::Served { namespaced, .. } => Some(namespaced),
            Lookup::Pending | Lookup::Unknown => None,
        }
    }

    /// The resource of the kind; `None` if the API server did not serve it so far.
    pub(super) fn resource(&self) -> Option<Arc<ApiResource>> {
        match &*self.watched.values().next()?.lookup.borrow() {
            Lookup::Served { resource, .. } => Some(resource.clone()),
            Lookup::Pending | Lookup::Unknown => None,
        }
    }

    /// Whether the API server does not serve the kind.
    pub(crate) fn is_unknown(&self) -> bool {
        self.watched.values().any(|watched| *watched.lookup.borrow() == Lookup::Unknown)
    }

    /// The cache of the namespace, or of all namespaces. If the namespace is empty, any cache.
    fn cache(&self, namespace: &str) -> Option<&Cache<Parameter>> {
        let of_namespace = || self.watched.get(&Some(namespace.into()));
        let found = self.watched.get(&None).or_else(of_namespace);
        let any = || self.watched.values().next().filter(|_| namespace.is_empty());
        Some(&*found.or_else(any)?.cache)
    }

    /// Waits at most a second for the first list. Returns whether the cache has the list.
    pub(crate) async fn wait_synced(&self, namespace: &str) -> bool {
        use super::AnyCache;
        let Some(cache) = self.cache(namespace) else { return false };
        cache.is_synced() || tokio::time::timeout(SYNC_TIMEOUT, cache.synced().wait_for(|synced| *synced)).await.is_ok()
    }

    /// Finds an object. The namespace is empty for cluster-scoped kinds.
    ///
    /// # Errors
    /// If the cache cannot tell whether the object exists.
    pub(crate) fn find(&self, namespace: &str, name: &str) -> Result<Option<Arc<Parameter>>, Unusable> {
        let Some(cache) = self.cache(namespace).filter(|cache| !cache.is_full()) else {
            return Err(Unusable::TooLarge);
        };
        let key = key(namespace, name);
        match cache.find(&key) {
            None if cache.is_unknown(&key) => Err(Unusable::Undecodable(key.into())),
            found => Ok(found),
        }
    }

    /// The objects of a namespace, or all objects if the namespace is empty, sorted by name.
    ///
    /// # Errors
    /// If the cache cannot tell which objects exist.
    pub(crate) fn list(&self, namespace: &str) -> Result<Vec<Arc<Parameter>>, Unusable> {
        let Some(cache) = self.cache(namespace).filter(|cache| !cache.is_full()) else {
            return Err(Unusable::TooLarge);
        };
        let prefix = if namespace.is_empty() { String::new() } else { namespaced_key(namespace, "") };
        match cache.unknown(&prefix) {
            Some(key) => Err(Unusable::Undecodable(key)),
            None if namespace.is_empty() => Ok(cache.sorted().to_vec()),
            None => Ok(cache.in_namespace(namespace)),
        }
    }
}

/// A kind, in one namespace or in all namespaces.
type Place = (GroupVersionKind, Option<Box<str>>);

/// The caches that some [`Parameters`] hold.
#[derive(Debug, Default)]
pub(super) struct Registry(Mutex<HashMap<Place, Weak<Watched>>>);

impl Registry {
    /// The state of the list and watch of each cache.
    pub(super) fn health(&self) -> Vec<(GroupVersionKind, Health)> {
        use super::AnyCache;
        let watched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let held = watched.iter().filter_map(|((kind, _), held)| Some((kind.clone(), held.upgrade()?)));
        held.map(|(kind, watched)| (kind, watched.cache.health())).collect()
    }
}

impl Cluster {
    /// The objects of a kind. `None` if the number of cached kinds is at its maximum. Must be called on a tokio runtime.
    pub(crate) fn parameters(
        &self,
        kind: &GroupVersionKind,
        scope: &Scope,
        discovery: &Arc<Discovery>,
    ) -> Option<Arc<Parameters>> {
        let mut held = self.parameters.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|_, watched| watched.strong_count() > 0);
        let kinds: BTreeSet<_> = held.keys().map(|(kind, _)| kind).collect();
        if kinds.len() >= self.limits.policy_parameter_kinds && !kinds.contains(kind) {
            tracing::error!(?kind, "policies take parameters from more kinds than the bound of watched kinds");
            return None;
        }
        let watched = scope.namespaces().into_iter().map(|namespace| {
            let of = (kind.clone(), namespace.clone());
            let found = held.get(&of).and_then(Weak::upgrade);
            let watched = found.unwrap_or_else(|| Arc::new(self.follow_parameters(kind, namespace.clone(), discovery)));
            held.insert(of, Arc::downgrade(&watched));
            (namespace, watched)
        });
        let watched = watched.collect();
        let (client, reads) = (self.client.clone(), self.parameter_reads.clone());
        Some(Arc::new(Parameters { kind: kind.clone(), watched, client, reads }))
    }

    fn follow_parameters(
        &self,
        kind: &GroupVersionKind,
        namespace: Option<Box<str>>,
        discovery: &Arc<Discovery>,
    ) -> Watched {
        let lookup = Arc::new(watch::Sender::new(Lookup::Pending));
        let cache = Arc::new(Cache::bounded(self.limits.policy_parameter_bytes, &self.room));
        let Some(client) = self.client.clone() else { return Watched { lookup, cache, _watch: None } };
        let (kind, bounds) = (kind.clone(), Bounds::of_cache(&self.limits));
        let task = {
            let (lookup, cache, discovery) = (lookup.clone(), cache.clone(), discovery.clone());
            async move {
                let (plural, namespaced) = loop {
                    if let Some(found) = discovery.of_kind(&kind).await.into_iter().min() {
                        break found;
                    }
                    lookup.send_replace(Lookup::Unknown);
                    tokio::time::sleep(LOOKUP_INTERVAL).await;
                };
                let api_version = kind.api_version();
                let GroupVersionKind { group, version, kind } = kind;
                let resource = Arc::new(ApiResource { group, version, api_version, kind, plural });
                lookup.send_replace(Lookup::Served { resource: resource.clone(), namespaced });
                // Items of lists lack `apiVersion` and `kind`.
                let complete = |parameter: &mut Parameter| parameter.set_kind(&resource);
                let source = Source::of(client, (*resource).clone(), namespace.as_deref().filter(|_| namespaced));
                cache.follow(&source, complete, bounds).await;
            }
        };
        Watched { lookup, cache, _watch: Some(AbortOnDropHandle::new(tokio::spawn(task))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::discovery::Resource;
    use crate::cluster::tests::client;
    use crate::config::Limits;
    use crate::kind::GroupVersionResource;
    use serde_json::json;

    fn kind() -> GroupVersionKind {
        GroupVersionKind::new("", "v1", "ConfigMap")
    }

    fn discovery() -> Arc<Discovery> {
        let resource = Resource { kind: kind(), namespaced: true, verbs: Vec::new(), subresources: HashMap::new() };
        Discovery::fixed([(GroupVersionResource::new("", "v1", "configmaps"), resource)])
    }

    /// A cluster in front of these objects. A request for a path without the prefix `path` fails the test.
    fn cluster(objects: Vec<Value>, path: &'static str, policy_parameter_bytes: usize) -> Arc<Cluster> {
        let client = client(move |_, url| {
            assert!(url.starts_with(path), "{url}");
            let list = json!({"metadata": {"resourceVersion": "1"}, "items": objects});
            (!url.contains("watch=true")).then_some((200, list))
        });
        Cluster::start(client, &[], Arc::new(Limits { policy_parameter_bytes, ..Limits::default() }))
    }

    fn map(namespace: &str, name: &str, data: Value) -> Value {
        json!({"metadata": {"name": name, "namespace": namespace, "managedFields": [{"time": 5}]}, "data": data})
    }

    fn deep() -> Value {
        (0..200).fold(json!("secret"), |inner, _| json!({"a": inner}))
    }

    #[tokio::test]
    async fn an_object_that_cannot_be_decoded_is_missing_only_for_its_readers() {
        let objects = vec![map("n", "deep", deep()), map("n", "good", json!({})), map("m", "good", json!({}))];
        let cluster = cluster(objects, "/api/v1/configmaps?", usize::MAX);
        let parameters = cluster.parameters(&kind(), &Scope::All, &discovery()).unwrap();
        assert!(parameters.wait_synced("n").await);
        let found = parameters.find("n", "good").unwrap().unwrap();
        assert_eq!(
            *found.value(),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "good", "namespace": "n"}, "data": {}})
        );
        assert_eq!(parameters.find("n", "deep"), Err(Unusable::Undecodable("n/deep".into())));
        assert_eq!(parameters.find("n", "none"), Ok(None));
        assert_eq!(parameters.list("n"), Err(Unusable::Undecodable("n/deep".into())));
        assert_eq!(parameters.list("m").unwrap().len(), 1);
    }

    #[tokio::test]
    async fn parameters_above_the_bound_are_unusable() {
        let objects: Vec<_> = (0..50).map(|n| map("n", &format!("m{n}"), json!({"a": "x".repeat(1000)}))).collect();
        let cluster = cluster(objects, "/api/v1/configmaps?", 50_000);
        let parameters = cluster.parameters(&kind(), &Scope::All, &discovery()).unwrap();
        assert!(parameters.wait_synced("n").await);
        assert_eq!(parameters.find("n", "m1"), Err(Unusable::TooLarge));
        assert_eq!(parameters.list("n"), Err(Unusable::TooLarge));
        assert!(cluster.parameters.health()[0].1.is_full && cluster.parameters.health()[0].1.bytes == 0);
    }

    #[tokio::test]
    async fn only_the_namespaces_that_bindings_name_are_watched() {
        let scope = Scope::of([Some("policies"), Some("policies")].into_iter());
        assert_eq!(Scope::of([Some("policies"), None].into_iter()), Scope::All);
        assert_eq!(Scope::of(std::iter::empty()), Scope::All);
        let many: Vec<String> = (0..=MOST_NAMESPACES).map(|n| n.to_string()).collect();
        assert_eq!(Scope::of(many.iter().map(|name| Some(&**name))), Scope::All);
        let cluster =
            cluster(vec![map("policies", "a", json!({}))], "/api/v1/namespaces/policies/configmaps?", usize::MAX);
        let parameters = cluster.parameters(&kind(), &scope, &discovery()).unwrap();
        assert!(parameters.wait_synced("policies").await);
        assert!(parameters.find("policies", "a").unwrap().is_some());
        // No cache covers this namespace, so its objects are unknown.
        assert_eq!(parameters.find("other", "a"), Err(Unusable::TooLarge));
    }
}
