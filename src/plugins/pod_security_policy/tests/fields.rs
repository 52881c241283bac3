//! The fields of a policy, and what a policy sets or refuses because of them.

use super::*;

#[tokio::test]
async fn privileged_containers_need_a_privileged_policy() {
    let rules = || json!({"privileged": false});
    let text = "securityContext.privileged: Invalid value: true: Privileged containers are not allowed";
    is_refused(rules(), pod_with(json!({"privileged": true})), &format!("spec.containers[0].{text}")).await;
    for list in ["initContainers", "ephemeralContainers"] {
        let containers = json!([{"name": "i"}, {"name": "j", "securityContext": {"privileged": true}}]);
        is_refused(rules(), pod(json!({list: containers})), &format!("spec.{list}[1].{text}")).await;
    }
    stays(rules(), pod_with(json!({"privileged": false}))).await;
    stays(json!({"privileged": true}), pod_with(json!({"privileged": true}))).await;
}

#[tokio::test]
async fn host_namespaces_need_permission() {
    for (field, text) in [
        ("hostNetwork", "Host network is not allowed to be used"),
        ("hostPID", "Host PID is not allowed to be used"),
        ("hostIPC", "Host IPC is not allowed to be used"),
    ] {
        let want = format!("spec.securityContext.{field}: Invalid value: true: {text}");
        is_refused(json!({field: false}), pod(json!({field: true})), &want).await;
        stays(json!({field: false}), pod(json!({field: false}))).await;
        stays(json!({field: true}), pod(json!({field: true}))).await;
    }
}

fn ports(ports: &[i32]) -> Value {
    let ports: Vec<_> = ports.iter().map(|port| json!({"containerPort": 80, "hostPort": port})).collect();
    pod(json!({"containers": [{"name": "c", "ports": ports}]}))
}

#[tokio::test]
async fn host_ports_must_be_in_a_range() {
    let ranges = || json!({"hostPorts": [{"min": 8080, "max": 8090}, {"min": 9000, "max": 9000}]});
    stays(ranges(), ports(&[8080, 8085, 8090, 9000, 0])).await;
    let text = |port: i32, allowed: &str| {
        format!(
            "spec.containers[0].hostPort: Invalid value: {port}: Host port {port} is not allowed to be used. Allowed ports: [{allowed}]"
        )
    };
    let allowed = "8080-8090,9000";
    is_refused(ranges(), ports(&[80]), &text(80, allowed)).await;
    is_refused(ranges(), ports(&[8080, 8091, 9001]), &[text(8091, allowed), text(9001, allowed)].join(" ")).await;
    for none in [json!([]), Value::Null] {
        is_refused(json!({"hostPorts": none}), ports(&[80]), &text(80, "")).await;
        stays(json!({"hostPorts": none}), ports(&[0])).await;
    }
    // The API of 1.19 accepts a range without ports.
    is_refused(json!({"hostPorts": [{"min": 90, "max": 80}]}), ports(&[85]), &text(85, "90-80")).await;
}

fn capabilities(add: &[&str], drop: &[&str]) -> Value {
    pod_with(json!({"capabilities": {"add": add, "drop": drop}}))
}

/// The lists `defaultAddCapabilities`, `requiredDropCapabilities`, `allowedCapabilities`.
fn capability_rules(default_add: &[&str], required_drop: &[&str], allowed: &[&str]) -> Value {
    json!({
        "defaultAddCapabilities": default_add, "requiredDropCapabilities": required_drop, "allowedCapabilities": allowed
    })
}

