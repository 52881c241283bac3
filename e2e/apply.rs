//! Server-side apply where admission adds to what was applied: nobody owns that, as behind a kube-apiserver that admits.

use crate::harness::{Proxy, patch, upstream};
use serde_json::{Value, json};

/// Who owns what, without when.
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
fn what_admission_adds_is_owned_by_nobody_and_stays() {
    let plugins = "--enable-admission-plugins=AlwaysPullImages";
    // There is no controller here that makes accounts.
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
    // Applied once more with other labels, what admission added is not taken back.
    let plain = applied(false, "plain", json!({"b": "2"}));
    let again = applied(true, "admitted", json!({"b": "2"}));
    assert_eq!(again["metadata"]["labels"], json!({"b": "2"}));
    assert_eq!(again["spec"], admitted["spec"]);
    assert_eq!(owners(&again), owners(&plain));
}
