//! All checks: allowed pods, messages, and versions.

mod restricted;

use super::*;
use crate::plugins::pod_security::pod::Fields;
use serde_json::{Value, json};

fn evaluate(policy: &str, pod: &Value, is_new: bool) -> Result<Violations, WrongType> {
    evaluate_in(u16::MAX, policy, pod, is_new)
}

/// The violations in the release with this minor version.
fn evaluate_in(release: u16, policy: &str, pod: &Value, is_new: bool) -> Result<Violations, WrongType> {
    let (level, version) = policy.split_once(':').expect("level:version");
    let policy = LevelVersion {
        level: Level::parse(level).expect("a level"),
        version: Version::parse(version).expect("a version"),
    };
    let mut pod = Pod::read(Fields::of(pod)?)?;
    pod.is_new = is_new;
    Evaluator::of(release).evaluate(policy, &pod)
}

#[track_caller]
fn says(policy: &str, spec: Value, want: &str) {
    let pod = json!({ "spec": spec });
    assert_eq!(evaluate(policy, &pod, false).map(|violations| violations.details()), Ok(want.to_owned()), "{pod}");
}

/// A pod that satisfies the restricted policy, with the given changes to its only container and its spec.
fn restricted_pod(container: Value, spec: Value) -> Value {
    let mut pod = json!({
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "a", "securityContext": {
            "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}],
    });
    json_patch(&mut pod["containers"][0], container);
    json_patch(&mut pod, spec);
    pod
}

/// A merge patch that keeps null values.
fn json_patch(target: &mut Value, patch: Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (key, value) in patch {
                json_patch(target.entry(key).or_insert(Value::Null), value);
            }
        }
        (target, patch) => *target = patch,
    }
}

/// The container `a` with the security context.
fn secured(security: Value) -> Value {
    json!({"containers": [{"name": "a", "securityContext": security}]})
}

#[test]
fn the_table_is_sorted_and_overrides_what_there_is() {
    let ids = |level| -> Vec<&str> { CHECKS.iter().filter(|c| c.level == level).map(|c| c.id).collect() };
    let (baseline, restricted) = (ids(Level::Baseline), ids(Level::Restricted));
    assert!(baseline.is_sorted() && restricted.is_sorted());
    assert!(CHECKS.is_sorted_by_key(|check| check.level));
    for check in CHECKS {
        assert!(check.versions.is_sorted_by_key(|(minor, _)| minor), "{}", check.id);
        assert!(check.versions.iter().all(|(minor, _)| *minor <= LAST_MINOR), "{}", check.id);
        assert!(check.overrides.is_empty() || baseline.contains(&check.overrides), "{}", check.id);
    }
}

#[test]
fn each_version_has_the_checks_of_its_time() {
    let count = |checks: &Vec<Vec<CheckPod>>| checks.iter().map(Vec::len).collect::<Vec<_>>();
    let baseline = count(&TABLES.baseline);
    assert_eq!((baseline[0], baseline[33], baseline[34], baseline[35]), (11, 11, 12, 12));
    let restricted = count(&TABLES.restricted);
    let expected = [(0, 12), (7, 12), (8, 13), (18, 13), (19, 13), (21, 13), (22, 13), (23, 14), (34, 15), (35, 15)];
    for (minor, checks) in expected {
        assert_eq!(restricted[minor], checks, "v1.{minor}");
    }
}

#[test]
fn a_later_version_is_the_latest() {
    let pod = json!({"spec": restricted_pod(json!({"securityContext": {"procMount": "Unmasked"}}), json!({"hostUsers": false}))});
    let want = evaluate("restricted:latest", &pod, false).unwrap();
    assert!(!want.is_empty());
    for version in ["v1.35", "v1.36", "v1.37", "v1.9223372036854775807"] {
        assert_eq!(evaluate(&format!("restricted:{version}"), &pod, false).unwrap(), want);
        assert!(evaluate(&format!("baseline:{version}"), &pod, false).unwrap().is_empty());
    }
}

