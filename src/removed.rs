//! The APIs that Kubernetes removed and that removed plugins read: their names and definitions.
//!
//! The embedded API server serves these APIs as they were. A real API server serves them as custom resources of the definitions in
//! `src/removed`, which `tools/record-removed-apis.py` makes from the Go types of the last releases: PodPresets in their own group, the others in
//! groups of the proxy. kube-apiserver 1.36 refuses a definition in the group `policy` (a group needs a dot), and accepts one in
//! `admissionregistration.k8s.io` but never serves it.

mod defaults;
mod validation;

pub(crate) use defaults::set_defaults;
use serde_json::Value;
use std::sync::LazyLock;
pub(crate) use validation::{validate, validate_update};

/// An API that Kubernetes removed.
#[derive(Debug)]
pub(crate) struct Api {
    /// The API group.
    pub(crate) group: &'static str,
    /// The version in the group.
    pub(crate) version: &'static str,
    /// The plural name of the resource, as in URLs.
    pub(crate) plural: &'static str,
    /// The kind of the objects.
    pub(crate) kind: &'static str,
    /// The group in which an API server serves the kind by a CustomResourceDefinition. `None` if the plugin only works in front of the
    /// embedded API server.
    pub(crate) custom_group: Option<&'static str>,
    /// The definition in YAML, in the group `custom_group`.
    pub(crate) definition: &'static str,
}

/// PodPresets (Kubernetes 1.6 to 1.19).
pub(crate) static POD_PRESETS: Api = Api {
    group: "settings.k8s.io",
    version: "v1alpha1",
    plural: "podpresets",
    kind: "PodPreset",
    custom_group: Some("settings.k8s.io"),
    definition: include_str!("removed/podpreset.yaml"),
};

/// PodSecurityPolicies (Kubernetes 1.3 to 1.24).
pub(crate) static POD_SECURITY_POLICIES: Api = Api {
    group: "policy",
    version: "v1beta1",
    plural: "podsecuritypolicies",
    kind: "PodSecurityPolicy",
    custom_group: Some("policy.kube-admission-proxy.dev"),
    definition: include_str!("removed/podsecuritypolicy.yaml"),
};

/// InitializerConfigurations (Kubernetes 1.7 to 1.13).
pub(crate) static INITIALIZER_CONFIGURATIONS: Api = Api {
    group: "admissionregistration.k8s.io",
    version: "v1alpha1",
    plural: "initializerconfigurations",
    kind: "InitializerConfiguration",
    custom_group: None,
    definition: include_str!("removed/initializerconfiguration.yaml"),
};

/// ExternalAdmissionHookConfigurations (Kubernetes 1.7 and 1.8).
pub(crate) static EXTERNAL_ADMISSION_HOOK_CONFIGURATIONS: Api = Api {
    group: "admissionregistration.k8s.io",
    version: "v1alpha1",
    plural: "externaladmissionhookconfigurations",
    kind: "ExternalAdmissionHookConfiguration",
    custom_group: Some("admissionregistration.kube-admission-proxy.dev"),
    definition: include_str!("removed/externaladmissionhookconfiguration.yaml"),
};

/// All removed APIs.
pub(crate) static ALL: [&Api; 4] =
    [&POD_PRESETS, &POD_SECURITY_POLICIES, &INITIALIZER_CONFIGURATIONS, &EXTERNAL_ADMISSION_HOOK_CONFIGURATIONS];

/// The definitions that a real API server serves, as YAML documents.
pub(crate) fn definitions() -> String {
    let served = ALL.iter().filter(|api| api.custom_group.is_some());
    served.map(|api| api.definition).collect::<Vec<_>>().join("---\n")
}

impl Api {
    /// The groups in which Kubernetes served the kind.
    pub(crate) fn original_groups(&self) -> impl Iterator<Item = &'static str> + use<> {
        // Until Kubernetes 1.15, PodSecurityPolicies were in this group too.
        let older = (self.kind == "PodSecurityPolicy").then_some("extensions");
        std::iter::once(self.group).chain(older)
    }

    /// The groups in which an API server may serve the kind: the original group first.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &'static str> + use<> {
        let other = self.custom_group.filter(|group| *group != self.group);
        std::iter::once(self.group).chain(other)
    }

    /// The definition, as JSON.
    pub(crate) fn parsed(&self) -> &'static Value {
        static PARSED: LazyLock<Vec<Value>> = LazyLock::new(|| {
            ALL.iter().map(|api| serde_saphyr::from_str(api.definition).expect("the definition is YAML")).collect()
        });
        let at = ALL.iter().position(|api| std::ptr::eq(*api, self));
        at.and_then(|at| PARSED.get(at)).unwrap_or(&Value::Null)
    }

    /// The types of the kind's fields as an `openAPIV3Schema`, without the rules of the definition: the validation of the last release
    /// takes their place.
    pub(crate) fn schema(&self) -> &'static Value {
        static SCHEMAS: LazyLock<Vec<Value>> = LazyLock::new(|| {
            let of = |api: &&Api| {
                let mut schema = api.parsed().pointer("/spec/versions/0/schema/openAPIV3Schema").cloned();
                schema.as_mut().into_iter().for_each(drop_rules);
                schema.unwrap_or_default()
            };
            ALL.iter().map(of).collect()
        });
        let at = ALL.iter().position(|api| std::ptr::eq(*api, self));
        at.and_then(|at| SCHEMAS.get(at)).unwrap_or(&Value::Null)
    }

    /// Whether the objects live in namespaces.
    pub(crate) fn is_namespaced(&self) -> bool {
        self.parsed().pointer("/spec/scope").is_some_and(|scope| scope == "Namespaced")
    }
}

/// Removes the rules from a schema, except for the pattern of quantities, which is a part of their type.
fn drop_rules(schema: &mut Value) {
    const RULES: [&str; 5] = ["enum", "maxLength", "minLength", "pattern", "x-kubernetes-validations"];
    let Some(schema) = schema.as_object_mut() else { return };
    let is_quantity = schema.contains_key("x-kubernetes-int-or-string");
    schema.retain(|key, _| is_quantity || !RULES.contains(&&**key));
    for field in ["items", "additionalProperties"] {
        schema.get_mut(field).into_iter().for_each(drop_rules);
    }
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    properties.into_iter().flat_map(|properties| properties.values_mut()).for_each(drop_rules);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::structural::Structural;

    #[test]
    fn each_definition_defines_its_api() {
        for api in ALL {
            let definition = api.parsed();
            let text = |path: &str| definition.pointer(path).and_then(|value| value.as_str()).unwrap_or_default();
            let group = api.custom_group.unwrap_or(api.group);
            assert_eq!(text("/metadata/name"), format!("{}.{group}", api.plural));
            assert_eq!((text("/spec/group"), text("/spec/names/kind")), (group, api.kind));
            assert_eq!((text("/spec/names/plural"), text("/spec/versions/0/name")), (api.plural, api.version));
            Structural::compile(api.schema()).unwrap();
            let ruled = definition.pointer("/spec/versions/0/schema/openAPIV3Schema").unwrap();
            Structural::compile(ruled).unwrap();
            assert_eq!(api.custom_group.is_some(), ruled != api.schema(), "{}", api.kind);
            // An API server serves a group of Kubernetes only with this annotation.
            let approved = definition.pointer("/metadata/annotations/api-approved.kubernetes.io").is_some();
            assert_eq!(approved, group.ends_with(".k8s.io"), "{group}");
        }
    }
}
