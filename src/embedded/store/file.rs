//! The file of a store: a log of changes in an embedded database (redb), from which the objects and the history are read at the start.
//!
//! Each change is one record under its resourceVersion, so a version of an object is written once. A record stays as long as it is the
//! current state of its object, a part of the history, or the state before a change of the history, as with etcd's compaction. A batch is one
//! transaction: after a crash the file has all of it or nothing.

use super::{Action, Change, Collection};
use crate::object::Object;
use redb::{Builder, Database, ReadableDatabase, ReadableTable, TableDefinition};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The version of the format. A change that this version cannot read needs the next number, and an upgrade in [`File::of`].
const FORMAT: u64 = 1;
/// The digits of a resourceVersion in the file of the lock.
const DIGITS: usize = 20;
/// The size in bytes from which a file is made smaller at the start, if more than half of it is free.
const COMPACTED_FROM: u64 = 16 << 20;

/// The numbers [`VERSION`], [`REVISION`] and [`FLOOR`].
const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("numbers");
/// The format of the file.
const VERSION: &str = "format";
/// The newest resourceVersion, which may be that of a record that is no longer needed.
const REVISION: &str = "revision";
/// The resourceVersion of the newest collection that was forgotten.
const FLOOR: &str = "floor";
/// The changes, as JSON, by resourceVersion.
const CHANGES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("changes");
/// The newest resourceVersion that was dropped from the history of a collection, by `resource.group`.
const FORGOTTEN: TableDefinition<'_, &str, u64> = TableDefinition::new("forgotten");

/// The reason why a data folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    /// Another process has the folder.
    #[error("{}: another process uses this folder", .0.display())]
    InUse(PathBuf),
    /// The format is unknown.
    #[error(
        "{}: the format is {found}, and this version reads format {FORMAT}: use the version that wrote the file, or a newer one",
        .path.display()
    )]
    Format {
        /// The file.
        path: PathBuf,
        /// The format of the file.
        found: u64,
    },
    /// The file has another content than this program writes.
    #[error("{}: {}: restore the folder from a copy", .0.display(), .1)]
    Damaged(PathBuf, String),
    /// The operating system refuses an access.
    #[error("{}", .0.display())]
    Access(PathBuf, #[source] std::io::Error),
    /// The database fails.
    #[error("{}: {}", .0.display(), .1)]
    Database(PathBuf, Box<redb::Error>),
}

/// A step of the log, in the store's order.
#[derive(Debug)]
pub(super) enum Entry {
    Change(Collection, Arc<Change>),
    /// The change of this resourceVersion has left the history; the records are no longer needed.
    Forget {
        collection: Collection,
        revision: u64,
        records: Vec<u64>,
    },
    /// The collection is gone at this resourceVersion, with these records.
    Drop {
        collection: Collection,
        revision: u64,
        records: Vec<u64>,
    },
}

/// A step of the log, with the record of a change. A record is made before the transaction, while the disk or writers are waited for.
pub(super) struct Step {
    entry: Entry,
    record: Vec<u8>,
}

impl From<Entry> for Step {
    fn from(entry: Entry) -> Self {
        let record = match &entry {
            Entry::Change(collection, change) => record(collection, change),
            Entry::Forget { .. } | Entry::Drop { .. } => Vec::new(),
        };
        Self { entry, record }
    }
}

/// The lock of a data folder. The locked file contains a resourceVersion that the file of the objects has reached.
#[derive(Debug)]
pub(crate) struct Lock(pub(crate) fs::File);

impl Lock {
    /// The resourceVersion; 0 if none is known.
    fn revision(&self) -> u64 {
        let mut digits = [0; DIGITS];
        let read = self.0.read_exact_at(&mut digits, 0).ok();
        read.and_then(|()| std::str::from_utf8(&digits).ok()?.parse().ok()).unwrap_or_default()
    }

    /// Notes a resourceVersion. It is a lower bound, so that a lost note does no harm, and no synchronization is needed.
    pub(crate) fn reached(&self, revision: u64) {
        let _ = self.0.write_all_at(format!("{revision:0DIGITS$}\n").as_bytes(), 0);
    }
}

