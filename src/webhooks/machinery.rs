//! The parts that mutating and validating webhooks share (`generic.Webhook`): the hooks of one kind of configuration, and what their calls need.

use super::Manifests;
use super::call::WebhookType;
use super::hook::{Fields, Hooks};
use crate::admission::metrics::Metrics;
use crate::admission::shadow::ShadowNames;
use crate::admission::{Attributes, Denial};
use crate::backend::{Clients, Kubeconfig};
use crate::cel::Release;
use crate::cluster::discovery::Discovery;
use crate::cluster::{Cluster, Projection};
use crate::config::{FeatureGates, Limits};
use crate::conversion::Converter;
use crate::derived::{Derived, FromFilesAndApi};
use crate::manifests::webhooks::Configuration;
use crate::matching::{Content, EXCLUDING_GATE, Matcher, is_exempt, is_review};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhook, MutatingWebhookConfiguration, ValidatingWebhook, ValidatingWebhookConfiguration,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;
use std::sync::Arc;

/// A kind of webhook configuration.
pub(crate) trait Registration: Configuration + Projection<Object = Self> + Send + Sync + 'static {
    /// The type of its webhooks.
    const TYPE: WebhookType;
    /// A webhook of a configuration.
    type Webhook;

    /// Returns the webhooks of the configuration, in their order.
    fn webhooks(&self) -> &[Self::Webhook];
    /// Returns the metadata of the configuration.
    fn metadata(&self) -> &ObjectMeta;
    /// Returns the fields that both types of webhook have.
    fn fields(webhook: &Self::Webhook) -> Fields<'_>;
}

impl Registration for MutatingWebhookConfiguration {
    const TYPE: WebhookType = WebhookType::Mutating;
    type Webhook = MutatingWebhook;

    fn webhooks(&self) -> &[MutatingWebhook] {
        self.webhooks.as_deref().unwrap_or_default()
    }

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn fields(webhook: &MutatingWebhook) -> Fields<'_> {
        webhook.into()
    }
}

impl Registration for ValidatingWebhookConfiguration {
    const TYPE: WebhookType = WebhookType::Validating;
    type Webhook = ValidatingWebhook;

    fn webhooks(&self) -> &[ValidatingWebhook] {
        self.webhooks.as_deref().unwrap_or_default()
    }

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn fields(webhook: &ValidatingWebhook) -> Fields<'_> {
        webhook.into()
    }
}

/// The webhooks of one kind of configuration. The phases are in `mutating.rs` and `validating.rs`.
pub(crate) struct Webhooks<C: 'static> {
    pub(super) cluster: Arc<Cluster>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) converter: Converter,
    clients: Clients,
    shadows: ShadowNames,
    release: Release,
    /// Whether hooks see reviews of access and of tokens.
    sees_reviews: bool,
    manifests: Manifests<C>,
    hooks: Derived<FromFilesAndApi<C>, Hooks>,
}

impl<C: Registration> Webhooks<C> {
    /// Creates the caller from the cluster's state and the configurations from files; hooks are called as `users`.
    pub(crate) fn new(
        cluster: Arc<Cluster>,
        discovery: Arc<Discovery>,
        metrics: Arc<Metrics>,
        limits: &Limits,
        users: Kubeconfig,
        manifests: Manifests<C>,
    ) -> Self {
        let converter = Converter::new(cluster.clone(), discovery, limits, metrics.conversions());
        let clients = Clients::new(limits, users).with_breakers(limits, C::TYPE.label(), metrics.clone());
        let (shadows, release, hooks) = Default::default();
        let sees_reviews = true;
        Self { cluster, metrics, converter, clients, shadows, release, sees_reviews, manifests, hooks }
    }

    /// Follows the gates and the expressions of the emulated release.
    #[must_use]
    pub(crate) fn with_gates(self, gates: &FeatureGates) -> Self {
        Self { sees_reviews: !gates.is_on(EXCLUDING_GATE), release: gates.expressions(), ..self }
    }

    /// Marks the named hooks as shadow hooks.
    #[must_use]
    pub(crate) fn with_shadows(self, shadows: ShadowNames) -> Self {
        Self { shadows, ..self }
    }

    /// Returns the hooks of the present configurations.
    pub(super) fn hooks(&self) -> Arc<Hooks> {
        let present = || (self.manifests.load(), self.cluster.all::<C>());
        let same = |a: &FromFilesAndApi<C>, b: &FromFilesAndApi<C>| Arc::ptr_eq(&a.0, &b.0) && Arc::ptr_eq(&a.1, &b.1);
        self.hooks.get(present, same, |(manifests, stored), before| {
            let hooks = Hooks::compile([manifests, stored], &self.clients, self.release).with_calls_of(before);
            hooks.with_shadows(&self.shadows, C::TYPE.label(), self.metrics.shadows())
        })
    }

    /// What people see who look into the process.
    pub(crate) fn look(&self) -> Value {
        self.hooks().look()
    }

    /// Returns the hooks for the request, once the configurations are known; `None` if no hook may match the request.
    ///
    /// # Errors
    /// If the configurations of the cluster are not known.
    pub(super) async fn ready_hooks(&self, attributes: &Attributes) -> Result<Option<Arc<Hooks>>, Denial> {
        if self.is_excluded(attributes) {
            return Ok(None);
        }
        // A request on admission configuration matches only hooks from files, so it does not wait for the cluster's configurations.
        let is_exempt = is_exempt(attributes);
        if is_exempt && !self.manifests.is_followed() {
            return Ok(None);
        }
        if !is_exempt && !self.cluster.is_synced() && !self.cluster.wait_synced().await {
            return Err(Denial::forbidden("not yet ready to handle request"));
        }
        if !is_exempt {
            self.cluster.check_decodable(&[C::NEED], "")?;
        }
        Ok(Some(self.hooks()))
    }

    /// Whether no hook sees the request, those from files included (`generic.Webhook.isExcludedFromAllHooks`).
    fn is_excluded(&self, attributes: &Attributes) -> bool {
        !self.sees_reviews && is_review(&attributes.resource.group, &attributes.resource.resource)
    }

    /// Whether a hook may match the request; matchConditions are not evaluated.
    pub(crate) fn may_match(&self, attributes: &Attributes, content: Content) -> bool {
        if self.is_excluded(attributes) {
            return false;
        }
        let is_exempt = is_exempt(attributes);
        if is_exempt && !self.manifests.is_followed() {
            return false;
        }
        let (hooks, matcher) = (self.hooks(), Matcher::new(&self.cluster, &self.converter));
        let mut candidates = hooks.candidates(attributes, &self.cluster);
        if content == Content::Present {
            candidates.narrow(attributes, attributes.object.as_ref());
        }
        !is_exempt && !self.cluster.is_synced()
            || candidates.any(|(_, hook)| matcher.may_match(&hook.criteria, attributes, content))
    }
}
