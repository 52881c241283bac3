//! The arguments of the command line. A flag that kube-apiserver has too has its name, default and syntax.

mod print;

pub(super) use print::{
    ControlPlane, FailurePolicy, Guard, GuardAction, Install, Print, Rbac, Rights, Sidecar, SidecarPart, Webhooks,
};

use super::check::Output;
use crate::config::{CallsWebhooks, FieldOwnership, UpstreamIdentity, ValidationView};
use crate::go_text::duration;
use crate::logging::Modules;
use crate::object::quantity::Quantity;
use clap::{ArgAction, ArgMatches, Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

/// The default range of the addresses of Services.
pub(super) const SERVICE_RANGE: &str = "10.96.0.0/16";
/// The default of `--quota-backend-bytes`: that of etcd.
pub(super) const QUOTA_BYTES: usize = 2 << 30;

/// The value of `--audit-annotations` for events as kube-apiserver writes them.
pub(super) const ONLY_KUBE_APISERVER: &str = "kube-apiserver";

/// Kubernetes admission control outside kube-apiserver: a reverse proxy that runs the admission chain.
#[derive(Debug, Parser)]
#[command(name = "kube-admission-proxy", version = version(), args_override_self = true)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) command: Command,
}

/// The version, with the release of Kubernetes that decides alike, and the commit if the build names one.
fn version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| {
        // Empty in a tree without git.
        let commit = option_env!("KUBE_ADMISSION_PROXY_COMMIT").filter(|commit| !commit.is_empty());
        let commit = commit.map(|commit| format!(", commit {commit}"));
        format!("{} ({}{})", env!("CARGO_PKG_VERSION"), super::apiserver::version(), commit.unwrap_or_default())
    });
    &VERSION
}

/// The examples that the long help of `serve` begins with.
const EXAMPLES: &str = "\
Examples:
  Try the embedded API server, and write a kubeconfig for it
    kube-admission-proxy serve
  Run in front of an API server, with one plugin more
    kube-admission-proxy serve --upstream-kubeconfig=FILE --client-ca-file=FILE --enable-admission-plugins=AlwaysPullImages
  Run kube-apiserver's plugins as webhooks of a managed cluster
    kube-admission-proxy serve --upstream-kubeconfig=FILE --webhook-only --webhook-bind-address=0.0.0.0:9443 \\
      --tls-secret=NAMESPACE/NAME --webhook-configurations=NAME --webhook-anonymous-auth";

/// The definition of the command line, with short texts in the short help of `serve`: the first sentence of each flag.
pub(super) fn command() -> clap::Command {
    Arguments::command().mut_subcommand("serve", |serve| {
        serve.before_long_help(EXAMPLES).mut_args(|flag| {
            let text = flag.get_help().map(ToString::to_string).unwrap_or_default();
            match text.split_once(". ") {
                Some((first, _)) => flag.help(first.to_owned()).long_help(text),
                None => flag,
            }
        })
    })
}

/// The arguments of this process, and the flags of `serve` with their values.
///
/// # Errors
/// If they are invalid, or ask for the help or the version.
pub(super) fn parse() -> Result<(Arguments, BTreeMap<String, String>), clap::Error> {
    let command = command();
    let matches = command.clone().try_get_matches()?;
    let serve = command.find_subcommand("serve").zip(matches.subcommand_matches("serve"));
    let shown = serve.map(|(serve, matches)| shown(serve, matches)).unwrap_or_default();
    Ok((Arguments::from_arg_matches(&matches)?, shown))
}

/// The flags with their values, as pflag writes them: several values are in brackets.
pub(super) fn shown(command: &clap::Command, matches: &ArgMatches) -> BTreeMap<String, String> {
    let flags = command.get_arguments().filter_map(|flag| {
        let (name, is_list) = (flag.get_long()?, matches!(flag.get_action(), ArgAction::Append));
        let raw = matches.try_get_raw(flag.get_id().as_str()).ok()?;
        let values: Vec<_> = raw.into_iter().flatten().map(|value| value.to_string_lossy()).collect();
        let value = if is_list { format!("[{}]", values.join(",")) } else { values.join(",") };
        Some((name.to_owned(), value))
    });
    flags.collect()
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Serve the Kubernetes API: run admission for the writes of clients, and forward them to an API server.
    ///
    /// Without --upstream-kubeconfig the proxy forwards to an embedded API server, for trials and tests.
    #[command(args_override_self = true, disable_help_flag = true)]
    Serve(Box<Serve>),
    /// Check manifests without a cluster: admit them with the whole chain, and check the expressions of policies, webhooks and definitions.
    ///
    /// An API server in this process decodes, defaults, admits and validates each object, in the order in which Helm installs them. Policies
    /// and CustomResourceDefinitions among the files have an effect, and so has an AdmissionConfiguration. Prints the errors for which
    /// kube-apiserver would refuse an object, the warnings that it would write to status.typeChecking or answer, and the estimated cost of
    /// each expression. An object of a kind that is neither built in nor defined among the files is not checked. The exit code is 1 if there
    /// is an error.
    #[command(args_override_self = true)]
    Check(Box<Check>),
    /// Examine an installation: whether the API server can be reached, rights, certificates, webhooks, guard, release and clock.
    ///
    /// The flags are those of serve. Run it where the proxy runs, with the same flags: nothing is changed, and no port is opened. The exit
    /// code is 1 if something fails users.
    #[command(args_override_self = true, disable_help_flag = true)]
    Doctor(Box<Doctor>),
    /// Print what a running proxy does: plugins with calls, webhooks, policies, caches, and who has how many requests in flight.
    ///
    /// Run it on the machine or in the pod of the proxy: the health port answers no other clients.
    Status(Status),
    /// List the admission plugins: name, phase, default, and kind of the configuration.
    Plugins {
        /// Format: wide has the effect of each plugin too.
        #[arg(long, short, value_name = "FORMAT", value_enum, default_value = "table")]
        output: Format,
        /// The release whose plugins are listed, as of serve --emulated-version; without it, those of every release.
        #[arg(long, value_name = "[kube=]VERSION", action = ArgAction::Append)]
        emulated_version: Vec<String>,
    },
    /// Print what an operator needs for the proxy's surroundings.
    #[command(subcommand)]
    Print(Print),
    /// Print the completion script of a shell.
    ///
    /// For example `source <(kube-admission-proxy completion bash)`.
    Completion {
        /// The shell.
        shell: Shell,
    },
    /// Write the manual pages of all subcommands into a folder.
    ///
    /// For example `kube-admission-proxy man /usr/local/share/man/man1`.
    Man {
        /// The folder, which must exist.
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
        /// The date of the pages.
        #[arg(long, value_name = "YYYY-MM-DD", default_value = "")]
        date: String,
    },
    /// Make a folder of binaries for controller-runtime's envtest: this program under the names kube-apiserver and etcd.
    ///
    /// Prints the line that sets KUBEBUILDER_ASSETS to the folder. Under the name kube-apiserver the program serves the embedded API
    /// server with kube-apiserver's flags; under the name etcd it only says that it is healthy.
    Envtest(Envtest),
}

