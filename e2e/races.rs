//! Concurrent writes: whatever happens between admission and the store, the stored object is the admitted one, and no write is lost.

use crate::harness::{Api, Proxy, Request, Review, User, Webhook, delete, eventually, get, patch, post, put, upstream};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"doomed": "yes"}}, "data": {"k": "v"}})
}

/// Registers a webhook of this kind for all objects in a namespace, and waits until this path is called.
fn register(api: &Api, webhook: &Webhook, kind: &str, namespace: &str, path: &str) {
    let resource = format!("{}webhookconfigurations", kind.to_lowercase());
    let mut configuration = webhook.configuration(kind, namespace, namespace, &[path]);
    configuration["webhooks"][0]["rules"][0]["resources"] = json!(["*/*"]);
    // The namespace does not select among objects without one, which other tests write meanwhile.
    configuration["webhooks"][0]["rules"][0]["scope"] = json!("Namespaced");
    let uri = format!("/apis/admissionregistration.k8s.io/v1/{resource}");
    assert_eq!(api.send(&User::admin(), post(&uri, &configuration)).status, 201);
    let probe = format!("/api/v1/namespaces/{namespace}/configmaps?dryRun=All");
    eventually("a webhook that is known", || {
        api.send(&User::admin(), post(&probe, &config_map("probe")));
        (!webhook.take().is_empty()).then_some(())
    });
}

/// The reviews of the object with this name.
fn reviews(webhook: &Webhook, name: &str) -> Vec<Value> {
    let of_name = |review: &Review| {
        let request = &review.body["request"];
        ["object", "oldObject"].iter().any(|field| request[field]["metadata"]["name"] == name)
    };
    webhook.take().into_iter().filter(of_name).map(|review| review.body["request"].clone()).collect()
}

/// Makes the webhook send this request directly to the upstream during its first review of the object with this name.
fn meddle(webhook: &Webhook, name: &str, request: Request) {
    let (name, done, upstream) = (name.to_owned(), AtomicBool::new(false), Api { port: upstream().port });
    webhook.meddle(move |review| {
        let about = &review.body["request"];
        let is_it = ["object", "oldObject"].iter().any(|field| about[field]["metadata"]["name"] == *name);
        if is_it && !done.swap(true, Ordering::SeqCst) {
            let answer = upstream.send(&User::admin(), request.clone());
            assert!(answer.status < 300, "{}", answer.text());
        }
    });
}

fn other_write(maps: &str, name: &str) -> Request {
    patch(&format!("{maps}/{name}"), "merge", &json!({"data": {"meddled": "yes"}}))
}

/// Every way to change an object.
fn changes(at: &str, name: &str) -> Vec<Request> {
    let merge = json!({"data": {"changed": "yes"}});
    let mut whole = config_map(name);
    whole["data"] = json!({"changed": "yes"});
    vec![
        put(at, &whole),
        patch(at, "merge", &merge),
        patch(at, "strategic", &merge),
        patch(at, "json", &json!([{"op": "add", "path": "/data/changed", "value": "yes"}])),
        patch(
            &format!("{at}?fieldManager=e2e"),
            "apply",
            &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"changed": "yes"}}),
        ),
    ]
}

/// The content of an object, without metadata that the server sets.
fn content(object: &Value) -> Value {
    let mut object = object.clone();
    for field in ["resourceVersion", "managedFields", "uid", "creationTimestamp"] {
        object["metadata"].as_object_mut().unwrap().remove(field);
    }
    object
}

