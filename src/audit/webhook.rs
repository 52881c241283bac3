//! The audit webhook: posts events as EventLists to the server of a kubeconfig (`--audit-webhook-config-file`).
//!
//! The bytes of events count until the server has them or they are lost, so that calls that hang or are repeated are bounded too.

use super::encoded::Encoded;
use super::metrics::Metrics;
use super::queue::{Queued, Throttle};
use super::{Acknowledgement, Sink};
use crate::backend::{GenericWebhook, SetupError};
use crate::cluster::Cluster;
use crate::config::{AuditBackend, AuditMode, AuditWebhook, Limits};
use async_trait::async_trait;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::task::TaskTracker;

/// The beginning of an event, which an event in a list does not have.
const TYPE: &str = r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","#;

/// The webhook and its queue.
pub(crate) struct Webhook {
    /// The events of the mode `batch`; `None` in other modes, and after the end.
    queue: Mutex<Option<UnboundedSender<String>>>,
    sender: Arc<Sender>,
    calls: TaskTracker,
    runtime: Handle,
}

/// The server, and the events on their way to it.
struct Sender {
    server: GenericWebhook,
    queued: Queued,
    backend: AuditBackend,
    /// The places of calls at the same time.
    places: Arc<Semaphore>,
    metrics: Metrics,
    limits: Arc<Limits>,
}

impl Webhook {
    /// Starts the webhook; must be called on a tokio runtime.
    ///
    /// # Errors
    /// If the kubeconfig cannot be used.
    pub(crate) fn start(
        given: &AuditWebhook,
        queued: Queued,
        metrics: Metrics,
        limits: Arc<Limits>,
    ) -> Result<Self, SetupError> {
        // The server of a kubeconfig is no Service.
        let cluster = Cluster::unconnected();
        let server = GenericWebhook::new(&given.kubeconfig, given.initial_backoff, cluster, &limits)?;
        let places = Arc::new(Semaphore::new(limits.audit_webhook_calls));
        let sender = Arc::new(Sender { server, queued, backend: given.backend.clone(), places, metrics, limits });
        let (calls, mut queue) = (TaskTracker::new(), None);
        if !given.backend.mode.blocks() {
            let (events, batches) = unbounded_channel();
            queue = Some(events);
            calls.spawn(send_batches(sender.clone(), batches, calls.clone()));
        }
        Ok(Self { queue: Mutex::new(queue), sender, calls, runtime: Handle::current() })
    }

    /// Sends the events that wait. Returns whether that happened in time.
    pub(crate) async fn shutdown(&self) -> bool {
        drop(self.queue.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.calls.close();
        timeout(self.sender.limits.audit_flush_timeout, self.calls.wait()).await.is_ok()
    }
}

#[async_trait]
impl Sink for Webhook {
    fn write(&self, event: &Encoded<'_>, has_room: bool) -> Option<Acknowledgement> {
        let Sender { queued, backend, metrics, .. } = &*self.sender;
        let json = match event.truncated(backend.truncate.as_ref()) {
            Ok(json) => json,
            Err(error) => {
                metrics.lost("truncate", 1, &error);
                return None;
            }
        };
        let item = json.strip_prefix(TYPE).map_or_else(|| json.clone().into_owned(), |rest| format!("{{{rest}"));
        if !backend.mode.blocks() {
            let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            match &*queue {
                None => metrics.lost("buffered", 1, &"audit backend shut down"),
                Some(_) if !queued.try_add(item.len(), backend.batch.buffer_events) => {
                    metrics.lost("buffered", 1, &"audit buffer queue blocked");
                }
                // The receiver ends after this sender.
                Some(queue) => _ = queue.send(item),
            }
            return None;
        }
        if !has_room && !self.has_room() {
            metrics.lost("webhook", 1, &"the queue is full");
            return None;
        }
        let (written, acknowledgement) = Acknowledgement::new(backend.mode == AuditMode::BlockingStrict);
        queued.add(item.len());
        let sender = self.sender.clone();
        self.calls.spawn_on(
            async move {
                let is_sent = sender.send(vec![item]).await;
                sender.queued.remove_event();
                // The request may have ended.
                let _ = written.send(is_sent);
            },
            &self.runtime,
        );
        Some(acknowledgement)
    }

    fn has_room(&self) -> bool {
        let Sender { queued, backend, limits, .. } = &*self.sender;
        !backend.mode.blocks() || queued.has_room(limits.audit_queue_events)
    }

    async fn room(&self) {
        if self.sender.backend.mode.blocks() {
            self.sender.queued.room(self.sender.limits.audit_queue_events).await;
        }
    }
}

impl Sender {
    /// Posts events. Returns whether the server has them.
    async fn send(&self, items: Vec<String>) -> bool {
        let bytes: usize = items.iter().map(String::len).sum();
        // The semaphore is never closed.
        let _place = self.places.acquire().await.ok();
        let head = r#"{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":["#;
        let body = format!("{head}{}]}}\n", items.join(","));
        let events = items.len();
        drop(items);
        let sent = self.server.deliver(body.into()).await;
        if let Err(error) = &sent {
            self.metrics.lost("webhook", events, error);
        }
        self.queued.remove_bytes(bytes);
        sent.is_ok()
    }
}

/// Sends batches until the queue ends (`bufferedBackend.processIncomingEvents`).
async fn send_batches(sender: Arc<Sender>, mut events: UnboundedReceiver<String>, calls: TaskTracker) {
    let mut throttle = Throttle::of(&sender.backend, std::time::Instant::now());
    while let Some(batch) = collect(&sender.backend, &mut events).await {
        batch.iter().for_each(|_| sender.queued.remove_event());
        if let Some(throttle) = &mut throttle {
            sleep(throttle.take(Instant::now().into_std())).await;
        }
        let sender = sender.clone();
        calls.spawn(async move { sender.send(batch).await });
    }
}

/// The next batch; `None` after the last one (`bufferedBackend.collectEvents`).
async fn collect(backend: &AuditBackend, events: &mut UnboundedReceiver<String>) -> Option<Vec<String>> {
    let first = events.recv().await?;
    let until = Instant::now() + backend.batch.wait;
    let mut batch = vec![first];
    while batch.len() < backend.batch.events {
        match timeout_at(until, events.recv()).await {
            Ok(Some(event)) => batch.push(event),
            Ok(None) | Err(_) => break,
        }
    }
    Some(batch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::AuditLogOptions;
    use futures_util::FutureExt;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn a_batch_ends_by_its_size_its_time_and_the_end_of_the_queue() {
        let mut backend = AuditLogOptions::default().backend;
        (backend.batch.events, backend.batch.wait) = (2, Duration::from_secs(30));
        let (queue, mut events) = unbounded_channel();
        for event in ["a", "b", "c"] {
            queue.send(event.to_owned()).unwrap();
        }
        assert_eq!(collect(&backend, &mut events).now_or_never().unwrap().unwrap(), ["a", "b"]);
        let started = Instant::now();
        assert_eq!(collect(&backend, &mut events).await.unwrap(), ["c"]);
        assert_eq!(started.elapsed(), backend.batch.wait);
        queue.send("d".to_owned()).unwrap();
        drop(queue);
        assert_eq!(collect(&backend, &mut events).now_or_never().unwrap().unwrap(), ["d"]);
        assert!(collect(&backend, &mut events).await.is_none());
    }
}
