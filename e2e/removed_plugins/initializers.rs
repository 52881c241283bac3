//! Initializers, in front of the embedded API server.

use crate::harness::{Proxy, User, Webhook, delete, eventually, get, patch, post};
use serde_json::{Value, json};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1alpha1/initializerconfigurations";

/// Configures an initializer of config maps, and waits until it takes effect.
fn configure(proxy: &Proxy) {
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1alpha1", "kind": "InitializerConfiguration", "metadata": {"name": "c"},
        "initializers": [{
            "name": "one.example.com",
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
        }],
    });
    proxy.accepts(post(CONFIGURATIONS, &configuration));
    waits(proxy, true);
}

/// Waits until a create has an initializer, or none.
fn waits(proxy: &Proxy, is_pending: bool) {
    eventually("another answer to a create", || {
        let path = format!("{CONFIG_MAPS}?includeUninitialized=true&dryRun=All");
        let answer = proxy.send(&User::admin(), post(&path, &json!({"metadata": {"name": "dry"}})));
        (answer.status == if is_pending { 202 } else { 201 }).then_some(())
    });
}

fn pending() -> Value {
    json!({"pending": [{"name": "one.example.com"}]})
}

/// Creates an uninitialized config map.
fn create(proxy: &Proxy, name: &str) {
    let path = format!("{CONFIG_MAPS}?includeUninitialized=true");
    let created = proxy.accepts(post(&path, &json!({"metadata": {"name": name}})));
    assert_eq!(created["metadata"]["initializers"], pending());
}

#[test]
fn the_initializers_of_a_new_object_are_set_between_the_webhooks() {
    let plugins = "--enable-admission-plugins=Initializers,MutatingAdmissionWebhook,ValidatingAdmissionWebhook";
    let proxy = Proxy::embedded(&[plugins]);
    configure(&proxy);
    let webhook = Webhook::start();
    for (kind, path) in [("Mutating", "/label/a/b"), ("Validating", "/allow")] {
        let resource = format!("{}webhookconfigurations", kind.to_lowercase());
        let configuration = webhook.configuration(kind, "w", "default", &[path]);
        proxy.accepts(post(&format!("/apis/admissionregistration.k8s.io/v1/{resource}"), &configuration));
    }
    eventually("both webhooks", || {
        webhook.take();
        let path = format!("{CONFIG_MAPS}?includeUninitialized=true&dryRun=All");
        proxy.accepts(post(&path, &json!({"metadata": {"name": "dry"}})));
        (webhook.take().len() == 2).then_some(())
    });
    let seen = || {
        let asked = webhook.take().into_iter().map(|review| {
            let metadata = &review.body["request"]["object"]["metadata"];
            let path = review.path.split('?').next().unwrap_or_default();
            (path.to_owned(), metadata["initializers"].clone())
        });
        asked.collect::<Vec<_>>()
    };
    create(&proxy, "c");
    assert_eq!(seen(), [("/label/a/b".to_owned(), Value::Null), ("/allow".to_owned(), pending())]);
    // Both webhooks are asked about the update of an initializer.
    let done = json!({"metadata": {"initializers": null}});
    proxy.accepts(patch(&format!("{CONFIG_MAPS}/c"), "merge", &done));
    assert_eq!(seen(), [("/label/a/b".to_owned(), Value::Null), ("/allow".to_owned(), Value::Null)]);
}

#[test]
fn an_object_stays_uninitialized_without_its_configuration() {
    let proxy = Proxy::embedded(&["--enable-admission-plugins=Initializers"]);
    configure(&proxy);
    create(&proxy, "c");
    proxy.rejects(post(CONFIG_MAPS, &json!({"metadata": {"name": "c"}})), 409, "configmaps \"c\" already exists");
    proxy.accepts(delete(&format!("{CONFIGURATIONS}/c")));
    waits(&proxy, false);
    assert_eq!(proxy.accepts(get(&format!("{CONFIG_MAPS}/c")))["metadata"]["initializers"], pending());
    let names = |query: &str| {
        let list = proxy.accepts(get(&format!("{CONFIG_MAPS}?fieldSelector=metadata.name%3Dc{query}")));
        list["items"].as_array().unwrap().len()
    };
    assert_eq!((names(""), names("&includeUninitialized=true")), (0, 1));
    // The deletion of a namespace includes the objects that its lists hide.
    proxy.accepts(post("/api/v1/namespaces", &json!({"metadata": {"name": "gone"}})));
    let hidden = json!({"metadata": {"name": "hidden", "initializers": pending()}});
    proxy.accepts(post("/api/v1/namespaces/gone/configmaps?includeUninitialized=true", &hidden));
    proxy.accepts(delete("/api/v1/namespaces/gone"));
    eventually("a namespace that is gone", || {
        (proxy.send(&User::admin(), get("/api/v1/namespaces/gone")).status == 404).then_some(())
    });
}
