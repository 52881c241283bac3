//! PersistentVolumeClaimResize: a claim may grow only if its storage class allows expansion.

use super::rules::classes::STORAGE_CLASS;
use crate::admission::{Attributes, Denial, FrontEndSupport, Operations, Phases, Plugin, Resources, Spec};
use crate::cluster::{Cluster, Need};
use crate::object::Object;
use crate::object::quantity::Quantity;
use async_trait::async_trait;
use k8s_openapi::api::storage::v1::StorageClass;
use std::sync::Arc;

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "PersistentVolumeClaimResize",
    default_on: true,
    phases: Phases::Validating,
    operations: Operations::UPDATE,
    resources: Resources::Only(&[("", "persistentvolumeclaims", "")]),
    needs: &[Need::STORAGE_CLASSES],
    configuration: None,
    removed: None,
    front_end: FrontEndSupport::Full,
    about: "Refuses to expand claims whose storage class does not allow it.",
    build: |environment| Ok(Box::new(PersistentVolumeClaimResize(environment.cluster.clone()))),
};

struct PersistentVolumeClaimResize(Arc<Cluster>);

#[async_trait]
impl Plugin for PersistentVolumeClaimResize {
    async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        let (Some(new), Some(old)) = (&attributes.object, &attributes.old_object) else { return Ok(()) };
        if size(new) <= size(old) {
            return Ok(());
        }
        if old.str(&["status", "phase"]) != "Bound" {
            return Err(Denial::forbidden("Only bound persistent volume claims can be expanded"));
        }
        match self.allows_expansion(new, old) {
            true => Ok(()),
            false => Err(Denial::forbidden(
                "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
            )),
        }
    }
}

impl PersistentVolumeClaimResize {
    fn allows_expansion(&self, new: &Object, old: &Object) -> bool {
        let class = class(new);
        !class.is_empty()
            && class == self::class(old)
            && self.0.find::<StorageClass>("", class).is_some_and(|class| class.allow_volume_expansion == Some(true))
    }
}

fn size(claim: &Object) -> Quantity {
    Quantity::of(claim.get(&["spec", "resources", "requests", "storage"]))
}

/// The claim's class, from the annotation or the field (`GetPersistentVolumeClaimClass`).
fn class(claim: &Object) -> &str {
    let by_annotation = claim.annotations().and_then(|annotations| annotations.get(STORAGE_CLASS)?.as_str());
    by_annotation.unwrap_or_else(|| claim.str(&["spec", "storageClassName"]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::FixedState;
    use crate::plugins::checker::check;
    use serde_json::{Value, json};

    fn claim(size: &str, class: &str, phase: &str) -> Value {
        let spec = json!({"storageClassName": class, "resources": {"requests": {"storage": size}}});
        json!({"metadata": {"name": "c"}, "spec": spec, "status": {"phase": phase}})
    }

    async fn refusal(old: Value, new: Value) -> Option<String> {
        let class = |name: &str, expands: Value| {
            let class = json!({"metadata": {"name": name}, "provisioner": "p", "allowVolumeExpansion": expands});
            serde_json::from_value(class).unwrap()
        };
        let classes = vec![class("gold", json!(true)), class("silver", Value::Null), class("bronze", json!(false))];
        let plugin = PersistentVolumeClaimResize(Cluster::fixed(FixedState::default().with::<StorageClass>(classes)));
        let checked = check(&plugin).validating().update("", "persistentvolumeclaims", old, new).await;
        checked.refusal().map(|status| status.message)
    }

    #[tokio::test]
    async fn only_bound_claims_of_a_class_that_expands_grow() {
        let no_support = "persistentvolumeclaims \"c\" is forbidden: only dynamically provisioned pvc can be resized and the \
                          storageclass that provisions the pvc must support resize";
        for (old, new, want) in [
            (claim("1Gi", "gold", "Bound"), claim("2Gi", "gold", "Bound"), None),
            (claim("1Gi", "silver", "Bound"), claim("1024Mi", "silver", "Bound"), None),
            (claim("2Gi", "silver", "Pending"), claim("1Gi", "silver", "Pending"), None),
            (
                claim("1Gi", "gold", "Pending"),
                claim("2Gi", "gold", "Bound"),
                Some("persistentvolumeclaims \"c\" is forbidden: Only bound persistent volume claims can be expanded"),
            ),
            (claim("1Gi", "silver", "Bound"), claim("2Gi", "silver", "Bound"), Some(no_support)),
            (claim("1Gi", "bronze", "Bound"), claim("2Gi", "bronze", "Bound"), Some(no_support)),
            (claim("1Gi", "", "Bound"), claim("2Gi", "", "Bound"), Some(no_support)),
            (claim("1Gi", "none", "Bound"), claim("2Gi", "none", "Bound"), Some(no_support)),
            (claim("1Gi", "gold", "Bound"), claim("2Gi", "silver", "Bound"), Some(no_support)),
        ] {
            assert_eq!(refusal(old, new.clone()).await.as_deref(), want, "{new}");
        }
    }

    #[tokio::test]
    async fn an_annotation_names_the_class_before_the_field_does() {
        let annotated = |size: &str| {
            let mut claim = claim(size, "silver", "Bound");
            claim["metadata"]["annotations"] = json!({STORAGE_CLASS: "gold"});
            claim
        };
        assert_eq!(refusal(annotated("1Gi"), annotated("2Gi")).await, None);
    }
}
