//! A cluster with fixed caches, in front of an API server that keeps its objects in memory, for tests.

use super::cache::{Cache, Projection, key};
use super::{AnyCache, Cluster, Loopback, Namespace, Need, of_kind};
use crate::object::Object;
use crate::request::info::{RequestInfo, request_info};
use crate::status::{OPTIMISTIC_LOCK, Status};
use async_trait::async_trait;
use bytes::Bytes;
use http::{Method, Request, Response, Uri};
use http_body_util::BodyExt;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::{ResourceQuota, Service};
use kube::Resource;
use kube::api::{ApiResource, GroupVersionKind};
use kube::client::Body;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::convert::Infallible;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use tokio::runtime::Handle;

/// The state of a fixed cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct FixedState {
    /// The namespaces in the cache.
    pub(crate) namespaces: Vec<Namespace>,
    /// The namespaces at the API server, if they differ from those in the cache.
    pub(crate) live_namespaces: Option<Vec<Namespace>>,
    /// The MutatingWebhookConfigurations in the cache.
    pub(crate) mutating_webhooks: Vec<MutatingWebhookConfiguration>,
    /// The ValidatingWebhookConfigurations in the cache.
    pub(crate) validating_webhooks: Vec<ValidatingWebhookConfiguration>,
    /// The Services in the cache.
    pub(crate) services: Vec<Service>,
    /// The pods that the API server lists. `None` if the API server refuses lists of pods.
    pub(crate) pods: Option<Vec<Object>>,
    /// Whether the caches never receive a first list.
    pub(crate) unsynced: bool,
    /// Objects of any kind at the API server, which policies may use as parameters.
    pub(crate) parameters: Vec<Value>,
    /// Objects of any kind at the API server that no list has, as those that were created a moment ago.
    pub(crate) unlisted: Vec<Value>,
    /// The errors that the API server returns for the first updates of a quota's status. These updates have no effect.
    pub(crate) refused_updates: Vec<Status>,
    /// The caches of other kinds.
    pub(crate) caches: HashMap<Need, Arc<dyn AnyCache>>,
    /// The objects of other kinds at the API server, equal to those in the caches.
    pub(crate) served: HashMap<Need, Vec<(Place, Value)>>,
    /// The objects of other kinds at the API server, if they differ from those in the caches.
    pub(crate) live: HashMap<Need, Vec<(Place, Value)>>,
}

impl FixedState {
    /// Adds objects to the cache, and to the API server unless [`Self::live`] sets others.
    #[must_use]
    pub(crate) fn with<P: Projection>(mut self, objects: Vec<P::Object>) -> Self
    where
        P::Object: Resource<DynamicType = ()> + Serialize,
    {
        self.served.insert(P::NEED, objects.iter().map(stored).collect());
        self.cached::<P>(objects)
    }

    /// Adds objects to the cache alone.
    #[must_use]
    pub(crate) fn cached<P: Projection>(mut self, objects: Vec<P::Object>) -> Self {
        self.caches.insert(P::NEED, Arc::new(cache::<P>(objects, !self.unsynced)));
        self
    }

    /// Sets a cache that contains only the keys of objects that could not be decoded.
    #[must_use]
    pub(crate) fn undecodable<P: Projection>(mut self, keys: &[&str]) -> Self {
        self.caches.insert(P::NEED, Arc::new(cache::<P>(Vec::new(), true).with_undecodable(keys)));
        self
    }

    /// Sets the objects of the kind at the API server, whatever the cache holds.
    #[must_use]
    pub(crate) fn live<P: Projection>(mut self, objects: Vec<P::Object>) -> Self
    where
        P::Object: Resource<DynamicType = ()> + Serialize,
    {
        self.live.insert(P::NEED, objects.iter().map(stored).collect());
        self
    }
}

fn cache<P: Projection>(objects: Vec<P::Object>, synced: bool) -> Cache<P> {
    Cache::fixed(objects.into_iter().map(P::project), synced)
}

/// The place of an object at the API server. The namespace is empty for a cluster-scoped object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    group: String,
    resource: String,
    namespace: String,
    name: String,
}

impl Place {
    fn of(group: &str, resource: &str, object: &Value) -> Self {
        let text = |field| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let (group, resource) = (group.to_owned(), resource.to_owned());
        Self { group, resource, namespace: text("namespace"), name: text("name") }
    }

    /// The place that a URL names, which has no name if the URL is that of a collection.
    fn of_url(info: &RequestInfo) -> Self {
        let RequestInfo { api_group, resource, namespace, name, .. } = info.clone();
        let namespace = if resource == "namespaces" { String::new() } else { namespace };
        Self { group: api_group, resource, namespace, name }
    }

