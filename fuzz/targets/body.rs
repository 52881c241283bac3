//! Bodies of creates, updates and deletes, as the kind of a URL.

#![no_main]

use kubernetes_object::kind::GroupVersionKind;
use kube_admission_proxy::internal::request::{BodyForm, MediaType, WriteOptions, decode_object};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let media_type = match choice / 15 {
        0..8 => [MediaType::Json, MediaType::Yaml, MediaType::Protobuf][usize::from(choice % 3)],
        _ => MediaType::Cbor,
    };
    let kind = match choice / 3 % 5 {
        0 => GroupVersionKind::new("", "v1", "Pod"),
        1 => GroupVersionKind::new("apps", "v1", "Deployment"),
        2 => GroupVersionKind::new("", "v1", "ConfigMap"),
        3 => GroupVersionKind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
        _ => GroupVersionKind::new("example.com", "v1", "Foo"),
    };
    let _ = WriteOptions::for_delete(bytes, media_type, "");
    let Ok(decoded) = decode_object(bytes, media_type, &kind, BodyForm::Normal(None)) else { return };
    assert_eq!((decoded.object.kind(), decoded.object.api_version()), (&*kind.kind, &*kind.api_version()));
    // The written object, which the proxy may forward instead, decodes to the same object and may be forwarded verbatim.
    let written = serde_json::to_vec(&decoded.object).unwrap();
    let again = decode_object(&written, MediaType::Json, &kind, BodyForm::Normal(None)).unwrap();
    assert_eq!(again.object, decoded.object);
    assert!(again.is_verbatim);
});
