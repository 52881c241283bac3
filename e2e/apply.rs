//! Field ownership after a write that admission changed: fields that admission added have no manager, as in kube-apiserver.

use crate::harness::{
    Api, Pair, Proxy, Request, User, WEBHOOK_SECONDS, Webhook, eventually, get, patch, post, put, upstream,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// The managedFields of an object, without times.
fn owners(object: &Value) -> Vec<Value> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let timeless = |mut entry: Value| {
        entry.as_object_mut().unwrap().remove("time");
        entry
    };
    entries.into_iter().map(timeless).collect()
}

fn pod(name: &str, labels: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels},
           "spec": {"containers": [{"name": "a", "image": "i:1"}]}})
}

#[test]
fn fields_that_admission_adds_have_no_owner_and_stay() {
    let plugins = "--enable-admission-plugins=AlwaysPullImages";
    // No controller creates service accounts here.
    let proxy = Proxy::before(upstream(), &[plugins, "--disable-admission-plugins=ServiceAccount"]);
    let namespace = proxy.namespace("apply");
    let at = |name: &str| format!("/api/v1/namespaces/{namespace}/pods/{name}?fieldManager=me&force=true");
    let applied = |through_proxy: bool, name: &str, labels: Value| {
        let request = patch(&at(name), "apply", &pod(name, labels));
        if through_proxy { proxy.accepts(request) } else { upstream().accepts(request) }
    };
    let plain = applied(false, "plain", json!({"a": "1"}));
    let admitted = applied(true, "admitted", json!({"a": "1"}));
    assert_eq!(admitted["spec"]["containers"][0]["imagePullPolicy"], "Always");
    assert_eq!(admitted["spec"]["tolerations"].as_array().map(Vec::len), Some(2));
    assert_eq!(owners(&admitted), owners(&plain));
    // A second apply with other labels does not remove the fields that admission added.
    let plain = applied(false, "plain", json!({"b": "2"}));
    let again = applied(true, "admitted", json!({"b": "2"}));
    assert_eq!(again["metadata"]["labels"], json!({"b": "2"}));
    assert_eq!(again["spec"], admitted["spec"]);
    assert_eq!(owners(&again), owners(&plain));
}

#[test]
fn the_annotation_of_client_side_apply_is_renewed_as_in_kube_apiserver() {
    const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
    let proxy = Proxy::before(upstream(), &["--disable-admission-plugins=ServiceAccount"]);
    let sides: [&Api; 2] = [upstream(), &proxy];
    let seen = sides.map(|api| {
        let maps = format!("/api/v1/namespaces/{}/configmaps", proxy.namespace("renewed"));
        let at = format!("{maps}/a?fieldManager=kubectl");
        let object = |value: &str, annotations: Value| {
            let metadata = json!({"name": "a", "annotations": annotations});
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": value}})
        };
        let annotated = object("<1>", json!({ANNOTATION: object("<1>", json!({})).to_string()}));
        let first = api.accepts(post(&format!("{maps}?fieldManager=kubectl-client-side-apply"), &annotated));
        let applied = object("<2>", json!({"b": "c"}));
        let tried = api.accepts(patch(&format!("{at}&dryRun=All"), "apply", &applied));
        let second = api.accepts(patch(&at, "apply", &applied));
        let third = api.accepts(patch(&at, "apply", &applied));
        assert_eq!(second, third, "nothing changes");
        let mut new = object("1", json!({ANNOTATION: "{}"}));
        new["metadata"]["name"] = json!("b");
        let new = api.accepts(patch(&at.replace("/a?", "/b?"), "apply", &new));
        [first, tried, second, new].map(|object| (object["metadata"]["annotations"].clone(), owners(&object)))
    });
    assert_eq!(seen[0], seen[1]);
}

/// A webhook for objects with this label that responds with this patch.
fn hook(webhook: &Webhook, label: &str, operations: &Value) -> Value {
    let path = match operations {
        Value::Null => format!("/allow/{label}"),
        operations => format!("/patch/{}", URL_SAFE_NO_PAD.encode(operations.to_string())),
    };
    json!({
        "name": format!("{label}.e2e.test"),
        "clientConfig": webhook.client_config(&path),
        "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps", "pods"]}],
        "objectSelector": {"matchLabels": {"apply": label}},
        "sideEffects": "None",
        "timeoutSeconds": WEBHOOK_SECONDS,
        "admissionReviewVersions": ["v1"],
    })
}

