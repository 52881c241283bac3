//! Files of manifests.

use crate::config::line_of;
use crate::go_text::go_quote;
use crate::kind::{GroupVersionKind, split_api_version};
use crate::manifests::{LoadError, numbered_documents_of};
use crate::object::Object;
use crate::object::decode::{self, Decoded, InvalidJson, InvalidYaml};
use crate::object::normal::{self, Normal, NormalError};
use serde_json::Value;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The groups of the kinds with expressions. Their objects are of the cluster.
const GROUPS: [&str; 2] = ["admissionregistration.k8s.io", "apiextensions.k8s.io"];
/// The argument that stands for the standard input.
pub(super) const STANDARD_INPUT: &str = "-";
/// The endings of the files that count in a folder.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

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
    source: Source,
}

/// The place of an object in its file.
#[derive(Clone)]
struct Source {
    /// The text of the document.
    text: Arc<str>,
    /// The line of the document, from 1.
    line: usize,
    /// The path of the object in the document, with a dot at its end: empty but for an item of a list.
    path: String,
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

    /// The line of a field in the file, from 1: of the part of its path that the file has.
    pub(super) fn line_of(&self, field: &str) -> usize {
        let Source { text, line, path } = &self.source;
        let field = format!("{path}{field}");
        line + line_of(text, field.trim_end_matches('.')).saturating_sub(1)
    }
}

/// The files that an argument names: all manifests in and below a folder, or the file itself.
///
/// # Errors
/// If a folder cannot be read.
pub(super) fn files(named: &Path) -> std::io::Result<Vec<PathBuf>> {
    if !named.is_dir() {
        return Ok(vec![named.to_owned()]);
    }
    let mut entries = std::fs::read_dir(named)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    entries.sort();
    let has_ending = |path: &Path| path.extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known));
    let mut found = Vec::new();
    for path in entries {
        // A link to a folder may lead back to it.
        if path.is_dir() && !path.is_symlink() {
            found.extend(files(&path)?);
        } else if has_ending(&path) && path.is_file() {
            found.push(path);
        }
    }
    Ok(found)
}

/// Reads the objects in a file; `-` is the standard input.
///
/// # Errors
/// If the file cannot be read, or a document in it is not an object.
pub(super) fn read(file: &Path) -> Result<Vec<Manifest>, Unreadable> {
    let text = match file == Path::new(STANDARD_INPUT) {
        true => {
            let mut text = Vec::new();
            std::io::stdin().lock().read_to_end(&mut text)?;
            text
        }
        false => std::fs::read(file)?,
    };
    let mut manifests = Vec::new();
    for (line, document) in numbered_documents_of(&text)? {
        let is_json = document.starts_with(b"{");
        let decoded = if is_json { decode::json(&document)? } else { decode::yaml(&document)? };
        let Decoded { value, duplicates } = decoded;
        let duplicates = duplicates
            .iter()
            .map(|field| if is_json { format!("duplicate field {}", go_quote(field)) } else { field.clone() });
        let before = manifests.len();
        let text = String::from_utf8_lossy(&document).into();
        collect(file, value, &Source { text, line, path: String::new() }, &mut manifests)?;
        if let Some(first) = manifests.get_mut(before) {
            first.unknown.extend(duplicates);
        }
    }
    Ok(manifests)
}

/// Removes the namespace of an object of the cluster, as a create does before it validates (`rest.BeforeCreate`).
fn without_namespace(mut normal: Normal) -> Normal {
    normal.object.remove(&["metadata", "namespace"]);
    normal
}

/// Adds an object, or the items of a list.
fn collect(file: &Path, mut value: Value, source: &Source, manifests: &mut Vec<Manifest>) -> Result<(), Unreadable> {
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
        for (index, mut value) in items.into_iter().enumerate() {
            if let Value::Object(fields) = &mut value
                && !item.is_empty()
            {
                fields.entry("apiVersion").or_insert_with(|| api_version.clone().into());
                fields.entry("kind").or_insert_with(|| item.into());
            }
            let path = format!("{}items[{index}].", source.path);
            collect(file, value, &Source { path, ..source.clone() }, manifests)?;
        }
        return Ok(());
    }
    let (group, version) = split_api_version(&api_version);
    let kind = GroupVersionKind::new(group, version, kind);
    let name = value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let name = format!("{} {}", kind.kind, go_quote(name));
    let decoded = match GROUPS.contains(&group) {
        true => match normal::built_in(&kind, value.clone()) {
            Some(normal) => normal.map(without_namespace).map_err(Undecodable::NoForm),
            None => Err(Undecodable::UnknownKind { kind: kind.kind.clone(), api_version: api_version.clone() }),
        },
        // Another kind has no expressions, and may be unknown here.
        false => Ok(Normal { object: Object::from_value(value.clone()).unwrap_or_default(), unknown: Vec::new() }),
    };
    let (object, unknown) = match decoded {
        Ok(Normal { object, unknown }) => (Ok(object), unknown),
        Err(why) => (Err(why), Vec::new()),
    };
    let source = source.clone();
    manifests.push(Manifest { file: file.to_owned(), kind, name, value, object, unknown, source });
    Ok(())
}
