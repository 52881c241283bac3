//! The command line: parses the arguments and returns the exit code.
//!
//! `arguments.rs` defines the arguments, `serve.rs` makes a [`crate::app::Config`] of them, and the other commands need no configuration.
//! Under the names of kube-apiserver and etcd the program has their command lines (`apiserver.rs`, `etcd.rs`).

mod arguments;
mod apiserver;
mod audit;
mod behind;
mod check;
mod doctor;
mod envtest;
mod etcd;
mod guard;
mod manual;
mod rbac;
mod serve;
mod sidecar;
mod status;
mod table;
mod upstream;
mod webhooks;
#[cfg(test)]
mod documentation;

use crate::app::Config;
use crate::app::doctor::Outcome;
use crate::config::{ConfigError, EmulatedRelease, LEAST_MEMORY, Limits, Upstream, is_of_upstream};
use crate::logging::{self, LogGuard};
use crate::server::{descriptors, memory};
use anyhow::Context as _;
use apiserver::Asked;
use arguments::{Arguments, CheckOperation, CheckWebhooks, Command, FailOn, Print};
use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap_complete::Shell;
use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::net::AddrParseError;
use std::num::{IntErrorKind, ParseIntError};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// The exit code if the configuration or a checked manifest is invalid, or the command fails.
const FAILURE: u8 = 1;
/// The exit code if the command line cannot be parsed.
const USAGE: u8 = 2;
/// The time after which a thread without work ends.
const IDLE_THREAD_LIFETIME: Duration = Duration::from_millis(10);

/// Connections at a time below which an operator is warned.
const FEW_CONNECTIONS: usize = 4096;

/// Runs the program, by the name under which it is called.
pub fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    let name = arguments.next().map(PathBuf::from);
    match name.as_deref().and_then(Path::file_name).and_then(OsStr::to_str) {
        Some(apiserver::NAME) => run_api_server(&texts(arguments)),
        Some(behind::STARTER) => exit(Err(behind::become_server(&texts(arguments)))),
        Some(etcd::NAME) => exit(etcd::main(&texts(arguments))),
        _ => run_command(),
    }
}

/// The arguments as text; an argument that is no text cannot be a valid flag.
fn texts(arguments: impl Iterator<Item = OsString>) -> Vec<String> {
    arguments.map(|argument| argument.to_string_lossy().into_owned()).collect()
}

/// Runs the program as kube-apiserver.
fn run_api_server(arguments: &[String]) -> ExitCode {
    let given = match apiserver::sort(arguments) {
        Ok(Asked::Serve(given)) => given,
        Ok(Asked::Help) => {
            print!("{}", apiserver::help());
            return ExitCode::SUCCESS;
        }
        Ok(Asked::Version) => {
            println!("{}", apiserver::version());
            return ExitCode::SUCCESS;
        }
        Err(message) => {
            eprintln!("Error: {message}");
            return ExitCode::from(FAILURE);
        }
    };
    let behind = match behind::Behind::prepare(&given) {
        Ok(behind) => behind,
        Err(error) => return exit(Err(error)),
    };
    let configured = match &behind {
        Some(behind) => apiserver::config_in_front(&given, &behind.kubeconfig),
        None => apiserver::config(&given),
    };
    let (config, flags) = match configured {
        Ok(configured) => configured,
        Err(Failure::Arguments(error)) => return refuse(&error),
        Err(Failure::Config(error)) => return exit(Err(error.into())),
    };
    let log = match start_log(&flags) {
        Ok(log) => log,
        Err(error) => return exit(Err(error)),
    };
    if let Some(behind) = behind {
        let done = run_in_front(config, behind);
        drop(log);
        return done.unwrap_or_else(|error| exit(Err(error)));
    }
    if !given.ignored.is_empty() {
        let flags = given.ignored.join(", ");
        tracing::info!(flags, "these flags of kube-apiserver have no effect in the embedded API server");
    }
    let done = run_until_signal(config);
    drop(log);
    exit(done)
}

/// The configuration of `kube-admission-proxy serve` with these flags, each as `--name=value`.
///
/// # Errors
/// If a flag is unknown or its value is invalid, or if another release is emulated in this process.
pub fn configuration(flags: impl IntoIterator<Item = String>) -> anyhow::Result<Config> {
    let line = ["kube-admission-proxy".to_owned(), "serve".to_owned()].into_iter().chain(flags);
    match Arguments::try_parse_from(line)?.command {
        Command::Serve(flags) => {
            serve::choose_kinds(&flags.admission, None)?;
            Ok(serve::config(&flags, None)?)
        }
        // The second word of the line is the command.
        _ => anyhow::bail!("no flags of serve"),
    }
}

