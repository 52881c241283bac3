//! The cached fields of each kind: only the fields that plugins read.

use super::cache::{Projection, key, namespaced_key};
use super::{Namespace, Need};
use k8s_openapi::api::core::v1::{
    LimitRange, Node, NodeStatus, PersistentVolume, PersistentVolumeClaim, Pod, PodSpec, ResourceQuota, Service,
    ServiceSpec,
};
use k8s_openapi::api::networking::v1::IngressClass;
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::scheduling::v1alpha2::{PodGroup, Workload};
use k8s_openapi::api::storage::v1::{CSIDriver, StorageClass};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A Namespace as the API server writes it. Fields that are not read keep their JSON value, whatever their type.
#[derive(Debug, Deserialize)]
pub(crate) struct WrittenNamespace {
    #[serde(default)]
    metadata: WrittenMetadata,
    spec: Option<Value>,
    status: Option<Value>,
    /// Always empty; `kube::Resource` requires the field.
    #[serde(skip)]
    no_metadata: ObjectMeta,
}

#[derive(Debug, Default, Deserialize)]
struct WrittenMetadata {
    #[serde(default)]
    name: String,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl From<WrittenNamespace> for Namespace {
    fn from(namespace: WrittenNamespace) -> Self {
        let WrittenNamespace { metadata, mut spec, mut status, .. } = namespace;
        let WrittenMetadata { name, labels, annotations, rest: metadata } = metadata;
        let phase = status.as_ref().and_then(|status| status.get("phase"));
        let terminating = phase.is_some_and(|phase| phase == "Terminating");
        let usual = spec == Some(json!({"finalizers": ["kubernetes"]})) && status == Some(json!({"phase": "Active"}));
        if usual {
            (spec, status) = (None, None);
        }
        let (labels, annotations) = (labels.unwrap_or_default().into(), annotations.unwrap_or_default().into());
        let rest = serde_json::to_string(&Rest { metadata, spec, status }).unwrap_or_default().into();
        Self { name, labels, annotations, terminating, usual, rest }
    }
}

impl Namespace {
    /// Reads the cached fields from the JSON text of a namespace. `None` if the text cannot be decoded.
    pub fn read(text: &str) -> Option<Self> {
        Some(super::decode::decode(text).ok()?.1)
    }
}

/// The fields of a Namespace that the cache keeps as text.
#[derive(Serialize)]
struct Rest {
    metadata: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spec: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Value>,
}

impl Projection for Namespace {
    const NEED: Need = Need::NAMESPACES;
    const FIELDS: &'static [&'static str] = &[
        "metadata.name",
        "metadata.uid",
        "metadata.resourceVersion",
        "metadata.generation",
        "metadata.creationTimestamp",
        "metadata.deletionTimestamp",
        "metadata.deletionGracePeriodSeconds",
        "metadata.generateName",
        "metadata.finalizers",
        "metadata.selfLink",
        "metadata.labels",
        "metadata.annotations",
        "spec",
        "status",
    ];
    type Object = WrittenNamespace;

    fn project(object: WrittenNamespace) -> (String, Self) {
        let namespace = Self::from(object);
        (namespace.name.clone(), namespace)
    }
}

impl kube::Resource for WrittenNamespace {
    type DynamicType = ();
    type Scope = k8s_openapi::ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Namespace".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "namespaces".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.no_metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.no_metadata
    }
}

/// Keeps name, namespace, uid, labels and generation. The resourceVersion is dropped, so that a write that changes only other
/// metadata leaves the cached object unchanged.
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

/// Like [`slim`], but keeps one annotation too.
pub(crate) fn slim_with(mut metadata: ObjectMeta, annotation: &str) -> ObjectMeta {
    let annotation = metadata.annotations.as_mut().and_then(|annotations| annotations.remove_entry(annotation));
    ObjectMeta { annotations: annotation.map(|annotation| BTreeMap::from([annotation])), ..slim(metadata) }
}

