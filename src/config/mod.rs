//! The configuration of each component, parsed and complete.
//!
//! Each component has one struct, without types of the command line. The values are checked before the structs are created,
//! except for checks that only the component itself can make.

pub(crate) mod admission_file;
mod audit;
mod controllers;
mod defaulting;
mod embedded;
mod expressions;
mod feature_gates;
pub(crate) mod written_kubeconfig;
mod limits;
mod lines;
mod plugin;
mod release;
mod similar;
mod tls;
mod webhook_targets;

pub(crate) use audit::{
    AuditBackend, AuditBatch, AuditLog, AuditLogOptions, AuditMode, AuditOptions, AuditRotation, AuditThrottle,
    AuditTruncate, AuditWebhook,
};
pub(crate) use controllers::Controllers;
pub(crate) use embedded::{Addresses, Apis, EVENT_TTL, Embedded, TokenFiles};
pub use feature_gates::FeatureGates;
pub(crate) use feature_gates::gates;
pub(crate) use limits::LEAST_MEMORY;
pub use limits::Limits;
pub(crate) use lines::line_of;
pub(crate) use plugin::{BuildError, DefaultTolerations, OWN_API_VERSION, PluginConfiguration, PolicyParameters};
pub use release::EmulatedRelease;
pub(crate) use release::{UPSTREAM, is_of_upstream};
pub(crate) use similar::plugin_hint;
pub(crate) use tls::{NamedCertificate, TlsFlagError, TlsProtocol};
pub(crate) use webhook_targets::{WebhookTargets, is_within};

use crate::user::UserInfo;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A certificate and its key as PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CertificateFiles {
    /// The certificate, followed by its chain.
    pub(crate) certificate: PathBuf,
    /// The private key.
    pub(crate) key: PathBuf,
}

/// The listener.
#[derive(Clone, Debug)]
pub struct Serving {
    /// The addresses of the API, served over TLS, with the same port. Port 0 selects a free port.
    pub(crate) addresses: Vec<SocketAddr>,
    /// The certificate; generated at start if there is none.
    pub(crate) certificate: Option<CertificateFiles>,
    /// The certificates of single TLS server names. The first of two with the same name counts.
    pub(crate) named_certificates: Vec<NamedCertificate>,
    /// The TLS versions and cipher suites.
    pub(crate) protocol: TlsProtocol,
    /// The Secret with the certificate, which the process makes and renews.
    pub(crate) secret: Option<CertificateSecret>,
    /// Whether the files of the certificate are made if they are missing.
    pub(crate) made_certificate: bool,
    /// The address of `/livez`, `/readyz` and `/metrics`, served over plain HTTP. Port 0 selects a free port. Without one, the embedded
    /// API server serves these paths on the main port.
    pub health_address: Option<SocketAddr>,
    /// The time at shutdown during which `/readyz` fails while the listener is still open.
    pub(crate) shutdown_delay: Duration,
}

/// A Secret of the upstream API server that holds a serving certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CertificateSecret {
    pub(crate) namespace: String,
    /// The name, also of the ConfigMap with the authority's certificate.
    pub(crate) name: String,
    /// The DNS names and IP addresses of the certificate.
    pub(crate) names: Vec<String>,
}

/// The authentication of callers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Authentication {
    /// The authorities of client certificates.
    pub(crate) client_ca: Option<PathBuf>,
    /// The trusted front proxies.
    pub(crate) request_header: Option<RequestHeader>,
    /// The file with lines of `token,user,uid,"group,…"`.
    pub(crate) token_file: Option<PathBuf>,
    /// Whether a request without credentials has the user `system:anonymous`.
    pub(crate) anonymous: bool,
}

/// Front proxies, and the headers with which they name the caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestHeader {
    /// The authorities of front proxies' certificates.
    pub(crate) client_ca: PathBuf,
    /// The trusted common names; empty for every certificate that the authorities signed.
    pub(crate) allowed_names: Vec<String>,
    /// Headers of the user name, in order.
    pub(crate) username_headers: Vec<String>,
    /// Headers of the UID, in order.
    pub(crate) uid_headers: Vec<String>,
    pub(crate) group_headers: Vec<String>,
    /// Prefixes of the headers of extra attributes.
    pub(crate) extra_header_prefixes: Vec<String>,
}

/// The component that authorizes callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuthorizationMode {
    /// No component in the proxy: the API server behind authorizes the requests that it receives.
    AlwaysAllow,
    /// The API server behind: the proxy sends a SubjectAccessReview before any other step.
    Webhook,
    /// As Webhook, with the embedded API server, which decides by its roles and bindings.
    Rbac,
}

/// The authorization of callers.
#[derive(Clone, Debug)]
pub(crate) struct Authorization {
    /// The component that authorizes callers.
    pub(crate) mode: AuthorizationMode,
}

/// The identity with which requests reach the API server behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpstreamIdentity {
    /// The proxy's identity, which impersonates the caller.
    #[default]
    Impersonate,
    /// A front proxy's identity, which names the caller in the headers that the API server publishes. The kubeconfig's client
    /// certificate must be that of a front proxy. The proxy's own requests use the kubeconfig's token then.
    RequestHeader,
    /// The caller's own credentials.
    Passthrough,
}

