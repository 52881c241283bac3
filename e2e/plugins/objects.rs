//! The effects of plugins on certificates, owners, services and storage, compared with kube-apiserver's own.

use super::configured::pair;
use super::pods::{as_developer, merge};
use crate::harness::{Request, User, delete, get, patch, pki, post, put, unique};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DnType, KeyPair};
use rustls_pki_types::CertificateSigningRequestDer;
use rustls_pki_types::pem::PemObject;
use serde_json::{Value, json};

const CERTIFICATES: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const SERVICES: &str = "/api/v1/namespaces/external/services";

/// Objects that exist before the plugins start, some of which the plugins would reject.
pub fn before() -> Vec<Request> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "external"}});
    let named = |name: &str| post(SERVICES, &service(name, json!(["192.0.2.1", "192.0.2.2", "192.0.2.3"])));
    [post("/api/v1/namespaces", &namespace)].into_iter().chain(["one", "two", "three", "four"].map(named)).collect()
}

fn service(name: &str, addresses: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
           "spec": {"clusterIP": "None", "ports": [{"port": 80}], "externalIPs": addresses}})
}

#[test]
fn services_get_no_new_external_addresses() {
    let create = |name: &str, addresses: Value| post(SERVICES, &service(name, addresses));
    let change = |name: &str, addresses: Value| {
        patch(&format!("{SERVICES}/{name}"), "merge", &json!({"spec": {"externalIPs": addresses}}))
    };
    let (a, b, c) = ("192.0.2.1", "192.0.2.2", "192.0.2.3");
    pair().compare(as_developer(vec![
        create("none", Value::Null),
        create("empty", json!([])),
        create("new", json!([a])),
        create("invalid", json!(["nonsense"])),
        change("none", json!([a])),
        change("one", json!([c, b, a])),
        change("one", json!([b, c])),
        change("one", json!([b, "192.0.2.9"])),
        change("one", json!([a])),
        change("one", json!([b])),
        change("one", Value::Null),
        change("one", json!([b])),
        change("two", json!([a, a])),
        patch(&format!("{SERVICES}/three"), "merge", &json!({"metadata": {"labels": {"a": "b"}}})),
        put(&format!("{SERVICES}/four"), &service("four", json!([a, "192.0.2.7"]))),
        put(&format!("{SERVICES}/four"), &service("four", json!([c, a]))),
        post(&format!("{SERVICES}?dryRun=All"), &service("dry", json!([a]))),
        patch(&format!("{SERVICES}/applied?fieldManager=me"), "apply", &service("applied", json!([a]))),
    ]));
}

/// Rules for one user, who also has the permissions of developers.
fn allow(user: &str, rules: Value) -> [Request; 3] {
    let name = format!("only-{user}");
    let meta =
        |kind: &str| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}});
    let mut role = meta("ClusterRole");
    role["rules"] = rules;
    let bind = |role: &str| {
        let mut binding = meta("ClusterRoleBinding");
        binding["metadata"]["name"] = json!(format!("{role}-{user}"));
        binding["roleRef"] = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role});
        binding["subjects"] = json!([{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}]);
        post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding)
    };
    [post("/apis/rbac.authorization.k8s.io/v1/clusterroles", &role), bind(&name), bind("developers")]
}

/// Waits until the authorizers allow the user to do this.
fn knows(user: &User, attributes: Value) {
    let ask = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": attributes}});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    pair().until(user, &post(path, &ask), "\"allowed\":true");
}

/// A certificate signing request, as objects contain it.
fn certificate_request(organizations: &[&str]) -> String {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "alice");
    for organization in organizations {
        params.distinguished_name.push(DnType::OrganizationName, *organization);
    }
    STANDARD.encode(params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap())
}

/// The DER in a [`certificate_request`].
fn pem_der(request: &str) -> Vec<u8> {
    let pem = STANDARD.decode(request).unwrap();
    CertificateSigningRequestDer::from_pem_slice(&pem).unwrap().to_vec()
}

fn signing_request(name: &str, signer: &str, request: &str) -> Value {
    json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
           "spec": {"signerName": signer, "request": request, "usages": ["digital signature", "client auth"]}})
}

