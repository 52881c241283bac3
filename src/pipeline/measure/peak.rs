//! `apiserver_current_inflight_requests`: the maximum of the requests in flight within the last second (`filters.requestWatermark`).

use crate::metrics::Registry;
use http::Method;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGaugeVec, Opts};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The requests in flight that read, and those that change something.
pub(super) struct Peaks {
    read_only: Arc<Peak>,
    mutating: Arc<Peak>,
}

impl Peaks {
    /// Registers the metric.
    ///
    /// # Errors
    /// If the registry already has it.
    pub(super) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let opts = Opts::new(
            "apiserver_current_inflight_requests",
            "[STABLE] Maximal number of currently used inflight request limit of this apiserver per request kind in last second.",
        );
        let (read_only, mutating) = (Arc::new(Peak::new()), Arc::new(Peak::new()));
        let collected = Collected {
            gauge: IntGaugeVec::new(opts, &["request_kind"])?,
            peaks: [("readOnly", read_only.clone()), ("mutating", mutating.clone())],
        };
        registry.register(Box::new(collected))?;
        Ok(Self { read_only, mutating })
    }

    /// Counts a request as long as the value exists.
    pub(super) fn enter(&self, method: &Method) -> InProgress {
        // `nonMutatingRequestVerbs`.
        let peak = match *method {
            Method::GET | Method::HEAD | Method::OPTIONS => &self.read_only,
            _ => &self.mutating,
        };
        peak.change(1);
        InProgress(peak.clone())
    }
}

/// A request in flight.
pub(super) struct InProgress(Arc<Peak>);

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.change(-1);
    }
}

struct Peak {
    start: Instant,
    window: Mutex<Window>,
}

#[derive(Default)]
struct Window {
    now: i64,
    /// The second of `most`, from the start on.
    second: u64,
    most: i64,
    /// The maximum of the second before.
    before: i64,
}

impl Window {
    fn advance(&mut self, second: u64) {
        if second > self.second {
            self.before = if second == self.second + 1 { self.most } else { self.now };
            self.most = self.now;
            self.second = second;
        }
    }

    fn change(&mut self, second: u64, by: i64) {
        self.advance(second);
        self.now += by;
        self.most = self.most.max(self.now);
    }

    /// The maximum of the last whole second.
    fn last(&mut self, second: u64) -> i64 {
        self.advance(second);
        self.before
    }
}

impl Peak {
    fn new() -> Self {
        Self { start: Instant::now(), window: Mutex::default() }
    }

    fn window(&self) -> (MutexGuard<'_, Window>, u64) {
        let second = self.start.elapsed().as_secs();
        (self.window.lock().unwrap_or_else(PoisonError::into_inner), second)
    }

    fn change(&self, by: i64) {
        let (mut window, second) = self.window();
        window.change(second, by);
    }

    fn last(&self) -> i64 {
        let (mut window, second) = self.window();
        window.last(second)
    }
}

struct Collected {
    gauge: IntGaugeVec,
    peaks: [(&'static str, Arc<Peak>); 2],
}

impl Collector for Collected {
    fn desc(&self) -> Vec<&Desc> {
        self.gauge.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        for (kind, peak) in &self.peaks {
            self.gauge.with_label_values(&[*kind]).set(peak.last());
        }
        self.gauge.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_is_the_maximum_of_the_last_whole_second() {
        let mut window = Window::default();
        window.change(0, 1);
        window.change(0, 1);
        window.change(0, -1);
        assert_eq!(window.last(0), 0, "no second is over");
        assert_eq!(window.last(1), 2);
        window.change(2, 1);
        assert_eq!(window.last(2), 1);
        assert_eq!(window.last(3), 2);
        window.change(3, -2);
        assert_eq!(window.last(4), 2, "the second began with two");
        assert_eq!(window.last(9), 0);
    }
}
