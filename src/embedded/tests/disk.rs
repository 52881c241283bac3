//! A disk in memory that can crash, fail and stop.

use crate::embedded::store::File;
use redb::StorageBackend;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// An access that changes the disk.
#[derive(Clone, Debug)]
enum Step {
    Length(u64),
    Bytes(u64, Vec<u8>),
    /// All earlier steps survive a crash.
    Sync,
}

#[derive(Debug, Default)]
struct Platter {
    bytes: Vec<u8>,
    /// The content before the journal.
    first: Vec<u8>,
    /// The changes of the disk since then, in order.
    journal: Vec<Step>,
    is_full: bool,
    is_paused: bool,
}

/// A disk. A clone is the same disk.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk(Arc<(Mutex<Platter>, Condvar)>);

/// The effect of a crash on a write that was not synchronized.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fate {
    Lost,
    /// The first half is on the disk.
    Torn,
    Written,
}

impl Disk {
    /// The file on this disk.
    pub(super) fn file(&self) -> File {
        File::in_backend(self.clone()).unwrap()
    }

    fn platter(&self) -> MutexGuard<'_, Platter> {
        self.0.0.lock().unwrap()
    }

    /// The number of steps so far.
    pub(super) fn now(&self) -> usize {
        self.platter().journal.len()
    }

    /// The disk after a crash at this step. The fates are those of the writes since the last synchronization before it, over and over.
    pub(super) fn after_crash(&self, at: usize, fates: &[Fate]) -> Self {
        let platter = self.platter();
        let (mut bytes, journal) = (platter.first.clone(), platter.journal[..at].to_vec());
        drop(platter);
        let safe = journal.iter().rposition(|step| matches!(step, Step::Sync)).unwrap_or(0);
        let mut fates = fates.iter().cycle();
        for (n, step) in journal.into_iter().enumerate() {
            let fate = if n < safe { Fate::Written } else { *fates.next().unwrap() };
            match (step, fate) {
                (Step::Sync, _) | (_, Fate::Lost) => {}
                (Step::Length(length), _) => bytes.resize(length as usize, 0),
                (Step::Bytes(offset, data), fate) => {
                    let length = if matches!(fate, Fate::Torn) { data.len() / 2 } else { data.len() };
                    let range = range(offset, length);
                    // A write to a part that the lost resizing would have added is lost as well.
                    if let Some(place) = bytes.get_mut(range) {
                        place.copy_from_slice(&data[..length]);
                    }
                }
            }
        }
        Self(Arc::new((Mutex::new(Platter { first: bytes.clone(), bytes, ..Platter::default() }), Condvar::new())))
    }

    /// Lets all writes fail from now on, or no longer.
    pub(super) fn fill(&self, is_full: bool) {
        self.platter().is_full = is_full;
    }

    /// Lets synchronizations wait from now on, or no longer.
    pub(super) fn pause(&self, is_paused: bool) {
        self.platter().is_paused = is_paused;
        self.0.1.notify_all();
    }

    fn step(&self, step: Step) -> io::Result<MutexGuard<'_, Platter>> {
        let mut platter = self.platter();
        if platter.is_full {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        platter.journal.push(step);
        Ok(platter)
    }
}

fn range(offset: u64, length: usize) -> Range<usize> {
    offset as usize..offset as usize + length
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.platter().bytes.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let platter = self.platter();
        let found = platter.bytes.get(range(offset, out.len()));
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.step(Step::Length(length))?.bytes.resize(length as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut platter = self.platter();
        while platter.is_paused {
            platter = self.0.1.wait(platter).unwrap();
        }
        drop(platter);
        drop(self.step(Step::Sync)?);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut platter = self.step(Step::Bytes(offset, data.to_vec()))?;
        platter.bytes[range(offset, data.len())].copy_from_slice(data);
        Ok(())
    }
}
