//! The request info and the options of the query, for any method and URL.

#![no_main]

use http::{HeaderMap, Method, Uri};
use kube_admission_proxy::internal::request::{AnswerType, negotiate};
use kube_admission_proxy::internal::request::{MediaTypes, OptionsKind, WriteOptions, media_type};
use kube_admission_proxy::internal::request::{is_canonical, request_info, timeout};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let mut lines = text.splitn(3, '\n');
    let (method, uri, header) = (lines.next(), lines.next(), lines.next().unwrap_or_default());
    let (Some(Ok(method)), Some(Ok(uri))) = (method.map(str::parse::<Method>), uri.map(str::parse::<Uri>)) else {
        return;
    };
    let info = request_info(&method, &uri);
    if info.is_resource_request && is_canonical(&uri) {
        // No other reader of the path could find another resource in it.
        let path: &str = info.path.strip_suffix('/').unwrap_or(&info.path);
        assert!(!path.contains("//") && path.split('/').all(|segment| segment != "." && segment != ".."), "{path}");
        assert!(info.parts.iter().all(|part| !part.is_empty() && !part.contains('/')), "{:?}", info.parts);
    }
    let query = uri.query().unwrap_or_default();
    for kind in [OptionsKind::Create, OptionsKind::Update, OptionsKind::Delete] {
        if let Ok(options) = WriteOptions::from_query(query, kind) {
            assert!(options.dry_run.iter().all(|value| value == "All"));
            assert!(options.field_manager.len() <= 128);
        }
    }
    let _ = timeout::asked(query);
    let _ = media_type(Some(header), MediaTypes { has_cbor: true });
    let mut headers = HeaderMap::new();
    if let Ok(value) = header.parse() {
        headers.insert("accept", value);
    }
    for answer in [AnswerType::Failure, AnswerType::BuiltIn { has_table: true }, AnswerType::Custom] {
        negotiate(&headers, &uri, answer, MediaTypes { has_cbor: true });
    }
});
