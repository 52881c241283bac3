//! The checks of the restricted policy.

use super::*;

#[test]
fn privilege_escalation_is_off_in_every_container() {
    let want =
        "allowPrivilegeEscalation != false (container \"a\" must set securityContext.allowPrivilegeEscalation=false)";
    for value in [json!(true), Value::Null] {
        let spec = restricted_pod(json!({"securityContext": {"allowPrivilegeEscalation": value}}), json!({}));
        says("restricted:latest", spec.clone(), want);
        says("restricted:v1.8", spec.clone(), want);
        says("restricted:v1.7", spec.clone(), "");
        says("baseline:latest", spec, "");
    }
}

#[test]
fn restricted_containers_drop_all_capabilities_and_may_bind_low_ports() {
    let with =
        |capabilities: Value| restricted_pod(json!({"securityContext": {"capabilities": capabilities}}), json!({}));
    says("restricted:latest", with(json!({"drop": ["KILL", "ALL"], "add": ["NET_BIND_SERVICE"]})), "");
    let missing = "container \"a\" must set securityContext.capabilities.drop=[\"ALL\"]";
    for capabilities in [Value::Null, json!({"drop": null}), json!({"drop": ["all"]}), json!({"drop": []})] {
        says("restricted:v1.22", with(capabilities), &format!("unrestricted capabilities ({missing})"));
    }
    let added = "container \"a\" must not include \"CHOWN\", \"NET_RAW\" in securityContext.capabilities.add";
    let both = with(json!({"drop": [], "add": ["NET_RAW", "CHOWN"]}));
    says("restricted:latest", both.clone(), &format!("unrestricted capabilities ({missing}; {added})"));
    says(
        "restricted:v1.21",
        both,
        "non-default capabilities (container \"a\" must not include \"NET_RAW\" in securityContext.capabilities.add)",
    );
}

#[test]
fn restricted_volumes_are_of_a_few_types() {
    let volumes = |kinds: &[&str]| -> Value {
        let volumes: Vec<Value> = kinds.iter().map(|kind| json!({"name": format!("v-{kind}"), *kind: {}})).collect();
        restricted_pod(json!({}), json!({ "volumes": volumes }))
    };
    let allowed = [
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ];
    says("restricted:v1.0", volumes(&allowed), "");
    for kind in [
        "hostPath",
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "gitRepo",
        "nfs",
        "iscsi",
        "glusterfs",
        "rbd",
        "flexVolume",
        "cinder",
        "cephfs",
        "flocker",
        "fc",
        "azureFile",
        "vsphereVolume",
        "quobyte",
        "azureDisk",
        "photonPersistentDisk",
        "portworxVolume",
        "scaleIO",
        "storageos",
    ] {
        let want = format!("restricted volume types (volume \"v-{kind}\" uses restricted volume type \"{kind}\")");
        says("restricted:latest", volumes(&["emptyDir", kind]), &want);
    }
    says(
        "restricted:latest",
        volumes(&["nfs", "hostPath", "nfs"]),
        "restricted volume types (volumes \"v-nfs\", \"v-hostPath\", \"v-nfs\" use restricted volume types \"hostPath\", \
         \"nfs\")",
    );
    let none = json!({"volumes": [{"name": "becomes-an-empty-dir"}, {"name": "too", "nfs": null}]});
    says("restricted:latest", restricted_pod(json!({}), none), "");
    let want = "restricted volume types (volume \"v-new\" uses restricted volume type \"unknown\")";
    says("restricted:latest", volumes(&["new"]), want);
}

#[test]
fn restricted_containers_do_not_run_as_root() {
    let with = |of_pod: Value, of_container: Value| {
        restricted_pod(
            json!({"securityContext": {"runAsNonRoot": of_container}}),
            json!({"securityContext": {"runAsNonRoot": of_pod}}),
        )
    };
    for (of_pod, of_container, want) in [
        (json!(true), Value::Null, ""),
        (Value::Null, json!(true), ""),
        (Value::Null, Value::Null, "pod or container \"a\" must set securityContext.runAsNonRoot=true"),
        (json!(false), Value::Null, "pod must not set securityContext.runAsNonRoot=false"),
        (json!(false), json!(true), "pod must not set securityContext.runAsNonRoot=false"),
        (json!(true), json!(false), "container \"a\" must not set securityContext.runAsNonRoot=false"),
        (json!(false), json!(false), "pod and container \"a\" must not set securityContext.runAsNonRoot=false"),
    ] {
        let want = if want.is_empty() { String::new() } else { format!("runAsNonRoot != true ({want})") };
        let mut spec = with(of_pod, of_container);
        says("restricted:v1.0", spec.clone(), &if want.is_empty() { String::new() } else { want.clone() });
        says("restricted:latest", spec.clone(), &want);
        spec["hostUsers"] = json!(false);
        says("restricted:latest", spec.clone(), "");
        says("restricted:v1.34", spec.clone(), &want);
        spec["hostUsers"] = json!(true);
        says("restricted:latest", spec, &want);
    }
}

#[test]
fn restricted_containers_are_not_user_0() {
    let mut spec = restricted_pod(json!({"securityContext": {"runAsUser": 0}}), json!({}));
    says("restricted:v1.23", spec.clone(), "runAsUser=0 (container \"a\" must not set runAsUser=0)");
    says("restricted:v1.22", spec.clone(), "");
    spec["securityContext"]["runAsUser"] = json!(0);
    says("restricted:latest", spec.clone(), "runAsUser=0 (pod and container \"a\" must not set runAsUser=0)");
    spec["hostUsers"] = json!(false);
    says("restricted:latest", spec.clone(), "");
    says("restricted:v1.34", spec, "runAsUser=0 (pod and container \"a\" must not set runAsUser=0)");
    says("restricted:latest", restricted_pod(json!({"securityContext": {"runAsUser": 1}}), json!({})), "");
}

#[test]
fn restricted_containers_have_a_seccomp_profile() {
    let with = |of_pod: Value, of_container: Value| {
        restricted_pod(
            json!({"securityContext": {"seccompProfile": of_container}}),
            json!({"securityContext": {"seccompProfile": of_pod}}),
        )
    };
    let kind = |kind: &str| json!({ "type": kind });
    let must_set = "pod or container \"a\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \
                    \"Localhost\"";
    let must_not = |who: &str| format!("{who} must not set securityContext.seccompProfile.type to \"Unconfined\"");
    for (of_pod, of_container, want) in [
        (Value::Null, kind("Localhost"), String::new()),
        (kind("RuntimeDefault"), Value::Null, String::new()),
        (Value::Null, Value::Null, must_set.to_owned()),
        (kind("Unconfined"), Value::Null, must_not("pod")),
        (kind("Unconfined"), kind("Localhost"), must_not("pod")),
        (kind("RuntimeDefault"), kind("Unconfined"), must_not("container \"a\"")),
    ] {
        let want = if want.is_empty() { want } else { format!("seccompProfile ({want})") };
        says("restricted:v1.19", with(of_pod.clone(), of_container.clone()), &want);
        says("restricted:latest", with(of_pod, of_container), &want);
    }
    says("restricted:v1.18", with(Value::Null, Value::Null), "");
}
