//! Kinds of faults that users of other servers report, each with neighbours.

use super::{compare, with};
use crate::harness::differential::{self, Case};
use crate::harness::{Request, User, delete, get, patch, post, put};
use serde_json::{Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A definition of `things` in a group, with a status and these properties of a spec.
fn definition(group: &str, spec: Value) -> Value {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": spec},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("things.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}}]}})
}

/// Defines `things`, and returns their path.
fn define(group: &str, namespace: &str, spec: Value, requests: &mut Vec<Request>) -> String {
    let path = format!("/apis/{group}/v1/namespaces/{namespace}/things");
    requests.extend([post(DEFINITIONS, &definition(group, spec)), get(&format!("{path}?until=200"))]);
    path
}

#[test]
fn numbers_of_custom_objects_have_the_form_that_go_stores() {
    compare("reported-numbers", |namespace| {
        let group = "numbers.e2e.test";
        let number = json!({"type": "number"});
        let spec = json!({"n": {"type": "integer"}, "f": number, "m": {"type": "object", "additionalProperties": number},
            "l": {"type": "array", "items": {"type": "integer"}}, "e": {"type": "number", "enum": [1.0, 2.5]}, "p": {"x-kubernetes-int-or-string": true},
            "d": {"type": "number", "default": 3.0}, "r": {"type": "number", "minimum": 1.5, "maximum": 1e3, "multipleOf": 0.5}});
        let mut requests = Vec::new();
        let things = define(group, namespace, spec, &mut requests);
        let numbers = [
            "1.0",
            "1",
            "-0",
            "-0.0",
            "0.1",
            "1.50",
            "1e3",
            "1E-2",
            "1e-6",
            "1e-7",
            "123456789012345678",
            "9223372036854775807",
            "9223372036854775808",
            "-9223372036854775808",
            "18446744073709551615",
            "1e15",
            "1e16",
            "1e20",
            "1e21",
            "1.5e300",
            "123456789.123456789",
            "100000000000000000000000",
        ];
        let text = |name: &str, spec: &str| {
            format!(
                "{{\"apiVersion\":\"{group}/v1\",\"kind\":\"Thing\",\"metadata\":{{\"name\":\"{name}\"}},\"spec\":{spec}}}"
            )
        };
        let sent = |method: &str, path: &str, media_type: &str, body: String| {
            Request::new(method, path).body(media_type, body)
        };
        for (index, number) in numbers.iter().enumerate() {
            let body = |name: &str, of: &str| text(name, &of.replace('#', number));
            for (field, of) in [
                ("n", "{\"n\":#}"),
                ("f", "{\"f\":#,\"m\":{\"a\":#},\"x\":[#,{\"y\":#}]}"),
                ("l", "{\"l\":[#]}"),
                // Go validates the fields of an object in random order.
                ("e", "{\"e\":#}"),
                ("r", "{\"r\":#}"),
                ("p", "{\"p\":#}"),
            ] {
                requests.push(sent("POST", &things, "application/json", body(&format!("{field}{index}"), of)));
            }
            let free = format!("{things}/f{index}");
            requests.extend([
                sent(
                    "PUT",
                    &free,
                    "application/json",
                    body(&format!("f{index}"), "{\"f\":#,\"m\":{\"a\":#},\"x\":[#,{\"y\":#}]}"),
                ),
                sent("PATCH", &free, "application/merge-patch+json", format!("{{\"spec\":{{\"z\":{number}}}}}")),
                sent(
                    "PATCH",
                    &free,
                    "application/json-patch+json",
                    format!("[{{\"op\":\"add\",\"path\":\"/spec/w\",\"value\":{number}}}]"),
                ),
                sent(
                    "PATCH",
                    &format!("{free}/status"),
                    "application/merge-patch+json",
                    format!("{{\"status\":{{\"z\":{number}}}}}"),
                ),
                sent(
                    "PATCH",
                    &format!("{free}?fieldManager=a&force=true"),
                    "application/apply-patch+yaml",
                    body(&format!("f{index}"), "{\"v\":#}"),
                ),
                sent("POST", &things, "application/yaml", body(&format!("y{index}"), "{\"f\":#,\"x\":[#]}")),
                sent(
                    "POST",
                    &format!("{things}?dryRun=All"),
                    "application/json",
                    body(&format!("d{index}"), "{\"f\":#}"),
                ),
                get(&free),
                get(&format!("{things}/y{index}")).header("accept", "application/yaml"),
            ]);
        }
        requests.push(get(&things));
        requests
    });
}

