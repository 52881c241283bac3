//! What is kept of each kind of object: what plugins read, and nothing else.

use super::cache::{Projection, key, namespaced_key};
use super::{Namespace, Need};
use crate::admission::shadow;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingAdmissionPolicy, MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::{
    LimitRange, Namespace as KubeNamespace, NamespaceSpec, NamespaceStatus, Node, NodeSpec, NodeStatus,
    PersistentVolume, PersistentVolumeClaim, Pod, PodSpec, ResourceQuota, Service, ServiceSpec,
};
use k8s_openapi::api::networking::v1::IngressClass;
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::scheduling::v1alpha2::{PodGroup, Workload};
use k8s_openapi::api::storage::v1::{CSIDriver, StorageClass};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use std::collections::BTreeMap;

impl From<KubeNamespace> for Namespace {
    fn from(namespace: KubeNamespace) -> Self {
        let KubeNamespace { mut metadata, mut spec, mut status } = namespace;
        let usual = is_usual(spec.as_ref(), status.as_ref());
        let terminating = status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Terminating"));
        let name = metadata.name.take().unwrap_or_default();
        let labels = metadata.labels.take().unwrap_or_default().into();
        let annotations = metadata.annotations.take().unwrap_or_default().into();
        (metadata.managed_fields, metadata.owner_references) = (None, None);
        if usual {
            (spec, status) = (None, None);
        }
        let rest = serde_json::to_string(&Rest { metadata, spec, status }).unwrap_or_default().into();
        Self { name, labels, annotations, terminating, usual, rest }
    }
}

fn is_usual(spec: Option<&NamespaceSpec>, status: Option<&NamespaceStatus>) -> bool {
    let finalizers = spec.and_then(|spec| spec.finalizers.as_deref());
    let state = status.map(|status| (status.phase.as_deref(), status.conditions.as_deref()));
    finalizers.is_some_and(|finalizers| finalizers == ["kubernetes"]) && state == Some((Some("Active"), None))
}

/// What is kept of a Namespace as text.
#[derive(Serialize)]
struct Rest {
    metadata: ObjectMeta,
    #[serde(skip_serializing_if = "Option::is_none")]
    spec: Option<NamespaceSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<NamespaceStatus>,
}

impl Projection for Namespace {
    const NEED: Need = Need::Namespaces;
    type Object = KubeNamespace;

    fn project(object: KubeNamespace) -> (String, Self) {
        let namespace = Self::from(object);
        (namespace.name.clone(), namespace)
    }
}

/// Name, namespace, uid, labels and generation. The resourceVersion goes too: what a configuration says is in its spec, so a
/// write that changes nothing else changes nothing here.
fn slim(metadata: ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        name: metadata.name,
        namespace: metadata.namespace,
        uid: metadata.uid,
        labels: metadata.labels,
        generation: metadata.generation,
        ..ObjectMeta::default()
    }
}

/// Metadata with the one annotation that is looked at.
fn slim_with(mut metadata: ObjectMeta, annotation: &str) -> ObjectMeta {
    let annotation = metadata.annotations.as_mut().and_then(|annotations| annotations.remove_entry(annotation));
    ObjectMeta { annotations: annotation.map(|annotation| BTreeMap::from([annotation])), ..slim(metadata) }
}

impl Projection for MutatingWebhookConfiguration {
    const NEED: Need = Need::MutatingWebhooks;
    type Object = Self;

    fn project(mut object: Self) -> (String, Self) {
        object.metadata = slim_with(object.metadata, shadow::HOOKS);
        (object.metadata.name.clone().unwrap_or_default(), object)
    }
}

impl Projection for ValidatingWebhookConfiguration {
    const NEED: Need = Need::ValidatingWebhooks;
    type Object = Self;

    fn project(mut object: Self) -> (String, Self) {
        object.metadata = slim_with(object.metadata, shadow::HOOKS);
        (object.metadata.name.clone().unwrap_or_default(), object)
    }
}

impl Projection for ValidatingAdmissionPolicy {
    const NEED: Need = Need::ValidatingPolicies;
    const MAY_BE_ABSENT: bool = true;
    type Object = Self;

