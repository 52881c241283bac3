//! Clients of tenants: kubectl, the `kube` crate and Helm, by path and by server name, in front of both kinds of API server.

use super::{Folder, blue, config_map, namespace, of, ok};
use crate::harness::{Proxy, User, block_on, eventually, folder, get, kube_client, post, program, unique, upstream};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api as KubeApi, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A proxy with `blue` in front of the embedded API server and `red` in front of a real one; and a namespace of each.
fn two_servers() -> (Folder, Proxy, [(&'static str, User, String); 2]) {
    let tenants = Folder::blue_and_green();
    let kubeconfig = upstream().kubeconfig(&User::named("admission-proxy", "system:masters"));
    let real = upstream().namespace("red");
    let more = json!({"namespaces": {"names": [real]}, "upstream": {"kubeconfig": kubeconfig}, "serverNames": ["green.example.com"],
        "admission": {"base": "none", "enablePlugins": ["AlwaysPullImages", "MutatingAdmissionWebhook"]}});
    tenants.write("green", &of("team-green", &json!({"namespaces": {"names": ["green-*"]}})));
    tenants.write("red", &of("developers", &more));
    let proxy = Proxy::embedded(&[&tenants.flag()]);
    ok(&proxy, &blue(), post("/api/v1/namespaces", &namespace("blue-c")));
    (tenants, proxy, [("blue", blue(), "blue-c".to_owned()), ("red", User::developer(), real)])
}

/// The kubeconfigs of a tenant: by path, and by server name.
fn ways(proxy: &Proxy, tenant: &str, user: &User) -> [PathBuf; 2] {
    let server_name = if tenant == "blue" { "blue.example.com" } else { "green.example.com" };
    [proxy.kubeconfig_at(user, &format!("/tenants/{tenant}"), None), proxy.kubeconfig_at(user, "", Some(server_name))]
}

#[test]
fn the_kube_crate_works_by_path_and_by_server_name() {
    let (_tenants, proxy, callers) = two_servers();
    for (tenant, user, namespace) in &callers {
        for kubeconfig in ways(&proxy, tenant, user) {
            let client = kube_client(&kubeconfig);
            block_on(async {
                let maps: KubeApi<ConfigMap> = KubeApi::namespaced(client.clone(), namespace);
                let name = unique("map");
                let map = serde_json::from_value(config_map(&name)).unwrap();
                let made = maps.create(&PostParams::default(), &map).await.unwrap();
                let version = made.metadata.resource_version.unwrap();
                let change = Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "2"}}));
                let applied = maps.patch(&name, &PatchParams::apply("e2e"), &change).await.unwrap();
                assert_eq!(applied.data.unwrap()["k"], "2");
                let list = maps.list(&ListParams::default().fields(&format!("metadata.name={name}"))).await.unwrap();
                assert_eq!(list.items.len(), 1);
                let events = maps.watch(&WatchParams::default(), &version).await.unwrap();
                let mut events = Box::pin(events);
                let event = futures_util::StreamExt::next(&mut events).await.unwrap().unwrap();
                assert!(matches!(event, WatchEvent::Modified(_)), "{event:?}");
                maps.delete(&name, &DeleteParams::default()).await.unwrap();
                let elsewhere: KubeApi<Pod> = KubeApi::namespaced(client, "green-elsewhere");
                let refused = elsewhere.list(&ListParams::default()).await.unwrap_err();
                assert!(matches!(&refused, kube::Error::Api(status) if status.code == 403), "{refused}");
            });
        }
    }
}

/// A chart with one ConfigMap and one Deployment.
fn chart() -> PathBuf {
    let chart = folder("chart");
    fs::create_dir_all(chart.join("templates")).unwrap();
    fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: small\nversion: 1.0.0\n").unwrap();
    fs::write(chart.join("values.yaml"), "text: one\n").unwrap();
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Release.Name }}\"}\ndata: {text: \"{{ .Values.text }}\"}\n";
    fs::write(chart.join("templates/map.yaml"), map).unwrap();
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "{{ .Release.Name }}"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "example.com/i:1"}]}}}});
    fs::write(chart.join("templates/deployment.yaml"), deployment.to_string()).unwrap();
    chart
}