impl Projection for Service {
    const NEED: Need = Need::SERVICES;
    const FIELDS: &'static [&'static str] = &["metadata.name", "metadata.namespace", "spec"];
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

/// The fields of webhook configurations and policies.
pub(crate) const CONFIGURATION: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "metadata.labels",
    "metadata.annotations",
    "metadata.generation",
    "spec",
    "webhooks",
];

/// All fields except managedFields, because an update of the status sends all fields back.
const QUOTA: &[&str] = &[
    "apiVersion",
    "kind",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "metadata.resourceVersion",
    "metadata.generation",
    "metadata.creationTimestamp",
    "metadata.deletionTimestamp",
    "metadata.deletionGracePeriodSeconds",
    "metadata.generateName",
    "metadata.finalizers",
    "metadata.selfLink",
    "metadata.labels",
    "metadata.annotations",
    "metadata.ownerReferences",
    "spec",
    "status",
];

/// The fields that [`identity`] keeps, and the given fields.
#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, which has no iterators")]
const fn with_identity<const N: usize, const ALL: usize>(fields: [&'static str; N]) -> [&'static str; ALL] {
    assert!(ALL == N + IDENTITY.len());
    let mut all = [""; ALL];
    let mut at = 0;
    while at < ALL {
        all[at] = if at < IDENTITY.len() { IDENTITY[at] } else { fields[at - IDENTITY.len()] };
        at += 1;
    }
    all
}

const IDENTITY: [&str; 7] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "metadata.annotations",
    "metadata.labels",
    "metadata.creationTimestamp",
    "metadata.deletionTimestamp",
];

/// Keeps the metadata that identifies an object, and the metadata that a plugin reads of every kind.
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

/// The object's key.
fn key_of(metadata: &ObjectMeta) -> String {
    key(metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default()).into_owned()
}

impl Projection for Pod {
    const NEED: Need = Need::PODS;
    const FIELDS: &'static [&'static str] =
        &with_identity::<3, 10>(["spec.nodeName", "spec.serviceAccountName", "spec.volumes"]);
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
    const NEED: Need = Need::NODES;
    const FIELDS: &'static [&'static str] = &with_identity::<2, 9>(["status.allocatable", "status.declaredFeatures"]);
    type Object = Self;

    fn project(object: Self) -> (String, Self) {
        let status = object.status.map(|status| NodeStatus {
            allocatable: status.allocatable,
            declared_features: status.declared_features,
            ..NodeStatus::default()
        });
        let node = Self { metadata: identity(object.metadata), spec: None, status };
        (key_of(&node.metadata), node)
    }
}

impl Projection for ResourceQuota {
    const NEED: Need = Need::RESOURCE_QUOTAS;
    const FIELDS: &'static [&'static str] = QUOTA;
    type Object = Self;

    fn project(mut object: Self) -> (String, Self) {
        // An update of the status sends all other fields back.
        object.metadata.managed_fields = None;
        (key_of(&object.metadata), object)
    }
}

impl Projection for LimitRange {
    const NEED: Need = Need::LIMIT_RANGES;
    const FIELDS: &'static [&'static str] = &with_identity::<1, 8>(["spec"]);
    type Object = Self;

    fn project(mut object: Self) -> (String, Self) {
        object.metadata = identity(object.metadata);
        (key_of(&object.metadata), object)
    }
}

impl Projection for PriorityClass {
    const NEED: Need = Need::PRIORITY_CLASSES;
    const FIELDS: &'static [&'static str] = &with_identity::<3, 10>(["value", "globalDefault", "preemptionPolicy"]);
    type Object = Self;

    fn project(mut object: Self) -> (String, Self) {
        object.metadata = identity(object.metadata);
        (key_of(&object.metadata), object)
    }
}

