//! The volumes that a policy allows.

use super::*;

fn volume(field: &str, source: Value) -> Value {
    pod(json!({"volumes": [{"name": "v", field: source}]}))
}

/// Every source of a volume, and its name in policies.
const TYPES: [(&str, &str); 30] = [
    ("hostPath", "hostPath"),
    ("emptyDir", "emptyDir"),
    ("gcePersistentDisk", "gcePersistentDisk"),
    ("awsElasticBlockStore", "awsElasticBlockStore"),
    ("gitRepo", "gitRepo"),
    ("secret", "secret"),
    ("nfs", "nfs"),
    ("iscsi", "iscsi"),
    ("glusterfs", "glusterfs"),
    ("persistentVolumeClaim", "persistentVolumeClaim"),
    ("rbd", "rbd"),
    ("flexVolume", "flexVolume"),
    ("cinder", "cinder"),
    ("cephfs", "cephFS"),
    ("flocker", "flocker"),
    ("downwardAPI", "downwardAPI"),
    ("fc", "fc"),
    ("azureFile", "azureFile"),
    ("configMap", "configMap"),
    ("vsphereVolume", "vsphereVolume"),
    ("quobyte", "quobyte"),
    ("azureDisk", "azureDisk"),
    ("photonPersistentDisk", "photonPersistentDisk"),
    ("storageos", "storageos"),
    ("projected", "projected"),
    ("portworxVolume", "portworxVolume"),
    ("scaleIO", "scaleIO"),
    ("csi", "csi"),
    ("ephemeral", "ephemeral"),
    // Added after 1.24.
    ("image", "image"),
];

#[tokio::test]
async fn each_type_of_volume_needs_permission() {
    for (field, kind) in TYPES {
        let given = || volume(field, json!({}));
        let text = format!("spec.volumes[0]: Invalid value: {kind:?}: {kind} volumes are not allowed to be used");
        is_refused(json!({"volumes": []}), given(), &text).await;
        is_refused(json!({"volumes": ["other"]}), given(), &text).await;
        stays(json!({"volumes": [kind]}), given()).await;
        stays(json!({"volumes": ["*"]}), given()).await;
    }
}

#[tokio::test]
async fn a_volume_without_a_source_is_an_empty_dir() {
    let given = || pod(json!({"volumes": [{"name": "v"}]}));
    let text = "spec.volumes[0]: Invalid value: \"emptyDir\": emptyDir volumes are not allowed to be used";
    is_refused(json!({"volumes": ["secret"]}), given(), text).await;
    stays(json!({"volumes": ["emptyDir"]}), given()).await;
    stays(json!({"volumes": []}), pod(json!({}))).await;
}

fn projected(sources: Value) -> Value {
    volume("projected", json!({"sources": sources}))
}

#[tokio::test]
async fn volumes_of_tokens_are_allowed_where_secrets_are() {
    let rules = || json!({"volumes": ["secret"]});
    let token = |fields: Value| {
        let mut token = json!({"path": "token", "expirationSeconds": 3607});
        merge(&mut token, fields);
        json!({"serviceAccountToken": token})
    };
    let map = |name: &str| json!({"configMap": {"name": name}});
    let field = |path: &str, version: &str, field: &str| json!({"downwardAPI": {"items": [{"path": path, "fieldRef": {"apiVersion": version, "fieldPath": field}}]}});
    let namespace = || field("namespace", "v1", "metadata.namespace");
    for sources in [
        json!([token(json!({})), map("kube-root-ca.crt"), namespace()]),
        json!([map("kube-root-ca.crt"), namespace()]),
        json!([token(json!({}))]),
        json!([{"downwardAPI": {}}]),
        json!([]),
        json!(null),
    ] {
        stays(rules(), projected(sources)).await;
    }
    let text = "spec.volumes[0]: Invalid value: \"projected\": projected volumes are not allowed to be used";
    for source in [
        token(json!({"path": "other"})),
        token(json!({"audience": "a"})),
        map("other"),
        field("other", "v1", "metadata.namespace"),
        field("namespace", "v2", "metadata.namespace"),
        field("namespace", "v1", "metadata.name"),
        json!({"downwardAPI": {"items": [{"path": "namespace"}]}}),
        json!({"secret": {"name": "s"}}),
        json!({"clusterTrustBundle": {"path": "p"}}),
        json!({}),
    ] {
        is_refused(rules(), projected(json!([token(json!({})), source])), text).await;
        is_refused(json!({"volumes": ["emptyDir"]}), projected(json!([token(json!({}))])), text).await;
        stays(json!({"volumes": ["projected"]}), projected(json!([source]))).await;
    }
}