fn hooks(name: &str, kind: &str, hooks: Vec<Value>) -> Request {
    let resource = format!("{}webhookconfigurations", kind.to_lowercase());
    let object = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}WebhookConfiguration"),
        "metadata": {"name": name}, "webhooks": hooks});
    post(&format!("/apis/admissionregistration.k8s.io/v1/{resource}"), &object)
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn map(name: &str, label: &str, more: Value) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    if !label.is_empty() {
        object["metadata"]["labels"] = json!({"apply": label});
    }
    object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    object
}

fn apply(manager: &str, query: &str, object: &Value) -> Request {
    let at = if object["kind"] == "Pod" { PODS } else { MAPS };
    let name = object["metadata"]["name"].as_str().unwrap();
    patch(&format!("{at}/{name}?fieldManager={manager}{query}"), "apply", object)
}

/// A patch that replaces the managedFields by an entry with these wrong fields.
fn books(wrong: Value) -> Value {
    let mut entry =
        json!({"manager": "hook", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}});
    entry.as_object_mut().unwrap().extend(wrong.as_object().unwrap().clone());
    json!([{"op": "add", "path": "/metadata/managedFields", "value": [entry]}])
}

#[test]
fn hooks_may_mend_an_invalid_object_and_make_changes_that_no_configuration_expresses() {
    let webhook = Webhook::start();
    let pair = Pair::start(&["MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"], &[], &[]);
    let patches = [
        ("mended", json!([{"op": "replace", "path": "/data/a", "value": "1"}])),
        ("shown", Value::Null),
        ("created", json!([{"op": "remove", "path": "/data/no key"}])),
        ("taken", json!([{"op": "remove", "path": "/data/theirs"}, {"op": "add", "path": "/data/hook", "value": "x"}])),
        ("named", json!([{"op": "add", "path": "/spec/containers/0/ports/1/name", "value": "dns"}])),
        ("no-operation", books(json!({"operation": "Nope"}))),
        ("no-version", books(json!({"apiVersion": ""}))),
        ("no-type", books(json!({"fieldsType": null}))),
        ("other-type", books(json!({"fieldsType": "FieldsV2"}))),
        ("another", books(json!({"operation": "Apply", "fieldsV1": {"f:data": {".": {}, "f:a": {}}}}))),
        ("nobody", json!([{"op": "remove", "path": "/metadata/managedFields"}])),
        ("probe", Value::Null),
    ];
    let of = |patches: &[(&str, Value)]| patches.iter().map(|(label, patch)| hook(&webhook, label, patch)).collect();
    let none = patches.clone().map(|(label, _)| (label, Value::Null));
    pair.set_up(&[hooks("apply", "Mutating", of(&patches)), hooks("apply", "Validating", of(&none))]);
    let ready = |api: &Api| {
        let probe = post(&format!("{MAPS}?dryRun=All"), &map("probe", "probe", json!({})));
        eventually("hooks that are known", || {
            api.send(&User::admin(), probe.clone());
            (webhook.take().len() == 2).then_some(())
        });
    };
    let fixed = |data: Value| json!({"immutable": true, "data": data});
    let pod = |name: &str, image: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"apply": "named"}},
            "spec": {"containers": [{"name": "c", "image": image, "ports": [{"containerPort": 53}, {"containerPort": 53, "protocol": "UDP"}]}]}})
    };
    let mut steps = Vec::new();
    for (name, label, data) in [
        ("mended", "mended", json!({"a": "2", "b": "2"})),
        ("shown", "shown", json!({"a": "2", "b": "2"})),
        ("pruned", "shown", json!({"b": "2"})),
        ("unseen", "", json!({"a": "2"})),
    ] {
        let others = json!({"name": name, "labels": {"other": "1"}, "annotations": {"other": "1"}});
        // The apply removes nothing that another manager owns.
        let mut changed = map(name, label, fixed(data));
        changed["metadata"]["annotations"] = Value::Null;
        steps.extend([
            apply("me", "", &map(name, "", fixed(json!({"a": "1", "b": "2"})))),
            apply("other", "", &map(name, "", json!({"metadata": others}))),
            apply("me", "", &changed),
            get(&format!("{MAPS}/{name}")),
        ]);
    }
    steps.extend([
        apply("me", "", &map("created", "created", json!({"data": {"no key": "1", "a": "1"}}))),
        apply("me", "", &map("not-created", "shown", json!({"data": {"no key": "1"}}))),
        post(MAPS, &map("taken", "", json!({"data": {"theirs": "1", "b": "1"}}))),
        apply("me", "&force=true", &map("taken", "taken", json!({"data": {"a": "1", "b": "2"}}))),
        get(&format!("{MAPS}/taken")),
        // The fields that the webhook owned are gone.
        apply("me", "", &map("taken", "", json!({"data": {"a": "1"}}))),
        apply("me", "", &pod("named", "i:1")),
        apply("me", "", &pod("named", "i:2")),
        get(&format!("{PODS}/named")),
    ]);
    for label in ["no-operation", "no-version", "no-type", "other-type", "another", "nobody"] {
        let applied = format!("{label}-applied");
        steps.extend([
            post(MAPS, &map(label, label, json!({"data": {"a": "1"}}))),
            patch(&format!("{MAPS}/{label}?dryRun=All"), "merge", &json!({"data": {"a": "3"}})),
            patch(&format!("{MAPS}/{label}"), "merge", &json!({"data": {"a": "2"}})),
            put(&format!("{MAPS}/{label}"), &map(label, label, json!({"data": {"a": "3"}}))),
            get(&format!("{MAPS}/{label}")),
            apply("me", "", &map(&applied, label, json!({"data": {"a": "1"}}))),
            apply("me", "", &map(&applied, label, json!({"data": {"a": "2"}}))),
            get(&format!("{MAPS}/{applied}")),
        ]);
    }
    let steps: Vec<_> = steps.into_iter().map(|step| (User::admin(), step)).collect();
    pair.compare_asked(&webhook, ready, &steps);
}

