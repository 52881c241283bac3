//! OwnerReferencesPermissionEnforcement: a caller needs permissions to make an object's lifetime depend on another object.

use crate::admission::{Attributes, Denial, FrontEndSupport, Operation, Operations, Phases, Plugin, Resources, Spec};
use crate::authz::{self, ReviewError};
use crate::cluster::discovery::Discovery;
use crate::kind::{GroupVersionKind, api_version, split_api_version};
use crate::object::Object;
use async_trait::async_trait;
use serde_json::Value;
use std::collections::HashSet;
use std::sync::Arc;

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "OwnerReferencesPermissionEnforcement",
    default_on: false,
    phases: Phases::Validating,
    operations: Operations::CREATE.or(Operations::UPDATE),
    resources: Resources::All,
    needs: &[],
    configuration: None,
    removed: None,
    front_end: FrontEndSupport::Full,
    about: "Refuses changes of owner references from users who may not delete the object, and blocking ones from users who may not update the owner's finalizers.",
    build: |environment| Ok(Box::new(OwnerReferencesPermissionEnforcement(environment.discovery.clone()))),
};

const OWNER_REFERENCES: [&str; 2] = ["metadata", "ownerReferences"];

struct OwnerReferencesPermissionEnforcement(Arc<Discovery>);

#[async_trait]
impl Plugin for OwnerReferencesPermissionEnforcement {
    /// The strategies of many subresources keep the stored owner references.
    fn reads_stored_object(&self, attributes: &Attributes) -> bool {
        !attributes.subresource.is_empty() && change(attributes).is_some()
    }

    async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        let Some((new, old)) = change(attributes) else { return Ok(()) };
        if attributes.operation != Operation::Create {
            let deletion = authz::AccessAttributes { verb: "delete".into(), ..about_the_request(attributes) };
            allowed(attributes, &deletion).await.map_err(|why| {
                Denial::forbidden(format!("cannot set an ownerRef on a resource you can't delete: {why}"))
            })?;
        }
        let blocking = newly_blocking(new, old);
        if blocking.is_empty() || allowed(attributes, &finalizing("*", "*", "*", "*")).await.is_ok() {
            return Ok(());
        }
        for owner in blocking {
            self.check_owner(attributes, owner).await?;
        }
        Ok(())
    }
}

impl OwnerReferencesPermissionEnforcement {
    /// Checks that the caller may finalize the owner, in each resource that serves the owner's kind.
    async fn check_owner(&self, attributes: &Attributes, owner: &Value) -> Result<(), Denial> {
        let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
        let (group, version) = split_api_version(text("apiVersion"));
        let kind = GroupVersionKind::new(group, version, text("kind"));
        let resources = self.0.of_kind(&kind).await;
        if resources.is_empty() {
            let (version, kind) = (text("apiVersion"), text("kind"));
            let searched = api_version(group, split_api_version(version).1);
            return Err(Denial::forbidden(format!(
                "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion {version} Kind \
                 {kind}: no matches for kind {kind:?} in version {searched:?}"
            )));
        }
        for (resource, namespaced) in resources {
            let namespace = if namespaced { attributes.namespace.clone() } else { String::new() };
            let question = authz::AccessAttributes { namespace, ..finalizing(group, version, &resource, text("name")) };
            allowed(attributes, &question).await.map_err(|why| {
                Denial::forbidden(format!(
                    "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: {why}"
                ))
            })?;
        }
        Ok(())
    }
}

/// The new and old owner references, if they differ.
fn change(attributes: &Attributes) -> Option<(&[Value], &[Value])> {
    // The plugin ignores owner references in updates of a pod's status.
    let is_pod_status = attributes.resource.group.is_empty()
        && attributes.resource.resource == "pods"
        && attributes.subresource == "status";
    let new = owners(attributes.object.as_ref());
    let old = owners(attributes.old_object.as_deref());
    (!is_pod_status && new != old).then_some((new, old))
}

fn owners(object: Option<&Object>) -> &[Value] {
    object.map(|object| object.items(&OWNER_REFERENCES)).unwrap_or_default()
}

/// The references that newly block the deletion of their owner.
fn newly_blocking<'a>(new: &'a [Value], old: &[Value]) -> Vec<&'a Value> {
    let blocks = |reference: &Value| reference.get("blockOwnerDeletion") == Some(&Value::Bool(true));
    let blocked: HashSet<Option<&Value>> = old.iter().filter(|old| blocks(old)).map(|old| old.get("uid")).collect();
    new.iter().filter(|reference| blocks(reference) && !blocked.contains(&reference.get("uid"))).collect()
}

fn about_the_request(attributes: &Attributes) -> authz::AccessAttributes {
    authz::AccessAttributes {
        is_resource_request: true,
        namespace: attributes.namespace.clone(),
        api_group: attributes.resource.group.clone(),
        api_version: attributes.resource.version.clone(),
        resource: attributes.resource.resource.clone(),
        subresource: attributes.subresource.clone(),
        name: attributes.name.clone(),
        ..authz::AccessAttributes::default()
    }
}

fn finalizing(group: &str, version: &str, resource: &str, name: &str) -> authz::AccessAttributes {
    authz::AccessAttributes {
        is_resource_request: true,
        verb: "update".to_owned(),
        api_group: group.to_owned(),
        api_version: version.to_owned(),
        resource: resource.to_owned(),
        subresource: "finalizers".to_owned(),
        name: name.to_owned(),
        ..authz::AccessAttributes::default()
    }
}