/// An object whose JSON has about so many bytes.
fn pad(bytes: usize) -> String {
    "x".repeat(bytes)
}

#[test]
fn objects_above_the_limit_of_etcd_are_refused_in_every_kind_of_write() {
    compare("reported-size", |namespace| {
        let group = "size.e2e.test";
        let mut requests = Vec::new();
        let things = define(group, namespace, json!({}), &mut requests);
        let thing = |name: &str, bytes: usize| json!({"apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": name}, "spec": {"p": pad(bytes)}});
        let of = |group: &str, resource: &str| format!("{group}/namespaces/{namespace}/{resource}");
        let template = |bytes: usize| {
            json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "t"}, "template": {"metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i", "args": [pad(bytes)]}]}}})
        };
        let kept = |name: &str| [post(&things, &thing(name, 10)), get(&format!("{things}/{name}"))];
        requests.extend(kept("a"));
        let one = format!("{things}/a");
        for bytes in [1_500_000, 1_571_500, 1_572_000, 1_600_000, 2_096_000, 2_097_152, 2_500_000] {
            requests.extend([
                post(&format!("{things}?dryRun=All"), &thing("dry", bytes)),
                post(&things, &thing(&format!("n{bytes}"), bytes)),
                put(
                    &one,
                    &with(
                        thing("a", bytes),
                        "/metadata/resourceVersion",
                        json!(format!("{{resourceVersion of {one}}}")),
                    ),
                ),
                patch(&one, "merge", &json!({"spec": {"p": pad(bytes)}})),
                patch(&format!("{one}/status"), "merge", &json!({"status": {"p": pad(bytes)}})),
                patch(&one, "merge", &json!({"spec": {"p": null}, "status": {"p": null}})),
                patch(&format!("{one}/status"), "merge", &json!({"status": {"p": null}})),
                patch(&format!("{things}/s{bytes}?fieldManager=m"), "apply", &thing(&format!("s{bytes}"), bytes)),
                post(&of("/api/v1", "podtemplates?dryRun=All"), &template(bytes)),
                post(&of("/api/v1", "podtemplates"), &template(bytes)),
                patch(&of("/api/v1", "podtemplates/t"), "strategic", &template(bytes)),
                delete(&of("/api/v1", "podtemplates/t")),
            ]);
        }
        requests
    });
}

fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    pod
}

fn amounts(cpu: &str, memory: &str) -> Value {
    let all = [("cpu", cpu), ("memory", memory)].into_iter().filter(|(_, amount)| !amount.is_empty());
    all.map(|(name, amount)| (name.to_owned(), json!(amount))).collect::<serde_json::Map<_, _>>().into()
}

