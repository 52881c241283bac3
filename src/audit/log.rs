//! The audit log: writes events as lines to a file or to the standard output (`--audit-log-path`).
//!
//! A separate thread writes, so that a disk that blocks holds up the requests that wait for their events, and nothing else. A write has the
//! events of many requests.

use super::encoded::Encoded;
use super::file::{self, Rotating};
use super::metrics::Metrics;
use super::queue::{Queued, Throttle};
use super::{Acknowledgement, Sink};
use crate::config::{AuditLogOptions, AuditMode, Limits};
use async_trait::async_trait;
use jiff::Timestamp;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::oneshot;

/// The approximate maximum bytes of lines that one write combines.
const WRITE_BYTES: usize = 1 << 20;
/// The value of `--audit-log-path` for the standard output.
const STDOUT: &str = "-";

/// A line, and the sender for the request that waits for it.
struct Entry {
    line: String,
    written: Option<oneshot::Sender<bool>>,
}

/// The log and its queue.
pub(crate) struct Log {
    queue: Mutex<Option<Sender<Entry>>>,
    queued: Arc<Queued>,
    done: Mutex<Option<oneshot::Receiver<()>>>,
    options: AuditLogOptions,
    metrics: Metrics,
    limits: Arc<Limits>,
}

impl Log {
    /// Opens the file for appending, and creates a missing file with mode 0600. `-` is the standard output.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub(crate) fn open(
        path: &str,
        queued: Queued,
        options: &AuditLogOptions,
        metrics: Metrics,
        limits: Arc<Limits>,
    ) -> io::Result<Self> {
        let output = match &options.rotation {
            _ if path == STDOUT => Output::Plain(Box::new(io::stdout())),
            None => Output::Plain(Box::new(file::ensure(Path::new(path))?)),
            Some(rotation) => {
                file::ensure(Path::new(path))?;
                Output::Rotating(Rotating::new(path.into(), rotation.clone(), Timestamp::now))
            }
        };
        Self::to(output, queued, options, metrics, limits)
    }

    /// Writes to `output`.
    ///
    /// # Errors
    /// If the thread cannot be started.
    fn to(
        output: Output,
        queued: Queued,
        options: &AuditLogOptions,
        metrics: Metrics,
        limits: Arc<Limits>,
    ) -> io::Result<Self> {
        let (queue, entries) = channel();
        let (finished, done) = oneshot::channel();
        let queued = Arc::new(queued);
        let mut writer =
            Writer { output, entries, queued: queued.clone(), metrics: metrics.clone(), options: options.clone() };
        std::thread::Builder::new().name("audit-log".to_owned()).spawn(move || {
            writer.run();
            // `shutdown` may have stopped waiting, or may never be called.
            let _ = finished.send(());
        })?;
        let options = options.clone();
        Ok(Self { queue: Mutex::new(Some(queue)), queued, done: Mutex::new(Some(done)), options, metrics, limits })
    }

    /// Closes the queue, and waits until the queued events are written. Returns whether that happened in time.
    pub(crate) async fn shutdown(&self) -> bool {
        drop(self.queue.lock().unwrap_or_else(PoisonError::into_inner).take());
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner).take();
        match done {
            Some(done) => tokio::time::timeout(self.limits.audit_flush_timeout, done).await.is_ok(),
            None => true,
        }
    }

    /// The line of an event; `None` if the event is too large.
    fn line(&self, event: &Encoded<'_>) -> Option<String> {
        let json = match event.truncated(self.options.backend.truncate.as_ref()) {
            Ok(json) => json,
            Err(error) => {
                self.metrics.lost("truncate", 1, &error);
                return None;
            }
        };
        let mut line = if self.options.is_legacy { event.legacy() } else { json.into_owned() };
        line.push('\n');
        Some(line)
    }
}

