//! What is kept of each kind of object: what plugins read, and nothing else.

use super::Namespace;
use super::cache::{Projection, namespaced_key};
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::{Namespace as KubeNamespace, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

impl From<KubeNamespace> for Namespace {
    fn from(namespace: KubeNamespace) -> Self {
        Self {
            name: namespace.metadata.name.unwrap_or_default(),
            labels: namespace.metadata.labels.unwrap_or_default(),
            annotations: namespace.metadata.annotations.unwrap_or_default(),
            terminating: namespace.status.and_then(|status| status.phase).is_some_and(|phase| phase == "Terminating"),
        }
    }
}

impl Projection for Namespace {
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

impl Projection for MutatingWebhookConfiguration {
    type Object = Self;

    fn project(mut object: Self) -> (String, Self) {
        object.metadata = slim(object.metadata);
        (object.metadata.name.clone().unwrap_or_default(), object)
    }
}

impl Projection for ValidatingWebhookConfiguration {
    type Object = Self;

    fn project(mut object: Self) -> (String, Self) {
        object.metadata = slim(object.metadata);
        (object.metadata.name.clone().unwrap_or_default(), object)
    }
}

impl Projection for Service {
    type Object = Self;

    fn project(mut object: Self) -> (String, Self) {
        let (namespace, name) = (object.metadata.namespace.take(), object.metadata.name.take());
        let key = namespaced_key(namespace.as_deref().unwrap_or_default(), name.as_deref().unwrap_or_default());
        object.metadata = ObjectMeta { namespace, name, ..ObjectMeta::default() };
        object.status = None;
        (key, object)
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
        assert_eq!((namespace.labels["l"].as_str(), namespace.annotations["n"].as_str()), ("1", "2"));
    }

    #[test]
    fn drops_managed_fields_and_what_only_people_read() {
        let metadata = json!({"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "5", "managedFields": [{}], "annotations": {"a": "b"}});
        let hook = serde_json::from_value(json!({"metadata": metadata, "webhooks": []})).unwrap();
        let (_, hook) = ValidatingWebhookConfiguration::project(hook);
        assert_eq!(serde_json::to_value(hook).unwrap()["metadata"], json!({"name": "a", "namespace": "n", "uid": "u"}));
        let service = json!({"metadata": metadata, "spec": {"clusterIP": "10.0.0.1"}, "status": {"loadBalancer": {}}});
        let (key, service) = Service::project(serde_json::from_value(service).unwrap());
        assert_eq!(key, "n/a");
        assert!(service.status.is_none() && service.metadata.managed_fields.is_none());
        assert_eq!(service.spec.unwrap().cluster_ip.as_deref(), Some("10.0.0.1"));
    }
}
