//! The audit log: writes events as lines to a file or to the standard output (`--audit-log-path`).
//!
//! A separate thread writes, so that a blocked disk never blocks a request. Events that do not fit into the queue are dropped
//! and counted.

use super::Sink;
use super::metrics::Metrics;
use crate::config::Limits;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;

/// The approximate maximum bytes of lines that one write combines.
const WRITE_BYTES: usize = 1 << 20;

/// The bytes in the queue of a log.
#[derive(Debug)]
pub(crate) struct Queued {
    bytes: AtomicUsize,
    most: usize,
    /// The queues of all logs of which this is one.
    all: Option<Arc<Self>>,
}

impl Queued {
    /// Creates an empty queue of at most `most` bytes.
    pub(crate) fn new(most: usize) -> Self {
        Self { bytes: AtomicUsize::new(0), most, all: None }
    }

    /// Creates the queue of one of several logs, which has at most a quarter of the bytes of all.
    #[must_use]
    pub(crate) fn quarter(self: &Arc<Self>) -> Self {
        Self { all: Some(self.clone()), ..Self::new(self.most / 4) }
    }

    /// Counts the bytes of an event, if there is room for them.
    fn add(&self, bytes: usize) -> bool {
        let more = |queued: usize| queued.checked_add(bytes).filter(|sum| *sum <= self.most);
        if self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            return false;
        }
        let fits = self.all.as_ref().is_none_or(|all| all.add(bytes));
        if !fits {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        fits
    }

    fn remove(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(all) = &self.all {
            all.remove(bytes);
        }
    }
}

/// The log and its queue.
pub(crate) struct Log {
    queue: Mutex<Option<SyncSender<String>>>,
    queued: Arc<Queued>,
    done: Mutex<Option<oneshot::Receiver<()>>>,
    metrics: Metrics,
    limits: Arc<Limits>,
}

impl Log {
    /// Opens the file for appending, and creates a missing file with mode 0600. `-` is the standard output.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub(crate) fn open(path: &str, metrics: Metrics, limits: Arc<Limits>) -> io::Result<Self> {
        let queued = Queued::new(limits.audit_queue_bytes);
        Self::open_with(queued, path, metrics, limits)
    }

    /// As [`Self::open`], with this queue.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn open_with(queued: Queued, path: &str, metrics: Metrics, limits: Arc<Limits>) -> io::Result<Self> {
        if path == "-" {
            return Self::to(io::stdout(), queued, metrics, limits);
        }
        if let Some(folder) = Path::new(path).parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Self::to(options.open(path)?, queued, metrics, limits)
    }

    /// Writes to `output`.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(crate) fn to(
        output: impl Write + Send + 'static,
        queued: Queued,
        metrics: Metrics,
        limits: Arc<Limits>,
    ) -> io::Result<Self> {
        let (queue, lines) = sync_channel(limits.audit_queue_events);
        let (finished, done) = oneshot::channel();
        let queued = Arc::new(queued);
        let (counted, lost) = (queued.clone(), metrics.clone());
        std::thread::Builder::new().name("audit-log".to_owned()).spawn(move || {
            write_all(output, &lines, &counted, &lost);
            // `shutdown` may have stopped waiting, or may never be called.
            let _ = finished.send(());
        })?;
        Ok(Self { queue: Mutex::new(Some(queue)), queued, done: Mutex::new(Some(done)), metrics, limits })
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
}

impl Sink for Log {
    fn write(&self, line: String) {
        let bytes = line.len();
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        // Counted before the send, because the thread may write the line and subtract its bytes at once.
        if !self.queued.add(bytes) {
            self.metrics.lost(1);
        } else if queue.as_ref().is_none_or(|queue| queue.try_send(line).is_err()) {
            self.queued.remove(bytes);
            self.metrics.lost(1);
        }
    }
}

