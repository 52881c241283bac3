//! NodeRestriction, compared with kube-apiserver's own: the permissions of kubelets on pods, nodes, tokens and other objects.

use crate::harness::differential::{Case, compare, compare_when};
use crate::harness::{Request, User, delete, patch, post, unique};
use base64::Engine;
use serde_json::{Value, json};

const PLUGINS: &[&str] = &["NodeRestriction"];

/// A request of this node, which the API server's authorizer allows for these groups.
fn by(node: &str, group: &str, request: Request) -> (User, Request) {
    let request = request.header("impersonate-user", &format!("system:node:{node}"));
    let groups = ["system:nodes", "system:authenticated", group];
    (User::admin(), groups.into_iter().fold(request, |request, group| request.header("impersonate-group", group)))
}

/// The requests of one node.
fn by_node(node: &str, requests: Vec<Request>) -> Vec<(User, Request)> {
    requests.into_iter().map(|request| by(node, "developers", request)).collect()
}

fn object(api_version: &str, kind: &str, name: &str, rest: Value) -> Value {
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
    merge(&mut object, rest);
    object
}

fn merge(target: &mut Value, patch: Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(target.entry(key).or_insert(Value::Null), value);
            }
        }
        (target, patch) => *target = patch,
    }
}

fn namespace(name: &str) -> Request {
    post("/api/v1/namespaces", &object("v1", "Namespace", name, json!({})))
}

fn node(name: &str, rest: Value) -> Request {
    post("/api/v1/nodes", &object("v1", "Node", name, rest))
}

fn pod(name: &str, node: &str, spec: Value) -> Value {
    let mut pod =
        object("v1", "Pod", name, json!({"spec": {"nodeName": node, "containers": [{"name": "a", "image": "i"}]}}));
    merge(&mut pod["spec"], spec);
    pod
}

fn owner(node: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "name": node, "uid": format!("{{uid of /api/v1/nodes/{node}}}"), "controller": true})
}

/// A mirror pod of the node with this spec.
fn mirror(name: &str, node: &str, owners: Value, spec: Value) -> Value {
    let mut mirror = pod(name, node, spec);
    merge(
        &mut mirror,
        json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}, "ownerReferences": owners}}),
    );
    mirror
}