/// The form of an object that the validating phase sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ValidationView {
    /// The object as it would be stored: if a plugin needs that form, a dry run of the write comes first.
    #[default]
    Stored,
    /// The object as it is sent to the API server behind.
    Submitted,
}

/// The owner of the fields that admission changes (`metadata.managedFields`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FieldOwnership {
    /// No owner, as in kube-apiserver: a second write gives the fields back. In pods and events, the writer owns the fields.
    #[default]
    Exact,
    /// No owner, in pods and events as well.
    ExactAll,
    /// The writer of the object.
    Writer,
}

/// The treatment of writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Writes {
    /// The form of an object that the validating phase sees.
    pub(crate) validation_view: ValidationView,
    /// The owner of the fields that admission changes.
    pub(crate) field_ownership: FieldOwnership,
}

/// The webhook front end.
#[derive(Clone, Debug)]
pub(crate) struct FrontEndOptions {
    /// The address of `/mutate` and `/validate`, served over TLS. Port 0 selects a free port.
    pub(crate) address: SocketAddr,
    /// Whether clients have no port: the process serves the front end alone.
    pub(crate) is_alone: bool,
    /// The certificate; `None` for that of the Secret in [`Serving`].
    pub(crate) certificate: Option<CertificateFiles>,
    /// The name of the webhook configurations whose CA bundles the proxy keeps equal to the authority in the Secret.
    pub(crate) configurations: Option<String>,
    /// The authorities of API servers' client certificates.
    pub(crate) client_ca: Option<PathBuf>,
    /// The file with lines of `token,user,uid` for API servers.
    pub(crate) token_file: Option<PathBuf>,
    /// The names of the accepted API servers; empty for each with a token.
    pub(crate) allowed_names: Vec<String>,
    /// Whether callers without credentials are accepted.
    pub(crate) anonymous: bool,
    /// The names of the plugins.
    pub(crate) plugins: Vec<&'static str>,
    /// Whether a flag names the plugins. If not, they follow from the enabled ones.
    pub(crate) are_named: bool,
}

/// Whether the API server behind calls webhooks itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallsWebhooks {
    /// As the API server's metrics show, if the proxy can read them.
    #[default]
    Auto,
    /// The API server calls webhooks.
    Yes,
    /// The API server does not call webhooks.
    No,
}

/// The API server behind.
#[derive(Clone, Debug)]
pub enum Upstream {
    /// The API server in this process.
    Embedded(Embedded),
    /// An API server that is reached over the network.
    Remote {
        /// The API server's address and authorities, and the proxy's own credentials.
        kubeconfig: PathBuf,
        /// The identity with which requests reach the API server.
        identity: UpstreamIdentity,
        /// Whether the API server calls webhooks itself.
        calls_webhooks: CallsWebhooks,
        /// The second identity, which forwards the requests of clients; the kubeconfig's identity forwards them if there is none.
        impersonator: Option<ImpersonatorOptions>,
        /// The user of the proxy's own requests as a front proxy; the kubeconfig's token names the user if there is none.
        own_user: Option<UserInfo>,
        /// The mark of admitted requests, `NAMESPACE/NAME`.
        admitted_mark: Option<String>,
        /// The prefix of the groups of clients, except for Kubernetes' own (`system:…`); empty for none.
        group_prefix: String,
        /// The servers that webhooks of the API server may be; `None` for any server.
        webhook_targets: Option<Arc<WebhookTargets>>,
    },
}

impl Upstream {
    /// The kubeconfig of a remote API server.
    pub(crate) fn kubeconfig(&self) -> Option<&Path> {
        match self {
            Self::Remote { kubeconfig, .. } => Some(kubeconfig),
            Self::Embedded(_) => None,
        }
    }

    /// The servers that webhooks of the API server may be; `None` for any server.
    pub(crate) fn webhook_targets(&self) -> Option<&Arc<WebhookTargets>> {
        match self {
            Self::Remote { webhook_targets, .. } => webhook_targets.as_ref(),
            Self::Embedded(_) => None,
        }
    }

    /// The mark of admitted requests; `None` for the embedded API server, which needs none.
    pub(crate) fn admitted_mark(&self) -> Option<&str> {
        match self {
            Self::Remote { admitted_mark, .. } => admitted_mark.as_deref(),
            Self::Embedded(_) => None,
        }
    }
}

/// The identity that forwards the requests of clients, and impersonates them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImpersonatorOptions {
    /// A service account, whose tokens the proxy requests.
    ServiceAccount { namespace: String, name: String },
    /// The user of another kubeconfig.
    Kubeconfig(PathBuf),
}

/// An error in the configuration, in one line that names the flag and its value.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// An invalid value of a flag.
    #[error("--{flag}={value}: {reason}")]
    Flag {
        /// The flag's name.
        flag: &'static str,
        /// The given value.
        value: String,
        /// The reason why the value is invalid.
        reason: String,
    },
    /// Flags that cannot be combined, or a rule with a text of its own.
    #[error("{0}")]
    Rule(String),
}

impl ConfigError {
    /// Creates an error about a flag's value.
    pub(crate) fn flag(flag: &'static str, value: impl Into<String>, reason: impl ToString) -> Self {
        let reason = reason.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        Self::Flag { flag, value: value.into(), reason }
    }
}
