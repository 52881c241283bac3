//! The configuration of each component, parsed and complete.
//!
//! One struct a component, and nothing of the command line's types in them. What is wrong with a value has been said
//! before one of these exists, except for what only the component itself can judge.

pub mod admission_file;
mod feature_gates;
pub mod kubeconfig;
mod limits;
mod plugin;

pub use feature_gates::FeatureGates;
pub use limits::Limits;
pub use plugin::{BuildError, DefaultTolerations, PluginConfiguration, PolicyParameters};

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A certificate and its key as PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, and its chain behind it.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// The listener.
#[derive(Clone, Debug)]
pub struct Serving {
    /// Where the API is served, over TLS. Port 0 takes a free one.
    pub address: SocketAddr,
    /// The certificate; one is made at start where there is none.
    pub certificate: Option<CertificateFiles>,
    /// Where `/livez`, `/readyz` and `/metrics` are served, in plain HTTP. Port 0 takes a free one.
    pub health_address: SocketAddr,
    /// How long `/readyz` fails before the listener closes, at the end.
    pub shutdown_delay: Duration,
    /// How long requests in flight may take after that.
    pub drain_timeout: Duration,
}

/// Who callers are.
#[derive(Clone, Debug, Default)]
pub struct Authentication {
    /// The authorities of client certificates.
    pub client_ca: Option<PathBuf>,
    /// The front proxies that are believed.
    pub request_header: Option<RequestHeader>,
    /// `token,user,uid,"group,…"` lines.
    pub token_file: Option<PathBuf>,
    /// Whether who presents nothing is `system:anonymous`.
    pub anonymous: bool,
}

/// Front proxies, and the headers in which they name the caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestHeader {
    /// The authorities of front proxies' certificates.
    pub client_ca: PathBuf,
    /// The common names that are believed; empty for every one that the authorities signed.
    pub allowed_names: Vec<String>,
    /// Headers of the user name, in order.
    pub username_headers: Vec<String>,
    /// Headers of the UID, in order.
    pub uid_headers: Vec<String>,
    /// Headers of groups.
    pub group_headers: Vec<String>,
    /// Prefixes of headers of anything else.
    pub extra_header_prefixes: Vec<String>,
}

/// Who decides what callers may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthorizationMode {
    /// Nobody here: the API server behind decides when it gets the request.
    AlwaysAllow,
    /// The API server behind, asked with a SubjectAccessReview before anything else happens.
    Webhook,
}

/// What callers may do.
#[derive(Clone, Debug)]
pub struct Authorization {
    /// Who decides.
    pub mode: AuthorizationMode,
}

/// As whom requests reach the API server behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpstreamIdentity {
    /// As the proxy, impersonating the caller.
    #[default]
    Impersonate,
    /// As a front proxy that names the caller in the headers that the API server publishes: the kubeconfig's client certificate
    /// must be one's.
    /// What the proxy asks on its own behalf goes by the kubeconfig's token then.
    RequestHeader,
    /// With the credentials that the caller presented.
    Passthrough,
}

/// What the validating phase sees of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ValidationView {
    /// The object as it would be stored: the write is tried first, where a plugin looks.
    #[default]
    Stored,
    /// The object as it is sent to the API server behind.
    Submitted,
}

/// Who owns the fields that admission changes (`metadata.managedFields`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldOwnership {
    /// Nobody, as in kube-apiserver: a second write gives them back. Those of pods and events are their writer's.
    #[default]
    Exact,
    /// Nobody, in pods and events as well.
    ExactAll,
    /// Who writes the object.
    Writer,
}

/// Whether the API server behind calls webhooks itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallsWebhooks {
    /// Its metrics say so, if they can be read.
    #[default]
    Auto,
    /// It does.
    Yes,
    /// It does not.
    No,
}

/// The API server behind.
#[derive(Clone, Debug)]
pub enum Upstream {
    /// The one in this process.
    Embedded {
        /// Where a kubeconfig for it is written.
        kubeconfig: PathBuf,
    },
    /// One that is reached over the network.
    Remote {
        /// Its address and authorities, and the proxy's own credentials.
        kubeconfig: PathBuf,
        /// As whom requests reach it.
        identity: UpstreamIdentity,
        /// Whether it calls webhooks itself.
        calls_webhooks: CallsWebhooks,
    },
}

/// The audit log.
#[derive(Clone, Debug, Default)]
pub struct Audit {
    /// Where events go; `None` for nowhere.
    pub log: Option<AuditLog>,
    /// The `audit.k8s.io/v1` Policy.
    pub policy_file: Option<PathBuf>,
}

/// Where audit events go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditLog {
    /// Standard output.
    Stdout,
    /// A file that is appended to.
    File(PathBuf),
}

/// What is wrong with the configuration, in one line that names the flag and its value.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A flag's value.
    #[error("--{flag}={value}: {reason}")]
    Flag {
        /// The flag's name.
        flag: &'static str,
        /// What was given.
        value: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Flags that do not go together, or a rule that has its own text.
    #[error("{0}")]
    Rule(String),
}

impl ConfigError {
    /// An error in a flag's value.
    pub fn flag(flag: &'static str, value: impl Into<String>, reason: impl ToString) -> Self {
        let reason = reason.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        Self::Flag { flag, value: value.into(), reason }
    }
}
