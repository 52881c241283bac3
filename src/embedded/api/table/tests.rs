mod pods;

use super::*;
use crate::embedded::api::catalog;

const NOW: &str = "2026-01-10T00:00:00Z";

fn at(path: &str) -> &'static ServedResource {
    catalog::resources().iter().find(|resource| resource.path() == path).unwrap_or_else(|| panic!("{path}"))
}

/// The cells of an object with the name `x`, created five days ago.
fn cells_of(path: &str, mut object: Value) -> Value {
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    object["metadata"]["name"] = json!("x");
    object["metadata"]["creationTimestamp"] = json!("2026-01-05T00:00:00Z");
    let made = table(at(path), &[object], None, IncludeObject::None, NOW.parse().unwrap());
    made["rows"][0]["cells"].clone()
}

fn check(rows: &[(&str, Value, Value)]) {
    for (path, object, expected) in rows {
        assert_eq!(cells_of(path, object.clone()), *expected, "{path} {object}");
    }
}

fn template() -> Value {
    json!({"metadata": {"labels": {"b": "1", "a": "2"}}, "spec": {
        "containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "j"}], "nodeSelector": {"n": "v"},
    }})
}

#[test]
fn every_resource_fills_its_columns_with_an_empty_object() {
    let empty = [json!({}), json!({"metadata": 1, "spec": [], "status": "text", "data": 5, "subjects": {}})];
    for resource in catalog::resources().iter().filter(|resource| resource.serves("list")) {
        for object in &empty {
            let made =
                table(resource, std::slice::from_ref(object), None, IncludeObject::Metadata, NOW.parse().unwrap());
            let columns = made["columnDefinitions"].as_array().unwrap().len();
            let cells = made["rows"][0]["cells"].as_array().unwrap().len();
            // kube-apiserver too sends the age of an IP address without a column for it.
            let expected = if resource.name == "ipaddresses" { columns + 1 } else { columns };
            assert_eq!(cells, expected, "{}", resource.path());
        }
    }
}

#[test]
fn every_listable_resource_has_recorded_columns() {
    for resource in catalog::resources().iter().filter(|resource| resource.serves("list")) {
        assert!(RECORDED.columns.contains_key(resource.path().as_str()), "{}", resource.path());
    }
    let columns = column_definitions(at("/api/v1/pods"));
    let facts = |column: usize| {
        let column = columns[column].as_object().unwrap();
        ["name", "type", "format", "priority"].map(|field| column[field].clone())
    };
    assert_eq!(facts(0), [json!("Name"), json!("string"), json!("name"), json!(0)]);
    assert_eq!(facts(5), [json!("IP"), json!("string"), json!(""), json!(1)]);
}

#[test]
fn columns_have_the_descriptions_of_their_kind() {
    let described = |path: &str, column: &str| {
        let columns = column_definitions(at(path));
        let found = columns.as_array().unwrap().iter().find(|definition| definition["name"] == column);
        found.unwrap_or_else(|| panic!("{path} {column}"))["description"].as_str().unwrap().to_owned()
    };
    let name = "Name must be unique within a namespace. Is required when creating resources";
    assert!(described("/api/v1/pods", "Name").starts_with(name));
    assert!(described("/api/v1/limitranges", "Name").starts_with(name));
    let created = "CreationTimestamp is a timestamp representing the server time when this object was created.";
    assert!(described("/api/v1/limitranges", "Created At").starts_with(created));
    assert!(described("/apis/apps/v1/deployments", "Age").starts_with(created));
    // Columns of one name, in kinds that describe them differently.
    let status = "The aggregate status of the containers in this pod.";
    assert_eq!(described("/api/v1/pods", "Status"), status);
    assert_eq!(described("/apis/batch/v1/jobs", "Status"), "Status of the job.");
    let without = UNKNOWN_COLUMNS.iter().map(definition).find(|column| column["description"] == "");
    assert_eq!(without, None);
}

