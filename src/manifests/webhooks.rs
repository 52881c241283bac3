//! Loads webhook configurations from a folder (`webhook/manifest/loader`).

use super::set::Rules;
use super::{LoadError, Loaded, Set, validation};
use crate::cel::Release;
use crate::go_text::go_quote;
use crate::object::Object;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;

/// A kind of webhook configuration.
pub(crate) trait Configuration: DeserializeOwned {
    /// The kind, as the only element: the kinds that a folder of such configurations may contain.
    const KINDS: &'static [&'static str];
}

impl Configuration for MutatingWebhookConfiguration {
    const KINDS: &'static [&'static str] = &["MutatingWebhookConfiguration"];
}

impl Configuration for ValidatingWebhookConfiguration {
    const KINDS: &'static [&'static str] = &["ValidatingWebhookConfiguration"];
}

/// Reads the configurations of a folder, sorted by name. Their expressions follow the rules of a release.
///
/// # Errors
/// If the folder or a configuration is invalid. Loading stops at the first error.
pub(crate) fn load<C: Configuration>(folder: &Path, release: Release) -> Result<Loaded<Vec<Arc<C>>>, LoadError> {
    let validate = |_: &str, object: &Object| validation::configuration(object, release).0;
    let rules = Rules { kinds: C::KINDS, validate: &validate, constrain: &|_, object, file| by_url(object, file) };
    let mut set = Set::load(folder, &rules)?;
    let value = set.take(C::KINDS.first().copied().unwrap_or_default())?;
    Ok(Loaded { value, hash: set.hash().to_owned() })
}

/// `ValidateWebhookClientConfig`: requires a URL, because the cluster of a Service may not run yet.
fn by_url(object: &Object, file: &Path) -> Result<(), LoadError> {
    for hook in object.items(&["webhooks"]) {
        let name = go_quote(hook.get("name").and_then(Value::as_str).unwrap_or_default());
        let wrong = |why: &str| {
            Err(LoadError::Invalid(format!("webhook {name} in {:?} (file {file:?}): {why}", object.name())))
        };
        let client = hook.get("clientConfig");
        let field = |name: &str| client.and_then(|client| client.get(name)).filter(|value| !value.is_null());
        if field("service").is_some() {
            return wrong("clientConfig.service is not supported for static manifests; use clientConfig.url instead");
        }
        if field("url").and_then(Value::as_str).is_none_or(str::is_empty) {
            return wrong("clientConfig.url is required for static manifests");
        }
    }
    Ok(())
}
