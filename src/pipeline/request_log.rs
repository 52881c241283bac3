//! The lines of the log about requests: one for each from `--v=3` on, and one for each that took long.

use super::Exchange;
use crate::logging::{REQUEST_LOG, Sampling, cut, duration};
use crate::request::RequestInfo;
use crate::sharer::Sharer;
use crate::user::UserInfo;
use http::header::USER_AGENT;
use http::{Method, Request, Uri};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// The number of sharers whose slow requests have lines in a minute, and of the lines of each: a slow API server makes all requests slow.
const SLOW_SHARERS: usize = 20;
const SLOW_LINES: usize = 3;
/// The parameters of Kubernetes' API whose values a line has. Others may hold secrets, such as the arguments of a command.
const SHOWN: [&str; 32] = [
    "allowWatchBookmarks",
    "container",
    "continue",
    "dryRun",
    "fieldManager",
    "fieldSelector",
    "fieldValidation",
    "follow",
    "force",
    "gracePeriodSeconds",
    "includeObject",
    "insecureSkipTLSVerifyBackend",
    "labelSelector",
    "limit",
    "limitBytes",
    "orphanDependents",
    "pretty",
    "previous",
    "propagationPolicy",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "sinceSeconds",
    "sinceTime",
    "stderr",
    "stdin",
    "stdout",
    "tailLines",
    "timeout",
    "timeoutSeconds",
    "tty",
    "watch",
];
/// The value of another parameter in a line, as client-go writes values of headers.
const MASKED: &str = "<masked>";

/// The parts of a request for its line, with the names of kube-apiserver's (`httplog.respLogger.Log`).
pub(super) struct Line {
    method: Method,
    uri: String,
    user_agent: String,
    source: String,
    start: Instant,
}

impl Line {
    /// Takes the parts; `None` if the log has no lines about requests.
    pub(super) fn of<B>(request: &Request<B>, source: Option<std::net::SocketAddr>) -> Option<Self> {
        tracing::enabled!(target: REQUEST_LOG, tracing::Level::DEBUG).then(|| {
            let agent = request.headers().get(USER_AGENT);
            Self {
                method: request.method().clone(),
                uri: cut(&without_secrets(request.uri())),
                user_agent: agent.map(|agent| cut(&String::from_utf8_lossy(agent.as_bytes()))).unwrap_or_default(),
                source: source.map(|source| source.to_string()).unwrap_or_default(),
                start: Instant::now(),
            }
        })
    }

    /// Writes the line.
    pub(super) fn write(&self, tenant: Option<&str>, user: Option<&UserInfo>, audit_id: &str, code: u16) {
        let Self { method, uri, user_agent, source, start } = self;
        let (latency, user) = (duration(start.elapsed()), user.map(|user| cut(&user.username)));
        tracing::debug!(
            target: REQUEST_LOG,
            verb = method.as_str(),
            URI = uri,
            latency,
            userAgent = user_agent,
            "audit-ID" = audit_id,
            srcIP = source,
            user,
            tenant,
            resp = code,
            "HTTP"
        );
    }
}

/// The path and the query, without values that may be secrets.
fn without_secrets(uri: &Uri) -> String {
    let mut text = uri.path().to_owned();
    for (at, parameter) in uri.query().into_iter().flat_map(|query| query.split('&')).enumerate() {
        text.push(if at == 0 { '?' } else { '&' });
        match parameter.split_once('=') {
            Some((name, _)) if !SHOWN.contains(&name) => text.extend([name, "=", MASKED]),
            _ => text.push_str(parameter),
        }
    }
    text
}

/// A part of the work on a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    /// The body arrives.
    Body,
    /// The stored object is read.
    Read,
    Mutating,
    DryRun,
    Validating,
    Forward,
    /// The owners of fields are written.
    FieldOwners,
}

