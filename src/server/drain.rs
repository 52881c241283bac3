//! The shutdown of the process: readiness ends first, then the listener, then long-running requests; requests in flight may finish.

use crate::body::{Body, BoxError};
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tokio_util::task::TaskTracker;

/// The signal of the process's shutdown. Clones are handles of the same signal.
#[derive(Clone, Debug, Default)]
pub struct Drain {
    announced: CancellationToken,
    started: CancellationToken,
    tasks: TaskTracker,
}

impl Drain {
    /// Creates a signal that is not given yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts the drain: at once for readiness, after `delay` for everything else, so that load balancers have time to
    /// switch to other replicas (`--shutdown-delay-duration`).
    pub async fn start(&self, delay: Duration) {
        self.announced.cancel();
        tokio::time::sleep(delay).await;
        self.started.cancel();
    }

    /// Starts the drain on SIGTERM or SIGINT. Resolves after the start.
    ///
    /// # Errors
    /// If signals cannot be received.
    pub(crate) async fn start_on_signal(&self, delay: Duration) -> std::io::Result<()> {
        use tokio::signal::unix::{SignalKind, signal};
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        tokio::select! {
            _ = terminate.recv() => tracing::info!("SIGTERM: draining"),
            _ = interrupt.recv() => tracing::info!("SIGINT: draining"),
        }
        self.start(delay).await;
        Ok(())
    }

    /// Whether the drain was announced: readiness checks fail from then on.
    pub(crate) fn is_announced(&self) -> bool {
        self.announced.is_cancelled()
    }

    /// Whether the drain has started: long-running requests end from then on.
    pub(crate) fn is_started(&self) -> bool {
        self.started.is_cancelled()
    }

    /// Resolves once the drain has started.
    pub async fn started(&self) {
        self.started.cancelled().await;
    }

    /// Wraps a body so that it ends as if complete when the drain starts. For watches: their clients reconnect to another replica.
    pub fn ending(&self, body: Body) -> Body {
        Ending { body, started: Box::pin(self.started.clone().cancelled_owned()), ended: false }.boxed_unsync()
    }

    /// Runs a task that the drain waits for.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// Resolves when every task of [`spawn`](Self::spawn) has ended.
    pub(crate) async fn finished(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

struct Ending {
    body: Body,
    started: Pin<Box<WaitForCancellationFutureOwned>>,
    ended: bool,
}

impl http_body::Body for Ending {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.ended || self.started.as_mut().poll(context).is_ready() {
            self.ended = true;
            // The upstream need not send frames that are not read any more.
            self.body = crate::body::empty();
            return Poll::Ready(None);
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.ended || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    /// A body that never yields a frame, and so never ends by itself.
    fn silent() -> Body {
        http_body_util::StreamBody::new(futures_util::stream::pending::<Result<Frame<Bytes>, BoxError>>())
            .boxed_unsync()
    }

    #[tokio::test]
    async fn a_watch_ends_when_the_drain_starts_and_not_before() {
        let drain = Drain::new();
        let mut body = drain.ending(silent());
        assert!(body.frame().now_or_never().is_none());
        drain.start(Duration::ZERO).await;
        assert!(body.frame().await.is_none());
        assert!(http_body::Body::is_end_stream(&body));
    }

    #[tokio::test(start_paused = true)]
    async fn readiness_goes_before_the_listener() {
        let drain = Drain::new();
        let starting = drain.start(Duration::from_secs(5));
        tokio::pin!(starting);
        assert!(starting.as_mut().now_or_never().is_none());
        assert!(drain.is_announced() && !drain.is_started());
        starting.await;
        assert!(drain.is_started());
    }

    #[tokio::test]
    async fn waits_for_what_it_spawned() {
        let drain = Drain::new();
        let (done, wait) = tokio::sync::oneshot::channel::<()>();
        drain.spawn(async move {
            let _ = wait.await;
        });
        let finished = drain.finished();
        tokio::pin!(finished);
        assert!(finished.as_mut().now_or_never().is_none());
        done.send(()).unwrap();
        finished.await;
    }
}
