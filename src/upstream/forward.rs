//! Forwards a request to the API server, as its user, and returns the answer.

use super::identity::{CallerIdentity, ClientCredentials};
use super::upgrade::{self, ClientSide, Upgrade};
use super::{LongRunning, OfClient, SharedTransport, UpstreamError};
use crate::body::{Body, chain};
use crate::server::{Connection, Drain};
use crate::status::{Details, Status};
use crate::user::UserInfo;
use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri, Version};
use std::net::IpAddr;
use std::sync::Arc;

/// Whether a header concerns one connection only (RFC 9110, 7.6.1), besides the headers that `Connection` names. `Expect` is
/// among them because the listener has answered it already.
fn is_hop_by_hop(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection"
            | "keep-alive"
            | "proxy-connection"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "te"
            | "transfer-encoding"
            | "upgrade"
            | "expect"
            | "http2-settings"
    )
}

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The forwarder of requests to the API server.
#[derive(Clone)]
pub struct Forwarder {
    transport: SharedTransport,
    identity: Arc<CallerIdentity>,
    drain: Drain,
}

impl Forwarder {
    /// Creates a forwarder over this transport; `identity` is how the API server learns the user. Upgraded connections end with `drain`.
    pub fn new(transport: SharedTransport, identity: CallerIdentity, drain: Drain) -> Self {
        Self { transport, identity: Arc::new(identity), drain }
    }

    /// Sends a request as `user`, after [`strip_connection`], and returns the answer, whatever its status. Body and trailers stream in both
    /// directions. The client's identity headers are dropped, except for `credentials`.
    ///
    /// # Errors
    /// 503 if no answer comes, 500 if headers cannot express the user.
    pub(crate) async fn forward(
        &self,
        mut request: Request<Body>,
        user: &UserInfo,
        credentials: Option<&ClientCredentials>,
    ) -> Result<Response<Body>, Status> {
        let client = hyper::upgrade::on(&mut request);
        let remote = request.extensions().get::<Arc<Connection>>().map(|connection| connection.remote.ip());
        append_forwarded_for(request.headers_mut(), remote);
        let mut upgrade = None;
        if let Some(Upgrade(protocol)) = request.extensions_mut().remove() {
            upgrade = Some(ClientSide { upgrade: client, kept: request.extensions_mut().remove() });
            request.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
            request.headers_mut().insert(header::UPGRADE, protocol);
        }
        let long_running = request.extensions().get::<LongRunning>().copied();
        request.extensions_mut().clear();
        request.extensions_mut().insert(OfClient);
        if let Some(long_running) = long_running {
            request.extensions_mut().insert(long_running);
        }
        if let Some(credentials) = self.identity.apply(request.headers_mut(), user, credentials)? {
            request.extensions_mut().insert(credentials);
        }
        request.headers_mut().remove(header::HOST);
        *request.uri_mut() = request.uri().path_and_query().cloned().map_or_else(Uri::default, Uri::from);
        *request.version_mut() = Version::HTTP_11;

        let response = self.transport.send(request).await.map_err(|error| {
            if matches!(error, UpstreamError::Outside) {
                return Status::no_such_path();
            }
            tracing::debug!(error = chain(&error), "no answer from the API server");
            no_answer()
        })?;
        self.answer(response, upgrade)
    }

    fn answer(&self, mut response: Response<Body>, client: Option<ClientSide>) -> Result<Response<Body>, Status> {
        *response.version_mut() = Version::HTTP_11;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return upgrade::tie(client, response, &self.drain);
        }
        strip_hop_by_hop(response.headers_mut());
        Ok(response)
    }
}

/// Returns the client's Status when the API server gave no answer (`proxy.responder.Error`); it hides the server's address and the cause from
/// the client. Clients of client-go try again after the second that it names.
pub(crate) fn no_answer() -> Status {
    let status =
        Status::service_unavailable("error trying to reach service: no answer from the API server behind the proxy");
    status.with_details(Details { retry_after_seconds: 1, ..Details::default() })
}

/// Removes from a client's request the headers about its connection, and the headers that its `Connection` header names. The
/// protocol of an upgrade stays as an extension, [`Upgrade`].
///
/// Called before the proxy sets headers of its own, which `Connection` could name as well; and after authentication, since a
/// client must not be able to hide headers that a front proxy has set.
pub(crate) fn strip_connection(request: &mut Request<Body>) {
    let protocol = upgrade::protocol(request.headers());
    strip_hop_by_hop(request.headers_mut());
    if let Some(protocol) = protocol {
        request.extensions_mut().insert(Upgrade(protocol));
    }
}

