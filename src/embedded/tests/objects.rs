//! Create, update, patch, and the Status of rejected requests.

use super::client::{CONFIG_MAPS, Client, PODS, config_map, deployment, pod};
use crate::body::{empty, full};
use crate::config::Limits;
use http::Method;
use serde_json::{Value, json};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// Neither a built-in kind, a subresource, a definition nor a custom resource is deleted by an update.
#[tokio::test]
async fn an_update_never_deletes() {
    let client = Client::new();
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let versions = json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}},
        "subresources": {"status": {}}}]);
    let names = json!({"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"});
    let definition = json!({"metadata": {"name": "things.e.com"},
        "spec": {"group": "e.com", "scope": "Namespaced", "names": names, "versions": versions}});
    let things = "/apis/e.com/v1/namespaces/default/things";
    let thing = json!({"apiVersion": "e.com/v1", "kind": "Thing", "metadata": {"name": "a"}});
    for (collection, object, name) in [
        (CONFIG_MAPS, config_map("a"), "a"),
        (PODS, pod("a"), "a"),
        (definitions, definition, "things.e.com"),
        (things, thing, "a"),
    ] {
        client.post(collection, object).await.with_code(201);
        for path in ["", "/status"] {
            let path = format!("{collection}/{name}{path}");
            let change =
                json!({"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}});
            let _refused = client.patch(&path, "merge", change).await;
            let found = client.get(&format!("{collection}/{name}")).await.with_code(200);
            let metadata = &found["metadata"];
            assert_eq!(
                (metadata.get("deletionTimestamp"), metadata.get("deletionGracePeriodSeconds")),
                (None, None),
                "{path}"
            );
        }
    }
}

#[tokio::test]
async fn a_new_object_gets_its_metadata_from_the_server() {
    let client = Client::new();
    let submitted = json!({"spec": deployment("a")["spec"], "metadata": {
        "name": "a", "uid": "mine", "creationTimestamp": "2000-01-01T00:00:00Z", "deletionTimestamp": "2000-01-01T00:00:00Z",
        "generation": 7, "selfLink": "x", "managedFields": [{"manager": "m"}], "labels": {}}});
    let created = client.post(DEPLOYMENTS, submitted).await.with_code(201);
    let metadata = created["metadata"].as_object().unwrap();
    assert_eq!(metadata["generation"], 1);
    assert_eq!(metadata["namespace"], "default");
    assert_ne!(metadata["uid"], "mine");
    assert_ne!(metadata["creationTimestamp"], "2000-01-01T00:00:00Z");
    for field in ["deletionTimestamp", "selfLink", "labels"] {
        assert!(!metadata.contains_key(field), "{field}");
    }
    assert_eq!((&created["kind"], &created["apiVersion"]), (&json!("Deployment"), &json!("apps/v1")));
    assert_eq!(client.get(&format!("{DEPLOYMENTS}/a")).await.with_code(200), created);
}

#[tokio::test]
async fn a_name_is_drawn_for_generate_name() {
    let client = Client::new();
    let created = client.post(CONFIG_MAPS, json!({"metadata": {"generateName": "a-"}})).await.with_code(201);
    assert_eq!(created["metadata"]["name"].as_str().unwrap().len(), 7);
    let message = client.post(CONFIG_MAPS, json!({})).await.refused(422);
    assert_eq!(message, "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required");
}

#[tokio::test]
async fn a_create_is_refused_as_kube_apiserver_does() {
    let client = Client::new();
    client.post(CONFIG_MAPS, config_map("a")).await.with_code(201);
    for (body, code, message) in [
        (config_map("a"), 409, "configmaps \"a\" already exists"),
        (
            json!({"metadata": {"name": "b", "namespace": "other"}}),
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            json!({"metadata": {"name": "b", "resourceVersion": "3"}}),
            500,
            "resourceVersion should not be set on objects to be created",
        ),
        (
            json!({"metadata": {"name": "a/b"}}),
            422,
            "ConfigMap \"a/b\" is invalid: metadata.name: Invalid value: \"a/b\": may not contain '/'",
        ),
        (
            json!({"apiVersion": "apps/v1", "kind": "Deployment"}),
            400,
            "Deployment in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Deployment) to \
             (core.ConfigMap): unknown conversion",
        ),
    ] {
        assert_eq!(client.post(CONFIG_MAPS, body).await.refused(code), message);
    }
    let versioned = json!({"metadata": {"name": "b", "resourceVersion": "3"}});
    let shown = client.post(&format!("{CONFIG_MAPS}?dryRun=All"), versioned).await.with_code(201);
    assert_eq!(shown["metadata"]["resourceVersion"], "3");
    let message = client.post_as(CONFIG_MAPS, "application/json", "[]").await.refused(400);
    assert!(message.starts_with("the object provided is unrecognized (must be of type ConfigMap): "), "{message}");
    assert!(message.ends_with(" (5b5d)"), "{message}");
}

#[tokio::test]
async fn wrong_types_in_metadata_are_refused() {
    let client = Client::new();
    for metadata in [
        json!("text"),
        json!({"name": 1}),
        json!({"name": "a", "labels": []}),
        json!({"name": "a", "labels": {"a": 1}}),
        json!({"name": "a", "finalizers": {}}),
    ] {
        client.post(CONFIG_MAPS, json!({"metadata": metadata})).await.refused(400);
    }
}

#[tokio::test]
async fn bodies_are_json_yaml_or_protobuf_and_bounded() {
    let limits = Limits { body_bytes: 64, ..Default::default() };
    let client = Client::with_limits(limits);
    client.post_as(CONFIG_MAPS, "application/yaml", "metadata:\n  name: a\n").await.with_code(201);
    let protobuf = "k8s\0\n\u{f}\n\u{2}v1\u{12}\tConfigMap\u{12}\u{5}\n\u{3}\n\u{1}b";
    client.post_as(CONFIG_MAPS, "application/vnd.kubernetes.protobuf", protobuf).await.with_code(201);
    let message = client.post_as(CONFIG_MAPS, "application/cbor", "k8s").await.refused(415);
    assert!(message.starts_with("the body of the request was in an unknown format - accepted media types include: "));
    let message = client.post_as(CONFIG_MAPS, "application/json", &" ".repeat(65)).await.refused(413);
    assert_eq!(message, "Request entity too large: limit is 64");
    client.post_as(CONFIG_MAPS, "application/json", "{").await.refused(400);
}

#[tokio::test]
async fn an_update_needs_the_version_it_saw() {
    let client = Client::new();
    let mut object = client.post(CONFIG_MAPS, config_map("a")).await.with_code(201);
    let path = format!("{CONFIG_MAPS}/a");
    object["data"]["a"] = json!("2");
    let updated = client.put(&path, object.clone()).await.with_code(200);
    assert_ne!(updated["metadata"]["resourceVersion"], object["metadata"]["resourceVersion"]);
    object["data"]["a"] = json!("3");
    let answer = client.put(&path, object.clone()).await;
    assert_eq!(answer.body["reason"], "Conflict");
    assert_eq!(
        answer.refused(409),
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to \
         the latest version and try again"
    );
    // Without a resourceVersion an update overwrites other changes.
    client.put(&path, config_map("a")).await.with_code(200);
    let lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    client.post(lease, json!({"metadata": {"name": "l"}})).await.with_code(201);
    let answer = client.put(&format!("{lease}/l"), json!({"metadata": {"name": "l"}})).await;
    assert_eq!(
        answer.refused(422),
        "leases.coordination.k8s.io \"l\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    );
}

#[tokio::test]
async fn an_update_is_refused_as_kube_apiserver_does() {
    let client = Client::new();
    client.post(CONFIG_MAPS, config_map("a")).await.with_code(201);
    let path = format!("{CONFIG_MAPS}/a");
    assert_eq!(
        client.put(&path, config_map("b")).await.refused(400),
        "the name of the object (b) does not match the name on the URL (a)"
    );
    assert_eq!(
        client.put(&path, json!({})).await.refused(400),
        "the name of the object (a based on URL) was undeterminable: name must be provided"
    );
    assert_eq!(
        client.put(&path, json!({"metadata": {"name": "a", "namespace": "x"}})).await.refused(400),
        "the namespace of the object (x) does not match the namespace on the request (default)"
    );
    assert_eq!(
        client.put(&format!("{CONFIG_MAPS}/b"), config_map("b")).await.refused(404),
        "configmaps \"b\" not found"
    );
    let message = client.put(&path, json!({"metadata": {"name": "a", "uid": "u"}})).await.refused(409);
    assert!(message.contains("Precondition failed: UID in precondition: u, UID in object meta: "), "{message}");
    let message = client.patch(&path, "merge", json!({"metadata": {"uid": "u"}})).await.refused(422);
    assert_eq!(message, "ConfigMap \"a\" is invalid: metadata.uid: Invalid value: \"u\": field is immutable");
}

#[tokio::test]
async fn some_kinds_are_created_by_an_update() {
    let client = Client::new();
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l";
    client.put(path, json!({"metadata": {"name": "l"}})).await.with_code(201);
    client.get(path).await.with_code(200);
}

#[tokio::test]
async fn a_write_without_a_change_makes_no_version() {
    let client = Client::new();
    let created = client.post(CONFIG_MAPS, config_map("a")).await.with_code(201);
    let path = format!("{CONFIG_MAPS}/a");
    assert_eq!(client.put(&path, created.clone()).await.with_code(200), created);
    assert_eq!(client.put(&path, config_map("a")).await.with_code(200), created);
    assert_eq!(client.patch(&path, "merge", json!({"data": {"a": "1"}})).await.with_code(200), created);
}

#[tokio::test]
async fn the_generation_counts_what_is_wanted() {
    let client = Client::new();
    client.post(DEPLOYMENTS, deployment("a")).await.with_code(201);
    let path = format!("{DEPLOYMENTS}/a");
    let labelled = client.patch(&path, "merge", json!({"metadata": {"labels": {"a": "b"}}})).await.with_code(200);
    assert_eq!(labelled["metadata"]["generation"], 1);
    let scaled = client.patch(&path, "merge", json!({"spec": {"replicas": 3}})).await.with_code(200);
    assert_eq!(scaled["metadata"]["generation"], 2);
    let reported = client.patch(&format!("{path}/status"), "merge", json!({"status": {"replicas": 3}})).await;
    assert_eq!(reported.with_code(200)["metadata"]["generation"], 2);
}

#[tokio::test]
async fn an_empty_list_is_a_change_of_a_network_policy() {
    const POLICIES: &str = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";
    let client = Client::new();
    let plain = json!({"metadata": {"name": "a"}, "spec": {"podSelector": {"matchLabels": {"a": "b"}}}});
    client.post(POLICIES, plain.clone()).await.with_code(201);
    let path = format!("{POLICIES}/a");
    let mut with_empty = plain.clone();
    with_empty["spec"]["egress"] = json!([]);
    let mut with_nested = plain.clone();
    with_nested["spec"]["podSelector"]["matchExpressions"] = json!([]);
    let mut labelled = plain.clone();
    labelled["metadata"]["annotations"] = json!({});
    for (object, generation) in
        [(&with_empty, 2), (&with_empty, 3), (&plain, 3), (&with_nested, 4), (&labelled, 4), (&plain, 4)]
    {
        let updated = client.put(&path, object.clone()).await.with_code(200);
        assert_eq!(updated["metadata"]["generation"], generation, "{object}");
        assert_eq!(updated["spec"].get("egress"), None);
    }
    let patch = json!({"spec": {"egress": []}});
    assert_eq!(client.patch(&path, "merge", patch.clone()).await.with_code(200)["metadata"]["generation"], 5);
    let configuration = json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "spec": patch["spec"]});
    let path = format!("{path}?fieldManager=m");
    let applied = client.patch_as(&path, "application/apply-patch+yaml", configuration).await.with_code(200);
    assert_eq!(applied["metadata"]["generation"], 6);
}

