//! A cluster with a fixed state.

use super::cache::{Cache, Projection};
use super::custom_resources::Definitions;
use super::{Cluster, Kept, Limits, Live, Namespace, Need};
use crate::object::Object;
use crate::status::Status;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::Service;
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

/// The state of a fixed cluster, for tests and for a chain without a server.
#[derive(Clone, Debug, Default)]
pub struct FixedState {
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
    pub parameters: Vec<serde_json::Value>,
    /// The errors that the API server returns for the first updates of a quota's status. These updates have no effect.
    pub refused_updates: Vec<Status>,
    /// The caches of other kinds.
    pub(crate) cached: HashMap<Need, Arc<dyn Kept>>,
    /// The objects of other kinds at the API server, if they differ from the caches.
    pub(crate) live: HashMap<Need, Arc<dyn Kept>>,
}

#[cfg(test)]
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

impl Cluster {
    /// A cluster with the given state. Namespaces that are created later exist at the API server.
    pub fn fixed(state: FixedState) -> Arc<Self> {
        let live = state.live_namespaces.as_ref().unwrap_or(&state.namespaces);
        let namespaces = live.iter().map(|namespace| (namespace.name.clone(), Arc::new(namespace.clone()))).collect();
        let synced = !state.unsynced;
        let mut live = state.cached.clone();
        live.extend(state.live);
        let mut caches = state.cached;
        let cached = state.namespaces.into_iter().map(|namespace| (namespace.name.clone(), namespace));
        caches.entry(Need::NAMESPACES).or_insert_with(|| Arc::new(Cache::fixed(cached, synced)));
        let mutating = || fixed::<MutatingWebhookConfiguration>(state.mutating_webhooks, synced);
        caches.entry(Need::MUTATING_WEBHOOKS).or_insert_with(|| Arc::new(mutating()));
        let validating = || fixed::<ValidatingWebhookConfiguration>(state.validating_webhooks, synced);
        caches.entry(Need::VALIDATING_WEBHOOKS).or_insert_with(|| Arc::new(validating()));
        caches.entry(Need::SERVICES).or_insert_with(|| Arc::new(fixed::<Service>(state.services, synced)));
        let (pods, parameters) = (state.pods, state.parameters);
        let live = Live::Fixed { namespaces: Mutex::new(namespaces), cached: live, pods, parameters };
        Arc::new(Self {
            live,
            limits: Limits::default(),
            caches: Arc::new(caches),
            labelled: Vec::new(),
            definitions: Arc::new(Definitions::new(&[])),
            parameters: Default::default(),
            made: Arc::default(),
            loopback: Default::default(),
            seen_synced: AtomicBool::new(false),
            refused_updates: Mutex::new(state.refused_updates.into()),
            _watches: Arc::default(),
        })
    }
}

fn fixed<P: Projection>(objects: Vec<P::Object>, synced: bool) -> Cache<P> {
    Cache::fixed(objects.into_iter().map(P::project), synced)
}
