//! Compares with results of kube-apiserver for the expressions in `vectors.jsonl` (from `tools/cel-vectors`), and tests the rest.

use super::authz::{AccessReviewError, Answers, authorizer, resource_check};
use super::*;
use crate::value::{Access, AccessDecision, Review};
use crate::vectors::by_release;
use crate::{Environment, EvaluationLimits, Outcome, Type};
use proptest::prelude::*;
use serde_json::Value as Json;
use std::sync::Arc;

/// Decisions for the namespaces `allowed` and `broken`; the decision for `unknown` is not known yet.
#[derive(Debug)]
struct Namespaces;

impl Answers for Namespaces {
    fn answer(&self, review: &Review) -> Option<std::result::Result<AccessDecision, AccessReviewError>> {
        let decision = |allowed, reason: &str| AccessDecision { allowed, reason: reason.to_owned() };
        match review.access.namespace.as_str() {
            "allowed" => Some(Ok(decision(true, "it is allowed"))),
            "broken" => Some(Err(AccessReviewError("it is broken".to_owned()))),
            "unknown" => None,
            _ => Some(Ok(decision(false, "nothing says so"))),
        }
    }
}

fn environment() -> Environment {
    environment_of(Release::default())
}

fn environment_of(release: Release) -> Environment {
    Environment::of(release, Arc::new(crate::messages::AdmissionTypes::default()))
        .variable("authorizer", Type::opaque("kubernetes.authorization.Authorizer"))
        .variable("authorizer.requestResource", Type::opaque("kubernetes.authorization.ResourceCheck"))
}

/// The value as JSON, if it has a JSON form.
fn evaluated(environment: &Environment, expression: &str) -> (std::result::Result<Option<Json>, Error>, u64) {
    let program = environment.compile(expression).unwrap_or_else(|error| panic!("{expression}: {error}"));
    let attributes = Access { resource: "deployments".into(), namespace: "default".into(), ..Access::default() };
    let variables = [Some(authorizer(Arc::new(Namespaces))), Some(resource_check(Arc::new(Namespaces), attributes))];
    let Outcome { value, cost } =
        program.evaluate(&variables, &EvaluationLimits { cost: PER_CALL_LIMIT, deadline: None });
    (value.map(|value| value.to_json().ok()), cost)
}

/// Converts numbers to doubles, for comparison.
fn normal(json: &Json) -> Json {
    match json {
        Json::Number(number) => Json::from(number.as_f64()),
        Json::Array(elements) => elements.iter().map(normal).collect(),
        Json::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), normal(value))).collect(),
        other => other.clone(),
    }
}

fn difference(environment: &Environment, vector: &Json) -> Option<String> {
    let expression = vector["expression"].as_str().unwrap();
    let is_mutation = vector["environment"] == "mutation";
    let environment = if is_mutation { environment.clone().library(jsonpatch::FUNCTIONS) } else { environment.clone() };
    if let Some(expected) = vector.get("compileError") {
        let found = environment.compile(expression).map(drop);
        let is_same = found.as_ref().is_err_and(|found| expected == &found.to_string());
        return (!is_same).then(|| format!("{expression}: {found:?} instead of {expected}"));
    }
    let (value, cost) = evaluated(&environment, expression);
    let is_same = match (&value, vector.get("error"), vector.get("value")) {
        (Err(found), Some(expected), _) => expected == &found.to_string(),
        (Ok(Some(found)), None, Some(expected)) => normal(found) == normal(expected),
        (Ok(None), None, None) => true,
        _ => false,
    };
    (!is_same || vector["cost"] != cost).then(|| format!("{expression}: {value:?} for {cost} instead of {vector}"))
}