#[tokio::test]
async fn an_empty_list_is_no_change_of_other_objects() {
    let client = Client::new();
    client.post(DEPLOYMENTS, deployment("a")).await.with_code(201);
    let patch = json!({"spec": {"template": {"spec": {"volumes": []}}}});
    let patched = client.patch(&format!("{DEPLOYMENTS}/a"), "merge", patch).await.with_code(200);
    assert_eq!(patched["metadata"]["generation"], 1);
}

#[tokio::test]
async fn the_generation_of_a_daemon_set_template_counts_its_changes() {
    const DAEMON_SETS: &str = "/apis/apps/v1/namespaces/default/daemonsets";
    const ANNOTATION: &str = "deprecated.daemonset.template.generation";
    let client = Client::new();
    let mut daemon_set = deployment("a");
    daemon_set["kind"] = json!("DaemonSet");
    let generations = |object: &Value| {
        let metadata = &object["metadata"];
        (metadata["generation"].as_i64().unwrap(), metadata["annotations"][ANNOTATION].as_str().unwrap().to_owned())
    };
    let created = client.post(DAEMON_SETS, daemon_set.clone()).await.with_code(201);
    assert_eq!(generations(&created), (1, "1".to_owned()));
    let path = format!("{DAEMON_SETS}/a");
    for (change, expected) in [
        (json!({"metadata": {"labels": {"a": "b"}}}), (1, "1")),
        (json!({"metadata": {"annotations": {ANNOTATION: "7"}}}), (1, "1")),
        (json!({"metadata": {"annotations": null}}), (1, "1")),
        (json!({"spec": {"minReadySeconds": 1}}), (2, "1")),
        (json!({"spec": {"template": {"metadata": {"labels": {"c": "d"}}}}}), (3, "2")),
    ] {
        let patched = client.patch(&path, "merge", change.clone()).await.with_code(200);
        assert_eq!(generations(&patched), (expected.0, expected.1.to_owned()), "{change}");
    }
    let updated = client.put(&path, daemon_set.clone()).await.with_code(200);
    assert_eq!(generations(&updated), (4, "3".to_owned()));
    daemon_set["metadata"] = json!({"name": "b", "annotations": {ANNOTATION: "5"}});
    assert_eq!(generations(&client.post(DAEMON_SETS, daemon_set).await.with_code(201)), (1, "5".to_owned()));
}

