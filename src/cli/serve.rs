//! Turns the arguments of `serve` into the configuration.

use super::arguments::{self, Serve};
use super::audit;
use super::upstream::namespaced;
use crate::admission::shadow::ShadowNames;
use crate::admission::{PolicyOptions, Spec};
use crate::app::{self, Admission, Config};
use crate::config::{
    Addresses, Apis, Authentication, Authorization, AuthorizationMode, CertificateFiles, CertificateSecret,
    ConfigError, Controllers, DefaultTolerations, Embedded, EmulatedRelease, FeatureGates, FrontEndOptions, Limits,
    RequestHeader, Serving, TokenFiles, Upstream, UpstreamIdentity, is_of_upstream,
};
use crate::config::{NamedCertificate, PolicyParameters, TlsFlagError, TlsProtocol, Writes};
use crate::logging::{Format, Levels, Modules};
use crate::names::is_dns_1123_subdomain;
use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The shortest bound of `--service-account-max-token-expiration` (`ServiceAccountAuthenticationOptions.Validate`).
const MIN_TOKEN_LIFETIME: Duration = Duration::from_secs(3600);

/// Builds the configuration from the arguments; `upstream` is the release for `--emulated-version=upstream`.
///
/// # Errors
/// If an argument is invalid; the error is about the first one.
pub(super) fn config(flags: &Serve, upstream: Option<EmulatedRelease>) -> Result<Config, ConfigError> {
    let feature_gates = feature_gates(&flags.admission, upstream)?;
    let all = &*crate::plugins::of(feature_gates.release());
    let limits = Limits {
        request_timeout: flags.serving.request_timeout,
        drain_timeout: flags.serving.shutdown_drain_timeout,
        token_cache_ttl: flags.authentication.authentication_token_webhook_cache_ttl,
        authorized_ttl: flags.authorization.authorization_webhook_cache_authorized_ttl,
        unauthorized_ttl: flags.authorization.authorization_webhook_cache_unauthorized_ttl,
        admission_timeout: Some(flags.admission.admission_timeout).filter(|timeout| !timeout.is_zero()),
        slow_request: flags.log.slow_request_threshold,
        requests_inflight: flags.serving.max_requests_inflight,
        mutating_requests_inflight: flags.serving.max_mutating_requests_inflight,
        webhook_breaker_failures: usize::try_from(flags.admission.webhook_circuit_breaker_failures)
            .unwrap_or(usize::MAX),
        webhook_breaker_window: flags.admission.webhook_circuit_breaker_window,
        webhook_breaker_probe_interval: flags.admission.webhook_circuit_breaker_probe_interval,
        stored_bytes: match flags.embedded.quota_backend_bytes {
            0 => Limits::default().stored_bytes,
            bytes => bytes,
        },
        ..Limits::default()
    };
    if limits.request_timeout.is_zero() {
        return Err(ConfigError::flag("request-timeout", "0s", "must be more than 0"));
    }
    for (flag, value) in [
        ("webhook-circuit-breaker-window", limits.webhook_breaker_window),
        ("webhook-circuit-breaker-probe-interval", limits.webhook_breaker_probe_interval),
    ] {
        if value.is_zero() {
            return Err(ConfigError::flag(flag, "0s", "must be more than 0"));
        }
    }
    let plugins = plugins(&flags.admission, all)?;
    let upstream = super::upstream::upstream(&flags.upstream, &flags.embedded)?;
    check_write_kubeconfig(flags)?;
    let serving = serving(&flags.serving, matches!(upstream, Upstream::Embedded(_)))?;
    if let (Some(secret), Upstream::Embedded(_)) = (&flags.serving.tls_secret, &upstream) {
        return Err(ConfigError::flag("tls-secret", secret, "needs --upstream-kubeconfig"));
    }
    let (front_end, plugins) = match flags.front_end.webhook_bind_address {
        Some(address) => {
            let has_tenants = flags.tenants.tenants_dir.is_some();
            front_end(address, &flags.front_end, &upstream, &serving, all, plugins, has_tenants)?
        }
        None => {
            no_front_end(&flags.front_end)?;
            (None, plugins)
        }
    };
    let admission = admission(plugins, feature_gates, &flags.admission)?;
    check_initializers(&admission, &upstream)?;
    Ok(Config {
        serving,
        authentication: authentication(&flags.authentication)?,
        authorization: authorization(&flags.authorization, &upstream)?,
        upstream,
        admission,
        writes: Writes {
            validation_view: flags.admission.validation_view,
            field_ownership: flags.admission.field_ownership,
        },
        front_end,
        audit: audit::options(flags)?,
        tenants_dir: tenants_dir(flags)?,
        memory_limit: flags.serving.memory_limit,
        profiling: flags.profiling,
        flags: BTreeMap::new(),
        limits: Arc::new(limits),
        emulates_upstream: is_of_upstream(&flags.admission.emulated_version),
    })
}

