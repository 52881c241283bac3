//! Values made from files, and made again when the files change.
//!
//! Kubernetes updates a mounted secret by swapping a symlink beside the files, so the directories of the files are
//! watched. A slow poll catches changes that the watch misses, and replaces a watch that cannot be set up.

use arc_swap::{ArcSwap, Guard};
use notify::{EventKind, RecursiveMode, Watcher};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::sync::watch::{Receiver, Sender, channel};
use tokio::task::JoinHandle;

/// The interval of reads without a watch event.
const POLL_INTERVAL: Duration = Duration::from_secs(60);
/// The delay from the first watch event to the read: changes come in groups, and a file that is written all the time must
/// not be read all the time.
const CHANGE_DELAY: Duration = Duration::from_millis(100);

/// The time for which a replaced value waits for its last holder.
const RETIREMENT: Duration = Duration::from_secs(1);

/// The demands to read all files again: their number.
static DEMANDS: LazyLock<Sender<u64>> = LazyLock::new(|| channel(0).0);

/// Has every value of the process made again from its files, whether or not a watch has seen a change. Each says in the log what it did.
pub(crate) fn read_all_again() {
    DEMANDS.send_modify(|demands| *demands += 1);
}

/// A value that follows the files from which it was made. Dropping it ends the watch.
#[derive(Debug)]
pub(crate) struct Reloading<T> {
    current: Arc<ArcSwap<T>>,
    forced: Arc<Notify>,
    task: Option<JoinHandle<()>>,
}

impl<T> Reloading<T> {
    /// Creates a value that never changes.
    pub(crate) fn fixed(value: T) -> Self {
        Self { current: Arc::new(ArcSwap::from_pointee(value)), forced: Arc::default(), task: None }
    }

    /// Returns a guard of the current value, for a short use.
    pub(crate) fn load(&self) -> Guard<Arc<T>> {
        self.current.load()
    }

    /// Returns the value for other holders; it follows the files as long as `self` lives.
    pub(crate) fn shared(&self) -> Arc<ArcSwap<T>> {
        Arc::clone(&self.current)
    }

    /// Returns a notifier that has the value made again, even if no watched file has changed.
    pub(crate) fn forced(&self) -> Arc<Notify> {
        Arc::clone(&self.forced)
    }

    /// Returns the current value, to keep.
    pub(crate) fn load_full(&self) -> Arc<T> {
        self.current.load_full()
    }
}

impl<T> Drop for Reloading<T> {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// Makes a value from these files, now and after each change of one of them. If a later `load` fails, the value stays as
/// it is and the failure is logged. Must be called inside a tokio runtime.
///
/// # Errors
/// If the first `load` fails.
pub(crate) fn watch<T, E>(
    paths: Vec<PathBuf>,
    load: impl Fn() -> Result<T, E> + Send + Sync + 'static,
) -> Result<Reloading<T>, E>
where
    T: Send + Sync + 'static,
    E: std::fmt::Display + Send + 'static,
{
    start(Watched::Files(paths), load)
}

/// Makes a value from all files in a folder, but not in folders below it, now and after each change.
///
/// # Errors
/// If the first `load` fails.
pub(crate) fn watch_folder<T, E>(
    folder: PathBuf,
    load: impl Fn() -> Result<T, E> + Send + Sync + 'static,
) -> Result<Reloading<T>, E>
where
    T: Send + Sync + 'static,
    E: std::fmt::Display + Send + 'static,
{
    start(Watched::Folder(folder), load)
}

/// The watched files.
#[derive(Debug)]
enum Watched {
    Files(Vec<PathBuf>),
    Folder(PathBuf),
}

impl Watched {
    /// Returns the files that exist now.
    fn files(&self) -> Cow<'_, [PathBuf]> {
        match self {
            Self::Files(paths) => Cow::Borrowed(paths),
            Self::Folder(folder) => {
                let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
                let is_file = |path: &PathBuf| path.metadata().is_ok_and(|metadata| metadata.is_file());
                let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_file).collect();
                files.sort();
                Cow::Owned(files)
            }
        }
    }

    fn directories(&self) -> BTreeSet<&Path> {
        match self {
            Self::Files(paths) => paths.iter().map(|path| directory(path)).collect(),
            Self::Folder(folder) => BTreeSet::from([folder.as_path()]),
        }
    }
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn start<T, E>(watched: Watched, load: impl Fn() -> Result<T, E> + Send + Sync + 'static) -> Result<Reloading<T>, E>
where
    T: Send + Sync + 'static,
    E: std::fmt::Display + Send + 'static,
{
    // Both happen before the first load, so that no change between the two is missed.
    let seen = fingerprint(&watched);
    let changed = Arc::new(Notify::new());
    let watcher = watch_directories(&watched, Arc::clone(&changed));
    let current = Arc::new(ArcSwap::from_pointee(load()?));
    let forced = Arc::<Notify>::default();
    let wakes = Wakes { changed, forced: Arc::clone(&forced), demands: DEMANDS.subscribe(), _watcher: watcher };
    let task = tokio::spawn(follow(watched, seen, Arc::new(load), Arc::clone(&current), wakes));
    Ok(Reloading { current, forced, task: Some(task) })
}

/// The reason for a read of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// A change of the files, or the time: they count only if they differ.
    Time,
    /// The value must be made again even if the files have not changed.
    Forced,
    /// A person asks, who wants to know what was done.
    Demand,
}

