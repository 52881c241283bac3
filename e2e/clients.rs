//! Client libraries: the `kube` crate and Python's `kubernetes`, in front of both kinds of API server.

use crate::harness::{Api, Proxy, User, admitting, block_on, upstream};
use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{
    Api as KubeApi, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use serde_json::json;
use std::collections::BTreeMap;
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
        let patch = Patch::Merge(json!({"data": {"k": "3"}}));
        let patched = maps.patch("one", &PatchParams::default(), &patch).await.unwrap();
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

fn the_python_client_works(api: &Api) {
    let python = std::env::var_os("E2E_PYTHON").expect("E2E_PYTHON is not set: run `make e2e`");
    let namespace = api.namespace("python");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/e2e/python/session.py");
    let output = Command::new(python)
        .args([script, &namespace])
        .env("KUBECONFIG", api.kubeconfig(&User::developer()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn client_libraries_work_with_the_embedded_server() {
    let proxy = Proxy::embedded(&[]);
    the_kube_crate_works(&proxy);
    the_python_client_works(&proxy);
}

#[test]
fn client_libraries_work_with_kube_apiserver_itself() {
    the_kube_crate_works(admitting());
    the_python_client_works(admitting());
}

#[test]
fn client_libraries_work_with_a_real_server() {
    let proxy = Proxy::before(upstream(), &[]);
    the_kube_crate_works(&proxy);
    the_python_client_works(&proxy);
}
