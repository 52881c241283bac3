//! The levels of Pod Security and policies with the same intent: where both models have a rule, they agree.

use super::*;
use crate::plugins::pod_security;

/// A policy with the intent of the level baseline.
fn baseline() -> Value {
    json!({
        "privileged": false, "hostNetwork": false, "hostPID": false, "hostIPC": false, "hostPorts": [],
        "allowedCapabilities": [
            "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
            "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
        ],
        "volumes": [
            "configMap", "emptyDir", "projected", "secret", "downwardAPI", "persistentVolumeClaim", "csi", "ephemeral", "nfs",
            "iscsi",
        ],
    })
}

/// A policy with the intent of the level restricted.
fn restricted() -> Value {
    let mut policy = baseline();
    merge(
        &mut policy,
        json!({
            "allowPrivilegeEscalation": false, "requiredDropCapabilities": ["ALL"], "allowedCapabilities": ["NET_BIND_SERVICE"],
            "volumes": ["configMap", "emptyDir", "projected", "secret", "downwardAPI", "persistentVolumeClaim", "csi", "ephemeral"],
            "runAsUser": {"rule": "MustRunAsNonRoot"},
        }),
    );
    policy
}

fn with_seccomp(spec: Value) -> Value {
    let mut policy = policy("p", spec);
    policy["metadata"]["annotations"] = json!({
        "seccomp.security.alpha.kubernetes.io/allowedProfileNames": "runtime/default,localhost/*",
    });
    policy
}

/// A pod that the level restricted allows, changed by the fields of its spec and of its container's security context.
fn strict(spec: Value, security: Value) -> Value {
    let mut container = json!({
        "allowPrivilegeEscalation": false, "runAsNonRoot": true, "capabilities": {"drop": ["ALL"]},
    });
    merge(&mut container, security);
    let mut pod = pod(json!({
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "c", "image": "nginx", "securityContext": container}],
    }));
    merge(&mut pod["spec"], spec);
    pod
}

#[tokio::test]
async fn both_models_agree() {
    let volume = |source: &str| json!({"volumes": [{"name": "v", (source): {}}]});
    let port = json!({"containers": [{"name": "c", "image": "nginx", "ports": [{"containerPort": 80, "hostPort": 80}],
        "securityContext": {"allowPrivilegeEscalation": false, "runAsNonRoot": true, "capabilities": {"drop": ["ALL"]}}}]});
    let none = || json!({});
    for (spec, security) in [
        (none(), none()),
        (none(), json!({"privileged": true, "allowPrivilegeEscalation": true})),
        (none(), json!({"privileged": false})),
        (json!({"hostNetwork": true}), none()),
        (json!({"hostPID": true}), none()),
        (json!({"hostIPC": true}), none()),
        (port, none()),
        (volume("hostPath"), none()),
        (volume("secret"), none()),
        (volume("nfs"), none()),
        (volume("csi"), none()),
        (none(), json!({"allowPrivilegeEscalation": true})),
        (none(), json!({"capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}})),
        (none(), json!({"capabilities": {"drop": ["ALL"], "add": ["CHOWN"]}})),
        (none(), json!({"capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]}})),
        (none(), json!({"runAsNonRoot": false})),
        (none(), json!({"runAsUser": 0, "runAsNonRoot": null})),
        (none(), json!({"runAsUser": 1000})),
        (none(), json!({"procMount": "Unmasked"})),
        (none(), json!({"procMount": "Default"})),
    ] {
        let pod = strict(spec, security);
        for (level, policy) in [("baseline", baseline()), ("restricted", restricted())] {
            let is_admitted = reviewed(with_seccomp(policy), pod.clone()).await.is_ok();
            assert_eq!(is_admitted, pod_security::allows(level, &pod), "{level}: {pod}");
        }
    }
}