#[test]
fn rows_carry_what_the_request_asked_for() {
    let object = json!({"kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": "7"}, "data": {"k": "v"}});
    let list = json!({"resourceVersion": "9", "continue": "c", "remainingItemCount": 3, "selfLink": ""});
    let made = |include, list: Option<&Value>| {
        let list = list.and_then(Value::as_object);
        table(at("/api/v1/configmaps"), std::slice::from_ref(&object), list, include, NOW.parse().unwrap())
    };
    let one = made(IncludeObject::Metadata, None);
    assert_eq!((&one["kind"], &one["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    assert_eq!(one["metadata"], json!({"resourceVersion": "7"}));
    let partial =
        json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]});
    assert_eq!(one["rows"], json!([{"cells": ["a", 1, "<unknown>"], "object": partial}]));
    let all = made(IncludeObject::Object, Some(&list));
    assert_eq!(all["metadata"], json!({"resourceVersion": "9", "continue": "c", "remainingItemCount": 3}));
    assert_eq!(all["rows"][0]["object"], object);
    assert_eq!(made(IncludeObject::None, None)["rows"][0]["object"], Value::Null);
    assert_eq!(IncludeObject::parse("Object"), Some(IncludeObject::Object));
    assert_eq!(IncludeObject::parse("other"), None);
}

