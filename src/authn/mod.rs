//! Authentication: client certificate, front-proxy headers, bearer token, anonymous.
//!
//! Each scheme has one file; the order and the effect of a failure follow kube-apiserver's `authenticator.Config.New`.

#[cfg(test)]
pub(crate) mod fake;
pub(crate) mod certificate;
mod passthrough;
mod metrics;
mod places;
pub(crate) mod request_header;
pub(crate) mod static_tokens;
mod token;
mod token_review;

pub(crate) use crate::x509::Roots as CertificateAuthority;
pub(crate) use certificate::{TenantAuthority, TenantNames};
pub(crate) use metrics::Metrics;
pub(crate) use request_header::RequestHeaderConfig;
pub(crate) use static_tokens::StaticTokens;

use crate::config::Limits;
use crate::server::Connection;
use crate::sharer::Sharing;
use crate::upstream::review::ReviewError;
use crate::upstream::{ClientCredentials, SharedTransport, no_answer};
use crate::user::UserInfo;
use arc_swap::ArcSwap;
use http::header::{AUTHORIZATION, HeaderMap};
use std::sync::Arc;
use tokio::time::Instant;

/// The enabled schemes. The default has no scheme, and rejects every request.
#[derive(Default)]
pub struct Config {
    /// Issuers of client certificates.
    pub(crate) client_ca: Option<Arc<ArcSwap<CertificateAuthority>>>,
    /// Front proxies, whose headers name the user.
    pub(crate) request_header: Option<RequestHeaderConfig>,
    /// The tokens of a file.
    pub(crate) token_file: Option<Arc<ArcSwap<StaticTokens>>>,
    /// The client for TokenReviews of all other tokens.
    pub(crate) token_review: Option<kube::Client>,
    /// The upstream at which the client's own credentials are tried, instead of all schemes above.
    pub(crate) passthrough: Option<SharedTransport>,
    /// The bounds of reviews.
    pub limits: Arc<Limits>,
    /// Whether a request without credentials is anonymous, instead of unauthorized.
    pub anonymous: bool,
    /// Whether connections are closed after a request that did not authenticate (`UnauthenticatedHTTP2DOSMitigation`).
    pub(crate) closes_unauthenticated: bool,
    /// The prefix of the user's groups, except for Kubernetes' own (`system:…`); empty for none.
    pub(crate) group_prefix: String,
    /// The metrics of authentication, and the log of refused certificates.
    pub metrics: Option<Metrics>,
    /// Audiences of which a reviewed token must have one; empty for any audience that the upstream accepts.
    pub(crate) api_audiences: Vec<String>,
}

/// The authority that vouches for a user's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Voucher {
    /// The client authorities, the token file or a front proxy of this process.
    #[default]
    Process,
    /// The API server, which has reviewed the credentials.
    ApiServer,
    /// The client authorities of a tenant.
    Tenant,
}

/// An authenticated request.
#[derive(Clone, Debug)]
pub(crate) struct Authenticated {
    /// The user, with the group `system:authenticated` unless the user is anonymous.
    pub(crate) user: Arc<UserInfo>,
    /// The authority that vouches for the user's name.
    pub(crate) voucher: Voucher,
    /// The client's credentials for the upstream; only with passthrough.
    pub(crate) credentials: Option<ClientCredentials>,
    /// Warnings for the client.
    pub(crate) warnings: Vec<&'static str>,
}

/// The rejection of a request whose credentials, or their absence, name no user. The client gets no reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("unable to authenticate the request: [{}]", reasons.join(", "))]
pub(crate) struct Unauthorized {
    /// The error of each scheme, for the log.
    pub(crate) reasons: Vec<String>,
    /// The reason why the credentials were not reviewed; `None` if they are no user's.
    pub(crate) unreviewed: Option<Unreviewed>,
    /// Warnings for the client.
    pub(crate) warnings: Vec<&'static str>,
}

/// The reason why credentials were not reviewed. Another attempt may succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreviewed {
    /// Too many others are under review.
    Busy,
    /// The API server does not answer.
    Unreachable,
}

impl From<Unauthorized> for crate::status::Status {
    fn from(unauthorized: Unauthorized) -> Self {
        match unauthorized.unreviewed {
            Some(Unreviewed::Busy) => Self::try_again_later(),
            Some(Unreviewed::Unreachable) => no_answer(),
            None => Self::unauthorized(),
        }
    }
}

/// The result of one scheme: no user, a user, or an error.
type Outcome = Result<Option<Arc<UserInfo>>, Failure>;

/// The reason why a scheme names no user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Failure {
    /// The credentials are invalid.
    #[error("{0}")]
    Refused(String),
    /// The client's certificate is refused, or names nobody who may be named.
    #[error("{0}")]
    Certificate(String),
    /// The credentials were not reviewed, because too many others are.
    #[error("too many reviews of credentials at the moment")]
    Busy,
    /// The API server that reviews credentials does not answer, with the text of the cause.
    #[error("{0}")]
    Unreachable(String),
}