/// Removes the headers about the connection of a message. `TE: trailers` stays: gRPC-like servers need it.
fn strip_hop_by_hop(headers: &mut HeaderMap) {
    let present: Vec<HeaderName> = headers.keys().filter(|name| is_hop_by_hop(name)).cloned().collect();
    if present.is_empty() {
        return;
    }
    if headers.contains_key(header::CONNECTION) {
        let named: Vec<HeaderName> = headers
            .get_all(header::CONNECTION)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .filter_map(|name| name.trim().parse().ok())
            .collect();
        for name in named {
            headers.remove(name);
        }
    }
    let takes_trailers = headers.get_all(header::TE).iter().any(|value| {
        value.to_str().is_ok_and(|value| value.split(',').any(|coding| coding.trim().eq_ignore_ascii_case("trailers")))
    });
    for name in present {
        headers.remove(name);
    }
    if takes_trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
}

/// Appends the client's address to the addresses in the header, as Go's `httputil.ReverseProxy` does.
fn append_forwarded_for(headers: &mut HeaderMap, remote: Option<IpAddr>) {
    let Some(remote) = remote else { return };
    let remote = remote.to_canonical().to_string();
    let mut prior = headers.get_all(FORWARDED_FOR).iter();
    let value = match prior.next() {
        None => HeaderValue::from_str(&remote),
        Some(first) => {
            let mut joined = first.as_bytes().to_vec();
            for value in prior.map(HeaderValue::as_bytes).chain([remote.as_bytes()]) {
                joined.extend_from_slice(b", ");
                joined.extend_from_slice(value);
            }
            HeaderValue::from_bytes(&joined)
        }
    };
    // An address after a valid header value is always a valid header value.
    if let Ok(value) = value {
        headers.insert(FORWARDED_FOR, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn hop_by_hop_headers_are_not_forwarded() {
        for (given, kept) in [
            (&[("accept", "a"), ("cookie", "c")][..], &[("accept", "a"), ("cookie", "c")][..]),
            (&[("connection", "close"), ("accept", "a")], &[("accept", "a")]),
            (&[("connection", "x-one, X-Two"), ("x-one", "1"), ("x-two", "2"), ("x-three", "3")], &[("x-three", "3")]),
            (&[("connection", "x-one"), ("connection", "x-two"), ("x-one", "1"), ("x-two", "2")], &[]),
            (&[("te", "trailers, deflate")], &[("te", "trailers")]),
            (&[("te", "deflate")], &[]),
            (&[("transfer-encoding", "chunked"), ("keep-alive", "5"), ("expect", "100-continue")], &[]),
            (&[("connection", "upgrade, http2-settings"), ("upgrade", "h2c"), ("http2-settings", "x")], &[]),
            (&[("proxy-authorization", "x"), ("proxy-authenticate", "x"), ("proxy-connection", "x")], &[]),
            (&[("connection", "é, ,\"")], &[]),
        ] {
            let mut headers = map(given);
            strip_hop_by_hop(&mut headers);
            assert_eq!(headers, map(kept), "{given:?}");
        }
    }

    #[test]
    fn only_kubernetes_protocols_are_upgraded_to() {
        for (given, upgrades) in [
            (&[("connection", "Upgrade"), ("upgrade", "SPDY/3.1")][..], true),
            (&[("connection", "keep-alive, upgrade"), ("upgrade", "websocket")], true),
            (&[("connection", "upgrade"), ("upgrade", "h2c")], false),
            (&[("connection", "upgrade"), ("upgrade", "websocket, h2c")], false),
            (&[("connection", "keep-alive"), ("upgrade", "websocket")], false),
            (&[("upgrade", "websocket")], false),
            (&[("connection", "upgrade")], false),
        ] {
            assert_eq!(upgrade::is_upgrade(&map(given)), upgrades, "{given:?}");
        }
    }

    #[test]
    fn the_clients_address_comes_last() {
        for (given, remote, wanted) in [
            (&[][..], "10.0.0.1", "10.0.0.1"),
            (&[("x-forwarded-for", "1.1.1.1")], "::ffff:10.0.0.1", "1.1.1.1, 10.0.0.1"),
            (&[("x-forwarded-for", "a"), ("x-forwarded-for", "b")], "::1", "a, b, ::1"),
        ] {
            let mut headers = map(given);
            append_forwarded_for(&mut headers, Some(remote.parse().unwrap()));
            assert_eq!(headers, map(&[("x-forwarded-for", wanted)]));
        }
    }
}
