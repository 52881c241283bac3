//! The tenants of a gateway: a pipeline for each, the choice between them, and the confinement of a tenant to its namespaces.

use super::{Pipeline, connect, is_read};
use crate::admission::{self, Chain};
use crate::authn::{Authenticated, Unauthorized, Voucher};
use crate::authz::AccessAttributes;
use crate::body::Body;
use crate::impersonation::Impersonated;
use crate::request::RequestInfo;
use crate::request::info::{is_canonical, request_info};
use crate::server::{Connection, ConnectionBudget, Drain};
use crate::sharer::Sharer;
use crate::status::Status;
use crate::tenants::{
    Addressed, DEFAULT, LABEL, Members, Membership, Misaddressed, NamespaceNeed, OPERATORS, Origin, Owner, Owners,
    Rate, TenantAddresses, TenantMetrics, need, split_path,
};
use crate::user::UserInfo;
use arc_swap::ArcSwap;
use http::{Method, Request, Response};
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// The properties of the tenant whose requests a pipeline answers.
pub struct Tenant {
    pub name: Arc<str>,
    /// Whether the tenant is confined to its own namespaces.
    pub is_confined: bool,
    /// The names of namespaces of the tenants of the API server.
    pub owners: Arc<ArcSwap<Owners>>,
    /// The bound of the rate of writes.
    pub rate: Option<Rate>,
    /// The places of calls of webhooks.
    pub calls: Option<Arc<Semaphore>>,
    /// The prefix of callers' groups that the tenant's own API server knows, and the members of tenants do not have.
    pub group_prefix: String,
}

impl Tenant {
    /// Whether a namespace with this owner is the tenant's.
    fn has(&self, owner: &Owner) -> bool {
        match owner {
            Owner::None => &*self.name == DEFAULT,
            Owner::Tenant(name) => *name == *self.name && &*self.name != DEFAULT,
            Owner::Contradiction => false,
        }
    }
}

/// The result of the steps before the choice of the tenant, as an extension of the request.
#[derive(Default)]
pub(super) struct Known {
    /// The identity of the caller; `None` if the pipeline must find it.
    pub(super) identity: Option<Identity>,
    /// The refusal of the request, if its tenant cannot be chosen.
    pub(super) refusal: Option<Status>,
}

// An extension must be Clone; a request is never cloned.
#[derive(Clone)]
struct Extension(Arc<std::sync::Mutex<Option<Known>>>);

/// The identity of a caller.
pub(super) struct Identity {
    pub(super) authenticated: Result<Authenticated, Unauthorized>,
    pub(super) impersonated: Result<Option<Impersonated>, Status>,
    /// The instants at which authentication and impersonation began, and the instant at which they ended.
    pub(super) times: [Instant; 3],
}

impl Known {
    /// Whether the request is refused before the pipeline, or has no user.
    fn is_refused(&self) -> bool {
        self.refusal.is_some() || self.identity.as_ref().is_none_or(|identity| identity.authenticated.is_err())
    }

    fn put(self, request: &mut Request<Body>) {
        request.extensions_mut().insert(Extension(Arc::new(std::sync::Mutex::new(Some(self)))));
    }

    /// Takes the value from a request.
    pub(super) fn take(request: &mut Request<Body>) -> Option<Self> {
        let extension = request.extensions_mut().remove::<Extension>()?;
        extension.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take()
    }
}

/// A tenant with its pipeline.
pub(crate) struct Part {
    pub tenant: Arc<Tenant>,
    pub pipeline: Arc<Pipeline>,
    /// The plugins that answer reviews of the tenant's namespaces, if the API server of the flags is the tenant's and sends reviews.
    pub reviewing: Option<Arc<Chain>>,
    /// The connections of clients whose first request was the tenant's.
    pub connections: Arc<ConnectionBudget>,
    /// Whether the API server of the tenant is known not to answer.
    pub is_down: Arc<dyn Fn() -> bool + Send + Sync>,
}

/// The tenants at one time. A request ends with those that it began with.
pub(crate) struct Tenants {
    /// The tenants by address.
    pub addresses: TenantAddresses,
    /// The members of the tenants.
    pub members: Members,
    /// The tenants, by index.
    pub parts: Vec<Arc<Part>>,
    /// The index of `default`.
    pub default: usize,
    /// The index of `operators`, if there is that tenant.
    pub operators: Option<usize>,
}

