//! The identity of the user in a request to the API server.

use super::front_proxy::{KnownHeaders, RequestHeaders};
use crate::status::Status;
use crate::user::UserInfo;
use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue};
use std::sync::LazyLock;

/// Subprotocol that carries a bearer token (`websocket.bearerProtocolPrefix`).
const BEARER_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";
const ANONYMOUS: &str = "system:anonymous";

/// The way in which the API server learns a request's user.
#[derive(Clone, Debug)]
pub enum CallerIdentity {
    /// By `Impersonate-` headers, which the proxy's user must be allowed to send.
    Impersonate,
    /// By front-proxy headers, under the names that the API server publishes; the API server must accept the proxy as a front proxy.
    RequestHeader(KnownHeaders),
    /// By the client's own credentials.
    Passthrough,
}

static IMPERSONATE: LazyLock<RequestHeaders> = LazyLock::new(|| RequestHeaders {
    username: HeaderName::from_static("impersonate-user"),
    uid: HeaderName::from_static("impersonate-uid"),
    group: HeaderName::from_static("impersonate-group"),
    extra_prefix: "impersonate-extra-".to_owned(),
    ..RequestHeaders::default()
});

/// The client's own credentials (passthrough), as an extension of the request. The transport then sends these credentials and never
/// the proxy's, even if there are none.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct ClientCredentials {
    /// The client's `Authorization` header; `None` for an anonymous client.
    pub(crate) authorization: Option<HeaderValue>,
    /// The client's `Impersonate-*` headers, after a check that the client is allowed to send them.
    pub(crate) impersonation: Vec<(HeaderName, HeaderValue)>,
}

impl ClientCredentials {
    /// Writes the credentials to a request's headers, in place of other credentials there.
    pub(crate) fn write_to(&self, headers: &mut HeaderMap) {
        headers.remove(header::AUTHORIZATION);
        if let Some(authorization) = &self.authorization {
            headers.insert(header::AUTHORIZATION, authorization.clone());
        }
        for (name, value) in &self.impersonation {
            headers.append(name.clone(), value.clone());
        }
    }
}

/// Credentials must not be logged.
impl std::fmt::Debug for ClientCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientCredentials").finish_non_exhaustive()
    }
}

impl CallerIdentity {
    /// Replaces the headers that identify the client by the headers for the API server. Returns the credentials that the transport must
    /// send instead of the proxy's own, if any.
    ///
    /// # Errors
    /// If headers cannot express the user: the request must not run as another user either. 503 while the names of the front-proxy headers
    /// are not known.
    pub(crate) fn apply(
        &self,
        headers: &mut HeaderMap,
        user: &UserInfo,
        credentials: Option<&ClientCredentials>,
    ) -> Result<Option<ClientCredentials>, Status> {
        let front_proxy = match self {
            Self::RequestHeader(known) => Some(known.load_full().ok_or_else(names_unknown)?),
            Self::Impersonate | Self::Passthrough => None,
        };
        strip(headers, front_proxy.as_deref());
        match (self, front_proxy) {
            (Self::Passthrough, _) => pass(headers, user, credentials).map(Some),
            (_, Some(names)) => names.write(headers, user).map(|()| None),
            (_, None) => IMPERSONATE.write(headers, user).map(|()| None),
        }
    }
}

/// Removes every header that a server could read as the user's identity, in any spelling: servers behind
/// a gateway may read an underscore as a dash. Cookies stay, since API servers ignore them.
fn strip(headers: &mut HeaderMap, front_proxy: Option<&RequestHeaders>) {
    let suspects: Vec<HeaderName> = headers.keys().filter(|name| is_identity(name, front_proxy)).cloned().collect();
    for name in suspects {
        headers.remove(name);
    }
    strip_bearer_protocols(headers);
}

fn is_identity(name: &HeaderName, front_proxy: Option<&RequestHeaders>) -> bool {
    let name = name.as_str();
    if name == "authorization" || starts_like(name, "impersonate-") || starts_like(name, "x-remote-") {
        return true;
    }
    let Some(known) = front_proxy else { return false };
    known.names.iter().any(|own| own.len() == name.len() && starts_like(name, own))
        || known.prefixes.iter().any(|prefix| starts_like(name, prefix))
}

/// Whether a name starts with the prefix, ignoring case and the difference between dash and underscore.
fn starts_like(name: &str, prefix: &str) -> bool {
    let fold = |byte: u8| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    name.len() >= prefix.len() && name.bytes().zip(prefix.bytes()).all(|(a, b)| fold(a) == fold(b))
}

fn pass(
    headers: &mut HeaderMap,
    user: &UserInfo,
    credentials: Option<&ClientCredentials>,
) -> Result<ClientCredentials, Status> {
    let credentials = credentials.cloned().unwrap_or_default();
    if credentials.authorization.is_none() && user.username != ANONYMOUS {
        // The proxy cannot present a client's certificate, since it lacks the private key.
        return Err(inexpressible("it did not authenticate by a token"));
    }
    credentials.write_to(headers);
    Ok(credentials)
}

