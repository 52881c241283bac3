//! The quotas of a namespace as late as they are known, and how what is used of them is written (`quotaAccessor`).

use super::scopes::Selector;
use crate::cluster::{Cluster, Need};
use crate::config::Limits;
use crate::object::quantity::Quantity;
use crate::plugins::rules::resources::ResourceList;
use crate::status::Status;
use k8s_openapi::api::core::v1::ResourceQuota;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use moka::policy::EvictionPolicy;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A quota while requests are held against it.
#[derive(Clone, Debug)]
pub(super) struct Quota {
    pub(super) name: String,
    pub(super) scopes: Vec<Selector>,
    /// `status.hard`
    pub(super) hard: ResourceList,
    /// `status.used`, with what is to be charged.
    pub(super) used: ResourceList,
    /// Whether something is to be charged.
    pub(super) is_changed: bool,
    /// Whether the requests that are left have been charged to it.
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

    /// The quota as it is to be written.
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

/// Versions of one object on etcd are numbers, later ones larger (`CompareResourceVersion`).
fn version(quota: &ResourceQuota) -> Option<u64> {
    quota.metadata.resource_version.as_ref()?.parse().ok()
}

/// Where quotas are read and written.
pub(super) struct Quotas {
    cluster: Arc<Cluster>,
    /// What the API server says while the cache has no first list; many requests at once ask once.
    live: moka::future::Cache<String, Arc<Vec<Arc<ResourceQuota>>>>,
    /// What was written last, until the cache has it: else one charge after the other would meet a conflict.
    written: moka::sync::Cache<String, Arc<ResourceQuota>>,
}

impl Quotas {
    pub(super) fn new(cluster: Arc<Cluster>, limits: &Limits) -> Self {
        let entries = limits.quota_cache_entries;
        Self {
            cluster,
            live: moka::future::Cache::builder().max_capacity(entries).time_to_live(limits.quota_lookup_ttl).build(),
            written: moka::sync::Cache::builder().max_capacity(entries).eviction_policy(EvictionPolicy::lru()).build(),
        }
    }

    /// Whether everything is known that the namespace's quotas depend on.
    fn check_decodable(&self, namespace: &str) -> Result<(), Status> {
        self.cluster.check_decodable(&[Need::RESOURCE_QUOTAS], namespace)?;
        self.cluster.check_decodable(&[Need::DEVICE_CLASSES], "")
    }

    /// Whether the namespace is known to have none.
    pub(super) fn has_none(&self, namespace: &str) -> bool {
        self.cluster.has_synced::<ResourceQuota>()
            && self.cluster.in_namespace::<ResourceQuota>(namespace).is_empty()
            && self.check_decodable(namespace).is_ok()
    }

    /// Whether it may have one whose limits are of interest.
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

    /// The same, asked of the API server.
    pub(super) async fn fresh(&self, namespace: &str) -> Result<Vec<Quota>, Status> {
        let found = self.cluster.list_live::<ResourceQuota>(namespace).await?;
        Ok(found.into_iter().map(Quota::new).collect())
    }

    /// What was written, where it is newer than what was read (`checkCache`).
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

    /// Writes what is used.
    pub(super) async fn write(&self, quota: &Quota) -> Result<(), Status> {
        let updated = self.cluster.update_quota_status(&quota.charged()).await?;
        self.written.insert(key(&updated), updated);
        Ok(())
    }
}