/// The gateway of several tenants.
pub(crate) struct Tenancy {
    /// The present tenants.
    pub current: Arc<ArcSwap<Tenants>>,
    pub metrics: TenantMetrics,
}

impl Tenancy {
    /// Answers a request by the pipeline of its tenant.
    pub(crate) async fn handle(&self, mut request: Request<Body>, drain: &Drain) -> Response<Body> {
        let tenants = self.current.load_full();
        let (index, known) = Box::pin(tenants.choose(&mut request)).await;
        let is_refused = known.is_refused();
        known.put(&mut request);
        let Some(part) = tenants.parts.get(index).cloned() else {
            return crate::response::status(&Status::internal_error("the tenant is gone"), Default::default());
        };
        // A watch must not keep the tenants of its time.
        drop(tenants);
        // A stranger's connection has a place among those without an authenticated request.
        if let Some(connection) = request.extensions().get::<Arc<Connection>>().filter(|_| !is_refused) {
            connection.state.join(&part.connections);
        }
        let response = part.pipeline.handle(request, drain).await;
        self.metrics.answered(&part.tenant.name, response.status().as_u16());
        response
    }
}

impl Tenancy {
    /// Returns the tenant that has an object of the API server of the flags: that of its namespace, which may be the object itself, or `default`
    /// for other objects of the cluster. `None` if there is none, or several.
    ///
    /// # Errors
    /// If the namespace cannot be read.
    pub(crate) async fn of_object(&self, of: &admission::Attributes) -> Result<Option<Arc<Part>>, Status> {
        let tenants = self.current.load_full();
        let Some(default) = tenants.parts.get(tenants.default).cloned() else { return Ok(None) };
        let owner = match (of.writes_namespace(), &*of.namespace) {
            (true, _) => {
                // The label of a namespace without a tenant must be correctable.
                let object = of.object.as_ref().or(of.old_object.as_deref());
                let label =
                    object.and_then(|object| object.get(&["metadata", "labels", LABEL])).and_then(Value::as_str);
                default.tenant.owners.load().owner(&of.name, label)
            }
            (false, "") => Owner::None,
            (false, namespace) => default.pipeline.owner(&default.tenant, namespace).await?,
        };
        let index = match owner {
            Owner::None => Some(tenants.default),
            Owner::Contradiction => None,
            Owner::Tenant(name) => tenants.parts.iter().position(|part| *part.tenant.name == *name),
        };
        let is_here = |index: &usize| tenants.members.share_upstream(*index, tenants.default);
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

impl Tenants {
    /// Chooses the tenant of a request: the addressed one, else the only one of the caller, else the namespace's, else `default`. Removes
    /// the tenant from the path. A refusal is answered by the pipeline of the returned tenant.
    async fn choose(&self, request: &mut Request<Body>) -> (usize, Known) {
        let refused = |index, refusal| (index, Known { identity: None, refusal: Some(refusal) });
        let addressed = match self.address(request) {
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
                Box::pin(self.of_caller(addressed, entry, authenticated, acting, &info)).await
            }
            // The pipeline answers with the error.
            _ => Ok(entry),
        };
        let (index, refusal) = match chosen {
            Ok(index) => (index, self.parts.get(index).and_then(|part| unavailable(part))),
            Err(refusal) => (entry, Some(refusal)),
        };
        (index, Known { identity: Some(identity), refusal })
    }

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

    async fn of_caller(
        &self,
        addressed: Addressed,
        entry: usize,
        authenticated: &Authenticated,
        acting: Option<&UserInfo>,
        info: &RequestInfo,
    ) -> Result<usize, Status> {
        let origin = match authenticated.voucher {
            Voucher::Process => Origin::Process,
            Voucher::ApiServer => Origin::ApiServer(entry),
            Voucher::Tenant => Origin::Tenant(entry),
        };
        let user = acting.unwrap_or(&authenticated.user);
        let forbidden = |why: &str| Err(AccessAttributes::from(info).forbidden(user, why));
        let prefix = self.parts.get(entry).map_or("", |part| &part.tenant.group_prefix);
        let tenants_of = |user: &UserInfo| match prefix {
            "" => self.members.of(user, origin),
            prefix => self.members.of(&user.clone().without_group_prefix(prefix), origin),
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
            Addressed::None => self.unaddressed(&caller, info).await?,
        };
        if acting.is_some() && !self.members.share_upstream(index, self.default) {
            // The API server of `default` has decided whether the user may impersonate.
            return forbidden("impersonation in a tenant with an API server of its own needs the tenant's address");
        }
        if self.parts.get(index).is_some_and(|part| !part.tenant.group_prefix.is_empty()) {
            // The user was authenticated without the prefix.
            return forbidden("a tenant with a groupPrefix needs the tenant's address");
        }
        Ok(index)
    }

    async fn unaddressed(&self, caller: &Membership, info: &RequestInfo) -> Result<usize, Status> {
        match (caller.tenants.as_slice(), self.operators) {
            (_, Some(operators)) if caller.is_operator => Ok(operators),
            ([], _) => Ok(self.default),
            ([only], _) => Ok(*only),
            (several, _) => {
                let Some(part) = self.parts.get(self.default) else { return Ok(self.default) };
                if info.namespace.is_empty() {
                    return Ok(self.default);
                }
                // If the owner is a tenant of which the caller is no member, the pipeline of `default` refuses the request.
                let owner = part.pipeline.owner(&part.tenant, &info.namespace).await?;
                let is_owner = |index: &&usize| {
                    let share = self.members.share_upstream(**index, self.default);
                    share && self.parts.get(**index).is_some_and(|part| part.tenant.has(&owner))
                };
                Ok(several.iter().find(is_owner).copied().unwrap_or(self.default))
            }
        }
    }
}

fn unavailable(part: &Part) -> Option<Status> {
    (part.is_down)().then(|| Status::service_unavailable("the API server behind is not reachable"))
}

impl Pipeline {
    /// Authenticates a request, and decides on its impersonation.
    pub(super) async fn recognize(
        &self,
        request: &mut Request<Body>,
        info: &RequestInfo,
        connection: &Connection,
    ) -> Identity {
        let begun = Instant::now();
        let authenticated = self.authenticator.authenticate(request.headers_mut(), connection).await;
        let impersonating = Instant::now();
        let impersonated = match &authenticated {
            Err(_) => Ok(None),
            Ok(Authenticated { user, credentials, .. }) => {
                let (headers, credentials) = (request.headers_mut(), credentials.as_ref());
                self.impersonation.apply(headers, user, info, &self.authorizer, credentials).await
            }
        };
        Identity { authenticated, impersonated, times: [begun, impersonating, Instant::now()] }
    }