#[test]
fn nodes_keep_to_their_own_pods() {
    let (here, mine, other) = (unique("node-pods"), unique("node"), unique("node"));
    let pods = format!("/api/v1/namespaces/{here}/pods");
    let create = |pod: Value| post(&pods, &pod);
    let mirrored = |name: &str, owners: Value, spec: Value| create(mirror(name, &mine, owners, spec));
    let changed = |field: &str, value: Value| {
        let mut owner = owner(&mine);
        owner[field] = value;
        json!([owner])
    };
    let own = || json!([owner(&mine)]);
    let volume = |source: Value| {
        let mut volume = json!({"name": "v"});
        merge(&mut volume, source);
        json!({ "volumes": [volume] })
    };
    let status = |pod: &str, body: Value| patch(&format!("{pods}/{pod}/status"), "merge", &body);
    let evict = |pod: &str, query: &str| {
        post(&format!("{pods}/{pod}/eviction{query}"), &object("policy/v1", "Eviction", pod, json!({})))
    };
    let free = || json!({});
    let bound = |name: &str, node: &str| create(pod(name, node, json!({})));
    let unbound =
        create(object("v1", "Pod", "unbound", json!({"spec": {"containers": [{"name": "a", "image": "i"}]}})));
    let mut stale = mirror("stale", &mine, changed("uid", json!("stale")), free());
    // The error contains the real uid, which the comparison masks only if the request contains it too.
    stale["metadata"]["annotations"]["uid"] = owner(&mine)["uid"].clone();
    let mut steps = by_node(
        &mine,
        vec![
            create(pod("bare", &mine, free())),
            create(mirror("elsewhere", &other, own(), free())),
            mirrored("orphan", json!([]), free()),
            mirrored("two", json!([owner(&mine), owner(&other)]), free()),
            mirrored("stranger", json!([owner(&other)]), free()),
            mirrored("free", changed("controller", json!(null)), free()),
            mirrored("blocking", changed("blockOwnerDeletion", json!(true)), free()),
            create(stale),
            mirrored("account", own(), json!({"serviceAccountName": "sa"})),
            mirrored("former", own(), json!({"serviceAccount": "sa"})),
            mirrored("pull", own(), json!({"imagePullSecrets": [{"name": "s"}]})),
            mirrored("nameless-pull", own(), json!({"imagePullSecrets": [{"name": ""}]})),
            mirrored(
                "environment",
                own(),
                json!({"containers": [{"name": "a", "image": "i", "envFrom": [{"configMapRef": {"name": "c"}}]}]}),
            ),
            mirrored("claims", own(), json!({"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]})),
            mirrored("secret", own(), volume(json!({"secret": {"secretName": "s"}}))),
            mirrored("nameless-secret", own(), volume(json!({"secret": {}}))),
            mirrored("maps", own(), volume(json!({"configMap": {}}))),
            mirrored("csi", own(), volume(json!({"csi": {"driver": "d"}}))),
            mirrored("glusterfs", own(), volume(json!({"glusterfs": {"endpoints": "e", "path": "p"}}))),
            mirrored("pvc", own(), volume(json!({"persistentVolumeClaim": {"claimName": "c"}}))),
            mirrored("ephemeral", own(), volume(json!({"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}))),
            mirrored("azure", own(), volume(json!({"azureFile": {"secretName": "", "shareName": "s"}}))),
            mirrored(
                "token",
                own(),
                volume(
                    json!({"projected": {"sources": [{"downwardAPI": {}}, {"serviceAccountToken": {"path": "t"}}]}}),
                ),
            ),
            mirrored(
                "bundle",
                own(),
                volume(json!({"projected": {"sources": [{"clusterTrustBundle": {"path": "t", "name": "b"}}]}})),
            ),
            mirrored("sourceless", own(), volume(json!({"projected": {"sources": [{}]}}))),
            mirrored("any", own(), volume(json!({}))),
            mirrored("twice", json!([owner(&mine), owner(&mine)]), volume(json!({"hostPath": {"path": "/x"}}))),
            mirrored("image", own(), volume(json!({"image": {"reference": "r"}}))),
            status("mine", json!({"status": {"phase": "Running"}})),
            status("other", json!({"status": {"phase": "Running"}})),
            status("unbound", json!({"status": {"phase": "Running"}})),
            status("missing", json!({"status": {"phase": "Running"}})),
            status("mine", json!({"metadata": {"labels": {"a": "b"}}})),
            status("mine", json!({"metadata": {"annotations": {"a": "b"}}})),
            status("mine", json!({"status": {"resourceClaimStatuses": [{"name": "x", "resourceClaimName": "y"}]}})),
            status(
                "mine",
                json!({"status": {"extendedResourceClaimStatus": {"resourceClaimName": "x", "requestMappings": []}}}),
            ),
            patch(&format!("{pods}/mine"), "merge", &json!({"metadata": {"labels": {"a": "b"}}})),
            post(
                &format!("{pods}/unbound/binding"),
                &object("v1", "Binding", "unbound", json!({"target": {"kind": "Node", "name": mine}})),
            ),
            patch(
                &format!("{pods}/mine/ephemeralcontainers"),
                "strategic",
                &json!({"metadata": {"labels": {"a": "b"}}}),
            ),
            evict("other", ""),
            evict("unbound", ""),
            evict("missing", ""),
            evict("mine", "?dryRun=All"),
            delete(&format!("{pods}/other")),
            delete(&format!("{pods}/missing")),
            delete(&format!("{pods}/mine?dryRun=All")),
            delete(&pods),
            delete(&format!("{pods}/mine?gracePeriodSeconds=0")),
        ],
    );
    steps.push(by("", "developers", create(mirror("nobody", &mine, own(), free()))));
    let ghost = json!([{"apiVersion": "v1", "kind": "Node", "name": "ghost", "uid": "u", "controller": true}]);
    steps.push(by("ghost", "developers", create(mirror("ghost", "ghost", ghost, free()))));
    let (admin, probe) = by(&mine, "developers", delete(&format!("{pods}/mine?dryRun=All")));
    let (_, node_probe) =
        by(&mine, "developers", post(&format!("{pods}?dryRun=All"), &mirror("probe", &mine, own(), free())));
    compare_when(
        &[(admin.clone(), probe, 200), (admin, node_probe, 201)],
        &Case {
            plugins: PLUGINS,
            setup: vec![
                namespace(&here),
                node(&mine, json!({})),
                node(&other, json!({})),
                unbound,
                bound("other", &other),
                bound("mine", &mine),
            ],
            webhook: None,
            steps,
        },
    );
}

/// A request for a kubelet's certificate.
fn certificate_request(name: &str, signer: &str, common_name: &str) -> Request {
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name.push(rcgen::DnType::CommonName, common_name);
    params.distinguished_name.push(rcgen::DnType::OrganizationName, "system:nodes");
    let pem = params.serialize_request(&rcgen::KeyPair::generate().unwrap()).unwrap().pem().unwrap();
    let request = base64::engine::general_purpose::STANDARD.encode(pem);
    let spec = json!({"signerName": signer, "request": request, "usages": ["digital signature", "client auth"]});
    let request = object("certificates.k8s.io/v1", "CertificateSigningRequest", name, json!({ "spec": spec }));
    post("/apis/certificates.k8s.io/v1/certificatesigningrequests", &request)
}

#[test]
fn nodes_keep_to_themselves() {
    let (here, mine, other, new) = (unique("node-rest"), unique("node"), unique("node"), unique("node"));
    let patched = |name: &str, body: Value| patch(&format!("/api/v1/nodes/{name}"), "merge", &body);
    let label = |labels: Value| json!({"metadata": {"labels": labels}});
    let claims = format!("/api/v1/namespaces/{here}/persistentvolumeclaims");
    let storage = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    // Enough labels that no error contains a uid or a time.
    let labels = json!({"a": "1", "b": "1", "c": "1", "d": "1"});
    let stored = json!({"metadata": {"labels": labels}, "spec": storage});
    let claim = |name: &str| post(&claims, &object("v1", "PersistentVolumeClaim", name, stored.clone()));
    let claim_status = |body: Value| patch(&format!("{claims}/claim/status"), "merge", &body);
    let lease = |namespace: &str, name: &str| {
        let lease = object("coordination.k8s.io/v1", "Lease", name, json!({"spec": {"leaseDurationSeconds": 40}}));
        post(&format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"), &lease)
    };
    let csi_node = |name: &str| {
        post(
            "/apis/storage.k8s.io/v1/csinodes",
            &object("storage.k8s.io/v1", "CSINode", name, json!({"spec": {"drivers": []}})),
        )
    };
    let slices = "/apis/resource.k8s.io/v1/resourceslices";
    let slice = |name: &str, place: Value| {
        let mut spec = json!({"driver": "d.example.com", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}, "devices": []});
        merge(&mut spec, place);
        post(slices, &object("resource.k8s.io/v1", "ResourceSlice", name, json!({ "spec": spec })))
    };
    let (own_slice, other_slice) = (unique("slice"), unique("slice"));
    let leased = "kube-node-lease";
    let foreign = lease(leased, &other);
    let kubelet = "kubernetes.io/kube-apiserver-client-kubelet";
    let own_name = format!("system:node:{mine}");
    let tainted = json!({"metadata": {"labels": {"node-restriction.kubernetes.io/team": "x"}},
                         "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}});
    let mut steps = by_node(
        &mine,
        vec![
            patched(&other, label(json!({"a": "b"}))),
            node(&unique("node"), json!({})),
            delete(&format!("/api/v1/nodes/{other}")),
            patched(
                &mine,
                label(json!({"node-restriction.kubernetes.io/team": "y", "kubernetes.io/x": "", "plain": ""})),
            ),
            patched(&mine, label(json!({"node-restriction.kubernetes.io/team": null}))),
            patched(&mine, label(json!({"kubernetes.io/hostname": "h", "node.kubernetes.io/x": "", "plain": ""}))),
            patched(&mine, json!({"spec": {"taints": null}})),
            patched(&mine, json!({"spec": {"taints": [{"key": "a", "value": "", "effect": "NoSchedule"}]}})),
            patched(
                &mine,
                json!({"spec": {"configSource": {"configMap": {"name": "c", "namespace": "n", "kubeletConfigKey": "k"}}}}),
            ),
            patched(
                &mine,
                json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "u"}]}}),
            ),
            patch(
                &format!("/api/v1/nodes/{mine}/status"),
                "strategic",
                &json!({"status": {"nodeInfo": {"kernelVersion": "1"}}}),
            ),
            patch(&format!("/api/v1/nodes/{mine}/status"), "strategic", &label(json!({"k8s.io/x": ""}))),
            claim("fresh"),
            patch(&format!("{claims}/claim"), "merge", &label(json!({"a": "b"}))),
            claim_status(json!({"status": {"capacity": {"storage": "2Gi"}, "allocatedResources": {"storage": "2Gi"}}})),
            claim_status(json!({"status": {"conditions": [{"type": "Resizing", "status": "True"}]}})),
            claim_status(json!({"status": {"phase": "Lost"}})),
            claim_status(json!({"metadata": {"labels": {"d": "<&>"}, "finalizers": ["example.com/f"]}})),
            claim_status(json!({"spec": {"resources": {"requests": {"storage": "1024Mi"}}}})),
            claim_status(json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}, "storageClassName": ""}})),
            lease(leased, &mine),
            lease(leased, &other),
            lease(&here, &mine),
            delete(&format!("/apis/coordination.k8s.io/v1/namespaces/{leased}/leases/{other}")),
            csi_node(&other),
            csi_node(&mine),
            slice(&own_slice, json!({ "nodeName": mine })),
            slice(&other_slice, json!({ "nodeName": other })),
            slice(&unique("slice"), json!({"allNodes": true})),
            delete(&format!("{slices}/{own_slice}")),
            certificate_request(&unique("request"), kubelet, &own_name),
            certificate_request(&unique("request"), kubelet, "system:node:other"),
            certificate_request(&unique("request"), "example.com/any", "system:node:other"),
        ],
    );
    steps.extend(by_node(
        &new,
        vec![
            node(&new, json!({"metadata": {"labels": {"kubernetes.io/x": "", "k8s.io/y": ""}}})),
            node(&new, json!({"spec": {"configSource": {"configMap": {"name": "c", "namespace": "n", "kubeletConfigKey": "k"}}}})),
            node(&new, json!({"metadata": {"labels": {"kubernetes.io/os": "linux", "plain": ""}}})),
        ],
    ));
    let node_leases = object("v1", "Namespace", leased, json!({}));
    let mut setup = vec![
        namespace(&here),
        node(&mine, tainted),
        node(&other, json!({})),
        claim("claim"),
        // Both servers may have the namespace already.
        patch(&format!("/api/v1/namespaces/{leased}?fieldManager=e2e&force=true"), "apply", &node_leases),
    ];
    setup.push(foreign);
    compare(&Case { plugins: PLUGINS, setup, webhook: None, steps });
}