impl Failure {
    fn of_review(error: ReviewError) -> Self {
        if error.is_passing() { Self::Unreachable(error.to_string()) } else { Self::Refused(error.to_string()) }
    }

    fn of(reason: impl std::fmt::Display) -> Self {
        Self::Refused(reason.to_string())
    }
}

impl From<NotUtf8> for Failure {
    fn from(reason: NotUtf8) -> Self {
        Self::of(reason)
    }
}

impl From<String> for Failure {
    fn from(reason: String) -> Self {
        Self::Refused(reason)
    }
}

impl From<&str> for Failure {
    fn from(reason: &str) -> Self {
        Self::Refused(reason.to_owned())
    }
}

/// The schemes by which the callers of an API server authenticate, with the answers that all its authenticators know.
pub struct Schemes {
    client_ca: Option<Arc<ArcSwap<CertificateAuthority>>>,
    request_header: Option<RequestHeaderConfig>,
    tokens: Option<token::TokenSchemes>,
    passthrough: Option<passthrough::Passthrough>,
    places: places::ReviewPlaces,
    anonymous: bool,
    closes_unauthenticated: bool,
    group_prefix: String,
    metrics: Option<Metrics>,
}

impl Schemes {
    /// Creates the schemes of a configuration.
    pub fn new(config: Config) -> Arc<Self> {
        let limits = config.limits;
        let max_bytes = limits.token_bytes;
        let places = places::ReviewPlaces::new(limits.clone());
        let of_process = Arc::new(places.part(&Sharing::ByUser));
        let review = config.token_review.map(|client| {
            token_review::TokenReviews::new(client, limits.clone(), of_process.clone(), config.api_audiences)
        });
        let tokens = (config.token_file.is_some() || review.is_some()).then(|| token::TokenSchemes {
            file: config.token_file,
            review,
            max_bytes,
        });
        Arc::new(Self {
            client_ca: config.client_ca,
            request_header: config.request_header,
            tokens,
            passthrough: config
                .passthrough
                .map(|transport| passthrough::Passthrough::new(transport, limits, of_process)),
            places,
            anonymous: config.anonymous,
            closes_unauthenticated: config.closes_unauthenticated,
            group_prefix: config.group_prefix,
            metrics: config.metrics,
        })
    }
}

/// The authenticator of the requests of one tenant.
pub struct Authenticator {
    schemes: Arc<Schemes>,
    /// Issuers of client certificates of the tenant, which name no user or group of the system.
    tenant_ca: Option<TenantAuthority>,
    tokens: Option<token::TokenSchemes>,
    places: Arc<places::ReviewPlaces>,
}

impl Authenticator {
    /// Creates an authenticator for requests that address a tenant, or none. One of several tenants has at most half of the places of reviews.
    /// `tenant_ca` issues client certificates that name users of the tenant alone.
    pub fn new(schemes: Arc<Schemes>, sharing: &Sharing, tenant_ca: Option<TenantAuthority>) -> Self {
        let places = Arc::new(schemes.places.part(sharing));
        let tokens = schemes.tokens.as_ref().map(|tokens| tokens.with_places(&places));
        Self { schemes, tenant_ca, tokens, places }
    }

    /// Returns the user of the request with these headers, and removes the headers that name the user (`WithAuthentication`).
    ///
    /// # Errors
    /// If the credentials are invalid, or missing and required.
    pub(crate) async fn authenticate(
        &self,
        headers: &mut HeaderMap,
        connection: &Connection,
    ) -> Result<Authenticated, Unauthorized> {
        let begun = Instant::now();
        let result = self.identify(headers, connection).await;
        if let Some(metrics) = &self.schemes.metrics {
            metrics.authenticated(&result, begun.elapsed());
        }
        result
    }

    async fn identify(&self, headers: &mut HeaderMap, connection: &Connection) -> Result<Authenticated, Unauthorized> {
        let mut warnings = Vec::new();
        let credentials = self.schemes.passthrough.as_ref().map(|_| token::credentials(headers));
        let found = match (&self.schemes.passthrough, &credentials) {
            (Some(passthrough), Some(Ok(credentials))) => {
                let found = Box::pin(passthrough.authenticate(credentials, connection)).await;
                found.map(|user| user.map(|user| (user, Voucher::ApiServer))).map_err(|failure| vec![failure])
            }
            (Some(_), Some(Err(reason))) => Err(vec![reason.clone()]),
            _ => self.first_that_knows(headers, connection, &mut warnings).await,
        };
        let (user, voucher) = match found {
            Ok(Some((user, voucher))) => (self.adapted(user), voucher),
            Ok(None) if self.schemes.anonymous => (Arc::new(UserInfo::anonymous()), Voucher::Process),
            Ok(None) => return Err(self.refuse(connection, &[], warnings)),
            Err(failures) => return Err(self.refuse(connection, &failures, warnings)),
        };
        if !user.is_anonymous() {
            connection.state.authenticated();
        } else if self.schemes.closes_unauthenticated && connection.is_http2 {
            connection.state.close();
        }
        headers.remove(AUTHORIZATION);
        request_header::clear(headers, self.schemes.request_header.as_ref());
        Ok(Authenticated { user, voucher, credentials: credentials.and_then(Result::ok), warnings })
    }