#[tokio::test]
async fn capabilities_are_added_and_dropped() {
    let rules = || capability_rules(&["B", "A"], &["D", "C"], &["X"]);
    becomes(rules(), pod(json!({})), pod_with(json!({"capabilities": {"add": ["A", "B"], "drop": ["C", "D"]}}))).await;
    becomes(rules(), capabilities(&["X"], &[]), capabilities(&["A", "B", "X"], &["C", "D"])).await;
    // A default that the container drops is not added.
    becomes(rules(), capabilities(&[], &["B"]), capabilities(&["A"], &["B", "C", "D"])).await;
    // ALL does not contain the required drops.
    becomes(
        capability_rules(&[], &["C"], &[]),
        pod_with(json!({"capabilities": {"drop": ["ALL"]}})),
        pod_with(json!({"capabilities": {"drop": ["ALL", "C"]}})),
    )
    .await;
    // Sets that are equal keep their order.
    stays(rules(), capabilities(&["B", "A"], &["D", "C"])).await;
    stays(rules(), capabilities(&["X", "B", "A"], &["Y", "D", "C"])).await;
    stays(capability_rules(&[], &[], &[]), pod(json!({}))).await;
    stays(capability_rules(&[], &[], &[]), pod_with(json!({"capabilities": {}}))).await;
}

#[tokio::test]
async fn other_capabilities_may_not_be_added() {
    let text = |capability: &str| {
        format!(
            "spec.containers[0].securityContext.capabilities.add: Invalid value: {capability:?}: capability may not be added"
        )
    };
    let rules = || capability_rules(&[], &["C"], &["X"]);
    is_refused(rules(), capabilities(&["SYS_TIME"], &[]), &text("SYS_TIME")).await;
    is_refused(rules(), capabilities(&["C"], &[]), &text("C")).await;
    is_refused(rules(), capabilities(&["x"], &[]), &text("x")).await;
    is_refused(rules(), capabilities(&["Z", "X", "Y"], &["C"]), &[text("Z"), text("Y")].join(" ")).await;
    // The set that the container gets is sorted.
    is_refused(rules(), capabilities(&["Z", "X", "Y"], &[]), &[text("Y"), text("Z")].join(" ")).await;
    stays(capability_rules(&[], &[], &["*"]), capabilities(&["SYS_TIME"], &["Y"])).await;
    // An allowed capability is no default, and a default is allowed.
    stays(capability_rules(&[], &[], &["X"]), capabilities(&["X"], &[])).await;
    stays(capability_rules(&["A"], &[], &[]), capabilities(&["A"], &[])).await;
}

#[tokio::test]
async fn the_root_filesystem_is_read_only() {
    let rules = || json!({"readOnlyRootFilesystem": true});
    becomes(rules(), pod(json!({})), pod_with(json!({"readOnlyRootFilesystem": true}))).await;
    stays(rules(), pod_with(json!({"readOnlyRootFilesystem": true}))).await;
    let text = "spec.containers[0].securityContext.readOnlyRootFilesystem: Invalid value: false: ReadOnlyRootFilesystem must be set to true";
    is_refused(rules(), pod_with(json!({"readOnlyRootFilesystem": false})), text).await;
    stays(json!({"readOnlyRootFilesystem": false}), pod_with(json!({"readOnlyRootFilesystem": false}))).await;
}

#[tokio::test]
async fn privilege_escalation_is_set_and_refused() {
    let (none, yes, no) = (
        || pod(json!({})),
        || pod_with(json!({"allowPrivilegeEscalation": true})),
        || pod_with(json!({"allowPrivilegeEscalation": false})),
    );
    let text = "spec.containers[0].securityContext.allowPrivilegeEscalation: Invalid value: true: Allowing privilege escalation \
                for containers is not allowed";
    let rules = |allow: Value, default: Value| json!({"allowPrivilegeEscalation": allow, "defaultAllowPrivilegeEscalation": default});
    becomes(rules(json!(false), json!(null)), none(), no()).await;
    becomes(rules(json!(false), json!(false)), none(), no()).await;
    becomes(rules(json!(true), json!(false)), none(), no()).await;
    becomes(rules(json!(true), json!(true)), none(), yes()).await;
    stays(rules(json!(true), json!(null)), none()).await;
    // Missing means allowed, as in the defaults of the old API.
    stays(rules(json!(null), json!(null)), none()).await;
    stays(rules(json!(null), json!(null)), yes()).await;
    stays(rules(json!(true), json!(false)), yes()).await;
    stays(rules(json!(true), json!(true)), no()).await;
    is_refused(rules(json!(false), json!(null)), yes(), text).await;
    is_refused(rules(json!(false), json!(true)), none(), text).await;
    // A privileged container gets the default too.
    becomes(
        rules(json!(false), json!(null)),
        pod_with(json!({"privileged": true})),
        pod_with(json!({"privileged": true, "allowPrivilegeEscalation": false})),
    )
    .await;
}

