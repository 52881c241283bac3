//! The calls of the plugins of a chain, for people who look into the process.

use crate::look::seconds;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The calls of a plugin in both phases. A tenant that sends nothing has no counts.
#[derive(Debug, Default)]
pub(super) struct Calls(OnceLock<Arc<[Counts; 2]>>);

impl Calls {
    pub(super) fn counts(&self) -> &[Counts; 2] {
        self.0.get_or_init(Arc::default)
    }

    /// The same counts, for a part of a chain.
    pub(super) fn shared(&self) -> Self {
        Self(OnceLock::from(self.0.get_or_init(Arc::default).clone()))
    }
}

/// The calls of a plugin in a phase.
#[derive(Debug, Default)]
pub(super) struct Counts {
    calls: AtomicU64,
    refusals: AtomicU64,
    nanoseconds: AtomicU64,
}

impl Counts {
    pub(super) fn add(&self, elapsed: Duration, is_refused: bool) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.refusals.fetch_add(is_refused.into(), Ordering::Relaxed);
        self.nanoseconds.fetch_add(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(super) fn look(&self) -> Value {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let time = Duration::from_nanos(of(&self.nanoseconds));
        json!({"calls": of(&self.calls), "refusals": of(&self.refusals), "seconds": seconds(time)})
    }
}
