//! The plugins' configuration files: `apiserver.config.k8s.io/v1` `ValidatingAdmissionPolicyConfiguration` and
//! `MutatingAdmissionPolicyConfiguration`.

use crate::admission::BuildError;
use crate::config::PluginConfiguration;
use serde_json::Value;

const API_VERSION: &str = "apiserver.config.k8s.io/v1";

/// Checks a configuration of this kind.
///
/// # Errors
/// For another kind, an unknown field, and the field whose feature this version does not have.
pub fn check(configuration: Option<&PluginConfiguration>, kind: &str) -> Result<(), BuildError> {
    let Some(configuration) = configuration else { return Ok(()) };
    let error = |text: String| Err(BuildError(format!("{}: {text}", configuration.origin)));
    configuration.expect_kind(API_VERSION, kind)?;
    for (field, value) in configuration.value.as_object().into_iter().flatten() {
        match (&**field, value) {
            ("apiVersion" | "kind", _) | ("staticManifestsDir", Value::Null) => {}
            ("staticManifestsDir", Value::String(path)) if path.is_empty() => {}
            ("staticManifestsDir", Value::String(_)) => return error(format!("{field}: is not supported yet")),
            ("staticManifestsDir", _) => return error(format!("{field}: must be a string")),
            (unknown, _) => return error(format!("unknown field \"{unknown}\"")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn errors_name_the_field() {
        let checked = |value: Value| {
            let configuration = PluginConfiguration { origin: "f".into(), directory: "/".into(), value };
            check(Some(&configuration), "MutatingAdmissionPolicyConfiguration").map_err(|error| error.to_string())
        };
        let with = |field: &str, value: Value| {
            let mut json = json!({"apiVersion": API_VERSION, "kind": "MutatingAdmissionPolicyConfiguration"});
            json.as_object_mut().unwrap().insert(field.into(), value);
            checked(json)
        };
        assert!(check(None, "any").is_ok());
        assert_eq!(with("staticManifestsDir", json!("")), Ok(()));
        assert_eq!(with("staticManifestsDir", json!("/x")).unwrap_err(), "f: staticManifestsDir: is not supported yet");
        assert_eq!(with("staticManifestDir", json!("/x")).unwrap_err(), "f: unknown field \"staticManifestDir\"");
        assert!(with("kind", json!("ValidatingAdmissionPolicyConfiguration")).is_err());
    }
}
