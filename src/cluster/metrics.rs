//! Metrics of the caches, computed at each scrape.

use super::{Cluster, Health};
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, IntCounterVec, IntGaugeVec, Opts};
use std::sync::Arc;

/// `kube_admission_proxy_watch_*`, with a label for the kind of the objects.
pub(crate) struct Metrics {
    cluster: Arc<Cluster>,
    families: Families,
}

struct Families {
    last_event: GaugeVec,
    undecodable: IntGaugeVec,
    undecodable_total: IntCounterVec,
    full: IntGaugeVec,
    bytes: IntGaugeVec,
}

impl Families {
    fn new() -> prometheus::Result<Self> {
        let options = |name: &str, help: &str| Opts::new(format!("kube_admission_proxy_watch_{name}"), help);
        let kind = &["kind"];
        Ok(Self {
            last_event: GaugeVec::new(
                options(
                    "last_event_seconds",
                    "Seconds since the API server last answered the list or watch of a cache, by kind of object.",
                ),
                kind,
            )?,
            undecodable: IntGaugeVec::new(
                options(
                    "undecodable_objects",
                    "Number of objects of a cache whose current state cannot be decoded, by kind of object.",
                ),
                kind,
            )?,
            undecodable_total: IntCounterVec::new(
                options(
                    "undecodable_objects_total",
                    "Number of objects and watch events of a cache that could not be decoded, by kind of object.",
                ),
                kind,
            )?,
            full: IntGaugeVec::new(
                options(
                    "full",
                    "Number of caches that hold nothing because the objects exceed the bound in bytes, by kind of object.",
                ),
                kind,
            )?,
            bytes: IntGaugeVec::new(
                options("bytes", "Estimated number of bytes in the caches, by kind of object."),
                kind,
            )?,
        })
    }

    fn collectors(&self) -> [&dyn Collector; 5] {
        [&self.last_event, &self.undecodable, &self.undecodable_total, &self.full, &self.bytes]
    }

    fn add(&self, kind: &str, health: &Health) {
        if let Some(answered) = health.answered {
            // If a kind has several caches, the longest silence is exported.
            let (gauge, seconds) = (self.last_event.with_label_values(&[kind]), answered.elapsed().as_secs_f64());
            gauge.set(gauge.get().max(seconds));
        }
        let now = i64::try_from(health.undecodable_now).unwrap_or(i64::MAX);
        self.undecodable.with_label_values(&[kind]).add(now);
        self.undecodable_total.with_label_values(&[kind]).inc_by(health.undecodable_so_far);
        self.full.with_label_values(&[kind]).add(health.is_full.into());
        self.bytes.with_label_values(&[kind]).add(i64::try_from(health.bytes).unwrap_or(i64::MAX));
    }
}

impl Metrics {
    /// The metrics of the cluster's caches.
    ///
    /// # Errors
    /// If a metric's name is invalid.
    pub(crate) fn new(cluster: Arc<Cluster>) -> prometheus::Result<Self> {
        Ok(Self { cluster, families: Families::new()? })
    }
}

impl Collector for Metrics {
    fn desc(&self) -> Vec<&Desc> {
        self.families.collectors().into_iter().flat_map(|family| family.desc()).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // The names are valid, because [`Self::new`] accepted them.
        let Ok(families) = Families::new() else { return Vec::new() };
        for (need, cache) in self.cluster.caches.iter() {
            families.add(&format!("{need:?}"), &cache.health());
        }
        for (kind, health) in self.cluster.parameters.health() {
            families.add(&kind.kind, &health);
        }
        families.collectors().into_iter().flat_map(|family| family.collect()).collect()
    }
}
