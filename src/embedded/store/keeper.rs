//! The thread that writes a store's changes to its file: in batches, each of which is one transaction with one synchronization of the disk.
//! All changes that arrive during a synchronization are the next batch.

use super::file::{Entry, File, FileError, Step};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{mem, thread};
use tokio::sync::watch;

/// The longest time that a batch waits to become larger: a fraction of a synchronization.
const GATHERING: Duration = Duration::from_millis(1);

/// The store's end of the thread. Dropping it ends the thread after the last batch.
pub(super) struct Keeper {
    queue: Arc<Queue>,
    progress: watch::Receiver<Progress>,
}

/// How far the thread is. The channel ends after the file is closed.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    /// Every change up to this resourceVersion is in the file.
    pub revision: u64,
    /// The reason why nothing more is written.
    pub failure: Option<Arc<str>>,
}

#[derive(Default)]
struct Queue {
    batch: Mutex<Batch>,
    bell: Condvar,
}

/// The changes of the next batch. A transaction of the store is never in two batches.
#[derive(Default)]
struct Batch {
    entries: Vec<Entry>,
    /// The store's resourceVersion after the last change.
    revision: u64,
    /// Whether the thread ends after this batch.
    is_last: bool,
    /// Whether the thread has ended, so that no entries are kept.
    is_over: bool,
}

impl Queue {
    fn batch(&self) -> MutexGuard<'_, Batch> {
        self.batch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for entries, or for the end of the thread, at most until `end`, and takes the entries so far.
    fn take(&self, end: Option<Instant>) -> Batch {
        let is_idle = |batch: &mut Batch| batch.entries.is_empty() && !batch.is_last;
        let mut batch = match end {
            None => self.bell.wait_while(self.batch(), is_idle).unwrap_or_else(PoisonError::into_inner),
            Some(end) => {
                let time = end.saturating_duration_since(Instant::now());
                let waited = self.bell.wait_timeout_while(self.batch(), time, is_idle);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        Batch { entries: mem::take(&mut batch.entries), ..*batch }
    }

    fn end(&self) {
        let mut batch = self.batch();
        batch.is_over = true;
        batch.entries = Vec::new();
    }
}

impl Keeper {
    /// Starts the thread for a file that has everything up to `revision`.
    ///
    /// # Errors
    /// If the thread cannot start.
    pub(super) fn start(file: File, revision: u64) -> Result<Self, FileError> {
        let queue = Arc::<Queue>::default();
        let (sender, progress) = watch::channel(Progress { revision, failure: None });
        let (of_thread, path) = (queue.clone(), file.path().to_owned());
        let started = thread::Builder::new().name("data-dir".to_owned()).spawn(move || {
            let result = write_all(&file, &of_thread, &sender);
            of_thread.end();
            if let Err(error) = result {
                tracing::error!(%error, "the data folder cannot be written; no more requests are served");
                sender.send_modify(|progress| progress.failure = Some(error.to_string().into()));
            }
            // Another process may use the folder as soon as the channel has ended.
            drop(file);
            drop(sender);
        });
        started.map_err(|error| FileError::Access(path, error))?;
        Ok(Self { queue, progress })
    }

    /// Adds the changes of a transaction, which ended at `revision`. Must be called in the store's order.
    pub(super) fn push(&self, entries: &mut Vec<Entry>, revision: u64) {
        let mut batch = self.queue.batch();
        if batch.is_over {
            return entries.clear();
        }
        batch.entries.append(entries);
        batch.revision = revision;
        self.queue.bell.notify_one();
    }

    /// How far the thread is.
    pub(super) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.clone()
    }

    /// Lets the thread end after the changes so far.
    pub(super) fn close(&self) {
        self.queue.batch().is_last = true;
        self.queue.bell.notify_one();
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.close();
    }
}

/// Writes batches. The first entry of a batch waits a moment for as many as the last batch had: the writers that have got their answers are
/// likely to write again. The thread encodes the entries so far in this moment.
fn write_all(file: &File, queue: &Queue, progress: &watch::Sender<Progress>) -> Result<(), FileError> {
    let mut last = 0;
    loop {
        let mut batch = queue.take(None);
        let end = Instant::now() + GATHERING;
        let mut steps: Vec<Step> = batch.entries.drain(..).map(Step::from).collect();
        while steps.len() < last && !batch.is_last && Instant::now() < end {
            batch = queue.take(Some(end));
            steps.extend(batch.entries.drain(..).map(Step::from));
        }
        last = steps.len();
        if !steps.is_empty() {
            file.write(&steps, batch.revision)?;
            progress.send_modify(|progress| progress.revision = batch.revision);
        }
        if batch.is_last {
            return Ok(());
        }
    }
}
