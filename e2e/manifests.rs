//! Admission configurations from files (`staticManifestsDir`), compared with kube-apiserver's.

use crate::harness::{
    Answer, Api, ControlPlane, Proxy, Request, User, Webhook, delete, eventually, folder, get, only, patch, pki, post,
    unique, upstream,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

pub const GATE: &str = "--feature-gates=ManifestBasedAdmissionControlConfig=true";
const MUTATING: &str = "MutatingAdmissionWebhook";
const VALIDATING: &str = "ValidatingAdmissionWebhook";
const COUNTERS: &str = "apiserver_manifest_admission_config_controller_";

/// The flag that configures the folder of each of these plugins.
pub fn configuration(folders: &[(&str, &str)]) -> String {
    let plugins: Vec<Value> = folders
        .iter()
        .map(|(name, folder)| {
            let kind = match name.ends_with("Webhook") {
                true => "WebhookAdmissionConfiguration".to_owned(),
                false => format!("{name}Configuration"),
            };
            json!({"name": name, "configuration":
                {"apiVersion": "apiserver.config.k8s.io/v1", "kind": kind, "staticManifestsDir": folder}})
        })
        .collect();
    let file = folder("manifests").join("admission.json");
    let api_version = "apiserver.config.k8s.io/v1";
    let whole = json!({"apiVersion": api_version, "kind": "AdmissionConfiguration", "plugins": plugins});
    fs::write(&file, whole.to_string()).unwrap();
    format!("--admission-control-config-file={}", file.display())
}

/// A webhook at an address without a server; `fields` replace or add fields, null removes one.
fn hook(fields: Value) -> Value {
    let mut hook = json!({"name": "a.b.c", "clientConfig": {"url": "https://127.0.0.1:1/x"}, "sideEffects": "None",
        "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}],
        "admissionReviewVersions": ["v1"]});
    for (field, value) in fields.as_object().unwrap() {
        hook[field] = value.clone();
    }
    hook
}

fn of_kind(kind: &str, name: &str, hooks: &[Value]) -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "webhooks": hooks})
}

fn validating(hooks: &[Value]) -> Value {
    of_kind("ValidatingWebhookConfiguration", "c.static.k8s.io", hooks)
}

/// A configuration with these fields.
fn with(fields: Value) -> Value {
    let mut whole = validating(&[hook(json!({}))]);
    for (field, value) in fields.as_object().unwrap() {
        whole[field] = value.clone();
    }
    whole
}

