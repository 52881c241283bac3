//! The folder of `--data-dir`: the file of the objects, and the keys that a restart must not change. One process has it at a time.

use super::{File, FileError, Lock};
use crate::server::certificates::Authority;
use rcgen::KeyPair;
use std::fs::{self, DirBuilder, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file that a process locks as long as it uses the folder.
const LOCK: &str = "lock";
/// The objects.
const OBJECTS: &str = "objects.redb";
/// The private key that signs service account tokens.
const TOKEN_KEY: &str = "service-account.key";
/// The certificate of the server's own authority, and its key.
const AUTHORITY: (&str, &str) = ("ca.crt", "ca.key");
/// The lifetime of the authority in days, as with kubeadm.
const AUTHORITY_DAYS: i32 = 3650;

/// A data folder that this process has locked. The server's file holds the lock too.
pub(crate) struct DataDir {
    path: PathBuf,
    lock: Arc<Lock>,
}

impl DataDir {
    /// Opens a folder, which is created if it does not exist.
    ///
    /// # Errors
    /// If another process uses the folder, or it cannot be written.
    pub(crate) fn open(path: &Path) -> Result<Self, FileError> {
        let failed = |error| FileError::Access(path.to_owned(), error);
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
        let lock =
            OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(path.join(LOCK));
        let lock = lock.map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), lock: Arc::new(Lock(lock)) }),
            Err(TryLockError::WouldBlock) => Err(FileError::InUse(path.to_owned())),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    /// The file of the objects, with a cache of this size in bytes.
    ///
    /// # Errors
    /// If the file cannot be used.
    pub(in crate::embedded) fn objects(&self, cache_bytes: usize) -> Result<File, FileError> {
        let path = self.path.join(OBJECTS);
        if !path.exists() {
            self.lock.reached(0);
            // A crash while a database is made leaves a file that is none.
            let unfinished = self.path.join(format!("{OBJECTS}.new"));
            let _ = fs::remove_file(&unfinished);
            let empty = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished);
            empty.map_err(|error| FileError::Access(unfinished.clone(), error))?;
            drop(File::open(&unfinished, cache_bytes, self.lock.clone())?);
            fs::rename(&unfinished, &path).map_err(|error| FileError::Access(path.clone(), error))?;
        }
        File::open(&path, cache_bytes, self.lock.clone())
    }

    /// The path of the key that signs service account tokens, which is made if it does not exist.
    ///
    /// # Errors
    /// If the key cannot be made or written.
    pub(crate) fn token_key(&self) -> Result<PathBuf, FileError> {
        let path = self.path.join(TOKEN_KEY);
        if !path.exists() {
            let key = KeyPair::generate().map_err(|error| FileError::Access(path.clone(), io::Error::other(error)))?;
            self.write(TOKEN_KEY, &key.serialize_pem())?;
        }
        Ok(path)
    }

    /// The server's own authority of this name, which is made if it does not exist or soon expires.
    ///
    /// # Errors
    /// If the authority cannot be read, made or written.
    pub(crate) fn authority(&self, common_name: &str) -> Result<Authority, FileError> {
        let (certificate, key) = (self.path.join(AUTHORITY.0), self.path.join(AUTHORITY.1));
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error| FileError::Access(path, error)
        };
        if certificate.exists() && key.exists() {
            let pem = fs::read_to_string(&certificate).map_err(failed(&certificate))?;
            let key_pem = fs::read_to_string(&key).map_err(failed(&key))?;
            let unfit = |why: String| FileError::Damaged(certificate.clone(), why);
            let known = Authority::restore(common_name, &pem, &key_pem).map_err(|error| unfit(error.to_string()))?;
            if known.is_fresh() {
                return Ok(known);
            }
        }
        let made = Authority::create(common_name, AUTHORITY_DAYS);
        let made = made.map_err(|error| failed(&certificate)(io::Error::other(error)))?;
        self.write(AUTHORITY.1, &made.key_pem())?;
        self.write(AUTHORITY.0, &made.pem())?;
        Ok(made)
    }

    /// Writes a file that only this user may read, in one step.
    fn write(&self, name: &str, text: &str) -> Result<(), FileError> {
        let (path, unfinished) = (self.path.join(name), self.path.join(format!("{name}.new")));
        let write = || {
            let _ = fs::remove_file(&unfinished);
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&unfinished, &path)?;
            fs::File::open(&self.path)?.sync_all()
        };
        write().map_err(|error| FileError::Access(path.clone(), error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_second_owner_is_refused_until_the_first_one_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        let first = DataDir::open(&path).unwrap();
        let error = DataDir::open(&path).err().unwrap().to_string();
        assert_eq!(error, format!("{}: another process uses this folder", path.display()));
        let objects = first.objects(1 << 20).unwrap();
        drop(first);
        assert!(matches!(DataDir::open(&path), Err(FileError::InUse(_))), "the open file keeps the lock");
        drop(objects);
        DataDir::open(&path).unwrap();
    }

    #[test]
    fn keys_stay_the_same_and_are_private() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::open(folder.path()).unwrap();
        let key = fs::read(data.token_key().unwrap()).unwrap();
        assert_eq!(fs::read(data.token_key().unwrap()).unwrap(), key);
        let authority = data.authority("test").unwrap().pem();
        assert_eq!(data.authority("test").unwrap().pem(), authority);
        drop(data.objects(1 << 20).unwrap());
        for name in [OBJECTS, LOCK, TOKEN_KEY, AUTHORITY.0, AUTHORITY.1] {
            let mode = fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
    }

    #[test]
    fn an_authority_without_its_key_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::open(folder.path()).unwrap();
        let authority = data.authority("test").unwrap().pem();
        fs::remove_file(folder.path().join(AUTHORITY.1)).unwrap();
        assert_ne!(data.authority("test").unwrap().pem(), authority);
        fs::write(folder.path().join(AUTHORITY.1), "no key").unwrap();
        assert!(matches!(data.authority("test"), Err(FileError::Damaged(..))));
    }
}
