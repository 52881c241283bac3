//! The lines of the log about requests: one for each request from `--v=3` on, and one for each refusal by admission at every level.
//!
//! A client causes refusals at will, so the lines of each sharer are few.

use super::REQUEST_LOG;
use crate::sharer::Sharer;
use crate::status::Status;
use crate::user::UserInfo;
use http::header::USER_AGENT;
use http::{Method, Request};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time in which a sharer causes at most [`LINES`] lines about refusals.
const PERIOD: Duration = Duration::from_secs(60);
const LINES: usize = 20;
/// The number of sharers that cause lines in that time.
const SHARERS: usize = 100;
/// The number of characters of a text in a line.
const MAX_TEXT: usize = 500;

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
                uri: cut(&request.uri().to_string()),
                user_agent: agent.map(|agent| cut(&String::from_utf8_lossy(agent.as_bytes()))).unwrap_or_default(),
                source: source.map(|source| source.to_string()).unwrap_or_default(),
                start: Instant::now(),
            }
        })
    }

    /// Writes the line.
    pub(super) fn write(&self, tenant: Option<&str>, user: Option<&UserInfo>, audit_id: &str, code: u16) {
        let Self { method, uri, user_agent, source, start } = self;
        let (latency, user) = (start.elapsed(), user.map(|user| cut(&user.username)));
        tracing::debug!(
            target: REQUEST_LOG,
            verb = method.as_str(),
            URI = uri,
            ?latency,
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

/// A refusal by admission.
pub(super) struct Denial<'a> {
    pub(super) verb: &'a str,
    pub(super) path: &'a str,
    pub(super) user: &'a Arc<UserInfo>,
    pub(super) audit_id: &'a str,
    pub(super) refusal: &'a Status,
}

/// The lines about refusals.
#[derive(Default)]
pub(super) struct Denials(Mutex<HashMap<Sharer, Lines>>);

/// The lines that a sharer caused.
struct Lines {
    since: Instant,
    written: usize,
    left_out: u64,
}

impl Denials {
    /// Writes a line about the refusal, if the user may cause one more.
    pub(super) fn note(&self, tenant: Option<&str>, denial: &Denial<'_>) {
        // The users of a tenant do not silence one another.
        let Some(left_out) = self.take(Sharer::User(denial.user.clone()), Instant::now()) else { return };
        let Denial { verb, path, user, audit_id, refusal } = denial;
        let left_out = (left_out > 0).then_some(left_out);
        tracing::info!(
            verb,
            path = cut(path),
            user = cut(&user.username),
            tenant,
            code = refusal.code,
            reason = cut(&refusal.message),
            "audit-ID" = audit_id,
            left_out,
            "refused by admission"
        );
    }

    /// Whether the sharer may cause a line now; if so, the number of its lines that were left out before.
    fn take(&self, sharer: Sharer, now: Instant) -> Option<u64> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.contains_key(&sharer) && all.len() >= SHARERS {
            all.retain(|_, lines| now.duration_since(lines.since) < PERIOD);
            if all.len() >= SHARERS {
                return None;
            }
        }
        let lines = all.entry(sharer).or_insert(Lines { since: now, written: 0, left_out: 0 });
        if now.duration_since(lines.since) >= PERIOD {
            (lines.since, lines.written) = (now, 0);
        }
        if lines.written == LINES {
            lines.left_out += 1;
            return None;
        }
        lines.written += 1;
        Some(std::mem::take(&mut lines.left_out))
    }
}

/// The start of a text, as much as a line has.
fn cut(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> Sharer {
        Sharer::User(Arc::new(UserInfo { username: name.to_owned(), ..UserInfo::default() }))
    }

    #[test]
    fn a_user_causes_few_lines_and_silences_nobody() {
        let (denials, now) = (Denials::default(), Instant::now());
        let taken = (0..LINES + 5).filter(|_| denials.take(user("a"), now).is_some()).count();
        assert_eq!(taken, LINES);
        assert_eq!(denials.take(user("b"), now), Some(0));
        assert_eq!(denials.take(user("a"), now + PERIOD), Some(5));
        assert_eq!(denials.take(user("a"), now + PERIOD), Some(0));
    }

    #[test]
    fn service_accounts_of_a_namespace_are_one() {
        let (denials, now) = (Denials::default(), Instant::now());
        let account = |number: usize| user(&format!("system:serviceaccount:a:{number}"));
        let taken = (0..2 * LINES).filter(|number| denials.take(account(*number), now).is_some()).count();
        assert_eq!(taken, LINES);
    }

    #[test]
    fn many_users_cause_a_bounded_number_of_lines() {
        let (denials, now) = (Denials::default(), Instant::now());
        let taken = (0..5 * SHARERS).filter(|number| denials.take(user(&number.to_string()), now).is_some()).count();
        assert_eq!(taken, SHARERS);
        assert_eq!(denials.take(user("later"), now + PERIOD), Some(0));
    }

    #[test]
    fn texts_are_cut() {
        assert_eq!(cut(&"ä".repeat(2 * MAX_TEXT)).chars().count(), MAX_TEXT);
    }
}
