//! The last calls of a hook, for people who look into the process.

use super::call::CallError;
use crate::logging::cut;
use crate::look::seconds;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The calls whose times are kept.
const MAX_TIMES: usize = 128;

/// The calls of a hook. Its configuration may change meanwhile.
#[derive(Debug, Default)]
pub(super) struct Calls(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    calls: u64,
    failures: u64,
    rejections: u64,
    times: VecDeque<Duration>,
    last_error: Option<(Timestamp, String)>,
}

impl Calls {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a call.
    pub(super) fn add(&self, elapsed: Duration, error: Option<&CallError>) {
        let failure = match error {
            Some(CallError::Calling { reason, .. }) => Some(cut(reason)),
            Some(CallError::Internal(status)) => Some(cut(&status.message)),
            Some(CallError::Rejected(_)) | None => None,
        };
        let mut kept = self.lock();
        kept.calls += 1;
        kept.rejections += u64::from(matches!(error, Some(CallError::Rejected(_))));
        if kept.times.len() == MAX_TIMES {
            kept.times.pop_front();
        }
        kept.times.push_back(elapsed);
        if let Some(failure) = failure {
            kept.failures += 1;
            kept.last_error = Some((Timestamp::now(), failure));
        }
    }

    /// The fields of the hook that its calls have.
    pub(super) fn look(&self) -> Value {
        let kept = self.lock();
        let mut times: Vec<Duration> = kept.times.iter().copied().collect();
        times.sort_unstable();
        let quantile = |part: usize| {
            times.get((times.len() * part / 100).min(times.len().saturating_sub(1))).map(|time| seconds(*time))
        };
        let last = kept.last_error.as_ref();
        json!({
            "calls": kept.calls,
            "rejections": kept.rejections,
            "failures": kept.failures,
            "p50Seconds": quantile(50),
            "p99Seconds": quantile(99),
            "lastError": last.map(|(_, text)| text),
            "lastErrorTime": last.map(|(time, _)| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Status;

    #[test]
    fn quantiles_and_the_last_error_are_kept() {
        let calls = Calls::default();
        assert_eq!(calls.look()["p50Seconds"], Value::Null);
        for milliseconds in 1..=100 {
            calls.add(Duration::from_millis(milliseconds), None);
        }
        calls.add(Duration::ZERO, Some(&CallError::Rejected(Box::new(Status::bad_request("no")))));
        let failed = CallError::in_answer("x".repeat(10_000), 503);
        calls.add(Duration::ZERO, Some(&failed));
        let look = calls.look();
        assert_eq!((&look["p50Seconds"], &look["p99Seconds"]), (&json!(0.05), &json!(0.099)));
        assert_eq!([&look["calls"], &look["rejections"], &look["failures"]], [&json!(102), &json!(1), &json!(1)]);
        assert!(look["lastError"].as_str().unwrap().len() <= 500);
        for _ in 0..2 * MAX_TIMES {
            calls.add(Duration::from_secs(1), None);
        }
        assert_eq!((&calls.look()["p50Seconds"], calls.lock().times.len()), (&json!(1.0), MAX_TIMES));
    }
}