#[derive(Args, Debug)]
pub(super) struct Doctor {
    /// Format of the answer.
    #[arg(long, short, value_name = "FORMAT", value_enum, default_value = "text", help_heading = "Misc")]
    pub(super) output: DoctorFormat,
    #[command(flatten)]
    pub(super) serve: Serve,
}

/// The format of the findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum DoctorFormat {
    Text,
    Json,
}

#[derive(Args, Debug)]
pub(super) struct Status {
    /// Address of the health port of the proxy.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:10280")]
    pub(super) server: String,
    /// Print again and again, until the process is ended.
    #[arg(long, short)]
    pub(super) watch: bool,
    /// Time between two prints.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration::parse)]
    pub(super) interval: Duration,
    /// Format of the status.
    #[arg(long, short, value_name = "FORMAT", value_enum, default_value = "text")]
    pub(super) output: StatusFormat,
}

/// The format of the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum StatusFormat {
    Text,
    Json,
}

/// The format of the list of plugins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    Table,
    Wide,
    Json,
}

#[derive(Args, Debug)]
pub(super) struct Envtest {
    /// Folder for the links to this program. Existing files of these names are replaced.
    #[arg(value_name = "DIR", required_unless_present = "tar")]
    pub(super) folder: Option<PathBuf>,
    /// File for an archive with copies of this program instead, for setup-envtest sideload. - is the standard output.
    #[arg(long, value_name = "FILE", conflicts_with = "folder")]
    pub(super) tar: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(super) struct Check {
    /// Manifest files, in YAML or JSON, or folders with such files. - is the standard input.
    #[arg(required_unless_present = "tenants_dir", value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// Files of custom resources to validate by the rules of their CustomResourceDefinitions alone.
    #[arg(long, value_name = "FILE", action = ArgAction::Append)]
    pub(super) object: Vec<PathBuf>,
    /// Files or folders of objects that exist already. They are not checked.
    #[arg(long, value_name = "FILE", action = ArgAction::Append)]
    pub(super) state: Vec<PathBuf>,
    /// Folder of tenants to validate with all files that they name, as serve --tenants-dir does at its start.
    #[arg(long, value_name = "FOLDER")]
    pub(super) tenants_dir: Option<PathBuf>,
    /// Namespace of objects that name none.
    #[arg(long, short, value_name = "NAMESPACE", default_value = "default")]
    pub(super) namespace: String,
    /// The write that each object is. The objects before an update are those of --state.
    #[arg(long, value_name = "OPERATION", value_enum, default_value = "create")]
    pub(super) operation: CheckOperation,
    /// The user who writes; by default an administrator in the group system:masters.
    #[arg(long = "as", value_name = "USER")]
    pub(super) as_user: Option<String>,
    /// A group of the user.
    #[arg(long, value_name = "GROUP", action = ArgAction::Append, requires = "as_user")]
    pub(super) as_group: Vec<String>,
    /// The UID of the user.
    #[arg(long, value_name = "UID", requires = "as_user")]
    pub(super) as_uid: Option<String>,
    /// A further attribute of the user.
    #[arg(long, value_name = "NAME=VALUE", action = ArgAction::Append, requires = "as_user")]
    pub(super) as_user_extra: Vec<String>,
    /// Whether the pods that controllers would make of Deployments and other workloads are admitted too.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "true", value_parser = boolean, action = ArgAction::Set)]
    pub(super) expand: bool,
    /// Whether the webhooks of the configurations among the files are called.
    #[arg(long, value_name = "TREATMENT", value_enum, default_value = "skip")]
    pub(super) webhooks: CheckWebhooks,
    /// The authorizers, as of serve: AlwaysAllow, or RBAC with the roles and bindings among the files and the state.
    #[arg(long, value_name = "MODE,…", action = ArgAction::Append)]
    pub(super) authorization_mode: Vec<String>,
    /// Format: text, json, yaml, sarif, junit, github, or objects for the admitted objects. FORMAT=FILE writes a file. Several are possible.
    #[arg(long, short, value_name = "FORMAT[=FILE]", action = ArgAction::Append, default_value = "text")]
    pub(super) output: Vec<Output>,
    /// The findings for which the exit code is 1.
    #[arg(long, value_name = "LEVEL", value_enum, default_value = "error")]
    pub(super) fail_on: FailOn,
    #[command(flatten)]
    pub(super) admission: Admission,
}

/// The write that each object of a check is.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum CheckOperation {
    Create,
    Update,
    Delete,
}

