//! Admission reviews of subresources and of odd objects, compared with those of kube-apiserver.

use crate::harness::differential::{Case, compare};
use crate::harness::{Request, User, Webhook, field, get, patch, post, protobuf_of, put, unique};
use serde_json::{Value, json};

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"e2e": name}}})
}

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "a"}},
           "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}]}})
}

fn deployment(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
           "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}},
                    "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
}

/// Compares these steps on both sides, with a mutating and a validating webhook for every resource.
fn compare_reviews(here: &str, setup: Vec<Request>, steps: Vec<Request>) {
    let probe = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "probe"}});
    let probe = post(&format!("/api/v1/namespaces/{here}/configmaps?dryRun=All"), &probe);
    compare_reviews_after(here, setup, probe, steps);
}

/// As [`compare_reviews`], after both webhooks get a review of the probe.
fn compare_reviews_after(here: &str, mut setup: Vec<Request>, probe: Request, steps: Vec<Request>) {
    let webhook = Webhook::start();
    setup.insert(0, post("/api/v1/namespaces", &namespace(here)));
    for kind in ["Mutating", "Validating"] {
        let mut configuration = webhook.configuration(kind, here, here, &[&format!("/allow/{kind}")]);
        configuration["webhooks"][0]["rules"][0]["resources"] = json!(["*/*"]);
        configuration["webhooks"][0]["namespaceSelector"] = json!({"matchLabels": {"e2e": here}});
        // Excludes objects without a namespace that other tests write meanwhile.
        let own = "request.?namespace.orValue(request.?name.orValue('')) == 'HERE' || object.?metadata.labels.e2e.orValue('') == 'HERE'";
        configuration["webhooks"][0]["matchConditions"] =
            json!([{"name": "own", "expression": own.replace("HERE", here)}]);
        let uri = format!("/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations", kind.to_lowercase());
        setup.push(post(&uri, &configuration));
    }
    compare(&Case {
        plugins: &["MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"],
        setup,
        webhook: Some((&webhook, probe, 2)),
        steps: steps.into_iter().map(|request| (User::admin(), request)).collect(),
    });
}

#[test]
fn pods_have_the_same_subresources() {
    let here = unique("pods");
    let pods = format!("/api/v1/namespaces/{here}/pods");
    let at = |name: &str, subresource: &str| format!("{pods}/{name}/{subresource}");
    let binding = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
               "target": {"apiVersion": "v1", "kind": "Node", "name": "n"}})
    };
    let eviction = |name: &str| json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    let condition = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let mut status = pod("one");
    status["status"] = json!({"phase": "Running", "hostIP": "1.2.3.4"});
    let debugger = json!({"spec": {"ephemeralContainers": [{"name": "d", "image": "i"}]}});
    let larger = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1500m"}}}]}});
    // The message has metadata.name, and dryRun of deleteOptions.
    let message = [field(1, &field(1, b"three")), field(2, &field(5, b"All"))].concat();
    let tried_in_protobuf = Request::new("POST", &at("three", "eviction"))
        .body("application/vnd.kubernetes.protobuf", protobuf_of("policy/v1", "Eviction", &message));
    // The options of the deletion take over the dryRun of the request.
    let dry = format!("{}?dryRun=All", at("three", "eviction"));
    let empty = [field(1, &field(1, b"three")), field(2, b"")].concat();
    let empty_in_protobuf = Request::new("POST", &dry)
        .body("application/vnd.kubernetes.protobuf", protobuf_of("policy/v1", "Eviction", &empty));
    let with_options = |options: Value| {
        let mut eviction = eviction("three");
        eviction["deleteOptions"] = options;
        eviction
    };
    compare_reviews(
        &here,
        ["one", "two", "three"].iter().map(|name| post(&pods, &pod(name))).collect(),
        vec![
            post(&format!("{}?dryRun=All", at("one", "binding")), &binding("one")),
            post(&at("one", "binding"), &binding("one")),
            post(&at("one", "binding"), &binding("one")),
            post(&at("one", "binding"), &binding("other")),
            post(&at("missing", "binding"), &binding("missing")),
            post(&format!("/api/v1/namespaces/{here}/bindings"), &binding("two")),
            put(&at("one", "status"), &status),
            patch(&at("one", "status"), "strategic", &condition),
            patch(&at("one", "status"), "merge", &json!({"spec": {"nodeName": "elsewhere"}})),
            patch(
                &format!("{}?fieldManager=e2e", at("one", "status")),
                "apply",
                &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "status": {"podIP": "5.6.7.8"}}),
            ),
            patch(&at("one", "ephemeralcontainers"), "strategic", &debugger),
            patch(&at("one", "resize"), "strategic", &larger),
            patch(&at("missing", "status"), "strategic", &condition),
            post(&format!("{}?dryRun=All", at("three", "eviction")), &eviction("three")),
            tried_in_protobuf,
            empty_in_protobuf,
            post(&dry, &with_options(json!({}))),
            post(&dry, &with_options(json!({"gracePeriodSeconds": 5, "dryRun": ["All"]}))),
            post(&dry, &with_options(json!({"dryRun": ["x"]}))),
            post(&dry, &with_options(json!({"ignoreStoreReadErrorWithClusterBreakingPotential": true}))),
            post(&at("three", "eviction"), &with_options(json!({"dryRun": ["All"]}))),
            get(&format!("{pods}/three")),
            post(&at("three", "eviction"), &eviction("three")),
            post(&at("three", "eviction"), &eviction("other")),
            post(&at("missing", "eviction"), &eviction("missing")),
            get(&format!("{pods}/one")),
        ],
    );
}

