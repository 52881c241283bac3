//! The file of the audit log, and its rotation as by lumberjack (`gopkg.in/natefinch/lumberjack.v2`).

use crate::config::AuditRotation;
use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The end of the name of a compressed file.
const COMPRESSED: &str = ".gz";
/// The time in the name of an old file, in UTC (`backupTimeFormat`).
const TIME: &str = "%Y-%m-%dT%H-%M-%S%.3f";
/// The length of that time.
const TIME_LENGTH: usize = "2006-01-02T15-04-05.000".len();
/// The times in milliseconds that are tried for the name of an old file.
const TRIED_NAMES: i64 = 1000;

/// Opens a file for appending, and creates it with its folders if it is missing (`AuditLogOptions.ensureLogFile`).
///
/// # Errors
/// If it cannot be opened.
pub(crate) fn ensure(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::os::unix::fs::DirBuilderExt::mode(fs::DirBuilder::new().recursive(true), 0o700).create(folder)?;
    }
    // The start does not wait for the reader of a named pipe.
    OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)
}

/// A file that is renamed when it is full.
pub(super) struct Rotating {
    path: PathBuf,
    rotation: AuditRotation,
    /// The file and its size; `None` until the first write, and after an error.
    open: Option<(File, u64)>,
    /// The rounds over old files that were asked for, and are not done.
    asked: Arc<AtomicUsize>,
    clock: fn() -> Timestamp,
}

impl Rotating {
    /// Rotates this file, in a folder whose old files another thread removes and compresses.
    pub(super) fn new(path: PathBuf, rotation: AuditRotation, clock: fn() -> Timestamp) -> Self {
        Self { path, rotation, open: None, asked: Arc::default(), clock }
    }

    /// Whether these bytes fit into the file as it is.
    pub(super) fn fits(&self, bytes: usize) -> bool {
        self.open.as_ref().map_or(0, |(_, size)| *size) + bytes as u64 <= self.rotation.bytes
    }

    /// Appends a text, to a new file if it does not fit (`Logger.Write`).
    ///
    /// # Errors
    /// If it cannot be written, or is larger than a file may be.
    pub(super) fn write(&mut self, text: &[u8]) -> io::Result<()> {
        let (length, most) = (text.len() as u64, self.rotation.bytes);
        if length > most {
            return Err(io::Error::other(format!("write length {length} exceeds maximum file size {most}")));
        }
        let (mut file, size) = match self.open.take() {
            Some((file, size)) if size + length <= most => (file, size),
            Some(_) => self.rotate()?,
            None => self.open_existing(length)?,
        };
        let written = file.write_all(text);
        // After an error the size is that of the file system, when the file is opened again.
        if written.is_ok() {
            self.open = Some((file, size + length));
        }
        written
    }

