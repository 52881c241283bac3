//! A cluster that does not change by itself.

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

/// A cluster that does not change by itself: for tests and for the chain without a server.
#[derive(Clone, Debug, Default)]
pub struct FixedState {
    /// The namespaces in the cache.
    pub namespaces: Vec<Namespace>,
    /// The namespaces that the API server has, where they are not those of the cache.
    pub live_namespaces: Option<Vec<Namespace>>,
    /// The MutatingWebhookConfigurations.
    pub mutating_webhooks: Vec<MutatingWebhookConfiguration>,
    /// The ValidatingWebhookConfigurations.
    pub validating_webhooks: Vec<ValidatingWebhookConfiguration>,
    /// The Services.
    pub services: Vec<Service>,
    /// The pods that the API server lists; `None` where it lists none, for there is no API server.
    pub pods: Option<Vec<Object>>,
    /// Whether the caches never get their first list.
    pub unsynced: bool,
    /// Objects of any kind, which policies may take their parameters from.
    pub parameters: Vec<serde_json::Value>,
    /// What the API server answers to the first updates of a quota's status, instead of doing them.
    pub refused_updates: Vec<Status>,
    /// The caches of other kinds.
    pub(crate) cached: HashMap<Need, Arc<dyn Kept>>,
    /// What the API server has of them, where that is something else.
    pub(crate) live: HashMap<Need, Arc<dyn Kept>>,
}

#[cfg(test)]
impl FixedState {
    /// With these objects in the cache, and at the API server unless [`Self::live`] says otherwise.
    #[must_use]
    pub(crate) fn with<P: Projection>(mut self, objects: Vec<P::Object>) -> Self {
        self.cached.insert(P::NEED, Arc::new(fixed::<P>(objects, !self.unsynced)));
        self
    }

    /// With objects of these keys in the cache that could not be decoded, and no other.
    #[must_use]
    pub(crate) fn undecodable<P: Projection>(mut self, keys: &[&str]) -> Self {
        self.cached.insert(P::NEED, Arc::new(fixed::<P>(Vec::new(), true).with_undecodable(keys)));
        self
    }

    /// With these objects of the kind at the API server, whatever the cache holds.
    #[must_use]
    pub(crate) fn live<P: Projection>(mut self, objects: Vec<P::Object>) -> Self {
        self.live.insert(P::NEED, Arc::new(fixed::<P>(objects, true)));
        self
    }
}

impl Cluster {
    /// A cluster that holds this state. Namespaces that are created in it are there when asked of the API server.
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
            caches,
            definitions: Definitions::new(),
            parameters: Default::default(),
            loopback: Default::default(),
            seen_synced: AtomicBool::new(false),
            refused_updates: Mutex::new(state.refused_updates.into()),
            _watches: Vec::new(),
        })
    }
}

fn fixed<P: Projection>(objects: Vec<P::Object>, synced: bool) -> Cache<P> {
    Cache::fixed(objects.into_iter().map(P::project), synced)
}
