//! Compares each plugin with kube-apiserver's own.

use crate::harness::differential::{Case, compare, compare_when};
use crate::harness::{Api, Proxy, User, Webhook, delete, get, patch, post, put, unique, upstream};
use serde_json::{Value, json};

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
           "spec": {"containers": [{"name": "a", "image": "a", "imagePullPolicy": "IfNotPresent"}, {"name": "b", "image": "b:1"}],
                    "initContainers": [{"name": "i", "image": "i", "imagePullPolicy": "Never"}]}})
}

pub(crate) fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}})
}

pub(crate) fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

fn as_developer(requests: Vec<crate::harness::Request>) -> Vec<(User, crate::harness::Request)> {
    requests.into_iter().map(|request| (User::developer(), request)).collect()
}

#[test]
fn odd_bodies_and_versions_are_refused_alike() {
    let here = unique("odd");
    let maps = format!("/api/v1/namespaces/{here}/configmaps");
    let with = |pointer: &str, field: &str, value: Value| {
        let mut object = config_map("one");
        object.pointer_mut(pointer).unwrap()[field] = value;
        object
    };
    let versions = [json!(1), json!(1.5), json!(true), json!({}), json!("abc"), json!("-1"), json!("+7"), json!("7")];
    let applied = |version: Value| {
        let object = with("/metadata", "resourceVersion", version);
        [
            patch(&format!("{maps}/one?fieldManager=me&force=true"), "apply", &object),
            put(&format!("{maps}/one"), &object),
        ]
    };
    let mut steps = vec![
        post(&maps, &with("", "Kind", json!("Secret"))),
        post(&maps, &with("", "KIND", json!(1))),
        post(&maps, &with("", "Apiversion", json!("v2"))),
        post(&maps, &config_map("one")),
        put(&format!("{maps}/one"), &with("", "Kind", json!("Secret"))),
        put(&format!("{maps}/one"), &with("/metadata", "uid", json!(format!("not {{uid of {maps}/one}}")))),
    ];
    steps.extend(versions.into_iter().flat_map(applied));
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    for path in [
        // Paths without a route.
        &format!("{reviews}/one"),
        &format!("/api/v1/namespaces/{here}/bindings/one"),
        "/apis/apps/v9/namespaces/default/deployments",
        "/apis/apps/v9/namespaces/default/deployments/one",
        "/apis/nope.example.com/v1/things/one",
        "/api/v9/pods",
    ] {
        steps.extend([post(path, &json!({})), put(path, &json!({})), delete(path)]);
    }
    compare(&Case {
        plugins: &["NamespaceLifecycle"],
        setup: vec![post("/api/v1/namespaces", &namespace(&here))],
        webhook: None,
        steps: as_developer(steps),
    });
}

#[test]
fn a_patched_object_that_cannot_be_decoded_is_shown_as_by_kube_apiserver() {
    let proxy = Proxy::before(upstream(), &[]);
    let here = proxy.namespace("undecodable");
    let object = |labels: Value| {
        let mut object = config_map("one");
        object["metadata"]["labels"] = labels;
        object
    };
    let at = format!("/api/v1/namespaces/{here}/configmaps");
    proxy.accepts(post(&at, &object(json!({"z": "1", "a": "<2>"}))));
    let at = format!("{at}/one");
    for request in [
        patch(&at, "merge", &json!({"data": {"n": 1.0, "m": {"z": 1, "a": null}}})),
        patch(&at, "merge", &json!({"metadata": {"labels": {"b": 1}}})),
        patch(&at, "merge", &json!({"metadata": {"finalizers": "x"}})),
        patch(&at, "json", &json!([{"op": "add", "path": "/data/n", "value": {"z": "<", "a": null}}])),
        patch(&at, "json", &json!([{"op": "replace", "path": "/metadata/labels/a", "value": 1}])),
        patch(
            &at,
            "json",
            &json!([{"op": "test", "path": "/metadata/name", "value": "one"}, {"op": "add", "path": "/data/n", "value": 1}]),
        ),
        patch(&at, "json", &json!([{"op": "copy", "from": "/metadata/labels", "path": "/data/n"}])),
        patch(&format!("{at}?fieldValidation=Strict"), "merge", &json!({"x": {"z": 1, "a": 2}})),
    ] {
        let [got, expected] = [&*proxy as &Api, upstream()].map(|api| api.send(&User::admin(), request.clone()));
        assert_eq!((got.status, got.json()), (expected.status, expected.json()), "{}", expected.text());
        assert_eq!(got.status, 422);
    }
}

