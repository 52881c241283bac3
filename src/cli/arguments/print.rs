//! The arguments of `print`.

use super::{boolean, identity};
use crate::config::UpstreamIdentity;
use clap::{ArgAction, Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Print {
    /// Print the ClusterRole that the credentials of --upstream-kubeconfig need, for the enabled plugins.
    Rbac(Rbac),
    /// Print everything that the proxy's own credentials are made of: namespace, service account, roles and bindings, with the commands that
    /// write the kubeconfig.
    Install(Install),
    /// Print the ValidatingAdmissionPolicy by which an API server refuses writes that did not go through the proxy, with its binding,
    /// and the right of the proxy to mark admitted requests.
    Guard(Guard),
    /// Print the patch or the values that put the proxy beside the API server of a control plane, on the API server's own address and
    /// port.
    Sidecar(Sidecar),
    /// Print the MutatingWebhookConfiguration and the ValidatingWebhookConfiguration with which an API server asks the webhook front end.
    Webhooks(Box<Webhooks>),
    /// Print the JSON Schema of a tenant's file.
    TenantSchema,
    /// Print the CustomResourceDefinitions of the APIs that Kubernetes removed, for removed plugins in front of a real API server.
    Crds,
}

#[derive(Args, Debug)]
pub(in crate::cli) struct Rbac {
    #[command(flatten)]
    pub(in crate::cli) rights: Rights,
    /// Print the rights of each identity and of each plugin instead, as data for templates.
    #[arg(long, exclusive = true)]
    pub(in crate::cli) by_plugin: bool,
}

#[derive(Args, Debug)]
pub(in crate::cli) struct Install {
    /// Namespace of the service account.
    #[arg(long, value_name = "NAME", default_value = "kube-admission-proxy")]
    pub(in crate::cli) namespace: String,
    #[command(flatten)]
    pub(in crate::cli) rights: Rights,
}

/// The flags of serve on which the rights depend.
#[derive(Args, Debug)]
pub(in crate::cli) struct Rights {
    /// As for serve.
    #[arg(long, value_name = "NAME,…", action = ArgAction::Append)]
    pub(in crate::cli) enable_admission_plugins: Vec<String>,
    /// As for serve.
    #[arg(long, value_name = "NAME,…", action = ArgAction::Append)]
    pub(in crate::cli) disable_admission_plugins: Vec<String>,
    /// As for serve.
    #[arg(long, value_name = "HOW", value_parser = identity(), default_value = "impersonate")]
    pub(in crate::cli) upstream_identity: UpstreamIdentity,
    /// As for serve.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = boolean, action = ArgAction::Set)]
    pub(in crate::cli) enable_aggregator_routing: bool,
    /// As for serve. Also prints the rights of the service account, and the right to request its tokens.
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub(in crate::cli) upstream_impersonator: Option<String>,
    /// As for serve.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = boolean, action = ArgAction::Set)]
    pub(in crate::cli) webhook_only: bool,
    /// As for serve, for the front end alone.
    #[arg(long, value_name = "NAME,…", action = ArgAction::Append, requires = "webhook_only")]
    pub(in crate::cli) webhook_admission_plugins: Vec<String>,
    /// As for serve. Also prints the right to write the CA bundles.
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) webhook_configurations: Option<String>,
}

#[derive(Args, Debug)]
pub(in crate::cli) struct Guard {
    /// Action of the API server for a write that did not go through the proxy: Audit annotates the audit event, Warn warns the client,
    /// Deny refuses the write.
    #[arg(long, value_name = "ACTION", value_enum, ignore_case = true, default_value = "Audit")]
    pub(in crate::cli) action: GuardAction,
    /// As for serve.
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub(in crate::cli) admitted_mark: String,
    /// User of --upstream-kubeconfig, whose own writes have no mark: namespaces, the status of quotas, tokens of the impersonator.
    #[arg(long, value_name = "USER")]
    pub(in crate::cli) proxy_user: String,
    /// As for serve.
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub(in crate::cli) upstream_impersonator: Option<String>,
    /// As for serve.
    #[arg(long, value_name = "HOW", value_parser = identity(), default_value = "impersonate")]
    pub(in crate::cli) upstream_identity: UpstreamIdentity,
    /// Users that may write without the proxy, besides the control plane and the controllers of Kubernetes.
    #[arg(long, value_name = "USER,…", action = ArgAction::Append)]
    pub(in crate::cli) exempt_users: Vec<String>,
    /// Groups that may write without the proxy, besides kubelets. system:serviceaccounts:kube-system is a wide one.
    #[arg(long, value_name = "GROUP,…", action = ArgAction::Append)]
    pub(in crate::cli) exempt_groups: Vec<String>,
}

