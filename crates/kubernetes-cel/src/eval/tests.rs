//! Compares with results of kube-apiserver, and tests the bounds of an evaluation.

use crate::messages::AdmissionTypes;
use crate::value::{Error, LazyValue, Map, runtime_name};
use crate::vectors::by_release;
use crate::{Environment, EvaluationLimits, Program, Release, Type, Value};
use proptest::prelude::*;
use serde_json::{Value as Json, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Results of Kubernetes' environment with their cost, recorded by `tools/cel-vectors`.
const ANSWERS: [&str; 2] = [include_str!("testdata/answers.jsonl"), include_str!("testdata/answers.since-1.37.jsonl")];
/// Results for messages that protobuf defines.
const WELL_KNOWN: [&str; 2] =
    [include_str!("testdata/well-known.jsonl"), include_str!("testdata/well-known.since-1.37.jsonl")];
const OBJECT: &str = include_str!("testdata/object.json");
/// An object of a built-in kind.
const DEPLOYMENT: &str = include_str!("testdata/deployment.json");

const LIMITS: EvaluationLimits = EvaluationLimits { cost: 1_000_000, deadline: None };

fn environment(messages: AdmissionTypes) -> Environment {
    environment_of(Release::default(), messages)
}

fn environment_of(release: Release, messages: AdmissionTypes) -> Environment {
    Environment::of(release, Arc::new(messages))
        .variable("object", Type::Dyn)
        .variable("oldObject", Type::Dyn)
        .variable("params", Type::Dyn)
        .variable("request", Type::object("kubernetes.AdmissionRequest"))
        .variable("namespaceObject", Type::object("kubernetes.Namespace"))
}

fn compile(source: &str) -> Program {
    environment(AdmissionTypes::default()).compile(source).unwrap_or_else(|error| panic!("{source}: {error}"))
}

fn evaluate(source: &str, object: &Json) -> (Result<Json, Error>, u64) {
    let program = compile(source);
    let outcome = program.evaluate(&[Some(Value::json(object))], &LIMITS);
    (outcome.value.map(|value| value.to_json().unwrap()), outcome.cost)
}

/// Compares JSON, numbers by value.
fn same(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(a), Json::Number(b)) => a.as_f64() == b.as_f64(),
        (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

/// The fault in a result, if there is one.
fn wrong(release: Release, expected: &Json, object: Value<'_>) -> Option<String> {
    let admission = AdmissionTypes::default().with_variables();
    let mutation = expected["environment"] == "mutation";
    let environment = environment_of(release, if mutation { admission.with_patches() } else { admission });
    let program = match (environment.compile(expected["expression"].as_str().unwrap()), expected["fails"].as_str()) {
        (Ok(program), None) => program,
        (Err(error), Some(expected)) => {
            let expected = expected.strip_prefix("compilation failed: ").unwrap_or(expected);
            return (error.to_string() != expected).then(|| error.to_string());
        }
        (Ok(_), Some(_)) => return Some("it compiles".into()),
        (Err(error), None) => return Some(error.to_string()),
    };
    let request = json!({
        "name": "web", "namespace": "default", "operation": "CREATE", "userInfo": {"username": "alice", "groups": ["dev"]},
        "kind": {"group": "apps", "version": "v1", "kind": "Deployment"},
    });
    let values = [object, Value::Null, Value::Null, Value::json(&request), Value::Null].map(Some);
    let outcome = program.evaluate(&values, &LIMITS);
    if outcome.cost != expected["cost"] {
        return Some(format!("it costs {}: {:?}", outcome.cost, outcome.value));
    }
    match (outcome.value, expected.get("error").and_then(Json::as_str), expected.get("value")) {
        (Err(error), Some(expected), _) => (error.to_string() != expected).then(|| error.to_string()),
        (Err(error), None, _) => Some(error.to_string()),
        (Ok(value), Some(_), _) => Some(format!("it is {value}")),
        (Ok(value), None, Some(expected)) => {
            let matches = value.to_json().is_ok_and(|json| same(&json, expected));
            (!matches).then(|| format!("it is {value}"))
        }
        (Ok(_), None, None) => None,
    }
}

#[test]
fn answers_as_kube_apiserver_does_at_the_same_cost() {
    let object: Json = serde_json::from_str(OBJECT).unwrap();
    let deployment: Json = serde_json::from_str(DEPLOYMENT).unwrap();
    let asked = ["expression", "environment", "builtIn"];
    let answers = [ANSWERS, WELL_KNOWN].into_iter().flat_map(|[first, since_37]| by_release(first, since_37, &asked));
    let wrong: Vec<String> = answers
        .filter_map(|(release, expected)| {
            let object = if expected["builtIn"] == true { Value::built_in(&deployment) } else { Value::json(&object) };
            let why = wrong(release, &expected, object)?;
            Some(format!("{release:?} {why} {expected}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn ends_at_the_cost_limit_whatever_stands_around() {
    let many = "[1,2,3,4,5,6,7,8,9,10]";
    let source = format!("{many}.all(a, {many}.all(b, {many}.all(c, a * b * c > 0))) || true");
    let program = compile(&source);
    let outcome = program.evaluate(&[], &EvaluationLimits { cost: 1000, deadline: None });
    assert!(matches!(outcome.value, Err(Error::CostLimit)));
    assert_eq!(outcome.cost, 1001);
}

#[test]
fn ends_at_the_cost_limit_and_not_before() {
    // A round costs 209,721: four rounds cost 838,896, and the fifth exceeds the limit.
    let text = json!("a".repeat(1 << 20));
    for (rounds, ends) in [(4, false), (5, true)] {
        let program = compile(&format!("lists.range({rounds}).all(x, object.split('') != [])"));
        let outcome = program.evaluate(&[Some(Value::json(&text))], &LIMITS);
        assert_eq!(outcome.value.err(), ends.then_some(Error::CostLimit), "{rounds}: {}", outcome.cost);
        assert_eq!(outcome.cost > LIMITS.cost, ends);
    }
}

#[test]
fn ends_at_the_deadline_whatever_stands_around() {
    let object = json!({"x": vec![0; 1000]});
    let program = compile("object.x.all(a, a == 0) || true");
    let deadline = Some(Instant::now() - Duration::from_secs(1));
    let outcome = program.evaluate(&[Some(Value::json(&object))], &EvaluationLimits { deadline, ..LIMITS });
    assert!(matches!(outcome.value, Err(Error::Interrupted)));
}

#[test]
fn a_variable_without_a_value_is_an_error_that_names_it() {
    let program = compile("params.a == 1 || true");
    assert!(matches!(program.evaluate(&[None, None, None], &LIMITS).value, Ok(Value::Bool(true))));
    let program = compile("params.a");
    let error = program.evaluate(&[None, None, None], &LIMITS).value.unwrap_err();
    assert_eq!(error.to_string(), "no such attribute(s): params");
}

#[test]
fn lists_and_maps_grow_in_linear_time() {
    let object = json!({"x": (0..100_000).collect::<Vec<_>>()});
    for source in ["object.x.map(a, a)", "object.x.filter(a, true)", "object.x.transformMap(i, a, a)"] {
        let program = compile(&format!("{source}.size()"));
        let variables = [Some(Value::json(&object))];
        let outcome = program.evaluate(&variables, &EvaluationLimits { cost: u64::MAX, deadline: None });
        // A quadratic evaluation would take minutes.
        assert!(matches!(outcome.value, Ok(Value::Int(100_000))), "{source}");
    }
}

#[test]
fn a_name_in_back_ticks_is_a_field() {
    let object = json!({"labels": {"app.kubernetes.io/name": "web", "a b-c": "d", "in": "e"}});
    for (source, expected) in [
        ("object.labels.`app.kubernetes.io/name`", json!("web")),
        ("object.labels.`a b-c` + object.labels.`in`", json!("de")),
        ("has(object.labels.`app.kubernetes.io/name`)", json!(true)),
        ("has(object.labels.`app.kubernetes.io//name`)", json!(false)),
        ("object.labels.?`a.b`.orValue('none')", json!("none")),
        ("object.?labels.`a b-c`.orValue('none')", json!("d")),
    ] {
        assert_eq!(evaluate(source, &object).0.unwrap(), expected, "{source}");
    }
    for source in ["`object`", "object.`labels`()", "object.``", "object.`é`", "object.`a", "{`a`: 1}"] {
        let error = environment(AdmissionTypes::default()).compile(source).unwrap_err();
        assert!(error.0.contains("Syntax error"), "{source}: {error}");
    }
}

#[test]
fn nan_is_in_no_list() {
    for source in ["double('NaN') in [double('NaN'), 1.0]", "object in [double('NaN')]", "0.0 in [double('NaN'), -1.0]"]
    {
        let program = compile(source);
        let outcome = program.evaluate(&[Some(Value::Double(f64::NAN))], &LIMITS);
        assert!(matches!(outcome.value, Ok(Value::Bool(false))), "{source}");
    }
}

#[test]
fn lists_do_not_double_without_end() {
    let doubled = (0..40).fold("a.size()".to_owned(), |within, _| format!("[a + a].map(a, {within})"));
    let program = compile(&format!("[[1]].map(a, {doubled})"));
    let error = program.evaluate(&[], &LIMITS).value.unwrap_err();
    assert_eq!(error.to_string(), "the result is too large");
}

#[test]
fn deep_expressions_do_not_end_the_stack() {
    // The shallow expressions are evaluated on the caller's stack.
    for depth in [8, 10, 12, 14, 16, 30, 200] {
        let nested = format!("{}true{}", "[1].all(a, ".repeat(depth), ")".repeat(depth));
        let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(move || {
            let program = compile(&nested);
            let outcome = program.evaluate(&[], &LIMITS);
            matches!(outcome.value, Ok(Value::Bool(true)))
        });
        assert!(thread.unwrap().join().unwrap(), "{depth}");
    }
}

#[derive(Debug)]
struct Variables;

impl LazyValue for Variables {
    fn get<'s>(&'s self, name: &str) -> Option<Result<Value<'s>, Error>> {
        match name {
            "one" => Some(Ok(Value::Int(1))),
            "broken" => Some(Err(Error::new("it is broken"))),
            "asked" => Some(Err(Error::CostLimit)),
            _ => None,
        }
    }
}

#[test]
fn lazy_values_are_selected_and_their_errors_are_those_of_the_expression() {
    let variables = Variables;
    let environment = Environment::new(Arc::new(AdmissionTypes::default())).variable("variables", Type::Dyn);
    for (source, expected) in [
        ("variables.one + 1", "Ok(Int(2))"),
        ("variables.broken", "Err(Message(\"it is broken\"))"),
        ("variables.broken || true", "Ok(Bool(true))"),
        ("variables.asked || true", "Err(CostLimit)"),
        ("variables.none", "Err(Message(\"no such key: none\"))"),
        ("has(variables.one)", "Ok(Bool(true))"),
        ("has(variables.none)", "Ok(Bool(false))"),
    ] {
        let program = environment.compile(source).unwrap();
        let outcome = program.evaluate(&[Some(Value::Map(Map::Lazy(&variables)))], &LIMITS);
        assert_eq!(format!("{:?}", outcome.value), expected, "{source}");
    }
}

#[test]
fn integers_of_json_are_signed_and_what_is_larger_is_a_double() {
    let object = json!({"i": 3, "n": -3, "big": u64::MAX, "f": 1.0});
    for (source, expected) in [
        ("type(object.i) == int", json!(true)),
        ("type(object.n) == int", json!(true)),
        ("type(object.big) == double", json!(true)),
        ("type(object.f) == double", json!(true)),
        ("object.i + 1", json!(4)),
    ] {
        assert_eq!(evaluate(source, &object).0.unwrap(), expected, "{source}");
    }
}

/// Writes an expression of a given type, by a sequence of choices.
struct Writer<'c> {
    choices: std::slice::Iter<'c, u8>,
    variables: Vec<(String, Kind)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    Ints,
    Strings,
    Map,
}

/// A variable of each type, whose values the compiler does not know.
fn bound() -> [(&'static str, Kind, Type, Value<'static>); 11] {
    let ints = |numbers: [i64; 2]| Value::list(numbers.map(Value::Int).to_vec());
    let entries = [(Value::text("a"), Value::Int(1)), (Value::text("c"), Value::Int(0))];
    [
        ("a_bool", Kind::Bool, Type::Bool, Value::Bool(false)),
        ("an_int", Kind::Int, Type::Int, Value::Int(1)),
        ("a_uint", Kind::Uint, Type::Uint, Value::Uint(3)),
        ("a_double", Kind::Double, Type::Double, Value::Double(0.5)),
        ("a_text", Kind::String, Type::String, Value::text("a")),
        ("some_bytes", Kind::Bytes, Type::Bytes, Value::Bytes(b"\xe9".as_slice().into())),
        ("a_while", Kind::Duration, Type::Duration, Value::Duration(90_000_000_000)),
        ("a_day", Kind::Timestamp, Type::Timestamp, Value::Timestamp(1_700_000_000, 5, 3600)),
        ("ints", Kind::Ints, Type::list(Type::Int), ints([0, 7])),
        ("texts", Kind::Strings, Type::list(Type::String), Value::list(vec![Value::text("12"), Value::text("a")])),
        ("a_map", Kind::Map, Type::map(Type::String, Type::Int), Value::map(entries)),
    ]
}

impl Writer<'_> {
    fn choose(&mut self, among: usize) -> usize {
        self.choices.next().map_or(0, |choice| usize::from(*choice)) % among
    }

    fn kind(&mut self) -> Kind {
        use Kind::*;
        [Int, Bool, Uint, Double, String, Bytes, Duration, Timestamp, Ints, Strings, Map][self.choose(11)]
    }

    /// Writes an expression over a list's elements, with a variable for them.
    fn within(&mut self, element: Kind, body: Kind, depth: usize) -> (String, String) {
        let name = format!("v{}", self.variables.len());
        self.variables.push((name.clone(), element));
        let body = self.write(body, depth);
        self.variables.pop();
        (name, body)
    }

    fn write(&mut self, kind: Kind, depth: usize) -> String {
        let known: Vec<String> =
            self.variables.iter().filter(|(_, of)| *of == kind).map(|(name, _)| name.clone()).collect();
        if !known.is_empty() && self.choose(3) == 0 {
            return known[self.choose(known.len())].clone();
        }
        let literals: &[&str] = match kind {
            Kind::Bool => &["true", "false"],
            Kind::Int => &["0", "1", "-7", "9223372036854775807"],
            Kind::Uint => &["0u", "5u"],
            Kind::Double => &["0.0", "1.5", "-1e300"],
            Kind::String => &["''", "'a'", "'héllo'", "'12'"],
            Kind::Bytes => &["b''", "b'\\xff'"],
            Kind::Duration => &["duration('1h')", "duration('-5ns')"],
            Kind::Timestamp => &["timestamp('2024-02-29T12:00:00Z')", "timestamp(0)"],
            Kind::Ints => &["[1, 2, 3]"],
            Kind::Strings => &["['a', 'b']"],
            Kind::Map => &["{'a': 1, 'b': 2}"],
        };
        if depth == 0 {
            return literals[self.choose(literals.len())].to_owned();
        }
        let depth = depth - 1;
        let choice = self.choose(8);
        match (kind, choice) {
            (Kind::Bool, 0) => format!("({} && {})", self.write(kind, depth), self.write(kind, depth)),
            (Kind::Bool, 1) => format!("({} || !{})", self.write(kind, depth), self.write(kind, depth)),
            (Kind::Bool, 2) => {
                let of = self.kind();
                format!("({} == {})", self.write(of, depth), self.write(of, depth))
            }
            (Kind::Bool, 3) => {
                let of = [Kind::Int, Kind::Double, Kind::String, Kind::Duration, Kind::Timestamp][self.choose(5)];
                format!("({} <= {})", self.write(of, depth), self.write(of, depth))
            }
            (Kind::Bool, 4) => format!("({} in {})", self.write(Kind::Int, depth), self.write(Kind::Ints, depth)),
            (Kind::Bool, 5) => format!("({} in {})", self.write(Kind::String, depth), self.write(Kind::Map, depth)),
            (Kind::Bool, 6) => {
                let list = self.write(Kind::Ints, depth);
                let (name, body) = self.within(Kind::Int, kind, depth);
                format!("{list}.{}({name}, {body})", ["all", "exists", "exists_one"][self.choose(3)])
            }
            (Kind::Bool, 7) => {
                format!("{}.startsWith({})", self.write(Kind::String, depth), self.write(Kind::String, depth))
            }
            (Kind::Int | Kind::Uint, 0..=2) => {
                let operator = ["+", "-", "*", "/", "%"][self.choose(5)];
                format!("({} {operator} {})", self.write(kind, depth), self.write(kind, depth))
            }
            (Kind::Int, 3) => {
                let of = [Kind::String, Kind::Ints, Kind::Map, Kind::Bytes][self.choose(4)];
                format!("size({})", self.write(of, depth))
            }
            (Kind::Int, 4) => {
                let of = [Kind::String, Kind::Double, Kind::Uint, Kind::Timestamp, Kind::Duration][self.choose(5)];
                format!("int({})", self.write(of, depth))
            }
            (Kind::Int, 5) => format!("{}[{}]", self.write(Kind::Ints, depth), self.write(kind, depth)),
            (Kind::Int, 6) => format!("{}[{}]", self.write(Kind::Map, depth), self.write(Kind::String, depth)),
            (Kind::Int, 7) => format!("{}.getHours('Europe/Berlin')", self.write(Kind::Timestamp, depth)),
            (Kind::Uint, 3) => format!("uint({})", self.write(Kind::Int, depth)),
            (Kind::Double, 0..=2) => {
                let operator = ["+", "-", "*", "/"][self.choose(4)];
                format!("({} {operator} {})", self.write(kind, depth), self.write(kind, depth))
            }
            (Kind::Double, 3) => format!("double({})", self.write(Kind::String, depth)),
            (Kind::String, 0..=1) => format!("({} + {})", self.write(kind, depth), self.write(kind, depth)),
            (Kind::String, 2..=4) => {
                let of = [Kind::Int, Kind::Bool, Kind::Double, Kind::Bytes, Kind::Timestamp][self.choose(5)];
                format!("string({})", self.write(of, depth))
            }
            (Kind::Bytes, 0) => format!("bytes({})", self.write(Kind::String, depth)),
            (Kind::Bytes, 1) => format!("({} + {})", self.write(kind, depth), self.write(kind, depth)),
            (Kind::Duration, 0) => {
                format!("({} - {})", self.write(Kind::Timestamp, depth), self.write(Kind::Timestamp, depth))
            }
            (Kind::Duration, 1) => format!("({} + {})", self.write(kind, depth), self.write(kind, depth)),
            (Kind::Timestamp, 0) => format!("({} + {})", self.write(kind, depth), self.write(Kind::Duration, depth)),
            (Kind::Ints, 0..=2) => {
                let list = self.write(kind, depth);
                let (name, body) = self.within(Kind::Int, Kind::Int, depth);
                format!("{list}.map({name}, {body})")
            }
            (Kind::Ints, 3) => {
                let list = self.write(kind, depth);
                let (name, body) = self.within(Kind::Int, Kind::Bool, depth);
                format!("{list}.filter({name}, {body})")
            }
            (Kind::Ints, 4) => format!("({} + {})", self.write(kind, depth), self.write(kind, depth)),
            (Kind::Ints, 5) => format!("[{}, {}]", self.write(Kind::Int, depth), self.write(Kind::Int, depth)),
            (Kind::Strings, 0..=2) => {
                let list = self.write(Kind::Ints, depth);
                let (name, body) = self.within(Kind::Int, Kind::String, depth);
                format!("{list}.map({name}, {body})")
            }
            (Kind::Map, 0..=2) => {
                let list = self.write(Kind::Strings, depth);
                let name = format!("v{}", self.variables.len());
                self.variables.push((name.clone(), Kind::String));
                let body = self.write(Kind::Int, depth);
                self.variables.pop();
                format!("{list}.transformMapEntry(i, {name}, {{{name}: {body}}})")
            }
            (_, 6 | 7) => {
                let condition = self.write(Kind::Bool, depth);
                format!("({condition} ? {} : {})", self.write(kind, depth), self.write(kind, depth))
            }
            _ => literals[self.choose(literals.len())].to_owned(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn well_typed_expressions_do_not_fail_for_a_type(choices in proptest::collection::vec(any::<u8>(), 1..80)) {
        let (bound, mut environment) = (bound(), environment(AdmissionTypes::default()));
        let mut writer = Writer { choices: choices.iter(), variables: Vec::new() };
        for (name, kind, of, _) in &bound {
            environment = environment.variable(name, of.clone());
            writer.variables.push(((*name).to_owned(), *kind));
        }
        let kind = writer.kind();
        let source = writer.write(kind, 4);
        let expected = bound.iter().find(|(_, of, ..)| *of == kind).map(|(_, _, of, _)| of.clone()).unwrap();
        let checked = environment.check(&source);
        prop_assert_eq!(checked.as_ref().map(|checked| checked.output().clone()), Ok(expected.clone()), "{}", source);
        let values: Vec<_> = (0..5).map(|_| None).chain(bound.map(|(.., value)| Some(value))).collect();
        // A constant that fails is a compile error, but never a type error.
        let value = match environment.compile(&source) {
            Ok(program) => program.evaluate(&values, &LIMITS).value.map(|value| value.r#type()).map_err(|why| why.to_string()),
            Err(why) => Err(why.0),
        };
        match value {
            // The value has no types of a container's elements.
            Ok(found) => prop_assert_eq!(runtime_name(&found), runtime_name(&expected), "{}", source),
            Err(why) => prop_assert!(!why.contains("no such overload"), "{source}: {why}"),
        }
    }
}
