//! SPDY and WebSocket: the request is sent like any other, and after both sides agree, bytes are copied as they come.

use super::KeptUntilClose;
use super::forward::no_answer;
use crate::body::Body;
use crate::server::Drain;
use crate::status::Status;
use http::{HeaderMap, HeaderValue, Response, header};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

/// Bytes in the buffer of one direction of one upgraded connection.
const BUFFER_SIZE: usize = 16 << 10;

/// The protocol that a client's upgrade names, as an extension of its request.
#[derive(Clone, Debug)]
pub(crate) struct Upgrade(pub(super) HeaderValue);

/// Whether a request has an upgrade to one of Kubernetes' protocols (`httpstream.IsUpgradeRequest`). Any other protocol, `h2c` above all,
/// would let requests inside it pass the proxy unseen.
pub(super) fn is_upgrade(headers: &HeaderMap) -> bool {
    protocol(headers).is_some()
}

/// Returns the protocol of a request's upgrade.
pub(super) fn protocol(headers: &HeaderMap) -> Option<HeaderValue> {
    let upgrade = headers.get(header::UPGRADE)?;
    let asks = headers.get_all(header::CONNECTION).iter().any(|value| {
        value.to_str().is_ok_and(|value| value.split(',').any(|token| token.trim().eq_ignore_ascii_case("upgrade")))
    });
    let known = upgrade.to_str().is_ok_and(|name| {
        name.eq_ignore_ascii_case("websocket")
            || name.get(..5).is_some_and(|family| family.eq_ignore_ascii_case("spdy/"))
    });
    (asks && known).then(|| upgrade.clone())
}

/// The client's side of an upgrade.
pub(super) struct ClientSide {
    pub(super) upgrade: OnUpgrade,
    /// The value that lives as long as the upgraded connection.
    pub(super) kept: Option<KeptUntilClose>,
}

/// Copies bytes between both sides after the upstream agreed to the upgrade. The copy ends with either side,
/// or when the drain starts.
pub(super) fn tie(
    client: Option<ClientSide>,
    mut response: Response<Body>,
    drain: &Drain,
) -> Result<Response<Body>, Status> {
    let upstream = hyper::upgrade::on(&mut response);
    let Some(ClientSide { upgrade: client, kept }) = client else { return Err(no_answer()) };
    let signal = drain.clone();
    drain.spawn(async move {
        let _kept = kept;
        // A side that is gone before the upgrade leaves nothing to copy.
        let Ok((client, upstream)) = tokio::try_join!(client, upstream) else { return };
        let (mut client, mut upstream) = (TokioIo::new(client), TokioIo::new(upstream));
        let tie = tokio::io::copy_bidirectional_with_sizes(&mut client, &mut upstream, BUFFER_SIZE, BUFFER_SIZE);
        tokio::select! {
            // Many upgraded connections end with a reset, so the result is ignored.
            _ = tie => {}
            () = signal.started() => {}
        }
    });
    Ok(response)
}
