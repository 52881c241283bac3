//! PodSecurity, compared with kube-apiserver's own: responses, objects, warnings.

use crate::harness::differential::{Case, compare, compare_when};
use crate::harness::{
    Api, ControlPlane, Proxy, Request, User, folder, known_plugins, only, patch, post, put, unique, upstream,
};
use serde_json::{Value, json};
use std::fs;

const PREFIX: &str = "pod-security.kubernetes.io/";

fn namespace(name: &str, labels: &[(&str, &str)]) -> Request {
    let labels: serde_json::Map<String, Value> =
        labels.iter().map(|(label, value)| (format!("{PREFIX}{label}"), json!(value))).collect();
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
    post("/api/v1/namespaces", &object)
}

fn label(name: &str, labels: &[(&str, Value)]) -> Request {
    patch(&format!("/api/v1/namespaces/{name}"), "merge", &labels_patch(labels))
}

fn labels_patch(labels: &[(&str, Value)]) -> Value {
    let labels: serde_json::Map<String, Value> =
        labels.iter().map(|(label, value)| (format!("{PREFIX}{label}"), value.clone())).collect();
    json!({"metadata": {"labels": labels}})
}

fn pods(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods")
}

fn pod(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
}

/// A pod with one container, which has these fields besides name and image.
fn with(name: &str, container: Value, spec: Value) -> Value {
    let mut whole = json!({"name": "a", "image": "i"});
    merge(&mut whole, container);
    let mut pod = pod(name, json!({"containers": [whole]}));
    merge(&mut pod["spec"], spec);
    pod
}

/// A pod with these security contexts.
fn secured(name: &str, of_container: Value, of_pod: Value) -> Value {
    with(name, json!({"securityContext": of_container}), json!({"securityContext": of_pod}))
}

