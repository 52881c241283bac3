//! Policies over a cluster that does not change.

use super::*;
use crate::admission::{Annotations, PolicyOptions};
use crate::cluster::FixedState;
use crate::kind::{GroupVersionKind, GroupVersionResource};
use crate::manifests;
use crate::object::normal;
use crate::policies::Binding;
use crate::policies::testing::*;
use k8s_openapi::api::admissionregistration::v1::MutatingAdmissionPolicy;
use serde_json::{Value, json};

fn world_in(state: FixedState, policies: Vec<Value>) -> World<MutatingPolicies> {
    let count = policies.len();
    let policies = policies.into_iter().enumerate();
    let policies = policies.map(|(at, spec)| api::<MutatingAdmissionPolicy>(&format!("p{at}"), spec)).collect();
    let bindings = (0..count).map(|at| api(&format!("b{at}"), json!({"policyName": format!("p{at}")}))).collect();
    let state =
        state.with::<MutatingAdmissionPolicy>(policies).with::<Binding<MutatingAdmissionPolicyBinding>>(bindings);
    world_of(state, &PolicyOptions::default(), |environment| {
        MutatingPolicies::new(environment, manifests::Source::default())
    })
}

fn applying(expressions: &[&str], fields: Value) -> Value {
    let mutation = |expression: &&str| json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}});
    let mutations: Value = expressions.iter().map(mutation).collect();
    with(json!({"matchConstraints": constraints(), "reinvocationPolicy": "Never", "mutations": mutations}), fields)
}

fn patching(expressions: &[&str]) -> Value {
    let mutation = |expression: &&str| json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}});
    let mutations: Value = expressions.iter().map(mutation).collect();
    json!({"matchConstraints": constraints(), "reinvocationPolicy": "IfNeeded", "mutations": mutations})
}

/// The data of the configmap afterwards, or the rejection.
async fn mutated(world: &World<MutatingPolicies>, attributes: &mut Attributes) -> Result<Value, Status> {
    world.plugin.admit(attributes).await.map_err(|denial| denial.into_status(attributes))?;
    Ok(attributes.object.as_ref().and_then(|object| object.get(&["data"])).cloned().unwrap_or_default())
}