fn helm(kubeconfig: &Path, arguments: &[&str]) -> String {
    let helm = program("helm");
    let home = folder("helm");
    let output = Command::new(helm).args(arguments).env("KUBECONFIG", kubeconfig).env("HOME", home).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "helm {arguments:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn helm_works_by_path_and_by_server_name() {
    let (_tenants, proxy, callers) = two_servers();
    let chart = chart();
    let chart = chart.to_str().unwrap();
    for (tenant, user, namespace) in &callers {
        for kubeconfig in ways(&proxy, tenant, user) {
            let name = unique("release");
            let run = |arguments: &[&str]| helm(&kubeconfig, &[&["--namespace", namespace], arguments].concat());
            run(&["install", &name, chart]);
            run(&["upgrade", &name, chart, "--set", "text=two"]);
            let path = format!("/tenants/{tenant}/api/v1/namespaces/{namespace}/configmaps/{name}");
            assert_eq!(ok(&proxy, user, get(&path))["data"]["text"], "two");
            run(&["rollback", &name, "1"]);
            assert_eq!(ok(&proxy, user, get(&path))["data"]["text"], "one");
            assert!(run(&["list", "--short"]).contains(&name));
            run(&["uninstall", &name]);
            assert_eq!(proxy.send(user, get(&path)).status, 404);
        }
    }
}

#[test]
fn tenants_of_one_real_api_server_get_different_answers_to_the_same_request() {
    let tenants = Folder::new();
    let [one, other] = [upstream().namespace("one"), upstream().namespace("other")];
    tenants.write(
        "one",
        &of(
            "team-one",
            &json!({"namespaces": {"names": [one]}, "authorization": {"ownNamespacesOnly": false},
        "admission": {"base": "none", "enablePlugins": ["AlwaysPullImages"]}}),
        ),
    );
    tenants.write(
        "other",
        &of(
            "team-other",
            &json!({"namespaces": {"names": [other]}, "authorization": {"ownNamespacesOnly": false},
        "admission": {"base": "none", "enablePlugins": ["AlwaysDeny"]}}),
        ),
    );
    tenants.write(
        "third",
        &of(
            "team-other",
            &json!({"namespaces": {"names": ["third-*"]}, "authorization": {"ownNamespacesOnly": false},
        "admission": {"base": "none"}}),
        ),
    );
    let proxy = Proxy::before(upstream(), &[&tenants.flag()]);
    let [in_one, in_other] = [User::named("uma", "team-one"), User::named("otto", "team-other")];
    for (user, namespace) in [(&in_one, &one), (&in_other, &other)] {
        let name = match user {
            User::Certificate(_) if namespace == &one => "uma",
            _ => "otto",
        };
        let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": unique(name)},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}]});
        ok_upstream(&binding);
        // The proxy keeps a refusal for a while.
        eventually("the rights of the binding", || {
            (upstream().send(user, get("/api/v1/nodes")).status == 200).then_some(())
        });
    }
    let pod = super::pod("p");
    let at = |tenant: &str, namespace: &str| {
        post(&format!("/tenants/{tenant}/api/v1/namespaces/{namespace}/pods?dryRun=All"), &pod)
    };
    let made = ok(&proxy, &in_one, at("one", &one));
    assert_eq!(made["spec"]["containers"][0]["imagePullPolicy"], "Always");
    let denied = proxy.send(&in_other, at("other", &other));
    assert!(denied.message().contains("admission control is denying all modifications"), "{}", denied.text());
    // Another tenant of the same caller has no say in this namespace.
    let foreign = proxy.send(&in_other, at("third", &other));
    assert_eq!(foreign.status, 403, "{}", foreign.text());
    assert!(foreign.message().contains("not in a namespace of the tenant"), "{}", foreign.text());
}

fn ok_upstream(binding: &serde_json::Value) {
    let answer =
        upstream().send(&User::admin(), post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding));
    assert_eq!(answer.status, 201, "{}", answer.text());
}
