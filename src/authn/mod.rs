//! Who calls: client certificate, front-proxy headers, bearer token, anonymous; and impersonation.
//!
//! One file a scheme; the order and what a failure means follow kube-apiserver's `authenticator.Config.New`.

#[cfg(test)]
pub(crate) mod fake;
pub mod certificate;
mod passthrough;
mod places;
pub mod request_header;
pub mod static_tokens;
mod token;
mod token_review;

pub use certificate::CertificateAuthority;
pub use places::ReviewBounds;
pub use request_header::RequestHeaderConfig;
pub use static_tokens::StaticTokens;

use crate::server::Connection;
use crate::upstream::{ClientCredentials, SharedTransport};
use crate::user::UserInfo;
use arc_swap::ArcSwap;
use http::header::{AUTHORIZATION, HeaderMap};
use std::sync::Arc;
use std::time::Duration;

/// How long the upstream's answers about credentials are believed, how many are kept, and how long one is waited for.
///
/// The defaults are kube-apiserver's for the tokens that it checks itself (`TokenSuccessCacheTTL`, `TokenFailureCacheTTL`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewLimits {
    /// For credentials that are good.
    pub success_ttl: Duration,
    /// For credentials that are not.
    pub failure_ttl: Duration,
    /// Answers kept at the same time.
    pub cache_capacity: u64,
    /// For one answer, with all attempts.
    pub timeout: Duration,
}

impl Default for ReviewLimits {
    fn default() -> Self {
        let ttl = Duration::from_secs(10);
        Self { success_ttl: ttl, failure_ttl: Duration::ZERO, cache_capacity: 32 * 1024, timeout: ttl }
    }
}

/// Which schemes are on. The default is none, which refuses everybody.
#[derive(Default)]
pub struct Config {
    /// Issuers of client certificates.
    pub client_ca: Option<Arc<ArcSwap<CertificateAuthority>>>,
    /// Front proxies that say who the user is.
    pub request_header: Option<RequestHeaderConfig>,
    /// Tokens of a file.
    pub token_file: Option<Arc<ArcSwap<StaticTokens>>>,
    /// Whoever answers TokenReviews for all other tokens.
    pub token_review: Option<kube::Client>,
    /// Where the client's own credentials are tried instead of by any of the above.
    pub passthrough: Option<SharedTransport>,
    /// Bounds of the last two.
    pub review_limits: ReviewLimits,
    /// How many reviews there are at a time.
    pub review_bounds: ReviewBounds,
    /// Whether a request without credentials has a user.
    pub anonymous: bool,
    /// Whether connections are closed after a request that did not authenticate (`UnauthenticatedHTTP2DOSMitigation`).
    pub closes_unauthenticated: bool,
    /// Audiences of which a reviewed token must have one; empty is "any that the upstream takes".
    pub api_audiences: Vec<String>,
}

/// Who a request is from.
#[derive(Clone, Debug)]
pub struct Authenticated {
    /// The user, with `system:authenticated` where that is due.
    pub user: Arc<UserInfo>,
    /// What passes upstream in the client's name; only with passthrough.
    pub credentials: Option<ClientCredentials>,
    /// Warnings for the client.
    pub warnings: Vec<&'static str>,
}

/// The request's credentials, or their absence, name no user. The client is told no more than that.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("unable to authenticate the request: [{}]", reasons.join(", "))]
pub struct Unauthorized {
    /// What each scheme found wrong, for the log.
    pub reasons: Vec<String>,
    /// Whether too many credentials are reviewed at the moment for these.
    pub is_busy: bool,
    /// Warnings for the client.
    pub warnings: Vec<&'static str>,
}

impl From<Unauthorized> for crate::status::Status {
    fn from(unauthorized: Unauthorized) -> Self {
        if unauthorized.is_busy { Self::try_again_later() } else { Self::unauthorized() }
    }
}

/// What one scheme says: nobody it knows of, a user, or what is wrong.
type Outcome = Result<Option<Arc<UserInfo>>, Failure>;

/// Why a scheme names no user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Failure {
    /// The credentials are bad.
    #[error("{0}")]
    Refused(String),
    /// They were not reviewed, for too many others are.
    #[error("too many reviews of credentials at the moment")]
    Busy,
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

/// Finds out who a request is from.
pub struct Authenticator {
    client_ca: Option<Arc<ArcSwap<CertificateAuthority>>>,
    request_header: Option<RequestHeaderConfig>,
    tokens: Option<token::TokenSchemes>,
    passthrough: Option<passthrough::Passthrough>,
    places: Arc<places::ReviewPlaces>,
    anonymous: bool,
    closes_unauthenticated: bool,
}

