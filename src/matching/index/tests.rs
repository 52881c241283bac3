use super::*;
use crate::cluster::FixedState;
use crate::kind::GroupVersionResource;
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

/// The positions of the criteria that may match the request with its object.
fn positions(all: &[Option<Criteria>], attributes: &Attributes) -> Vec<usize> {
    let (index, cluster) = (Index::new(all.iter().map(Option::as_ref)), Cluster::fixed(default_state()));
    let find = || {
        let mut candidates = index.candidates(all, Option::as_ref, attributes, &cluster);
        candidates.narrow(attributes, attributes.object.as_ref());
        let is_done = candidates.is_done();
        let positions: Vec<_> = candidates.map(|(position, _)| position).collect();
        assert_eq!(positions.is_empty(), is_done);
        positions
    };
    let positions = find();
    assert_eq!(find(), positions, "once more");
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

/// The number of positions that are visited for a request.
fn listed(index: &Index, all: &[Option<Criteria>], attributes: &Attributes) -> usize {
    let cluster = Cluster::fixed(FixedState::default());
    index.candidates(all, Option::as_ref, attributes, &cluster).left.iter().map(|list| list.len()).sum()
}

#[test]
fn entries_whose_rules_do_not_match_are_not_examined() {
    let of = |number: usize, resources: Value| {
        let mut resources: MatchResources = serde_json::from_value(resources).unwrap();
        let name = format!("object-{number}");
        for rule in resources.resource_rules.iter_mut().flatten() {
            if let Some(names) = &mut rule.resource_names {
                *names = vec![name.clone(), "shared".into()];
            }
        }
        Some(Criteria::from(resources))
    };
    let pods = |field: &str, value: Value| {
        let mut rule = rule(&[""], &["pods"], &["*"]);
        rule[field] = value;
        rule
    };
    let mut attributes = request(Operation::Update, "", "pods", "default");
    attributes.name = "object-7".into();
    for (what, resources, expected) in [
        ("all", json!({"resourceRules": [pods("scope", json!("Namespaced"))]}), 1000),
        ("another group", json!({"resourceRules": [pods("apiGroups", json!(["apps"]))]}), 0),
        ("another version", json!({"resourceRules": [pods("apiVersions", json!(["v2"]))], "matchPolicy": "Exact"}), 0),
        ("an equivalent version", json!({"resourceRules": [pods("apiVersions", json!(["v2"]))]}), 1000),
        ("another resource", json!({"resourceRules": [pods("resources", json!(["services", "pods/status"]))]}), 0),
        ("another operation", json!({"resourceRules": [pods("operations", json!(["CREATE", "DELETE"]))]}), 0),
        ("another scope", json!({"resourceRules": [pods("scope", json!("Cluster"))]}), 0),
        ("other names", json!({"resourceRules": [pods("resourceNames", json!([]))]}), 1),
        (
            "excluded",
            json!({"resourceRules": [pods("resources", json!(["*"]))], "excludeResourceRules": [pods("scope", json!("*"))]}),
            0,
        ),
        (
            "excluded under a name",
            json!({"resourceRules": [pods("resources", json!(["*"]))], "excludeResourceRules": [pods("resourceNames", json!(["x"]))]}),
            1000,
        ),
        ("nothing but excluded", json!({"excludeResourceRules": [pods("apiVersions", json!(["v1"]))]}), 0),
        ("anything", json!({}), 1000),
    ] {
        let all: Vec<_> = (0..1000).map(|number| of(number, resources.clone())).collect();
        let index = Index::new(all.iter().map(Option::as_ref));
        assert_eq!([listed(&index, &all, &attributes), listed(&index, &all, &attributes)], [expected; 2], "{what}");
    }
    attributes.name = "shared".into();
    let named = [
        of(0, json!({"resourceRules": [pods("resourceNames", json!([]))]})),
        of(1, json!({"resourceRules": [pods("resourceNames", json!([])), pods("scope", json!("*"))]})),
    ];
    assert_eq!(positions(&named, &attributes), [0, 1]);
    attributes.name.clear();
    assert_eq!(positions(&named, &attributes), [1]);
}

#[test]
fn the_number_of_remembered_kinds_of_requests_is_bounded() {
    let all = [of(&[rule(&["*"], &["*"], &["*"])])];
    let index = Index::new(all.iter().map(Option::as_ref));
    for number in 0..2 * KINDS + 1 {
        assert_eq!(listed(&index, &all, &request(Operation::Create, "", &format!("r{number}"), "")), 1);
        assert!(index.kinds.read().unwrap().count <= KINDS);
    }
    assert_eq!(index.kinds.read().unwrap().count, 1);
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

    // A namespace that is written is matched by its own labels.
    let mut namespace = request(Operation::Update, "", "namespaces", "default");
    namespace.object = Some(labelled(json!({"env": "prod"})));
    assert_eq!(positions(&all, &namespace), [0, 2, 6, 7]);
    namespace.operation = Operation::Delete;
    assert_eq!(positions(&all, &namespace), [0, 1, 6]);
}

#[test]
fn earlier_labels_of_an_object_are_forgotten() {
    let wanting =
        |value: &str| criteria(&[rule(&["*"], &["*"], &["*"])], json!({}), json!({"matchLabels": {"app": value}}));
    let all = [Some(wanting("a")), Some(wanting("b")), Some(wanting("a")), Some(wanting("b"))];
    let (index, cluster) = (Index::new(all.iter().map(Option::as_ref)), Cluster::fixed(FixedState::default()));
    let attributes = request(Operation::Create, "", "pods", "");
    let mut candidates = index.candidates(&all, Option::as_ref, &attributes, &cluster);
    let mut after = |app: &str| {
        let object = Object::from_value(json!({"metadata": {"labels": {"app": app}}}));
        candidates.narrow(&attributes, object.as_ref());
        candidates.next().map(|(position, _)| position)
    };
    assert_eq!([after("b"), after("a"), after("b"), after("b")], [Some(1), Some(2), Some(3), None]);
}
