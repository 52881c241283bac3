//! A cluster with a fixed state, for tests.

use super::cache::{Cache, Projection, key};
use super::pods::PAGE;
use super::quotas::names;
use super::{AnyCache, Cluster, Namespace, Need, PodPage, of_kind};
use crate::kind::GroupVersionKind;
use crate::object::Object;
use crate::status::{OPTIMISTIC_LOCK, Status};
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::{ResourceQuota, Service};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// The state of a fixed cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct FixedState {
    /// The namespaces in the cache.
    pub namespaces: Vec<Namespace>,
    /// The namespaces at the API server, if they differ from those in the cache.
    pub live_namespaces: Option<Vec<Namespace>>,
    /// The MutatingWebhookConfigurations.
    pub mutating_webhooks: Vec<MutatingWebhookConfiguration>,
    /// The ValidatingWebhookConfigurations.
    pub validating_webhooks: Vec<ValidatingWebhookConfiguration>,
    /// The Services.
    pub services: Vec<Service>,
    /// The pods that the API server lists. `None` if there is no API server.
    pub pods: Option<Vec<Object>>,
    /// Whether the caches never receive a first list.
    pub unsynced: bool,
    /// Objects of any kind that policies may use as parameters.
    pub parameters: Vec<Value>,
    /// The errors that the API server returns for the first updates of a quota's status. These updates have no effect.
    pub refused_updates: Vec<Status>,
    /// The caches of other kinds.
    pub(crate) cached: HashMap<Need, Arc<dyn AnyCache>>,
    /// The objects of other kinds at the API server, if they differ from the caches.
    pub(crate) live: HashMap<Need, Arc<dyn AnyCache>>,
}

impl FixedState {
    /// Adds objects to the cache, and to the API server unless [`Self::live`] sets others.
    #[must_use]
    pub(crate) fn with<P: Projection>(mut self, objects: Vec<P::Object>) -> Self {
        self.cached.insert(P::NEED, Arc::new(fixed::<P>(objects, !self.unsynced)));
        self
    }

    /// Sets a cache that contains only the keys of objects that could not be decoded.
    #[must_use]
    pub(crate) fn undecodable<P: Projection>(mut self, keys: &[&str]) -> Self {
        self.cached.insert(P::NEED, Arc::new(fixed::<P>(Vec::new(), true).with_undecodable(keys)));
        self
    }

    /// Sets the objects of the kind at the API server, whatever the cache holds.
    #[must_use]
    pub(crate) fn live<P: Projection>(mut self, objects: Vec<P::Object>) -> Self {
        self.live.insert(P::NEED, Arc::new(fixed::<P>(objects, true)));
        self
    }
}

/// The API server of a fixed cluster.
#[derive(Default)]
pub(super) struct FixedServer {
    namespaces: Mutex<BTreeMap<String, Arc<Namespace>>>,
    objects: HashMap<Need, Arc<dyn AnyCache>>,
    pods: Option<Vec<Object>>,
    parameters: Vec<Value>,
    refused_updates: Mutex<VecDeque<Status>>,
}

impl FixedServer {
    pub(super) fn find<P: Projection>(&self, namespace: &str, name: &str) -> Option<Arc<P>> {
        of_kind::<P>(&self.objects)?.find(&key(namespace, name))
    }

    pub(super) fn list<P: Projection>(&self, namespace: &str) -> Vec<Arc<P>> {
        of_kind::<P>(&self.objects).map(|objects| objects.in_namespace(namespace)).unwrap_or_default()
    }

