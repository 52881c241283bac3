//! The latest known quotas of a namespace, and the updates of their status (`quotaAccessor`).

use super::scopes::Selector;
use crate::cluster::{Cluster, Need};
use crate::config::Limits;
use crate::derived::Lazy;
use crate::object::quantity::Quantity;
use crate::plugins::rules::resources::ResourceList;
use crate::status::Status;
use k8s_openapi::api::core::v1::ResourceQuota;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use moka::policy::EvictionPolicy;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A quota during the check of requests.
#[derive(Clone, Debug)]
pub(super) struct Quota {
    pub(super) name: String,
    pub(super) scopes: Vec<Selector>,
    /// `status.hard`
    pub(super) hard: ResourceList,
    /// `status.used`, including the pending charges.
    pub(super) used: ResourceList,
    /// Whether there are pending charges.
    pub(super) is_changed: bool,
    /// Whether the charges of the remaining requests have already been written to this quota.
    pub(super) is_settled: bool,
    read: Arc<ResourceQuota>,
}

impl Quota {
    pub(super) fn new(read: Arc<ResourceQuota>) -> Self {
        let status = read.status.as_ref();
        Self {
            name: name(&read).to_owned(),
            scopes: read.spec.as_ref().map(Selector::all).unwrap_or_default(),
            hard: quantities(status.and_then(|status| status.hard.as_ref())),
            used: quantities(status.and_then(|status| status.used.as_ref())),
            is_changed: false,
            is_settled: false,
            read,
        }
    }

    /// The quota with the pending charges in its status.
    fn charged(&self) -> ResourceQuota {
        let mut quota = ResourceQuota::clone(&self.read);
        let used = self.used.iter().map(|(name, quantity)| (name.clone(), Text(quantity.to_string()))).collect();
        quota.status.get_or_insert_default().used = Some(used);
        quota
    }
}

fn quantities(list: Option<&BTreeMap<String, Text>>) -> ResourceList {
    let parse = |text: &Text| Quantity::parse(&text.0).unwrap_or(Quantity::ZERO);
    list.into_iter().flatten().map(|(name, text)| (name.clone(), parse(text))).collect()
}

fn name(quota: &ResourceQuota) -> &str {
    quota.metadata.name.as_deref().unwrap_or_default()
}

fn key(quota: &ResourceQuota) -> String {
    format!("{}/{}", quota.metadata.namespace.as_deref().unwrap_or_default(), name(quota))
}

/// A resourceVersion as a number. Versions of one object in etcd increase (`CompareResourceVersion`).
fn version(quota: &ResourceQuota) -> Option<u64> {
    quota.metadata.resource_version.as_ref()?.parse().ok()
}

/// Reads and writes quotas.
pub(super) struct Quotas {
    cluster: Arc<Cluster>,
    /// The quotas from the API server, while the watch cache has no first list. Concurrent requests share a lookup.
    live: Lazy<moka::future::Cache<String, Arc<Vec<Arc<ResourceQuota>>>>>,
    /// The last written state of each quota, until the watch cache has it. Otherwise, consecutive charges would cause conflicts.
    written: Lazy<moka::sync::Cache<String, Arc<ResourceQuota>>>,
}

impl Quotas {
    pub(super) fn new(cluster: Arc<Cluster>, limits: &Limits) -> Self {
        let (entries, ttl) = (limits.quota_cache_entries, limits.quota_lookup_ttl);
        let live = move || moka::future::Cache::builder().max_capacity(entries).time_to_live(ttl).build();
        let written =
            move || moka::sync::Cache::builder().max_capacity(entries).eviction_policy(EvictionPolicy::lru()).build();
        Self { cluster, live: Lazy::new(Box::new(live)), written: Lazy::new(Box::new(written)) }
    }

    /// Checks that the objects that affect the namespace's quotas are decodable.
    fn check_decodable(&self, namespace: &str) -> Result<(), Status> {
        self.cluster.check_decodable(&[Need::RESOURCE_QUOTAS], namespace)?;
        self.cluster.check_decodable(&[Need::DEVICE_CLASSES], "")
    }

    /// Whether the namespace is known to have no quota.
    pub(super) fn has_none(&self, namespace: &str) -> bool {
        self.cluster.has_synced::<ResourceQuota>()
            && self.cluster.in_namespace::<ResourceQuota>(namespace).is_empty()
            && self.check_decodable(namespace).is_ok()
    }

    /// Whether the namespace may have a quota with limits that `interest` accepts.
    pub(super) fn may_have(&self, namespace: &str, interest: impl Fn(&BTreeSet<String>) -> bool) -> bool {
        let hard = |quota: &Arc<ResourceQuota>| {
            let hard = quota.status.as_ref().and_then(|status| status.hard.as_ref());
            hard.into_iter().flatten().map(|(name, _)| name.clone()).collect()
        };
        !self.cluster.has_synced::<ResourceQuota>()
            || self.check_decodable(namespace).is_err()
            || self.cluster.in_namespace::<ResourceQuota>(namespace).iter().any(|quota| interest(&hard(quota)))
    }

    /// The namespace's quotas, sorted by name.
    pub(super) async fn of(&self, namespace: &str) -> Result<Vec<Quota>, Status> {
        self.check_decodable(namespace)?;
        let mut found = self.cluster.in_namespace::<ResourceQuota>(namespace);
        if found.is_empty() && !self.cluster.has_synced::<ResourceQuota>() {
            let look_up = async { self.cluster.list_live::<ResourceQuota>(namespace).await.map(Arc::new) };
            let live = self.live.try_get_with_by_ref(namespace, look_up).await;
            found = live.map_err(|status: Arc<Status>| Status::clone(&status))?.to_vec();
        }
        Ok(found.into_iter().map(|quota| Quota::new(self.latest(quota))).collect())
    }

    /// The namespace's quotas, read from the API server.
    pub(super) async fn fresh(&self, namespace: &str) -> Result<Vec<Quota>, Status> {
        let found = self.cluster.list_live::<ResourceQuota>(namespace).await?;
        Ok(found.into_iter().map(Quota::new).collect())
    }

    /// The written state of the quota, if it is newer than the read state (`checkCache`).
    fn latest(&self, read: Arc<ResourceQuota>) -> Arc<ResourceQuota> {
        let key = key(&read);
        match self.written.get(&key) {
            Some(written) if version(&written) > version(&read) => written,
            Some(_) => {
                self.written.invalidate(&key);
                read
            }
            None => read,
        }
    }

    /// Writes the quota's usage.
    pub(super) async fn write(&self, quota: &Quota) -> Result<(), Status> {
        let updated = self.cluster.update_quota_status(&quota.charged()).await?;
        self.written.insert(key(&updated), updated);
        Ok(())
    }
}