/// The treatment of webhooks by a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum CheckWebhooks {
    Skip,
    Call,
}

/// The findings for which a check fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum FailOn {
    Error,
    Warning,
    Never,
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
    pub(super) embedded: Embedded,
    #[command(flatten)]
    pub(super) audit: Audit,
    #[command(flatten)]
    pub(super) front_end: FrontEnd,
    #[command(flatten)]
    pub(super) tenants: Tenants,

    #[command(flatten)]
    pub(super) log: Logs,
    /// Whether the health port serves /debug/flags/v, which changes the level of the log of the running process, to clients of this machine.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "true", value_parser = boolean, action = ArgAction::Set, help_heading = "Misc")]
    pub(super) profiling: bool,

    /// Print help.
    #[arg(long, short = 'h', action = ArgAction::Help, help_heading = "Misc")]
    help: Option<bool>,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Admission")]
pub(super) struct Admission {
    /// Plugins to run in addition to those that are on by default; `kube-admission-proxy plugins` lists all. The order of the names
    /// does not matter.
    #[arg(long, value_name = "NAME,…", action = ArgAction::Append)]
    pub(super) enable_admission_plugins: Vec<String>,
    /// Plugins not to run although they are on by default.
    #[arg(long, value_name = "NAME,…", action = ArgAction::Append)]
    pub(super) disable_admission_plugins: Vec<String>,
    /// All plugins to run, as in Kubernetes 1.7 to 1.9; deprecated. The order of the names matters only if one of them is a plugin that
    /// Kubernetes removed.
    #[arg(long, value_name = "NAME,…", action = ArgAction::Append)]
    pub(super) admission_control: Vec<String>,
    /// An AdmissionConfiguration file, which holds or names the configuration of single plugins.
    #[arg(long, value_name = "FILE")]
    pub(super) admission_control_config_file: Option<PathBuf>,
    /// kube-apiserver's feature gates, AllAlpha and AllBeta included. A gate that concerns neither admission, CBOR, impersonation, the
    /// connections of unauthenticated clients nor /statusz and /flagz has no effect.
    #[arg(long, value_name = "NAME=BOOL,…", action = ArgAction::Append)]
    pub(super) feature_gates: Vec<String>,
    /// The release as whose kube-apiserver the proxy admits, 1.34 to 1.37: its feature gates, plugins and rules. upstream: the release
    /// that the API server behind has at the start.
    #[arg(long, value_name = "[kube=]VERSION", action = ArgAction::Append, default_value = "1.36")]
    pub(super) emulated_version: Vec<String>,
    /// The oldest release of which another API server of the control plane may be, 1.34 to the emulated release; by default the release
    /// before the emulated one. Some feature gates are on by default only if this is late enough.
    #[arg(long, value_name = "[kube=]VERSION", action = ArgAction::Append)]
    pub(super) min_compatibility_version: Vec<String>,
    /// Seconds that a pod stays on a node that is not ready, for pods without a toleration of their own for that taint.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, allow_negative_numbers = true)]
    pub(super) default_not_ready_toleration_seconds: i64,
    /// Seconds that a pod stays on a node that is unreachable, for pods without a toleration of their own for that taint.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, allow_negative_numbers = true)]
    pub(super) default_unreachable_toleration_seconds: i64,
    /// Time that the calls of all webhooks for one object may take together, in all phases. After that time each webhook that is
    /// still to be called counts as timed out, and its failurePolicy decides. With 0 only the timeout of each webhook applies.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse)]
    pub(super) admission_timeout: Duration,
    /// Webhooks that are called without effect, named by their configuration or as configuration/webhook; a * at the end of a name
    /// stands for any end. The decision that each of them would have made is counted, logged and written to the audit log. The
    /// annotation shadow.kube-admission-proxy.dev/hooks on a configuration has the same meaning.
    #[arg(long, value_name = "NAME,…", action = ArgAction::Append)]
    pub(super) shadow_webhooks: Vec<String>,
    /// Admission policies that are evaluated without effect, named by the policy or as policy/binding; a * at the end of a name
    /// stands for any end. The decision that each of them would have made is counted, logged and written to the audit log. The
    /// annotation shadow.kube-admission-proxy.dev/policy on a policy or a binding has the same meaning.
    #[arg(long, value_name = "NAME,…", action = ArgAction::Append)]
    pub(super) shadow_policies: Vec<String>,
    /// Whether the annotations shadow.kube-admission-proxy.dev/hooks and shadow.kube-admission-proxy.dev/policy have an effect. With
    /// false, only --shadow-webhooks and --shadow-policies put webhooks and policies into shadow mode.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "true", value_parser = boolean, action = ArgAction::Set)]
    pub(super) shadow_annotations: bool,
    /// Whether policies from files (staticManifestsDir) may have parameters. The parameters are objects of the upstream API server.
    /// kube-apiserver refuses such files.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = boolean, action = ArgAction::Set)]
    pub(super) enable_static_policy_parameters: bool,
    /// The object that the validating phase sees if a webhook, a policy or a ResourceQuota matches the request. stored: the object as
    /// the API server would store it, which the proxy finds out by a dry run of the write (dryRun=All). submitted: the object after
    /// the mutating phase, without a dry run.
    #[arg(long, value_name = "VIEW", value_parser = validation_view(), default_value = "stored")]
    pub(super) validation_view: ValidationView,
    /// The field manager of the fields that admission changes. exact: no field manager, as in kube-apiserver, by a second write of
    /// metadata.managedFields after every write that admission changes, except of pods and events. exact-all: the same, pods and
    /// events included. writer: the client that writes the object, without a second write.
    #[arg(long, value_name = "OWNERSHIP", value_parser = field_ownership(), default_value = "exact")]
    pub(super) field_ownership: FieldOwnership,
    /// Whether the proxy calls a webhook of a Service at the Service's endpoints instead of its cluster IP.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = boolean, action = ArgAction::Set)]
    pub(super) enable_aggregator_routing: bool,
    /// Number of calls in a row without an answer after which the circuit breaker of a webhook endpoint opens: further calls fail at
    /// once, until a probing call is answered. 0 disables circuit breakers, as in kube-apiserver. At most 1000.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub(super) webhook_circuit_breaker_failures: u32,
    /// Time within which the calls without an answer must follow each other to open a webhook's circuit breaker.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    pub(super) webhook_circuit_breaker_window: Duration,
    /// Time between two probing calls of a webhook endpoint whose circuit breaker is open, and before the first of them.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration::parse)]
    pub(super) webhook_circuit_breaker_probe_interval: Duration,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Authentication")]
pub(super) struct Authentication {
    /// Certificate authorities for client certificates. A client with a certificate that one of them signed is the user of the
    /// certificate's common name, in the groups of its organizations.
    #[arg(long, value_name = "FILE")]
    pub(super) client_ca_file: Option<PathBuf>,
    /// Certificate authorities for the client certificates of front proxies, whose request headers name the user.
    #[arg(long, value_name = "FILE")]
    pub(super) requestheader_client_ca_file: Option<PathBuf>,
    /// Common names in the client certificates of trusted front proxies. Without this flag every certificate that an authority of
    /// --requestheader-client-ca-file signed is accepted.
    #[arg(long, value_name = "NAME,…", action = ArgAction::Append)]
    pub(super) requestheader_allowed_names: Vec<String>,
    /// Request headers of a front proxy that hold the user name. X-Remote-User is common.
    #[arg(long, value_name = "HEADER,…", action = ArgAction::Append)]
    pub(super) requestheader_username_headers: Vec<String>,
    /// Request headers of a front proxy that hold the user's UID. X-Remote-Uid is suggested.
    #[arg(long, value_name = "HEADER,…", action = ArgAction::Append)]
    pub(super) requestheader_uid_headers: Vec<String>,
    /// Request headers of a front proxy that hold the user's groups. X-Remote-Group is suggested.
    #[arg(long, value_name = "HEADER,…", action = ArgAction::Append)]
    pub(super) requestheader_group_headers: Vec<String>,
    /// Prefixes of the request headers of a front proxy that hold the user's extra fields. X-Remote-Extra- is suggested.
    #[arg(long, value_name = "PREFIX,…", action = ArgAction::Append)]
    pub(super) requestheader_extra_headers_prefix: Vec<String>,
    /// Whether requests without credentials are accepted, as the user system:anonymous. kube-apiserver's default is true.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = boolean, action = ArgAction::Set)]
    pub(super) anonymous_auth: bool,
    /// File of static bearer tokens, with lines of token,user,uid,"group1,group2". The upstream API server reviews every other token.
    #[arg(long, value_name = "FILE")]
    pub(super) token_auth_file: Option<PathBuf>,
    /// Time for which the proxy caches that the upstream API server accepts a bearer token. A revoked token can be used for as long.
    /// 0 disables the cache. Rejected tokens are never cached. The default of kube-apiserver's flag of this name is 2m0s.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    pub(super) authentication_token_webhook_cache_ttl: Duration,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Authorization")]
pub(super) struct Authorization {
    /// Webhook: the proxy authorizes each request by a SubjectAccessReview at the upstream API server before admission. AlwaysAllow:
    /// the upstream API server authorizes the forwarded request. RBAC: the embedded API server authorizes by its roles and bindings; Node
    /// may stand beside it, without effect. The default is Webhook, and AlwaysAllow with the embedded API server.
    #[arg(long, value_name = "MODE", action = ArgAction::Append)]
    pub(super) authorization_mode: Vec<String>,
    /// Time for which the proxy caches that a user may do something. A right that is revoked without the proxy's knowledge can be
    /// used for as long. 0 disables the cache. The default of kube-apiserver's flag of this name is 5m0s.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    pub(super) authorization_webhook_cache_authorized_ttl: Duration,
    /// Time for which the proxy caches that a user may not do something. 0 disables the cache. The default of kube-apiserver's flag
    /// of this name is 30s.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse)]
    pub(super) authorization_webhook_cache_unauthorized_ttl: Duration,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Serving")]
pub(super) struct Serving {
    /// Addresses on which the proxy serves the Kubernetes API, all on the same port. Without this flag it is 0.0.0.0, and 127.0.0.1 with the
    /// embedded API server.
    #[arg(long, value_name = "IP,…", value_delimiter = ',', action = ArgAction::Append)]
    pub(super) bind_address: Vec<IpAddr>,
    /// Port on which the proxy serves the Kubernetes API, over TLS. With 0 the system chooses a free port, which is logged.
    #[arg(long, value_name = "PORT", default_value_t = 6443)]
    pub(super) secure_port: u16,
    /// Folder of the files apiserver.crt and apiserver.key, the serving certificate and its key, if --tls-cert-file is not given. The proxy
    /// makes the files if they are missing. Without this flag the certificate that the proxy makes is in memory.
    #[arg(long, value_name = "DIR")]
    pub(super) cert_dir: Option<PathBuf>,
    /// File of the serving certificate, followed by its chain. Without this flag the proxy makes a self-signed certificate at the
    /// start.
    #[arg(long, value_name = "FILE")]
    pub(super) tls_cert_file: Option<PathBuf>,
    /// File of the private key of the serving certificate.
    #[arg(long, value_name = "FILE")]
    pub(super) tls_private_key_file: Option<PathBuf>,
    /// Certificate and key for TLS server names, as `foo.crt,foo.key` or `foo.crt,foo.key:*.foo.com,foo.com`. Without names those of the certificate
    /// count. The flag may be given several times. Names that are given count before names of certificates, and earlier flags before later ones.
    #[arg(long, value_name = "FILE,FILE[:NAME,…]", action = ArgAction::Append)]
    pub(super) tls_sni_cert_key: Vec<String>,
    /// Lowest version of TLS: VersionTLS12 or VersionTLS13. VersionTLS10 and VersionTLS11 have the effect of VersionTLS12.
    #[arg(long, value_name = "VERSION")]
    pub(super) tls_min_version: Option<String>,
    /// Cipher suites of TLS 1.2, by kube-apiserver's names. The proxy does not have suites with CBC, RC4 or 3DES or without forward secrecy: their
    /// names have no effect. The suites of TLS 1.3 are always offered.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', action = ArgAction::Append)]
    pub(super) tls_cipher_suites: Vec<String>,
    /// Secret of the upstream API server with the serving certificate, for all replicas: the proxy makes the certificate and an authority,
    /// and renews both before they end. The ConfigMap of the same name gets the certificate of the authority.
    #[arg(long, value_name = "NAMESPACE/NAME", conflicts_with_all = ["tls_cert_file", "tls_private_key_file", "cert_dir"])]
    pub(super) tls_secret: Option<String>,
    /// DNS names and IP addresses of the certificate in --tls-secret, besides localhost and kubernetes.default.svc.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', action = ArgAction::Append, requires = "tls_secret")]
    pub(super) tls_names: Vec<String>,
    /// Address and port on which the proxy serves /livez, /readyz and /metrics, over plain HTTP. With port 0 the system chooses a
    /// free port, which is logged.
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:10280")]
    pub(super) health_bind_address: SocketAddr,
    /// Time for a request that is neither a watch nor an upgrade.
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = duration::parse)]
    pub(super) request_timeout: Duration,
    /// Number of reads that the proxy handles at the same time. Further reads get 429, and so do the reads of a user who has as many
    /// in flight as there are free places. Requests of the group system:masters do not count. 0 sets no bound.
    #[arg(long, value_name = "N", default_value_t = 400)]
    pub(super) max_requests_inflight: usize,
    /// Number of writes that the proxy handles at the same time. Further writes get 429, and so do the writes of a user who has as
    /// many in flight as there are free places. Requests of the group system:masters do not count. 0 sets no bound.
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub(super) max_mutating_requests_inflight: usize,
    /// Memory for the process, as 512Mi or in bytes. The bounds of connections, requests, bodies and caches are lowered so that their sum
    /// stays below it; less than 256Mi counts as 256Mi. Without this flag the limit of the process's control group counts, if there is
    /// one, and 0 sets no limit.
    #[arg(long, value_name = "QUANTITY", value_parser = memory)]
    pub(super) memory_limit: Option<u64>,
    /// Time after SIGTERM for which /readyz fails while the proxy still accepts connections.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse)]
    pub(super) shutdown_delay_duration: Duration,
    /// Time for the requests in flight to finish at the shutdown, after the proxy has stopped accepting connections.
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = duration::parse)]
    pub(super) shutdown_drain_timeout: Duration,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Upstream")]
