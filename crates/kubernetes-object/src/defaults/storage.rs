//! Defaults of the storage.k8s.io group.

use super::core::inline_volume;
use super::fields::{Fields, embedded, if_nil, if_zero, pointer};
use serde_json::json;

pub(super) fn apply(kind: &str, object: &mut Fields) {
    match kind {
        "StorageClass" => {
            if_nil(object, "reclaimPolicy", "Delete");
            if_nil(object, "volumeBindingMode", "Immediate");
        }
        "CSIDriver" => csi_driver(object),
        "VolumeAttachment" => {
            let source = pointer(object, "spec").and_then(|spec| pointer(spec, "source"));
            source.and_then(|source| pointer(source, "inlineVolumeSpec")).map(inline_volume);
        }
        _ => {}
    }
}

fn csi_driver(object: &mut Fields) {
    let Some(spec) = embedded(object, "spec") else { return };
    if_nil(spec, "attachRequired", true);
    for name in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
        if_nil(spec, name, false);
    }
    if_nil(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    if_zero(spec, "volumeLifecycleModes", json!(["Persistent"]));
}