#[test]
fn services_are_allocated_before_the_validating_phase() {
    let here = unique("services");
    let services = format!("/api/v1/namespaces/{here}/services");
    let service = |name: &str, spec: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec});
    // No other test uses an address of the range's lower part.
    let at = |ip: &str| json!({"clusterIP": ip, "ports": [{"port": 80}]});
    let external = json!({"type": "ExternalName", "externalName": "e.test"});
    let applied =
        |name: &str| patch(&format!("{services}/{name}?fieldManager=me"), "apply", &service(name, at("10.0.0.13")));
    compare_reviews(
        &here,
        vec![post(&services, &service("first", at("10.0.0.13"))), post(&services, &service("external", external))],
        vec![
            post(&services, &service("taken", at("10.0.0.13"))),
            post(&services, &service("first", at("10.0.0.13"))),
            post(&format!("{services}?dryRun=All"), &service("taken", at("10.0.0.13"))),
            post(&services, &service("outside", at("192.0.2.1"))),
            post(
                &services,
                &service(
                    "listed",
                    json!({"clusterIPs": ["10.0.0.13"], "clusterIP": "10.0.0.13", "ports": [{"port": 80}]}),
                ),
            ),
            post(
                &services,
                &json!({"apiVersion": "v1", "kind": "Service", "metadata": {"generateName": "some-"}, "spec": at("10.0.0.13")}),
            ),
            put(&format!("{services}/external"), &service("external", at("10.0.0.13"))),
            applied("applied"),
            put(&format!("{services}/first"), &service("first", at("10.0.0.13"))),
            patch(&format!("{services}/first"), "merge", &json!({"metadata": {"labels": {"a": "b"}}})),
            post(&services, &service("headless", json!({"clusterIP": "None", "ports": [{"port": 80}]}))),
        ],
    );
}

#[test]
fn workloads_have_the_same_subresources() {
    let here = unique("workloads");
    let deployments = format!("/apis/apps/v1/namespaces/{here}/deployments");
    let scale = |replicas: i64| {
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d", "namespace": here},
               "spec": {"replicas": replicas}})
    };
    let mut status = deployment("d");
    status["status"] = json!({"replicas": 3, "readyReplicas": 1});
    let (at_scale, at_status) = (format!("{deployments}/d/scale"), format!("{deployments}/d/status"));
    compare_reviews(
        &here,
        vec![post(&deployments, &deployment("d"))],
        vec![
            get(&at_scale),
            put(&at_scale, &scale(2)),
            put(&format!("{at_scale}?dryRun=All&fieldManager=e2e"), &scale(7)),
            put(&at_scale, &scale(-1)),
            patch(&at_scale, "merge", &json!({"spec": {"replicas": 3}})),
            patch(&at_scale, "json", &json!([{"op": "replace", "path": "/spec/replicas", "value": 4}])),
            put(
                &format!("{deployments}/missing/scale"),
                &json!({"apiVersion": "autoscaling/v1", "kind": "Scale",
                "metadata": {"name": "missing", "namespace": here}, "spec": {"replicas": 1}}),
            ),
            put(&at_status, &status),
            patch(&at_status, "merge", &json!({"status": {"replicas": 4}})),
            patch(
                &format!("{at_status}?fieldManager=e2e"),
                "apply",
                &json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "status": {"availableReplicas": 1}}),
            ),
            get(&format!("{deployments}/d")),
        ],
    );
}