#[async_trait]
impl Sink for Log {
    fn write(&self, event: &Encoded<'_>, has_room: bool) -> Option<Acknowledgement> {
        let line = self.line(event)?;
        let backend = &self.options.backend;
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = line.len();
        if !backend.mode.blocks() {
            // Counted before the send, because the thread may write the line and subtract its bytes at once.
            if queue.is_none() {
                self.metrics.lost("buffered", 1, &"audit backend shut down");
            } else if !self.queued.try_add(bytes, backend.batch.buffer_events) {
                self.metrics.lost("buffered", 1, &"audit buffer queue blocked");
            } else if let Some(queue) = &*queue {
                // The thread ends after the sender.
                let _ = queue.send(Entry { line, written: None });
            }
            return None;
        }
        if !has_room && !self.has_room() {
            // The request has waited in vain, and nothing was done for it.
            self.metrics.lost("log", 1, &"the queue is full");
            return None;
        }
        let (written, acknowledgement) = Acknowledgement::new(backend.mode == AuditMode::BlockingStrict);
        match &*queue {
            None => self.metrics.lost("log", 1, &"audit backend shut down"),
            Some(queue) => {
                self.queued.add(bytes);
                let _ = queue.send(Entry { line, written: Some(written) });
            }
        }
        Some(acknowledgement)
    }

    fn has_room(&self) -> bool {
        !self.options.backend.mode.blocks() || self.queued.has_room(self.limits.audit_queue_events)
    }

    async fn room(&self) {
        if self.options.backend.mode.blocks() {
            self.queued.room(self.limits.audit_queue_events).await;
        }
    }
}

/// The destination of lines.
enum Output {
    /// A file that grows, or the standard output.
    Plain(Box<dyn Write + Send>),
    Rotating(Rotating),
}

impl Output {
    /// Whether one write may have these bytes.
    fn fits(&self, bytes: usize) -> bool {
        bytes <= WRITE_BYTES
            && match self {
                Self::Plain(_) => true,
                Self::Rotating(file) => file.fits(bytes),
            }
    }

    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(output) => output.write_all(text).and_then(|()| output.flush()),
            Self::Rotating(file) => file.write(text),
        }
    }
}

/// The thread that writes.
struct Writer {
    output: Output,
    entries: Receiver<Entry>,
    queued: Arc<Queued>,
    metrics: Metrics,
    options: AuditLogOptions,
}

impl Writer {
    fn run(&mut self) {
        let mut throttle = Throttle::of(&self.options.backend, Instant::now());
        while let Some(batch) = self.collect(throttle.is_some()) {
            if let Some(throttle) = &mut throttle {
                std::thread::sleep(throttle.take(Instant::now()));
            }
            self.write(batch);
        }
    }

    /// The next events; `None` after the last ones (`bufferedBackend.collectEvents`).
    fn collect(&self, is_throttled: bool) -> Option<Vec<Entry>> {
        let backend = &self.options.backend;
        let mut batch = vec![self.entries.recv().ok()?];
        if backend.mode.blocks() || (backend.batch.events == 1 && !is_throttled) {
            // Batches of one event are written together.
            let mut bytes = batch.iter().map(|entry| entry.line.len()).sum::<usize>();
            while bytes < WRITE_BYTES
                && let Ok(entry) = self.entries.try_recv()
            {
                bytes += entry.line.len();
                batch.push(entry);
            }
        } else {
            let until = Instant::now() + backend.batch.wait;
            while batch.len() < backend.batch.events
                && let Ok(entry) = self.entries.recv_timeout(until.saturating_duration_since(Instant::now()))
            {
                batch.push(entry);
            }
        }
        if !backend.mode.blocks() {
            batch.iter().for_each(|_| self.queued.remove_event());
        }
        Some(batch)
    }

    fn write(&mut self, batch: Vec<Entry>) {
        let (mut text, mut waiting) = (String::new(), Vec::new());
        for Entry { line, written } in batch {
            if !text.is_empty() && !self.output.fits(text.len() + line.len()) {
                self.write_text(&text, waiting.drain(..));
                text.clear();
            }
            text.push_str(&line);
            waiting.push(written);
        }
        self.write_text(&text, waiting.drain(..));
    }