/// Invalid folders, each as a list of its files.
fn faulty() -> Vec<Vec<(&'static str, String)>> {
    let one = |value: Value| vec![("a.json", value.to_string())];
    let hooks = |fields: Value| one(validating(&[hook(fields)]));
    let client = |config: Value| hooks(json!({ "clientConfig": config }));
    let yaml = |text: &str| vec![("a.yaml", text.to_owned())];
    let good = || validating(&[hook(json!({}))]);
    let list = |items: Value| one(json!({"apiVersion": "v1", "kind": "List", "items": items}));
    let text = good().to_string();
    vec![
        hooks(json!({"name": "x", "sideEffects": "Some", "timeoutSeconds": 0, "failurePolicy": "X"})),
        one(validating(&[hook(json!({})), hook(json!({}))])),
        one(with(json!({"metadata": {"name": ""}}))),
        one(with(json!({"metadata": {"name": "c.example.com"}}))),
        vec![("a.json", text.clone()), ("b.json", text.clone())],
        one(of_kind("MutatingWebhookConfiguration", "c.static.k8s.io", &[])),
        one(json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy"})),
        one(json!({"apiVersion": "v1", "kind": "Pod"})),
        one(json!({"apiVersion": "v1", "kind": "Status"})),
        one(with(json!({"apiVersion": "admissionregistration.k8s.io/v1beta1"}))),
        one(with(json!({"apiVersion": "admissionregistration.k8s.io/v9"}))),
        one(json!({"apiVersion": "v1"})),
        one(json!({"kind": "ValidatingWebhookConfiguration"})),
        one(json!({"apiVersion": "v1", "kind": 7})),
        one(with(json!({"foo": 1}))),
        hooks(json!({"bar": 2, "foo": 1})),
        hooks(json!({"timeoutSeconds": "x"})),
        hooks(json!({"reinvocationPolicy": "Never"})),
        vec![("a.json", format!("{},\"kind\":\"ValidatingWebhookConfiguration\"}}", text.trim_end_matches('}')))],
        yaml(
            "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: a.static.k8s.io}\nmetadata: {name: b.static.k8s.io}\n",
        ),
        yaml(
            "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata:\n  name: a.static.k8s.io\nwebhooks:\n- name: 5\n",
        ),
        yaml("a: ["),
        yaml("just text"),
        yaml("null"),
        yaml("# only\n"),
        yaml(&format!("# only\n---\n{text}")),
        yaml(&format!("{text}\n---\n{}", with(json!({"foo": 1})))),
        yaml(&format!("{text}\n--- # c\n{}", with(json!({"foo": 2})))),
        yaml(&format!("{text}\n---x\n{text}")),
        yaml(&format!("{text}\n---\n---\n...\n")),
        vec![("a.json", "{".to_owned())],
        vec![("a.json", "{}".to_owned())],
        vec![("a.json", format!("{text}\n{text}"))],
        vec![("a.JSON", validating(&[hook(json!({"name": "x"}))]).to_string()), ("b.txt", "garbage".to_owned())],
        client(json!({"service": {"name": "a", "namespace": "b"}})),
        client(json!({})),
        client(json!({"url": "https://a/", "service": {"name": "a", "namespace": "b"}})),
        client(json!({"url": "http://u:p@a/?x#y"})),
        client(json!({"url": "https://a b/"})),
        client(json!({"url": ""})),
        client(json!({"url": "foo"})),
        client(json!({"url": ":foo"})),
        client(json!({"url": "https://a:x/"})),
        client(json!({"url": "https://a/%zz"})),
        client(json!({"url": "https://a/\u{7}"})),
        client(json!({"url": "https://[::1/"})),
        client(json!({"service": {"name": "", "namespace": "", "path": "a//B", "port": 0}})),
        client(json!({"service": {"name": "a", "namespace": "b", "path": "//"}})),
        hooks(json!({"sideEffects": null, "admissionReviewVersions": null})),
        hooks(json!({"sideEffects": ""})),
        hooks(json!({"name": ""})),
        hooks(json!({"name": "A.b.c"})),
        hooks(json!({"admissionReviewVersions": ["v1", "v1", "V2", ""]})),
        hooks(json!({"admissionReviewVersions": ["v2"]})),
        hooks(
            json!({"rules": [{"operations": ["*", "CREATE", "X"], "apiGroups": ["*", ""], "apiVersions": ["*", "v1", ""],
            "resources": ["pods/*", "pods/status", "*/scale", "a/scale", "*", "b", ""], "scope": "X"}, {}]}),
        ),
        hooks(
            json!({"rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*", "pods"]}]}),
        ),
        hooks(json!({"matchPolicy": "X", "objectSelector": {"matchLabels": {"/": ""}},
            "namespaceSelector": {"matchLabels": {"a b": "c d"}, "matchExpressions": [{"key": "k", "operator": "In"},
                {"key": "", "operator": "Exists", "values": ["x"]}, {"key": "k", "operator": "Foo"},
                {"key": "k", "operator": "NotIn", "values": ["a b"]}]}})),
        hooks(json!({"matchConditions": [{"name": "", "expression": ""}, {"name": "a b", "expression": " "},
            {"name": "ok", "expression": "true"}, {"name": "ok", "expression": "true"}]})),
        hooks(json!({"matchConditions": [{"name": "a", "expression": " x "}, {"name": "b b", "expression": "1"},
            {"name": "c", "expression": "params.a"}, {"name": "d", "expression": "a +"}]})),
        one(with(json!({"metadata": {"name": "A_.static.k8s.io", "namespace": "x", "labels": {"a b": "c d"},
            "annotations": {"a b": "c"}, "finalizers": ["x y"], "generation": -1}}))),
        one(with(json!({"metadata": {"generateName": "x_", "name": "", "ownerReferences": [{}],
            "managedFields": [{"operation": "x"}]}}))),
        list(json!([with(json!({"metadata": {"name": "x.static.k8s.io"}})), with(json!({"foo": 1}))])),
        list(json!([{"a": 1}])),
        list(json!(["x"])),
        list(json!("x")),
        one(json!({"apiVersion": "v1", "kind": "List", "items": [], "foo": 1})),
        one(json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfigurationList",
            "items": [good(), with(json!({"bar": 1}))]})),
        one(json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfigurationList",
            "items": [validating(&[hook(json!({"name": "x"}))])]})),
        one(
            json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfigurationList", "items": []}),
        ),
    ]
}