#[tokio::test]
async fn a_claim_template_has_labels_and_annotations_and_no_other_metadata() {
    const TEMPLATES: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates";
    let client = Client::new();
    let template = |metadata: Value| json!({"metadata": {"name": "a"}, "spec": {"metadata": metadata, "spec": {}}});
    let other = json!({"labels": {"a": "b"}, "uid": "u", "creationTimestamp": "2020-01-01T00:00:00Z"});
    let why = "ResourceClaimTemplate.resource.k8s.io \"a\" is invalid: [spec.metadata.uID: Forbidden: cannot be set, \
               spec.metadata.creationTimestamp: Forbidden: cannot be set]";
    assert_eq!(client.post(TEMPLATES, template(other)).await.refused(422), why);
    let allowed = json!({"labels": {"a": "b"}, "annotations": {"c": "d"}, "creationTimestamp": null, "name": ""});
    let created = client.post(TEMPLATES, template(allowed)).await.with_code(201);
    assert_eq!(created["spec"]["metadata"], json!({"labels": {"a": "b"}, "annotations": {"c": "d"}}));
}

#[tokio::test]
async fn status_and_the_rest_are_written_apart() {
    let client = Client::new();
    let mut submitted = deployment("a");
    submitted["status"] = json!({"replicas": 9});
    let created = client.post(DEPLOYMENTS, submitted).await.with_code(201);
    assert_eq!(created["status"], json!({}));
    let path = format!("{DEPLOYMENTS}/a");
    let both = json!({"spec": {"replicas": 5}, "status": {"replicas": 5}});
    let reported = client.patch(&format!("{path}/status"), "merge", both.clone()).await.with_code(200);
    assert_eq!((&reported["spec"]["replicas"], &reported["status"]["replicas"]), (&json!(1), &json!(5)));
    let both = json!({"spec": {"replicas": 6}, "status": {"replicas": 6}});
    let scaled = client.patch(&path, "merge", both).await.with_code(200);
    assert_eq!((&scaled["spec"]["replicas"], &scaled["status"]["replicas"]), (&json!(6), &json!(5)));
}