#[test]
fn tokens_and_namespaces_have_the_same_subresources() {
    let here = unique("others");
    let accounts = format!("/api/v1/namespaces/{here}/serviceaccounts");
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "sa"}});
    let token = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
                       "spec": {"audiences": ["a"], "expirationSeconds": 3600}});
    let short =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 1}});
    let other = unique("finalized");
    let mut finalized = namespace(&other);
    finalized["spec"] = json!({"finalizers": ["e2e.test/kept", "kubernetes"]});
    compare_reviews(
        &here,
        vec![post(&accounts, &account), post("/api/v1/namespaces", &namespace(&other))],
        vec![
            post(&format!("{accounts}/sa/token"), &token),
            post(&format!("{accounts}/sa/token"), &short),
            post(&format!("{accounts}/missing/token"), &token),
            put(&format!("/api/v1/namespaces/{other}/finalize"), &finalized),
            patch(
                &format!("/api/v1/namespaces/{here}/status"),
                "merge",
                &json!({"metadata": {"annotations": {"a": "b"}}}),
            ),
        ],
    );
}

#[test]
fn taken_names_and_access_reviews_get_the_same_reviews() {
    let here = unique("taken");
    let deployments = format!("/apis/apps/v1/namespaces/{here}/deployments");
    let generated = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "drawn-", "labels": {"e2e": here}}});
    let reviews = format!("/apis/authorization.k8s.io/v1/namespaces/{here}/localsubjectaccessreviews");
    let review = |namespace: &str, spec: Value| json!({"apiVersion": "authorization.k8s.io/v1", "kind": "LocalSubjectAccessReview", "metadata": {"namespace": namespace}, "spec": spec});
    let may_get = |namespace: &str| json!({"user": "u", "resourceAttributes": {"namespace": namespace, "verb": "get", "resource": "pods"}});
    compare_reviews(
        &here,
        vec![post(&deployments, &deployment("d"))],
        vec![
            post(&deployments, &deployment("d")),
            post("/api/v1/namespaces", &namespace(&here)),
            post("/api/v1/namespaces", &generated),
            post(&reviews, &review(&here, may_get(&here))),
            post(&format!("{reviews}?dryRun=All"), &review(&here, may_get(&here))),
            // These are rejected before the validating phase.
            post(&reviews, &review(&here, may_get("other"))),
            post(&reviews, &review(&here, json!({"resourceAttributes": {"namespace": here, "verb": "get"}}))),
            post(&reviews, &review(&here, json!({"user": "u", "nonResourceAttributes": {"path": "/", "verb": "get"}}))),
        ],
    );
}

#[test]
fn certificate_signing_requests_have_the_same_subresources() {
    let here = unique("requests");
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let request = json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": here},
        "spec": {"signerName": "e2e.test/signer", "usages": ["client auth"], "request": REQUEST}});
    let approved = json!({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "e2e"}]}});
    compare_reviews(
        &here,
        vec![post(requests, &request)],
        vec![
            patch(&format!("{requests}/{here}/approval"), "merge", &approved),
            patch(&format!("{requests}/{here}/status"), "merge", &json!({"status": {"certificate": "bm90IG9uZQ=="}})),
            get(&format!("{requests}/{here}")),
        ],
    );
}

