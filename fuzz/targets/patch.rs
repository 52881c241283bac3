//! Patches of each type. The input has two documents, the object and the patch, with a NUL between them.

#![no_main]

use kubernetes_object::kind::GroupVersionKind;
use kubernetes_object::decode;
use kubernetes_object::patch::{PatchType, apply, merge_diff};
use kubernetes_object::schema;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some(at) = bytes.iter().position(|byte| *byte == 0) else { return };
    let (Ok(object), Ok(patch)) = (decode::json(&bytes[..at]), decode::json(&bytes[at + 1..])) else { return };
    let (object, patch) = (object.value, patch.value);
    let pod = schema::of(&GroupVersionKind::new("", "v1", "Pod"));
    for patch_type in [PatchType::Json, PatchType::Merge, PatchType::Strategic] {
        let Ok(patched) = apply(patch_type, object.clone(), &patch, pod) else { continue };
        assert!(!decode::is_deeper(&patched, decode::MAX_DEPTH), "{patch_type:?} nests too deep");
        let written = serde_json::to_vec(&patched).unwrap();
        assert_eq!(decode::json(&written).unwrap().value, patched);
        // The merge patch that the proxy forwards instead of the patch has the same result.
        if let (Some(old), Some(new)) = (object.as_object(), patched.as_object())
            && let Some(difference) = merge_diff(old, new)
        {
            let difference = difference.into();
            assert_eq!(apply(PatchType::Merge, object.clone(), &difference, None), Ok(patched), "{difference}");
        }
    }
});