#[tokio::test]
async fn every_type_of_patch_applies() {
    let client = Client::new();
    client.post(PODS, pod("a")).await.with_code(201);
    let path = format!("{PODS}/a");
    let json_patch = json!([{"op": "add", "path": "/metadata/labels", "value": {"j": "1"}}]);
    client.patch(&path, "json", json_patch).await.with_code(200);
    client.patch(&path, "merge", json!({"metadata": {"labels": {"m": "1"}}})).await.with_code(200);
    let image = json!({"spec": {"containers": [{"name": "c", "image": "j"}]}});
    let patched = client.patch(&path, "strategic-merge", image).await.with_code(200);
    assert_eq!(patched["metadata"]["labels"], json!({"j": "1", "m": "1"}));
    assert_eq!(patched["spec"]["containers"][0]["image"], "j");
    let container = json!({"spec": {"containers": [{"name": "d", "image": "i"}]}});
    let message = client.patch(&path, "strategic-merge", container).await.refused(422);
    assert_eq!(
        message,
        "Pod \"a\" is invalid: spec.containers: Forbidden: pod updates may not add or remove containers"
    );
    let labelled = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"s": "1"}}});
    let applied = client.patch_as(&format!("{path}?fieldManager=m"), "application/apply-patch+yaml", labelled).await;
    assert_eq!(applied.with_code(200)["metadata"]["labels"], json!({"j": "1", "m": "1", "s": "1"}));
    client.patch_as(&path, "application/json", json!({})).await.refused(415);
    assert_eq!(client.patch(&format!("{PODS}/b"), "merge", json!({})).await.refused(404), "pods \"b\" not found");
    let stale = json!({"metadata": {"resourceVersion": "1", "labels": {"x": "y"}}});
    client.patch(&path, "merge", stale).await.refused(409);
    client.patch(&path, "merge", json!({"kind": "Node"})).await.refused(422);
    client.patch(&path, "merge", json!({"metadata": {"name": "b"}})).await.refused(400);
}

