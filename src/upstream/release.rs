//! The Kubernetes release of the upstream API server, as far as it affects the requests to it.
//!
//! A later release than the one whose types are known here has unknown fields, which are passed on unchanged. An API server of the same
//! release gets protobuf. In protobuf, a field that the API server does not know is lost silently; in JSON, a client that asked for field
//! validation gets an error. So protobuf is only for API servers that know every field that is known here.

use super::{SharedTransport, client};
use crate::body::empty;
use crate::config::EmulatedRelease;
use crate::request::body;
use crate::server::health::Unhealthy;
use http::{HeaderValue, Request, StatusCode, header};
use serde::Deserialize;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

const PATH: &str = "/version";
/// Bytes of the answer that are read.
const BODY_BYTES: usize = 16 << 10;
/// The time between two questions for the first version.
const PAUSE: Duration = Duration::from_secs(1);
/// The minor releases between the emulated one and that of the API server with which a control plane still works together.
const SKEW: u64 = 1;

/// The release that the program emulates, and whether that is the release that an API server had at the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Emulation {
    /// The emulated release.
    pub release: EmulatedRelease,
    /// Whether the release is that of the API server behind (`--emulated-version=upstream`).
    pub is_of_upstream: bool,
}

/// The release of the API server, read again and again, since the API server may be upgraded.
#[derive(Debug)]
pub struct UpstreamRelease {
    found: watch::Receiver<Found>,
    refuses_protobuf: AtomicBool,
    _task: Option<AbortOnDropHandle<()>>,
}

/// The version of an API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ServerVersion(u64, u64);

impl fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

impl ServerVersion {
    /// The release whose types are known here.
    fn known() -> Self {
        Self(1, crate::object::release::minor().into())
    }

    /// The emulated release that is the nearest to this one.
    pub(crate) fn nearest(self) -> EmulatedRelease {
        EmulatedRelease::nearest((self.0, self.1))
    }

    /// Whether a release is this one.
    pub(crate) fn is(self, release: EmulatedRelease) -> bool {
        self == Self(1, release.minor.into())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// The API server was not asked yet.
    Nothing,
    /// The API server gave no readable version.
    Unknown,
    Version(ServerVersion),
}

impl UpstreamRelease {
    /// Assumes an API server of the release whose types are known here; it never gets protobuf.
    pub fn known() -> Self {
        let found = watch::channel(Found::Version(ServerVersion::known())).1;
        Self { found, refuses_protobuf: AtomicBool::new(true), _task: None }
    }

