//! StorageObjectInUseProtection: a finalizer keeps a deleted volume or claim until it is no longer in use.

use super::finalizer::add_finalizer;
use crate::admission::{Attributes, Denial, FrontEndSupport, Operations, Phases, Plugin, Resources, Spec};
use async_trait::async_trait;

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "StorageObjectInUseProtection",
    default_on: true,
    phases: Phases::Mutating,
    operations: Operations::CREATE,
    resources: Resources::Only(&[
        ("", "persistentvolumes", ""),
        ("", "persistentvolumeclaims", ""),
        ("storage.k8s.io", "volumeattributesclasses", ""),
    ]),
    needs: &[],
    configuration: None,
    removed: None,
    front_end: FrontEndSupport::Full,
    about: "Protects volumes, claims and volume attributes classes from removal while they are in use.",
    build: |environment| {
        let protects_classes = environment.feature_gates.is_on("VolumeAttributesClass");
        Ok(Box::new(StorageObjectInUseProtection { protects_classes }))
    },
};

struct StorageObjectInUseProtection {
    protects_classes: bool,
}

#[async_trait]
impl Plugin for StorageObjectInUseProtection {
    async fn admit(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        let finalizer = match &*attributes.resource.resource {
            "persistentvolumes" => "kubernetes.io/pv-protection",
            "persistentvolumeclaims" => "kubernetes.io/pvc-protection",
            _ if self.protects_classes => "kubernetes.io/vac-protection",
            _ => return Ok(()),
        };
        attributes.object.as_mut().map_or(Ok(()), |object| add_finalizer(object, finalizer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::checker::check;
    use serde_json::json;

    #[tokio::test]
    async fn each_kind_gets_its_finalizer_once() {
        let plugin = StorageObjectInUseProtection { protects_classes: true };
        for (group, resource, finalizer) in [
            ("", "persistentvolumes", "kubernetes.io/pv-protection"),
            ("", "persistentvolumeclaims", "kubernetes.io/pvc-protection"),
            ("storage.k8s.io", "volumeattributesclasses", "kubernetes.io/vac-protection"),
        ] {
            let protected = json!({"metadata": {"finalizers": ["x", finalizer]}});
            let bare = json!({"metadata": {"finalizers": ["x"]}});
            check(&plugin).create(group, resource, bare).await.becomes(protected.clone());
            check(&plugin).create(group, resource, protected).await.stays_unchanged();
        }
    }

    #[tokio::test]
    async fn classes_are_left_alone_while_their_gate_is_off() {
        let plugin = StorageObjectInUseProtection { protects_classes: false };
        check(&plugin).create("storage.k8s.io", "volumeattributesclasses", json!({})).await.stays_unchanged();
    }
}