impl RequestHeaders {
    /// Names the user in the headers.
    ///
    /// # Errors
    /// If headers cannot express the user.
    pub(super) fn write(&self, headers: &mut HeaderMap, user: &UserInfo) -> Result<(), Status> {
        // An API server reads an empty name as a missing one, and would run the request as the proxy's own user.
        if user.username.is_empty() {
            return Err(inexpressible("it has no name"));
        }
        headers.insert(&self.username, header_value(&user.username)?);
        if !user.uid.is_empty() {
            headers.insert(&self.uid, header_value(&user.uid)?);
        }
        for group in &user.groups {
            headers.append(&self.group, header_value(group)?);
        }
        for (key, values) in &user.extra {
            let name = format!("{}{}", self.extra_prefix, escape(key));
            let name = HeaderName::try_from(name).map_err(|_| inexpressible("a key of its extra is too long"))?;
            for value in values {
                headers.append(&name, header_value(value)?);
            }
        }
        Ok(())
    }
}

/// Returns a header value that arrives unchanged: control characters cannot be sent, and surrounding space would be cut off.
fn header_value(text: &str) -> Result<HeaderValue, Status> {
    if text.trim_matches([' ', '\t']).len() != text.len() {
        return Err(inexpressible("there is space around one of its names"));
    }
    HeaderValue::from_str(text).map_err(|_| inexpressible("one of its names has control characters"))
}