#[test]
fn fields_that_admission_changes_have_no_owner() {
    let webhook = Webhook::start();
    let pair = Pair::start(&["MutatingAdmissionWebhook"], &[], &[]);
    // The patch of each webhook.
    let kinds = [
        (
            "adds",
            json!([{"op": "add", "path": "/data/hook", "value": "x"},
                {"op": "add", "path": "/metadata/annotations", "value": {"hook": "x"}}]),
        ),
        ("reverts", json!([{"op": "replace", "path": "/data/a", "value": "1"}])),
        ("replaces", json!([{"op": "replace", "path": "/data/a", "value": "hook"}])),
        ("removes", json!([{"op": "remove", "path": "/data/b"}])),
        (
            "injects",
            json!([{"op": "add", "path": "/spec/containers/-", "value": {"name": "sidecar", "image": "s"}},
                {"op": "replace", "path": "/spec/containers/0/image", "value": "hook"},
                {"op": "add", "path": "/spec/activeDeadlineSeconds", "value": 30}]),
        ),
        ("none", Value::Null),
    ];
    let hooked = kinds.iter().map(|(label, patch)| hook(&webhook, label, patch)).collect();
    pair.set_up(&[hooks("owners", "Mutating", hooked)]);
    for api in pair.sides() {
        let probe = post(&format!("{MAPS}?dryRun=All"), &map("probe", "none", json!({})));
        eventually("hooks that are known", || {
            api.send(&User::admin(), probe.clone());
            (!webhook.take().is_empty()).then_some(())
        });
    }
    let mut cases = 0;
    for (label, _) in &kinds {
        for (way, before, request) in if *label == "injects" { pod_writes() } else { map_writes(label) } {
            let case = format!("{label}, {way}");
            let at = if *label == "injects" { format!("{PODS}/{way}") } else { format!("{MAPS}/{label}-{way}") };
            let [(expected_answer, expected), (answer, got)] = pair.sides().map(|api| {
                let answers = before.iter().chain([&request]).map(|request| {
                    let answer = api.send(&User::admin(), request.clone());
                    assert!(answer.status < 300, "{case}: {}", answer.text());
                    answer.json()
                });
                (answers.last().unwrap(), api.send(&User::admin(), get(&at)).json())
            });
            assert_eq!(sorted_owners(&answer), sorted_owners(&expected_answer), "{case}: the answer");
            assert_eq!(got["data"], expected["data"], "{case}");
            assert_eq!(got["spec"]["containers"], expected["spec"]["containers"], "{case}");
            assert_eq!(sorted_owners(&got), sorted_owners(&expected), "{case}");
            cases += 1;
        }
    }
    assert_eq!(cases, 5 * 10 + 2);
    // Successful and failed responses have the media type that the client accepts.
    for (number, accept) in
        ["application/vnd.kubernetes.protobuf", "application/yaml", "application/json;as=Table;v=v1;g=meta.k8s.io"]
            .into_iter()
            .enumerate()
    {
        let data = json!({"data": {"a": "1", "b": "1", "c": "1"}});
        let create = post(&format!("{MAPS}?includeObject=Object"), &map(&format!("form-{number}"), "adds", data));
        for code in [201, 409] {
            let [expected, got] = pair.sides().map(|api| {
                let answer = api.send(&User::admin(), create.clone().header("accept", accept));
                let row = (code == 201 && accept.contains("Table"))
                    .then(|| answer.json()["rows"][0]["object"]["kind"].clone());
                (answer.status, answer.header("content-type"), row)
            });
            assert_eq!((&got, got.0), (&expected, code), "{accept}");
        }
    }
}