impl Authenticator {
    /// An authenticator with these schemes.
    pub fn new(config: Config) -> Self {
        let limits = config.review_limits;
        let max_bytes = config.review_bounds.token_bytes;
        let places = Arc::new(places::ReviewPlaces::new(config.review_bounds));
        let review = config.token_review.map(|client| {
            token_review::TokenReviews::new(client, limits.clone(), places.clone(), config.api_audiences)
        });
        let tokens = (config.token_file.is_some() || review.is_some()).then(|| token::TokenSchemes {
            file: config.token_file,
            review,
            max_bytes,
        });
        Self {
            client_ca: config.client_ca,
            request_header: config.request_header,
            tokens,
            passthrough: config
                .passthrough
                .map(|transport| passthrough::Passthrough::new(transport, limits, places.clone())),
            places,
            anonymous: config.anonymous,
            closes_unauthenticated: config.closes_unauthenticated,
        }
    }

    /// Who the request with these headers is from. The headers that say so are gone afterwards (`WithAuthentication`).
    ///
    /// # Errors
    /// When the credentials are bad, or missing and needed.
    pub async fn authenticate(
        &self,
        headers: &mut HeaderMap,
        connection: &Connection,
    ) -> Result<Authenticated, Unauthorized> {
        let mut warnings = Vec::new();
        let credentials = self.passthrough.as_ref().map(|_| token::credentials(headers));
        let found = match (&self.passthrough, &credentials) {
            (Some(passthrough), Some(Ok(credentials))) => {
                Box::pin(passthrough.authenticate(credentials, connection)).await.map_err(|failure| vec![failure])
            }
            (Some(_), Some(Err(reason))) => Err(vec![reason.as_str().into()]),
            _ => self.first_that_knows(headers, connection, &mut warnings).await,
        };
        let user = match found {
            Ok(Some(user)) => user,
            Ok(None) if self.anonymous => Arc::new(UserInfo::anonymous()),
            Ok(None) => return Err(self.refuse(connection, &[], warnings)),
            Err(failures) => return Err(self.refuse(connection, &failures, warnings)),
        };
        if !user.is_anonymous() {
            connection.state.authenticated();
        } else if self.closes_unauthenticated && connection.is_http2 {
            connection.state.close();
        }
        headers.remove(AUTHORIZATION);
        request_header::clear(headers, self.request_header.as_ref());
        Ok(Authenticated { user, credentials: credentials.and_then(Result::ok), warnings })
    }

    /// The refusal of a request. As in kube-apiserver (`handlers.Unauthorized`) it is the last one of an HTTP/2 connection; here of an
    /// HTTP/1.1 connection as well, unless an earlier request has authenticated.
    fn refuse(&self, connection: &Connection, failures: &[Failure], warnings: Vec<&'static str>) -> Unauthorized {
        let is_busy = failures.contains(&Failure::Busy);
        let is_known = connection.state.is_authenticated();
        if self.closes_unauthenticated && !is_busy && (connection.is_http2 || !is_known) {
            connection.state.close();
            if !is_known {
                self.places.refuse(connection);
            }
        }
        Unauthorized { reasons: failures.iter().map(Failure::to_string).collect(), is_busy, warnings }
    }

    /// `unionAuthRequestHandler`: the first scheme that knows the user; a failure counts only if no later one does.
    async fn first_that_knows(
        &self,
        headers: &mut HeaderMap,
        connection: &Connection,
        warnings: &mut Vec<&'static str>,
    ) -> Result<Option<Arc<UserInfo>>, Vec<Failure>> {
        let mut reasons = Vec::new();
        let mut known = |outcome: Outcome| {
            outcome.unwrap_or_else(|reason| {
                reasons.push(reason);
                None
            })
        };
        if let Some(config) = &self.request_header
            && let Some(user) = known(request_header::authenticate(config, headers, connection))
        {
            return Ok(Some(user));
        }
        if let Some(authority) = &self.client_ca
            && let Some(user) = known(certificate::authenticate(&authority.load_full(), connection))
        {
            return Ok(Some(user));
        }
        if let Some(tokens) = &self.tokens {
            if let Some(user) = known(tokens.bearer(headers, connection, warnings).await) {
                return Ok(Some(user));
            }
            if let Some(user) = known(tokens.websocket(headers, connection).await) {
                return Ok(Some(user));
            }
        }
        if reasons.is_empty() { Ok(None) } else { Err(reasons) }
    }
}

/// A header's value as text, an absent one as none.
pub(crate) fn text<'a>(value: Option<&'a http::HeaderValue>, name: &str) -> Result<&'a str, String> {
    value.map_or(Ok(""), |value| {
        std::str::from_utf8(value.as_bytes()).map_err(|_| format!("header {name} is not UTF-8"))
    })
}

/// `url.PathUnescape` of a lower-cased key; what is malformed stays as it is.
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