impl Projection for StorageClass {
    const NEED: Need = Need::STORAGE_CLASSES;
    const FIELDS: &'static [&'static str] = &with_identity::<7, 14>([
        "provisioner",
        "allowVolumeExpansion",
        "allowedTopologies",
        "mountOptions",
        "parameters",
        "reclaimPolicy",
        "volumeBindingMode",
    ]);
    type Object = Self;

    fn project(mut object: Self) -> (String, Self) {
        object.metadata = identity(object.metadata);
        (key_of(&object.metadata), object)
    }
}

impl Projection for IngressClass {
    const NEED: Need = Need::INGRESS_CLASSES;
    const FIELDS: &'static [&'static str] = &with_identity::<1, 8>(["spec"]);
    type Object = Self;

    fn project(mut object: Self) -> (String, Self) {
        object.metadata = identity(object.metadata);
        (key_of(&object.metadata), object)
    }
}

impl Projection for RuntimeClass {
    const NEED: Need = Need::RUNTIME_CLASSES;
    const FIELDS: &'static [&'static str] = &with_identity::<3, 10>(["handler", "overhead", "scheduling"]);
    type Object = Self;

    fn project(mut object: Self) -> (String, Self) {
        object.metadata = identity(object.metadata);
        (key_of(&object.metadata), object)
    }
}

impl Projection for PersistentVolume {
    const NEED: Need = Need::PERSISTENT_VOLUMES;
    const FIELDS: &'static [&'static str] = &with_identity::<1, 8>(["spec"]);
    type Object = Self;

    fn project(mut object: Self) -> (String, Self) {
        object.metadata = identity(object.metadata);
        object.status = None;
        (key_of(&object.metadata), object)
    }
}

impl Projection for PersistentVolumeClaim {
    const NEED: Need = Need::PERSISTENT_VOLUME_CLAIMS;
    const FIELDS: &'static [&'static str] = &with_identity::<1, 8>(["spec"]);
    type Object = Self;

    fn project(mut object: Self) -> (String, Self) {
        object.metadata = identity(object.metadata);
        object.status = None;
        (key_of(&object.metadata), object)
    }
}

impl Projection for Workload {
    const NEED: Need = Need::WORKLOADS;
    const FIELDS: &'static [&'static str] = &with_identity::<1, 8>(["spec"]);
    type Object = Self;

    fn project(object: Self) -> (String, Self) {
        (key_of(&object.metadata), object)
    }
}

impl Projection for PodGroup {
    const NEED: Need = Need::POD_GROUPS;
    const FIELDS: &'static [&'static str] = &with_identity::<3, 10>(["metadata.ownerReferences", "spec", "status"]);
    type Object = Self;

    fn project(object: Self) -> (String, Self) {
        (key_of(&object.metadata), object)
    }
}

impl Projection for CSIDriver {
    const NEED: Need = Need::CSI_DRIVERS;
    const FIELDS: &'static [&'static str] = &with_identity::<1, 8>(["spec"]);
    type Object = Self;

    fn project(mut object: Self) -> (String, Self) {
        object.metadata = identity(object.metadata);
        (key_of(&object.metadata), object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::shadow;
    use crate::cluster::decode::decode;
    use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;

    #[test]
    fn a_pod_group_has_its_owners() {
        let text = r#"{"metadata":{"name":"g","ownerReferences":[{"apiVersion":"batch/v1","kind":"Job","name":"j","uid":"1"}]},
            "spec":{"schedulingPolicy":{}}}"#;
        let (_, group) = decode::<PodGroup>(text).unwrap();
        assert_eq!(group.metadata.owner_references.unwrap()[0].uid, "1");
    }

    #[test]
    fn keeps_of_a_namespace_what_plugins_read() {
        let object = json!({
            "metadata": {"name": "a", "labels": {"l": "1"}, "annotations": {"n": "2"}, "managedFields": [{"manager": "m"}]},
            "status": {"phase": "Terminating"}
        });
        let (key, namespace) = decode::<Namespace>(&object.to_string()).unwrap();
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
