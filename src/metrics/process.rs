//! The metrics of the process, with the names of Go's client for Prometheus (`prometheus.NewProcessCollector`).

use super::Registry;
use procfs::process::{LimitValue, Process};
use procfs::{ProcResult, WithCurrentSystemInfo};
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Counter, Gauge};

/// Metrics that are read from `/proc` when somebody asks for them.
pub(crate) struct ProcessMetrics {
    cpu_seconds: Counter,
    open_files: Gauge,
    most_files: Gauge,
    virtual_bytes: Gauge,
    most_virtual_bytes: Gauge,
    resident_bytes: Gauge,
    start: Gauge,
    received: Counter,
    sent: Counter,
}

impl ProcessMetrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// If the registry already has one of them.
    pub(crate) fn register(registry: &Registry) -> prometheus::Result<()> {
        let counter = |name, help| Counter::new(name, help);
        let gauge = |name, help| Gauge::new(name, help);
        registry.register(Box::new(Self {
            cpu_seconds: counter("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.")?,
            open_files: gauge("process_open_fds", "Number of open file descriptors.")?,
            most_files: gauge("process_max_fds", "Maximum number of open file descriptors.")?,
            virtual_bytes: gauge("process_virtual_memory_bytes", "Virtual memory size in bytes.")?,
            most_virtual_bytes: gauge(
                "process_virtual_memory_max_bytes",
                "Maximum amount of virtual memory available in bytes.",
            )?,
            resident_bytes: gauge("process_resident_memory_bytes", "Resident memory size in bytes.")?,
            start: gauge("process_start_time_seconds", "Start time of the process since unix epoch in seconds.")?,
            received: counter(
                "process_network_receive_bytes_total",
                "Number of bytes received by the process over the network.",
            )?,
            sent: counter(
                "process_network_transmit_bytes_total",
                "Number of bytes sent by the process over the network.",
            )?,
        }))
    }

    fn read(&self) -> ProcResult<()> {
        let process = Process::myself()?;
        let stat = process.stat()?;
        let ticks = procfs::ticks_per_second() as f64;
        set(&self.cpu_seconds, (stat.utime + stat.stime) as f64 / ticks);
        self.virtual_bytes.set(stat.vsize as f64);
        self.resident_bytes.set(stat.rss_bytes().get() as f64);
        self.start.set(procfs::boot_time_secs()? as f64 + stat.starttime as f64 / ticks);
        self.open_files.set(process.fd_count()? as f64);
        let limits = process.limits()?;
        self.most_files.set(bound(limits.max_open_files.soft_limit));
        self.most_virtual_bytes.set(bound(limits.max_address_space.soft_limit));
        // The counters are those of the network namespace, as in Go's client.
        let interfaces = process.dev_status()?;
        set(&self.received, interfaces.values().map(|interface| interface.recv_bytes).sum::<u64>() as f64);
        set(&self.sent, interfaces.values().map(|interface| interface.sent_bytes).sum::<u64>() as f64);
        Ok(())
    }

    fn all(&self) -> [&dyn Collector; 9] {
        [
            &self.cpu_seconds,
            &self.open_files,
            &self.most_files,
            &self.virtual_bytes,
            &self.most_virtual_bytes,
            &self.resident_bytes,
            &self.start,
            &self.received,
            &self.sent,
        ]
    }
}

/// Sets a counter to a value that never falls.
fn set(counter: &Counter, value: f64) {
    counter.inc_by((value - counter.get()).max(0.0));
}

/// A limit; one that is not set is the highest number, as Go writes it.
fn bound(limit: LimitValue) -> f64 {
    match limit {
        LimitValue::Value(bound) => bound as f64,
        LimitValue::Unlimited => u64::MAX as f64,
    }
}

impl Collector for ProcessMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.all().into_iter().flat_map(|metric| metric.desc()).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        match self.read() {
            Ok(()) => self.all().into_iter().flat_map(|metric| metric.collect()).collect(),
            Err(error) => {
                tracing::debug!(%error, "/proc cannot be read: no metrics of the process");
                Vec::new()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_those_of_the_process() {
        let registry = Registry::new();
        ProcessMetrics::register(&registry).unwrap();
        let text = registry.text().unwrap();
        let value = |name: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
            line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
        };
        let now = jiff::Timestamp::now().as_second() as f64;
        assert!((now - 86_400.0..=now + 2.0).contains(&value("process_start_time_seconds")));
        assert!(value("process_resident_memory_bytes") > 1e6);
        assert!(value("process_virtual_memory_bytes") >= value("process_resident_memory_bytes"));
        assert!(value("process_open_fds") >= 3.0 && value("process_open_fds") <= value("process_max_fds"));
        assert!(value("process_cpu_seconds_total") >= 0.0 && value("process_virtual_memory_max_bytes") > 0.0);
        let again = registry.text().unwrap();
        assert!(again.contains("process_network_receive_bytes_total"));
    }
}
