//! Client libraries: the `kube` crate, Python's `kubernetes` and client-go, in front of both kinds of API server.

use crate::harness::{Api, Proxy, User, admitting, block_on, eventually, get, patience, program, seconds, upstream};
use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{
    Api as KubeApi, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

fn config_map(name: &str, value: &str) -> ConfigMap {
    let data = BTreeMap::from([("k".to_owned(), value.to_owned())]);
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() },
        data: Some(data),
        ..ConfigMap::default()
    }
}

fn the_kube_crate_works(api: &Api) {
    let namespace = api.namespace("kube-crate");
    let client = api.kube(&User::developer());
    block_on(async {
        let maps: KubeApi<ConfigMap> = KubeApi::namespaced(client, &namespace);
        let created = maps.create(&PostParams::default(), &config_map("one", "1")).await.unwrap();
        let version = created.metadata.resource_version.clone().unwrap();
        let mut replacement = config_map("one", "2");
        replacement.metadata.resource_version = Some(version.clone());
        maps.replace("one", &PostParams::default(), &replacement).await.unwrap();
        let stale = maps.replace("one", &PostParams::default(), &replacement).await.unwrap_err();
        assert!(matches!(&stale, kube::Error::Api(status) if status.code == 409), "{stale}");
        let merge = Patch::Merge(json!({"data": {"k": "3"}}));
        let patched = maps.patch("one", &PatchParams::default(), &merge).await.unwrap();
        assert_eq!(patched.data.unwrap()["k"], "3");
        let list = maps.list(&ListParams::default().fields("metadata.name=one")).await.unwrap();
        assert_eq!(list.items.len(), 1);

        let events = maps.watch(&WatchParams::default(), &version).await.unwrap().boxed();
        maps.delete("one", &DeleteParams::default()).await.unwrap();
        let seen: Vec<&str> = events
            .map_ok(|event| match event {
                WatchEvent::Added(_) => "added",
                WatchEvent::Modified(_) => "modified",
                WatchEvent::Deleted(_) => "deleted",
                WatchEvent::Bookmark(_) => "bookmark",
                WatchEvent::Error(_) => "error",
            })
            .take(3)
            .try_collect()
            .await
            .unwrap();
        assert_eq!(seen, ["modified", "modified", "deleted"]);
        let gone = maps.get("one").await.unwrap_err();
        assert!(matches!(&gone, kube::Error::Api(status) if status.reason == "NotFound"), "{gone}");
    });
}

/// A real server here creates no service accounts, which the plugin requires for pods.
const WITHOUT_SERVICE_ACCOUNTS: &str = "--disable-admission-plugins=ServiceAccount";

/// Patches of every kind that the crate offers, on an object with merged lists.
fn the_kube_crate_patches(api: &Api) {
    let namespace = api.namespace("kube-crate-patches");
    let client = api.kube(&User::developer());
    block_on(async {
        let pods: KubeApi<Pod> = KubeApi::namespaced(client, &namespace);
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "one"},
            "spec": {"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]},
        }))
        .unwrap();
        pods.create(&PostParams::default(), &pod).await.unwrap();
        let images = |pod: Pod| -> Vec<String> {
            pod.spec.unwrap().containers.into_iter().map(|container| container.image.unwrap()).collect()
        };
        let merge = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
        let merged = pods.patch("one", &PatchParams::default(), &merge).await.unwrap();
        assert_eq!(merged.metadata.labels.unwrap()["a"], "b");
        let strategic = Patch::Strategic(json!({"spec": {"containers": [{"name": "b", "image": "b:2"}]}}));
        let patched = pods.patch("one", &PatchParams::default(), &strategic).await.unwrap();
        assert_eq!(images(patched), ["a:1", "b:2"]);
        let operations = json!([{"op": "replace", "path": "/spec/containers/0/image", "value": "a:3"}]);
        let json: Patch<()> = Patch::Json(serde_json::from_value(operations).unwrap());
        assert_eq!(images(pods.patch("one", &PatchParams::default(), &json).await.unwrap()), ["a:3", "b:2"]);
        let apply = Patch::Apply(json!({"apiVersion": "v1", "kind": "Pod",
            "spec": {"containers": [{"name": "a", "image": "a:4"}]}}));
        let taken = pods.patch("one", &PatchParams::apply("me"), &apply).await.unwrap_err();
        assert!(matches!(&taken, kube::Error::Api(status) if status.code == 409), "{taken}");
        let forced = pods.patch("one", &PatchParams::apply("me").force(), &apply).await.unwrap();
        assert_eq!(images(forced), ["a:4", "b:2"]);
        let status = Patch::Merge(json!({"status": {"message": "m"}}));
        let patched = pods.patch_status("one", &PatchParams::default(), &status).await.unwrap();
        assert_eq!(patched.status.unwrap().message.unwrap(), "m");
    });
}

