//! Whether the API server behind is sent protobuf.
//!
//! In protobuf nobody hears of a field that the API server does not know; in JSON a client who asked for that does. So it is for
//! API servers that know every field that is known here.

use super::{SharedTransport, client, empty};
use crate::request::body;
use http::{HeaderValue, Request, StatusCode, header};
use serde::Deserialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::task::AbortOnDropHandle;

const PATH: &str = "/version";
/// How much of the answer is read.
const BODY_BYTES: usize = 16 << 10;
/// The release 1.x of Kubernetes whose types are known here.
const MINOR: u64 = 36;

/// What is known of the API server. It may be another one tomorrow, so it is asked again and again.
#[derive(Debug, Default)]
pub struct Protobuf {
    is_current: Arc<AtomicBool>,
    is_refused: AtomicBool,
    _task: Option<AbortOnDropHandle<()>>,
}

impl Protobuf {
    /// For an API server that is never sent any.
    pub fn never() -> Self {
        Self::default()
    }

    /// Asks for the version at once, and then again every `every`; an answer that takes longer than `patience` is none. Must be
    /// called inside a tokio runtime.
    pub fn start(transport: SharedTransport, every: Duration, patience: Duration) -> Self {
        let is_current = Arc::<AtomicBool>::default();
        let found = is_current.clone();
        let asking = async move {
            let mut ticks = interval(every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let answer = timeout(patience, is_current_at(&transport)).await;
                found.store(answer.ok().flatten().unwrap_or_default(), Ordering::Relaxed);
            }
        };
        Self {
            is_current,
            is_refused: AtomicBool::default(),
            _task: Some(AbortOnDropHandle::new(tokio::spawn(asking))),
        }
    }

    /// Whether it is sent some now.
    pub fn is_sent(&self) -> bool {
        self.is_current.load(Ordering::Relaxed) && !self.is_refused.load(Ordering::Relaxed)
    }

    /// It said that it does not take any.
    pub fn refused(&self) {
        self.is_refused.store(true, Ordering::Relaxed);
    }
}

/// `version.Info`, what is read of it.
#[derive(Deserialize)]
struct Version {
    major: String,
    minor: String,
}

async fn is_current_at(transport: &SharedTransport) -> Option<bool> {
    let mut request = Request::new(empty());
    *request.uri_mut() = http::Uri::from_static(PATH);
    request.headers_mut().insert(header::USER_AGENT, HeaderValue::from_static(client::USER_AGENT));
    let response = transport.send(request).await.ok()?;
    let status = response.status();
    let text = body::read(response.into_body(), BODY_BYTES).await.ok()?;
    let Version { major, minor } = serde_json::from_slice(&text).ok().filter(|_| status == StatusCode::OK)?;
    // Some providers write 36+.
    let minor: u64 = minor.trim_end_matches('+').parse().ok()?;
    Some(major == "1" && minor >= MINOR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::{from_fn, full};
    use http::Response;

    #[tokio::test]
    async fn it_is_for_who_knows_every_field() {
        for (code, text, expected) in [
            (200, r#"{"major":"1","minor":"36"}"#, Some(true)),
            (200, r#"{"major":"1","minor":"37+","gitVersion":"v1.37.1-x"}"#, Some(true)),
            (200, r#"{"major":"1","minor":"35"}"#, Some(false)),
            (200, r#"{"major":"2","minor":"40"}"#, Some(false)),
            (200, r#"{"major":"1","minor":""}"#, None),
            (200, "ok", None),
            (403, r#"{"major":"1","minor":"36"}"#, None),
        ] {
            let transport = from_fn(move |request| {
                assert_eq!(request.uri(), PATH);
                async move { Ok(Response::builder().status(code).body(full(text)).unwrap()) }
            });
            assert_eq!(is_current_at(&transport).await, expected, "{text}");
        }
        assert!(!Protobuf::never().is_sent());
    }
}
