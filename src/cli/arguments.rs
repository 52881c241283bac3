//! What can be typed. Names, defaults and syntax are kube-apiserver's where it has the flag.

use crate::config::{CallsWebhooks, FieldOwnership, UpstreamIdentity, ValidationView};
use crate::go_text::duration;
use clap::{ArgAction, Args, Parser, Subcommand};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Kubernetes admission control outside kube-apiserver: a reverse proxy that runs the admission chain.
#[derive(Debug, Parser)]
#[command(name = "kube-admission-proxy", version, args_override_self = true)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Serve the Kubernetes API: admit what clients write, forward it to an API server.
    ///
    /// Without --upstream-kubeconfig an API server inside this process is behind it, for trying and for tests.
    #[command(args_override_self = true, disable_help_flag = true)]
    Serve(Box<Serve>),
    /// Check the expressions of policies, webhooks' matchConditions and custom resources' rules, without a cluster.
    ///
    /// Says what kube-apiserver would refuse, what it would warn of in status.typeChecking, and what each expression may cost.
    /// Kinds are the built-in ones and those that CustomResourceDefinitions among the files define. Exits with 1 if there is an
    /// error.
    Check(Check),
    /// List the admission plugins: name, phase, whether on by default, configuration kind, what it does.
    Plugins,
}

#[derive(Args, Debug)]
pub(super) struct Check {
    /// Files of manifests, YAML or JSON.
    #[arg(required = true, value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// Files of custom resources, which are checked by the rules of their definitions.
    #[arg(long, value_name = "FILE", action = ArgAction::Append)]
    pub(super) object: Vec<PathBuf>,
}

#[derive(Args, Debug)]
pub(super) struct Serve {
    #[command(flatten)]
    pub(super) admission: Admission,
    #[command(flatten)]
    pub(super) authentication: Authentication,
    #[command(flatten)]
    pub(super) authorization: Authorization,
    #[command(flatten)]
    pub(super) serving: Serving,
    #[command(flatten)]
    pub(super) upstream: Upstream,
    #[command(flatten)]
    pub(super) audit: Audit,

