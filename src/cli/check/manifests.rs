//! Files of manifests.

use crate::go_text::go_quote;
use crate::kind::{GroupVersionKind, split_api_version};
use crate::manifests::{LoadError, documents_of};
use crate::object::Object;
use crate::object::decode::{self, Decoded, InvalidJson, InvalidYaml};
use crate::object::normal::{self, Normal, NormalError};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The groups of the kinds with expressions.
const GROUPS: [&str; 2] = ["admissionregistration.k8s.io", "apiextensions.k8s.io"];

/// One object in a file.
pub(super) struct Manifest {
    pub(super) file: PathBuf,
    pub(super) kind: GroupVersionKind,
    /// Kind and name.
    pub(super) name: String,
    /// The value as written.
    pub(super) value: Value,
    /// The object as kube-apiserver decodes it, or the error of the decoder.
    pub(super) object: Result<Object, Undecodable>,
    /// The errors of strict decoding.
    pub(super) unknown: Vec<String>,
}

/// The reason why an object cannot be decoded, with the text of kube-apiserver's decoder.
#[derive(Debug, thiserror::Error)]
pub(super) enum Undecodable {
    /// The object does not fit its kind.
    #[error(transparent)]
    NoForm(#[from] NormalError),
    /// The kind is unknown.
    #[error("no kind {} is registered for version {}", go_quote(kind), go_quote(api_version))]
    UnknownKind { kind: String, api_version: String },
}

/// The reason why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unreadable {
    /// The file cannot be opened.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The file has no documents.
    #[error(transparent)]
    Documents(#[from] LoadError),
    /// A document is no JSON.
    #[error(transparent)]
    Json(#[from] InvalidJson),
    /// A document is no YAML.
    #[error(transparent)]
    Yaml(#[from] InvalidYaml),
    /// An object lacks this field.
    #[error("an object has no {0}")]
    Missing(&'static str),
}

impl Manifest {
    /// Whether the object is of a group whose kinds may have expressions.
    pub(super) fn is_known(&self) -> bool {
        GROUPS.contains(&&*self.kind.group)
    }
}

/// Reads the objects in a file.
///
/// # Errors
/// If the file cannot be read, or a document in it is not an object.
pub(super) fn read(file: &Path) -> Result<Vec<Manifest>, Unreadable> {
    let text = std::fs::read(file)?;
    let mut manifests = Vec::new();
    for document in documents_of(&text)? {
        let is_json = document.starts_with(b"{");
        let decoded = if is_json { decode::json(&document)? } else { decode::yaml(&document)? };
        let Decoded { value, duplicates } = decoded;
        let duplicates = duplicates
            .iter()
            .map(|field| if is_json { format!("duplicate field {}", go_quote(field)) } else { field.clone() });
        let before = manifests.len();
        collect(file, value, &mut manifests)?;
        if let Some(first) = manifests.get_mut(before) {
            first.unknown.extend(duplicates);
        }
    }
    Ok(manifests)
}

/// Adds an object, or the items of a list.
fn collect(file: &Path, mut value: Value, manifests: &mut Vec<Manifest>) -> Result<(), Unreadable> {
    let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion").to_owned(), text("kind").to_owned());
    for (field, text) in [("apiVersion", &api_version), ("kind", &kind)] {
        if value.is_null() {
            return Ok(());
        }
        if text.is_empty() {
            return Err(Unreadable::Missing(field));
        }
    }
    if let Some(item) = kind.strip_suffix("List")
        && let Some(Value::Array(items)) = value.get_mut("items").map(Value::take)
    {
        for mut value in items {
            if let Value::Object(fields) = &mut value
                && !item.is_empty()
            {
                fields.entry("apiVersion").or_insert_with(|| api_version.clone().into());
                fields.entry("kind").or_insert_with(|| item.into());
            }
            collect(file, value, manifests)?;
        }
        return Ok(());
    }
    let (group, version) = split_api_version(&api_version);
    let kind = GroupVersionKind::new(group, version, kind);
    let name = value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let name = format!("{} {}", kind.kind, go_quote(name));
    let decoded = match GROUPS.contains(&group) {
        true => match normal::built_in(&kind, value.clone()) {
            Some(normal) => normal.map_err(Undecodable::NoForm),
            None => Err(Undecodable::UnknownKind { kind: kind.kind.clone(), api_version: api_version.clone() }),
        },
        // Another kind has no expressions, and may be unknown here.
        false => Ok(Normal { object: Object::from_value(value.clone()).unwrap_or_default(), unknown: Vec::new() }),
    };
    let (object, unknown) = match decoded {
        Ok(Normal { object, unknown }) => (Ok(object), unknown),
        Err(why) => (Err(why), Vec::new()),
    };
    manifests.push(Manifest { file: file.to_owned(), kind, name, value, object, unknown });
    Ok(())
}
