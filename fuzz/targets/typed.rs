//! Objects in the Go types of Kubernetes: their written form and their unwritten values are stable.

#![no_main]

use kubernetes_object::kind::{GroupVersionKind, split_api_version};
use kubernetes_object::decode;
use kubernetes_object::typed::{self, Typed};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|bytes: &[u8]| {
    let Ok(decoded) = decode::json(bytes) else { return };
    let text = |field: &str| decoded.value.get(field).and_then(Value::as_str).unwrap_or_default();
    let (group, version) = split_api_version(text("apiVersion"));
    let kind = GroupVersionKind::new(group, version, text("kind"));
    let of_value = typed::decode(&kind, decoded.value.clone());
    let of_text = typed::decode_json(&kind, decoded, bytes);
    for Typed { mut value, .. } in [of_value, of_text].into_iter().flatten().flatten() {
        let unwritten = typed::encode(&kind, &mut value);
        let again = |mut value: Value| {
            let Typed { value: mut again, unknown } = typed::decode(&kind, value.take()).unwrap().unwrap();
            assert_eq!(unknown, Vec::<String>::new());
            let unwritten = typed::encode(&kind, &mut again);
            (again, unwritten)
        };
        let (written, nothing) = again(value.clone());
        assert!(written == value && nothing.is_empty(), "{value} is read as {written}");
        let mut whole = value.clone();
        whole.as_object_mut().into_iter().for_each(|fields| unwritten.fill(fields));
        assert_eq!(again(whole), (value, unwritten));
    }
});