#[test]
fn privileged_asks_for_nothing_and_an_empty_pod_violates_nothing() {
    let pod = secured(json!({"privileged": true}));
    says("privileged:latest", pod, "");
    says("restricted:latest", json!({}), "");
    says("restricted:latest", Value::Null, "");
    for minor in 0..40 {
        says(&format!("restricted:v1.{minor}"), restricted_pod(json!({}), json!({})), "");
        says(&format!("baseline:v1.{minor}"), secured(json!({})), "");
    }
}

#[test]
fn violations_come_in_order_with_their_details() {
    let spec = json!({"hostPID": true, "volumes": [{"name": "v", "hostPath": {"path": "/"}}],
                      "containers": [{"name": "a", "securityContext": {"privileged": true}}]});
    says(
        "restricted:latest",
        spec.clone(),
        "host namespaces (hostPID=true), privileged (container \"a\" must not set securityContext.privileged=true), \
         allowPrivilegeEscalation != false (container \"a\" must set securityContext.allowPrivilegeEscalation=false), \
         unrestricted capabilities (container \"a\" must set securityContext.capabilities.drop=[\"ALL\"]), \
         restricted volume types (volume \"v\" uses restricted volume type \"hostPath\"), \
         runAsNonRoot != true (pod or container \"a\" must set securityContext.runAsNonRoot=true), \
         seccompProfile (pod or container \"a\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \
         \"Localhost\")",
    );
    let pod = json!({ "spec": spec });
    let reasons = evaluate("baseline:latest", &pod, false).unwrap().reasons();
    assert_eq!(reasons, "host namespaces, hostPath volumes, privileged");
}

#[test]
fn containers_are_visited_init_first_and_ephemeral_last() {
    let containers = |name: &str| json!([{"name": name, "securityContext": {"privileged": true}}]);
    let spec = json!({"ephemeralContainers": containers("e"), "containers": containers("c"), "initContainers": containers("i")});
    let want = "privileged (containers \"i\", \"c\", \"e\" must not set securityContext.privileged=true)";
    says("baseline:v1.0", spec, want);
}

#[test]
fn pods_for_windows_are_free_of_what_linux_alone_has() {
    let mut spec =
        json!({"os": {"name": "windows"}, "securityContext": {"runAsNonRoot": true}, "containers": [{"name": "a"}]});
    says("restricted:latest", spec.clone(), "");
    says("restricted:v1.25", spec.clone(), "");
    says(
        "restricted:v1.24",
        spec.clone(),
        "allowPrivilegeEscalation != false (container \"a\" must set securityContext.allowPrivilegeEscalation=false), \
         unrestricted capabilities (container \"a\" must set securityContext.capabilities.drop=[\"ALL\"]), \
         seccompProfile (pod or container \"a\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \
         \"Localhost\")",
    );
    spec["os"]["name"] = json!("linux");
    assert!(!evaluate("restricted:latest", &json!({ "spec": spec }), false).unwrap().is_empty());
}

#[test]
fn app_armor_stays_on() {
    let profile = |kind: &str| json!({"appArmorProfile": {"type": kind}});
    for kind in ["RuntimeDefault", "Localhost"] {
        let mut spec = secured(profile(kind));
        spec["securityContext"] = profile(kind);
        says("baseline:latest", spec, "");
    }
    let mut spec = secured(profile("Unconfined"));
    says(
        "baseline:v1.0",
        spec.clone(),
        "forbidden AppArmor profile (container \"a\" must not set AppArmor profile type to \"Unconfined\")",
    );
    spec["securityContext"] = profile("");
    says(
        "baseline:latest",
        spec,
        "forbidden AppArmor profiles (pod and container \"a\" must not set AppArmor profile type to \"\", \"Unconfined\")",
    );
}

fn annotated(annotations: Value, spec: Value) -> Value {
    json!({"metadata": {"annotations": annotations}, "spec": spec})
}

