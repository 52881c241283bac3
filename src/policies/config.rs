//! The plugins' configuration files: `apiserver.config.k8s.io/v1` `ValidatingAdmissionPolicyConfiguration` and
//! `MutatingAdmissionPolicyConfiguration`.

use crate::admission::BuildError;
use crate::config::{FeatureGates, PluginConfiguration};
use crate::manifests;
use serde_json::Value;
use std::path::PathBuf;

const API_VERSION: &str = "apiserver.config.k8s.io/v1";

/// Returns the folder of policies that a configuration of this kind names, if any.
///
/// # Errors
/// If the kind is another, a field is unknown, or the folder is not allowed.
pub(crate) fn read(
    configuration: Option<&PluginConfiguration>,
    kind: &str,
    gates: &FeatureGates,
) -> Result<Option<PathBuf>, BuildError> {
    let Some(configuration) = configuration else { return Ok(None) };
    let error = |text: String| Err(configuration.invalid(text));
    let mut folder = None;
    configuration.expect_kind(API_VERSION, kind)?;
    for (field, value) in configuration.value.as_object().into_iter().flatten() {
        match (&**field, value) {
            ("apiVersion" | "kind", _) | ("staticManifestsDir", Value::Null) => {}
            ("staticManifestsDir", Value::String(path)) => {
                folder = manifests::folder(path, gates).map_err(|why| configuration.invalid(why))?
            }
            ("staticManifestsDir", _) => return error(format!("{field}: must be a string")),
            (unknown, _) => return error(format!("unknown field \"{unknown}\"")),
        }
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn errors_name_the_field() {
        let checked = |value: Value| {
            let configuration = PluginConfiguration { origin: "f".into(), directory: "/".into(), value };
            let gates = FeatureGates::parse("ManifestBasedAdmissionControlConfig=true").unwrap();
            let read = read(Some(&configuration), "MutatingAdmissionPolicyConfiguration", &gates);
            read.map_err(|error| error.to_string())
        };
        let with = |field: &str, value: Value| {
            let mut json = json!({"apiVersion": API_VERSION, "kind": "MutatingAdmissionPolicyConfiguration"});
            json.as_object_mut().unwrap().insert(field.into(), value);
            checked(json)
        };
        assert!(read(None, "any", &FeatureGates::default()).is_ok());
        assert_eq!(with("staticManifestsDir", json!("")), Ok(None));
        assert_eq!(with("staticManifestsDir", json!("/")), Ok(Some("/".into())));
        let relative = "f: staticManifestsDir: Invalid value: \"x\": must be an absolute file path";
        assert_eq!(with("staticManifestsDir", json!("x")).unwrap_err(), relative);
        assert_eq!(with("staticManifestDir", json!("/x")).unwrap_err(), "f: unknown field \"staticManifestDir\"");
        assert!(with("kind", json!("ValidatingAdmissionPolicyConfiguration")).is_err());
    }
}
