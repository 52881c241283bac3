//! External admission hooks, in front of the embedded API server.

use super::{PODS, pod};
use crate::harness::{Proxy, Review, User, Webhook, delete, eventually, get, patch, post, put};
use serde_json::{Value, json};
use std::net::SocketAddr;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Creates the Service of a hook, and the configuration that asks the hook about `resources` of every group.
fn register(proxy: &Proxy, hook: &Webhook, address: SocketAddr, resources: &[&str]) {
    let service = json!({"metadata": {"name": "hook"}, "spec": {"ports": [{"port": 443}]}});
    let slice = json!({
        "metadata": {"name": "hook", "labels": {"kubernetes.io/service-name": "hook"}}, "addressType": "IPv4",
        "endpoints": [{"addresses": [address.ip()]}], "ports": [{"port": address.port()}],
    });
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1alpha1", "kind": "ExternalAdmissionHookConfiguration",
        "metadata": {"name": "hook"},
        "externalAdmissionHooks": [{
            "name": "some.e2e.test",
            "clientConfig": {
                "service": {"namespace": "default", "name": "hook", "path": "/other"},
                "caBundle": hook.client_config("/")["caBundle"],
            },
            "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": resources}],
        }],
    });
    proxy.accepts(post("/api/v1/namespaces/default/services", &service));
    proxy.accepts(post("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", &slice));
    let configurations = "/apis/admissionregistration.k8s.io/v1alpha1/externaladmissionhookconfigurations";
    proxy.accepts(post(configurations, &configuration));
}

/// The first review of a hook.
fn first(proxy: &Proxy, hook: &Webhook) -> Review {
    eventually("a pod that the hook is asked about", || {
        proxy.accepts(post(&format!("{PODS}?dryRun=All"), &pod("p", "default")));
        hook.take().pop()
    })
}

/// The object whose hook gives this answer.
fn answering(mut object: Value, answer: &Value) -> Value {
    object["metadata"]["annotations"] = json!({"e2e.test/answer": answer.to_string()});
    object
}

