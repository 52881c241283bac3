//! What the webhooks read of the cluster: the part of [`Cluster`] that their tests stand in for.

use crate::cluster::{Cluster, Namespace};
use crate::status::Status;
use async_trait::async_trait;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::Service;
use std::sync::Arc;

/// The cluster's state as webhooks see it; [`Cluster`] is the real one.
#[async_trait]
pub trait Sources: Send + Sync + 'static {
    /// The namespace, from the cache.
    fn namespace(&self, name: &str) -> Option<Arc<Namespace>>;
    /// The namespace, asked of the API server.
    ///
    /// # Errors
    /// When the API server could not be asked, or refused.
    async fn live_namespace(&self, name: &str) -> Result<Option<Arc<Namespace>>, Status>;
    /// All configurations, sorted by name; the same `Arc` as long as none changed.
    fn mutating_webhooks(&self) -> Arc<Vec<Arc<MutatingWebhookConfiguration>>>;
    /// All configurations, sorted by name; the same `Arc` as long as none changed.
    fn validating_webhooks(&self) -> Arc<Vec<Arc<ValidatingWebhookConfiguration>>>;
    /// A Service, from the cache.
    fn service(&self, namespace: &str, name: &str) -> Option<Arc<Service>>;
    /// Whether every cache holds its first list.
    fn is_synced(&self) -> bool;
    /// Waits, bounded, until [`Self::is_synced`]; answers whether it came so far.
    async fn wait_synced(&self) -> bool;
}

#[async_trait]
impl Sources for Cluster {
    fn namespace(&self, name: &str) -> Option<Arc<Namespace>> {
        self.namespace(name)
    }

    async fn live_namespace(&self, name: &str) -> Result<Option<Arc<Namespace>>, Status> {
        self.live_namespace(name).await
    }

    fn mutating_webhooks(&self) -> Arc<Vec<Arc<MutatingWebhookConfiguration>>> {
        self.mutating_webhooks()
    }

    fn validating_webhooks(&self) -> Arc<Vec<Arc<ValidatingWebhookConfiguration>>> {
        self.validating_webhooks()
    }

    fn service(&self, namespace: &str, name: &str) -> Option<Arc<Service>> {
        self.service(namespace, name)
    }

    fn is_synced(&self) -> bool {
        self.is_synced()
    }

    async fn wait_synced(&self) -> bool {
        self.wait_synced().await
    }
}