#[tokio::test]
async fn only_the_default_proc_mount_is_allowed() {
    let text =
        "spec.containers[0].securityContext.procMount: Invalid value: \"Unmasked\": ProcMountType is not allowed";
    is_refused(json!({}), pod_with(json!({"procMount": "Unmasked"})), text).await;
    stays(json!({}), pod_with(json!({"procMount": "Default"}))).await;
    stays(json!({"allowedProcMountTypes": ["Default", "Unmasked"]}), pod_with(json!({"procMount": "Unmasked"}))).await;
    let text = "spec.containers[0].securityContext.procMount: Invalid value: \"Default\": ProcMountType is not allowed";
    is_refused(json!({"allowedProcMountTypes": ["Unmasked"]}), pod(json!({})), text).await;
}

fn sysctls(names: &[&str]) -> Value {
    let sysctls: Vec<_> = names.iter().map(|name| json!({"name": name, "value": "1"})).collect();
    pod(json!({"securityContext": {"sysctls": sysctls}}))
}

#[tokio::test]
async fn sysctls_are_safe_or_allowed() {
    let safe = [
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        // Safe since 1.22.
        "net.ipv4.ip_unprivileged_port_start",
    ];
    stays(json!({}), sysctls(&safe)).await;
    let unsafe_text = |index: usize, name: &str| {
        format!("pod.spec.securityContext.sysctls[{index}]: Forbidden: unsafe sysctl {name:?} is not allowed")
    };
    let text = |index: usize, name: &str| {
        format!("pod.spec.securityContext.sysctls[{index}]: Forbidden: sysctl {name:?} is not allowed")
    };
    is_refused(json!({}), sysctls(&[safe[0], "kernel.msgmax"]), &unsafe_text(1, "kernel.msgmax")).await;
    let rules = || json!({"allowedUnsafeSysctls": ["kernel.msg*", "a.b"], "forbiddenSysctls": ["kernel.msgmnb", "kernel.shm_*"]});
    stays(rules(), sysctls(&["kernel.msgmax", "kernel.msg", "a.b", safe[1]])).await;
    is_refused(
        rules(),
        sysctls(&["a.b.c", "kernel.msgmnb", safe[0]]),
        &[unsafe_text(0, "a.b.c"), text(1, "kernel.msgmnb"), text(2, safe[0])].join(" "),
    )
    .await;
    is_refused(
        json!({"forbiddenSysctls": ["*"]}),
        sysctls(&[safe[1], "x"]),
        &[text(0, safe[1]), text(1, "x")].join(" "),
    )
    .await;
    stays(json!({"allowedUnsafeSysctls": ["*"]}), sysctls(&["x"])).await;
}

#[tokio::test]
async fn the_runtime_class_is_set_and_refused() {
    let rules = || json!({"runtimeClass": {"allowedRuntimeClassNames": ["ra", "rb"], "defaultRuntimeClassName": "ra"}});
    let of = |name: &str| pod(json!({"runtimeClassName": name}));
    becomes(rules(), pod(json!({})), of("ra")).await;
    stays(rules(), of("rb")).await;
    is_refused(rules(), of("rx"), "spec.runtimeClassName: Invalid value: \"rx\"").await;
    stays(json!({"runtimeClass": {"allowedRuntimeClassNames": ["*"]}}), of("rx")).await;
    stays(json!({"runtimeClass": {}}), pod(json!({}))).await;
    is_refused(json!({"runtimeClass": {}}), of("rx"), "spec.runtimeClassName: Invalid value: \"rx\"").await;
    stays(json!({}), of("rx")).await;
}

