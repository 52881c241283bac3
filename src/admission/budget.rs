//! The time limit of the whole chain on one object (`--admission-timeout`). kube-apiserver has no such limit.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The time that the phases on one object may take together. Time between the phases does not count. Clones share one clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Budget(Option<Arc<Mutex<Clock>>>);

#[derive(Debug)]
struct Clock {
    left: Duration,
    /// The instant at which no time is left; set while a phase runs.
    end: Option<Instant>,
}

/// A running phase. Time counts until this guard is dropped.
#[must_use]
pub(crate) struct Running(Budget);

impl Budget {
    /// A budget of `total`, or without a limit if `total` is `None`.
    pub(crate) fn new(total: Option<Duration>) -> Self {
        Self(total.map(|left| Arc::new(Mutex::new(Clock { left, end: None }))))
    }

    /// Starts the clock for a phase.
    pub(crate) fn run(&self) -> Running {
        if let Some(mut clock) = self.clock() {
            clock.end = Instant::now().checked_add(clock.left);
        }
        Running(self.clone())
    }

    /// The instant at which the budget ends. `None` outside a phase and without a limit.
    pub(crate) fn end(&self) -> Option<Instant> {
        self.clock()?.end
    }

    fn clock(&self) -> Option<MutexGuard<'_, Clock>> {
        self.0.as_ref().map(|clock| clock.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut clock) = self.0.clock()
            && let Some(end) = clock.end.take()
        {
            clock.left = end.saturating_duration_since(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn phases_share_it_and_what_is_between_them_does_not_count() {
        let seconds = Duration::from_secs;
        let budget = Budget::new(Some(seconds(5)));
        assert_eq!(budget.end(), None);
        let first = budget.run();
        assert_eq!(budget.end(), Some(Instant::now() + seconds(5)));
        advance(seconds(2)).await;
        drop(first);
        advance(seconds(60)).await;
        let second = budget.run();
        assert_eq!(budget.end(), Some(Instant::now() + seconds(3)));
        advance(seconds(9)).await;
        drop(second);
        let _third = budget.run();
        assert_eq!(budget.end(), Some(Instant::now()));
        assert_eq!(Budget::default().run().0.end(), None);
    }
}