    /// `Logger.openExistingOrNew`
    fn open_existing(&mut self, length: u64) -> io::Result<(File, u64)> {
        self.ask_mill();
        match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.open_new(None),
            Err(error) => Err(error),
            Ok(found) if found.len() + length >= self.rotation.bytes => self.rotate(),
            Ok(found) => match OpenOptions::new().append(true).open(&self.path) {
                Ok(file) => Ok((file, found.len())),
                Err(_) => self.open_new(Some(&found)),
            },
        }
    }

    /// `Logger.rotate`
    fn rotate(&mut self) -> io::Result<(File, u64)> {
        let found = match fs::metadata(&self.path) {
            Ok(found) => Some(found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let opened = self.open_new(found.as_ref())?;
        self.ask_mill();
        Ok(opened)
    }

    /// Renames the file if it exists, and creates a new one with its mode and owner (`Logger.openNew`).
    fn open_new(&self, old: Option<&Metadata>) -> io::Result<(File, u64)> {
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mode = old.map_or(0o600, |old| old.mode() & 0o7777);
        if old.is_some() {
            fs::rename(&self.path, self.free_name()?)?;
        }
        let file = OpenOptions::new().append(true).create(true).mode(mode).open(&self.path)?;
        if let Some(old) = old {
            chown(&self.path, Some(old.uid()), Some(old.gid()))?;
        }
        Ok((file, 0))
    }

    /// The name of an old file. Another name than lumberjack's is chosen only where lumberjack would overwrite an old file.
    fn free_name(&self) -> io::Result<PathBuf> {
        let (stem, end) = split(&self.path);
        let now = (self.clock)();
        let mut names = (0..TRIED_NAMES).filter_map(|later| {
            let at = now.checked_add(SignedDuration::from_millis(later)).ok()?;
            Some(self.path.with_file_name(format!("{stem}-{}{end}", at.strftime(TIME))))
        });
        let is_free = |name: &PathBuf| {
            let compressed = PathBuf::from(format!("{}{COMPRESSED}", name.display()));
            fs::symlink_metadata(name).is_err() && fs::symlink_metadata(compressed).is_err()
        };
        names.find(is_free).ok_or_else(|| io::Error::other("no name for the old file is free"))
    }

    /// Removes and compresses old files in a thread, which ends afterwards (`Logger.mill`).
    fn ask_mill(&self) {
        if self.asked.fetch_add(1, Ordering::AcqRel) > 0 {
            // The thread that runs sees the number.
            return;
        }
        let (path, rotation, clock, asked) = (self.path.clone(), self.rotation.clone(), self.clock, self.asked.clone());
        let mill = move || loop {
            let seen = asked.load(Ordering::Acquire);
            if let Err(error) = tidy(&path, &rotation, clock()) {
                tracing::warn!(%error, "old files of the audit log could not be removed or compressed");
            }
            if asked.fetch_sub(seen, Ordering::AcqRel) == seen {
                return;
            }
        };
        if let Err(error) = std::thread::Builder::new().name("audit-log-mill".to_owned()).spawn(mill) {
            self.asked.store(0, Ordering::Release);
            tracing::warn!(%error, "old files of the audit log could not be removed or compressed");
        }
    }
}

/// The name of a file before and after the place of the time (`Logger.prefixAndExt`).
fn split(path: &Path) -> (String, String) {
    let name = path.file_name().map(OsStr::to_string_lossy).unwrap_or_default();
    let (stem, end) = name.split_at(name.rfind('.').unwrap_or(name.len()));
    (stem.to_owned(), end.to_owned())
}

/// The time in the name of an old file (`Logger.timeFromName`).
fn time_of(name: &str, stem: &str, end: &str) -> Option<Timestamp> {
    let time = name.strip_prefix(stem)?.strip_prefix('-')?.strip_suffix(end)?;
    let time = DateTime::strptime(TIME, time).ok().filter(|_| time.len() == TIME_LENGTH)?;
    TimeZone::UTC.to_timestamp(time).ok()
}

/// Removes and compresses old files (`Logger.millRunOnce`).
fn tidy(path: &Path, rotation: &AuditRotation, now: Timestamp) -> io::Result<()> {
    if rotation.backups == 0 && rotation.days == 0 && !rotation.compresses {
        return Ok(());
    }
    let (stem, end) = split(path);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut old = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let plain = name.strip_suffix(COMPRESSED).unwrap_or(&name).to_owned();
        if entry.file_type()?.is_dir() {
            continue;
        }
        if let Some(time) = time_of(&name, &stem, &end).or_else(|| time_of(&plain, &stem, &end)) {
            old.push((time, plain, name));
        }
    }
    // The newest first.
    old.sort_unstable();
    let oldest = match rotation.days {
        0 => None,
        days => i64::try_from(days.saturating_mul(24))
            .ok()
            .and_then(|hours| now.checked_sub(SignedDuration::from_secs(hours.saturating_mul(3600))).ok()),
    };
    let mut kept: Vec<String> = Vec::new();
    let mut first_error = Ok(());
    for (time, plain, name) in old.into_iter().rev() {
        // A file and its compressed form count once.
        if kept.last() != Some(&plain) {
            kept.push(plain.clone());
        }
        let file = folder.join(&name);
        let is_surplus = rotation.backups > 0 && kept.len() > rotation.backups;
        let done = if is_surplus || oldest.is_some_and(|oldest| time < oldest) {
            fs::remove_file(&file)
        } else if rotation.compresses && name == plain {
            compress(&file)
        } else {
            Ok(())
        };
        first_error = first_error.and(done);
    }
    first_error
}

