//! The registry of metrics: Prometheus' registry, which omits metrics without a value, and a list of all metrics.

mod process;

pub(crate) use process::ProcessMetrics;

use crate::go_text::go_float;
use prometheus::TextEncoder;
use prometheus::core::Collector;
use prometheus::proto::{MetricFamily, MetricType};
use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

/// The metrics of `/metrics`, which clones share.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    metrics: prometheus::Registry,
    descriptions: Arc<Mutex<BTreeMap<String, Description>>>,
    /// The values of [`Registry::once`].
    made: Arc<Mutex<Made>>,
}

/// Shared metrics by type and name.
type Made = HashMap<(TypeId, &'static str), Box<dyn Any + Send + Sync>>;

/// The parts of a metric that are known before it has a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// `counter`, `gauge`, `histogram` or `summary`.
    pub(crate) kind: &'static str,
    /// The names of the labels.
    pub(crate) labels: Vec<String>,
    /// The help text, which begins with the stability level in brackets if kube-apiserver has the metric.
    pub(crate) help: String,
}

impl Registry {
    /// Creates a registry without metrics.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a metric.
    ///
    /// # Errors
    /// If a metric of this name is already registered.
    pub fn register(&self, collector: Box<dyn Collector>) -> prometheus::Result<()> {
        let kinds: BTreeMap<String, &'static str> =
            collector.collect().iter().map(|family| (family.name().to_owned(), kind(family))).collect();
        let described = collector.desc().into_iter().map(|desc| {
            let constant = desc.const_label_pairs.iter().map(|pair| pair.name().to_owned());
            let labels = constant.chain(desc.variable_labels.iter().cloned()).collect();
            let kind = kinds.get(&desc.fq_name).copied().unwrap_or_default();
            (desc.fq_name.clone(), Description { kind, labels, help: desc.help.clone() })
        });
        let described: Vec<_> = described.collect();
        self.metrics.register(collector)?;
        self.descriptions.lock().unwrap_or_else(PoisonError::into_inner).extend(described);
        Ok(())
    }

    /// Returns metrics that several owners share, such as the chains of several tenants. The first call makes and registers them.
    ///
    /// # Errors
    /// If `make` fails.
    pub(crate) fn once<T: Any + Clone + Send + Sync>(
        &self,
        name: &'static str,
        make: impl FnOnce(&Self) -> prometheus::Result<T>,
    ) -> prometheus::Result<T> {
        let key = (TypeId::of::<T>(), name);
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = made.get(&key).and_then(|known| known.downcast_ref::<T>()) {
            return Ok(known.clone());
        }
        let new = make(self)?;
        made.insert(key, Box::new(new.clone()));
        Ok(new)
    }

    /// Returns the metrics that have a value.
    #[must_use]
    pub(crate) fn gather(&self) -> Vec<MetricFamily> {
        self.metrics.gather()
    }

    /// Returns the metrics in Prometheus' text format, with the bounds of buckets as Go writes them: with another text for the same bound, a sum
    /// by `le` over kube-apiserver and the proxy would have two buckets.
    ///
    /// # Errors
    /// If a metric has no name or no samples.
    pub fn text(&self) -> prometheus::Result<String> {
        Ok(with_go_bounds(&TextEncoder::new().encode_to_string(&self.gather())?))
    }

    /// Returns the descriptions of all metrics by name.
    #[must_use]
    pub fn descriptions(&self) -> BTreeMap<String, Description> {
        self.descriptions.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Rewrites the values of the label `le`. A quote within a value of a label is escaped, so the pattern begins no value.
fn with_go_bounds(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let bound = [",le=\"", "{le=\""].into_iter().find_map(|label| {
            let start = line.find(label)? + label.len();
            let (value, rest) = line.get(start..)?.split_once('"')?;
            let bound: f64 = value.parse().ok().filter(|bound: &f64| bound.is_finite())?;
            Some((line.get(..start)?, go_float(bound), rest))
        });
        match bound {
            Some((before, bound, rest)) => written.extend([before, &bound, "\"", rest]),
            None => written.push_str(line),
        }
    }
    written
}

fn kind(family: &MetricFamily) -> &'static str {
    match family.get_field_type() {
        MetricType::COUNTER => "counter",
        MetricType::GAUGE => "gauge",
        MetricType::SUMMARY => "summary",
        MetricType::HISTOGRAM => "histogram",
        MetricType::UNTYPED => "untyped",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus::{IntCounterVec, IntGauge, Opts};

    #[test]
    fn a_metric_without_a_value_is_described_but_not_gathered() {
        let registry = Registry::new();
        let counter = IntCounterVec::new(Opts::new("calls_total", "Calls.").const_label("of", "us"), &["to"]).unwrap();
        registry.register(Box::new(counter.clone())).unwrap();
        registry.register(Box::new(IntGauge::new("depth", "Depth.").unwrap())).unwrap();
        assert!(registry.register(Box::new(counter)).is_err());
        let described = registry.descriptions();
        let labels = vec!["of".to_owned(), "to".to_owned()];
        assert_eq!(described["calls_total"], Description { kind: "counter", labels, help: "Calls.".to_owned() });
        assert_eq!(described["depth"].kind, "gauge");
        assert_eq!(registry.gather().iter().map(MetricFamily::name).collect::<Vec<_>>(), ["depth"]);
    }
}