#[test]
fn the_writer_of_a_status_does_not_own_what_admission_adds() {
    const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
    let webhook = Webhook::start();
    let pair = Pair::start(&["MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"], &[], &[]);
    let annotate = json!([{"op": "add", "path": "/metadata/annotations/hook", "value": "x"}]);
    let of = |kind: &str, patch: &Value| {
        let mut hook = hook(&webhook, "status", patch);
        hook["rules"][0]["apiGroups"] = json!(["apps"]);
        hook["rules"][0]["resources"] = json!(["deployments/status"]);
        hooks("status", kind, vec![hook])
    };
    pair.set_up(&[of("Mutating", &annotate), of("Validating", &Value::Null)]);
    let deployment = |name: &str| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "labels": {"apply": "status"}, "annotations": {"a": "b"}},
            "spec": {"selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
    };
    let status = json!({"status": {"observedGeneration": 7}});
    for way in ["put", "merge", "apply"] {
        let [expected, got] = pair.sides().map(|api| {
            api.accepts(post(&format!("{DEPLOYMENTS}?fieldManager=first"), &deployment(way)));
            let at = format!("{DEPLOYMENTS}/{way}/status?fieldManager=me");
            let mut whole = deployment(way);
            whole["status"] = status["status"].clone();
            let applied = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": way}, "status": status["status"]});
            let write = |uri: &str| match way {
                "put" => put(uri, &whole),
                "merge" => patch(uri, "merge", &status),
                _ => patch(uri, "apply", &applied),
            };
            let dry = format!("{at}&dryRun=All");
            eventually("hooks that are known", || {
                webhook.take();
                api.accepts(write(&dry));
                (webhook.take().len() == 2).then_some(())
            });
            let tried = api.accepts(write(&dry));
            let shown = webhook.take().pop().unwrap().body["request"]["object"].clone();
            let answered = api.accepts(write(&at));
            assert_eq!(answered["metadata"]["annotations"]["hook"], "x");
            [tried, shown, answered, api.accepts(get(&format!("{DEPLOYMENTS}/{way}")))].map(|object| sorted_owners(&object))
        });
        assert_eq!(got, expected, "{way}");
    }
}