/// The events after which the files are read.
struct Wakes {
    /// An event of the watch.
    changed: Arc<Notify>,
    /// A demand to make the value again.
    forced: Arc<Notify>,
    /// The demands to read all files again.
    demands: Receiver<u64>,
    _watcher: Option<notify::RecommendedWatcher>,
}

impl Wakes {
    /// Waits until the files must be read.
    async fn next(&mut self) -> Cause {
        tokio::select! {
            () = self.forced.notified() => return Cause::Forced,
            // The sender is never dropped.
            _ = self.demands.changed() => return Cause::Demand,
            () = self.changed.notified() => {}
            () = tokio::time::sleep(POLL_INTERVAL) => return Cause::Time,
        }
        tokio::time::sleep(CHANGE_DELAY).await;
        Cause::Time
    }
}

async fn follow<T, E>(
    watched: Watched,
    mut seen: [u8; 32],
    load: Arc<impl Fn() -> Result<T, E> + Send + Sync + 'static>,
    current: Arc<ArcSwap<T>>,
    mut wakes: Wakes,
) where
    T: Send + Sync + 'static,
    E: std::fmt::Display + Send + 'static,
{
    let watched = Arc::new(watched);
    let mut failed = false;
    loop {
        let cause = wakes.next().await;
        let (files, load, current) = (Arc::clone(&watched), Arc::clone(&load), Arc::clone(&current));
        let attempt = tokio::task::spawn_blocking(move || {
            let now = fingerprint(&files);
            let replace = |value| {
                let old = current.swap(Arc::new(value));
                tracing::info!(?files, "reloaded");
                retire(old);
            };
            (now != seen || failed || cause == Cause::Forced).then(|| (now, load().map(replace)))
        });
        let Ok(attempt) = attempt.await else { continue };
        let Some((now, result)) = attempt else {
            if cause == Cause::Demand {
                tracing::info!(files = ?watched, "read again: unchanged");
            }
            continue;
        };
        seen = now;
        failed = result.is_err();
        if let Err(error) = result {
            tracing::error!(files = ?watched, %error, "cannot reload; the last content stays in use");
        }
    }
}

/// Drops a replaced value on this thread rather than on that of a request, because the drop of a large value takes long. Waits
/// [`RETIREMENT`] at most for requests that still hold the value.
fn retire<T>(old: Arc<T>) {
    let begun = Instant::now();
    while Arc::strong_count(&old) > 1 && begun.elapsed() < RETIREMENT {
        std::thread::sleep(RETIREMENT / 100);
    }
}

/// Returns a digest of the files' contents, so that no secret is kept. An unreadable file counts as a content of its own.
fn fingerprint(watched: &Watched) -> [u8; 32] {
    let mut digest = Sha256::new();
    for path in watched.files().iter() {
        if matches!(watched, Watched::Folder(_)) {
            digest.update(path.as_os_str().as_encoded_bytes());
            digest.update([0]);
        }
        match std::fs::read(path) {
            Ok(content) => {
                digest.update((content.len() as u64).to_be_bytes());
                digest.update(content);
            }
            Err(_) => digest.update(u64::MAX.to_be_bytes()),
        }
    }
    digest.finalize().into()
}

/// Whether an event may be a change of one of the files. Other files of the directory may change often: a log beside a certificate must
/// not cause a read of the certificate for each of its lines.
/// Without `names`, every file of the directory counts.
fn concerns(event: &notify::Event, names: Option<&BTreeSet<OsString>>) -> bool {
    // A read of the files is an event too, and must not cause another read.
    let is_change = !matches!(event.kind, EventKind::Access(_));
    let is_named = |path: &PathBuf| {
        let Some(names) = names else { return true };
        path.file_name().is_some_and(|name| {
            // The kubelet swaps a symlink `..data` below the files, and names its versions `..` and their time.
            names.contains(name) || name.as_encoded_bytes().starts_with(b"..")
        })
    };
    event.need_rescan() || (is_change && event.paths.iter().any(is_named))
}

