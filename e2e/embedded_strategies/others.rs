//! Volumes, signing requests, nodes, namespaces and further kinds.

use super::{compare, with};
use crate::harness::{Request, delete, get, patch, post, put};
use serde_json::{Value, json};

const REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIT01IVUNBUUF3RXpFUk1BOEdBMVVFQXd3SWMyOXRaV0p2Wkhrd1dUQVRCZ2NxaGtqT1BRSUJCZ2dxaGtqTwpQUU1CQndOQ0FBUkN6TXJ5OGJUdlJ2bE85bmN2Sm9tbDlrcUdWaTdtUGNmVkJuOEtwNHVzZmFmL1ZkczFxOU1ICmk1YnB1cFNKSXpWcE1lM3lGZ242bHRBc0dzVFh4SUF0b0FBd0NnWUlLb1pJemowRUF3SURTUUF3UmdJaEFNdmMKL1dxbExhOG55Q3BScFEwZjRUMVJwVnllRFJyK0wraVc5NzdjQW9jQkFpRUFyeklxdXFVTkh6LzR3bFpJb2hCagpQaDlDYUhIYWJWQ2RpdUZJU0tWckZCQT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg==";

/// An object with these fields besides its metadata.
fn object(api_version: &str, kind: &str, name: &str, fields: Value) -> Value {
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
    object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    object
}

fn merge(path: &str, change: Value) -> Request {
    patch(path, "merge", &change)
}

#[test]
fn volumes_and_claims_get_the_values_of_kube_apiserver() {
    compare("strategies-volumes", |namespace| {
        let claims = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims");
        let volumes = "/api/v1/persistentvolumes";
        let volume = format!("{volumes}/{namespace}");
        let claim = |name: &str, spec: Value| {
            let mut claim = object(
                "v1",
                "PersistentVolumeClaim",
                name,
                json!({"spec": {"accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}}}}),
            );
            claim["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
            post(&claims, &claim)
        };
        let source = |kind: &str, group: &str| json!({"apiGroup": group, "kind": kind, "name": "s"});
        let elsewhere =
            json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s", "namespace": "other"});
        vec![
            post(
                volumes,
                &with(
                    object(
                        "v1",
                        "PersistentVolume",
                        namespace,
                        json!({"spec": {"capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/p"}}}),
                    ),
                    "/status",
                    json!({"phase": "Bound", "message": "m"}),
                ),
            ),
            merge(
                &format!("{volume}/status"),
                json!({"status": {"phase": "Available"}, "spec": {"hostPath": {"path": "/q"}}}),
            ),
            merge(
                &format!("{volume}/status"),
                json!({"status": {"phase": "Bound", "lastPhaseTransitionTime": "2026-01-01T00:00:00Z"}}),
            ),
            merge(&format!("{volume}/status"), json!({"status": {"message": "m"}})),
            merge(&format!("{volume}/status"), json!({"status": {"phase": "Released"}})),
            merge(
                &format!("{volume}/status"),
                json!({"status": {"phase": "Bound", "lastPhaseTransitionTime": "2026-01-01T00:00:00Z"}}),
            ),
            merge(&format!("{volume}/status"), json!({"status": {"lastPhaseTransitionTime": null}})),
            merge(&volume, json!({"status": {"phase": "Failed"}, "metadata": {"labels": {"a": "b"}}})),
            get(&volume),
            delete(&volume),
            claim("plain", json!({})),
            claim("snapshot", json!({"dataSource": source("VolumeSnapshot", "snapshot.storage.k8s.io")})),
            claim("unknown", json!({"dataSource": source("Thing", "e.test")})),
            claim("unknown-ref", json!({"dataSourceRef": source("Thing", "e.test")})),
            claim("both", json!({"dataSource": source("Thing", "e.test"), "dataSourceRef": source("Thing", "e.test")})),
            claim("elsewhere", json!({"dataSourceRef": &elsewhere})),
            claim(
                "elsewhere-too",
                json!({"dataSource": source("VolumeSnapshot", "snapshot.storage.k8s.io"), "dataSourceRef": &elsewhere}),
            ),
            merge(
                &format!("{claims}/plain/status"),
                json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"},
                "allocatedResources": {"storage": "1Gi"}, "allocatedResourceStatuses": {"storage": "NodeResizePending"}},
                "spec": {"volumeName": "v"}, "metadata": {"annotations": {"s": "1"}}}),
            ),
            merge(&format!("{claims}/plain"), json!({"status": {"phase": "Lost"}, "metadata": {"labels": {"a": "b"}}})),
        ]
    });
}