    /// Returns the tenant of a namespace of this tenant's API server.
    async fn owner(&self, tenant: &Tenant, namespace: &str) -> Result<Owner, Status> {
        let found = self.cluster.current_namespace(namespace).await?;
        let label = found.as_ref().and_then(|found| found.labels.get(LABEL));
        Ok(tenant.owners.load().owner(namespace, label))
    }

    /// Checks that the request stays in the tenant's namespaces. The answer is the same for a namespace of another tenant and for one that
    /// does not exist.
    ///
    /// # Errors
    /// 403 if the request leaves the namespaces; the API server's error if the namespace cannot be read.
    pub(super) async fn confine(&self, method: &Method, info: &RequestInfo, user: &UserInfo) -> Result<(), Status> {
        let Some(tenant) = self.tenant.as_deref().filter(|tenant| &*tenant.name != OPERATORS) else { return Ok(()) };
        let is_write = !is_read(method) || connect::may_be(info);
        let is_allowed = match need(method, info) {
            NamespaceNeed::Nothing | NamespaceNeed::NewNamespace => true,
            NamespaceNeed::Cluster => !tenant.is_confined,
            NamespaceNeed::Namespace(_) if !is_write && !tenant.is_confined => true,
            NamespaceNeed::Namespace(namespace) => tenant.has(&self.owner(tenant, namespace).await?),
        };
        if is_allowed {
            return Ok(());
        }
        let why = format!("it is not in a namespace of the tenant \"{}\"", tenant.name);
        Err(AccessAttributes::from(info).forbidden(user, &why))
    }

    /// Counts a write against the tenant's rate.
    ///
    /// # Errors
    /// 429 if there are too many.
    pub(super) fn count_write(&self, method: &Method) -> Result<(), Status> {
        let rate = self.tenant.as_ref().and_then(|tenant| tenant.rate.as_ref()).filter(|_| !is_read(method));
        if rate.is_none_or(Rate::take) { Ok(()) } else { Err(Status::try_again_later()) }
    }

    /// Returns the sharer of a user's requests in quantities of the process.
    pub(super) fn sharer(&self, user: &Arc<UserInfo>) -> Sharer {
        self.tenant.as_ref().map_or_else(|| Sharer::User(user.clone()), |tenant| Sharer::Tenant(tenant.name.clone()))
    }
}
