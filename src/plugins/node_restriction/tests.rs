use super::*;
use crate::authz::Decision;
use crate::cluster::{FixedState, ServiceAccount};
use crate::plugins::checker::{Check, Checked, check};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::CSIDriver;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A cluster with the nodes `n` and `other`, and with the given pods in the namespace `ns`. Each pod has its name as uid.
pub(super) fn with_pods(pods: &[Value]) -> FixedState {
    let nodes = ["n", "other"].map(|name| of(json!({"metadata": {"name": name, "uid": format!("uid-{name}")}})));
    let pods = pods.iter().map(|pod| {
        let mut pod = pod.clone();
        pod["metadata"]["namespace"] = "ns".into();
        pod["metadata"]["uid"] = pod["metadata"]["name"].clone();
        of(pod)
    });
    FixedState::default().with::<Node>(nodes.into()).with::<Pod>(pods.collect())
}

/// Adds the given volumes, claims of the same names, and CSI drivers.
pub(super) fn with_storage(state: FixedState, volumes: &[Value], drivers: &[Value]) -> FixedState {
    let name = |volume: &Value| volume["metadata"]["name"].clone();
    let claim = |volume: &Value| {
        of(json!({"metadata": {"name": name(volume), "namespace": "ns"}, "spec": {"volumeName": name(volume)}}))
    };
    let unbound = of(json!({"metadata": {"name": "unbound", "namespace": "ns"}, "spec": {}}));
    let claims = volumes.iter().map(claim).chain([unbound]).collect();
    state
        .with::<PersistentVolumeClaim>(claims)
        .with::<PersistentVolume>(volumes.iter().cloned().map(of).collect())
        .with::<CSIDriver>(drivers.iter().cloned().map(of).collect())
        .with::<ServiceAccount>(vec![of(json!({"metadata": {"name": "sa", "namespace": "ns", "uid": "uid-sa"}}))])
}

pub(super) fn of<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

pub(super) fn plugin(state: FixedState) -> NodeRestriction {
    NodeRestriction {
        cluster: Cluster::fixed(state),
        restricts_audiences: true,
        restricts_certificates: true,
        has_pod_certificates: true,
        has_volume_health: false,
        since_1_37: false,
    }
}

/// The plugin of 1.37.
pub(super) fn plugin_of_1_37(state: FixedState) -> NodeRestriction {
    NodeRestriction { since_1_37: true, ..plugin(state) }
}

/// A check of a request by the node `n`.
pub(super) fn by_node(plugin: &NodeRestriction) -> Check<'_> {
    check(plugin).user("system:node:n", &["system:nodes", "system:authenticated"])
}

/// The message of a refusal, without its common prefix.
pub(super) fn why(checked: Checked) -> Option<String> {
    let status = checked.refusal()?;
    assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"), "{}", status.message);
    Some(status.message.split_once(" is forbidden: ").unwrap().1.to_owned())
}

fn labelled(name: &str, labels: Value) -> Value {
    json!({"metadata": {"name": name, "labels": labels}})
}

#[test]
fn a_node_is_a_user_of_that_name_in_the_group_of_nodes() {
    let node = |name: &str, groups: &[&str]| {
        let groups = groups.iter().map(|&group| group.to_owned()).collect();
        node_of(&UserInfo { username: name.to_owned(), groups, ..UserInfo::default() }).map(str::to_owned)
    };
    let nodes = &["a", "system:nodes"];
    assert_eq!(node("system:node:n", nodes).as_deref(), Some("n"));
    assert_eq!(node("system:node:a:b", nodes).as_deref(), Some("a:b"));
    assert_eq!(node("system:node:", nodes).as_deref(), Some(""));
    assert_eq!(node("system:node:n", &["a"]), None);
    assert_eq!(node("system:nodes:n", nodes), None);
    assert_eq!(node("n", nodes), None);
}

#[tokio::test]
async fn a_user_that_is_no_node_is_not_restricted() {
    let plugin = plugin(with_pods(&[]));
    let node = || labelled("other", json!({"kubernetes.io/x": ""}));
    check(&plugin).create("", "nodes", node()).await.stays_unchanged();
    check(&plugin).user("system:node:n", &["developers"]).create("", "nodes", node()).await.stays_unchanged();
    let checked = check(&plugin).user("system:node:", &["system:nodes"]).create("", "configmaps", node()).await;
    assert_eq!(why(checked).unwrap(), "could not determine node from user \"system:node:\"");
    by_node(&plugin).create("", "configmaps", node()).await.stays_unchanged();
    // An equal resource in another group is a different resource.
    by_node(&plugin).create("example.com", "nodes", node()).await.stays_unchanged();
}

