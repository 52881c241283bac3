//! Validation of built-in kinds: the causes of kube-apiserver's 422 (`pkg/apis/*/validation`).
//!
//! The objects are decoded and defaulted ([`crate::normal`]), and the server has set its own fields. One file covers an API group or a
//! kind; the functions name the Go function from which their rules come. The kinds of admissionregistration.k8s.io, whose expressions
//! need a compiler of CEL, and CustomResourceDefinitions ([`crate::custom_resource_definition`]) are not here.

mod node;
mod formats;
mod metadata;
mod selector;
mod resources;
mod volume_source;
mod certificate;
mod claim;
mod pod;
mod core;
mod quota;
mod event;
mod service;
mod apps;
mod batch;
mod rbac;
mod networking;
mod storage;
mod cluster;
mod autoscaling;
mod flowcontrol;
mod apiregistration;
mod device;
mod prepare;
mod warnings;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod growth;

pub use prepare::{default_pod_resources, drop_old_forms, keep_pod_resources, prepare_for_create, prepare_for_update};
pub use warnings::warnings;

use crate::Object;
use crate::kind::GroupVersionKind;
use crate::status::Cause;
use node::{Causes, Node};

/// The errors of a new object (`Strategy.Validate`). Kinds without rules here have none.
pub fn validate(kind: &GroupVersionKind, object: &Object) -> Vec<Cause> {
    check(kind, object, None, "")
}

/// The errors of an object that replaces another (`Strategy.ValidateUpdate`); the subresource is empty for a write of the object
/// itself. [`crate::object_meta::validate_any_update`] has the errors that precede these.
pub fn validate_update(kind: &GroupVersionKind, object: &Object, old: &Object, subresource: &str) -> Vec<Cause> {
    check(kind, object, Some(old), subresource)
}

/// The errors of the addresses of a Service, which kube-apiserver looks for before it allocates (`ValidateServiceClusterIPsRelatedFields`).
pub fn service_addresses(service: &Object, old: Option<&Object>) -> Vec<Cause> {
    let (service, old) = (service.whole(), old.map(Object::whole));
    let old = old.as_ref().map(|old| Node::root(old.as_value()));
    let mut found = Causes::default();
    service::first_addresses(&Node::root(service.as_value()), old.as_ref(), &mut found);
    found.into_vec()
}

/// The class of a pod's quality of service (`qos.ComputePodQOS`).
pub fn quality_of_service(pod: &Object) -> &'static str {
    pod::class(&Node::root(pod.as_value()))
}

/// The errors of a Binding, as texts with their fields (`ValidatePodBinding`).
pub fn binding(object: &Object) -> Vec<Cause> {
    check(&GroupVersionKind::new("", "v1", "Binding"), object, None, "")
}