/// The times of the parts of a write. Parts that run at the same time are added up.
#[derive(Debug, Default)]
pub(super) struct Times([AtomicU64; 7]);

/// A part that runs until the drop.
#[must_use]
pub(super) struct Running<'a>(&'a AtomicU64, Instant);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let nanoseconds = u64::try_from(self.1.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.0.fetch_add(nanoseconds, Ordering::Relaxed);
    }
}

impl Times {
    fn cell(&self, part: Part) -> &AtomicU64 {
        let [body, read, mutating, dry_run, validating, forward, field_owners] = &self.0;
        match part {
            Part::Body => body,
            Part::Read => read,
            Part::Mutating => mutating,
            Part::DryRun => dry_run,
            Part::Validating => validating,
            Part::Forward => forward,
            Part::FieldOwners => field_owners,
        }
    }

    /// Begins a part.
    pub(super) fn begin(&self, part: Part) -> Running<'_> {
        Running(self.cell(part), Instant::now())
    }

    /// The time of a part; `None` if it took none.
    fn of(&self, part: Part) -> Option<String> {
        let time = Duration::from_nanos(self.cell(part).load(Ordering::Relaxed));
        (!time.is_zero()).then(|| duration(time))
    }
}

/// The lines about requests that took longer than this.
pub(super) struct SlowRequests {
    threshold: Duration,
    sampling: Sampling,
}

impl SlowRequests {
    /// With no threshold there are no lines.
    pub(super) fn new(threshold: Duration) -> Self {
        Self { threshold, sampling: Sampling::new(SLOW_SHARERS, SLOW_LINES) }
    }

    /// Writes a line about the request, if it took long and the user may cause one more.
    pub(super) fn note(
        &self,
        started: Instant,
        tenant: Option<&str>,
        info: &RequestInfo,
        exchange: &Exchange,
        code: u16,
    ) {
        let latency = started.elapsed();
        if self.threshold.is_zero() || latency < self.threshold || info.is_long_running() {
            return;
        }
        let user = exchange.caller.clone().unwrap_or_else(|| Arc::new(UserInfo::anonymous()));
        let Some(left_out) = self.sampling.take(Sharer::User(user.clone()), Instant::now().into_std()) else { return };
        let times = &exchange.times;
        let of = |part| times.as_ref().and_then(|times| times.of(part));
        let some = |time: Duration| (!time.is_zero()).then(|| duration(time));
        tracing::info!(
            verb = info.verb,
            path = cut(&info.path),
            latency = duration(latency),
            "audit-ID" = exchange.audit_id,
            user = cut(&user.username),
            tenant,
            resp = code,
            authentication = some(exchange.authentication),
            authorization = some(exchange.authorization),
            body = of(Part::Body),
            read = of(Part::Read),
            mutating = of(Part::Mutating),
            dryRun = of(Part::DryRun),
            validating = of(Part::Validating),
            webhooks = some(exchange.webhooks),
            forward = of(Part::Forward),
            fieldOwners = of(Part::FieldOwners),
            left_out = (left_out > 0).then_some(left_out),
            "slow request"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_no_secrets_of_a_query() {
        for (uri, text) in [
            ("/api/v1/pods", "/api/v1/pods"),
            ("http://alice:pw@host/api?limit=5&watch", "/api?limit=5&watch"),
            ("/exec?command=sh&command=-psecret&stdin=true", "/exec?command=<masked>&command=<masked>&stdin=true"),
            ("/x?token=a=b&", "/x?token=<masked>&"),
        ] {
            assert_eq!(without_secrets(&uri.parse().unwrap()), text, "{uri}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_times_of_parts_add_up() {
        let times = Times::default();
        for _ in 0..2 {
            let _running = times.begin(Part::Read);
            tokio::time::advance(Duration::from_millis(750)).await;
        }
        assert_eq!((times.of(Part::Read).as_deref(), times.of(Part::Body)), (Some("1.5s"), None));
    }
}
