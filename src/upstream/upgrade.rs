//! SPDY and WebSocket: the request goes as any other, and once both sides agreed, bytes pass as they come.

use super::Kept;
use super::forward::bad_gateway;
use crate::body::Body;
use crate::server::Drain;
use crate::status::Status;
use http::{HeaderMap, HeaderValue, Response, header};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

/// Bytes on their way in one direction of one upgraded connection.
const BUFFER_SIZE: usize = 16 << 10;

/// The protocol that a client asks to upgrade to, as an extension of its request.
#[derive(Clone, Debug)]
pub struct Upgrade(pub(super) HeaderValue);

/// Whether a request asks for one of the protocols that Kubernetes upgrades to (`httpstream.IsUpgradeRequest`). Any
/// other, `h2c` above all, would be a way past the proxy for what is asked inside.
pub(super) fn is_upgrade(headers: &HeaderMap) -> bool {
    protocol(headers).is_some()
}

/// The protocol that is asked for.
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

/// Ties the two sides together after the upstream agreed to what the client asked for. The tie ends with either side,
/// or when the drain starts.
pub(super) fn tie(
    client: Option<(OnUpgrade, Option<Kept>)>,
    mut response: Response<Body>,
    drain: &Drain,
) -> Result<Response<Body>, Status> {
    let upstream = hyper::upgrade::on(&mut response);
    let Some((client, kept)) = client else { return Err(bad_gateway()) };
    let signal = drain.clone();
    drain.spawn(async move {
        let _kept = kept;
        // Nothing to tie where a side went before it came to that.
        let Ok((client, upstream)) = tokio::try_join!(client, upstream) else { return };
        let (mut client, mut upstream) = (TokioIo::new(client), TokioIo::new(upstream));
        let tie = tokio::io::copy_bidirectional_with_sizes(&mut client, &mut upstream, BUFFER_SIZE, BUFFER_SIZE);
        tokio::select! {
            // That a side is reset is how many of these end.
            _ = tie => {}
            () = signal.started() => {}
        }
    });
    Ok(response)
}
