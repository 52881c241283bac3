//! The CSI driver of a pod's volume: the volume's own, its claim's, or the successor of an in-tree volume plugin.

use super::not_found;
use crate::cluster::Cluster;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec, Pod, Volume};
use std::collections::BTreeSet;

// The drivers of in-tree volume plugins (`csi-translation-lib/plugins`).
const AWS_EBS: &str = "ebs.csi.aws.com";
const AZURE_DISK: &str = "disk.csi.azure.com";
const AZURE_FILE: &str = "file.csi.azure.com";
const CINDER: &str = "cinder.csi.openstack.org";
const GCE_PD: &str = "pd.csi.storage.gke.io";
const PORTWORX: &str = "pxd.portworx.com";
const VSPHERE: &str = "csi.vsphere.vmware.com";

/// The reason why the driver of a volume cannot be determined, with kube-apiserver's text.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct UnknownDriver(pub(super) String);

/// The driver of a volume. `None` if the volume has no driver.
///
/// # Errors
/// If the volume may have a driver that cannot be determined.
pub(super) fn of_volume(cluster: &Cluster, pod: &Pod, volume: &Volume) -> Result<Option<String>, UnknownDriver> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    if volume.ephemeral.as_ref().is_some_and(|source| source.volume_claim_template.is_some()) {
        let claim = format!("{}-{}", pod.metadata.name.as_deref().unwrap_or_default(), volume.name);
        return of_claim(cluster, namespace, &claim);
    }
    if let Some(source) = &volume.persistent_volume_claim {
        return of_claim(cluster, namespace, &source.claim_name);
    }
    let driver = match &volume.csi {
        Some(source) => Some(source.driver.as_str()),
        None => inline(volume)?,
    };
    Ok(driver.filter(|driver| !driver.is_empty()).map(str::to_owned))
}

/// `getCSIFromPVC`.
fn of_claim(cluster: &Cluster, namespace: &str, name: &str) -> Result<Option<String>, UnknownDriver> {
    let Some(claim) = cluster.find::<PersistentVolumeClaim>(namespace, name) else {
        return Err(UnknownDriver(not_found("", "persistentvolumeclaim", name).message));
    };
    let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or_default();
    let Some(volume) = cluster.find::<PersistentVolume>("", volume) else {
        return Err(UnknownDriver(not_found("", "persistentvolume", volume).message));
    };
    let Some(spec) = &volume.spec else { return Ok(None) };
    let driver = match &spec.csi {
        Some(source) => Some(source.driver.as_str()),
        None => persistent(&volume, spec)?,
    };
    Ok(driver.filter(|driver| !driver.is_empty()).map(str::to_owned))
}

/// `TranslateInTreeInlineVolumeToCSI`, only the driver. kube-apiserver panics at a vSphere volume with a storage policy. This
/// function does not, because the policy does not affect the driver.
fn inline(volume: &Volume) -> Result<Option<&'static str>, UnknownDriver> {
    if let Some(source) = &volume.aws_elastic_block_store {
        return aws(&source.volume_id).map(Some);
    }
    if let Some(source) = &volume.azure_disk {
        return azure_disk(source.kind.as_deref()).map(Some);
    }
    let others = [
        (volume.gce_persistent_disk.is_some(), GCE_PD),
        (volume.cinder.is_some(), CINDER),
        (volume.azure_file.is_some(), AZURE_FILE),
        (volume.vsphere_volume.is_some(), VSPHERE),
        (volume.portworx_volume.is_some(), PORTWORX),
    ];
    Ok(others.into_iter().find(|(is_that, _)| *is_that).map(|(_, driver)| driver))
}

