//! The metrics of admission equal kube-apiserver's, so that dashboards and alerts work unchanged.

use crate::harness::{Pair, Request, User, WEBHOOK_SECONDS, Webhook, delete, every_plugin, post, put, unique};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const REGISTRATIONS: &str = "/apis/admissionregistration.k8s.io/v1";
/// The metrics of both. Of the queues, only that of admission is compared.
const NAMES: [&str; 5] = [
    "apiserver_admission_",
    "apiserver_validating_admission_policy_",
    "apiserver_mutating_admission_policy_",
    "pod_security_",
    "workqueue_",
];

/// Both sides of a test, with all plugins that need no file and do not deny everything.
fn pair() -> Pair {
    let others = ["ImagePolicyWebhook", "EventRateLimit", "AlwaysDeny"];
    let plugins: Vec<&str> = every_plugin().filter(|plugin| !others.contains(plugin)).collect();
    Pair::start(&plugins, &[], &[])
}

/// A family of metrics, without its values.
#[derive(Debug, Default, PartialEq)]
struct Family {
    help: String,
    kind: String,
    labels: BTreeSet<String>,
    bounds: BTreeSet<String>,
}

/// The compared families of a text, and each sample by its name and labels.
fn parse(text: &str) -> (BTreeMap<String, Family>, BTreeMap<String, f64>) {
    let (mut families, samples) = read(text);
    families.retain(|name, family| NAMES.iter().any(|start| name.starts_with(start)) && !family.labels.is_empty());
    (families, samples)
}

/// The families of a text, and each sample by its name and labels.
fn read(text: &str) -> (BTreeMap<String, Family>, BTreeMap<String, f64>) {
    let (mut families, mut samples) = (BTreeMap::<String, Family>::new(), BTreeMap::new());
    for line in text.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words.as_slice() {
            ["#", "HELP", name, help] => families.entry((*name).to_owned()).or_default().help = (*help).to_owned(),
            ["#", "TYPE", name, kind] => families.entry((*name).to_owned()).or_default().kind = (*kind).to_owned(),
            _ => {
                let Some((sample, value)) = line.rsplit_once(' ') else { continue };
                samples.insert(sample.to_owned(), value.parse().unwrap());
                let (name, labels) = sample.split_once('{').unwrap_or((sample, "}"));
                let is_of_another_queue =
                    name.starts_with("workqueue_") && !labels.contains("admission_quota_controller");
                let end = ["_bucket", "_sum", "_count"].into_iter().find_map(|end| name.strip_suffix(end));
                let name = end.filter(|name| families.contains_key(*name)).unwrap_or(name);
                let Some(family) = families.get_mut(name).filter(|_| !is_of_another_queue) else { continue };
                for (label, value) in labels.trim_end_matches('}').split("\",").filter_map(|one| one.split_once("=\""))
                {
                    match label {
                        "le" | "quantile" => {
                            let bound: f64 = value.trim_end_matches('"').parse().unwrap();
                            family.bounds.insert(format!("{label} {bound}"))
                        }
                        label => family.labels.insert(label.to_owned()),
                    };
                }
            }
        }
    }
    (families, samples)
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

