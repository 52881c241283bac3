//! `/livez`, `/readyz`, `/healthz`, `/metrics`, `/metrics/slis` and the pages of the process over plain HTTP. On the main port, these paths
//! belong to the upstream.

use super::budget::{ConnectionBudget, Stage};
use super::sockets::{Sockets, has_spoken, speaks};
use super::{ConnectionState, Drain, Listener, Unread};
use crate::body::Body;
use crate::config::Limits;
use crate::metrics::Registry;
use async_trait::async_trait;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::{self, Write as _};
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest time for a connection's request and answer.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);

/// The reason why a check fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unhealthy(String);

impl Unhealthy {
    /// The reason in these words.
    pub(crate) fn of(why: impl fmt::Display) -> Self {
        Self(why.to_string())
    }
}

type Probe = Box<dyn Fn() -> Result<(), Unhealthy> + Send + Sync>;

struct Check {
    name: &'static str,
    of_life: bool,
    /// Whether a failure is only a warning.
    is_advice: bool,
    probe: Probe,
}

const ENDPOINTS: [&str; 3] = ["healthz", "livez", "readyz"];

impl Check {
    fn is_of(&self, endpoint: &str) -> bool {
        self.of_life || endpoint != "livez"
    }
}

/// A task that must be done before the process is ready.
#[must_use]
pub(crate) struct Pending(Arc<AtomicBool>);

impl Pending {
    /// Records that the task is done.
    pub(crate) fn finish(self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The named checks of liveness and readiness, shared between clones.
#[derive(Clone, Default)]
pub(crate) struct Checks {
    all: Arc<RwLock<Vec<Check>>>,
    outcomes: Arc<Outcomes>,
}

/// The outcomes of the checks that were run, by the check and the endpoint (`slis.ObserveHealthcheck`).
#[derive(Default)]
struct Outcomes(Mutex<BTreeMap<(&'static str, &'static str), Outcome>>);

#[derive(Clone, Copy, Default)]
struct Outcome {
    is_good: bool,
    good: u64,
    bad: u64,
}

impl Outcomes {
    fn all(&self) -> MutexGuard<'_, BTreeMap<(&'static str, &'static str), Outcome>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, check: &'static str, endpoint: &'static str, is_good: bool) {
        let mut all = self.all();
        let outcome = all.entry((check, endpoint)).or_default();
        outcome.is_good = is_good;
        *(if is_good { &mut outcome.good } else { &mut outcome.bad }) += 1;
    }

    /// The metrics of `/metrics/slis`.
    fn text(&self) -> String {
        let (mut results, mut totals) = (String::new(), String::new());
        for ((name, endpoint), Outcome { is_good, good, bad }) in self.all().iter() {
            results +=
                &format!("kubernetes_healthcheck{{name=\"{name}\",type=\"{endpoint}\"}} {}\n", u8::from(*is_good));
            for (status, count) in [("error", bad), ("success", good)].into_iter().filter(|(_, count)| **count > 0) {
                totals += &format!(
                    "kubernetes_healthchecks_total{{name=\"{name}\",status=\"{status}\",type=\"{endpoint}\"}} {count}\n"
                );
            }
        }
        format!(
            "# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.\n\
             # TYPE kubernetes_healthcheck gauge\n{results}\
             # HELP kubernetes_healthchecks_total [STABLE] This metric records the results of all healthcheck.\n\
             # TYPE kubernetes_healthchecks_total counter\n{totals}"
        )
    }
}

impl Checks {
    /// Creates the checks with kube-apiserver's `ping`, and `shutdown` for readiness.
    pub(crate) fn new(drain: &Drain) -> Self {
        let checks = Self::default();
        checks.live("ping", || Ok(()));
        let drain = drain.clone();
        checks.ready("shutdown", move || {
            if drain.is_announced() { Err(Unhealthy::of("process is shutting down")) } else { Ok(()) }
        });
        checks
    }

    /// Adds a check of liveness, which also counts for readiness. It must be quick; the list of checks withholds the reason.
    pub(crate) fn live(&self, name: &'static str, probe: impl Fn() -> Result<(), Unhealthy> + Send + Sync + 'static) {
        self.add(Check { name, of_life: true, is_advice: false, probe: Box::new(probe) });
    }

    /// Adds a check of readiness.
    pub(crate) fn ready(&self, name: &'static str, probe: impl Fn() -> Result<(), Unhealthy> + Send + Sync + 'static) {
        self.add(Check { name, of_life: false, is_advice: false, probe: Box::new(probe) });
    }