#[tokio::test]
async fn mutations_are_done_in_order() {
    let second = r#"Object{data: {"c": object.data.b + "3"}}"#;
    let world = world_in(
        state(Vec::new()),
        vec![applying(&[r#"Object{data: {"b": object.data.a + "2"}}"#, second], json!({}))],
    );
    let mut attributes = create();
    assert_eq!(mutated(&world, &mut attributes).await, Ok(json!({"a": "1", "b": "12", "c": "123"})));
    assert!(attributes.reinvocation.requested);
    assert!(world.has_metric(
        r#"apiserver_mutating_admission_policy_check_total{error_type="no_error",policy="p0",policy_binding="b0"} 2"#
    ));
}

#[tokio::test]
async fn the_changes_of_each_policy_are_named() {
    let policies = [r#"Object{data: {"b": "2"}}"#, r#"Object{data: {"b": "2"}}"#, r#"Object{data: {"a": "3"}}"#];
    let policies = policies.map(|expression| applying(&[expression], json!({})));
    let world = world_in(state(Vec::new()), policies.to_vec());
    let mut attributes = create();
    attributes.annotations = Annotations::default().naming_changes(true);
    mutated(&world, &mut attributes).await.unwrap();
    let changes = attributes.annotations.changes().unwrap();
    let expected = json!([{"plugin": "MutatingAdmissionPolicy", "policy": "p0", "paths": ["/data/b"]},
        {"plugin": "MutatingAdmissionPolicy", "policy": "p2", "paths": ["/data/a"]}]);
    assert_eq!(serde_json::from_str::<Value>(&changes).unwrap(), expected);
}

#[tokio::test]
async fn all_failures_are_causes_and_the_first_is_the_message() {
    let failing = [r#"Object{data: {"b": object.data.x}}"#, r#"Object{data: {"b": "2"}}"#, r#"Object{data: {"b": 1}}"#];
    let world = world_in(state(Vec::new()), vec![applying(&failing, json!({}))]);
    let status = mutated(&world, &mut create()).await.unwrap_err();
    let first = "policy 'p0' with binding 'b0' denied request: expression 'Object{data: {\"b\": object.data.x}}' resulted in error: no such key: x";
    assert_eq!((status.code, &*status.reason, &*status.message), (403, "Invalid", first));
    let causes: Vec<_> = status.details.unwrap().causes.into_iter().map(|cause| cause.message).collect();
    let second = "policy 'p0' with binding 'b0' denied request: error applying patch: failed to convert patch object to typed object: \
        .data.b: expected string, got &value.valueUnstructured{Value:1}";
    assert_eq!(causes, [first, second]);
    let ignoring = world_in(state(Vec::new()), vec![applying(&failing, json!({"failurePolicy": "Ignore"}))]);
    assert_eq!(mutated(&ignoring, &mut create()).await, Ok(json!({"a": "1", "b": "2"})));
}

#[tokio::test]
async fn a_json_patch_makes_no_fields_that_there_are_not() {
    let world = |expression| world_in(state(Vec::new()), vec![patching(&[expression])]);
    let added = world(r#"[JSONPatch{op: "add", path: "/data/" + jsonpatch.escapeKey("x/y"), value: "2"}]"#);
    assert_eq!(mutated(&added, &mut create()).await, Ok(json!({"a": "1", "x/y": "2"})));
    let status =
        mutated(&world(r#"[JSONPatch{op: "add", path: "/nope", value: 1}]"#), &mut create()).await.unwrap_err();
    let why = "Internal error occurred: strict decoding error: unknown field \"nope\"";
    assert_eq!((status.code, &*status.message), (500, why));
}

#[tokio::test]
async fn a_mutated_object_is_converted_after_the_last_policy() {
    let name = "deprecated.daemonset.template.generation";
    let kind = GroupVersionKind::new("apps", "v1", "DaemonSet");
    let daemon_set = || {
        let object = json!({"metadata": {"name": "d", "annotations": {name: "5"}}});
        let mut attributes = create();
        attributes.object = Some(normal::built_in(&kind, object).unwrap().unwrap().object);
        attributes.resource = GroupVersionResource::new("apps", "v1", "daemonsets");
        attributes.kind = kind.clone();
        attributes
    };
    let world = |patches: &[&str]| {
        let rule = json!({"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["*"]});
        let patch = |patch: &&str| with(patching(&[patch]), json!({"matchConstraints": {"resourceRules": [rule]}}));
        world_in(state(Vec::new()), patches.iter().map(patch).collect())
    };
    let remove = r#"[JSONPatch{op: "remove", path: "/metadata/annotations"}]"#;
    let mut attributes = daemon_set();
    mutated(&world(&[remove]), &mut attributes).await.unwrap();
    assert_eq!(attributes.object.as_ref().unwrap().get(&["metadata", "annotations"]), Some(&json!({name: "5"})));
    let status = mutated(&world(&[remove, remove]), &mut daemon_set()).await.unwrap_err();
    assert!(status.message.contains("Unable to remove nonexistent key: annotations"), "{}", status.message);
    let wrong = format!(r#"[JSONPatch{{op: "add", path: "/metadata/annotations", value: {{"{name}": "x"}}}}]"#);
    let status = mutated(&world(&[&wrong]), &mut daemon_set()).await.unwrap_err();
    let why = r#"Internal error occurred: failed to convert object: strconv.ParseInt: parsing "x": invalid syntax"#;
    assert_eq!((status.code, &*status.message), (500, why));
}

#[tokio::test]
async fn a_policy_is_asked_again_if_it_wants_to_be() {
    let counting = |label: &str| {
        format!(r#"Object{{data: {{"{label}": has(object.data.{label}) ? object.data.{label} + "+" : "1"}}}}"#)
    };
    let policies = vec![
        applying(&[&counting("never")], json!({})),
        applying(&[&counting("needed")], json!({"reinvocationPolicy": "IfNeeded"})),
    ];
    let world = world_in(state(Vec::new()), policies);
    let mut attributes = create();
    mutated(&world, &mut attributes).await.unwrap();
    attributes.reinvocation.is_reinvoke = true;
    assert_eq!(mutated(&world, &mut attributes).await, Ok(json!({"a": "1", "never": "1", "needed": "1+"})));
}

#[tokio::test]
async fn a_request_without_an_object_is_not_mutated() {
    let world = world_in(state(Vec::new()), vec![applying(&[r#"Object{data: {"b": "2"}}"#], json!({}))]);
    let mut attributes = create();
    attributes.object = None;
    assert_eq!(mutated(&world, &mut attributes).await, Ok(Value::Null));
    assert!(!attributes.reinvocation.requested);
}

#[tokio::test]
async fn an_object_of_an_aggregated_api_is_refused() {
    let things = json!({"resourceRules": [
        {"apiGroups": ["aggregated.dev"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]});
    let policy = applying(&["Object{}"], json!({ "matchConstraints": things }));
    let world = world_in(state(Vec::new()), vec![policy]);
    let mut attributes = create();
    attributes.kind = GroupVersionKind::new("aggregated.dev", "v1", "Thing");
    attributes.resource = GroupVersionResource::new("aggregated.dev", "v1", "things");
    let status = mutated(&world, &mut attributes).await.unwrap_err();
    assert_eq!((status.code, status.message.contains("Kind=Thing not found")), (503, true), "{}", status.message);
}
