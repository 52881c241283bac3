//! The events that wait for a backend.

use crate::config::{AuditBackend, AuditThrottle};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// The part of its bytes that one of several queues has even while all of them together are full.
const FLOOR: usize = 64;

/// The events that wait for one backend. A backend that requests wait for takes the events of all requests that have begun; further requests
/// wait for room before they begin. A backend of the mode `batch` refuses events above the bounds.
#[derive(Debug)]
pub(crate) struct Queued {
    events: AtomicUsize,
    bytes: AtomicUsize,
    most_bytes: usize,
    /// The queues of all backends of which this is one.
    all: Option<Arc<Self>>,
    freed: Notify,
}

impl Queued {
    /// Creates an empty queue of at most `most_bytes`.
    pub(crate) fn new(most_bytes: usize) -> Self {
        Self { events: AtomicUsize::new(0), bytes: AtomicUsize::new(0), most_bytes, all: None, freed: Notify::new() }
    }

    /// Creates the queue of one of several backends, which has at most a quarter of the bytes of all.
    #[must_use]
    pub(crate) fn quarter(self: &Arc<Self>) -> Self {
        Self { all: Some(self.clone()), ..Self::new(self.most_bytes / 4) }
    }

    /// Adds an event above all bounds.
    pub(super) fn add(&self, bytes: usize) {
        self.events.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if let Some(all) = &self.all {
            all.add(bytes);
        }
    }

    /// Adds an event if there is room for it.
    pub(super) fn try_add(&self, bytes: usize, most_events: usize) -> bool {
        let one_more = |queued: usize| (queued < most_events).then_some(queued + 1);
        if self.events.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_err() {
            return false;
        }
        let more = |queued: usize| queued.checked_add(bytes).filter(|sum| *sum <= self.most_bytes);
        let mut fits = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        if fits && self.all.as_ref().is_some_and(|all| !all.try_add(bytes, usize::MAX)) {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            fits = false;
        }
        if !fits {
            self.events.fetch_sub(1, Ordering::Relaxed);
        }
        fits
    }

    /// Removes an event that left the queue, but not its bytes.
    pub(super) fn remove_event(&self) {
        self.events.fetch_sub(1, Ordering::Relaxed);
        if let Some(all) = &self.all {
            all.remove_event();
        }
    }

    /// Removes the bytes of events that were written.
    pub(super) fn remove_bytes(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(all) = &self.all {
            all.remove_bytes(bytes);
        }
        self.freed.notify_waiters();
    }

    /// Whether a further request may begin.
    pub(super) fn has_room(&self, most_events: usize) -> bool {
        let bytes = self.bytes.load(Ordering::Relaxed);
        let has_own = bytes < self.most_bytes && self.events.load(Ordering::Relaxed) < most_events;
        // The logs of other tenants may not be written at all.
        has_own && (bytes < self.most_bytes / FLOOR || self.all.as_ref().is_none_or(|all| all.has_room(usize::MAX)))
    }

    /// Waits until a further request may begin.
    pub(super) async fn room(&self, most_events: usize) {
        loop {
            // A backend that is alone waits for itself.
            let (freed, of_all) = (self.freed.notified(), self.all.as_deref().unwrap_or(self).freed.notified());
            tokio::pin!(freed, of_all);
            freed.as_mut().enable();
            of_all.as_mut().enable();
            if self.has_room(most_events) {
                return;
            }
            tokio::select! {
                () = freed => {}
                () = of_all => {}
            }
        }
    }
}

/// The rate of batches (`flowcontrol.NewTokenBucketRateLimiter`).
#[derive(Debug)]
pub(super) struct Throttle {
    rate: AuditThrottle,
    /// The number of batches that may be sent at `since`; negative while batches wait.
    tokens: f64,
    since: Instant,
}

impl Throttle {
    pub(super) fn of(backend: &AuditBackend, now: Instant) -> Option<Self> {
        let rate = backend.batch.throttle.filter(|_| !backend.mode.blocks())?;
        Some(Self { rate, tokens: rate.burst as f64, since: now })
    }

    /// Takes the place of a batch. Returns how long the batch waits for it.
    pub(super) fn take(&mut self, now: Instant) -> Duration {
        let per_second = f64::from(self.rate.per_second);
        let elapsed = now.saturating_duration_since(self.since).as_secs_f64();
        self.tokens = (self.tokens + elapsed * per_second).min(self.rate.burst as f64) - 1.0;
        self.since = now;
        Duration::try_from_secs_f64((-self.tokens / per_second).max(0.0)).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{AuditLogOptions, AuditMode};
    use futures_util::FutureExt;

    #[test]
    fn one_of_several_logs_has_a_quarter_and_all_together_the_whole() {
        let all = Arc::new(Queued::new(100));
        let logs = [(); 5].map(|()| all.quarter());
        assert!(logs.iter().take(3).all(|log| log.try_add(25, 9) && !log.try_add(1, 9)));
        assert!(logs[3].try_add(20, 9) && !logs[4].try_add(6, 9) && logs[4].try_add(5, 9));
        logs[0].remove_bytes(25);
        assert!(logs[3].try_add(5, 9) && logs[4].try_add(20, 9));
        assert!(!logs[4].try_add(0, 2), "the events are bounded too");
    }

    #[tokio::test]
    async fn a_request_waits_for_room_and_a_full_log_of_another_tenant_does_not_stop_it() {
        let all = Arc::new(Queued::new(6400));
        let [hung, well] = [(); 2].map(|()| all.quarter());
        hung.add(7000);
        assert!(!hung.has_room(9) && well.has_room(9), "an empty queue has its floor");
        well.add(30);
        assert!(!well.has_room(9));
        let mut waiting = Box::pin(well.room(9));
        assert_eq!((&mut waiting).now_or_never(), None);
        well.remove_bytes(30);
        assert_eq!((&mut waiting).now_or_never(), Some(()));
        well.add(30);
        let mut waiting = Box::pin(well.room(9));
        assert_eq!((&mut waiting).now_or_never(), None);
        hung.remove_bytes(7000);
        assert_eq!((&mut waiting).now_or_never(), Some(()));
        assert!(!well.has_room(2));
    }

    #[test]
    fn batches_are_throttled_after_a_burst() {
        let rate = AuditThrottle { per_second: 2.0, burst: 3 };
        let mut backend = AuditLogOptions::default().backend;
        backend.batch.throttle = Some(rate);
        let start = Instant::now();
        assert!(Throttle::of(&backend, start).is_none());
        backend.mode = AuditMode::Batch;
        let mut throttle = Throttle::of(&backend, start).unwrap();
        let waits: Vec<u128> = [0, 0, 0, 0, 0, 500, 9000, 9000, 9000, 9000]
            .map(|at| throttle.take(start + Duration::from_millis(at)).as_millis())
            .to_vec();
        assert_eq!(waits, [0, 0, 0, 500, 1000, 1000, 0, 0, 0, 500]);
    }
}