/// `TranslateInTreePVToCSI`, only the driver.
fn persistent(volume: &PersistentVolume, spec: &PersistentVolumeSpec) -> Result<Option<&'static str>, UnknownDriver> {
    if let Some(source) = &spec.aws_elastic_block_store {
        return aws(&source.volume_id).map(Some);
    }
    if let Some(source) = &spec.azure_disk {
        return azure_disk(source.kind.as_deref()).map(Some);
    }
    if let Some(source) = &spec.azure_file {
        let of_claim = spec.claim_ref.as_ref().and_then(|claim| claim.namespace.as_ref());
        return match source.secret_namespace.as_ref().or(of_claim).is_some_and(|namespace| !namespace.is_empty()) {
            true => Ok(Some(AZURE_FILE)),
            false => {
                Err(UnknownDriver("could not find a secret namespace in PersistentVolumeSource or ClaimRef".to_owned()))
            }
        };
    }
    if spec.gce_persistent_disk.is_some() {
        return gce(volume).map(Some);
    }
    let others = [
        (spec.cinder.is_some(), CINDER),
        (spec.vsphere_volume.is_some(), VSPHERE),
        (spec.portworx_volume.is_some(), PORTWORX),
    ];
    Ok(others.into_iter().find(|(is_that, _)| *is_that).map(|(_, driver)| driver))
}

/// `KubernetesVolumeIDToEBSVolumeID`: accepts a bare ID, or `aws://zone/vol-…`.
fn aws(id: &str) -> Result<&'static str, UnknownDriver> {
    let Some(url) = id.strip_prefix("aws://") else { return Ok(AWS_EBS) };
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let path = url.split_once('/').map_or("", |(_, path)| path).trim_matches('/');
    match path.starts_with("vol-") && !path.contains('/') {
        true => Ok(AWS_EBS),
        false => Err(UnknownDriver(format!(
            "failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume ({id})"
        ))),
    }
}

fn azure_disk(kind: Option<&str>) -> Result<&'static str, UnknownDriver> {
    match kind {
        Some(kind) if !kind.eq_ignore_ascii_case("Managed") => {
            Err(UnknownDriver(format!("kind({kind}) is not supported in csi migration")))
        }
        _ => Ok(AZURE_DISK),
    }
}

