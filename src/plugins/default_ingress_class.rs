//! DefaultIngressClass: sets the default class of an ingress without a class.

use super::rules::classes::default_class;
use crate::admission::{Attributes, Denial, FrontEndSupport, Operations, Phases, Plugin, Resources, Spec};
use crate::cluster::{Cluster, Need};
use crate::status::Status;
use async_trait::async_trait;
use k8s_openapi::api::networking::v1::IngressClass;
use std::sync::Arc;

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "DefaultIngressClass",
    default_on: true,
    phases: Phases::Mutating,
    operations: Operations::CREATE,
    resources: Resources::Only(&[("networking.k8s.io", "ingresses", "")]),
    needs: &[Need::INGRESS_CLASSES],
    configuration: None,
    removed: None,
    front_end: FrontEndSupport::Full,
    about: "Gives ingresses without an ingress class the default class.",
    build: |environment| Ok(Box::new(DefaultIngressClass(environment.cluster.clone()))),
};

const CLASS: &str = "kubernetes.io/ingress.class";
const IS_DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";

struct DefaultIngressClass(Arc<Cluster>);

#[async_trait]
impl Plugin for DefaultIngressClass {
    async fn admit(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        let Some(ingress) = &mut attributes.object else { return Ok(()) };
        let by_annotation = ingress.annotations().is_some_and(|annotations| annotations.contains_key(CLASS));
        let by_field = ingress.get(&["spec", "ingressClassName"]).is_some_and(|class| !class.is_null());
        if by_annotation || by_field {
            return Ok(());
        }
        self.0.check_decodable(&[Need::INGRESS_CLASSES], "")?;
        let classes = self.0.all::<IngressClass>();
        let Some(class) = default_class(classes.iter().map(|class| &class.metadata), &[IS_DEFAULT]) else {
            return Ok(());
        };
        match ingress.set(&["spec", "ingressClassName"], class.into()) {
            true => Ok(()),
            false => Err(Status::internal_error("Expected Ingress resource, got: another object").into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::FixedState;
    use crate::plugins::checker::check;
    use serde_json::{Value, json};

    async fn class_of(classes: &[(&str, &str)], ingress: Value) -> Value {
        let class = |(name, created): &(&str, &str)| {
            let metadata = json!({"name": name, "creationTimestamp": created, "annotations": {IS_DEFAULT: "true"}});
            serde_json::from_value(json!({"metadata": metadata})).unwrap()
        };
        let state = FixedState::default().with::<IngressClass>(classes.iter().map(class).collect());
        let plugin = DefaultIngressClass(Cluster::fixed(state));
        let checked = check(&plugin).create("networking.k8s.io", "ingresses", ingress).await;
        checked.after()["spec"]["ingressClassName"].clone()
    }

    #[tokio::test]
    async fn the_newest_default_is_set_unless_the_ingress_has_a_class() {
        let classes = [("b", "2026-01-01T00:00:00Z"), ("a", "2026-01-01T00:00:00Z")];
        assert_eq!(class_of(&classes, json!({"spec": {}})).await, "a");
        assert_eq!(class_of(&[classes[1], ("c", "2026-02-01T00:00:00Z")], json!({})).await, "c");
        assert_eq!(class_of(&classes, json!({"spec": {"ingressClassName": ""}})).await, "");
        let annotated = json!({"metadata": {"annotations": {CLASS: "x"}}, "spec": {}});
        assert_eq!(class_of(&classes, annotated).await, Value::Null);
        assert_eq!(class_of(&[], json!({"spec": {}})).await, Value::Null);
    }
}
