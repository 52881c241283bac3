//! Expressions: whatever the text, the parser and the checker answer, and what they accept has a type at every node.

#![no_main]

use kube_admission_proxy::cel::messages::Admission;
use kube_admission_proxy::cel::{Environment, Type};
use libfuzzer_sys::fuzz_target;
use std::sync::{Arc, LazyLock};

static ENVIRONMENT: LazyLock<Environment> = LazyLock::new(|| {
    Environment::new(Arc::new(Admission::default().with_patches()))
        .variable("object", Type::Dyn)
        .variable("request", Type::object("kubernetes.AdmissionRequest"))
});

fuzz_target!(|source: &str| {
    match ENVIRONMENT.check(source) {
        Ok(checked) => assert!(checked.types.contains_key(&checked.ast.root.id)),
        Err(error) => assert!(!error.0.contains("panicked"), "{error}"),
    }
});