#[tokio::test]
async fn se_linux_options_are_set_and_compared() {
    let options = || json!({"level": "s0:c1,c0", "role": "r", "type": "t", "user": "u"});
    let rules = || json!({"seLinux": {"rule": "MustRunAs", "seLinuxOptions": options()}});
    let of_pod = |options: Value| pod(json!({"securityContext": {"seLinuxOptions": options}}));
    becomes(rules(), pod(json!({})), of_pod(options())).await;
    stays(rules(), of_pod(options())).await;
    stays(rules(), of_pod(json!({"level": "s0:c0,c1", "role": "r", "type": "t", "user": "u"}))).await;
    let texts = |place: &str, values: [&str; 4]| {
        let rows = [("level", "s0:c1,c0"), ("role", "r"), ("type", "t"), ("user", "u")].into_iter().zip(values);
        let texts = rows.map(|((field, must), value)| {
            format!("{place}.seLinuxOptions.{field}: Invalid value: {value:?}: must be {must}")
        });
        texts.collect::<Vec<_>>().join(" ")
    };
    let bad = || json!({"level": "s0:c0,c2", "role": "x", "type": "y", "user": "z"});
    let values = ["s0:c0,c2", "x", "y", "z"];
    let (of_spec, of_container) = ("spec.securityContext", "spec.containers[0].securityContext");
    // A container without options has those of the pod.
    is_refused(rules(), of_pod(bad()), &[texts(of_spec, values), texts(of_container, values)].join(" ")).await;
    is_refused(rules(), pod_with(json!({"seLinuxOptions": bad()})), &texts(of_container, values)).await;
    is_refused(rules(), pod_with(json!({"seLinuxOptions": {}})), &texts(of_container, [""; 4])).await;
    stays(json!({}), of_pod(bad())).await;
}

#[tokio::test]
async fn violations_have_the_order_of_kube_apiserver() {
    let rules = json!({
        "privileged": false, "hostNetwork": false, "hostPID": false, "hostIPC": false, "volumes": ["secret"],
        "readOnlyRootFilesystem": true, "allowedCapabilities": [], "hostPorts": [],
        "runAsUser": {"rule": "MustRunAs", "ranges": [{"min": 5, "max": 10}]}
    });
    let security =
        || json!({"runAsUser": 1, "privileged": true, "capabilities": {"add": ["X"]}, "readOnlyRootFilesystem": false});
    let given = pod(json!({
        "hostNetwork": true, "hostPID": true, "hostIPC": true, "volumes": [{"name": "v", "hostPath": {"path": "/"}}],
        "containers": [{"name": "c", "securityContext": security(), "ports": [{"containerPort": 80, "hostPort": 80}]}],
        "initContainers": [{"name": "i", "securityContext": security()}]
    }));
    let of = |place: &str, port: &str| {
        format!(
            "spec.{place}.securityContext.runAsUser: Invalid value: 1: must be in the ranges: [{{5 10}}] \
             spec.{place}.securityContext.privileged: Invalid value: true: Privileged containers are not allowed \
             spec.{place}.securityContext.capabilities.add: Invalid value: \"X\": capability may not be added \
             {port}spec.{place}.securityContext.readOnlyRootFilesystem: Invalid value: false: ReadOnlyRootFilesystem must be set to true"
        )
    };
    let port =
        "spec.containers[0].hostPort: Invalid value: 80: Host port 80 is not allowed to be used. Allowed ports: [] ";
    let want = format!(
        "spec.securityContext.hostNetwork: Invalid value: true: Host network is not allowed to be used \
         spec.securityContext.hostPID: Invalid value: true: Host PID is not allowed to be used \
         spec.securityContext.hostIPC: Invalid value: true: Host IPC is not allowed to be used \
         spec.volumes[0]: Invalid value: \"hostPath\": hostPath volumes are not allowed to be used {} {}",
        of("initContainers[0]", ""),
        of("containers[0]", port)
    );
    is_refused(rules, given, &want).await;
}
