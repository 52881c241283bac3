//! The Kubernetes release of the upstream API server, as far as it affects the requests to it.
//!
//! A later release than the one whose types are known here has unknown fields, which are passed on unchanged. An API server of the same
//! release gets protobuf. In protobuf, a field that the API server does not know is lost silently; in JSON, a client that asked for field
//! validation gets an error. So protobuf is only for API servers that know every field that is known here.

use super::{SharedTransport, client};
use crate::body::empty;
use crate::request::body;
use crate::server::health::Unhealthy;
use http::{HeaderValue, Request, StatusCode, header};
use serde::Deserialize;
use std::cmp::Ordering as Order;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::task::AbortOnDropHandle;

const PATH: &str = "/version";
/// Bytes of the answer that are read.
const BODY_BYTES: usize = 16 << 10;
/// The Kubernetes release whose types are known here: major and minor version.
const KNOWN: (u64, u64) = (1, 36);

/// The release of the API server, read again and again, since the API server may be upgraded.
#[derive(Debug)]
pub struct Release {
    found: watch::Receiver<Found>,
    refuses_protobuf: AtomicBool,
    _task: Option<AbortOnDropHandle<()>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    /// The API server was not asked yet.
    Nothing,
    /// The API server gave no readable version.
    Unknown,
    /// The release whose types are known here.
    Known,
    Earlier,
    /// A later release, with its version.
    Later(String),
}

impl Release {
    /// Assumes an API server of the release whose types are known here; it never gets protobuf.
    pub fn known() -> Self {
        let (found, refuses_protobuf) = (watch::channel(Found::Known).1, AtomicBool::new(true));
        Self { found, refuses_protobuf, _task: None }
    }

    /// Reads the version at once, and then again every `every`; an answer that takes longer than `patience` counts as missing, and the
    /// known
    /// version stays. Must be called inside a tokio runtime.
    pub fn start(transport: SharedTransport, every: Duration, patience: Duration) -> Self {
        let (sender, found) = watch::channel(Found::Nothing);
        let asking = async move {
            let mut ticks = interval(every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let answer = timeout(patience, ask(&transport)).await.unwrap_or(Found::Unknown);
                sender.send_if_modified(|found| replace(found, answer));
            }
        };
        Self {
            found,
            refuses_protobuf: AtomicBool::default(),
            _task: Some(AbortOnDropHandle::new(tokio::spawn(asking))),
        }
    }

    /// Whether the API server gets protobuf now.
    pub(crate) fn takes_protobuf(&self) -> bool {
        *self.found.borrow() == Found::Known && !self.refuses_protobuf.load(Ordering::Relaxed)
    }

    /// Records that the API server rejected protobuf.
    pub(crate) fn refused_protobuf(&self) {
        self.refuses_protobuf.store(true, Ordering::Relaxed);
    }

    /// Whether the API server may have fields that are not known here; true if its version is unknown. Waits for the first answer.
    pub(crate) async fn may_know_more(&self) -> bool {
        let mut found = self.found.clone();
        let found = found.wait_for(|found| *found != Found::Nothing).await;
        found.map_or(true, |found| matches!(*found, Found::Nothing | Found::Unknown | Found::Later(_)))
    }

    /// Checks that all fields of the API server are known here.
    ///
    /// # Errors
    /// If the API server has a later release, with the consequences.
    pub(crate) fn check(&self) -> Result<(), Unhealthy> {
        match &*self.found.borrow() {
            Found::Later(version) => Err(Unhealthy::of(later(version))),
            Found::Nothing | Found::Unknown | Found::Known | Found::Earlier => Ok(()),
        }
    }
}

/// Stores an answer, unless it is unknown and a version is known. Returns whether the answer is new.
fn replace(found: &mut Found, answer: Found) -> bool {
    let is_new = *found != answer && (answer != Found::Unknown || *found == Found::Nothing);
    if is_new {
        if let Found::Later(version) = &answer {
            tracing::warn!("{}", later(version));
        }
        *found = answer;
    }
    is_new
}

fn later(version: &str) -> String {
    let (major, minor) = KNOWN;
    format!(
        "the upstream API server is of Kubernetes {version}, which is later than {major}.{minor}: fields that {major}.{minor} does not \
         have are passed on, but no plugin, webhook or policy sees them; install a release of kube-admission-proxy for {version}"
    )
}