/// The reason why a command line gives no configuration.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The arguments cannot be parsed.
    #[error(transparent)]
    Arguments(#[from] clap::Error),
    /// A value is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

fn exit(done: anyhow::Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(FAILURE)
        }
    }
}

fn run_command() -> ExitCode {
    let (arguments, shown) = match arguments::parse() {
        Ok(parsed) => parsed,
        Err(error) => return refuse(&error),
    };
    let done = match arguments.command {
        Command::Serve(flags) => run_server(&flags, shown).map(|()| true),
        Command::Doctor(flags) => examine(&flags),
        Command::Check(flags) => check_files(&flags),
        Command::Plugins { output, emulated_version } => {
            list_plugins(&emulated_version, output).map(|()| true).map_err(Into::into)
        }
        Command::Print(Print::Rbac(flags)) => print_rbac(&flags).map(|()| true),
        Command::Print(Print::Install(flags)) => print_install(&flags).map(|()| true),
        Command::Print(Print::Guard(flags)) => print_guard(&flags).map(|()| true),
        Command::Print(Print::Sidecar(flags)) => match sidecar::sidecar(&flags) {
            Ok(text) => {
                print!("{text}");
                Ok(true)
            }
            Err(Failure::Arguments(error)) => return refuse(&error),
            Err(Failure::Config(error)) => Err(error.into()),
        },
        Command::Print(Print::Webhooks(flags)) => print_webhooks(&flags).map(|()| true),
        Command::Print(Print::TenantSchema) => {
            print!("{}", crate::tenants::profile::schema());
            Ok(true)
        }
        Command::Print(Print::Crds) => {
            print!("{}", crate::removed::definitions());
            Ok(true)
        }
        Command::Completion { shell } => {
            print!("{}", completion(shell));
            Ok(true)
        }
        Command::Man { folder, date } => {
            let written = manual::write(arguments::command(), &date, &folder);
            written.with_context(|| format!("the manual pages in {}", folder.display())).map(|()| true)
        }
        Command::Status(flags) => status::print(&flags).map(|()| true),
        Command::Envtest(flags) => envtest::make(&flags).map(|()| true),
    };
    match done {
        Ok(false) => ExitCode::from(FAILURE),
        done => exit(done.map(drop)),
    }
}

