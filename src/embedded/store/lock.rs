//! The lock of the store, which goes to who waits for it longest, so that other requests come between the small transactions of a long one.

use parking_lot::FairMutex;

/// A value under the lock.
pub(super) struct Locked<T> {
    value: FairMutex<T>,
    #[cfg(test)]
    longest: longest::Longest,
}

impl<T> Locked<T> {
    pub(super) fn new(value: T) -> Self {
        Self {
            value: FairMutex::new(value),
            #[cfg(test)]
            longest: longest::Longest::default(),
        }
    }

    /// Works on the value.
    pub(super) fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        let mut value = self.value.lock();
        #[cfg(test)]
        let _held = self.longest.begin();
        work(&mut value)
    }

    /// The longest work since the last call, in CPU time of its thread, which other work on the machine does not change.
    #[cfg(test)]
    pub(super) fn take_longest(&self) -> std::time::Duration {
        self.longest.take()
    }
}

#[cfg(test)]
mod longest {
    use rustix::time::{ClockId, clock_gettime};
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    #[derive(Default)]
    pub(super) struct Longest(AtomicU64);

    pub(super) struct Held<'l> {
        longest: &'l Longest,
        begin: Duration,
    }

    impl Longest {
        pub(super) fn begin(&self) -> Held<'_> {
            Held { longest: self, begin: cpu_time() }
        }

        pub(super) fn take(&self) -> Duration {
            Duration::from_nanos(self.0.swap(0, Ordering::Relaxed))
        }
    }

    impl Drop for Held<'_> {
        fn drop(&mut self) {
            let nanoseconds = u64::try_from((cpu_time() - self.begin).as_nanos()).unwrap_or(u64::MAX);
            self.longest.0.fetch_max(nanoseconds, Ordering::Relaxed);
        }
    }

    fn cpu_time() -> Duration {
        Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
    }
}