/// The format and the levels of the log (`logsapi.Validate`).
///
/// # Errors
/// If the format is unknown, or does not have the levels of modules.
pub(super) fn log(flags: &arguments::Logs) -> Result<(Format, Levels), ConfigError> {
    let modules = Modules::joined(flags.vmodule.iter().cloned());
    let format = match flags.logging_format.as_str() {
        "text" => Format::Text,
        "json" if !modules.is_empty() => {
            return Err(ConfigError::flag("vmodule", modules.to_string(), "Only supported for text log format"));
        }
        "json" => Format::Json,
        other => return Err(ConfigError::flag("logging-format", other, "Unsupported log format")),
    };
    Ok((format, Levels::new(flags.verbosity, modules)))
}

/// The release of `--emulated-version` and `--min-compatibility-version`.
///
/// # Errors
/// If it cannot be emulated.
pub(super) fn release(
    emulated: &[String],
    min_compatibility: &[String],
    upstream: Option<EmulatedRelease>,
) -> Result<EmulatedRelease, ConfigError> {
    EmulatedRelease::of_flags(emulated, min_compatibility, upstream).map_err(|error| {
        let given = if error.flag == EmulatedRelease::FLAG { emulated } else { min_compatibility };
        ConfigError::flag(error.flag, given.join(","), error)
    })
}

/// Gives this process the kinds of the emulated release, before anything reads an object.
///
/// # Errors
/// If the release cannot be emulated, or if the process has the kinds of another one.
pub(super) fn choose_kinds(flags: &arguments::Admission, upstream: Option<EmulatedRelease>) -> Result<(), ConfigError> {
    let release = release(&flags.emulated_version, &flags.min_compatibility_version, upstream)?;
    kinds_of(release)
}

/// Gives this process the kinds of a release.
///
/// # Errors
/// If the process has the kinds of another one.
pub(super) fn kinds_of(release: EmulatedRelease) -> Result<(), ConfigError> {
    crate::object::release::choose(release.minor)
        .map_err(|why| ConfigError::flag(EmulatedRelease::FLAG, release.to_string(), why))
}

/// Checks the flags about plugins without the files that they name.
///
/// # Errors
/// If an argument is invalid.
pub(super) fn check_plugins(flags: &arguments::Admission) -> Result<(), ConfigError> {
    let gates = feature_gates(flags, Some(EmulatedRelease::default()))?;
    plugins(flags, &crate::plugins::of(gates.release())).map(|_existing| ())
}

/// The gates of the emulated release.
fn feature_gates(flags: &arguments::Admission, upstream: Option<EmulatedRelease>) -> Result<FeatureGates, ConfigError> {
    let release = release(&flags.emulated_version, &flags.min_compatibility_version, upstream)?;
    let gates = flags.feature_gates.join(",");
    FeatureGates::of(release, &gates).map_err(|reason| ConfigError::flag("feature-gates", gates, reason))
}

