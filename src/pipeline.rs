//! The path of a request, top to bottom.
//!
//! [`Pipeline::handle`] is the outer shell: audit, warnings and errors to responses. [`Pipeline::answer`] is the path
//! itself, one line a step. What happens to each kind of write is in `pipeline/`.

mod collection;
mod connect;
mod create;
mod delete;
mod gateway;
mod inflight;
mod patch;
mod apply;
mod target;
mod update;
mod write;

pub use gateway::Gateway;
use gateway::Caller;
pub use inflight::InFlight;

use crate::admission::{Chain, Warnings};
use crate::audit::{Audit, EventInProgress, Received};
use crate::authn::{Authenticator, Impersonation, UserInfo};
use crate::authz::Authorizer;
use crate::cluster::discovery::Discovery;
use crate::config::Limits;
use crate::request::RequestInfo;
use crate::request::info::{is_canonical, request_info};
use crate::response;
use crate::server::Connection;
use crate::status::Status;
use crate::upstream::Body;
use http::header::WARNING;
use http::{HeaderName, HeaderValue, Method, Request, Response};
use std::sync::Arc;
use target::Target;
use write::Write;

/// Where a request's audit ID travels.
const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
/// With these a client asks some servers to treat the request as if it had another method: never, here.
const METHOD_OVERRIDES: [&str; 3] = ["x-http-method", "x-http-method-override", "x-method-override"];

/// Everything that a request passes.
pub struct Pipeline {
    /// Who calls.
    pub authenticator: Authenticator,
    /// Who may call as somebody else.
    pub impersonation: Impersonation,
    /// What callers may do.
    pub authorizer: Arc<Authorizer>,
    /// What resources there are.
    pub discovery: Arc<Discovery>,
    /// The admission plugins.
    pub chain: Chain,
    /// The way to the API server.
    pub gateway: Gateway,
    /// The audit log.
    pub audit: Audit,
    /// How many requests there are.
    pub in_flight: InFlight,
    /// Every bound.
    pub limits: Limits,
}

/// What the steps tell the shell, whether they succeed or not.
#[derive(Default)]
struct Exchange {
    warnings: Arc<Warnings>,
    event: Option<EventInProgress>,
}

impl Pipeline {
    /// Answers a request, whatever becomes of it.
    pub async fn handle(&self, mut request: Request<Body>) -> Response<Body> {
        let info = request_info(request.method(), request.uri());
        let received = Received::of(&request, &info);
        let audit_id = received.audit_id.clone();
        for header in METHOD_OVERRIDES {
            request.headers_mut().remove(header);
        }
        let mut exchange = Exchange::default();
        let mut response = match self.answer(request, &info, received, &mut exchange).await {
            Ok(response) => response,
            Err(refusal) => {
                if let Some(event) = &mut exchange.event {
                    event.refused(&refusal);
                }
                response::status(&refusal)
            }
        };
        for warning in exchange.warnings.header_values() {
            response.headers_mut().append(WARNING, warning);
        }
        if let Ok(id) = HeaderValue::from_str(&audit_id) {
            response.headers_mut().insert(AUDIT_ID, id);
        }
        match exchange.event.take() {
            None => response,
            Some(event) => event.follow(response, info.is_long_running()),
        }
    }

    async fn answer(
        &self,
        mut request: Request<Body>,
        info: &RequestInfo,
        received: Received,
        exchange: &mut Exchange,
    ) -> Result<Response<Body>, Status> {
        let caller = self.identify(&mut request, info, received, exchange).await?;
        let _seat = self.in_flight.enter(info)?;
        let connect = self.connect_target(request.method(), info).await?;
        if connect.is_none() && is_read(request.method()) {
            return self.gateway.stream(request, &caller).await;
        }
        if !is_canonical(request.uri()) {
            return Err(Status::no_such_path());
        }
        if !info.is_resource_request {
            return self.gateway.stream(request, &caller).await;
        }
        self.authorizer.authorize(&caller.user, info, caller.credentials.as_ref()).await?;
        match connect {
            Some(target) => self.connect(request, target, &caller, exchange).await,
            None => self.write(request, info, &caller, exchange).await,
        }
    }

    /// Who calls, after impersonation.
    async fn identify(
        &self,
        request: &mut Request<Body>,
        info: &RequestInfo,
        received: Received,
        exchange: &mut Exchange,
    ) -> Result<Caller, Status> {
        let connection = request.extensions().get::<Arc<Connection>>().cloned();
        let connection = connection.ok_or_else(|| Status::internal_error("the request came on no connection"))?;
        let authenticated = match self.authenticator.authenticate(request.headers_mut(), &connection).await {
            Ok(authenticated) => authenticated,
            Err(unauthorized) => {
                tracing::debug!(%unauthorized, "refused");
                unauthorized.warnings.iter().for_each(|warning| exchange.warnings.add(*warning));
                exchange.event = self.audit.begin(received, info, &UserInfo::default(), None);
                return Err(unauthorized.into());
            }
        };
        authenticated.warnings.iter().for_each(|warning| exchange.warnings.add(*warning));
        let (user, credentials) = (authenticated.user, authenticated.credentials);
        let impersonated =
            self.impersonation.apply(request.headers_mut(), &user, info, &self.authorizer, credentials.as_ref()).await;
        let effective = impersonated.as_ref().ok().and_then(Option::as_ref);
        exchange.event = self.audit.begin(received, info, &user, effective.map(|impersonated| &*impersonated.user));
        Ok(match impersonated? {
            Some(impersonated) => Caller { user: impersonated.user, credentials: impersonated.credentials },
            None => Caller { user, credentials },
        })
    }

    /// The target of an exec, attach, port-forward or proxy; none for everything else.
    async fn connect_target(&self, method: &Method, info: &RequestInfo) -> Result<Option<Target>, Status> {
        let may_connect = info.is_resource_request && !info.subresource.is_empty() && !info.name.is_empty();
        if !may_connect || !connect::may_be(info) {
            return Ok(None);
        }
        let target = Target::find(&self.discovery, method, info).await?;
        Ok(target.is_connect().then_some(target))
    }

    /// A mutating request: what it is to do decides how it is admitted.
    async fn write(
        &self,
        request: Request<Body>,
        info: &RequestInfo,
        caller: &Caller,
        exchange: &mut Exchange,
    ) -> Result<Response<Body>, Status> {
        let target = Target::find(&self.discovery, request.method(), info).await?;
        let write = Write::begin(self, request, target, caller, exchange).await?;
        let work = async {
            match info.verb.as_str() {
                "create" => write.create(exchange).await,
                "update" => write.update(exchange).await,
                "patch" => write.patch(exchange).await,
                "delete" => write.delete(exchange).await,
                "deletecollection" => return write.delete_collection(exchange).await,
                verb => Err(Status::method_not_supported(&info.api_group, &info.resource, verb)),
            }
        };
        work.await
    }
}

/// Whether the method changes nothing.
fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}
