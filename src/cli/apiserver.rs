//! The program under the name `kube-apiserver`: the embedded API server and the admission chain, with kube-apiserver's flags.
//!
//! Every flag of kube-apiserver is known. Those of `serve` have their meaning; the others have no effect, and one line of the log names
//! those that were given.

use super::arguments::{Arguments, Logs, Serve};
use super::{behind, serve};
use crate::app::Config;
use crate::config::{AuthorizationMode, ConfigError, EmulatedRelease, UPSTREAM, Upstream, is_of_upstream};
use clap::{CommandFactory, Parser};
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

/// The name under which the program is kube-apiserver.
pub(super) const NAME: &str = "kube-apiserver";
/// The release whose flags are known.
const VERSION: &str = "Kubernetes v1.36.3";
/// The flags of kube-apiserver, one in each line: group, name, type, and `optional` if the value may be missing. `tools/apiserver-flags`
/// writes the file.
const FLAGS: &str = include_str!("apiserver/flags.txt");

/// The values that kube-apiserver has without flags, where those of `serve` differ; and a short end of the process, for tests.
const DEFAULTS: [&str; 7] = [
    "--allow-privileged=false",
    "--anonymous-auth=true",
    "--audit-annotations=kube-apiserver",
    "--cert-dir=/var/run/kubernetes",
    "--controllers=",
    "--service-cluster-ip-range=10.0.0.0/24",
    "--shutdown-drain-timeout=200ms",
];

/// A flag of kube-apiserver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flag {
    /// The group in the help.
    pub(super) group: &'static str,
    /// The name, without dashes.
    pub(super) name: &'static str,
    /// The type of the value.
    pub(super) kind: &'static str,
    /// Whether the flag can be given without a value.
    pub(super) is_optional: bool,
}

/// The flags with a meaning.
#[derive(Debug, Parser)]
#[command(name = NAME, args_override_self = true, disable_help_flag = true)]
struct Line {
    #[command(flatten)]
    flags: Serve,
}

/// The action that a command line selects.
#[derive(Debug)]
pub(super) enum Asked {
    /// The help.
    Help,
    /// The version.
    Version,
    /// To serve.
    Serve(Given),
}

/// The flags of a command line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Given {
    /// The flags with a meaning, each as `--name=value` or `--name`.
    kept: Vec<String>,
    /// The names of those without an effect, in order.
    pub(super) ignored: Vec<&'static str>,
    /// All of them with their values, in the order of the command line.
    pub(super) all: Vec<(&'static str, Option<String>)>,
}

impl Given {
    /// The last value of a flag.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.all.iter().rev().find(|(flag, _)| *flag == name)?.1.as_deref()
    }
}

/// The flags of kube-apiserver, in the order of their names.
pub(super) fn flags() -> impl Iterator<Item = Flag> {
    FLAGS.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (group, name, kind) = (words.next()?, words.next()?, words.next()?);
        Some(Flag { group, name, kind, is_optional: words.next().is_some() })
    })
}

/// The names of the flags that have a meaning: those of `serve`.
pub(super) fn with_meaning() -> Vec<String> {
    let command = Arguments::command();
    let serve = command.find_subcommand("serve");
    let flags = serve.into_iter().flat_map(|serve| serve.get_arguments());
    let names = flags.flat_map(|flag| flag.get_long().into_iter().chain(flag.get_all_aliases().into_iter().flatten()));
    names.map(str::to_owned).collect()
}

/// The reason why arguments are refused, with kube-apiserver's text.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidArguments {
    /// No flag has this name.
    #[error("unknown flag: --{0}")]
    UnknownFlag(String),
    /// No flag has this letter.
    #[error("unknown shorthand flag: {letter:?} in -{argument}")]
    UnknownLetter { letter: char, argument: String },
    /// The flag of this name has no value.
    #[error("flag needs an argument: --{0}")]
    NoValue(&'static str),
    /// The arguments are no flags.
    #[error("{NAME:?} does not take any arguments, got {0:?}")]
    NotTaken(Vec<String>),
}

