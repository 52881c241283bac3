//! The volume with the service account's token, and its mounts.

use crate::object::{Object, generate_name};
use serde_json::{Value, json};

const VOLUME: &str = "kube-api-access-";
const PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// `WarnOnlyBoundTokenExpirationSeconds`: an hour, and 7 seconds that identify this kind of token.
const EXPIRATION_SECONDS: u32 = 60 * 60 + 7;
/// `ProjectedVolumeSourceDefaultMode`: 0644.
const MODE: u32 = 0o644;

/// A field of the pod has the wrong type.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Misshapen(String);

/// Mounts the token in every container without a mount at [`PATH`] (`mountServiceAccountToken`).
pub(super) fn mount(pod: &mut Object) -> Result<(), Misshapen> {
    let volumes = pod.items(&["spec", "volumes"]).iter();
    let mut names = volumes.filter_map(|volume| volume.get("name")?.as_str());
    let existing = names.find(|name| name.starts_with(VOLUME)).map(str::to_owned);
    let is_there = existing.is_some();
    let name = existing.unwrap_or_else(|| generate_name(VOLUME));
    let mut is_needed = false;
    for list in ["initContainers", "containers"] {
        if pod.items(&["spec", list]).iter().all(has_mount) {
            continue;
        }
        is_needed = true;
        let containers = pod.get_mut(&["spec", list]).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter(|container| !has_mount(container)) {
            let mounts =
                container.as_object_mut().map(|container| container.entry("volumeMounts").or_insert(json!([])));
            let mounts = mounts.ok_or_else(|| Misshapen(format!("spec.{list}: not containers")))?;
            if mounts.is_null() {
                *mounts = json!([]);
            }
            let mounts =
                mounts.as_array_mut().ok_or_else(|| Misshapen(format!("spec.{list}.volumeMounts: not a list")))?;
            mounts.push(json!({"name": name, "readOnly": true, "mountPath": PATH}));
        }
    }
    if is_there || !is_needed || pod.append(&["spec", "volumes"], volume(&name)) {
        return Ok(());
    }
    Err(Misshapen("spec.volumes: not a list".to_owned()))
}

fn has_mount(container: &Value) -> bool {
    let mounts = container.get("volumeMounts").and_then(Value::as_array);
    mounts.into_iter().flatten().any(|mount| mount.get("mountPath").is_some_and(|path| path == PATH))
}

/// `TokenVolumeSource`.
fn volume(name: &str) -> Value {
    json!({"name": name, "projected": {"defaultMode": MODE, "sources": [
        {"serviceAccountToken": {"expirationSeconds": EXPIRATION_SECONDS, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
    ]}})
}