#[test]
fn an_external_hook_is_asked_at_its_place_in_the_list_of_plugins() {
    let (hook, address) = Webhook::start_as_endpoint();
    let limits =
        json!({"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]}});
    for (order, limit) in [
        ("GenericAdmissionWebhook,LimitRanger", Value::Null),
        ("LimitRanger,GenericAdmissionWebhook", json!({"cpu": "1"})),
    ] {
        let proxy = Proxy::embedded(&[&format!("--admission-control={order}"), "--enable-aggregator-routing"]);
        proxy.accepts(post("/api/v1/namespaces/default/limitranges", &limits));
        register(&proxy, &hook, address, &["pods"]);
        let object = &first(&proxy, &hook).body["spec"]["object"];
        assert_eq!(object["Spec"]["Containers"][0]["Resources"]["Limits"], limit, "{order}: {object}");
        let annotated = object["annotations"]["kubernetes.io/limit-ranger"].is_string();
        assert_eq!(annotated, !limit.is_null(), "{order}: {object}");
        assert_eq!(object["namespace"], "default", "{order}: {object}");
        let mut without = pod("q", "default");
        without["metadata"].as_object_mut().unwrap().remove("namespace");
        let mut stored = proxy.accepts(post(PODS, &without));
        stored["metadata"].as_object_mut().unwrap().remove("namespace");
        proxy.accepts(put(&format!("{PODS}/q"), &stored));
        let asked = hook.take();
        assert_eq!(asked.len(), 2, "{order}");
        for review in asked {
            assert_eq!(review.body["spec"]["object"]["namespace"], Value::Null, "{order}");
        }
    }
}

#[test]
fn the_result_of_an_external_hook_is_the_answer_of_the_request() {
    let (hook, address) = Webhook::start_as_endpoint();
    let proxy = Proxy::embedded(&["--enable-admission-plugins=GenericAdmissionWebhook", "--enable-aggregator-routing"]);
    register(&proxy, &hook, address, &["pods", "configmaps"]);
    first(&proxy, &hook);
    let named = |name: &str| json!({"metadata": {"name": name}});
    proxy.accepts(post(CONFIG_MAPS, &named("taken")));
    let create = |path: &str, object: Value, answer: &Value| {
        let answer = proxy.send(&User::admin(), post(path, &answering(object, answer)));
        (answer.status, answer.json())
    };
    let conflict = json!({
        "status": "Failure", "message": "no from the hook", "reason": "Conflict", "details": {"name": "n"}, "code": 409,
    });
    let unexplained = "admission webhook \"some.e2e.test\" denied the request without explanation";
    for (given, code, field, value) in [
        (json!({"allowed": false, "status": conflict}), 409, "details", json!({"name": "n"})),
        (json!({"allowed": false, "status": {"message": "only this"}}), 500, "message", json!("only this")),
        (json!({"allowed": false, "status": {"code": 418}}), 418, "status", json!("Failure")),
        // A success is no permission.
        (json!({"allowed": false, "status": {"status": "Success", "code": 200}}), 200, "status", json!("Success")),
        (json!({"allowed": false}), 500, "message", json!(unexplained)),
        (json!({}), 500, "message", json!(unexplained)),
    ] {
        let (status, answer) = create(CONFIG_MAPS, named("none"), &given);
        assert_eq!((status, &answer["kind"], &answer[field]), (code, &json!("Status"), &value), "{given}");
        assert_eq!(proxy.send(&User::admin(), get(&format!("{CONFIG_MAPS}/none"))).status, 404, "{given}");
    }
    // The hook is asked before the validation, and about a name that is already taken.
    let teapot = json!({"allowed": false, "status": {"code": 418}});
    let mut invalid = pod("invalid", "default");
    invalid["spec"]["containers"][0]["name"] = json!("C_");
    assert_eq!(create(PODS, invalid.clone(), &teapot).0, 418);
    assert_eq!(create(PODS, invalid, &json!({"allowed": true})).0, 422);
    assert_eq!(create(CONFIG_MAPS, named("taken"), &teapot).0, 418);
    assert_eq!(create(CONFIG_MAPS, named("taken"), &json!({"allowed": true})).0, 409);
}

#[test]
fn an_external_hook_is_asked_once_about_a_collection_and_about_reviews() {
    let (hook, address) = Webhook::start_as_endpoint();
    let proxy = Proxy::embedded(&["--enable-admission-plugins=GenericAdmissionWebhook", "--enable-aggregator-routing"]);
    let resources = ["pods", "configmaps", "selfsubjectaccessreviews", "externaladmissionhookconfigurations"];
    register(&proxy, &hook, address, &resources);
    first(&proxy, &hook);
    let ask = |request| {
        hook.take();
        let answer = proxy.send(&User::admin(), request);
        assert!(answer.status < 300, "{}", answer.text());
        let mut asked = hook.take();
        assert_eq!(asked.len(), 1);
        asked.remove(0).body["spec"].take()
    };
    for name in ["a", "b"] {
        proxy.accepts(post(CONFIG_MAPS, &json!({"metadata": {"name": name, "labels": {"of": "test"}}})));
    }
    // With objects, and without.
    for _ in 0..2 {
        let asked = ask(delete(&format!("{CONFIG_MAPS}?labelSelector=of%3Dtest")));
        assert_eq!((&asked["operation"], asked.get("name")), (&json!("DELETE"), None));
        assert_eq!((&asked["object"], &asked["oldObject"]), (&Value::Null, &Value::Null));
        assert_eq!(proxy.send(&User::admin(), get(&format!("{CONFIG_MAPS}/a"))).status, 404);
    }
    let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let asked = ask(post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review));
    assert_eq!(asked["kind"]["kind"], "SelfSubjectAccessReview");
    let configurations = "/apis/admissionregistration.k8s.io/v1alpha1/externaladmissionhookconfigurations";
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let asked = ask(patch(&format!("{configurations}/hook"), "merge", &label));
    assert_eq!((&asked["operation"], &asked["name"]), (&json!("UPDATE"), &json!("hook")));
    // Kubernetes 1.8 had neither a path nor an URL.
    let stored = proxy.accepts(get(&format!("{configurations}/hook")));
    let client = &stored["externalAdmissionHooks"][0]["clientConfig"];
    assert_eq!(client["service"], json!({"namespace": "default", "name": "hook"}));
    assert_eq!(stored["externalAdmissionHooks"][0]["failurePolicy"], "Ignore");
}