pub(super) struct Upstream {
    /// Kubeconfig that names the upstream API server and holds the proxy's own credentials for it. Without this flag the upstream is
    /// the embedded API server, inside the process.
    #[arg(long, value_name = "FILE")]
    pub(super) upstream_kubeconfig: Option<PathBuf>,
    /// Identity of forwarded requests at the upstream API server. impersonate: the proxy, which impersonates the caller.
    /// requestheader: a front proxy, which names the caller in the request headers that the ConfigMap
    /// kube-system/extension-apiserver-authentication lists; the kubeconfig holds the front proxy's client certificate, and a token
    /// for the proxy's own requests. passthrough: the caller, with the credentials of the request.
    #[arg(long, value_name = "HOW", value_parser = identity(), default_value = "impersonate")]
    pub(super) upstream_identity: UpstreamIdentity,
    /// User of the proxy's own requests with --upstream-identity=requestheader, followed by groups. The proxy names the user in request
    /// headers, as it names clients, so that the kubeconfig needs no token.
    #[arg(long, value_name = "USER,GROUP…", action = ArgAction::Append)]
    pub(super) upstream_own_user: Vec<String>,
    /// Service account that forwards the requests of clients and impersonates them, so that the credentials of --upstream-kubeconfig
    /// need no right to impersonate. The proxy requests tokens of the account (TokenRequest) and renews them.
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub(super) upstream_impersonator: Option<String>,
    /// Kubeconfig whose user forwards the requests of clients and impersonates them, instead of the user of --upstream-kubeconfig.
    #[arg(long, value_name = "FILE", conflicts_with = "upstream_impersonator")]
    pub(super) upstream_impersonator_kubeconfig: Option<PathBuf>,
    /// Prefix of the groups of all clients, so that rights can be bound to groups that only the proxy names. Groups that begin with
    /// system: have no prefix.
    #[arg(long, value_name = "PREFIX")]
    pub(super) upstream_group_prefix: Option<String>,
    /// Mark of the requests that the proxy has admitted: the value of the user's extra field kube-admission-proxy.dev/admitted at the
    /// upstream API server. No client can have the field. The policy that `kube-admission-proxy print guard` prints refuses writes
    /// without the mark.
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub(super) admitted_mark: Option<String>,
    /// Whether the upstream API server calls webhooks, too, so that each webhook is called twice. yes: it does, and the proxy warns of
    /// it. no: it does not, and the proxy does not warn. auto: the proxy reads the answer in the metrics of the upstream API server.
    #[arg(long, value_name = "WHETHER", value_parser = calls_webhooks(), default_value = "auto")]
    pub(super) upstream_calls_webhooks: CallsWebhooks,
    /// File to which the proxy writes a kubeconfig for the embedded API server, if the proxy makes the serving certificate and the
    /// client authority itself [default: ./kube-admission-proxy.kubeconfig].
    #[arg(long, value_name = "FILE")]
    pub(super) write_kubeconfig: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Embedded API server")]
pub(super) struct Embedded {
    /// Controllers that run in the embedded API server, by the names of kube-controller-manager: garbagecollector, namespace, serviceaccount
    /// and root-ca-cert-publisher. * stands for all, and -NAME is one that does not run [default: *].
    #[arg(long, value_name = "NAME,…", action = ArgAction::Append, allow_hyphen_values = true)]
    pub(super) controllers: Vec<String>,
    /// Issuer of service account tokens. Of several ones the first issues tokens, and all are accepted. Without this flag the issuer is
    /// kubernetes.default.svc, as an https URL.
    #[arg(long, value_name = "URL", action = ArgAction::Append)]
    pub(super) service_account_issuer: Vec<String>,
    /// File of the private key that signs service account tokens, RSA or ECDSA. Without this flag the proxy makes a key at the start.
    #[arg(long, value_name = "FILE")]
    pub(super) service_account_signing_key_file: Option<PathBuf>,
    /// File of keys that verify service account tokens: public keys, private keys or certificates. Without this flag the key that signs
    /// also verifies.
    #[arg(long, value_name = "FILE", action = ArgAction::Append)]
    pub(super) service_account_key_file: Vec<PathBuf>,
    /// Longest lifetime of a service account token. A longer one is shortened; 0 sets no bound.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse)]
    pub(super) service_account_max_token_expiration: Duration,
    /// Audiences of the embedded API server: a token for none of them is refused. The default is the issuers.
    #[arg(long, value_name = "AUDIENCE,…", action = ArgAction::Append)]
    pub(super) api_audiences: Vec<String>,
    /// URL of the keys that verify service account tokens, for clients that read the OpenID configuration. Without this flag: /openid/v1/jwks
    /// at the advertised address.
    #[arg(long, value_name = "URL")]
    pub(super) service_account_jwks_uri: Option<String>,
    /// Address at which clients in the cluster reach the embedded API server: that of the endpoint of the Service default/kubernetes. Without
    /// this flag: the first address of --bind-address, or the host's address if that is a loopback address or stands for all addresses.
    #[arg(long, value_name = "IP")]
    pub(super) advertise_address: Option<IpAddr>,
    /// Range of the addresses of Services, an IPv4 CIDR. The Service default/kubernetes has the first one.
    #[arg(long, value_name = "CIDR", default_value = SERVICE_RANGE)]
    pub(super) service_cluster_ip_range: String,
    /// APIs to serve or not to serve: group/version, the version for the core group, api/all, api/ga, api/beta, api/alpha. The embedded API
    /// server serves the APIs that are on by default in kube-apiserver, and no others.
    #[arg(long, value_name = "NAME=BOOL,…", action = ArgAction::Append)]
    pub(super) runtime_config: Vec<String>,
    /// Whether containers may be privileged. kube-apiserver's default is false.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "true", value_parser = boolean, action = ArgAction::Set)]
    pub(super) allow_privileged: bool,
    /// Time to live of Events in the embedded API server. Each write of an Event begins the time again. 0 sets no end.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration::parse)]
    pub(super) event_ttl: Duration,
    /// Size of all objects in the embedded API server, in bytes, as the flag of etcd. Without room, only deletions and writes that make an
    /// object smaller succeed. 0 stands for the default. With a memory limit it is a part of the memory at most.
    #[arg(long, value_name = "BYTES", default_value_t = QUOTA_BYTES)]
    pub(super) quota_backend_bytes: usize,
    /// Folder that keeps the objects of the embedded API server, the key of service account tokens and the proxy's own authority, and
    /// outlasts a restart. One process uses it at a time. Without this flag they are in memory alone.
    #[arg(long, value_name = "FOLDER")]
    pub(super) data_dir: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Audit")]
pub(super) struct Audit {
    /// File to which audit events are appended, one a line. - is the standard output.
    #[arg(long, value_name = "FILE")]
    pub(super) audit_log_path: Option<PathBuf>,
    /// File of the audit policy (audit.k8s.io/v1 Policy).
    #[arg(long, value_name = "FILE")]
    pub(super) audit_policy_file: Option<PathBuf>,
    /// Annotations of audit events: all, or kube-apiserver, which leaves out those that kube-apiserver does not have.
    #[arg(long, value_name = "WHICH", default_value = "all", value_parser = ["all", ONLY_KUBE_APISERVER])]
    pub(super) audit_annotations: String,
    /// Format of a line of the audit log: json or legacy, which is a line of text.
    #[arg(long, value_name = "FORMAT", default_value = "json")]
    pub(super) audit_log_format: String,
    /// Size in megabytes at which the file of the audit log is renamed, and a new one begins. 0 sets no size.
    #[arg(long, value_name = "MEGABYTES", default_value_t = 100, allow_negative_numbers = true)]
    pub(super) audit_log_maxsize: i64,
    /// Number of renamed files that are kept. 0 keeps all.
    #[arg(long, value_name = "NUMBER", default_value_t = 100, allow_negative_numbers = true)]
    pub(super) audit_log_maxbackup: i64,
    /// Number of days for which renamed files are kept. 0 keeps them for any time.
    #[arg(long, value_name = "DAYS", default_value_t = 366, allow_negative_numbers = true)]
    pub(super) audit_log_maxage: i64,
    /// Whether renamed files are compressed with gzip.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = boolean, action = ArgAction::Set)]
    pub(super) audit_log_compress: bool,
    /// When a request waits for the audit log: blocking, until its events are written; blocking-strict, too, and a request whose arrival cannot
    /// be written fails; batch, never, and events that do not fit into the buffer are lost.
    #[arg(long, value_name = "MODE", default_value = "blocking")]
    pub(super) audit_log_mode: String,
    /// Number of events in the buffer of the audit log, in the mode batch.
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000, allow_negative_numbers = true)]
    pub(super) audit_log_batch_buffer_size: i64,
    /// Number of events in a batch of the audit log, in the mode batch.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, allow_negative_numbers = true)]
    pub(super) audit_log_batch_max_size: i64,
    /// Time after which a batch of the audit log with fewer events is written, in the mode batch.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse)]
    pub(super) audit_log_batch_max_wait: Duration,
    /// Whether the batches of the audit log are throttled, in the mode batch.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = boolean, action = ArgAction::Set)]
    pub(super) audit_log_batch_throttle_enable: bool,
    /// Number of batches of the audit log in a second, with --audit-log-batch-throttle-enable.
    #[arg(long, value_name = "NUMBER", default_value_t = 0.0, allow_negative_numbers = true)]
    pub(super) audit_log_batch_throttle_qps: f32,
    /// Number of batches of the audit log at the same moment, with --audit-log-batch-throttle-enable.
    #[arg(long, value_name = "NUMBER", default_value_t = 0, allow_negative_numbers = true)]
    pub(super) audit_log_batch_throttle_burst: i64,
    /// Whether events of the audit log that are too large lose their objects, and are lost if that is not enough.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = boolean, action = ArgAction::Set)]
    pub(super) audit_log_truncate_enabled: bool,
    /// Size of a batch in bytes. It has no effect, as in kube-apiserver, which truncates single events.
    #[arg(long, value_name = "BYTES", default_value_t = 10 << 20, allow_negative_numbers = true)]
    pub(super) audit_log_truncate_max_batch_size: i64,
    /// Size of an event in bytes, with --audit-log-truncate-enabled.
    #[arg(long, value_name = "BYTES", default_value_t = 100 << 10, allow_negative_numbers = true)]
    pub(super) audit_log_truncate_max_event_size: i64,
    /// Version of the events of the audit log. The only one is audit.k8s.io/v1.
    #[arg(long, value_name = "VERSION", default_value = "audit.k8s.io/v1")]
    pub(super) audit_log_version: String,
    /// File of a kubeconfig whose server gets the audit events, in EventLists.
    #[arg(long, value_name = "FILE")]
    pub(super) audit_webhook_config_file: Option<PathBuf>,
    /// Time before a failed call of the audit webhook is repeated for the first time. There are five attempts.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse,
          alias = "audit-webhook-batch-initial-backoff")]
    pub(super) audit_webhook_initial_backoff: Duration,
    /// When a request waits for the audit webhook: blocking, until its events are written; blocking-strict, too, and a request whose arrival cannot
    /// be written fails; batch, never, and events that do not fit into the buffer are lost.
    #[arg(long, value_name = "MODE", default_value = "batch")]
    pub(super) audit_webhook_mode: String,
    /// Number of events in the buffer of the audit webhook, in the mode batch.
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000, allow_negative_numbers = true)]
    pub(super) audit_webhook_batch_buffer_size: i64,
    /// Number of events in a batch of the audit webhook, in the mode batch.
    #[arg(long, value_name = "NUMBER", default_value_t = 400, allow_negative_numbers = true)]
    pub(super) audit_webhook_batch_max_size: i64,
    /// Time after which a batch of the audit webhook with fewer events is written, in the mode batch.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    pub(super) audit_webhook_batch_max_wait: Duration,
    /// Whether the batches of the audit webhook are throttled, in the mode batch.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "true", value_parser = boolean, action = ArgAction::Set)]
    pub(super) audit_webhook_batch_throttle_enable: bool,
    /// Number of batches of the audit webhook in a second, with --audit-webhook-batch-throttle-enable.
    #[arg(long, value_name = "NUMBER", default_value_t = 10.0, allow_negative_numbers = true)]
    pub(super) audit_webhook_batch_throttle_qps: f32,
    /// Number of batches of the audit webhook at the same moment, with --audit-webhook-batch-throttle-enable.
    #[arg(long, value_name = "NUMBER", default_value_t = 15, allow_negative_numbers = true)]
    pub(super) audit_webhook_batch_throttle_burst: i64,
    /// Whether events of the audit webhook that are too large lose their objects, and are lost if that is not enough.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = boolean, action = ArgAction::Set)]
    pub(super) audit_webhook_truncate_enabled: bool,
    /// Size of a batch in bytes. It has no effect, as in kube-apiserver, which truncates single events.
    #[arg(long, value_name = "BYTES", default_value_t = 10 << 20, allow_negative_numbers = true)]
    pub(super) audit_webhook_truncate_max_batch_size: i64,
    /// Size of an event in bytes, with --audit-webhook-truncate-enabled.
    #[arg(long, value_name = "BYTES", default_value_t = 100 << 10, allow_negative_numbers = true)]
    pub(super) audit_webhook_truncate_max_event_size: i64,
    /// Version of the events of the audit webhook. The only one is audit.k8s.io/v1.
    #[arg(long, value_name = "VERSION", default_value = "audit.k8s.io/v1")]
    pub(super) audit_webhook_version: String,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Webhook front end")]
