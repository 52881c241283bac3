//! The APIs that Kubernetes removed and that removed plugins read.

#[cfg_attr(not(test), expect(dead_code, reason = "the embedded API server uses it"))]
pub(crate) mod validation;

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
}

/// PodPresets (Kubernetes 1.6 to 1.19).
pub(crate) static POD_PRESETS: Api =
    Api { group: "settings.k8s.io", version: "v1alpha1", plural: "podpresets", kind: "PodPreset" };

/// PodSecurityPolicies (Kubernetes 1.3 to 1.24).
pub(crate) static POD_SECURITY_POLICIES: Api =
    Api { group: "policy", version: "v1beta1", plural: "podsecuritypolicies", kind: "PodSecurityPolicy" };

/// InitializerConfigurations (Kubernetes 1.7 to 1.13).
pub(crate) static INITIALIZER_CONFIGURATIONS: Api = Api {
    group: "admissionregistration.k8s.io",
    version: "v1alpha1",
    plural: "initializerconfigurations",
    kind: "InitializerConfiguration",
};

/// ExternalAdmissionHookConfigurations (Kubernetes 1.7 and 1.8).
pub(crate) static EXTERNAL_ADMISSION_HOOK_CONFIGURATIONS: Api = Api {
    group: "admissionregistration.k8s.io",
    version: "v1alpha1",
    plural: "externaladmissionhookconfigurations",
    kind: "ExternalAdmissionHookConfiguration",
};
