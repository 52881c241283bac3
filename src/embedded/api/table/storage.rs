//! Volumes, claims and the kinds of `storage.k8s.io`.

use super::quantity;
use super::view::View;
use serde_json::{Value, json};

const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

pub(super) fn cells(name: &str, object: View<'_>) -> Option<Vec<Value>> {
    Some(match name {
        "storageclasses" => storage_class(object),
        "volumeattachments" => vec![
            object.name(),
            json!(object.text("/spec/attacher")),
            json!(object.text("/spec/source/persistentVolumeName")),
            json!(object.text("/spec/nodeName")),
            json!(object.flag("/status/attached")),
            object.age(),
        ],
        "volumeattributesclasses" => vec![object.name(), json!(object.text("/driverName")), object.age()],
        "csinodes" => vec![object.name(), json!(object.count("/spec/drivers")), object.age()],
        "csidrivers" => csi_driver(object),
        _ => return None,
    })
}

pub(super) fn persistent_volume(object: View<'_>) -> Vec<Value> {
    let claim = object
        .has("/spec/claimRef")
        .then(|| format!("{}/{}", object.text("/spec/claimRef/namespace"), object.text("/spec/claimRef/name")));
    vec![
        object.name(),
        json!(quantity::shown(object.at("/spec/capacity/storage"))),
        json!(access_modes(object, "/spec/accessModes")),
        json!(object.text("/spec/persistentVolumeReclaimPolicy")),
        phase(object),
        json!(claim.unwrap_or_default()),
        class(object),
        or_unset(object, "/spec/volumeAttributesClassName"),
        json!(object.text("/status/reason")),
        object.age(),
        or_unset(object, "/spec/volumeMode"),
    ]
}

pub(super) fn persistent_volume_claim(object: View<'_>) -> Vec<Value> {
    let volume = object.text("/spec/volumeName");
    let (capacity, modes) = match volume {
        "" => (String::new(), String::new()),
        _ => (quantity::shown(object.at("/status/capacity/storage")), access_modes(object, "/status/accessModes")),
    };
    vec![
        object.name(),
        phase(object),
        json!(volume),
        json!(capacity),
        json!(modes),
        class(object),
        or_unset(object, "/spec/volumeAttributesClassName"),
        object.age(),
        or_unset(object, "/spec/volumeMode"),
    ]
}

fn phase(object: View<'_>) -> Value {
    json!(if object.is_terminating() { "Terminating" } else { object.text("/status/phase") })
}

/// The storage class. The old annotation takes precedence (`GetPersistentVolumeClass`).
fn class(object: View<'_>) -> Value {
    json!(object.annotation(BETA_CLASS).unwrap_or(object.text("/spec/storageClassName")))
}

fn or_unset(object: View<'_>, pointer: &str) -> Value {
    json!(object.at(pointer).and_then(Value::as_str).unwrap_or("<unset>"))
}

/// `GetAccessModesAsString`: every mode once, in a fixed order.
fn access_modes(object: View<'_>, pointer: &str) -> String {
    let has = object.texts(pointer);
    let short =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    short.iter().filter(|(mode, _)| has.contains(mode)).map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}

fn storage_class(object: View<'_>) -> Vec<Value> {
    let annotations =
        ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
    let is_default = annotations.iter().any(|name| object.annotation(name) == Some("true"));
    vec![
        object.name_with_default(is_default),
        json!(object.text("/provisioner")),
        json!(object.text_or("/reclaimPolicy", "Delete")),
        json!(object.text_or("/volumeBindingMode", "Immediate")),
        json!(object.flag("/allowVolumeExpansion")),
        object.age(),
    ]
}

fn csi_driver(object: View<'_>) -> Vec<Value> {
    let audiences = object.has("/spec/tokenRequests").then(|| {
        object.items("/spec/tokenRequests").map(|request| request.text("/audience")).collect::<Vec<_>>().join(",")
    });
    let modes = match object.texts("/spec/volumeLifecycleModes").join(",") {
        modes if modes.is_empty() => "<none>".to_owned(),
        modes => modes,
    };
    vec![
        object.name(),
        json!(object.flag_or("/spec/attachRequired", true)),
        json!(object.flag("/spec/podInfoOnMount")),
        json!(object.flag("/spec/storageCapacity")),
        json!(audiences.unwrap_or_else(|| "<unset>".to_owned())),
        json!(object.flag("/spec/requiresRepublish")),
        json!(modes),
        object.age(),
    ]
}
