//! The manifests: what is in the YAML files, made complete.

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
    /// As little as is valid.
    pub minimal: Value,
    /// Much of what the kind can say, with as much left to be defaulted.
    pub rich: Value,
    /// What the update and the patches change, as a merge patch of the rich one.
    #[serde(default = "nothing")]
    pub change: Value,
    /// What the status of the rich one is patched with.
    pub status: Option<Value>,
    /// Whether the rich one has a subresource `scale`.
    #[serde(default, rename = "scale")]
    pub has_scale: bool,
    /// What is asked of subresources of the rich one.
    #[serde(default)]
    pub asked: Vec<Asked>,
    /// Where kube-apiserver itself writes, some time after the creation, and what it writes last.
    pub settled: Option<[String; 2]>,
    /// What is never the same twice, as pointers into the object.
    #[serde(default)]
    pub masked: Vec<String>,
    /// Neither is changed nor deleted: what comes after needs them.
    #[serde(default, rename = "kept")]
    pub is_kept: bool,
    /// Nothing is stored.
    #[serde(default, rename = "only_created")]
    pub is_virtual: bool,
    /// May have no name.
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
        // Names like `n` and `y` are no booleans.
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

    /// What an apply configuration must say.
    pub fn identity(&self) -> Value {
        json!({"apiVersion": self.object["apiVersion"], "kind": self.object["kind"]})
    }
}

/// `patch` merged into `value`, as RFC 7396 has it.
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
