//! Pods: new ones, their status, binding, eviction and the subresources that change containers.

use super::{compare, with};
use crate::harness::{delete, get, patch, post};
use serde_json::{Value, json};

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "a"}},
           "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

fn on_a_node(name: &str) -> Value {
    with(pod(name), "/spec/nodeName", json!("n"))
}

fn binding(name: &str, metadata: Value) -> Value {
    let mut binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": metadata,
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n"}});
    binding["metadata"]["name"] = json!(name);
    binding
}

#[test]
fn bindings_have_the_preconditions_and_texts_of_kube_apiserver() {
    compare("strategies-binding", |namespace| {
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        let at = |name: &str| format!("{pods}/{name}");
        let bind = |name: &str, metadata: Value| post(&format!("{pods}/{name}/binding"), &binding(name, metadata));
        let (uid, version) = (format!("{{uid of {}}}", at("a")), format!("{{resourceVersion of {}}}", at("a")));
        let target =
            |target: Value| post(&format!("{pods}/a/binding"), &with(binding("a", json!({})), "/target", target));
        let gated = with(pod("gated"), "/spec/schedulingGates", json!([{"name": "e.test/gate"}]));
        let condition = json!([{"type": "Other", "status": "True"}, {"type": "PodScheduled", "status": "False", "reason": "R", "message": "m"},
            {"type": "Ready", "status": "False"}]);
        let mut held = on_a_node("held");
        held["metadata"]["finalizers"] = json!(["e.test/f"]);
        let mut held_free = pod("held-free");
        held_free["metadata"]["finalizers"] = json!(["e.test/f"]);
        vec![
            post(&pods, &pod("a")),
            target(json!({"kind": "Pod", "name": "n"})),
            target(json!({"kind": "Pod"})),
            target(json!({})),
            target(json!({"name": ""})),
            bind("a", json!({"uid": "wrong"})),
            bind("a", json!({"uid": "wrong", "resourceVersion": "1"})),
            bind("a", json!({"uid": &uid, "resourceVersion": "1"})),
            bind("a", json!({"resourceVersion": "none"})),
            bind("a", json!({"namespace": "default"})),
            post(&format!("{pods}/a/binding"), &binding("b", json!({}))),
            post(&format!("{pods}/a/binding"), &binding("", json!({}))),
            post(&format!("{pods}/a/binding?dryRun=All"), &binding("a", json!({}))),
            get(&at("a")),
            bind(
                "a",
                json!({"uid": &uid, "resourceVersion": &version, "labels": {"l": "1", "app": "b"}, "annotations": {"n": "1"}}),
            ),
            get(&at("a")),
            bind("a", json!({})),
            bind("a", json!({"uid": "wrong"})),
            bind("missing", json!({})),
            bind("missing", json!({"uid": "x"})),
            post(&pods, &gated),
            bind("gated", json!({})),
            post(&pods, &pod("b")),
            patch(
                &format!("{}/status", at("b")),
                "merge",
                &json!({"status": {"conditions": condition, "nominatedNodeName": "m"}}),
            ),
            post(&format!("/api/v1/namespaces/{namespace}/bindings"), &binding("b", json!({"uid": "x"}))),
            post(&format!("/api/v1/namespaces/{namespace}/bindings"), &binding("b", json!({}))),
            get(&at("b")),
            post(&pods, &held),
            delete(&at("held")),
            bind("held", json!({})),
            post(&pods, &held_free),
            delete(&at("held-free")),
            bind("held-free", json!({})),
        ]
    });
}

