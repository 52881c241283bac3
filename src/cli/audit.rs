//! The audit flags (`options.AuditOptions`), with kube-apiserver's texts.

use super::arguments::{Audit, ONLY_KUBE_APISERVER, Serve};
use super::serve::readable;
use crate::audit::ensure_file;
use crate::config::{
    AuditBackend, AuditBatch, AuditLog, AuditLogOptions, AuditMode, AuditOptions, AuditRotation, AuditThrottle,
    AuditTruncate, AuditWebhook, ConfigError,
};
use crate::status::invalid::aggregate;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The version of events.
const VERSION: &str = "audit.k8s.io/v1";
/// The formats of the log, in the order of kube-apiserver's texts.
const FORMATS: [&str; 2] = ["legacy", "json"];

/// Returns the options of audit. Each of the flags of the log and the policy needs the other one, unless a tenant has its own log or policy.
pub(super) fn options(flags: &Serve) -> Result<AuditOptions, ConfigError> {
    let has_tenants = flags.tenants.tenants_dir.is_some();
    let is_alone = flags.front_end.webhook_only;
    let flags = &flags.audit;
    let given = |path: &'_ Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    let refusal = |flag: &'static str, value: String, why: &str| Err(ConfigError::flag(flag, value, why));
    let log = given(&flags.audit_log_path).map(|log| ("audit-log-path", log));
    let webhook = given(&flags.audit_webhook_config_file).map(|file| ("audit-webhook-config-file", file));
    let policy = given(&flags.audit_policy_file).map(|policy| ("audit-policy-file", policy));
    match (log.or(webhook), policy) {
        (Some((flag, value)), _) | (None, Some((flag, value))) if is_alone => {
            return refusal(flag, value, "has no effect with --webhook-only: the API server writes audit events");
        }
        (Some((flag, value)), None) if !has_tenants => {
            return refusal(flag, value, "needs --audit-policy-file: without a policy nothing is written");
        }
        (None, Some((flag, value))) if !has_tenants => {
            let why = "needs --audit-log-path or --audit-webhook-config-file: without a backend nothing is written";
            return refusal(flag, value, why);
        }
        _ => {}
    }
    let mut errors = Vec::new();
    let log_options = match flags.audit_log_path.is_some() || has_tenants {
        true => log_options(flags, &mut errors),
        false => Some(AuditLogOptions::default()),
    };
    let backend = flags.audit_webhook_config_file.as_ref().map(|_| webhook_backend(flags).check(&mut errors));
    let (why, webhook_file) = (aggregate(errors), flags.audit_webhook_config_file.as_deref());
    let (None, Some(log_options)) = (&why, log_options) else { return Err(ConfigError::Rule(why.unwrap_or_default())) };
    let webhook = readable("audit-webhook-config-file", webhook_file)?.zip(backend.flatten());
    let webhook = webhook.map(|(kubeconfig, backend)| AuditWebhook {
        kubeconfig,
        initial_backoff: flags.audit_webhook_initial_backoff,
        backend,
    });
    let log = match flags.audit_log_path.as_deref() {
        None => None,
        Some(path) if path == Path::new("-") => Some(AuditLog::Stdout),
        Some(path) => {
            let opened = ensure_file(path);
            opened.map_err(|reason| ConfigError::flag("audit-log-path", path.display().to_string(), reason))?;
            Some(AuditLog::File(path.to_owned()))
        }
    };
    let policy_file = readable("audit-policy-file", flags.audit_policy_file.as_deref())?;
    let is_exact = flags.audit_annotations == ONLY_KUBE_APISERVER;
    Ok(AuditOptions { log, log_options, webhook, policy_file, is_exact })
}

/// The reason why the flags of a backend are invalid.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct InvalidBackend(String);

/// The flags of a backend.
struct Backend<'a> {
    plugin: &'static str,
    mode: &'a str,
    buffer_size: i64,
    max_size: i64,
    max_wait: Duration,
    throttles: bool,
    qps: f32,
    burst: i64,
    truncates: bool,
    max_batch_size: i64,
    max_event_size: i64,
    version: &'a str,
}

