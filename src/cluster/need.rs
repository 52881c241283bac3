//! The caches that there are, by what plugins say that they need.

use super::cache::{Cache, Projection};
use super::custom_resources::Definition;
use super::follow::Source;
use super::quotas::OwnedClaim;
use super::{Endpoints, Kept, Limits, Namespace, ServiceAccount};
use crate::policies::Binding;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, MutatingWebhookConfiguration, ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration,
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
use std::sync::Arc;
use tokio_util::task::AbortOnDropHandle;

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
    /// EndpointSlices, where Services are called at their endpoints.
    EndpointSlices,
    /// Pods: what binds them to nodes and what they mount.
    Pods,
    /// Nodes: labels, what they declare and what they can allocate.
    Nodes,
    /// ServiceAccounts.
    ServiceAccounts,
    /// LimitRanges.
    LimitRanges,
    /// ResourceQuotas.
    ResourceQuotas,
    /// PriorityClasses.
    PriorityClasses,
    /// StorageClasses.
    StorageClasses,
    /// IngressClasses.
    IngressClasses,
    /// RuntimeClasses.
    RuntimeClasses,
    /// PersistentVolumes.
    PersistentVolumes,
    /// PersistentVolumeClaims.
    PersistentVolumeClaims,
    /// CSIDrivers.
    CsiDrivers,
    /// Workloads, of an alpha API.
    Workloads,
    /// PodGroups, of an alpha API.
    PodGroups,
    /// CustomResourceDefinitions: what custom resources are decoded by.
    CustomResourceDefinitions,
    /// DeviceClasses: which resources of pods they stand for.
    DeviceClasses,
    /// ResourceClaims: whose they are.
    ResourceClaims,
    /// ValidatingAdmissionPolicies.
    ValidatingPolicies,
    /// ValidatingAdmissionPolicyBindings.
    ValidatingBindings,
    /// MutatingAdmissionPolicies.
    MutatingPolicies,
    /// MutatingAdmissionPolicyBindings.
    MutatingBindings,
    /// Objects of a kind that policies take their parameters from; started on demand.
    Parameters,
}

impl Need {
    /// Starts its cache, unless that is started on demand.
    pub(super) fn start(
        self,
        client: &kube::Client,
        limits: Limits,
        watches: &mut Vec<AbortOnDropHandle<()>>,
    ) -> Option<Arc<dyn Kept>> {
        Some(match self {
            Self::Namespaces => spawn::<Namespace>(client, limits, watches),
            Self::MutatingWebhooks => spawn::<MutatingWebhookConfiguration>(client, limits, watches),
            Self::ValidatingWebhooks => spawn::<ValidatingWebhookConfiguration>(client, limits, watches),
            Self::Services => spawn::<Service>(client, limits, watches),
            Self::EndpointSlices => spawn::<Endpoints>(client, limits, watches),
            Self::Pods => spawn::<Pod>(client, limits, watches),
            Self::Nodes => spawn::<Node>(client, limits, watches),
            Self::ServiceAccounts => spawn::<ServiceAccount>(client, limits, watches),
            Self::LimitRanges => spawn::<LimitRange>(client, limits, watches),
            Self::ResourceQuotas => spawn::<ResourceQuota>(client, limits, watches),
            Self::PriorityClasses => spawn::<PriorityClass>(client, limits, watches),
            Self::StorageClasses => spawn::<StorageClass>(client, limits, watches),
            Self::IngressClasses => spawn::<IngressClass>(client, limits, watches),
            Self::RuntimeClasses => spawn::<RuntimeClass>(client, limits, watches),
            Self::PersistentVolumes => spawn::<PersistentVolume>(client, limits, watches),
            Self::PersistentVolumeClaims => spawn::<PersistentVolumeClaim>(client, limits, watches),
            Self::CsiDrivers => spawn::<CSIDriver>(client, limits, watches),
            Self::Workloads => spawn::<Workload>(client, limits, watches),
            Self::PodGroups => spawn::<PodGroup>(client, limits, watches),
            Self::CustomResourceDefinitions => spawn::<Definition>(client, limits, watches),
            Self::DeviceClasses => spawn::<DeviceClass>(client, limits, watches),
            Self::ResourceClaims => spawn::<OwnedClaim>(client, limits, watches),
            Self::ValidatingPolicies => spawn::<ValidatingAdmissionPolicy>(client, limits, watches),
            Self::ValidatingBindings => spawn::<Binding<ValidatingAdmissionPolicyBinding>>(client, limits, watches),
            Self::MutatingPolicies => spawn::<MutatingAdmissionPolicy>(client, limits, watches),
            Self::MutatingBindings => spawn::<Binding<MutatingAdmissionPolicyBinding>>(client, limits, watches),
            Self::Parameters => return None,
        })
    }
}

fn spawn<P: Projection>(
    client: &kube::Client,
    limits: Limits,
    watches: &mut Vec<AbortOnDropHandle<()>>,
) -> Arc<dyn Kept>
where
    P::Object: Resource<DynamicType = ()>,
{
    let cache = Arc::new(Cache::<P>::new());
    let (followed, source) = (cache.clone(), Source::all::<P::Object>(client.clone()));
    let task = async move { followed.follow(&source, |_| (), limits.follow()).await };
    watches.push(AbortOnDropHandle::new(tokio::spawn(task)));
    cache
}
