use super::SOURCES;
use crate::removed::validation::names::{label_errors, subdomain_errors};
use crate::removed::validation::pod_preset::tests::check;
use crate::removed::validation::tests::OLD_SUBDOMAIN;
use serde_json::{Value, json};

const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

/// Checks the errors of a volume's source, without the path of the volume.
#[track_caller]
fn check_source(field: &str, source: Value, expected: &[&str]) {
    let expected: Vec<_> = expected.iter().map(|line| format!("spec.volumes[0].{line}")).collect();
    let expected: Vec<_> = expected.iter().map(String::as_str).collect();
    check(json!({"volumes": [{"name": "v", field: source}]}), &expected);
}

#[test]
fn a_volume_has_a_name_of_its_own() {
    let volume = |name: &str| json!({"name": name, "emptyDir": {}});
    check(json!({"volumes": [volume("a"), volume("b")]}), &[]);
    check(
        json!({"volumes": [volume("a"), volume(""), volume("a"), volume("a.b"), volume("a.b")]}),
        &[
            "spec.volumes[1].name: Required value",
            "spec.volumes[2].name: Duplicate value: \"a\"",
            &format!("spec.volumes[3].name: Invalid value: \"a.b\": {}", label_errors("a.b")[0]),
            &format!("spec.volumes[4].name: Invalid value: \"a.b\": {}", label_errors("a.b")[0]),
        ],
    );
}

#[test]
fn a_volume_has_one_source() {
    let none = "spec.volumes[0]: Required value: must specify a volume type";
    check(json!({"volumes": [{"name": "v"}]}), &[none]);
    check(json!({"volumes": [{"name": "v", "hostPath": "x", "unknown": {}}]}), &[none]);
    for source in &SOURCES[1..] {
        let second = match source.field {
            "cephfs" => "cephFS",
            "downwardAPI" => "downwarAPI",
            field => field,
        };
        let why = format!("spec.volumes[0].{second}: Forbidden: may not specify more than 1 volume type");
        check(json!({"volumes": [{"name": "v", "emptyDir": {}, source.field: {}}]}), &[&why]);
    }
    check(
        json!({"volumes": [{"name": "V", "nfs": {}, "hostPath": {}, "secret": {}}]}),
        &[
            "spec.volumes[0].hostPath.path: Required value",
            "spec.volumes[0].secret: Forbidden: may not specify more than 1 volume type",
            "spec.volumes[0].nfs: Forbidden: may not specify more than 1 volume type",
            &format!("spec.volumes[0].name: Invalid value: \"V\": {}", label_errors("V")[0]),
        ],
    );
}

#[test]
fn sources_have_required_fields() {
    for (field, expected) in [
        ("hostPath", &["hostPath.path: Required value"][..]),
        ("gitRepo", &["gitRepo.repository: Required value"]),
        ("gcePersistentDisk", &["persistentDisk.pdName: Required value"]),
        ("awsElasticBlockStore", &["awsElasticBlockStore.volumeID: Required value"]),
        ("secret", &["secret.secretName: Required value"]),
        ("glusterfs", &["glusterfs.endpoints: Required value", "glusterfs.path: Required value"]),
        ("flocker", &["flocker: Required value: one of datasetName and datasetUUID is required"]),
        ("persistentVolumeClaim", &["persistentVolumeClaim.claimName: Required value"]),
        ("rbd", &["rbd.monitors: Required value", "rbd.image: Required value"]),
        ("cinder", &["cinder.volumeID: Required value"]),
        ("cephfs", &["cephfs.monitors: Required value"]),
        ("fc", &["fc.targetWWNs: Required value: must specify either targetWWNs or wwids, but not both"]),
        ("flexVolume", &["flexVolume.driver: Required value"]),
        ("configMap", &["configMap.name: Required value"]),
        ("azureFile", &["azureFile.secretName: Required value", "azureFile.shareName: Required value"]),
        ("vsphereVolume", &["vsphereVolume.volumePath: Required value"]),
        ("photonPersistentDisk", &["photonPersistentDisk.pdID: Required value"]),
        ("portworxVolume", &["portworxVolume.volumeID: Required value"]),
        (
            "scaleIO",
            &[
                "scaleIO.gateway: Required value",
                "scaleIO.system: Required value",
                "scaleIO.volumeName: Required value",
            ],
        ),
        ("downwardAPI", &[]),
        ("projected", &[]),
        ("emptyDir", &[]),
    ] {
        check_source(field, json!({}), expected);
    }
    check_source("rbd", json!({"monitors": ["a"], "image": "b"}), &[]);
    check_source(
        "persistentVolumeClaim",
        json!({"claimName": ["a"]}),
        &["persistentVolumeClaim.claimName: Required value"],
    );
    check_source("cephfs", json!({"monitors": "a"}), &["cephfs.monitors: Required value"]);
    check_source("scaleIO", json!({"gateway": "a", "system": "b", "volumeName": "c"}), &[]);
}

