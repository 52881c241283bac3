//! PodPreset: adds the environment and volumes of matching PodPresets to pods.
//!
//! A plugin that Kubernetes removed; it decides as in Kubernetes 1.19, except that several presets are applied in the order of
//! their names. In Kubernetes their order changes from request to request.

mod merge;
mod preset;

use crate::admission::{Attributes, Denial, FrontEndSupport, Operations, Phases, Plugin, Removed, Resources, Spec};
use crate::cluster::{Cluster, Projection};
use crate::manifests::RemovedObjects;
use crate::object::Object;
use crate::status::Status;
use async_trait::async_trait;
use merge::{Containers, Sources};
use preset::Preset;
use serde_json::Value;
use std::sync::Arc;

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "PodPreset",
    default_on: false,
    phases: Phases::Mutating,
    operations: Operations::CREATE,
    resources: Resources::Only(&[("", "pods", "")]),
    needs: &[Preset::NEED],
    configuration: Some("PodPresetConfiguration"),
    removed: Some(Removed { since: "1.6", until: "1.19", successor: "MutatingAdmissionPolicy, or a mutating webhook" }),
    front_end: FrontEndSupport::Full,
    about: "Adds the environment and volumes of matching PodPresets to pods.",
    build: |environment| {
        let presets = RemovedObjects::only(environment, SPEC.name, "PodPresetConfiguration")?;
        Ok(Box::new(PodPreset { cluster: environment.cluster.clone(), presets }))
    },
};

/// The annotation of static pods, which no preset changes (`api.MirrorPodAnnotationKey`).
const MIRROR: &str = "kubernetes.io/config.mirror";
/// The annotation with which a pod excludes itself (`api.PodPresetOptOutAnnotationKey`).
const EXCLUDE: &str = "podpreset.admission.kubernetes.io/exclude";
/// The annotation of an applied preset, without the preset's name.
const APPLIED: &str = "podpreset.admission.kubernetes.io/podpreset-";
const VOLUMES: [&str; 2] = ["spec", "volumes"];

struct PodPreset {
    cluster: Arc<Cluster>,
    presets: RemovedObjects<Preset>,
}

/// The result of the first pass, for the second pass.
struct FirstPass {
    presets: Vec<Arc<Preset>>,
    sources: Sources,
}

#[async_trait]
impl Plugin for PodPreset {
    async fn admit(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        let Some(pod) = attributes.object.as_mut().filter(|pod| !is_exempt(pod)) else { return Ok(()) };
        let presets = matching(self.presets(&attributes.namespace).await?, pod)?;
        if presets.is_empty() {
            return Ok(());
        }
        let first = attributes.reinvocation.take::<FirstPass>(SPEC.name).filter(|first| first.presets == presets);
        let merged = merge::by_name(pod.items(&VOLUMES), presets.iter().flat_map(|preset| &preset.volumes));
        let merged = merged.zip(Containers::merge(pod, &presets, first.map(|first| first.sources)));
        let Some((volumes, containers)) = merged else {
            let names: Vec<&str> = presets.iter().map(|preset| &*preset.name).collect();
            tracing::warn!(namespace = attributes.namespace, presets = ?names, "no PodPreset is applied: the matching PodPresets conflict");
            return Ok(());
        };
        apply(pod, &presets, volumes, &containers).ok_or_else(unconvertible)?;
        attributes.reinvocation.leave(SPEC.name, FirstPass { presets, sources: containers.sources });
        Ok(())
    }
}

impl PodPreset {
    /// The presets of a namespace, sorted by name.
    async fn presets(&self, namespace: &str) -> Result<Vec<Arc<Preset>>, Denial> {
        if !self.cluster.wait_synced().await {
            return Err(Denial::forbidden("not yet ready to handle request"));
        }
        self.cluster.check_decodable(&[Preset::NEED], namespace)?;
        Ok(self.presets.in_namespace(namespace))
    }
}

/// Whether no preset changes the pod.
fn is_exempt(pod: &Object) -> bool {
    let annotation = |key: &str| pod.annotations().and_then(|all| all.get(key));
    annotation(MIRROR).is_some() || annotation(EXCLUDE).and_then(Value::as_str) == Some("true")
}

/// The presets whose selector matches the pod's labels (`filterPodPresets`).
fn matching(mut presets: Vec<Arc<Preset>>, pod: &Object) -> Result<Vec<Arc<Preset>>, Denial> {
    if let Some(why) = presets.iter().find_map(|preset| preset.selector.as_ref().err()) {
        return Err(Denial::Plain(format!("filtering pod presets failed: label selector conversion failed: {why}")));
    }
    presets.retain(|preset| preset.selector.as_ref().is_ok_and(|selector| selector.matches(pod.labels())));
    Ok(presets)
}

/// Writes the merged lists and the annotations of the presets. `None` if the object has no shape of a pod.
fn apply(pod: &mut Object, presets: &[Arc<Preset>], volumes: Vec<Value>, containers: &Containers) -> Option<()> {
    let set = |pod: &mut Object, path: &[&str], value: Value| pod.set(path, value).then_some(());
    if !volumes.is_empty() {
        set(pod, &VOLUMES, volumes.into())?;
    }
    for (path, list) in &containers.lists {
        set(pod, path, list.clone().into())?;
    }
    for preset in presets {
        let key = format!("{APPLIED}{}", preset.name);
        set(pod, &["metadata", "annotations", &key], (*preset.resource_version).into())?;
    }
    Some(())
}

fn unconvertible() -> Denial {
    Status::bad_request("Resource was marked with kind Pod but was unable to be converted").into()
}

#[cfg(test)]
mod tests;
