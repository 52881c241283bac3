//! The tenants of the process: a pipeline for each, and the choice between them. A process without `--tenants-dir` has one.

use super::confinement::Territory;
use super::identity::Known;
use super::look::Looked;
use super::{Pipeline, Tenant};
use crate::admission::{self, Chain};
use crate::authn::{Authenticated, Voucher};
use crate::authz::AccessAttributes;
use crate::body::Body;
use crate::look::listed;
use crate::request::RequestInfo;
use crate::request::info::{is_canonical, request_info};
use crate::server::{Connection, ConnectionBudget, Drain};
use crate::status::Status;
use crate::tenants::{
    Addressed, LABEL, Members, Membership, Misaddressed, Origin, Owner, TenantAddresses, TenantMetrics, split_path,
};
use crate::user::UserInfo;
use arc_swap::ArcSwap;
use http::{Request, Response};
use serde_json::Value;
use std::sync::Arc;

/// A tenant with its pipeline.
pub(crate) struct Part {
    pub(crate) pipeline: Arc<Pipeline>,
    /// The plugins that answer reviews of the tenant's namespaces, if the API server of the flags is the tenant's and sends reviews.
    pub(crate) reviewing: Option<Arc<Chain>>,
    /// The connections of clients whose first request was the tenant's.
    pub(crate) connections: Arc<ConnectionBudget>,
    /// Whether the API server of the tenant is known not to answer.
    pub(crate) is_down: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Part {
    fn tenant(&self) -> &Tenant {
        &self.pipeline.tenant
    }
}

/// The tenants at one time. A request ends with those that it began with.
pub(crate) struct Tenants {
    /// The tenants, by index.
    pub(crate) parts: Vec<Arc<Part>>,
    /// The index of the tenant of callers and namespaces without another tenant.
    pub(crate) default: usize,
    /// The choice between the tenants; `None` if there is one.
    pub(crate) choice: Option<Choice>,
}

/// The properties of requests by which their tenants are chosen.
pub(crate) struct Choice {
    pub(crate) addresses: TenantAddresses,
    pub(crate) members: Members,
    /// The index of `operators`, if there is that tenant.
    pub(crate) operators: Option<usize>,
}

/// The present tenants, which answer all requests of clients.
pub(crate) struct Tenancy {
    pub(crate) current: Arc<ArcSwap<Tenants>>,
    pub(crate) metrics: TenantMetrics,
}

impl Tenancy {
    /// Answers a request by the pipeline of its tenant.
    pub(crate) async fn handle(&self, mut request: Request<Body>, drain: &Drain) -> Response<Body> {
        let tenants = self.current.load_full();
        let (index, known) = match &tenants.choice {
            Some(choice) => Box::pin(tenants.choose(choice, &mut request)).await,
            None => (tenants.default, Known::default()),
        };
        let Some(part) = tenants.parts.get(index).cloned() else {
            return crate::response::status(&Status::internal_error("the tenant is gone"), Default::default());
        };
        // A watch must not keep the tenants of its time.
        drop(tenants);
        // A stranger's connection has a place among those without an authenticated request.
        if let Some(connection) = request.extensions().get::<Arc<Connection>>().filter(|_| known.has_user()) {
            connection.state.join(&part.connections);
        }
        let response = part.pipeline.handle(request, known, drain).await;
        if let Some(name) = part.tenant().name() {
            self.metrics.answered(name, response.status().as_u16());
        }
        response
    }

    /// The tenants, as an operator sees them who looks into the process.
    pub(crate) fn look(&self) -> Value {
        let tenants = self.current.load_full();
        listed(tenants.parts.iter().map(|part| part.pipeline.look(Looked::ByOperator, (part.is_down)())))
    }

