//! A task that compares objects of the API server again and again with what the proxy wants them to be.

use crate::server::health::Unhealthy;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::task::AbortOnDropHandle;

/// The comparisons of a task.
pub(super) trait Keeper: Send + 'static {
    /// The objects, for the log.
    const WHAT: &'static str;

    /// Compares the objects once, and writes those that differ.
    ///
    /// # Errors
    /// If an object could not be read or written, with the reason.
    fn round(&mut self) -> impl Future<Output = Result<(), Unhealthy>> + Send;
}

/// A task that keeps objects. Dropping the value ends it; the objects stay.
#[derive(Debug)]
pub(super) struct Keeping {
    last: watch::Receiver<Result<(), Unhealthy>>,
    _task: AbortOnDropHandle<()>,
}

impl Keeping {
    /// Runs a round at once, and then again every `every`. Must be called inside a tokio runtime.
    pub(super) fn start<K: Keeper>(mut keeper: K, every: Duration) -> Self {
        let (said, last) = watch::channel(Ok(()));
        let keeping = async move {
            let mut ticks = interval(every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let kept = keeper.round().await;
                if let Err(reason) = &kept
                    && said.borrow().is_ok()
                {
                    tracing::warn!(%reason, "{} cannot be kept", K::WHAT);
                }
                let _before = said.send_replace(kept);
            }
        };
        Self { last, _task: AbortOnDropHandle::new(tokio::spawn(keeping)) }
    }

    /// Checks the last round.
    ///
    /// # Errors
    /// If it failed, with the reason.
    pub(super) fn check(&self) -> Result<(), Unhealthy> {
        self.last.borrow().clone()
    }
}