/// The content of a file, without its changes.
#[derive(Default)]
pub(super) struct Content {
    /// The newest resourceVersion; 0 in a new file.
    pub revision: u64,
    /// The resourceVersion of the newest collection that was dropped.
    pub floor: u64,
    /// The newest resourceVersion that is missing in the history of a collection.
    pub forgotten: HashMap<Collection, u64>,
}

/// A change that was read from a file.
pub(super) struct Loaded {
    /// The resourceVersion.
    pub revision: u64,
    /// The object's key.
    pub key: String,
    /// The type of the change.
    pub action: Action,
    /// The object after the change.
    pub object: Object,
}

/// A change in the file.
#[derive(Deserialize, Serialize)]
struct Record<T, O> {
    group: T,
    resource: T,
    key: T,
    action: Action,
    object: O,
    /// The checksum ([`Record::checksum`]); missing in records of older versions of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sum: Option<u64>,
}

impl<T: AsRef<str>, O: AsRef<RawValue>> Record<T, O> {
    /// The first bytes of a SHA-256 over all fields. The database verifies pages when it opens a file, not when it reads them: a page that is
    /// damaged later and then copied by a write gets a new checksum of the database.
    fn checksum(&self, revision: u64) -> u64 {
        let mut hash = Sha256::new();
        hash.update(revision.to_be_bytes());
        hash.update([self.action as u8]);
        for text in [self.group.as_ref(), self.resource.as_ref(), self.key.as_ref()] {
            hash.update(text.as_bytes());
            hash.update([0]);
        }
        hash.update(self.object.as_ref().get().as_bytes());
        let mut first = [0; 8];
        first.iter_mut().zip(hash.finalize()).for_each(|(to, from)| *to = from);
        u64::from_be_bytes(first)
    }
}

/// An open file.
pub(crate) struct File {
    database: Database,
    path: PathBuf,
    /// The lock of the folder, held as long as the file is open.
    lock: Option<Arc<Lock>>,
}

impl File {
    /// Opens or creates a file, with a cache of this size in bytes.
    ///
    /// # Errors
    /// If the file cannot be used.
    pub(crate) fn open(path: &Path, cache_bytes: usize, lock: Arc<Lock>) -> Result<Self, FileError> {
        let database = builder(cache_bytes).create(path).map_err(|error| failed(path, error.into()))?;
        let had = lock.revision();
        let mut file = Self::of(database, path, Some(lock))?;
        let Content { revision, .. } = file.content()?;
        if revision < had {
            // The database takes an older state for the newest one if it finds damage there.
            let what = format!("it ends at resourceVersion {revision}, and had all changes up to {had}");
            return Err(FileError::Damaged(path.to_owned(), what));
        }
        let folder = path.parent().unwrap_or(Path::new("."));
        // The name of a new file must outlast a crash as well.
        let is_kept = fs::File::open(folder).and_then(|folder| folder.sync_all());
        is_kept.map_err(|error| FileError::Access(folder.to_owned(), error))?;
        file.compact()?;
        Ok(file)
    }

    /// A file in another place than a folder.
    #[cfg(test)]
    pub(crate) fn in_backend(backend: impl redb::StorageBackend) -> Result<Self, FileError> {
        let path = Path::new("test");
        let database = builder(1 << 20).create_with_backend(backend).map_err(|error| failed(path, error.into()))?;
        Self::of(database, path, None)
    }

    fn of(database: Database, path: &Path, lock: Option<Arc<Lock>>) -> Result<Self, FileError> {
        let file = Self { database, path: path.to_owned(), lock };
        let found = file.run(|database| {
            let write = database.begin_write()?;
            let found = {
                let mut numbers = write.open_table(NUMBERS)?;
                let found = numbers.get(VERSION)?.map(|version| version.value());
                if found.is_none() {
                    numbers.insert(VERSION, FORMAT)?;
                    write.open_table(CHANGES)?;
                    write.open_table(FORGOTTEN)?;
                }
                found.unwrap_or(FORMAT)
            };
            write.commit()?;
            Ok(found)
        })?;
        if found == FORMAT { Ok(file) } else { Err(FileError::Format { path: path.to_owned(), found }) }
    }

