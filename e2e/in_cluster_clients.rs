//! InClusterClients: pods of labelled namespaces use the proxy, and trust its certificate.

use crate::harness::{Proxy, User, delete, eventually, folder, get, pki, post, put, unique, upstream};
use serde_json::{Value, json};

/// Creates a namespace with this label, and its service account, past the proxy.
fn namespace(label: &str) -> String {
    let name = unique("clients");
    let labels = json!({"inject.kube-admission-proxy.dev/clients": label});
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    for (path, object) in
        [("/api/v1/namespaces".to_owned(), object), (format!("/api/v1/namespaces/{name}/serviceaccounts"), account)]
    {
        let answer = upstream().send(&User::admin(), post(&path, &object));
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
    name
}

/// Creates a pod through the proxy.
fn pod(proxy: &Proxy, namespace: &str, labels: &Value) -> Value {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": unique("pod"), "labels": labels},
                     "spec": {"containers": [{"name": "c", "image": "i"}]}});
    proxy.accepts(post(&format!("/api/v1/namespaces/{namespace}/pods"), &pod))
}

/// The name of the ConfigMap beside the token of the pod's service account.
fn authorities(pod: &Value) -> &Value {
    let sources = pod["spec"]["volumes"][0]["projected"]["sources"].as_array().unwrap();
    sources.iter().find_map(|source| source.pointer("/configMap/name")).unwrap()
}

#[test]
fn pods_of_labelled_namespaces_use_the_proxy_and_trust_its_authority() {
    let file = folder("in-cluster").join("admission.yaml");
    let configuration = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": [
        {"name": "InClusterClients", "configuration": {
            "apiVersion": "config.kube-admission-proxy.dev/v1alpha1", "kind": "InClusterClientsConfiguration",
            "host": "proxy.example", "port": 8443, "certificateAuthority": pki().ca()}}]});
    std::fs::write(&file, configuration.to_string()).unwrap();
    let file = format!("--admission-control-config-file={}", file.display());
    let proxy = Proxy::before(upstream(), &["--enable-admission-plugins=InClusterClients", &file]);
    let (labelled, other) = (namespace("true"), namespace("false"));

    let map = format!("/api/v1/namespaces/{labelled}/configmaps/kube-admission-proxy-ca");
    let authority = std::fs::read_to_string(pki().ca()).unwrap();
    let kept = |what: &str| {
        eventually(what, || {
            let answer = upstream().send(&User::admin(), get(&map));
            (answer.status == 200 && answer.json()["data"] == json!({"ca.crt": authority})).then(|| answer.json())
        })
    };
    let mut stored = kept("the ConfigMap");
    stored["data"] = json!({"ca.crt": "of somebody else"});
    assert_eq!(upstream().send(&User::admin(), put(&map, &stored)).status, 200);
    kept("the ConfigMap as it was");
    assert_eq!(upstream().send(&User::admin(), delete(&map)).status, 200);
    kept("the ConfigMap again");

    let address = json!([{"name": "KUBERNETES_SERVICE_HOST", "value": "proxy.example"}, {"name": "KUBERNETES_SERVICE_PORT", "value": "8443"}]);
    let injected = eventually("a pod of the labelled namespace", || {
        let pod = pod(&proxy, &labelled, &json!({}));
        (pod["spec"]["containers"][0]["env"] == address).then_some(pod)
    });
    assert_eq!(authorities(&injected), "kube-admission-proxy-ca");
    let declining = json!({"inject.kube-admission-proxy.dev/clients": "false"});
    for (namespace, labels) in [(&labelled, declining), (&other, json!({}))] {
        let pod = pod(&proxy, namespace, &labels);
        assert_eq!(pod["spec"]["containers"][0]["env"], Value::Null, "{pod}");
        assert_eq!(authorities(&pod), "kube-root-ca.crt");
    }
    let answer =
        upstream().send(&User::admin(), get(&format!("/api/v1/namespaces/{other}/configmaps/kube-admission-proxy-ca")));
    assert_eq!(answer.status, 404);
}
