//! The wait of a request for its events.

use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::oneshot;

/// The acknowledgement of an event by a backend in which requests wait.
#[derive(Debug)]
pub(crate) struct Acknowledgement {
    written: oneshot::Receiver<bool>,
    is_strict: bool,
}

impl Acknowledgement {
    /// Returns an acknowledgement, and the sender that the writer of the event uses. If `is_strict`, an event that could not be written
    /// is a failure.
    pub(crate) fn new(is_strict: bool) -> (oneshot::Sender<bool>, Self) {
        let (sender, written) = oneshot::channel();
        (sender, Self { written, is_strict })
    }
}

/// Resolves when all backends that requests wait for have written an event, or failed to: whether all strict backends have written it.
#[derive(Debug, Default)]
#[must_use = "the request waits for its event"]
pub(crate) struct Written {
    waits: Vec<Acknowledgement>,
    has_failed: bool,
}

impl Written {
    /// Waits for these backends.
    pub(super) fn of(waits: Vec<Acknowledgement>) -> Self {
        Self { waits, has_failed: false }
    }

    /// Does not wait: the backends write the event later.
    pub(crate) fn unawaited(self) {}
}

impl Future for Written {
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<bool> {
        let mut has_failed = self.has_failed;
        self.waits.retain_mut(|wait| match Pin::new(&mut wait.written).poll(context) {
            Poll::Pending => true,
            // The writer has ended without the event if its end of the channel is dropped.
            Poll::Ready(written) => {
                has_failed |= wait.is_strict && written != Ok(true);
                false
            }
        });
        self.has_failed = has_failed;
        if self.waits.is_empty() { Poll::Ready(!has_failed) } else { Poll::Pending }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn a_request_waits_for_all_backends_and_only_strict_ones_fail() {
        assert_eq!(Written::default().now_or_never(), Some(true));
        for (strict, outcomes, expected) in [
            ([false, false], [Some(true), Some(false)], true),
            ([false, true], [Some(false), Some(true)], true),
            ([true, false], [Some(false), Some(true)], false),
            ([false, true], [Some(true), None], false),
        ] {
            let (senders, waits): (Vec<_>, Vec<_>) = strict.map(Acknowledgement::new).into_iter().unzip();
            let mut written = Written::of(waits);
            for (sender, outcome) in senders.into_iter().zip(outcomes) {
                assert_eq!((&mut written).now_or_never(), None);
                match outcome {
                    Some(outcome) => sender.send(outcome).unwrap(),
                    None => drop(sender),
                }
            }
            assert_eq!(written.now_or_never(), Some(expected), "{strict:?} {outcomes:?}");
        }
    }
}
