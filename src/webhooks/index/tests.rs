use super::*;
use crate::cluster::FixedState;
use crate::object::GroupVersionResource;
use crate::webhooks::tests::{configmap, create, default_state};
use k8s_openapi::api::admissionregistration::v1::{MatchResources, RuleWithOperations};
use serde_json::{Value, json};
use std::sync::Arc;

fn rule(groups: &[&str], resources: &[&str], operations: &[&str]) -> Value {
    json!({"apiGroups": groups, "apiVersions": ["*"], "operations": operations, "resources": resources})
}

fn criteria(rules: &[Value], namespaces: Value, objects: Value) -> Criteria {
    let rules: Vec<RuleWithOperations> =
        rules.iter().map(|rule| serde_json::from_value(rule.clone()).unwrap()).collect();
    let selector = |selector| serde_json::from_value(selector).unwrap();
    Criteria::of_webhook(&rules, None, Some(&selector(namespaces)), Some(&selector(objects)))
}

fn of(rules: &[Value]) -> Option<Criteria> {
    Some(criteria(rules, json!({}), json!({})))
}

fn request(operation: Operation, group: &str, resource: &str, namespace: &str) -> Attributes {
    let mut attributes = create(configmap());
    attributes.operation = operation;
    attributes.resource = GroupVersionResource::new(group, "v1", resource);
    attributes.namespace = namespace.into();
    attributes
}

/// The positions of what may take the request with its object.
fn positions(all: &[Option<Criteria>], attributes: &Attributes) -> Vec<usize> {
    let (index, cluster) = (Index::new(all.iter().map(Option::as_ref)), Cluster::fixed(default_state()));
    let mut candidates = index.candidates(all, attributes, &cluster);
    candidates.look_at(attributes, attributes.object.as_ref());
    let is_done = candidates.is_done();
    let positions: Vec<_> = candidates.map(|(position, _)| position).collect();
    assert_eq!(positions.is_empty(), is_done);
    positions
}

#[test]
fn candidates_are_what_names_group_and_resource_or_any_in_order() {
    let all = [
        of(&[rule(&[""], &["pods", "pods/status"], &["CREATE"]), rule(&[""], &["pods"], &["*"])]),
        of(&[rule(&["*", "apps"], &["*/*"], &["UPDATE"])]),
        of(&[rule(&["", "apps"], &["services"], &["*"])]),
        None,
        of(&[rule(&[""], &["pods/*"], &["DELETE"]), rule(&["*"], &["*"], &["CREATE"])]),
        of(&[]),
        of(&[rule(&["apps"], &["*"], &["*"])]),
        of(&[rule(&["events.k8s.io"], &["events"], &["*"])]),
        of(&[rule(&[""], &["events", "pods"], &["DELETE"])]),
        Some(Criteria::from(MatchResources::default())),
    ];
    for (operation, group, resource, expected) in [
        (Operation::Create, "", "pods", &[0, 3, 4, 9][..]),
        (Operation::Update, "", "pods", &[0, 1, 3, 9]),
        (Operation::Delete, "", "pods", &[0, 3, 4, 8, 9]),
        (Operation::Create, "", "services", &[2, 3, 4, 9]),
        (Operation::Delete, "apps", "services", &[2, 3, 6, 9]),
        (Operation::Update, "", "secrets", &[1, 3, 9]),
        (Operation::Connect, "", "secrets", &[3, 9]),
        (Operation::Delete, "", "events", &[3, 7, 8, 9]),
        (Operation::Delete, "events.k8s.io", "events", &[3, 7, 8, 9]),
        (Operation::Delete, "other.dev", "events", &[3, 9]),
    ] {
        let attributes = request(operation, group, resource, "");
        assert_eq!(positions(&all, &attributes), expected, "{operation:?} {group} {resource}");
    }
}