#[tokio::test]
async fn a_node_changes_no_other_node() {
    let plugin = plugin(with_pods(&[]));
    let other = || json!({"metadata": {"name": "other"}});
    let text = "node \"n\" is not allowed to modify node \"other\"";
    assert_eq!(why(by_node(&plugin).create("", "nodes", other()).await).unwrap(), text);
    assert_eq!(why(by_node(&plugin).update("", "nodes", other(), other()).await).unwrap(), text);
    assert_eq!(why(by_node(&plugin).delete("", "nodes", other()).await).unwrap(), text);
    let status = by_node(&plugin).subresource("status").update("", "nodes", other(), other()).await;
    assert_eq!(why(status).unwrap(), text);
    assert_eq!(why(by_node(&plugin).delete("", "nodes", json!({"metadata": {"name": "n"}})).await), None);
}

#[tokio::test]
async fn a_node_registers_with_labels_that_are_its_own_to_set() {
    let plugin = plugin(with_pods(&[]));
    let created = |node: Value| by_node(&plugin).create("", "nodes", node);
    created(labelled("n", json!({"kubernetes.io/hostname": "n", "free": "1"}))).await.stays_unchanged();
    let checked =
        created(labelled("n", json!({"kubernetes.io/x": "", "a.node-restriction.kubernetes.io/x": ""}))).await;
    let text =
        "node \"n\" is not allowed to set the following labels: a.node-restriction.kubernetes.io/x, kubernetes.io/x";
    assert_eq!(why(checked).unwrap(), text);
    let checked = created(json!({"metadata": {"name": "n"}, "spec": {"configSource": {}}})).await;
    assert_eq!(why(checked).unwrap(), "node \"n\" is not allowed to create pods with a non-nil configSource");
}

#[tokio::test]
async fn a_node_leaves_alone_what_steers_workloads() {
    let plugin = plugin(with_pods(&[]));
    let node = |spec: Value, owners: Value, labels: Value| json!({"metadata": {"name": "n", "ownerReferences": owners, "labels": labels}, "spec": spec});
    let source = |uid: Value| json!({"configSource": {"configMap": {"name": "c", "namespace": "n", "kubeletConfigKey": "k", "uid": uid}}});
    let taint = |value: Value| json!({"taints": [{"key": "k", "effect": "NoSchedule", "value": value}]});
    let owner = |controller: Value| json!([{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "u", "controller": controller}]);
    let old = || node(json!({}), json!([]), json!({"k8s.io/kept": "1"}));
    let bare = || node(Value::Null, Value::Null, json!({"k8s.io/kept": "1", "free": ""}));
    let to_source = "node \"n\" is not allowed to update configSource to a new non-nil configSource";
    let taints = "node \"n\" is not allowed to modify taints";
    let owners = "node \"n\" is not allowed to modify ownerReferences";
    let free = json!({});
    let (none, with) = (|| json!([]), |spec: Value| node(spec, json!([]), json!({})));
    let table = [
        (old(), bare(), None),
        (with(free.clone()), with(source(json!("u"))), Some(to_source)),
        (with(source(json!("u"))), with(source(json!("v"))), Some(to_source)),
        (with(source(json!(""))), with(source(Value::Null)), None),
        (with(source(json!("u"))), with(free.clone()), None),
        (with(free.clone()), with(json!({"configSource": {}})), Some(to_source)),
        (with(taint(json!("v"))), with(free.clone()), Some(taints)),
        (with(taint(json!("v"))), with(taint(json!("w"))), Some(taints)),
        (with(taint(json!(""))), with(taint(Value::Null)), None),
        (node(free.clone(), owner(json!(true)), free.clone()), node(free.clone(), none(), free.clone()), Some(owners)),
        (
            node(free.clone(), owner(Value::Null), free.clone()),
            node(free.clone(), owner(json!(false)), free.clone()),
            Some(owners),
        ),
        (
            node(free.clone(), owner(Value::Null), free.clone()),
            node(free.clone(), owner(Value::Null), free.clone()),
            None,
        ),
        (
            old(),
            node(free.clone(), none(), json!({"k8s.io/kept": "2", "k8s.io/new": ""})),
            Some("is not allowed to modify labels: k8s.io/kept, k8s.io/new"),
        ),
    ];
    for (old, new, text) in table {
        for subresource in ["", "status"] {
            let checked = by_node(&plugin).subresource(subresource).update("", "nodes", old.clone(), new.clone()).await;
            assert_eq!(why(checked).as_deref(), text, "{old} {new}");
        }
    }
}