#[test]
fn signing_requests_are_approved_and_signed_as_by_kube_apiserver() {
    compare("strategies-signing", |namespace| {
        let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
        let at = |name: &str, subresource: &str| format!("{requests}/{namespace}-{name}{subresource}");
        let new = |name: &str| {
            let mut request = object(
                "certificates.k8s.io/v1",
                "CertificateSigningRequest",
                &format!("{namespace}-{name}"),
                json!({"spec": {"signerName": "e.test/s", "usages": ["client auth"], "request": REQUEST, "username": "other"}}),
            );
            request["status"] = json!({"conditions": [{"type": "Approved", "status": "True"}]});
            post(requests, &request)
        };
        let conditions =
            |conditions: Value| json!({"status": {"conditions": conditions}, "metadata": {"labels": {"l": "1"}}});
        let approved = json!({"type": "Approved", "status": "True", "reason": "R"});
        let failed = json!({"type": "Failed", "status": "True", "reason": "F"});
        let dated = json!({"type": "Approved", "status": "True", "reason": "S", "lastUpdateTime": "2026-01-01T00:00:00Z",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        vec![
            new("a"),
            merge(
                &at("a", ""),
                json!({"spec": {"signerName": "e.test/t"}, "status": {"conditions": [approved]}, "metadata": {"labels": {"m": "1"}}}),
            ),
            merge(&at("a", "/status"), conditions(json!([approved]))),
            merge(
                &at("a", "/status"),
                json!({"status": {"conditions": [failed]}, "metadata": {"annotations": {"n": "1"}}}),
            ),
            merge(&at("a", "/status"), json!({"status": {"certificate": "bm90IG9uZQ=="}})),
            merge(
                &at("a", "/approval"),
                json!({"status": {"conditions": [failed, dated], "certificate": "bm90IG9uZQ=="}, "metadata": {"labels": {"k": "1"}},
                "spec": {"usages": ["server auth"]}}),
            ),
            merge(
                &at("a", "/status"),
                json!({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "Other"}, failed]}}),
            ),
            merge(&at("a", "/status"), json!({"status": {"conditions": [failed]}})),
            merge(&at("a", "/approval"), json!({"status": {"conditions": [failed]}})),
            merge(
                &at("a", "/approval"),
                json!({"status": {"conditions": [failed, {"type": "Denied", "status": "True"}, dated]}}),
            ),
            get(&at("a", "")),
            get(&at("a", "/approval")),
            new("b"),
            merge(&at("b", "/approval"), json!({"status": {"conditions": [{"type": "Denied", "status": "False"}]}})),
            merge(
                &at("b", "/approval"),
                json!({"status": {"conditions": [{"type": "Denied", "status": "True", "message": "m"}]}}),
            ),
            delete(&at("a", "")),
            delete(&at("b", "")),
        ]
    });
}

