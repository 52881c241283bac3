//! The lines that wait to be written. A line for which there is no room is dropped and counted: the reader of stderr may not read.

use prometheus::IntCounter;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The bytes of the lines that wait.
pub(super) const MAX_BYTES: usize = 1 << 20;

/// The number of dropped lines.
#[allow(clippy::expect_used, reason = "the name and the help are constants")]
pub(super) static DROPPED: LazyLock<IntCounter> = LazyLock::new(|| {
    IntCounter::new(
        "kube_admission_proxy_log_lines_dropped_total",
        "Number of lines of the log that were dropped because stderr was not read.",
    )
    .expect("a valid metric")
});

#[derive(Default)]
struct Queue {
    lines: Mutex<Waiting>,
    /// Announces lines to the writing thread.
    added: Condvar,
    /// Announces that all lines are written.
    written: Condvar,
}

#[derive(Default)]
struct Waiting {
    lines: Vec<String>,
    /// The bytes of these lines and of those that are being written.
    bytes: usize,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lines that wait for a writer, which clones share.
#[derive(Clone)]
pub(super) struct Output(Arc<Queue>);

impl Output {
    /// Starts the thread that writes the lines. It ends with the process.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(super) fn start(mut writer: impl Write + Send + 'static) -> io::Result<Self> {
        let queue = Arc::<Queue>::default();
        let output = Self(queue.clone());
        std::thread::Builder::new().name("log".into()).spawn(move || {
            loop {
                let waiting = queue.added.wait_while(queue.lock(), |waiting| waiting.lines.is_empty());
                let lines = std::mem::take(&mut waiting.unwrap_or_else(PoisonError::into_inner).lines);
                for line in lines {
                    // An output that is closed has no reader.
                    let _is_written = writer.write_all(line.as_bytes());
                    let mut waiting = queue.lock();
                    waiting.bytes -= line.len();
                    if waiting.bytes == 0 {
                        queue.written.notify_all();
                    }
                }
            }
        })?;
        Ok(output)
    }

    /// Adds a line.
    pub(super) fn push(&self, line: String) {
        let mut waiting = self.0.lock();
        if waiting.bytes + line.len() > MAX_BYTES {
            drop(waiting);
            DROPPED.inc();
            return;
        }
        waiting.bytes += line.len();
        waiting.lines.push(line);
        self.0.added.notify_one();
    }

    /// Waits until all lines are written, but not longer than this.
    pub(super) fn flush(&self, patience: Duration) {
        let _all = self.0.written.wait_timeout_while(self.0.lock(), patience, |waiting| waiting.bytes > 0);
    }
}
