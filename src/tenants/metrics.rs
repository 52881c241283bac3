//! The metrics of tenants.

use crate::metrics::Registry;
use prometheus::{IntCounterVec, Opts};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The number of tenants with a label value of their own.
const MAX_LABELS: usize = 1_000;
/// The label value of all other tenants.
const OTHER: &str = "other";

/// The metrics of tenants, which clones share.
#[derive(Clone, Debug)]
pub(crate) struct TenantMetrics {
    requests: IntCounterVec,
    reloads: IntCounterVec,
    labels: Arc<Mutex<HashSet<String>>>,
}

impl TenantMetrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// If one of the names is registered already.
    pub(crate) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let requests = Opts::new(
            "kube_admission_proxy_tenant_requests_total",
            "Number of requests, by tenant and HTTP code. After 1000 tenants, all others have the value other.",
        );
        let reloads = Opts::new(
            "kube_admission_proxy_config_reloads_total",
            "Number of times that the folder of tenants was read after a change, by status (success or failure).",
        );
        let metrics = Self {
            requests: IntCounterVec::new(requests, &["tenant", "code"])?,
            reloads: IntCounterVec::new(reloads, &["status"])?,
            labels: Arc::default(),
        };
        registry.register(Box::new(metrics.requests.clone()))?;
        registry.register(Box::new(metrics.reloads.clone()))?;
        Ok(metrics)
    }

    /// Counts an answer to a request of a tenant.
    pub(crate) fn answered(&self, tenant: &str, code: u16) {
        let label = self.label(tenant);
        self.requests.with_label_values(&[label, &code.to_string()]).inc();
    }

    fn label<'a>(&self, tenant: &'a str) -> &'a str {
        let mut labels = self.labels.lock().unwrap_or_else(PoisonError::into_inner);
        if labels.contains(tenant) {
            return tenant;
        }
        if labels.len() >= MAX_LABELS {
            return OTHER;
        }
        labels.insert(tenant.to_owned());
        tenant
    }

    /// Counts a reload.
    pub(crate) fn reloaded(&self, is_success: bool) {
        self.reloads.with_label_values(&[if is_success { "success" } else { "failure" }]).inc();
    }
}
