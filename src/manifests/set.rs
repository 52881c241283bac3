//! The objects of one plugin's folder by kind, each with a unique name.

use super::document::{self, Read};
use super::{SUFFIX, folder};
use crate::go_text::go_quote;
use crate::object::Object;
use crate::status::invalid::aggregate;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The reason why a folder or a file cannot be loaded. The texts are kube-apiserver's, with the file, the object and the field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LoadError {
    /// The plugin's configuration names no folder that may be used.
    #[error("staticManifestsDir: {0}")]
    Setting(String),
    /// A folder or a file cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// A document cannot be decoded as a known kind.
    #[error("{0}")]
    Undecodable(String),
    /// An item of a `v1` List cannot be decoded.
    #[error("failed to decode list item: {0}")]
    Item(Box<LoadError>),
    /// An object is invalid, or not allowed in a file.
    #[error("{0}")]
    Invalid(String),
    /// A document of a folder has a fault.
    #[error("error loading {}: {fault}", .file.display())]
    Document {
        /// The file with the document.
        file: PathBuf,
        fault: Box<LoadError>,
    },
    /// A file that a plugin reads as a whole has a fault.
    #[error("{}: {fault}", .file.display())]
    File { file: PathBuf, fault: Box<LoadError> },
}

impl LoadError {
    /// The error of a document that a decoder refuses.
    pub(super) fn undecodable(why: impl Display) -> Self {
        Self::Undecodable(why.to_string())
    }

    /// The error of an object with this fault.
    pub(super) fn invalid(why: impl Display) -> Self {
        Self::Invalid(why.to_string())
    }

    /// Adds the name of the file.
    pub(super) fn in_file(self, file: &Path) -> Self {
        Self::File { file: file.to_owned(), fault: Box::new(self) }
    }
}

/// The objects of a folder.
#[derive(Debug, Default)]
pub(crate) struct Set {
    /// The objects by kind and name.
    objects: BTreeMap<&'static str, BTreeMap<String, Object>>,
    hash: String,
}

/// The requirements for the objects of one plugin's folder.
pub(crate) struct Rules<'a> {
    /// The allowed kinds.
    pub(crate) kinds: &'static [&'static str],
    /// Returns the validation errors of an object, as `field: text` in the API's words.
    pub(crate) validate: &'a dyn Fn(&str, &Object) -> Vec<String>,
    /// Returns the error of an object that is valid in the API, but not allowed in a file.
    pub(crate) constrain: &'a dyn Fn(&str, &Object, &Path) -> Result<(), LoadError>,
}

impl Set {
    /// Reads a folder.
    ///
    /// # Errors
    /// If the folder or an object is invalid. Reading stops at the first error.
    pub(crate) fn load(folder: &Path, rules: &Rules<'_>) -> Result<Self, LoadError> {
        let contents = folder::read(folder)?;
        let mut set = Self { hash: contents.hash, ..Self::default() };
        let mut files = BTreeMap::new();
        for document in &contents.documents {
            let file = &document.file;
            set.accept(&document.text, file, rules, &mut files)
                .map_err(|fault| LoadError::Document { file: file.clone(), fault: Box::new(fault) })?;
        }
        Ok(set)
    }

    fn accept<'a>(
        &mut self,
        text: &[u8],
        file: &'a Path,
        rules: &Rules<'_>,
        files: &mut BTreeMap<(&'static str, String), &'a Path>,
    ) -> Result<(), LoadError> {
        let (kind, objects) = match document::read(text, rules.kinds)? {
            Read::Objects(kind, objects) => (kind.kind, objects),
            Read::Other(found) => return Err(LoadError::Undecodable(format!("unsupported resource type {found}"))),
            Read::List(items) => {
                return items.iter().try_for_each(|item| {
                    // `accept` decodes the item again. This call only adds the prefix to errors of the decoder.
                    document::read(item, rules.kinds).map_err(|fault| LoadError::Item(Box::new(fault)))?;
                    self.accept(item, file, rules, files)
                });
            }
        };
        let Some(kind) = rules.kinds.iter().copied().find(|known| **known == *kind) else { return Ok(()) };
        for object in &objects {
            if let Some(faults) = aggregate((rules.validate)(kind, object)) {
                return Err(LoadError::Invalid(format!("{kind} {}: {faults}", go_quote(object.name()))));
            }
        }
        for object in objects {
            let name = object.name().to_owned();
            check_name(&name, file)?;
            if let Some(before) = files.insert((kind, name.clone()), file) {
                return Err(LoadError::Invalid(format!(
                    "duplicate name {name:?} found in file {file:?} (previously seen in {before:?})"
                )));
            }
            (rules.constrain)(kind, &object, file)?;
            self.objects.entry(kind).or_default().insert(name, object);
        }
        Ok(())
    }

    /// The hash `sha256:…` of the files' text; empty for an empty folder.
    pub(crate) fn hash(&self) -> &str {
        &self.hash
    }

    /// The objects of a kind, sorted by name.
    pub(crate) fn objects(&self, kind: &str) -> impl Iterator<Item = &Object> {
        self.objects.get(kind).into_iter().flat_map(BTreeMap::values)
    }

    /// Takes the objects of a kind, sorted by name, as typed values.
    ///
    /// # Errors
    /// If an object does not fit the type, which does not happen to an object that was decoded as its kind.
    pub(crate) fn take<T: DeserializeOwned>(&mut self, kind: &str) -> Result<Arc<Vec<Arc<T>>>, LoadError> {
        let objects = self.objects.remove(kind).unwrap_or_default().into_iter().map(|(name, object)| {
            let typed = serde_json::from_value(object.into_value());
            typed.map(Arc::new).map_err(|error| LoadError::Invalid(format!("{kind} {name:?}: {error}")))
        });
        Ok(Arc::new(objects.collect::<Result<_, _>>()?))
    }
}

/// `ValidateManifestName`, without the check for duplicates.
fn check_name(name: &str, file: &Path) -> Result<(), LoadError> {
    if name.is_empty() {
        return Err(LoadError::Invalid(format!("resource in file {file:?} must have a name")));
    }
    if !name.ends_with(SUFFIX) {
        return Err(LoadError::Invalid(format!("{name:?} in file {file:?} must have a name ending with {SUFFIX:?}")));
    }
    Ok(())
}