#[test]
fn nodes_and_namespaces_keep_what_they_do_in_kube_apiserver() {
    compare("strategies-nodes", |namespace| {
        let node = format!("/api/v1/nodes/{namespace}");
        let (name, finalized) = (format!("{namespace}-b"), format!("{namespace}-c"));
        let b = format!("/api/v1/namespaces/{name}");
        let c = format!("/api/v1/namespaces/{finalized}");
        let source = json!({"configMap": {"namespace": "n", "name": "m", "kubeletConfigKey": "k"}});
        let finalize = |name: &str, more: Value, finalizers: Value| {
            let mut body = object("v1", "Namespace", name, json!({"spec": {"finalizers": finalizers}}));
            body["metadata"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            put(&format!("/api/v1/namespaces/{name}/finalize"), &body)
        };
        vec![
            post(
                "/api/v1/nodes",
                &object(
                    "v1",
                    "Node",
                    namespace,
                    json!({"spec": {"configSource": source, "podCIDR": "10.1.0.0/24"},
                "status": {"capacity": {"cpu": "1"}, "config": {"error": "e"}, "conditions": [{"type": "Ready", "status": "True"}]}}),
                ),
            ),
            merge(
                &node,
                json!({"spec": {"configSource": source, "unschedulable": true}, "status": {"phase": "Running"}}),
            ),
            merge(
                &format!("{node}/status"),
                json!({"status": {"config": {"error": "e"}, "nodeInfo": {"kernelVersion": "k"}},
                "spec": {"unschedulable": false}, "metadata": {"labels": {"l": "1"}}}),
            ),
            get(&node),
            delete(&node),
            post(
                "/api/v1/namespaces",
                &object(
                    "v1",
                    "Namespace",
                    &name,
                    json!({"spec": {"finalizers": ["e.test/f"]},
                "status": {"phase": "Terminating"}}),
                ),
            ),
            merge(
                &b,
                json!({"spec": {"finalizers": ["e.test/g"]}, "status": {"phase": "Terminating"}, "metadata": {"labels": {"kubernetes.io/metadata.name": "x"}}}),
            ),
            merge(
                &format!("{b}/status"),
                json!({"status": {"conditions": [{"type": "T", "status": "True"}]}, "metadata": {"labels": {"s": "1", "kubernetes.io/metadata.name": null}},
                "spec": {"finalizers": []}}),
            ),
            finalize(
                &name,
                json!({"labels": {"f": "1"}, "annotations": {"n": "1"}}),
                json!(["kubernetes", "e.test/h"]),
            ),
            finalize(&name, json!({}), json!(["Bad Name"])),
            finalize(&name, json!({}), json!(["unqualified"])),
            finalize(&name, json!({}), json!([])),
            get(&b),
            post(
                "/api/v1/namespaces",
                &object("v1", "Namespace", &finalized, json!({"spec": {"finalizers": ["kubernetes"]}})),
            ),
            merge(&format!("{c}/finalize"), json!({})),
            delete(&format!("{c}/finalize")),
        ]
    });
}

#[test]
fn further_kinds_get_the_values_of_kube_apiserver() {
    compare("strategies-others", |namespace| {
        let core = format!("/api/v1/namespaces/{namespace}");
        let of = |group: &str, resource: &str| format!("/apis/{group}/namespaces/{namespace}/{resource}");
        let leases = of("coordination.k8s.io/v1", "leases");
        let slices = of("discovery.k8s.io/v1", "endpointslices");
        let sets = of("apps/v1", "statefulsets");
        let drivers = "/apis/storage.k8s.io/v1/csidrivers";
        let template =
            json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let set = json!({"selector": {"matchLabels": {"a": "b"}}, "serviceName": "s", "template": template,
            "updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}});
        let endpoint = |topology: Value| json!({"addresses": ["192.0.2.1"], "deprecatedTopology": topology});
        let slice = |name: &str, endpoints: Value| {
            object("discovery.k8s.io/v1", "EndpointSlice", name, json!({"addressType": "IPv4", "endpoints": endpoints}))
        };
        vec![
            // References of service accounts have only a name.
            post(
                &format!("{core}/serviceaccounts"),
                &object(
                    "v1",
                    "ServiceAccount",
                    "a",
                    json!({
                "secrets": [{"name": "s", "namespace": "n", "kind": "Secret", "uid": "u"}], "imagePullSecrets": [{"name": "i"}]}),
                ),
            ),
            merge(&format!("{core}/serviceaccounts/a"), json!({"secrets": [{"name": "t", "fieldPath": "f"}]})),
            // A LimitRange needs no name.
            post(
                &format!("{core}/limitranges"),
                &json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {}, "spec": {"limits": []}}),
            ),
            put(
                &format!("{core}/limitranges/new"),
                &object("v1", "LimitRange", "new", json!({"spec": {"limits": []}})),
            ),
            put(
                &format!("{core}/events/new"),
                &object("v1", "Event", "new", json!({"involvedObject": {"namespace": namespace}})),
            ),
            put(&format!("{core}/secrets/new"), &object("v1", "Secret", "new", json!({}))),
            post(&format!("{core}/secrets"), &object("v1", "Secret", "s", json!({"type": "e.test/t"}))),
            put(&format!("{core}/secrets/s"), &object("v1", "Secret", "s", json!({"stringData": {"a": "b"}}))),
            // Fields of features that are off.
            post(
                &leases,
                &object(
                    "coordination.k8s.io/v1",
                    "Lease",
                    "l",
                    json!({"spec": {"holderIdentity": "h", "strategy": "OldestEmulationVersion", "preferredHolder": "p"}}),
                ),
            ),
            merge(&format!("{leases}/l"), json!({"spec": {"preferredHolder": "p", "leaseDurationSeconds": 5}})),
            put(
                &format!("{leases}/new"),
                &object(
                    "coordination.k8s.io/v1",
                    "Lease",
                    "new",
                    json!({"spec": {"strategy": "OldestEmulationVersion"}}),
                ),
            ),
            post(&sets, &object("apps/v1", "StatefulSet", "s", json!({ "spec": set }))),
            merge(&format!("{sets}/s"), json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 3}}}})),
            post(
                drivers,
                &object(
                    "storage.k8s.io/v1",
                    "CSIDriver",
                    &format!("{namespace}.test"),
                    json!({"spec": {"preventPodSchedulingIfMissing": true}}),
                ),
            ),
            merge(
                &format!("{drivers}/{namespace}.test"),
                json!({"spec": {"preventPodSchedulingIfMissing": true, "requiresRepublish": true}}),
            ),
            delete(&format!("{drivers}/{namespace}.test")),
            // The old topology of endpoints.
            post(&slices, &slice("s", json!([endpoint(json!({"kubernetes.io/hostname": "n", "a": "b"}))]))),
            merge(&format!("{slices}/s"), json!({"endpoints": [endpoint(json!({"kubernetes.io/hostname": "m"}))]})),
            // Conditions of budgets and further statuses.
            post(
                &of("policy/v1", "poddisruptionbudgets"),
                &object(
                    "policy/v1",
                    "PodDisruptionBudget",
                    "b",
                    json!({
                "spec": {"maxUnavailable": 1, "selector": {}}, "status": {"currentHealthy": 1}}),
                ),
            ),
            put(
                &format!("{}/b", of("policy/v1", "poddisruptionbudgets")),
                &object(
                    "policy/v1",
                    "PodDisruptionBudget",
                    "b",
                    json!({
                "spec": {"maxUnavailable": 2, "selector": {}}}),
                ),
            ),
            merge(
                &format!("{}/b/status", of("policy/v1", "poddisruptionbudgets")),
                json!({"status": {"currentHealthy": 2}, "spec": {"maxUnavailable": 3},
                "metadata": {"labels": {"a": "b"}}}),
            ),
            merge(&format!("{core}/replicationcontrollers/none/status"), json!({"status": {"replicas": 1}})),
            post(&format!("{core}/configmaps"), &object("v1", "ConfigMap", "m", json!({"immutable": true}))),
            merge(&format!("{core}/configmaps/m"), json!({"immutable": false})),
        ]
    });
}

