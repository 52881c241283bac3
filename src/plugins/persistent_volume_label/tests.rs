//! The plugin's decisions, as a kube-apiserver makes them, and the sources of zones.

use super::*;
use crate::admission::Operation;
use crate::cluster::FixedState;
use crate::config::{OWN_API_VERSION, PluginConfiguration};
use crate::plugins::checker::{Checked, attributes, check};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::StorageClass;

const ZONE: &str = ZONES[0];
const BETA_ZONE: &str = ZONES[1];
const REGION: &str = REGIONS[0];
const BETA_REGION: &str = REGIONS[1];

fn cluster(classes: Vec<Value>, nodes: Vec<Value>) -> Arc<Cluster> {
    let of = |values: Vec<Value>| serde_json::from_value(values.into()).unwrap();
    let state = FixedState::default().with::<StorageClass>(of(classes));
    Cluster::fixed(state.with::<Node>(serde_json::from_value(nodes.into()).unwrap()))
}

fn without_source() -> PersistentVolumeLabel {
    PersistentVolumeLabel { cluster: cluster(Vec::new(), Vec::new()), source: Source::None }
}

/// The plugin with a file of this content.
fn with_file(content: &str) -> PersistentVolumeLabel {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("volumes.yaml"), content).unwrap();
    let kind = "PersistentVolumeLabelConfiguration";
    let value = json!({"apiVersion": OWN_API_VERSION, "kind": kind, "source": "File", "file": "volumes.yaml"});
    let given = PluginConfiguration { origin: "pv.yaml".into(), directory: folder.path().to_owned(), value };
    let source = Configuration::read(Some(&given)).unwrap().source().unwrap();
    PersistentVolumeLabel { source, ..without_source() }
}

fn volume(labels: Value, annotations: Value, spec: Value) -> Value {
    json!({"metadata": {"name": "v", "labels": labels, "annotations": annotations}, "spec": spec})
}

async fn created(plugin: &PersistentVolumeLabel, volume: Value) -> Checked {
    check(plugin).create("", "persistentvolumes", volume).await
}

fn within(key: &str, values: &[&str]) -> Value {
    json!({"key": key, "operator": "In", "values": values})
}

fn affinity(terms: Value) -> Value {
    json!({"required": {"nodeSelectorTerms": terms}})
}

fn refused(why: &str) -> String {
    format!("persistentvolumes \"v\" is forbidden: {why}")
}

#[tokio::test]
async fn both_labels_of_a_provisioned_volume_are_reused_for_every_kind_of_source() {
    for (zone, region) in [(ZONE, REGION), (BETA_ZONE, BETA_REGION)] {
        for source in ["awsElasticBlockStore", "nfs"] {
            for by in ["ebs", ""] {
                let labels = json!({"own": "1", zone: "b__a__c", region: "r"});
                let before = volume(labels.clone(), json!({PROVISIONED_BY: by}), json!({source: {}}));
                let terms = json!([{"matchExpressions": [within(region, &["r"]), within(zone, &["a", "b", "c"])]}]);
                let spec = json!({source: {}, "nodeAffinity": affinity(terms)});
                created(&without_source(), before).await.becomes(volume(labels, json!({PROVISIONED_BY: by}), spec));
            }
        }
    }
}

#[tokio::test]
async fn labels_of_the_present_names_count_before_those_that_they_replaced() {
    let labels = json!({ZONE: "z", REGION: "r", BETA_ZONE: "old", BETA_REGION: "old"});
    let given = volume(labels.clone(), json!({PROVISIONED_BY: "p"}), json!({}));
    let after = created(&without_source(), given).await.after();
    let terms = json!([{"matchExpressions": [within(REGION, &["r"]), within(ZONE, &["z"])]}]);
    assert_eq!((&after["metadata"]["labels"], &after["spec"]["nodeAffinity"]), (&labels, &affinity(terms)));

    let mixed = json!({ZONE: "z", BETA_ZONE: "old", BETA_REGION: "r"});
    let after = created(&without_source(), volume(mixed, json!({PROVISIONED_BY: "p"}), json!({}))).await.after();
    let terms = json!([{"matchExpressions": [within(BETA_REGION, &["r"]), within(BETA_ZONE, &["old"])]}]);
    assert_eq!(after["spec"]["nodeAffinity"], affinity(terms));
}

#[tokio::test]
async fn a_volume_that_would_be_looked_up_is_refused_without_a_source() {
    let both = json!({ZONE: "z", REGION: "r"});
    for (spec, why) in [
        (
            json!({"awsElasticBlockStore": {"volumeID": "x"}}),
            "error querying AWS EBS volume x: unable to build AWS cloud provider for EBS",
        ),
        (
            json!({"gcePersistentDisk": {"pdName": "x"}}),
            "error querying GCE PD volume x: unable to build GCE cloud provider for PD",
        ),
        (
            json!({"azureDisk": {"diskName": "x"}}),
            "error querying AzureDisk volume x: unable to build Azure cloud provider for AzureDisk",
        ),
        (
            json!({"cinder": {"volumeID": "x"}}),
            "error querying Cinder volume x: no OpenStack cloud provider config file given",
        ),
        (
            json!({"vsphereVolume": {"volumePath": "x"}}),
            "error querying vSphere Volume x: unable to build vSphere cloud provider",
        ),
    ] {
        // Labels count only with the annotation, and only both of them.
        for (labels, annotations) in
            [(both.clone(), json!({})), (json!({ZONE: "z"}), json!({PROVISIONED_BY: "p"})), (json!({}), json!({}))]
        {
            let status = created(&without_source(), volume(labels, annotations, spec.clone())).await;
            let details = status.was_refused(403, &refused(why)).details.unwrap();
            assert_eq!((&*details.name, &*details.kind), ("v", "persistentvolumes"));
        }
    }
}