fn changes_meet_others(proxy: &Proxy, webhook: &Webhook, namespace: &str) {
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    for (index, _) in changes("", "").iter().enumerate() {
        let name = format!("raced-{index}");
        let at = format!("{maps}/{name}");
        proxy.accepts(post(&maps, &config_map(&name)));
        webhook.take();
        meddle(webhook, &name, other_write(&maps, &name));
        let answered = proxy.accepts(changes(&at, &name).remove(index));
        let stored = upstream().send(&User::admin(), get(&at)).json();
        let reviews = reviews(webhook, &name);
        assert_eq!(reviews.len(), 2, "change {index}: {reviews:#?}");
        assert_eq!(reviews[1]["oldObject"]["data"]["meddled"], "yes", "change {index}");
        assert_eq!(content(&reviews[1]["object"]), content(&stored), "change {index}");
        assert_eq!(content(&answered), content(&stored), "change {index}");
        assert_eq!(stored["data"]["changed"], "yes", "change {index}");
    }
}

fn versions_that_clients_name_are_kept(proxy: &Proxy, webhook: &Webhook, namespace: &str, kind: &str) {
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let at = format!("{maps}/versioned");
    let created = proxy.accepts(post(&maps, &config_map("versioned")));
    for index in 0..changes(&at, "versioned").len() {
        let stored = upstream().send(&User::admin(), get(&at)).json();
        let version = stored["metadata"]["resourceVersion"].clone();
        let mut change = changes(&at, "versioned").remove(index);
        let mut body: Value = serde_json::from_slice(&change.body).unwrap();
        match body.as_array_mut() {
            Some(operations) => {
                operations.push(json!({"op": "replace", "path": "/metadata/resourceVersion", "value": version}))
            }
            None => body["metadata"]["resourceVersion"] = version,
        }
        change.body = body.to_string().into();
        let counted = json!({"data": {"meddled": index.to_string()}});
        webhook.take();
        meddle(webhook, "versioned", patch(&at, "merge", &counted));
        let answer = proxy.send(&User::developer(), change);
        assert_eq!(answer.status, 409, "change {index}: {}", answer.text());
        assert_eq!(answer.json()["reason"], "Conflict", "change {index}");
        // kube-apiserver shows the change to mutating plugins again, and compares the versions before the validating phase.
        let expected = if kind == "Mutating" { 2 } else { 1 };
        assert_eq!(reviews(webhook, "versioned").len(), expected, "change {index}");
    }
    webhook.take();
    let uid = created["metadata"]["uid"].as_str().unwrap();
    meddle(webhook, "versioned", other_write(&maps, "versioned"));
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}});
    let answer = proxy.send(&User::developer(), delete(&at).body("application/json", options.to_string()));
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(reviews(webhook, "versioned").len(), 2);
}

fn deletes_meet_changes(proxy: &Proxy, webhook: &Webhook, namespace: &str) {
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    for (name, request) in [
        ("deleted", delete(&format!("{maps}/deleted"))),
        ("collected", delete(&format!("{maps}?labelSelector=doomed%3Dyes"))),
    ] {
        proxy.accepts(delete(&maps));
        proxy.accepts(post(&maps, &config_map(name)));
        webhook.take();
        meddle(webhook, name, other_write(&maps, name));
        proxy.accepts(request);
        let reviews = reviews(webhook, name);
        assert_eq!(reviews.len(), 2, "{name}: {reviews:#?}");
        assert_eq!(reviews[1]["oldObject"]["data"]["meddled"], "yes", "{name}");
        assert_eq!(upstream().send(&User::admin(), get(&format!("{maps}/{name}"))).status, 404, "{name}");
    }
    proxy.accepts(post(&maps, &config_map("spared")));
    meddle(
        webhook,
        "spared",
        patch(&format!("{maps}/spared"), "merge", &json!({"metadata": {"labels": {"doomed": "no"}}})),
    );
    proxy.accepts(delete(&format!("{maps}?labelSelector=doomed%3Dyes")));
    assert_eq!(upstream().send(&User::admin(), get(&format!("{maps}/spared"))).status, 200);
}