    /// The path of the file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads everything but the changes.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(super) fn content(&self) -> Result<Content, FileError> {
        self.run(|database| {
            let read = database.begin_read()?;
            let numbers = read.open_table(NUMBERS)?;
            let number = |name| Ok::<_, redb::Error>(numbers.get(name)?.map_or(0, |number| number.value()));
            let mut forgotten = HashMap::new();
            for row in read.open_table(FORGOTTEN)?.iter()? {
                let (name, revision) = row?;
                let (resource, group) = name.value().split_once('.').unwrap_or((name.value(), ""));
                let collection = Collection { group: group.to_owned().into(), resource: resource.to_owned().into() };
                forgotten.insert(collection, revision.value());
            }
            Ok(Content { revision: number(REVISION)?, floor: number(FLOOR)?, forgotten })
        })
    }

    /// Reads the changes, in their order.
    ///
    /// # Errors
    /// If the file cannot be read, or a change is unknown.
    pub(super) fn visit(&self, mut visit: impl FnMut(Collection, Loaded)) -> Result<(), FileError> {
        let unknown = self.run(|database| {
            for row in database.begin_read()?.open_table(CHANGES)?.iter()? {
                let (revision, record) = row?;
                let revision = revision.value();
                let unreadable = |error| Ok(Some(format!("the change {revision} is unreadable: {error}")));
                let record: Record<String, Box<RawValue>> = match serde_json::from_slice(record.value()) {
                    Ok(record) => record,
                    Err(error) => return unreadable(error),
                };
                if record.sum.is_some_and(|sum| sum != record.checksum(revision)) {
                    return Ok(Some(format!("the change {revision} differs from its checksum")));
                }
                let Record { group, resource, key, action, object, .. } = record;
                let object = match serde_json::from_str(object.get()) {
                    Ok(object) => object,
                    Err(error) => return unreadable(error),
                };
                visit(
                    Collection { group: group.into(), resource: resource.into() },
                    Loaded { revision, key, action, object },
                );
            }
            Ok(None)
        })?;
        unknown.map_or(Ok(()), |what| Err(FileError::Damaged(self.path.clone(), what)))
    }

    /// Writes a batch, up to a resourceVersion, and returns when the disk has it.
    ///
    /// # Errors
    /// If the batch cannot be written. Whether a later start finds the batch is then unknown.
    pub(super) fn write(&self, steps: &[Step], revision: u64) -> Result<(), FileError> {
        self.run(|database| {
            let write = database.begin_write()?;
            {
                let mut numbers = write.open_table(NUMBERS)?;
                let mut changes = write.open_table(CHANGES)?;
                let mut forgotten = write.open_table(FORGOTTEN)?;
                for Step { entry, record } in steps {
                    let unneeded = match entry {
                        Entry::Change(_, change) => {
                            changes.insert(change.revision, record.as_slice())?;
                            continue;
                        }
                        Entry::Forget { collection, revision, records } => {
                            forgotten.insert(name(collection).as_str(), revision)?;
                            records
                        }
                        Entry::Drop { collection, revision, records } => {
                            forgotten.remove(name(collection).as_str())?;
                            numbers.insert(FLOOR, revision)?;
                            records
                        }
                    };
                    for record in unneeded {
                        changes.remove(record)?;
                    }
                }
                numbers.insert(REVISION, revision)?;
            }
            write.commit()?;
            Ok(())
        })?;
        self.lock.iter().for_each(|lock| lock.reached(revision));
        Ok(())
    }

    /// Makes a large file smaller, if most of it is free.
    fn compact(&mut self) -> Result<(), FileError> {
        let pages = self.run(|database| {
            let write = database.begin_write()?;
            let stats = write.stats()?;
            write.abort()?;
            Ok(stats.allocated_pages().saturating_mul(stats.page_size() as u64))
        })?;
        let size = fs::metadata(&self.path).map_err(|error| FileError::Access(self.path.clone(), error))?.len();
        if size < COMPACTED_FROM || size / 2 < pages {
            return Ok(());
        }
        self.database.compact().map_err(|error| failed(&self.path, error.into()))?;
        Ok(())
    }

    fn run<T>(&self, transaction: impl FnOnce(&Database) -> Result<T, redb::Error>) -> Result<T, FileError> {
        transaction(&self.database).map_err(|error| failed(&self.path, error))
    }
}