    /// Whether the object is in the collection, which may be that of all namespaces.
    fn is_in(&self, collection: &Self) -> bool {
        (&self.group, &self.resource) == (&collection.group, &collection.resource)
            && ["", &*self.namespace].contains(&&*collection.namespace)
    }
}

/// An object at the API server, with its place.
fn stored<K: Resource<DynamicType = ()> + Serialize>(object: &K) -> (Place, Value) {
    let value = serde_json::to_value(object).unwrap();
    (Place::of(&K::group(&()), &K::plural(&()), &value), value)
}

/// A namespace at the API server, with its place.
fn stored_namespace(namespace: &Namespace) -> (Place, Value) {
    let mut object: Value = serde_json::from_str(&namespace.rest).unwrap_or_else(|_| json!({}));
    object["metadata"]["name"] = json!(namespace.name);
    object["metadata"]["labels"] = namespace.labels.iter().collect();
    object["metadata"]["annotations"] = namespace.annotations.iter().collect();
    if namespace.terminating {
        object["status"]["phase"] = json!("Terminating");
    }
    if namespace.usual {
        object["spec"] = json!({"finalizers": ["kubernetes"]});
        object["status"] = json!({"phase": "Active"});
    }
    (Place::of("", "namespaces", &object), object)
}

/// An object of any kind at the API server, with its place.
fn stored_parameter(object: &Value) -> (Place, Value) {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, text("kind")));
    (Place::of(&resource.group, &resource.plural, object), object.clone())
}

/// An API server that keeps its objects in memory.
struct FixedServer {
    objects: Mutex<BTreeMap<Place, Value>>,
    /// The objects that no list has.
    unlisted: BTreeMap<Place, Value>,
    /// Whether the API server lists pods.
    lists_pods: bool,
    refused_updates: Mutex<VecDeque<Status>>,
    /// The caches of the kinds that do not differ at the API server. The cache of quotas receives their updates, as from a watch.
    caches: HashMap<Need, Arc<dyn AnyCache>>,
}

impl FixedServer {
    fn objects(&self) -> MutexGuard<'_, BTreeMap<Place, Value>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer to a request. `None` for a watch, which stays open and silent.
    fn answer(&self, method: &Method, uri: &Uri, body: &[u8]) -> Option<Result<Value, Status>> {
        let info = request_info(method, uri);
        let place = Place::of_url(&info);
        match (&*info.verb, &*info.resource, &*info.subresource) {
            ("watch", ..) => None,
            ("list", ..) => Some(self.list(&place, uri.query().unwrap_or_default())),
            ("get", _, "") => Some(self.get(&place)),
            ("update", "resourcequotas", "status") => Some(self.update_quota_status(place, body)),
            _ => panic!("the fixed API server has no answer to {method} {uri}"),
        }
    }

    fn get(&self, place: &Place) -> Result<Value, Status> {
        let found = self.objects().get(place).or_else(|| self.unlisted.get(place)).cloned();
        found.ok_or_else(|| Status::not_found(&place.group, &place.resource, &place.name))
    }

    /// A page of a list. The continue token is the position in the list.
    fn list(&self, collection: &Place, query: &str) -> Result<Value, Status> {
        if collection.resource == "pods" && !self.lists_pods {
            return Err(Status::service_unavailable("pods cannot be listed"));
        }
        let query: HashMap<_, _> = form_urlencoded::parse(query.as_bytes()).collect();
        let number = |name: &str| query.get(name)?.parse::<usize>().ok();
        let start = number("continue").unwrap_or(0);
        let objects = self.objects();
        let all = objects.iter().filter(|(place, _)| place.is_in(collection)).map(|(_, object)| object);
        let mut following = all.skip(start);
        let items: Vec<&Value> = following.by_ref().take(number("limit").unwrap_or(usize::MAX)).collect();
        let metadata = match following.count() {
            0 => json!({"resourceVersion": "1"}),
            remaining => {
                let next = (start + items.len()).to_string();
                json!({"resourceVersion": "1", "continue": next, "remainingItemCount": remaining})
            }
        };
        Ok(json!({"metadata": metadata, "items": items}))
    }

