//! The guard of a tenant's chain: the label of namespaces, and references into other namespaces. It runs before the plugins of both phases, so
//! that it sees last what they have made of an object.

use super::{DEFAULT, LABEL, OPERATORS, Owners};
use crate::admission::{Attributes, Denial, Operation, Plugin};
use crate::cluster::discovery::Discovery;
use crate::kind::{GroupVersionKind, split_api_version};
use crate::object::Object;
use arc_swap::ArcSwap;
use async_trait::async_trait;
use serde_json::Value;
use std::sync::Arc;

/// The fields of an event that refer to objects.
const EVENT_REFERENCES: [&str; 3] = ["involvedObject", "regarding", "related"];

/// The guard of one tenant.
pub(crate) struct Guard {
    /// The tenant's name.
    pub(crate) tenant: Arc<str>,
    /// The names of namespaces of all tenants of the API server.
    pub(crate) owners: Arc<ArcSwap<Owners>>,
    /// Whether the tenant is confined to its own namespaces.
    pub(crate) is_confined: bool,
    /// The resources that the API server serves.
    pub(crate) discovery: Arc<Discovery>,
}

fn label(object: &Object) -> Option<&Value> {
    object.get(&["metadata", "labels", LABEL])
}

impl Guard {
    /// The label's value in the tenant's namespaces.
    fn own_label(&self) -> Option<&str> {
        (&*self.tenant != DEFAULT).then_some(&*self.tenant)
    }

    fn check_namespace(&self, attributes: &Attributes, object: &Object) -> Result<(), Denial> {
        let refuse =
            || Denial::forbidden(format!("only the operators of the gateway may set or change the label {LABEL}"));
        if attributes.operation != Operation::Create || !attributes.subresource.is_empty() {
            let Some(old) = attributes.old_object.as_deref() else { return Err(refuse()) };
            return if label(old) == label(object) { Ok(()) } else { Err(refuse()) };
        }
        if label(object).map(Value::as_str) != self.own_label().map(Some) {
            return Err(refuse());
        }
        let owners = self.owners.load();
        let name = object.name();
        match owners.by_name(name) {
            _ if name.is_empty() => Err(Denial::forbidden("the namespace has no name yet")),
            Some(owner) if owner != &*self.tenant => Err(Denial::forbidden("the name is not one for this tenant")),
            _ if owners.is_of_operators(name) => Err(Denial::forbidden("only operators of the gateway may create it")),
            _ => Ok(()),
        }
    }

    /// Checks that the owners are objects of the same namespace: an owner at the cluster scope is another's, and its deletion would wait for
    /// this object.
    async fn check_owners(&self, attributes: &Attributes, object: &Object) -> Result<(), Denial> {
        let path = ["metadata", "ownerReferences"];
        let known = attributes.old_object.as_deref().map(|old| old.items(&path)).unwrap_or_default();
        for reference in object.items(&path).iter().filter(|reference| !known.contains(reference)) {
            let text = |field: &str| reference.get(field).and_then(Value::as_str).unwrap_or_default();
            let (group, version) = split_api_version(text("apiVersion"));
            let kind = GroupVersionKind::new(group, version, text("kind"));
            let served = self.discovery.of_kind(&kind).await;
            let is_own_namespace = (group, text("kind")) == ("", "Namespace")
                && text("name") == attributes.namespace
                && !attributes.writes_namespace();
            if !is_own_namespace && (served.is_empty() || served.iter().any(|(_, is_namespaced)| !is_namespaced)) {
                return Err(Denial::forbidden("an owner must be an object of the same namespace"));
            }
        }
        Ok(())
    }
}

/// Checks that the objects to which an event refers are of the event's namespace.
fn check_event(attributes: &Attributes, object: &Object) -> Result<(), Denial> {
    for field in EVENT_REFERENCES {
        let namespace = object.get(&[field, "namespace"]);
        if namespace.is_some_and(|namespace| *namespace != *attributes.namespace && *namespace != "") {
            return Err(Denial::forbidden("an event must be about objects of its namespace"));
        }
    }
    Ok(())
}

#[async_trait]
impl Plugin for Guard {
    async fn admit(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        let is_namespace = attributes.resource.group.is_empty() && attributes.resource.resource == "namespaces";
        let is_create = attributes.operation == Operation::Create && attributes.subresource.is_empty();
        if !is_namespace || !is_create || &*self.tenant == OPERATORS {
            return Ok(());
        }
        let (Some(own), Some(object)) = (self.own_label(), &mut attributes.object) else { return Ok(()) };
        if label(object).is_none() && !object.set(&["metadata", "labels", LABEL], own.into()) {
            return Err(Denial::forbidden("the labels are no object"));
        }
        Ok(())
    }

    async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        if &*self.tenant == OPERATORS || attributes.operation == Operation::Connect {
            return Ok(());
        }
        let Some(object) = &attributes.object else { return Ok(()) };
        match (&*attributes.resource.group, &*attributes.resource.resource) {
            ("", "namespaces") => self.check_namespace(attributes, object)?,
            ("" | "events.k8s.io", "events") => check_event(attributes, object)?,
            _ => {}
        }
        if self.is_confined { self.check_owners(attributes, object).await } else { Ok(()) }
    }
}
