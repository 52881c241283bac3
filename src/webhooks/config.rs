//! The plugins' configuration file: `apiserver.config.k8s.io/v1` `WebhookAdmissionConfiguration`.

use crate::admission::BuildError;
use crate::config::PluginConfiguration;
use serde_json::Value;

const API_VERSION: &str = "apiserver.config.k8s.io/v1";
const KIND: &str = "WebhookAdmissionConfiguration";

/// Accepts a configuration that asks for nothing.
///
/// # Errors
/// For another kind, an unknown field, and the fields whose feature this version does not have.
pub fn check(configuration: Option<&PluginConfiguration>) -> Result<(), BuildError> {
    let Some(configuration) = configuration else { return Ok(()) };
    let error = |text: String| Err(BuildError(format!("{}: {text}", configuration.origin)));
    let Some(fields) = configuration.value.as_object() else { return error("must be an object".into()) };
    let text = |field: &str| fields.get(field).and_then(Value::as_str).unwrap_or_default();
    if (text("apiVersion"), text("kind")) != (API_VERSION, KIND) {
        let (version, kind) = (text("apiVersion"), text("kind"));
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
                Value::String(_) => return error(format!("{field}: is not supported yet")),
                _ => return error(format!("{field}: must be a string")),
            },
            unknown => return error(format!("unknown field \"{unknown}\"")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn checked(value: Value) -> Result<(), String> {
        let configuration = PluginConfiguration { origin: "f".into(), directory: "/".into(), value };
        check(Some(&configuration)).map_err(|error| error.to_string())
    }

    #[test]
    fn an_empty_configuration_is_accepted() {
        assert!(check(None).is_ok());
        assert!(checked(json!({"apiVersion": API_VERSION, "kind": KIND})).is_ok());
        assert!(checked(json!({"apiVersion": API_VERSION, "kind": KIND, "kubeConfigFile": ""})).is_ok());
    }

    #[test]
    fn errors_name_the_field() {
        let with = |field: &str, value: Value| {
            let mut json = json!({"apiVersion": API_VERSION, "kind": KIND});
            json.as_object_mut().unwrap().insert(field.into(), value);
            checked(json).unwrap_err()
        };
        assert_eq!(with("kubeConfigFile", json!("/x")), "f: kubeConfigFile: is not supported yet");
        assert_eq!(with("staticManifestsDir", json!("/x")), "f: staticManifestsDir: is not supported yet");
        assert_eq!(with("kubeconfigFile", json!("/x")), "f: unknown field \"kubeconfigFile\"");
        assert!(
            checked(json!({"apiVersion": "apiserver.config.k8s.io/v1alpha1", "kind": "WebhookAdmission"})).is_err()
        );
        assert!(checked(json!([])).is_err());
    }
}
