//! A plugin's value from one file in YAML or JSON, made again when the file changes.

use super::{LoadError, go_error};
use crate::server::reload::{self, Reloading};
use serde::de::DeserializeOwned;
use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The maximum bytes of the file.
const MAX_BYTES: u64 = 64 << 20;

/// A value that follows one file.
#[derive(Debug)]
pub(crate) struct FollowedFile<T>(Reloading<Arc<T>>);

impl<T: Send + Sync + 'static> FollowedFile<T> {
    /// Reads the file, decodes its content to a `W`, and makes the value from it; again after each change, until the value is
    /// dropped. A failed reload leaves the value unchanged, and is logged. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// If the first read fails; the error names the file.
    pub(crate) fn follow<W: DeserializeOwned, E: Display>(
        path: PathBuf,
        make: impl Fn(W) -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<Self, LoadError> {
        let file = path.clone();
        let load = move || {
            let made = read(&file).and_then(|text| make(decode(&text)?).map_err(LoadError::invalid));
            made.map(Arc::new).map_err(|fault| fault.in_file(&file))
        };
        reload::watch(vec![path], load).map(Self)
    }

    /// The current value. The `Arc` stays the same until the value changes.
    pub(crate) fn load(&self) -> Arc<T> {
        Arc::clone(&**self.0.load())
    }
}

fn read(path: &Path) -> Result<String, LoadError> {
    let (mut text, failed) = (String::new(), |error: std::io::Error| LoadError::Unreadable(go_error(&error)));
    File::open(path).map_err(failed)?.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(LoadError::Unreadable(format!("longer than {MAX_BYTES} bytes")));
    }
    Ok(text)
}

fn decode<W: DeserializeOwned>(text: &str) -> Result<W, LoadError> {
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(text).map_err(LoadError::undecodable);
    }
    serde_saphyr::from_str(text).map_err(LoadError::undecodable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::fs;

    fn follow(path: &Path) -> Result<FollowedFile<usize>, String> {
        let followed = FollowedFile::follow(path.to_owned(), |map: BTreeMap<String, u8>| match map.len() {
            0 => Err("nothing in it"),
            count => Ok(count),
        });
        followed.map_err(|why| why.to_string())
    }

    #[tokio::test]
    async fn yaml_and_json_are_read_and_followed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "a: 1\nb: 2\n").unwrap();
        let followed = follow(&path).unwrap();
        assert_eq!(*followed.load(), 2);
        fs::write(&path, r#" {"a": 1}"#).unwrap();
        while *followed.load() != 1 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_first_read_that_fails_is_an_error_with_the_files_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let fault = || follow(&path).unwrap_err();
        assert_eq!(fault(), format!("{}: no such file or directory", path.display()));
        for (text, why) in [("{}", "nothing in it"), ("a: x", ""), ("{\"a\": -1}", "invalid"), ("{", "EOF")] {
            fs::write(&path, text).unwrap();
            let fault = fault();
            assert!(fault.starts_with(&format!("{}: ", path.display())) && fault.contains(why), "{text}: {fault}");
        }
    }
}
