//! The longest transaction of a store, in CPU time of its thread, which other work on the machine does not change.

use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[derive(Default)]
pub(in crate::embedded) struct Longest(AtomicU64);

impl Longest {
    pub(super) fn begin(&self) -> Duration {
        cpu_time()
    }

    pub(super) fn end(&self, begin: Duration) {
        let nanoseconds = u64::try_from((cpu_time() - begin).as_nanos()).unwrap_or(u64::MAX);
        self.0.fetch_max(nanoseconds, Ordering::Relaxed);
    }

    /// The longest transaction since the last call.
    pub(in crate::embedded) fn take(&self) -> Duration {
        Duration::from_nanos(self.0.swap(0, Ordering::Relaxed))
    }
}

fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}