/// The action of a guard (`validationActions`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "PascalCase")]
pub(in crate::cli) enum GuardAction {
    Audit,
    Warn,
    Deny,
}

#[derive(Args, Debug)]
pub(in crate::cli) struct Sidecar {
    /// The control plane.
    #[arg(long = "for", value_name = "CONTROL_PLANE", value_enum)]
    pub(in crate::cli) control_plane: ControlPlane,
    /// The patch or values of the control plane, or the kubeconfig that the proxy reads there.
    #[arg(long, value_name = "PART", value_enum, default_value = "patch")]
    pub(in crate::cli) part: SidecarPart,
    /// The image of the proxy.
    #[arg(long, value_name = "IMAGE", default_value = concat!("ghcr.io/kube-admission-proxy/kube-admission-proxy:", env!("CARGO_PKG_VERSION")))]
    pub(in crate::cli) image: String,
    /// Further flags of serve, after --.
    #[arg(last = true, value_name = "FLAG")]
    pub(in crate::cli) serve_flags: Vec<String>,
}

/// A control plane that has a place for a sidecar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(in crate::cli) enum ControlPlane {
    Kubeadm,
    Kamaji,
    Vcluster,
    Karmada,
}

/// A part of the sidecar's setup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(in crate::cli) enum SidecarPart {
    Patch,
    Kubeconfig,
}

#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("place").required(true).args(["service", "url", "by_plugin"]))]
pub(in crate::cli) struct Webhooks {
    /// Print the rules of each plugin instead, as data for templates.
    #[arg(long, exclusive = true)]
    pub(in crate::cli) by_plugin: bool,
    /// As for serve.
    #[arg(long, value_name = "NAME,…", action = ArgAction::Append)]
    pub(in crate::cli) enable_admission_plugins: Vec<String>,
    /// As for serve.
    #[arg(long, value_name = "NAME,…", action = ArgAction::Append)]
    pub(in crate::cli) disable_admission_plugins: Vec<String>,
    /// As for serve.
    #[arg(long, value_name = "NAME,…", action = ArgAction::Append)]
    pub(in crate::cli) webhook_admission_plugins: Vec<String>,
    /// Service of the front end. The front end does not review requests in the namespace of the Service.
    #[arg(long, value_name = "NAMESPACE/NAME[:PORT]")]
    pub(in crate::cli) service: Option<String>,
    /// URL of the front end, without the path /mutate or /validate: https://HOST:PORT.
    #[arg(long, value_name = "URL")]
    pub(in crate::cli) url: Option<String>,
    /// File of the authorities that sign the serving certificate of the front end. Without this flag, the API server uses the authorities
    /// of its host.
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) ca_bundle_file: Option<PathBuf>,
    /// Name of both configurations.
    #[arg(long, value_name = "NAME", default_value = "kube-admission-proxy")]
    pub(in crate::cli) name: String,
    /// Action of the API server for a request that the front end does not decide.
    #[arg(long, value_name = "POLICY", value_enum, ignore_case = true, default_value = "Fail")]
    pub(in crate::cli) failure_policy: FailurePolicy,
    /// Time that the API server waits for an answer.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=30))]
    pub(in crate::cli) timeout_seconds: u32,
    /// Namespaces whose objects are not reviewed, besides that of the Service.
    #[arg(long, value_name = "NAME,…", action = ArgAction::Append, default_value = "kube-system")]
    pub(in crate::cli) exclude_namespaces: Vec<String>,
    /// Resources, as resource.group, that are not reviewed unless a plugin names them. An API server cannot do without them while the
    /// front end is down.
    #[arg(long, value_name = "RESOURCE,…", action = ArgAction::Append,
          default_value = "events,events.events.k8s.io,leases.coordination.k8s.io")]
    pub(in crate::cli) exclude_resources: Vec<String>,
    /// User of --upstream-kubeconfig, whose own requests are not reviewed.
    #[arg(long, value_name = "USER")]
    pub(in crate::cli) proxy_user: Option<String>,
    /// As for serve. Requests with this mark are not reviewed, because the proxy has admitted them.
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub(in crate::cli) admitted_mark: Option<String>,
}

/// The `failurePolicy` of a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "PascalCase")]
pub(in crate::cli) enum FailurePolicy {
    Fail,
    Ignore,
}
