//! The client certificate of a credential plugin (`exec` in a kubeconfig). kube runs plugins as well, but uses no certificate that rustls does
//! not parse.

use super::remote::{Pair, RemoteError};
use kube::config::{AuthInfo, ExecConfig, ExecInteractiveMode};
use serde::Deserialize;
use std::io;
use std::process::{Command, ExitStatus, Stdio};

/// The output of a plugin.
#[derive(Deserialize)]
struct ExecCredential {
    status: Option<ExecCredentialStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecCredentialStatus {
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

/// Runs the plugin, and returns its certificate and key. `None` if there is no plugin, if it has no certificate, or if other credentials of the
/// kubeconfig take its place.
///
/// # Errors
/// If the plugin fails.
pub(super) fn certificate(auth: &AuthInfo) -> Result<Option<Pair>, RemoteError> {
    let Some(exec) = &auth.exec else { return Ok(None) };
    let has_password = auth.username.is_some() && auth.password.is_some();
    if auth.auth_provider.is_some() || has_password || auth.token.is_some() || auth.token_file.is_some() {
        return Ok(None);
    }
    let status = run(exec).map_err(|why| {
        let command = exec.command.as_deref().unwrap_or_default();
        RemoteError::Unsupported(format!("the credential plugin \"{command}\" cannot be used: {why}"))
    })?;
    let pair = status.and_then(|status| status.client_certificate_data.zip(status.client_key_data));
    Ok(pair.map(|(certificate, key)| (certificate.into_bytes(), key.into_bytes())))
}

/// The reason why a plugin cannot be used. It has nothing of the plugin's output, which is a secret.
#[derive(Debug, thiserror::Error)]
enum PluginError {
    #[error("the command is missing")]
    NoCommand,
    #[error("the cluster's data is missing")]
    NoCluster,
    #[error(transparent)]
    Start(#[from] io::Error),
    #[error("{0}")]
    Exit(ExitStatus),
    #[error("its output is no ExecCredential")]
    Output,
}

/// Runs the command as kube does.
fn run(exec: &ExecConfig) -> Result<Option<ExecCredentialStatus>, PluginError> {
    let mut command = Command::new(exec.command.as_ref().ok_or(PluginError::NoCommand)?);
    command.args(exec.args.iter().flatten());
    for variable in exec.env.iter().flatten() {
        if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
            command.env(name, value);
        }
    }
    let is_interactive = exec.interactive_mode != Some(ExecInteractiveMode::Never);
    match is_interactive {
        true => command.stdin(Stdio::inherit()).stderr(Stdio::inherit()),
        false => command.stdin(Stdio::null()),
    };
    let cluster = match (exec.provide_cluster_info, &exec.cluster) {
        (false, _) => None,
        (true, None) => return Err(PluginError::NoCluster),
        (true, cluster) => cluster.as_ref(),
    };
    let spec = match cluster {
        Some(cluster) => serde_json::json!({ "interactive": is_interactive, "cluster": cluster }),
        None => serde_json::json!({ "interactive": is_interactive }),
    };
    let info = serde_json::json!({ "apiVersion": exec.api_version, "kind": "ExecCredential", "spec": spec });
    command.env("KUBERNETES_EXEC_INFO", info.to_string());
    for name in exec.drop_env.iter().flatten() {
        command.env_remove(name);
    }
    let output = command.output()?;
    if !output.status.success() {
        return Err(PluginError::Exit(output.status));
    }
    let text = str::from_utf8(&output.stdout).map_err(|_| PluginError::Output)?;
    let credential: ExecCredential = serde_saphyr::from_str(text).map_err(|_| PluginError::Output)?;
    Ok(credential.status)
}