#[test]
fn app_armor_stays_on_by_annotation() {
    let key = |name: &str| format!("container.apparmor.security.beta.kubernetes.io/{name}");
    let details = |annotations: Value| {
        let pod = annotated(annotations, json!({"containers": [{"name": "a"}]}));
        evaluate("baseline:latest", &pod, false).unwrap().details()
    };
    for value in [json!("runtime/default"), json!("localhost/x"), json!(""), Value::Null] {
        assert_eq!(details(json!({key("a"): value, "other": "unconfined"})), "");
    }
    assert_eq!(
        details(json!({key("gone"): "unconfined"})),
        "forbidden AppArmor profile (annotation must not set AppArmor profile type to \
         \"container.apparmor.security.beta.kubernetes.io/gone=\"unconfined\"\")"
    );
    assert_eq!(
        details(json!({key("b"): "x", key("a"): "y\n"})),
        "forbidden AppArmor profiles (annotations must not set AppArmor profile type to \
         \"container.apparmor.security.beta.kubernetes.io/a=\"y\\n\"\", \
         \"container.apparmor.security.beta.kubernetes.io/b=\"x\"\")"
    );
}

#[test]
fn the_annotation_of_a_new_pod_counts_as_the_field_that_the_api_server_makes_of_it() {
    let annotation = json!({"container.apparmor.security.beta.kubernetes.io/a": "unconfined"});
    let details = |spec: Value, is_new| {
        evaluate("baseline:latest", &annotated(annotation.clone(), spec), is_new).unwrap().details()
    };
    let by = |who: &str, more: &str| {
        format!(
            "forbidden AppArmor profile{} ({who} must not set AppArmor profile type to {more}\
             \"container.apparmor.security.beta.kubernetes.io/a=\"unconfined\"\")",
            if more.is_empty() { "" } else { "s" }
        )
    };
    let bare = json!({"containers": [{"name": "b"}, {"name": "a"}]});
    assert_eq!(details(bare.clone(), true), by("container \"a\" and annotation", "\"Unconfined\", "));
    assert_eq!(details(bare, false), by("annotation", ""));
    let windows = json!({"os": {"name": "windows"}, "containers": [{"name": "a"}]});
    assert_eq!(details(windows, true), by("annotation", ""));
    let of_pod = json!({"securityContext": {"appArmorProfile": {"type": "Unconfined"}}, "containers": [{"name": "a"}]});
    assert_eq!(details(of_pod, true), by("pod and annotation", "\"Unconfined\", "));
    let own = secured(json!({"appArmorProfile": {"type": "RuntimeDefault"}}));
    assert_eq!(details(own, true), by("annotation", ""));
}

#[test]
fn no_capability_is_added_to_the_default_set() {
    let add = |capabilities: Value| secured(json!({"capabilities": {"add": capabilities}}));
    for allowed in [json!(["CHOWN", "NET_BIND_SERVICE", "SYS_CHROOT", "MKNOD"]), json!([]), Value::Null] {
        says("baseline:latest", add(allowed), "");
    }
    let want = "non-default capabilities (container \"a\" must not include \"NET_ADMIN\", \"NET_RAW\", \"chown\" in \
                securityContext.capabilities.add)";
    says("baseline:v1.0", add(json!(["chown", "NET_RAW", "CHOWN", "NET_ADMIN", "NET_RAW"])), want);
}

#[test]
fn namespaces_of_the_host_are_not_shared() {
    says("baseline:latest", json!({"hostNetwork": false, "hostPID": null, "hostIPC": false}), "");
    let all = json!({"hostIPC": true, "hostPID": true, "hostNetwork": true});
    says("baseline:v1.0", all, "host namespaces (hostNetwork=true, hostPID=true, hostIPC=true)");
}

#[test]
fn paths_of_the_host_are_no_volumes() {
    let path = |name: &str| json!({"name": name, "hostPath": {"path": "/"}});
    says("baseline:v1.0", json!({"volumes": [path("v")]}), "hostPath volumes (volume \"v\")");
    let volumes = json!({"volumes": [path("z"), {"name": "n", "nfs": {}}, path("a"), {"name": "h", "hostPath": null}]});
    says("baseline:latest", volumes, "hostPath volumes (volumes \"z\", \"a\")");
}