fn write_all(mut output: impl Write, lines: &Receiver<String>, queued: &Queued, metrics: &Metrics) {
    while let Ok(first) = lines.recv() {
        let (mut text, mut events) = (first, 1);
        while text.len() < WRITE_BYTES
            && let Ok(line) = lines.try_recv()
        {
            text.push_str(&line);
            events += 1;
        }
        if let Err(error) = output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
            metrics.lost(events);
            tracing::error!(%error, events, "audit events could not be written");
        }
        queued.remove(text.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Registry;
    use std::sync::mpsc;
    use std::time::Duration;

    fn metrics() -> Metrics {
        Metrics::register(&Registry::new()).unwrap()
    }

    fn lost(metrics: &Metrics) -> u64 {
        metrics.errors.with_label_values(&["log"]).get()
    }

    /// Blocks each write until the test opens the gate, and passes on the written bytes.
    struct Gate(mpsc::Receiver<()>, mpsc::Sender<Vec<u8>>, mpsc::Sender<()>);

    impl Write for Gate {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.2.send(());
            self.0.recv().map_err(io::Error::other)?;
            self.1.send(bytes.to_vec()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn appends_lines_and_keeps_others_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/audit.log");
        let text = path.to_str().unwrap();
        for line in ["one\n", "two\n"] {
            let log = Log::open(text, metrics(), Arc::default()).unwrap();
            log.write(line.to_owned());
            assert!(log.shutdown().await && log.shutdown().await);
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\n");
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
        assert!(Log::open(folder.path().to_str().unwrap(), metrics(), Arc::default()).is_err());
    }

    #[tokio::test]
    async fn a_blocked_disk_costs_events_and_not_time() {
        let (open, gate) = mpsc::channel();
        let (sink, written) = mpsc::channel();
        let (entered, entries) = mpsc::channel();
        let counters = metrics();
        let limits =
            Limits { audit_queue_events: 2, audit_flush_timeout: Duration::from_millis(1), ..Limits::default() };
        let log = Log::to(Gate(gate, sink, entered), Queued::new(100), counters.clone(), Arc::new(limits)).unwrap();
        log.write("first\n".to_owned());
        entries.recv().unwrap();
        // The thread is blocked in its write: two events are queued, the others are lost.
        for line in ["a\n", "b\n", "c\n", "d\n"] {
            log.write(line.to_owned());
        }
        assert_eq!(lost(&counters), 2);
        assert!(!log.shutdown().await, "it waits no longer than it may");
        log.write("late\n".to_owned());
        assert_eq!(lost(&counters), 3);
        open.send(()).unwrap();
        open.send(()).unwrap();
        let text: Vec<u8> = written.iter().take(2).flatten().collect();
        assert_eq!(text, b"first\na\nb\n");
    }

    #[tokio::test]
    async fn large_events_fill_the_queue_sooner() {
        let (open, gate) = mpsc::channel();
        let (entered, entries) = mpsc::channel();
        let counters = metrics();
        let log =
            Log::to(Gate(gate, mpsc::channel().0, entered), Queued::new(10), counters.clone(), Arc::default()).unwrap();
        log.write("12345678\n".to_owned());
        entries.recv().unwrap();
        log.write("12\n".to_owned());
        assert_eq!(lost(&counters), 1);
        // No receiver takes the written bytes, so the first event is lost too.
        open.send(()).unwrap();
        assert!(log.shutdown().await);
        assert_eq!(lost(&counters), 2);
    }

    #[test]
    fn one_of_several_logs_has_a_quarter_and_all_together_the_whole() {
        let all = Arc::new(Queued::new(100));
        let logs = [(); 5].map(|()| all.quarter());
        assert!(logs.iter().take(3).all(|log| log.add(25) && !log.add(1)));
        assert!(logs[3].add(20) && !logs[4].add(6) && logs[4].add(5));
        logs[0].remove(25);
        assert!(logs[3].add(5) && logs[4].add(20));
    }
}
