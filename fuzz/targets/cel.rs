//! Expressions: parser and checker answer for every text. An accepted expression has a type at every node, and its evaluation ends within
//! the bounds.

#![no_main]

use kubernetes_cel::messages::AdmissionTypes;
use kubernetes_cel::{Environment, EvaluationLimits, Type, Value, work};
use libfuzzer_sys::fuzz_target;
use serde_json::json;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// The cost limit of an evaluation: a small limit finds most faults.
const COST: u64 = 20_000;

static ENVIRONMENT: LazyLock<Environment> = LazyLock::new(|| {
    Environment::new(Arc::new(AdmissionTypes::default().with_patches()))
        .variable("object", Type::Dyn)
        .variable("request", Type::object("kubernetes.AdmissionRequest"))
});

static OBJECT: LazyLock<serde_json::Value> = LazyLock::new(
    || json!({"metadata": {"name": "n", "labels": {"a": "b"}}, "list": [1, -2, 2.5, "x", null, [true], {"k": "é"}], "text": "aé\u{1f600}b"}),
);

fuzz_target!(|source: &str| {
    match ENVIRONMENT.check(source) {
        Ok(checked) => assert!(checked.types.contains_key(&checked.ast.root.id)),
        Err(error) => assert!(!error.0.contains("panicked"), "{error}"),
    }
    let Ok(program) = ENVIRONMENT.compile(source) else { return };
    let limits = EvaluationLimits { cost: COST, deadline: Some(Instant::now() + Duration::from_secs(5)) };
    let object = Some(Value::json(&OBJECT));
    work::bounded(|| match program.evaluate(&[object.clone(), object], &limits).value {
        Ok(value) => {
            let _ = (value.to_json(), value.to_string(), value.equals(&value));
        }
        Err(error) => assert!(!error.to_string().contains("it panicked"), "{error}"),
    });
});