#[test]
fn ports_of_the_host_are_not_taken() {
    let container = |name: &str, ports: &[i64]| {
        let ports: Vec<Value> = ports.iter().map(|port| json!({"containerPort": 1, "hostPort": port})).collect();
        json!({"name": name, "ports": ports})
    };
    says(
        "baseline:latest",
        json!({"containers": [container("a", &[0]), {"name": "b", "ports": [{"hostPort": null}]}]}),
        "",
    );
    says(
        "baseline:v1.0",
        json!({"containers": [container("a", &[80])]}),
        "hostPort (container \"a\" uses hostPort 80)",
    );
    says(
        "baseline:latest",
        json!({"initContainers": [container("i", &[9])], "containers": [container("a", &[80, 443]), container("b", &[443])]}),
        "hostPort (containers \"i\", \"a\", \"b\" use hostPorts 443, 80, 9)",
    );
}

#[test]
fn probes_and_hooks_name_no_host() {
    let http = |host: &str| json!({"httpGet": {"port": 1, "host": host}});
    let tcp = |host: &str| json!({"tcpSocket": {"port": 1, "host": host}});
    let harmless =
        json!({"containers": [{"name": "a", "livenessProbe": http(""), "readinessProbe": {"grpc": {"port": 1}}}]});
    says("baseline:latest", harmless, "");
    let one = json!({"containers": [{"name": "a", "startupProbe": tcp("h")}]});
    let want = "probe or lifecycle host (container \"a\" uses probe or lifecycle host \"h\")";
    says("baseline:v1.34", one.clone(), want);
    says("baseline:v1.33", one, "");
    says(
        "restricted:latest",
        restricted_pod(
            json!({"name": "z", "livenessProbe": http("h2"), "readinessProbe": tcp("h1"),
                   "lifecycle": {"postStart": http("h3"), "preStop": tcp("h1")}}),
            json!({"initContainers": [restricted_pod(json!({"startupProbe": http("h9")}), json!({}))["containers"][0]]}),
        ),
        "probe or lifecycle host (containers \"a\", \"z\" use probe or lifecycle hosts \"h1\", \"h2\", \"h3\", \"h9\")",
    );
}

#[test]
fn proc_stays_masked() {
    let mut spec = restricted_pod(json!({"securityContext": {"procMount": "Unmasked"}}), json!({}));
    let want = "procMount (container \"a\" must not set securityContext.procMount to \"Unmasked\")";
    for policy in ["baseline:v1.0", "baseline:latest", "restricted:v1.34", "restricted:latest"] {
        says(policy, spec.clone(), want);
    }
    spec["hostUsers"] = json!(false);
    says("baseline:latest", spec.clone(), "");
    for policy in ["baseline:v1.34", "restricted:v1.34", "restricted:latest"] {
        says(policy, spec.clone(), want);
    }
    for allowed in [json!("Default"), Value::Null] {
        says("restricted:latest", restricted_pod(json!({"securityContext": {"procMount": allowed}}), json!({})), "");
    }
    let empty = "procMount (container \"a\" must not set securityContext.procMount to \"\")";
    says("baseline:latest", secured(json!({"procMount": ""})), empty);
}

#[test]
fn selinux_types_are_those_of_containers() {
    let options = |options: Value| json!({"seLinuxOptions": options});
    for kind in ["", "container_t", "container_init_t", "container_kvm_t"] {
        says("baseline:v1.0", secured(options(json!({"type": kind, "level": "s0"}))), "");
    }
    let engine = secured(options(json!({"type": "container_engine_t"})));
    let want =
        "seLinuxOptions (container \"a\" set forbidden securityContext.seLinuxOptions: type \"container_engine_t\")";
    says("baseline:v1.30", engine.clone(), want);
    says("baseline:v1.31", engine, "");
    let mut spec = secured(options(json!({"type": "b", "role": "r"})));
    spec["securityContext"] = options(json!({"type": "a", "user": "u"}));
    says(
        "baseline:latest",
        spec,
        "seLinuxOptions (pod and container \"a\" set forbidden securityContext.seLinuxOptions: types \"a\", \"b\"; user may \
         not be set; role may not be set)",
    );
    let user = secured(options(json!({"user": "u"})));
    let want = "seLinuxOptions (container \"a\" set forbidden securityContext.seLinuxOptions: user may not be set)";
    says("baseline:latest", user, want);
}

