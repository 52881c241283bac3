//! Mutating hooks: in series, with the object as patched so far, and again after a reinvocation is requested.

use super::*;
use crate::backend::testing::{HookServer, Reply, patch};
use crate::object::normal;

fn labels(attributes: &Attributes) -> Value {
    attributes.object.as_ref().unwrap().labels().cloned().map_or(Value::Null, Value::Object)
}

#[tokio::test]
async fn each_hook_sees_the_object_as_the_ones_before_left_it() {
    let strip = patch(&json!([{"op": "remove", "path": "/metadata/labels/watch"}]));
    let server = HookServer::start(&[("strip", Reply::Response(strip))]).await;
    let watching = json!({"objectSelector": {"matchLabels": {"watch": "yes"}}});
    let world = mutating(&[
        at(&server, "a.lab.dev", "/label/watch/yes", json!({})),
        at(&server, "b.lab.dev", "/strip", watching.clone()),
        at(&server, "c.lab.dev", "/deny", watching),
        at(&server, "d.lab.dev", "/label/end/1", json!({})),
    ]);
    let mut attributes = create(configmap());
    world.plugin.admit(&mut attributes).await.unwrap();
    assert_eq!(server.paths(), ["/label/watch/yes", "/strip", "/label/end/1"]);
    assert_eq!(labels(&attributes), json!({"end": "1"}));
    assert!(attributes.object.as_ref().unwrap().is_changed());
    assert_eq!(server.seen()[1].review["request"]["object"]["metadata"]["labels"], json!({"watch": "yes"}));
    let annotations = attributes.annotations.take();
    let value = |key: &str| annotations.iter().find(|(k, _, _)| k == key).map(|(_, value, level)| (&**value, *level));
    let mutated = r#"{"configuration":"c","webhook":"d.lab.dev","mutated":true}"#;
    assert_eq!(
        value("mutation.webhook.admission.k8s.io/round_0_index_3"),
        Some((mutated, crate::admission::Level::Metadata))
    );
    assert_eq!(value("mutation.webhook.admission.k8s.io/round_0_index_2"), None);
    let patched = r#"{"configuration":"c","webhook":"b.lab.dev","patch":[{"op":"remove","path":"/metadata/labels/watch"}],"patchType":"JSONPatch"}"#;
    assert_eq!(
        value("patch.webhook.admission.k8s.io/round_0_index_1"),
        Some((patched, crate::admission::Level::Request))
    );
}

const GENERATION: &str = "deprecated.daemonset.template.generation";

/// A create of a daemon set of this generation.
fn daemon_set(generation: &str) -> Attributes {
    let kind = GroupVersionKind::new("apps", "v1", "DaemonSet");
    let metadata = json!({"name": "c", "annotations": {GENERATION: generation}});
    let object = json!({"metadata": metadata, "spec": {"template": {"spec": {"serviceAccountName": "old"}}}});
    let mut attributes = create(normal::built_in(&kind, object).unwrap().unwrap().object.into_value());
    attributes.resource = GroupVersionResource::new("apps", "v1", "daemonsets");
    attributes.kind = kind;
    attributes
}