/// Sorts the arguments as kube-apiserver parses them (`pflag.FlagSet.Parse`).
///
/// # Errors
/// If a flag is unknown or lacks its value, or an argument is no flag.
pub(super) fn sort(arguments: &[String]) -> Result<Asked, InvalidArguments> {
    let meaning = with_meaning();
    let mut given = Given::default();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let (flag, value) = match argument.strip_prefix("--") {
            Some("") => {
                let others: Vec<String> = arguments.cloned().collect();
                return if others.is_empty() {
                    Ok(Asked::Serve(given))
                } else {
                    Err(InvalidArguments::NotTaken(others))
                };
            }
            Some(text) => {
                let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
                let flag = flag(name).ok_or_else(|| InvalidArguments::UnknownFlag(name.to_owned()))?;
                (flag, value.map(str::to_owned))
            }
            None => match argument.strip_prefix('-').filter(|rest| !rest.is_empty()) {
                Some(rest) => short(rest)?,
                None => return Err(InvalidArguments::NotTaken(vec![argument.clone()])),
            },
        };
        match flag.name {
            "help" => return Ok(Asked::Help),
            "version" => return Ok(Asked::Version),
            _ => {}
        }
        let value = match value {
            None if !flag.is_optional => Some(arguments.next().ok_or(InvalidArguments::NoValue(flag.name))?.clone()),
            value => value,
        };
        given.all.push((flag.name, value.clone()));
        if meaning.iter().any(|name| name == flag.name) {
            let value = value.map(|value| format!("={value}")).unwrap_or_default();
            given.kept.push(format!("--{}{value}", flag.name));
        } else if !given.ignored.contains(&flag.name) {
            given.ignored.push(flag.name);
        }
    }
    Ok(Asked::Serve(given))
}

/// The flag of this name, in which `_` stands for `-` (`WordSepNormalizeFunc`).
fn flag(name: &str) -> Option<Flag> {
    let name = name.replace('_', "-");
    flags().find(|flag| flag.name == name)
}

/// A flag of one letter, and the value that follows in the same argument.
fn short(text: &str) -> Result<(Flag, Option<String>), InvalidArguments> {
    let (name, value) = match (text.get(..1), text.get(1..)) {
        (Some("h"), _) => ("help", None),
        (Some("v"), Some("")) => ("v", None),
        (Some("v"), Some(value)) => ("v", Some(value.strip_prefix('=').unwrap_or(value).to_owned())),
        _ => {
            let letter = text.chars().next().unwrap_or_default();
            return Err(InvalidArguments::UnknownLetter { letter, argument: text.to_owned() });
        }
    };
    let flag = flag(name).ok_or_else(|| InvalidArguments::UnknownFlag(name.to_owned()))?;
    Ok((flag, value))
}

/// The configuration for these flags.
///
/// # Errors
/// If a value is invalid.
pub(super) fn config(given: &Given) -> Result<(Config, Logs), super::Failure> {
    let defaults = DEFAULTS.iter().map(|default| (*default).to_owned());
    let line = [NAME.to_owned()].into_iter().chain(defaults).chain(given.kept.iter().cloned());
    let flags = with_own_defaults(Line::try_parse_from(line)?.flags);
    refuse_upstream(&flags)?;
    serve::choose_kinds(&flags.admission, None)?;
    let mut config = serve::config(&flags, None)?;
    if let Upstream::Embedded(embedded) = &mut config.upstream {
        embedded.kubeconfig = None;
    }
    config.serving.health_address = None;
    // `AuthenticationOptions.ApplyAuthorization`
    if config.authorization.mode == AuthorizationMode::AlwaysAllow {
        config.authentication.anonymous = false;
    }
    Ok((config, flags.log))
}

/// Refuses a value that is only of `serve`: the kube-apiserver behind starts later, and with the same flags.
fn refuse_upstream(flags: &Serve) -> Result<(), ConfigError> {
    if !is_of_upstream(&flags.admission.emulated_version) {
        return Ok(());
    }
    let why = format!("could not parse {UPSTREAM:?} as version");
    Err(ConfigError::flag(EmulatedRelease::FLAG, UPSTREAM, why))
}

/// The flags with what kube-apiserver does where `serve` has another default or refuses a flag without effect.
fn with_own_defaults(mut flags: Serve) -> Serve {
    if flags.serving.bind_address.is_empty() {
        flags.serving.bind_address = vec![IpAddr::V4(Ipv4Addr::UNSPECIFIED)];
    }
    // `AuditOptions.ApplyTo`: "No audit policy file provided, no events will be recorded for log backend".
    let audit = &mut flags.audit;
    let has_backend = audit.audit_log_path.is_some() || audit.audit_webhook_config_file.is_some();
    if !has_backend || audit.audit_policy_file.is_none() {
        (audit.audit_log_path, audit.audit_webhook_config_file, audit.audit_policy_file) = (None, None, None);
    }
    flags
}

/// The configuration of the proxy in front of a kube-apiserver with these flags, which this kubeconfig reaches.
///
/// # Errors
/// If a value is invalid.
pub(super) fn config_in_front(given: &Given, kubeconfig: &Path) -> Result<(Config, Logs), super::Failure> {
    let is_of_proxy = |flag: &&str| {
        let name = flag.trim_start_matches("--").split('=').next().unwrap_or_default();
        behind::is_of_proxy(name)
    };
    let own = format!("--upstream-kubeconfig={}", kubeconfig.display());
    let mode = given.value("authorization-mode").map(str::to_owned);
    let defaults = DEFAULTS.iter().copied().filter(is_of_proxy);
    let given = given.kept.iter().map(String::as_str).filter(is_of_proxy);
    let line = [NAME].into_iter().chain(defaults).chain(given).chain([own.as_str()]);
    let flags = with_own_defaults(Line::try_parse_from(line)?.flags);
    refuse_upstream(&flags)?;
    serve::choose_kinds(&flags.admission, None)?;
    let mut config = serve::config(&flags, None)?;
    config.serving.health_address = None;
    // `AuthenticationOptions.ApplyAuthorization`
    if matches!(mode.as_deref(), None | Some("AlwaysAllow")) {
        config.authentication.anonymous = false;
    }
    Ok((config, flags.log))
}

