//! NamespaceLifecycle: refuses new objects in a missing or terminating namespace, and the deletion of the system namespaces.

use super::rules::namespaces::{internal_unless_not_found, is_namespace};
use crate::admission::{Attributes, Denial, FrontEndSupport, Operation, Operations, Phases, Plugin, Resources, Spec};
use crate::cluster::{Cluster, Need};
use crate::derived::Lazy;
use crate::status::{Cause, Status};
use async_trait::async_trait;
use std::sync::Arc;
use std::time::Duration;

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "NamespaceLifecycle",
    default_on: true,
    phases: Phases::Mutating,
    operations: Operations::CREATE.or(Operations::UPDATE).or(Operations::DELETE),
    resources: Resources::Namespaced,
    needs: &[Need::NAMESPACES],
    configuration: None,
    removed: None,
    front_end: FrontEndSupport::Full,
    about: "Refuses new objects in a missing or terminating namespace, and deletion of the namespaces default, kube-system and kube-public.",
    build: |environment| {
        let checks_updates = !environment.feature_gates.since(37);
        Ok(Box::new(NamespaceLifecycle::new(environment.cluster.clone(), checks_updates)))
    },
};

/// Namespaces that may not be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];
/// The time for which a create waits until the cache has a missing namespace (`missingNamespaceWait`).
const MISSING_NAMESPACE_WAIT: Duration = Duration::from_millis(50);
/// The time for which a deleted namespace is read from the API server instead of the cache (`forceLiveLookupTTL`).
const FORCE_LIVE_LOOKUP_TIME_TO_LIVE: Duration = Duration::from_secs(30);
/// The number of deleted namespaces that are remembered.
const FORCE_LIVE_LOOKUP_ENTRIES: u64 = 100;

struct NamespaceLifecycle {
    cluster: Arc<Cluster>,
    /// Whether the namespace of an updated object must exist. Since 1.37 the finalizers of an object without a namespace can be removed.
    checks_updates: bool,
    force_live_lookup: Lazy<moka::sync::Cache<String, ()>>,
}

impl NamespaceLifecycle {
    fn new(cluster: Arc<Cluster>, checks_updates: bool) -> Self {
        let force_live_lookup = || {
            let entries = moka::sync::Cache::builder().max_capacity(FORCE_LIVE_LOOKUP_ENTRIES);
            entries.time_to_live(FORCE_LIVE_LOOKUP_TIME_TO_LIVE).build()
        };
        Self { cluster, checks_updates, force_live_lookup: Lazy::new(Box::new(force_live_lookup)) }
    }

    /// Whether the namespace is terminating. The answer comes from the cache if the cache is reliable, else from the API server.
    async fn is_terminating(&self, attributes: &Attributes) -> Result<bool, Denial> {
        let name = &attributes.namespace;
        let mut cached = self.cluster.namespace(name);
        if cached.is_none() && attributes.operation == Operation::Create {
            tokio::time::sleep(MISSING_NAMESPACE_WAIT).await;
            cached = self.cluster.namespace(name);
        }
        if let Some(namespace) = cached
            && (namespace.terminating || !self.force_live_lookup.contains_key(name))
        {
            return Ok(namespace.terminating);
        }
        match self.cluster.live_namespace(name).await {
            Ok(Some(namespace)) => Ok(namespace.terminating),
            Ok(None) => Err(Status::not_found("", "namespaces", name).into()),
            Err(status) => Err(internal_unless_not_found(status)),
        }
    }
}

