//! The rate of a tenant's writes: a token bucket.

use std::sync::{Mutex, PoisonError};
use tokio::time::Instant;

/// A bound of events in a second, on average.
#[derive(Debug)]
pub(crate) struct Rate {
    per_second: f64,
    burst: f64,
    bucket: Mutex<Bucket>,
}

/// A token bucket, in its state at the last use.
#[derive(Debug)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

impl Rate {
    /// Creates a bound; `burst` events may come at once after a pause.
    pub(crate) fn new(per_second: u32, burst: u32) -> Self {
        let (per_second, burst) = (f64::from(per_second.max(1)), f64::from(burst.max(1)));
        Self { per_second, burst, bucket: Mutex::new(Bucket { tokens: burst, at: Instant::now() }) }
    }

    /// Counts an event; false if there are too many.
    pub(crate) fn take(&self) -> bool {
        let now = Instant::now();
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = now.saturating_duration_since(bucket.at).as_secs_f64();
        bucket.tokens = passed.mul_add(self.per_second, bucket.tokens).min(self.burst);
        bucket.at = now;
        let is_free = bucket.tokens >= 1.0;
        if is_free {
            bucket.tokens -= 1.0;
        }
        is_free
    }
}
