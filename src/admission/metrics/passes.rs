//! `apiserver_admission_controller_admission_duration_seconds`, for plugins that the chain calls and for plugins that the chain skips.
//!
//! kube-apiserver calls every plugin that handles an operation, whatever the resource, and counts the call. Here the chain
//! skips a plugin that does not handle the resource. The skipped plugins of a pass are counted together, and exported as calls
//! that took no time.

use crate::admission::Operation;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Histogram, HistogramVec};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// A pass over the plugins. The number of distinct passes is bounded by the sets of plugins that handle a resource, and by the
/// plugins that may refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Pass {
    /// The plugins of the chain: one bit per plugin.
    pub(crate) part: u64,
    /// `admit` or `validate`.
    pub(crate) step: &'static str,
    /// The operation on the object.
    pub(crate) operation: Operation,
    /// The called plugins: one bit per plugin.
    pub(crate) asked: u64,
    /// The number of plugins that the pass reached: all, unless a plugin refused.
    pub(crate) reached: usize,
}

/// The number of times that a pass occurred, and the plugins that the pass skipped.
#[derive(Debug)]
struct Passed {
    count: AtomicU64,
    left_out: Vec<&'static str>,
}

/// The latency histograms of plugins. Clones share one state.
#[derive(Clone, Debug)]
pub(super) struct Controllers {
    asked: HistogramVec,
    passes: Arc<RwLock<HashMap<Pass, Passed>>>,
}

impl Controllers {
    /// Records in `asked`, whose labels are name, type, operation and rejected.
    pub(super) fn new(asked: HistogramVec) -> Self {
        Self { asked, passes: Arc::default() }
    }

    /// The histogram of a called plugin.
    pub(super) fn seconds(&self, labels: &[&str; 4]) -> Histogram {
        self.asked.with_label_values(labels)
    }

    /// See [`super::Metrics::passed`].
    pub(super) fn passed(&self, pass: Pass, left_out: impl FnOnce() -> Vec<&'static str>) {
        if let Some(known) = self.passes.read().unwrap_or_else(PoisonError::into_inner).get(&pass) {
            known.count.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut passes = self.passes.write().unwrap_or_else(PoisonError::into_inner);
        let new = || Passed { count: AtomicU64::new(0), left_out: left_out() };
        passes.entry(pass).or_insert_with(new).count.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of skipped calls, by the values of the labels in the order of their names: name, operation, rejected, type.
    fn left_out(&self) -> BTreeMap<[&'static str; 4], u64> {
        let mut all = BTreeMap::new();
        for (pass, passed) in &*self.passes.read().unwrap_or_else(PoisonError::into_inner) {
            for name in &passed.left_out {
                *all.entry([*name, pass.operation.as_str(), "false", pass.step]).or_default() +=
                    passed.count.load(Ordering::Relaxed);
            }
        }
        all
    }
}

impl Collector for Controllers {
    fn desc(&self) -> Vec<&Desc> {
        self.asked.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let left_out = self.left_out();
        for [name, operation, rejected, step] in left_out.keys() {
            self.asked.with_label_values(&[name, step, operation, rejected]);
        }
        let mut families = self.asked.collect();
        for metric in families.iter_mut().flat_map(MetricFamily::mut_metric) {
            let labels: Vec<&str> = metric.get_label().iter().map(|pair| pair.value()).collect();
            let Some(count) = <[&str; 4]>::try_from(labels).ok().and_then(|labels| left_out.get(&labels)) else {
                continue;
            };
            let mut histogram = metric.get_histogram().clone();
            histogram.set_sample_count(histogram.get_sample_count() + count);
            let mut buckets = histogram.get_bucket().to_vec();
            for bucket in &mut buckets {
                bucket.set_cumulative_count(bucket.cumulative_count() + count);
            }
            histogram.set_bucket(buckets);
            metric.set_histogram(histogram);
        }
        families
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Registry;
    use prometheus::{HistogramOpts, TextEncoder};

    #[test]
    fn skipped_plugins_are_counted_with_the_called_plugins() {
        let options = HistogramOpts::new("seconds", "help").buckets(vec![0.1, 1.0]);
        let controllers =
            Controllers::new(HistogramVec::new(options, &["name", "type", "operation", "rejected"]).unwrap());
        let registry = Registry::new();
        registry.register(Box::new(controllers.clone())).unwrap();
        controllers.seconds(&["A", "admit", "CREATE", "false"]).observe(0.5);
        let pass = Pass { part: u64::MAX, step: "admit", operation: Operation::Create, asked: 1, reached: 2 };
        controllers.passed(pass, || vec!["B"]);
        controllers.passed(pass, || unreachable!("it is known"));
        controllers.passed(Pass { asked: 2, ..pass }, || vec!["A"]);
        let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        let of = |name: &str, bucket: &str| {
            let start = format!(
                "seconds_bucket{{name=\"{name}\",operation=\"CREATE\",rejected=\"false\",type=\"admit\",le=\"{bucket}\"}} "
            );
            text.lines().find_map(|line| line.strip_prefix(&start)).map(str::to_owned)
        };
        for (name, bucket, want) in
            [("A", "0.1", "1"), ("A", "1", "2"), ("A", "+Inf", "2"), ("B", "0.1", "2"), ("B", "+Inf", "2")]
        {
            assert_eq!(of(name, bucket).as_deref(), Some(want), "{name} {bucket}\n{text}");
        }
    }
}
