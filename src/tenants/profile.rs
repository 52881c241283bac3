//! The format of a tenant's file: kind `Tenant`. An unknown field is an error.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The kind of a tenant's file.
pub(crate) const KIND: &str = "Tenant";

/// A tenant of the gateway: its members, its API server, its admission and its limits.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(title = "Tenant")]
pub(crate) struct Document {
    /// `config.kube-admission-proxy.dev/v1alpha1`.
    pub(crate) api_version: String,
    /// `Tenant`.
    pub(crate) kind: String,
    /// The name.
    pub(crate) metadata: Metadata,
    /// The tenant's properties.
    #[serde(default)]
    pub(crate) spec: Profile,
}

/// The name of a tenant.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Metadata {
    /// The name, a DNS label. `default` is the tenant of callers and namespaces without another tenant, and must exist. `operators`
    /// is the tenant whose members change the tenants of namespaces.
    pub(crate) name: String,
}

/// The properties of a tenant.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Profile {
    /// The callers that may act as the tenant. The tenant `default` has none: it is for callers who are members of no tenant.
    pub(crate) members: Vec<Member>,
    /// TLS server names, or hosts of requests, that address the tenant. A name addresses one tenant.
    pub(crate) server_names: Vec<String>,
    /// The tenant's namespaces, besides those with the label `kube-admission-proxy.dev/tenant`.
    pub(crate) namespaces: Namespaces,
    /// The tenant's API server. The default is that of the flags.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) upstream: Option<Upstream>,
    /// The tenant's admission.
    pub(crate) admission: Admission,
    /// The tenant's authorization, besides that of the API server.
    pub(crate) authorization: Authorization,
    /// The limits on the tenant's requests.
    pub(crate) limits: Limits,
    /// The tenant's audit log.
    pub(crate) audit: Audit,
    /// The tenant's certificates.
    pub(crate) tls: Tls,
}

/// A kind of caller.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) enum MemberKind {
    /// The user of this name.
    User,
    /// The users of this group.
    Group,
    /// A service account of the tenant's API server.
    ServiceAccount,
}

/// Callers that may act as a tenant.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Member {
    /// The kind of caller.
    pub(crate) kind: MemberKind,
    /// The name. `*` for all service accounts of the namespace.
    pub(crate) name: String,
    /// The namespace of a service account.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) namespace: String,
}

/// Namespaces by name.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Namespaces {
    /// Names, and beginnings of names followed by `*`. Names of two tenants of one API server must not overlap.
    pub(crate) names: Vec<String>,
}

/// An API server.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Upstream {
    /// The kubeconfig with the API server's address and the proxy's credentials, whose user must be allowed to impersonate. A
    /// relative path begins at the folder of the tenants, here and in all other fields.
    pub kubeconfig: String,
    /// The identity with which requests reach the API server, as `--upstream-identity`.
    pub identity: Identity,
    /// The prefix of the groups of callers at the API server, as `--upstream-group-prefix`. `members` name groups without the prefix.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) group_prefix: String,
    /// IP addresses, CIDRs and DNS names of the servers that webhooks and conversion webhooks of this API server may be, besides public
    /// addresses. `*.` in front of a name stands for all names that end so. A name allows private addresses, but no loopback and
    /// link-local ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) webhook_targets: Vec<String>,
}

/// The identity with which requests reach an API server.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Identity {
    /// By `Impersonate-*` headers.
    #[default]
    Impersonate,
    /// As a front proxy, by the headers that the API server publishes.
    RequestHeader,
}

