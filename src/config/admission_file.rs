//! The AdmissionConfiguration file (`admission.ReadAdmissionConfiguration`).

use super::PluginConfiguration;
use serde_json::{Map, Value};
use std::fs;
use std::path::{Path, PathBuf};

/// The apiVersions of the two known versions.
const VERSIONS: [&str; 2] = ["apiserver.k8s.io/v1alpha1", "apiserver.config.k8s.io/v1"];
pub(crate) const KIND: &str = "AdmissionConfiguration";
/// The groups of the two versions.
pub(crate) const GROUPS: [&str; 2] = ["apiserver.k8s.io", "apiserver.config.k8s.io"];

/// Before `AdmissionConfiguration` existed, the file was the configuration of these plugins.
const OPAQUE_KEYS: [&str; 2] = ["imagePolicy", "podNodeSelectorPluginConfig"];
const OPAQUE_PLUGINS: [&str; 2] = ["ImagePolicyWebhook", "PodNodeSelector"];

/// The reason why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    /// The file itself is not readable.
    #[error("unable to read admission control configuration from {path:?} [{reason}]")]
    Unreadable { path: PathBuf, reason: std::io::Error },
    /// A plugin's file is not readable.
    #[error("Couldn't open admission plugin configuration {path}: {reason}", path = path.display())]
    PluginUnreadable { path: PathBuf, reason: std::io::Error },
    /// The file is not valid YAML.
    #[error("{0}")]
    Syntax(String),
    /// The version or kind is missing or unknown.
    #[error("{0}")]
    Version(String),
    /// A field is unknown or has the wrong type.
    #[error("strict decoding error: {0}")]
    Fields(String),
}

/// The content of a file.
#[derive(Debug, Default)]
pub(crate) struct AdmissionFile {
    /// The configurations of plugins that run.
    pub(crate) configurations: Vec<(String, PluginConfiguration)>,
    /// The other names, each of which has no effect.
    pub(crate) unused: Vec<String>,
}

/// Returns the configuration of each of `plugins` that has an entry in the file.
pub(crate) fn read(file: &Path, plugins: &[&str]) -> Result<AdmissionFile, FileError> {
    let text = fs::read_to_string(file).map_err(|reason| FileError::Unreadable { path: file.to_owned(), reason })?;
    let value = yaml(&text)?;
    let entries = match entries(&value, &text) {
        Err(FileError::Version(_)) if OPAQUE_KEYS.iter().any(|key| value.get(key).is_some()) => {
            return Ok(AdmissionFile { configurations: opaque(file, &value, plugins), unused: Vec::new() });
        }
        other => other?,
    };
    let mut read = AdmissionFile::default();
    for (index, entry) in entries.into_iter().enumerate() {
        // The files of plugins that do not run are not opened.
        if !plugins.contains(&&*entry.name) {
            read.unused.push(entry.name);
            continue;
        }
        // The first entry of a name counts.
        if read.configurations.iter().any(|(name, _)| *name == entry.name) {
            continue;
        }
        if let Some(configuration) = entry.load(file, index)? {
            read.configurations.push((entry.name, configuration));
        }
    }
    Ok(read)
}

fn yaml(text: &str) -> Result<Value, FileError> {
    // The default options refuse duplicate keys.
    serde_saphyr::from_str(text).map_err(|error| FileError::Syntax(error.to_string()))
}

/// Returns the whole file as the configuration of the plugins without a kind of their own.
fn opaque(file: &Path, value: &Value, plugins: &[&str]) -> Vec<(String, PluginConfiguration)> {
    let configuration =
        || PluginConfiguration { origin: file.display().to_string(), directory: directory(file), value: value.clone() };
    let named = OPAQUE_PLUGINS.iter().filter(|name| plugins.contains(name));
    named.map(|name| ((*name).to_owned(), configuration())).collect()
}

/// One entry of `plugins`.
#[derive(Debug, Default)]
struct Entry {
    name: String,
    path: String,
    configuration: Option<Value>,
}

impl Entry {
    fn load(&self, file: &Path, index: usize) -> Result<Option<PluginConfiguration>, FileError> {
        if let Some(value) = &self.configuration {
            return Ok(Some(PluginConfiguration {
                origin: format!("{}: plugins[{index}].configuration", file.display()),
                directory: directory(file),
                value: value.clone(),
            }));
        }
        if self.path.is_empty() {
            return Ok(None);
        }
        let path = directory(file).join(&self.path);
        let unreadable = |reason| FileError::PluginUnreadable { path: path.clone(), reason };
        let value = yaml(&fs::read_to_string(&path).map_err(unreadable)?)?;
        Ok(Some(PluginConfiguration { origin: path.display().to_string(), directory: directory(&path), value }))
    }
}

/// Returns the folder that relative paths in `file` start from.
fn directory(file: &Path) -> PathBuf {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned()
}

fn entries(value: &Value, text: &str) -> Result<Vec<Entry>, FileError> {
    let Some(map) = value.as_object() else {
        return Err(FileError::Version(format!("Object 'Kind' is missing in '{}'", text.trim())));
    };
    check_version(map, value)?;
    let mut problems = Problems::default();
    problems.unknown("", map, &["apiVersion", "kind", "plugins"]);
    let mut entries = Vec::new();
    match map.get("plugins") {
        None | Some(Value::Null) => {}
        Some(Value::Array(list)) => {
            for (index, item) in list.iter().enumerate() {
                entries.push(problems.entry(&format!("plugins[{index}]"), item));
            }
        }
        Some(_) => problems.0.push("plugins: must be a list".to_owned()),
    }
    if problems.0.is_empty() { Ok(entries) } else { Err(FileError::Fields(problems.0.join(", "))) }
}

