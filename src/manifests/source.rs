//! A plugin's value from files: loaded at the start, reloaded after changes, and replaced as a whole.

use super::{LoadError, Metrics};
use crate::server::reload::{self, Reloading};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The result of loading a folder.
#[derive(Debug)]
pub(crate) struct Loaded<T> {
    pub(crate) value: Arc<T>,
    /// The hash `sha256:…` of the files' text; empty for an empty folder.
    pub(crate) hash: String,
}

/// A value that is reloaded when its folder changes, or a constant without a folder.
#[derive(Debug)]
pub(crate) struct Source<T> {
    current: Reloading<Arc<T>>,
    is_followed: bool,
}

impl<T: Default> Default for Source<T> {
    fn default() -> Self {
        Self { current: Reloading::fixed(Arc::default()), is_followed: false }
    }
}

impl<T: Send + Sync + 'static> Source<T> {
    /// Loads the folder, and reloads it after changes until the source is dropped. A failed reload leaves the value unchanged;
    /// the failure is logged, and counted for the plugin. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// If the first load fails.
    pub(crate) fn follow(
        folder: PathBuf,
        plugin: &'static str,
        metrics: Metrics,
        load: impl Fn(&Path) -> Result<Loaded<T>, LoadError> + Send + Sync + 'static,
    ) -> Result<Self, LoadError> {
        let last: Mutex<Option<String>> = Mutex::default();
        let place = folder.clone();
        let counted = move || match load(&place) {
            Ok(Loaded { value, hash }) => {
                let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
                // A load with the hash of the last valid load does not count as a reload.
                if last.as_ref() != Some(&hash) {
                    metrics.loaded(plugin, last.as_deref(), &hash);
                    *last = Some(hash);
                }
                Ok(value)
            }
            Err(error) => {
                let is_reload = last.lock().unwrap_or_else(PoisonError::into_inner).is_some();
                if is_reload {
                    metrics.failed(plugin);
                }
                Err(error)
            }
        };
        let current = reload::watch_folder(folder, counted)?;
        Ok(Self { current, is_followed: true })
    }
}

impl<T> Source<T> {
    /// The current value. The `Arc` stays the same until the value changes.
    pub(crate) fn load(&self) -> Arc<T> {
        Arc::clone(&**self.current.load())
    }

    /// Whether the value comes from a folder.
    pub(crate) fn is_followed(&self) -> bool {
        self.is_followed
    }
}
