//! PodSecurityPolicy, with the example policies of the documentation of Kubernetes 1.24, and PodSecurity decide about the fixtures of
//! Pod Security's own tests.

use crate::harness::{Proxy, User, go_module, post};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The release of the fixtures.
const RELEASE: &str = "v1.35";

/// Fixtures that the two models judge differently: the start of their paths, the rest of their names, and who refuses them.
type Difference = (&'static str, &'static [&'static str], &'static str);

const ONLY_LEVEL: &str = "only the level refuses";
const ONLY_POLICY: &str = "only the policy refuses";
const VALIDATION: &str = "the validation refuses";

const DIFFERENT: [Difference; 18] = [
    // The validation of today allows an unmasked /proc only in a user namespace. A policy knows no user namespaces.
    ("baseline/fail/procmount", &["0", "1"], VALIDATION),
    ("restricted/fail/procmount", &["0", "1"], VALIDATION),
    ("baseline/pass/procmount", &["1"], ONLY_POLICY),
    // No policy has a rule for the hosts of probes and lifecycle handlers.
    ("baseline/fail/hostprobesandhostlifecycle", &["0", "1", "2", "3", "4"], ONLY_LEVEL),
    ("restricted/fail/hostprobesandhostlifecycle", &["0", "1", "2", "3", "4"], ONLY_LEVEL),
    // The examples leave SELinux alone, and the example for baseline seccomp.
    ("baseline/fail/selinuxoptions", &["0", "1", "2", "3", "4"], ONLY_LEVEL),
    ("restricted/fail/selinuxoptions", &["0", "1", "2", "3", "4"], ONLY_LEVEL),
    ("baseline/fail/seccompprofile_baseline", &["0", "1", "2"], ONLY_LEVEL),
    // The examples allow only the default profile of AppArmor, and that for restricted only the default one of seccomp.
    ("baseline/pass/apparmorprofile", &["0"], ONLY_POLICY),
    ("restricted/pass/apparmorprofile", &["0"], ONLY_POLICY),
    ("restricted/pass/seccompprofile_restricted", &["1", "2"], ONLY_POLICY),
    // Some sysctls became safe after the last policy.
    ("baseline/pass/sysctls", &["1"], ONLY_POLICY),
    ("restricted/pass/sysctls", &["1"], ONLY_POLICY),
    // A policy sets what the pod leaves open.
    ("restricted/fail/allowprivilegeescalation", &["2", "3"], ONLY_LEVEL),
    ("restricted/fail/capabilities_restricted", &["0", "1", "2"], ONLY_LEVEL),
    ("restricted/fail/runasnonroot", &["0"], ONLY_LEVEL),
    // The example for restricted allows no container to add a capability.
    ("restricted/pass/capabilities_restricted", &["0"], ONLY_POLICY),
    // A policy knows no operating systems: it asks for a seccomp profile.
    ("restricted/pass/base", &["_windows"], ONLY_POLICY),
];

/// The volumes of the example policies for both levels.
const VOLUMES: [&str; 8] =
    ["configMap", "emptyDir", "projected", "secret", "downwardAPI", "csi", "persistentVolumeClaim", "ephemeral"];

/// An example policy of the documentation.
fn policy(level: &str) -> Value {
    let any = json!({"rule": "RunAsAny"});
    let mut policy = json!({
        "apiVersion": "policy/v1beta1", "kind": "PodSecurityPolicy",
        "metadata": {"name": level, "annotations": {
            "apparmor.security.beta.kubernetes.io/allowedProfileNames": "runtime/default",
            "apparmor.security.beta.kubernetes.io/defaultProfileName": "runtime/default",
            "seccomp.security.alpha.kubernetes.io/allowedProfileNames":
                if level == "baseline" { "*" } else { "docker/default,runtime/default" },
        }},
        "spec": {"privileged": false, "hostNetwork": false, "hostIPC": false, "hostPID": false, "volumes": VOLUMES, "seLinux": any,
                 "runAsUser": any, "supplementalGroups": any, "fsGroup": any},
    });
    let spec = &mut policy["spec"];
    match level {
        "baseline" => {
            let more = [
                "awsElasticBlockStore",
                "azureDisk",
                "azureFile",
                "cephFS",
                "cinder",
                "fc",
                "flexVolume",
                "flocker",
                "gcePersistentDisk",
                "gitRepo",
                "glusterfs",
                "iscsi",
                "nfs",
                "photonPersistentDisk",
                "portworxVolume",
                "quobyte",
                "rbd",
                "scaleIO",
                "storageos",
                "vsphereVolume",
            ];
            spec["volumes"] = json!([&VOLUMES[..], &more].concat());
            spec["allowedCapabilities"] = json!([
                "CHOWN",
                "DAC_OVERRIDE",
                "FSETID",
                "FOWNER",
                "MKNOD",
                "SETGID",
                "SETUID",
                "SETFCAP",
                "SETPCAP",
                "NET_BIND_SERVICE",
                "SYS_CHROOT",
                "KILL",
                "AUDIT_WRITE",
            ]);
        }
        _ => {
            let ranges = json!({"rule": "MustRunAs", "ranges": [{"min": 1, "max": 65535}]});
            spec["allowPrivilegeEscalation"] = json!(false);
            spec["requiredDropCapabilities"] = json!(["ALL"]);
            spec["runAsUser"] = json!({"rule": "MustRunAsNonRoot"});
            spec["supplementalGroups"] = ranges.clone();
            spec["fsGroup"] = ranges;
        }
    }
    policy
}

/// The fixtures of a level, with their paths below the folder of the release.
fn fixtures(level: &str) -> Vec<(String, Value)> {
    let folder = go_module("k8s.io/pod-security-admission@v0.36.3").join("test/testdata").join(level).join(RELEASE);
    let mut fixtures = Vec::new();
    for verdict in ["fail", "pass"] {
        for file in std::fs::read_dir(folder.join(verdict)).unwrap() {
            let path = file.unwrap().path();
            let mut pod = kubernetes_object::decode::yaml(&std::fs::read(&path).unwrap()).unwrap().value;
            let name = path.file_stem().unwrap().to_str().unwrap();
            // Names of some fixtures are no names of pods.
            pod["metadata"]["name"] = json!(name.replace('_', "-"));
            fixtures.push((format!("{level}/{verdict}/{name}"), pod));
        }
    }
    fixtures.sort_by(|one, other| one.0.cmp(&other.0));
    fixtures
}

#[test]
fn example_policies_and_levels_agree_about_the_fixtures() {
    let by_level = Proxy::embedded(&["--enable-admission-plugins=PodSecurity"]);
    let mut seen = BTreeSet::new();
    for level in ["baseline", "restricted"] {
        let by_policy = Proxy::embedded(&[
            "--enable-admission-plugins=PodSecurityPolicy",
            "--disable-admission-plugins=PodSecurity",
        ]);
        by_policy.accepts(post("/apis/policy/v1beta1/podsecuritypolicies", &policy(level)));
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": level, "labels": {
            "pod-security.kubernetes.io/enforce": level, "pod-security.kubernetes.io/enforce-version": RELEASE,
        }}});
        let namespaces = "/api/v1/namespaces";
        by_level.accepts(post(namespaces, &namespace));
        by_policy.accepts(post(namespaces, &namespace));
        let path = format!("/api/v1/namespaces/{level}/pods?dryRun=All");
        for (name, pod) in fixtures(level) {
            let [level, policy] = [&by_level, &by_policy].map(|proxy| {
                let answer = proxy.send(&User::admin(), post(&path, &pod));
                assert!(matches!(answer.status, 201 | 403 | 422), "{name}: {}", answer.text());
                answer.status
            });
            assert!(level == 422 || (level == 201) == name.contains("/pass/"), "{name}: {level}");
            let who = match (level, policy) {
                // PodSecurity decides after the validation, and PodSecurityPolicy before it.
                (422, _) => VALIDATION,
                (201, 403) => ONLY_POLICY,
                (403, 201) => ONLY_LEVEL,
                _ => {
                    assert_eq!(level, policy, "{name}");
                    continue;
                }
            };
            seen.insert(format!("{name}: {who}"));
        }
    }
    let different =
        DIFFERENT.iter().flat_map(|(start, rest, who)| rest.iter().map(move |rest| format!("{start}{rest}: {who}")));
    assert_eq!(seen, different.collect());
}