    /// Adds a check of readiness that fails until the returned task is finished.
    pub(crate) fn pending(&self, name: &'static str) -> Pending {
        let done = Arc::new(AtomicBool::new(false));
        let reported = done.clone();
        self.ready(
            name,
            move || if reported.load(Ordering::Acquire) { Ok(()) } else { Err(Unhealthy::of("not finished")) },
        );
        Pending(done)
    }

    /// Adds a check that never fails readiness: its failure is a warning in the lines of `verbose`.
    pub(crate) fn advise(&self, name: &'static str, probe: impl Fn() -> Result<(), Unhealthy> + Send + Sync + 'static) {
        self.add(Check { name, of_life: false, is_advice: true, probe: Box::new(probe) });
    }

    fn add(&self, check: Check) {
        self.all.write().unwrap_or_else(PoisonError::into_inner).push(check);
    }

    /// Whether every check of readiness passes, warnings aside.
    pub(crate) fn is_ready(&self) -> bool {
        let checks = self.all.read().unwrap_or_else(PoisonError::into_inner);
        checks.iter().all(|check| check.is_advice || (check.probe)().is_ok())
    }

    /// The paths of the checks, in any order.
    pub(crate) fn paths(&self) -> Vec<String> {
        let mut paths: Vec<String> = ENDPOINTS.iter().map(|endpoint| format!("/{endpoint}")).collect();
        for check in self.all.read().unwrap_or_else(PoisonError::into_inner).iter() {
            let endpoints = ENDPOINTS.iter().filter(|endpoint| check.is_of(endpoint));
            paths.extend(endpoints.map(|endpoint| format!("/{endpoint}/{}", check.name)));
        }
        paths
    }

    /// Runs the checks: returns the status and a line for each check (`healthz.handleRootHealth`).
    fn run(&self, endpoint: &'static str, query: &str) -> (StatusCode, String) {
        let parameters = || form_urlencoded::parse(query.as_bytes());
        let excluded: Vec<String> =
            parameters().filter(|(key, _)| key == "exclude").map(|(_, name)| name.into_owned()).collect();
        let mut unknown: Vec<&String> = excluded.iter().collect();
        let (mut lines, mut failed) = (String::new(), false);
        for check in self.all.read().unwrap_or_else(PoisonError::into_inner).iter() {
            if !check.is_of(endpoint) {
                continue;
            }
            let name = check.name;
            if excluded.iter().any(|excluded| excluded == name) {
                unknown.retain(|unknown| *unknown != name);
                let _ = writeln!(lines, "[+]{name} excluded: ok");
                continue;
            }
            let probed = (check.probe)();
            self.outcomes.note(name, endpoint, probed.is_ok() || check.is_advice);
            let written = if let Err(reason) = probed {
                if check.is_advice {
                    let _ = writeln!(lines, "[+]{name} ok: warning: {reason}");
                    continue;
                }
                failed = true;
                tracing::info!(check = name, %reason, "{endpoint} check failed");
                writeln!(lines, "[-]{name} failed: reason withheld")
            } else {
                writeln!(lines, "[+]{name} ok")
            };
            debug_assert!(written.is_ok());
        }
        if !unknown.is_empty() {
            let names: Vec<String> = unknown.iter().map(|name| format!("{name:?}")).collect();
            lines += &format!("warn: some health checks cannot be excluded: no matches for {}\n", names.join(", "));
        }
        if failed {
            return (StatusCode::INTERNAL_SERVER_ERROR, format!("{lines}{endpoint} check failed\n"));
        }
        if parameters().any(|(key, _)| key == "verbose") {
            return (StatusCode::OK, format!("{lines}{endpoint} check passed\n"));
        }
        (StatusCode::OK, "ok".into())
    }

    /// Runs one check by its name (`healthz.adaptCheckToHandler`).
    fn one(&self, endpoint: &str, name: &str) -> (StatusCode, String) {
        let checks = self.all.read().unwrap_or_else(PoisonError::into_inner);
        let Some(check) = checks.iter().find(|check| check.name == name && (check.of_life || endpoint != "livez"))
        else {
            return (StatusCode::NOT_FOUND, "404 page not found\n".into());
        };
        match (check.probe)() {
            Ok(()) => (StatusCode::OK, "ok".into()),
            Err(reason) if check.is_advice => (StatusCode::OK, format!("ok: warning: {reason}\n")),
            Err(reason) => (StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {reason}\n")),
        }
    }
}

/// The pages of the health port besides health and metrics.
#[async_trait]
pub(crate) trait Pages: Send + Sync {
    /// The answer to a request for a page of a client at this address.
    async fn answer(&self, request: Request<Body>, remote: IpAddr) -> Response<Full<Bytes>>;

