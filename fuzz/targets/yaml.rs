//! YAML documents: their depth is bounded, and their JSON value can be written and read.

#![no_main]

use kubernetes_object::decode;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(decoded) = decode::yaml(bytes) else { return };
    assert!(!decode::is_deeper(&decoded.value, decode::MAX_DEPTH));
    let written = serde_json::to_vec(&decoded.value).unwrap();
    assert_eq!(decode::json(&written).unwrap().value, decoded.value);
});
