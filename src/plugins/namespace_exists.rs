//! NamespaceExists: refuses requests in a namespace that does not exist.

use super::rules::namespaces::{internal_unless_not_found, is_in_a_namespace};
use crate::admission::{Attributes, Denial, FrontEndSupport, Operations, Phases, Plugin, Resources, Spec};
use crate::cluster::{Cluster, Need};
use crate::status::Status;
use async_trait::async_trait;
use std::sync::Arc;

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "NamespaceExists",
    default_on: false,
    phases: Phases::Validating,
    operations: Operations::CREATE.or(Operations::UPDATE).or(Operations::DELETE),
    resources: Resources::Namespaced,
    needs: &[Need::NAMESPACES],
    configuration: None,
    removed: None,
    front_end: FrontEndSupport::Full,
    about: "Refuses requests in a namespace that does not exist.",
    build: |environment| Ok(Box::new(NamespaceExists { cluster: environment.cluster.clone() })),
};

struct NamespaceExists {
    cluster: Arc<Cluster>,
}

#[async_trait]
impl Plugin for NamespaceExists {
    async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        if !is_in_a_namespace(attributes) {
            return Ok(());
        }
        if !self.cluster.wait_synced().await {
            return Err(Denial::forbidden("not yet ready to handle request"));
        }
        if self.cluster.namespace(&attributes.namespace).is_some() {
            return Ok(());
        }
        match self.cluster.live_namespace(&attributes.namespace).await {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(Status::not_found("", "namespaces", &attributes.namespace).into()),
            Err(status) => Err(internal_unless_not_found(status)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::checker::{check, cluster};
    use serde_json::json;

    fn plugin() -> NamespaceExists {
        NamespaceExists { cluster: cluster(&["here"], &["only-live"]) }
    }

    #[tokio::test]
    async fn accepts_a_namespace_of_the_cache_or_of_the_server() {
        for namespace in ["here", "only-live"] {
            let object = json!({"metadata": {"name": "a", "namespace": namespace}});
            check(&plugin()).validating().create("", "pods", object).await.stays_unchanged();
        }
    }

    #[tokio::test]
    async fn refuses_even_a_delete_in_a_missing_namespace() {
        let object = json!({"metadata": {"name": "a", "namespace": "gone"}});
        check(&plugin())
            .validating()
            .delete("", "pods", object)
            .await
            .was_refused(404, "namespaces \"gone\" not found");
    }

    #[tokio::test]
    async fn does_not_look_at_cluster_scoped_objects_and_namespaces() {
        check(&plugin()).validating().create("", "nodes", json!({"metadata": {"name": "a"}})).await.stays_unchanged();
        check(&plugin())
            .validating()
            .create("", "namespaces", json!({"metadata": {"name": "a"}}))
            .await
            .stays_unchanged();
    }
}
