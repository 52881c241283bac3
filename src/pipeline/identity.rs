//! The identity of a request's caller: authentication, impersonation, and their part of the audit event.

use super::gateway::Caller;
use super::{Exchange, Pipeline};
use crate::audit::{self, EventInProgress};
use crate::authn::{Authenticated, Unauthorized};
use crate::body::Body;
use crate::go_text::go_quote;
use crate::impersonation::Impersonated;
use crate::request::{RequestInfo, timeout};
use crate::server::Connection;
use crate::status::Status;
use crate::tenants;
use http::Request;
use http::header::USER_AGENT;
use jiff::Timestamp;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::time::Instant;

/// The result of the steps before the pipeline, which chose the tenant. The default is that of no steps: the process has one tenant.
#[derive(Default)]
pub struct Known {
    /// The identity of the caller; `None` if the pipeline must find it.
    pub(super) identity: Option<Box<Identity>>,
    /// The refusal of the request, if its tenant cannot be chosen.
    pub(super) refusal: Option<Box<Status>>,
}

impl Known {
    /// Whether the caller is known, and the pipeline may answer.
    pub(super) fn has_user(&self) -> bool {
        self.refusal.is_none() && self.identity.as_ref().is_some_and(|identity| identity.authenticated.is_ok())
    }
}

/// The identity of a caller.
pub(super) struct Identity {
    pub(super) authenticated: Result<Authenticated, Unauthorized>,
    pub(super) impersonated: Result<Option<Impersonated>, Status>,
    /// The instants at which authentication and impersonation began, and the instant at which they ended.
    times: [Instant; 3],
}

/// The audited properties of a request as it arrived. A later step removes headers from the request.
#[derive(Default)]
struct Arrival {
    uri: String,
    user_agent: String,
    source_ips: Vec<IpAddr>,
    received: Timestamp,
}

impl Arrival {
    fn of(request: &Request<Body>, connection: &Connection) -> Self {
        let user_agent = request.headers().get(USER_AGENT).and_then(|value| value.to_str().ok());
        Self {
            // Over HTTP/2, and in a request to a proxy, the URI has a host as well.
            uri: request.uri().path_and_query().map_or_else(|| request.uri().to_string(), ToString::to_string),
            user_agent: user_agent.unwrap_or_default().to_owned(),
            source_ips: audit::source_ips(request.headers(), connection.remote.ip()),
            received: Timestamp::now(),
        }
    }
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

    /// Returns the caller after impersonation.
    pub(super) async fn identify(
        &self,
        request: &mut Request<Body>,
        info: &RequestInfo,
        exchange: &mut Exchange,
    ) -> Result<Caller, Status> {
        let connection = request.extensions().get::<Arc<Connection>>().cloned();
        let connection = connection.ok_or_else(|| Status::internal_error("the request came on no connection"))?;
        let came = if self.audit.is_on() { Arrival::of(request, &connection) } else { Arrival::default() };
        let audited = audit::Request {
            info,
            audit_id: &exchange.audit_id,
            uri: &came.uri,
            user_agent: &came.user_agent,
            source_ips: came.source_ips,
            received: came.received,
        };
        // kube-apiserver checks the timeout before authentication (`filters.WithRequestDeadline`).
        if !info.is_long_running()
            && let Err(refusal) = timeout::asked(request.uri().query().unwrap_or_default())
        {
            exchange.event = self.audit_unauthenticated(&audited).await;
            return Err(refusal);
        }
        let Known { identity, refusal } = std::mem::take(&mut exchange.known);
        let identity = match identity {
            Some(identity) => *identity,
            None => self.recognize(request, info, &connection).await,
        };
        let [authenticating, impersonating, ended] = identity.times;
        let authenticated = match identity.authenticated {
            Ok(authenticated) => authenticated,
            Err(unauthorized) => {
                tracing::debug!(reasons = ?unauthorized.reasons, "refused");
                unauthorized.warnings.iter().for_each(|warning| exchange.warnings.add(*warning));
                exchange.event = self.audit_unauthenticated(&audited).await;
                return Err(unauthorized.into());
            }
        };
        authenticated.warnings.iter().for_each(|warning| exchange.warnings.add(*warning));
        let (user, credentials) = (authenticated.user, authenticated.credentials);
        exchange.event = self.audit.begin(&audited, &user);
        if let Some(event) = &mut exchange.event {
            exchange.user = Some(user.clone());
            if event.received().await.is_err() {
                exchange.event = None;
                return Err(not_stored(&came.uri));
            }
        }
        exchange.authentication = impersonating - authenticating;
        exchange.took("authentication", exchange.authentication);
        if !matches!(identity.impersonated, Ok(None)) {
            exchange.took("impersonation", ended - impersonating);
        }
        if let (Some(tenant), Some(event)) = (self.tenant.name(), &mut exchange.event) {
            event.annotate(tenants::LABEL, tenant.to_owned());
        }
        let Some(impersonated) = identity.impersonated? else {
            return refusal.map_or(Ok(Caller { user, credentials, is_proxy: false }), |refusal| Err(*refusal));
        };
        if let Some(event) = &mut exchange.event {
            event.set_impersonated(&impersonated.user, impersonated.constraint);
        }
        if let Some(refusal) = refusal {
            return Err(*refusal);
        }
        let (user, credentials) = (impersonated.user, impersonated.credentials);
        Ok(Caller { user, credentials, is_proxy: false })
    }

    /// Begins the event of a request without a user.
    async fn audit_unauthenticated(&self, audited: &audit::Request<'_>) -> Option<EventInProgress> {
        let mut event = self.audit.begin_unauthenticated(audited)?;
        event.room().await;
        Some(event)
    }

    /// Returns the caller of a request that admission sees, with the mark of admitted requests. Plugins, webhooks and policies see the
    /// user as those of the API server behind do: its guard is one of the policies.
    pub(super) fn marked(&self, caller: Caller) -> Caller {
        match &self.admitted_mark {
            Some(mark) => {
                Caller { user: Arc::new(Arc::unwrap_or_clone(caller.user).with_admitted_mark(mark)), ..caller }
            }
            None => caller,
        }
    }
}

/// The answer to a request whose arrival must be in the audit log and is not (`responsewriters.InternalError`).
fn not_stored(uri: &str) -> Status {
    let text = format!("Internal Server Error: {}: failed to store audit event", go_quote(uri));
    Status::text(500, &text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;"))
}
