//! JSON documents: a decoded document that is written decodes to the same value. A document that another parser accepts is accepted here
//! too.

#![no_main]

use kubernetes_object::decode;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|bytes: &[u8]| {
    let decoded = decode::json(bytes);
    if let Ok(other) = serde_json::from_slice::<Value>(bytes) {
        let value =
            decoded.as_ref().map(|decoded| decoded.value.clone()).unwrap_or_else(|why| panic!("{why}: {other}"));
        assert!(is_same(&value, &other), "another parser reads {value} as {other}");
    }
    let Ok(decoded) = decoded else { return };
    assert!(!decode::is_deeper(&decoded.value, decode::MAX_DEPTH));
    let written = serde_json::to_vec(&decoded.value).unwrap();
    let again = decode::json(&written).unwrap();
    assert_eq!(again.value, decoded.value);
    assert_eq!(again.duplicates, Vec::<String>::new());
});

/// Whether the values are equal, except for the sign of zero, which Go does not keep.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|((a_key, a), (b_key, b))| a_key == b_key && is_same(a, b))
        }
        _ => a == b,
    }
}
