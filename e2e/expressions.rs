//! Compares the evaluation of expressions in kube-apiserver and in the proxy: each expression is a validation of a policy that only warns,
//! so that its value or its error is in a warning. `expressions/values.txt` holds the expressions that have a value,
//! `expressions/errors.txt` those that fail.

use crate::harness::{Pair, Request, User, eventually, post};
use serde_json::{Value, json};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
/// The number of expressions whose warnings fit 4,096 bytes, to which a response's warnings are cut.
const EXPRESSIONS_PER_POLICY: usize = 6;

#[test]
fn expressions_come_to_what_they_do_in_kube_apiserver() {
    let values = include_str!("expressions/values.txt").lines();
    let errors = include_str!("expressions/errors.txt").lines();
    let all: Vec<&str> = values.clone().chain(errors.clone()).collect();
    let validations: Vec<Value> = values.enumerate().map(of_value).chain(errors.map(of_error)).collect();
    let parts: Vec<&[Value]> = validations.chunks(EXPRESSIONS_PER_POLICY).collect();
    let pair = Pair::start(&["ValidatingAdmissionPolicy"], &[], &[definition()]);
    let policies = parts.iter().enumerate().flat_map(|(part, validations)| policy(part, validations));
    pair.set_up(&policies.collect::<Vec<_>>());
    let mut differences = Vec::new();
    for (part, sources) in all.chunks(EXPRESSIONS_PER_POLICY).enumerate() {
        let [expected, found] = pair.sides().map(|api| {
            let what = format!("policy {part} to warn");
            eventually(&what, || {
                let warnings = api.send(&User::admin(), sample(part)).header("warning");
                (!warnings.is_empty()).then_some(warnings)
            })
        });
        assert_eq!(expected.len(), sources.len(), "{expected:#?}");
        for (nth, source) in sources.iter().enumerate() {
            let (expected, found) = (&expected[nth], found.get(nth).map_or("nothing", String::as_str));
            if expected != found {
                differences.push(format!("{source}\n  expected {expected}\n  found    {found}"));
            }
        }
    }
    assert!(differences.is_empty(), "{} of {} differ:\n{}", differences.len(), all.len(), differences.join("\n"));
}

/// A validation that reports the expression's value: in its message, or in its error, since messages may not use the authorizer.
fn of_value((number, expression): (usize, &str)) -> Value {
    if expression.contains("authorizer") {
        return json!({"expression": format!("{{'never': 1}}['%s'.format([{expression}])] == 1")});
    }
    json!({"expression": format!("{number} < 0"), "messageExpression": format!("'{number}: %s'.format([{expression}])")})
}

/// A validation whose expression fails before the comparison.
fn of_error(expression: &str) -> Value {
    json!({"expression": format!("dyn({expression}) == dyn('never')")})
}

/// A policy for the sample of this part, and its binding.
fn policy(part: usize, validations: &[Value]) -> [Request; 2] {
    let name = format!("part-{part}");
    let metadata = json!({"name": name});
    let rule = json!({"apiGroups": ["expressions.test"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["samples"]});
    let constraints = json!({"resourceRules": [rule], "objectSelector": {"matchLabels": {"part": name}}});
    let version = "admissionregistration.k8s.io/v1";
    let policy = json!({"apiVersion": version, "kind": "ValidatingAdmissionPolicy", "metadata": metadata,
        "spec": {"matchConstraints": constraints, "validations": validations}});
    let binding = json!({"apiVersion": version, "kind": "ValidatingAdmissionPolicyBinding", "metadata": metadata,
        "spec": {"policyName": name, "validationActions": ["Warn"]}});
    [post(POLICIES, &policy), post(BINDINGS, &binding)]
}

fn definition() -> Request {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "samples.expressions.test"},
        "spec": {"group": "expressions.test", "scope": "Namespaced",
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
            "names": {"plural": "samples", "singular": "sample", "kind": "Sample", "listKind": "SampleList"}}});
    post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition)
}

/// A create of the sample for the policy of this part.
fn sample(part: usize) -> Request {
    let mut sample: Value = serde_json::from_str(include_str!("expressions/object.json")).unwrap();
    sample["metadata"]["labels"]["part"] = json!(format!("part-{part}"));
    post("/apis/expressions.test/v1/namespaces/default/samples?dryRun=All", &sample)
}