#[test]
fn evictions_keep_to_budgets_and_preconditions_as_in_kube_apiserver() {
    compare("strategies-eviction", |namespace| {
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        let budgets = format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets");
        let at = |name: &str| format!("{pods}/{name}");
        let evict = |name: &str, query: &str, options: Value| {
            let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, "deleteOptions": options});
            post(&format!("{pods}/{name}/eviction{query}"), &eviction)
        };
        let budget = |name: &str, app: &str, more: Value| {
            let mut spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": app}}});
            spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec})
        };
        let of = |name: &str, app: &str| with(on_a_node(name), "/metadata/labels/app", json!(app));
        let status = |name: &str, phase: &str, ready: &str| {
            let status = json!({"status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}});
            patch(&format!("{}/status", at(name)), "merge", &status)
        };
        let counts = |name: &str, status: Value| {
            patch(&format!("{budgets}/{name}/status"), "merge", &json!({ "status": status }))
        };
        let none = || Value::Null;
        let uid = format!("{{uid of {}}}", at("a"));
        vec![
            post(&pods, &pod("free")),
            evict("free", "", none()),
            get(&at("free")),
            // A pod that is pending, and on a node.
            post(&pods, &on_a_node("a")),
            evict("a", "", json!({"preconditions": {"uid": "wrong"}})),
            evict("a", "", json!({"preconditions": {"uid": &uid, "resourceVersion": "1"}})),
            evict("a", "", json!({"ignoreStoreReadErrorWithClusterBreakingPotential": true})),
            evict("a", "?dryRun=All", json!({"dryRun": ["All"]})),
            evict("a", "?dryRun=All", none()),
            get(&at("a")),
            evict("a", "", json!({"gracePeriodSeconds": 7})),
            get(&at("a")),
            evict("a", "", none()),
            post(
                &format!("{pods}/a/eviction"),
                &json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {}}),
            ),
            evict("missing", "", none()),
            // A budget that no controller has counted.
            post(&budgets, &budget("one", "one", json!({}))),
            post(&pods, &of("one", "one")),
            status("one", "Running", "True"),
            evict("one", "", none()),
            counts(
                "one",
                json!({"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}),
            ),
            evict("one", "", none()),
            counts("one", json!({"currentHealthy": 2})),
            evict("one", "", none()),
            counts(
                "one",
                json!({"conditions": [{"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": "m",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]}),
            ),
            evict("one", "", none()),
            counts(
                "one",
                json!({"conditions": [{"type": "DisruptionAllowed", "status": "False", "reason": "Other", "message": "m",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]}),
            ),
            evict("one", "", none()),
            counts("one", json!({"disruptionsAllowed": 1})),
            evict("one", "?dryRun=All", none()),
            get(&format!("{budgets}/one")),
            evict("one", "", none()),
            get(&format!("{budgets}/one")),
            get(&at("one")),
            // Two budgets of one pod.
            post(&budgets, &budget("two", "two", json!({}))),
            post(&budgets, &budget("three", "two", json!({}))),
            post(&pods, &of("two", "two")),
            status("two", "Running", "True"),
            evict("two", "", none()),
            // Pods that are not ready.
            post(&budgets, &budget("any", "any", json!({"unhealthyPodEvictionPolicy": "AlwaysAllow"}))),
            post(&pods, &of("any", "any")),
            status("any", "Running", "False"),
            evict("any", "", none()),
            get(&at("any")),
            post(&budgets, &budget("healthy", "healthy", json!({"unhealthyPodEvictionPolicy": "IfHealthyBudget"}))),
            post(&pods, &of("healthy", "healthy")),
            status("healthy", "Running", "False"),
            evict("healthy", "", none()),
            counts(
                "healthy",
                json!({"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}),
            ),
            evict("healthy", "", none()),
            // Terminal pods.
            post(&pods, &of("done", "one")),
            status("done", "Succeeded", "False"),
            evict("done", "", none()),
            get(&at("done")),
        ]
    });
}

fn container(name: &str, requests: Value, limits: Value) -> Value {
    json!({"name": name, "image": "i", "resources": {"requests": requests, "limits": limits}})
}

#[test]
fn new_pods_get_the_values_of_kube_apiserver() {
    compare("strategies-pods", |namespace| {
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        let with_spec = |name: &str, spec: Value| {
            let mut pod = pod(name);
            pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
            post(&pods, &pod)
        };
        let containers = |name: &str, containers: Value| with_spec(name, json!({ "containers": containers }));
        let term = |more: Value| {
            let mut term = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"x": "y"}}});
            term.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            term
        };
        let keys = json!({"matchLabelKeys": ["app", "none"]});
        let not_keys = json!({"mismatchLabelKeys": ["app"]});
        let annotated = |name: &str, profile: &str, spec: Value| {
            let mut pod = pod(name);
            pod["metadata"]["annotations"] = json!({"container.apparmor.security.beta.kubernetes.io/c": profile});
            pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
            post(&pods, &pod)
        };
        let spread = |more: Value| {
            let mut constraint = term(more);
            constraint["maxSkew"] = json!(1);
            constraint["whenUnsatisfiable"] = json!("DoNotSchedule");
            constraint
        };
        vec![
            with_spec("gated", json!({"schedulingGates": [{"name": "e.test/a"}]})),
            // Classes of the quality of service.
            containers("zero", json!([container("c", json!({"cpu": "0"}), json!({"cpu": "0"}))])),
            containers(
                "equal",
                json!([container(
                    "c",
                    json!({"cpu": "1000m", "memory": "1Gi"}),
                    json!({"cpu": "1", "memory": "1024Mi"})
                )]),
            ),
            containers(
                "sums",
                json!([
                    container("c", json!({"cpu": "1", "memory": "1"}), json!({"cpu": "2", "memory": "1"})),
                    container("d", json!({"cpu": "1", "memory": "1"}), json!({"cpu": "1", "memory": "1"}))
                ]),
            ),
            containers(
                "other",
                json!([container("c", json!({"ephemeral-storage": "1Gi"}), json!({"ephemeral-storage": "1Gi"}))]),
            ),
            containers("half", json!([container("c", json!({"cpu": "1"}), json!({"cpu": "1"}))])),
            with_spec(
                "of-pod",
                json!({"resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}}),
            ),
            with_spec("of-pod-some", json!({"resources": {"limits": {"cpu": "1"}}})),
            // Keys of labels.
            with_spec(
                "affine",
                json!({"affinity": {
                "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term(keys.clone()), term(not_keys.clone())],
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term(keys.clone())}]},
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term(keys.clone())],
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term(not_keys)}]}}}),
            ),
            with_spec(
                "spread",
                json!({"topologySpreadConstraints": [spread(keys), spread(json!({"topologyKey": "host"}))]}),
            ),
            // The annotations of AppArmor.
            annotated("unconfined", "unconfined", json!({})),
            annotated("runtime", "runtime/default", json!({})),
            annotated("localhost", "localhost/p", json!({})),
            annotated("invalid", "localhost/", json!({})),
            annotated(
                "same",
                "runtime/default",
                json!({"securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}}),
            ),
            annotated("windows", "runtime/default", json!({"os": {"name": "windows"}})),
            // Fields of features that are off.
            with_spec("group", json!({"schedulingGroup": {"podGroupName": "g"}})),
            containers("signal", json!([{"name": "c", "image": "i", "lifecycle": {"stopSignal": "SIGUSR1"}}])),
            with_spec(
                "signal-os",
                json!({"os": {"name": "linux"}, "containers": [{"name": "c", "image": "i",
                "lifecycle": {"stopSignal": "SIGUSR1", "preStop": {"sleep": {"seconds": 1}}}}]}),
            ),
            with_spec(
                "bundle",
                json!({"volumes": [{"name": "v", "projected": {"sources": [
                {"clusterTrustBundle": {"name": "b", "path": "p"}}, {"configMap": {"name": "m"}}]}}]}),
            ),
            with_spec(
                "certificate",
                json!({"volumes": [{"name": "v", "projected": {"sources": [
                {"podCertificate": {"signerName": "e.test/s", "keyType": "ED25519", "credentialBundlePath": "p"}}, {"configMap": {"name": "m"}}]}}]}),
            ),
            // A status of the client.
            post(&pods, &with(pod("status"), "/status", json!({"phase": "Running", "message": "m"}))),
            post(
                &format!("/api/v1/namespaces/{namespace}/podtemplates"),
                &json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "t"},
                "template": {"metadata": {}, "spec": {"schedulingGroup": {"podGroupName": "g"}, "containers": [
                    {"name": "c", "image": "i", "lifecycle": {"stopSignal": "SIGUSR1"}}]}}}),
            ),
        ]
    });
}