fn check(kind: &GroupVersionKind, object: &Object, old: Option<&Object>, subresource: &str) -> Vec<Cause> {
    // The objects with their unwritten empty values.
    let (whole, old) = (object.whole(), old.map(Object::whole));
    let object = &Node::root(whole.as_value());
    let old = old.as_ref().map(|old| Node::root(old.as_value()));
    let old = old.as_ref();
    let mut found = Causes::default();
    let out = &mut found;
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => match old {
            Some(old) => pod::change(object, old, subresource, out),
            None => pod::create(object, out),
        },
        ("", "PodTemplate") => pod::object(object, old, out),
        ("", "Binding") => core::binding(object, out),
        ("", "Service") => match (old, subresource) {
            (Some(old), "status") => service::status(object, old, out),
            (Some(old), _) => service::update(object, old, out),
            (None, _) => service::create(object, out),
        },
        ("", "ConfigMap") => core::config_map(object, old, out),
        ("", "Secret") => core::secret(object, old, out),
        ("", "ServiceAccount") => core::service_account(object, old, out),
        ("", "Namespace") => core::namespace(object, old, subresource, out),
        ("", "Endpoints") => core::endpoints(object, old, out),
        ("", "Node") => core::node(object, old, subresource, out),
        ("", "ReplicationController") => core::replication_controller(object, old, subresource, out),
        ("", "LimitRange") => quota::limit_range(object, old, out),
        ("", "ResourceQuota") => quota::resource_quota(object, old, subresource, out),
        ("", "Event") => event::event(object, old, false, out),
        ("events.k8s.io", "Event") => event::event(object, old, true, out),
        ("", "PersistentVolume") => claim::volume(object, old, subresource, out),
        ("", "PersistentVolumeClaim") => claim::claim(object, old, subresource, out),
        ("apps", "Deployment") => apps::deployment(object, old, subresource, out),
        ("apps", "ReplicaSet") => apps::replica_set(object, old, subresource, out),
        ("apps", "DaemonSet") => apps::daemon_set(object, old, subresource, out),
        ("apps", "StatefulSet") => apps::stateful_set(object, old, subresource, out),
        ("apps", "ControllerRevision") => apps::controller_revision(object, old, out),
        ("batch", "Job") => batch::job(object, old, subresource, out),
        ("batch", "CronJob") => batch::cron_job(object, old, subresource, out),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaling::autoscaler(object, old, subresource, out),
        ("autoscaling", "Scale") => autoscaling::scale(object, out),
        ("policy", "PodDisruptionBudget") => networking::disruption_budget(object, old, subresource, out),
        ("rbac.authorization.k8s.io", "Role") => rbac::role(object, old, true, out),
        ("rbac.authorization.k8s.io", "ClusterRole") => rbac::role(object, old, false, out),
        ("rbac.authorization.k8s.io", "RoleBinding") => rbac::binding(object, old, true, out),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding") => rbac::binding(object, old, false, out),
        ("networking.k8s.io", "Ingress") => networking::ingress(object, old, subresource, out),
        ("networking.k8s.io", "IngressClass") => networking::ingress_class(object, old, out),
        ("networking.k8s.io", "NetworkPolicy") => networking::network_policy(object, old, out),
        ("networking.k8s.io", "IPAddress") => networking::ip_address(object, old, out),
        ("networking.k8s.io", "ServiceCIDR") => networking::service_cidr(object, old, subresource, out),
        ("discovery.k8s.io", "EndpointSlice") => networking::endpoint_slice(object, old, out),
        ("storage.k8s.io", "StorageClass") => storage::storage_class(object, old, out),
        ("storage.k8s.io", "VolumeAttachment") => storage::attachment(object, old, subresource, out),
        ("storage.k8s.io", "CSINode") => storage::csi_node(object, old, out),
        ("storage.k8s.io", "CSIDriver") => storage::driver(object, old, out),
        ("storage.k8s.io", "CSIStorageCapacity") => storage::capacity(object, old, out),
        ("storage.k8s.io", "VolumeAttributesClass") => storage::attributes_class(object, old, out),
        ("scheduling.k8s.io", "PriorityClass") => cluster::priority_class(object, old, out),
        ("node.k8s.io", "RuntimeClass") => cluster::runtime_class(object, old, out),
        ("coordination.k8s.io", "Lease") => cluster::lease(object, old, out),
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => flowcontrol::flow_schema(object, old, subresource, out),
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => {
            flowcontrol::priority_level(object, old, subresource, out);
        }
        ("apiregistration.k8s.io", "APIService") => apiregistration::api_service(object, old, subresource, out),
        ("resource.k8s.io", "ResourceClaim") => device::claim(object, old, subresource, out),
        ("resource.k8s.io", "ResourceClaimTemplate") => device::template(object, old, out),
        ("resource.k8s.io", "DeviceClass") => device::class(object, old, out),
        ("resource.k8s.io", "ResourceSlice") => device::slice(object, old, out),
        ("certificates.k8s.io", "CertificateSigningRequest") => {
            certificate::signing_request(object, old, subresource, out);
        }
        _ => {}
    }
    found.into_vec()
}