    /// How much is logged, to stderr: 0 what an operator wants to know, 2 decisions, 6 every request.
    #[arg(long = "v", short = 'v', value_name = "LEVEL", default_value_t = 0, help_heading = "Misc")]
    pub(super) verbosity: u8,
    /// Print help.
    #[arg(long, short = 'h', action = ArgAction::Help, help_heading = "Misc")]
    help: Option<bool>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Admission")]
pub(super) struct Admission {
    /// Plugins to run besides those on by default (`kube-admission-proxy plugins` lists them). Their order does not matter.
    #[arg(long, value_name = "NAME,…", action = ArgAction::Append)]
    pub(super) enable_admission_plugins: Vec<String>,
    /// Plugins not to run although they are on by default.
    #[arg(long, value_name = "NAME,…", action = ArgAction::Append)]
    pub(super) disable_admission_plugins: Vec<String>,
    /// An AdmissionConfiguration file with plugins' configurations.
    #[arg(long, value_name = "FILE")]
    pub(super) admission_control_config_file: Option<PathBuf>,
    /// kube-apiserver's feature gates, AllAlpha and AllBeta too. Those that concern neither admission, CBOR nor
    /// impersonation have no effect.
    #[arg(long, value_name = "NAME=BOOL,…", action = ArgAction::Append)]
    pub(super) feature_gates: Vec<String>,
    /// How long a pod stays on a node that is not ready, where it does not say itself.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, allow_negative_numbers = true)]
    pub(super) default_not_ready_toleration_seconds: i64,
    /// How long a pod stays on a node that is unreachable, where it does not say itself.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, allow_negative_numbers = true)]
    pub(super) default_unreachable_toleration_seconds: i64,
    /// Time for the calls of webhooks in all phases on one object. Hooks that are still to be called then count as timed out:
    /// their failurePolicy decides. 0 for as long as each of them may take.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse)]
    pub(super) admission_timeout: Duration,
    /// Webhooks that are called but decide nothing, by their configuration or as configuration/webhook: what they would
    /// have decided is counted, logged and in the audit log. The annotation shadow.kube-admission-proxy.dev/hooks says the same.
    #[arg(long, value_name = "NAME,…", action = ArgAction::Append)]
    pub(super) shadow_webhooks: Vec<String>,
    /// Admission policies that are evaluated but decide nothing, by their name or as policy/binding: what they would have decided
    /// is counted, logged and in the audit log. The annotation shadow.kube-admission-proxy.dev/policy says the same.
    #[arg(long, value_name = "NAME,…", action = ArgAction::Append)]
    pub(super) shadow_policies: Vec<String>,
    /// Whether the annotations shadow.kube-admission-proxy.dev/hooks and …/policy are obeyed. With false only the command line makes
    /// shadows.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "true", value_parser = boolean, action = ArgAction::Set)]
    pub(super) shadow_annotations: bool,
    /// Whether policies from files (staticManifestsDir) may have parameters, which are objects of the API behind; kube-apiserver
    /// refuses such files.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = boolean, action = ArgAction::Set)]
    pub(super) enable_static_policy_parameters: bool,
    /// What the validating phase sees where a webhook looks: the object as it would be stored, for which the write is
    /// tried first (dryRun=All); or the one that is submitted, without that round trip.
    #[arg(long, value_name = "VIEW", value_parser = validation_view(), default_value = "stored")]
    pub(super) validation_view: ValidationView,
    /// Who owns the fields that admission changes: nobody, as in kube-apiserver, for which every write that admission changes is
    /// followed by one of metadata.managedFields (exact: not for pods and events; exact-all); or who writes the object (writer).
    #[arg(long, value_name = "OWNERSHIP", value_parser = field_ownership(), default_value = "exact")]
    pub(super) field_ownership: FieldOwnership,
    /// Whether webhooks of a Service are called at its endpoints rather than at its cluster IP.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = boolean, action = ArgAction::Set)]
    pub(super) enable_aggregator_routing: bool,
    /// After so many calls in a row that a webhook did not answer, further ones fail at once, until one that tries is
    /// answered. 0 for never, as in kube-apiserver; at most 1000.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub(super) webhook_circuit_breaker_failures: u32,
    /// The time in which these calls count.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    pub(super) webhook_circuit_breaker_window: Duration,
    /// How long they fail before one tries, and then the next.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration::parse)]
    pub(super) webhook_circuit_breaker_probe_interval: Duration,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Authentication")]
pub(super) struct Authentication {
    /// Who presents a certificate that one of these authorities signed is the user of its common name, with its
    /// organizations as groups.
    #[arg(long, value_name = "FILE")]
    pub(super) client_ca_file: Option<PathBuf>,
    /// Authorities of the front proxies whose request headers are believed.
    #[arg(long, value_name = "FILE")]
    pub(super) requestheader_client_ca_file: Option<PathBuf>,
    /// Common names of those front proxies. None: every one that the authorities signed.
    #[arg(long, value_name = "NAME,…", action = ArgAction::Append)]
    pub(super) requestheader_allowed_names: Vec<String>,
    /// Headers to look for user names. X-Remote-User is common.
    #[arg(long, value_name = "HEADER,…", action = ArgAction::Append)]
    pub(super) requestheader_username_headers: Vec<String>,
    /// Headers to look for UIDs. X-Remote-Uid is suggested.
    #[arg(long, value_name = "HEADER,…", action = ArgAction::Append)]
    pub(super) requestheader_uid_headers: Vec<String>,
    /// Headers to look for groups. X-Remote-Group is suggested.
    #[arg(long, value_name = "HEADER,…", action = ArgAction::Append)]
    pub(super) requestheader_group_headers: Vec<String>,
    /// Prefixes of headers to look for anything else. X-Remote-Extra- is suggested.
    #[arg(long, value_name = "PREFIX,…", action = ArgAction::Append)]
    pub(super) requestheader_extra_headers_prefix: Vec<String>,
    /// Whether who presents nothing may call as system:anonymous (kube-apiserver's default is true).
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = boolean, action = ArgAction::Set)]
    pub(super) anonymous_auth: bool,
    /// Static bearer tokens: lines of token,user,uid,"group1,group2". Others are shown to the API server behind.
    #[arg(long, value_name = "FILE")]
    pub(super) token_auth_file: Option<PathBuf>,
    /// How long the API server behind is believed that a bearer token is good: as long a revoked one may go on (kube-apiserver's
    /// default for its webhook is 2m0s). 0 asks for each request. Refused tokens are asked about each time.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    pub(super) authentication_token_webhook_cache_ttl: Duration,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Authorization")]
pub(super) struct Authorization {
    /// Webhook asks the API server behind (SubjectAccessReview) before anything else happens; AlwaysAllow lets it refuse
    /// when the request gets there. Default: Webhook, and AlwaysAllow where that API server is the one in this process.
    #[arg(long, value_name = "MODE", action = ArgAction::Append)]
    pub(super) authorization_mode: Vec<String>,
    /// How long the API server behind is believed that a user may do something: as long a right that was revoked past the proxy may
    /// go on (kube-apiserver's default for its webhook is 5m0s). 0 asks each time.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    pub(super) authorization_webhook_cache_authorized_ttl: Duration,
    /// The same of what a user may not do (kube-apiserver's default for its webhook is 30s).
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse)]
    pub(super) authorization_webhook_cache_unauthorized_ttl: Duration,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Serving")]
