//! Warnings of valid objects, of refused updates and of deprecated kinds.

use super::{Place, Servers, with_embedded};
use crate::harness::{Request, delete, get, patch, post, put};
use serde_json::{Value, json};

/// Specs of pods, each with something to warn of, and metadata.
fn pods() -> Vec<(Value, Value)> {
    let container = |more: Value| {
        let mut container = json!({"name": "c", "image": "e2e.test/a"});
        container.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "containers": [container] })
    };
    let spec = |more: Value| {
        let mut spec = container(json!({}));
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    let mut pods = Vec::new();
    for label in [
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "beta.kubernetes.io/instance-type",
        "app.kubernetes.io/created-by",
        "scheduler.alpha.kubernetes.io/preferAvoidPods",
        "node-role.kubernetes.io/master",
        "kubernetes.io/os",
    ] {
        let expression = json!({"key": label, "operator": "In", "values": ["v", "not valid"]});
        let required = json!({"key": label, "operator": "Exists"});
        pods.push(spec(json!({"nodeSelector": {label: "x"}})));
        pods.push(spec(json!({"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [required]}]},
            "preferredDuringSchedulingIgnoredDuringExecution":
                [{"weight": 1, "preference": {"matchExpressions": [expression]}}]}}})));
        pods.push(spec(json!({"topologySpreadConstraints":
            [{"maxSkew": 1, "topologyKey": label, "whenUnsatisfiable": "ScheduleAnyway"}]})));
    }
    for affinity in ["podAffinity", "podAntiAffinity"] {
        let term = json!({"topologyKey": "t"});
        pods.push(spec(json!({"affinity": {affinity: {
            "requiredDuringSchedulingIgnoredDuringExecution": [term],
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}}})));
    }
    for source in [
        json!({"photonPersistentDisk": {"pdID": "x"}}),
        json!({"gitRepo": {"repository": "x"}}),
        json!({"scaleIO": {"gateway": "g", "system": "s", "volumeName": "v", "secretRef": {"name": "s"}}}),
        json!({"flocker": {"datasetName": "x"}}),
        json!({"storageos": {"volumeName": "v"}}),
        json!({"quobyte": {"registry": "r:1", "volume": "v"}}),
        json!({"glusterfs": {"endpoints": "e", "path": "p"}}),
        json!({"cephfs": {"monitors": ["m"]}}),
        json!({"rbd": {"monitors": ["m"], "image": "i"}}),
        json!({"ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1500m"}}}}}}),
        json!({"configMap": {"name": "m", "items": [{"key": "a", "path": "p"}, {"key": "b", "path": "p/q"}, {"key": "c", "path": "p"}]}}),
        json!({"secret": {"secretName": "m", "items": [{"key": "a", "path": "p/q/r"}, {"key": "b", "path": "p/"}]}}),
        json!({"downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}},
            {"path": "p", "fieldRef": {"fieldPath": "metadata.namespace"}}]}}),
        json!({"projected": {"sources": [{}, {"configMap": {"name": "m", "items": [{"key": "a", "path": "p"}]}},
            {"secret": {"name": "s", "items": [{"key": "a", "path": "p/q"}]}},
            {"serviceAccountToken": {"path": "p"}}, {"downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}]}}]}}),
    ] {
        let mut volume = source;
        volume["name"] = json!("v");
        pods.push(spec(json!({ "volumes": [volume] })));
    }
    pods.push(spec(
        json!({"hostAliases": [{"ip": "1.2.3.4", "hostnames": ["a"]}, {"ip": "1.2.3.4", "hostnames": ["b"]}]}),
    ));
    pods.push(spec(json!({"hostAliases": [{"ip": "2001:DB8::1", "hostnames": ["a"]}, {"ip": "::ffff:1.2.3.4", "hostnames": ["b"]}]})));
    pods.push(spec(json!({"imagePullSecrets": [{"name": "a"}, {"name": "a"}, {"name": ""}, {}]})));
    pods.push(spec(json!({"terminationGracePeriodSeconds": -1})));
    pods.push(spec(json!({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["2001:db8:0:0:0:0:0:1"]}})));
    for amount in ["1500m", "100m", "1", "1.5", "1n", "1Gi", "1E"] {
        for resource in ["memory", "ephemeral-storage"] {
            let amounts = json!({resource: amount});
            pods.push(container(json!({"resources": {"limits": amounts, "requests": amounts}})));
        }
    }
    for env in [
        json!([{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]),
        json!([{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}]),
        json!([{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)"}]),
        json!([{"name": "A", "value": "1"}, {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
    ] {
        pods.push(container(json!({ "env": env })));
    }
    for ports in [
        json!([{"containerPort": 80}, {"containerPort": 80}]),
        json!([{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]),
        json!([{"containerPort": 80, "hostPort": 1}, {"containerPort": 80}]),
        json!([{"containerPort": 80, "hostPort": 1}, {"containerPort": 80, "hostPort": 1, "hostIP": "1.2.3.4"}]),
        json!([{"containerPort": 80, "hostPort": 1}, {"containerPort": 80, "hostPort": 2}]),
        json!([{"containerPort": 80, "hostIP": "1.2.3.4", "name": "a"}]),
    ] {
        pods.push(container(json!({ "ports": ports })));
    }
    pods.push(json!({"containers": [
        {"name": "c", "image": "e2e.test/a", "ports": [{"name": "p", "containerPort": 80}]},
        {"name": "d", "image": "e2e.test/a", "ports": [{"name": "p", "containerPort": 81}]}]}));
    let mut pods: Vec<(Value, Value)> = pods.into_iter().map(|spec| (spec, json!({}))).collect();
    let profile = json!({"securityContext": {"appArmorProfile": {"type": "Unconfined"}}});
    for (key, value) in [
        ("scheduler.alpha.kubernetes.io/critical-pod", ""),
        ("security.alpha.kubernetes.io/sysctls", "a=b"),
        ("security.alpha.kubernetes.io/unsafe-sysctls", "a=b"),
        ("seccomp.security.alpha.kubernetes.io/pod", "runtime/default"),
        ("container.seccomp.security.alpha.kubernetes.io/c", "runtime/default"),
        ("container.apparmor.security.beta.kubernetes.io/c", "runtime/default"),
        ("container.apparmor.security.beta.kubernetes.io/c", "unconfined"),
    ] {
        for more in [json!({}), profile.clone()] {
            pods.push((spec(more), json!({"annotations": {key: value}})));
        }
    }
    pods
}

/// Creates a kind with this template of pods.
fn with_template(kind: &str, spec: &Value, metadata: &Value) -> (&'static str, Value) {
    let labels = json!({"a": "b"});
    let mut template = json!({"metadata": metadata, "spec": spec});
    template["metadata"]["labels"] = labels.clone();
    let selector = json!({ "matchLabels": labels });
    let restarts = |mut template: Value| {
        template["spec"]["restartPolicy"] = json!("Never");
        template
    };
    match kind {
        "PodTemplate" => ("/api/v1/podtemplates", json!({"apiVersion": "v1", "template": template})),
        "ReplicationController" => (
            "/api/v1/replicationcontrollers",
            json!({"apiVersion": "v1", "spec": {"selector": labels, "template": template}}),
        ),
        "Deployment" => (
            "/apis/apps/v1/deployments",
            json!({"apiVersion": "apps/v1", "spec": {"selector": selector, "template": template}}),
        ),
        "ReplicaSet" => (
            "/apis/apps/v1/replicasets",
            json!({"apiVersion": "apps/v1", "spec": {"selector": selector, "template": template}}),
        ),
        "DaemonSet" => (
            "/apis/apps/v1/daemonsets",
            json!({"apiVersion": "apps/v1", "spec": {"selector": selector, "template": template}}),
        ),
        "StatefulSet" => (
            "/apis/apps/v1/statefulsets",
            json!({"apiVersion": "apps/v1", "spec": {"selector": selector, "serviceName": "s", "template": template}}),
        ),
        "Job" => ("/apis/batch/v1/jobs", json!({"apiVersion": "batch/v1", "spec": {"template": restarts(template)}})),
        _ => (
            "/apis/batch/v1/cronjobs",
            json!({"apiVersion": "batch/v1", "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": restarts(template)}}}}),
        ),
    }
}

const WITH_TEMPLATES: [&str; 8] =
    ["PodTemplate", "ReplicationController", "Deployment", "ReplicaSet", "DaemonSet", "StatefulSet", "Job", "CronJob"];

#[test]
fn pods_and_templates_are_warned_of_as_by_kube_apiserver() {
    with_embedded("warned-pods", |servers, place| {
        for (spec, metadata) in pods() {
            let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
            pod["metadata"]["name"] = json!("p");
            servers.compare(post(&place.path("/api/v1/pods?dryRun=All"), &pod));
        }
        for kind in WITH_TEMPLATES {
            for (at, (spec, metadata)) in pods().into_iter().enumerate() {
                // Most rules are the same for each kind.
                if at % 4 == kind.len() % 4 {
                    let (path, mut object) = with_template(kind, &spec, &metadata);
                    object["kind"] = json!(kind);
                    object["metadata"] = json!({"name": "not.a.label"});
                    servers.compare(post(&format!("{}?dryRun=All", place.path(path)), &object));
                }
            }
            updates(servers, place, kind);
        }
    });
}

/// Updates of the template and of other fields.
fn updates(servers: &mut Servers, place: &Place, kind: &str) {
    let spec = json!({"containers": [{"name": "c", "image": "e2e.test/a"}], "nodeSelector": {"beta.kubernetes.io/os": "linux"}});
    let (path, mut object) = with_template(kind, &spec, &json!({}));
    object["kind"] = json!(kind);
    object["metadata"] = json!({"name": "u"});
    let path = place.path(path);
    servers.compare(post(&path, &object));
    for change in [
        json!({"metadata": {"annotations": {"x": "y"}}}),
        json!({"metadata": {"labels": {"x": "y"}}}),
        json!({"spec": {"minReadySeconds": 3}}),
        json!({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": -1}}}}),
        json!({"spec": {"template": {"metadata": {"annotations": {"x": "y"}}}}}),
        json!({"template": {"metadata": {"annotations": {"x": "y"}}}}),
        json!({"spec": {"jobTemplate": {"metadata": {"labels": {"x": "y"}}}}}),
        json!({"spec": {"schedule": "TZ=UTC * * * * *"}}),
        json!({"spec": {"revisionHistoryLimit": 3}}),
    ] {
        // The refusal of another template shows it as Go's structs.
        if kind != "Job" || change.pointer("/spec/template").is_none() {
            servers.compare(patch(&format!("{path}/u?fieldValidation=Ignore"), "merge", &change));
        }
    }
    servers.compare(patch(&format!("{path}/u/status"), "merge", &json!({"status": {"observedGeneration": 1}})));
    servers.compare(patch(&format!("{path}/u/scale"), "merge", &json!({"spec": {"replicas": 4}})));
    servers.compare(delete(&format!("{path}/u?dryRun=All")));
    servers.compare(delete(&format!("{path}/u?dryRun=All&propagationPolicy=Background")));
    servers.compare(delete(&format!("{path}?dryRun=All")));
}

/// Objects of other kinds: path, kind, and the fields beside the metadata.
fn others() -> Vec<(&'static str, &'static str, Value)> {
    let mut all = Vec::new();
    let networks = [
        "10.0.0.0/8",
        "10.1.2.3/8",
        "2001:db8::/32",
        "2001:DB8::/32",
        "2001:db8:0:0::/32",
        "2001:db8::1/64",
        "1.2.3.4/32",
        "::/0",
    ];
    for network in networks {
        let (services, policies) = ("/api/v1/services", "/apis/networking.k8s.io/v1/networkpolicies");
        all.push((
            services,
            "v1 Service",
            json!({"spec": {"ports": [{"port": 80}], "type": "LoadBalancer", "loadBalancerSourceRanges": [network]}}),
        ));
        let block = json!({"ipBlock": {"cidr": network}});
        let spec = json!({"podSelector": {}, "ingress": [{"from": [block]}], "egress": [{"to": [block]}]});
        all.push((policies, "networking.k8s.io/v1 NetworkPolicy", json!({ "spec": spec })));
        all.push(("/api/v1/nodes", "v1 Node", json!({"spec": {"podCIDRs": [network], "podCIDR": network}})));
    }
    for address in ["10.0.0.1", "2001:db8::1", "2001:DB8::1", "2001:db8:0:0::1"] {
        let ports = json!([{"port": 80}]);
        all.push(("/api/v1/services", "v1 Service", json!({"spec": {"ports": ports, "externalIPs": [address]}})));
        all.push((
            "/api/v1/services",
            "v1 Service",
            json!({"spec": {"ports": ports, "type": "LoadBalancer", "loadBalancerIP": address}}),
        ));
        all.push((
            "/api/v1/endpoints",
            "v1 Endpoints",
            json!({"subsets": [{"addresses": [{"ip": address}], "ports": [{"port": 80}]},
            {"notReadyAddresses": [{"ip": address}], "ports": [{"port": 80}]}]}),
        ));
        let family = if address.contains(':') { "IPv6" } else { "IPv4" };
        all.push((
            "/apis/discovery.k8s.io/v1/endpointslices",
            "discovery.k8s.io/v1 EndpointSlice",
            json!({"addressType": family, "endpoints": [{"addresses": [address]}], "ports": []}),
        ));
    }
    all.push((
        "/apis/discovery.k8s.io/v1/endpointslices",
        "discovery.k8s.io/v1 EndpointSlice",
        json!({"addressType": "FQDN", "endpoints": [{"addresses": ["a.example"]}], "ports": []}),
    ));
    for spec in [
        json!({"clusterIP": "None", "ports": [{"port": 80}], "externalIPs": ["1.2.3.4"], "sessionAffinity": "ClientIP"}),
        json!({"type": "ExternalName", "externalName": "a.example", "externalIPs": ["1.2.3.4"]}),
        json!({"externalName": "a.example", "ports": [{"port": 80}]}),
        json!({"trafficDistribution": "PreferClose", "ports": [{"port": 80}]}),
        json!({"trafficDistribution": "PreferSameZone", "ports": [{"port": 80}]}),
    ] {
        all.push(("/api/v1/services", "v1 Service", json!({ "spec": spec })));
    }
    for (path, kind, annotation) in [
        ("/api/v1/services", "v1 Service", "service.kubernetes.io/topology-aware-hints"),
        ("/api/v1/serviceaccounts", "v1 ServiceAccount", "kubernetes.io/enforce-mountable-secrets"),
        ("/api/v1/persistentvolumeclaims", "v1 PersistentVolumeClaim", "volume.beta.kubernetes.io/storage-class"),
        ("/api/v1/persistentvolumes", "v1 PersistentVolume", "volume.beta.kubernetes.io/storage-class"),
        ("/api/v1/persistentvolumes", "v1 PersistentVolume", "volume.beta.kubernetes.io/mount-options"),
        ("/apis/networking.k8s.io/v1/ingresses", "networking.k8s.io/v1 Ingress", "kubernetes.io/ingress.class"),
    ] {
        let spec = match path.rsplit('/').next().unwrap() {
            "services" => json!({"ports": [{"port": 80}]}),
            "persistentvolumeclaims" => {
                json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1500m"}}})
            }
            "persistentvolumes" => {
                json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "nfs": {"server": "s", "path": "/tmp"},
                "persistentVolumeReclaimPolicy": "Recycle"})
            }
            "ingresses" => json!({"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}),
            _ => Value::Null,
        };
        let mut object = json!({"metadata": {"annotations": {annotation: "x"}}});
        if !spec.is_null() {
            object["spec"] = spec;
        }
        all.push((path, kind, object));
    }
    for label in ["beta.kubernetes.io/os", "failure-domain.beta.kubernetes.io/zone", "kubernetes.io/os"] {
        let expression = json!({"key": label, "operator": "Exists"});
        let terms = json!([{"matchExpressions": [expression]}]);
        all.push(("/api/v1/persistentvolumes", "v1 PersistentVolume", json!({"spec": {"capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"], "local": {"path": "/tmp"}, "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}})));
        all.push((
            "/apis/node.k8s.io/v1/runtimeclasses",
            "node.k8s.io/v1 RuntimeClass",
            json!({"handler": "h", "scheduling": {"nodeSelector": {label: "x"}}}),
        ));
        all.push((
            "/apis/storage.k8s.io/v1/storageclasses",
            "storage.k8s.io/v1 StorageClass",
            json!({"provisioner": "p", "allowedTopologies": [{"matchLabelExpressions": [{"key": label, "values": ["x"]}]}]}),
        ));
        all.push((
            "/apis/storage.k8s.io/v1/csistoragecapacities",
            "storage.k8s.io/v1 CSIStorageCapacity",
            json!({"storageClassName": "s", "nodeTopology": {"matchLabels": {label: "x"}, "matchExpressions": [expression]}}),
        ));
    }
    for source in [
        json!({"cephfs": {"monitors": ["m"]}}),
        json!({"photonPersistentDisk": {"pdID": "x"}}),
        json!({"scaleIO": {"gateway": "g", "system": "s", "volumeName": "v", "secretRef": {"name": "s"}}}),
        json!({"storageos": {"volumeName": "v"}}),
        json!({"glusterfs": {"endpoints": "e", "path": "p"}}),
        json!({"rbd": {"monitors": ["m"], "image": "i"}}),
    ] {
        let mut spec = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]});
        spec.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
        all.push(("/api/v1/persistentvolumes", "v1 PersistentVolume", json!({ "spec": spec })));
    }
    for hard in [
        json!({"requests.cpu": "2", "limits.cpu": "1"}),
        json!({"cpu": "2", "limits.cpu": "1500m"}),
        json!({"memory": "2Gi", "limits.memory": "1Gi", "requests.memory": "1Ki"}),
        json!({"requests.ephemeral-storage": "2Gi", "limits.ephemeral-storage": "1Gi"}),
        json!({"requests.cpu": "1", "limits.cpu": "1"}),
    ] {
        all.push(("/api/v1/resourcequotas", "v1 ResourceQuota", json!({"spec": {"hard": hard}})));
    }
    for data in [json!({"tls.crt": "", "tls.key": ""}), json!({"tls.crt": "eA==", "tls.key": "eA=="})] {
        all.push(("/api/v1/secrets", "v1 Secret", json!({"type": "kubernetes.io/tls", "data": data})));
    }
    let driver = "/apis/storage.k8s.io/v1/csidrivers";
    all.push((driver, "storage.k8s.io/v1 CSIDriver", json!({"spec": {"tokenRequests": [{"audience": "a"}]}})));
    all.push((
        driver,
        "storage.k8s.io/v1 CSIDriver",
        json!({"spec": {"tokenRequests": [{"audience": "a"}], "serviceAccountTokenInSecrets": true}}),
    ));
    all.push((
        "/apis/resource.k8s.io/v1/resourceslices",
        "resource.k8s.io/v1 ResourceSlice",
        json!({"spec": {"driver": "A.example", "nodeName": "n", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}}}),
    ));
    all.push(("/api/v1/nodes", "v1 Node", json!({"spec": {"externalID": "x"}})));
    all
}

/// Whether a path is one of objects without a namespace.
fn is_of_cluster(path: &str) -> bool {
    ["nodes", "persistentvolumes", "runtimeclasses", "storageclasses", "csidrivers", "resourceslices"]
        .iter()
        .any(|plural| path.ends_with(plural))
}

#[test]
fn other_kinds_are_warned_of_as_by_kube_apiserver() {
    with_embedded("warned-objects", |servers, place| {
        for (at, (path, kind, fields)) in others().into_iter().enumerate() {
            let (version, kind) = kind.split_once(' ').unwrap();
            let path = if is_of_cluster(path) { path.to_owned() } else { place.path(path) };
            let mut object = fields;
            object["apiVersion"] = json!(version);
            object["kind"] = json!(kind);
            // Objects of the cluster are those of other tests, too.
            let name =
                format!("warned.n{at}").replace(if ["Service", "Endpoints"].contains(&kind) { "." } else { "_" }, "-");
            object["metadata"]["name"] = json!(name);
            servers.compare(post(&format!("{path}?dryRun=All"), &object));
            servers.set_up(&post(&path, &object));
            let change = json!({"metadata": {"labels": {"x": "y"}}});
            servers.compare(patch(&format!("{path}/{name}?dryRun=All"), "merge", &change));
            servers.compare(patch(&format!("{path}/{name}/status?dryRun=All"), "merge", &change));
            servers.set_up(&delete(&format!("{path}/{name}")));
        }
        for (path, status) in [
            ("/api/v1/services", json!({"loadBalancer": {"ingress": [{"ip": "2001:DB8::1"}]}})),
            ("/apis/networking.k8s.io/v1/ingresses", json!({"loadBalancer": {"ingress": [{"ip": "2001:DB8::1"}]}})),
        ] {
            let (version, kind, spec) = match path.ends_with("services") {
                true => ("v1", "Service", json!({"type": "LoadBalancer", "ports": [{"port": 80}]})),
                false => (
                    "networking.k8s.io/v1",
                    "Ingress",
                    json!({"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}),
                ),
            };
            let object =
                json!({"apiVersion": version, "kind": kind, "metadata": {"name": "with-status"}, "spec": spec});
            let path = place.path(path);
            servers.set_up(&post(&path, &object));
            servers.compare(patch(
                &format!("{path}/with-status/status?dryRun=All"),
                "merge",
                &json!({ "status": status }),
            ));
        }
    });
}

#[test]
fn requests_for_deprecated_kinds_are_warned_of_as_by_kube_apiserver() {
    with_embedded("deprecated-kinds", |servers, place| {
        let endpoints = place.path("/api/v1/endpoints");
        let object = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "old"}});
        servers.compare(post(&endpoints, &object));
        servers.compare(put(&format!("{endpoints}/old?dryRun=All"), &object));
        servers.compare(patch(&format!("{endpoints}/old?dryRun=All"), "merge", &json!({})));
        servers.compare(patch(&format!("{endpoints}/old?dryRun=All&fieldManager=m"), "apply", &object));
        servers.compare(delete(&format!("{endpoints}/old?dryRun=All")));
        servers.compare(delete(&format!("{endpoints}?dryRun=All")));
        let watch = format!("/api/v1/watch/namespaces/{}/endpoints?timeoutSeconds=1", place.0);
        for path in [
            endpoints.clone(),
            format!("{endpoints}/old"),
            format!("{endpoints}/none"),
            format!("{endpoints}/old/none"),
            format!("{endpoints}?limit=x"),
            format!("{endpoints}?watch=1&timeoutSeconds=1"),
            watch,
        ] {
            for method in ["GET", "HEAD", "OPTIONS"] {
                servers.compare(Request::new(method, &path));
            }
        }
        servers.compare(Request::new("TRACE", &endpoints));
        servers.compare(get("/api/v1/componentstatuses/none"));
    });
}

#[test]
fn a_refused_update_warns_of_values_that_it_does_not_change() {
    with_embedded("refused-updates", |servers, place| {
        let group = "refused.e2e.test";
        let fields = |rule: bool| {
            let mut old = json!({"type": "string"});
            if rule {
                old["x-kubernetes-validations"] = json!([{"rule": "self.size() > 2"}]);
            }
            let spec = json!({"type": "object", "properties": {"old": old, "other": {"type": "string"}, "n": {"type": "integer", "maximum": 5}}});
            json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}})
        };
        let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("looses.{group}")},
            "spec": {"group": group, "scope": "Namespaced", "names": {"plural": "looses", "kind": "Loose"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": fields(false)}]}});
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        servers.set_up(&post(definitions, &definition));
        servers.wait_for(&format!("/apis/{group}/v1/looses"));
        let path = place.path(&format!("/apis/{group}/v1/looses"));
        let object = json!({"apiVersion": format!("{group}/v1"), "kind": "Loose", "metadata": {"name": "x"},
            "spec": {"old": "a", "other": "b", "n": 1}});
        servers.compare(post(&path, &object));
        let change = json!([{"op": "replace", "path": "/spec/versions/0/schema", "value": fields(true)}]);
        servers.set_up(&patch(&format!("{definitions}/looses.{group}"), "json", &change));
        // The rule is served a moment later.
        let invalid = json!({"apiVersion": format!("{group}/v1"), "kind": "Loose", "metadata": {"name": "y"}, "spec": {"old": "a"}});
        servers.wait_until_refused(&post(&format!("{path}?dryRun=All"), &invalid));
        for spec in [
            json!({"n": 9}),
            json!({"n": 2}),
            json!({"old": "b"}),
            json!({"old": "b", "n": 9}),
            json!({"other": "longer", "n": 9}),
            json!({"other": "x", "n": 9}),
            json!({"n": "x"}),
            json!({"n": null}),
            json!({"old": null, "n": 9}),
            json!({"unknown": 1, "n": 9}),
        ] {
            servers.compare(patch(&format!("{path}/x?dryRun=All"), "merge", &json!({ "spec": spec })));
            let mut whole = object.clone();
            for (field, value) in spec.as_object().unwrap() {
                whole["spec"][field] = value.clone();
            }
            servers.compare(put(&format!("{path}/x?dryRun=All"), &whole));
        }
    });
}