#[tokio::test]
async fn paths_of_the_host_need_permission() {
    let rules = || json!({"allowedHostPaths": [{"pathPrefix": "/foo"}, {"pathPrefix": "/bar/", "readOnly": false}]});
    for path in ["/foo", "/foo/", "/foo/x", "/bar", "/bar/x"] {
        stays(rules(), volume("hostPath", json!({"path": path}))).await;
    }
    for path in ["/foobar", "/", "/fo", "/bar2"] {
        let text = format!("spec.volumes[0].hostPath.pathPrefix: Invalid value: {path:?}: is not allowed to be used");
        is_refused(rules(), volume("hostPath", json!({"path": path})), &text).await;
    }
    stays(json!({"allowedHostPaths": []}), volume("hostPath", json!({"path": "/foobar"}))).await;
}

#[tokio::test]
async fn mounts_of_a_read_only_path_are_read_only() {
    let rules = || json!({"allowedHostPaths": [{"pathPrefix": "/foo", "readOnly": true}, {"pathPrefix": "/foo/rw"}]});
    let mounted = |path: &str, mounts: Value| {
        pod(json!({
            "volumes": [{"name": "v", "hostPath": {"path": path}}],
            "containers": [{"name": "c", "volumeMounts": mounts}], "initContainers": [{"name": "i", "volumeMounts": mounts}]
        }))
    };
    let mount = |name: &str, read_only: Value| json!({"name": name, "mountPath": "/m", "readOnly": read_only});
    stays(rules(), mounted("/foo", json!([mount("v", json!(true))]))).await;
    stays(rules(), mounted("/foo", json!([mount("w", json!(null))]))).await;
    stays(rules(), mounted("/foo", json!([]))).await;
    stays(rules(), mounted("/foo/rw", json!([mount("v", json!(false))]))).await;
    let text = |place: &str, mount: usize| {
        format!("spec.{place}.volumeMounts[{mount}].readOnly: Invalid value: false: must be read-only")
    };
    let mounts =
        json!([mount("v", json!(true)), mount("v", json!(null)), mount("w", json!(null)), mount("v", json!(false))]);
    let places = [("initContainers[0]", 1), ("initContainers[0]", 3), ("containers[0]", 1), ("containers[0]", 3)];
    let texts = places.map(|(place, mount)| text(place, mount)).join(" ");
    is_refused(rules(), mounted("/foo/bar", mounts), &texts).await;
}

#[tokio::test]
async fn drivers_need_permission() {
    let flex = |driver: &str| volume("flexVolume", json!({"driver": driver}));
    let rules = || json!({"allowedFlexVolumes": [{"driver": "lab/a"}]});
    stays(rules(), flex("lab/a")).await;
    let text = "spec.volumes[0].driver: Invalid value: \"lab/b\": Flexvolume driver is not allowed to be used";
    is_refused(rules(), flex("lab/b"), text).await;
    stays(json!({}), flex("lab/b")).await;
    let csi = |driver: &str| volume("csi", json!({"driver": driver}));
    let rules = || json!({"allowedCSIDrivers": [{"name": "a.lab"}]});
    stays(rules(), csi("a.lab")).await;
    let text = "spec.volumes[0].csi.driver: Invalid value: \"b.lab\": Inline CSI driver is not allowed to be used";
    is_refused(rules(), csi("b.lab"), text).await;
    stays(json!({}), csi("b.lab")).await;
    // The type needs permission too.
    let text = "spec.volumes[0]: Invalid value: \"csi\": csi volumes are not allowed to be used";
    is_refused(json!({"volumes": [], "allowedCSIDrivers": [{"name": "a.lab"}]}), csi("a.lab"), text).await;
}