/// The help: the flags in their groups.
pub(super) fn help() -> String {
    let meaning = with_meaning();
    let mut text = format!(
        "The embedded API server of kube-admission-proxy, with the flags of {NAME}. A flag in brackets has no effect.\n\n\
         Usage:\n  {NAME} [flags]\n"
    );
    let mut groups: Vec<&str> = Vec::new();
    for flag in flags().filter(|flag| flag.name != "v") {
        if !groups.contains(&flag.group) {
            groups.push(flag.group);
        }
    }
    for group in groups {
        let _ = writeln!(text, "\n{} flags:\n", group.replace('-', " "));
        for flag in flags().filter(|flag| flag.group == group) {
            let value = if flag.is_optional { String::new() } else { format!(" {}", flag.kind) };
            let has_meaning = meaning.iter().any(|name| name == flag.name) || group == "global";
            let (before, after) = if has_meaning { ("", "") } else { ("[", "]") };
            let _ = writeln!(text, "      {before}--{}{value}{after}", flag.name);
        }
    }
    text
}

/// The version, as kube-apiserver prints it.
pub(super) fn version() -> &'static str {
    VERSION
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(arguments: &[&str]) -> Result<Given, String> {
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        match sort(&arguments).map_err(|why| why.to_string())? {
            Asked::Serve(given) => Ok(given),
            asked => Err(format!("{asked:?}")),
        }
    }

    #[test]
    fn flags_are_taken_as_kube_apiserver_takes_them() {
        let given = given(&[
            "--secure-port",
            "1",
            "--allow_privileged",
            "--etcd-servers=http://127.0.0.1:2379",
            "--etcd-prefix",
            "/x",
            "--etcd-servers=b",
            "-v2",
            "--bind-address=127.0.0.1",
        ])
        .unwrap();
        assert_eq!(given.kept, ["--secure-port=1", "--allow-privileged", "--v=2", "--bind-address=127.0.0.1"]);
        assert_eq!(given.ignored, ["etcd-servers", "etcd-prefix"]);
    }

    #[test]
    fn mistakes_read_as_those_of_kube_apiserver() {
        for (arguments, message) in [
            (&["--foo"][..], "unknown flag: --foo"),
            (&["--health-bind-address=x"], "unknown flag: --health-bind-address"),
            (&["--data-dir=x"], "unknown flag: --data-dir"),
            (&["-x"], "unknown shorthand flag: 'x' in -x"),
            (&["--secure-port"], "flag needs an argument: --secure-port"),
            (&["arg"], r#""kube-apiserver" does not take any arguments, got ["arg"]"#),
            (&["--", "arg"], r#""kube-apiserver" does not take any arguments, got ["arg"]"#),
            (&["--help"], "Help"),
            (&["--v=1", "--version"], "Version"),
        ] {
            assert_eq!(given(arguments).unwrap_err(), message);
        }
    }

    #[test]
    fn the_defaults_are_those_of_kube_apiserver() {
        let (config, log) = config(&given(&["--authorization-mode=Node,RBAC", "-v=3"]).unwrap()).unwrap();
        let Upstream::Embedded(embedded) = config.upstream else { panic!("not embedded") };
        assert_eq!((embedded.kubeconfig, embedded.allow_privileged), (None, false));
        assert_eq!(embedded.controllers, crate::config::Controllers::NONE);
        assert_eq!((embedded.addresses.first, embedded.addresses.count), (0x0a00_0001, 254));
        assert!(config.authentication.anonymous && config.serving.health_address.is_none());
        assert_eq!((config.authorization.mode, log.verbosity), (AuthorizationMode::Rbac, 3));
        let certificate = config.serving.certificate.unwrap().certificate;
        assert_eq!(certificate, std::path::Path::new("/var/run/kubernetes/apiserver.crt"));
        let (config, _) = super::config(&Given::default()).unwrap();
        assert!(!config.authentication.anonymous);
    }

    #[test]
    fn the_help_names_every_flag_once() {
        let help = help();
        for flag in flags() {
            assert_eq!(
                help.matches(&format!("--{} ", flag.name)).count()
                    + help.matches(&format!("--{}\n", flag.name)).count()
                    + help.matches(&format!("--{}]", flag.name)).count(),
                1,
                "{}",
                flag.name
            );
        }
    }
}
