//! Objects of removed kinds from a folder.

use super::{LoadError, Loaded, document, folder};
use crate::cluster::RemovedKind;
use crate::go_text::go_quote;
use crate::object::Object;
use crate::object::structural::Structural;
use crate::removed::{self, Api};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The objects of a removed kind.
#[derive(Debug)]
pub(crate) struct RemovedObjects<P> {
    /// By namespace, which may be empty, and name.
    by_key: BTreeMap<(String, String), Arc<P>>,
    sorted: Arc<Vec<Arc<P>>>,
}

impl<P> Default for RemovedObjects<P> {
    fn default() -> Self {
        Self { by_key: BTreeMap::new(), sorted: Arc::default() }
    }
}

impl<P: RemovedKind> RemovedObjects<P> {
    /// Reads a folder. Its files have objects of the kind, in the original group or in that of the definition.
    ///
    /// # Errors
    /// If a file cannot be read, or an object is of another kind, invalid, or not the only one of its name.
    pub(crate) fn load(folder: &Path) -> Result<Loaded<Self>, LoadError> {
        let contents = folder::read(folder).map_err(LoadError)?;
        let schema = Structural::compile(P::API.schema()).map_err(LoadError)?;
        let mut by_key = BTreeMap::new();
        for each in &contents.documents {
            let failed = |why: String| LoadError(format!("{}: {why}", each.file.display()));
            for object in objects(&each.text).map_err(failed)? {
                let object = checked(P::API, &schema, object).map_err(failed)?;
                let key = (object.namespace().to_owned(), object.name().to_owned());
                let kept = serde_json::from_value(object.into_value()).map_err(|why| failed(why.to_string()))?;
                if by_key.insert(key.clone(), Arc::new(P::project(kept).1)).is_some() {
                    return Err(failed(format!("a second {} {:?}", P::API.kind, key.1)));
                }
            }
        }
        let sorted = Arc::new(by_key.values().cloned().collect());
        Ok(Loaded { value: Arc::new(Self { by_key, sorted }), hash: contents.hash })
    }

    /// All objects, sorted by namespace and name.
    pub(crate) fn all(&self) -> Arc<Vec<Arc<P>>> {
        self.sorted.clone()
    }

    /// The objects in a namespace, sorted by name.
    pub(crate) fn in_namespace(&self, namespace: &str) -> Vec<Arc<P>> {
        let from = (namespace.to_owned(), String::new());
        let found = self.by_key.range(from..).take_while(|((of, _), _)| of == namespace);
        found.map(|(_, object)| object.clone()).collect()
    }
}

/// The objects of a document: one, or the items of a list.
fn objects(text: &[u8]) -> Result<Vec<Value>, String> {
    let value = document::value(text)?;
    match value {
        Value::Object(mut fields) if fields.get("items").is_some_and(Value::is_array) => {
            let Some(Value::Array(items)) = fields.remove("items") else { return Ok(Vec::new()) };
            Ok(items)
        }
        value => Ok(vec![value]),
    }
}

/// The object with its defaults, if it is a valid object of the API.
fn checked(api: &Api, schema: &Structural, value: Value) -> Result<Object, String> {
    let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
    let groups = api.original_groups().chain(api.groups());
    let mut versions = groups.map(|group| crate::kind::api_version(group, api.version));
    if text("kind") != api.kind || !versions.any(|version| version == text("apiVersion")) {
        let (version, kind) = (text("apiVersion"), text("kind"));
        let wanted = crate::kind::api_version(api.group, api.version);
        return Err(format!("must be {wanted} {}, not {version:?} {kind:?}", api.kind));
    }
    let normal = schema.normalize(value)?;
    let mut object = normal.object;
    let name = go_quote(object.name());
    if let Some(unknown) = normal.unknown.first() {
        return Err(format!("{} {name}: {unknown}", api.kind));
    }
    if api.is_namespaced() == object.namespace().is_empty() {
        let needed = if api.is_namespaced() { "needs a namespace" } else { "must not have a namespace" };
        return Err(format!("{} {name}: metadata.namespace: {needed}", api.kind));
    }
    removed::set_defaults(api, &mut object);
    match removed::validate(api, &object).first() {
        Some(cause) => Err(format!("{} {name}: {}: {}", api.kind, cause.field, cause.message)),
        None => Ok(object),
    }
}
