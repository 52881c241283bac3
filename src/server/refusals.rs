//! Log lines and counts of refused handshakes and certificates. Strangers cause them, so the lines are few, and no byte of theirs is in a line
//! unescaped.

use crate::metrics::Registry;
use crate::sharer;
use prometheus::{IntCounter, Opts};
use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The time in which an address causes one line.
const PERIOD: Duration = Duration::from_secs(60);
/// The number of lines of a kind in that time.
const LINES: usize = 30;
/// The number of characters of a text in a line.
const MAX_TEXT: usize = 256;

/// The refusals of a process.
#[derive(Clone, Debug)]
pub(crate) struct Refusals {
    handshakes: IntCounter,
    of_handshakes: Arc<Mutex<Lines>>,
    of_certificates: Arc<Mutex<Lines>>,
}

/// The lines of the last period.
#[derive(Debug, Default)]
struct Lines {
    /// The time of the last line about each address, for at most [`LINES`] addresses.
    logged: HashMap<IpAddr, Instant>,
    left_out: u64,
}

impl Lines {
    /// Whether a line about the address may be logged now; if so, the number of lines that were left out before.
    fn take(&mut self, address: IpAddr, now: Instant) -> Option<u64> {
        self.logged.retain(|_, logged| now.duration_since(*logged) < PERIOD);
        if self.logged.len() >= LINES || self.logged.contains_key(&address) {
            self.left_out = self.left_out.saturating_add(1);
            return None;
        }
        self.logged.insert(address, now);
        Some(std::mem::take(&mut self.left_out))
    }
}

impl Refusals {
    /// Returns the refusals of the process, and registers the metric.
    ///
    /// # Errors
    /// If another metric of the name is registered.
    pub(crate) fn of(registry: &Registry) -> prometheus::Result<Self> {
        registry.once("tls_handshake_errors", |registry| {
            let opts = Opts::new(
                "apiserver_tls_handshake_errors_total",
                "[ALPHA] Number of requests dropped with 'TLS handshake error from' error",
            );
            let handshakes = IntCounter::with_opts(opts)?;
            registry.register(Box::new(handshakes.clone()))?;
            Ok(Self { handshakes, of_handshakes: Arc::default(), of_certificates: Arc::default() })
        })
    }

    /// Counts a failed handshake. There is a line if the failure is one of TLS: a client that leaves, such as a probe, causes none.
    pub(super) fn handshake(&self, remote: SocketAddr, error: &std::io::Error) {
        self.handshakes.inc();
        match error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) {
            true => log(&self.of_handshakes, "TLS handshake refused", remote, None, error),
            false => tracing::debug!(%remote, error = %Cut(error), "TLS handshake failed"),
        }
    }

    /// Counts a handshake that did not end.
    pub(super) fn unfinished_handshake(&self) {
        self.handshakes.inc();
    }

    /// Logs a certificate by which nobody was authenticated.
    pub(crate) fn certificate(&self, remote: SocketAddr, subject: &str, reason: &dyn fmt::Display) {
        log(&self.of_certificates, "client certificate refused", remote, Some(subject), reason);
    }
}

fn log(lines: &Mutex<Lines>, what: &str, remote: SocketAddr, subject: Option<&str>, reason: &dyn fmt::Display) {
    let may = lines.lock().unwrap_or_else(PoisonError::into_inner).take(sharer::whole(remote.ip()), Instant::now());
    let (subject, reason) = (subject.map(|subject| tracing::field::display(Cut(subject))), Cut(reason));
    match may {
        Some(left_out) => tracing::warn!(%remote, subject, %reason, left_out, "{what}"),
        None => tracing::debug!(%remote, subject, %reason, "{what}"),
    }
}

/// The beginning of a text. The log quotes it.
struct Cut<T>(T);

impl<T: fmt::Display> fmt::Display for Cut<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.to_string().chars().take(MAX_TEXT).try_for_each(|character| f.write_char(character))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_address_causes_one_line_a_minute() {
        let mut lines = Lines::default();
        let [one, other] = [1, 2].map(|last| IpAddr::from([10, 0, 0, last]));
        let mut take = |address| lines.take(address, Instant::now());
        assert_eq!([take(one), take(one), take(one), take(other)], [Some(0), None, None, Some(2)]);
        tokio::time::advance(PERIOD).await;
        assert_eq!(take(one), Some(0));
    }

    #[tokio::test(start_paused = true)]
    async fn many_addresses_cause_few_lines() {
        let mut lines = Lines::default();
        let taken = (0..1000u32).filter(|last| lines.take(IpAddr::from(last.to_be_bytes()), Instant::now()).is_some());
        assert_eq!(taken.count(), LINES);
        assert_eq!(lines.logged.len(), LINES);
    }

    #[test]
    fn texts_of_strangers_are_cut() {
        assert_eq!(Cut("ä\n").to_string(), "ä\n");
        assert_eq!(Cut("x".repeat(5000)).to_string().len(), MAX_TEXT);
    }
}
