//! The caches that plugins may need.

use super::cache::{Cache, CacheRoom, Projection};
use super::custom_resources::Definition;
use super::follow::Bounds;
use super::follow::Source;
use super::quotas::OwnedClaim;
use super::removed_kinds::{self, RemovedKind};
use super::{AnyCache, Endpoints, Namespace, ServiceAccount};
use crate::config::Limits;
use crate::removed::Api;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingAdmissionPolicy, MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::{
    LimitRange, Node, PersistentVolume, PersistentVolumeClaim, Pod, ResourceQuota, Service,
};
use k8s_openapi::api::networking::v1::IngressClass;
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::resource::v1::DeviceClass;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::scheduling::v1alpha2::{PodGroup, Workload};
use k8s_openapi::api::storage::v1::{CSIDriver, StorageClass};
use kube::Resource;
use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use tokio_util::task::AbortOnDropHandle;

/// A cache that a plugin reads.
#[derive(Clone, Copy)]
pub struct Need {
    name: &'static str,
    /// The API of the objects, if Kubernetes removed the API.
    removed: Option<&'static Api>,
    /// Starts the cache. `None` for a cache that is started on demand.
    start: Option<Start>,
    /// A cache without objects that is synced.
    empty: Option<fn() -> Arc<dyn AnyCache>>,
    /// The API group and the plural name of the objects. `None` for a removed API, and for objects of any kind.
    resource: Option<fn() -> GroupResource>,
}

/// An API group and the plural name of a resource.
pub(crate) type GroupResource = (Cow<'static, str>, Cow<'static, str>);

type Start = fn(&kube::Client, &Limits, &Arc<CacheRoom>, &mut Vec<AbortOnDropHandle<()>>) -> Arc<dyn AnyCache>;

impl Need {
    /// Namespaces: labels, annotations, phase.
    pub(crate) const NAMESPACES: Self = Self::of::<Namespace>("Namespaces");
    /// MutatingWebhookConfigurations.
    pub(crate) const MUTATING_WEBHOOKS: Self = Self::of::<MutatingWebhookConfiguration>("MutatingWebhooks");
    /// ValidatingWebhookConfigurations.
    pub(crate) const VALIDATING_WEBHOOKS: Self = Self::of::<ValidatingWebhookConfiguration>("ValidatingWebhooks");
    /// Services, for webhooks' client configurations.
    pub(crate) const SERVICES: Self = Self::of::<Service>("Services");
    /// EndpointSlices, for calls to the endpoints of Services.
    pub(crate) const ENDPOINT_SLICES: Self = Self::of::<Endpoints>("EndpointSlices");
    /// Pods: node, service account and volumes.
    pub const PODS: Self = Self::of::<Pod>("Pods");
    /// Nodes: labels, declared features and allocatable resources.
    pub(crate) const NODES: Self = Self::of::<Node>("Nodes");
    /// ServiceAccounts.
    pub(crate) const SERVICE_ACCOUNTS: Self = Self::of::<ServiceAccount>("ServiceAccounts");
    /// LimitRanges.
    pub(crate) const LIMIT_RANGES: Self = Self::of::<LimitRange>("LimitRanges");
    /// ResourceQuotas.
    pub(crate) const RESOURCE_QUOTAS: Self = Self::of::<ResourceQuota>("ResourceQuotas");
    /// PriorityClasses.
    pub(crate) const PRIORITY_CLASSES: Self = Self::of::<PriorityClass>("PriorityClasses");
    /// StorageClasses.
    pub(crate) const STORAGE_CLASSES: Self = Self::of::<StorageClass>("StorageClasses");
    /// IngressClasses.
    pub(crate) const INGRESS_CLASSES: Self = Self::of::<IngressClass>("IngressClasses");
    /// RuntimeClasses.
    pub(crate) const RUNTIME_CLASSES: Self = Self::of::<RuntimeClass>("RuntimeClasses");
    /// PersistentVolumes.
    pub(crate) const PERSISTENT_VOLUMES: Self = Self::of::<PersistentVolume>("PersistentVolumes");
    /// PersistentVolumeClaims.
    pub(crate) const PERSISTENT_VOLUME_CLAIMS: Self = Self::of::<PersistentVolumeClaim>("PersistentVolumeClaims");
    /// CSIDrivers.
    pub(crate) const CSI_DRIVERS: Self = Self::of::<CSIDriver>("CsiDrivers");
    /// Workloads of an alpha API.
    pub(crate) const WORKLOADS: Self = Self::of::<Workload>("Workloads");
    /// PodGroups of an alpha API.
    pub(crate) const POD_GROUPS: Self = Self::of::<PodGroup>("PodGroups");
    /// CustomResourceDefinitions: schemas and versions of custom resources.
    pub const CUSTOM_RESOURCE_DEFINITIONS: Self = Self::of::<Definition>("CustomResourceDefinitions");
    /// DeviceClasses: the extended resources that they represent.
    pub(crate) const DEVICE_CLASSES: Self = Self::of::<DeviceClass>("DeviceClasses");
    /// ResourceClaims: their owners.
    pub(crate) const RESOURCE_CLAIMS: Self = Self::of::<OwnedClaim>("ResourceClaims");
    /// ValidatingAdmissionPolicies.
    pub(crate) const VALIDATING_POLICIES: Self = Self::of::<ValidatingAdmissionPolicy>("ValidatingPolicies");
    /// MutatingAdmissionPolicies.
    pub(crate) const MUTATING_POLICIES: Self = Self::of::<MutatingAdmissionPolicy>("MutatingPolicies");
    /// Objects of a kind that policies use as parameters. The cache is started on demand.
    pub(crate) const PARAMETERS: Self =
        Self { name: "Parameters", removed: None, start: None, empty: None, resource: None };