#[test]
fn seccomp_stays_on_by_annotation_up_to_1_18() {
    let (of_pod, of_a) =
        ("seccomp.security.alpha.kubernetes.io/pod", "container.seccomp.security.alpha.kubernetes.io/a");
    let details = |policy: &str, annotations: Value| {
        let pod = annotated(annotations, json!({"containers": [{"name": "a"}]}));
        evaluate(policy, &pod, false).unwrap().details()
    };
    for value in ["runtime/default", "docker/default", "localhost/x"] {
        assert_eq!(details("baseline:v1.18", json!({of_pod: value, of_a: value})), "");
    }
    let gone = "container.seccomp.security.alpha.kubernetes.io/gone";
    assert_eq!(details("baseline:v1.0", json!({gone: "unconfined"})), "");
    assert_eq!(
        details("baseline:v1.18", json!({of_pod: "unconfined", of_a: ""})),
        "seccompProfile (forbidden annotations container.seccomp.security.alpha.kubernetes.io/a=\"\", \
         seccomp.security.alpha.kubernetes.io/pod=\"unconfined\")"
    );
    let one = "seccompProfile (forbidden annotation seccomp.security.alpha.kubernetes.io/pod=\"unconfined\")";
    assert_eq!(details("baseline:v1.0", json!({of_pod: "unconfined"})), one);
    assert_eq!(details("baseline:v1.19", json!({of_pod: "unconfined"})), "");
    assert!(details("restricted:v1.18", json!({of_pod: "unconfined"})).starts_with(one.split(" (").next().unwrap()));
}

#[test]
fn seccomp_stays_on_by_field_since_1_19() {
    let profile = |kind: &str| json!({"seccompProfile": {"type": kind}});
    let mut spec = secured(profile("Unconfined"));
    says("baseline:v1.18", spec.clone(), "");
    let want = "seccompProfile (container \"a\" must not set securityContext.seccompProfile.type to \"Unconfined\")";
    says("baseline:v1.19", spec.clone(), want);
    spec["securityContext"] = profile("");
    let want = "seccompProfile (pod and container \"a\" must not set securityContext.seccompProfile.type to \"\", \
                \"Unconfined\")";
    says("baseline:latest", spec, want);
    for kind in ["RuntimeDefault", "Localhost"] {
        says("baseline:latest", secured(profile(kind)), "");
    }
}

#[test]
fn kernel_parameters_are_the_safe_ones_of_their_version() {
    let sysctls = |names: &[&str]| {
        let sysctls: Vec<Value> = names.iter().map(|name| json!({"name": name, "value": "1"})).collect();
        json!({"securityContext": {"sysctls": sysctls}})
    };
    for (since, name) in [
        (0, "kernel.shm_rmid_forced"),
        (0, "net.ipv4.ip_local_port_range"),
        (0, "net.ipv4.tcp_syncookies"),
        (0, "net.ipv4.ping_group_range"),
        (0, "net.ipv4.ip_unprivileged_port_start"),
        (27, "net.ipv4.ip_local_reserved_ports"),
        (29, "net.ipv4.tcp_keepalive_time"),
        (29, "net.ipv4.tcp_fin_timeout"),
        (29, "net.ipv4.tcp_keepalive_intvl"),
        (29, "net.ipv4.tcp_keepalive_probes"),
        (32, "net.ipv4.tcp_rmem"),
        (32, "net.ipv4.tcp_wmem"),
        (37, "net.ipv4.tcp_slow_start_after_idle"),
        (37, "net.ipv4.tcp_notsent_lowat"),
    ] {
        says(&format!("baseline:v1.{since}"), sysctls(&[name]), "");
        says("baseline:latest", sysctls(&[name]), "");
        if since > 0 {
            let before = format!("baseline:v1.{}", since - 1);
            says(&before, sysctls(&[name]), &format!("forbidden sysctls ({name})"));
        }
    }
    says("baseline:latest", sysctls(&["z", "net.ipv4.tcp_rmem", "a", "z"]), "forbidden sysctls (z, a, z)");
}