pub(super) struct Serving {
    /// Address to serve the API on.
    #[arg(long, value_name = "IP", default_value = "0.0.0.0")]
    pub(super) bind_address: IpAddr,
    /// Port to serve the API on, over TLS. 0 takes a free one, which is printed.
    #[arg(long, value_name = "PORT", default_value_t = 6443)]
    pub(super) secure_port: u16,
    /// The server's certificate, its chain behind it. Without one, a self-signed one is made at start.
    #[arg(long, value_name = "FILE")]
    pub(super) tls_cert_file: Option<PathBuf>,
    /// Its private key.
    #[arg(long, value_name = "FILE")]
    pub(super) tls_private_key_file: Option<PathBuf>,
    /// Where /livez, /readyz and /metrics are served, in plain HTTP. Port 0 takes a free one, which is printed.
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:10280")]
    pub(super) health_bind_address: SocketAddr,
    /// Time for a request that is no watch and no upgrade.
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = duration::parse)]
    pub(super) request_timeout: Duration,
    /// Reads in flight at a time; more get 429, and so does a user who has as many as are left. `system:masters` do not count. 0
    /// for no limit.
    #[arg(long, value_name = "N", default_value_t = 400)]
    pub(super) max_requests_inflight: usize,
    /// The same of writes.
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub(super) max_mutating_requests_inflight: usize,
    /// On SIGTERM, how long /readyz fails before connections are no longer accepted.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse)]
    pub(super) shutdown_delay_duration: Duration,
    /// After that, how long requests in flight may take.
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = duration::parse)]
    pub(super) shutdown_drain_timeout: Duration,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Upstream")]
pub(super) struct Upstream {
    /// The API server behind, and the proxy's own credentials for it. Without it, the API server inside this process is
    /// behind.
    #[arg(long, value_name = "FILE")]
    pub(super) upstream_kubeconfig: Option<PathBuf>,
    /// As whom requests reach it: the proxy that impersonates the caller; a front proxy with request headers under the names
    /// in ConfigMap kube-system/extension-apiserver-authentication (the kubeconfig has its client certificate, and a token for the
    /// proxy's own requests); or the caller itself, with the
    /// credentials it presented.
    #[arg(long, value_name = "HOW", value_parser = identity(), default_value = "impersonate")]
    pub(super) upstream_identity: UpstreamIdentity,
    /// Whether it calls webhooks itself, which is warned of: each would be called twice. auto looks at its metrics.
    #[arg(long, value_name = "WHETHER", value_parser = calls_webhooks(), default_value = "auto")]
    pub(super) upstream_calls_webhooks: CallsWebhooks,
    /// Where a kubeconfig for the API server inside this process is written, if the server's certificate and the
    /// clients' authority are its own [default: ./kube-admission-proxy.kubeconfig].
    #[arg(long, value_name = "FILE")]
    pub(super) write_kubeconfig: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Audit")]
pub(super) struct Audit {
    /// File that audit events are appended to, as lines of JSON. - is standard output.
    #[arg(long, value_name = "FILE")]
    pub(super) audit_log_path: Option<PathBuf>,
    /// The audit policy (audit.k8s.io/v1 Policy).
    #[arg(long, value_name = "FILE")]
    pub(super) audit_policy_file: Option<PathBuf>,
}

/// `strconv.ParseBool`.
fn boolean(text: &str) -> Result<bool, &'static str> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("must be true or false"),
    }
}

fn validation_view() -> impl clap::builder::TypedValueParser<Value = ValidationView> {
    use clap::builder::{PossibleValuesParser, TypedValueParser};
    PossibleValuesParser::new(["stored", "submitted"]).map(|text| match text.as_str() {
        "submitted" => ValidationView::Submitted,
        _ => ValidationView::Stored,
    })
}

fn field_ownership() -> impl clap::builder::TypedValueParser<Value = FieldOwnership> {
    use clap::builder::{PossibleValuesParser, TypedValueParser};
    PossibleValuesParser::new(["exact", "exact-all", "writer"]).map(|text| match text.as_str() {
        "writer" => FieldOwnership::Writer,
        "exact-all" => FieldOwnership::ExactAll,
        _ => FieldOwnership::Exact,
    })
}

fn calls_webhooks() -> impl clap::builder::TypedValueParser<Value = CallsWebhooks> {
    use clap::builder::{PossibleValuesParser, TypedValueParser};
    PossibleValuesParser::new(["auto", "yes", "no"]).map(|text| match text.as_str() {
        "yes" => CallsWebhooks::Yes,
        "no" => CallsWebhooks::No,
        _ => CallsWebhooks::Auto,
    })
}

fn identity() -> impl clap::builder::TypedValueParser<Value = UpstreamIdentity> {
    use clap::builder::{PossibleValuesParser, TypedValueParser};
    PossibleValuesParser::new(["impersonate", "requestheader", "passthrough"]).map(|text| match text.as_str() {
        "requestheader" => UpstreamIdentity::RequestHeader,
        "passthrough" => UpstreamIdentity::Passthrough,
        _ => UpstreamIdentity::Impersonate,
    })
}