#[tokio::test]
async fn a_dry_run_stores_nothing() {
    let client = Client::new();
    let created = client.post(&format!("{CONFIG_MAPS}?dryRun=All"), config_map("a")).await.with_code(201);
    assert_eq!(created["data"]["a"], "1");
    let path = format!("{CONFIG_MAPS}/a");
    client.get(&path).await.refused(404);
    let stored = client.post(CONFIG_MAPS, config_map("a")).await.with_code(201);
    let patch = json!({"data": {"a": "2"}});
    let patched = client.patch(&format!("{path}?dryRun=All"), "merge", patch).await.with_code(200);
    assert_eq!(patched["data"]["a"], "2");
    client.delete(&format!("{path}?dryRun=All")).await.with_code(200);
    client.delete(&format!("{CONFIG_MAPS}?dryRun=All")).await.with_code(200);
    assert_eq!(client.get(&path).await.with_code(200), stored);
    let message = client.post(&format!("{CONFIG_MAPS}?dryRun=Some"), config_map("b")).await.refused(422);
    assert_eq!(
        message,
        "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Some\"]: supported values: \"All\""
    );
}

#[tokio::test]
async fn unknown_paths_and_verbs_are_refused() {
    let client = Client::new();
    let missing = "the server could not find the requested resource";
    for path in [
        "/apis/apps/v1/foos",
        "/api/v1/pods/a",
        "/api/v1/namespaces/default/nodes",
        "/api/v1/namespaces/default/pods/a/none",
        "/api/v1/namespaces/default/pods/a/status/more",
        "/apis/apps/v9",
        "/api/v9",
    ] {
        assert_eq!(client.get(path).await.refused(404), missing, "{path}");
    }
    for path in ["/none", "/apis/none", "/apis/none/v1", "/apis/none/v1/foos"] {
        assert_eq!(client.get(path).await.with_code(404), "404 page not found\n", "{path}");
    }
    let wrong = "the server does not allow this method on the requested resource";
    assert_eq!(client.post("/api/v1/pods", pod("a")).await.refused(405), wrong);
    assert_eq!(client.put(CONFIG_MAPS, config_map("a")).await.refused(405), wrong);
    assert_eq!(client.get("/apis/authorization.k8s.io/v1/subjectaccessreviews").await.refused(405), wrong);
}

