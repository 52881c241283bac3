//! The sources of zones and regions.

use super::volumes::{Looked, Volumes};
use super::{REGIONS, ZONE_DELIMITER, ZONES};
use crate::cluster::Cluster;
use crate::manifests::FollowedFile;
use crate::object::Object;
use crate::status::Status;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::StorageClass;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const HOST_NAME: &str = "kubernetes.io/hostname";

/// A zone, or several ones between delimiters, and a region; one of the two may be empty.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Place {
    pub(super) zone: String,
    pub(super) region: String,
}

/// The reason why the place of a volume is not known.
#[derive(Debug, thiserror::Error)]
pub(super) enum UnknownPlace {
    /// The plugin has no source; with Kubernetes' text, which may be empty.
    #[error("{0}")]
    NoSource(&'static str),
    /// The file of this name lacks the volume.
    #[error("the volume is not in {0}: add its zone and region there")]
    NotInFile(String),
    /// The volume names no StorageClass.
    #[error("the PersistentVolume has no storageClassName")]
    NoClass,
    /// The StorageClass does not exist.
    #[error("the StorageClass {0} does not exist")]
    MissingClass(String),
    /// The StorageClass cannot be decoded.
    #[error(transparent)]
    UndecodableClass(Box<Status>),
    /// The StorageClass gives no place.
    #[error("the StorageClass {name}: {why}")]
    Class { name: String, why: NoPlace },
    /// The volume names no node.
    #[error("the node affinity of the PersistentVolume names no node by {HOST_NAME}")]
    NoNode,
    /// No node has this host name.
    #[error("no node has the label {HOST_NAME}={0}")]
    MissingNode(String),
    /// The nodes give no place.
    #[error("the nodes of the volume: {0}")]
    Nodes(NoPlace),
}

/// The reason why zones and regions are no place.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoPlace {
    /// There are none.
    #[error("it has no zone and no region")]
    Empty,
    /// A place has one region.
    #[error("it has several regions")]
    SeveralRegions,
}

impl Place {
    /// The labels of the place.
    pub(super) fn labels(self) -> super::Labels {
        let all = [(REGIONS[0], self.region), (ZONES[0], self.zone)];
        all.into_iter().filter(|(_, value)| !value.is_empty()).collect()
    }

    /// The place of all these zones.
    fn of(zones: &BTreeSet<String>, regions: &BTreeSet<String>) -> Result<Self, NoPlace> {
        let region = match regions.iter().collect::<Vec<_>>()[..] {
            [] if zones.is_empty() => return Err(NoPlace::Empty),
            [] => String::new(),
            [region] => region.clone(),
            _ => return Err(NoPlace::SeveralRegions),
        };
        let zones: Vec<&str> = zones.iter().map(String::as_str).collect();
        Ok(Self { zone: zones.join(ZONE_DELIMITER), region })
    }
}

/// The source of places.
#[derive(Debug)]
pub(super) enum Source {
    /// No source: the plugin has no configuration.
    None,
    /// A file, with its name for errors.
    File { name: String, volumes: FollowedFile<Volumes> },
    /// The StorageClass of the PersistentVolume.
    StorageClass,
    /// The nodes that the PersistentVolume's node affinity names.
    Node,
}

impl Source {
    /// Whether volumes of the CSI driver must be known.
    pub(super) fn has_driver(&self, driver: &str) -> bool {
        matches!(self, Self::File { volumes, .. } if volumes.load().has_driver(driver))
    }

    /// Whether the places come from objects of the cluster.
    pub(super) fn reads_cluster(&self) -> bool {
        matches!(self, Self::StorageClass | Self::Node)
    }

    /// The place of a volume.
    ///
    /// # Errors
    /// If the place is not known.
    pub(super) fn place(
        &self,
        cluster: &Cluster,
        volume: &Object,
        looked: Option<&Looked<'_>>,
    ) -> Result<Place, UnknownPlace> {
        match self {
            Self::None => Err(UnknownPlace::NoSource(looked.map_or("", Looked::no_cloud))),
            Self::File { name, volumes } => {
                let place = looked.and_then(|looked| volumes.load().place(looked).cloned());
                place.ok_or_else(|| UnknownPlace::NotInFile(name.clone()))
            }
            Self::StorageClass => of_class(cluster, volume.str(&["spec", "storageClassName"])),
            Self::Node => of_nodes(cluster, &host_names(volume)),
        }
    }
}

/// The place of a StorageClass: from its allowed topologies, else from its labels.
fn of_class(cluster: &Cluster, name: &str) -> Result<Place, UnknownPlace> {
    if name.is_empty() {
        return Err(UnknownPlace::NoClass);
    }
    let known = cluster.check_known::<StorageClass>("", name);
    known.map_err(|status| UnknownPlace::UndecodableClass(Box::new(status)))?;
    let class = cluster.find::<StorageClass>("", name);
    let class = class.ok_or_else(|| UnknownPlace::MissingClass(name.to_owned()))?;
    let values = |keys: [&str; 2]| {
        let terms = class.allowed_topologies.iter().flatten();
        let expressions = terms.flat_map(|term| term.match_label_expressions.iter().flatten());
        let of_keys = expressions.filter(|expression| keys.contains(&&*expression.key));
        let allowed: BTreeSet<String> = of_keys.flat_map(|expression| expression.values.iter().cloned()).collect();
        if allowed.is_empty() { label(class.metadata.labels.as_ref(), keys).into_iter().collect() } else { allowed }
    };
    Place::of(&values(ZONES), &values(REGIONS)).map_err(|why| UnknownPlace::Class { name: name.to_owned(), why })
}

/// The place of the nodes with these host names.
fn of_nodes(cluster: &Cluster, names: &BTreeSet<&str>) -> Result<Place, UnknownPlace> {
    if names.is_empty() {
        return Err(UnknownPlace::NoNode);
    }
    let (mut found, mut zones, mut regions) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for node in cluster.all::<Node>().iter() {
        let labels = node.metadata.labels.as_ref();
        let Some(name) = labels.and_then(|labels| names.get(&**labels.get(HOST_NAME)?)) else { continue };
        found.insert(*name);
        zones.extend(label(labels, ZONES));
        regions.extend(label(labels, REGIONS));
    }
    if let Some(name) = names.difference(&found).next() {
        return Err(UnknownPlace::MissingNode((*name).to_owned()));
    }
    Place::of(&zones, &regions).map_err(UnknownPlace::Nodes)
}

/// The value of the first of the labels that is set.
fn label(labels: Option<&BTreeMap<String, String>>, keys: [&str; 2]) -> Option<String> {
    let labels = labels?;
    keys.iter().find_map(|key| labels.get(*key)).filter(|value| !value.is_empty()).cloned()
}

/// The host names in the PersistentVolume's node affinity.
fn host_names(volume: &Object) -> BTreeSet<&str> {
    fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
        value.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }
    let expressions = volume.items(&super::TERMS).iter().flat_map(|term| list(term, "matchExpressions"));
    let is = |one: &Value, field: &str, want: &str| one.get(field).and_then(Value::as_str) == Some(want);
    let of_hosts = expressions.filter(|one| is(one, "key", HOST_NAME) && is(one, "operator", "In"));
    of_hosts.flat_map(|one| list(one, "values")).filter_map(Value::as_str).collect()
}