#[tokio::test]
async fn a_patched_object_is_converted_after_the_last_hook() {
    let account = "/spec/template/spec/serviceAccountName";
    let change = patch(&json!([{"op": "remove", "path": "/metadata/annotations"},
        {"op": "replace", "path": account, "value": "new"}]));
    let server = HookServer::start(&[("change", Reply::Response(change))]).await;
    let rule = json!({"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["*"]});
    let hook = |name: &str, path: &str| at(&server, name, path, json!({ "rules": [rule] }));
    // Conditions do not convert an object that is in the wanted version already.
    let conditions =
        json!({"rules": [rule], "matchConditions": [{"name": "c", "expression": "!has(object.metadata.annotations)"}]});
    let hooks =
        [hook("a.lab.dev", "/change"), at(&server, "b.lab.dev", "/allow", conditions), hook("c.lab.dev", "/label/a/b")];
    let mut attributes = daemon_set("5");
    mutating(&hooks).plugin.admit(&mut attributes).await.unwrap();
    assert_eq!(server.paths(), ["/change", "/allow", "/label/a/b"]);
    for seen in &server.seen()[1..] {
        let shown = &seen.review["request"]["object"];
        assert_eq!(shown["metadata"].get("annotations"), None);
        let spec = &shown["spec"]["template"]["spec"];
        assert_eq!((&spec["serviceAccountName"], &spec["serviceAccount"]), (&json!("new"), &json!("old")));
    }
    let object = attributes.object.as_ref().unwrap();
    assert_eq!(object.get(&["metadata", "annotations"]), Some(&json!({GENERATION: "5"})));
    assert_eq!(object.str(&["spec", "template", "spec", "serviceAccount"]), "new");
    assert_eq!(labels(&attributes), json!({"a": "b"}));
}

#[tokio::test]
async fn an_object_that_cannot_be_converted_is_refused_after_the_last_hook() {
    let change = patch(&json!([{"op": "add", "path": "/metadata/annotations", "value": {GENERATION: "x"}}]));
    let server = HookServer::start(&[("change", Reply::Response(change))]).await;
    let rule = json!({"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["*"]});
    let hook = |name: &str, path: &str| at(&server, name, path, json!({"rules": [rule], "failurePolicy": "Ignore"}));
    let mut attributes = daemon_set("5");
    let world = mutating(&[hook("a.lab.dev", "/change"), hook("b.lab.dev", "/allow")]);
    let status = refused(world.plugin.admit(&mut attributes).await, &attributes);
    assert_eq!((status.code, &*status.message), (500, r#"strconv.ParseInt: parsing "x": invalid syntax"#));
    assert_eq!(server.paths(), ["/change", "/allow"]);
}

#[tokio::test]
async fn the_first_refusal_ends_it() {
    let server = HookServer::start(&[]).await;
    let world = mutating(&[
        at(&server, "a.lab.dev", "/warn", json!({})),
        at(&server, "b.lab.dev", "/deny", json!({"failurePolicy": "Ignore"})),
        at(&server, "c.lab.dev", "/allow", json!({})),
    ]);
    let mut attributes = create(configmap());
    let status = refused(world.plugin.admit(&mut attributes).await, &attributes);
    let want = "admission webhook \"b.lab.dev\" denied the request: denied by the lab";
    assert_eq!((status.code, &*status.reason, &*status.message), (400, "", want));
    assert_eq!(server.paths(), ["/warn", "/deny"]);
    assert_eq!(attributes.context.warnings.header_values(), [r#"299 - "first warning""#, r#"299 - "second warning""#]);
    let annotations = attributes.annotations.take();
    assert!(annotations.iter().any(|(key, value, _)| key == "a.lab.dev/lab" && value == "seen"));
    let denied = r#"{"configuration":"c","webhook":"b.lab.dev","mutated":false}"#;
    assert!(annotations.iter().any(|(_, value, _)| value == denied));
    assert!(world.metric(r#"apiserver_admission_webhook_rejection_count{error_type="no_error",name="b.lab.dev",operation="CREATE",rejection_code="400",type="admit"} 1"#));
    assert!(world.metric(r#"apiserver_admission_webhook_request_total{code="200",name="a.lab.dev",operation="CREATE",rejected="false",type="admit"} 1"#));
}

#[tokio::test]
async fn patches_that_cannot_be_used_obey_the_policy_and_those_that_do_not_apply_do_not() {
    let raw = |text: &str| {
        use base64::Engine;
        json!({"patchType": "JSONPatch", "patch": base64::engine::general_purpose::STANDARD.encode(text)})
    };
    let mut merge = patch(&json!([{"op": "add", "path": "/data", "value": {}}]));
    merge["patchType"] = "MergePatch".into();
    let add = |path: &str, value: Value| Reply::Response(patch(&json!([{"op": "add", "path": path, "value": value}])));
    let server = HookServer::start(&[
        ("undecodable", Reply::Response(raw("nope"))),
        ("merge", Reply::Response(merge)),
        ("remove", Reply::Response(patch(&json!([{"op": "remove", "path": "/data/nope"}])))),
        ("labels", add("/metadata/labels", json!({"n": 5}))),
        ("kind", add("/kind", json!("Nonsense"))),
        ("version", add("/apiVersion", json!("v2"))),
        ("secret", add("/kind", json!("Secret"))),
        ("number", add("/data", json!({"n": 5}))),
        ("list", add("/data", json!(["a"]))),
        ("nokind", Reply::Response(patch(&json!([{"op": "remove", "path": "/kind"}])))),
        ("empty", Reply::Response(raw("[]"))),
    ])
    .await;
    let scheme = "in scheme \"pkg/runtime/scheme.go:111\"";
    for (path, covered, want) in [
        (
            "undecodable",
            true,
            "received undecodable patch in webhook response: invalid character 'o' in literal null (expecting 'u')"
                .to_owned(),
        ),
        ("merge", true, "unsupported patch type \"MergePatch\"".into()),
        (
            "remove",
            false,
            "error in remove for path: '/data/nope': Unable to remove nonexistent key: nope: missing value".into(),
        ),
        (
            "labels",
            false,
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string".into(),
        ),
        ("number", false, "json: cannot unmarshal number into Go struct field ConfigMap.data of type string".into()),
        (
            "list",
            false,
            "json: cannot unmarshal array into Go struct field ConfigMap.data of type map[string]string".into(),
        ),
        ("kind", false, format!("no kind \"Nonsense\" is registered for version \"v1\" {scheme}")),
        ("version", false, format!("no kind \"ConfigMap\" is registered for version \"v2\" {scheme}")),
    ] {
        let world =
            |policy: &str| mutating(&[at(&server, "w.lab.dev", &format!("/{path}"), json!({"failurePolicy": policy}))]);
        let mut attributes =
            create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}}));
        let status = refused(world("Fail").plugin.admit(&mut attributes).await, &attributes);
        let ignored = world("Ignore").plugin.admit(&mut attributes).await;
        if covered {
            assert_eq!(failed_calling(&status, "w.lab.dev"), want);
            ignored.unwrap();
        } else {
            assert_eq!(status.message, format!("Internal error occurred: {want}"));
            assert_eq!(refused(ignored, &attributes).message, status.message);
        }
    }
    let world = mutating(&[at(&server, "w.lab.dev", "/secret", json!({}))]);
    let mut attributes = create(configmap());
    let status = refused(world.plugin.admit(&mut attributes).await, &attributes);
    let want = "converting (v1.Secret) to (core.ConfigMap): unknown conversion";
    assert_eq!((status.code, &*status.reason, &*status.message), (500, "", want));

    let world =
        mutating(&[at(&server, "w.lab.dev", "/nokind", json!({})), at(&server, "v.lab.dev", "/empty", json!({}))]);
    let mut attributes = create(configmap());
    world.plugin.admit(&mut attributes).await.unwrap();
    assert_eq!(attributes.object.as_ref().unwrap().kind(), "ConfigMap");
    assert!(!attributes.reinvocation.requested);
}

#[tokio::test]
async fn an_operation_without_an_object_cannot_be_patched() {
    let server = HookServer::start(&[]).await;
    let world = mutating(&[at(&server, "w.lab.dev", "/label/a/b", json!({"failurePolicy": "Ignore"}))]);
    let mut attributes = create(configmap());
    attributes.operation = Operation::Delete;
    attributes.old_object = attributes.object.take().map(Arc::new);
    let status = refused(world.plugin.admit(&mut attributes).await, &attributes);
    let want = "Internal error occurred: admission webhook \"w.lab.dev\" attempted to modify the object, which is not supported for this operation";
    assert_eq!(status.message, want);
}

/// Runs a second pass, as the chain does.
async fn again(world: &World<MutatingWebhooks>, attributes: &mut Attributes) {
    assert!(attributes.reinvocation.requested);
    attributes.reinvocation.is_reinvoke = true;
    world.plugin.admit(attributes).await.unwrap();
}

#[tokio::test]
async fn only_opted_in_hooks_are_called_again_and_only_after_a_later_change() {
    let server = HookServer::start(&[]).await;
    let if_needed = |selector: Value| json!({"reinvocationPolicy": "IfNeeded", "objectSelector": selector});
    let late = json!({"matchLabels": {"late": "1"}});
    let world = mutating(&[
        at(&server, "never.lab.dev", "/allow/never", json!({})),
        at(&server, "uncalled.lab.dev", "/allow/uncalled", if_needed(late)),
        at(&server, "early.lab.dev", "/allow/early", if_needed(json!({}))),
        at(&server, "late.lab.dev", "/label/late/1", if_needed(json!({}))),
        at(&server, "after.lab.dev", "/allow/after", if_needed(json!({}))),
    ]);
    let mut attributes = create(configmap());
    world.plugin.admit(&mut attributes).await.unwrap();
    let first = ["/allow/never", "/allow/early", "/label/late/1", "/allow/after"];
    assert_eq!(server.paths(), first);
    again(&world, &mut attributes).await;
    assert_eq!(server.paths()[first.len()..], ["/allow/early"]);
    let annotations = attributes.annotations.take();
    let second = "mutation.webhook.admission.k8s.io/round_1_index_2";
    assert!(annotations.iter().any(|(key, _, _)| key == second), "{annotations:?}");
}

#[tokio::test]
async fn a_plugins_change_between_the_passes_calls_all_opted_in_hooks_again() {
    let server = HookServer::start(&[]).await;
    let world = mutating(&[
        at(&server, "a.lab.dev", "/allow/a", json!({"reinvocationPolicy": "IfNeeded"})),
        at(&server, "b.lab.dev", "/label/b/1", json!({"reinvocationPolicy": "IfNeeded"})),
        at(&server, "c.lab.dev", "/allow/c", json!({})),
    ]);
    let mut attributes = create(configmap());
    world.plugin.admit(&mut attributes).await.unwrap();
    assert!(attributes.object.as_mut().unwrap().set(&["data", "x"], json!("by a plugin")));
    again(&world, &mut attributes).await;
    assert_eq!(server.paths()[3..], ["/allow/a", "/label/b/1"]);
}

#[tokio::test]
async fn a_patch_that_changes_nothing_asks_for_no_second_pass() {
    let same = patch(
        &json!([{"op": "add", "path": "/metadata/name", "value": "c"}, {"op": "add", "path": "/metadata/finalizers", "value": []}]),
    );
    let server = HookServer::start(&[("same", Reply::Response(same))]).await;
    let world = mutating(&[at(&server, "w.lab.dev", "/same", json!({}))]);
    let mut attributes = create(configmap());
    world.plugin.admit(&mut attributes).await.unwrap();
    assert!(!attributes.reinvocation.requested);
    let annotations = attributes.annotations.take();
    assert!(annotations.iter().any(|(key, _, _)| key.starts_with("patch.webhook")));
    assert!(annotations.iter().any(|(_, value, _)| value.ends_with("\"mutated\":false}")));
}

#[tokio::test]
async fn the_first_patch_is_a_change_where_it_takes_the_fractions_of_times_away() {
    let same = patch(&json!([{"op": "add", "path": "/metadata/name", "value": "c"}]));
    let server = HookServer::start(&[("same", Reply::Response(same))]).await;
    let if_needed = || json!({"reinvocationPolicy": "IfNeeded"});
    let hook = |name: &str| at(&server, name, "/same", if_needed());
    let world = mutating(&[at(&server, "a.lab.dev", "/allow", if_needed()), hook("b.lab.dev"), hook("c.lab.dev")]);
    let mut attributes = create(configmap());
    attributes.reinvocation.has_fine_times = true;
    world.plugin.admit(&mut attributes).await.unwrap();
    assert_eq!(server.paths(), ["/allow", "/same", "/same"]);
    again(&world, &mut attributes).await;
    assert_eq!(server.paths()[3..], ["/allow"]);
}

#[tokio::test]
async fn a_request_is_not_decided_before_the_caches_are_synced() {
    tokio::time::pause();
    let world = mutating_in(FixedState { unsynced: true, ..default_state() });
    let mut attributes = create(configmap());
    let status = refused(world.plugin.admit(&mut attributes).await, &attributes);
    assert_eq!(status.message, "configmaps \"c\" is forbidden: not yet ready to handle request");
}

#[tokio::test]
async fn a_configuration_that_cannot_be_decoded_is_not_left_out() {
    let world = mutating_in(default_state().undecodable::<MutatingWebhookConfiguration>(&["odd"]));
    let mut attributes = create(configmap());
    let status = refused(world.plugin.admit(&mut attributes).await, &attributes);
    assert_eq!((status.code, status.message.contains("\"odd\"")), (500, true), "{status}");
}

#[tokio::test]
async fn a_patched_custom_resource_gets_defaults_and_is_not_pruned() {
    let add = patch(&json!([{"op": "add", "path": "/spec", "value": {"unknown": 1, "nested": {}}}]));
    let server = HookServer::start(&[("add", Reply::Response(add))]).await;
    let rule = json!({"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]});
    let hooks = [
        at(&server, "a.lab.dev", "/add", json!({"rules": [rule]})),
        at(&server, "b.lab.dev", "/allow", json!({"rules": [rule]})),
    ];
    let nested = json!({"type": "object", "properties": {"a": {"type": "string", "default": "x"}}});
    let schema =
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"nested": nested}}}});
    let definition = serde_json::from_value(json!({
        "metadata": {"name": "widgets.lab.dev"},
        "spec": {"group": "lab.dev", "versions": [
            {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}
        ]},
        "status": {"acceptedNames": {"kind": "Widget"}}
    }));
    let state = FixedState { mutating_webhooks: vec![configuration(&hooks)], ..default_state() };
    let world = mutating_in(state.cached::<crate::cluster::Definition>(vec![definition.unwrap()]));
    let mut attributes = create(json!({"apiVersion": "lab.dev/v1", "kind": "Widget", "metadata": {"name": "c"}}));
    attributes.kind = GroupVersionKind::new("lab.dev", "v1", "Widget");
    attributes.resource = GroupVersionResource::new("lab.dev", "v1", "widgets");
    world.plugin.admit(&mut attributes).await.unwrap();
    let spec = json!({"unknown": 1, "nested": {"a": "x"}});
    assert_eq!(attributes.object.unwrap().get(&["spec"]), Some(&spec));
    assert_eq!(server.seen()[1].review["request"]["object"]["spec"], spec);
}

/// Answers a ConversionReview: `spec.a` of v1 is `spec.b` of v2.
fn renames(review: &Value) -> Value {
    let wanted = &review["request"]["desiredAPIVersion"];
    let mut object = review["request"]["objects"][0].clone();
    object["apiVersion"] = wanted.clone();
    let spec = object["spec"].as_object_mut().unwrap();
    let (from, to) = if wanted == "lab.dev/v2" { ("a", "b") } else { ("b", "a") };
    if let Some(value) = spec.remove(from) {
        spec.insert(to.into(), value);
    }
    json!({"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": {
        "uid": review["request"]["uid"], "result": {"status": "Success"}, "convertedObjects": [object]}})
}

#[tokio::test]
async fn hooks_that_want_another_version_share_its_objects_and_their_patches_come_back() {
    let change = patch(&json!([{"op": "replace", "path": "/spec/b", "value": 2}]));
    let server = HookServer::start(&[("convert", Reply::Made(renames)), ("change", Reply::Response(change))]).await;
    let wants = |version: &str| {
        let rule =
            json!({"apiGroups": ["lab.dev"], "apiVersions": [version], "operations": ["*"], "resources": ["gadgets"]});
        json!({ "rules": [rule] })
    };
    let hooks = [
        at(&server, "a.lab.dev", "/label/first/1", wants("v2")),
        at(&server, "b.lab.dev", "/change", wants("v2")),
        at(&server, "c.lab.dev", "/label/third/3", wants("v2")),
        at(&server, "d.lab.dev", "/allow", wants("v1")),
    ];
    let client = json!({"url": server.url("/convert"), "caBundle": server.ca_base64()});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object",
        "properties": {"size": {"type": "string", "default": "small"}}}}}});
    let definition = serde_json::from_value(json!({
        "metadata": {"name": "gadgets.lab.dev"},
        "spec": {"group": "lab.dev",
            "conversion": {"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}},
            "versions": [{"name": "v1", "served": true, "storage": true},
                {"name": "v2", "served": true, "storage": false, "schema": schema}]},
        "status": {"acceptedNames": {"kind": "Gadget"}}
    }));
    let state = || FixedState { mutating_webhooks: vec![configuration(&hooks)], ..default_state() };
    let world = mutating_in(state().cached::<crate::cluster::Definition>(vec![definition.unwrap()]));
    let gadget = json!({"apiVersion": "lab.dev/v1", "kind": "Gadget", "metadata": {"name": "c"}, "spec": {"a": 1}});
    let mut attributes = create(gadget.clone());
    attributes.operation = Operation::Update;
    attributes.kind = GroupVersionKind::new("lab.dev", "v1", "Gadget");
    attributes.resource = GroupVersionResource::new("lab.dev", "v1", "gadgets");
    attributes.old_object = Object::from_value(gadget).map(Arc::new);
    world.plugin.admit(&mut attributes).await.unwrap();

    // The old object and the new one are converted once for three hooks; then the changed object is converted back.
    let paths = ["/convert", "/convert", "/label/first/1", "/change", "/label/third/3", "/convert", "/allow"];
    assert_eq!(server.paths(), paths);
    let seen = server.seen();
    let request = &seen[2].review["request"];
    assert_eq!(request["kind"], json!({"group": "lab.dev", "version": "v2", "kind": "Gadget"}));
    assert_eq!(request["requestKind"]["version"], "v1");
    assert_eq!(request["resource"]["version"], "v2");
    assert_eq!(request["requestResource"]["version"], "v1");
    for object in ["object", "oldObject"] {
        assert_eq!(
            (&request[object]["apiVersion"], &request[object]["spec"]),
            (&json!("lab.dev/v2"), &json!({"b": 1}))
        );
    }
    assert_eq!(seen[4].review["request"]["object"]["spec"], json!({"b": 2, "size": "small"}));
    let object = attributes.object.as_ref().unwrap();
    assert_eq!((object.api_version(), object.get(&["spec"])), ("lab.dev/v1", Some(&json!({"a": 2, "size": "small"}))));
    assert_eq!(labels(&attributes), json!({"first": "1", "third": "3"}));
    assert_eq!(seen[6].review["request"]["object"]["spec"], json!({"a": 2, "size": "small"}));
    assert_eq!(seen[6].review["request"]["oldObject"]["spec"], json!({"a": 1}));
}

#[tokio::test]
async fn an_autoscaler_is_patched_in_the_version_that_the_hook_knows() {
    let change = patch(&json!([{"op": "add", "path": "/spec/targetCPUUtilizationPercentage", "value": 33}]));
    let server = HookServer::start(&[("cpu", Reply::Response(change))]).await;
    let rule = json!({"apiGroups": ["autoscaling"], "apiVersions": ["v1"], "operations": ["*"],
        "resources": ["horizontalpodautoscalers"]});
    let world = mutating(&[at(&server, "a.lab.dev", "/cpu", json!({ "rules": [rule] }))]);
    let kind = GroupVersionKind::new("autoscaling", "v2", "HorizontalPodAutoscaler");
    let target = json!({"type": "Utilization", "averageUtilization": 60});
    let object = json!({"metadata": {"name": "c"}, "spec": {"maxReplicas": 3,
        "scaleTargetRef": {"kind": "Deployment", "name": "d"},
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]}});
    let mut attributes = create(normal::built_in(&kind, object).unwrap().unwrap().object.into_value());
    attributes.resource = GroupVersionResource::new("autoscaling", "v2", "horizontalpodautoscalers");
    attributes.kind = kind;
    world.plugin.admit(&mut attributes).await.unwrap();
    let shown = &server.seen()[0].review["request"]["object"];
    assert_eq!(shown["apiVersion"], "autoscaling/v1");
    assert_eq!(shown["spec"]["targetCPUUtilizationPercentage"], 60);
    let object = attributes.object.unwrap();
    assert_eq!(object.api_version(), "autoscaling/v2");
    let metric = json!({"type": "Resource", "resource": {"name": "cpu",
        "target": {"type": "Utilization", "averageUtilization": 33}}});
    assert_eq!(object.get(&["spec", "metrics"]), Some(&json!([metric])));
}