    /// Updates the status of a quota; resourceVersions are counted up.
    fn update_quota_status(&self, place: Place, body: &[u8]) -> Result<Value, Status> {
        let refused = self.refused_updates.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        if let Some(status) = refused {
            return Err(status);
        }
        let mut quota: ResourceQuota = serde_json::from_slice(body).unwrap();
        let mut objects = self.objects();
        let not_found = || Status::not_found(&place.group, &place.resource, &place.name);
        let current = objects.get_mut(&place).ok_or_else(not_found)?;
        let version = quota.metadata.resource_version.take();
        if current["metadata"]["resourceVersion"].as_str() != version.as_deref() {
            return Err(Status::conflict(&place.group, &place.resource, &place.name, OPTIMISTIC_LOCK));
        }
        let version: u64 = version.and_then(|version| version.parse().ok()).unwrap_or_default();
        quota.metadata.resource_version = Some((version + 1).to_string());
        *current = serde_json::to_value(&quota).unwrap();
        if let Some(cache) = of_kind::<ResourceQuota>(&self.caches) {
            let key = key(&place.namespace, &place.name).into();
            let (_, quota) = ResourceQuota::project(quota);
            cache.change(|quotas| quotas.put(key, quota));
        }
        Ok(current.clone())
    }
}

#[async_trait]
impl Loopback for FixedServer {
    async fn create(&self, path: &'static str, object: &Value) -> Result<(), Status> {
        let info = request_info(&Method::POST, &Uri::from_static(path));
        let place = Place::of(&info.api_group, &info.resource, object);
        let mut objects = self.objects();
        if objects.contains_key(&place) {
            return Err(Status::already_exists(&place.group, &place.resource, &place.name));
        }
        objects.insert(place, object.clone());
        Ok(())
    }

    async fn post(&self, uri: Uri, _: crate::body::Body, _: usize) -> Result<Response<Bytes>, Status> {
        panic!("the fixed API server serves no webhook at {uri}");
    }
}

/// A client of the server, which keeps the server.
fn client(server: Arc<FixedServer>) -> kube::Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let server = server.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let Some(answer) = server.answer(&head.method, &head.uri, &body) else { return pending().await };
            let (code, body) = match answer {
                Ok(object) => (200, object),
                Err(status) => (status.code, serde_json::to_value(&status).unwrap()),
            };
            let body = Body::from(serde_json::to_vec(&body).unwrap());
            Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
        }
    });
    kube::Client::new(service, "default")
}

impl Cluster {
    /// A cluster with the given state. Outside a tokio runtime, the cluster has no API server.
    pub(crate) fn fixed(state: FixedState) -> Arc<Self> {
        let synced = !state.unsynced;
        let live = state.live_namespaces.as_ref().unwrap_or(&state.namespaces);
        let mut objects: BTreeMap<Place, Value> = live.iter().map(stored_namespace).collect();
        objects.extend(state.parameters.iter().map(stored_parameter));
        let pods = state.pods.iter().flatten().map(|pod| pod.clone().into_value());
        objects.extend(pods.map(|pod| (Place::of("", "pods", &pod), pod)));
        let mut watched = state.caches.clone();
        watched.retain(|need, _| !state.live.contains_key(need));
        let mut served = state.served;
        served.extend(state.live);
        objects.extend(served.into_values().flatten());
        let server = Arc::new(FixedServer {
            objects: Mutex::new(objects),
            unlisted: state.unlisted.iter().map(stored_parameter).collect(),
            lists_pods: state.pods.is_some(),
            refused_updates: Mutex::new(state.refused_updates.into()),
            caches: watched,
        });

        let mut caches = state.caches;
        let cached = state.namespaces.into_iter().map(|namespace| (namespace.name.clone(), namespace));
        caches.entry(Need::NAMESPACES).or_insert_with(|| Arc::new(Cache::fixed(cached, synced)));
        let mutating = || cache::<MutatingWebhookConfiguration>(state.mutating_webhooks, synced);
        caches.entry(Need::MUTATING_WEBHOOKS).or_insert_with(|| Arc::new(mutating()));
        let validating = || cache::<ValidatingWebhookConfiguration>(state.validating_webhooks, synced);
        caches.entry(Need::VALIDATING_WEBHOOKS).or_insert_with(|| Arc::new(validating()));
        caches.entry(Need::SERVICES).or_insert_with(|| Arc::new(cache::<Service>(state.services, synced)));

        let loopback: Weak<dyn Loopback> = Arc::<FixedServer>::downgrade(&server);
        Arc::new(Self {
            client: Handle::try_current().is_ok().then(|| client(server)),
            caches: Arc::new(caches),
            loopback: OnceLock::from(loopback),
            ..Self::without_caches()
        })
    }
}