#[test]
fn subresources_of_pods_change_and_own_what_they_do_in_kube_apiserver() {
    compare("strategies-containers", |namespace| {
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        let at = |subresource: &str| format!("{pods}/a{subresource}");
        let by = |subresource: &str, manager: &str| format!("{pods}/a{subresource}?fieldManager={manager}");
        let mut created = pod("a");
        created["spec"]["containers"] = json!([
            {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}, {"name": "d", "image": "i"}]);
        let more = json!({"labels": {"l": "1"}, "annotations": {"n": "1"}});
        let debugger = |name: &str| json!([{"name": name, "image": "i", "targetContainerName": "c"}]);
        let resized = |cpu: &str| {
            json!([{"name": "c", "image": "j", "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": "2"}},
            "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]}, {"name": "d", "image": "i"}])
        };
        let conditions = |conditions: Value| json!({"status": {"observedGeneration": 3, "conditions": conditions}});
        vec![
            post(&pods, &created),
            patch(
                &by("/ephemeralcontainers", "one"),
                "strategic",
                &json!({"metadata": more, "spec": {"priority": 3, "ephemeralContainers": debugger("e")}}),
            ),
            patch(
                &by("/ephemeralcontainers", "two"),
                "apply",
                &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"m": "1"}},
                "spec": {"ephemeralContainers": debugger("f")}}),
            ),
            patch(&by("/ephemeralcontainers", "one"), "strategic", &json!({"metadata": {"labels": {"l": "2"}}})),
            get(&at("")),
            patch(
                &by("/resize", "three"),
                "strategic",
                &json!({"metadata": more, "spec": {"hostname": "h", "containers": [resized("1500m")[0]]}}),
            ),
            patch(&by("/resize", "four"), "merge", &json!({"spec": {"containers": resized("1600m")}})),
            patch(
                &by("/resize", "five"),
                "apply",
                &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
                "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1600m"}}}]}}),
            ),
            patch(&by("/resize", "four"), "merge", &json!({"spec": {"containers": [resized("1")[0]]}})),
            patch(
                &by("/resize", "four"),
                "json",
                &json!([{"op": "replace", "path": "/spec/containers/1/name", "value": "x"}]),
            ),
            get(&at("")),
            patch(
                &by("/status", "kubelet"),
                "merge",
                &json!({"status": {"phase": "Running", "qosClass": null, "observedGeneration": 2,
                "conditions": [{"type": "Ready", "status": "False", "observedGeneration": 2}, {"type": "Other", "status": "True", "observedGeneration": 1}]},
                "metadata": {"labels": {"s": "1"}, "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]}}),
            ),
            patch(
                &by("/status", "kubelet"),
                "merge",
                &json!({"status": {"qosClass": null, "observedGeneration": null,
                "conditions": [{"type": "Other", "status": "True"}, {"type": "Ready", "status": "True"}, {"type": "New", "status": "True"}]}}),
            ),
            patch(&by("/status", "kubelet"), "merge", &conditions(json!([]))),
            patch(&by("/status", "kubelet"), "merge", &json!({"status": {"qosClass": "Guaranteed"}})),
            patch(
                &by("", "six"),
                "merge",
                &json!({"spec": {"activeDeadlineSeconds": 5}, "status": {"phase": "Failed"}}),
            ),
            get(&at("")),
        ]
    });
}