impl Backend<'_> {
    /// `validateBackendBatchOptions`
    fn mode(&self) -> Result<(AuditMode, AuditBatch), InvalidBackend> {
        let Self { plugin, mode, buffer_size, max_size, qps, burst, .. } = *self;
        let mode = AuditMode::ALL.into_iter().find(|(name, _)| *name == mode).ok_or_else(|| {
            let allowed = AuditMode::ALL.map(|(name, _)| name).join(",");
            InvalidBackend(format!("invalid audit {plugin} mode {mode}, allowed modes are {allowed:?}"))
        })?;
        let batch = |value: i64, what: &str| positive(value).ok_or_else(|| self.not_positive("batch", what, value));
        if mode.1.blocks() {
            let batch = AuditBatch { buffer_events: 0, events: 1, wait: Duration::ZERO, throttle: None };
            return Ok((mode.1, batch));
        }
        let (buffer_events, events) = (batch(buffer_size, "buffer size")?, batch(max_size, "max batch size")?);
        let mut throttle = None;
        if self.throttles {
            // A NaN is not less, but sets no rate.
            if qps <= 0.0 || qps.is_nan() {
                return Err(self.not_positive("batch", "throttle QPS", qps));
            }
            throttle = Some(AuditThrottle { per_second: qps, burst: batch(burst, "throttle burst")? });
        }
        Ok((mode.1, AuditBatch { buffer_events, events, wait: self.max_wait, throttle }))
    }

    /// `AuditTruncateOptions.Validate`
    fn truncate(&self) -> Result<Option<AuditTruncate>, InvalidBackend> {
        let Self { plugin, max_batch_size: batch, max_event_size: event, .. } = *self;
        let Some(event_bytes) = u64::try_from(event).ok().filter(|bytes| *bytes > 0) else {
            return Err(self.not_positive("truncate", "max event size", event));
        };
        if batch < event {
            return Err(InvalidBackend(format!(
                "invalid audit truncate {plugin} max batch size {batch}, must be greater than max event size ({event})"
            )));
        }
        Ok(self.truncates.then_some(AuditTruncate { event_bytes }))
    }

    /// `validateGroupVersionString`
    fn check_version(&self) -> Result<(), InvalidBackend> {
        match self.version {
            VERSION => Ok(()),
            text if text.matches('/').count() > 1 => {
                Err(InvalidBackend(format!("unexpected GroupVersion string: {text}")))
            }
            _ => Err(InvalidBackend(format!("invalid group version, allowed versions are [{VERSION:?}]"))),
        }
    }

    fn not_positive(&self, part: &str, what: &str, value: impl std::fmt::Display) -> InvalidBackend {
        InvalidBackend(format!("invalid audit {part} {} {what} {value}, must be a positive number", self.plugin))
    }

    /// The options, unless an error was added.
    fn check(&self, errors: &mut Vec<String>) -> Option<AuditBackend> {
        let mut kept = |error: InvalidBackend| errors.push(error.to_string());
        let mode = self.mode().map_err(&mut kept).ok();
        let truncate = self.truncate().map_err(&mut kept).ok();
        self.check_version().map_err(&mut kept).ok()?;
        let (mode, batch) = mode?;
        Some(AuditBackend { mode, batch, truncate: truncate? })
    }
}

fn positive(value: i64) -> Option<usize> {
    usize::try_from(value).ok().filter(|value| *value > 0)
}

/// `AuditWebhookOptions.Validate`
fn webhook_backend(flags: &Audit) -> Backend<'_> {
    Backend {
        plugin: "webhook",
        mode: &flags.audit_webhook_mode,
        buffer_size: flags.audit_webhook_batch_buffer_size,
        max_size: flags.audit_webhook_batch_max_size,
        max_wait: flags.audit_webhook_batch_max_wait,
        throttles: flags.audit_webhook_batch_throttle_enable,
        qps: flags.audit_webhook_batch_throttle_qps,
        burst: flags.audit_webhook_batch_throttle_burst,
        truncates: flags.audit_webhook_truncate_enabled,
        max_batch_size: flags.audit_webhook_truncate_max_batch_size,
        max_event_size: flags.audit_webhook_truncate_max_event_size,
        version: &flags.audit_webhook_version,
    }
}

