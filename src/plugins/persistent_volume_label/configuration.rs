//! The plugin's configuration: the source of zones and regions.
//!
//! ```yaml
//! apiVersion: config.kube-admission-proxy.dev/v1alpha1
//! kind: PersistentVolumeLabelConfiguration
//! source: File          # or StorageClass, or Node
//! file: volumes.yaml    # for the source File; relative to the folder of the configuration
//! ```

use super::places::Source;
use crate::admission::BuildError;
use crate::config::{OWN_API_VERSION, PluginConfiguration};
use crate::manifests::FollowedFile;
use serde::Deserialize;
use std::path::PathBuf;

/// The configuration, with the origin for errors.
#[derive(Debug, Default)]
pub(super) struct Configuration {
    origin: String,
    source: SourceName,
    file: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Fields {
    source: SourceName,
    file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
enum SourceName {
    /// The plugin has no configuration.
    #[default]
    #[serde(skip)]
    None,
    File,
    StorageClass,
    Node,
}

impl Configuration {
    /// Reads the configuration. Without a configuration, there is no source.
    ///
    /// # Errors
    /// If the kind is wrong, or a field is unknown, invalid or missing.
    pub(super) fn read(given: Option<&PluginConfiguration>) -> Result<Self, BuildError> {
        let Some(given) = given else { return Ok(Self::default()) };
        let Fields { source, file } = given.decode(OWN_API_VERSION, "PersistentVolumeLabelConfiguration")?;
        let needs_file = source == SourceName::File;
        if needs_file && file.is_none() {
            return Err(given.invalid("file: must name the file with the zones of volumes"));
        }
        if !needs_file && file.is_some() {
            return Err(given.invalid("file: must be removed: only the source File reads it"));
        }
        Ok(Self { origin: given.origin.clone(), source, file: file.map(|file| given.directory.join(file)) })
    }

    /// Opens the source.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(super) fn source(self) -> Result<Source, BuildError> {
        Ok(match (self.source, self.file) {
            (SourceName::StorageClass, _) => Source::StorageClass,
            (SourceName::Node, _) => Source::Node,
            (SourceName::File, Some(file)) => {
                let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let volumes = FollowedFile::follow(file, super::volumes::Volumes::new);
                let invalid = |fault| BuildError::Configuration { origin: self.origin, fault };
                let volumes = volumes.map_err(|why| invalid(format!("file: {why}")))?;
                Source::File { name, volumes }
            }
            (SourceName::File | SourceName::None, _) => Source::None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(mut fields: Value) -> Result<Configuration, String> {
        fields["apiVersion"] = OWN_API_VERSION.into();
        fields["kind"] = "PersistentVolumeLabelConfiguration".into();
        let given = PluginConfiguration { origin: "pv.yaml".into(), directory: "/etc/proxy".into(), value: fields };
        Configuration::read(Some(&given)).map_err(|error| error.to_string())
    }

    #[test]
    fn the_file_is_relative_to_the_configuration() {
        let file = |given: &str| read(json!({"source": "File", "file": given})).unwrap().file;
        assert_eq!(file("volumes.yaml"), Some("/etc/proxy/volumes.yaml".into()));
        assert_eq!(file("/volumes.yaml"), Some("/volumes.yaml".into()));
        assert_eq!(read(json!({"source": "Node"})).unwrap().file, None);
        assert!(matches!(Configuration::read(None).unwrap().source().unwrap(), Source::None));
    }

    #[test]
    fn faults_are_named_with_their_file() {
        for (fields, fault) in [
            (json!({}), "missing field `source`"),
            (json!({"source": "Cloud"}), "unknown variant `Cloud`, expected one of `File`, `StorageClass`, `Node`"),
            (json!({"source": "None"}), "unknown variant `None`, expected one of `File`, `StorageClass`, `Node`"),
            (json!({"source": "Node", "zone": "a"}), "unknown field `zone`, expected `source` or `file`"),
            (json!({"source": "File"}), "file: must name the file with the zones of volumes"),
            (json!({"source": "Node", "file": "f"}), "file: must be removed: only the source File reads it"),
        ] {
            assert_eq!(read(fields).unwrap_err(), format!("pv.yaml: {fault}"));
        }
        let (origin, directory) = ("pv.yaml".to_owned(), PathBuf::new());
        let given = PluginConfiguration { origin, directory, value: json!({"source": "Node"}) };
        let fault = Configuration::read(Some(&given)).unwrap_err().to_string();
        let kind = "config.kube-admission-proxy.dev/v1alpha1 PersistentVolumeLabelConfiguration";
        assert_eq!(fault, format!("pv.yaml: must be {kind}, not \"\" \"\""));
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_read_is_an_error() {
        let fault = read(json!({"source": "File", "file": "volumes.yaml"})).unwrap().source().unwrap_err();
        let why = "file: /etc/proxy/volumes.yaml: no such file or directory";
        assert_eq!(fault.to_string(), format!("pv.yaml: {why}"));
    }
}