#[test]
fn the_latest_version_is_that_of_the_emulated_release() {
    let pod = json!({"spec": {"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_notsent_lowat", "value": "1"}]}}});
    let user_namespace =
        restricted_pod(json!({}), json!({"hostUsers": false, "securityContext": {"runAsNonRoot": null}}));
    let user_namespace = json!({ "spec": user_namespace });
    for (release, version, pod, is_allowed) in [
        (37, "baseline:latest", &pod, true),
        (37, "baseline:v1.37", &pod, true),
        (37, "baseline:v1.99", &pod, true),
        (37, "baseline:v1.36", &pod, false),
        (36, "baseline:latest", &pod, false),
        (36, "baseline:v1.36", &pod, false),
        (36, "baseline:v1.37", &pod, false),
        (36, "restricted:latest", &user_namespace, true),
        (34, "restricted:latest", &user_namespace, false),
        (34, "restricted:v1.35", &user_namespace, false),
    ] {
        let found = evaluate_in(release, version, pod, false).unwrap();
        assert_eq!(found.is_empty(), is_allowed, "{version} in 1.{release}: {}", found.details());
    }
}

#[test]
fn windows_host_processes_are_refused() {
    let options = |is: Value| json!({"windowsOptions": {"hostProcess": is}});
    says("baseline:latest", secured(options(json!(false))), "");
    let mut spec = secured(options(json!(true)));
    let of_container = "hostProcess (container \"a\" must not set securityContext.windowsOptions.hostProcess=true)";
    says("baseline:v1.0", spec.clone(), of_container);
    spec["securityContext"] = options(json!(true));
    let of_both = "hostProcess (pod and container \"a\" must not set securityContext.windowsOptions.hostProcess=true)";
    says("baseline:latest", spec, of_both);
}

#[test]
fn a_field_of_the_wrong_type_is_an_error_and_never_passes() {
    for container in [
        json!("c"),
        json!(1),
        json!({"securityContext": "x"}),
        json!({"securityContext": {"privileged": "true"}}),
        json!({"securityContext": {"allowPrivilegeEscalation": 0}}),
        json!({"securityContext": {"capabilities": []}}),
        json!({"securityContext": {"capabilities": {"add": "ALL"}}}),
        json!({"securityContext": {"capabilities": {"drop": [1]}}}),
        json!({"securityContext": {"procMount": true}}),
        json!({"securityContext": {"runAsUser": "0"}}),
        json!({"securityContext": {"runAsUser": 0.0}}),
        json!({"securityContext": {"runAsNonRoot": "true"}}),
        json!({"securityContext": {"seLinuxOptions": {"user": 1}}}),
        json!({"securityContext": {"seccompProfile": "RuntimeDefault"}}),
        json!({"securityContext": {"appArmorProfile": {"type": 1}}}),
        json!({"securityContext": {"windowsOptions": {"hostProcess": "true"}}}),
        json!({"ports": {}}),
        json!({"ports": ["80"]}),
        json!({"ports": [{"hostPort": "80"}]}),
        json!({"livenessProbe": []}),
        json!({"lifecycle": {"preStop": {"httpGet": {"host": 1}}}}),
        json!({"name": 1}),
    ] {
        let pod = json!({"spec": {"containers": [container]}});
        assert_eq!(evaluate("restricted:latest", &pod, true), Err(WrongType), "{pod}");
    }
    for pod in [
        json!([]),
        json!({"spec": "x"}),
        json!({"spec": {"containers": {}}}),
        json!({"spec": {"initContainers": 1}}),
        json!({"spec": {"volumes": ["v"]}}),
        json!({"spec": {"hostPID": "true"}}),
        json!({"spec": {"hostUsers": 0}}),
        json!({"spec": {"os": "windows"}}),
        json!({"spec": {"securityContext": []}}),
        json!({"spec": {"securityContext": {"sysctls": {}}}}),
        json!({"spec": {"securityContext": {"sysctls": [{"name": 1}]}}}),
        json!({"metadata": {"annotations": []}}),
        json!({"metadata": {"annotations": {"container.apparmor.security.beta.kubernetes.io/a": 1}}}),
    ] {
        assert_eq!(evaluate("restricted:latest", &pod, true), Err(WrongType), "{pod}");
    }
}