/// Webhooks and policies for one namespace, so that each kind has metrics.
fn registrations(webhook: &Webhook, namespace: &str) -> Vec<Request> {
    let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
    let hook = |name: &str, path: &str, condition: &str| {
        json!({"name": format!("{name}.e2e.test"), "clientConfig": webhook.client_config(path), "failurePolicy": "Ignore",
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
            "namespaceSelector": selector, "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "timeoutSeconds": WEBHOOK_SECONDS, "matchConditions": [{"name": "c", "expression": condition}]})
    };
    let hooks = json!([
        hook("denies", "/deny", "object.metadata.name == 'denied'"),
        hook("breaks", "/http/500", "true"),
        hook("errs", "/allow", "object.data.missing == '1'"),
    ]);
    let constraints = json!({"namespaceSelector": selector, "resourceRules": [
        {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]});
    let object = |resource: &str, kind: &str, fields: Value| {
        let mut object =
            json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": namespace}});
        object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        post(&format!("{REGISTRATIONS}/{resource}"), &object)
    };
    let labels = r#"Object{metadata: Object.metadata{labels: {"measured": "yes"}}}"#;
    vec![
        object(
            "mutatingwebhookconfigurations",
            "MutatingWebhookConfiguration",
            json!({"webhooks": [hook("labels", "/label/a/b", "true")]}),
        ),
        object("validatingwebhookconfigurations", "ValidatingWebhookConfiguration", json!({"webhooks": hooks})),
        object(
            "validatingadmissionpolicies",
            "ValidatingAdmissionPolicy",
            json!({"spec": {"matchConstraints": constraints,
            "validations": [{"expression": "object.metadata.name != 'refused'", "message": "refused by the test"}]}}),
        ),
        object(
            "validatingadmissionpolicybindings",
            "ValidatingAdmissionPolicyBinding",
            json!({"spec": {"policyName": namespace, "validationActions": ["Deny"]}}),
        ),
        object(
            "mutatingadmissionpolicies",
            "MutatingAdmissionPolicy",
            json!({"spec": {"matchConstraints": constraints,
            "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": labels}}]}}),
        ),
        object(
            "mutatingadmissionpolicybindings",
            "MutatingAdmissionPolicyBinding",
            json!({"spec": {"policyName": namespace}}),
        ),
    ]
}

#[test]
fn metrics_of_admission_have_kube_apiservers_names_types_labels_and_texts() {
    let (pair, webhook, namespace) = (pair(), Webhook::start(), unique("measured"));
    let own = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace,
        "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    pair.set_up(&[post("/api/v1/namespaces", &own)]);
    pair.set_up(&registrations(&webhook, &namespace));
    let path = format!("/api/v1/namespaces/{namespace}");
    let tried = format!("{path}/configmaps?dryRun=All");
    pair.until(&User::developer(), &post(&tried, &config_map("refused")), "refused by the test");
    pair.until(&User::developer(), &post(&tried, &config_map("denied")), "denied by the test");
    pair.until(&User::developer(), &post(&tried, &config_map("labelled")), r#""measured":"yes""#);
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "9"}}});
    let mut counted = quota.clone();
    counted["status"] = json!({"hard": {"configmaps": "9"}, "used": {"configmaps": "9"}});
    pair.set_up(&[
        post(&format!("{path}/resourcequotas"), &quota),
        put(&format!("{path}/resourcequotas/q/status"), &counted),
    ]);
    pair.until(&User::developer(), &post(&tried, &config_map("one")), "exceeded quota");
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {
        "serviceAccountName": "default", "containers": [{"name": "c", "image": "i"}]}});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    pair.set_up(&[post(&format!("{path}/serviceaccounts"), &account)]);
    pair.until(&User::developer(), &post(&format!("{path}/pods"), &pod), "violates PodSecurity");

    let [expected, got] = pair.metrics().map(|text| parse(&text).0);
    assert!(expected.len() > 20, "{:?}", expected.keys());
    for (name, expected) in &expected {
        assert_eq!(Some(expected), got.get(name), "{name}");
    }
    let others: Vec<&String> = got.keys().filter(|name| !expected.contains_key(*name)).collect();
    assert!(others.is_empty(), "kube-apiserver has no {others:?}");
}

#[test]
fn plugins_are_counted_as_often_as_kube_apiserver_counts_them() {
    let (pair, namespace) = (pair(), unique("counted"));
    let own = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    let path = format!("/api/v1/namespaces/{namespace}");
    let maps = format!("{path}/configmaps");
    pair.set_up(&[
        post("/api/v1/namespaces", &own),
        post(&format!("{path}/serviceaccounts"), &account),
        post(&maps, &config_map("one")),
    ]);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {
        "serviceAccountName": "default", "containers": [{"name": "c", "image": "i"}]}});
    let mut lost = pod.clone();
    lost["spec"]["priorityClassName"] = json!("none-such");
    let (pods, tried) = (format!("{path}/pods?dryRun=All"), |path: &str| format!("{path}?dryRun=All"));
    pair.until(&User::developer(), &post(&pods, &pod), "\"Pod\"");
    let class =
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "c"}, "value": 1});
    for (what, request) in [
        ("a config map", post(&tried(&maps), &config_map("two"))),
        ("another", put(&tried(&format!("{maps}/one")), &config_map("one"))),
        ("none", delete(&tried(&format!("{maps}/one")))),
        ("a pod", post(&pods, &pod)),
        ("a pod of no class", post(&pods, &lost)),
        ("a pod in no namespace", post("/api/v1/namespaces/none-such/pods?dryRun=All", &pod)),
        ("a namespace", post("/api/v1/namespaces?dryRun=All", &own)),
        ("a class", post(&tried("/apis/scheduling.k8s.io/v1/priorityclasses"), &class)),
    ] {
        let names =
            ["controller", "step"].map(|what| format!("apiserver_admission_{what}_admission_duration_seconds_count"));
        are_counted_alike(&pair, what, &User::admin(), &request, &|sample| {
            names.iter().any(|name| sample.starts_with(name))
        });
    }
}