#[test]
fn masters_get_no_certificates() {
    let here = unique("subject");
    let client = "kubernetes.io/kube-apiserver-client";
    let create = |name: &str, signer: &str, request: &str| {
        post(CERTIFICATES, &signing_request(&format!("{here}-{name}"), signer, request))
    };
    let masters = certificate_request(&["system:masters"]);
    let mut drawn = signing_request("", client, &masters);
    drawn["metadata"] = json!({"generateName": format!("{here}-")});
    let mut trailing = pem_der(&certificate_request(&["developers"]));
    trailing.push(0);
    let trailing = STANDARD.encode(trailing);
    let trailing = STANDARD
        .encode(format!("-----BEGIN CERTIFICATE REQUEST-----\n{trailing}\n-----END CERTIFICATE REQUEST-----\n"));
    // A PEM block with a malformed end is skipped, and the next block counts.
    let decoded = |request: &str| String::from_utf8(STANDARD.decode(request).unwrap()).unwrap();
    let passed_over = decoded(&certificate_request(&["developers"])).trim_end().to_owned() + "x\n";
    let hidden = create("hidden", client, &STANDARD.encode(passed_over + &decoded(&masters)));
    for api in pair().sides() {
        assert_eq!(api.send(&User::developer(), hidden.clone()).status, 403);
    }
    let not_der = STANDARD.encode("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n");
    pair().compare(as_developer(vec![
        create("plain", client, &certificate_request(&["developers"])),
        create("nobody", client, &certificate_request(&[])),
        create("masters", client, &masters),
        create("similar", client, &certificate_request(&["system:masters2", "System:Masters"])),
        create("elsewhere", "example.com/client", &masters),
        create("not-pem", client, &STANDARD.encode("text")),
        create("not-der", client, &not_der),
        create("trailing", client, &trailing),
        create("not-base64", client, "?"),
        post(CERTIFICATES, &drawn),
        post(&format!("{CERTIFICATES}?dryRun=All"), &signing_request(&format!("{here}-dry"), client, &masters)),
        patch(
            &format!("{CERTIFICATES}/{here}-plain"),
            "merge",
            &json!({"metadata": {"labels": {"a": "b"}}, "spec": {"request": masters}}),
        ),
    ]));
}