#[tokio::test]
async fn a_secrets_strings_become_data() {
    let client = Client::new();
    let secrets = "/api/v1/namespaces/default/secrets";
    let secret = json!({"metadata": {"name": "a"}, "stringData": {"k": "v"}, "data": {"k": "eA==", "l": "eA=="}});
    let created = client.post(secrets, secret).await.with_code(201);
    assert_eq!(created["data"], json!({"k": "dg==", "l": "eA=="}));
    assert_eq!((created.get("stringData"), &created["type"]), (None, &json!("Opaque")));
}

#[tokio::test]
async fn the_endpoints_of_a_service_go_with_it() {
    let client = Client::new();
    let (services, endpoints) = ("/api/v1/namespaces/default/services", "/api/v1/namespaces/default/endpoints");
    for name in ["a", "b"] {
        let service = json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 1}]}});
        client.post(services, service).await.with_code(201);
        client.post(endpoints, json!({"metadata": {"name": name}})).await.with_code(201);
    }
    client.delete(&format!("{services}/a?dryRun=All")).await.with_code(200);
    client.get(&format!("{endpoints}/a")).await.with_code(200);
    client.delete(&format!("{services}/a")).await.with_code(200);
    client.get(&format!("{endpoints}/a")).await.refused(404);
    client.get(&format!("{endpoints}/b")).await.with_code(200);
}

#[tokio::test]
async fn a_service_loses_what_its_new_type_does_not_need() {
    let client = Client::new();
    let services = "/api/v1/namespaces/default/services";
    let spec = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80}]});
    let created = client.post(services, json!({"metadata": {"name": "a"}, "spec": spec})).await.with_code(201);
    assert_eq!(
        (&created["spec"]["ports"][0]["nodePort"], &created["spec"]["healthCheckNodePort"]),
        (&json!(30086), &json!(30087))
    );
    let path = format!("{services}/a");
    let updated = client.patch(&path, "merge", json!({"spec": {"type": "ClusterIP"}})).await.with_code(200);
    for gone in ["externalTrafficPolicy", "healthCheckNodePort"] {
        assert_eq!(updated["spec"].get(gone), None);
    }
    assert_eq!(updated["spec"]["ports"][0].get("nodePort"), None);
    assert_eq!(updated["spec"]["clusterIP"], created["spec"]["clusterIP"]);
    let external = json!({"spec": {"type": "ExternalName", "externalName": "a.test"}});
    let updated = client.patch(&path, "merge", external).await.with_code(200);
    assert_eq!(updated["spec"].get("clusterIP"), None);
    let back = client.patch(&path, "merge", json!({"spec": {"type": "NodePort", "externalName": null}})).await;
    assert!(back.with_code(200)["spec"]["clusterIP"].is_string());
}