/// Escapes a key as `transport.headerKeyEscape` of client-go does. Capitals are escaped as well, since API servers read header names in
/// lower case before they unescape them.
fn escape(key: &str) -> String {
    let mut escaped = String::with_capacity(key.len());
    for byte in key.bytes() {
        if byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"!#$&'*+-.^_`|~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

fn names_unknown() -> Status {
    let why = "the proxy does not know yet in which headers the upstream API server reads the user";
    Status::service_unavailable(why)
}

fn inexpressible(why: &str) -> Status {
    Status::internal_error(format!("the user cannot be named to the upstream API server: {why}"))
}

/// Returns the protocols without those that carry a token; `None` if none carries a token.
fn without_bearer(value: &HeaderValue) -> Option<Vec<u8>> {
    let is_bearer = |protocol: &[u8]| protocol.trim_ascii().starts_with(BEARER_PROTOCOL.as_bytes());
    let protocols = || value.as_bytes().split(|byte| *byte == b',');
    if !protocols().any(is_bearer) {
        return None;
    }
    let kept: Vec<&[u8]> = protocols().filter(|protocol| !is_bearer(protocol)).map(<[u8]>::trim_ascii).collect();
    Some(kept.join(&b", "[..]))
}

fn has_bearer_protocol(headers: &HeaderMap) -> bool {
    headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter().any(|value| without_bearer(value).is_some())
}

/// Removes the protocols that carry a token, as `websocket.ProtocolAuthenticator` does.
fn strip_bearer_protocols(headers: &mut HeaderMap) {
    if !has_bearer_protocol(headers) {
        return;
    }
    let values: Vec<HeaderValue> = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter().cloned().collect();
    headers.remove(header::SEC_WEBSOCKET_PROTOCOL);
    for value in values {
        let kept = match without_bearer(&value) {
            None => Some(value),
            Some(kept) if kept.is_empty() => None,
            Some(kept) => HeaderValue::from_bytes(&kept).ok(),
        };
        if let Some(kept) = kept {
            headers.append(header::SEC_WEBSOCKET_PROTOCOL, kept);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    fn map(lines: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::try_from(*name).unwrap(), HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    fn user(name: &str) -> UserInfo {
        UserInfo {
            username: name.into(),
            groups: vec!["a".into(), "system:authenticated".into()],
            ..UserInfo::default()
        }
    }

    const FORGED: [(&str, &str); 17] = [
        ("Impersonate-User", "admin"),
        ("IMPERSONATE-GROUP", "system:masters"),
        ("impersonate_user", "admin"),
        ("Impersonate_Extra-scopes", "x"),
        ("impersonate-anything", "x"),
        ("X-Remote-User", "admin"),
        ("x_remote_user", "admin"),
        ("X-Remote_Group", "system:masters"),
        ("X-Remote-Extra-Scopes", "x"),
        ("X-Remote-Uid", "0"),
        ("X-Own-User", "admin"),
        ("x_own-extra_y", "x"),
        ("X-Gateway-Group", "system:masters"),
        ("x-gateway_group", "system:masters"),
        ("X-More-scopes", "x"),
        ("Authorization", "Bearer secret"),
        ("Sec-WebSocket-Protocol", "base64url.bearer.authorization.k8s.io.eA,v5.channel.k8s.io"),
    ];

    fn own() -> CallerIdentity {
        let known = KnownHeaders::default();
        known.store(Some(Arc::new(RequestHeaders {
            username: HeaderName::from_static("x-own-user"),
            uid: HeaderName::from_static("x-own-uid"),
            group: HeaderName::from_static("x-own-group"),
            extra_prefix: "x-own-extra-".into(),
            names: ["x-own-user", "x-own-uid", "x-own-group", "x-gateway-group"].map(String::from).into(),
            prefixes: ["x-own-extra-", "x-more-"].map(String::from).into(),
        })));
        CallerIdentity::RequestHeader(known)
    }

    #[test]
    fn no_spelling_of_a_forged_identity_gets_through() {
        let rest = [("cookie", "c"), ("x-remot", "kept"), ("sec-websocket-protocol", "v5.channel.k8s.io")];
        let mut headers = map(&FORGED);
        headers.extend(map(&rest[..2]));
        own().apply(&mut headers, &user("jane"), None).unwrap();
        let mut wanted = map(&rest);
        wanted.extend(map(&[("x-own-user", "jane"), ("x-own-group", "a"), ("x-own-group", "system:authenticated")]));
        assert_eq!(headers, wanted);
    }

    #[test]
    fn impersonates_the_user_exactly() {
        let mut user = user("jane");
        user.uid = "1".into();
        user.extra = BTreeMap::from([("example.com/Scopes%".into(), vec!["one".into(), "zwei ü".into()])]);
        let mut headers = map(&FORGED[..10]);
        assert!(CallerIdentity::Impersonate.apply(&mut headers, &user, None).unwrap().is_none());
        assert_eq!(
            headers,
            map(&[
                ("impersonate-user", "jane"),
                ("impersonate-uid", "1"),
                ("impersonate-group", "a"),
                ("impersonate-group", "system:authenticated"),
                ("impersonate-extra-example.com%2F%53copes%25", "one"),
                ("impersonate-extra-example.com%2F%53copes%25", "zwei ü"),
            ])
        );
    }

    #[test]
    fn a_user_that_would_arrive_as_another_is_refused() {
        for name in ["", " admin", "admin ", "\tadmin", "a\nb", "a\0b"] {
            for identity in [CallerIdentity::Impersonate, own()] {
                let refused = identity.apply(&mut HeaderMap::new(), &user(name), None).unwrap_err();
                assert_eq!(refused.code, 500, "{name:?}");
            }
        }
        let mut grouped = user("jane");
        grouped.groups.push("system:masters ".into());
        assert!(CallerIdentity::Impersonate.apply(&mut HeaderMap::new(), &grouped, None).is_err());
    }

    fn credentials() -> ClientCredentials {
        let impersonation = vec![(HeaderName::from_static("impersonate-user"), HeaderValue::from_static("bob"))];
        ClientCredentials { authorization: Some(HeaderValue::from_static("Bearer secret")), impersonation }
    }

    #[test]
    fn passthrough_sends_the_clients_token_and_whom_it_may_impersonate_and_nothing_else() {
        let mut headers = map(&FORGED);
        let passed = CallerIdentity::Passthrough.apply(&mut headers, &user("jane"), Some(&credentials())).unwrap();
        assert!(passed.is_some());
        let wanted = map(&[
            ("authorization", "Bearer secret"),
            ("impersonate-user", "bob"),
            ("sec-websocket-protocol", "v5.channel.k8s.io"),
            ("x-own-user", "admin"),
            ("x_own-extra_y", "x"),
            ("x-gateway-group", "system:masters"),
            ("x-gateway_group", "system:masters"),
            ("x-more-scopes", "x"),
        ]);
        assert_eq!(headers, wanted);
    }

    #[test]
    fn a_front_proxy_that_knows_no_names_yet_passes_nothing_on() {
        let unknown = CallerIdentity::RequestHeader(KnownHeaders::default());
        assert_eq!(unknown.apply(&mut map(&FORGED), &user("jane"), None).unwrap_err().code, 503);
    }

    #[test]
    fn passthrough_refuses_users_without_a_token_unless_anonymous() {
        let pass = |name| CallerIdentity::Passthrough.apply(&mut HeaderMap::new(), &user(name), None);
        assert!(pass("jane").is_err());
        assert!(pass("system:anonymous").is_ok());
    }

    #[test]
    fn websocket_protocols_keep_their_order_without_the_token() {
        let mut headers = map(&[
            ("sec-websocket-protocol", "v5.channel.k8s.io"),
            ("sec-websocket-protocol", "base64url.bearer.authorization.k8s.io.eA, v4.channel.k8s.io"),
        ]);
        strip_bearer_protocols(&mut headers);
        let kept = ["v5.channel.k8s.io", "v4.channel.k8s.io"].map(|value| ("sec-websocket-protocol", value));
        assert_eq!(headers, map(&kept));
    }

    #[test]
    fn credentials_do_not_show_in_logs() {
        assert!(!format!("{:?}", credentials()).contains("secret"));
    }
}
