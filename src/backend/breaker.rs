//! A circuit breaker for each endpoint, which kube-apiserver does not have; off by default.
//!
//! Only silence counts: a call without any answer in the hook's timeout. Any answer, even an error, shows that
//! the server is alive. So a request cannot open the breaker by its content, unless the content silences the webhook; nor by
//! a short deadline of its own.

use crate::admission::metrics::Metrics;
use crate::config::Limits;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The conditions under which breakers open, and allow a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    /// Calls in a row without an answer that open a breaker.
    pub(crate) failures: usize,
    /// The time in which these calls must fail.
    pub(crate) window: Duration,
    /// The time for which an open breaker refuses calls before it allows a probe.
    pub(crate) probe_interval: Duration,
}

/// The breakers of one plugin's endpoints.
pub(super) struct Breakers {
    settings: Settings,
    /// The maximum number of breakers.
    capacity: usize,
    /// The `type` label of the metrics.
    kind: &'static str,
    metrics: Arc<Metrics>,
    /// The number of breakers of each endpoint.
    tracked: Mutex<HashMap<Arc<str>, usize>>,
}

impl Breakers {
    /// Creates the breakers with these limits; `None` if the limits disable them.
    pub(super) fn new(limits: &Limits, kind: &'static str, metrics: Arc<Metrics>) -> Option<Arc<Self>> {
        let settings = Settings {
            failures: limits.webhook_breaker_failures,
            window: limits.webhook_breaker_window,
            probe_interval: limits.webhook_breaker_probe_interval,
        };
        let capacity = limits.webhook_breakers;
        (settings.failures > 0).then(|| Arc::new(Self { settings, capacity, kind, metrics, tracked: Mutex::default() }))
    }

    /// Creates the breaker of an endpoint; `None` if there are too many already.
    pub(super) fn track(self: &Arc<Self>, endpoint: String) -> Option<Breaker> {
        let mut tracked = lock(&self.tracked);
        if tracked.values().sum::<usize>() >= self.capacity {
            tracing::warn!(endpoint, "too many webhook endpoints: this one gets no circuit breaker");
            return None;
        }
        let endpoint: Arc<str> = endpoint.into();
        *tracked.entry(endpoint.clone()).or_default() += 1;
        drop(tracked);
        self.metrics.webhooks().set_breaker(&endpoint, self.kind, false);
        Some(Breaker { breakers: self.clone(), endpoint, state: Mutex::default() })
    }
}

/// The breaker of one endpoint.
pub(super) struct Breaker {
    breakers: Arc<Breakers>,
    endpoint: Arc<str>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The times of the last failed calls; at most as many as open the breaker.
    failures: VecDeque<Instant>,
    open: Option<Open>,
}

struct Open {
    /// The reason of the last failure.
    last: String,
    /// The time from which a probe is allowed.
    next_probe: Instant,
    is_probed: bool,
}

/// A call must not be made: so many calls in a row got no answer, the last one for this reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the circuit breaker is open: {calls} calls in a row got no answer, the last: {last}")]
pub(crate) struct CircuitOpen {
    calls: usize,
    last: String,
}

impl Breaker {
    /// Allows a call.
    ///
    /// # Errors
    /// If too many earlier calls got no answer, and this call is no probe.
    pub(super) fn enter(&self) -> Result<Permit<'_>, CircuitOpen> {
        let mut state = lock(&self.state);
        let is_probe = match &mut state.open {
            None => false,
            Some(open) if !open.is_probed && Instant::now() >= open.next_probe => {
                open.is_probed = true;
                true
            }
            Some(open) => {
                let refused = CircuitOpen { calls: self.breakers.settings.failures, last: open.last.clone() };
                drop(state);
                self.breakers.metrics.webhooks().observe_breaker_rejection(&self.endpoint, self.breakers.kind);
                return Err(refused);
            }
        };
        Ok(Permit { breaker: self, is_probe })
    }

    /// `open` or `closed`.
    pub(super) fn state(&self) -> &'static str {
        if lock(&self.state).open.is_some() { "open" } else { "closed" }
    }

    fn answered(&self) {
        let mut state = lock(&self.state);
        state.failures.clear();
        if state.open.take().is_some() {
            drop(state);
            self.breakers.metrics.webhooks().set_breaker(&self.endpoint, self.breakers.kind, false);
            tracing::info!(endpoint = &*self.endpoint, "webhook answers again: its circuit breaker is closed");
        }
    }

    fn failed(&self, why: String) {
        let Settings { failures, window, probe_interval } = self.breakers.settings;
        let (mut state, now) = (lock(&self.state), Instant::now());
        if let Some(open) = &mut state.open {
            // A call that began before the breaker opened shows the server's silence as well.
            (open.last, open.next_probe) = (why, now + probe_interval);
            return;
        }
        state.failures.push_back(now);
        while state.failures.front().is_some_and(|first| now.duration_since(*first) > window) {
            state.failures.pop_front();
        }
        if state.failures.len() < failures {
            return;
        }
        state.failures.clear();
        tracing::warn!(
            endpoint = &*self.endpoint,
            calls = failures,
            reason = why,
            "webhook gives no answers: its circuit breaker is open"
        );
        state.open = Some(Open { last: why, next_probe: now + probe_interval, is_probed: false });
        drop(state);
        self.breakers.metrics.webhooks().set_breaker(&self.endpoint, self.breakers.kind, true);
    }
}