/// Checks that the zones in a regional disk's labels are in one region (`gceGetRegionFromZones`).
fn gce(volume: &PersistentVolume) -> Result<&'static str, UnknownDriver> {
    let label = |key: &str| volume.metadata.labels.as_ref()?.get(key).filter(|value| !value.is_empty());
    let zones = label("failure-domain.beta.kubernetes.io/zone").or_else(|| label("topology.kubernetes.io/zone"));
    let zones: Vec<&str> = zones.map(|zones| zones.split("__").collect()).unwrap_or_default();
    if zones.len() < 2 {
        return Ok(GCE_PD);
    }
    let mut regions = BTreeSet::new();
    for zone in zones {
        match zone.split('-').collect::<Vec<_>>().as_slice() {
            [locale, region, _] => regions.insert(format!("{locale}-{region}")),
            _ => {
                return Err(UnknownDriver(format!(
                    "failed to get region from zones: zone in unexpected format, expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
                )));
            }
        };
    }
    if regions.len() == 1 {
        return Ok(GCE_PD);
    }
    let regions: Vec<String> = regions.iter().map(|region| format!("{region}:{{}}")).collect();
    Err(UnknownDriver(format!(
        "failed to get region from zones: multiple or no regions gotten from zones, got: map[{}]",
        regions.join(" ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn driver_of_inline(source: Value) -> Result<Option<&'static str>, String> {
        let mut volume = source;
        volume["name"] = "v".into();
        inline(&serde_json::from_value(volume).unwrap()).map_err(|why| why.to_string())
    }

    fn driver_of_persistent(labels: Value, spec: Value) -> Result<Option<&'static str>, String> {
        let volume: PersistentVolume =
            serde_json::from_value(json!({"metadata": {"labels": labels}, "spec": spec})).unwrap();
        persistent(&volume, volume.spec.as_ref().unwrap()).map_err(|why| why.to_string())
    }

    #[test]
    fn volumes_of_the_tree_have_the_drivers_that_their_code_moved_to() {
        let table = [
            (json!({"awsElasticBlockStore": {"volumeID": "vol-1"}}), Ok(Some(AWS_EBS))),
            (json!({"awsElasticBlockStore": {"volumeID": "aws://z/vol-1"}}), Ok(Some(AWS_EBS))),
            (json!({"awsElasticBlockStore": {"volumeID": "aws:///vol-1"}}), Ok(Some(AWS_EBS))),
            (
                json!({"awsElasticBlockStore": {"volumeID": "aws://z/x/vol-1"}}),
                Err(
                    "failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume (aws://z/x/vol-1)",
                ),
            ),
            (json!({"azureDisk": {"diskName": "d", "diskURI": "u"}}), Ok(Some(AZURE_DISK))),
            (json!({"azureDisk": {"diskName": "d", "diskURI": "u", "kind": "managed"}}), Ok(Some(AZURE_DISK))),
            (
                json!({"azureDisk": {"diskName": "d", "diskURI": "u", "kind": "Shared"}}),
                Err("kind(Shared) is not supported in csi migration"),
            ),
            (json!({"azureFile": {"secretName": "s", "shareName": "n"}}), Ok(Some(AZURE_FILE))),
            (json!({"gcePersistentDisk": {"pdName": "p"}}), Ok(Some(GCE_PD))),
            (json!({"cinder": {"volumeID": "v"}}), Ok(Some(CINDER))),
            (json!({"vsphereVolume": {"volumePath": "p", "storagePolicyName": "s"}}), Ok(Some(VSPHERE))),
            (json!({"portworxVolume": {"volumeID": "v"}}), Ok(Some(PORTWORX))),
            (json!({"hostPath": {"path": "/"}}), Ok(None)),
        ];
        for (source, driver) in table {
            assert_eq!(driver_of_inline(source.clone()), driver.map_err(str::to_owned), "{source}");
        }
    }

    #[test]
    fn persistent_volumes_have_them_too() {
        let zones = |zones: &str| json!({ "topology.kubernetes.io/zone": zones });
        let gce = || json!({"gcePersistentDisk": {"pdName": "p"}});
        let file = json!({"secretName": "s", "shareName": "n"});
        let table = [
            (zones("a-b-c"), gce(), Ok(Some(GCE_PD))),
            (zones("a-b-c__a-b-d"), gce(), Ok(Some(GCE_PD))),
            (
                zones("a-c-c__a-b-d"),
                gce(),
                Err(
                    "failed to get region from zones: multiple or no regions gotten from zones, got: map[a-b:{} a-c:{}]",
                ),
            ),
            (
                zones("a__b"),
                gce(),
                Err(
                    "failed to get region from zones: zone in unexpected format, expected: {locale}-{region}-{zone}, got: a",
                ),
            ),
            (json!({}), json!({"azureFile": file, "claimRef": {"namespace": "n"}}), Ok(Some(AZURE_FILE))),
            (
                json!({}),
                json!({ "azureFile": file }),
                Err("could not find a secret namespace in PersistentVolumeSource or ClaimRef"),
            ),
            (json!({}), json!({"vsphereVolume": {"volumePath": "p"}}), Ok(Some(VSPHERE))),
            (json!({}), json!({"portworxVolume": {"volumeID": "v"}}), Ok(Some(PORTWORX))),
            (json!({}), json!({"cinder": {"volumeID": "v"}}), Ok(Some(CINDER))),
            (json!({}), json!({"awsElasticBlockStore": {"volumeID": "v"}}), Ok(Some(AWS_EBS))),
            (json!({}), json!({"azureDisk": {"diskName": "d", "diskURI": "u"}}), Ok(Some(AZURE_DISK))),
            (json!({}), json!({"nfs": {"server": "s", "path": "p"}}), Ok(None)),
        ];
        for (labels, spec, driver) in table {
            assert_eq!(driver_of_persistent(labels, spec.clone()), driver.map_err(str::to_owned), "{spec}");
        }
    }
}
