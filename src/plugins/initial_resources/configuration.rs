//! The plugin's configuration: the source of past usage.
//!
//! ```yaml
//! apiVersion: config.kube-admission-proxy.dev/v1alpha1
//! kind: InitialResourcesConfiguration
//! source: File                # or URL
//! file: usage.yaml            # for the source File; relative to the folder of the configuration
//! url: https://usage.example  # for the source URL
//! certificateAuthority: ca.crt  # for the source URL: the issuers of its certificate; else the system's roots
//! percentile: 90              # from 1 to 100
//! namespaceOnly: false        # whether only the usage in the pod's namespace counts
//! ```
//!
//! The URL is asked by a GET with the parameters `kind` (`cpu` or `memory`), `image`, `exact` (`false` if all tags of the image
//! count), `namespace` (missing for all namespaces), `percentile`, `start` and `end` (RFC 3339). It answers
//! `{"value": N, "samples": N}`, with the value in thousandths of a core or in bytes.

use super::history::History;
use super::usage::Source;
use crate::admission::{BuildError, PluginEnvironment};
use crate::backend::Lookup;
use crate::config::{OWN_API_VERSION, PluginConfiguration};
use crate::manifests::FollowedFile;
use serde::Deserialize;
use std::path::PathBuf;

/// The default of `--ir-percentile`.
const PERCENTILE: u8 = 90;

/// The configuration, with the origin for errors.
#[derive(Debug, PartialEq)]
pub(super) struct Configuration {
    origin: String,
    source: SourceName,
    pub(super) percentile: u8,
    pub(super) namespace_only: bool,
}

#[derive(Debug, PartialEq)]
enum SourceName {
    None,
    File(PathBuf),
    Url { url: String, authorities: Option<PathBuf> },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Fields {
    source: String,
    file: Option<PathBuf>,
    url: Option<String>,
    certificate_authority: Option<PathBuf>,
    percentile: Option<u8>,
    #[serde(default)]
    namespace_only: bool,
}

impl Configuration {
    /// Reads the configuration. Without a configuration, there is no source.
    ///
    /// # Errors
    /// If the kind is wrong, or a field is unknown, invalid or missing.
    pub(super) fn read(given: Option<&PluginConfiguration>) -> Result<Self, BuildError> {
        let Some(given) = given else {
            let (origin, source) = (String::new(), SourceName::None);
            return Ok(Self { origin, source, percentile: PERCENTILE, namespace_only: false });
        };
        let fields: Fields = given.decode(OWN_API_VERSION, "InitialResourcesConfiguration")?;
        let error = |why: &str| given.invalid(why);
        let at = |path: PathBuf| given.directory.join(path);
        let percentile = fields.percentile.unwrap_or(PERCENTILE);
        if !(1..=100).contains(&percentile) {
            return Err(error("percentile: must be from 1 to 100"));
        }
        let source = match (&*fields.source, fields.file, fields.url, fields.certificate_authority) {
            ("File", Some(file), None, None) => SourceName::File(at(file)),
            ("URL", None, Some(url), authorities) => SourceName::Url { url, authorities: authorities.map(at) },
            ("File", ..) => return Err(error("the source File needs file, and neither url nor certificateAuthority")),
            ("URL", ..) => return Err(error("the source URL needs url, and no file")),
            (source, ..) => return Err(error(&format!("unknown data source {source}: must be File or URL"))),
        };
        Ok(Self { origin: given.origin.clone(), source, percentile, namespace_only: fields.namespace_only })
    }

    /// Opens the source.
    ///
    /// # Errors
    /// If the file cannot be read, or the URL cannot be used.
    pub(super) fn source(self, environment: &PluginEnvironment<'_>) -> Result<Source, BuildError> {
        let Self { origin, source, .. } = self;
        let opened = match source {
            SourceName::None => Ok(Source::None),
            SourceName::File(file) => {
                FollowedFile::follow(file, History::new).map(Source::File).map_err(|why| format!("file: {why}"))
            }
            SourceName::Url { url, authorities } => {
                let lookup = Lookup::new(&url, authorities, environment.cluster.clone(), environment.limits);
                lookup.map(|lookup| Source::Url(Box::new(lookup))).map_err(|why| format!("url: {why}"))
            }
        };
        opened.map_err(|fault| BuildError::Configuration { origin, fault })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(mut fields: Value) -> Result<Configuration, String> {
        fields["apiVersion"] = OWN_API_VERSION.into();
        fields["kind"] = "InitialResourcesConfiguration".into();
        let given = PluginConfiguration { origin: "ir.yaml".into(), directory: "/etc/proxy".into(), value: fields };
        Configuration::read(Some(&given)).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_are_those_of_the_flags() {
        let file = read(json!({"source": "File", "file": "usage.yaml"})).unwrap();
        assert_eq!(file.source, SourceName::File("/etc/proxy/usage.yaml".into()));
        assert_eq!((file.percentile, file.namespace_only), (90, false));
        let none = Configuration::read(None).unwrap();
        assert_eq!((none.source, none.percentile, none.namespace_only), (SourceName::None, 90, false));
        let url = json!({"source": "URL", "url": "https://u", "certificateAuthority": "ca.crt", "percentile": 50, "namespaceOnly": true});
        let url = read(url).unwrap();
        let authorities = Some("/etc/proxy/ca.crt".into());
        assert_eq!(url.source, SourceName::Url { url: "https://u".into(), authorities });
        assert_eq!((url.percentile, url.namespace_only), (50, true));
    }

    #[test]
    fn faults_are_named_with_their_file() {
        let with = |fields: Value| {
            let mut whole = json!({"source": "File", "file": "f"});
            whole.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            whole
        };
        let file = "the source File needs file, and neither url nor certificateAuthority";
        for (fields, fault) in [
            (json!({}), "missing field `source`"),
            (json!({"source": "nothing"}), "unknown data source nothing: must be File or URL"),
            (with(json!({"file": null})), file),
            (with(json!({"url": "https://u"})), file),
            (with(json!({"source": "URL"})), "the source URL needs url, and no file"),
            (with(json!({"percentile": 0})), "percentile: must be from 1 to 100"),
            (with(json!({"percentile": 101})), "percentile: must be from 1 to 100"),
        ] {
            assert_eq!(read(fields).unwrap_err(), format!("ir.yaml: {fault}"));
        }
        for fields in
            [with(json!({"percentile": 1.5})), with(json!({"unknown": 1})), with(json!({"namespaceOnly": "yes"}))]
        {
            assert!(read(fields.clone()).is_err(), "{fields}");
        }
    }
}