    fn project(mut object: Self) -> (String, Self) {
        object.metadata = slim_with(object.metadata, shadow::POLICY);
        object.status = None;
        (object.metadata.name.clone().unwrap_or_default(), object)
    }
}

impl Projection for MutatingAdmissionPolicy {
    const NEED: Need = Need::MutatingPolicies;
    const MAY_BE_ABSENT: bool = true;
    type Object = Self;

    fn project(mut object: Self) -> (String, Self) {
        object.metadata = slim_with(object.metadata, shadow::POLICY);
        (object.metadata.name.clone().unwrap_or_default(), object)
    }
}

impl Projection for Service {
    const NEED: Need = Need::Services;
    type Object = Self;

    fn project(mut object: Self) -> (String, Self) {
        let (namespace, name) = (object.metadata.namespace.take(), object.metadata.name.take());
        let key = namespaced_key(namespace.as_deref().unwrap_or_default(), name.as_deref().unwrap_or_default());
        object.metadata = ObjectMeta { namespace, name, ..ObjectMeta::default() };
        object.spec = object.spec.map(|spec| ServiceSpec {
            type_: spec.type_,
            cluster_ip: spec.cluster_ip,
            external_name: spec.external_name,
            ip_families: spec.ip_families,
            ports: spec.ports,
            ..ServiceSpec::default()
        });
        object.status = None;
        (key, object)
    }
}

/// What identifies an object, and what some plugin reads of every kind.
fn identity(metadata: ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        name: metadata.name,
        namespace: metadata.namespace,
        uid: metadata.uid,
        annotations: metadata.annotations,
        labels: metadata.labels,
        creation_timestamp: metadata.creation_timestamp,
        deletion_timestamp: metadata.deletion_timestamp,
        ..ObjectMeta::default()
    }
}

/// The key of an object with this metadata.
fn key_of(metadata: &ObjectMeta) -> String {
    key(metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default()).into_owned()
}

impl Projection for Pod {
    const NEED: Need = Need::Pods;
    type Object = Self;

    fn project(object: Self) -> (String, Self) {
        let spec = object.spec.map(|spec| PodSpec {
            node_name: spec.node_name,
            service_account_name: spec.service_account_name,
            volumes: spec.volumes,
            ..PodSpec::default()
        });
        let pod = Self { metadata: identity(object.metadata), spec, status: None };
        (key_of(&pod.metadata), pod)
    }

    fn index(&self) -> Option<&str> {
        self.spec.as_ref()?.node_name.as_deref().filter(|node| !node.is_empty())
    }
}

impl Projection for Node {
    const NEED: Need = Need::Nodes;
    type Object = Self;

    fn project(object: Self) -> (String, Self) {
        let spec = object.spec.map(|spec| NodeSpec { taints: spec.taints, ..NodeSpec::default() });
        let status = object.status.map(|status| NodeStatus {
            allocatable: status.allocatable,
            declared_features: status.declared_features,
            ..NodeStatus::default()
        });
        let node = Self { metadata: identity(object.metadata), spec, status };
        (key_of(&node.metadata), node)
    }
}

impl Projection for ResourceQuota {
    const NEED: Need = Need::ResourceQuotas;
    type Object = Self;

    fn project(mut object: Self) -> (String, Self) {
        // Its status is written with all else that was read.
        object.metadata.managed_fields = None;
        (key_of(&object.metadata), object)
    }
}

impl Projection for LimitRange {
    const NEED: Need = Need::LimitRanges;
    type Object = Self;

    fn project(mut object: Self) -> (String, Self) {
        object.metadata = identity(object.metadata);
        (key_of(&object.metadata), object)
    }
}

impl Projection for PriorityClass {
    const NEED: Need = Need::PriorityClasses;
    type Object = Self;

    fn project(mut object: Self) -> (String, Self) {
        object.metadata = identity(object.metadata);
        (key_of(&object.metadata), object)
    }
}

impl Projection for StorageClass {
    const NEED: Need = Need::StorageClasses;
    type Object = Self;

