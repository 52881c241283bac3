//! Bearer tokens: their places in a request, and the schemes that check them.

use super::places::ReviewPlaces;
use super::token_review::TokenReviews;
use super::{Failure, Outcome, StaticTokens, Voucher, text};
use crate::server::Connection;
use crate::upstream::ClientCredentials;
use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use http::HeaderValue;
use http::header::{AUTHORIZATION, CONNECTION, HeaderMap, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use std::sync::Arc;

const INVALID_TOKEN: &str = "invalid bearer token";
const TOKEN_WITH_SPACE: &str =
    "the provided Authorization header contains extra space before the bearer token, and is ignored";
const PROTOCOL_PREFIX: &str = "base64url.bearer.authorization.k8s.io.";
/// Go's `RawURLEncoding` ignores the spare bits of the last character.
const RAW_URL: GeneralPurpose =
    GeneralPurpose::new(&base64::alphabet::URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

/// The schemes that know tokens, in the order of their calls.
pub(super) struct TokenSchemes {
    pub(super) file: Option<Arc<ArcSwap<StaticTokens>>>,
    pub(super) review: Option<TokenReviews>,
    /// Bytes that a token may have.
    pub(super) max_bytes: usize,
}

impl TokenSchemes {
    /// Returns these schemes with other places for reviews.
    pub(super) fn with_places(&self, places: &Arc<ReviewPlaces>) -> Self {
        let review = self.review.as_ref().map(|review| review.with_places(places.clone()));
        Self { file: self.file.clone(), review, max_bytes: self.max_bytes }
    }

    /// Authenticates by the `Authorization` header (`bearertoken.Authenticator`).
    pub(super) async fn bearer(
        &self,
        headers: &HeaderMap,
        connection: &Connection,
        warnings: &mut Vec<&'static str>,
        voucher: &mut Voucher,
    ) -> Outcome {
        match bearer_token(headers, warnings)? {
            Some(token) => self.known(token, connection, voucher).await,
            None => Ok(None),
        }
    }

    /// Authenticates by a WebSocket's subprotocol (`websocket.ProtocolAuthenticator`).
    pub(super) async fn websocket(
        &self,
        headers: &mut HeaderMap,
        connection: &Connection,
        voucher: &mut Voucher,
    ) -> Outcome {
        let Some((token, others)) = protocol_token(headers)? else {
            return Ok(None);
        };
        let user = self.known(&token, connection, voucher).await?;
        headers.insert(SEC_WEBSOCKET_PROTOCOL, others);
        Ok(user)
    }

    /// Returns the user of a token, and sets who vouches for it; an unknown token is an error.
    async fn known(&self, token: &str, connection: &Connection, voucher: &mut Voucher) -> Outcome {
        if token.len() > self.max_bytes {
            return Err(INVALID_TOKEN.into());
        }
        if let Some(file) = &self.file
            && let Some(user) = file.load().user(token)
        {
            *voucher = Voucher::Process;
            return Ok(Some(user));
        }
        *voucher = Voucher::ApiServer;
        let reviewed = match &self.review {
            Some(review) => Box::pin(review.user(token, connection)).await?,
            None => None,
        };
        reviewed.map(Some).ok_or_else(|| INVALID_TOKEN.into())
    }
}

/// Returns a client's credentials for the upstream, in passthrough mode: the `Authorization` header, or the token of the WebSocket.
pub(super) fn credentials(headers: &mut HeaderMap) -> Result<ClientCredentials, Failure> {
    let mut authorization = headers.get(AUTHORIZATION).filter(|value| !value.is_empty()).cloned();
    if authorization.is_none()
        && let Some((token, others)) = protocol_token(headers)?
    {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, others);
        authorization = Some(HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| INVALID_TOKEN)?);
    }
    if let Some(value) = &mut authorization {
        value.set_sensitive(true);
    }
    Ok(ClientCredentials { authorization, impersonation: Vec::new() })
}

fn bearer_token<'a>(headers: &'a HeaderMap, warnings: &mut Vec<&'static str>) -> Result<Option<&'a str>, Failure> {
    let header = text(headers.get(AUTHORIZATION), "Authorization")?.trim();
    let mut parts = header.splitn(3, ' ');
    let (Some(scheme), Some(token)) = (parts.next(), parts.next()) else {
        return Ok(None);
    };
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Ok(None);
    }
    if token.is_empty() {
        if parts.next().is_some() {
            warnings.push(TOKEN_WITH_SPACE);
        }
        return Ok(None);
    }
    Ok(Some(token))
}

/// Returns the token among a WebSocket's subprotocols, and the header with the others.
fn protocol_token(headers: &HeaderMap) -> Result<Option<(String, HeaderValue)>, Failure> {
    if !is_websocket(headers) {
        return Ok(None);
    }
    let (mut token, mut others) = (None, Vec::new());
    for header in headers.get_all(SEC_WEBSOCKET_PROTOCOL) {
        for protocol in text(Some(header), "Sec-WebSocket-Protocol")?.split(',').map(str::trim) {
            let Some(encoded) = protocol.strip_prefix(PROTOCOL_PREFIX) else {
                others.push(protocol);
                continue;
            };
            let decoded = RAW_URL.decode(encoded).map_err(|_| "invalid base64.bearer.authorization token encoding")?;
            let decoded = String::from_utf8(decoded).map_err(|_| "invalid base64.bearer.authorization token")?;
            if token.replace(decoded).is_some() {
                return Err("multiple base64.bearer.authorization tokens specified".into());
            }
        }
    }
    let Some(token) = token.filter(|token| !token.is_empty()) else {
        return Ok(None);
    };
    if others.is_empty() {
        return Err("missing additional subprotocol".into());
    }
    let others = HeaderValue::try_from(others.join(",")).map_err(Failure::of)?;
    Ok(Some((token, others)))
}

/// Whether the request is a WebSocket's (`wsstream.IsWebSocketRequest`).
fn is_websocket(headers: &HeaderMap) -> bool {
    let upgrades = headers
        .get_all(CONNECTION)
        .iter()
        .any(|value| value.to_str().is_ok_and(|value| value.to_ascii_lowercase().contains("upgrade")));
    upgrades && headers.get(UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
}
