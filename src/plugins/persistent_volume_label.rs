//! PersistentVolumeLabel: adds zone and region to the labels and the node affinity of PersistentVolumes.
//!
//! A plugin that Kubernetes removed; it decides as in Kubernetes 1.30, for all kinds of volumes that earlier releases knew. In
//! Kubernetes, the cloud's API returns the zone of a volume. Here the plugin's configuration names another source.

mod configuration;
mod places;
mod volumes;

use crate::admission::{Attributes, Denial, FrontEndSupport, Operations, Phases, Plugin, Removed, Resources, Spec};
use crate::cluster::{Cluster, Need};
use crate::object::Object;
use crate::status::Status;
use async_trait::async_trait;
use configuration::Configuration;
use places::Source;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use volumes::Looked;

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "PersistentVolumeLabel",
    default_on: false,
    phases: Phases::Mutating,
    operations: Operations::CREATE,
    resources: Resources::Only(&[("", "persistentvolumes", "")]),
    needs: &[Need::STORAGE_CLASSES, Need::NODES],
    configuration: Some("config.kube-admission-proxy.dev/v1alpha1 PersistentVolumeLabelConfiguration"),
    removed: Some(Removed { since: "1.2", until: "1.30", successor: "the cloud controller manager" }),
    front_end: FrontEndSupport::Full,
    about: "Adds zone and region to the labels and the node affinity of PersistentVolumes.",
    build: |environment| {
        let source = Configuration::read(environment.configuration)?.source()?;
        Ok(Box::new(PersistentVolumeLabel { cluster: environment.cluster.clone(), source }))
    },
};

/// The labels of zones and regions, the present ones before those that they replaced.
const ZONES: [&str; 2] = ["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"];
const REGIONS: [&str; 2] = ["topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"];
/// The annotation of a volume that a provisioner made (`AnnDynamicallyProvisioned`).
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// The delimiter of zones in a label (`LabelMultiZoneDelimiter`).
const ZONE_DELIMITER: &str = "__";
const TERMS: [&str; 4] = ["spec", "nodeAffinity", "required", "nodeSelectorTerms"];

struct PersistentVolumeLabel {
    cluster: Arc<Cluster>,
    source: Source,
}

/// The zone and region labels of a volume.
type Labels = Vec<(&'static str, String)>;

#[async_trait]
impl Plugin for PersistentVolumeLabel {
    async fn admit(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        let Some(volume) = &mut attributes.object else { return Ok(()) };
        let labels = match own_labels(volume) {
            Some(labels) => labels,
            None => self.look_up(volume).await?,
        };
        if labels.is_empty() {
            return Ok(());
        }
        let requirements = labels.iter().map(|(key, value)| requirement(key, value)).collect::<Result<Vec<_>, _>>()?;
        write(volume, labels, &requirements)
            .ok_or_else(|| Status::bad_request("the PersistentVolume is malformed").into())
    }
}

impl PersistentVolumeLabel {
    /// The labels from the configured source; none for a volume that the source does not know and Kubernetes did not look up.
    async fn look_up(&self, volume: &Object) -> Result<Labels, Denial> {
        let looked = Looked::of(volume, |driver| self.source.has_driver(driver));
        if looked.as_ref().is_some_and(Looked::is_placeholder) {
            return Ok(Vec::new());
        }
        if self.source.reads_cluster() && !self.cluster.wait_synced().await {
            return Err(Denial::forbidden("not yet ready to handle request"));
        }
        match (self.source.place(&self.cluster, volume, looked.as_ref()), looked) {
            (Ok(place), _) => Ok(place.labels()),
            (Err(_), None) => Ok(Vec::new()),
            (Err(why), Some(looked)) => Err(Denial::forbidden(format!("error querying {looked}: {why}"))),
        }
    }
}

/// The volume's own labels, if a provisioner made it and it has both labels.
fn own_labels(volume: &Object) -> Option<Labels> {
    volume.annotations()?.get(PROVISIONED_BY)?;
    let label = |key: &'static str| Some((key, volume.labels()?.get(key)?.as_str().unwrap_or_default().to_owned()));
    ZONES.into_iter().zip(REGIONS).find_map(|(zone, region)| Some(vec![label(region)?, label(zone)?]))
}

/// The zones in a label, sorted. `None` if one of them is empty (`LabelZonesToSet`).
fn zones(label: &str) -> Option<BTreeSet<&str>> {
    let zones: BTreeSet<&str> = label.split(ZONE_DELIMITER).map(str::trim).collect();
    (!zones.contains("")).then_some(zones)
}

/// The node selector requirement of a label.
fn requirement(key: &str, value: &str) -> Result<Value, Denial> {
    let values = match ZONES.contains(&key) {
        false => BTreeSet::from([value]),
        true => zones(value)
            .ok_or_else(|| Denial::forbidden(format!("failed to convert label string for Zone: {value} to a Set")))?,
    };
    Ok(json!({"key": key, "operator": "In", "values": values}))
}

/// Writes the labels, and the requirements into every term of the node affinity, unless a term has a requirement of one of the
/// labels. `None` if the object has no shape of a PersistentVolume.
fn write(volume: &mut Object, labels: Labels, requirements: &[Value]) -> Option<()> {
    let key = |requirement: &Value| requirement.get("key").and_then(Value::as_str).map(str::to_owned);
    let expressions =
        |term: &Value| term.get("matchExpressions").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut terms = volume.items(&TERMS).to_vec();
    let named: Vec<Option<String>> = terms.iter().flat_map(expressions).map(|expression| key(&expression)).collect();
    let is_named = |(label, _): &(&str, String)| named.iter().flatten().any(|key| key == label);
    if !labels.iter().any(is_named) {
        if terms.is_empty() {
            terms.push(json!({}));
        }
        for term in &mut terms {
            let expressions = [&*expressions(term), requirements].concat();
            term.as_object_mut()?.insert("matchExpressions".to_owned(), expressions.into());
        }
        volume.set(&TERMS, terms.into()).then_some(())?;
    }
    for (label, value) in labels {
        volume.set(&["metadata", "labels", label], value.into()).then_some(())?;
    }
    Some(())
}

#[cfg(test)]
mod tests;