fn builder(cache_bytes: usize) -> Builder {
    let mut builder = Database::builder();
    // A damaged file is an error then; the start reads the whole file anyway.
    builder.set_cache_size(cache_bytes).set_check_integrity_on_open(true);
    builder
}

fn failed(path: &Path, error: redb::Error) -> FileError {
    match error {
        redb::Error::DatabaseAlreadyOpen => FileError::InUse(path.to_owned()),
        redb::Error::Corrupted(why) => FileError::Damaged(path.to_owned(), why),
        redb::Error::Io(error) if matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof) => {
            FileError::Damaged(path.to_owned(), error.to_string())
        }
        redb::Error::UpgradeRequired(version) => {
            FileError::Damaged(path.to_owned(), format!("the database has the unknown format {version}"))
        }
        error => FileError::Database(path.to_owned(), Box::new(error)),
    }
}

/// The name of a custom resource's definition; the resource for a core one.
fn name(collection: &Collection) -> String {
    format!("{}.{}", collection.resource, collection.group)
}

fn record(collection: &Collection, change: &Change) -> Vec<u8> {
    let mut record = Record {
        group: &*collection.group,
        resource: &*collection.resource,
        key: change.key.as_str(),
        action: change.action,
        // Keys are strings, and no type here fails to serialize.
        object: to_raw_value(&*change.object).unwrap_or_default(),
        sum: None,
    };
    record.sum = Some(record.checksum(change.revision));
    serde_json::to_vec(&record).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use redb::backends::InMemoryBackend;
    use serde_json::json;

    fn with_record(revision: u64, record: &[u8]) -> Result<usize, FileError> {
        let file = File::in_backend(InMemoryBackend::new()).unwrap();
        let inserted = file.run(|database| {
            let write = database.begin_write()?;
            write.open_table(CHANGES)?.insert(revision, record)?;
            write.commit()?;
            Ok(())
        });
        inserted.unwrap();
        let mut count = 0;
        file.visit(|_, _| count += 1).map(|()| count)
    }

    #[test]
    fn a_damaged_record_is_found_even_if_the_database_has_a_checksum_of_it() {
        let object = Object::from_value(json!({"metadata": {"name": "a"}, "n": 1})).unwrap();
        let change = Change {
            revision: 7,
            key: "a".to_owned(),
            action: Action::Added,
            object: Arc::new(object),
            before: None,
            bytes: 9,
        };
        let written = record(&Collection::built_in("g", "things"), &change);
        assert_eq!(with_record(7, &written).unwrap(), 1);
        let text = String::from_utf8(written.clone()).unwrap();
        for (from, to) in
            [("\"n\":1", "\"n\":2"), ("\"g\"", "\"h\""), ("Added", "Deleted"), ("\"key\":\"a\"", "\"key\":\"b\"")]
        {
            let error = with_record(7, text.replace(from, to).as_bytes()).unwrap_err().to_string();
            assert!(error.contains("the change 7 differs from its checksum"), "{error}");
        }
        assert!(with_record(8, &written).is_err());
        // A record of an older version has no checksum.
        let mut old: serde_json::Value = serde_json::from_slice(&written).unwrap();
        old.as_object_mut().unwrap().remove("sum").unwrap();
        assert_eq!(with_record(7, old.to_string().as_bytes()).unwrap(), 1);
    }
}
