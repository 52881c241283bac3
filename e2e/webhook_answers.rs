//! Odd responses of webhooks, and patches that make odd objects: the results of both in kube-apiserver and through the proxy.

use crate::harness::{Api, Pair, Request, User, WEBHOOK_SECONDS, Webhook, eventually, get, patch, post, unique};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

const PLUGINS: [&str; 2] = ["MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"];
const MAPS: &str = "/api/v1/namespaces/default/configmaps?dryRun=All";

/// The webhook of a case, for objects with the case's label.
struct Hook {
    case: String,
    path: String,
    versions: &'static [&'static str],
    more: Value,
}

fn encoded(at: &str, text: &str) -> String {
    format!("/{at}/{}", URL_SAFE_NO_PAD.encode(text))
}

/// A configuration of these webhooks, and of one that is only called for objects with the label of the probe.
fn configuration(webhook: &Webhook, kind: &str, name: &str, hooks: &[Hook]) -> Request {
    let probe = Hook { case: "probe".into(), path: format!("/allow/{kind}"), versions: &["v1"], more: json!({}) };
    let entry = |(index, hook): (usize, &Hook)| {
        let mut entry = json!({
            "name": format!("hook-{index}.e2e.test"),
            "clientConfig": webhook.client_config(&hook.path),
            "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}],
            "objectSelector": {"matchLabels": {name: hook.case}},
            "sideEffects": "None",
            "timeoutSeconds": WEBHOOK_SECONDS,
            "admissionReviewVersions": hook.versions,
        });
        entry.as_object_mut().unwrap().extend(hook.more.as_object().unwrap().clone());
        entry
    };
    let entries: Vec<Value> = hooks.iter().chain([&probe]).enumerate().map(entry).collect();
    let object = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}WebhookConfiguration"),
        "metadata": {"name": name}, "webhooks": entries});
    post(&format!("/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations", kind.to_lowercase()), &object)
}

fn config_map(name: &str, case: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map", "labels": {name: case}}, "data": {"a": "b"}})
}

/// Waits until a configuration of this kind is in effect.
fn known(api: &Api, webhook: &Webhook, name: &str, kind: &str) {
    eventually("webhooks that are known", || {
        api.send(&User::admin(), post(MAPS, &config_map(name, "probe")));
        webhook.take().iter().any(|review| review.path.starts_with(&format!("/allow/{kind}"))).then_some(())
    });
}

fn compare(pair: &Pair, webhook: &Webhook, (name, kind): (&str, &str), steps: Vec<Request>) {
    let steps: Vec<(User, Request)> = steps.into_iter().map(|step| (User::admin(), step)).collect();
    pair.compare_asked(webhook, |api| known(api, webhook, name, kind), &steps);
}

