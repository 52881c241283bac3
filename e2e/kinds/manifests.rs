//! The manifests of the YAML files, with missing fields added.

use serde::Deserialize;
use serde_json::{Map, Value, json};

const FILES: [&str; 7] = [
    include_str!("core.yaml"),
    include_str!("workloads.yaml"),
    include_str!("others.yaml"),
    include_str!("extending.yaml"),
    include_str!("virtual.yaml"),
    include_str!("subresources.yaml"),
    include_str!("custom.yaml"),
];

/// One kind with two manifests.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub kind: String,
    /// The URL of the collection.
    #[serde(rename = "at")]
    pub collection: String,
    /// The smallest valid object.
    pub minimal: Value,
    /// An object with many of the kind's fields, and with many left to be defaulted.
    pub rich: Value,
    /// The change of the update and of the patches, as a merge patch of the rich object.
    #[serde(default = "nothing")]
    pub change: Value,
    /// The patch of the rich object's status.
    pub status: Option<Value>,
    /// Whether the rich object has a subresource `scale`.
    #[serde(default, rename = "scale")]
    pub has_scale: bool,
    /// Requests to subresources of the rich object.
    #[serde(default)]
    pub asked: Vec<Asked>,
    /// The pointer to the value that kube-apiserver itself writes last after the creation, and the value.
    pub settled: Option<[String; 2]>,
    /// The pointer to the value that kube-apiserver itself writes last after all changes of the rich object, and the value.
    pub settled_again: Option<[String; 2]>,
    /// Pointers to values of the object that differ from run to run.
    #[serde(default)]
    pub masked: Vec<String>,
    /// Whether the objects are neither changed nor deleted, since later entries need them.
    #[serde(default, rename = "kept")]
    pub is_kept: bool,
    /// Whether the objects are not stored.
    #[serde(default, rename = "only_created")]
    pub is_virtual: bool,
    /// Whether the objects may have no name.
    #[serde(default, rename = "nameless")]
    pub is_nameless: bool,
}

/// A request to a subresource.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    #[serde(rename = "of")]
    pub subresource: String,
    /// `post`, `put`, or a kind of patch.
    pub how: String,
    pub body: Value,
}

fn nothing() -> Value {
    json!({})
}

/// One object of an [`Entry`].
pub struct Manifest<'a> {
    pub entry: &'a Entry,
    pub name: String,
    pub object: Value,
}

/// Every entry of every file.
pub fn all() -> Vec<Entry> {
    let read = |text: &&str| {
        // Names such as `n` and `y` are no booleans.
        let options = serde_saphyr::options! { strict_booleans: true };
        serde_saphyr::from_str_with_options::<Vec<Entry>>(text, options).unwrap()
    };
    FILES.iter().flat_map(read).collect()
}

impl Entry {
    fn api_version(&self) -> String {
        match self.collection.split('/').collect::<Vec<_>>()[..] {
            ["", "api", version, ..] => version.to_owned(),
            ["", "apis", group, version, ..] => format!("{group}/{version}"),
            _ => panic!("no collection: {}", self.collection),
        }
    }

    /// The object with apiVersion, kind and, if it has none, the name `minimal` or `rich`.
    pub fn manifest(&self, object: &Value) -> Manifest<'_> {
        let default = if std::ptr::eq(object, &self.minimal) { "minimal" } else { "rich" };
        let mut object = object.clone();
        object["apiVersion"] = json!(self.api_version());
        object["kind"] = json!(self.kind);
        if !self.is_nameless && object["metadata"]["name"].is_null() {
            object["metadata"]["name"] = json!(default);
        }
        let name = object["metadata"]["name"].as_str().unwrap_or(default).to_owned();
        if object["metadata"].is_null() {
            object["metadata"] = json!({});
        }
        Manifest { entry: self, name, object }
    }
}

impl Manifest<'_> {
    pub fn url(&self) -> String {
        format!("{}/{}", self.entry.collection, self.name)
    }

    /// The required fields of an apply configuration.
    pub fn identity(&self) -> Value {
        json!({"apiVersion": self.object["apiVersion"], "kind": self.object["kind"]})
    }
}

/// `patch` merged into `value` by RFC 7396.
pub fn merged(value: &Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut result = value.as_object().cloned().unwrap_or_else(Map::new);
    for (key, patch) in patch {
        match patch {
            Value::Null => drop(result.remove(key)),
            _ => drop(result.insert(key.clone(), merged(value.get(key).unwrap_or(&Value::Null), patch))),
        }
    }
    Value::Object(result)
}
