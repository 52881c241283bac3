//! Merging by the types of built-in kinds and by schemas.

use super::*;
use crate::object::schema;
use crate::object::structural::Structural;
use serde_json::{Value as Json, json};

fn applied_to(node: Node<'_>, kind: &GroupVersionKind, object: Json, patch: &Json) -> Result<Json, String> {
    let object = Object::from_value(object).unwrap();
    let applied = apply(node, kind, &object, Go::of_json(patch));
    applied.map(Object::into_value).map_err(|why| why.to_string())
}

fn pod(spec: Json, patch: Json) -> Result<Json, String> {
    let kind = GroupVersionKind::new("", "v1", "Pod");
    let node = Node::Type(schema::of(&kind).unwrap(), None);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": spec});
    applied_to(node, &kind, pod, &json!({ "spec": patch })).map(|pod| pod["spec"].clone())
}

#[test]
fn lists_are_merged_by_their_keys() {
    let container = |name: &str, image: &str| json!({"name": name, "image": image});
    let before = json!({"containers": [container("a", "1"), container("b", "1"), container("c", "1")]});
    for (patch, expected) in [
        (json!([{"name": "b", "image": "2"}]), json!([container("a", "1"), container("b", "2"), container("c", "1")])),
        (
            json!([container("d", "1")]),
            json!([container("a", "1"), container("b", "1"), container("c", "1"), container("d", "1")]),
        ),
        (json!([{"name": "c"}, {"name": "a"}]), json!([container("b", "1"), container("c", "1"), container("a", "1")])),
        (json!([]), before["containers"].clone()),
    ] {
        assert_eq!(pod(before.clone(), json!({ "containers": patch })).unwrap()["containers"], expected, "{patch}");
    }
}

#[test]
fn keys_that_are_left_out_have_their_defaults() {
    let ports = |ports: Json| json!({"containers": [{"name": "a", "ports": ports}]});
    let before = ports(json!([{"containerPort": 53, "protocol": "UDP"}, {"containerPort": 53, "protocol": "TCP"}]));
    let merged = pod(before, ports(json!([{"containerPort": 53, "name": "dns"}]))).unwrap();
    let expected =
        json!([{"containerPort": 53, "protocol": "UDP"}, {"containerPort": 53, "protocol": "TCP", "name": "dns"}]);
    assert_eq!(merged, ports(expected));
}

#[test]
fn a_value_of_another_type_is_refused_in_the_words_of_structured_merge_diff() {
    for (patch, why) in [
        (
            json!({"nope": 1}),
            "failed to convert patch object to typed object: .spec.nope: field not declared in schema",
        ),
        (
            json!({"hostNetwork": "yes"}),
            "failed to convert patch object to typed object: .spec.hostNetwork: expected boolean, got &{yes}",
        ),
        (
            json!({"containers": {"a": "b"}}),
            "failed to convert patch object to typed object: .spec.containers: expected list, got &{map[a:b]}",
        ),
        (
            json!({"containers": null}),
            "failed to convert patch object to typed object: .spec.containers: expected list, got &{NULL_VALUE}",
        ),
        (
            json!({"containers": [{"name": "a"}, {"name": "a"}]}),
            "failed to convert patch object to typed object: .spec.containers: duplicate entries for key [name=\"a\"]",
        ),
        (
            json!({"containers": [{"name": "a", "args": ["x"]}], "nodeSelector": {"a": "b"}}),
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.containers[0].args, .spec.nodeSelector",
        ),
        (
            json!({"priority": "1"}),
            "failed to convert patch object to typed object: .spec.priority: expected numeric (int or float), got string",
        ),
        (
            json!({"hostname": 1}),
            "failed to convert patch object to typed object: .spec.hostname: expected string, got &value.valueUnstructured{Value:1}",
        ),
    ] {
        assert_eq!(pod(json!({"containers": []}), patch).unwrap_err(), why);
    }
}

#[test]
fn custom_resources_are_merged_by_their_schema() {
    let schema =
        Structural::compile(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "plain": {"type": "array", "items": {"type": "string"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "either": {"x-kubernetes-int-or-string": true},
        "count": {"type": "integer"}}}}}))
        .unwrap();
    let kind = GroupVersionKind::new("a.test", "v1", "Widget");
    let applied = |patch: Json| {
        let before = json!({"apiVersion": "a.test/v1", "kind": "Widget", "metadata": {"labels": {"a": "b"}},
            "spec": {"tags": ["b", "c"], "plain": ["z"], "free": {"old": {"x": 1}}, "count": 1}});
        applied_to(Node::Whole(schema.root().unwrap()), &kind, before, &patch)
    };
    let patch = json!({"metadata": {"labels": {"c": "d"}}, "spec": {"tags": ["a", "c"], "free": {"old": {"y": 2}}, "either": "50%", "count": 2}});
    let merged = applied(patch).unwrap();
    assert_eq!(merged["metadata"]["labels"], json!({"a": "b", "c": "d"}));
    let spec = json!({"tags": ["b", "a", "c"], "plain": ["z"], "free": {"old": {"x": 1, "y": 2}}, "either": "50%", "count": 2});
    assert_eq!(merged["spec"], spec);
    for (spec, why) in [
        (
            json!({"plain": ["a"]}),
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.plain",
        ),
        (
            json!({"count": "1"}),
            "failed to convert patch object to typed object: .spec.count: expected numeric (int or float), got string",
        ),
        (
            json!({"nope": 1}),
            "failed to convert patch object to typed object: .spec.nope: field not declared in schema",
        ),
    ] {
        assert_eq!(applied(json!({ "spec": spec })).unwrap_err(), why);
    }
}