/// The options of the log, unless an error was added (`AuditLogOptions.Validate`).
fn log_options(flags: &Audit, errors: &mut Vec<String>) -> Option<AuditLogOptions> {
    let backend = Backend {
        plugin: "log",
        mode: &flags.audit_log_mode,
        buffer_size: flags.audit_log_batch_buffer_size,
        max_size: flags.audit_log_batch_max_size,
        max_wait: flags.audit_log_batch_max_wait,
        throttles: flags.audit_log_batch_throttle_enable,
        qps: flags.audit_log_batch_throttle_qps,
        burst: flags.audit_log_batch_throttle_burst,
        truncates: flags.audit_log_truncate_enabled,
        max_batch_size: flags.audit_log_truncate_max_batch_size,
        max_event_size: flags.audit_log_truncate_max_event_size,
        version: &flags.audit_log_version,
    };
    let backend = backend.check(errors);
    let format = &flags.audit_log_format;
    if !FORMATS.contains(&format.as_str()) {
        errors.push(format!("invalid audit log format {format}, allowed formats are {:?}", FORMATS.join(",")));
    }
    let mut natural = |flag: &str, value: i64| {
        u64::try_from(value).map_err(|_| errors.push(format!("--{flag} {value} can't be a negative number"))).ok()
    };
    let days = natural("audit-log-maxage", flags.audit_log_maxage);
    let backups = natural("audit-log-maxbackup", flags.audit_log_maxbackup);
    let megabytes = natural("audit-log-maxsize", flags.audit_log_maxsize);
    let (days, megabytes) = (days?, megabytes?);
    Some(AuditLogOptions {
        backend: backend?,
        is_legacy: format == "legacy",
        rotation: (megabytes > 0).then_some(AuditRotation {
            bytes: megabytes.saturating_mul(1 << 20),
            days,
            backups: usize::try_from(backups?).unwrap_or(usize::MAX),
            compresses: flags.audit_log_compress,
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::arguments::{Arguments, Command};
    use clap::Parser;

    fn parse(arguments: &[&str]) -> Result<AuditOptions, String> {
        let required = ["kube-admission-proxy", "serve", "--audit-log-path=-", "--audit-policy-file=Cargo.toml"];
        let arguments = Arguments::try_parse_from(required.into_iter().chain(arguments.iter().copied()));
        let Command::Serve(flags) = arguments.map_err(|error| error.to_string())?.command else { unreachable!() };
        options(&flags).map_err(|error| error.to_string())
    }

    #[test]
    fn the_defaults_are_those_of_kube_apiserver() {
        assert_eq!(
            parse(&[]).unwrap().log_options,
            AuditLogOptions {
                backend: AuditBackend {
                    batch: AuditBatch { buffer_events: 0, ..AuditLogOptions::default().backend.batch },
                    ..AuditLogOptions::default().backend
                },
                ..AuditLogOptions::default()
            }
        );
        let batch = parse(&["--audit-log-mode=batch"]).unwrap().log_options.backend;
        assert_eq!(batch, AuditBackend { mode: AuditMode::Batch, ..AuditLogOptions::default().backend });
    }

    #[test]
    fn the_values_have_their_effects() {
        let options = parse(&[
            "--audit-log-mode=batch",
            "--audit-log-batch-buffer-size=7",
            "--audit-log-batch-max-size=5",
            "--audit-log-batch-max-wait=3s",
            "--audit-log-batch-throttle-enable",
            "--audit-log-batch-throttle-qps=1.5",
            "--audit-log-batch-throttle-burst=2",
            "--audit-log-truncate-enabled",
            "--audit-log-format=legacy",
            "--audit-log-maxage=0",
            "--audit-log-maxbackup=3",
            "--audit-log-maxsize=1",
            "--audit-log-compress",
        ]);
        let throttle = Some(AuditThrottle { per_second: 1.5, burst: 2 });
        let batch = AuditBatch { buffer_events: 7, events: 5, wait: Duration::from_secs(3), throttle };
        let truncate = Some(AuditTruncate { event_bytes: 102_400 });
        let expected = AuditLogOptions {
            backend: AuditBackend { mode: AuditMode::Batch, batch, truncate },
            is_legacy: true,
            rotation: Some(AuditRotation { bytes: 1 << 20, days: 0, backups: 3, compresses: true }),
        };
        assert_eq!(options.unwrap().log_options, expected);
        assert_eq!(parse(&["--audit-log-maxsize=0"]).unwrap().log_options.rotation, None);
    }

    #[test]
    fn refuses_what_kube_apiserver_refuses_in_its_words() {
        for (arguments, expected) in [
            (
                &["--audit-log-mode=x"][..],
                r#"invalid audit log mode x, allowed modes are "batch,blocking,blocking-strict""#,
            ),
            (
                &["--audit-log-mode=batch", "--audit-log-batch-buffer-size=0"],
                "invalid audit batch log buffer size 0, must be a positive number",
            ),
            (
                &[
                    "--audit-log-mode=batch",
                    "--audit-log-batch-max-size=-1",
                    "--audit-log-truncate-max-event-size=0",
                    "--audit-log-version=x/y/z",
                    "--audit-log-format=xml",
                    "--audit-log-maxage=-1",
                    "--audit-log-maxbackup=-2",
                    "--audit-log-maxsize=-3",
                ],
                "[invalid audit batch log max batch size -1, must be a positive number, invalid audit truncate log max event size 0, \
                 must be a positive number, unexpected GroupVersion string: x/y/z, invalid audit log format xml, allowed formats are \
                 \"legacy,json\", --audit-log-maxage -1 can't be a negative number, --audit-log-maxbackup -2 can't be a negative \
                 number, --audit-log-maxsize -3 can't be a negative number]",
            ),
            (
                &[
                    "--audit-log-mode=batch",
                    "--audit-log-batch-throttle-enable",
                    "--audit-log-batch-throttle-qps=0",
                    "--audit-log-truncate-max-batch-size=5",
                    "--audit-log-version=audit.k8s.io/v1beta1",
                ],
                "[invalid audit batch log throttle QPS 0, must be a positive number, invalid audit truncate log max batch size 5, must \
                 be greater than max event size (102400), invalid group version, allowed versions are [\"audit.k8s.io/v1\"]]",
            ),
            (
                &[
                    "--audit-log-mode=batch",
                    "--audit-log-batch-throttle-enable",
                    "--audit-log-batch-throttle-qps=1.5",
                    "--audit-log-batch-throttle-burst=-1",
                ],
                "invalid audit batch log throttle burst -1, must be a positive number",
            ),
        ] {
            assert_eq!(parse(arguments).unwrap_err(), expected);
        }
        assert!(parse(&["--audit-log-batch-max-size=0"]).is_ok(), "the mode has no batches");
        let webhook = [
            "--audit-webhook-config-file=Cargo.toml",
            "--audit-webhook-mode=x",
            "--audit-webhook-truncate-max-event-size=-1",
            "--audit-webhook-version=v1",
            "--audit-log-mode=y",
        ];
        let expected = "[invalid audit log mode y, allowed modes are \"batch,blocking,blocking-strict\", invalid audit webhook mode x, \
                        allowed modes are \"batch,blocking,blocking-strict\", invalid audit truncate webhook max event size -1, must be a \
                        positive number, invalid group version, allowed versions are [\"audit.k8s.io/v1\"]]";
        assert_eq!(parse(&webhook).unwrap_err(), expected);
        assert!(parse(webhook.get(1..4).unwrap()).is_ok(), "there is no webhook");
    }

    #[test]
    fn the_webhook_has_the_defaults_of_kube_apiserver() {
        let given = ["--audit-webhook-config-file=Cargo.toml", "--audit-webhook-batch-initial-backoff=3s"];
        let webhook = parse(&given).unwrap().webhook.unwrap();
        let throttle = Some(AuditThrottle { per_second: 10.0, burst: 15 });
        let batch = AuditBatch { buffer_events: 10_000, events: 400, wait: Duration::from_secs(30), throttle };
        assert_eq!(webhook.backend, AuditBackend { mode: AuditMode::Batch, batch, truncate: None });
        assert_eq!(webhook.initial_backoff, Duration::from_secs(3));
    }
}