fn check_version(map: &Map<String, Value>, value: &Value) -> Result<(), FileError> {
    let field = |name: &str| map.get(name).and_then(Value::as_str).unwrap_or_default();
    let (version, kind) = (field("apiVersion"), field("kind"));
    let known = VERSIONS.contains(&version);
    let message = if kind.is_empty() {
        format!("Object 'Kind' is missing in '{value}'")
    } else if version.is_empty() {
        format!("Object 'apiVersion' is missing in '{value}'")
    } else if !known {
        format!("no kind {kind:?} is registered for version {version:?}: use {KIND} of {}", VERSIONS[1])
    } else if kind != KIND {
        format!("no kind {kind:?} is registered for version {version:?}: the kind must be {KIND}")
    } else {
        return Ok(());
    };
    Err(FileError::Version(message))
}

/// The errors in the fields, each in a few words.
#[derive(Default)]
struct Problems(Vec<String>);

impl Problems {
    fn unknown(&mut self, path: &str, map: &Map<String, Value>, known: &[&str]) {
        let dot = if path.is_empty() { "" } else { "." };
        let unknown = map.keys().filter(|key| !known.contains(&key.as_str()));
        self.0.extend(unknown.map(|key| format!("unknown field \"{path}{dot}{key}\"")));
    }

    fn entry(&mut self, path: &str, item: &Value) -> Entry {
        let Some(map) = item.as_object() else {
            self.0.push(format!("{path}: must be a mapping"));
            return Entry::default();
        };
        self.unknown(path, map, &["name", "path", "configuration"]);
        let configuration = map.get("configuration").filter(|value| !value.is_null()).cloned();
        Entry { name: self.text(path, map, "name"), path: self.text(path, map, "path"), configuration }
    }

    fn text(&mut self, path: &str, map: &Map<String, Value>, field: &str) -> String {
        match map.get(field) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(_) => {
                self.0.push(format!("{path}.{field}: must be a string"));
                String::new()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const PLUGINS: [&str; 3] = ["PodNodeSelector", "ValidatingAdmissionWebhook", "MutatingAdmissionWebhook"];

    fn read_text(text: &str) -> Result<AdmissionFile, String> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("beside.json"), r#"{"from": "path"}"#).unwrap();
        let file = folder.path().join("admission.yaml");
        fs::write(&file, text).unwrap();
        read(&file, &PLUGINS).map_err(|error| error.to_string())
    }

    fn values(text: &str) -> Vec<(String, Value)> {
        let read = read_text(text).unwrap().configurations;
        read.into_iter().map(|(name, configuration)| (name, configuration.value)).collect()
    }

    #[test]
    fn the_embedded_configuration_wins_over_the_path_and_the_first_entry_over_the_second() {
        let text = "
            apiVersion: apiserver.config.k8s.io/v1
            kind: AdmissionConfiguration
            plugins:
            - name: ValidatingAdmissionWebhook
              path: beside.json
              configuration: {from: entry}
            - name: MutatingAdmissionWebhook
              path: beside.json
            - name: MutatingAdmissionWebhook
              configuration: {from: second}
            - name: PodNodeSelector
            - name: NotEnabled
              path: not-there.yaml
        ";
        let of = |name: &str, from: &str| (name.to_owned(), json!({ "from": from }));
        assert_eq!(values(text), [of("ValidatingAdmissionWebhook", "entry"), of("MutatingAdmissionWebhook", "path")]);
        assert_eq!(read_text(text).unwrap().unused, ["NotEnabled"]);
    }

    #[test]
    fn the_first_version_in_json_is_read_too() {
        let text = r#"{"apiVersion": "apiserver.k8s.io/v1alpha1", "kind": "AdmissionConfiguration",
                       "plugins": [{"name": "PodNodeSelector", "configuration": {"a": 1}}]}"#;
        assert_eq!(values(text), [("PodNodeSelector".to_owned(), json!({"a": 1}))]);
    }

    #[test]
    fn a_file_from_before_the_kind_goes_whole_to_the_plugins_without_one() {
        let text = "podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: a=b}";
        let whole = json!({"podNodeSelectorPluginConfig": {"clusterDefaultNodeSelector": "a=b"}});
        assert_eq!(values(text), [("PodNodeSelector".to_owned(), whole)]);
    }

    #[test]
    fn errors_name_the_fault_of_the_file() {
        let good = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n";
        for (text, part) in [
            ("a: [".to_owned(), ""),
            ("just text".to_owned(), "Object 'Kind' is missing"),
            ("kind: AdmissionConfiguration".to_owned(), "Object 'apiVersion' is missing"),
            (
                good.replace("v1", "v9"),
                "no kind \"AdmissionConfiguration\" is registered for version \"apiserver.config.k8s.io/v9\"",
            ),
            (good.replace("kind: A", "kind: B"), "no kind \"BdmissionConfiguration\" is registered"),
            (format!("{good}plugin: []"), "strict decoding error: unknown field \"plugin\""),
            (format!("{good}plugins: [{{nam: x}}]"), "unknown field \"plugins[0].nam\""),
            (format!("{good}plugins: [{{name: 1}}]"), "plugins[0].name: must be a string"),
            (format!("{good}plugins: [x]"), "plugins[0]: must be a mapping"),
            (format!("{good}plugins: x"), "plugins: must be a list"),
            (format!("{good}kind: AdmissionConfiguration"), "duplicate"),
            (
                format!("{good}plugins: [{{name: PodNodeSelector, path: not-there}}]"),
                "Couldn't open admission plugin configuration",
            ),
        ] {
            let error = read_text(&text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        let error = read(Path::new("/not/there"), &[]).unwrap_err().to_string();
        assert!(error.starts_with("unable to read admission control configuration from \"/not/there\" ["), "{error}");
    }
}
