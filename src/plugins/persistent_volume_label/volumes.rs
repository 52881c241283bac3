//! The kinds of volumes that Kubernetes looked up at a cloud, and the file with the zones of volumes.
//!
//! The file has the fields of volume sources in a PersistentVolume's spec. Below a field is the place of each volume by its
//! identifier, for `csi` by driver and volume handle:
//!
//! ```yaml
//! awsElasticBlockStore:
//!   vol-1: {zone: eu-west-1a, region: eu-west-1}
//! gcePersistentDisk:
//!   disk-1: {zone: europe-west1-b__europe-west1-c, region: europe-west1}
//! csi:
//!   ebs.csi.aws.com:
//!     vol-2: {zone: eu-west-1b, region: eu-west-1}
//! ```

use super::places::Place;
use super::zones;
use crate::object::Object;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;

/// The identifier of a volume that is still being provisioned (`ProvisionedVolumeName`).
const PLACEHOLDER: &str = "placeholder-for-provisioning";

/// A kind of volume that Kubernetes looked up.
#[derive(Debug)]
struct Kind {
    /// The field in the spec.
    field: &'static str,
    /// The field of the volume's identifier.
    id: &'static str,
    /// The kind in errors.
    words: &'static str,
    /// The error without a cloud provider.
    no_cloud: &'static str,
}

/// The kinds in the order in which Kubernetes tried them.
static KINDS: [Kind; 5] = [
    Kind {
        field: "awsElasticBlockStore",
        id: "volumeID",
        words: "AWS EBS volume",
        no_cloud: "unable to build AWS cloud provider for EBS",
    },
    Kind {
        field: "gcePersistentDisk",
        id: "pdName",
        words: "GCE PD volume",
        no_cloud: "unable to build GCE cloud provider for PD",
    },
    Kind {
        field: "azureDisk",
        id: "diskName",
        words: "AzureDisk volume",
        no_cloud: "unable to build Azure cloud provider for AzureDisk",
    },
    Kind {
        field: "cinder",
        id: "volumeID",
        words: "Cinder volume",
        no_cloud: "no OpenStack cloud provider config file given",
    },
    Kind {
        field: VSPHERE,
        id: "volumePath",
        words: "vSphere Volume",
        no_cloud: "unable to build vSphere cloud provider",
    },
];
/// A volume of CSI, which Kubernetes did not look up.
static CSI: Kind = Kind { field: "csi", id: "volumeHandle", words: "CSI volume", no_cloud: "" };
const VSPHERE: &str = "vsphereVolume";

/// A volume whose place is looked up, and which is refused without a place.
#[derive(Debug)]
pub(super) struct Looked<'a> {
    kind: &'static Kind,
    id: &'a str,
    driver: &'a str,
}

impl<'a> Looked<'a> {
    /// The volume, if its kind is one of those that Kubernetes looked up, or if `has_driver` is true for its CSI driver.
    pub(super) fn of(volume: &'a Object, has_driver: impl Fn(&str) -> bool) -> Option<Self> {
        let has = |kind: &Kind| volume.get(&["spec", kind.field]).is_some_and(|source| !source.is_null());
        let driver = volume.str(&["spec", CSI.field, "driver"]);
        let kind = KINDS.iter().find(|kind| has(kind)).or_else(|| has_driver(driver).then_some(&CSI))?;
        Some(Self { kind, id: volume.str(&["spec", kind.field, kind.id]), driver })
    }

    /// Whether the volume is still being provisioned. Kubernetes did not make the exception for vSphere.
    pub(super) fn is_placeholder(&self) -> bool {
        self.id == PLACEHOLDER && self.kind.field != VSPHERE
    }

    /// The error without a source of zones.
    pub(super) fn no_cloud(&self) -> &'static str {
        self.kind.no_cloud
    }
}

impl fmt::Display for Looked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.words, self.id)
    }
}

/// The places of volumes by identifier.
type ById = BTreeMap<String, Place>;

/// The file as written.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Written {
    aws_elastic_block_store: ById,
    gce_persistent_disk: ById,
    azure_disk: ById,
    cinder: ById,
    vsphere_volume: ById,
    csi: BTreeMap<String, ById>,
}

/// The places of volumes.
#[derive(Debug, Default)]
pub(super) struct Volumes {
    by_kind: BTreeMap<&'static str, ById>,
    by_driver: BTreeMap<String, ById>,
}

/// The place of a volume in the file is invalid.
#[derive(Debug, thiserror::Error)]
#[error("{path}[{id:?}]: {fault}")]
pub(super) struct InvalidPlace {
    path: String,
    id: String,
    fault: Fault,
}

/// The reason why a place is invalid.
#[derive(Debug, thiserror::Error)]
enum Fault {
    /// The place is empty.
    #[error("must have a zone or a region")]
    Empty,
    /// A zone among several ones is empty.
    #[error("zone: must not have an empty zone between \"__\"")]
    EmptyZone,
}

impl Volumes {
    /// Checks the places.
    ///
    /// # Errors
    /// If a place has neither zone nor region, or an empty zone among others.
    pub(super) fn new(written: Written) -> Result<Self, InvalidPlace> {
        let Written { aws_elastic_block_store, gce_persistent_disk, azure_disk, cinder, vsphere_volume, csi } = written;
        let lists = [aws_elastic_block_store, gce_persistent_disk, azure_disk, cinder, vsphere_volume];
        let by_kind: BTreeMap<_, _> = KINDS.iter().map(|kind| kind.field).zip(lists).collect();
        for (field, volumes) in &by_kind {
            check(field, volumes)?;
        }
        for (driver, volumes) in &csi {
            check(&format!("csi.{driver}"), volumes)?;
        }
        Ok(Self { by_kind, by_driver: csi })
    }

    /// The place of a volume.
    pub(super) fn place(&self, volume: &Looked<'_>) -> Option<&Place> {
        let volumes = match volume.kind.field {
            "csi" => self.by_driver.get(volume.driver)?,
            field => self.by_kind.get(field)?,
        };
        volumes.get(volume.id)
    }

    /// Whether the file lists volumes of the CSI driver.
    pub(super) fn has_driver(&self, driver: &str) -> bool {
        self.by_driver.contains_key(driver)
    }
}

fn check(path: &str, volumes: &ById) -> Result<(), InvalidPlace> {
    for (id, place) in volumes {
        let fault = match (&*place.zone, &*place.region) {
            ("", "") => Fault::Empty,
            (zone, _) if !zone.is_empty() && zones(zone).is_none() => Fault::EmptyZone,
            _ => continue,
        };
        return Err(InvalidPlace { path: path.to_owned(), id: id.clone(), fault });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn places_that_cannot_be_labels_are_faults_of_their_volume() {
        for (written, fault) in [
            (json!({"cinder": {"a": {}}}), "cinder[\"a\"]: must have a zone or a region"),
            (
                json!({"csi": {"d": {"a": {"zone": "b____c"}}}}),
                "csi.d[\"a\"]: zone: must not have an empty zone between \"__\"",
            ),
        ] {
            let written: Written = serde_json::from_value(written).unwrap();
            assert_eq!(Volumes::new(written).unwrap_err().to_string(), fault);
        }
        for written in [json!({"nfs": {}}), json!({"cinder": {"a": {"zone": "z", "rack": "r"}}}), json!({"cinder": []})]
        {
            assert!(serde_json::from_value::<Written>(written.clone()).is_err(), "{written}");
        }
    }
}
