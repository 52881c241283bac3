//! Objects of removed kinds, from the API server or from the folder that the plugin's configuration names.

use super::{LoadError, Loaded, Source, document, folder};
use crate::admission::{BuildError, PluginEnvironment};
use crate::cluster::{Cluster, RemovedKind};
use crate::config::OWN_API_VERSION;
use crate::go_text::go_quote;
use crate::object::Object;
use crate::object::structural::Structural;
use crate::removed::{self, Api};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The objects that a removed plugin reads.
pub(crate) enum RemovedObjects<P> {
    /// The objects of the API server.
    ApiServer(Arc<Cluster>),
    /// The objects of a folder.
    Files(Source<Files<P>>),
}

impl<P: RemovedKind> RemovedObjects<P> {
    /// The objects of the folder that the plugin's configuration names as `staticManifestsDir`, else those of the API server. The caller has
    /// checked the other fields of the configuration.
    ///
    /// # Errors
    /// If the folder, or an object in it, cannot be used.
    pub(crate) fn new(environment: &PluginEnvironment<'_>, plugin: &'static str) -> Result<Self, BuildError> {
        let Some(folder) = environment.configuration.and_then(|given| given.static_manifests_dir()) else {
            return Ok(Self::ApiServer(environment.cluster.clone()));
        };
        let metrics = environment.metrics.manifests().clone();
        let files = Source::follow(folder.clone(), plugin, metrics, Files::load);
        files.map(Self::Files).map_err(|why| BuildError::RemovedObjects { folder, fault: why.to_string() })
    }

    /// As [`Self::new`], for a plugin whose configuration is of the given kind and has no other field.
    ///
    /// # Errors
    /// As [`Self::new`]; also if the configuration is of another kind, or has another field.
    pub(crate) fn only(
        environment: &PluginEnvironment<'_>,
        plugin: &'static str,
        kind: &str,
    ) -> Result<Self, BuildError> {
        if let Some(given) = environment.configuration {
            given.expect_kind(OWN_API_VERSION, kind)?;
            let mut fields = given.value.as_object().into_iter().flat_map(|fields| fields.keys());
            if let Some(field) = fields.find(|field| !["apiVersion", "kind", "staticManifestsDir"].contains(&&***field))
            {
                return Err(given.invalid(format_args!("unknown field {field:?}")));
            }
        }
        Self::new(environment, plugin)
    }

    /// All objects, sorted by namespace and name.
    pub(crate) fn all(&self) -> Arc<Vec<Arc<P>>> {
        match self {
            Self::ApiServer(cluster) => cluster.all(),
            Self::Files(files) => files.load().sorted.clone(),
        }
    }

    /// The objects in a namespace, sorted by name.
    pub(crate) fn in_namespace(&self, namespace: &str) -> Vec<Arc<P>> {
        match self {
            Self::ApiServer(cluster) => cluster.in_namespace(namespace),
            Self::Files(files) => files.load().in_namespace(namespace),
        }
    }
}

/// The objects of a folder.
#[derive(Debug)]
pub(crate) struct Files<P> {
    /// By namespace, which may be empty, and name.
    by_key: BTreeMap<(String, String), Arc<P>>,
    sorted: Arc<Vec<Arc<P>>>,
}

impl<P> Default for Files<P> {
    fn default() -> Self {
        Self { by_key: BTreeMap::new(), sorted: Arc::default() }
    }
}

impl<P: RemovedKind> Files<P> {
    /// Reads a folder. Its files have objects of the kind, in the original group or in that of the definition.
    ///
    /// # Errors
    /// If a file cannot be read, or an object is of another kind, invalid, or not the only one of its name.
    fn load(folder: &Path) -> Result<Loaded<Self>, LoadError> {
        let contents = folder::read(folder)?;
        let schema = Structural::compile(P::API.schema()).map_err(LoadError::invalid)?;
        let mut by_key = BTreeMap::new();
        for each in &contents.documents {
            let failed = |fault: LoadError| fault.in_file(&each.file);
            for object in objects(&each.text).map_err(failed)? {
                let object = checked(P::API, &schema, object).map_err(failed)?;
                let key = (object.namespace().to_owned(), object.name().to_owned());
                let kept =
                    serde_json::from_value(object.into_value()).map_err(|why| failed(LoadError::undecodable(why)))?;
                if by_key.insert(key.clone(), Arc::new(P::project(kept).1)).is_some() {
                    return Err(failed(LoadError::Invalid(format!("a second {} {:?}", P::API.kind, key.1))));
                }
            }
        }
        let sorted = Arc::new(by_key.values().cloned().collect());
        Ok(Loaded { value: Arc::new(Self { by_key, sorted }), hash: contents.hash })
    }