/// A pod that the restricted policy accepts, with these fields changed.
fn restricted(name: &str, container: Value, spec: Value) -> Value {
    let security = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    let mut of_container = json!({ "securityContext": security });
    merge(&mut of_container, container);
    let mut of_spec = json!({"securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}}});
    merge(&mut of_spec, spec);
    with(name, of_container, of_spec)
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

fn as_developer(requests: Vec<Request>) -> Vec<(User, Request)> {
    requests.into_iter().map(|request| (User::developer(), request)).collect()
}

#[test]
fn pods_keep_to_the_baseline() {
    let (here, old, host) = (unique("baseline"), unique("baseline-old"), unique("baseline-34"));
    let create = |pod: Value| post(&pods(&here), &pod);
    let host_path = |name: &str| json!({"name": name, "hostPath": {"path": "/x"}});
    let port = |port: u16, host_port: u16| json!({"containerPort": port, "hostPort": host_port});
    let sysctl = |name: &str| json!({"name": name, "value": "1"});
    let unmasked =
        |name: &str| with(name, json!({"securityContext": {"procMount": "Unmasked"}}), json!({"hostUsers": false}));
    compare(&Case {
        plugins: &["NamespaceLifecycle", "PodSecurity"],
        setup: vec![
            namespace(&here, &[("enforce", "baseline")]),
            namespace(&old, &[("enforce", "baseline"), ("enforce-version", "v1.18")]),
            namespace(&host, &[("enforce", "baseline"), ("enforce-version", "v1.34")]),
        ],
        webhook: None,
        steps: as_developer(vec![
            create(with("bare", json!({}), json!({}))),
            create(with("host", json!({}), json!({"hostNetwork": true, "hostPID": true, "hostIPC": true}))),
            create(with(
                "paths",
                json!({}),
                json!({"volumes": [host_path("z"), {"name": "e", "emptyDir": {}}, host_path("a")]}),
            )),
            create(with("ports", json!({"ports": [port(80, 8080), port(81, 443)]}), json!({}))),
            create(with(
                "init-ports",
                json!({"ports": [port(80, 80)]}),
                json!({"initContainers": [{"name": "i", "image": "i", "ports": [port(9, 9)]}]}),
            )),
            create(secured("capabilities", json!({"capabilities": {"add": ["NET_RAW", "CHOWN", "BPF"]}}), json!({}))),
            create(secured(
                "seccomp",
                json!({"seccompProfile": {"type": "Unconfined"}}),
                json!({"seccompProfile": {"type": "Unconfined"}}),
            )),
            create(secured(
                "local",
                json!({"seccompProfile": {"type": "Localhost", "localhostProfile": "p.json"}}),
                json!({}),
            )),
            create(secured(
                "selinux",
                json!({"seLinuxOptions": {"type": "spc_t", "role": "r"}}),
                json!({"seLinuxOptions": {"type": "container_engine_t", "user": "u"}}),
            )),
            create(secured(
                "engine",
                json!({"seLinuxOptions": {"type": "container_engine_t", "level": "s0"}}),
                json!({}),
            )),
            create(secured(
                "apparmor",
                json!({"appArmorProfile": {"type": "Unconfined"}}),
                json!({"appArmorProfile": {"type": "Unconfined"}}),
            )),
            create(secured(
                "sysctls",
                json!({}),
                json!({"sysctls": [sysctl("kernel.msgmax"), sysctl("net.ipv4.tcp_rmem"), sysctl("kernel.sem")]}),
            )),
            create(with(
                "probes",
                json!({"livenessProbe": {"httpGet": {"port": 80, "host": "h2"}}, "readinessProbe": {"tcpSocket": {"port": 80, "host": "h1"}},
                       "lifecycle": {"postStart": {"httpGet": {"port": 80, "host": "h3"}}}}),
                json!({}),
            )),
            create(unmasked("unmasked")),
            post(&pods(&host), &unmasked("unmasked")),
            // Several violations at once, in order.
            create(with(
                "everything",
                json!({"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}, "ports": [port(80, 80)]}),
                json!({"hostPID": true, "volumes": [host_path("v")]}),
            )),
            post(
                &pods(&old),
                &secured(
                    "newer-fields",
                    json!({"seccompProfile": {"type": "Unconfined"}}),
                    json!({"sysctls": [sysctl("net.ipv4.tcp_rmem")]}),
                ),
            ),
            post(&format!("{}?dryRun=All", pods(&here)), &with("dry", json!({}), json!({"hostIPC": true}))),
            patch(
                &format!("{}/applied?fieldManager=me", pods(&here)),
                "apply",
                &with("applied", json!({}), json!({"hostPID": true})),
            ),
            patch(&format!("{}/applied?fieldManager=me", pods(&here)), "apply", &with("applied", json!({}), json!({}))),
        ]),
    });
}

#[test]
fn pods_keep_to_the_restricted_policy() {
    let (here, old, future) = (unique("restricted"), unique("restricted-old"), unique("restricted-future"));
    let create = |pod: Value| post(&pods(&here), &pod);
    let volumes = json!({"volumes": [
        {"name": "n", "nfs": {"server": "s", "path": "/"}}, {"name": "h", "hostPath": {"path": "/"}},
        {"name": "c", "configMap": {"name": "c"}}, {"name": "p", "projected": {"sources": []}}]});
    compare(&Case {
        plugins: &["NamespaceLifecycle", "PodSecurity"],
        setup: vec![
            namespace(&here, &[("enforce", "restricted")]),
            namespace(&old, &[("enforce", "restricted"), ("enforce-version", "v1.21")]),
            namespace(&future, &[("enforce", "restricted"), ("enforce-version", "v1.99")]),
        ],
        webhook: None,
        steps: as_developer(vec![
            create(with("bare", json!({}), json!({}))),
            create(restricted("good", json!({}), json!({}))),
            create(restricted("volumes", json!({}), volumes)),
            create(restricted("escalation", json!({"securityContext": {"allowPrivilegeEscalation": true}}), json!({}))),
            create(restricted(
                "capabilities",
                json!({"securityContext": {"capabilities": {"drop": ["all"], "add": ["CHOWN", "NET_BIND_SERVICE"]}}}),
                json!({}),
            )),
            create(restricted("root", json!({"securityContext": {"runAsNonRoot": false}}), json!({}))),
            create(restricted(
                "user",
                json!({"securityContext": {"runAsUser": 0}}),
                json!({"securityContext": {"runAsUser": 0}}),
            )),
            create(restricted(
                "own-root",
                json!({"securityContext": {"runAsUser": 0, "runAsNonRoot": false}}),
                json!({"hostUsers": false, "securityContext": {"runAsNonRoot": false}}),
            )),
            create(restricted(
                "proc",
                json!({"securityContext": {"procMount": "Unmasked"}}),
                json!({"hostUsers": false}),
            )),
            create(restricted(
                "seccomp",
                json!({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}),
                json!({}),
            )),
            create(with(
                "windows",
                json!({}),
                json!({"os": {"name": "windows"}, "securityContext": {"runAsNonRoot": true}}),
            )),
            create(with(
                "several",
                json!({}),
                json!({"initContainers": [{"name": "i", "image": "i"}, {"name": "j", "image": "i", "securityContext": {"runAsNonRoot": true}}]}),
            )),
            post(&pods(&old), &with("bare", json!({}), json!({}))),
            post(
                &pods(&old),
                &restricted(
                    "added",
                    json!({"securityContext": {"capabilities": {"add": ["NET_RAW"]}, "runAsUser": 0}}),
                    json!({}),
                ),
            ),
            post(&pods(&future), &with("bare", json!({}), json!({}))),
        ]),
    });
}

#[test]
fn an_invalid_pod_causes_no_warning() {
    let (here, enforcing) = (unique("invalid"), unique("invalid-enforcing"));
    let bare = |name: &str, spec: Value| with(name, json!({}), spec);
    let invalid = || json!({"restartPolicy": "Sometimes"});
    let deployments = format!("/apis/apps/v1/namespaces/{here}/deployments");
    let deployment = |selected: &str| {
        let template =
            json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
               "spec": {"selector": {"matchLabels": {"a": selected}}, "template": template}})
    };
    compare(&Case {
        plugins: &["NamespaceLifecycle", "PodSecurity"],
        setup: vec![
            namespace(&here, &[("warn", "restricted"), ("audit", "restricted")]),
            namespace(&enforcing, &[("enforce", "restricted"), ("warn", "restricted")]),
        ],
        webhook: None,
        steps: as_developer(vec![
            post(&pods(&here), &bare("p", invalid())),
            post(&format!("{}?dryRun=All", pods(&here)), &bare("p", invalid())),
            post(&pods(&enforcing), &bare("p", invalid())),
            post(&pods(&here), &bare("p", json!({}))),
            // The conflict of names is found only after admission.
            post(&pods(&here), &bare("p", json!({}))),
            post(&deployments, &deployment("other")),
            post(&deployments, &deployment("b")),
            put(&format!("{deployments}/d"), &deployment("other")),
            put(&format!("{deployments}/d"), &deployment("b")),
            patch(&format!("{deployments}/d"), "merge", &json!({"spec": {"replicas": -1}})),
            patch(&format!("{deployments}/d"), "merge", &json!({"spec": {"replicas": 2}})),
            patch(
                &format!("{deployments}/d?fieldManager=m&force=true"),
                "apply",
                &json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": -1}}),
            ),
        ]),
    });
}

#[test]
fn workload_controllers_cause_warnings_about_their_pods() {
    let (here, mixed, lax) = (unique("warned"), unique("mixed"), unique("lax"));
    let labels = json!({"app": "a"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "i"}]}});
    let object = |api_version: &str, kind: &str, spec: Value| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "one"}, "spec": spec});
    let selected = json!({"selector": {"matchLabels": labels}, "template": template});
    let mut stateful = selected.clone();
    stateful["serviceName"] = json!("s");
    let mut job_template = template.clone();
    job_template["spec"]["restartPolicy"] = json!("Never");
    // A selector of the job's own, since a generated one contains a uid.
    let job = json!({"manualSelector": true, "selector": {"matchLabels": labels}, "template": job_template});
    let apps = |namespace: &str, resource: &str| format!("/apis/apps/v1/namespaces/{namespace}/{resource}");
    let batch = |resource: &str| format!("/apis/batch/v1/namespaces/{here}/{resource}");
    let core = |resource: &str| format!("/api/v1/namespaces/{here}/{resource}");
    let deployment = object("apps/v1", "Deployment", selected.clone());
    compare(&Case {
        plugins: &["NamespaceLifecycle", "PodSecurity"],
        setup: vec![
            namespace(&here, &[("enforce", "restricted"), ("audit", "restricted"), ("warn", "restricted")]),
            namespace(
                &mixed,
                &[("enforce", "baseline"), ("warn", "restricted"), ("warn-version", "v1.7"), ("audit", "baseline")],
            ),
            namespace(&lax, &[("enforce", "restricted"), ("warn", "privileged")]),
        ],
        webhook: None,
        steps: as_developer(vec![
            post(&apps(&here, "deployments"), &deployment),
            post(&apps(&here, "replicasets"), &object("apps/v1", "ReplicaSet", selected.clone())),
            post(&apps(&here, "daemonsets"), &object("apps/v1", "DaemonSet", selected.clone())),
            post(&apps(&here, "statefulsets"), &object("apps/v1", "StatefulSet", stateful)),
            post(&batch("jobs"), &object("batch/v1", "Job", job.clone())),
            post(
                &batch("cronjobs"),
                &object(
                    "batch/v1",
                    "CronJob",
                    json!({"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": job_template}}}),
                ),
            ),
            post(
                &core("replicationcontrollers"),
                &object("v1", "ReplicationController", json!({"selector": labels, "template": template})),
            ),
            post(
                &core("podtemplates"),
                &json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "one"}, "template": template}),
            ),
            patch(
                &format!("{}/one", apps(&here, "deployments")),
                "merge",
                &json!({"metadata": {"labels": {"l": "m"}}}),
            ),
            patch(&format!("{}/one/scale", apps(&here, "deployments")), "merge", &json!({"spec": {"replicas": 2}})),
            post(&apps(&mixed, "deployments"), &deployment),
            post(&pods(&mixed), &with("warned", json!({}), json!({}))),
            post(
                &pods(&mixed),
                &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "some-"},
                        "spec": {"containers": [{"name": "a", "image": "i"}]}}),
            ),
            post(&pods(&mixed), &with("refused", json!({}), json!({"hostPID": true}))),
            post(&apps(&lax, "deployments"), &deployment),
        ]),
    });
}

