//! DefaultStorageClass: sets the default class of a persistent volume claim without a class.

use super::rules::classes::{STORAGE_CLASS, default_class};
use crate::admission::{Attributes, Denial, FrontEndSupport, Operations, Phases, Plugin, Resources, Spec};
use crate::cluster::{Cluster, Need};
use async_trait::async_trait;
use k8s_openapi::api::storage::v1::StorageClass;
use std::sync::Arc;

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "DefaultStorageClass",
    default_on: true,
    phases: Phases::Mutating,
    operations: Operations::CREATE,
    resources: Resources::Only(&[("", "persistentvolumeclaims", "")]),
    needs: &[Need::STORAGE_CLASSES],
    configuration: None,
    removed: None,
    front_end: FrontEndSupport::Full,
    about: "Gives claims without a storage class the default class.",
    build: |environment| Ok(Box::new(DefaultStorageClass(environment.cluster.clone()))),
};

const IS_DEFAULT: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

struct DefaultStorageClass(Arc<Cluster>);

#[async_trait]
impl Plugin for DefaultStorageClass {
    async fn admit(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        let Some(claim) = &mut attributes.object else { return Ok(()) };
        // Both the annotation and the field count even if they are empty.
        let by_annotation = claim.annotations().is_some_and(|annotations| annotations.contains_key(STORAGE_CLASS));
        let by_field = claim.get(&["spec", "storageClassName"]).is_some_and(|class| !class.is_null());
        if by_annotation || by_field {
            return Ok(());
        }
        self.0.check_decodable(&[Need::STORAGE_CLASSES], "")?;
        let classes = self.0.all::<StorageClass>();
        let Some(class) = default_class(classes.iter().map(|class| &class.metadata), &IS_DEFAULT) else {
            return Ok(());
        };
        match claim.set(&["spec", "storageClassName"], class.into()) {
            true => Ok(()),
            false => Err(Denial::forbidden("spec: not an object")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::FixedState;
    use crate::plugins::checker::check;
    use serde_json::{Value, json};

    fn class(name: &str, created: &str, annotation: &str) -> StorageClass {
        let metadata = json!({"name": name, "creationTimestamp": created, "annotations": {annotation: "true"}});
        serde_json::from_value(json!({"metadata": metadata, "provisioner": "p"})).unwrap()
    }

    async fn class_of(classes: Vec<StorageClass>, claim: Value) -> Value {
        let plugin = DefaultStorageClass(Cluster::fixed(FixedState::default().with::<StorageClass>(classes)));
        check(&plugin).create("", "persistentvolumeclaims", claim).await.after()["spec"]["storageClassName"].clone()
    }

    #[tokio::test]
    async fn the_newest_default_is_taken_and_of_twins_the_first() {
        let (old, new) = ("2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z");
        let claim = || json!({"metadata": {"name": "c"}, "spec": {}});
        let (ga, beta) = (IS_DEFAULT[0], IS_DEFAULT[1]);
        assert_eq!(class_of(vec![class("a", old, ga), class("b", new, beta)], claim()).await, "b");
        assert_eq!(class_of(vec![class("b", old, ga), class("a", old, ga)], claim()).await, "a");
        assert_eq!(class_of(vec![class("a", old, "other")], claim()).await, Value::Null);
        assert_eq!(class_of(vec![], claim()).await, Value::Null);
    }

    #[tokio::test]
    async fn a_class_that_is_given_stays_even_if_empty() {
        let classes = || vec![class("a", "2026-01-01T00:00:00Z", IS_DEFAULT[0])];
        assert_eq!(class_of(classes(), json!({"spec": {"storageClassName": ""}})).await, "");
        let annotated = json!({"metadata": {"annotations": {STORAGE_CLASS: ""}}, "spec": {}});
        assert_eq!(class_of(classes(), annotated).await, Value::Null);
    }
}