/// Checks that both sides count a request alike.
fn are_counted_alike(pair: &Pair, what: &str, user: &User, request: &Request, is_compared: &dyn Fn(&str) -> bool) {
    // kube-apiserver renews leases and other objects meanwhile, and an answer is read before it is counted.
    let mut tries = 10;
    loop {
        let [expected, got] = counts_of(pair, user, request, is_compared);
        tries -= 1;
        if expected == got || tries == 0 {
            let all = expected.keys().chain(got.keys());
            let differing: BTreeMap<_, _> = all
                .filter(|sample| expected.get(*sample) != got.get(*sample))
                .map(|sample| (sample, (expected.get(sample), got.get(sample))))
                .collect();
            assert!(differing.is_empty(), "{what}: {differing:#?}");
            break;
        }
    }
}

/// The growth of the compared samples by a request, on both sides.
fn counts_of(
    pair: &Pair,
    user: &User,
    request: &Request,
    is_compared: &dyn Fn(&str) -> bool,
) -> [BTreeMap<String, f64>; 2] {
    let counts = || {
        pair.metrics().map(|text| {
            let mut samples = parse(&text).1;
            samples.retain(|sample, _| is_compared(sample));
            samples
        })
    };
    let before = counts();
    for api in pair.sides() {
        api.send(user, request.clone());
    }
    let [expected, got] = counts();
    [(expected, 0), (got, 1)].map(|(after, side)| {
        let grown = after.into_iter().map(|(sample, count)| {
            let grown = count - before[side].get(&sample).copied().unwrap_or_default();
            (sample, grown)
        });
        grown.filter(|(_, grown)| *grown != 0.0).collect()
    })
}

const GROUP: &str = "counted.e2e.test";

/// A definition without subresources besides `status`.
fn definition() -> Value {
    let version = json!({"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("tallies.{GROUP}")},
        "spec": {"group": GROUP, "scope": "Namespaced", "versions": [version],
            "names": {"plural": "tallies", "singular": "tally", "kind": "Tally", "listKind": "TallyList"}}})
}