fn client_go_works(api: &Api) {
    client_go_accepts(api, "application/vnd.kubernetes.protobuf,application/json");
}

fn client_go_accepts(api: &Api, media_types: &str) {
    let session = program("clientgo");
    let namespace = api.namespace("client-go");
    let kubeconfig = api.kubeconfig(&User::admin());
    let output = Command::new(session)
        .arg(&namespace)
        .env("KUBECONFIG", kubeconfig)
        .env("PATIENCE", seconds(patience()))
        .env("ACCEPT", media_types)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Runs a script of e2e/python, which must succeed.
fn python(script: &str, arguments: &[&str], kubeconfig: &Path) {
    let python = std::env::var_os("E2E_PYTHON").expect("E2E_PYTHON is not set: run `make e2e`");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("e2e/python").join(script);
    let mut command = Command::new(python);
    command.arg(script).args(arguments).env("KUBECONFIG", kubeconfig).env("TMPDIR", kubeconfig.parent().unwrap());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn the_python_client_works(api: &Api) {
    python("session.py", &[&api.namespace("python")], &api.kubeconfig(&User::developer()));
}

#[test]
fn client_libraries_work_with_the_embedded_server() {
    let proxy = Proxy::embedded(&[]);
    the_kube_crate_works(&proxy);
    the_kube_crate_patches(&proxy);
    the_python_client_works(&proxy);
}

#[test]
fn client_libraries_work_with_kube_apiserver_itself() {
    the_kube_crate_works(admitting());
    the_kube_crate_patches(admitting());
    the_python_client_works(admitting());
}

#[test]
fn client_libraries_work_with_a_real_server() {
    let proxy = Proxy::before(upstream(), &[WITHOUT_SERVICE_ACCOUNTS]);
    the_kube_crate_works(&proxy);
    the_kube_crate_patches(&proxy);
    the_python_client_works(&proxy);
}

#[test]
fn the_python_clients_own_tests_pass_on_the_embedded_server() {
    let proxy = Proxy::embedded(&[]);
    eventually("a service account", || {
        let account = get("/api/v1/namespaces/default/serviceaccounts/default");
        (proxy.send(&User::admin(), account).status == 200).then_some(())
    });
    python("own_tests.py", &[], &proxy.kubeconfig(&User::admin()));
}

#[test]
fn the_python_clients_own_tests_pass_through_the_proxy() {
    let proxy = Proxy::before(upstream(), &[WITHOUT_SERVICE_ACCOUNTS]);
    python("own_tests.py", &[], &proxy.kubeconfig(&User::admin()));
}

#[test]
fn client_go_speaks_protobuf_with_kube_apiserver_itself() {
    client_go_works(admitting());
}

#[test]
fn client_go_speaks_nothing_but_protobuf_with_the_embedded_server() {
    client_go_accepts(&Proxy::embedded(&[WITHOUT_SERVICE_ACCOUNTS]), "application/vnd.kubernetes.protobuf");
}

#[test]
fn client_go_speaks_protobuf_with_a_real_server() {
    client_go_works(&Proxy::before(upstream(), &[WITHOUT_SERVICE_ACCOUNTS]));
}