#[test]
fn updates_are_judged_where_they_change_what_runs() {
    let here = unique("updated");
    let one = format!("{}/one", pods(&here));
    let debug = |name: &str, add: Value| {
        let container = json!({"name": name, "image": "i", "securityContext": {"capabilities": {"add": add}}});
        patch(
            &format!("{one}/ephemeralcontainers"),
            "strategic",
            &json!({"spec": {"ephemeralContainers": [container]}}),
        )
    };
    let case = Case {
        plugins: &["NamespaceLifecycle", "PodSecurity"],
        setup: vec![
            namespace(&here, &[]),
            post(&pods(&here), &with("one", json!({}), json!({"hostPID": true}))),
            post(&pods(&here), &with("good", json!({"resources": {"requests": {"cpu": "1m"}}}), json!({}))),
            label(&here, &[("enforce", json!("baseline"))]),
        ],
        webhook: None,
        steps: as_developer(vec![
            post(&pods(&here), &with("new", json!({}), json!({"hostPID": true}))),
            patch(&one, "merge", &json!({"metadata": {"labels": {"a": "b"}}})),
            patch(&format!("{one}/status"), "merge", &json!({"status": {"message": "m"}})),
            patch(&one, "json", &json!([{"op": "replace", "path": "/spec/containers/0/image", "value": "j"}])),
            debug("debugger", json!([])),
            // The stored pod counts, not the rest of the pod in the request.
            patch(
                &format!("{one}/ephemeralcontainers"),
                "strategic",
                &json!({"spec": {"hostPID": null, "ephemeralContainers": [{"name": "harmless", "image": "i"}]}}),
            ),
            patch(
                &format!("{}/good/ephemeralcontainers", pods(&here)),
                "strategic",
                &json!({"spec": {"ephemeralContainers": [{"name": "raw", "image": "i", "securityContext": {"capabilities": {"add": ["NET_RAW"]}}}]}}),
            ),
            patch(
                &format!("{}/good/ephemeralcontainers", pods(&here)),
                "strategic",
                &json!({"spec": {"ephemeralContainers": [{"name": "fine", "image": "i"}]}}),
            ),
            patch(
                &format!("{}/good", pods(&here)),
                "strategic",
                &json!({"spec": {"containers": [{"name": "a", "image": "k"}]}}),
            ),
            patch(
                &format!("{}/good/resize", pods(&here)),
                "strategic",
                &json!({"spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "2m"}}}]}}),
            ),
        ]),
    };
    // Each side reads the labels of the namespace from a cache.
    let judged = post(&format!("{}?dryRun=All", pods(&here)), &with("probe", json!({}), json!({"hostPID": true})));
    compare_when(&[(User::developer(), judged, 403)], &case);
}

#[test]
fn labels_of_namespaces_are_valid_and_tell_of_existing_pods() {
    let (here, odd, fresh) = (unique("labelled"), unique("odd"), unique("fresh"));
    let owned = |name: &str| {
        let mut pod = with(name, json!({}), json!({"hostPID": true}));
        pod["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "1", "controller": true}]);
        pod
    };
    let path = format!("/api/v1/namespaces/{here}");
    compare(&Case {
        plugins: &["NamespaceLifecycle", "PodSecurity"],
        setup: vec![
            namespace(&here, &[]),
            post(&pods(&here), &with("z", json!({}), json!({"hostPID": true}))),
            post(&pods(&here), &owned("y")),
            post(&pods(&here), &owned("x")),
            post(
                &pods(&here),
                &with(
                    "path",
                    json!({}),
                    json!({"hostIPC": true, "volumes": [{"name": "v", "hostPath": {"path": "/"}}]}),
                ),
            ),
            post(&pods(&here), &restricted("fine", json!({}), json!({}))),
            namespace(&odd, &[]),
            // The plugin ignores a namespace's status, so that wrong labels can be stored.
            patch(
                &format!("/api/v1/namespaces/{odd}/status"),
                "merge",
                &labels_patch(&[("enforce", json!("strict")), ("warn-version", json!("1.2"))]),
            ),
        ],
        webhook: None,
        steps: as_developer(vec![
            namespace(&fresh, &[("enforce", "strict")]),
            namespace(
                &fresh,
                &[
                    ("enforce", "Baseline"),
                    ("enforce-version", "1.30"),
                    ("audit", "all"),
                    ("warn-version", "v1.030"),
                    ("warn", ""),
                ],
            ),
            namespace(&format!("{fresh}-dry"), &[("enforce", "baseline"), ("enforce-version", "v1.99")]),
            label(&here, &[("audit", json!("none"))]),
            put(
                &path,
                &json!({"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": here, "labels": {"pod-security.kubernetes.io/warn-version": "v2.0"}}}),
            ),
            label(&here, &[("warn", json!("restricted")), ("audit", json!("restricted"))]),
            patch(&format!("{path}?dryRun=All"), "merge", &labels_patch(&[("enforce", json!("restricted"))])),
            label(&here, &[("enforce", json!("baseline"))]),
            label(&here, &[("enforce-version", json!("v1.20"))]),
            label(&here, &[("enforce", json!("restricted"))]),
            label(&here, &[("enforce", json!("baseline"))]),
            label(&here, &[("enforce", json!("privileged")), ("enforce-version", json!("latest"))]),
            label(&here, &[("enforce", Value::Null)]),
            // A wrong label may stay unchanged.
            patch(&format!("/api/v1/namespaces/{odd}"), "merge", &json!({"metadata": {"annotations": {"a": "b"}}})),
            label(&odd, &[("audit", json!("baseline"))]),
            label(&odd, &[("enforce", json!("stricter"))]),
            post(&pods(&odd), &with("bare", json!({}), json!({}))),
            label(&odd, &[("enforce", json!("baseline")), ("warn-version", Value::Null)]),
        ]),
    });
}

/// Code, message and warnings of the responses.
fn seen(api: &Api, requests: &[(User, Request)]) -> Vec<(u16, Value, Vec<String>)> {
    let answers = requests.iter().map(|(user, request)| api.send(user, request.clone()));
    answers.map(|answer| (answer.status, answer.json()["message"].clone(), answer.header("warning"))).collect()
}

#[test]
fn the_configuration_has_defaults_and_exemptions() {
    let (here, exempt) = (unique("configured"), "pod-security-exempt");
    let file = folder("pod-security").join("admission.json");
    let configuration = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": [
        {"name": "PodSecurity", "configuration": {
            "apiVersion": "pod-security.admission.config.k8s.io/v1beta1", "kind": "PodSecurityConfiguration",
            "defaults": {"enforce": "baseline", "enforce-version": "v1.30", "warn": "restricted"},
            "exemptions": {"usernames": ["carol"], "namespaces": [exempt], "runtimeClasses": ["trusted"]}}}]});
    fs::write(&file, configuration.to_string()).unwrap();
    let file = format!("--admission-control-config-file={}", file.display());
    let bad = |name: &str, spec: Value| {
        let mut pod = with(name, json!({}), json!({"hostPID": true}));
        merge(&mut pod["spec"], spec);
        pod
    };
    let (alice, carol) = (User::developer(), User::named("carol", "developers"));
    let relabelled = |labels: &[(&str, Value)]| (alice.clone(), label(exempt, labels));
    let requests = [
        (alice.clone(), namespace(&here, &[])),
        (alice.clone(), namespace(exempt, &[("enforce", "restricted"), ("audit-version", "v1.2")])),
        (alice.clone(), post(&pods(&here), &bad("refused", json!({})))),
        (alice.clone(), post(&pods(&here), &with("warned", json!({}), json!({})))),
        (carol.clone(), post(&pods(&here), &bad("of-carol", json!({})))),
        (alice.clone(), post(&pods(&here), &bad("trusted", json!({"runtimeClassName": "trusted"})))),
        (alice.clone(), post(&pods(&here), &bad("other", json!({"runtimeClassName": "other"})))),
        (alice.clone(), post(&pods(exempt), &bad("exempt", json!({})))),
        relabelled(&[("enforce", json!("baseline")), ("enforce-version", json!("v1.2"))]),
        relabelled(&[("enforce", json!("privileged"))]),
        relabelled(&[("enforce", json!("restricted")), ("warn", json!("privileged"))]),
        relabelled(&[("enforce", json!("x"))]),
    ];
    let reference = ControlPlane::start("reference", &[only(&["PodSecurity"]), vec![file.clone()]].concat());
    let expected = seen(&reference, &requests);
    let others: Vec<String> = known_plugins().iter().filter(|plugin| *plugin != "PodSecurity").cloned().collect();
    let others = format!("--disable-admission-plugins={}", others.join(","));
    let got = seen(&Proxy::before(upstream(), &[&file, &others]), &requests);
    for (((_, request), expected), got) in requests.iter().zip(expected).zip(got) {
        assert_eq!(got, expected, "{} {}", request.method, request.path);
    }
}
