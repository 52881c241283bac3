//! Turns the arguments about the upstream API server into its configuration.

use super::arguments::{self, QUOTA_BYTES, SERVICE_RANGE};
use super::serve::{list, options_of, readable};
use crate::config::{CallsWebhooks, ConfigError, EVENT_TTL, Embedded, ImpersonatorOptions, Upstream, UpstreamIdentity};
use crate::names::{is_dns_1123_label, is_dns_1123_subdomain};
use crate::user::{UserInfo, invalid_group_prefix};
use std::path::{Path, PathBuf};

/// The default path of the kubeconfig for the API server in this process.
pub(super) const KUBECONFIG: &str = "kube-admission-proxy.kubeconfig";

/// Returns the upstream API server, and how requests are forwarded to it.
///
/// # Errors
/// If a flag is invalid, or has no effect with the others.
pub(super) fn upstream(flags: &arguments::Upstream, embedded: &arguments::Embedded) -> Result<Upstream, ConfigError> {
    let identity = flags.upstream_identity;
    let of_forwarding = [
        ("upstream-own-user", Some(flags.upstream_own_user.join(",")).filter(|user| !user.is_empty())),
        ("upstream-impersonator", flags.upstream_impersonator.clone()),
        ("upstream-impersonator-kubeconfig", shown(flags.upstream_impersonator_kubeconfig.as_deref())),
        ("upstream-group-prefix", flags.upstream_group_prefix.clone()),
        ("admitted-mark", flags.admitted_mark.clone()),
    ];
    let refuse = |flags: &str, reason: &str| {
        let given = of_forwarding.iter().filter(|(flag, _)| flag.starts_with(flags));
        let error = given.filter_map(|(flag, value)| Some(ConfigError::flag(flag, value.as_ref()?, reason))).next();
        error.map_or(Ok(()), Err)
    };
    let Some(kubeconfig) = readable("upstream-kubeconfig", flags.upstream_kubeconfig.as_deref())? else {
        refuse("", "has no effect without --upstream-kubeconfig")?;
        for (flag, is_given) in [
            ("upstream-identity", identity != UpstreamIdentity::Impersonate),
            ("upstream-calls-webhooks", flags.upstream_calls_webhooks != CallsWebhooks::Auto),
        ] {
            if is_given {
                return Err(ConfigError::Rule(format!("--{flag} has no effect without --upstream-kubeconfig")));
            }
        }
        let kubeconfig = flags.write_kubeconfig.clone().unwrap_or_else(|| PathBuf::from(KUBECONFIG));
        return Ok(Upstream::Embedded(Embedded { kubeconfig: Some(kubeconfig), ..options_of(embedded)? }));
    };
    if let Some(path) = &flags.write_kubeconfig {
        let reason = "has no effect with --upstream-kubeconfig";
        return Err(ConfigError::flag("write-kubeconfig", path.display().to_string(), reason));
    }
    for (flag, is_given) in [
        ("controllers", !embedded.controllers.is_empty()),
        ("runtime-config", !embedded.runtime_config.is_empty()),
        ("advertise-address", embedded.advertise_address.is_some()),
        ("service-account-jwks-uri", embedded.service_account_jwks_uri.is_some()),
        ("service-account-issuer", !embedded.service_account_issuer.is_empty()),
        ("service-account-key-file", !embedded.service_account_key_file.is_empty()),
        ("service-account-max-token-expiration", !embedded.service_account_max_token_expiration.is_zero()),
        ("api-audiences", !embedded.api_audiences.is_empty()),
        ("service-cluster-ip-range", embedded.service_cluster_ip_range != SERVICE_RANGE),
        ("allow-privileged", !embedded.allow_privileged),
        ("event-ttl", embedded.event_ttl != EVENT_TTL),
        ("quota-backend-bytes", embedded.quota_backend_bytes != QUOTA_BYTES),
        ("data-dir", embedded.data_dir.is_some()),
        ("service-account-signing-key-file", embedded.service_account_signing_key_file.is_some()),
    ] {
        if is_given {
            return Err(ConfigError::Rule(format!("--{flag} has no effect with --upstream-kubeconfig")));
        }
    }
    match identity {
        UpstreamIdentity::Impersonate => refuse("upstream-own-user", "needs --upstream-identity=requestheader")?,
        UpstreamIdentity::RequestHeader => refuse("upstream-impersonator", "needs --upstream-identity=impersonate")?,
        UpstreamIdentity::Passthrough => {
            let reason = "does not work with --upstream-identity=passthrough, which sends the credentials of the client unchanged";
            refuse("", reason)?;
        }
    }
    if let Some(mark) = &flags.admitted_mark {
        namespaced("admitted-mark", mark)?;
    }
    Ok(Upstream::Remote {
        kubeconfig,
        identity,
        calls_webhooks: flags.upstream_calls_webhooks,
        impersonator: impersonator(flags)?,
        own_user: own_user(&list(&flags.upstream_own_user))?,
        admitted_mark: flags.admitted_mark.clone(),
        group_prefix: group_prefix(flags.upstream_group_prefix.as_deref().unwrap_or_default())?,
        webhook_targets: None,
    })
}

fn shown(path: Option<&Path>) -> Option<String> {
    path.map(|path| path.display().to_string())
}

fn impersonator(flags: &arguments::Upstream) -> Result<Option<ImpersonatorOptions>, ConfigError> {
    if let Some(account) = &flags.upstream_impersonator {
        let (namespace, name) = namespaced("upstream-impersonator", account)?;
        return Ok(Some(ImpersonatorOptions::ServiceAccount { namespace, name }));
    }
    let path = readable("upstream-impersonator-kubeconfig", flags.upstream_impersonator_kubeconfig.as_deref())?;
    Ok(path.map(ImpersonatorOptions::Kubeconfig))
}

/// Returns the user of the names: the user's name, then groups.
fn own_user(names: &[String]) -> Result<Option<UserInfo>, ConfigError> {
    let Some((username, groups)) = names.split_first() else { return Ok(None) };
    if let Some(name) = names.iter().find(|name| !name.bytes().all(|byte| byte.is_ascii_graphic())) {
        return Err(ConfigError::flag("upstream-own-user", name, "must have visible ASCII characters only"));
    }
    Ok(Some(UserInfo { username: username.clone(), groups: groups.to_vec(), ..UserInfo::default() }))
}

/// Splits `NAMESPACE/NAME`.
///
/// # Errors
/// If the text is something else.
pub(super) fn namespaced(flag: &'static str, text: &str) -> Result<(String, String), ConfigError> {
    match text.split_once('/') {
        Some((namespace, name)) if is_dns_1123_label(namespace) && is_dns_1123_subdomain(name) => {
            Ok((namespace.to_owned(), name.to_owned()))
        }
        _ => Err(ConfigError::flag(flag, text, "must be NAMESPACE/NAME")),
    }
}

fn group_prefix(prefix: &str) -> Result<String, ConfigError> {
    match invalid_group_prefix(prefix) {
        Some(reason) => Err(ConfigError::flag("upstream-group-prefix", prefix, reason)),
        None => Ok(prefix.to_owned()),
    }
}
