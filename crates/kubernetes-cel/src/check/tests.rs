//! Compares with results of kube-apiserver's own environment: `tools/cel-vectors` evaluated `testdata/check*.jsonl`, of which the type and
//! the compile error are kept (`go run . < check.jsonl | jq -c '{expression, type, compileError} | del(..|nulls)'`).

use crate::environment::Environment;
use crate::messages::AdmissionTypes;
use crate::release::Release;
use crate::types::Type;
use crate::vectors::by_release;
use proptest::prelude::*;
use std::sync::Arc;

fn environment(messages: AdmissionTypes) -> Environment {
    environment_of(Release::default(), messages)
}

fn environment_of(release: Release, messages: AdmissionTypes) -> Environment {
    Environment::of(release, Arc::new(messages))
        .variable("object", Type::Dyn)
        .variable("oldObject", Type::Dyn)
        .variable("namespaceObject", Type::object("kubernetes.Namespace"))
        .variable("request", Type::object("kubernetes.AdmissionRequest"))
        .variable("params", Type::Dyn)
        .variable("authorizer", Type::opaque("kubernetes.authorization.Authorizer"))
        .variable("authorizer.requestResource", Type::opaque("kubernetes.authorization.ResourceCheck"))
}

fn agrees(messages: &AdmissionTypes, vectors: &str, since_37: &str) {
    let mut wrong = Vec::new();
    for (release, vector) in by_release(vectors, since_37, &["expression"]) {
        let environment = environment_of(release, messages.clone());
        let source = vector["expression"].as_str().unwrap();
        let expected = vector["type"].as_str().or(vector["compileError"].as_str()).unwrap();
        let found = match environment.check(source) {
            Ok(checked) => checked.output().declaration(),
            Err(error) => format!("compilation failed: {error}"),
        };
        if found != expected {
            wrong.push(format!("{release:?} {source:?}\n{found}\nand not\n{expected}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n\n"));
}

#[test]
fn types_and_errors_are_kube_apiservers() {
    let since_37 = include_str!("../testdata/check.since-1.37.jsonl");
    agrees(&AdmissionTypes::default(), include_str!("../testdata/check.jsonl"), since_37);
}

#[test]
fn types_and_errors_of_mutations_are_kube_apiservers() {
    let since_37 = include_str!("../testdata/check-mutation.since-1.37.jsonl");
    let messages = AdmissionTypes::default().with_patches();
    agrees(&messages, include_str!("../testdata/check-mutation.jsonl"), since_37);
}

#[test]
fn variables_of_a_policy_have_the_types_of_their_expressions() {
    let mut messages = AdmissionTypes::default().with_variables();
    messages.add_variable("names", &Type::list(Type::String));
    messages.add_variable("request", &Type::object("kubernetes.AdmissionRequest"));
    let environment = environment(messages).variable("variables", Type::object(crate::messages::VARIABLES));
    let of = |source| environment.check(source).map(|checked| checked.output().declaration()).map_err(|error| error.0);
    assert_eq!(of("variables.names[0]"), Ok("string".to_owned()));
    assert_eq!(of("variables.request"), Ok("dyn".to_owned()));
    assert!(of("variables.nothing").unwrap_err().starts_with("ERROR: <input>:1:10: undefined field 'nothing'"));
}

#[test]
fn an_expression_of_another_type_is_refused() {
    let environment = environment(AdmissionTypes::default());
    let refused = |source, types: &[Type]| environment.compile_to(source, types).unwrap_err().0;
    assert_eq!(refused("[1]", &[Type::Bool]), "must evaluate to bool but got list(int)");
    assert_eq!(refused("1", &[Type::String, Type::Null]), "must evaluate to one of [string null_type] but got int");
    assert!(refused("1 +", &[]).starts_with("compilation failed: ERROR: <input>:1:4: Syntax error"));
}

#[test]
fn chains_and_nests_of_any_length_are_answered() {
    let environment = environment(AdmissionTypes::default());
    let sources = [
        "1+".repeat(5_000) + "1",
        "(".repeat(20_000),
        "object".to_owned() + &".a".repeat(5_000),
        "-".repeat(20_000) + "1",
    ];
    let copies = "optional.of(1)".to_owned() + &".optMap(x, x)".repeat(200);
    for source in sources.into_iter().chain([copies]) {
        let _answered = environment.check(&source);
    }
}

/// Parts of expressions, valid and invalid.
const PIECES: &[&str] = &[
    "1",
    "2u",
    "1.5",
    "'a'",
    "b'a'",
    "null",
    "true",
    "object",
    "request",
    "x",
    "@result",
    "[",
    "]",
    "{",
    "}",
    "(",
    ")",
    ".",
    ",",
    ":",
    "?",
    ".?",
    "[?",
    "+",
    "-",
    "!",
    "==",
    "&&",
    "||",
    " in ",
    "all(x, ",
    "map(x, ",
    "all(x, y, ",
    "optMap(x, ",
    "sortBy(x, ",
    "has(",
    "size(",
    "'%d'",
    ".format(",
    "duration(",
    "matches(",
    "as",
    "`a`",
    "\\",
    "'",
    "\"\"\"",
    "é",
    "\n",
    "//",
    "Object{",
    "transformMap(k, v, ",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_text_breaks_the_checker(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..24)) {
        let _answered = environment(AdmissionTypes::default().with_patches()).check(&pieces.concat());
    }

    #[test]
    fn no_characters_break_the_parser(source in "\\PC{0,40}") {
        let _answered = environment(AdmissionTypes::default()).check(&source);
    }
}