/// The text after the plugin's name in the error of kube-apiserver or of the proxy.
pub fn reason(output: &str) -> String {
    let line = match output.split_once("\"command failed\" err=") {
        Some((_, rest)) if rest.starts_with('"') => {
            let mut texts = serde_json::Deserializer::from_str(rest).into_iter::<String>();
            texts.next().and_then(Result::ok).unwrap_or_else(|| panic!("{rest}"))
        }
        Some((_, rest)) => {
            let lines = rest.lines().skip(1).take_while(|line| line.starts_with('\t'));
            lines.map(str::trim).collect::<Vec<_>>().join(" ")
        }
        None => {
            output.lines().find_map(|line| line.strip_prefix("error: ")).unwrap_or_else(|| panic!("{output}")).into()
        }
    };
    let (_, reason) = line.split_once("\": ").unwrap_or_else(|| panic!("{output}"));
    // The proxy adds the position of the configuration before the field.
    reason.split_once("plugins[0].configuration: ").map_or(reason, |(_, reason)| reason).to_owned()
}

#[test]
fn a_folder_is_refused_at_the_start_as_by_kube_apiserver() {
    let mut differences = Vec::new();
    let mut compare = |given: &str, flags: &[&str]| {
        let owned: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let expected = reason(&ControlPlane::refusal(&owned));
        let got = reason(&Proxy::refusal(flags));
        if got != expected {
            differences.push(format!("{given}\n  {expected}\n  {got}"));
        }
    };
    for files in faulty() {
        let place = folder("faulty");
        for (name, text) in &files {
            fs::write(place.join(name), text).unwrap();
        }
        let flag = configuration(&[(VALIDATING, place.to_str().unwrap())]);
        compare(&format!("{files:?}"), &[GATE, &flag]);
    }
    let place = folder("not-allowed");
    compare("the gate is off", &[&configuration(&[(VALIDATING, place.to_str().unwrap())])]);
    for given in ["relative", "/not/there", "/etc/passwd"] {
        compare(given, &[GATE, &configuration(&[(VALIDATING, given)])]);
    }
    fs::write(
        place.join("a.json"),
        of_kind("MutatingWebhookConfiguration", "c.static.k8s.io", &[hook(json!({"reinvocationPolicy": "X"}))])
            .to_string(),
    )
    .unwrap();
    compare("reinvocationPolicy", &[GATE, &configuration(&[(MUTATING, place.to_str().unwrap())])]);
    assert!(differences.is_empty(), "not as kube-apiserver (first line):\n{}", differences.join("\n"));
}

/// One of the two servers, and its folders.
struct Side<'a> {
    api: &'a Api,
    metrics: &'a dyn Fn() -> String,
    mutating: &'a Path,
    validating: &'a Path,
}

/// The visible effects of a request: the response, and the webhook calls.
#[derive(Debug, PartialEq)]
struct Seen {
    code: u16,
    message: Value,
    asked: Vec<(String, String)>,
}

fn seen(answer: &Answer, webhook: &Webhook) -> Seen {
    let asked = webhook.take().into_iter().map(|review| {
        let path = review.path.split('?').next().unwrap_or_default().to_owned();
        (path, review.body["request"]["resource"]["resource"].as_str().unwrap_or_default().to_owned())
    });
    let mut asked: Vec<_> = asked.collect();
    // Validating webhooks are called concurrently.
    asked.sort_by_key(|(path, _)| if path.starts_with("/label/") { String::new() } else { path.clone() });
    Seen { code: answer.status, message: answer.json()["message"].clone(), asked }
}