    /// The need of the cache of `P`, with a unique name.
    pub(crate) const fn of<P: Projection>(name: &'static str) -> Self
    where
        P::Object: Resource<DynamicType = ()>,
    {
        Self { name, removed: None, start: Some(spawn::<P>), empty: Some(empty::<P>), resource: Some(resource::<P>) }
    }

    /// The need of the cache of a kind whose API Kubernetes removed, with a unique name.
    pub(crate) const fn removed<P: RemovedKind>(name: &'static str) -> Self {
        Self { name, removed: Some(P::API), start: Some(removed_kinds::spawn::<P>), empty: None, resource: None }
    }

    /// The API of the objects, if Kubernetes removed the API.
    pub(crate) const fn removed_api(self) -> Option<&'static Api> {
        self.removed
    }

    /// The API group and the plural name of the objects. A removed API may be in one of several groups. Empty for
    /// [`Self::PARAMETERS`].
    pub(crate) fn resources(self) -> Vec<GroupResource> {
        match self.removed {
            Some(api) => api.groups().map(|group| (group.into(), api.plural.into())).collect(),
            None => self.resource.iter().map(|resource| resource()).collect(),
        }
    }

    /// Starts the cache, except a cache that is started on demand.
    pub(super) fn start(
        self,
        client: &kube::Client,
        limits: &Limits,
        room: &Arc<CacheRoom>,
        watches: &mut Vec<AbortOnDropHandle<()>>,
    ) -> Option<Arc<dyn AnyCache>> {
        self.start.map(|start| start(client, limits, room, watches))
    }

    /// A cache without objects, except of a removed API.
    pub(super) fn empty(self) -> Option<Arc<dyn AnyCache>> {
        self.empty.map(|empty| empty())
    }
}

impl PartialEq for Need {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Need {}

impl Hash for Need {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl fmt::Debug for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

fn empty<P: Projection>() -> Arc<dyn AnyCache> {
    Arc::new(Cache::<P>::fixed([], true))
}

fn resource<P: Projection>() -> GroupResource
where
    P::Object: Resource<DynamicType = ()>,
{
    (P::Object::group(&()), P::Object::plural(&()))
}

fn spawn<P: Projection>(
    client: &kube::Client,
    limits: &Limits,
    room: &Arc<CacheRoom>,
    watches: &mut Vec<AbortOnDropHandle<()>>,
) -> Arc<dyn AnyCache>
where
    P::Object: Resource<DynamicType = ()>,
{
    let cache = Arc::new(Cache::<P>::within(room));
    let (followed, source) = (cache.clone(), Source::all::<P::Object>(client.clone()));
    let bounds = Bounds::of_cache(limits);
    let task = async move { followed.follow(&source, |_| (), bounds).await };
    watches.push(AbortOnDropHandle::new(tokio::spawn(task)));
    cache
}