fn creates_meet_others(proxy: &Proxy, webhook: &Webhook, namespace: &str, kind: &str) {
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    meddle(webhook, "twice", post(&maps, &json!({"metadata": {"name": "twice"}, "data": {"meddled": "yes"}})));
    proxy.rejects(post(&maps, &config_map("twice")), 409, "configmaps \"twice\" already exists");

    // A PUT or an apply of a missing object becomes an update of an object that another client has created meanwhile.
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
    let lease = |name: &str, holder: &str| {
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
               "spec": {"holderIdentity": holder}})
    };
    for (name, request) in [
        ("put", put(&format!("{leases}/put"), &lease("put", "me"))),
        ("applied", patch(&format!("{leases}/applied?fieldManager=e2e&force=true"), "apply", &lease("applied", "me"))),
    ] {
        webhook.take();
        meddle(webhook, name, post(&leases, &lease(name, "somebody else")));
        let answer = proxy.send(&User::developer(), request);
        let reviews = reviews(webhook, name);
        let operations: Vec<_> = reviews.iter().map(|review| review["operation"].as_str().unwrap()).collect();
        if name == "put" {
            // A Lease cannot be updated without a version, which is noticed between the phases.
            let expected = if kind == "Mutating" { &["CREATE", "UPDATE"][..] } else { &["CREATE"][..] };
            assert_eq!((answer.status, &*operations), (422, expected), "{}", answer.text());
            continue;
        }
        assert_eq!((answer.status, &*operations), (200, &["CREATE", "UPDATE"][..]), "{}", answer.text());
        assert_eq!(reviews[1]["oldObject"]["spec"]["holderIdentity"], "somebody else");
        assert_eq!(content(&reviews[1]["object"]), content(&answer.json()));
    }
}

fn everything_meets_others(kind: &str) {
    let proxy = Proxy::before(upstream(), &[]);
    let webhook = Webhook::start();
    let namespace = proxy.namespace("raced");
    register(&proxy, &webhook, kind, &namespace, "/meddle");
    changes_meet_others(&proxy, &webhook, &namespace);
    versions_that_clients_name_are_kept(&proxy, &webhook, &namespace, kind);
    deletes_meet_changes(&proxy, &webhook, &namespace);
    creates_meet_others(&proxy, &webhook, &namespace, kind);
}

#[test]
fn a_write_that_meets_another_in_the_mutating_phase_is_admitted_again() {
    everything_meets_others("Mutating");
}

#[test]
fn a_write_that_meets_another_in_the_validating_phase_is_admitted_again() {
    everything_meets_others("Validating");
}

/// The number of writers of one object, and the number of writes of each.
const WRITERS: usize = 6;
const WRITES: usize = 5;

#[test]
fn writers_through_two_proxies_lose_nothing_and_store_only_what_was_validated() {
    let proxies = [Proxy::before(upstream(), &[]), Proxy::before(upstream(), &[])];
    let webhook = Arc::new(Webhook::start());
    let namespace = proxies[0].namespace("written");
    register(&proxies[0], &webhook, "Validating", &namespace, "/allow");
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let at = format!("{maps}/shared");
    eventually("a webhook that the other proxy knows", || {
        proxies[1].send(&User::admin(), post(&format!("{maps}?dryRun=All"), &config_map("probe")));
        (!webhook.take().is_empty()).then_some(())
    });
    proxies[0].accepts(post(&maps, &config_map("shared")));
    webhook.take();
    let answers: Vec<Value> = std::thread::scope(|scope| {
        let (at, proxies) = (&at, &proxies);
        let write = |writer: usize| {
            scope.spawn(move || {
                let key = |write: usize| format!("writer-{writer}-{write}");
                let one = |write: usize| {
                    let change = match writer % 3 {
                        0 => patch(at, "merge", &json!({"data": {key(write): "yes"}})),
                        1 => patch(
                            at,
                            "json",
                            &json!([{"op": "add", "path": format!("/data/{}", key(write)), "value": "yes"}]),
                        ),
                        _ => patch(
                            &format!("{at}?fieldManager={}", key(write)),
                            "apply",
                            &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"},
                                    "data": {key(write): "yes"}}),
                        ),
                    };
                    proxies[(writer + write) % 2].accepts(change)
                };
                (0..WRITES).map(one).collect::<Vec<_>>()
            })
        };
        let writers: Vec<_> = (0..WRITERS).map(write).collect();
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    let stored = upstream().send(&User::admin(), get(&at)).json();
    let keys: BTreeSet<&String> = stored["data"].as_object().unwrap().keys().collect();
    assert_eq!(keys.len(), 1 + WRITERS * WRITES, "{keys:?}");
    let shown: Vec<Value> = reviews(&webhook, "shared").iter().map(|review| content(&review["object"])).collect();
    for answer in &answers {
        assert!(shown.contains(&content(answer)), "stored, and never shown: {answer}");
    }
}

