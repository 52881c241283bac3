//! Compares with Kubernetes' estimates, recorded by `tools/cel-vectors`.

use crate::environment::{CompileError, Environment, Table};
use crate::release::Release;
use crate::schema::Declared;
use crate::vectors::by_release;
use serde_json::{Value as Json, json};
use std::sync::Arc;

/// The fault in an estimate, if there is one.
fn wrong(schemas: &Json, release: Release, vector: &Json) -> Option<String> {
    let schema = &schemas[vector["schema"].as_str().unwrap()];
    let declared = Declared::of_schema(schema, true, release).unwrap();
    let mut table = Table::default();
    let of = declared.declare("selfType", &mut table);
    let environment = Environment::of(release, Arc::new(table)).variable("self", of.clone()).variable("oldSelf", of);
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

fn check(schemas: &str, vectors: &str, since_37: &str) {
    let schemas: Json = serde_json::from_str(schemas).unwrap();
    let vectors = by_release(vectors, since_37, &["schema", "expression"]);
    let wrong = vectors.iter().filter_map(|(release, vector)| Some((release, wrong(&schemas, *release, vector)?)));
    let wrong: Vec<String> = wrong.map(|(release, why)| format!("{release:?} {why}")).collect();
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn estimates_are_those_of_kube_apiserver() {
    let since_37 = include_str!("testdata/estimates.since-1.37.jsonl");
    check(include_str!("testdata/schemas.json"), include_str!("testdata/estimates.jsonl"), since_37);
}

#[test]
#[ignore = "for vectors of one's own, in the file that VECTORS names"]
fn other_estimates_are_those_of_kube_apiserver() {
    let vectors = std::fs::read_to_string(std::env::var("VECTORS").unwrap()).unwrap();
    let since_37 = std::fs::read_to_string(std::env::var("SINCE_37").unwrap()).unwrap();
    check(include_str!("testdata/schemas.json"), &vectors, &since_37);
}