    fn project(mut object: Self) -> (String, Self) {
        object.metadata = identity(object.metadata);
        (key_of(&object.metadata), object)
    }
}

impl Projection for IngressClass {
    const NEED: Need = Need::IngressClasses;
    type Object = Self;

    fn project(mut object: Self) -> (String, Self) {
        object.metadata = identity(object.metadata);
        (key_of(&object.metadata), object)
    }
}

impl Projection for RuntimeClass {
    const NEED: Need = Need::RuntimeClasses;
    type Object = Self;

    fn project(mut object: Self) -> (String, Self) {
        object.metadata = identity(object.metadata);
        (key_of(&object.metadata), object)
    }
}

impl Projection for PersistentVolume {
    const NEED: Need = Need::PersistentVolumes;
    type Object = Self;

    fn project(mut object: Self) -> (String, Self) {
        object.metadata = identity(object.metadata);
        object.status = None;
        (key_of(&object.metadata), object)
    }
}

impl Projection for PersistentVolumeClaim {
    const NEED: Need = Need::PersistentVolumeClaims;
    type Object = Self;

    fn project(mut object: Self) -> (String, Self) {
        object.metadata = identity(object.metadata);
        object.status = None;
        (key_of(&object.metadata), object)
    }
}

impl Projection for Workload {
    const NEED: Need = Need::Workloads;
    type Object = Self;

    fn project(object: Self) -> (String, Self) {
        (key_of(&object.metadata), object)
    }
}

impl Projection for PodGroup {
    const NEED: Need = Need::PodGroups;
    type Object = Self;

    fn project(object: Self) -> (String, Self) {
        (key_of(&object.metadata), object)
    }
}

impl Projection for CSIDriver {
    const NEED: Need = Need::CsiDrivers;
    type Object = Self;

    fn project(mut object: Self) -> (String, Self) {
        object.metadata = identity(object.metadata);
        (key_of(&object.metadata), object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keeps_of_a_namespace_what_plugins_read() {
        let object = json!({
            "metadata": {"name": "a", "labels": {"l": "1"}, "annotations": {"n": "2"}, "managedFields": [{"manager": "m"}]},
            "status": {"phase": "Terminating"}
        });
        let (key, namespace) = Namespace::project(serde_json::from_value(object).unwrap());
        assert_eq!((&*key, &*namespace.name, namespace.terminating), ("a", "a", true));
        assert_eq!((namespace.labels.get("l"), namespace.annotations.get("n")), (Some("1"), Some("2")));
    }

    #[test]
    fn drops_managed_fields_and_what_only_people_read() {
        let metadata = json!({"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "5", "managedFields": [{}], "annotations": {"a": "b"}});
        let hook = serde_json::from_value(json!({"metadata": metadata, "webhooks": []})).unwrap();
        let (_, hook) = ValidatingWebhookConfiguration::project(hook);
        assert_eq!(serde_json::to_value(hook).unwrap()["metadata"], json!({"name": "a", "namespace": "n", "uid": "u"}));
        let marked = json!({"name": "a", "annotations": {"a": "b", shadow::HOOKS: "true"}});
        let (_, hook) = ValidatingWebhookConfiguration::project(
            serde_json::from_value(json!({"metadata": marked, "webhooks": []})).unwrap(),
        );
        let kept = json!({"name": "a", "annotations": {shadow::HOOKS: "true"}});
        assert_eq!(serde_json::to_value(hook).unwrap()["metadata"], kept);
        let spec = json!({"clusterIP": "10.0.0.1", "selector": {"a": "b"}});
        let service = json!({"metadata": metadata, "spec": spec, "status": {"loadBalancer": {}}});
        let (key, service) = Service::project(serde_json::from_value(service).unwrap());
        assert_eq!(key, "n/a");
        assert!(service.status.is_none() && service.metadata.managed_fields.is_none());
        let spec = service.spec.unwrap();
        assert_eq!((spec.cluster_ip.as_deref(), spec.selector), (Some("10.0.0.1"), None));
    }
}