/// Returns the completion script of a shell.
fn completion(shell: Shell) -> String {
    let mut command = arguments::command();
    let (name, mut script) = (command.get_name().to_owned(), Vec::new());
    clap_complete::generate(shell, &mut command, name, &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

fn list_plugins(emulated: &[String], output: arguments::Format) -> Result<(), ConfigError> {
    match emulated {
        [] => print!("{}", table::plugins(crate::plugins::ALL, output)),
        emulated => {
            let release = serve::release(emulated, &[], None)?;
            print!("{}", table::plugins(&crate::plugins::of(release), output));
        }
    }
    Ok(())
}

/// Prints the report; returns whether it has no finding of the level at which the check fails.
fn check_files(flags: &arguments::Check) -> anyhow::Result<bool> {
    serve::choose_kinds(&flags.admission, None)?;
    let terms = check_terms(flags)?;
    let release = terms.config.admission.feature_gates.release();
    let files = check::Files { checked: &flags.files, by_rules: &flags.object, state: &flags.state };
    let runtime = new_runtime()?;
    let checked = runtime.block_on(check::check(files, release, Some(&terms)));
    runtime.shutdown_background();
    let mut report = checked?;
    if let Some(folder) = &flags.tenants_dir {
        check::tenants(folder, release, &mut report);
    }
    for output in &flags.output {
        let text = check::written(&report, output.form);
        match &output.file {
            Some(file) => fs::write(file, text).with_context(|| format!("--output: {}", file.display()))?,
            None => print!("{text}"),
        }
    }
    Ok(match flags.fail_on {
        FailOn::Error => !report.has_errors(),
        FailOn::Warning => !report.has_errors() && !report.has_warnings(),
        FailOn::Never => true,
    })
}

/// How the objects of a check are admitted.
fn check_terms(flags: &arguments::Check) -> anyhow::Result<check::Terms> {
    let line =
        ["kube-admission-proxy", "serve", "--bind-address=127.0.0.1", "--secure-port=0", "--shutdown-drain-timeout=1s"];
    let Command::Serve(mut serve) = Arguments::try_parse_from(line)?.command else {
        anyhow::bail!("no flags of serve");
    };
    serve.admission = flags.admission.clone();
    serve.authorization.authorization_mode.clone_from(&flags.authorization_mode);
    if serve.admission.admission_control_config_file.is_none() {
        serve.admission.admission_control_config_file = check::admission_file_among(&flags.files);
    }
    let extra = flags.as_user_extra.iter().map(|pair| {
        let (name, value) =
            pair.split_once('=').with_context(|| format!("--as-user-extra={pair}: must be NAME=VALUE"))?;
        Ok((name.to_owned(), value.to_owned()))
    });
    let caller = check::Caller {
        user: flags.as_user.clone().unwrap_or_default(),
        groups: flags.as_group.clone(),
        uid: flags.as_uid.clone().unwrap_or_default(),
        extra: extra.collect::<anyhow::Result<_>>()?,
    };
    Ok(check::Terms {
        config: serve::config(&serve, None)?,
        caller,
        operation: match flags.operation {
            CheckOperation::Create => check::Operation::Create,
            CheckOperation::Update => check::Operation::Update,
            CheckOperation::Delete => check::Operation::Delete,
        },
        namespace: flags.namespace.clone(),
        expands: flags.expand,
        calls_webhooks: flags.webhooks == CheckWebhooks::Call,
    })
}

fn print_rbac(flags: &arguments::Rbac) -> anyhow::Result<()> {
    match flags.by_plugin {
        true => print!("{}", rbac::by_plugin(crate::plugins::ALL)),
        false => print!("{}", roles(&flags.rights)?),
    }
    Ok(())
}

fn print_install(flags: &arguments::Install) -> anyhow::Result<()> {
    print!("{}", rbac::installation(&flags.namespace, &roles(&flags.rights)?)?);
    Ok(())
}

/// The roles that these flags need.
fn roles(flags: &arguments::Rights) -> Result<String, ConfigError> {
    let all = crate::plugins::ALL;
    let (enable, disable) =
        (serve::list(&flags.enable_admission_plugins), serve::list(&flags.disable_admission_plugins));
    let mut plugins = crate::app::enabled(all, &enable, &disable)?;
    if flags.webhook_only {
        plugins = crate::app::reviewing(all, &plugins, &serve::list(&flags.webhook_admission_plugins))?;
    }
    let impersonator = match &flags.upstream_impersonator {
        Some(account) => Some(upstream::namespaced("upstream-impersonator", account)?),
        None => None,
    };
    let rights = rbac::Serving {
        identity: flags.upstream_identity,
        routes_to_endpoints: flags.enable_aggregator_routing,
        impersonator,
        is_front_end: flags.webhook_only,
        configurations: flags.webhook_configurations.clone(),
    };
    Ok(rbac::roles(&plugins, &rights))
}

fn print_guard(flags: &arguments::Guard) -> anyhow::Result<()> {
    print!("{}", guard::guard(flags)?);
    Ok(())
}

fn print_webhooks(flags: &arguments::Webhooks) -> anyhow::Result<()> {
    let all = crate::plugins::ALL;
    if flags.by_plugin {
        print!("{}", webhooks::by_plugin(all));
        return Ok(());
    }
    let (enable, disable) =
        (serve::list(&flags.enable_admission_plugins), serve::list(&flags.disable_admission_plugins));
    let enabled = crate::app::enabled(all, &enable, &disable)?;
    let plugins = crate::app::reviewing(all, &enabled, &serve::list(&flags.webhook_admission_plugins))?;
    print!("{}", webhooks::configurations(&plugins, flags)?);
    Ok(())
}

fn run_server(flags: &arguments::Serve, shown: BTreeMap<String, String>) -> anyhow::Result<()> {
    let _log = start_log(&flags.log)?;
    let upstream = upstream_release(flags, Limits::default().release_wait)?;
    serve::choose_kinds(&flags.admission, upstream)?;
    let config = serve::config(flags, upstream)?;
    run_until_signal(Config { flags: shown, ..config })
}

/// The release of the API server behind, if it is the emulated one.
fn upstream_release(flags: &arguments::Serve, wait: Duration) -> anyhow::Result<Option<EmulatedRelease>> {
    let kubeconfig = flags.upstream.upstream_kubeconfig.as_deref();
    let Some(kubeconfig) = kubeconfig.filter(|_| is_of_upstream(&flags.admission.emulated_version)) else {
        return Ok(None);
    };
    let runtime = new_runtime()?;
    let release = runtime.block_on(crate::app::upstream_release(kubeconfig, Arc::default(), wait));
    runtime.shutdown_background();
    release.map(Some)
}

/// Prints the findings; returns whether nothing fails users.
fn examine(flags: &arguments::Doctor) -> anyhow::Result<bool> {
    // An API server that does not answer is a finding.
    let upstream =
        upstream_release(&flags.serve, Limits::default().call_timeout).unwrap_or(Some(EmulatedRelease::default()));
    serve::choose_kinds(&flags.serve.admission, upstream)?;
    let config = serve::config(&flags.serve, upstream)?;
    let runtime = new_runtime()?;
    let findings = runtime.block_on(crate::app::doctor::examine(&config));
    runtime.shutdown_background();
    print!("{}", doctor::text(&findings, flags.output));
    Ok(findings.iter().all(|finding| finding.outcome != Outcome::Failure))
}

/// Runs the proxy and the kube-apiserver behind it until a signal ends both, or one of them ends. Returns the exit code of the kube-apiserver,
/// or that of the proxy if the proxy fails.
fn run_in_front(mut config: Config, behind: behind::Behind) -> anyhow::Result<ExitCode> {
    fit_into_memory(&mut config);
    raise_descriptors(&mut config);
    let runtime = new_runtime()?;
    let code = runtime.block_on(async {
        // The main thread starts the process, which ends with that thread.
        let mut server = behind.start()?;
        let done = tokio::select! {
            done = crate::app::run(config) => done,
            code = server.ended() => {
                let code = code?;
                tracing::error!(code, "the kube-apiserver behind has ended");
                return Ok(ExitCode::from(if code == 0 { FAILURE } else { code }));
            }
        };
        let code = server.stop().await?;
        done.map(|()| ExitCode::from(code))
    });
    runtime.shutdown_background();
    code
}

fn run_until_signal(mut config: Config) -> anyhow::Result<()> {
    fit_into_memory(&mut config);
    raise_descriptors(&mut config);
    let runtime = new_runtime()?;
    let done = runtime.block_on(crate::app::run(config));
    // Tasks that `run` deliberately leaves behind must not delay the exit.
    runtime.shutdown_background();
    done
}

/// Creates the runtime of the server. Long work runs on threads of its own (`processor`), each of which keeps about 1 MiB of freed memory
/// until it ends. With tokio's default of 10 s, all threads of a burst would live as long as the load.
fn new_runtime() -> io::Result<Runtime> {
    Builder::new_multi_thread().enable_all().thread_keep_alive(IDLE_THREAD_LIFETIME).build()
}

/// Adapts the bounds to the memory of the process.
fn fit_into_memory(config: &mut Config) {
    let Some(memory) = config.memory_limit.or_else(memory::limit).filter(|memory| *memory > 0) else { return };
    let mut limits = Limits::clone(&config.limits);
    if !matches!(config.upstream, Upstream::Embedded(_)) {
        limits = limits.without_stored_objects();
    }
    if config.tenants_dir.is_none() {
        limits = limits.without_tenants();
    }
    config.limits = Arc::new(limits.within_memory(memory));
    let mebibytes = memory >> 20;
    if memory < LEAST_MEMORY as u64 {
        let least = LEAST_MEMORY >> 20;
        tracing::warn!(mebibytes, least, "little memory: the bounds are those for more; raise the memory limit");
    } else {
        tracing::info!(mebibytes, "bounds are derived from the memory limit");
    }
}

/// Raises the limit of open files, and adapts the number of connections to it.
fn raise_descriptors(config: &mut Config) {
    if let Some(descriptors) = descriptors::raise() {
        let wanted = config.limits.connections;
        config.limits = Arc::new(Limits::clone(&config.limits).within_descriptors(descriptors));
        if config.limits.connections < wanted {
            let connections = config.limits.connections;
            let advice = "the limit of open files (ulimit -n) bounds the connections at a time";
            if connections < FEW_CONNECTIONS {
                tracing::warn!(descriptors, connections, "few connections: {advice}; raise its hard limit");
            } else {
                tracing::info!(descriptors, connections, "{advice}");
            }
        }
    }
}

/// Starts the log.
fn start_log(flags: &arguments::Logs) -> anyhow::Result<LogGuard> {
    let (format, levels) = serve::log(flags)?;
    logging::start(format, levels).context("the thread of the log")
}

/// Prints the error of the command line, or the requested help.
fn refuse(error: &clap::Error) -> ExitCode {
    if let Some(line) = wrong_value(error) {
        eprintln!("error: {line}");
        return ExitCode::from(FAILURE);
    }
    // A closed output cannot be handled here.
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
}

/// Returns the line about a flag's invalid value; `None` for any other error.
fn wrong_value(error: &clap::Error) -> Option<String> {
    if !matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue) {
        return None;
    }
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    let (flag, value) = (text(ContextKind::InvalidArg), text(ContextKind::InvalidValue));
    let flag = flag.split([' ', '=', '[']).next().unwrap_or_default();
    let reason = match (error.source(), error.get(ContextKind::ValidValue)) {
        (Some(source), _) => expected(source),
        (None, Some(ContextValue::Strings(valid))) if !valid.is_empty() => {
            format!("must be one of {}", valid.join(", "))
        }
        // A missing value is a usage error.
        (None, _) => return None,
    };
    Some(format!("{flag}={value}: {reason}"))
}

/// The requirement on a value, where the error of the standard library says only that the value is invalid.
fn expected(error: &(dyn Error + 'static)) -> String {
    if let Some(error) = error.downcast_ref::<ParseIntError>() {
        return match error.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "the number is out of range".to_owned(),
            _ => "must be a whole number from 0".to_owned(),
        };
    }
    match error.downcast_ref::<AddrParseError>().map(ToString::to_string).as_deref() {
        Some("invalid socket address syntax") => {
            "must be ADDRESS:PORT, such as 127.0.0.1:10280 or [::1]:10280".to_owned()
        }
        Some(_) => "must be an IP address, such as 127.0.0.1 or ::1".to_owned(),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_of_the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_wrong_value_is_one_line_with_flag_and_value_and_other_errors_are_usage() {
        for (argument, line) in [
            ("--secure-port=x", Some("--secure-port=x: must be a whole number from 0")),
            ("--bind-address=1.2.3", Some("--bind-address=1.2.3: must be an IP address, such as 127.0.0.1 or ::1")),
            (
                "--upstream-identity=me",
                Some("--upstream-identity=me: must be one of impersonate, requestheader, passthrough"),
            ),
            ("--anonymous-auth=maybe", Some("--anonymous-auth=maybe: must be true or false")),
            ("--request-timeout=5", Some("--request-timeout=5: time: missing unit in duration \"5\"")),
            ("-v=x", Some("--v=x: must be a whole number from 0")),
            ("-v=4294967295", Some("--v=4294967295: 4294967295 is not in 0..=2147483647")),
            ("--vmodule=a", Some("--vmodule=a: \"a\" does not have the pattern=N format")),
            ("--max-requests-inflight=-1", Some("--max-requests-inflight=-1: must be a whole number from 0")),
            (
                "--health-bind-address=:10280",
                Some("--health-bind-address=:10280: must be ADDRESS:PORT, such as 127.0.0.1:10280 or [::1]:10280"),
            ),
            ("--secure-port", None),
            ("--no-such-flag", None),
            ("file.yaml", None),
        ] {
            let error = Arguments::try_parse_from(["kube-admission-proxy", "serve", argument]).unwrap_err();
            assert_eq!(wrong_value(&error).as_deref(), line, "{argument}");
        }
    }

    #[test]
    fn help_shows_flags_in_groups() {
        let error = Arguments::try_parse_from(["kube-admission-proxy", "serve", "--help"]).unwrap_err();
        let help = error.to_string();
        for heading in
            ["Admission:", "Authentication:", "Authorization:", "Serving:", "Upstream:", "Audit:", "Tenants:", "Misc:"]
        {
            assert!(help.contains(&format!("\n{heading}\n")), "{heading} is missing in\n{help}");
        }
        assert!(!help.contains("\nOptions:\n"), "a flag has no group:\n{help}");
    }

    #[test]
    fn the_short_help_has_a_sentence_a_flag_and_the_long_one_examples() {
        let of = |flag: &str| {
            let error = arguments::command().try_get_matches_from(["kube-admission-proxy", "serve", flag]).unwrap_err();
            error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let (short, long) = (of("-h"), of("--help"));
        assert!(long.starts_with("Examples:") && !short.contains("Examples:"), "{long}");
        let second = "Without this flag it is 0.0.0.0";
        assert!(long.contains(second) && !short.contains(second) && short.contains("--bind-address"), "{short}");
    }

    #[test]
    fn the_examples_of_the_help_are_command_lines() {
        let help = arguments::command().find_subcommand("serve").unwrap().get_before_long_help().unwrap().to_string();
        let lines = help.replace("\\\n", " ");
        let lines: Vec<&str> =
            lines.lines().filter(|line| line.trim_start().starts_with("kube-admission-proxy ")).collect();
        assert_eq!(lines.len(), 3);
        for line in lines {
            Arguments::try_parse_from(line.split_whitespace()).unwrap();
        }
    }
}
