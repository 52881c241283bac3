//! `admissionregistration.k8s.io/v1alpha1` ExternalAdmissionHookConfiguration, and its hooks, compiled once per change.

use crate::admission::Attributes;
use crate::cluster::{Need, Projection, RemovedKind};
use crate::matching::rules::Rule;
use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine};
use k8s_openapi::api::admissionregistration::v1::RuleWithOperations;
use serde::Deserialize;
use std::sync::Arc;

/// The fields of an ExternalAdmissionHookConfiguration that the cache keeps. 1.8 drops `url` and `service.path`, and accepts only the
/// failurePolicy `Ignore`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ExternalAdmissionHookConfiguration {
    metadata: Metadata,
    external_admission_hooks: Option<Vec<ExternalAdmissionHook>>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Metadata {
    name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ExternalAdmissionHook {
    name: String,
    client_config: ClientConfig,
    rules: Option<Vec<RuleWithOperations>>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClientConfig {
    service: ServiceReference,
    ca_bundle: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct ServiceReference {
    namespace: String,
    name: String,
}

impl Projection for ExternalAdmissionHookConfiguration {
    const NEED: Need = Need::removed::<Self>("ExternalAdmissionHookConfigurations");
    const FIELDS: &'static [&'static str] = &["metadata.name", "externalAdmissionHooks"];
    type Object = Self;

    fn project(object: Self) -> (String, Self) {
        (object.metadata.name.clone(), object)
    }
}

impl RemovedKind for ExternalAdmissionHookConfiguration {
    const API: &'static crate::removed::Api = &crate::removed::EXTERNAL_ADMISSION_HOOK_CONFIGURATIONS;
}

/// A CA bundle is no base64.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("caBundle: {0}")]
pub(super) struct InvalidBundle(DecodeError);

/// A compiled hook.
#[derive(Debug)]
pub(super) struct ExternalHook {
    /// The hook's name.
    pub(crate) name: String,
    /// The namespace of the hook's Service.
    pub(crate) namespace: String,
    /// The name of the hook's Service.
    pub(crate) service: String,
    /// The CA bundle; or the reason why the hook cannot be called.
    pub(crate) ca: Result<Vec<u8>, InvalidBundle>,
    rules: Vec<Rule>,
}

impl ExternalHook {
    fn new(hook: &ExternalAdmissionHook) -> Self {
        let ClientConfig { service, ca_bundle } = &hook.client_config;
        let ca = STANDARD.decode(ca_bundle.as_deref().unwrap_or_default());
        // Rules of 1.8 have no scope.
        let rules =
            hook.rules.iter().flatten().map(|rule| Rule::new(&RuleWithOperations { scope: None, ..rule.clone() }));
        Self {
            name: hook.name.clone(),
            namespace: service.namespace.clone(),
            service: service.name.clone(),
            ca: ca.map_err(InvalidBundle),
            rules: rules.collect(),
        }
    }

    /// Whether a rule matches the request's own group, version and resource (`RuleMatcher.Matches`).
    pub(super) fn matches(&self, attributes: &Attributes) -> bool {
        self.rules.iter().any(|rule| rule.matches(attributes, &attributes.resource))
    }
}

/// Compiles the hooks of all configurations.
pub(super) fn compile(configurations: &[Arc<ExternalAdmissionHookConfiguration>]) -> Vec<ExternalHook> {
    configurations.iter().flat_map(|one| one.external_admission_hooks.iter().flatten()).map(ExternalHook::new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::Operation;
    use crate::kind::GroupVersionResource;
    use crate::plugins::checker::attributes;
    use serde_json::{Value, json};

    fn hook(rule: Value) -> ExternalHook {
        let hook = json!({"name": "a.lab.io", "clientConfig": {"service": {"namespace": "lab", "name": "s"}}, "rules": [rule]});
        ExternalHook::new(&serde_json::from_value(hook).unwrap())
    }

    fn request(operation: Operation, group: &str, version: &str, resource: &str, subresource: &str) -> Attributes {
        let mut attributes = attributes(operation, group, resource, Some(json!({"metadata": {"name": "x"}})), None);
        attributes.resource = GroupVersionResource::new(group, version, resource);
        attributes.subresource = subresource.into();
        attributes
    }

    #[test]
    fn resources_are_matched_with_their_subresources() {
        for (resources, resource, subresource, want) in [
            (["*"], "pods", "", true),
            (["*"], "pods", "exec", false),
            (["*/*"], "pods", "exec", true),
            (["*/*"], "pods", "", true),
            (["pods"], "pods", "", true),
            (["pods"], "pods", "status", false),
            (["pods/exec"], "pods", "exec", true),
            (["pods/exec"], "pods", "", false),
            (["pods/*"], "pods", "attach", true),
            (["pods/*"], "pods", "", true),
            (["pods/*"], "services", "", false),
            (["*/status"], "nodes", "status", true),
            (["*/status"], "nodes", "", false),
        ] {
            let hook =
                hook(json!({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": resources}));
            let request = request(Operation::Update, "", "v1", resource, subresource);
            assert_eq!(hook.matches(&request), want, "{resources:?} {resource}/{subresource}");
        }
    }

    #[test]
    fn groups_and_versions_are_those_of_the_request() {
        for (group, version, want) in
            [("", "*", false), ("extensions", "*", true), ("*", "v1beta1", true), ("*", "v1", false)]
        {
            let rule =
                json!({"operations": ["CREATE"], "apiGroups": [group], "apiVersions": [version], "resources": ["*"]});
            let request = request(Operation::Create, "extensions", "v1beta1", "deployments", "");
            assert_eq!(hook(rule).matches(&request), want, "{group}/{version}");
        }
    }

    #[test]
    fn operations_are_listed_or_all() {
        for (operations, want) in [("*", true), ("DELETE", true), ("CREATE", false), ("CONNECT", false)] {
            let rule =
                json!({"operations": [operations], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]});
            assert_eq!(hook(rule).matches(&request(Operation::Delete, "", "v1", "pods", "")), want, "{operations}");
        }
    }

    #[test]
    fn a_hook_without_rules_matches_nothing() {
        let hook = ExternalHook::new(&serde_json::from_value(json!({"name": "a.lab.io"})).unwrap());
        assert!(!hook.matches(&request(Operation::Create, "", "v1", "pods", "")));
    }

    #[test]
    fn a_later_scope_is_ignored() {
        let rule = json!({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "scope": "Cluster"});
        assert!(hook(rule).matches(&request(Operation::Create, "", "v1", "pods", "")));
    }

    #[test]
    fn a_broken_ca_bundle_is_an_error_of_the_hook_alone() {
        let configuration = json!({"metadata": {"name": "c"}, "externalAdmissionHooks": [
            {"name": "a.lab.io", "clientConfig": {"caBundle": "?", "url": "https://x", "service": {"path": "/p"}}},
            {"name": "b.lab.io", "clientConfig": {"caBundle": "eA=="}, "failurePolicy": "Ignore"}]});
        let hooks = compile(&[Arc::new(serde_json::from_value(configuration).unwrap())]);
        assert!(hooks[0].ca.as_ref().unwrap_err().to_string().starts_with("caBundle: "));
        assert_eq!(hooks[1].ca, Ok(b"x".to_vec()));
    }
}