#[test]
fn preconditions_hold_in_every_place_and_limit_ranges_need_no_name() {
    let proxy = Proxy::before(upstream(), &[]);
    let here = proxy.namespace("preconditions");
    let maps = format!("/api/v1/namespaces/{here}/configmaps");
    let wrong =
        [json!({"uid": ""}), json!({"resourceVersion": ""}), json!({"uid": "x"}), json!({"resourceVersion": "1"})];
    proxy.accepts(post(&maps, &config_map("one")));
    let with_body = |path: &str, preconditions: &Value| {
        let mut request =
            post(path, &json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}));
        request.method = "DELETE".into();
        request
    };
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things.{here}.e2e.test")},
        "spec": {"group": format!("{here}.e2e.test"), "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": false, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    proxy.accepts(post(definitions, &definition));
    for path in [
        format!("{maps}/one"),
        format!("{maps}?fieldSelector=metadata.name%3Done"),
        format!("/api/v1/namespaces/{here}"),
        format!("{definitions}/things.{here}.e2e.test"),
        format!("{definitions}?fieldSelector=metadata.name%3Dthings.{here}.e2e.test"),
    ] {
        let and = if path.contains('?') { '&' } else { '?' };
        let mut requests: Vec<_> = wrong.iter().map(|preconditions| with_body(&path, preconditions)).collect();
        requests.extend(["uid=x", "resourceVersion=1"].map(|query| delete(&format!("{path}{and}{query}"))));
        for request in requests {
            let answers = [&*proxy as &Api, upstream()].map(|api| api.send(&User::admin(), request.clone()));
            assert_eq!(
                answers.each_ref().map(|answer| answer.status),
                [409, 409],
                "{} {}",
                request.path,
                String::from_utf8_lossy(&request.body)
            );
            let [got, expected] = answers.map(|answer| answer.json());
            assert_eq!(got, expected);
        }
    }
    assert_eq!(proxy.send(&User::admin(), delete(&format!("{maps}/one?uid=&resourceVersion="))).status, 200);
    let lease = format!("/apis/coordination.k8s.io/v1/namespaces/{here}/leases/new");
    let new = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "new", "uid": "x"}});
    assert_eq!(proxy.send(&User::admin(), put(&lease, &new)).status, 409);
    assert_eq!(proxy.send(&User::admin(), get(&lease)).status, 404);
    let range = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {}, "spec": {"limits": []}});
    let named = proxy.accepts(post(&format!("/api/v1/namespaces/{here}/limitranges"), &range));
    assert_eq!(named["metadata"]["name"].as_str().map(str::len), Some(36));
}

#[test]
fn pulls_images_always_and_keeps_namespaces_in_order() {
    let here = unique("always-pull");
    let pods = format!("/api/v1/namespaces/{here}/pods");
    let one = format!("{pods}/one");
    compare(&Case {
        plugins: &["NamespaceLifecycle", "AlwaysPullImages"],
        setup: vec![post("/api/v1/namespaces", &namespace(&here))],
        webhook: None,
        steps: as_developer(vec![
            post(&pods, &pod("one")),
            get(&one),
            post(&pods, &pod("one")),
            post(
                &pods,
                &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "some-"},
                                "spec": {"containers": [{"name": "a", "image": "a"}]}}),
            ),
            post(&format!("{pods}?dryRun=All"), &pod("dry")),
            post(&pods, &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "empty"}, "spec": {}})),
            post(&pods, &json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "other"}})),
            post(
                &pods,
                &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "namespace": "elsewhere"}}),
            ),
            patch(&one, "strategic", &json!({"spec": {"containers": [{"name": "a", "image": "a:2"}]}})),
            patch(&one, "merge", &json!({"metadata": {"labels": {"a": "b"}}})),
            patch(&one, "json", &json!([{"op": "add", "path": "/metadata/labels/c", "value": "d"}])),
            patch(&one, "json", &json!([{"op": "test", "path": "/metadata/labels/c", "value": "not d"}])),
            patch(
                &format!("{one}?fieldManager=me"),
                "apply",
                &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one", "annotations": {"x": "y"}}}),
            ),
            patch(&format!("{pods}/missing"), "merge", &json!({"metadata": {"labels": {"a": "b"}}})),
            delete(&format!("{pods}/missing")),
            delete(&format!("{one}?gracePeriodSeconds=0")),
            post("/api/v1/namespaces/nowhere/pods", &pod("one")),
            post("/api/v1/namespaces/nowhere/configmaps", &config_map("one")),
            delete("/api/v1/namespaces/default"),
            delete("/api/v1/namespaces/kube-system"),
        ]),
    });
}