fn check(vectors: &str, since_37: &str) {
    let vectors = by_release(vectors, since_37, &["expression", "environment"]);
    let environments = [36, 37].map(Release::of).map(|release| [release, release.stored()]).concat();
    let environments: Vec<Environment> = environments.into_iter().map(environment_of).collect();
    let differences = vectors.iter().filter_map(|(release, vector)| {
        let environment = environments.iter().find(|environment| environment.release() == *release)?;
        Some(format!("{release:?} {}", difference(environment, vector)?))
    });
    let differences: Vec<_> = differences.collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn functions_answer_and_cost_what_kubernetes_says() {
    check(include_str!("vectors.jsonl"), include_str!("vectors.since-1.37.jsonl"));
}

#[test]
#[ignore = "for vectors of one's own, in the file that VECTORS names"]
fn functions_answer_other_vectors_as_kubernetes_does() {
    let vectors = std::fs::read_to_string(std::env::var("VECTORS").unwrap()).unwrap();
    check(&vectors, &std::fs::read_to_string(std::env::var("SINCE_37").unwrap()).unwrap());
}

#[test]
fn an_unknown_answer_of_the_authorizer_is_asked_for() {
    let (value, _) = evaluated(
        &environment(),
        "authorizer.serviceAccount('n', 'sa').group('apps').resource('deployments').subresource('scale').namespace('unknown')\
         .name('web').labelSelector('a=b').check('update').allowed() || true",
    );
    let Err(Error::Review(review)) = value else { panic!("{value:?}") };
    assert_eq!(review.service_account, Some(("n".to_owned(), "sa".to_owned())));
    let attributes = Access {
        is_resource_request: true,
        verb: "update".into(),
        namespace: "unknown".into(),
        api_group: "apps".into(),
        api_version: "*".into(),
        resource: "deployments".into(),
        subresource: "scale".into(),
        name: "web".into(),
        ..Access::default()
    };
    assert_eq!(review.access, Access { label_selector: "a=b".to_owned(), ..attributes });
}

#[test]
fn a_path_is_asked_for_without_a_resource() {
    #[derive(Debug)]
    struct Nothing;
    impl Answers for Nothing {
        fn answer(&self, _: &Review) -> Option<std::result::Result<AccessDecision, AccessReviewError>> {
            None
        }
    }
    let program = environment().compile("authorizer.path('/healthz').check('get').allowed()").unwrap();
    let variables = [Some(authorizer(Arc::new(Nothing))), None];
    let outcome = program.evaluate(&variables, &EvaluationLimits { cost: PER_CALL_LIMIT, deadline: None });
    let Err(Error::Review(review)) = outcome.value else { panic!("{:?}", outcome.value) };
    assert_eq!((review.service_account, review.access.is_resource_request), (None, false));
    assert_eq!((review.access.path.as_str(), review.access.verb.as_str()), ("/healthz", "get"));
}

#[test]
fn a_result_that_would_be_too_large_is_refused_before_it_exists() {
    for (expression, why) in [
        ("lists.range(1000000000000).size()", "operation cancelled: actual cost limit exceeded"),
        ("lists.range(1000).distinct()", "operation cancelled: actual cost limit exceeded"),
        ("sets.contains(lists.range(2000), lists.range(2000))", "operation cancelled: actual cost limit exceeded"),
        (
            "lists.range(9000).map(x, lists.range(9000)).flatten().size()",
            "operation cancelled: actual cost limit exceeded",
        ),
        (
            "lists.range(20000).map(x, 'ab').join().replace('', lists.range(20000).map(x, 'ab').join())",
            "the result is too large",
        ),
    ] {
        let program = environment().compile(expression);
        let value = program.map(|program| {
            program.evaluate(&[None, None], &EvaluationLimits { cost: PER_CALL_LIMIT, deadline: None }).value.map(drop)
        });
        match value {
            Ok(value) => assert_eq!(value.map_err(|error| error.to_string()), Err(why.to_owned()), "{expression}"),
            Err(error) => assert!(error.0.contains(why), "{expression}: {error}"),
        }
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,20}|[-+.:/%@\\[\\]?#0-9a-fA-FeEKMGinumkv]{0,24}", format in "(%|%%|\\.|[0-9]|[sdfebxXo]|é){0,8}") {
        for function in FUNCTIONS_OF_A_TEXT {
            let _ = (function.call)(&[Value::text(&text)]);
        }
        let values = Value::list(vec![Value::Double(0.1), Value::text(&text), Value::Int(-1)]);
        for function in strings::FUNCTIONS {
            let _ = (function.call)(&[Value::text(&format), values.clone()]);
        }
        for function in regex::FUNCTIONS {
            let _ = (function.call)(&[Value::text(&text), Value::text(&text)]);
        }
    }
}

/// The functions that parse a text.
const FUNCTIONS_OF_A_TEXT: &[&Function] =
    &[&url::FUNCTIONS[0], &ip::FUNCTIONS[0], &cidr::FUNCTIONS[0], &quantity::FUNCTIONS[0], &semver::FUNCTIONS[0]];
