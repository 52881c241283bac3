//! The configuration of one plugin, and the flags that concern plugins.

use serde::de::DeserializeOwned;
use std::fmt::Display;
use std::path::PathBuf;

/// The apiVersion of the proxy's own configurations of plugins.
pub(crate) const OWN_API_VERSION: &str = "config.kube-admission-proxy.dev/v1alpha1";

/// The reason why a plugin cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The plugin has no configuration, but needs one.
    #[error("{0}")]
    Unconfigured(&'static str),
    /// The configuration is invalid.
    #[error("{origin}: {fault}")]
    Configuration {
        /// The source of the configuration.
        origin: String,
        /// The fault, with the field. The text is that of a plugin's own error type: the operator reads it, and no code depends on it.
        fault: String,
    },
    /// The folder with webhook configurations or policies cannot be loaded.
    #[error("failed to load static {content} manifests from {folder:?}: {fault}")]
    Manifests {
        /// `webhook` or `policy`.
        content: &'static str,
        folder: PathBuf,
        /// The fault, in one line.
        fault: String,
    },
    /// The folder with objects of a removed API cannot be loaded.
    #[error("staticManifestsDir: {}: {fault}", .folder.display())]
    RemovedObjects { folder: PathBuf, fault: String },
    /// The metrics of the plugin cannot be registered.
    #[error(transparent)]
    Metrics(#[from] prometheus::Error),
    /// A plugin of a chain cannot be built.
    #[error("couldn't init admission plugin {plugin:?}: {why}")]
    Plugin {
        /// The name of the plugin.
        plugin: &'static str,
        /// The reason.
        why: Box<BuildError>,
    },
}

/// One plugin's configuration from the AdmissionConfiguration file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PluginConfiguration {
    /// The source of the configuration, for messages: a file, or a file and the plugin's entry.
    pub(crate) origin: String,
    /// The folder that relative paths in the configuration start from.
    pub(crate) directory: PathBuf,
    /// The configuration as JSON.
    pub(crate) value: serde_json::Value,
}

impl PluginConfiguration {
    /// The folder that the configuration names as `staticManifestsDir`, if it names one; relative to the configuration's folder.
    pub(crate) fn static_manifests_dir(&self) -> Option<PathBuf> {
        let folder = self.value.get("staticManifestsDir")?.as_str().filter(|folder| !folder.is_empty())?;
        Some(self.directory.join(folder))
    }

    /// Returns the error of a configuration with this fault.
    pub(crate) fn invalid(&self, fault: impl Display) -> BuildError {
        BuildError::Configuration { origin: self.origin.clone(), fault: fault.to_string() }
    }

    /// Checks that the configuration has this apiVersion and kind.
    ///
    /// # Errors
    /// If the apiVersion or kind differs; the error names the file.
    pub(crate) fn expect_kind(&self, api_version: &str, kind: &str) -> Result<(), BuildError> {
        let text = |field: &str| self.value.get(field).and_then(serde_json::Value::as_str).unwrap_or_default();
        let given = (text("apiVersion"), text("kind"));
        if given == (api_version, kind) {
            return Ok(());
        }
        let (version, found) = given;
        Err(self.invalid(format_args!("must be {api_version} {kind}, not {version:?} {found:?}")))
    }

    /// Checks that the configuration has one of these pairs of apiVersion and kind; errors recommend the first one.
    ///
    /// # Errors
    /// If the apiVersion or kind is missing or unknown; the error names the file.
    pub(crate) fn expect_kind_among(&self, known: &[(&str, &str)]) -> Result<(), BuildError> {
        let text = |field: &str| self.value.get(field).and_then(serde_json::Value::as_str).unwrap_or_default();
        let (version, kind) = (text("apiVersion"), text("kind"));
        let why = if kind.is_empty() {
            "kind: must be set".to_owned()
        } else if version.is_empty() {
            "apiVersion: must be set".to_owned()
        } else if !known.contains(&(version, kind)) {
            format!("no kind {kind:?} is registered for version {version:?}")
        } else {
            return Ok(());
        };
        let (wanted_version, wanted) = known.first().copied().unwrap_or_default();
        Err(self.invalid(format_args!("{why}: {wanted} of {wanted_version} is wanted")))
    }

    /// Decodes the fields of a configuration of this apiVersion and kind, without these two.
    ///
    /// # Errors
    /// If the apiVersion or kind differs, or a field is invalid; the error names the file.
    pub(crate) fn decode<T: DeserializeOwned>(&self, api_version: &str, kind: &str) -> Result<T, BuildError> {
        self.expect_kind(api_version, kind)?;
        let mut value = self.value.clone();
        if let Some(fields) = value.as_object_mut() {
            fields.retain(|field, _| !["apiVersion", "kind"].contains(&&**field));
        }
        serde_json::from_value(value).map_err(|error| self.invalid(error))
    }
}

/// `tolerationSeconds` of the tolerations that DefaultTolerationSeconds adds, in seconds; may be negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DefaultTolerations {
    /// The seconds for `node.kubernetes.io/not-ready`.
    pub(crate) not_ready_seconds: i64,
    /// The seconds for `node.kubernetes.io/unreachable`.
    pub(crate) unreachable_seconds: i64,
}

impl Default for DefaultTolerations {
    fn default() -> Self {
        Self { not_ready_seconds: 300, unreachable_seconds: 300 }
    }
}

/// Whether policies from files may have parameters. kube-apiserver forbids them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PolicyParameters {
    /// `paramKind` and `paramRef` are errors.
    #[default]
    Forbidden,
    /// `paramKind` and `paramRef` work as in policies from the API.
    Allowed,
}