impl Drop for Breaker {
    fn drop(&mut self) {
        let mut tracked = lock(&self.breakers.tracked);
        let Some(count) = tracked.get_mut(&self.endpoint) else { return };
        *count -= 1;
        if *count == 0 {
            tracked.remove(&self.endpoint);
            self.breakers.metrics.webhooks().forget_breaker(&self.endpoint, self.breakers.kind);
        }
    }
}

/// A call that was allowed. Dropping the permit without a report counts as neither an answer nor a failure.
pub(crate) struct Permit<'a> {
    breaker: &'a Breaker,
    is_probe: bool,
}

impl Permit<'_> {
    /// Reports an answer.
    pub(crate) fn answered(self) {
        self.breaker.answered();
    }

    /// Reports that no answer came.
    pub(crate) fn failed(self, why: String) {
        self.breaker.failed(why);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if self.is_probe
            && let Some(open) = &mut lock(&self.breaker.state).open
        {
            open.is_probed = false;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Registry;
    use prometheus::TextEncoder;

    struct World {
        registry: Registry,
        breakers: Arc<Breakers>,
    }

    fn world(failures: usize) -> World {
        let registry = Registry::new();
        let metrics = Arc::new(Metrics::new(&registry).unwrap());
        let limits = Limits {
            webhook_breaker_failures: failures,
            webhook_breaker_window: Duration::from_secs(30),
            webhook_breaker_probe_interval: Duration::from_secs(5),
            webhook_breakers: 2,
            ..Limits::default()
        };
        World { breakers: Breakers::new(&limits, "admit", metrics).unwrap(), registry }
    }

    impl World {
        fn metrics(&self) -> Vec<String> {
            let text = TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap();
            text.lines().filter(|line| line.contains("breaker") && !line.starts_with('#')).map(str::to_owned).collect()
        }
    }

    fn fail(breaker: &Breaker, times: usize) {
        for _ in 0..times {
            breaker.enter().map_err(drop).unwrap().failed("silence".into());
        }
    }

    fn open_text(breaker: &Breaker) -> String {
        breaker.enter().map(drop).unwrap_err().to_string()
    }

    #[test]
    fn the_circuit_breaker_is_off_by_default() {
        let metrics = Arc::new(Metrics::new(&Registry::new()).unwrap());
        assert!(Breakers::new(&Limits::default(), "admit", metrics).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_breaker_opens_after_failures_in_a_row_and_closes_after_one_answer() {
        let world = world(3);
        let breaker = world.breakers.track("https://a/x".into()).unwrap();
        fail(&breaker, 2);
        breaker.enter().map_err(drop).unwrap().answered();
        fail(&breaker, 2);
        assert!(breaker.enter().is_ok());
        fail(&breaker, 1);
        assert_eq!(
            open_text(&breaker),
            "the circuit breaker is open: 3 calls in a row got no answer, the last: silence"
        );
        assert_eq!(
            world.metrics(),
            [
                r#"kube_admission_proxy_webhook_circuit_breaker_open{endpoint="https://a/x",type="admit"} 1"#,
                r#"kube_admission_proxy_webhook_circuit_breaker_rejected_calls_total{endpoint="https://a/x",type="admit"} 1"#,
            ]
        );

        tokio::time::advance(Duration::from_secs(5)).await;
        let probe = breaker.enter().map_err(drop).unwrap();
        open_text(&breaker);
        probe.failed("still silence".into());
        assert!(open_text(&breaker).ends_with("the last: still silence"));

        tokio::time::advance(Duration::from_secs(5)).await;
        drop(breaker.enter().map_err(drop).unwrap());
        let probe = breaker.enter().map_err(drop).unwrap();
        probe.answered();
        fail(&breaker, 2);
        assert!(breaker.enter().is_ok());
        assert!(world.metrics()[0].ends_with(" 0"));
    }

    #[tokio::test(start_paused = true)]
    async fn failures_that_are_long_ago_do_not_count() {
        let world = world(3);
        let breaker = world.breakers.track("a".into()).unwrap();
        fail(&breaker, 2);
        tokio::time::advance(Duration::from_secs(31)).await;
        fail(&breaker, 2);
        assert!(breaker.enter().is_ok());
        fail(&breaker, 1);
        open_text(&breaker);
    }

    #[test]
    fn the_number_of_tracked_endpoints_is_bounded_and_removed_endpoints_are_forgotten() {
        let world = world(1);
        let first = world.breakers.track("a".into()).unwrap();
        let second = world.breakers.track("a".into()).unwrap();
        assert!(world.breakers.track("b".into()).is_none());
        drop(first);
        assert_eq!(world.metrics().len(), 1);
        drop(second);
        assert!(world.metrics().is_empty() && lock(&world.breakers.tracked).is_empty());
        assert!(world.breakers.track("b".into()).is_some());
    }
}