/// Replaces a file by its compressed form (`compressLogFile`).
fn compress(plain: &Path) -> io::Result<()> {
    let mut name = plain.as_os_str().to_owned();
    name.push(COMPRESSED);
    let compressed = PathBuf::from(name);
    let mut from = File::open(plain)?;
    let found = from.metadata()?;
    let to =
        OpenOptions::new().write(true).create(true).truncate(true).mode(found.mode() & 0o7777).open(&compressed)?;
    let written = chown(&compressed, Some(found.uid()), Some(found.gid())).and_then(|()| {
        let mut packed = GzEncoder::new(to, Compression::default());
        io::copy(&mut from, &mut packed)?;
        packed.finish()?;
        fs::remove_file(plain)
    });
    if written.is_err() {
        // The plain file is there still.
        let _ = fs::remove_file(&compressed);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use std::io::Read;

    fn clock() -> Timestamp {
        "2026-11-29T10:20:30.0405Z".parse().unwrap()
    }

    fn rotation(bytes: u64) -> AuditRotation {
        AuditRotation { bytes, days: 0, backups: 0, compresses: false }
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = entries.collect();
        names.sort();
        names
    }

    #[test]
    fn a_full_file_is_renamed_and_nothing_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        drop(ensure(&path).unwrap());
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
        let mut file = Rotating::new(path.clone(), rotation(8), clock);
        for text in ["one\n", "two\n", "three\n", "four\n"] {
            file.write(text.as_bytes()).unwrap();
        }
        let [first, second] = ["audit-2026-11-29T10-20-30.040.log", "audit-2026-11-29T10-20-30.041.log"];
        assert_eq!(names(folder.path()), [first, second, "audit.log"]);
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!([first, second, "audit.log"].map(read), ["one\ntwo\n", "three\n", "four\n"]);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        let error = file.write(b"too long\n").unwrap_err().to_string();
        assert_eq!(error, "write length 9 exceeds maximum file size 8");
        file.write(b"ok\n").unwrap();
        assert_eq!(read("audit.log"), "four\nok\n");
        // A further process appends, or renames at once what is full.
        let mut file = Rotating::new(path.clone(), rotation(12), clock);
        file.write(b"abc\n").unwrap();
        assert_eq!(read("audit.log"), "abc\n");
        let mut file = Rotating::new(path.clone(), rotation(100), clock);
        file.write(b"def\n").unwrap();
        assert_eq!(read("audit.log"), "abc\ndef\n");
    }

    #[test]
    fn old_files_are_removed_by_number_and_age_and_compressed() {
        let day = |day: u32| format!("a-2026-11-{day:02}T00-00-00.000.log");
        let rows = [
            (0, 0, false, "1 2 3 4z"),
            (2, 0, false, "3 4z"),
            (0, 27, false, "3 4z"),
            (3, 27, true, "3z 4z"),
            (0, 0, true, "1z 2z 3z 4z"),
        ];
        for (backups, days, compresses, expected) in rows {
            let folder = tempfile::tempdir().unwrap();
            let others =
                ["a.log", "a-2026.log", "b-2026-11-01T00-00-00.000.log", "a-2026-11-01T00-00-00.0.log", "other"];
            others.into_iter().for_each(|name| fs::write(folder.path().join(name), name).unwrap());
            (1..4).for_each(|at| fs::write(folder.path().join(day(at)), "text").unwrap());
            fs::write(folder.path().join(day(4) + COMPRESSED), "packed").unwrap();
            let now = "2026-11-29T12:00:00Z".parse().unwrap();
            let rotation = AuditRotation { bytes: 1, days, backups, compresses };
            tidy(&folder.path().join("a.log"), &rotation, now).unwrap();
            let left: Vec<_> = (1..5)
                .filter_map(|at| {
                    let plain = folder.path().join(day(at));
                    let compressed = folder.path().join(day(at) + COMPRESSED);
                    match (plain.exists(), compressed.exists()) {
                        (true, false) => Some(at.to_string()),
                        (false, true) => Some(format!("{at}z")),
                        _ => None,
                    }
                })
                .collect();
            assert_eq!(left.join(" "), expected);
            assert!(others.iter().all(|name| folder.path().join(name).exists()));
            if compresses {
                let packed = fs::read(folder.path().join(day(3) + COMPRESSED)).unwrap();
                let mut text = String::new();
                GzDecoder::new(&*packed).read_to_string(&mut text).unwrap();
                assert_eq!(text, "text");
            }
        }
    }

    #[test]
    fn names_have_the_time_before_the_end() {
        for (path, stem, end) in [
            ("/x/audit.log", "audit", ".log"),
            ("audit", "audit", ""),
            ("/a.b/.log", "", ".log"),
            ("a.b.c", "a.b", ".c"),
        ] {
            assert_eq!(split(Path::new(path)), (stem.to_owned(), end.to_owned()));
        }
    }
}