/// A policy that counts the writes of an object, in the object.
fn counting(name: &str, namespace: &str) -> [Request; 2] {
    let api_version = "admissionregistration.k8s.io/v1";
    let count =
        r#"[JSONPatch{op: "add", path: "/data/writes", value: string(int(object.data.?writes.orValue("0")) + 1)}]"#;
    let rules = json!([{"operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]);
    let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
    let policy = json!({"apiVersion": api_version, "kind": "MutatingAdmissionPolicy", "metadata": {"name": name},
        "spec": {"matchConstraints": {"resourceRules": rules, "namespaceSelector": selector}, "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": count}}]}});
    let binding = json!({"apiVersion": api_version, "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": name},
        "spec": {"policyName": name}});
    [("ies", policy), ("ybindings", binding)]
        .map(|(plural, object)| post(&format!("/apis/{api_version}/mutatingadmissionpolic{plural}"), &object))
}

#[test]
fn appliers_that_meet_writers_own_their_fields_and_no_more() {
    let proxies = [Proxy::before(upstream(), &[]), Proxy::before(upstream(), &[])];
    let namespace = proxies[0].namespace("owned");
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let at = format!("{maps}/shared");
    for request in counting(&namespace, &namespace) {
        assert_eq!(upstream().send(&User::admin(), request).status, 201);
    }
    for proxy in &proxies {
        eventually("a policy that is known", || {
            let probe = proxy.send(&User::admin(), post(&format!("{maps}?dryRun=All"), &config_map("probe")));
            probe.json()["data"]["writes"].is_string().then_some(())
        });
    }
    let applied = |manager: &str, data: Value| {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}, "data": data});
        patch(&format!("{at}?fieldManager={manager}"), "apply", &object)
    };
    proxies[0].accepts(applied("first", json!({"first": "1"})));
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (at, proxies, applied) = (&at, &proxies, &applied);
            scope.spawn(move || {
                for write in 0..WRITES {
                    let (manager, value) = (format!("writer-{writer}"), write.to_string());
                    let by = format!("{at}?fieldManager={manager}");
                    let change = match writer % 3 {
                        0 => patch(&by, "merge", &json!({"data": {&manager: value}})),
                        _ => applied(&manager, json!({&manager: value})),
                    };
                    proxies[(writer + write) % 2].accepts(change);
                }
            });
        }
    });
    let stored = upstream().send(&User::admin(), get(&at)).json();
    assert_eq!(stored["data"]["writes"], (1 + WRITERS * WRITES).to_string());
    let mut owned = BTreeSet::new();
    for entry in stored["metadata"]["managedFields"].as_array().unwrap() {
        let (manager, operation) = (entry["manager"].as_str().unwrap(), entry["operation"].as_str().unwrap());
        let fields = entry["fieldsV1"]["f:data"].as_object().unwrap();
        let own = format!("f:{manager}");
        assert!(fields.contains_key(&own), "{entry}");
        // Fields that admission adds to a patch belong to the patch's manager.
        let may_own = |field: &String| field == &own || field == "." || (operation == "Update" && field == "f:writes");
        assert!(fields.keys().all(may_own), "{entry}");
        owned.insert((manager.to_owned(), operation.to_owned()));
    }
    assert_eq!(owned.len(), 1 + WRITERS, "{owned:?}");
}