#[test]
fn a_resize_changes_cpu_and_memory_and_nothing_else() {
    compare("reported-resize", |namespace| {
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        let mut requests = Vec::new();
        let container = |name: &str, requests: Value, limits: Value| json!({"name": name, "image": "i", "resources": {"requests": requests, "limits": limits}});
        let both = amounts("1", "1Gi");
        let sidecar = with(container("s", amounts("1", ""), json!({})), "/restartPolicy", json!("Always"));
        let restarted = with(
            container("i", amounts("1", ""), json!({})),
            "/resizePolicy",
            json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]),
        );
        // With one limit that a container exceeds: Go validates the limits in random order.
        let of_pod = json!({"resources": {"requests": both, "limits": amounts("1", "4Gi")}});
        let none = json!({});
        let kinds = [
            ("guaranteed", json!({"containers": [container("c", both.clone(), both.clone())]})),
            ("burstable", json!({"containers": [container("c", amounts("1", ""), amounts("2", "2Gi"))]})),
            ("best-effort", json!({"containers": [container("c", none.clone(), none.clone())]})),
            (
                "two",
                json!({"containers": [container("c", both.clone(), both.clone()), container("d", both.clone(), both.clone())]}),
            ),
            (
                "init",
                json!({"containers": [container("c", both.clone(), both.clone())], "initContainers": [container("i", both.clone(), both.clone())]}),
            ),
            ("sidecar", json!({"containers": [container("c", both.clone(), json!({}))], "initContainers": [sidecar]})),
            (
                "restarted",
                json!({"containers": [container("c", both.clone(), json!({}))], "initContainers": [restarted]}),
            ),
            ("of-pod", of_pod.clone()),
            ("windows", json!({"os": {"name": "windows"}, "containers": [container("c", both.clone(), both.clone())]})),
            ("mirror", json!({"nodeName": "n", "containers": [container("c", both.clone(), both.clone())]})),
            (
                "storage",
                json!({"containers": [container("c", with(both.clone(), "/ephemeral-storage", json!("1Gi")), json!({}))]}),
            ),
        ];
        for (name, spec) in &kinds {
            let mut object = pod(name, spec.clone());
            if *name == "mirror" {
                object["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
            }
            requests.push(post(&pods, &object));
            let resize = |body: Value| patch(&format!("{pods}/{name}/resize?dryRun=All"), "strategic", &body);
            let of_container = |body: Value| resize(json!({"spec": {"containers": [with(body, "/name", json!("c"))]}}));
            let of_init = |name: &str, body: Value| {
                resize(json!({"spec": {"initContainers": [with(body, "/name", json!(name))]}}))
            };
            requests.extend([
                of_container(json!({"resources": {"requests": {"cpu": "500m"}}})),
                of_container(json!({"resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "500m"}}})),
                of_container(json!({"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "3", "memory": "3Gi"}}})),
                of_container(json!({"resources": {"requests": {"cpu": null}}})),
                of_container(json!({"resources": {"limits": {"memory": null}}})),
                of_container(json!({"resources": null})),
                of_container(json!({"resources": {"requests": {"ephemeral-storage": "2Gi"}}})),
                of_container(json!({"resources": {"claims": [{"name": "x"}]}})),
                of_container(json!({"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]})),
                of_container(json!({"image": "other"})),
                resize(json!({"spec": {"containers": [{"name": "new", "image": "i"}]}})),
                resize(json!({"spec": {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}}})),
                resize(json!({"spec": {"resources": {"requests": {"cpu": "2"}}}})),
                resize(json!({"spec": {"resources": {"requests": {"cpu": null}}}})),
                resize(json!({"spec": {"resources": null}})),
                resize(json!({"spec": {"resources": {"limits": {"hugepages-2Mi": "2Mi"}}}})),
                resize(json!({"spec": {"nodeName": "m", "activeDeadlineSeconds": 5}, "metadata": {"labels": {"a": "b"}}, "status": {"message": "m"}})),
                of_init("i", json!({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}})),
                of_init("i", json!({"resources": {"requests": {"cpu": "2"}}})),
                of_init("s", json!({"resources": {"requests": {"cpu": "2"}}})),
                of_init("s", json!({"image": "other"})),
                of_init("none", json!({"image": "other"})),
                put(&format!("{pods}/{name}/resize?dryRun=All"), &with(object.clone(), "/spec/containers/0/name", json!("renamed"))),
                patch(&format!("{pods}/{name}/resize"), "strategic", &json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]}})),
                get(&format!("{pods}/{name}")),
            ]);
        }
        // A node that cannot resize.
        let running = |resources: Value| {
            let status = json!({"name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {}}, "resources": resources});
            patch(&format!("{pods}/burstable/status"), "merge", &json!({"status": {"containerStatuses": [status]}}))
        };
        for resources in [Value::Null, json!({})] {
            requests.push(running(resources));
            let body = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "700m"}}}]}});
            requests.push(patch(&format!("{pods}/burstable/resize"), "strategic", &body));
        }
        requests
    });
}