    /// Returns the user without the mark of admitted requests, whichever scheme it came from, and with the prefix of groups.
    fn adapted(&self, user: Arc<UserInfo>) -> Arc<UserInfo> {
        if self.schemes.group_prefix.is_empty() && !user.has_admitted_mark() {
            return user;
        }
        Arc::new(Arc::unwrap_or_clone(user).without_admitted_mark().with_group_prefix(&self.schemes.group_prefix))
    }

    /// Rejects a request. As in kube-apiserver (`handlers.Unauthorized`), it is the last request of an HTTP/2 connection; here also of an
    /// HTTP/1.1 connection, unless an earlier request has authenticated.
    fn refuse(&self, connection: &Connection, failures: &[Failure], warnings: Vec<&'static str>) -> Unauthorized {
        let is_busy = failures.contains(&Failure::Busy);
        let is_unreachable = failures.iter().any(|failure| matches!(failure, Failure::Unreachable(_)));
        let unreviewed = match (is_busy, is_unreachable) {
            (true, _) => Some(Unreviewed::Busy),
            (false, true) => Some(Unreviewed::Unreachable),
            (false, false) => None,
        };
        if let Some(metrics) = &self.schemes.metrics {
            certificate::report(&metrics.refusals, connection, failures);
        }
        let is_known = connection.state.is_authenticated();
        if self.schemes.closes_unauthenticated && unreviewed.is_none() && (connection.is_http2 || !is_known) {
            connection.state.close();
            if !is_known {
                self.places.refuse(connection);
            }
        }
        Unauthorized { reasons: failures.iter().map(Failure::to_string).collect(), unreviewed, warnings }
    }

    /// Returns the first user that a scheme knows (`unionAuthRequestHandler`); a failure counts only if no later scheme has a user.
    async fn first_that_knows(
        &self,
        headers: &mut HeaderMap,
        connection: &Connection,
        warnings: &mut Vec<&'static str>,
    ) -> Result<Option<(Arc<UserInfo>, Voucher)>, Vec<Failure>> {
        let mut reasons = Vec::new();
        let mut known = |outcome: Outcome| {
            outcome.unwrap_or_else(|reason| {
                reasons.push(reason);
                None
            })
        };
        if let Some(config) = &self.schemes.request_header
            && let Some(user) = known(request_header::authenticate(config, headers, connection))
        {
            return Ok(Some((user, Voucher::Process)));
        }
        if let Some(authority) = &self.schemes.client_ca
            && let Some(user) =
                known(certificate::authenticate(&authority.load_full(), connection, self.schemes.metrics.as_ref()))
        {
            return Ok(Some((user, Voucher::Process)));
        }
        if let Some(authority) = &self.tenant_ca
            && let Some(user) = known(certificate::of_tenant(authority, connection))
        {
            return Ok(Some((user, Voucher::Tenant)));
        }
        if let Some(tokens) = &self.tokens {
            let mut voucher = Voucher::default();
            if let Some(user) = known(tokens.bearer(headers, connection, warnings, &mut voucher).await) {
                return Ok(Some((user, voucher)));
            }
            if let Some(user) = known(tokens.websocket(headers, connection, &mut voucher).await) {
                return Ok(Some((user, voucher)));
            }
        }
        if reasons.is_empty() { Ok(None) } else { Err(reasons) }
    }
}

/// The header of this name is no text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("header {0} is not UTF-8")]
pub(crate) struct NotUtf8(String);

/// Returns a header's value as text; an absent header is empty.
///
/// # Errors
/// If the value is no text.
pub(crate) fn text<'a>(value: Option<&'a http::HeaderValue>, name: &str) -> Result<&'a str, NotUtf8> {
    value.map_or(Ok(""), |value| std::str::from_utf8(value.as_bytes()).map_err(|_| NotUtf8(name.to_owned())))
}

/// Unescapes a lower-cased key (`url.PathUnescape`); a malformed key stays as it is.
pub(crate) fn unescape_extra_key(encoded: &str) -> String {
    let encoded = encoded.to_ascii_lowercase();
    let bytes = encoded.as_bytes();
    let well_formed = bytes.iter().enumerate().all(|(at, byte)| {
        *byte != b'%' || bytes.get(at + 1..at + 3).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit))
    });
    if !well_formed {
        return encoded;
    }
    match percent_encoding::percent_decode_str(&encoded).decode_utf8() {
        Ok(key) => key.into_owned(),
        Err(_) => encoded,
    }
}

#[cfg(test)]
mod tests;