#[test]
fn a_rule_that_names_many_groups_and_resources_is_not_listed_under_each_pair() {
    let names = |prefix: &str| (0..100).map(|number| format!("{prefix}{number}")).collect::<Vec<_>>();
    let (groups, resources) = (names("g"), names("r"));
    let rule = json!({"apiGroups": groups, "apiVersions": ["*"], "operations": ["CREATE"], "resources": resources});
    let all = [of(&[rule])];
    let index = Index::new(all.iter().map(Option::as_ref));
    assert_eq!(index.by_group.values().map(HashMap::len).sum::<usize>(), 100);
    assert_eq!(positions(&all, &request(Operation::Create, "g7", "r7", "")), [0]);
    assert!(positions(&all, &request(Operation::Create, "g7", "other", "")).is_empty());
}

#[test]
fn selectors_leave_out_what_they_do_not_match() {
    let everything = || [rule(&["*"], &["*"], &["*"])];
    let wanting = |key: &str, value: &str| json!({"matchLabels": {key: value}});
    let without = json!({"matchExpressions": [{"key": "env", "operator": "DoesNotExist"}]});
    let broken = json!({"matchExpressions": [{"key": "env", "operator": "Like"}]});
    let all = [
        Some(criteria(&everything(), json!({}), json!({}))),
        Some(criteria(&everything(), wanting("env", "test"), json!({}))),
        Some(criteria(&everything(), wanting("env", "prod"), json!({}))),
        Some(criteria(&everything(), without.clone(), json!({}))),
        Some(criteria(&everything(), json!({}), wanting("app", "a"))),
        Some(criteria(&everything(), json!({}), without)),
        Some(criteria(&everything(), broken.clone(), json!({}))),
        Some(criteria(&everything(), wanting("env", "prod"), broken)),
    ];
    let labelled = |labels: Value| Object::from_value(json!({"metadata": {"labels": labels}})).unwrap();
    let mut pods = request(Operation::Update, "", "pods", "default");
    pods.object = Some(labelled(json!({"app": "a", "env": null})));
    assert_eq!(positions(&all, &pods), [0, 1, 4, 6]);
    pods.old_object = Some(Arc::new(labelled(json!({}))));
    assert_eq!(positions(&all, &pods), [0, 1, 4, 5, 6], "the old object counts, too");
    pods.operation = Operation::Connect;
    assert_eq!(positions(&all, &pods), [0, 1, 6], "a connect has no labels");
    let none = request(Operation::Update, "", "nodes", "");
    assert_eq!(positions(&all, &none), [0, 1, 2, 3, 5, 6, 7], "what has no namespace is never left out for it");
    let unknown = request(Operation::Update, "", "pods", "nobody-knows");
    assert_eq!(positions(&all, &unknown), [0, 1, 2, 3, 5, 6, 7], "nor is what has one that the cache lacks");

    // The labels of a namespace that is written are its own.
    let mut namespace = request(Operation::Update, "", "namespaces", "default");
    namespace.object = Some(labelled(json!({"env": "prod"})));
    assert_eq!(positions(&all, &namespace), [0, 2, 6, 7]);
    namespace.operation = Operation::Delete;
    assert_eq!(positions(&all, &namespace), [0, 1, 6]);
}

#[test]
fn what_was_looked_at_before_is_forgotten() {
    let wanting =
        |value: &str| criteria(&[rule(&["*"], &["*"], &["*"])], json!({}), json!({"matchLabels": {"app": value}}));
    let all = [Some(wanting("a")), Some(wanting("b")), Some(wanting("a")), Some(wanting("b"))];
    let (index, cluster) = (Index::new(all.iter().map(Option::as_ref)), Cluster::fixed(FixedState::default()));
    let attributes = request(Operation::Create, "", "pods", "");
    let mut candidates = index.candidates(&all, &attributes, &cluster);
    let mut after = |app: &str| {
        let object = Object::from_value(json!({"metadata": {"labels": {"app": app}}}));
        candidates.look_at(&attributes, object.as_ref());
        candidates.next().map(|(position, _)| position)
    };
    assert_eq!([after("b"), after("a"), after("b"), after("b")], [Some(1), Some(2), Some(3), None]);
}