#[tokio::test]
async fn leases_and_csi_nodes_have_the_nodes_name() {
    let plugin = plugin(with_pods(&[]));
    let lease = |namespace: &str, name: &str| json!({"metadata": {"namespace": namespace, "name": name}});
    let named = "can only access node lease with the same name as the requesting node";
    let placed = "can only access leases in the \"kube-node-lease\" system namespace";
    for (lease, text) in [
        (lease("kube-node-lease", "n"), None),
        (lease("kube-node-lease", "other"), Some(named)),
        (lease("kube-system", "n"), Some(placed)),
        (json!({"metadata": {"namespace": "kube-node-lease", "generateName": "n"}}), Some(named)),
    ] {
        let group = "coordination.k8s.io";
        let created = by_node(&plugin).create(group, "leases", lease.clone()).await;
        let updated = by_node(&plugin).update(group, "leases", lease.clone(), lease.clone()).await;
        let deleted = by_node(&plugin).delete(group, "leases", lease).await;
        for checked in [created, updated, deleted] {
            assert_eq!(why(checked).as_deref(), text);
        }
    }
    let named = "can only access CSINode with the same name as the requesting node";
    for (name, text) in [("n", None), ("other", Some(named)), ("", Some(named))] {
        let node = json!({"metadata": {"name": name}});
        let created = by_node(&plugin).create("storage.k8s.io", "csinodes", node.clone()).await;
        let deleted = by_node(&plugin).delete("storage.k8s.io", "csinodes", node).await;
        assert_eq!((why(created).as_deref(), why(deleted).as_deref()), (text, text));
    }
}

#[tokio::test]
async fn since_1_37_the_status_of_a_csi_node_has_a_gate_and_leaves_the_spec() {
    let node = |name: &str, spec: Value, health: &str| json!({"metadata": {"name": name}, "spec": spec, "status": {"h": health}});
    let drivers = |id: &str, keys: Value| json!({"drivers": [{"name": "d", "nodeID": id, "topologyKeys": keys}]});
    let old = || node("n", drivers("1", Value::Null), "a");
    let other = || node("other", drivers("1", Value::Null), "a");
    let named = Some("can only access CSINode with the same name as the requesting node");
    let off = Some("CSIVolumeHealth feature gate is disabled");
    let modified = Some("node \"n\" is not allowed to modify CSINode spec via status");
    let changed = || node("n", drivers("2", Value::Null), "b");
    let table = [
        ((false, false), old(), changed(), None),
        ((false, true), old(), changed(), None),
        ((true, false), old(), old(), off),
        ((true, false), other(), other(), named),
        ((true, true), old(), node("n", drivers("1", json!([])), "b"), None),
        ((true, true), old(), changed(), modified),
        ((true, true), old(), node("n", json!({}), "a"), modified),
        ((true, true), old(), node("n", drivers("1", json!(["k"])), "a"), modified),
        ((true, true), other(), other(), named),
    ];
    for ((since_1_37, has_volume_health), old, new, text) in table {
        let plugin = NodeRestriction { since_1_37, has_volume_health, ..plugin(with_pods(&[])) };
        let check = by_node(&plugin).subresource("status");
        let checked = check.update("storage.k8s.io", "csinodes", old, new.clone()).await;
        assert_eq!(why(checked).as_deref(), text, "{new}");
    }
    let plugin = NodeRestriction { has_volume_health: true, ..plugin_of_1_37(with_pods(&[])) };
    let deleted = by_node(&plugin).subresource("status").delete("storage.k8s.io", "csinodes", old()).await;
    assert_eq!(why(deleted).unwrap(), "unexpected operation \"DELETE\"");
    by_node(&plugin).update("storage.k8s.io", "csinodes", old(), changed()).await.stays_unchanged();
}

#[tokio::test]
async fn resource_slices_are_made_and_deleted_for_the_node_itself() {
    let plugin = plugin(with_pods(&[]));
    for (spec, fits) in [
        (json!({"nodeName": "n"}), true),
        (json!({"nodeName": "other"}), false),
        (json!({"nodeName": 1}), false),
        (json!({"allNodes": true}), false),
        (json!("text"), false),
        (Value::Null, false),
    ] {
        let slice = || json!({"metadata": {"name": "s"}, "spec": spec});
        let created = by_node(&plugin).create("resource.k8s.io", "resourceslices", slice()).await;
        let deleted = by_node(&plugin).delete("resource.k8s.io", "resourceslices", slice()).await;
        assert_eq!(
            (created.code(), deleted.code()),
            if fits { (None, None) } else { (Some(403), Some(403)) },
            "{spec}"
        );
        by_node(&plugin).update("resource.k8s.io", "resourceslices", slice(), slice()).await.stays_unchanged();
    }
    let other = json!({"metadata": {"name": "s"}, "spec": {"nodeName": "other"}});
    let deleted = why(by_node(&plugin).delete("resource.k8s.io", "resourceslices", other.clone()).await).unwrap();
    assert_eq!(deleted, "can only delete ResourceSlice with the same NodeName as the requesting node");
    let created = why(by_node(&plugin).create("resource.k8s.io", "resourceslices", other).await).unwrap();
    assert_eq!(created, "can only create ResourceSlice with the same NodeName as the requesting node");
}