#[test]
fn updates_of_the_status_of_pods_are_compared_with_the_current_status() {
    compare("reported-status", |namespace| {
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        let rules = |action: &str, operator: &str| json!([{"action": action, "exitCodes": {"operator": operator, "values": [3]}}]);
        let mut requests = Vec::new();
        let specs = [
            ("always", json!({"restartPolicy": "Always"})),
            ("never", json!({"restartPolicy": "Never"})),
            ("on-failure", json!({"restartPolicy": "OnFailure"})),
            (
                "own",
                json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i", "restartPolicy": "OnFailure"}]}),
            ),
            (
                "in",
                json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i", "restartPolicy": "Never", "restartPolicyRules": rules("Restart", "In")}]}),
            ),
            (
                "not-in",
                json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i", "restartPolicy": "Never", "restartPolicyRules": rules("Restart", "NotIn")}]}),
            ),
            (
                "sidecar",
                json!({"restartPolicy": "Never", "initContainers": [{"name": "i", "image": "i", "restartPolicy": "Always"}, {"name": "j", "image": "i"}]}),
            ),
        ];
        for (name, spec) in &specs {
            requests.push(post(&pods, &pod(name, spec.clone())));
            let set = |lists: [&str; 3], state: Value| {
                let status = |name: &str| json!({"name": name, "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state});
                let body = json!({"status": {lists[0]: [status("c"), status("none")], lists[1]: [status("i"), status("j")], lists[2]: [status("e")]}});
                patch(&format!("{pods}/{name}/status"), "merge", &body)
            };
            let lists = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
            for code in [0, 1, 3] {
                requests.push(set(lists, json!({"terminated": {"exitCode": code}})));
                requests.push(set(lists, json!({"running": {}})));
                requests.push(patch(
                    &format!("{pods}/{name}/status"),
                    "merge",
                    &json!({"status": {lists[0]: null, lists[1]: null, lists[2]: null}}),
                ));
            }
        }
        let status = |body: Value| patch(&format!("{pods}/always/status"), "merge", &json!({ "status": body }));
        let of = |more: Value| {
            let mut status = json!({"name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0});
            status.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!([status])
        };
        let mapping = |container: &str, resource: &str, request: &str| json!({"containerName": container, "resourceName": resource, "requestName": request});
        requests.extend([
            status(json!({"qosClass": "Guaranteed"})),
            status(json!({"qosClass": ""})),
            status(json!({"observedGeneration": -1})),
            status(json!({"conditions": [{"type": "a b", "status": "True", "observedGeneration": -1}]})),
            status(json!({"nominatedNodeName": "A_"})),
            status(json!({"podIPs": [{"ip": "1.2.3.4"}, {"ip": "1.2.3.5"}]})),
            status(json!({"podIP": "x", "podIPs": [{"ip": "x"}]})),
            status(json!({"hostIP": "1.2.3.4", "hostIPs": [{"ip": "1.2.3.5"}]})),
            status(json!({"resourceClaimStatuses": [{"name": "none"}, {"name": "none", "resourceClaimName": "A"}]})),
            status(json!({"containerStatuses": of(json!({"user": {"linux": {"uid": -1, "gid": -2, "supplementalGroups": [-3]}}}))})),
            status(json!({"containerStatuses": of(json!({"allocatedResourcesStatus": [{"name": "x", "resources": [{"resourceID": "a", "health": "Bad"}, {"resourceID": "a"}]}, {"name": "claim:x/y"}]}))})),
            status(json!({"ephemeralContainerStatuses": of(json!({"allocatedResourcesStatus": [{"name": "x"}]}))})),
            status(json!({"extendedResourceClaimStatus": {"requestMappings": [], "resourceClaimName": ""}})),
            status(json!({"extendedResourceClaimStatus": {"resourceClaimName": "A", "requestMappings": [mapping("c", "x", "R"), mapping("c", "x", "R"), mapping("z", "x", "r")]}})),
            patch(&format!("{pods}/always/status"), "merge", &json!({"spec": {"nodeName": "m"}, "metadata": {"labels": {"a": "b"}, "finalizers": ["e.test/f"]}, "status": {"message": "kept"}})),
            get(&format!("{pods}/always")),
        ]);
        // Ephemeral containers, and pods that wait for their gates.
        let ephemeral = |name: &str, list: Value| {
            patch(
                &format!("{pods}/{name}/ephemeralcontainers"),
                "strategic",
                &json!({"spec": {"ephemeralContainers": list}}),
            )
        };
        let mirror = with(
            pod("mirror", json!({"nodeName": "n"})),
            "/metadata/annotations",
            json!({"kubernetes.io/config.mirror": "x"}),
        );
        let term = |key: &str| json!({"matchExpressions": [{"key": key, "operator": "Exists"}]});
        let affinity = |terms: Value| json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
        requests.extend([
            post(&pods, &mirror),
            ephemeral("mirror", json!([{"name": "e", "image": "i"}])),
            ephemeral("always", json!([{"name": "e", "image": "i"}])),
            ephemeral("always", json!([{"name": "c", "image": "i"}])),
            ephemeral("always", json!([{"name": "e", "$patch": "delete"}])),
            post(&pods, &pod("gated", json!({"schedulingGates": [{"name": "e.test/g"}]}))),
            patch(&format!("{pods}/gated"), "merge", &json!({"spec": {"affinity": affinity(json!([term("a")]))}})),
            patch(&format!("{pods}/gated"), "merge", &json!({"spec": {"affinity": affinity(json!([term("b")]))}})),
            patch(&format!("{pods}/gated"), "merge", &json!({"spec": {"affinity": null}})),
            patch(&format!("{pods}/gated"), "merge", &json!({"spec": {"nodeSelector": {"a": "b"}}})),
            patch(&format!("{pods}/gated"), "merge", &json!({"spec": {"nodeSelector": {"a": "c"}}})),
            patch(&format!("{pods}/gated"), "merge", &json!({"spec": {"schedulingGates": null}})),
        ]);
        requests
    });
}

#[test]
fn metadata_of_an_update_is_validated_as_often_as_by_kube_apiserver() {
    compare("reported-causes", |namespace| {
        let group = "causes.e2e.test";
        let mut requests = Vec::new();
        let things = define(group, namespace, json!({}), &mut requests);
        let of = |group: &str, resource: &str| format!("{group}/namespaces/{namespace}/{resource}");
        let labels = json!({"matchLabels": {"a": "b"}});
        let template =
            json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let thing = json!({"apiVersion": format!("{group}/v1"), "kind": "Thing"});
        let webhooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
        let objects = [
            (of("/api/v1", "configmaps"), json!({"data": {"a": "b"}})),
            (of("/api/v1", "secrets"), json!({})),
            (of("/api/v1", "serviceaccounts"), json!({})),
            (of("/api/v1", "pods"), json!({"spec": template["spec"]})),
            (of("/api/v1", "services"), json!({"spec": {"ports": [{"port": 80}]}})),
            (of("/api/v1", "limitranges"), json!({"spec": {"limits": []}})),
            (of("/apis/apps/v1", "deployments"), json!({"spec": {"selector": labels, "template": template}})),
            (of("/apis/apps/v1", "daemonsets"), json!({"spec": {"selector": labels, "template": template}})),
            (
                of("/apis/batch/v1", "jobs"),
                json!({"spec": {"template": with(template.clone(), "/spec/restartPolicy", json!("Never"))}}),
            ),
            (of("/apis/networking.k8s.io/v1", "networkpolicies"), json!({"spec": {"podSelector": {}}})),
            (of("/apis/rbac.authorization.k8s.io/v1", "roles"), json!({"rules": []})),
            (of("/apis/coordination.k8s.io/v1", "leases"), json!({})),
            (of("/apis/policy/v1", "poddisruptionbudgets"), json!({"spec": {"selector": labels}})),
            ("/apis/storage.k8s.io/v1/storageclasses".to_owned(), json!({"provisioner": "e.test/p"})),
            ("/apis/scheduling.k8s.io/v1/priorityclasses".to_owned(), json!({"value": 1})),
            (webhooks.to_owned(), json!({})),
            (things, thing),
        ];
        for (collection, object) in &objects {
            let name = format!("{namespace}-o");
            let one = format!("{collection}/{name}");
            requests.push(post(
                collection,
                &with(object.clone(), "/metadata", json!({"name": name, "finalizers": ["e.test/f"]})),
            ));
            let change = |metadata: Value| patch(&one, "merge", &json!({ "metadata": metadata }));
            requests.extend([
                change(json!({"uid": "x"})),
                change(json!({"uid": "x", "labels": {"a b": "c d"}})),
                change(json!({"annotations": {"a b": "c"}})),
                change(json!({"finalizers": ["e.test/f", "no path"]})),
                change(json!({"ownerReferences": [{"apiVersion": "v1", "kind": "", "name": "", "uid": ""}]})),
                change(json!({"managedFields": [{"operation": "Other"}]})),
                change(json!({"creationTimestamp": "2020-01-01T00:00:00Z", "generation": 77, "deletionTimestamp": "2020-01-01T00:00:00Z"})),
                delete(&one),
                change(json!({"finalizers": ["e.test/f", "e.test/g"]})),
                change(json!({"uid": "x", "finalizers": ["e.test/f", "e.test/g"]})),
                change(json!({"finalizers": null})),
            ]);
        }
        requests
    });
}

#[test]
fn a_taken_name_counts_as_a_generated_one_if_there_is_a_prefix() {
    compare("reported-names", |namespace| {
        let group = "names.e2e.test";
        let mut requests = Vec::new();
        let things = define(group, namespace, json!({}), &mut requests);
        let of = |group: &str, resource: &str| format!("{group}/namespaces/{namespace}/{resource}");
        let kinds = [
            (of("/api/v1", "configmaps"), json!({})),
            (of("/api/v1", "secrets"), json!({})),
            (of("/api/v1", "events"), json!({"involvedObject": {"namespace": namespace}})),
            (of("/api/v1", "services"), json!({"spec": {"ports": [{"port": 80}]}})),
            (of("/apis/rbac.authorization.k8s.io/v1", "roles"), json!({})),
            (of("/apis/coordination.k8s.io/v1", "leases"), json!({})),
            ("/api/v1/namespaces".to_owned(), json!({})),
            ("/apis/storage.k8s.io/v1/storageclasses".to_owned(), json!({"provisioner": "e.test/p"})),
            (things, json!({"apiVersion": format!("{group}/v1"), "kind": "Thing"})),
        ];
        for (collection, object) in &kinds {
            let name = format!("{namespace}-n");
            let named = |metadata: Value| with(object.clone(), "/metadata", metadata);
            let taken = named(json!({"name": name, "generateName": "t-"}));
            requests.extend([
                post(collection, &named(json!({"name": name, "finalizers": ["e.test/f"]}))),
                post(collection, &taken),
                post(collection, &named(json!({"name": name, "generateName": ""}))),
                post(&format!("{collection}?dryRun=All"), &taken),
                delete(&format!("{collection}/{name}")),
                post(collection, &taken),
                post(collection, &named(json!({"name": name}))),
                patch(&format!("{collection}/{name}"), "merge", &json!({"metadata": {"finalizers": null}})),
            ]);
        }
        requests
    });
}

/// Bodies of other kinds and versions than the URL's, for each of these paths.
fn bodies_of_other_versions(namespace: &str) -> Vec<Request> {
    let of = |group: &str, resource: &str| format!("{group}/namespaces/{namespace}/{resource}");
    let paths = [
        DEFINITIONS.to_owned(),
        "/apis/apiregistration.k8s.io/v1/apiservices".to_owned(),
        of("/api/v1", "pods"),
        of("/api/v1", "events"),
        of("/apis/apps/v1", "deployments"),
        of("/apis/apps/v1", "daemonsets"),
        of("/apis/batch/v1", "cronjobs"),
        of("/apis/autoscaling/v2", "horizontalpodautoscalers"),
        of("/apis/networking.k8s.io/v1", "ingresses"),
        "/apis/rbac.authorization.k8s.io/v1/clusterroles".to_owned(),
    ];
    let kinds = [
        ("apiextensions.k8s.io/v1beta1", "CustomResourceDefinition"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        ("apiextensions.k8s.io/v1beta1", "ConversionReview"),
        ("apiextensions.k8s.io/v2", "CustomResourceDefinition"),
        ("apiregistration.k8s.io/v1beta1", "APIService"),
        ("apiregistration.k8s.io/v1", "APIServiceList"),
        ("v1", "Pod"),
        ("v1", "DeleteOptions"),
        ("v1", "List"),
        ("v1", "Status"),
        ("v2", "Pod"),
        ("apps/v1beta1", "Deployment"),
        ("apps/v1beta1", "DaemonSet"),
        ("apps/v1beta2", "DaemonSet"),
        ("extensions/v1beta1", "Deployment"),
        ("extensions/v1beta1", "Ingress"),
        ("extensions/v1beta1", "CronJob"),
        ("batch/v1beta1", "CronJob"),
        ("batch/v1beta1", "Job"),
        ("batch/v2alpha1", "CronJob"),
        ("autoscaling/v1", "HorizontalPodAutoscaler"),
        ("autoscaling/v2beta2", "HorizontalPodAutoscaler"),
        ("events.k8s.io/v1", "Event"),
        ("rbac.authorization.k8s.io/v1alpha1", "ClusterRole"),
        ("meta.k8s.io/v1", "PartialObjectMetadata"),
        ("e.test/v1", "Thing"),
        ("", "Pod"),
        ("v1", ""),
        ("a/b/c", "Pod"),
    ];
    let mut requests = Vec::new();
    for path in &paths {
        for (index, (version, kind)) in kinds.iter().enumerate() {
            let object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": format!("v{index}.e.test")}});
            // The right kind needs more than a name.
            requests.push(post(&format!("{path}?dryRun=All"), &object));
        }
    }
    requests
}

#[test]
fn bodies_of_other_versions_are_refused_with_the_texts_of_kube_apiserver() {
    compare("reported-versions", bodies_of_other_versions);
}

#[test]
fn the_proxy_refuses_bodies_of_other_versions_with_the_texts_of_kube_apiserver() {
    let requests = bodies_of_other_versions("default");
    let steps = requests.into_iter().map(|request| (User::admin(), request)).collect();
    differential::compare(&Case { plugins: &["NamespaceLifecycle"], setup: Vec::new(), webhook: None, steps });
}