/// Complete responses, in which `UID` and `VERSION` stand for the review's.
fn answers() -> Vec<String> {
    let answer =
        |response: String| format!(r#"{{"kind":"AdmissionReview","apiVersion":"VERSION","response":{response}}}"#);
    let allowed = |more: &str| answer(format!(r#"{{"uid":"UID","allowed":true,{more}}}"#));
    let denied = |status: &str| answer(format!(r#"{{"uid":"UID","allowed":false,"status":{status}}}"#));
    let mut all = vec![
        "null".to_owned(),
        r#"{"request":5,"response":{"uid":"UID","allowed":true}}"#.to_owned(),
        r#"{"request":{"uid":5},"response":{"uid":3,"allowed":true}}"#.to_owned(),
        r#"{"request":{"userInfo":{"groups":"x"}},"response":{"uid":"UID","allowed":true}}"#.to_owned(),
        r#"{"kind":"Status","apiVersion":"v1","code":"x"}"#.to_owned(),
        "response: {status: {code: 403.5}}".to_owned(),
        answer(r#"{"uid":"UID","allowed":true,"allowed":null}"#.to_owned()),
        answer(r#"{"uid":"UID","allowed":true,"allowed":false}"#.to_owned()),
        allowed(r#""warnings":[null,"","said"]"#),
        allowed(r#""auditAnnotations":{"a":1}"#),
        allowed(r#""patchType":3"#),
    ];
    for patch in [r#""AA""#, r#""W10==""#, r#""A===""#, r#""W1\n0=""#, r#""%""#, "[91,93]", "[256]", "5", "true"] {
        all.push(allowed(&format!(r#""patchType":"JSONPatch","patch":{patch}"#)));
    }
    for status in [
        r#"{"code":"403"}"#,
        r#"{"code":403.0}"#,
        r#"{"code":2147483648}"#,
        r#"{"code":-1}"#,
        r#"{"code":99}"#,
        r#"{"kind":"Foo","apiVersion":"bar/v2","message":"m"}"#,
        r#"{"reason":3}"#,
        r#"{"metadata":{"remainingItemCount":"4"}}"#,
        r#"{"details":[]}"#,
        r#"{"details":{"causes":[{"field":1}]}}"#,
        r#"{"code":429,"details":{"retryAfterSeconds":-1}}"#,
        r#"{"code":429,"details":{"retryAfterSeconds":7}}"#,
        r#"{"code":403,"code":null,"message":"m"}"#,
    ] {
        all.push(denied(status));
    }
    all
}

#[test]
fn odd_answers_are_taken_as_by_kube_apiserver() {
    let webhook = Webhook::start();
    let pair = Pair::start(&PLUGINS, &[], &[]);
    for (kind, versions) in
        [("Mutating", &["v1"]), ("Mutating", &["v1beta1"]), ("Validating", &["v1"]), ("Validating", &["v1beta1"])]
    {
        let name = unique("answers");
        let answers =
            answers().into_iter().map(|text| text.replace("VERSION", &format!("admission.k8s.io/{}", versions[0])));
        let hook = |(at, text): (usize, String)| Hook {
            case: format!("case-{at}"),
            path: encoded("answer", &text),
            versions,
            more: json!({}),
        };
        let hooks: Vec<Hook> = answers.enumerate().map(hook).collect();
        pair.set_up(&[configuration(&webhook, kind, &name, &hooks)]);
        let steps = hooks.iter().map(|hook| post(MAPS, &config_map(&name, &hook.case))).collect();
        compare(&pair, &webhook, (&name, kind), steps);
    }
}

#[test]
fn the_api_server_may_serve_webhooks_itself() {
    let webhook = Webhook::start();
    let pair = Pair::start(&PLUGINS, &[], &[]);
    let paths = [
        "/webhook-test",
        "/livez",
        "/version",
        "/apis/none.example.com/v1/reviews",
        "/api/v1/namespaces/default/configmaps",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    ];
    for kind in ["Mutating", "Validating"] {
        let name = unique("served");
        let hook = |(at, path): (usize, &&str)| {
            let service = json!({"namespace": "default", "name": "kubernetes", "path": path});
            let more = json!({"clientConfig": {"service": service}});
            Hook { case: format!("case-{at}"), path: String::new(), versions: &["v1"], more }
        };
        let hooks: Vec<Hook> = paths.iter().enumerate().map(hook).collect();
        pair.set_up(&[configuration(&webhook, kind, &name, &hooks)]);
        let steps = hooks.iter().map(|hook| post(MAPS, &config_map(&name, &hook.case))).collect();
        compare(&pair, &webhook, (&name, kind), steps);
    }
}

/// Patches of a new custom resource.
fn patches() -> Vec<Value> {
    let add = |path: &str, value: Value| json!([{"op": "add", "path": path, "value": value}]);
    let mut all: Vec<Value> = ["/apiVersion", "/metadata", "/metadata/name"]
        .iter()
        .map(|path| json!([{"op": "remove", "path": path}]))
        .collect();
    for path in [
        "/spec",
        "/spec/size",
        "/spec/either",
        "/spec/list/0/size",
        "/spec/sizes/a",
        "/status",
        "/spec/nullable",
        "/spec/text",
        "/spec/free/x",
    ] {
        all.push(add(path, Value::Null));
    }
    for (path, value) in [
        ("/kind", json!(1)),
        ("/kind", json!("Other")),
        ("/apiVersion", json!("other/v1")),
        ("/apiVersion", json!("answers.e2e.test/v9")),
        ("/metadata", json!([])),
        ("/metadata", Value::Null),
        ("/metadata/annotations", json!({"a": 1, "b": "c"})),
        ("/metadata/finalizers", json!("x")),
        ("/metadata/creationTimestamp", json!("garbage")),
        ("/metadata/generation", json!("7")),
        ("/metadata/ownerReferences", json!({})),
        ("/metadata/managedFields", json!("x")),
        ("/spec/embedded", json!({"apiVersion": "v1", "kind": "Pod", "metadata": "x"})),
        ("/spec/embedded", json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": 1}}})),
    ] {
        all.push(add(path, value));
    }
    all
}

fn definition(plural: &str) -> Request {
    let (integer, text) = (json!({"type": "integer"}), json!({"type": "string"}));
    let spec = json!({"type": "object", "properties": {
        "size": integer, "nullable": {"type": "string", "nullable": true}, "text": {"type": "string", "default": "x"},
        "either": {"x-kubernetes-int-or-string": true}, "sizes": {"type": "object", "additionalProperties": integer},
        "list": {"type": "array", "items": {"type": "object", "properties": {"size": integer}}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "embedded": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}}});
    let status = json!({"type": "object", "properties": {"phase": text}});
    let object = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.answers.e2e.test")},
        "spec": {"group": "answers.e2e.test", "scope": "Namespaced", "names": {"plural": plural, "kind": "Thing", "listKind": "Things"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}}}]}});
    post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &object)
}

#[test]
fn odd_patches_of_custom_resources_end_as_at_kube_apiserver() {
    let (webhook, name) = (Webhook::start(), unique("answers"));
    let pair = Pair::start(&PLUGINS, &[], &[]);
    let hook = |case: &str, operations: Value| {
        let more = json!({"rules": [{"operations": ["*"], "apiGroups": ["answers.e2e.test"], "apiVersions": ["*"], "resources": ["*"]}]});
        Hook { case: case.to_owned(), path: encoded("patch", &operations.to_string()), versions: &["v1"], more }
    };
    let mut hooks: Vec<Hook> =
        patches().into_iter().enumerate().map(|(at, operations)| hook(&format!("case-{at}"), operations)).collect();
    let created = hooks.len();
    let update = |at: &str, operations: Value| hook(at, operations);
    hooks.extend([
        update("no-version", json!([{"op": "remove", "path": "/metadata/resourceVersion"}])),
        update("no-metadata", json!([{"op": "remove", "path": "/metadata"}])),
        update("null", json!([{"op": "add", "path": "/spec/size", "value": null}])),
    ]);
    pair.set_up(&[definition("things"), configuration(&webhook, "Mutating", &name, &hooks)]);
    let things = "/apis/answers.e2e.test/v1/namespaces/default/things";
    pair.until(&User::admin(), &get(things), "\"items\"");
    let thing = |of: &str, labels: Value| {
        post(
            things,
            &json!({"apiVersion": "answers.e2e.test/v1", "kind": "Thing", "metadata": {"name": of, "labels": labels, "annotations": {"x": "y"}},
            "spec": {"list": [{}], "sizes": {}, "free": {}}}),
        )
    };
    let mut steps: Vec<Request> =
        hooks.iter().take(created).map(|hook| thing(&hook.case, json!({&name: hook.case}))).collect();
    for hook in hooks.iter().skip(created) {
        steps.push(thing(&hook.case, json!({})));
        steps.push(patch(
            &format!("{things}/{}", hook.case),
            "merge",
            &json!({"metadata": {"labels": {&name: hook.case}}}),
        ));
    }
    steps.push(thing("own", json!({})));
    steps.push(patch(
        &format!("{things}/own"),
        "merge",
        &json!({"metadata": {"resourceVersion": null}, "spec": {"size": 1}}),
    ));
    compare(&pair, &webhook, (&name, "Mutating"), steps);
}

#[test]
fn an_object_without_metadata_has_no_name() {
    let (webhook, name) = (Webhook::start(), unique("answers"));
    let pair = Pair::start(&PLUGINS, &[], &[]);
    let none = json!([{"op": "remove", "path": "/metadata"}]).to_string();
    let more = json!({"rules": [{"operations": ["UPDATE"], "apiGroups": ["apps"], "apiVersions": ["*"], "resources": ["deployments"]}]});
    let hook = Hook { case: "gone".into(), path: encoded("patch", &none), versions: &["v1"], more };
    pair.set_up(&[configuration(&webhook, "Mutating", &name, &[hook])]);
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let labels = json!({&name: "gone"});
    let pod = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a:1"}]}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": pod}});
    let steps = vec![
        post(deployments, &deployment),
        patch(&format!("{deployments}/{name}"), "merge", &json!({"spec": {"paused": true}})),
    ];
    compare(&pair, &webhook, (&name, "Mutating"), steps);
}

/// The patch of the first of two webhooks for an object of this kind, and additional fields of the object.
fn patched_objects() -> Vec<(&'static str, &'static str, &'static str, Value, Value)> {
    let set = |path: &str, value: Value| json!([{"op": "add", "path": path, "value": value}]);
    let annotate = |name: &str, value: &str| set("/metadata/annotations", json!({name: value}));
    let containers = json!([{"name": "c", "image": "i"}]);
    let pod = json!({"spec": {"containers": containers, "serviceAccountName": "default"}});
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}});
    let workload = json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
    let generation = "deprecated.daemonset.template.generation";
    let rollback = "deprecated.deployment.rollback.to";
    let target =
        json!({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "maxReplicas": 3});
    let metrics = r#"[{"pods":{"targetAverageValue":"1000m","metricName":"m"},"type":"Pods"}]"#;
    let empty = json!([{"key": "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match", "operator": "Exists"}]);
    let claim = json!([{"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}}]);
    vec![
        ("api/v1", "Pod", "pods", set("/spec/serviceAccountName", json!("other")), pod.clone()),
        ("api/v1", "Pod", "pods", set("/spec/serviceAccount", json!("other")), pod.clone()),
        ("api/v1", "Pod", "pods", set("/spec/terminationGracePeriodSeconds", json!(-1)), pod.clone()),
        ("api/v1", "Pod", "pods", annotate("pod.beta.kubernetes.io/init-containers", "x"), pod),
        (
            "api/v1",
            "Secret",
            "secrets",
            set("/stringData", json!({"a": "b"})),
            json!({"data": {"a": "eA==", "c": "eA=="}}),
        ),
        ("apis/apps/v1", "DaemonSet", "daemonsets", annotate("a", "b"), workload.clone()),
        ("apis/apps/v1", "DaemonSet", "daemonsets", annotate(generation, "+07"), workload.clone()),
        ("apis/apps/v1", "DaemonSet", "daemonsets", annotate(generation, "x"), workload.clone()),
        (
            "apis/apps/v1",
            "DaemonSet",
            "daemonsets",
            set("/spec/template/spec/serviceAccountName", json!("other")),
            workload.clone(),
        ),
        ("apis/apps/v1", "Deployment", "deployments", annotate(rollback, "+07"), workload.clone()),
        ("apis/apps/v1", "Deployment", "deployments", annotate(rollback, "99999999999999999999"), workload.clone()),
        (
            "apis/apps/v1",
            "Deployment",
            "deployments",
            set("/spec/strategy", json!({"type": "Recreate", "rollingUpdate": {}})),
            workload.clone(),
        ),
        (
            "apis/apps/v1",
            "StatefulSet",
            "statefulsets",
            set("/spec/updateStrategy", json!({"type": "OnDelete", "rollingUpdate": {}})),
            workload.clone(),
        ),
        ("apis/apps/v1", "StatefulSet", "statefulsets", set("/spec/volumeClaimTemplates", claim), workload),
        (
            "apis/policy/v1",
            "PodDisruptionBudget",
            "poddisruptionbudgets",
            set("/spec/selector/matchExpressions", empty),
            json!({"spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"a": "b"}}}}),
        ),
        (
            "apis/autoscaling/v1",
            "HorizontalPodAutoscaler",
            "horizontalpodautoscalers",
            annotate("autoscaling.alpha.kubernetes.io/metrics", metrics),
            json!({"spec": target}),
        ),
    ]
}

/// Autoscalers of the old version. The internal version keeps values that the annotations omit.
fn autoscalers(name: &str) -> Vec<(User, Request)> {
    let annotation = |name: &str| format!("autoscaling.alpha.kubernetes.io/{name}");
    let pods = |name: &str| format!(r#"{{"type":"Pods","pods":{{"metricName":"{name}","targetAverageValue":"1"}}}}"#);
    let metrics = |of: &[&str]| format!("[{}]", of.iter().map(|name| pods(name)).collect::<Vec<_>>().join(","));
    // The behavior is complete, since stored objects get the defaults of the new version.
    let rules = r#"{"StabilizationWindowSeconds":1,"SelectPolicy":"Max","Policies":[{"Type":"Pods","Value":1,"PeriodSeconds":15}]}"#;
    let behavior = format!(r#"{{"ScaleUp":{rules},"ScaleDown":{rules}}}"#);
    let one = json!({annotation("metrics"): metrics(&["a"]), annotation("behavior"): behavior});
    let two = json!({annotation("metrics"): metrics(&["a", "b"])});
    let create = |case: &str, at: usize, annotations: &Value, more: Value| {
        let mut object = json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": format!("{case}-{at}"), "labels": {name: case}, "annotations": annotations},
            "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "maxReplicas": 3}});
        object["spec"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let uri = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
        (User::admin(), post(uri, &object))
    };
    let mut steps = Vec::new();
    for (at, annotations) in [one, two].iter().enumerate() {
        for case in ["gone", "other"] {
            steps.push(create(case, at, annotations, json!({})));
            steps.push(create(case, at + 2, annotations, json!({"targetCPUUtilizationPercentage": 50})));
        }
    }
    steps
}

#[test]
fn a_patched_object_is_converted_after_the_last_hook() {
    let (webhook, name) = (Webhook::start(), unique("answers"));
    let pair = Pair::start(&PLUGINS, &[], &[]);
    let case = |at: usize| format!("case-{at}");
    let hook = |case: &str, path: String| Hook { case: case.to_owned(), path, versions: &["v1"], more: json!({}) };
    let patches = patched_objects().into_iter().enumerate().map(|(at, (_, _, _, patch, _))| (case(at), patch));
    let gone = ("gone".to_owned(), json!([{"op": "remove", "path": "/metadata/annotations"}]));
    let other = ("other".to_owned(), json!([{"op": "replace", "path": "/spec/maxReplicas", "value": 4}]));
    let (mut mutating, mut validating) = (Vec::new(), Vec::new());
    for (case, patch) in patches.chain([gone, other]) {
        mutating.push(hook(&case, encoded("patch", &patch.to_string())));
        mutating.push(hook(&case, format!("/allow/second/{case}")));
        validating.push(hook(&case, format!("/allow/last/{case}")));
    }
    for (kind, hooks) in [("Mutating", &mutating), ("Validating", &validating)] {
        pair.set_up(&[configuration(&webhook, kind, &name, hooks)]);
    }
    let mut steps = Vec::new();
    for (at, (version, kind, plural, _, mut object)) in patched_objects().into_iter().enumerate() {
        let version = version.trim_start_matches("apis/");
        object["apiVersion"] = json!(version.trim_start_matches("api/"));
        object["kind"] = json!(kind);
        object["metadata"] = json!({"name": case(at), "labels": {&name: case(at)}});
        let root = if version.starts_with("api/") { "" } else { "apis/" };
        steps.push((User::admin(), post(&format!("/{root}{version}/namespaces/default/{plural}"), &object)));
    }
    steps.extend(autoscalers(&name));
    // The sixth object is a daemon set, which has a generation by now.
    let daemon_set = format!("/apis/apps/v1/namespaces/default/daemonsets/{}", case(5));
    let labels = json!({"metadata": {"labels": {&name: "gone"}}, "spec": {"minReadySeconds": 1}});
    steps.push((User::admin(), patch(&daemon_set, "merge", &labels)));
    let known = |api: &Api| ["Mutating", "Validating"].iter().for_each(|kind| known(api, &webhook, &name, kind));
    pair.compare_asked(&webhook, known, &steps);
}
