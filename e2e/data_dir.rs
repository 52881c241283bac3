//! Objects that outlast the process (`--data-dir`): kills, restarts, and a second process.

use crate::harness::{Api, Kubectl, Proxy, User, folder, get, post};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WRITERS: usize = 6;

/// A resourceVersion by the name of its object.
type Versions = BTreeMap<String, u64>;

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// Creates ConfigMaps until there is no answer, and reports each one that was answered.
fn create(api: &Api, writer: usize, made: &mpsc::Sender<(String, u64)>) {
    let user = User::admin();
    for number in 0.. {
        let name = format!("w{writer}-{number}");
        let object = json!({"metadata": {"name": name}, "data": {"writer": writer.to_string()}});
        let Ok(answer) = api.try_send(&user, post(CONFIG_MAPS, &object)) else { return };
        assert_eq!(answer.status, 201, "{}", answer.text());
        made.send((name, version(&answer.json()))).unwrap();
    }
}

fn listed(text: &str) -> Versions {
    let list: Value = serde_json::from_str(text).unwrap();
    let items = list["items"].as_array().unwrap().iter();
    items.map(|item| (item["metadata"]["name"].as_str().unwrap().to_owned(), version(item))).collect()
}

#[test]
fn a_killed_server_has_every_answered_write_and_its_watches_continue() {
    let data = folder("data-dir");
    let flag = format!("--data-dir={}", data.display());
    let mut known = Versions::new();
    for round in 0..3 {
        let proxy = Proxy::embedded(&[&flag]);
        let found = listed(&proxy.kubectl(&User::admin()).ok(&["get", "configmaps", "-o", "json"]));
        for (name, version) in &known {
            assert_eq!(found.get(name), Some(version), "{name} in round {round}");
        }
        if let Some(first) = known.values().min() {
            let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={first}");
            let mut events = proxy.stream(&User::admin(), get(&path));
            let mut seen = Vec::new();
            // The watch has no event of the first write, and each other one in order.
            let mut missing: BTreeSet<u64> = known.values().copied().filter(|version| version > first).collect();
            while !missing.is_empty() {
                let next = version(&events.next_json().unwrap()["object"]);
                missing.remove(&next);
                seen.push(next);
            }
            assert!(seen.is_sorted_by(|one, next| one < next), "{seen:?}");
        }
        let newest = known.values().max().copied().unwrap_or_default();
        let (sender, receiver) = mpsc::channel();
        let api = Api { port: proxy.port };
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (api, sender) = (api.clone(), sender.clone());
                std::thread::spawn(move || create(&api, round * WRITERS + writer, &sender))
            })
            .collect();
        drop(sender);
        let mut made: Versions = receiver.iter().take(60).collect();
        // The end of a process of the tests is SIGKILL.
        drop(proxy);
        made.extend(receiver.iter());
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        assert!(made.values().all(|version| *version > newest), "{made:?} after {newest}");
        known.extend(made);
    }
    let unique: std::collections::BTreeSet<_> = known.values().collect();
    assert_eq!(unique.len(), known.len(), "no resourceVersion is used twice");
}

#[test]
fn a_second_process_is_refused_with_the_name_of_the_folder() {
    let data = folder("data-dir");
    let flag = format!("--data-dir={}", data.display());
    let proxy = Proxy::embedded(&[&flag]);
    let output = Proxy::refusal(&[&flag]);
    let refusals = output.lines().filter(|line| line.contains("another process uses this folder"));
    assert_eq!(refusals.count(), 1, "{output}");
    assert!(output.contains(&format!("{}: another process", data.display())), "{output}");
    proxy.kubectl(&User::admin()).ok(&["get", "namespaces"]);
}

const OBJECTS: &str = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: gadgets, kind: Gadget}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: gadgets}
rules: [{apiGroups: [example.com], resources: [gadgets], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: gadgets}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: gadgets}
subjects: [{kind: ServiceAccount, namespace: default, name: default}]
";

#[test]
fn definitions_rights_tokens_and_the_authority_outlast_a_restart() {
    let data = folder("data-dir");
    let flags = [format!("--data-dir={}", data.display()), "--authorization-mode=RBAC".to_owned()];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let mut proxy = Proxy::alone(&flags);
    let kubectl = Kubectl::new(proxy.folder().join("kube-admission-proxy.kubeconfig"));
    kubectl.ok_with_input(&["apply", "-f", "-"], OBJECTS);
    let gadget = "{apiVersion: example.com/v1, kind: Gadget, metadata: {name: g}, size: 3}";
    kubectl.ok_with_input(&["create", "-f", "-"], gadget);
    let token = kubectl.ok(&["create", "token", "default"]).trim().to_owned();
    let root_ca = ["get", "configmap", "kube-root-ca.crt", "-o", r"jsonpath={.data.ca\.crt}"];
    let authority = kubectl.ok(&root_ca);
    proxy.terminate();
    assert!(proxy.wait().success(), "{}", proxy.output());
    let proxy = Proxy::alone(&flags);
    // The kubeconfig from before the restart has only the old port.
    let server = format!("--server={}", proxy.url());
    assert_eq!(kubectl.ok(&[&[server.as_str()], &root_ca[..]].concat()), authority);
    assert_eq!(kubectl.ok(&[&server, "get", "gadgets", "g", "-o", "jsonpath={.size}"]), "3");
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
    let reviewed = kubectl.ok_with_input(&[&server, "create", "-f", "-", "-o", "json"], &review.to_string());
    let user = &serde_json::from_str::<Value>(&reviewed).unwrap()["status"]["user"]["username"];
    assert_eq!(user, "system:serviceaccount:default:default");
    let as_user = format!("--as={}", user.as_str().unwrap());
    let may = |verb| kubectl.run(&[&server, "auth", "can-i", verb, "gadgets.example.com", &as_user]).stdout;
    assert_eq!((may("list").trim(), may("delete").trim()), ("yes", "no"));
}

#[test]
fn a_file_damaged_at_rest_is_refused_and_its_copy_is_not() {
    let data = folder("data-dir");
    let flag = format!("--data-dir={}", data.display());
    let mut proxy = Proxy::embedded(&[&flag]);
    let object = json!({"metadata": {"name": "kept"}, "data": {"text": "written-once"}});
    assert_eq!(proxy.send(&User::admin(), post(CONFIG_MAPS, &object)).status, 201);
    proxy.terminate();
    assert!(proxy.wait().success(), "{}", proxy.output());
    let file = data.join("objects.redb");
    let copy = std::fs::read(&file).unwrap();
    let places = copy.windows(b"written-once".len()).enumerate().filter(|(_, bytes)| *bytes == b"written-once");
    let places: Vec<usize> = places.map(|(at, _)| at).collect();
    assert!(!places.is_empty());
    // One bit of a value, and the newest state in the header.
    for damaged in [places, vec![64]] {
        let mut bytes = copy.clone();
        damaged.iter().for_each(|at| bytes[*at] ^= 1);
        std::fs::write(&file, bytes).unwrap();
        let output = Proxy::refusal(&[&flag]);
        let refusals = output.lines().filter(|line| line.contains("restore the folder from a copy"));
        assert_eq!(refusals.count(), 1, "{damaged:?}: {output}");
        assert!(output.contains(&format!("{}: ", file.display())), "{output}");
    }
    std::fs::write(&file, copy).unwrap();
    let proxy = Proxy::embedded(&[&flag]);
    let found = proxy.send(&User::admin(), get(&format!("{CONFIG_MAPS}/kept"))).json();
    assert_eq!(found["data"]["text"], "written-once");
}