/// Requests of each kind for a collection, with answers of each kind.
fn requests_for(collection: &str, object: &Value) -> Vec<(&'static str, User, Request)> {
    let (admin, stranger) = (User::admin, || User::named("stranger", ""));
    let at = |name: &str| format!("{collection}/{name}");
    let one = at("one");
    let named = |name: &str| {
        let mut object = object.clone();
        object["metadata"]["name"] = json!(name);
        object
    };
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let mut applied = named("applied");
    applied["metadata"]["labels"] = json!({"a": "b"});
    vec![
        ("create", admin(), post(collection, &named("one"))),
        ("create of an existing one", admin(), post(collection, &named("one"))),
        ("create of an invalid name", admin(), post(collection, &named("Not A Name"))),
        ("create of no object", admin(), Request::new("POST", collection).body("application/json", "{")),
        ("create of an unknown media type", admin(), Request::new("POST", collection).body("text/csv", "a,b")),
        ("dry run", admin(), post(&format!("{collection}?dryRun=All"), &named("tried"))),
        ("twice a dry run", admin(), post(&format!("{collection}?dryRun=All&dryRun=All"), &named("tried"))),
        ("unknown dry run", admin(), post(&format!("{collection}?dryRun=Some"), &named("tried"))),
        ("strict create", admin(), post(&format!("{collection}?fieldValidation=Strict"), &named("strict"))),
        ("get", admin(), get(&one)),
        ("get of none", admin(), get(&at("none"))),
        ("list", admin(), get(collection)),
        ("page", admin(), get(&format!("{collection}?limit=1"))),
        ("list of wrong options", admin(), get(&format!("{collection}?limit=x"))),
        ("table", admin(), get(collection).header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")),
        ("watch", admin(), get(&format!("{collection}?watch=true&timeoutSeconds=1"))),
        ("update", admin(), put(&one, &named("one"))),
        ("update of none", admin(), put(&at("none-such"), &named("other"))),
        ("merge patch", admin(), patch(&one, "merge", &label)),
        ("merge patch of none", admin(), patch(&at("none"), "merge", &label)),
        ("json patch", admin(), patch(&one, "json", &json!([{"op": "test", "path": "/kind", "value": "None"}]))),
        ("apply", admin(), patch(&format!("{}?fieldManager=e2e", at("applied")), "apply", &applied)),
        ("apply without a manager", admin(), patch(&at("applied"), "apply", &applied)),
        ("get by a stranger", stranger(), get(&one)),
        ("create by a stranger", stranger(), post(collection, &named("strange"))),
        ("delete by a stranger", stranger(), delete(&one)),
        ("unknown subresource", admin(), get(&format!("{one}/none"))),
        ("unknown method", admin(), Request::new("POST", &one)),
        ("dry run of a delete", admin(), delete(&format!("{one}?dryRun=All"))),
        ("delete", admin(), delete(&one)),
        ("delete of none", admin(), delete(&one)),
        ("delete of the collection", admin(), delete(collection)),
    ]
}

#[test]
fn requests_are_counted_as_kube_apiserver_counts_them() {
    let (pair, namespace) = (pair(), unique("requested"));
    pair.set_up(&[
        post("/api/v1/namespaces", &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})),
        post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition()),
    ]);
    let tallies = format!("/apis/{GROUP}/v1/namespaces/{namespace}/tallies");
    pair.until(&User::admin(), &get(&tallies), "TallyList");
    let tally = json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Tally", "metadata": {}});
    pair.until(&User::admin(), &post(&format!("{tallies}?dryRun=All&fieldManager=a"), &tally), "name or generateName");
    let template = json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {},
        "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}});
    // No controller of kube-apiserver uses these resources, nor does another test that runs in front of the same API server count.
    let templates = format!("/api/v1/namespaces/{namespace}/podtemplates");
    let names = [
        "apiserver_request_total",
        "apiserver_request_duration_seconds_count",
        "apiserver_request_sli_duration_seconds_count",
        "apiserver_response_sizes_count",
        "apiserver_request_body_size_bytes_count",
        "apiserver_request_terminations_total",
        "apiserver_requested_deprecated_apis",
    ];
    let resources = ["resource=\"podtemplates\"", "resource=\"tallies\"", "resource=\"unknowns\""];
    let is_compared = |sample: &str| {
        names.iter().any(|name| sample.starts_with(name)) && resources.iter().any(|of| sample.contains(of))
    };
    let unknown = get(&format!("/apis/{GROUP}/v1/namespaces/{namespace}/unknowns"));
    let others =
        [("unknown resource", User::admin(), unknown), ("list of all", User::admin(), get("/api/v1/podtemplates"))];
    let all = [requests_for(&templates, &template), requests_for(&tallies, &tally), others.into()].concat();
    for (what, user, request) in all {
        let what = format!("{what}: {} {}", request.method, request.path);
        are_counted_alike(&pair, &what, &user, &request, &is_compared);
    }
    let [expected, got] = pair.metrics().map(|text| read(&text).0);
    for name in REQUEST_NAMES {
        assert!(expected.contains_key(name), "kube-apiserver has no {name}");
        assert_eq!(expected.get(name), got.get(name), "{name}");
    }
}

/// The metrics of requests that both have.
const REQUEST_NAMES: [&str; 11] = [
    "apiserver_current_inflight_requests",
    "apiserver_longrunning_requests",
    "apiserver_request_body_size_bytes",
    "apiserver_request_duration_seconds",
    "apiserver_request_sli_duration_seconds",
    "apiserver_request_total",
    "apiserver_requested_deprecated_apis",
    "apiserver_response_sizes",
    "authorization_attempts_total",
    "authorization_duration_seconds",
    "field_validation_request_duration_seconds",
];