#[test]
fn five_sources_have_no_rules() {
    for field in ["iscsi", "quobyte", "azureDisk", "storageos", "ephemeral"] {
        check_source(field, json!({}), &[]);
    }
}

#[test]
fn sizes_are_not_negative() {
    for size in [json!("1Gi"), json!(0), json!("0")] {
        check_source("emptyDir", json!({"sizeLimit": size}), &[]);
    }
    let why = "emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity";
    check_source("emptyDir", json!({"sizeLimit": "-1"}), &[why]);
}

#[test]
fn host_paths_have_a_type_and_no_backsteps() {
    check_source("hostPath", json!({"path": "/a", "type": ""}), &[]);
    check_source("hostPath", json!({"path": "a/..b", "type": "Socket"}), &[]);
    check_source(
        "hostPath",
        json!({"path": "/a/..", "type": "x"}),
        &[
            "hostPath.path: Invalid value: \"/a/..\": must not contain '..'",
            "hostPath.type: Unsupported value: \"x\": supported values: \"\", \"BlockDevice\", \"CharDevice\", \"Directory\", \
             \"DirectoryOrCreate\", \"File\", \"FileOrCreate\", \"Socket\"",
        ],
    );
    check_source("hostPath", json!({"type": "x"}), &["hostPath.path: Required value"]);
}

#[test]
fn disks_have_partitions() {
    let why = "Invalid value: 256: must be between 1 and 255, inclusive";
    check_source("gcePersistentDisk", json!({"pdName": "a", "partition": 0}), &[]);
    check_source(
        "gcePersistentDisk",
        json!({"pdName": "a", "partition": 256}),
        &[&format!("persistentDisk.partition: {why}")],
    );
    let field = "awsElasticBlockStore";
    check_source(field, json!({"volumeID": "a", "partition": 256}), &[&format!("{field}.partition: {why}")]);
}

#[test]
fn files_of_objects_have_keys_paths_and_modes() {
    for (field, name) in [("secret", "secretName"), ("configMap", "name")] {
        let item = json!({"key": "k", "path": "a/b", "mode": 511});
        check_source(field, json!({ name: "a", "defaultMode": 420, "items": [item] }), &[]);
        check_source(
            field,
            json!({ name: "a", "defaultMode": 512, "items": [{}, {"key": "k", "path": "..a", "mode": -1}] }),
            &[
                &format!("{field}.defaultMode: Invalid value: 512: {MODE}"),
                &format!("{field}.items[0].key: Required value"),
                &format!("{field}.items[0].path: Required value"),
                &format!("{field}.items[1].path: Invalid value: \"..a\": must not start with '..'"),
                &format!("{field}.items[1].mode: Invalid value: -1: {MODE}"),
            ],
        );
    }
}