#[async_trait]
impl Plugin for NamespaceLifecycle {
    async fn admit(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        if is_namespace(attributes) {
            if attributes.operation == Operation::Delete {
                if IMMORTAL.contains(&attributes.name.as_str()) {
                    let resource = &attributes.resource;
                    let why = "this namespace may not be deleted";
                    return Err(Status::forbidden(&resource.group, &resource.resource, &attributes.name, why).into());
                }
                // The cache may lag behind the deletion.
                self.force_live_lookup.insert(attributes.name.clone(), ());
            }
            return Ok(());
        }
        // The error would reveal to any caller whether the namespace exists.
        let is_access_review = attributes.resource.group == "authorization.k8s.io"
            && attributes.resource.resource == "localsubjectaccessreviews";
        let is_allowed = match attributes.operation {
            Operation::Delete => true,
            Operation::Update => !self.checks_updates,
            Operation::Create | Operation::Connect => false,
        };
        if attributes.namespace.is_empty() || is_allowed || is_access_review {
            return Ok(());
        }
        if !self.cluster.wait_synced().await {
            return Err(Denial::forbidden("not yet ready to handle request"));
        }
        // An update needs an existing namespace, but may change objects in a terminating namespace.
        if !self.is_terminating(attributes).await? || attributes.operation != Operation::Create {
            return Ok(());
        }
        let name = &attributes.namespace;
        let why = format!("unable to create new content in namespace {name} because it is being terminated");
        let mut status = Denial::forbidden(why).into_status(attributes);
        status.details.get_or_insert_default().causes.push(Cause {
            reason: "NamespaceTerminating".into(),
            message: format!("namespace {name} is being terminated"),
            field: "metadata.namespace".into(),
        });
        Err(status.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::checker::{check, cluster, of_release};
    use serde_json::{Value, json};

    fn plugin() -> NamespaceLifecycle {
        NamespaceLifecycle::new(cluster(&["here", "going-terminating"], &["only-live"]), true)
    }

    fn pod_in(namespace: &str) -> Value {
        json!({"metadata": {"name": "p", "namespace": namespace}})
    }

    #[tokio::test(start_paused = true)]
    async fn accepts_a_create_in_a_namespace_of_the_cache_or_of_the_server() {
        check(&plugin()).create("", "pods", pod_in("here")).await.stays_unchanged();
        check(&plugin()).create("", "pods", pod_in("only-live")).await.stays_unchanged();
    }

    #[tokio::test(start_paused = true)]
    async fn refuses_a_create_and_an_update_in_a_missing_namespace() {
        let refusal = "namespaces \"x\" not found";
        check(&plugin()).create("", "pods", pod_in("x")).await.was_refused(404, refusal);
        check(&plugin()).update("", "pods", pod_in("x"), pod_in("x")).await.was_refused(404, refusal);
    }

    #[tokio::test(start_paused = true)]
    async fn accepts_an_update_in_a_missing_namespace_since_1_37() {
        for (minor, refusal) in [(36, true), (37, false)] {
            let plugin = of_release(&SPEC, minor, "", cluster(&[], &[]));
            let checked = check(&*plugin).update("", "pods", pod_in("x"), pod_in("x")).await;
            if refusal {
                checked.was_refused(404, "namespaces \"x\" not found");
            } else {
                checked.stays_unchanged();
            }
        }
    }

    #[tokio::test]
    async fn accepts_an_access_review_in_a_missing_namespace() {
        let review = json!({"metadata": {"namespace": "x"}});
        check(&plugin()).create("authorization.k8s.io", "localsubjectaccessreviews", review).await.stays_unchanged();
    }

    #[tokio::test]
    async fn refuses_new_content_in_a_terminating_namespace_with_the_cause() {
        let checked = check(&plugin()).create("", "pods", pod_in("going-terminating")).await;
        let status = checked.was_refused(
            403,
            "pods \"p\" is forbidden: unable to create new content in namespace going-terminating because it is being terminated",
        );
        assert_eq!(status.details.unwrap().causes[0].reason, "NamespaceTerminating");
    }

    #[tokio::test]
    async fn accepts_updates_and_deletes_in_a_terminating_namespace() {
        let pod = pod_in("going-terminating");
        check(&plugin()).update("", "pods", pod.clone(), pod.clone()).await.stays_unchanged();
        check(&plugin()).delete("", "pods", pod).await.stays_unchanged();
    }

    #[tokio::test]
    async fn keeps_the_first_namespaces_but_not_the_node_leases() {
        for name in IMMORTAL {
            let checked = check(&plugin()).delete("", "namespaces", json!({"metadata": {"name": name}})).await;
            checked.was_refused(403, &format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted"));
        }
        let leases = json!({"metadata": {"name": "kube-node-lease"}});
        check(&plugin()).delete("", "namespaces", leases).await.stays_unchanged();
    }

    #[tokio::test]
    async fn reads_the_namespace_after_a_delete_although_the_cache_has_it_active() {
        let plugin = NamespaceLifecycle::new(cluster(&["cached"], &[]), true);
        check(&plugin).create("", "pods", pod_in("cached")).await.stays_unchanged();
        check(&plugin).delete("", "namespaces", json!({"metadata": {"name": "cached"}})).await.stays_unchanged();
        check(&plugin).create("", "pods", pod_in("cached")).await.was_refused(404, "namespaces \"cached\" not found");
    }
}
