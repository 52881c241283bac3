//! Compares with Kubernetes' estimates, recorded by `tools/cel-vectors`.

use crate::environment::{CompileError, Environment, Table};
use crate::schema::Declared;
use serde_json::{Value as Json, json};
use std::sync::Arc;

/// The fault in an estimate, if there is one.
fn wrong(schemas: &Json, vector: &Json) -> Option<String> {
    let schema = &schemas[vector["schema"].as_str().unwrap()];
    let declared = Declared::of_schema(schema, true).unwrap();
    let mut table = Table::default();
    let of = declared.declare("selfType", &mut table);
    let environment = Environment::new(Arc::new(table)).variable("self", of.clone()).variable("oldSelf", of);
    let found = environment.check(vector["expression"].as_str().unwrap()).and_then(|checked| {
        environment.instantiate(&checked)?;
        environment.estimate(&checked, &|path| declared.size_at(&path[1..]))
    });
    let found = match found {
        Ok(range) => json!([range.min, range.max]),
        Err(CompileError(why)) => json!(why),
    };
    let expected = vector.get("estimate").or_else(|| vector.get("fails")).unwrap();
    (found != *expected).then(|| format!("{found} {vector}"))
}

fn check(schemas: &str, vectors: &str) {
    let schemas: Json = serde_json::from_str(schemas).unwrap();
    let vectors = vectors.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
    let wrong: Vec<String> = vectors.filter_map(|vector| wrong(&schemas, &vector)).collect();
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn estimates_are_those_of_kube_apiserver() {
    check(include_str!("testdata/schemas.json"), include_str!("testdata/estimates.jsonl"));
}

#[test]
#[ignore = "for vectors of one's own, in the file that VECTORS names"]
fn other_estimates_are_those_of_kube_apiserver() {
    check(include_str!("testdata/schemas.json"), &std::fs::read_to_string(std::env::var("VECTORS").unwrap()).unwrap());
}
