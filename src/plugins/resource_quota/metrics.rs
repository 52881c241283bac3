//! `workqueue_*` of `admission_quota_controller`, with kube-apiserver's names, labels and buckets. The queue contains namespaces.

use crate::metrics::Registry;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Gauge, Histogram, HistogramOpts, IntCounter, IntGauge, Opts, exponential_buckets};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The metrics of the queue. Clones share one state.
#[derive(Clone)]
pub(super) struct Queue {
    depth: IntGauge,
    adds: IntCounter,
    waiting_seconds: Histogram,
    work_seconds: Histogram,
    unfinished_seconds: Gauge,
    longest_seconds: Gauge,
    since: Arc<Mutex<Since>>,
}

/// The instants at which namespaces were queued, and at which their processing started.
#[derive(Default)]
struct Since {
    added: HashMap<String, Instant>,
    started: HashMap<String, Instant>,
}

impl Queue {
    /// Registers the metrics.
    ///
    /// # Errors
    /// If one of the names is registered already.
    pub(super) fn new(registry: &Registry) -> prometheus::Result<Self> {
        let options = |name: &str, help: &str| {
            Opts::new(format!("workqueue_{name}"), format!("[BETA] {help}"))
                .const_label("name", "admission_quota_controller")
        };
        let seconds = |name: &str, help: &str| {
            let options = HistogramOpts::from(options(name, help)).buckets(exponential_buckets(1e-8, 10.0, 10)?);
            Histogram::with_opts(options)
        };
        let queue = Self {
            depth: IntGauge::with_opts(options("depth", "Current depth of workqueue"))?,
            adds: IntCounter::with_opts(options("adds_total", "Total number of adds handled by workqueue"))?,
            waiting_seconds: seconds(
                "queue_duration_seconds",
                "How long in seconds an item stays in workqueue before being requested.",
            )?,
            work_seconds: seconds(
                "work_duration_seconds",
                "How long in seconds processing an item from workqueue takes.",
            )?,
            unfinished_seconds: Gauge::with_opts(options(
                "unfinished_work_seconds",
                "How many seconds of work has done that is in progress and hasn't been observed by work_duration. Large values \
                 indicate stuck threads. One can deduce the number of stuck threads by observing the rate at which this \
                 increases.",
            ))?,
            longest_seconds: Gauge::with_opts(options(
                "longest_running_processor_seconds",
                "How many seconds has the longest running processor for workqueue been running.",
            ))?,
            since: Arc::default(),
        };
        registry.register(Box::new(queue.clone()))?;
        Ok(queue)
    }

    /// Records that a namespace is queued.
    pub(super) fn added(&self, namespace: &str) {
        self.adds.inc();
        self.depth.inc();
        self.since().added.insert(namespace.to_owned(), Instant::now());
    }

    /// Records that the processing of a queued namespace starts.
    pub(super) fn started(&self, namespace: &str) {
        self.depth.dec();
        let mut since = self.since();
        if let Some((namespace, added)) = since.added.remove_entry(namespace) {
            self.waiting_seconds.observe(added.elapsed().as_secs_f64());
            since.started.insert(namespace, Instant::now());
        }
    }

    /// Records that the processing of a namespace ends.
    pub(super) fn finished(&self, namespace: &str) {
        if let Some(started) = self.since().started.remove(namespace) {
            self.work_seconds.observe(started.elapsed().as_secs_f64());
        }
    }

    /// Records that a namespace will not be processed.
    pub(super) fn abandoned(&self, namespace: &str) {
        self.finished(namespace);
        if self.since().added.remove(namespace).is_some() {
            self.depth.dec();
        }
    }

    fn since(&self) -> MutexGuard<'_, Since> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn all(&self) -> [&dyn Collector; 6] {
        [
            &self.depth,
            &self.adds,
            &self.waiting_seconds,
            &self.work_seconds,
            &self.unfinished_seconds,
            &self.longest_seconds,
        ]
    }
}

impl Collector for Queue {
    fn desc(&self) -> Vec<&Desc> {
        self.all().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let ages: Vec<f64> = self.since().started.values().map(|started| started.elapsed().as_secs_f64()).collect();
        self.unfinished_seconds.set(ages.iter().sum());
        self.longest_seconds.set(ages.into_iter().fold(0.0, f64::max));
        self.all().into_iter().flat_map(Collector::collect).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus::TextEncoder;

    #[test]
    fn waiting_and_running_items_have_different_metrics() {
        let registry = Registry::new();
        let queue = Queue::new(&registry).unwrap();
        let value = |name: &str| -> f64 {
            let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
            let start = format!("workqueue_{name}{{name=\"admission_quota_controller\"}} ");
            text.lines().find_map(|line| line.strip_prefix(&start)).unwrap().parse().unwrap()
        };
        queue.added("a");
        queue.added("b");
        assert_eq!((value("depth"), value("adds_total"), value("unfinished_work_seconds")), (2.0, 2.0, 0.0));
        queue.started("a");
        assert_eq!((value("depth"), value("queue_duration_seconds_count")), (1.0, 1.0));
        assert!(value("unfinished_work_seconds") > 0.0 && value("longest_running_processor_seconds") > 0.0);
        queue.finished("a");
        queue.abandoned("b");
        assert_eq!(
            (value("depth"), value("work_duration_seconds_count"), value("unfinished_work_seconds")),
            (0.0, 1.0, 0.0)
        );
        assert!(Queue::new(&registry).is_err());
    }
}