#[test]
fn always_admit_neither_refuses_nor_changes_a_write() {
    let here = unique("always-admit");
    let maps = format!("/api/v1/namespaces/{here}/configmaps");
    compare(&Case {
        plugins: &["AlwaysAdmit"],
        setup: vec![post("/api/v1/namespaces", &namespace(&here))],
        webhook: None,
        steps: as_developer(vec![
            post(&maps, &config_map("one")),
            post(&maps, &config_map("Not a name")),
            put(&format!("{maps}/one"), &config_map("one")),
            patch(&format!("{maps}/one"), "merge", &json!({"data": {"k": "w"}})),
            post(&format!("/api/v1/namespaces/{here}-none/configmaps"), &config_map("one")),
            delete(&format!("{maps}/one")),
            delete(&format!("/api/v1/namespaces/{here}")),
        ]),
    });
}

#[test]
fn always_deny_denies_every_write() {
    let maps = "/api/v1/namespaces/default/configmaps";
    let steps = vec![
        post(maps, &config_map("one")),
        post(&format!("{maps}?dryRun=All"), &config_map("one")),
        put(&format!("{maps}/one"), &config_map("one")),
        post("/api/v1/namespaces", &namespace("denied")),
        delete("/api/v1/namespaces/default"),
        post(
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            &json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
                     "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}),
        ),
        get("/api/v1/namespaces/default/configmaps/one"),
    ];
    compare(&Case {
        plugins: &["AlwaysDeny"],
        setup: Vec::new(),
        webhook: None,
        steps: steps.into_iter().map(|request| (User::admin(), request)).collect(),
    });
}

#[test]
fn webhooks_are_asked_the_same_and_heeded_the_same() {
    let webhook = Webhook::start();
    let (open, closed) = (unique("hooked"), unique("denied"));
    let maps = format!("/api/v1/namespaces/{open}/configmaps");
    let denied = format!("/api/v1/namespaces/{closed}/configmaps");
    let registrations = "/apis/admissionregistration.k8s.io/v1";
    compare(&Case {
        plugins: &["NamespaceLifecycle", "MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"],
        setup: vec![
            post("/api/v1/namespaces", &namespace(&open)),
            post("/api/v1/namespaces", &namespace(&closed)),
            post(
                &format!("{registrations}/mutatingwebhookconfigurations"),
                &webhook.configuration("Mutating", &open, &open, &["/label/a/b", "/label/c/d"]),
            ),
            post(
                &format!("{registrations}/validatingwebhookconfigurations"),
                &webhook.configuration("Validating", &closed, &closed, &["/deny"]),
            ),
            post(
                &format!("{registrations}/validatingwebhookconfigurations"),
                &webhook.configuration("Validating", &open, &open, &["/warn", "/allow"]),
            ),
        ],
        webhook: Some((&webhook, post(&format!("{maps}?dryRun=All"), &config_map("probe")), 4)),
        steps: as_developer(vec![
            post(&maps, &config_map("one")),
            put(&format!("{maps}/one"), &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}})),
            patch(&format!("{maps}/one"), "merge", &json!({"data": {"k": "w"}})),
            delete(&format!("{maps}/one")),
            post(&maps, &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "some-"}})),
            post(&denied, &config_map("one")),
            get(&format!("{denied}/one")),
        ]),
    });
}

