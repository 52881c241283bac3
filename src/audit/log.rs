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

/// The log and its queue.
pub struct Log {
    queue: Mutex<Option<SyncSender<String>>>,
    waiting_bytes: Arc<AtomicUsize>,
    done: Mutex<Option<oneshot::Receiver<()>>>,
    metrics: Metrics,
    limits: Arc<Limits>,
}

impl Log {
    /// Opens the file for appending, and creates a missing file with mode 0600. `-` is the standard output.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn open(path: &str, metrics: Metrics, limits: Arc<Limits>) -> io::Result<Self> {
        if path == "-" {
            return Self::to(io::stdout(), metrics, limits);
        }
        if let Some(folder) = Path::new(path).parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Self::to(options.open(path)?, metrics, limits)
    }

    /// Writes to `output`.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn to(output: impl Write + Send + 'static, metrics: Metrics, limits: Arc<Limits>) -> io::Result<Self> {
        let (queue, lines) = sync_channel(limits.audit_queue_events);
        let (finished, done) = oneshot::channel();
        let waiting_bytes = Arc::new(AtomicUsize::new(0));
        let (counted, lost) = (waiting_bytes.clone(), metrics.clone());
        std::thread::Builder::new().name("audit-log".to_owned()).spawn(move || {
            write_all(output, &lines, &counted, &lost);
            // `shutdown` may have stopped waiting, or may never be called.
            let _ = finished.send(());
        })?;
        Ok(Self { queue: Mutex::new(Some(queue)), waiting_bytes, done: Mutex::new(Some(done)), metrics, limits })
    }

    /// Closes the queue, and waits until the queued events are written. Returns whether that happened in time.
    pub async fn shutdown(&self) -> bool {
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
        let fits = self.waiting_bytes.load(Ordering::Relaxed).saturating_add(bytes) <= self.limits.audit_queue_bytes;
        // Counted before the send, because the thread may write the line and subtract its bytes at once.
        self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        let queued = fits && queue.as_ref().is_some_and(|queue| queue.try_send(line).is_ok());
        if !queued {
            self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.metrics.lost(1);
        }
    }
}

fn write_all(mut output: impl Write, lines: &Receiver<String>, waiting_bytes: &AtomicUsize, metrics: &Metrics) {
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
        waiting_bytes.fetch_sub(text.len(), Ordering::Relaxed);
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
        let limits = Limits {
            audit_queue_events: 2,
            audit_queue_bytes: 100,
            audit_flush_timeout: Duration::from_millis(1),
            ..Limits::default()
        };
        let log = Log::to(Gate(gate, sink, entered), counters.clone(), Arc::new(limits)).unwrap();
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
        let log = Log::to(
            Gate(gate, mpsc::channel().0, entered),
            counters.clone(),
            Arc::new(Limits { audit_queue_bytes: 10, ..Limits::default() }),
        )
        .unwrap();
        log.write("12345678\n".to_owned());
        entries.recv().unwrap();
        log.write("12\n".to_owned());
        assert_eq!(lost(&counters), 1);
        // No receiver takes the written bytes, so the first event is lost too.
        open.send(()).unwrap();
        assert!(log.shutdown().await);
        assert_eq!(lost(&counters), 2);
    }
}