/// The admission of a tenant.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Admission {
    /// The plugins and configurations to which the other fields are changes: `default` for those of the tenant `default`, `none` for
    /// no plugin, or the name of another tenant. The base of the tenant `default` is always the plugins of the flags.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) base: String,
    /// Plugins to run in addition.
    pub(crate) enable_plugins: Vec<String>,
    /// Plugins not to run.
    pub(crate) disable_plugins: Vec<String>,
    /// An AdmissionConfiguration file. Its entries replace the configurations of the base for the same plugins. A plugin's
    /// `staticManifestsDir` there has webhooks and policies that only this tenant has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) plugin_config: Option<String>,
    /// The webhooks and policies of the API that admit the tenant's requests. The default is all.
    #[serde(rename = "fromAPI")]
    pub(crate) from_api: FromApi,
    /// Webhooks and policies without effect, in addition to those of the flags.
    pub(crate) shadow: Shadow,
    /// The time for all webhooks of one object, as `--admission-timeout`: `5s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timeout: Option<String>,
}

/// The webhooks and policies of the API that count for a tenant.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct FromApi {
    /// MutatingWebhookConfigurations and ValidatingWebhookConfigurations, by the labels of the configuration.
    pub(crate) webhooks: Which,
    /// Admission policies with their bindings, by the labels of the policy.
    pub(crate) policies: Which,
}

/// A choice of objects of the API.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) enum Which {
    /// All objects.
    #[default]
    All,
    /// No object.
    None,
    /// The objects with all these labels.
    #[serde(rename = "matchLabels")]
    Labelled(BTreeMap<String, String>),
}

/// Webhooks and policies in shadow mode.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Shadow {
    /// Webhooks, as in `--shadow-webhooks`. A `*` at the end of a name stands for any end.
    pub(crate) webhooks: Vec<String>,
    /// Policies, as in `--shadow-policies`. A `*` at the end of a name stands for any end.
    pub(crate) policies: Vec<String>,
}

/// The authorization of a tenant.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Authorization {
    /// Whether the tenant reads and writes only in its own namespaces: no other namespace, no cluster-scoped object, no list of
    /// several namespaces. With false the tenant still writes into no namespace of another tenant.
    pub(crate) own_namespaces_only: bool,
}

impl Default for Authorization {
    fn default() -> Self {
        Self { own_namespaces_only: true }
    }
}

/// The limits on a tenant's requests. The default of each is the limit of the process, which each tenant then has for itself.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Limits {
    /// Number of reads at the same time. Further reads get 429.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub(crate) requests_in_flight: Option<usize>,
    /// Number of writes at the same time. Further writes get 429.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub(crate) mutating_requests_in_flight: Option<usize>,
    /// Number of writes in a second, on average. Further writes get 429. The default is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub(crate) writes_per_second: Option<u32>,
    /// Number of writes at once, after a pause. The default is `writesPerSecond`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub(crate) write_burst: Option<u32>,
    /// Size of the body of a request. The limit of the process is also the highest value.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub(crate) body_bytes: Option<usize>,
    /// Number of calls of webhooks at the same time. Further calls wait as long as their request may. The default is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub(crate) webhook_calls_in_flight: Option<usize>,
}

/// The audit log of a tenant. The default of each field is the flag's.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Audit {
    /// The audit policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) policy_file: Option<String>,
    /// The file to which events are appended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) log_path: Option<String>,
}

/// The certificates of a tenant.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Tls {
    /// The serving certificate for `serverNames`, followed by its chain. Without it the certificate of the flags is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cert_file: Option<String>,
    /// The private key of the serving certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key_file: Option<String>,
    /// Certificate authorities of client certificates, in addition to those of the flags. They name users of this tenant alone, by names
    /// of its members on an API server that other tenants have too, and no user or group whose name begins with `system:`.
    #[serde(rename = "clientCAFile", skip_serializing_if = "Option::is_none")]
    pub(crate) client_ca_file: Option<String>,
}

/// The JSON Schema of a tenant's file.
pub(crate) fn schema() -> String {
    let schema = schemars::schema_for!(Document);
    // Strings and numbers as keys are always valid JSON.
    serde_json::to_string_pretty(&schema).map(|text| text + "\n").unwrap_or_default()
}