/// A webhook at a path of the test's server, for configmaps of a namespace and for admission configurations.
fn at(webhook: &Webhook, path: &str, namespace: &str) -> Value {
    let authorities = STANDARD.encode(fs::read(pki().ca()).unwrap());
    hook(json!({"name": format!("{}.e2e.test", path.trim_matches('/').replace('/', "-")),
        "clientConfig": {"url": webhook.url(path), "caBundle": authorities},
        "rules": [{"operations": ["CREATE"], "apiGroups": ["", "admissionregistration.k8s.io"], "apiVersions": ["v1"],
                   "resources": ["configmaps", "validatingwebhookconfigurations"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}))
}

/// Replaces a file atomically, as a careful operator does.
pub fn put_file(folder: &Path, name: &str, text: &str) {
    let beside = folder.with_extension("new");
    fs::write(&beside, text).unwrap();
    fs::rename(beside, folder.join(name)).unwrap();
}

pub fn counted(metrics: &str, name: &str, label: &str) -> Vec<String> {
    let found = metrics.lines().filter(|line| line.starts_with(&format!("{COUNTERS}{name}")) && line.contains(label));
    let mut found: Vec<String> = found.map(str::to_owned).collect();
    found.sort();
    found
}

/// The requests of the test to one side, and the visible effects of each.
fn scenario(side: &Side<'_>, webhook: &Webhook, namespace: &str) -> (Vec<Seen>, Vec<String>) {
    let api = side.api;
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    api.send(&User::admin(), post("/api/v1/namespaces", &object));
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps?dryRun=All");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}});
    let send = |request: Request| {
        webhook.take();
        seen(&api.send(&User::admin(), request), webhook)
    };
    let create = || send(post(&maps, &map));
    let until = |what: &str, path: &str, is_asked: bool| {
        eventually(what, || (create().asked.iter().any(|(asked, _)| asked == path) == is_asked).then_some(()));
    };
    let of_admission = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let mut all = vec![create()];
    // A configuration in the API, whose name sorts after that of the file.
    let stored = of_kind("MutatingWebhookConfiguration", "a-stored", &[at(webhook, "/label/stored/1", namespace)]);
    let path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
    assert_eq!(api.send(&User::admin(), post(path, &stored)).status, 201);
    until("the stored hook", "/label/stored/1", true);
    all.push(create());
    // Only webhooks from files see admission configurations.
    let other = of_kind("ValidatingWebhookConfiguration", "other", &[]);
    all.push(send(post(&format!("{of_admission}?dryRun=All"), &other)));
    // A new file is loaded.
    let second = of_kind("ValidatingWebhookConfiguration", "second.static.k8s.io", &[at(webhook, "/deny", namespace)]);
    put_file(side.validating, "second.yaml", &second.to_string());
    until("the second file", "/deny", true);
    all.push(send(post(&format!("{of_admission}?dryRun=All"), &other)));
    // An invalid file changes nothing.
    put_file(side.validating, "second.yaml", "kind: Nothing");
    eventually("a failed reload", || {
        let failures = counted(&(side.metrics)(), "automatic_reloads_total", "failure");
        (!failures.is_empty()).then_some(())
    });
    all.push(create());
    fs::remove_file(side.validating.join("second.yaml")).unwrap();
    until("the second file to be gone", "/deny", false);
    all.push(create());
    for folder in [side.mutating, side.validating] {
        fs::remove_file(folder.join("first.json")).unwrap();
    }
    until("an empty folder", "/allow", false);
    until("the other empty folder", "/label/file/1", false);
    all.push(create());
    all.push(send(post(&format!("{of_admission}?dryRun=All"), &other)));
    let metrics = (side.metrics)();
    let mut counts = counted(&metrics, "last_config_info", "plugin=");
    // The two servers check a broken folder at different intervals.
    let names = counted(&metrics, "automatic_reload", "plugin=");
    counts.extend(names.iter().filter_map(|line| line.split('}').next()).map(str::to_owned));
    counts.extend(counted(&metrics, "automatic_reloads_total", "MutatingAdmissionWebhook"));
    api.send(&User::admin(), delete(&format!("{path}/a-stored")));
    (all, counts)
}

#[test]
fn a_folder_is_followed_as_by_kube_apiserver() {
    let webhook = Webhook::start();
    let namespace = unique("manifests");
    let folders = |side: &str| {
        let [mutating, validating] = ["m", "v"].map(|kind| folder(&format!("{side}-{kind}")));
        let hook = at(&webhook, "/label/file/1", &namespace);
        let object = of_kind("MutatingWebhookConfiguration", "first.static.k8s.io", &[hook]);
        fs::write(mutating.join("first.json"), object.to_string()).unwrap();
        let object =
            of_kind("ValidatingWebhookConfiguration", "first.static.k8s.io", &[at(&webhook, "/allow", &namespace)]);
        let list = json!({"apiVersion": "v1", "kind": "List", "items": [object]});
        fs::write(validating.join("first.json"), list.to_string()).unwrap();
        let flag = configuration(&[(MUTATING, mutating.to_str().unwrap()), (VALIDATING, validating.to_str().unwrap())]);
        (mutating, validating, flag)
    };
    let plugins = [MUTATING, VALIDATING];
    let (mutating, validating, flag) = folders("reference");
    let reference = ControlPlane::start("manifests", &[only(&plugins), vec![flag, GATE.to_owned()]].concat());
    let metrics = || reference.send(&User::admin(), get("/metrics")).text();
    let side = Side { api: &reference, metrics: &metrics, mutating: &mutating, validating: &validating };
    let expected = scenario(&side, &webhook, &namespace);

    let (mutating, validating, flag) = folders("proxy");
    let named = crate::harness::proxy_only(&plugins);
    let proxy = Proxy::before(upstream(), &[&named[0], &named[1], &flag, GATE]);
    let metrics = || proxy.health("/metrics").unwrap().1;
    let side = Side { api: &proxy, metrics: &metrics, mutating: &mutating, validating: &validating };
    let got = scenario(&side, &webhook, &namespace);
    for (at, (expected, got)) in expected.0.iter().zip(&got.0).enumerate() {
        assert_eq!(got, expected, "request {at}\n{}", proxy.output());
    }
    assert_eq!(got.1, expected.1);
    let asked = |at: usize| expected.0[at].asked.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>();
    assert_eq!(asked(0), ["/label/file/1", "/allow"]);
    assert_eq!(asked(1), ["/label/file/1", "/label/stored/1", "/allow"]);
    assert_eq!(asked(2), ["/label/file/1", "/allow"]);
    assert_eq!(expected.0[3].code, 400, "{:?}", expected.0[3]);
    assert!(asked(7).is_empty());
}

#[test]
fn names_of_files_are_kept_from_the_api_as_by_kube_apiserver() {
    let reference = ControlPlane::start("reserved", &[GATE.to_owned()]);
    let proxy = Proxy::before(upstream(), &[GATE]);
    let group = "/apis/admissionregistration.k8s.io/v1";
    let object = |kind: &str, name: &str, spec: Value| {
        let mut object = of_kind(kind, name, &[]);
        if !kind.ends_with("WebhookConfiguration") {
            object.as_object_mut().unwrap().remove("webhooks");
            object["spec"] = spec;
        }
        object
    };
    let rules = json!({"resourceRules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]});
    let mutations = json!([{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}]);
    let all = [
        ("mutatingwebhookconfigurations", "MutatingWebhookConfiguration", json!(null)),
        ("validatingwebhookconfigurations", "ValidatingWebhookConfiguration", json!(null)),
        (
            "validatingadmissionpolicies",
            "ValidatingAdmissionPolicy",
            json!({"matchConstraints": rules, "validations": [{"expression": "true"}]}),
        ),
        (
            "validatingadmissionpolicybindings",
            "ValidatingAdmissionPolicyBinding",
            json!({"policyName": "p", "validationActions": ["Deny"]}),
        ),
        (
            "mutatingadmissionpolicies",
            "MutatingAdmissionPolicy",
            json!({"matchConstraints": rules, "mutations": mutations, "reinvocationPolicy": "Never"}),
        ),
        ("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", json!({"policyName": "p"})),
    ];
    for (resource, kind, spec) in all {
        for (name, code) in [("x.static.k8s.io", 422), ("x.static.k8s.io.y", 201)] {
            let create = post(&format!("{group}/{resource}?dryRun=All"), &object(kind, name, spec.clone()));
            let apply = format!("{group}/{resource}/{name}?dryRun=All&fieldManager=test");
            let apply = patch(&apply, "apply", &object(kind, name, spec.clone()));
            for request in [create, apply] {
                let heard = |api: &Api| {
                    let answer = api.send(&User::admin(), request.clone());
                    let json = answer.json();
                    let of_status = ["message", "reason", "details"].map(|field| json[field].clone());
                    (
                        answer.status,
                        if answer.status == 201 { Default::default() } else { of_status },
                        answer.header("warning"),
                    )
                };
                let expected = heard(&reference);
                assert_eq!(heard(&proxy), expected, "{resource} {name}");
                assert_eq!(expected.0, code, "{resource} {name} {expected:?}");
            }
        }
    }
}