#[tokio::test]
async fn a_claims_source_is_shown_in_both_forms() {
    let client = Client::new();
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        "dataSource": {"kind": "PersistentVolumeClaim", "name": "b"}});
    let created = client.post(claims, json!({"metadata": {"name": "a"}, "spec": spec})).await.with_code(201);
    assert_eq!(created["spec"]["dataSourceRef"], created["spec"]["dataSource"]);
    let updated = client.put(&format!("{claims}/a"), json!({"metadata": {"name": "a"}, "spec": spec})).await;
    assert_eq!(updated.with_code(200)["spec"], created["spec"]);
}

#[tokio::test]
async fn a_service_gets_an_address_and_keeps_it() {
    let client = Client::new();
    let services = "/api/v1/namespaces/default/services";
    let service =
        |name: &str, kind: &str| json!({"metadata": {"name": name}, "spec": {"type": kind, "ports": [{"port": 80}]}});
    let a = client.post(services, service("a", "NodePort")).await.with_code(201);
    let b = client.post(services, service("b", "ClusterIP")).await.with_code(201);
    assert_ne!(a["spec"]["clusterIP"], b["spec"]["clusterIP"]);
    assert_eq!(a["spec"]["clusterIPs"], json!([a["spec"]["clusterIP"]]));
    assert_eq!(a["spec"]["ports"], json!([{"port": 80, "protocol": "TCP", "targetPort": 80, "nodePort": 30086}]));
    let updated = client.put(&format!("{services}/a"), service("a", "NodePort")).await.with_code(200);
    assert_eq!(updated["spec"], a["spec"]);
    let mut taken = service("c", "ClusterIP");
    taken["spec"]["clusterIP"] = a["spec"]["clusterIP"].clone();
    client.post(services, taken).await.refused(422);
    let mut headless = service("d", "ClusterIP");
    headless["spec"]["clusterIP"] = json!("None");
    let headless = client.post(services, headless).await.with_code(201);
    assert_eq!(headless["spec"]["clusterIPs"], json!(["None"]));
}