#[test]
fn token_requests_are_refused_as_by_kube_apiserver() {
    compare("strategies-tokens", |namespace| {
        let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
        let token = |name: &str, metadata: Value, spec: Value| {
            let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": metadata, "spec": spec});
            post(&format!("{accounts}/{name}/token"), &request)
        };
        let to = |kind: &str, api_version: &str, more: Value| {
            let mut reference = json!({"kind": kind, "apiVersion": api_version, "name": "none"});
            reference.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            token("a", json!({}), json!({"audiences": ["x"], "boundObjectRef": reference}))
        };
        let pod = json!({"containers": [{"name": "c", "image": "i"}], "serviceAccountName": "other"});
        vec![
            post(&accounts, &object("v1", "ServiceAccount", "a", json!({}))),
            post(&format!("/api/v1/namespaces/{namespace}/pods"), &object("v1", "Pod", "p", json!({ "spec": pod }))),
            token("none", json!({}), json!({"audiences": ["x"]})),
            token("a", json!({"name": "b"}), json!({"audiences": ["x"]})),
            token("a", json!({"namespace": "default"}), json!({"audiences": ["x"]})),
            token("a", json!({"uid": "wrong"}), json!({"audiences": ["x"]})),
            token("a", json!({}), json!({"audiences": ["x"], "expirationSeconds": 1})),
            token("a", json!({}), json!({"audiences": ["x"], "expirationSeconds": 1_i64 << 33})),
            to("Pod", "v1", json!({})),
            to("Pod", "v1", json!({"name": "p"})),
            to("Secret", "v1", json!({})),
            to("Node", "v1", json!({})),
            to("Thing", "e.test/v1", json!({})),
            to("Pod", "apps/v1", json!({})),
        ]
    });
}