#[tokio::test]
async fn other_volumes_and_placeholders_stay_unchanged() {
    for spec in [
        json!({"hostPath": {"path": "/"}}),
        json!({"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "x"}}),
        json!({"cinder": null}),
        json!({"awsElasticBlockStore": {"volumeID": "placeholder-for-provisioning"}}),
        json!({"gcePersistentDisk": {"pdName": "placeholder-for-provisioning"}}),
    ] {
        created(&without_source(), volume(json!({ZONE: "z"}), json!({}), spec)).await.stays_unchanged();
    }
    let spec = json!({"vsphereVolume": {"volumePath": "placeholder-for-provisioning"}});
    assert_eq!(created(&without_source(), volume(json!({}), json!({}), spec)).await.code(), Some(403));
}

#[tokio::test]
async fn an_empty_zone_is_refused() {
    for zone in ["a____b", "", "a__ "] {
        let given = volume(json!({ZONE: zone, REGION: "r"}), json!({PROVISIONED_BY: "p"}), json!({}));
        let why = refused(&format!("failed to convert label string for Zone: {zone} to a Set"));
        created(&without_source(), given).await.was_refused(403, &why);
    }
}

#[tokio::test]
async fn the_requirements_are_in_every_term_or_in_none() {
    let given = |terms: Value| {
        let spec = json!({"nodeAffinity": affinity(terms)});
        volume(json!({ZONE: "z", REGION: "r"}), json!({PROVISIONED_BY: "p"}), spec)
    };
    let (region, zone) = (within(REGION, &["r"]), within(ZONE, &["z"]));
    let disk = within("disk", &["ssd"]);
    for (before, after) in [
        (json!([]), json!([{"matchExpressions": [region, zone]}])),
        (
            json!([{"matchExpressions": [disk]}, {}]),
            json!([{"matchExpressions": [disk, region, zone]}, {"matchExpressions": [region, zone]}]),
        ),
        (
            json!([{"matchExpressions": [disk]}, {"matchExpressions": [within(REGION, &["other"])]}]),
            json!([{"matchExpressions": [disk]}, {"matchExpressions": [within(REGION, &["other"])]}]),
        ),
        (
            json!([{"matchExpressions": [within(BETA_ZONE, &["z"])]}]),
            json!([{"matchExpressions": [within(BETA_ZONE, &["z"]), region, zone]}]),
        ),
    ] {
        created(&without_source(), given(before)).await.becomes(given(after));
    }
}

#[tokio::test]
async fn the_file_has_the_places_of_volumes() {
    let plugin = with_file(
        "awsElasticBlockStore:\n  vol-1: {zone: a, region: r}\n  vol-2: {region: r}\ncsi:\n  d:\n    h: {zone: b__a}\n",
    );
    let aws = |id: &str| json!({"awsElasticBlockStore": {"volumeID": id}});
    let csi = |driver: &str, id: &str| json!({"csi": {"driver": driver, "volumeHandle": id}});
    for (spec, labels, expressions) in [
        (aws("vol-1"), json!({ZONE: "a", REGION: "r"}), json!([within(REGION, &["r"]), within(ZONE, &["a"])])),
        (aws("vol-2"), json!({ZONE: "mine", REGION: "r"}), json!([within(REGION, &["r"])])),
        (csi("d", "h"), json!({ZONE: "b__a", REGION: "mine"}), json!([within(ZONE, &["a", "b"])])),
    ] {
        let mine = json!({ZONE: "mine", REGION: "mine"});
        let after = created(&plugin, volume(mine, json!({}), spec)).await.after();
        assert_eq!(after["metadata"]["labels"], labels);
        assert_eq!(after["spec"]["nodeAffinity"], affinity(json!([{"matchExpressions": expressions}])));
    }
    for (spec, what) in [
        (aws("vol-9"), "AWS EBS volume vol-9"),
        (json!({"cinder": {"volumeID": "x"}}), "Cinder volume x"),
        (csi("d", "x"), "CSI volume x"),
    ] {
        let why = format!("error querying {what}: the volume is not in volumes.yaml: add its zone and region there");
        created(&plugin, volume(json!({}), json!({}), spec)).await.was_refused(403, &refused(&why));
    }
    created(&plugin, volume(json!({}), json!({}), csi("other", "x"))).await.stays_unchanged();
}

#[tokio::test]
async fn a_storage_class_has_the_places_of_its_volumes() {
    let topologies = |zones: Value| {
        let region = json!({"key": REGION, "values": ["r"]});
        json!([{"matchLabelExpressions": [{"key": ZONE, "values": zones}, region]},
            {"matchLabelExpressions": [{"key": BETA_ZONE, "values": ["c"]}, {"key": "other", "values": ["x"]}]}])
    };
    let labels = json!({BETA_ZONE: "l", REGION: "label"});
    let two_regions = json!([{"matchLabelExpressions": [{"key": REGION, "values": ["r", "s"]}]}]);
    let classes = vec![
        json!({"metadata": {"name": "topology", "labels": labels}, "provisioner": "p", "allowedTopologies": topologies(json!(["b", "a"]))}),
        json!({"metadata": {"name": "labels", "labels": labels}, "provisioner": "p"}),
        json!({"metadata": {"name": "none"}, "provisioner": "p"}),
        json!({"metadata": {"name": "regions"}, "provisioner": "p", "allowedTopologies": two_regions}),
    ];
    let plugin = PersistentVolumeLabel { cluster: cluster(classes, Vec::new()), source: Source::StorageClass };
    let of = |class: &str, source: &str| volume(json!({}), json!({}), json!({"storageClassName": class, source: {}}));
    for (class, want) in
        [("topology", json!({ZONE: "a__b__c", REGION: "r"})), ("labels", json!({ZONE: "l", REGION: "label"}))]
    {
        for source in ["nfs", "cinder"] {
            assert_eq!(created(&plugin, of(class, source)).await.after()["metadata"]["labels"], want);
        }
    }
    for (class, why) in [
        ("none", "the StorageClass none: it has no zone and no region"),
        ("regions", "the StorageClass regions: it has several regions"),
        ("missing", "the StorageClass missing does not exist"),
        ("", "the PersistentVolume has no storageClassName"),
    ] {
        created(&plugin, of(class, "nfs")).await.stays_unchanged();
        let why = refused(&format!("error querying Cinder volume : {why}"));
        created(&plugin, of(class, "cinder")).await.was_refused(403, &why);
    }
}

#[tokio::test]
async fn the_nodes_of_the_affinity_have_the_place_of_a_volume() {
    let node = |name: &str, zone: &str| {
        let labels = json!({"kubernetes.io/hostname": format!("host-{name}"), ZONE: zone, BETA_REGION: "r"});
        json!({"metadata": {"name": name, "labels": labels}})
    };
    let nodes = vec![node("a", "z1"), node("b", "z2"), json!({"metadata": {"name": "c"}})];
    let plugin = PersistentVolumeLabel { cluster: cluster(Vec::new(), nodes), source: Source::Node };
    let on = |hosts: &[&str], source: &str| {
        let terms = json!([{"matchExpressions": [within("kubernetes.io/hostname", hosts)]}]);
        volume(json!({}), json!({}), json!({source: {}, "nodeAffinity": affinity(terms)}))
    };
    for (hosts, zone) in [(&["host-a"][..], "z1"), (&["host-b", "host-a"], "z1__z2")] {
        let after = created(&plugin, on(hosts, "local")).await.after();
        assert_eq!(after["metadata"]["labels"], json!({ZONE: zone, REGION: "r"}));
    }
    for (hosts, why) in [
        (&["host-a", "host-x"][..], "no node has the label kubernetes.io/hostname=host-x"),
        (&[], "the node affinity of the PersistentVolume names no node by kubernetes.io/hostname"),
    ] {
        created(&plugin, on(hosts, "local")).await.stays_unchanged();
        let why = refused(&format!("error querying Cinder volume : {why}"));
        created(&plugin, on(hosts, "cinder")).await.was_refused(403, &why);
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_in_the_cluster_waits_for_its_caches() {
    let state = FixedState { unsynced: true, ..FixedState::default() };
    let plugin = PersistentVolumeLabel { cluster: Cluster::fixed(state), source: Source::Node };
    let why = refused("not yet ready to handle request");
    created(&plugin, volume(json!({}), json!({}), json!({"local": {}}))).await.was_refused(403, &why);
}

#[tokio::test]
async fn no_volume_of_wrong_types_panics() {
    for spec in [
        json!("text"),
        json!({"nodeAffinity": []}),
        json!({"nodeAffinity": {"required": {"nodeSelectorTerms": [1, {"matchExpressions": [1, {"key": []}]}]}}}),
        json!({"nodeAffinity": {"required": {"nodeSelectorTerms": {}}}, "cinder": []}),
    ] {
        let given = volume(json!({ZONE: "z", REGION: null}), json!({PROVISIONED_BY: []}), spec.clone());
        let _any_answer = created(&without_source(), given).await.code();
        let plugin = PersistentVolumeLabel { source: Source::Node, ..without_source() };
        let _any_answer = created(&plugin, volume(json!({}), json!({}), spec)).await.code();
    }
}

#[test]
fn only_creates_are_handled() {
    for (operation, handled) in [(Operation::Create, true), (Operation::Update, false)] {
        assert_eq!(SPEC.handles(&attributes(operation, "", "persistentvolumes", None, None)), handled);
    }
}