    /// Reads the version at once, and then again every `every`; an answer that takes longer than `patience` counts as missing, and the
    /// known
    /// version stays. Must be called inside a tokio runtime.
    pub fn start(transport: SharedTransport, emulation: Emulation, every: Duration, patience: Duration) -> Self {
        let (sender, found) = watch::channel(Found::Nothing);
        let asking = async move {
            let mut ticks = interval(every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let answer = read(&transport, patience).await.map_or(Found::Unknown, Found::Version);
                sender.send_if_modified(|found| replace(found, answer, emulation));
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
        *self.found.borrow() == Found::Version(ServerVersion::known()) && !self.refuses_protobuf.load(Ordering::Relaxed)
    }

    /// Records that the API server rejected protobuf.
    pub(crate) fn refused_protobuf(&self) {
        self.refuses_protobuf.store(true, Ordering::Relaxed);
    }

    /// Whether the API server may have fields that are not known here; true if its version is unknown. Waits for the first answer.
    pub(crate) async fn may_know_more(&self) -> bool {
        let mut found = self.found.clone();
        let found = found.wait_for(|found| *found != Found::Nothing).await;
        found.map_or(true, |found| match *found {
            Found::Nothing | Found::Unknown => true,
            Found::Version(version) => version > ServerVersion::known(),
        })
    }

    /// Checks that all fields of the API server are known here.
    ///
    /// # Errors
    /// If the API server has a later release, with the consequences.
    pub(crate) fn check(&self) -> Result<(), Unhealthy> {
        match self.version() {
            Some(version) if version > ServerVersion::known() => Err(Unhealthy::of(later(version))),
            _ => Ok(()),
        }
    }

    /// The version of the API server, if it is known.
    pub(crate) fn version(&self) -> Option<ServerVersion> {
        match *self.found.borrow() {
            Found::Nothing | Found::Unknown => None,
            Found::Version(version) => Some(version),
        }
    }
}

/// Stores an answer, unless it is unknown and a version is known. Returns whether the answer is new.
fn replace(found: &mut Found, answer: Found, emulation: Emulation) -> bool {
    let is_new = *found != answer && (answer != Found::Unknown || *found == Found::Nothing);
    if is_new {
        if let Found::Version(version) = answer {
            warnings(version, emulation).iter().for_each(|warning| tracing::warn!("{warning}"));
        }
        *found = answer;
    }
    is_new
}

/// What an operator should know of the release of the API server; logged once for each release.
fn warnings(version: ServerVersion, Emulation { release, is_of_upstream }: Emulation) -> Vec<String> {
    let mut warnings = Vec::new();
    if version > ServerVersion::known() {
        warnings.push(later(version));
    }
    if is_of_upstream && version.nearest() != release {
        warnings.push(format!(
            "the upstream API server is of Kubernetes {version} now, and the emulated release stays {release} until the next start: restart \
             the proxy"
        ));
    }
    let is_far = version.0 != 1 || version.1.abs_diff(release.minor.into()) > SKEW;
    if !is_of_upstream && is_far {
        warnings.push(format!(
            "the upstream API server is of Kubernetes {version}, and the emulated release is {release}: see --emulated-version"
        ));
    }
    warnings
}

fn later(version: ServerVersion) -> String {
    let known = ServerVersion::known();
    let advice = match version.is(version.nearest()) {
        true => "see --emulated-version".to_owned(),
        false => format!("install a release of kube-admission-proxy for {version}"),
    };
    format!(
        "the upstream API server is of Kubernetes {version}, which is later than {known}: fields that {known} does not have are passed on, \
         but no plugin, webhook or policy sees them; {advice}"
    )
}

/// The consequences of a release that is later than the one whose types are known here.
pub(crate) fn later_than_known(major: &str, minor: &str) -> Option<String> {
    let version = Version { major: major.to_owned(), minor: minor.to_owned() }.parsed()?;
    (version > ServerVersion::known()).then(|| later(version))
}

/// Reads the version of an API server; waits for an answer, but not longer than `wait`, and for each answer not longer than `patience`.
pub(crate) async fn first(transport: &SharedTransport, wait: Duration, patience: Duration) -> Option<ServerVersion> {
    let asking = async {
        loop {
            match read(transport, patience).await {
                Some(version) => return version,
                None => sleep(PAUSE).await,
            }
        }
    };
    timeout(wait, asking).await.ok()
}

async fn read(transport: &SharedTransport, patience: Duration) -> Option<ServerVersion> {
    timeout(patience, ask(transport)).await.ok().flatten()
}

/// The fields of `version.Info` that are read.
#[derive(Deserialize)]
struct Version {
    major: String,
    minor: String,
}

impl Version {
    fn parsed(&self) -> Option<ServerVersion> {
        // Some providers write 36+.
        Some(ServerVersion(self.major.parse().ok()?, self.minor.trim_end_matches('+').parse().ok()?))
    }
}

async fn ask(transport: &SharedTransport) -> Option<ServerVersion> {
    let mut request = Request::new(empty());
    *request.uri_mut() = http::Uri::from_static(PATH);
    request.headers_mut().insert(header::USER_AGENT, HeaderValue::from_static(client::USER_AGENT));
    let response = transport.send(request).await.ok()?;
    let status = response.status();
    let text = body::read(response.into_body(), BODY_BYTES).await.ok()?;
    let version: Version = serde_json::from_slice(&text).ok().filter(|_| status == StatusCode::OK)?;
    version.parsed()
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
            let release =
                UpstreamRelease::start(answering(Arc::new(Mutex::new((code, text)))), Emulation::default(), day, day);
            assert!(!release.takes_protobuf());
            assert_eq!(release.may_know_more().await, may_know_more, "{text}");
            assert_eq!((release.takes_protobuf(), release.check().is_err()), (takes_protobuf, is_later), "{text}");
            release.refused_protobuf();
            assert!(!release.takes_protobuf());
        }
        assert!(!UpstreamRelease::known().takes_protobuf() && !UpstreamRelease::known().may_know_more().await);
    }

    #[tokio::test(start_paused = true)]
    async fn the_version_stays_known_until_another_answer() {
        let answer = Arc::new(Mutex::new((200, r#"{"major":"1","minor":"36"}"#)));
        let second = Duration::from_secs(1);
        let release = UpstreamRelease::start(answering(answer.clone()), Emulation::default(), second, second);
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

    #[test]
    fn a_release_that_is_not_emulated_is_worth_a_warning() {
        let [later, changed, far] = ["which is later than", "until the next start", "see --emulated-version"];
        for (minor, emulated, is_of_upstream, parts) in [
            (36, 36, false, &[][..]),
            (36, 36, true, &[]),
            (37, 37, true, &[later]),
            (37, 36, true, &[later, changed]),
            (37, 36, false, &[later]),
            (35, 36, true, &[changed]),
            (35, 36, false, &[]),
            (34, 36, false, &[far]),
            // The nearest release is emulated.
            (33, 34, true, &[]),
            (38, 37, true, &[later]),
        ] {
            let emulation = Emulation { release: EmulatedRelease::new(emulated), is_of_upstream };
            let warnings = warnings(ServerVersion(1, minor), emulation);
            let are_wanted = warnings.iter().zip(parts).all(|(warning, part)| warning.contains(part));
            assert!(are_wanted && warnings.len() == parts.len(), "1.{minor} with 1.{emulated}: {warnings:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_version_is_waited_for_within_bounds() {
        let answer = Arc::new(Mutex::new((503, "")));
        let (transport, second) = (answering(answer.clone()), Duration::from_secs(1));
        assert_eq!(first(&transport, 10 * second, second).await, None);
        let starting = async {
            sleep(3 * second).await;
            *answer.lock().unwrap() = (200, r#"{"major":"1","minor":"37+"}"#);
        };
        let (found, ()) = tokio::join!(first(&transport, 10 * second, second), starting);
        assert_eq!(found, Some(ServerVersion(1, 37)));
    }
}
