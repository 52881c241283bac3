//! Probes of the API server at intervals: a proxy without an API server is not ready.

use super::{SharedTransport, client};
use crate::body::{chain, empty};
use crate::request::body;
use crate::server::health::Unhealthy;
use http::{HeaderValue, Request, header};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_util::task::AbortOnDropHandle;

/// The path of the probe: every API server answers it quickly, for any user.
const PATH: &str = "/readyz";
/// The pause after which the log tells of a failure that lasts once more; each pause is twice as long as the one before.
const FIRST_REPEAT: Duration = Duration::from_secs(60);
const LAST_REPEAT: Duration = Duration::from_secs(60 * 60);
/// Bytes of the answer that are read.
const BODY_BYTES: usize = 16 << 10;

/// The last answer of the API server. Dropping the value ends the probes.
#[derive(Debug)]
pub(crate) struct Probe {
    last: watch::Receiver<Result<(), Unhealthy>>,
    /// How many times the API server answered after it had not.
    recoveries: watch::Receiver<u64>,
    _task: AbortOnDropHandle<()>,
}

impl Probe {
    /// Sends a probe at once, and then again every `every`; an answer that takes longer than `patience` counts as missing. Must be called
    /// inside a tokio runtime.
    /// `name` is the API server's, for the log: its address, and where that is from.
    pub(crate) fn start(transport: SharedTransport, name: String, every: Duration, patience: Duration) -> Self {
        let (said, last) = watch::channel(Err(Unhealthy::of("the API server was not asked yet")));
        let (recovered, recoveries) = watch::channel(0);
        let asking = async move {
            let mut ticks = interval(every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            // Nobody has been told yet. After a failure: when to tell again, and the pause before that.
            let (mut is_told, mut again) = (None, (Instant::now(), FIRST_REPEAT));
            loop {
                ticks.tick().await;
                let answer = once(&transport, patience).await;
                match &answer {
                    Err(reason) if is_told != Some(false) || Instant::now() >= again.0 => {
                        let pause = if is_told == Some(false) { again.1 } else { FIRST_REPEAT };
                        again = (Instant::now() + pause, (pause * 2).min(LAST_REPEAT));
                        is_told = Some(false);
                        let cause = reason.to_string();
                        tracing::warn!(reason = cause, "the API server {name} does not answer: {}", advice(&cause));
                    }
                    Ok(()) if is_told != Some(true) => {
                        if is_told == Some(false) {
                            recovered.send_modify(|times| *times += 1);
                        }
                        is_told = Some(true);
                        tracing::info!("the API server {name} answers");
                    }
                    _ => {}
                }
                let _ = said.send_replace(answer);
            }
        };
        Self { last, recoveries, _task: AbortOnDropHandle::new(tokio::spawn(asking)) }
    }

    /// Changes whenever the API server answers after it has not: it may be another one than before.
    pub(crate) fn recovered(&self) -> watch::Receiver<u64> {
        self.recoveries.clone()
    }

    /// Whether the last probe failed. False before the first probe has ended.
    pub(crate) fn is_down(&self) -> bool {
        // The first value of the channel is none of a probe.
        self.last.has_changed().unwrap_or(true) && self.last.borrow().is_err()
    }

    /// Checks that the API server answered the last probe.
    ///
    /// # Errors
    /// If the last probe failed, with the reason.
    pub(crate) fn check(&self) -> Result<(), Unhealthy> {
        self.last.borrow().clone()
    }
}

/// Asks the API server once, as each probe does; an answer that takes longer than `patience` counts as missing.
///
/// # Errors
/// If the API server does not answer, or with 5xx.
pub(crate) async fn once(transport: &SharedTransport, patience: Duration) -> Result<(), Unhealthy> {
    match timeout(patience, ask(transport)).await {
        Ok(answer) => answer,
        Err(_) => Err(Unhealthy::of("the API server takes too long to answer")),
    }
}

/// The action of an operator about the cause of a failed probe.
pub(crate) fn advice(cause: &str) -> &'static str {
    const ADVICE: [(&[&str], &str); 6] = [
        (&["refused"], "start the API server, or correct the port of `server` in the kubeconfig"),
        (&["dns error", "failed to lookup", "not known"], "correct the name of `server` in the kubeconfig"),
        (&["certificate", "UnknownIssuer"], "correct certificate-authority or tls-server-name in the kubeconfig"),
        (&["corrupt message", "InvalidContentType"], "the port serves no TLS: correct `server` in the kubeconfig"),
        (
            &["unreachable", "takes too long", "timed out", "deadline"],
            "let the proxy reach the address: routes, firewalls, network policies",
        ),
        (&["with 5"], "the API server, or a load balancer before it, cannot serve: see its log"),
    ];
    let found = ADVICE.iter().find(|(words, _)| words.iter().any(|word| cause.contains(word)));
    found.map_or("see the cause", |(_, advice)| *advice)
}

