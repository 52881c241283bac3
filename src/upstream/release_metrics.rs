//! `kube_admission_proxy_upstream_release`, computed at each scrape.

use super::release::{Emulation, Release};
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGaugeVec, Opts};
use std::sync::Arc;

/// The release of the API server behind, and the emulated one.
pub(crate) struct ReleaseMetrics {
    upstream: Arc<Release>,
    emulation: Emulation,
    gauge: IntGaugeVec,
}

impl ReleaseMetrics {
    /// The metric of an API server.
    ///
    /// # Errors
    /// None with a valid name.
    pub(crate) fn new(upstream: Arc<Release>, emulation: Emulation) -> prometheus::Result<Self> {
        let gauge = gauge()?;
        Ok(Self { upstream, emulation, gauge })
    }
}

fn gauge() -> prometheus::Result<IntGaugeVec> {
    let help = "Always 1, with the release of the upstream API server and the emulated one. Missing until the API server has told its version.";
    IntGaugeVec::new(Opts::new("kube_admission_proxy_upstream_release", help), &["release", "emulated"])
}

impl Collector for ReleaseMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.gauge.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // The labels change with the release, and two scrapes at a time do not share a gauge.
        let Ok(gauge) = gauge() else { return Vec::new() };
        if let Some(version) = self.upstream.version() {
            gauge.with_label_values(&[version.to_string(), self.emulation.release.to_string()]).set(1);
        }
        gauge.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::EmulatedRelease;
    use crate::metrics::Registry;

    #[test]
    fn the_metric_has_both_releases() {
        let emulation = Emulation { release: EmulatedRelease::new(37), is_of_upstream: false };
        let registry = Registry::new();
        let metrics = ReleaseMetrics::new(Arc::new(Release::known()), emulation).unwrap();
        registry.register(Box::new(metrics)).unwrap();
        let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        let line = r#"kube_admission_proxy_upstream_release{emulated="1.37",release="1.36"} 1"#;
        assert!(text.contains(line), "{text}");
    }
}