#[test]
fn nodes_get_tokens_for_what_their_pods_mount() {
    let (here, mine, other) = (unique("node-tokens"), unique("node"), unique("node"));
    let (driver, volume) = (unique("driver"), unique("volume"));
    let pods = format!("/api/v1/namespaces/{here}/pods");
    let mounted = |name: &str, node: &str, volumes: Value| {
        post(&pods, &pod(name, node, json!({"serviceAccountName": "sa", "volumes": volumes})))
    };
    let projected =
        json!([{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "audience": "vault"}}]}}]);
    let claimed = |claim: &str| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}});
    let token = |audiences: Value, bound: Value| {
        let spec = json!({"audiences": audiences, "boundObjectRef": bound});
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
        post(&format!("/api/v1/namespaces/{here}/serviceaccounts/sa/token"), &request)
    };
    let bound =
        |pod: &str| json!({"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": format!("{{uid of {pods}/{pod}}}")});
    let with_uid = |pod: &str, uid: &str| json!({"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid});
    let steps = vec![
        token(json!([]), Value::Null),
        token(json!([]), json!({"apiVersion": "v1", "kind": "Secret", "name": "s", "uid": "u"})),
        token(json!([]), with_uid("projected", "")),
        token(json!([]), with_uid("missing", "u")),
        token(json!([]), with_uid("projected", "stale")),
        token(json!([]), bound("elsewhere")),
        token(json!([]), bound("projected")),
        token(json!(["vault"]), bound("projected")),
        token(json!(["other"]), bound("projected")),
        token(json!(["vault", "other"]), bound("projected")),
        token(json!(["csi"]), bound("claimed")),
        token(json!(["other"]), bound("claimed")),
        token(json!(["csi"]), bound("dangling")),
        token(json!(["pd"]), bound("migrated")),
        token(json!(["x"]), bound("unsupported")),
    ];
    let mut steps = by_node(&mine, steps);
    steps.push(by(&mine, "system:masters", token(json!(["granted"]), bound("projected"))));
    let (admin, probe) = by(&mine, "developers", token(json!(["csi"]), bound("claimed")));
    let (_, migrated) = by(&mine, "developers", token(json!(["pd"]), bound("migrated")));
    let (_, last) = by(&mine, "developers", token(json!(["vault"]), bound("projected")));
    let csi_driver = |name: &str, audience: &str| {
        let driver = object(
            "storage.k8s.io/v1",
            "CSIDriver",
            name,
            json!({"spec": {"tokenRequests": [{"audience": audience}]}}),
        );
        patch(&format!("/apis/storage.k8s.io/v1/csidrivers/{name}?fieldManager=e2e&force=true"), "apply", &driver)
    };
    let spec =
        json!({"accessModes": ["ReadWriteOnce"], "volumeName": volume, "resources": {"requests": {"storage": "1Gi"}}});
    let claim = object("v1", "PersistentVolumeClaim", "claim", json!({ "spec": spec }));
    let persistent = json!({"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
                                     "csi": {"driver": driver, "volumeHandle": "h"}}});
    compare_when(
        &[(admin.clone(), probe, 201), (admin.clone(), migrated, 201), (admin, last, 201)],
        &Case {
            plugins: PLUGINS,
            setup: vec![
                namespace(&here),
                post(
                    &format!("/api/v1/namespaces/{here}/serviceaccounts"),
                    &object("v1", "ServiceAccount", "sa", json!({})),
                ),
                node(&mine, json!({})),
                node(&other, json!({})),
                csi_driver(&driver, "csi"),
                csi_driver("pd.csi.storage.gke.io", "pd"),
                post("/api/v1/persistentvolumes", &object("v1", "PersistentVolume", &volume, persistent)),
                post(&format!("/api/v1/namespaces/{here}/persistentvolumeclaims"), &claim),
                mounted("elsewhere", &other, json!([])),
                mounted("claimed", &mine, json!([claimed("claim")])),
                mounted(
                    "dangling",
                    &mine,
                    json!([claimed("missing"), {"name": "csi", "csi": {"driver": "missing.example.com"}}, {"name": "e", "emptyDir": {}}]),
                ),
                mounted("migrated", &mine, json!([{"name": "v", "gcePersistentDisk": {"pdName": "p"}}])),
                mounted(
                    "unsupported",
                    &mine,
                    json!([{"name": "v", "azureDisk": {"diskName": "d", "diskURI": "https://blob/x.vhd", "kind": "Shared"}}]),
                ),
                mounted("projected", &mine, projected),
            ],
            webhook: None,
            steps,
        },
    );
}