    /// The objects in a namespace, sorted by name.
    fn in_namespace(&self, namespace: &str) -> Vec<Arc<P>> {
        let from = (namespace.to_owned(), String::new());
        let found = self.by_key.range(from..).take_while(|((of, _), _)| of == namespace);
        found.map(|(_, object)| object.clone()).collect()
    }
}

/// The objects of a document: one, or the items of a list.
fn objects(text: &[u8]) -> Result<Vec<Value>, LoadError> {
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
fn checked(api: &Api, schema: &Structural, value: Value) -> Result<Object, LoadError> {
    let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
    let groups = api.original_groups().chain(api.groups());
    let mut versions = groups.map(|group| crate::kind::api_version(group, api.version));
    if text("kind") != api.kind || !versions.any(|version| version == text("apiVersion")) {
        let (version, kind) = (text("apiVersion"), text("kind"));
        let wanted = crate::kind::api_version(api.group, api.version);
        return Err(LoadError::Invalid(format!("must be {wanted} {}, not {version:?} {kind:?}", api.kind)));
    }
    let normal = schema.normalize(value).map_err(LoadError::undecodable)?;
    let mut object = normal.object;
    let name = go_quote(object.name());
    if let Some(unknown) = normal.unknown.first() {
        return Err(LoadError::Invalid(format!("{} {name}: {unknown}", api.kind)));
    }
    if api.is_namespaced() == object.namespace().is_empty() {
        let needed = if api.is_namespaced() { "needs a namespace" } else { "must not have a namespace" };
        return Err(LoadError::Invalid(format!("{} {name}: metadata.namespace: {needed}", api.kind)));
    }
    removed::set_defaults(api, &mut object);
    match removed::validate(api, &object).first() {
        Some(cause) => Err(LoadError::Invalid(format!("{} {name}: {}: {}", api.kind, cause.field, cause.message))),
        None => Ok(object),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Need, Projection};
    use serde_json::json;

    #[derive(Debug, PartialEq)]
    struct Named(String);

    impl Projection for Named {
        const NEED: Need = Need::removed::<Self>("Named");
        const FIELDS: &'static [&'static str] = &[];
        type Object = Value;

        fn project(object: Value) -> (String, Self) {
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            (name.clone(), Self(name))
        }
    }

    impl RemovedKind for Named {
        const API: &'static Api = &removed::POD_PRESETS;
    }

    fn preset(name: &str, namespace: &str) -> Value {
        json!({
            "apiVersion": "settings.k8s.io/v1alpha1", "kind": "PodPreset", "metadata": {"name": name, "namespace": namespace},
            "spec": {"env": [{"name": "A", "value": "1"}]},
        })
    }

    fn load(documents: &[Value]) -> Result<Arc<Files<Named>>, String> {
        let folder = tempfile::tempdir().unwrap();
        for (at, document) in documents.iter().enumerate() {
            std::fs::write(folder.path().join(format!("{at}.yaml")), document.to_string()).unwrap();
        }
        Files::load(folder.path()).map(|loaded| loaded.value).map_err(|why| why.to_string())
    }

    #[test]
    fn objects_are_found_by_namespace_in_the_order_of_their_names() {
        let list = json!({"kind": "List", "apiVersion": "v1", "items": [preset("b", "n"), preset("a", "n")]});
        let files = load(&[preset("c", "m"), list]).unwrap();
        let names = |found: &[Arc<Named>]| found.iter().map(|each| each.0.clone()).collect::<Vec<_>>();
        assert_eq!(names(&files.in_namespace("n")), ["a", "b"]);
        assert_eq!(names(&files.sorted), ["c", "a", "b"]);
        assert!(files.in_namespace("x").is_empty());
    }

    #[test]
    fn a_wrong_object_is_named() {
        let mut unknown = preset("a", "n");
        unknown["spec"]["x"] = json!(1);
        let mut empty = preset("a", "n");
        empty["spec"] = json!({});
        let mut other = preset("a", "n");
        other["kind"] = json!("Pod");
        for (documents, why) in [
            (vec![unknown], "PodPreset \"a\": unknown field \"spec.x\""),
            (vec![empty], "PodPreset \"a\": spec.volumes.env.envFrom.volumeMounts: Required value"),
            (vec![other], "must be settings.k8s.io/v1alpha1 PodPreset, not \"settings.k8s.io/v1alpha1\" \"Pod\""),
            (vec![preset("a", "")], "PodPreset \"a\": metadata.namespace: needs a namespace"),
            (vec![preset("a", "n"), preset("a", "n")], "a second PodPreset \"a\""),
        ] {
            let error = load(&documents).unwrap_err();
            assert!(error.contains(why) && error.contains(".yaml: "), "{error}");
        }
    }
}
