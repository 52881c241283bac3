//! What plugins read of the cluster: watch caches, started only for what enabled plugins need, and discovery.

pub mod discovery;

use crate::status::Status;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::Service;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A cache that a plugin reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Need {
    /// Namespaces: labels, annotations, phase.
    Namespaces,
    /// MutatingWebhookConfigurations.
    MutatingWebhooks,
    /// ValidatingWebhookConfigurations.
    ValidatingWebhooks,
    /// Services, for webhooks' client configurations.
    Services,
}

/// What is kept of a Namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Namespace {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Whether `status.phase` is `Terminating`.
    pub terminating: bool,
}

/// The cluster as plugins see it.
pub struct Cluster {
    // caches and a kube::Client
}

impl Cluster {
    /// The namespace, from the cache.
    pub fn namespace(&self, _name: &str) -> Option<Arc<Namespace>> {
        None
    }

    /// The namespace, asked of the API server; `None` if there is none.
    ///
    /// # Errors
    /// When the API server could not be asked, or refused.
    pub async fn live_namespace(&self, _name: &str) -> Result<Option<Arc<Namespace>>, Status> {
        Ok(None)
    }

    /// Creates a namespace. One that exists already is no error.
    ///
    /// # Errors
    /// When the API server could not be asked, or refused.
    pub async fn create_namespace(&self, _name: &str) -> Result<(), Status> {
        Ok(())
    }

    /// All MutatingWebhookConfigurations, sorted by name; the same `Arc` as long as none changed.
    pub fn mutating_webhooks(&self) -> Arc<Vec<Arc<MutatingWebhookConfiguration>>> {
        Arc::default()
    }

    /// All ValidatingWebhookConfigurations, sorted by name; the same `Arc` as long as none changed.
    pub fn validating_webhooks(&self) -> Arc<Vec<Arc<ValidatingWebhookConfiguration>>> {
        Arc::default()
    }

    /// A Service, from the cache.
    pub fn service(&self, _namespace: &str, _name: &str) -> Option<Arc<Service>> {
        None
    }

    /// Whether every cache that was asked for holds its first list.
    pub fn is_synced(&self) -> bool {
        true
    }

    /// Waits until [`Self::is_synced`], at most 10 s as `admission.Handler.WaitForReady`; answers whether it came so far.
    pub async fn wait_synced(&self) -> bool {
        true
    }
}