#[tokio::test]
async fn certificates_of_kubelets_are_for_the_node_itself() {
    use base64::Engine;
    let request = |common_name: &str| {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, common_name);
        let request = params.serialize_request(&rcgen::KeyPair::generate().unwrap()).unwrap();
        base64::engine::general_purpose::STANDARD.encode(request.pem().unwrap())
    };
    let mut plugin = plugin(with_pods(&[]));
    let (serving, client) = ("kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet");
    let text = "can only create a node CSR with CN=system:node:n";
    let nonsense = "unable to parse csr: PEM block type must be CERTIFICATE REQUEST";
    for (signer, request, text) in [
        (serving, request("system:node:n"), None),
        (client, request("system:node:n"), None),
        (client, request("system:node:other"), Some(text)),
        (serving, request("n"), Some(text)),
        (serving, String::new(), Some(nonsense)),
        ("example.com/any", request("system:node:other"), None),
    ] {
        let csr = || json!({"metadata": {"name": "r"}, "spec": {"signerName": signer, "request": request}});
        let group = "certificates.k8s.io";
        let created = by_node(&plugin).create(group, "certificatesigningrequests", csr()).await;
        assert_eq!(why(created).as_deref(), text, "{signer}");
        by_node(&plugin).update(group, "certificatesigningrequests", csr(), csr()).await.stays_unchanged();
    }
    plugin.restricts_certificates = false;
    let csr = json!({"metadata": {"name": "r"}, "spec": {"signerName": serving, "request": ""}});
    by_node(&plugin).create("certificates.k8s.io", "certificatesigningrequests", csr).await.stays_unchanged();
}

/// A compared field of a wrong type is refused.
#[tokio::test]
async fn a_field_of_another_type_is_refused() {
    let plugin = plugin(with_pods(&[json!({"metadata": {"name": "mine"}, "spec": {"nodeName": "n"}})]));
    let old = || json!({"metadata": {"name": "n"}, "spec": {}});
    for wrong in [
        json!({"metadata": {"name": "n", "labels": "text"}}),
        json!({"metadata": {"name": "n", "labels": {"a": 1}}}),
        json!({"metadata": {"name": "n", "ownerReferences": {}}}),
        json!({"metadata": {"name": "n", "ownerReferences": ["text"]}}),
        json!({"metadata": {"name": "n"}, "spec": "text"}),
        json!({"metadata": {"name": "n"}, "spec": {"taints": ""}}),
        json!({"metadata": {"name": "n"}, "spec": {"taints": [1]}}),
        json!({"metadata": {"name": "n"}, "spec": {"configSource": "text"}}),
    ] {
        assert_eq!(by_node(&plugin).update("", "nodes", old(), wrong.clone()).await.code(), Some(403), "{wrong}");
    }
    for wrong in [json!("text"), json!(1), json!({"labels": []})] {
        let object = || json!({"metadata": wrong, "spec": wrong, "status": wrong});
        for (group, resource) in [
            ("", "pods"),
            ("", "nodes"),
            ("", "persistentvolumeclaims"),
            ("coordination.k8s.io", "leases"),
            ("storage.k8s.io", "csinodes"),
            ("resource.k8s.io", "resourceslices"),
            ("certificates.k8s.io", "podcertificaterequests"),
        ] {
            let refusal = by_node(&plugin).create(group, resource, object()).await.code();
            assert_eq!(refusal, Some(403), "{resource} {wrong}");
        }
        let token = by_node(&plugin).subresource("token").create("", "serviceaccounts", object()).await.code();
        assert_eq!(token, Some(403), "{wrong}");
    }
}

#[test]
fn gates_have_the_defaults_of_kubernetes() {
    let gates = crate::config::FeatureGates::default();
    assert!(gates.is_on("ServiceAccountNodeAudienceRestriction"));
    assert!(!gates.is_on("AllowInsecureKubeletCertificateSigningRequests") && !gates.is_on("PodCertificateRequest"));
    // The plugin does not read locked feature gates.
    assert!(gates.is_on("RecoverVolumeExpansionFailure") && gates.is_on("DynamicResourceAllocation"));
}

/// The decision for a caller with or without the permission.
pub(super) fn may(allowed: bool) -> Decision {
    Decision { allowed, ..Decision::default() }
}
