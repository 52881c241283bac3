//! Time for the whole chain on one object (`--admission-timeout`), which kube-apiserver does not bound.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// What the phases on one object may take together; what happens between them does not count. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Budget(Option<Arc<Mutex<Clock>>>);

#[derive(Debug)]
struct Clock {
    left: Duration,
    /// When nothing is left, while a phase runs.
    end: Option<Instant>,
}

/// A phase that runs: until it is dropped, its time counts.
#[must_use]
pub struct Running(Budget);

impl Budget {
    /// So much, or as much as it takes.
    pub fn new(total: Option<Duration>) -> Self {
        Self(total.map(|left| Arc::new(Mutex::new(Clock { left, end: None }))))
    }

    /// From now on, time counts.
    pub fn run(&self) -> Running {
        if let Some(mut clock) = self.clock() {
            clock.end = Instant::now().checked_add(clock.left);
        }
        Running(self.clone())
    }

    /// When it ends, if it does. Outside a phase there is no end.
    pub fn end(&self) -> Option<Instant> {
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
