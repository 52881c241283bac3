//! Defaults of the storage.k8s.io group.

use super::Defaulting;
use super::core::inline_volume;
use super::fields::{Fields, embedded, if_nil, if_zero, pointer};
use serde_json::json;

pub(super) fn apply(kind: &str, object: &mut Fields, defaulting: Defaulting) {
    match kind {
        "StorageClass" => {
            if_nil(object, "reclaimPolicy", "Delete");
            if_nil(object, "volumeBindingMode", "Immediate");
        }
        "CSIDriver" => csi_driver(object, defaulting),
        "VolumeAttachment" => {
            let source = pointer(object, "spec").and_then(|spec| pointer(spec, "source"));
            source.and_then(|source| pointer(source, "inlineVolumeSpec")).map(inline_volume);
        }
        _ => {}
    }
}

fn csi_driver(object: &mut Fields, defaulting: Defaulting) {
    let Some(spec) = embedded(object, "spec") else { return };
    if_nil(spec, "attachRequired", true);
    for name in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
        if_nil(spec, name, false);
    }
    if_nil(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    if_zero(spec, "volumeLifecycleModes", json!(["Persistent"]));
    if defaulting.volume_limits {
        if_nil(spec, "preventPodSchedulingIfMissing", false);
    }
}
