//! ClusterTrustBundleAttest: the publisher of a signer's trust anchors needs the permission to attest for the signer.

use super::signer;
use crate::admission::{Attributes, Denial, FrontEndSupport, Operation, Operations, Phases, Plugin, Resources, Spec};
use crate::object::Object;
use async_trait::async_trait;

const GROUP: &str = "certificates.k8s.io";

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "ClusterTrustBundleAttest",
    default_on: true,
    phases: Phases::Validating,
    operations: Operations::CREATE.or(Operations::UPDATE),
    resources: Resources::Only(&[(GROUP, "clustertrustbundles", "")]),
    needs: &[],
    configuration: None,
    removed: None,
    front_end: FrontEndSupport::Full,
    about: "Refuses trust bundles from users who may not attest for their signer (feature gate ClusterTrustBundle).",
    build: |environment| {
        Ok(Box::new(ClusterTrustBundleAttest { is_on: environment.feature_gates.is_on("ClusterTrustBundle") }))
    },
};

struct ClusterTrustBundleAttest {
    is_on: bool,
}

#[async_trait]
impl Plugin for ClusterTrustBundleAttest {
    async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        let Some(bundle) = attributes.object.as_ref().filter(|_| self.is_on) else { return Ok(()) };
        let signer = bundle.str(&["spec", "signerName"]);
        let is_housekeeping = attributes.operation == Operation::Update
            && attributes.old_object.as_ref().is_some_and(|old| differ_for_collectors_only(bundle, old));
        if signer.is_empty() || is_housekeeping || signer::may(attributes, "attest", signer).await {
            return Ok(());
        }
        Err(Denial::forbidden(format!("user not permitted to attest for signerName {signer:?}")))
    }
}

/// Whether only fields differ that the garbage collector and storage migration write (`rbac.IsOnlyMutatingGCFields`).
fn differ_for_collectors_only(new: &Object, old: &Object) -> bool {
    let rest = |object: &Object| {
        let mut object = object.clone();
        for field in ["ownerReferences", "finalizers", "selfLink", "managedFields"] {
            object.remove(&["metadata", field]);
        }
        object
    };
    rest(new) == rest(old)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authz::Decision;
    use crate::plugins::checker::check;
    use serde_json::{Value, json};

    fn bundle(signer: &str, anchors: &str, finalizers: &[&str]) -> Value {
        json!({"metadata": {"name": "b", "finalizers": finalizers}, "spec": {"signerName": signer, "trustBundle": anchors}})
    }

    async fn code(is_on: bool, old: Option<Value>, new: Value) -> Option<u16> {
        let plugin = ClusterTrustBundleAttest { is_on };
        let check = check(&plugin).validating().caller(|asked| Decision {
            allowed: asked.verb == "attest" && asked.name == "a.io/*",
            ..Decision::default()
        });
        match old {
            Some(old) => check.update(GROUP, "clustertrustbundles", old, new).await.code(),
            None => check.create(GROUP, "clustertrustbundles", new).await.code(),
        }
    }

    #[tokio::test]
    async fn a_bundle_with_a_signer_needs_its_permission() {
        assert_eq!(code(true, None, bundle("", "x", &[])).await, None);
        assert_eq!(code(true, None, bundle("a.io/x", "x", &[])).await, None);
        assert_eq!(code(true, None, bundle("b.io/x", "x", &[])).await, Some(403));
        assert_eq!(code(false, None, bundle("b.io/x", "x", &[])).await, None);
    }

    #[tokio::test]
    async fn a_finalizer_needs_none() {
        let old = || Some(bundle("b.io/x", "x", &[]));
        assert_eq!(code(true, old(), bundle("b.io/x", "x", &["f"])).await, None);
        assert_eq!(code(true, old(), bundle("b.io/x", "y", &[])).await, Some(403));
    }
}