/// The reason why the caller lacks a permission: the authorizer's reason and error in Go's form, of which one is missing.
#[derive(Debug, thiserror::Error)]
enum NotAllowed {
    /// The authorizer allows nothing, for this reason; may be empty.
    #[error("{0}, <nil>")]
    Denied(String),
    /// The authorizer gives no decision.
    #[error(", {0}")]
    Undecided(ReviewError),
}

/// Checks a permission of the caller.
async fn allowed(attributes: &Attributes, question: &authz::AccessAttributes) -> Result<(), NotAllowed> {
    match attributes.context.authorizer.check(question).await {
        Ok(decision) if decision.allowed => Ok(()),
        Ok(decision) => Err(NotAllowed::Denied(decision.reason)),
        Err(error) => Err(NotAllowed::Undecided(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authz::Decision;
    use crate::cluster::discovery::Resource;
    use crate::kind::GroupVersionResource;
    use crate::plugins::checker::{Check, check};
    use serde_json::json;

    fn plugin() -> OwnerReferencesPermissionEnforcement {
        let resource = |kind: GroupVersionKind, namespaced| Resource {
            kind,
            namespaced,
            verbs: vec![],
            subresources: Default::default(),
        };
        OwnerReferencesPermissionEnforcement(Discovery::fixed([
            (GroupVersionResource::new("", "v1", "nodes"), resource(GroupVersionKind::new("", "v1", "Node"), false)),
            (
                GroupVersionResource::new("apps", "v1", "replicasets"),
                resource(GroupVersionKind::new("apps", "v1", "ReplicaSet"), true),
            ),
        ]))
    }

    fn object(owners: &[Value]) -> Value {
        json!({"metadata": {"name": "o", "namespace": "n", "ownerReferences": owners}})
    }

    fn owner(version: &str, kind: &str, uid: &str, blocks: bool) -> Value {
        json!({"apiVersion": version, "kind": kind, "name": "x", "uid": uid, "blockOwnerDeletion": blocks})
    }

    fn yes(allowed: bool) -> Decision {
        Decision { allowed, ..Decision::default() }
    }

    fn validating(plugin: &OwnerReferencesPermissionEnforcement) -> Check<'_> {
        check(plugin).validating()
    }

    #[tokio::test]
    async fn changing_owners_takes_the_right_to_delete() {
        let plugin = plugin();
        let (a, b) = (owner("v1", "Node", "1", false), owner("v1", "Node", "2", false));
        let old = object(&[a.clone(), b.clone()]);
        let text = "pods \"o\" is forbidden: cannot set an ownerRef on a resource you can't delete: , <nil>";
        for changed in [object(&[b.clone(), a.clone()]), object(std::slice::from_ref(&a)), object(&[])] {
            validating(&plugin).update("", "pods", old.clone(), changed.clone()).await.was_refused(403, text);
            let deletes = |asked: &authz::AccessAttributes| {
                yes(asked.verb == "delete" && asked.name == "o" && asked.namespace == "n")
            };
            validating(&plugin).caller(deletes).update("", "pods", old.clone(), changed).await.stays_unchanged();
        }
        validating(&plugin).update("", "pods", old.clone(), old.clone()).await.stays_unchanged();
        validating(&plugin).create("", "pods", old.clone()).await.stays_unchanged();
        validating(&plugin).subresource("status").update("", "pods", old, object(&[])).await.stays_unchanged();
    }

    #[tokio::test]
    async fn blocking_an_owner_takes_the_right_to_finalize_it() {
        let plugin = plugin();
        let node = || object(&[owner("v1", "Node", "1", true)]);
        let text = "pods \"o\" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set \
                    finalizers on: , <nil>";
        validating(&plugin).create("", "pods", node()).await.was_refused(403, text);
        let on_nodes = |asked: &authz::AccessAttributes| {
            yes(asked.resource == "nodes"
                && asked.subresource == "finalizers"
                && asked.namespace.is_empty()
                && asked.verb == "update")
        };
        validating(&plugin).caller(on_nodes).create("", "pods", node()).await.stays_unchanged();
        let set = object(&[owner("apps/v1", "ReplicaSet", "1", true)]);
        let on_sets = |asked: &authz::AccessAttributes| yes(asked.resource == "replicasets" && asked.namespace == "n");
        validating(&plugin).caller(on_sets).create("", "pods", set).await.stays_unchanged();
        let unknown = || object(&[owner("a.io/v1", "X", "1", true)]);
        validating(&plugin).create("", "pods", unknown()).await.was_refused(
            403,
            "pods \"o\" is forbidden: cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion \
             a.io/v1 Kind X: no matches for kind \"X\" in version \"a.io/v1\"",
        );
        let everything = |asked: &authz::AccessAttributes| yes(asked.resource == "*");
        validating(&plugin).caller(everything).create("", "pods", unknown()).await.stays_unchanged();
    }

    #[tokio::test]
    async fn only_newly_blocking_references_are_checked() {
        let plugin = plugin();
        let deletes = |asked: &authz::AccessAttributes| yes(asked.verb == "delete");
        let (blocking, free) = (owner("v1", "Node", "1", true), owner("v1", "Node", "1", false));
        let code = |old: Value, new: Value| {
            let plugin = &plugin;
            async move { validating(plugin).caller(deletes).update("", "pods", object(&[old]), object(&[new])).await.code() }
        };
        assert_eq!(code(blocking.clone(), free.clone()).await, None);
        assert_eq!(code(free, blocking.clone()).await, Some(403));
        let mut renamed = blocking.clone();
        renamed["name"] = "y".into();
        assert_eq!(code(blocking, renamed).await, None);
    }
}
