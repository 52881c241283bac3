//! NamespaceAutoProvision: creates the missing namespace of a new object.

use super::rules::namespaces::is_in_a_namespace;
use crate::admission::{Attributes, Denial, FrontEndSupport, Operations, Phases, Plugin, Resources, Spec};
use crate::cluster::{Cluster, Need};
use crate::status::Status;
use async_trait::async_trait;
use std::sync::Arc;

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "NamespaceAutoProvision",
    default_on: false,
    phases: Phases::Mutating,
    operations: Operations::CREATE,
    resources: Resources::Namespaced,
    needs: &[Need::NAMESPACES],
    configuration: None,
    removed: None,
    front_end: FrontEndSupport::Refused(
        "the API server refuses an object in a missing namespace before it calls webhooks",
    ),
    about: "Creates the missing namespace of a new object.",
    build: |environment| Ok(Box::new(NamespaceAutoProvision { cluster: environment.cluster.clone() })),
};

struct NamespaceAutoProvision {
    cluster: Arc<Cluster>,
}

#[async_trait]
impl Plugin for NamespaceAutoProvision {
    fn has_side_effects(&self, attributes: &Attributes) -> bool {
        !attributes.dry_run && is_in_a_namespace(attributes) && self.cluster.namespace(&attributes.namespace).is_none()
    }

    async fn admit(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        if attributes.dry_run || !is_in_a_namespace(attributes) {
            return Ok(());
        }
        if !self.cluster.wait_synced().await {
            return Err(Denial::forbidden("not yet ready to handle request"));
        }
        if self.cluster.namespace(&attributes.namespace).is_some() {
            return Ok(());
        }
        if !attributes.context.is_authorized {
            // The namespace existed when the request came.
            return Err(Status::try_again_later().into());
        }
        self.cluster.create_namespace(&attributes.namespace).await.map_err(|status| {
            // `NewForbidden` returns an existing Forbidden error unchanged.
            if status.reason == "Forbidden" { status.into() } else { Denial::forbidden(status.message) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::Operation;
    use crate::plugins::checker::{attributes, check, cluster};
    use serde_json::json;

    #[tokio::test]
    async fn creates_a_missing_namespace() {
        let cluster = cluster(&["here"], &[]);
        let plugin = NamespaceAutoProvision { cluster: cluster.clone() };
        check(&plugin)
            .create("", "pods", json!({"metadata": {"name": "a", "namespace": "new"}}))
            .await
            .stays_unchanged();
        assert!(cluster.live_namespace("new").await.unwrap().is_some());
    }

    #[tokio::test]
    async fn creates_nothing_for_a_caller_whose_permission_is_unknown() {
        let cluster = cluster(&["here"], &[]);
        let plugin = NamespaceAutoProvision { cluster: cluster.clone() };
        let creating = |namespace: &str| {
            let object = json!({"metadata": {"name": "a", "namespace": namespace}});
            let mut attributes = attributes(Operation::Create, "", "pods", Some(object), None);
            attributes.context.is_authorized = false;
            attributes
        };
        assert!(!plugin.has_side_effects(&creating("here")));
        plugin.admit(&mut creating("here")).await.unwrap();
        assert!(plugin.has_side_effects(&creating("new")));
        let refusal = plugin.admit(&mut creating("new")).await.unwrap_err();
        assert_eq!(refusal.into_status(&creating("new")), Status::try_again_later());
        assert!(cluster.live_namespace("new").await.unwrap().is_none());
    }

    #[tokio::test]
    async fn creates_nothing_in_a_dry_run() {
        let cluster = cluster(&[], &[]);
        let plugin = NamespaceAutoProvision { cluster: cluster.clone() };
        let object = json!({"metadata": {"name": "a", "namespace": "new"}});
        check(&plugin).dry_run().create("", "pods", object).await.stays_unchanged();
        assert!(cluster.live_namespace("new").await.unwrap().is_none());
    }

    #[tokio::test]
    async fn leaves_namespaces_themselves_alone() {
        let cluster = cluster(&[], &[]);
        let plugin = NamespaceAutoProvision { cluster: cluster.clone() };
        check(&plugin).create("", "namespaces", json!({"metadata": {"name": "new"}})).await.stays_unchanged();
        assert!(cluster.live_namespace("new").await.unwrap().is_none());
    }
}