    pub(super) fn namespace(&self, name: &str) -> Option<Arc<Namespace>> {
        self.namespaces.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    pub(super) fn create_namespace(&self, name: &str) {
        let namespace = || Arc::new(Namespace { name: name.to_owned(), ..Namespace::default() });
        let mut namespaces = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        namespaces.entry(name.to_owned()).or_insert_with(namespace);
    }

    /// Returns a page of the pods. The continue token is the position in the list.
    pub(super) fn pods(&self, namespace: &str, next: Option<&str>) -> Result<PodPage, Status> {
        let pods = self.pods.as_ref().ok_or_else(|| Status::service_unavailable("there is no API server"))?;
        let start = next.and_then(|next| next.parse().ok()).unwrap_or(0);
        let mut following = pods.iter().filter(|pod| pod.namespace() == namespace).skip(start);
        let pods: Vec<Object> = following.by_ref().take(PAGE).cloned().collect();
        let remaining = following.count();
        Ok(PodPage { next: (remaining > 0).then(|| (start + pods.len()).to_string()), pods, remaining })
    }

    /// Returns the parameters of the kind.
    pub(super) fn parameters(&self, kind: &GroupVersionKind) -> impl Iterator<Item = &Value> {
        let text = |object: &Value, field| object.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        self.parameters
            .iter()
            .filter(move |object| kind.matches_type(&text(object, "apiVersion"), &text(object, "kind")))
    }

    /// Updates the status of a quota; resourceVersions are counted up.
    pub(super) fn update_quota_status(&self, quota: &ResourceQuota) -> Result<Arc<ResourceQuota>, Status> {
        let refused = self.refused_updates.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        if let Some(status) = refused {
            return Err(status);
        }
        let (namespace, name) = names(quota);
        let mut result = Err(Status::not_found("", "resourcequotas", name));
        let Some(stored) = of_kind::<ResourceQuota>(&self.objects) else { return result };
        stored.change(|quotas| {
            let key = key(namespace, name);
            let Some(current) = quotas.find(&key) else { return false };
            if current.metadata.resource_version != quota.metadata.resource_version {
                result = Err(Status::conflict("", "resourcequotas", name, OPTIMISTIC_LOCK));
                return false;
            }
            let mut updated = quota.clone();
            let version = quota.metadata.resource_version.as_ref().and_then(|version| version.parse().ok());
            updated.metadata.resource_version = Some((version.unwrap_or(0_u64) + 1).to_string());
            let updated = Arc::new(updated);
            result = Ok(updated.clone());
            quotas.insert(key.into(), updated)
        });
        result
    }
}

impl Cluster {
    /// A cluster with the given state. Namespaces that are created later exist at the API server.
    pub(crate) fn fixed(state: FixedState) -> Arc<Self> {
        let live = state.live_namespaces.as_ref().unwrap_or(&state.namespaces);
        let namespaces = live.iter().map(|namespace| (namespace.name.clone(), Arc::new(namespace.clone()))).collect();
        let synced = !state.unsynced;
        let mut objects = state.cached.clone();
        objects.extend(state.live);
        let mut caches = state.cached;
        let cached = state.namespaces.into_iter().map(|namespace| (namespace.name.clone(), namespace));
        caches.entry(Need::NAMESPACES).or_insert_with(|| Arc::new(Cache::fixed(cached, synced)));
        let mutating = || fixed::<MutatingWebhookConfiguration>(state.mutating_webhooks, synced);
        caches.entry(Need::MUTATING_WEBHOOKS).or_insert_with(|| Arc::new(mutating()));
        let validating = || fixed::<ValidatingWebhookConfiguration>(state.validating_webhooks, synced);
        caches.entry(Need::VALIDATING_WEBHOOKS).or_insert_with(|| Arc::new(validating()));
        caches.entry(Need::SERVICES).or_insert_with(|| Arc::new(fixed::<Service>(state.services, synced)));
        let (pods, parameters) = (state.pods, state.parameters);
        let refused_updates = Mutex::new(state.refused_updates.into());
        let server = FixedServer { namespaces: Mutex::new(namespaces), objects, pods, parameters, refused_updates };
        Arc::new(Self { fixed: Some(server), caches: Arc::new(caches), ..Self::without_caches() })
    }
}

fn fixed<P: Projection>(objects: Vec<P::Object>, synced: bool) -> Cache<P> {
    Cache::fixed(objects.into_iter().map(P::project), synced)
}