#[test]
fn device_claims_and_scales_follow_kube_apiservers_rules() {
    compare("strategies-claims", |namespace| {
        let of = |group: &str, resource: &str| format!("/apis/{group}/namespaces/{namespace}/{resource}");
        let claims = of("resource.k8s.io/v1", "resourceclaims");
        let deployments = of("apps/v1", "deployments");
        let slices = "/apis/resource.k8s.io/v1/resourceslices";
        let template =
            json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let request = json!({"name": "r", "exactly": {"deviceClassName": "c.test", "allocationMode": "All"}});
        let result = |device: &str| json!({"request": "r", "driver": "d.test", "pool": "p", "device": device});
        let device = |device: &str| json!({"driver": "d.test", "pool": "p", "device": device, "conditions": []});
        let status = |results: Value, devices: Value| {
            json!({"status": {"allocation": {"devices": {"results": results}}, "devices": devices},
            "metadata": {"labels": {"l": "1"}}, "spec": {"devices": {"requests": []}}})
        };
        let scale = |metadata: Value, replicas: i64| {
            let mut scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": {"replicas": replicas}});
            scale["metadata"]["name"] = json!("d");
            put(&format!("{deployments}/d/scale"), &scale)
        };
        vec![
            post(
                &claims,
                &object(
                    "resource.k8s.io/v1",
                    "ResourceClaim",
                    "c",
                    json!({"spec": {"devices": {"requests": [request]}},
                "status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}}),
                ),
            ),
            merge(
                &format!("{claims}/c/status"),
                status(json!([result("a"), result("b")]), json!([device("a"), device("b")])),
            ),
            merge(&format!("{claims}/c/status"), json!({"status": {"allocation": null}})),
            get(&format!("{claims}/c")),
            post(
                slices,
                &object(
                    "resource.k8s.io/v1",
                    "ResourceSlice",
                    namespace,
                    json!({"spec": {"driver": "d.test", "nodeName": "n",
                "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "a", "attributes": {"x": {"strings": ["y"]}, "z": {"int": 1}}}]}}),
                ),
            ),
            merge(&format!("{slices}/{namespace}"), json!({"spec": {"pool": {"generation": 2}}})),
            delete(&format!("{slices}/{namespace}")),
            post(
                &deployments,
                &object(
                    "apps/v1",
                    "Deployment",
                    "d",
                    json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
                "status": {"replicas": 3}}),
                ),
            ),
            scale(json!({}), 2),
            merge(&format!("{deployments}/d/scale"), json!({"metadata": {"uid": "wrong"}})),
            merge(&format!("{deployments}/d/scale"), json!({"metadata": {"labels": {"Bad Label": "b"}}})),
            scale(json!({"resourceVersion": "1"}), 3),
            scale(json!({"namespace": "other"}), 3),
            scale(json!({"labels": {"a": "b"}}), 3),
            scale(json!({}), -1),
            merge(&format!("{deployments}/d/scale"), json!({"spec": {"replicas": 4}, "status": {"replicas": 9}})),
            merge(&format!("{deployments}/none/scale"), json!({"spec": {"replicas": 4}})),
            merge(
                &format!("{deployments}/d/status"),
                json!({"status": {"replicas": 4, "terminatingReplicas": 1}, "metadata": {"labels": {"l": "1"}, "annotations": {"n": "1"}},
                "spec": {"replicas": 7}}),
            ),
            get(&format!("{deployments}/d")),
        ]
    });
}