/// The managedFields without times, sorted by operation and manager.
fn sorted_owners(object: &Value) -> Vec<Value> {
    let mut entries = owners(object);
    entries.sort_by_key(|entry| format!("{}/{}", entry["operation"], entry["manager"]));
    entries
}

/// Ways to write a map whose fields `first` may own before: the write before, and the write.
fn map_writes(label: &str) -> Vec<(&'static str, Option<Request>, Request)> {
    let data = |value: &str| json!({"data": {"a": value, "b": value, "c": value}});
    let ways = [
        "created",
        "dry",
        "put",
        "put-by-first",
        "merged",
        "strategic",
        "json",
        "applied",
        "applied-same",
        "applied-force",
    ];
    let write = |way: &'static str| {
        let name = format!("{label}-{way}");
        let by = |manager: &str| format!("{MAPS}/{name}?fieldManager={manager}");
        let (same, changed) = (map(&name, label, data("1")), map(&name, label, data("2")));
        // Webhooks ignore objects without the label.
        let before = post(&format!("{MAPS}?fieldManager=first"), &map(&name, "", data("1")));
        let is_new = ["created", "dry", "applied"].contains(&way);
        let operations = [
            json!({"op": "add", "path": "/metadata/labels", "value": {"apply": label}}),
            json!({"op": "replace", "path": "/data", "value": changed["data"]}),
        ];
        let request = match way {
            "created" => post(&format!("{MAPS}?fieldManager=me"), &same),
            "dry" => post(&format!("{MAPS}?fieldManager=me&dryRun=All"), &same),
            "put" => put(&by("me"), &changed),
            "put-by-first" => put(&by("first"), &changed),
            "merged" => patch(&by("me"), "merge", &changed),
            "strategic" => patch(&by("me"), "strategic", &changed),
            "json" => patch(&by("me"), "json", &json!(operations)),
            "applied-force" => patch(&format!("{}&force=true", by("me")), "apply", &changed),
            _ => patch(&by("me"), "apply", &same),
        };
        (way, (!is_new).then_some(before), request)
    };
    ways.into_iter().map(write).collect()
}

fn pod_writes() -> Vec<(&'static str, Option<Request>, Request)> {
    let pod = |name: &str| pod(name, json!({"apply": "injects"}));
    let applied = patch(&format!("{PODS}/applied?fieldManager=me"), "apply", &pod("applied"));
    vec![("created", None, post(&format!("{PODS}?fieldManager=me"), &pod("created"))), ("applied", None, applied)]
}

#[test]
fn patches_that_change_nothing_have_hooks_called_again_where_kube_apiserver_does() {
    let webhook = Webhook::start();
    let pair = Pair::start(&["MutatingAdmissionWebhook"], &[], &[]);
    let same = json!([{"op": "add", "path": "/metadata/labels/apply", "value": "same"}]);
    let mut first = hook(&webhook, "same", &Value::Null);
    first["name"] = json!("first.e2e.test");
    first["reinvocationPolicy"] = json!("IfNeeded");
    pair.set_up(&[hooks("same", "Mutating", vec![first, hook(&webhook, "same", &same)])]);
    let at = |name: &str| format!("{MAPS}/{name}");
    let (plain, other) = (map("same-one", "same", json!({})), map("same-one", "same", json!({"data": {"a": "1"}})));
    let applied = |value: &str| apply("me", "", &map("same-two", "same", json!({"data": {"a": value}})));
    let merge = |value: &str| patch(&at("same-one"), "merge", &json!({"data": {"b": value}}));
    let steps = [
        post(MAPS, &plain),
        put(&at("same-one"), &plain),
        put(&at("same-one"), &other),
        merge("1"),
        merge("1"),
        applied("1"),
        applied("1"),
        applied("2"),
        post(&format!("{MAPS}?dryRun=All"), &map("same-three", "same", json!({}))),
    ];
    let ready = |api: &Api| {
        eventually("hooks that are known", || {
            api.send(&User::admin(), post(&format!("{MAPS}?dryRun=All"), &map("probe", "same", json!({}))));
            (!webhook.take().is_empty()).then_some(())
        });
    };
    pair.compare_asked(&webhook, ready, &steps.map(|step| (User::admin(), step)));
}