#[tokio::test]
async fn one_object_is_served_in_both_its_versions() {
    let client = Client::new();
    let v1 = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
    let v2 = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let submitted = json!({"metadata": {"name": "a"}, "spec": {"maxReplicas": 2, "targetCPUUtilizationPercentage": 50,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}}});
    client.post(v1, submitted).await.with_code(201);
    let shown = client.get(&format!("{v2}/a")).await.with_code(200);
    assert_eq!(shown["apiVersion"], "autoscaling/v2");
    assert_eq!(shown["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 50);
    let patch = json!({"spec": {"targetCPUUtilizationPercentage": 60}});
    let patched = client.patch(&format!("{v1}/a"), "merge", patch).await.with_code(200);
    assert_eq!(patched["apiVersion"], "autoscaling/v1");
    let shown = client.get(&format!("{v2}/a")).await.with_code(200);
    assert_eq!(shown["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 60);

    let event =
        json!({"metadata": {"name": "e"}, "involvedObject": {"name": "x", "namespace": "default"}, "message": "m"});
    client.post("/api/v1/namespaces/default/events", event).await.with_code(201);
    let list = client.get("/apis/events.k8s.io/v1/namespaces/default/events").await.with_code(200);
    assert_eq!((&list["apiVersion"], &list["items"][0]["note"]), (&json!("events.k8s.io/v1"), &json!("m")));
}

#[tokio::test]
async fn metadata_of_an_update_is_validated_for_all_kinds_and_for_its_own() {
    let client = Client::new();
    client.post(CONFIG_MAPS, config_map("a")).await.with_code(201);
    let status =
        client.patch(&format!("{CONFIG_MAPS}/a"), "merge", json!({"metadata": {"uid": "x"}})).await.with_code(422);
    let causes = status["details"]["causes"].as_array().unwrap();
    assert_eq!(causes.len(), 2);
    for cause in causes {
        assert_eq!(
            (&cause["field"], &cause["message"]),
            (&json!("metadata.uid"), &json!("Invalid value: \"x\": field is immutable"))
        );
    }
}

#[tokio::test]
async fn a_taken_name_counts_as_generated_with_a_prefix() {
    let client = Client::new();
    client.post(CONFIG_MAPS, config_map("a")).await.with_code(201);
    let plain = client.post(CONFIG_MAPS, config_map("a")).await.with_code(409);
    assert_eq!(plain["message"], "configmaps \"a\" already exists");
    let status =
        client.post(CONFIG_MAPS, json!({"metadata": {"name": "a", "generateName": "b-"}})).await.with_code(409);
    let message = "configmaps \"a\" already exists, the server was not able to generate a unique name for the object";
    assert_eq!((&status["message"], &status["details"]["retryAfterSeconds"]), (&json!(message), &json!(1)));
}

#[tokio::test]
async fn warnings_of_values_are_in_the_answer() {
    let client = Client::new();
    let warnings = async |method: Method, path: &str, media_type: &str, body: Value| -> Vec<String> {
        let response = client.send(method, path, media_type, full(body.to_string())).await;
        let values = response.headers().get_all("warning").iter();
        values.map(|value| value.to_str().unwrap().to_owned()).collect()
    };
    let json_type = "application/json";
    let mut object = deployment("d");
    object["spec"]["template"]["spec"]["nodeSelector"] = json!({"beta.kubernetes.io/os": "linux"});
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let warning = "299 - \"spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \
                   \\\"kubernetes.io/os\\\" instead\"";
    assert_eq!(warnings(Method::POST, path, json_type, object).await, [warning]);
    let merge = "application/merge-patch+json";
    let path = format!("{path}/d");
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    assert!(warnings(Method::PATCH, &path, merge, label).await.is_empty());
    let replicas = json!({"spec": {"replicas": 2}});
    assert_eq!(warnings(Method::PATCH, &path, merge, replicas).await, [warning]);
    let secret =
        json!({"metadata": {"name": "s"}, "type": "kubernetes.io/tls", "data": {"tls.crt": "", "tls.key": ""}});
    assert_eq!(
        warnings(Method::POST, "/api/v1/namespaces/default/secrets", json_type, secret).await,
        ["299 - \"tls: failed to find any PEM data in certificate input\""]
    );
    let endpoints = "/api/v1/namespaces/default/endpoints";
    let deprecated = ["299 - \"v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice\""];
    for path in [
        endpoints.to_owned(),
        format!("{endpoints}/none"),
        format!("{endpoints}?limit=x"),
        format!("{endpoints}?watch=1&limit=x"),
    ] {
        assert_eq!(warnings(Method::GET, &path, "", json!(null)).await, deprecated, "{path}");
    }
    assert!(warnings(Method::TRACE, endpoints, "", json!(null)).await.is_empty());
    let jobs = "/apis/batch/v1/namespaces/default/jobs/none";
    assert!(warnings(Method::DELETE, jobs, "", json!({"propagationPolicy": "Orphan"})).await.is_empty());
}

#[tokio::test]
async fn methods_without_a_route_are_refused() {
    let client = Client::new();
    client.post(CONFIG_MAPS, config_map("a")).await.with_code(201);
    let code = async |method: Method, path: &str| client.send(method, path, "", empty()).await.status().as_u16();
    for (path, expected) in [
        (CONFIG_MAPS.to_owned(), 405),
        (format!("{CONFIG_MAPS}/a"), 405),
        (format!("{CONFIG_MAPS}/a/none"), 404),
        ("/api/v1/watch/namespaces/default/configmaps".to_owned(), 405),
        ("/api/v1/none".to_owned(), 404),
    ] {
        assert_eq!(code(Method::HEAD, &path).await, expected, "{path}");
    }
}