/// Sends one probe. Every answer counts, except 5xx: a server, or a load balancer before it, that cannot serve.
async fn ask(transport: &SharedTransport) -> Result<(), Unhealthy> {
    let mut request = Request::new(empty());
    *request.uri_mut() = http::Uri::from_static(PATH);
    request.headers_mut().insert(header::USER_AGENT, HeaderValue::from_static(client::USER_AGENT));
    let response = transport.send(request).await.map_err(|error| Unhealthy::of(chain(&error)))?;
    let status = response.status();
    // The content does not matter, but a connection is only used again after its answer was read.
    let _ = body::read(response.into_body(), BODY_BYTES).await;
    if status.is_server_error() {
        Err(Unhealthy::of(format_args!("the API server answers {PATH} with {}", status.as_u16())))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::{UpstreamError, from_fn};
    use http::Response;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU16, Ordering};

    const GONE: u16 = 0;
    const HANGS: u16 = 1;

    /// A probe of a server that answers with this status, or behaves like one of the two constants above.
    fn probe(behaviour: &Arc<AtomicU16>) -> Probe {
        let behaviour = behaviour.clone();
        let transport = from_fn(move |request| {
            assert_eq!(request.uri(), "/readyz");
            let behaviour = behaviour.load(Ordering::Relaxed);
            async move {
                match behaviour {
                    GONE => Err(UpstreamError::Unreachable("refused".into())),
                    HANGS => std::future::pending().await,
                    status => Ok(Response::builder().status(status).body(empty()).unwrap()),
                }
            }
        });
        Probe::start(transport, "u".to_owned(), Duration::from_secs(5), Duration::from_secs(3))
    }

    #[tokio::test(start_paused = true)]
    async fn follows_whether_the_server_answers() {
        let behaviour = Arc::new(AtomicU16::new(200));
        let mut probe = probe(&behaviour);
        assert!(probe.check().is_err(), "the API server was not asked yet");
        for (now, answers) in [
            (200, true),
            (GONE, false),
            (200, true),
            (HANGS, false),
            (401, true),
            (500, false),
            (404, true),
            (503, false),
        ] {
            behaviour.store(now, Ordering::Relaxed);
            probe.last.wait_for(|last| last.is_ok() == answers).await.unwrap();
            assert_eq!(probe.check().is_ok(), answers, "{now}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_comes_back_is_noticed() {
        let behaviour = Arc::new(AtomicU16::new(200));
        let probe = probe(&behaviour);
        let mut recovered = probe.recovered();
        tokio::time::sleep(Duration::from_secs(12)).await;
        assert!(!recovered.has_changed().unwrap(), "the server was never away");
        for now in [GONE, 503, 200] {
            behaviour.store(now, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(12)).await;
        }
        recovered.changed().await.unwrap();
        assert_eq!(*recovered.borrow(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_is_down_only_after_a_probe() {
        for (now, is_down) in [(GONE, true), (200, false)] {
            let probe = probe(&Arc::new(AtomicU16::new(now)));
            assert!(!probe.is_down(), "the API server was not asked yet");
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(probe.is_down(), is_down);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn says_what_is_wrong() {
        for (now, reason) in [
            (GONE, "refused"),
            (HANGS, "the API server takes too long to answer"),
            (503, "the API server answers /readyz with 503"),
        ] {
            let mut probe = probe(&Arc::new(AtomicU16::new(now)));
            probe.last.changed().await.unwrap();
            assert_eq!(probe.check().unwrap_err().to_string(), reason);
        }
    }
}
