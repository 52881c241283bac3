//! The time to compile an expression, and to evaluate it with Kubernetes' cost counting. Wall time of one thread, the minimum of several
//! rounds; `e2e/bench.py cel` runs it.

#![allow(clippy::unwrap_used)]

use kubernetes_cel::messages::AdmissionTypes;
use kubernetes_cel::{Environment, EvaluationLimits, Type, Value};
use serde_json::json;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EXPRESSIONS: [&str; 7] = [
    "object.spec.replicas <= 5",
    "object.metadata.name == 'web'",
    "object.metadata.?labels.?tier.orValue('none') == 'front'",
    "object.spec.template.spec.containers.all(c, c.image.startsWith('registry.example.com/'))",
    "object.spec.template.spec.containers.all(c, has(c.resources) && has(c.resources.limits) && 'memory' in c.resources.limits)",
    "object.spec.template.spec.containers.map(c, c.name).size() == 3",
    "object.metadata.labels['app'].matches('^[a-z]+$')",
];

const ROUNDS: usize = 30;
const CALLS: usize = 10_000;
const COMPILATIONS: usize = 100;

/// The nanoseconds of one call: the minimum of several rounds of `calls` calls.
fn least<T>(calls: usize, call: impl Fn() -> T) -> u128 {
    let rounds = (0..ROUNDS).map(|_| {
        let before = Instant::now();
        for _ in 0..calls {
            black_box(call());
        }
        before.elapsed().as_nanos() / calls as u128
    });
    rounds.min().unwrap_or_default()
}

fn main() {
    let container = |name: &str| json!({"name": name, "image": format!("registry.example.com/{name}:1.2"), "resources": {"limits": {"memory": "1Gi"}}});
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web", "tier": "front"}},
        "spec": {"replicas": 3, "template": {"spec": {"containers": [container("a"), container("b"), container("c")]}}},
    });
    let environment = Environment::new(Arc::new(AdmissionTypes::default())).variable("object", Type::Dyn);
    let limits = EvaluationLimits { cost: 1_000_000, deadline: None };
    for expression in EXPRESSIONS {
        let program = environment.compile(expression).unwrap();
        let variables = [Some(Value::json(&object))];
        let compiled = least(COMPILATIONS, || environment.compile(black_box(expression)));
        let evaluated = least(CALLS, || program.evaluate(black_box(&variables), &limits));
        let outcome = program.evaluate(&variables, &limits);
        assert!(matches!(outcome.value, Ok(Value::Bool(true))), "{expression}: {:?}", outcome.value);
        println!("{evaluated} ns, cost {}; compiled in {} µs: {expression}", outcome.cost, compiled / 1000);
    }
}