/// A certificate signing request of `CN=e2e`, as PEM in base64.
const REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlISE1IQUNBUUF3RGpFTU1Bb0dBMVVFQXd3RFpUSmxNRmt3RXdZSEtvWkl6ajBDQVFZSUtvWkl6ajBEQVFjRApRZ0FFOUZISklDKzBsYkhoTmNpUGhyVVZ2b0c4S28xWU1PM1dkZEdVYTFpNEdPaEU5dWYxL1RlYUt5SlRXSVlaCjh3LzZhazZIMUpEWVlkcDlKdm43Q09OZE1xQUFNQW9HQ0NxR1NNNDlCQU1DQTBjQU1FUUNJREY0bklZRVFlb3QKQUpSTEhWZWhkbm5aWk1ScXkwakZxdDY3ZGFiUjR5b2xBaUFaNWtJbm5yRVRMMWM1c2t6VUIzTDNLWG0zTDZnTgoweWUxOGxQSHFla2hrUT09Ci0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo=";

#[test]
fn custom_resources_have_the_same_subresources() {
    let here = unique("widgets");
    let group = format!("{here}.test");
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("widgets.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget", "singular": "widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"replicas": {"type": "integer", "default": 1}, "color": {"type": "string"}}},
                    "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}}}}}}]}});
    let widgets = format!("/apis/{group}/v1/namespaces/{here}/widgets");
    let widget = |more: Value| {
        let mut widget = json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": {"name": "w"}});
        for (key, value) in more.as_object().unwrap() {
            widget[key] = value.clone();
        }
        widget
    };
    compare_reviews_after(
        &here,
        vec![post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition)],
        post(&format!("{widgets}?dryRun=All"), &widget(json!({"metadata": {"name": "probe"}}))),
        vec![
            post(&widgets, &widget(json!({"spec": {"color": "red", "unknown": 1}, "status": {"replicas": 9}}))),
            patch(
                &format!("{widgets}/w/status"),
                "merge",
                &json!({"status": {"replicas": 2}, "spec": {"color": "blue"}}),
            ),
            patch(&format!("{widgets}/w"), "merge", &json!({"spec": {"color": "blue"}, "status": {"replicas": 7}})),
            patch(&format!("{widgets}/w/scale"), "merge", &json!({"spec": {"replicas": 3}})),
            patch(
                &format!("{widgets}/w/status?fieldManager=e2e"),
                "apply",
                &widget(json!({"status": {"replicas": 2}})),
            ),
            get(&format!("{widgets}/w")),
            // The scale of this object cannot be read, but can be written.
            post(&widgets, &widget(json!({"metadata": {"name": "bare"}}))),
            get(&format!("{widgets}/bare/scale")),
            patch(&format!("{widgets}/bare/scale"), "merge", &json!({"spec": {}})),
            patch(
                &format!("{widgets}/bare/scale?dryRun=All"),
                "json",
                &json!([{"op": "replace", "path": "/spec/replicas", "value": 3}]),
            ),
            put(
                &format!("{widgets}/bare/scale"),
                &json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "bare", "namespace": here}, "spec": {"replicas": 2}}),
            ),
            get(&format!("{widgets}/bare")),
        ],
    );
}

#[test]
fn secrets_with_null_get_the_same_reviews() {
    let here = unique("nulls");
    let secrets = format!("/api/v1/namespaces/{here}/secrets");
    let secret = |name: &str, data: Value| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data, "stringData": null});
    compare_reviews(
        &here,
        vec![post(&secrets, &secret("one", json!({"a": "YQ==", "b": null})))],
        vec![
            post(&secrets, &secret("two", json!({"a": "YQ==", "b": null, "c": ""}))),
            post(&secrets, &secret("three", json!(null))),
            get(&format!("{secrets}/one")),
            put(&format!("{secrets}/one"), &secret("one", json!({"b": null, "c": null}))),
            patch(&format!("{secrets}/one"), "merge", &json!({"metadata": {"labels": {"a": "b"}}})),
            patch(&format!("{secrets}/one"), "merge", &json!({"data": {"b": "Yg==", "c": null}})),
            patch(&format!("{secrets}/two"), "json", &json!([{"op": "add", "path": "/data/d", "value": null}])),
            patch(&format!("{secrets}/two"), "strategic", &json!({"data": {"a": null}})),
            get(&format!("{secrets}/two")),
        ],
    );
}