    /// Whether the path is that of a page.
    fn have(&self, path: &str) -> bool;
}

/// What the health port serves.
#[derive(Clone)]
pub(crate) struct Served {
    pub(crate) checks: Checks,
    pub(crate) registry: Registry,
    pub(crate) pages: Option<Arc<dyn Pages>>,
}

impl Served {
    async fn answer(&self, request: Request<Body>, remote: IpAddr) -> Response<Full<Bytes>> {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        match self.pages.as_ref().filter(|pages| pages.have(uri.path())) {
            Some(pages) => pages.answer(request, remote).await,
            None => answer(&method, &uri, &self.checks, &self.registry),
        }
    }
}

/// Serves the checks, the registry's metrics and the pages until the guard is dropped, also while the proxy drains. A thread of its own answers
/// probes even if every other thread of the process is busy. A further connection than the limits allow ends another one.
///
/// # Errors
/// If no thread or runtime can be created.
pub(crate) fn start(listener: Listener, served: Served, limits: &Limits) -> io::Result<DropGuard> {
    let socket = listener.into_std()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (budget, stop) = (ConnectionBudget::of_health_port(limits), CancellationToken::new());
    let unread = Unread::new(limits.unread_bodies);
    let stopped = stop.clone();
    std::thread::Builder::new().name("health".into()).spawn(move || {
        runtime.block_on(async {
            match TcpListener::from_std(socket) {
                Ok(socket) => {
                    stopped.run_until_cancelled(serve(socket, &served, &budget, &unread)).await;
                }
                Err(error) => tracing::error!(%error, "the health port is not served"),
            }
        });
    })?;
    Ok(stop.drop_guard())
}

async fn serve(socket: TcpListener, served: &Served, budget: &Arc<ConnectionBudget>, unread: &Unread) {
    let mut sockets = Sockets::new(vec![socket]);
    loop {
        let (stream, remote) = sockets.accept(budget).await;
        let state = ConnectionState::of(remote.ip());
        let Some(mut place) = budget.enter(&state, Stage::first(has_spoken(&stream))) else { continue };
        let (served, unread) = (served.clone(), unread.clone());
        tokio::spawn(async move {
            // A connection that has given its place to others is answered all the same if its request is there.
            tokio::select! {
                biased;
                ready = tokio::time::timeout(HEADER_READ_TIMEOUT, speaks(&stream)) => if ready != Ok(true) { return },
                () = state.ended() => return,
            }
            place.advance(Stage::Begun);
            tokio::select! {
                biased;
                // On the heap: a silent connection is small.
                () = Box::pin(serve_connection(stream, remote.ip(), &served, &unread)) => {}
                () = state.ended() => {}
            }
        });
    }
}

async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    remote: IpAddr,
    served: &Served,
    unread: &Unread,
) {
    let service = service_fn(|request| {
        let request = unread.watch(request);
        async move { Ok::<_, Infallible>(served.answer(request, remote).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER_READ_TIMEOUT).keep_alive(false);
    // A client that goes away early, or reads too slowly, gets no answer.
    let _ = tokio::time::timeout(CONNECTION_TIMEOUT, http.serve_connection(TokioIo::new(stream), service)).await;
}

/// The answer to a request for health or metrics; 404 for any other path.
pub(crate) fn answer(method: &Method, uri: &http::Uri, checks: &Checks, registry: &Registry) -> Response<Full<Bytes>> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return text(StatusCode::METHOD_NOT_ALLOWED, "405 method not allowed\n".into());
    }
    let (endpoint, name) =
        uri.path().trim_start_matches('/').split_once('/').unwrap_or((uri.path().trim_matches('/'), ""));
    let (code, body) = match (endpoint, name) {
        ("metrics", "") => return metrics(registry),
        ("metrics", "slis") => return exposition(checks.outcomes.text()),
        ("livez", "") => checks.run("livez", uri.query().unwrap_or_default()),
        ("readyz", "") => checks.run("readyz", uri.query().unwrap_or_default()),
        ("healthz", "") => checks.run("healthz", uri.query().unwrap_or_default()),
        ("livez" | "readyz" | "healthz", name) => checks.one(endpoint, name),
        _ => (StatusCode::NOT_FOUND, "404 page not found\n".into()),
    };
    text(code, body)
}

fn metrics(registry: &Registry) -> Response<Full<Bytes>> {
    match registry.text() {
        Ok(body) => exposition(body),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

fn exposition(body: String) -> Response<Full<Bytes>> {
    with_type(StatusCode::OK, prometheus::TEXT_FORMAT, body.into_bytes())
}

/// A plain text as an answer.
pub(crate) fn text(code: StatusCode, body: String) -> Response<Full<Bytes>> {
    with_type(code, "text/plain; charset=utf-8", body.into_bytes())
}

/// An answer of this media type, which nobody keeps.
pub(crate) fn with_type(code: StatusCode, media_type: &str, body: Vec<u8>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    if let Ok(media_type) = media_type.parse() {
        headers.insert(header::CONTENT_TYPE, media_type);
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, http::HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, http::HeaderValue::from_static("no-cache, private"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::Instant;

    fn checks(upstream: Result<(), &'static str>) -> Checks {
        let checks = Checks::new(&Drain::new());
        checks.ready("upstream", move || upstream.map_err(Unhealthy::of));
        checks
    }

    const LOCAL: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn served() -> Served {
        Served { checks: checks(Ok(())), registry: Registry::new(), pages: None }
    }

    async fn ask(checks: &Checks, path: &str) -> (u16, String) {
        let response = answer(&Method::GET, &path.parse().unwrap(), checks, &Registry::new());
        let code = response.status().as_u16();
        (code, String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap())
    }

    #[tokio::test]
    async fn answers_as_an_api_server_does() {
        let good = checks(Ok(()));
        let bad = checks(Err("secret address"));
        for (checks, path, code, body) in [
            (&good, "/livez", 200, "ok"),
            (&good, "/readyz/", 200, "ok"),
            (&good, "/readyz?verbose", 200, "[+]ping ok\n[+]shutdown ok\n[+]upstream ok\nreadyz check passed\n"),
            (&good, "/livez?verbose=1", 200, "[+]ping ok\nlivez check passed\n"),
            (&bad, "/livez", 200, "ok"),
            (
                &bad,
                "/healthz",
                500,
                "[+]ping ok\n[+]shutdown ok\n[-]upstream failed: reason withheld\nhealthz check failed\n",
            ),
            (&bad, "/readyz?exclude=upstream", 200, "ok"),
            (
                &bad,
                "/readyz?exclude=upstream&exclude=x&verbose",
                200,
                "[+]ping ok\n[+]shutdown ok\n[+]upstream excluded: ok\n\
                 warn: some health checks cannot be excluded: no matches for \"x\"\nreadyz check passed\n",
            ),
            (&good, "/readyz/upstream", 200, "ok"),
            (&good, "/livez/upstream", 404, "404 page not found\n"),
            (&good, "/api", 404, "404 page not found\n"),
        ] {
            assert_eq!(ask(checks, path).await, (code, body.to_owned()), "{path}");
        }
    }

    #[tokio::test]
    async fn advice_is_given_without_failing_anything() {
        let checks = checks(Ok(()));
        checks.advise("once", || Err(Unhealthy::of("twice")));
        assert!(checks.is_ready());
        assert_eq!(ask(&checks, "/readyz").await, (200, "ok".to_owned()));
        let lines = "[+]ping ok\n[+]shutdown ok\n[+]upstream ok\n[+]once ok: warning: twice\nreadyz check passed\n";
        assert_eq!(ask(&checks, "/readyz?verbose").await, (200, lines.to_owned()));
        assert_eq!(ask(&checks, "/readyz/once").await, (200, "ok: warning: twice\n".to_owned()));
    }

    #[tokio::test]
    async fn a_server_is_not_ready_before_it_is_marked_ready() {
        let checks = Checks::new(&Drain::new());
        let start = checks.pending("start");
        assert_eq!(ask(&checks, "/readyz/start").await, (500, "internal server error: not finished\n".to_owned()));
        assert_eq!((ask(&checks, "/readyz").await.0, ask(&checks, "/livez").await.0), (500, 200));
        start.finish();
        assert_eq!(ask(&checks, "/readyz").await, (200, "ok".to_owned()));
    }

    #[tokio::test]
    async fn is_not_ready_once_the_end_is_announced() {
        let drain = Drain::new();
        let checks = Checks::new(&drain);
        assert!(checks.is_ready());
        drain.start(Duration::ZERO).await;
        assert!(!checks.is_ready());
        assert_eq!(ask(&checks, "/readyz").await.0, 500);
        assert_eq!(ask(&checks, "/livez").await.0, 200);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_cut_off() {
        let (mut client, server) = duplex(64);
        client.write_all(b"GET /readyz?verbose HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        let begun = Instant::now();
        serve_connection(server, LOCAL, &served(), &Unread::new(1)).await;
        assert_eq!(begun.elapsed(), CONNECTION_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_sends_half_a_request_is_cut_off() {
        let (mut client, server) = duplex(4096);
        client.write_all(b"GET /livez HTTP/1.1\r\nhost: a\r\n").await.unwrap();
        let begun = Instant::now();
        serve_connection(server, LOCAL, &served(), &Unread::new(1)).await;
        assert_eq!(begun.elapsed().as_secs(), HEADER_READ_TIMEOUT.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_ends_with_its_answer() {
        let (mut client, server) = duplex(4096);
        client.write_all(b"GET /livez HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        serve_connection(server, LOCAL, &served(), &Unread::new(1)).await;
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.contains("connection: close\r\n") && answer.ends_with("\r\n\r\nok"), "{answer}");
    }

    #[tokio::test]
    async fn a_client_that_is_still_sending_gets_the_refusal() {
        let (mut client, server) = duplex(4096);
        let head = "POST /livez HTTP/1.1\r\nhost: a\r\ncontent-length: 100000\r\n\r\n";
        let serving = tokio::spawn(async move {
            serve_connection(server, LOCAL, &served(), &Unread::new(1)).await;
        });
        client.write_all(head.as_bytes()).await.unwrap();
        client.write_all(&[b'x'; 100_000]).await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 405 ") && answer.ends_with("405 method not allowed\n"), "{answer}");
        serving.await.unwrap();
    }

    /// The test's thread, the only one of its runtime, only waits for the answers.
    #[tokio::test]
    async fn probes_are_answered_at_the_connection_limit() {
        use std::io::{Read, Write};
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let limits = Limits { health_connections: 8, ..Limits::default() };
        let _health = start(listener, served(), &limits).unwrap();
        let mut silent = Vec::new();
        for _ in 0..3 {
            for _ in 0..20 {
                let mut client = std::net::TcpStream::connect(address).unwrap();
                client.write_all(b"GET /livez HTTP/1.1\r\nhost: a\r\n").unwrap();
                silent.push(client);
            }
            let mut client = std::net::TcpStream::connect(address).unwrap();
            client.write_all(b"GET /livez HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).unwrap();
            assert!(answer.ends_with("\r\n\r\nok"), "{answer}");
        }
    }

    #[tokio::test]
    async fn a_probe_that_is_there_is_answered_whoever_comes_after_it() {
        use std::io::{Read, Write};
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let connect = || std::net::TcpStream::connect(address).unwrap();
        let probes: Vec<_> = (0..8)
            .map(|_| {
                let mut probe = connect();
                probe.write_all(b"GET /livez HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
                probe
            })
            .collect();
        let silent: Vec<_> = (0..40).map(|_| connect()).collect();
        // The server accepts all of them before it serves the first.
        let limits = Limits { health_connections: 8, silent_connections: 8, ..Limits::default() };
        let budget = ConnectionBudget::of_health_port(&limits);
        tokio::spawn(async move {
            serve(socket, &served(), &budget, &Unread::new(1)).await;
        });
        for mut probe in probes {
            let read = move || {
                let mut answer = String::new();
                probe.read_to_string(&mut answer).map(|_| answer)
            };
            let answer = tokio::task::spawn_blocking(read).await.unwrap().unwrap();
            assert!(answer.ends_with("\r\n\r\nok"), "{answer}");
        }
        drop(silent);
    }

    #[tokio::test]
    async fn outcomes_of_checks_are_metrics_of_their_own() {
        let checks = checks(Err("refused"));
        for path in ["/livez", "/readyz", "/readyz?exclude=upstream", "/readyz"] {
            ask(&checks, path).await;
        }
        let (code, body) = ask(&checks, "/metrics/slis").await;
        assert_eq!(code, 200);
        for line in [
            "kubernetes_healthcheck{name=\"ping\",type=\"livez\"} 1",
            "kubernetes_healthcheck{name=\"upstream\",type=\"readyz\"} 0",
            "kubernetes_healthchecks_total{name=\"ping\",status=\"success\",type=\"readyz\"} 3",
            "kubernetes_healthchecks_total{name=\"upstream\",status=\"error\",type=\"readyz\"} 2",
        ] {
            assert!(body.lines().any(|found| found == line), "no {line} in {body}");
        }
        assert!(!body.contains("type=\"healthz\""));
    }

    #[tokio::test]
    async fn metrics_are_in_the_text_format() {
        let registry = Registry::new();
        let counter = prometheus::IntCounter::new("a_total", "help").unwrap();
        registry.register(Box::new(counter.clone())).unwrap();
        counter.inc();
        let response = answer(&Method::GET, &"/metrics".parse().unwrap(), &Checks::default(), &registry);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert!(body.ends_with(b"a_total 1\n"));
    }
}
