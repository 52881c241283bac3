//! What a plugin has from files: read at the start, followed afterwards, swapped as one.

use super::{LoadError, Metrics};
use crate::server::reload::{self, Reloading};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// What a folder comes to.
#[derive(Debug)]
pub struct Loaded<T> {
    /// The value.
    pub value: Arc<T>,
    /// `sha256:…` of the text that it is made of; empty where there is none.
    pub hash: String,
}

/// A value that follows a folder; or one that never changes, where there is no folder.
#[derive(Debug)]
pub struct Source<T> {
    current: Reloading<Arc<T>>,
    is_followed: bool,
}

impl<T: Default> Default for Source<T> {
    fn default() -> Self {
        Self { current: Reloading::fixed(Arc::default()), is_followed: false }
    }
}

impl<T: Send + Sync + 'static> Source<T> {
    /// Loads the folder, and follows it for as long as this lives. A later failure leaves the value as it is; it is logged, and
    /// counted for the plugin. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// When the first load fails.
    pub fn follow(
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
                // What was broken meanwhile and is as before is no reload.
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
    /// The current value; the same `Arc` until it changes.
    pub fn load(&self) -> Arc<T> {
        Arc::clone(&**self.current.load())
    }

    /// Whether there is a folder.
    pub fn is_followed(&self) -> bool {
        self.is_followed
    }
}