#[test]
fn nfs_paths_are_absolute() {
    check_source("nfs", json!({"server": "s", "path": "/a"}), &[]);
    check_source(
        "nfs",
        json!({"server": "s", "path": "a"}),
        &["nfs.path: Invalid value: \"a\": must be an absolute path"],
    );
    check_source(
        "nfs",
        json!({}),
        &[
            "nfs.server: Required value",
            "nfs.path: Required value",
            "nfs.path: Invalid value: \"\": must be an absolute path",
        ],
    );
}

#[test]
fn csi_volumes_have_a_driver_and_the_name_of_a_secret() {
    check_source("csi", json!({"driver": "B.lab", "nodePublishSecretRef": {"name": "a"}}), &[]);
    check_source(
        "csi",
        json!({"nodePublishSecretRef": {}}),
        &[
            "csi.driver: Required value",
            &format!("csi.driver: Invalid value: \"\": {OLD_SUBDOMAIN}"),
            "csi.nodePublishSecretRef .name: Required value",
        ],
    );
    check_source(
        "csi",
        json!({"driver": "a".repeat(64), "nodePublishSecretRef": {"name": "A"}}),
        &[
            "csi.driver: Too long: must have at most 63 bytes",
            &format!("csi.name: Invalid value: \"A\": {}", subdomain_errors(b"A")[0]),
        ],
    );
}

#[test]
fn files_have_one_field_of_the_pod_or_of_a_container() {
    let field = json!({"apiVersion": "v1", "fieldPath": "metadata.labels"});
    let resource = json!({"containerName": "c", "resource": "limits.cpu"});
    let valid = json!([{"path": "a", "fieldRef": field, "mode": 0}, {"path": "b", "resourceFieldRef": resource}]);
    check_source("downwardAPI", json!({"items": valid}), &[]);
    let node = json!({"apiVersion": "v1", "fieldPath": "spec.nodeName"});
    check_source(
        "downwardAPI",
        json!({"defaultMode": -1, "items": [
            {"mode": 512},
            {"path": "/a", "fieldRef": node, "resourceFieldRef": resource},
            {"path": "b", "resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}},
        ]}),
        &[
            &format!("downwardAPI.defaultMode: Invalid value: -1: {MODE}"),
            "downwardAPI.path: Required value",
            "downwardAPI: Required value: one of fieldRef and resourceFieldRef is required",
            &format!("downwardAPI.mode: Invalid value: 512: {MODE}"),
            "downwardAPI.path: Invalid value: \"/a\": must be a relative path",
            "downwardAPI.fieldRef.fieldPath: Unsupported value: \"spec.nodeName\": supported values: \"metadata.annotations\", \
             \"metadata.labels\", \"metadata.name\", \"metadata.namespace\", \"metadata.uid\"",
            "downwardAPI: Invalid value: \"resource\": fieldRef and resourceFieldRef can not be specified simultaneously",
            "downwardAPI.resourceFieldRef.containerName: Required value",
            "downwardAPI.resourceFieldRef.divisor: Invalid value: \"limits.cpu\": only divisor's values 1m and 1 are supported \
             with the cpu resource",
        ],
    );
}

#[test]
fn projections_have_one_source_each() {
    let field = json!({"apiVersion": "v1", "fieldPath": "metadata.name"});
    check_source(
        "projected",
        json!({"defaultMode": 420, "sources": [
            {},
            {"secret": {"name": "s", "items": [{"key": "k", "path": "a"}]}},
            {"configMap": {"name": "m"}},
            {"downwardAPI": {"items": [{"path": "b", "fieldRef": field}]}},
            {"serviceAccountToken": {"path": "t", "expirationSeconds": 600}},
            {"serviceAccountToken": {"path": "t"}},
        ]}),
        &[],
    );
    check_source(
        "projected",
        json!({"defaultMode": 512, "sources": [{"secret": {}, "configMap": {"items": [{}]}}]}),
        &[
            &format!("projected.defaultMode: Invalid value: 512: {MODE}"),
            "projected.sources[0].secret.name: Required value",
            "projected.sources[0].configMap.name: Required value",
            "projected.sources[0].configMap.items[0].key: Required value",
            "projected.sources[0].configMap.items[0].path: Required value",
            "projected.sources[0]: Forbidden: may not specify more than 1 volume type",
        ],
    );
}

#[test]
fn projected_paths_differ() {
    let item = json!({"key": "k", "path": "a"});
    let file = json!({"path": "a", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}});
    check_source(
        "projected",
        json!({"sources": [
            {"secret": {"name": "s", "items": [item, item]}},
            {"configMap": {"name": "m", "items": [item]}},
            {"downwardAPI": {"items": [file, {"path": ""}]}},
        ]}),
        &[
            "projected: Invalid value: \"s\": conflicting duplicate paths",
            "projected: Invalid value: \"m\": conflicting duplicate paths",
            "projected: Invalid value: \"a\": conflicting duplicate paths",
            "projected.sources[2].downwardAPI.path: Required value",
            "projected.sources[2].downwardAPI: Required value: one of fieldRef and resourceFieldRef is required",
        ],
    );
}