#[test]
fn workloads() {
    let selector = json!({"matchLabels": {"b": "1"}, "matchExpressions": [
        {"key": "a", "operator": "In", "values": ["q", "p"]}, {"key": "c", "operator": "DoesNotExist"}]});
    let spec = json!({"replicas": 3, "selector": selector, "template": template()});
    let plain = json!({"selector": {"b": "1", "a": "2"}, "template": template()});
    let job = json!({"template": template(), "parallelism": 1});
    let time = "2026-01-08T00:00:00Z";
    check(&[
        (
            "/apis/apps/v1/deployments",
            json!({"spec": spec, "status": {"readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1}}),
            json!(["x", "1/3", 2, 1, "5d", "c,d", "i,j", "a in (p,q),b=1,!c"]),
        ),
        ("/apis/apps/v1/deployments", json!({}), json!(["x", "0/1", 0, 0, "5d", "", "", ""])),
        (
            "/apis/apps/v1/replicasets",
            json!({"spec": spec, "status": {"replicas": 2, "readyReplicas": 1}}),
            json!(["x", 3, 2, 1, "5d", "c,d", "i,j", "a in (p,q),b=1,!c"]),
        ),
        (
            "/apis/apps/v1/replicasets",
            json!({"spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}}),
            json!(["x", 1, 0, 0, "5d", "", "", "<error>"]),
        ),
        (
            "/api/v1/replicationcontrollers",
            json!({"spec": plain}),
            json!(["x", 1, 0, 0, "5d", "c,d", "i,j", "a=2,b=1"]),
        ),
        ("/apis/apps/v1/statefulsets", json!({"spec": spec}), json!(["x", "0/3", "5d", "c,d", "i,j"])),
        (
            "/apis/apps/v1/daemonsets",
            json!({"spec": {"template": template()}, "status": {"desiredNumberScheduled": 5, "currentNumberScheduled": 4,
                "numberReady": 3, "updatedNumberScheduled": 2, "numberAvailable": 1}}),
            json!(["x", 5, 4, 3, 2, 1, "n=v", "5d", "c,d", "i,j", "<none>"]),
        ),
        (
            "/apis/apps/v1/controllerrevisions",
            json!({"revision": 3, "metadata": {"ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "controller": true}]}}),
            json!(["x", "daemonset.apps/d", 3, "5d"]),
        ),
        ("/apis/apps/v1/controllerrevisions", json!({}), json!(["x", "<none>", 0, "5d"])),
        ("/api/v1/podtemplates", json!({"template": template()}), json!(["x", "c,d", "i,j", "a=2,b=1"])),
        ("/apis/batch/v1/jobs", json!({"spec": job}), json!(["x", "Running", "0/1", "", "5d", "c,d", "i,j", "<none>"])),
        (
            "/apis/batch/v1/jobs",
            json!({"spec": {"completions": 4}, "status": {"succeeded": 4, "startTime": time,
                "completionTime": "2026-01-08T00:02:30Z", "conditions": [{"type": "Complete", "status": "True"}]}}),
            json!(["x", "Complete", "4/4", "2m30s", "5d", "", "", "<none>"]),
        ),
        (
            "/apis/batch/v1/jobs",
            json!({"spec": {"parallelism": 2}, "status": {"startTime": time, "conditions": [{"type": "Failed", "status": "True"}]}}),
            json!(["x", "Failed", "0/1 of 2", "2d", "5d", "", "", "<none>"]),
        ),
        (
            "/apis/batch/v1/cronjobs",
            json!({"spec": {"schedule": "@daily", "suspend": false, "jobTemplate": {"spec": {"template": template()}}},
                   "status": {"active": [{}], "lastScheduleTime": time}}),
            json!(["x", "@daily", "<none>", "False", 1, "2d", "5d", "c,d", "i,j", "<none>"]),
        ),
        (
            "/apis/policy/v1/poddisruptionbudgets",
            json!({"spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 2}}),
            json!(["x", "50%", "N/A", 2, "5d"]),
        ),
        (
            "/apis/policy/v1/poddisruptionbudgets",
            json!({"spec": {"maxUnavailable": 1}}),
            json!(["x", "N/A", "1", 0, "5d"]),
        ),
    ]);
}

#[test]
fn autoscalers() {
    let row = |version: &str, spec: Value, status: Value, targets: &str| {
        let object = json!({"spec": spec, "status": status});
        let cells = cells_of(&format!("/apis/autoscaling/{version}/horizontalpodautoscalers"), object);
        assert_eq!(json!([cells[0], cells[2], cells[3], cells[6]]), json!(["x", targets, "<unset>", "5d"]), "{spec}");
    };
    let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 50}}});
    let pods = json!({"type": "Pods", "pods": {"target": {"averageValue": "1000m"}}});
    let external = json!({"type": "External", "external": {"target": {"averageValue": "10"}}});
    let on_object = json!({"type": "Object", "object": {"target": {"value": "10"}}});
    let current =
        json!({"currentMetrics": [{"type": "Resource", "resource": {"current": {"averageUtilization": 10}}}]});
    row("v2", json!({}), json!({}), "<none>");
    row("v2", json!({"metrics": [cpu]}), json!({}), "cpu: <unknown>/50%");
    row("v2", json!({"metrics": [cpu, pods, external]}), current, "cpu: 10%/50%, <unknown>/1 + 1 more...");
    row("v2", json!({"metrics": [external, on_object]}), json!({}), "<unknown>/10 (avg), <unknown>/10");
    row("v2", json!({"metrics": [{"type": "Other"}]}), json!({}), "<unknown type>");
    let percent = json!({"currentCPUUtilizationPercentage": 7});
    row("v1", json!({"targetCPUUtilizationPercentage": 80}), percent, "cpu: 7%/80%");
    let whole = json!({"spec": {"scaleTargetRef": {"kind": "Deployment", "name": "d"}, "minReplicas": 2, "maxReplicas": 5},
        "status": {"currentReplicas": 3}});
    let expected = json!(["x", "Deployment/d", "<none>", "2", 5, 3, "5d"]);
    assert_eq!(cells_of("/apis/autoscaling/v2/horizontalpodautoscalers", whole), expected);
}

#[test]
fn networking() {
    let ports = json!([{"port": 80, "protocol": "TCP"}, {"port": 53, "protocol": "UDP", "nodePort": 30000}]);
    let balanced = json!({"loadBalancer": {"ingress": [{"ip": "7.7.7.7"}, {"hostname": "a.b"}, {"ip": "6.6.6.6"}]}});
    let rule = |host: &str| json!({"host": host});
    let address = |ip: &str| json!({"ip": ip});
    check(&[
        (
            "/api/v1/services",
            json!({"spec": {"type": "NodePort", "clusterIPs": ["10.0.0.1"], "ports": ports, "selector": {"a": "b"}}}),
            json!(["x", "NodePort", "10.0.0.1", "<none>", "80/TCP,53:30000/UDP", "5d", "a=b"]),
        ),
        (
            "/api/v1/services",
            json!({"spec": {"type": "LoadBalancer"}}),
            json!(["x", "LoadBalancer", "<none>", "<pending>", "<none>", "5d", "<none>"]),
        ),
        (
            "/api/v1/services",
            json!({"spec": {"type": "LoadBalancer", "externalIPs": ["9.9.9.9"]}, "status": balanced}),
            json!(["x", "LoadBalancer", "<none>", "6.6.6.6,7.7.7.7,a.b,9.9.9.9", "<none>", "5d", "<none>"]),
        ),
        (
            "/api/v1/services",
            json!({"spec": {"type": "ExternalName", "externalName": "a.b"}}),
            json!(["x", "ExternalName", "<none>", "a.b", "<none>", "5d", "<none>"]),
        ),
        ("/api/v1/endpoints", json!({}), json!(["x", "<none>", "5d"])),
        (
            "/api/v1/endpoints",
            json!({"subsets": [{"addresses": [address("1.1.1.1"), address("fd00::1")], "ports": [{"port": 1}, {"port": 2}]}]}),
            json!(["x", "1.1.1.1:1,[fd00::1]:1,1.1.1.1:2 + 1 more...", "5d"]),
        ),
        ("/api/v1/endpoints", json!({"subsets": [{"addresses": [address("fd00::1")]}]}), json!(["x", "fd00::1", "5d"])),
        (
            "/apis/discovery.k8s.io/v1/endpointslices",
            json!({"addressType": "IPv4", "ports": [{"port": 1}, {"name": "n"}, {}, {"port": 4}], "endpoints": [{"addresses": ["1.1.1.1"]}]}),
            json!(["x", "IPv4", "1,n,* + 1 more...", "1.1.1.1", "5d"]),
        ),
        ("/apis/discovery.k8s.io/v1/endpointslices", json!({}), json!(["x", "", "<unset>", "<unset>", "5d"])),
        ("/apis/networking.k8s.io/v1/ingresses", json!({}), json!(["x", "<none>", "*", "", "80", "5d"])),
        (
            "/apis/networking.k8s.io/v1/ingresses",
            json!({"spec": {"ingressClassName": "c", "tls": [{}], "rules": [rule("a"), rule("b"), rule("c"), rule("d")]}, "status": balanced}),
            json!(["x", "c", "a,b,c + 1 more...", "6.6.6.6,7.7.7.7,a.b", "80, 443", "5d"]),
        ),
        (
            "/apis/networking.k8s.io/v1/ingressclasses",
            json!({"metadata": {"annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}},
                   "spec": {"controller": "c", "parameters": {"apiGroup": "g", "kind": "K", "name": "n"}}}),
            json!(["x (default)", "c", "K.g/n", "5d"]),
        ),
        (
            "/apis/networking.k8s.io/v1/networkpolicies",
            json!({"spec": {"podSelector": {}}}),
            json!(["x", "<none>", "5d"]),
        ),
        (
            "/apis/networking.k8s.io/v1/ipaddresses",
            json!({"spec": {"parentRef": {"group": "", "resource": "services", "namespace": "n", "name": "s"}}}),
            json!(["x", "services/n/s", "5d"]),
        ),
        ("/apis/networking.k8s.io/v1/servicecidrs", json!({"spec": {"cidrs": ["a", "b"]}}), json!(["x", "a,b", "5d"])),
    ]);
}

#[test]
fn volumes() {
    let claim = json!({"volumeName": "v", "storageClassName": "s", "volumeMode": "Block"});
    check(&[
        (
            "/api/v1/persistentvolumes",
            json!({"spec": {"capacity": {"storage": "1024Mi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce", "ReadWriteMany"],
                "persistentVolumeReclaimPolicy": "Retain", "claimRef": {"namespace": "n", "name": "c"}, "storageClassName": "s",
                "volumeMode": "Block"}, "status": {"phase": "Bound"}}),
            json!(["x", "1Gi", "RWO,RWX", "Retain", "Bound", "n/c", "s", "<unset>", "", "5d", "Block"]),
        ),
        (
            "/api/v1/persistentvolumeclaims",
            json!({"spec": claim, "status": {"phase": "Bound", "accessModes": ["ReadOnlyMany"], "capacity": {"storage": "1Gi"}}}),
            json!(["x", "Bound", "v", "1Gi", "ROX", "s", "<unset>", "5d", "Block"]),
        ),
        (
            "/api/v1/persistentvolumeclaims",
            json!({"metadata": {"deletionTimestamp": NOW, "annotations": {"volume.beta.kubernetes.io/storage-class": "old"}}}),
            json!(["x", "Terminating", "", "", "", "old", "<unset>", "5d", "<unset>"]),
        ),
        (
            "/apis/storage.k8s.io/v1/storageclasses",
            json!({"provisioner": "p", "metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}}),
            json!(["x (default)", "p", "Delete", "Immediate", false, "5d"]),
        ),
        (
            "/apis/storage.k8s.io/v1/volumeattachments",
            json!({"spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}}, "status": {"attached": true}}),
            json!(["x", "a", "v", "n", true, "5d"]),
        ),
        (
            "/apis/storage.k8s.io/v1/csidrivers",
            json!({}),
            json!(["x", true, false, false, "<unset>", false, "<none>", "5d"]),
        ),
        (
            "/apis/storage.k8s.io/v1/csidrivers",
            json!({"spec": {"attachRequired": false, "tokenRequests": [{"audience": "a"}], "volumeLifecycleModes": ["Ephemeral"]}}),
            json!(["x", false, false, false, "a", false, "Ephemeral", "5d"]),
        ),
        ("/apis/storage.k8s.io/v1/csinodes", json!({"spec": {"drivers": [{}, {}]}}), json!(["x", 2, "5d"])),
        ("/apis/storage.k8s.io/v1/volumeattributesclasses", json!({"driverName": "d"}), json!(["x", "d", "5d"])),
        ("/apis/storage.k8s.io/v1/csistoragecapacities", json!({}), json!(["x", "2026-01-05T00:00:00Z"])),
    ]);
}

#[test]
fn nodes_and_configuration() {
    let labels = json!({"node-role.kubernetes.io/b": "", "node-role.kubernetes.io/a": "", "kubernetes.io/role": "c"});
    let info = json!({"kubeletVersion": "v1", "kernelVersion": "6", "architecture": "amd64"});
    check(&[
        ("/api/v1/namespaces", json!({"status": {"phase": "Active"}}), json!(["x", "Active", "5d"])),
        (
            "/api/v1/nodes",
            json!({"metadata": {"labels": labels}, "spec": {"unschedulable": true}, "status": {"nodeInfo": info,
                "conditions": [{"type": "Ready", "status": "True"}], "addresses": [{"type": "InternalIP", "address": "1.1.1.1"}]}}),
            json!([
                "x",
                "Ready,SchedulingDisabled",
                "a,b,c",
                "5d",
                "v1",
                "1.1.1.1",
                "<none>",
                "<unknown>",
                "6 (amd64)",
                "<unknown>"
            ]),
        ),
        ("/api/v1/configmaps", json!({"data": {"a": ""}, "binaryData": {"b": ""}}), json!(["x", 2, "5d"])),
        ("/api/v1/secrets", json!({"type": "Opaque", "data": {"a": ""}}), json!(["x", "Opaque", 1, "5d"])),
        ("/api/v1/serviceaccounts", json!({}), json!(["x", "5d"])),
        ("/api/v1/limitranges", json!({}), json!(["x", "2026-01-05T00:00:00Z"])),
        (
            "/api/v1/resourcequotas",
            json!({"status": {"hard": {"limits.cpu": "1000m", "pods": "10", "memory": "1Gi"}, "used": {"pods": "3"}}}),
            json!(["x", "memory: 0/1Gi, pods: 3/10", "limits.cpu: 0/1", "5d"]),
        ),
        (
            "/api/v1/componentstatuses",
            json!({"conditions": [{"type": "Healthy", "status": "False", "message": "m", "error": "e"}]}),
            json!(["x", "Unhealthy", "m", "e"]),
        ),
        ("/apis/apiregistration.k8s.io/v1/apiservices", json!({}), json!(["x", "Local", "Unknown", "5d"])),
        (
            "/apis/apiregistration.k8s.io/v1/apiservices",
            json!({"spec": {"service": {"namespace": "n", "name": "s"}},
                   "status": {"conditions": [{"type": "Available", "status": "False", "reason": "R"}]}}),
            json!(["x", "n/s", "False (R)", "5d"]),
        ),
        ("/apis/coordination.k8s.io/v1/leases", json!({"spec": {"holderIdentity": "me"}}), json!(["x", "me", "5d"])),
        ("/apis/scheduling.k8s.io/v1/priorityclasses", json!({"value": 7}), json!(["x", 7, false, "5d", ""])),
        ("/apis/node.k8s.io/v1/runtimeclasses", json!({"handler": "h"}), json!(["x", "h", "5d"])),
    ]);
}

#[test]
fn access_and_policies() {
    let admission = |name: &str| format!("/apis/admissionregistration.k8s.io/v1/{name}");
    let binding = |parameter: Value| json!({"spec": {"policyName": "p", "paramRef": parameter}});
    let selector = json!({"matchLabels": {"b": "1", "a": "2"}, "matchExpressions": [{"key": "k", "operator": "In", "values": ["v", "w"]}]});
    let printed = "&LabelSelector{MatchLabels:map[string]string{a: 2,b: 1,},MatchExpressions:[]LabelSelectorRequirement{\
                   LabelSelectorRequirement{Key:k,Operator:In,Values:[v w],},},}";
    let subjects = json!([{"kind": "User", "name": "u"}, {"kind": "User", "name": "v"}, {"kind": "Group", "name": "g"},
        {"kind": "ServiceAccount", "namespace": "n", "name": "s"}]);
    check(&[
        (
            "/apis/rbac.authorization.k8s.io/v1/rolebindings",
            json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": subjects}),
            json!(["x", "Role/r", "5d", "u, v", "g", "n/s"]),
        ),
        ("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", json!({}), json!(["x", "/", "5d", "", "", ""])),
        ("/apis/rbac.authorization.k8s.io/v1/roles", json!({}), json!(["x", "2026-01-05T00:00:00Z"])),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles", json!({}), json!(["x", "2026-01-05T00:00:00Z"])),
        (&admission("mutatingwebhookconfigurations"), json!({"webhooks": [{}]}), json!(["x", 1, "5d"])),
        (&admission("validatingwebhookconfigurations"), json!({}), json!(["x", 0, "5d"])),
        (
            &admission("validatingadmissionpolicies"),
            json!({"spec": {"validations": [{}], "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}}),
            json!(["x", 1, "v1/ConfigMap", "5d"]),
        ),
        (
            &admission("mutatingadmissionpolicies"),
            json!({"spec": {"mutations": [{}]}}),
            json!(["x", 1, "<unset>", "5d"]),
        ),
        (&admission("validatingadmissionpolicybindings"), binding(Value::Null), json!(["x", "p", "<unset>", "5d"])),
        (
            &admission("validatingadmissionpolicybindings"),
            binding(json!({"name": "c"})),
            json!(["x", "p", "*/c", "5d"]),
        ),
        (
            &admission("mutatingadmissionpolicybindings"),
            binding(json!({"name": "c", "namespace": "n"})),
            json!(["x", "p", "n/c", "5d"]),
        ),
        (
            &admission("mutatingadmissionpolicybindings"),
            binding(json!({"selector": selector})),
            json!(["x", "p", printed, "5d"]),
        ),
        (
            "/apis/certificates.k8s.io/v1/certificatesigningrequests",
            json!({"spec": {"signerName": "s", "username": "u", "expirationSeconds": 3600},
                   "status": {"certificate": "YQ==", "conditions": [{"type": "Approved"}]}}),
            json!(["x", "5d", "s", "u", "60m", "Approved,Issued"]),
        ),
        (
            "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
            json!({"spec": {"priorityLevelConfiguration": {"name": "p"}, "matchingPrecedence": 9, "distinguisherMethod": {"type": "ByUser"}},
                   "status": {"conditions": [{"type": "Dangling", "status": "False"}]}}),
            json!(["x", "p", 9, "ByUser", "5d", "False"]),
        ),
        (
            "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
            json!({"spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 5, "limitResponse": {"queuing": {"queues": 1, "handSize": 2, "queueLengthLimit": 3}}}}}),
            json!(["x", "Limited", 5, 1, 2, 3, "5d"]),
        ),
        (
            "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
            json!({"spec": {"type": "Exempt"}}),
            json!(["x", "Exempt", "<none>", "<none>", "<none>", "<none>", "5d"]),
        ),
    ]);
}

#[test]
fn devices() {
    let claims = "/apis/resource.k8s.io/v1/resourceclaims";
    check(&[
        ("/apis/resource.k8s.io/v1/deviceclasses", json!({}), json!(["x", "5d"])),
        ("/apis/resource.k8s.io/v1/resourceclaimtemplates", json!({}), json!(["x", "5d"])),
        (claims, json!({}), json!(["x", "pending", "5d"])),
        (claims, json!({"metadata": {"deletionTimestamp": NOW}}), json!(["x", "deleted", "5d"])),
        (claims, json!({"status": {"allocation": {}, "reservedFor": [{}]}}), json!(["x", "allocated,reserved", "5d"])),
        (
            "/apis/resource.k8s.io/v1/resourceslices",
            json!({"spec": {"nodeName": "n", "driver": "d", "pool": {"name": "p"}}}),
            json!(["x", "n", "d", "p", "5d"]),
        ),
    ]);
}

#[test]
fn events_of_both_groups() {
    let time = "2026-01-09T23:00:00Z";
    let object = json!({"kind": "Pod", "name": "p", "fieldPath": "f"});
    check(&[
        (
            "/api/v1/events",
            json!({"involvedObject": object, "reason": "R", "message": " m\n", "type": "Normal", "count": 4,
                   "firstTimestamp": "2026-01-09T00:00:00Z", "lastTimestamp": time, "source": {"component": "c", "host": "h"}}),
            json!(["60m", "Normal", "R", "pod/p", "f", "c, h", "m", "24h", 4, "x"]),
        ),
        (
            "/api/v1/events",
            json!({"involvedObject": {"kind": "Node"}, "reportingComponent": "c"}),
            json!(["<unknown>", "", "", "node", "", "c", "", "<unknown>", 1, "x"]),
        ),
        (
            "/apis/events.k8s.io/v1/events",
            json!({"regarding": object, "reason": "R", "note": "m", "type": "Warning", "eventTime": "2026-01-09T00:00:00.000000Z",
                   "series": {"count": 9, "lastObservedTime": time}, "reportingController": "c", "reportingInstance": "i"}),
            json!(["60m", "Warning", "R", "pod/p", "f", "c, i", "m", "24h", 9, "x"]),
        ),
    ]);
}

#[test]
fn flow_schemas_come_in_the_order_in_which_they_are_tried() {
    let schema =
        |name: &str, precedence: u32| json!({"metadata": {"name": name}, "spec": {"matchingPrecedence": precedence}});
    let schemas = [schema("a", 9), schema("c", 1), schema("b", 1)];
    let resource = at("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas");
    let made = table(resource, &schemas, None, IncludeObject::None, NOW.parse().unwrap());
    let names: Vec<&Value> = made["rows"].as_array().unwrap().iter().map(|row| &row["cells"][0]).collect();
    assert_eq!(names, ["b", "c", "a"]);
}