/// The consequences of a release that is later than the one whose types are known here.
pub(crate) fn later_than_known(major: &str, minor: &str) -> Option<String> {
    match compare(&Version { major: major.to_owned(), minor: minor.to_owned() }) {
        Some(Found::Later(version)) => Some(later(&version)),
        _ => None,
    }
}

/// The fields of `version.Info` that are read.
#[derive(Deserialize)]
struct Version {
    major: String,
    minor: String,
}

async fn ask(transport: &SharedTransport) -> Found {
    let mut request = Request::new(empty());
    *request.uri_mut() = http::Uri::from_static(PATH);
    request.headers_mut().insert(header::USER_AGENT, HeaderValue::from_static(client::USER_AGENT));
    let Ok(response) = transport.send(request).await else { return Found::Unknown };
    let status = response.status();
    let Ok(text) = body::read(response.into_body(), BODY_BYTES).await else { return Found::Unknown };
    let version = serde_json::from_slice(&text).ok().filter(|_| status == StatusCode::OK);
    version.and_then(|version| compare(&version)).unwrap_or(Found::Unknown)
}

fn compare(Version { major, minor }: &Version) -> Option<Found> {
    // Some providers write 36+.
    let version = (major.parse::<u64>().ok()?, minor.trim_end_matches('+').parse::<u64>().ok()?);
    Some(match version.cmp(&KNOWN) {
        Order::Less => Found::Earlier,
        Order::Equal => Found::Known,
        Order::Greater => Found::Later(format!("{}.{}", version.0, version.1)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::full;
    use crate::upstream::from_fn;
    use http::Response;
    use std::sync::{Arc, Mutex};

    fn answering(answer: Arc<Mutex<(u16, &'static str)>>) -> SharedTransport {
        from_fn(move |request| {
            assert_eq!(request.uri(), PATH);
            let (code, text) = *answer.lock().unwrap();
            async move { Ok(Response::builder().status(code).body(full(text)).unwrap()) }
        })
    }

    #[tokio::test]
    async fn the_form_of_requests_follows_from_the_version() {
        let day = Duration::from_secs(24 * 3600);
        for (code, text, takes_protobuf, may_know_more, is_later) in [
            (200, r#"{"major":"1","minor":"36"}"#, true, false, false),
            (200, r#"{"major":"1","minor":"36+"}"#, true, false, false),
            (200, r#"{"major":"1","minor":"37+","gitVersion":"v1.37.1-x"}"#, false, true, true),
            (200, r#"{"major":"2","minor":"0"}"#, false, true, true),
            (200, r#"{"major":"1","minor":"35"}"#, false, false, false),
            (200, r#"{"major":"1","minor":""}"#, false, true, false),
            (200, "ok", false, true, false),
            (403, r#"{"major":"1","minor":"36"}"#, false, true, false),
        ] {
            let release = Release::start(answering(Arc::new(Mutex::new((code, text)))), day, day);
            assert!(!release.takes_protobuf());
            assert_eq!(release.may_know_more().await, may_know_more, "{text}");
            assert_eq!((release.takes_protobuf(), release.check().is_err()), (takes_protobuf, is_later), "{text}");
            release.refused_protobuf();
            assert!(!release.takes_protobuf());
        }
        assert!(!Release::known().takes_protobuf() && !Release::known().may_know_more().await);
    }

    #[tokio::test(start_paused = true)]
    async fn the_version_stays_known_until_another_answer() {
        let answer = Arc::new(Mutex::new((200, r#"{"major":"1","minor":"36"}"#)));
        let second = Duration::from_secs(1);
        let release = Release::start(answering(answer.clone()), second, second);
        assert!(!release.may_know_more().await);
        for (next, may_know_more) in [
            ((503, ""), false),
            ((200, r#"{"major":"1","minor":"37"}"#), true),
            ((503, ""), true),
            ((200, r#"{"major":"1","minor":"35"}"#), false),
        ] {
            *answer.lock().unwrap() = next;
            tokio::time::sleep(2 * second).await;
            assert_eq!(release.may_know_more().await, may_know_more, "{next:?}");
        }
    }
}