    fn write_text(&mut self, text: &str, waiting: impl ExactSizeIterator<Item = Option<oneshot::Sender<bool>>>) {
        let (events, written) = (waiting.len(), self.output.write(text.as_bytes()));
        if let Err(error) = &written {
            self.metrics.lost("log", events, error);
        }
        for waits in waiting.flatten() {
            self.queued.remove_event();
            // The request may have ended.
            let _ = waits.send(written.is_ok());
        }
        self.queued.remove_bytes(text.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::{Written, testing};
    use crate::config::{AuditBackend, AuditTruncate, Limits};
    use crate::metrics::Registry;
    use futures_util::FutureExt;
    use std::sync::mpsc;
    use std::time::Duration;

    fn metrics() -> Metrics {
        Metrics::register(&Registry::new()).unwrap()
    }

    fn lost(metrics: &Metrics, plugin: &str) -> u64 {
        metrics.errors.with_label_values(&[plugin]).get()
    }

    fn options(mode: AuditMode) -> AuditLogOptions {
        let default = AuditLogOptions::default();
        AuditLogOptions { backend: AuditBackend { mode, ..default.backend }, ..default }
    }

    /// Blocks each write until the test decides its outcome, and passes on the written bytes.
    struct Gate(mpsc::Receiver<bool>, mpsc::Sender<Vec<u8>>, mpsc::Sender<()>);

    impl Write for Gate {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.2.send(());
            if !self.0.recv().map_err(io::Error::other)? {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.1.send(bytes.to_vec()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A log over a gate.
    struct Gated {
        log: Log,
        decide: mpsc::Sender<bool>,
        written: mpsc::Receiver<Vec<u8>>,
        entries: mpsc::Receiver<()>,
        metrics: Metrics,
    }

    fn gated(options: &AuditLogOptions, bytes: usize, limits: Limits) -> Gated {
        let (decide, gate) = mpsc::channel();
        let (sink, written) = mpsc::channel();
        let (entered, entries) = mpsc::channel();
        let metrics = metrics();
        let output = Output::Plain(Box::new(Gate(gate, sink, entered)));
        let log = Log::to(output, Queued::new(bytes), options, metrics.clone(), Arc::new(limits)).unwrap();
        Gated { log, decide, written, entries, metrics }
    }

    impl Gated {
        fn write(&self, id: &str) -> Option<Acknowledgement> {
            testing::encoded(id, |event| self.log.write(event, true))
        }

        /// The audit IDs of the next writes.
        fn ids(&self, writes: usize) -> Vec<String> {
            let text = self.written.iter().take(writes).flatten().collect();
            testing::ids(&String::from_utf8(text).unwrap())
        }
    }

    #[tokio::test]
    async fn appends_lines_and_keeps_others_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/audit.log");
        let text = path.to_str().unwrap();
        let open = |path: &str, options: &AuditLogOptions| {
            Log::open(path, Queued::new(1000), options, metrics(), Arc::default())
        };
        let growing = AuditLogOptions { rotation: None, ..options(AuditMode::Blocking) };
        for (id, options) in
            [("one", &options(AuditMode::Batch)), ("two", &options(AuditMode::Blocking)), ("three", &growing)]
        {
            let log = open(text, options).unwrap();
            let waits = testing::encoded(id, |event| log.write(event, true));
            assert_eq!(waits.is_some(), id != "one");
            assert!(log.shutdown().await && log.shutdown().await);
        }
        assert_eq!(testing::ids(&std::fs::read_to_string(&path).unwrap()), ["one", "two", "three"]);
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
        assert!(open(folder.path().to_str().unwrap(), &growing).is_err());
    }

    #[tokio::test]
    async fn in_batch_mode_a_blocked_disk_costs_events_and_not_time() {
        let mut options = options(AuditMode::Batch);
        options.backend.batch.buffer_events = 2;
        let gated =
            gated(&options, 10_000, Limits { audit_flush_timeout: Duration::from_millis(1), ..Limits::default() });
        assert!(gated.write("first").is_none());
        gated.entries.recv().unwrap();
        // The thread is blocked in its write: two events are queued, the others are lost.
        for id in ["a", "b", "c", "d"] {
            assert!(gated.write(id).is_none());
        }
        assert_eq!(lost(&gated.metrics, "buffered"), 2);
        assert!(gated.log.has_room(), "no request waits");
        assert!(!gated.log.shutdown().await, "it waits no longer than it may");
        gated.write("late");
        assert_eq!(lost(&gated.metrics, "buffered"), 3);
        gated.decide.send(true).unwrap();
        gated.decide.send(true).unwrap();
        assert_eq!(gated.ids(2), ["first", "a", "b"]);
    }

    #[tokio::test]
    async fn in_batch_mode_large_events_fill_the_queue_sooner() {
        let bytes = testing::encoded("12345678", |event| event.json().len()) + 1;
        let gated = gated(&options(AuditMode::Batch), bytes, Limits::default());
        gated.write("12345678");
        gated.entries.recv().unwrap();
        gated.write("12");
        assert_eq!(lost(&gated.metrics, "buffered"), 1);
        gated.decide.send(false).unwrap();
        assert!(gated.log.shutdown().await);
        assert_eq!(lost(&gated.metrics, "log"), 1);
    }

    #[tokio::test]
    async fn in_blocking_mode_a_request_waits_and_nothing_is_lost() {
        let gated = gated(&options(AuditMode::Blocking), 10_000, Limits { audit_queue_events: 4, ..Limits::default() });
        let mut first = Written::of(Vec::from_iter(gated.write("first")));
        gated.entries.recv().unwrap();
        assert_eq!((&mut first).now_or_never(), None);
        let others: Vec<_> = ["a", "b", "c", "d", "e"].into_iter().filter_map(|id| gated.write(id)).collect();
        assert_eq!(others.len(), 5, "the events of requests that have begun have room");
        assert!(!gated.log.has_room(), "further requests wait");
        assert!(
            testing::encoded("f", |event| gated.log.write(event, false)).is_none(),
            "and have no event if they give up"
        );
        assert_eq!(lost(&gated.metrics, "log"), 1);
        let mut room = Box::pin(gated.log.room());
        assert_eq!((&mut room).now_or_never(), None);
        gated.decide.send(true).unwrap();
        assert!(first.await);
        gated.decide.send(true).unwrap();
        assert!(Written::of(others).await);
        room.await;
        assert_eq!(gated.ids(2), ["first", "a", "b", "c", "d", "e"], "one write has the events that waited");
    }

    #[tokio::test]
    async fn only_a_strict_log_fails_the_request_of_an_event_that_is_not_written() {
        for (mode, expected) in [(AuditMode::Blocking, true), (AuditMode::BlockingStrict, false)] {
            let gated = gated(&options(mode), 10_000, Limits::default());
            gated.decide.send(false).unwrap();
            assert_eq!(Written::of(Vec::from_iter(gated.write("a"))).await, expected);
            assert_eq!(lost(&gated.metrics, "log"), 1);
            // The next event is written if the disk is well again.
            gated.decide.send(true).unwrap();
            assert!(Written::of(Vec::from_iter(gated.write("b"))).await);
            assert_eq!(gated.ids(1), ["b"]);
            assert!(gated.log.shutdown().await);
            assert_eq!(Written::of(Vec::from_iter(gated.write("late"))).await, expected);
        }
    }

    #[tokio::test]
    async fn batches_have_their_size_and_the_end_writes_the_rest() {
        let mut options = options(AuditMode::Batch);
        options.backend.batch.events = 3;
        options.backend.batch.wait = Duration::from_secs(3600);
        let gated = gated(&options, 10_000, Limits::default());
        for id in ["a", "b", "c", "d"] {
            gated.write(id);
        }
        for _ in 0..2 {
            gated.decide.send(true).unwrap();
        }
        assert_eq!(gated.ids(1), ["a", "b", "c"]);
        assert!(gated.log.shutdown().await);
        assert_eq!(gated.ids(1), ["d"]);
    }

    #[tokio::test]
    async fn a_large_event_loses_its_objects_and_a_larger_one_is_lost() {
        let whole = testing::with_object(100, |event| event.json().len() as u64 + 1);
        let without = testing::with_object(100, |event| {
            let truncate = AuditTruncate { event_bytes: whole - 1 };
            event.truncated(Some(&truncate)).unwrap().len() as u64 + 1
        });
        for (bytes, object, annotation) in [(whole, true, false), (whole - 1, false, true), (without, false, true)] {
            let mut options = options(AuditMode::Blocking);
            options.backend.truncate = Some(AuditTruncate { event_bytes: bytes });
            let gated = gated(&options, 10_000, Limits::default());
            gated.decide.send(true).unwrap();
            let waits = testing::with_object(100, |event| gated.log.write(event, true));
            assert!(Written::of(Vec::from_iter(waits)).await);
            let line: serde_json::Value = serde_json::from_slice(&gated.written.recv().unwrap()).unwrap();
            assert_eq!(line.get("requestObject").is_some(), object, "{bytes}");
            assert_eq!(line["annotations"]["audit.k8s.io/truncated"] == "true", annotation, "{bytes}");
        }
        let mut options = options(AuditMode::BlockingStrict);
        options.backend.truncate = Some(AuditTruncate { event_bytes: without - 1 });
        let gated = gated(&options, 10_000, Limits::default());
        assert!(testing::with_object(100, |event| gated.log.write(event, true)).is_none(), "no request fails of it");
        assert_eq!(lost(&gated.metrics, "truncate"), 1);
    }
}