#[test]
fn certificates_are_approved_and_signed_by_users_with_the_right() {
    let here = unique("approval");
    let of = |which: &str| format!("{here}-{which}");
    let users = [of("approver"), of("signer"), of("wild")];
    let [approver, signer, wild] = users.each_ref().map(|name| User::named(name, ""));
    let rule = |verb: &str, name: &str| json!([{"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "verbs": [verb], "resourceNames": [name]}]);
    let both = json!([{"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "verbs": ["approve", "sign"], "resourceNames": ["example.com/*"]}]);
    pair().set_up(
        &[
            allow(&users[0], rule("approve", "example.com/a")),
            allow(&users[1], rule("sign", "example.com/a")),
            allow(&users[2], both),
        ]
        .concat(),
    );
    let (request, other) = (certificate_request(&["developers"]), certificate_request(&["others"]));
    let create = |which: &str, signer: &str| post(CERTIFICATES, &signing_request(&of(which), signer, &request));
    pair().set_up(&[
        create("a", "example.com/a"),
        create("b", "example.com/b"),
        create("c", "other.com/a"),
        create("d", "example.com/d"),
    ]);
    for (user, verb, name) in [
        (&approver, "approve", "example.com/a"),
        (&signer, "sign", "example.com/a"),
        (&wild, "approve", "example.com/*"),
    ] {
        knows(user, json!({"verb": verb, "group": "certificates.k8s.io", "resource": "signers", "name": name}));
        knows(
            user,
            json!({"verb": "update", "group": "certificates.k8s.io", "resource": "certificatesigningrequests", "subresource": "approval"}),
        );
    }
    let path = |which: &str, subresource: &str| format!("{CERTIFICATES}/{}/{subresource}", of(which));
    let conditions = |kind: &str| json!({"status": {"conditions": [{"type": kind, "status": "True", "reason": "r", "message": "m", "lastUpdateTime": "2026-01-01T00:00:00Z"}]}});
    let approve = |which: &str| patch(&path(which, "approval"), "merge", &conditions("Approved"));
    let whole = |which: &str, signer: &str, status: Value| {
        let mut whole = signing_request(&of(which), signer, &other);
        merge(&mut whole, status);
        whole
    };
    let certificate = STANDARD.encode(std::fs::read(pki().ca()).unwrap());
    let sign = |which: &str| patch(&path(which, "status"), "merge", &json!({"status": {"certificate": certificate}}));
    let alice = User::developer;
    pair().compare(vec![
        (alice(), approve("a")),
        (signer.clone(), approve("a")),
        (approver.clone(), approve("b")),
        // The stored signer counts.
        (approver.clone(), put(&path("b", "approval"), &whole("b", "example.com/a", conditions("Approved")))),
        (wild.clone(), approve("c")),
        (wild.clone(), approve("d")),
        (approver.clone(), approve("a")),
        // The plugin checks the approval although nothing changes.
        (alice(), patch(&path("a", "approval"), "merge", &json!({}))),
        (alice(), patch(&path("a", "approval"), "merge", &json!({"metadata": {"labels": {"a": "b"}}}))),
        (wild.clone(), patch(&path("b", "approval"), "merge", &conditions("Denied"))),
        (User::admin(), approve("c")),
        (alice(), patch(&path("missing", "approval"), "merge", &conditions("Approved"))),
        (alice(), sign("a")),
        // An empty certificate counts as a certificate, also if there was none before.
        (alice(), patch(&path("a", "status"), "merge", &json!({"status": {"certificate": ""}}))),
        (alice(), put(&path("c", "status"), &whole("c", "other.com/a", json!({"status": {"certificate": ""}})))),
        (approver.clone(), sign("a")),
        (alice(), patch(&path("a", "status"), "merge", &json!({"metadata": {"labels": {"c": "d"}}}))),
        (alice(), patch(&path("a", "status"), "merge", &json!({"status": {"conditions": null}}))),
        (alice(), patch(&path("d", "status"), "merge", &conditions("Failed"))),
        (
            signer.clone(),
            put(&path("c", "status"), &whole("c", "example.com/a", json!({"status": {"certificate": certificate}}))),
        ),
        (signer.clone(), sign("a")),
        (wild.clone(), sign("d")),
        // A write of the status does not change an approval.
        (alice(), patch(&path("c", "status"), "merge", &conditions("Approved"))),
        (
            alice(),
            patch(
                &path("c", "status"),
                "json",
                &json!([{"op": "replace", "path": "/status/conditions/0/message", "value": "n"}]),
            ),
        ),
        (
            alice(),
            patch(&format!("{CERTIFICATES}/{}", of("b")), "merge", &json!({"status": {"certificate": certificate}})),
        ),
        (alice(), get(&format!("{CERTIFICATES}/{}", of("a")))),
    ]);
}

#[test]
fn owners_are_set_by_users_that_may_delete() {
    let here = unique("owners");
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": here}});
    let user = format!("{here}-editor");
    let editor = User::named(&user, "");
    let rules = json!([
        {"apiGroups": ["", "apps"], "resources": ["configmaps", "pods", "pods/status", "deployments", "deployments/status"], "verbs": ["get", "create", "update", "patch"]},
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["mine"], "verbs": ["delete"]},
        {"apiGroups": ["apps"], "resources": ["deployments/finalizers"], "resourceNames": ["allowed"], "verbs": ["update"]}]);
    let [role, binding, _] = allow(&user, rules);
    let maps = format!("/api/v1/namespaces/{here}/configmaps");
    let owner = |version: &str, kind: &str, name: &str, uid: &str, blocks: Value| json!({"apiVersion": version, "kind": kind, "name": name, "uid": uid, "blockOwnerDeletion": blocks});
    let map = |name: &str, owners: &[&Value]| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": owners}});
    let (one, two) = (owner("v1", "Pod", "p", "1", Value::Null), owner("v1", "Pod", "q", "2", json!(false)));
    let allowed = owner("apps/v1", "Deployment", "allowed", "3", json!(true));
    let denied = owner("apps/v1", "Deployment", "denied", "4", json!(true));
    let node = owner("v1", "Node", "n", "5", json!(true));
    let unknown = owner("example.com/v1", "Thing", "t", "6", json!(true));
    let pods = format!("/api/v1/namespaces/{here}/pods");
    let pod = super::pods::pod("pod", json!({}));
    let deployments = format!("/apis/apps/v1/namespaces/{here}/deployments");
    let labels = json!({"a": "b"});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "owned"},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod["spec"]}}});
    pair().set_up(&[
        post("/api/v1/namespaces", &namespace),
        role,
        binding,
        post(&maps, &map("owned", &[&one, &two])),
        post(&maps, &map("mine", &[&one])),
        post(&maps, &map("blocking", &[&denied])),
        post(&pods, &pod),
        post(&deployments, &deployment),
    ]);
    knows(
        &editor,
        json!({"verb": "update", "group": "apps", "resource": "deployments", "subresource": "finalizers", "name": "allowed", "namespace": here}),
    );
    let owners = |list: &[&Value]| json!({"metadata": {"ownerReferences": list}});
    let change = |name: &str, list: &[&Value]| patch(&format!("{maps}/{name}"), "merge", &owners(list));
    let mut unblocked = denied.clone();
    unblocked["blockOwnerDeletion"] = json!(false);
    let mut steps: Vec<(User, Request)> = vec![
        post(&maps, &map("new", &[&one])),
        post(&maps, &map("new-blocking", &[&allowed])),
        post(&maps, &map("new-denied", &[&denied])),
        post(&maps, &map("new-several", &[&allowed, &one, &denied])),
        post(&maps, &map("new-node", &[&node])),
        post(&maps, &map("new-unknown", &[&unknown])),
        post(&maps, &map("twice", &[&one, &one])),
        change("owned", &[&one, &two]),
        change("owned", &[&two, &one]),
        change("owned", &[&one]),
        change("owned", &[]),
        patch(&format!("{maps}/owned"), "merge", &json!({"data": {"k": "v"}})),
        put(&format!("{maps}/owned"), &map("owned", &[])),
        change("mine", &[&one, &two]),
        change("mine", &[&one, &denied]),
        change("mine", &[&one, &allowed]),
        change("mine", &[]),
        change("blocking", &[&unblocked]),
        patch(&format!("{maps}/applied?fieldManager=me"), "apply", &map("applied", &[&one])),
        patch(&format!("{maps}/applied?fieldManager=me"), "apply", &map("applied", &[])),
        patch(
            &format!("{pods}/pod/status"),
            "merge",
            &json!({"metadata": {"ownerReferences": [one]}, "status": {"message": "m"}}),
        ),
        patch(&format!("{pods}/pod"), "merge", &owners(&[&one])),
        patch(
            &format!("{deployments}/owned/status"),
            "merge",
            &json!({"metadata": {"ownerReferences": [one]}, "status": {"replicas": 1}}),
        ),
        patch(&format!("{deployments}/owned"), "merge", &owners(&[&one])),
    ]
    .into_iter()
    .map(|request| (editor.clone(), request))
    .collect();
    steps.extend(as_developer(vec![
        change("owned", &[&denied]),
        change("blocking", &[&node]),
        post(&maps, &map("by-alice", &[&unknown])),
    ]));
    pair().compare(steps);
}

fn claim(name: &str, class: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
           "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class, "resources": {"requests": {"storage": "1Gi"}}}})
}

#[test]
fn claims_grow_where_their_class_lets_them() {
    let here = unique("grow");
    let of = |which: &str| format!("{here}-{which}");
    let class = |name: &str, expands: Value| {
        post(
            "/apis/storage.k8s.io/v1/storageclasses",
            &json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": of(name)},
                    "provisioner": "example.com/p", "allowVolumeExpansion": expands}),
        )
    };
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": here}});
    let claims = format!("/api/v1/namespaces/{here}/persistentvolumeclaims");
    let bind = |name: &str| {
        let status = json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}});
        patch(&format!("{claims}/{name}/status"), "merge", &status)
    };
    let mut annotated = claim("annotated", &of("bronze"));
    annotated["metadata"]["annotations"] = json!({"volume.beta.kubernetes.io/storage-class": of("gold")});
    pair().set_up(&[
        post("/api/v1/namespaces", &namespace),
        class("gold", json!(true)),
        class("silver", Value::Null),
        class("bronze", json!(false)),
        post(&claims, &claim("gold", &of("gold"))),
        post(&claims, &claim("silver", &of("silver"))),
        post(&claims, &claim("bronze", &of("bronze"))),
        post(&claims, &claim("missing", &of("missing"))),
        post(&claims, &claim("classless", "")),
        post(&claims, &claim("pending", &of("gold"))),
        post(&claims, &annotated),
        bind("gold"),
        bind("silver"),
        bind("bronze"),
        bind("missing"),
        bind("classless"),
        bind("annotated"),
    ]);
    let to = |name: &str, size: &str| {
        patch(&format!("{claims}/{name}"), "merge", &json!({"spec": {"resources": {"requests": {"storage": size}}}}))
    };
    pair().until(
        &User::developer(),
        &patch(
            &format!("{claims}/gold?dryRun=All"),
            "merge",
            &json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}}),
        ),
        "\"PersistentVolumeClaim\"",
    );
    pair().compare(as_developer(vec![
        to("gold", "1024Mi"),
        to("gold", "2Gi"),
        to("gold", "1Gi"),
        to("silver", "2Gi"),
        to("silver", "1024Mi"),
        to("bronze", "1025Mi"),
        to("missing", "2Gi"),
        to("classless", "2Gi"),
        to("pending", "2Gi"),
        to("annotated", "2Gi"),
        patch(&format!("{claims}/silver"), "merge", &json!({"metadata": {"labels": {"a": "b"}}})),
        patch(
            &format!("{claims}/gold"),
            "merge",
            &json!({"spec": {"storageClassName": of("silver"), "resources": {"requests": {"storage": "3Gi"}}}}),
        ),
    ]));
}

#[test]
fn storage_in_use_is_protected() {
    let here = unique("protected");
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": here}});
    pair().set_up(&[post("/api/v1/namespaces", &namespace)]);
    let of = |which: &str| format!("{here}-{which}");
    let claims = format!("/api/v1/namespaces/{here}/persistentvolumeclaims");
    let (volumes, attributes) = ("/api/v1/persistentvolumes", "/apis/storage.k8s.io/v1/volumeattributesclasses");
    let volume = |name: &str| {
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": of(name)},
               "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}})
    };
    let class = |name: &str| {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass", "metadata": {"name": of(name)},
               "driverName": "example.com", "parameters": {"a": "b"}})
    };
    let with = |mut object: Value, finalizers: Value| {
        object["metadata"]["finalizers"] = finalizers;
        object
    };
    let mut drawn = claim("", "");
    drawn["metadata"] = json!({"generateName": "drawn-"});
    pair().compare(as_developer(vec![
        post(&claims, &claim("plain", "")),
        post(&claims, &drawn),
        post(&claims, &with(claim("has", ""), json!(["kubernetes.io/pvc-protection"]))),
        post(&claims, &with(claim("other", ""), json!(["example.com/mine", "kubernetes.io/pv-protection"]))),
        post(&claims, &with(claim("null", ""), Value::Null)),
        post(&claims, &with(claim("wrong", ""), json!("text"))),
        post(volumes, &volume("plain")),
        post(volumes, &with(volume("other"), json!(["example.com/mine"]))),
        post(volumes, &with(volume("has"), json!(["kubernetes.io/pv-protection", "example.com/mine"]))),
        post(attributes, &class("plain")),
        post(attributes, &with(class("has"), json!(["kubernetes.io/vac-protection"]))),
        patch(&format!("{claims}/applied?fieldManager=me"), "apply", &claim("applied", "")),
        patch(&format!("{claims}/plain"), "json", &json!([{"op": "remove", "path": "/metadata/finalizers"}])),
        delete(&format!("{claims}/has")),
        get(&format!("{claims}/has")),
        post(&format!("{claims}?dryRun=All"), &claim("dry", "")),
    ]));
}