    /// Returns the tenant that has an object of the API server of the flags: that of its namespace, which may be the object itself, or `default`
    /// for other objects of the cluster. `None` if there is none, or several.
    ///
    /// # Errors
    /// If the namespace cannot be read.
    pub(crate) async fn of_object(&self, of: &admission::Attributes) -> Result<Option<Arc<Part>>, Status> {
        let tenants = self.current.load_full();
        let Some(default) = tenants.parts.get(tenants.default).cloned() else { return Ok(None) };
        let (Territory::Namespaces(own), Some(choice)) = (&default.tenant().territory, &tenants.choice) else {
            return Ok(Some(default));
        };
        let owner = match (of.writes_namespace(), &*of.namespace) {
            (true, _) => {
                // The label of a namespace without a tenant must be correctable.
                let object = of.object.as_ref().or(of.old_object.as_deref());
                let label =
                    object.and_then(|object| object.get(&["metadata", "labels", LABEL])).and_then(Value::as_str);
                own.owners.load().owner(&of.name, label)
            }
            (false, "") => Owner::None,
            (false, namespace) => default.pipeline.owner(own, namespace).await?,
        };
        let index = match owner {
            Owner::None => Some(tenants.default),
            Owner::Contradiction => None,
            Owner::Tenant(name) => tenants.parts.iter().position(|part| part.tenant().name() == Some(&name)),
        };
        let is_here = |index: &usize| choice.members.share_upstream(*index, tenants.default);
        Ok(index.filter(is_here).and_then(|index| tenants.parts.get(index).cloned()))
    }
}

fn misaddressed(why: Misaddressed) -> Status {
    match why {
        Misaddressed::Unknown => Status::page_not_found(),
        Misaddressed::Hosts => Status::bad_request("the request names several hosts"),
        Misaddressed::Contradiction => {
            Status::failure(421, "", "the path, the TLS server name and the host of the request are not of one tenant")
        }
    }
}

impl Choice {
    /// Returns the addressed tenant, and removes it from the path.
    fn address(&self, request: &mut Request<Body>) -> Result<Addressed, Misaddressed> {
        let split = split_path(request.uri())?.map(|(name, uri)| (name.to_owned(), uri));
        let server_name = request.extensions().get::<Arc<Connection>>().and_then(|found| found.server_name.clone());
        let name = split.as_ref().map(|(name, _)| name.as_str());
        let addressed = self.addresses.find(name, server_name.as_deref(), request.uri(), request.headers())?;
        if let Some((_, uri)) = split {
            *request.uri_mut() = uri;
        }
        match is_canonical(request.uri()) {
            true => Ok(addressed),
            false => Err(Misaddressed::Unknown),
        }
    }
}

impl Tenants {
    /// Chooses the tenant of a request: the addressed one, else the only one of the caller, else the namespace's, else `default`. Removes
    /// the tenant from the path. A refusal is answered by the pipeline of the returned tenant.
    async fn choose(&self, choice: &Choice, request: &mut Request<Body>) -> (usize, Known) {
        let refused = |index, refusal| (index, Known { identity: None, refusal: Some(Box::new(refusal)) });
        let addressed = match choice.address(request) {
            Ok(addressed) => addressed,
            Err(why) => return refused(self.default, misaddressed(why)),
        };
        let entry = match addressed {
            Addressed::Tenant(index) => index,
            Addressed::None => self.default,
        };
        let (Some(part), Some(connection)) =
            (self.parts.get(entry), request.extensions().get::<Arc<Connection>>().cloned())
        else {
            return refused(self.default, Status::internal_error("the request came on no connection"));
        };
        let info = request_info(request.method(), request.uri());
        let identity = part.pipeline.recognize(request, &info, &connection).await;
        let chosen = match (&identity.authenticated, &identity.impersonated) {
            (Ok(authenticated), Ok(impersonated)) => {
                let acting = impersonated.as_ref().map(|impersonated| &*impersonated.user);
                let caller = (authenticated, acting);
                Box::pin(self.of_caller(choice, addressed, entry, caller, &info)).await
            }
            // The pipeline answers with the error.
            _ => Ok(entry),
        };
        let (index, refusal) = match chosen {
            Ok(index) => (index, self.parts.get(index).and_then(|part| unavailable(part))),
            Err(refusal) => (entry, Some(refusal)),
        };
        (index, Known { identity: Some(Box::new(identity)), refusal: refusal.map(Box::new) })
    }

    async fn of_caller(
        &self,
        choice: &Choice,
        addressed: Addressed,
        entry: usize,
        (authenticated, acting): (&Authenticated, Option<&UserInfo>),
        info: &RequestInfo,
    ) -> Result<usize, Status> {
        let origin = match authenticated.voucher {
            Voucher::Process => Origin::Process,
            Voucher::ApiServer => Origin::ApiServer(entry),
            Voucher::Tenant => Origin::Tenant(entry),
        };
        let user = acting.unwrap_or(&authenticated.user);
        let forbidden = |why: &str| Err(AccessAttributes::from(info).forbidden(user, why));
        let prefix = self.parts.get(entry).map_or("", |part| &part.tenant().group_prefix);
        let tenants_of = |user: &UserInfo| match prefix {
            "" => choice.members.of(user, origin),
            prefix => choice.members.of(&user.clone().without_group_prefix(prefix), origin),
        };
        let requestor = tenants_of(&authenticated.user);
        let caller = match acting {
            None => requestor,
            Some(acting) => match requestor.acting_as(&tenants_of(acting)) {
                Some(caller) => caller,
                None => return forbidden("impersonation does not lead from one tenant into another"),
            },
        };
        let index = match addressed {
            Addressed::Tenant(index) if caller.is_operator || caller.tenants.contains(&index) => return Ok(index),
            Addressed::Tenant(_) => return forbidden("the user is no member of the tenant"),
            Addressed::None => self.unaddressed(choice, &caller, info).await?,
        };
        if acting.is_some() && !choice.members.share_upstream(index, self.default) {
            // The API server of `default` has decided whether the user may impersonate.
            return forbidden("impersonation in a tenant with an API server of its own needs the tenant's address");
        }
        if self.parts.get(index).is_some_and(|part| !part.tenant().group_prefix.is_empty()) {
            // The user was authenticated without the prefix.
            return forbidden("a tenant with a groupPrefix needs the tenant's address");
        }
        Ok(index)
    }

    async fn unaddressed(&self, choice: &Choice, caller: &Membership, info: &RequestInfo) -> Result<usize, Status> {
        match (caller.tenants.as_slice(), choice.operators) {
            (_, Some(operators)) if caller.is_operator => Ok(operators),
            ([], _) => Ok(self.default),
            ([only], _) => Ok(*only),
            (several, _) => {
                let Some(part) = self.parts.get(self.default) else { return Ok(self.default) };
                let Territory::Namespaces(own) = &part.tenant().territory else { return Ok(self.default) };
                if info.namespace.is_empty() {
                    return Ok(self.default);
                }
                // If the owner is a tenant of which the caller is no member, the pipeline of `default` refuses the request.
                let owner = part.pipeline.owner(own, &info.namespace).await?;
                let is_owner = |index: &&usize| {
                    let share = choice.members.share_upstream(**index, self.default);
                    share && self.parts.get(**index).is_some_and(|part| part.tenant().territory.includes(&owner))
                };
                Ok(several.iter().find(is_owner).copied().unwrap_or(self.default))
            }
        }
    }
}

fn unavailable(part: &Part) -> Option<Status> {
    (part.is_down)().then(|| Status::service_unavailable("the API server behind is not reachable"))
}