/// The plugins that the flags enable; `all` are the existing plugins.
///
/// # Errors
/// If a name is unknown, or the flags contradict each other.
fn plugins(flags: &arguments::Admission, all: &[&'static Spec]) -> Result<Vec<&'static Spec>, ConfigError> {
    let (enable, disable) = (list(&flags.enable_admission_plugins), list(&flags.disable_admission_plugins));
    match &flags.admission_control[..] {
        [] => app::enabled(all, &enable, &disable),
        names => app::listed(all, &list(names), &enable, &disable),
    }
}

/// Returns the front end, and the plugins that run: those of the front end, if it is alone.
fn front_end(
    address: SocketAddr,
    flags: &arguments::FrontEnd,
    upstream: &Upstream,
    serving: &Serving,
    all: &[&'static Spec],
    enabled: Vec<&'static Spec>,
    has_tenants: bool,
) -> Result<(Option<FrontEndOptions>, Vec<&'static Spec>), ConfigError> {
    let refusal = |reason: &str| Err(ConfigError::flag("webhook-bind-address", address.to_string(), reason));
    match upstream {
        Upstream::Embedded { .. } => {
            return refusal("needs --upstream-kubeconfig: plugins read from the API server that sends the reviews");
        }
        Upstream::Remote { identity: UpstreamIdentity::Passthrough, .. } => {
            return refusal(
                "does not work with --upstream-identity=passthrough: a review has no credentials of its user",
            );
        }
        Upstream::Remote { .. } => {}
    }
    let certificate_file = FileFlag { name: "webhook-tls-cert-file", file: flags.webhook_tls_cert_file.as_deref() };
    let key_file =
        FileFlag { name: "webhook-tls-private-key-file", file: flags.webhook_tls_private_key_file.as_deref() };
    let certificate = certificate(certificate_file, key_file)?.or_else(|| serving.certificate.clone());
    if certificate.is_none() && serving.secret.is_none() {
        return refusal(
            "needs --webhook-tls-cert-file, --tls-cert-file or --tls-secret: the API server verifies the certificate",
        );
    }
    let client_ca = readable("webhook-client-ca-file", flags.webhook_client_ca_file.as_deref())?;
    let token_file = readable("webhook-token-auth-file", flags.webhook_token_auth_file.as_deref())?;
    let allowed_names = list(&flags.webhook_allowed_names);
    if let (Some(path), true) = (&client_ca, allowed_names.is_empty()) {
        let reason = "needs --webhook-allowed-names: the authorities may sign certificates of others than API servers";
        return Err(ConfigError::flag("webhook-client-ca-file", path.display().to_string(), reason));
    }
    if client_ca.is_none() && token_file.is_none() && !flags.webhook_anonymous_auth {
        return refusal("needs --webhook-client-ca-file, --webhook-token-auth-file or --webhook-anonymous-auth");
    }
    let plugins = app::reviewing(all, &enabled, &list(&flags.webhook_admission_plugins))?;
    let is_enabled = |spec: &Spec| enabled.iter().any(|other| other.name == spec.name);
    // A tenant may enable a plugin for itself.
    let may_be_disabled = flags.webhook_only || has_tenants;
    if let Some(spec) = plugins.iter().find(|spec| !may_be_disabled && !is_enabled(spec)) {
        let reason = "is not enabled: name it in --enable-admission-plugins as well, or serve with --webhook-only";
        return Err(ConfigError::flag("webhook-admission-plugins", spec.name, reason));
    }
    let front_end = FrontEndOptions {
        address,
        is_alone: flags.webhook_only,
        certificate,
        configurations: flags.webhook_configurations.clone(),
        client_ca,
        token_file,
        allowed_names,
        anonymous: flags.webhook_anonymous_auth,
        plugins: plugins.iter().map(|spec| spec.name).collect(),
        are_named: !flags.webhook_admission_plugins.is_empty(),
    };
    let running = if front_end.is_alone { plugins } else { enabled };
    Ok((Some(front_end), running))
}

/// Refuses the other flags of the front end if there is none.
fn no_front_end(flags: &arguments::FrontEnd) -> Result<(), ConfigError> {
    let is_given = flags.webhook_only
        || flags.webhook_anonymous_auth
        || !flags.webhook_admission_plugins.is_empty()
        || !flags.webhook_allowed_names.is_empty()
        || flags.webhook_configurations.is_some()
        || [
            &flags.webhook_client_ca_file,
            &flags.webhook_token_auth_file,
            &flags.webhook_tls_cert_file,
            &flags.webhook_tls_private_key_file,
        ]
        .iter()
        .any(|path| path.is_some());
    match is_given {
        true => {
            let text = "the other flags of the webhook front end have no effect without --webhook-bind-address";
            Err(ConfigError::Rule(text.to_owned()))
        }
        false => Ok(()),
    }
}

fn admission(
    plugins: Vec<&'static Spec>,
    feature_gates: FeatureGates,
    flags: &arguments::Admission,
) -> Result<Admission, ConfigError> {
    let mut admission = Admission::new(plugins, flags.admission_control_config_file.as_deref())?;
    admission.feature_gates = feature_gates;
    admission.routes_to_endpoints = flags.enable_aggregator_routing;
    let shadows = |names: &[String]| ShadowNames::new(list(names)).with_annotations(flags.shadow_annotations);
    admission.shadow_webhooks = shadows(&flags.shadow_webhooks);
    admission.policies = PolicyOptions {
        in_files: if flags.enable_static_policy_parameters {
            PolicyParameters::Allowed
        } else {
            PolicyParameters::Forbidden
        },
        shadows: shadows(&flags.shadow_policies),
    };
    admission.default_tolerations = DefaultTolerations {
        not_ready_seconds: flags.default_not_ready_toleration_seconds,
        unreachable_seconds: flags.default_unreachable_toleration_seconds,
    };
    Ok(admission)
}

/// Returns the folder of tenants, which is refused with options that would mix tenants.
fn tenants_dir(flags: &Serve) -> Result<Option<PathBuf>, ConfigError> {
    let Some(folder) = &flags.tenants.tenants_dir else { return Ok(None) };
    let invalid = |reason: &str| ConfigError::flag("tenants-dir", folder.display().to_string(), reason);
    if !folder.is_dir() {
        return Err(invalid("is no folder"));
    }
    if flags.upstream.upstream_identity == UpstreamIdentity::Passthrough {
        return Err(invalid(
            "does not work with --upstream-identity=passthrough: a client certificate, which may name a member, does not reach the API server",
        ));
    }
    if flags.front_end.webhook_only {
        return Err(invalid("does not work with --webhook-only: tenants are chosen for clients"));
    }
    Ok(Some(folder.clone()))
}

/// Refuses Initializers in front of a remote API server: it would show an object before the object is initialized, and another replica of
/// the proxy would not know that the object is uninitialized.
fn check_initializers(admission: &Admission, upstream: &Upstream) -> Result<(), ConfigError> {
    match upstream {
        Upstream::Remote { .. } if admission.has_initializers() => Err(ConfigError::flag(
            "enable-admission-plugins",
            crate::initializers::PLUGIN,
            "does not work with --upstream-kubeconfig: an API server since Kubernetes 1.14 lacks metadata.initializers, so that it \
             shows a new object before the object is initialized; use MutatingAdmissionWebhook instead",
        )),
        Upstream::Remote { .. } | Upstream::Embedded { .. } => Ok(()),
    }
}

/// Refuses `--write-kubeconfig` with given certificates: the proxy does not have the keys for a kubeconfig then.
fn check_write_kubeconfig(flags: &Serve) -> Result<(), ConfigError> {
    let files = [
        ("tls-cert-file", &flags.serving.tls_cert_file),
        ("cert-dir", &flags.serving.cert_dir),
        ("client-ca-file", &flags.authentication.client_ca_file),
    ];
    let given = files.into_iter().find(|(_, path)| path.is_some());
    match (&flags.upstream.write_kubeconfig, given) {
        (Some(path), Some((flag, _))) => Err(ConfigError::flag(
            "write-kubeconfig",
            path.display().to_string(),
            format!("has no effect with --{flag}"),
        )),
        _ => Ok(()),
    }
}

fn certificate_secret(secret: &str, names: &[String]) -> Result<CertificateSecret, ConfigError> {
    let (namespace, name) = namespaced("tls-secret", secret)?;
    let is_name =
        |name: &&String| name.parse::<IpAddr>().is_ok() || is_dns_1123_subdomain(name.trim_start_matches("*."));
    if let Some(name) = names.iter().find(|name| !is_name(name)) {
        return Err(ConfigError::flag("tls-names", name, "is neither a DNS name nor an IP address"));
    }
    Ok(CertificateSecret { namespace, name, names: names.to_vec() })
}

/// The addresses of `--bind-address`. Who tries the embedded API server, in which everybody may do everything by default, seldom means to
/// serve it to the network.
fn addresses(flags: &arguments::Serving, is_embedded: bool) -> Vec<SocketAddr> {
    let default = if is_embedded { Ipv4Addr::LOCALHOST } else { Ipv4Addr::UNSPECIFIED };
    let given = if flags.bind_address.is_empty() { &[IpAddr::V4(default)][..] } else { &flags.bind_address };
    given.iter().map(|address| SocketAddr::new(*address, flags.secure_port)).collect()
}

fn serving(flags: &arguments::Serving, is_embedded: bool) -> Result<Serving, ConfigError> {
    let certificate_file = FileFlag { name: "tls-cert-file", file: flags.tls_cert_file.as_deref() };
    let key_file = FileFlag { name: "tls-private-key-file", file: flags.tls_private_key_file.as_deref() };
    let named = flags.tls_sni_cert_key.iter().map(|value| {
        NamedCertificate::parse(value).map_err(|error| ConfigError::flag("tls-sni-cert-key", value, error.to_string()))
    });
    let version = flags.tls_min_version.as_deref();
    let protocol = TlsProtocol::parse(version, &flags.tls_cipher_suites).map_err(|error| match &error {
        TlsFlagError::CipherSuite(name) => ConfigError::flag("tls-cipher-suites", name, error.to_string()),
        _ => ConfigError::flag("tls-min-version", version.unwrap_or_default(), error.to_string()),
    })?;
    Ok(Serving {
        named_certificates: named.collect::<Result<_, _>>()?,
        protocol,
        addresses: addresses(flags, is_embedded),
        certificate: match (certificate(certificate_file, key_file)?, &flags.cert_dir) {
            (Some(files), _) => Some(files),
            (None, Some(folder)) => Some(certificate_in(folder)),
            (None, None) => None,
        },
        secret: flags.tls_secret.as_deref().map(|secret| certificate_secret(secret, &flags.tls_names)).transpose()?,
        made_certificate: flags.tls_cert_file.is_none() && flags.cert_dir.is_some(),
        health_address: Some(flags.health_bind_address),
        shutdown_delay: flags.shutdown_delay_duration,
    })
}

fn authentication(flags: &arguments::Authentication) -> Result<Authentication, ConfigError> {
    let request_header = RequestHeader {
        client_ca: PathBuf::new(),
        allowed_names: list(&flags.requestheader_allowed_names),
        username_headers: headers("requestheader-username-headers", &flags.requestheader_username_headers)?,
        uid_headers: headers("requestheader-uid-headers", &flags.requestheader_uid_headers)?,
        group_headers: headers("requestheader-group-headers", &flags.requestheader_group_headers)?,
        extra_header_prefixes: headers(
            "requestheader-extra-headers-prefix",
            &flags.requestheader_extra_headers_prefix,
        )?,
    };
    let request_header = match readable("requestheader-client-ca-file", flags.requestheader_client_ca_file.as_deref())?
    {
        Some(client_ca) => Some(RequestHeader { client_ca, ..request_header }),
        None => {
            // kube-apiserver ignores the other flags then, and an operator would run a proxy without trusted front proxies.
            if request_header != RequestHeader::default() {
                let text = "the --requestheader-… flags have no effect without --requestheader-client-ca-file";
                return Err(ConfigError::Rule(text.to_owned()));
            }
            None
        }
    };
    Ok(Authentication {
        client_ca: readable("client-ca-file", flags.client_ca_file.as_deref())?,
        request_header,
        token_file: readable("token-auth-file", flags.token_auth_file.as_deref())?,
        anonymous: flags.anonymous_auth,
    })
}

fn authorization(flags: &arguments::Authorization, upstream: &Upstream) -> Result<Authorization, ConfigError> {
    let is_embedded = matches!(upstream, Upstream::Embedded { .. });
    let given = list(&flags.authorization_mode);
    let mut modes: Vec<&str> = given.iter().map(String::as_str).collect();
    if is_embedded && modes.contains(&"RBAC") {
        // RBAC alone decides about the requests of nodes, by the bindings that an operator creates.
        modes.retain(|mode| *mode != "Node");
    }
    let mode = match modes[..] {
        [] if is_embedded => AuthorizationMode::AlwaysAllow,
        [] => AuthorizationMode::Webhook,
        ["AlwaysAllow"] => AuthorizationMode::AlwaysAllow,
        ["AlwaysAllow", "RBAC"] | ["RBAC", "AlwaysAllow"] if is_embedded => AuthorizationMode::AlwaysAllow,
        ["Webhook"] => AuthorizationMode::Webhook,
        ["RBAC"] if is_embedded => AuthorizationMode::Rbac,
        ["RBAC"] => {
            let reason =
                "needs the embedded API server: with --upstream-kubeconfig, Webhook asks the upstream API server";
            return Err(ConfigError::flag("authorization-mode", "RBAC", reason));
        }
        [mode] => return Err(ConfigError::flag("authorization-mode", mode, "must be AlwaysAllow, RBAC or Webhook")),
        _ => {
            let reason = "must be one of AlwaysAllow, RBAC and Webhook";
            return Err(ConfigError::flag("authorization-mode", given.join(","), reason));
        }
    };
    Ok(Authorization { mode })
}

/// The options of the embedded API server.
pub(super) fn options_of(flags: &arguments::Embedded) -> Result<Embedded, ConfigError> {
    let controllers = match &flags.controllers[..] {
        [] => Controllers::ALL,
        names => Controllers::parse(&list(names))
            .map_err(|reason| ConfigError::flag("controllers", names.join(","), reason))?,
    };
    let range = &flags.service_cluster_ip_range;
    let runtime_config = list(&flags.runtime_config);
    let max = flags.service_account_max_token_expiration;
    if !max.is_zero() && max < MIN_TOKEN_LIFETIME {
        let reason = "must be at least 1h0m0s, or 0";
        return Err(ConfigError::flag("service-account-max-token-expiration", format!("{}s", max.as_secs()), reason));
    }
    let jwks_uri = flags.service_account_jwks_uri.clone().filter(|uri| !uri.is_empty());
    if let Some(uri) = jwks_uri.as_deref().filter(|uri| !is_https(uri)) {
        return Err(ConfigError::flag("service-account-jwks-uri", uri, "must be an https URL"));
    }
    let key = |path: &PathBuf| readable("service-account-key-file", Some(path));
    Ok(Embedded {
        kubeconfig: None,
        controllers,
        addresses: Addresses::parse(range)
            .map_err(|reason| ConfigError::flag("service-cluster-ip-range", range, reason))?,
        tokens: TokenFiles {
            issuers: flags.service_account_issuer.clone(),
            audiences: list(&flags.api_audiences),
            signing_key: readable(
                "service-account-signing-key-file",
                flags.service_account_signing_key_file.as_deref(),
            )?,
            keys: flags
                .service_account_key_file
                .iter()
                .filter_map(|path| key(path).transpose())
                .collect::<Result<_, _>>()?,
            jwks_uri,
            max_seconds: i64::try_from(max.as_secs()).ok().filter(|seconds| *seconds > 0),
        },
        apis: Apis::parse(&runtime_config)
            .map_err(|reason| ConfigError::flag("runtime-config", runtime_config.join(","), reason))?,
        advertise_address: flags.advertise_address,
        allow_privileged: flags.allow_privileged,
        event_ttl: flags.event_ttl,
        data_dir: flags.data_dir.clone(),
    })
}

fn is_https(url: &str) -> bool {
    url.parse::<http::Uri>().is_ok_and(|url| url.scheme_str() == Some("https"))
}

/// Splits the values of a flag that may be given several times, each with several values. Empty values are dropped.
pub(super) fn list(values: &[String]) -> Vec<String> {
    let split = values.iter().flat_map(|value| value.split(','));
    split.map(str::trim).filter(|value| !value.is_empty()).map(str::to_owned).collect()
}

/// Parses the values of a flag with names or prefixes of headers (`RequestHeaderAuthenticationOptions.Validate`).
fn headers(flag: &'static str, values: &[String]) -> Result<Vec<String>, ConfigError> {
    let names = list(values);
    match names.iter().find(|name| http::HeaderName::from_bytes(name.as_bytes()).is_err()) {
        Some(name) => Err(ConfigError::flag(flag, name, "is no name of a header")),
        None => Ok(names),
    }
}

/// Returns the path if one is given; fails if the file cannot be read.
pub(super) fn readable(flag: &'static str, path: Option<&Path>) -> Result<Option<PathBuf>, ConfigError> {
    let Some(path) = path.filter(|path| !path.as_os_str().is_empty()) else { return Ok(None) };
    match fs::File::open(path).and_then(|file| file.metadata()) {
        Ok(metadata) if metadata.is_dir() => Err(ConfigError::flag(flag, path.display().to_string(), "is a directory")),
        Ok(_) => Ok(Some(path.to_owned())),
        Err(reason) => Err(ConfigError::flag(flag, path.display().to_string(), reason)),
    }
}

/// The files of `--cert-dir` (`SecureServingOptions.MaybeDefaultWithSelfSignedCerts`).
fn certificate_in(folder: &Path) -> CertificateFiles {
    CertificateFiles { certificate: folder.join("apiserver.crt"), key: folder.join("apiserver.key") }
}

/// A flag that names a file.
#[derive(Clone, Copy)]
struct FileFlag<'a> {
    name: &'static str,
    file: Option<&'a Path>,
}

impl FileFlag<'_> {
    fn readable(self) -> Result<Option<PathBuf>, ConfigError> {
        readable(self.name, self.file)
    }
}

/// Reads two flags that need each other: a certificate and its key.
fn certificate(certificate: FileFlag<'_>, key: FileFlag<'_>) -> Result<Option<CertificateFiles>, ConfigError> {
    let (certificate_flag, key_flag) = (certificate.name, key.name);
    match (certificate.readable()?, key.readable()?) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => Ok(Some(CertificateFiles { certificate, key })),
        (Some(path), None) => {
            Err(ConfigError::flag(certificate_flag, path.display().to_string(), format!("needs --{key_flag}")))
        }
        (None, Some(path)) => {
            Err(ConfigError::flag(key_flag, path.display().to_string(), format!("needs --{certificate_flag}")))
        }
    }
}

#[cfg(test)]
mod tests;