fn watch_directories(watched: &Watched, changed: Arc<Notify>) -> Option<notify::RecommendedWatcher> {
    let names: Option<BTreeSet<OsString>> = match watched {
        Watched::Files(paths) => Some(paths.iter().filter_map(|path| path.file_name()).map(OsString::from).collect()),
        Watched::Folder(_) => None,
    };
    let on_event = move |event: notify::Result<notify::Event>| {
        if event.map_or(true, |event| concerns(&event, names.as_ref())) {
            changed.notify_one();
        }
    };
    let directories = watched.directories();
    let watching = notify::recommended_watcher(on_event).and_then(|mut watcher| {
        for directory in directories {
            watcher.watch(directory, RecursiveMode::NonRecursive)?;
        }
        Ok(watcher)
    });
    watching.inspect_err(|error| tracing::warn!(%error, "cannot watch files; polling them every minute")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::sync::mpsc;

    fn number(path: &Path) -> Result<u32, String> {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        text.trim().parse().map_err(|_| "no number".to_owned())
    }

    /// A watch of one number, and the outcome of each load after the first.
    fn watched(path: &Path) -> (Reloading<u32>, mpsc::UnboundedReceiver<bool>) {
        let (loaded, loads) = mpsc::unbounded_channel();
        let (file, first) = (path.to_owned(), AtomicUsize::new(0));
        let load = move || {
            let result = number(&file);
            if first.fetch_add(1, Ordering::Relaxed) > 0 {
                loaded.send(result.is_ok()).unwrap();
            }
            result
        };
        (watch(vec![path.to_owned()], load).unwrap(), loads)
    }

    async fn becomes(value: &Reloading<u32>, wanted: u32) {
        while **value.load() != wanted {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn follows_a_changed_file_and_keeps_the_old_value_when_the_new_is_bad() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("number");
        std::fs::write(&file, "1").unwrap();
        let (value, mut loads) = watched(&file);
        assert_eq!(**value.load(), 1);

        std::fs::write(&file, "none").unwrap();
        while loads.recv().await.unwrap() {}
        assert_eq!(**value.load(), 1);

        std::fs::write(&file, "2").unwrap();
        becomes(&value, 2).await;
    }

    #[tokio::test]
    async fn follows_a_swapped_symlink_as_kubernetes_mounts_do() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for (version, content) in [("v1", "1"), ("v2", "2")] {
            std::fs::create_dir(at(version)).unwrap();
            std::fs::write(at(version).join("number"), content).unwrap();
        }
        std::os::unix::fs::symlink("v1", at("..data")).unwrap();
        std::os::unix::fs::symlink("..data/number", at("number")).unwrap();
        let (value, _loads) = watched(&at("number"));
        assert_eq!(**value.load(), 1);

        std::os::unix::fs::symlink("v2", at("..data_tmp")).unwrap();
        std::fs::rename(at("..data_tmp"), at("..data")).unwrap();
        becomes(&value, 2).await;
    }

    #[test]
    fn only_changes_of_the_files_and_of_their_link_targets_matter() {
        use notify::event::{AccessKind, CreateKind, Flag, ModifyKind};
        let names = BTreeSet::from(["tls.crt".into(), "tls.key".into()]);
        let modify = EventKind::Modify(ModifyKind::Any);
        for (kind, path, wanted) in [
            (modify, "/certs/tls.crt", true),
            (EventKind::Create(CreateKind::Any), "/certs/tls.key", true),
            (EventKind::Create(CreateKind::Any), "/certs/..data", true),
            (EventKind::Access(AccessKind::Any), "/certs/tls.crt", false),
            (modify, "/certs/access.log", false),
            (modify, "/certs", false),
        ] {
            assert_eq!(
                concerns(&notify::Event::new(kind).add_path(path.into()), Some(&names)),
                wanted,
                "{kind:?} {path}"
            );
        }
        let renamed =
            notify::Event::new(modify).add_path("/certs/tls.crt.new".into()).add_path("/certs/tls.crt".into());
        assert!(concerns(&renamed, Some(&names)));
        assert!(concerns(&notify::Event::new(EventKind::Other).set_flag(Flag::Rescan), Some(&names)));
    }

    #[tokio::test]
    async fn the_watch_ends_with_its_value() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("number");
        std::fs::write(&file, "1").unwrap();
        let (value, mut loads) = watched(&file);
        drop(value);
        // The sender lives in the task's closure.
        assert_eq!(loads.recv().await, None);
    }

    #[tokio::test]
    async fn a_first_load_that_fails_is_the_callers_error() {
        let missing = PathBuf::from("/nonexistent/number");
        let file = missing.clone();
        assert!(watch(vec![missing], move || number(&file)).is_err());
    }
}