pub(super) struct FrontEnd {
    /// Address and port on which the proxy answers the AdmissionReviews of the upstream API server, over TLS, at /mutate and /validate.
    /// Port 9443 is common. Without this flag there is no front end.
    #[arg(long, value_name = "IP:PORT")]
    pub(super) webhook_bind_address: Option<SocketAddr>,
    /// Whether the process serves the webhook front end alone, without a port for clients.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = boolean, action = ArgAction::Set)]
    pub(super) webhook_only: bool,
    /// Plugins of the webhook front end. Without this flag: all enabled plugins that work there. With a port for clients, each of them must
    /// be enabled; with --webhook-only, no others run.
    #[arg(long, value_name = "NAME,…", action = ArgAction::Append)]
    pub(super) webhook_admission_plugins: Vec<String>,
    /// Certificate authorities for the client certificates of API servers. Needs --webhook-allowed-names.
    #[arg(long, value_name = "FILE")]
    pub(super) webhook_client_ca_file: Option<PathBuf>,
    /// Names of the API servers that may send reviews: common names of their client certificates, or users of their tokens. Others get 403.
    #[arg(long, value_name = "NAME,…", action = ArgAction::Append)]
    pub(super) webhook_allowed_names: Vec<String>,
    /// File of the bearer tokens of API servers, with lines of token,user,uid.
    #[arg(long, value_name = "FILE")]
    pub(super) webhook_token_auth_file: Option<PathBuf>,
    /// Whether reviews without credentials are answered. The API servers of most managed clusters have no credentials for webhooks; the
    /// network must keep all others away then.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = boolean, action = ArgAction::Set)]
    pub(super) webhook_anonymous_auth: bool,
    /// File of the serving certificate of the webhook front end, followed by its chain. Without this flag: that of --tls-cert-file or
    /// --tls-secret.
    #[arg(long, value_name = "FILE")]
    pub(super) webhook_tls_cert_file: Option<PathBuf>,
    /// File of the private key of the webhook front end's serving certificate.
    #[arg(long, value_name = "FILE")]
    pub(super) webhook_tls_private_key_file: Option<PathBuf>,
    /// Name of the MutatingWebhookConfiguration and of the ValidatingWebhookConfiguration whose CA bundles the proxy keeps equal to the
    /// authority in --tls-secret. A configuration may be missing.
    #[arg(long, value_name = "NAME", requires = "tls_secret", conflicts_with = "webhook_tls_cert_file")]
    pub(super) webhook_configurations: Option<String>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Tenants")]
pub(super) struct Tenants {
    /// Folder with a file for each tenant of the gateway (kind Tenant): its members, API server, admission and limits. The proxy follows
    /// the folder.
    #[arg(long, value_name = "FOLDER")]
    pub(super) tenants_dir: Option<PathBuf>,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Logs")]
pub(super) struct Logs {
    /// Format of the log on stderr: text or json.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(super) logging_format: String,
    /// Verbosity of the log. 0: events that concern an operator. 2: decisions about requests. 3: every request.
    #[arg(long = "v", short = 'v', value_name = "LEVEL", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(0..=i64::from(i32::MAX)))]
    pub(super) verbosity: u32,
    /// Levels of single modules, where they are higher than --v. A pattern matches the name of a module of the program, which is that of its
    /// file without .rs, as request_log=3. Only for the format text.
    #[arg(long, value_name = "PATTERN=N,…", action = ArgAction::Append)]
    pub(super) vmodule: Vec<Modules>,
    /// Time above which a request has a line with the times of its parts in the log, at every level. A watch or an upgrade has none. Lines
    /// of one user are at most 3 a minute. 0 for no lines.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration::parse)]
    pub(super) slow_request_threshold: Duration,
}

/// `strconv.ParseBool`.
fn boolean(text: &str) -> Result<bool, &'static str> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("must be true or false"),
    }
}

/// Parses an amount of memory.
fn memory(text: &str) -> Result<u64, &'static str> {
    let amount = Quantity::parse(text).map_err(|_| "must be a quantity as 512Mi")?;
    u64::try_from(amount.value()).map_err(|_| "must not be negative")
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
