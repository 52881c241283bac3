//! The confinement of a tenant to its namespaces.

use super::{Pipeline, connect, is_read};
use crate::authz::AccessAttributes;
use crate::request::RequestInfo;
use crate::status::Status;
use crate::tenants::{DEFAULT, LABEL, NamespaceNeed, Owner, Owners, need};
use crate::user::UserInfo;
use arc_swap::ArcSwap;
use http::Method;
use std::sync::Arc;

/// The part of an API server that is a tenant's.
#[derive(Default)]
pub(crate) enum Territory {
    /// Everything: the tenant is the only one, or that of the operators.
    #[default]
    All,
    Namespaces(OwnNamespaces),
}

/// The namespaces of one of several tenants.
pub(crate) struct OwnNamespaces {
    pub(crate) tenant: Arc<str>,
    /// The names of namespaces of the tenants of the API server.
    pub(crate) owners: Arc<ArcSwap<Owners>>,
    /// Whether reads and objects of the cluster are confined too.
    pub(crate) is_confined: bool,
}

impl Territory {
    /// Whether a namespace with this owner is one of the tenant's own.
    pub(super) fn includes(&self, owner: &Owner) -> bool {
        matches!(self, Self::Namespaces(own) if own.has(owner))
    }
}

impl OwnNamespaces {
    fn has(&self, owner: &Owner) -> bool {
        match owner {
            Owner::None => &*self.tenant == DEFAULT,
            Owner::Tenant(name) => *name == *self.tenant && &*self.tenant != DEFAULT,
            Owner::Contradiction => false,
        }
    }
}

impl Pipeline {
    /// Returns the tenant of a namespace of this tenant's API server.
    pub(super) async fn owner(&self, own: &OwnNamespaces, namespace: &str) -> Result<Owner, Status> {
        let found = self.cluster.current_namespace(namespace).await?;
        let label = found.as_ref().and_then(|found| found.labels.get(LABEL));
        Ok(own.owners.load().owner(namespace, label))
    }

    /// Checks that the request stays in the tenant's namespaces. The answer is the same for a namespace of another tenant and for one that
    /// does not exist.
    ///
    /// # Errors
    /// 403 if the request leaves the namespaces; the API server's error if the namespace cannot be read.
    pub(super) async fn confine(
        &self,
        own: &OwnNamespaces,
        method: &Method,
        info: &RequestInfo,
        user: &UserInfo,
    ) -> Result<(), Status> {
        let is_write = !is_read(method) || connect::may_be(info);
        let is_allowed = match need(method, info) {
            NamespaceNeed::Nothing | NamespaceNeed::NewNamespace => true,
            NamespaceNeed::Cluster => !own.is_confined,
            NamespaceNeed::Namespace(_) if !is_write && !own.is_confined => true,
            NamespaceNeed::Namespace(namespace) => own.has(&self.owner(own, namespace).await?),
        };
        if is_allowed {
            return Ok(());
        }
        let why = format!("it is not in a namespace of the tenant \"{}\"", own.tenant);
        Err(AccessAttributes::from(info).forbidden(user, &why))
    }
}
