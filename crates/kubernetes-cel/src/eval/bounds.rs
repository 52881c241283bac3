//! Tests expressions with large results and low costs. Each ends, instead of filling the memory or running for years.

use super::super::messages::AdmissionTypes;
use super::super::{Environment, Error, EvaluationLimits, Type, work};
use std::sync::Arc;
use std::time::Instant;

const LIMITS: EvaluationLimits = EvaluationLimits { cost: 1_000_000, deadline: None };
/// Lower bounds than in production, since tests are slow: for values within themselves, and for texts.
const LITTLE: usize = 4 << 20;
const OF_TEXTS: usize = 16 << 20;

fn environment() -> Environment {
    Environment::new(Arc::new(AdmissionTypes::default().with_patches())).variable("object", Type::Dyn)
}

fn error_of(source: &str) -> Error {
    error_within(source, LITTLE, LIMITS)
}

fn error_within(source: &str, bytes: usize, limits: EvaluationLimits) -> Error {
    let program = environment().compile(source).unwrap_or_else(|error| panic!("{source}: {error}"));
    work::resume(work::Left::of_bytes(bytes));
    program.evaluate(&[], &limits).value.map(|value| value.type_name()).unwrap_err()
}

/// A list that contains another list twice, which contains another list twice, and so on.
fn doubled() -> String {
    "[[0]]".to_owned() + &".map(a, [a, a])".repeat(40)
}

/// A text of a million bytes.
fn text() -> String {
    format!("['a']{}[0]", ".map(a, '%s%s%s%s%s%s%s%s%s%s'.format([a, a, a, a, a, a, a, a, a, a]))".repeat(6))
}

#[test]
fn a_list_within_itself_is_not_visited_without_end() {
    let same = [
        "D == D",
        "D != D",
        "D in [D]",
        "{'a': D} == {'a': D}",
        "optional.of(D) == optional.of(D)",
        "sets.contains(D, D)",
        "sets.equivalent(D, D)",
        "sets.intersects(D, D)",
        "(D + D).distinct()",
        "D.indexOf([])",
        "D.lastIndexOf(D[0])",
        "D.flatten(60)",
        "[[]].map(a, [D, D]).flatten(60)",
        "'%s'.format([D])",
        "Object{a: D}.a",
    ];
    for source in same {
        let source = source.replace('D', &doubled());
        assert_eq!(error_of(&source), Error::CostLimit, "{source}");
        assert_eq!(error_of(&format!("dyn({source}) == 1 || true")), Error::CostLimit);
    }
}

#[test]
fn a_list_within_itself_is_not_written_without_end() {
    for source in ["D", "Object{a: D}", "{'a': D}", "optional.of(D)"] {
        let program = environment().compile(&source.replace('D', &doubled())).unwrap();
        work::resume(work::Left::of_bytes(LITTLE));
        let value = program.evaluate(&[], &LIMITS).value.unwrap();
        assert_eq!(value.to_json(), Err(Error::CostLimit));
        work::resume(work::Left::of_bytes(LITTLE));
        assert!(value.to_string().len() <= LITTLE);
    }
    let error = error_of(&"[?dyn(D)]".replace('D', &doubled())).to_string();
    assert!(error.starts_with("cannot initialize optional list element") && error.len() <= LITTLE, "{error:.200}");
}

#[test]
fn texts_do_not_fill_the_memory() {
    for source in [
        "lists.range(1000).map(i, '%s'.format([T]))",
        "lists.range(1000).map(i, strings.quote(T))",
        "lists.range(1000).map(i, [T].join())",
        "'%s'.format([lists.range(1000).map(i, T)])",
        "'%s'.format([lists.range(1000).transformMap(i, v, T)])",
        "lists.range(10000).map(i, bytes('%s'.format([T])))",
        "lists.range(10000).map(i, lists.range(10000) + [i])",
    ] {
        let source = format!("[{}].map(t, {})", text(), source.replace('T', "t"));
        assert_eq!(error_within(&source, OF_TEXTS, LIMITS), Error::CostLimit, "{source}");
    }
    for source in ["T.split('')", "T.findAll('a')", "T.replace('', T)", "[T, T, T, T].join(T).replace('a', 'aa')"] {
        let text = format!("[{}].map(t, t + t + t)", text());
        let source = format!("{text}.map(t, {})", source.replace('T', "t"));
        let error = error_within(&source, OF_TEXTS, EvaluationLimits { cost: u64::MAX, ..LIMITS });
        assert_eq!(error.to_string(), "the result is too large", "{source}");
    }
}

/// Without the check, each of these searches takes minutes.
#[test]
fn searches_that_cost_too_much_are_not_begun() {
    let pattern = format!("'({})y'", "(x?){50}".repeat(40));
    for search in ["t.matches(P)", "t.find(P) == ''", "t.findAll(P) == []", "t.findAll(P, 3) == []"] {
        for pattern in [pattern.clone(), format!("({pattern} + string(t.size()))")] {
            let text = text().replace("'a'", "'x'");
            let source = format!("[{text}].all(t, {} || true)", search.replace('P', &pattern));
            assert_eq!(error_within(&source, OF_TEXTS, LIMITS), Error::CostLimit, "{search}");
        }
    }
}

#[test]
fn an_evaluation_after_its_deadline_does_not_begin() {
    let program = environment().compile("1 + 1").unwrap();
    let limits = EvaluationLimits { deadline: Some(Instant::now()), ..LIMITS };
    assert_eq!(program.evaluate(&[], &limits).value.map(|value| value.to_string()), Err(Error::Interrupted));
}

#[test]
fn types_within_themselves_do_not_fill_the_memory() {
    let mapped = "[0]".to_owned() + &".map(a, {a: a})".repeat(40);
    let mut unknown = "true".to_owned();
    for at in (0..40).rev() {
        let next = at + 1;
        unknown = format!("[].all(a{next}, a{at} == {{a{next}: a{next}}} && {unknown})");
    }
    for source in [mapped, format!("[].all(a0, {unknown})"), format!("[].all(a0, {unknown} && a0 == a0)")] {
        let error = environment().compile(&source).unwrap_err().to_string();
        assert!(error.contains("its type is too large"), "{error:.300}");
    }
}

#[test]
fn large_patterns_do_not_fill_the_memory() {
    let source = |count: usize| format!("[{}].size() > 0", vec![r"'a'.matches('\\pL{300}')"; count].join(", "));
    assert!(environment().compile(&source(2)).is_ok());
    let error = environment().compile(&source(100)).unwrap_err().to_string();
    assert!(error.contains("invalid matches argument"), "{error:.300}");
    let error = error_of(r"lists.range(1000).map(i, 'a'.matches('\\pL{300}' + string(i)))");
    assert!(matches!(error, Error::CostLimit), "{error}");
}
