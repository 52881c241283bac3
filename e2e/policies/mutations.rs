//! The effects of mutating policies on objects.

use super::{Place, applied, merge, patched};
use crate::harness::post;
use serde_json::{Value, json};

#[test]
fn apply_configurations_are_merged() {
    let mut place = Place::new("applied");
    for (case, expression) in [
        ("label", r#"Object{metadata: Object.metadata{labels: {"added": "x"}}}"#),
        ("data", r#"Object{data: {"a": "changed", "c": request.operation}}"#),
        (
            "dynamic",
            r#"Object{metadata: Object.metadata{annotations: {"was": object.data.a + namespaceObject.metadata.name}}}"#,
        ),
        ("finalizers", r#"Object{metadata: Object.metadata{finalizers: ["e2e.test/a", "e2e.test/b"]}}"#),
        ("empty", "Object{}"),
        ("unknown", "Object{spec: Object.spec{nope: 1}}"),
        ("wrong", r#"Object{data: {"a": 1}}"#),
        ("text", r#"Object{immutable: "yes"}"#),
        ("null", "Object{data: null}"),
        ("atomic", "Object{metadata: Object.metadata{managedFields: []}}"),
        ("names", "Object{metadata: Object.spec{labels: {\"a\": \"b\"}}}"),
        ("error", r#"Object{data: {"a": object.data.absent}}"#),
    ] {
        place.applies(case, &[expression]);
    }
    let label = r#"Object{metadata: Object.metadata{labels: {"added": object.data.a}}}"#;
    place.applies("in-order", &[r#"Object{data: {"a": "first"}}"#, label]);
    place.applies("goes-on", &[r#"Object{data: {"a": object.data.absent}}"#, label, r#"Object{data: {"a": 1}}"#]);
    place.mutating(
        "ignores",
        json!({"failurePolicy": "Ignore", "mutations": applied(&[r#"Object{data: {"a": 1}}"#, label])}),
        json!({}),
    );
    place.tries("ignores", json!({}));
    let conditions = json!({"matchConditions": [{"name": "c", "expression": "object.data.a == '2'"}], "mutations": applied(&[label])});
    place.mutating("left-out", conditions, json!({}));
    place.tries("left-out", json!({}));
    let failing = json!({"matchConditions": [{"name": "c", "expression": "object.data.absent == '2'"}], "mutations": applied(&[label])});
    place.mutating("conditions", failing, json!({}));
    place.tries("conditions", json!({}));
    let parameters = json!({"paramKind": {"apiVersion": "v1", "kind": "Namespace"}, "mutations":
        applied(&[r#"Object{data: {"team": string(params.metadata.labels.team), "kind": string(has(params.kind))}}"#])});
    let reference = json!({"paramRef": {"name": place.name, "parameterNotFoundAction": "Deny"}});
    place.mutating("parameters", parameters.clone(), reference);
    place.tries("parameters", json!({}));
    place.mutating(
        "no-parameters",
        parameters,
        json!({"paramRef": {"name": "absent", "parameterNotFoundAction": "Deny"}}),
    );
    place.tries("no-parameters", json!({}));
    place.compare();
}

#[test]
fn json_patches_are_applied() {
    let mut place = Place::new("patched");
    for (case, expression) in [
        ("add", r#"[JSONPatch{op: "add", path: "/data/c", value: "x"}]"#),
        (
            "escaped",
            r#"[JSONPatch{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey("a.b/c~d"), value: "x"}]"#,
        ),
        ("object", r#"[JSONPatch{op: "add", path: "/metadata/annotations", value: {"a": "b"}}]"#),
        (
            "made",
            r#"[JSONPatch{op: "replace", path: "/metadata", value: Object.metadata{name: object.metadata.name, labels: {"x": "y"}}}]"#,
        ),
        ("test", r#"[JSONPatch{op: "test", path: "/data/a", value: "2"}, JSONPatch{op: "remove", path: "/data/a"}]"#),
        ("tested", r#"[JSONPatch{op: "test", path: "/data/a", value: "1"}, JSONPatch{op: "remove", path: "/data/a"}]"#),
        ("move", r#"[JSONPatch{op: "move", from: "/data/a", path: "/data/z"}]"#),
        ("copy", r#"[JSONPatch{op: "copy", from: "/data/a", path: "/data/z"}]"#),
        ("missing", r#"[JSONPatch{op: "remove", path: "/data/absent"}]"#),
        ("nowhere", r#"[JSONPatch{op: "add", path: "/nope/x", value: 1}]"#),
        ("unknown", r#"[JSONPatch{op: "add", path: "/nope", value: 1}]"#),
        ("wrong", r#"[JSONPatch{op: "add", path: "/data/c", value: 1}]"#),
        ("operation", r#"[JSONPatch{op: "merge", path: "/data/c", value: "x"}]"#),
        // All errors of an object without a name are reported at once.
        ("emptied", r#"[JSONPatch{op: "replace", path: "", value: Object{data: {"no key": "x"}}}]"#),
        ("error", r#"[JSONPatch{op: "add", path: "/data/c", value: object.data.absent}]"#),
    ] {
        place.patches(case, &[expression]);
    }
    let twice = [
        r#"[JSONPatch{op: "add", path: "/data/c", value: "1"}]"#,
        r#"[JSONPatch{op: "add", path: "/data/d", value: object.data.c + "2"}]"#,
    ];
    place.patches("twice", &twice);
    place.patches(
        "failures",
        &[r#"[JSONPatch{op: "remove", path: "/data/x"}]"#, r#"[JSONPatch{op: "remove", path: "/data/y"}]"#],
    );
    place.compare();
}

#[test]
fn pods_are_merged_by_their_types() {
    let mut place = Place::new("typed");
    let constraints = |place: &Place, case: &str, group: &str, resource: &str| {
        json!({"namespaceSelector": {"matchLabels": {"place": place.name}}, "objectSelector": {"matchLabels": {"case": case}},
            "resourceRules": [{"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]}]})
    };
    let containers = "Object.spec.template.spec.containers";
    for (case, spec) in [
        (
            "sidecar",
            format!(
                "template: Object.spec.template{{spec: Object.spec.template.spec{{containers: [{containers}{{name: 'side', image: 'i'}}]}}}}"
            ),
        ),
        (
            "image",
            format!(
                "template: Object.spec.template{{spec: Object.spec.template.spec{{containers: [{containers}{{name: 'b', image: 'new'}}]}}}}"
            ),
        ),
        (
            "order",
            format!(
                "template: Object.spec.template{{spec: Object.spec.template.spec{{containers: [{containers}{{name: 'b'}}, {containers}{{name: 'a', image: 'x'}}]}}}}"
            ),
        ),
        (
            "ports",
            format!(
                "template: Object.spec.template{{spec: Object.spec.template.spec{{containers: [{containers}{{name: 'a', ports: [{containers}.ports{{containerPort: 80, name: 'web'}}]}}]}}}}"
            ),
        ),
        (
            "twins",
            format!(
                "template: Object.spec.template{{spec: Object.spec.template.spec{{containers: [{containers}{{name: 'a'}}, {containers}{{name: 'a'}}]}}}}"
            ),
        ),
        (
            "nameless",
            format!(
                "template: Object.spec.template{{spec: Object.spec.template.spec{{containers: [{containers}{{image: 'x'}}]}}}}"
            ),
        ),
        (
            "arguments",
            format!(
                "template: Object.spec.template{{spec: Object.spec.template.spec{{containers: [{containers}{{name: 'a', args: ['x']}}]}}}}"
            ),
        ),
        ("replicas", "replicas: object.spec.replicas + 1".to_owned()),
        ("unsigned", "replicas: 3u".to_owned()),
        ("selector", "selector: Object.spec.selector{matchLabels: {'app': 'y'}}".to_owned()),
        ("list", "template: Object.spec.template{spec: Object.spec.template.spec{containers: {'a': 'b'}}}".to_owned()),
        ("boolean", "paused: 'yes'".to_owned()),
        (
            "quantity",
            format!(
                "template: Object.spec.template{{spec: Object.spec.template.spec{{containers: [{containers}{{name: 'a', resources: {containers}.resources{{limits: {{'cpu': '1500m'}}}}}}]}}}}"
            ),
        ),
    ] {
        let expression = format!("Object{{spec: Object.spec{{{spec}}}}}");
        let policy = json!({"matchConstraints": constraints(&place, case, "apps", "deployments"), "reinvocationPolicy": "Never",
            "mutations": applied(&[&expression])});
        place.policy("Mutating", case, policy, json!({}));
        let labels = json!({"app": "d"});
        let containers =
            json!([{"name": "a", "image": "i", "ports": [{"containerPort": 80}]}, {"name": "b", "image": "i"}]);
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": case, "labels": {"case": case}}, "spec": {
            "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}}}});
        place.step(post(&format!("/apis/apps/v1/namespaces/{}/deployments?dryRun=All", place.name), &deployment));
    }
    for (case, spec) in [
        ("w-replicas", "replicas: 5"),
        ("w-tags", "tags: ['a', 'c']"),
        ("w-plain", "plain: ['a']"),
        ("w-rules", "rules: [Object.spec.rules{name: 'x', level: 2}, Object.spec.rules{name: 'z'}]"),
        ("w-free", "free: Object.spec.free{any: Object.spec.free.any{thing: [1, 2]}}"),
        ("w-size", "size: '50%'"),
        ("w-wrong", "replicas: 'five'"),
        ("w-unknown", "nope: 1"),
    ] {
        let expression = format!("Object{{spec: Object.spec{{{spec}}}}}");
        let policy = json!({"matchConstraints": constraints(&place, case, "policies.e2e.test", "widgets"), "reinvocationPolicy": "Never",
            "mutations": applied(&[&expression])});
        place.policy("Mutating", case, policy, json!({}));
        let widget = json!({"apiVersion": "policies.e2e.test/v1", "kind": "Widget", "metadata": {"name": case, "labels": {"case": case}},
            "spec": {"tags": ["b", "c"], "plain": ["z"], "rules": [{"name": "x", "level": 1}, {"name": "y"}], "free": {"old": true}}});
        place.step(post(&format!("/apis/policies.e2e.test/v1/namespaces/{}/widgets?dryRun=All", place.name), &widget));
    }
    place.compare();
}

#[test]
fn a_mutated_object_is_converted_after_the_last_policy() {
    let mut place = Place::new("converted");
    let generation = "deprecated.daemonset.template.generation";
    let remove = r#"[JSONPatch{op: "remove", path: "/metadata/annotations"}]"#;
    let wrong = format!(r#"[JSONPatch{{op: "add", path: "/metadata/annotations", value: {{"{generation}": "x"}}}}]"#);
    // In kube-apiserver, several bindings of a policy have no order.
    for (case, expressions) in [("once", &[remove][..]), ("twice", &[remove, remove]), ("wrong", &[&*wrong])] {
        let constraints = json!({"namespaceSelector": {"matchLabels": {"place": place.name}},
            "objectSelector": {"matchLabels": {"case": case}}, "resourceRules": [
                {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["daemonsets"]}]});
        let policy =
            json!({"matchConstraints": constraints, "reinvocationPolicy": "Never", "mutations": patched(expressions)});
        place.policy("Mutating", case, policy, json!({}));
        let labels = json!({"app": "d"});
        let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "i"}]}});
        let metadata = json!({"name": case, "labels": {"case": case}, "annotations": {generation: "5"}});
        let daemon_set = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata,
            "spec": {"selector": {"matchLabels": labels}, "template": template}});
        place.step(post(&format!("/apis/apps/v1/namespaces/{}/daemonsets?dryRun=All", place.name), &daemon_set));
    }
    place.compare();
}

#[test]
fn policies_are_asked_again_when_others_change_the_object() {
    let mut place = Place::new("again");
    let set =
        |label: &str, value: &str| format!(r#"Object{{metadata: Object.metadata{{labels: {{"{label}": {value}}}}}}}"#);
    // Each policy counts its evaluations.
    let counted = |label: &str| set(label, &format!("has(object.metadata.labels.{label}) ? 'twice' : 'once'"));
    for (reinvocation, expression) in [("Never", counted("never")), ("IfNeeded", counted("needed"))] {
        let mut spec = json!({"mutations": applied(&[&expression])});
        merge(&mut spec, json!({"reinvocationPolicy": reinvocation}));
        let constraints = place.constraints("asked");
        merge(&mut spec, json!({"matchConstraints": constraints}));
        spec["matchConstraints"]["resourceRules"][0]["operations"] = json!(["CREATE", "UPDATE"]);
        place.policy("Mutating", &format!("asked-{}", reinvocation.to_lowercase()), spec, json!({}));
    }
    place.tries("asked", json!({}));
    let patch: Value = json!({"mutations": patched(&[r#"[JSONPatch{op: "test", path: "/data/a", value: "1"}]"#]), "reinvocationPolicy": "IfNeeded"});
    place.mutating("idle", patch, json!({}));
    place.tries("idle", json!({}));
    place.compare();
}
