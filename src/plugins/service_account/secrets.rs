//! Checks the secrets of a pod whose service account restricts them.

use super::NAME;
use crate::cluster::ServiceAccount;
use crate::object::Object;
use serde_json::Value;
use std::collections::HashSet;

/// The names of secrets.
type Names<'a> = HashSet<&'a str>;

/// The text for a secret that the account does not list.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct RefusedSecret(String);

/// Refuses the first secret that the account does not list (`limitSecretReferences`).
pub(super) fn of_pod(pod: &Object, account: &ServiceAccount) -> Result<(), RefusedSecret> {
    let (secrets, pull_secrets) = (names(&account.secrets), names(&account.image_pull_secrets));
    for volume in pod.items(&["spec", "volumes"]) {
        let secret = volume.get("secret").filter(|secret| !secret.is_null());
        if let Some(name) = secret.map(|secret| text(secret, "secretName")).filter(|name| !secrets.contains(name)) {
            return Err(refused(&format!("volume with secret.secretName=\"{name}\""), pod));
        }
    }
    of_containers(pod, "initContainers", "init container", &secrets)?;
    of_containers(pod, "containers", "container", &secrets)?;
    for (i, secret) in pod.items(&["spec", "imagePullSecrets"]).iter().enumerate() {
        let name = text(secret, "name");
        if !pull_secrets.contains(name) {
            let account = pod.str(&NAME);
            return Err(RefusedSecret(format!(
                "imagePullSecrets[{i}].name=\"{name}\" is not allowed because service account {account} does not reference that \
                 imagePullSecret"
            )));
        }
    }
    Ok(())
}

/// Refuses the first secret of an ephemeral container that the account does not list (`limitEphemeralContainerSecretReferences`).
pub(super) fn of_debug_containers(pod: &Object, account: &ServiceAccount) -> Result<(), RefusedSecret> {
    of_containers(pod, "ephemeralContainers", "ephemeral container", &names(&account.secrets))
}

fn of_containers(pod: &Object, list: &str, what: &str, secrets: &Names<'_>) -> Result<(), RefusedSecret> {
    for container in pod.items(&["spec", list]) {
        let name = text(container, "name");
        for variable in items(container, "env") {
            let reference = variable.get("valueFrom").and_then(|from| from.get("secretKeyRef"));
            if let Some(secret) = unknown(reference, secrets) {
                let variable = text(variable, "name");
                let who = format!("{what} {name} with envVar {variable} referencing secret.secretName=\"{secret}\"");
                return Err(refused(&who, pod));
            }
        }
        for source in items(container, "envFrom") {
            if let Some(secret) = unknown(source.get("secretRef"), secrets) {
                let who = format!("{what} {name} with envFrom referencing secret.secretName=\"{secret}\"");
                return Err(refused(&who, pod));
            }
        }
    }
    Ok(())
}

/// The name in a reference, if the account does not list the secret.
fn unknown<'a>(reference: Option<&'a Value>, secrets: &Names<'_>) -> Option<&'a str> {
    let name = text(reference.filter(|reference| !reference.is_null())?, "name");
    (!secrets.contains(name)).then_some(name)
}

fn names(list: &[Box<str>]) -> Names<'_> {
    list.iter().map(|name| &**name).collect()
}

fn refused(who: &str, pod: &Object) -> RefusedSecret {
    let account = pod.str(&NAME);
    RefusedSecret(format!("{who} is not allowed because service account {account} does not reference that secret"))
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn items<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}