#[test]
fn unknown_and_duplicate_fields_and_wrong_types_get_the_same_answers() {
    let here = unique("strict");
    let maps = format!("/api/v1/namespaces/{here}/configmaps");
    let one = format!("{maps}/one");
    let group = format!("{here}.test");
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("widgets.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget", "singular": "widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": {"color": {"type": "string"}, "size": {"type": "integer", "default": 1}}}}}}}]}});
    let widgets = format!("/apis/{group}/v1/namespaces/{here}/widgets");
    let widget = format!("{widgets}/w");
    let text = |method: &str, path: &str, kind: &str, text: &str| {
        let content_type = match kind {
            "whole" => "application/json",
            "yaml" => "application/yaml",
            "merge" => "application/merge-patch+json",
            "strategic" => "application/strategic-merge-patch+json",
            "json" => "application/json-patch+json",
            _ => "application/apply-patch+yaml",
        };
        crate::harness::Request::new(method, path).body(content_type, text.to_owned())
    };
    let whole =
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one","nope":1},"data":{"a":"1","a":"2"},"x":1}"#;
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\ndata: {a: b, a: c}\nx: 1\n";
    let fields = r#"{"data":{"b":"1","b":"2"},"x":{"y":[1,"z"]},"metadata":{"nope":true}}"#;
    let operations = r#"[{"op":"add","path":"/x","value":1,"value":2,"why":0}]"#;
    let applied = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one"},"data":{"c":"1"}}"#;
    let custom = format!(
        r#"{{"apiVersion":"{group}/v1","kind":"Widget","metadata":{{"name":"w","nope":1}},"spec":{{"color":"red","color":"blue","x":1}}}}"#
    );
    let mut steps = Vec::new();
    for validation in ["Strict", "Warn", "Ignore"] {
        let with = |path: &str| format!("{path}?fieldValidation={validation}&fieldManager=e2e");
        steps.extend([
            text("POST", &with(&maps), "whole", whole),
            post(&maps, &config_map("one")),
            post(&widgets, &json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": {"name": "w"}})),
            text("PUT", &with(&one), "whole", whole),
            text("PUT", &with(&one), "yaml", yaml),
            text("PATCH", &with(&one), "merge", fields),
            text("PATCH", &with(&one), "strategic", fields),
            text("PATCH", &with(&one), "json", operations),
            text("PATCH", &with(&one), "apply", applied),
            text("POST", &with(&widgets), "whole", &custom),
            text("PATCH", &with(&widget), "merge", r#"{"spec":{"x":1,"size":2,"size":3}}"#),
            text("PATCH", &with(&widget), "json", r#"[{"op":"add","path":"/spec/y","value":1}]"#),
            delete(&format!("{maps}/one")),
            delete(&widget),
            post(&maps, &config_map("one")),
        ]);
    }
    let wrong = r#"{"data":{"k":1}}"#;
    steps.extend([
        text("POST", &maps, "whole", wrong),
        text("PUT", &one, "whole", wrong),
        text("PATCH", &one, "merge", wrong),
        text("PATCH", &one, "strategic", wrong),
        text("PATCH", &one, "json", r#"[{"op":"add","path":"/data/k","value":1}]"#),
        text(
            "PATCH",
            &format!("{one}?fieldManager=e2e"),
            "apply",
            r#"{"apiVersion":"v1","kind":"ConfigMap","data":{"k":1}}"#,
        ),
        text("PATCH", &one, "merge", r#"{"metadata":{"labels":[]}}"#),
        text("PATCH", &one, "strategic", r#"{"metadata":{"labels":[]}}"#),
        text("PATCH", &one, "strategic", r#"{"metadata":{"generation":1.5}}"#),
        text("PATCH", &one, "strategic", r#"{"metadata":7}"#),
        text("PATCH", &one, "strategic", r#"{"metadata":{"ownerReferences":[{"uid":1}]}}"#),
        text("PATCH", &one, "strategic", r#"{"immutable":"yes"}"#),
    ]);
    let probe = json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": {"name": "probe"}});
    let served = post(&format!("{widgets}?dryRun=All"), &probe);
    let case = Case {
        plugins: &["NamespaceLifecycle"],
        setup: vec![
            post("/api/v1/namespaces", &namespace(&here)),
            post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition),
        ],
        webhook: None,
        steps: as_developer(steps),
    };
    compare_when(&[(User::developer(), served, 201)], &case);
}