#[test]
fn projected_tokens_have_a_path_and_an_expiration() {
    let token = |seconds: i64| json!({"sources": [{"serviceAccountToken": {"expirationSeconds": seconds}}]});
    let field = "projected.sources[0].serviceAccountToken.expirationSeconds";
    let missing = "projected.path: Required value";
    let short = format!("{field}: Invalid value: 599: may not specify a duration less than 10 minutes");
    check_source("projected", token(599), &[&short, missing]);
    let long = format!("{field}: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds");
    check_source("projected", token(4_294_967_297), &[&long, missing]);
    check_source("projected", token(4_294_967_296), &[missing]);
}

#[test]
fn other_sources_have_rules_of_their_own() {
    check_source(
        "gitRepo",
        json!({"repository": "r", "directory": "/.."}),
        &[
            "gitRepo.directory: Invalid value: \"/..\": must be a relative path",
            "gitRepo.directory: Invalid value: \"/..\": must not contain '..'",
        ],
    );
    check_source("flocker", json!({"datasetUUID": "u"}), &[]);
    check_source(
        "flocker",
        json!({"datasetName": "a/b", "datasetUUID": "u"}),
        &[
            "flocker: Invalid value: \"resource\": datasetName and datasetUUID can not be specified simultaneously",
            "flocker.datasetName: Invalid value: \"a/b\": must not contain '/'",
        ],
    );
    check_source("cinder", json!({"volumeID": "v", "secretRef": {}}), &["cinder.secretRef.name: Required value"]);
    check_source("fc", json!({"wwids": ["a"]}), &[]);
    check_source("fc", json!({"targetWWNs": ["a"], "lun": 255}), &[]);
    check_source(
        "fc",
        json!({"targetWWNs": ["a", "b"], "wwids": ["c"]}),
        &[
            "fc.targetWWNs: Invalid value: []string{\"a\", \"b\"}: targetWWNs and wwids can not be specified simultaneously",
            "fc.lun: Required value: lun is required if targetWWNs is specified",
        ],
    );
    let lun = "fc.lun: Invalid value: 256: must be between 0 and 255, inclusive";
    check_source("fc", json!({"targetWWNs": ["a"], "lun": 256}), &[lun]);
    let reserved = "kubernetes.io and k8s.io namespaces are reserved";
    check_source(
        "flexVolume",
        json!({"driver": "d", "options": {"a": "", "a.k8s.io/b": "", "Kubernetes.io": "", "xk8s.io/b": ""}}),
        &[
            &format!("flexVolume.options[Kubernetes.io]: Invalid value: \"Kubernetes.io\": {reserved}"),
            &format!("flexVolume.options[a.k8s.io/b]: Invalid value: \"a.k8s.io/b\": {reserved}"),
        ],
    );
}
