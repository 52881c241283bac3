//! Cluster state that only the plugin ResourceQuota reads and writes: the status of quotas, device classes, and the owners of
//! resource claims.

use super::cache::{Projection, key};
use super::decode::decode;
use super::{CallError, Cluster, Need, path};
use crate::object::Object;
use crate::status::Status;
use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{PostParams, Request};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use std::sync::Arc;

impl Projection for DeviceClass {
    const NEED: Need = Need::DEVICE_CLASSES;
    const MAY_BE_REFUSED: bool = true;
    const FIELDS: &'static [&'static str] = &["metadata.name", "spec.extendedResourceName"];
    type Object = Self;

    fn project(mut object: Self) -> (String, Self) {
        object.metadata = ObjectMeta { name: object.metadata.name, ..ObjectMeta::default() };
        (object.spec.config, object.spec.selectors) = (None, None);
        (object.metadata.name.clone().unwrap_or_default(), object)
    }
}

/// The metadata of a resource claim, which names the owner.
#[derive(Debug, PartialEq)]
pub(crate) struct OwnedClaim(pub(crate) Object);

impl Projection for OwnedClaim {
    const NEED: Need = Need::RESOURCE_CLAIMS;
    const MAY_BE_REFUSED: bool = true;
    const FIELDS: &'static [&'static str] = &[
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "metadata.annotations",
        "metadata.labels",
        "metadata.ownerReferences",
        "metadata.creationTimestamp",
        "metadata.deletionTimestamp",
    ];
    type Object = ResourceClaim;

    fn project(mut object: ResourceClaim) -> (String, Self) {
        object.metadata.managed_fields = None;
        let key = key_of(&object.metadata);
        let claim = ResourceClaim { metadata: object.metadata, ..ResourceClaim::default() };
        (key, Self(as_object(&claim)))
    }
}

/// A whole pod. Such pods are read one by one and not cached.
#[derive(Debug, PartialEq)]
pub(crate) struct WholePod(pub(crate) Object);

impl Projection for WholePod {
    const NEED: Need = Need::PODS;
    const FIELDS: &'static [&'static str] = &[
        "apiVersion",
        "kind",
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "metadata.resourceVersion",
        "metadata.annotations",
        "metadata.labels",
        "metadata.ownerReferences",
        "metadata.creationTimestamp",
        "metadata.deletionTimestamp",
        "metadata.deletionGracePeriodSeconds",
        "spec",
        "status",
    ];
    type Object = Pod;

    fn project(object: Pod) -> (String, Self) {
        (key_of(&object.metadata), Self(as_object(&object)))
    }
}

fn key_of(metadata: &ObjectMeta) -> String {
    key(metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default()).into_owned()
}

fn as_object(object: &impl Serialize) -> Object {
    serde_json::to_value(object).ok().and_then(Object::from_value).unwrap_or_default()
}

impl Cluster {
    /// Whether the cache of the kind holds its first list.
    pub(crate) fn has_synced<P: Projection>(&self) -> bool {
        self.caches.get(&P::NEED).is_some_and(|cache| cache.problem().is_none())
    }

    /// Updates the status of a quota, if the quota's resourceVersion is current. Returns the new state.
    ///
    /// # Errors
    /// If the API server is unreachable or refuses the request: with a conflict if the quota changed.
    pub(crate) async fn update_quota_status(&self, quota: &ResourceQuota) -> Result<Arc<ResourceQuota>, Status> {
        let body = serde_json::to_vec(quota).map_err(Status::internal_error)?;
        let (namespace, name) = names(quota);
        let name = utf8_percent_encode(name, NON_ALPHANUMERIC).to_string();
        let parameters = PostParams::default();
        let request =
            Request::new(path::<ResourceQuota>(namespace)).replace_subresource("status", &name, &parameters, body);
        let request = request.map_err(|error| Status::plain(error.to_string()))?;
        let updated = self.call(self.client()?.request_text(request)).await.map_err(CallError::into_status)?;
        let updated =
            decode::<ResourceQuota>(&updated).map_err(|_| super::undecodable("ResourceQuota", names(quota).1))?;
        Ok(Arc::new(updated.1))
    }
}

/// The namespace and the name.
fn names(quota: &ResourceQuota) -> (&str, &str) {
    let metadata = &quota.metadata;
    (metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::FixedState;
    use crate::cluster::tests::client;
    use serde_json::json;

    fn quota(version: &str) -> ResourceQuota {
        let metadata = json!({"name": "q", "namespace": "n", "resourceVersion": version, "finalizers": ["f"],
            "managedFields": [{"manager": "m"}]});
        serde_json::from_value(json!({"metadata": metadata, "status": {"used": {"pods": "1"}}})).unwrap()
    }

    #[tokio::test]
    async fn a_status_is_put_with_the_version_and_all_else_that_was_read() {
        let client = client(|method, url| {
            let on = (method.as_str(), url.trim_end_matches(['?', '&']));
            assert_eq!(on, ("PUT", "/api/v1/namespaces/n/resourcequotas/q/status"));
            Some((200, serde_json::to_value(quota("8")).unwrap()))
        });
        let cluster = Cluster::start(client, &[], Arc::default());
        let (_, read) = ResourceQuota::project(quota("7"));
        assert!(read.metadata.managed_fields.is_none() && read.metadata.finalizers.is_some());
        let updated = cluster.update_quota_status(&read).await.unwrap();
        assert_eq!(updated.metadata.resource_version.as_deref(), Some("8"));
    }

    #[tokio::test]
    async fn a_fixed_cluster_takes_a_version_once() {
        let cluster = Cluster::fixed(FixedState::default().with::<ResourceQuota>(vec![quota("7")]));
        let updated = cluster.update_quota_status(&quota("7")).await.unwrap();
        assert_eq!(updated.metadata.resource_version.as_deref(), Some("8"));
        let conflict = cluster.update_quota_status(&quota("7")).await.unwrap_err();
        assert_eq!((conflict.code, conflict.reason.as_str()), (409, "Conflict"));
        let busy = Status::service_unavailable("busy");
        let state = FixedState { refused_updates: vec![busy.clone()], ..FixedState::default() };
        let cluster = Cluster::fixed(state.with::<ResourceQuota>(vec![quota("7")]));
        assert_eq!(cluster.update_quota_status(&quota("7")).await.unwrap_err(), busy);
        assert!(cluster.update_quota_status(&quota("7")).await.is_ok());
    }
}
