//! The plugins' configuration file: `apiserver.config.k8s.io/v1` `WebhookAdmissionConfiguration`.

use crate::admission::BuildError;
use crate::backend::{Kubeconfig, KubeconfigError};
use crate::config::{FeatureGates, PluginConfiguration};
use crate::manifests;
use serde_json::Value;
use std::path::{Path, PathBuf};

const API_VERSION: &str = "apiserver.config.k8s.io/v1";
const KIND: &str = "WebhookAdmissionConfiguration";
/// The version and the kind that 1.36 removed.
const REMOVED: (&str, &str) = ("apiserver.config.k8s.io/v1alpha1", "WebhookAdmission");

/// The parsed configuration file.
#[derive(Default)]
pub(crate) struct Configuration {
    /// The kubeconfig users as which webhooks are called; none if no kubeconfig is named.
    pub(crate) users: Kubeconfig,
    /// The folder of static manifests: webhook configurations that are not objects of the API.
    pub(crate) manifests: Option<PathBuf>,
}

/// Reads a plugin's configuration, if the plugin has one.
///
/// # Errors
/// If the kind is another, a field is unknown, the kubeconfig cannot be used, or a folder of manifests is not allowed.
pub(crate) fn read(
    configuration: Option<&PluginConfiguration>,
    gates: &FeatureGates,
) -> Result<Configuration, BuildError> {
    let mut read = Configuration::default();
    let Some(configuration) = configuration else { return Ok(read) };
    let error = |text: String| Err(configuration.invalid(text));
    let Some(fields) = configuration.value.as_object() else { return error("must be an object".into()) };
    let text = |field: &str| fields.get(field).and_then(Value::as_str).unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    let is_removed = (version, kind) == REMOVED && !gates.since(36);
    if (version, kind) != (API_VERSION, KIND) && !is_removed {
        return error(format!(
            "no kind \"{kind}\" is registered for version \"{version}\": want {KIND} of {API_VERSION}"
        ));
    }
    for (field, value) in fields {
        match &**field {
            "apiVersion" | "kind" => {}
            "kubeConfigFile" | "staticManifestsDir" => match value {
                Value::Null => {}
                Value::String(path) if path.is_empty() => {}
                Value::String(path) if field == "kubeConfigFile" => {
                    read.users =
                        kubeconfig(path).map_err(|why| configuration.invalid(format_args!("kubeConfigFile: {why}")))?;
                }
                Value::String(path) => {
                    read.manifests = manifests::folder(path, gates).map_err(|why| configuration.invalid(why))?
                }
                _ => return error(format!("{field}: must be a string")),
            },
            unknown => return error(format!("unknown field \"{unknown}\"")),
        }
    }
    Ok(read)
}

/// The reason why `kubeConfigFile` is invalid.
#[derive(Debug, thiserror::Error)]
enum InvalidFile {
    /// The path is relative.
    #[error("Invalid value: {0:?}: must be an absolute file path")]
    Relative(String),
    /// The file or a user in it cannot be used.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
}

fn kubeconfig(path: &str) -> Result<Kubeconfig, InvalidFile> {
    if !path.starts_with('/') {
        return Err(InvalidFile::Relative(path.to_owned()));
    }
    let users = Kubeconfig::load(Path::new(path))?;
    users.check_users()?;
    Ok(users)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::EmulatedRelease;
    use serde_json::json;

    fn checked(value: Value) -> Result<(), String> {
        let configuration = PluginConfiguration { origin: "f".into(), directory: "/".into(), value };
        read(Some(&configuration), &FeatureGates::default()).map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn an_empty_configuration_is_accepted() {
        assert!(read(None, &FeatureGates::default()).is_ok());
        assert!(checked(json!({"apiVersion": API_VERSION, "kind": KIND})).is_ok());
        assert!(checked(json!({"apiVersion": API_VERSION, "kind": KIND, "kubeConfigFile": ""})).is_ok());
    }

    #[test]
    fn every_user_of_the_kubeconfig_must_be_one_that_can_be_called_as() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        let with = |user: Value| {
            std::fs::write(&path, json!({"users": [{"name": "*", "user": user}]}).to_string()).unwrap();
            checked(json!({"apiVersion": API_VERSION, "kind": KIND, "kubeConfigFile": path}))
        };
        assert_eq!(with(json!({"token": "t"})), Ok(()));
        for (user, fault) in [
            (
                json!({"exec": {"command": "c"}}),
                "user \"*\": exec is not supported: no program is run to get credentials",
            ),
            (json!({"auth-provider": {"name": "p"}}), "user \"*\": auth provider not supported"),
            (
                json!({"client-certificate-data": "eA==", "client-key-data": "eA=="}),
                "user \"*\": tls: failed to find any PEM data in certificate input",
            ),
        ] {
            assert_eq!(with(user), Err(format!("f: kubeConfigFile: {fault}")));
        }
    }

    #[test]
    fn errors_name_the_field() {
        let with = |field: &str, value: Value| {
            let mut json = json!({"apiVersion": API_VERSION, "kind": KIND});
            json.as_object_mut().unwrap().insert(field.into(), value);
            checked(json).unwrap_err()
        };
        let relative = "f: kubeConfigFile: Invalid value: \"x\": must be an absolute file path";
        assert_eq!(with("kubeConfigFile", json!("x")), relative);
        let missing = with("kubeConfigFile", json!("/not/there"));
        assert!(missing.starts_with("f: kubeConfigFile: open /not/there: "), "{missing}");
        let off = "staticManifestsDir requires the ManifestBasedAdmissionControlConfig feature gate to be enabled";
        assert_eq!(with("staticManifestsDir", json!("/x")), format!("f: staticManifestsDir: Forbidden: {off}"));
        assert_eq!(with("kubeconfigFile", json!("/x")), "f: unknown field \"kubeconfigFile\"");
        let removed = json!({"apiVersion": REMOVED.0, "kind": REMOVED.1, "kubeConfigFile": ""});
        for (minor, is_known) in [(35, true), (36, false)] {
            let gates = FeatureGates::of(EmulatedRelease::new(minor), "").unwrap();
            let configuration =
                PluginConfiguration { origin: "f".into(), directory: "/".into(), value: removed.clone() };
            assert_eq!(read(Some(&configuration), &gates).is_ok(), is_known, "1.{minor}");
        }
        assert!(checked(json!([])).is_err());
    }
}
